"""Live records as files of the work tree, all or none, and the names of files that are imported (ABSTRACTIONS 1.4)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sdaqf_tasks.errors import Conflict, Reason, SdaqfError
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.publish import publish, read_records
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.records import Front, Shard
from tests import repositories
from tests.disk.worktree import everything_below
from tests.shards.records import PROJECT
from tests.shards.simulator import FILES, distil


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    """A project with two live records."""
    repositories.make(tmp_path / "work", FILES)
    return filled(tmp_path / "work")


def filled(path: Path) -> Workbench:
    made = Workbench(Project(path), PROJECT, Front.CLI)
    made.create()
    made.run(["begin scratch", distil("a", "guard", 'statement:"said"'), distil("b", "loop"), "commit"])
    return made


def refused(bench: Workbench, reason: Reason, *names: str, to: str = "abstractions/") -> SdaqfError:
    """Assert that publishing is refused for that reason, and that nothing is written."""
    before = everything_below(bench.project.top)
    with pytest.raises(SdaqfError) as caught:
        publish(bench, names, to)
    assert caught.value.reason is reason
    assert everything_below(bench.project.top) == before
    return caught.value


def test_a_file_holds_the_record_the_shard_and_the_state(bench: Workbench) -> None:
    answers = publish(bench, ["b", "a", "b"], "abstractions/")
    assert answers == [{"path": f"abstractions/{name}.json", "word": "written", "changed": []} for name in ("b", "a")]
    for name in "ab":
        data = (bench.project.top / f"abstractions/{name}.json").read_bytes()
        record = msgspec.to_builtins(bench.desk().live(name))
        value = {"record": record, "shard": {"kind": "project", "id": "default"}, "state": bench.desk().state_id}
        assert data == canonical.render(value)


def test_what_is_the_same_stays_as_it_is_though_the_state_moved_on(bench: Workbench) -> None:
    publish(bench, ["a"], "abstractions/")
    before = (bench.project.top / "abstractions/a.json").read_bytes()
    bench.run(["snapshot"])
    assert publish(bench, ["a"], "abstractions/") == [{"path": "abstractions/a.json", "word": "same", "changed": []}]
    assert (bench.project.top / "abstractions/a.json").read_bytes() == before


def test_a_file_of_the_same_lineage_is_replaced_and_the_difference_told(bench: Workbench) -> None:
    publish(bench, ["a"], "abstractions/")
    bench.run(["begin scratch", "/prune_abstractions stale a", "commit"])
    (answer,) = publish(bench, ["a"], "abstractions")
    assert answer["word"] == "replaced"
    changes = {change["field"]: (change["from"], change["to"]) for change in answer["changed"]}
    assert changes.keys() == {"decay_state", "lineage_version", "provenance"}
    assert changes["decay_state"] == ("active", "stale")
    assert changes["lineage_version"] == (1, 2)


def test_a_file_of_another_lineage_is_left_alone_and_nothing_beside_it_is_written(bench: Workbench, tmp_path: Path) -> None:
    path = bench.project.top / "abstractions" / "b.json"
    publish(bench, ["b"], "abstractions/")
    path.write_text(path.read_text().replace("project:default:b", "project:other:b"))
    error = refused(bench, Reason.OUTPUT_EXISTS, "a", "b")
    assert (error.where, error.message) == ("abstractions/b.json", "holds a record of another lineage, project:other:b")


@pytest.mark.parametrize("text", ["", "{}", "[]", "not JSON", '{"record": {}, "shard": {}, "state": ""}'])
def test_a_file_that_is_no_published_record_is_left_alone(bench: Workbench, text: str) -> None:
    path = bench.project.top / "abstractions" / "b.json"
    path.parent.mkdir()
    path.write_text(text)
    assert refused(bench, Reason.OUTPUT_EXISTS, "a", "b").where == "abstractions/b.json"


@pytest.mark.parametrize("where", ["abstractions/b.json", "abstractions"])
def test_nothing_is_written_through_a_link(bench: Workbench, tmp_path: Path, where: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    path = bench.project.top / where
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(tmp_path / "elsewhere" / ("b.json" if where.endswith("json") else ""))
    with pytest.raises(Conflict):
        publish(bench, ["a", "b"], "abstractions/")
    assert [*(tmp_path / "elsewhere").iterdir()] == []
    assert not (bench.project.top / "abstractions" / "a.json").exists()


def test_only_what_is_live_is_published(bench: Workbench) -> None:
    bench.run(["begin scratch", distil("c", "lock")])
    refused(bench, Reason.ABSTRACTION_NOT_FOUND, "a", "c")


@pytest.mark.parametrize(
    "to",
    ["", "/", "/tmp/x", "..", "a/../b", ".", ".git", ".git/x", "a/.GIT", ".sdaqf/shards", ".sdaqf/shards/x/", ".sdaqf/build", "a b", "con"],
)
def test_the_folder_is_one_of_the_work_tree_and_none_of_ours(bench: Workbench, to: str) -> None:
    refused(bench, Reason.OUTPUT_INVALID, "a", to=to)


def test_a_concept_that_is_no_name_for_a_file_everywhere_is_not_published(bench: Workbench) -> None:
    bench.run(["begin scratch", distil("nul", "lock"), "commit"])
    refused(bench, Reason.OUTPUT_INVALID, "a", "nul")


# ---- and back ---------------------------------------------------------------------------------------------------------


def test_what_one_project_publishes_another_imports(bench: Workbench, tmp_path: Path) -> None:
    publish(bench, ["a"], "abstractions/")
    repositories.make(tmp_path / "other", FILES)
    other = Workbench(Project(tmp_path / "other"), Shard(kind=PROJECT.kind, id="other"), Front.CLI)
    other.create()
    files = read_records([bench.project.top / "abstractions" / "a.json"])
    other.run(["begin scratch", f"/import_abstractions {' '.join(files)}", "commit"], files=files)
    made = other.desk().live("a")
    assert made is not None
    assert (made.lineage_id, made.statement) == ("project:default:a", "said")


def test_every_imported_file_has_a_name_of_its_own(tmp_path: Path) -> None:
    paths = []
    for number, name in enumerate(("record-2.json", "two words.json", "x/record-2.json", "record-3.json", "é.json")):
        paths.append(tmp_path / name)
        paths[-1].parent.mkdir(exist_ok=True)
        paths[-1].write_text(json.dumps(number))
    found = read_records(paths)
    assert [*found.values()] == ["0", "1", "2", "3", "4"]
    assert [*found][:1] == ["record-2.json"]
    assert all(" " not in name and name.isascii() for name in found)


def test_what_is_no_text_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\xff")
    with pytest.raises(SdaqfError) as caught:
        read_records([tmp_path / "a.json"])
    assert (caught.value.reason, caught.value.where) == (Reason.NOT_UTF8, "a.json")


@pytest.mark.parametrize("to", [".sdaqf", ".sdaqf/", ".sdaqf/x", "docs/.SDAQF"])
def test_the_folder_of_the_program_is_no_place_for_what_is_published(bench: Workbench, to: str) -> None:
    refused(bench, Reason.OUTPUT_INVALID, "a", to=to)


def test_a_record_that_a_forged_shard_holds_is_not_published(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = msgspec.structs.replace(bench.desk().all_live["a"], quality_score=1)
    monkeypatch.setattr(Desk, "live", lambda desk, name: forged)
    assert refused(bench, Reason.CONTRACT_INVALID, "a").where == "quality_score"
