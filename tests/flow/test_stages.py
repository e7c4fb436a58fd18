"""The promises of one stage: its order, its receipt, when it is current, and what a refusal takes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.errors import Reason, Refused, SdaqfError
from sdaqf_tasks.flow import build, stages
from sdaqf_tasks.flow.project import Chain, Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import BY_NAME, STAGES
from sdaqf_tasks.formats import canonical
from tests.flow.workshop import DEFAULT, MANIFEST, REVIEW, Workshop

QUERY_STAGES = {"query", "select", "snapshot", "compact", "render", "quality"}


class TestTable:
    """One table: what is below a stage and what it is made from both follow from what stages take."""

    def test_below_a_stage_is_all_that_is_made_from_it(self) -> None:
        assert [stage.name for stage in stages.below(BY_NAME["index"])] == [stage.name for stage in STAGES[1:]]
        assert [stage.name for stage in stages.below(BY_NAME["compact"])] == ["compact", "render"]
        assert [stage.name for stage in stages.below(BY_NAME["quality"])] == ["quality"]

    def test_up_to_a_stage_is_all_that_it_is_made_from(self) -> None:
        assert [stage.name for stage in stages.up_to(BY_NAME["manifest"])] == ["manifest"]
        assert [stage.name for stage in stages.up_to(BY_NAME["quality"])] == ["manifest", "index", "query", "select", "snapshot", "quality"]
        assert [stage.name for stage in stages.up_to(BY_NAME["render"])] == [stage.name for stage in STAGES if stage.name != "quality"]

    def test_stages_that_nothing_is_made_from(self) -> None:
        assert {"render", "quality"} == stages.LAST


class TestOrder:
    """refs → ids → objects → parse → same tree? → run → render → parse again → same tree? → object → receipt → ref → copy."""

    def test_object_then_receipt_then_ref_then_copy(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[str] = []
        from sdaqf_tasks.disk import files

        def note(original: Any) -> Any:
            def wrapped(path: Path, *arguments: Any, **named: Any) -> Any:
                written.append(path.relative_to(shop.folder).as_posix())
                return original(path, *arguments, **named)

            return wrapped

        monkeypatch.setattr(files, "publish", note(files.publish))
        monkeypatch.setattr(files, "replace", note(files.replace))
        shop.build("context", until="manifest")
        graph = written[-4:]
        assert graph[0] == f"objects/{shop.ref('manifest')}.json"
        assert graph[1:] == ["refs/m/context/manifest.made", "refs/m/context/manifest", "out/context/manifest.json"]

    def test_the_tree_is_looked_at_before_and_after_what_observes(self, shop: Workshop) -> None:
        with shop.run() as run:
            stages.observe(run)
            looks: list[str] = []
            original = run.repository.observe

            def look() -> Any:
                looks.append("look")
                return original()

            run.repository.observe = look  # type: ignore[method-assign]
            counts = {}
            for stage in STAGES:
                looks.clear()
                stages.run_stage(run, stage, DEFAULT)
                counts[stage.name] = len(looks)
        # The look after one stage serves as the look before the next.
        assert counts == {"manifest": 1, "index": 1, "query": 0, "select": 0, "snapshot": 1, "compact": 1, "render": 0, "quality": 0}

    def test_nothing_is_taken_that_is_of_another_tree(self, shop: Workshop) -> None:
        """Another run may put its own results between two stages of ours."""
        with shop.run() as ours:
            stages.observe(ours)
            shop.write("src/a.py", "def a() -> int:\n    return 2\n")
            shop.tree.commit("src/a.py", message="two")
            with shop.run() as theirs:
                build.build(theirs)
            with pytest.raises(Refused) as refusal:
                (shop.folder / "refs/m/context/q/default/query").unlink()
                stages.run_stage(ours, BY_NAME["query"], DEFAULT)
        assert refusal.value.reason is Reason.CANDIDATE_MISMATCH

    def test_a_defect_keeps_its_traceback_and_counts_for_nothing(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(job: Any) -> Any:
            raise ZeroDivisionError

        shop.build()
        shop.write("src/a.py", "a = 3\n")
        with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(stages, "STAGES", tuple(s._replace(run=broken) if s.name == "index" else s for s in STAGES))
            patch.setattr(build, "STAGES", stages.STAGES)
            shop.build()
        assert shop.status()["context"][0] == "not current"


class TestReceipts:
    """Beside each ref stands what it was made from (DESIGN, Receipts)."""

    def test_a_receipt_names_inputs_output_and_program(self, shop: Workshop) -> None:
        shop.build()
        found = canonical.load(shop.receipt("graph").read_bytes())
        assert set(found) == {"inputs", "output", "program"}
        assert found["output"] == shop.ref("graph")
        assert set(found["inputs"]) == {"manifest", "candidate", "outside"}
        assert found["inputs"]["manifest"] == shop.ref("manifest")
        assert canonical.render(found) == shop.receipt("graph").read_bytes()

    def test_inputs_of_what_declares_hold_the_yaml_and_its_includes(self, shop: Workshop) -> None:
        shop.write("manifests/_shared.yaml", "sdaqf: 1\nsources:\n  more: source src/*.py\n")
        shop.manifest(MANIFEST.replace("  code: source src/*.py\n", "include: [_shared.yaml]\n").replace("code impl", "more impl"))
        shop.build()
        found = canonical.load(shop.receipt("manifest").read_bytes())["inputs"]
        yaml, shared = (shop.path / "manifests" / name for name in ("context.yaml", "_shared.yaml"))
        assert found["file:manifests/context.yaml"] == canonical.digest(yaml.read_bytes())
        assert found["file:manifests/_shared.yaml"] == canonical.digest(shared.read_bytes())

    def test_until_is_the_earliest_end_of_a_required_window(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-03T00:00:00Z")
        shop.write("lint.txt", "fine\n")
        window = "required: true, freshness: {observed: 2026-01-02T00:00:00Z, expires: 2026-02-01T00:00:00Z}"
        shop.manifest(MANIFEST.replace("sources:\n", "sources:\n  lint: {path: lint.txt, kind: tool-observation, " + window + "}\n"))
        shop.build()
        assert canonical.load(shop.receipt("manifest").read_bytes())["until"] == "2026-02-01T00:00:00Z"
        assert "until" not in canonical.load(shop.receipt("graph").read_bytes())


class TestJudge:
    """Every reason to run; build, status and doit ask the same function."""

    def why(self, shop: Workshop, makes: str, chain: Chain = DEFAULT) -> str | None:
        with shop.run() as run:
            run.observe()
            job = stages.Job(run, next(stage for stage in STAGES if stage.makes == makes), chain)
            return stages.judge(job, job.inputs())

    def test_all_is_current_after_a_build(self, shop: Workshop) -> None:
        shop.build()
        assert {stage.makes: self.why(shop, stage.makes) for stage in STAGES} == {stage.makes: None for stage in STAGES}
        assert shop.current()
        assert shop.made() == set()

    @pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
    def test_no_receipt(self, shop: Workshop, stage: stages.Stage) -> None:
        shop.build()
        shop.receipt(stage.makes).unlink()
        assert self.why(shop, stage.makes) == "not built"
        assert shop.status("context.default")["context"] == ("not current", f"{stage.name}: not built")
        assert shop.made() == {stage.name}

    def test_a_ref_that_was_edited(self, shop: Workshop) -> None:
        shop.build()
        old = shop.refs()
        (shop.folder / "refs/m/context/graph").write_text((shop.ref("manifest") or "") + "\n")
        assert self.why(shop, "graph") == "its ref is not the one that its receipt names"
        assert shop.made() == {"index"}
        assert shop.refs() == old

    @pytest.mark.parametrize("scrambled", [b"", b"\xff\xfe", b"CTX-GRAPH-", b"a\nb\n", b"../../../etc/passwd\n"])
    def test_a_ref_that_is_no_id(self, shop: Workshop, scrambled: bytes) -> None:
        shop.build()
        old = shop.refs()
        (shop.folder / "refs/m/context/graph").write_bytes(scrambled)
        assert not shop.current()
        assert shop.made() == {"index"}
        assert shop.refs() == old

    @pytest.mark.parametrize(
        "change",
        [
            {"program": "0"},
            {"program": 1},
            {"program": None},
            {"inputs": {}},
            {"inputs": []},
            {"inputs": {"manifest": 1}},
            {"output": 7},
            {"until": "yesterday"},
            {"until": 5},
            {"more": 1},
        ],
        ids=str,
    )
    def test_a_receipt_that_is_scrambled_or_of_another_program(self, shop: Workshop, change: dict[str, Any]) -> None:
        shop.build()
        old = shop.refs()
        receipt = shop.receipt("graph")
        receipt.write_bytes(canonical.render(canonical.load(receipt.read_bytes()) | change))
        assert self.why(shop, "graph") is not None
        assert shop.made() == {"index"}
        assert shop.refs() == old

    @pytest.mark.parametrize("data", [b"", b"{", b"\x00\xff", b"[]", b"7", b"{}", b"[[[["], ids=repr)
    def test_a_receipt_that_is_no_receipt(self, shop: Workshop, data: bytes) -> None:
        shop.build()
        shop.receipt("manifest").write_bytes(data)
        assert self.why(shop, "manifest") == "not built"
        assert shop.made() == {"manifest"}

    def test_another_version_of_the_program_is_named(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.build()
        monkeypatch.setattr(stages, "PROGRAM", "next")
        assert self.why(shop, "manifest") == "made by another version of the program"
        assert shop.made() == {stage.name for stage in STAGES}

    def test_a_changed_input_is_named(self, shop: Workshop) -> None:
        shop.build()
        shop.manifest(MANIFEST + "title: other\n")
        assert self.why(shop, "manifest") == "changed: the tree, manifests/context.yaml"
        assert self.why(shop, "query") == "changed: manifests/context.yaml"
        assert self.why(shop, "selection") is None
        assert self.why(shop, "snapshot") == "changed: the tree"

    def test_a_window_ends_by_instants_not_by_strings(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-03T00:00:00Z")
        shop.write("lint.txt", "fine\n")
        window = "required: true, freshness: {observed: 2026-01-02T00:00:00Z, expires: 2026-02-01T00:00:00Z}"
        shop.manifest(MANIFEST.replace("sources:\n", "sources:\n  lint: {path: lint.txt, kind: tool-observation, " + window + "}\n"))
        shop.build()
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:00.000Z")  # the same moment, and a smaller string
        assert self.why(shop, "manifest") is None
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:00.001Z")
        assert self.why(shop, "manifest") == "expired at 2026-02-01T00:00:00Z; it is 2026-02-01T00:00:00.001Z now"

    @pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
    def test_a_missing_object(self, shop: Workshop, stage: stages.Stage) -> None:
        shop.build()
        old = shop.refs()
        shop.object_of(stage.makes).unlink()
        assert "cannot be read" in (self.why(shop, stage.makes) or "")
        assert stage.name in shop.made()
        assert shop.refs() == old
        assert shop.current()

    @pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
    def test_a_damaged_object(self, shop: Workshop, stage: stages.Stage) -> None:
        shop.build()
        place = shop.object_of(stage.makes)
        whole = place.read_bytes()
        place.write_bytes(whole[:-2] + b" \n" if stage.makes == "document" else whole.replace(b'"1.0"', b'"1.1"'))
        assert "is not what its name says" in (self.why(shop, stage.makes) or "")
        assert stage.name in shop.made()
        assert place.read_bytes() == whole

    def test_objects_of_an_older_build_do_not_pass_for_fresh(self, shop: Workshop) -> None:
        """A restored build cache has whole objects, and refs and receipts that fit one another."""
        shop.build()
        old = {path: path.read_bytes() for path in (shop.folder / "refs").rglob("*") if path.is_file()}
        shop.write("docs/adr/0001-one.md", "# One\n\nWe do nothing.\n")
        shop.build()
        new = shop.refs()
        for path, data in old.items():
            path.write_bytes(data)
        assert not shop.current()
        assert shop.words() == {"context": "made", "context.review": "made"}
        assert shop.refs() == new

    def test_an_older_ref_with_its_receipt_does_not_pass_for_fresh(self, shop: Workshop) -> None:
        shop.build()
        places = [shop.folder / "refs/m/context/q/default/snapshot", shop.receipt("snapshot")]
        old = [place.read_bytes() for place in places]
        shop.write("docs/adr/0001-one.md", "# One\n\nWe do nothing.\n")
        shop.build()
        new = shop.refs()
        for place, data in zip(places, old, strict=True):
            place.write_bytes(data)
        assert "snapshot" in shop.made()
        assert shop.refs() == new


class TestRefusal:
    """A refusal withdraws the stage's ref, all refs below it, and the copies of them."""

    def test_of_the_manifest_withdraws_every_query(self, shop: Workshop) -> None:
        shop.build()
        assert len(shop.refs()) == 14
        (shop.path / "docs/spec.md").unlink()
        error = shop.refusal()
        assert error.reason is Reason.MISSING_OR_UNREADABLE
        assert shop.refs() == {}
        assert shop.outs() == {}

    def test_of_the_index_keeps_the_manifest(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.build()
        shop.write("docs/adr/0001-one.md", "# One\n\nchanged\n")
        with monkeypatch.context() as patch:
            _refusing(patch, "index")
            assert shop.refusal().reason is Reason.REQUIRED_UNAVAILABLE
        assert set(shop.refs()) == {"context/manifest"}
        assert set(shop.outs()) == {"context/manifest.json"}

    @pytest.mark.parametrize("stage", [stage for stage in STAGES if stage.per_query], ids=lambda stage: stage.name)
    def test_of_one_query_leaves_the_other(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, stage: stages.Stage) -> None:
        shop.build()
        shop.receipt(stage.makes, REVIEW).unlink()
        with monkeypatch.context() as patch:
            _refusing(patch, stage.name)
            shop.build("context.review")
        gone = {lower.makes for lower in stages.below(stage)}
        assert {name for name in shop.refs() if "review" in name} == {
            f"context/q/review/{each.makes}" for each in STAGES if each.per_query and each.makes not in gone
        }
        assert len([name for name in shop.refs() if "default" in name]) == 6
        assert shop.words() == {"context": "up to date", "context.review": "same" if stage.name in {"render", "quality"} else "made"}

    def test_of_yaml_that_cannot_be_read_withdraws_every_query(self, shop: Workshop) -> None:
        shop.build()
        shop.manifest("sdaqf: 1\nspecification: [\n")
        assert shop.refusal().where.startswith("manifests/context.yaml:")
        assert shop.refs() == {}
        assert shop.outs() == {}

    def test_of_the_tree_withdraws_everything(self, shop: Workshop) -> None:
        shop.build()
        shop.write(".sdaqf/build/kept.txt", "tracked\n")
        shop.tree.git("add", "-f", ".sdaqf/build/kept.txt")
        with pytest.raises(Refused) as refusal:
            shop.build()
        assert refusal.value.reason is Reason.OUTPUT_NOT_IGNORED
        assert refusal.value.message == ".sdaqf/build/kept.txt lies in .sdaqf/build, and git lists it"
        assert shop.refs() == {}
        assert shop.outs() == {}
        assert not (shop.folder / "refs/candidate").exists()

    def test_the_next_run_after_a_refusal_builds_again(self, shop: Workshop) -> None:
        shop.build()
        refs = shop.refs()
        (shop.path / "docs/spec.md").rename(shop.path / "docs/gone.md")
        shop.build()
        (shop.path / "docs/gone.md").rename(shop.path / "docs/spec.md")
        assert set(shop.words().values()) == {"made"}
        assert shop.refs() == refs

    def test_waiting_in_vain_takes_nothing_back(self, shop: Workshop) -> None:
        shop.build()
        refs = shop.refs()
        shop.write("src/a.py", "a = 2\n")
        with shop.run() as other, other.lock(), pytest.raises(SdaqfError) as refusal, shop.run(wait=0.01) as run:
            build.build(run)
        assert refusal.value.reason is Reason.LOCKED
        assert shop.refs() == refs

    def test_a_write_that_fails_withdraws_what_is_not_true_any_more(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        from sdaqf_tasks.disk.store import Store
        from sdaqf_tasks.errors import Conflict

        shop.build()
        shop.write("src/a.py", "a = 2\n")

        def full(self: Store, object_id: str, data: bytes) -> None:
            raise Conflict(Reason.WRITE_FAILED, "the system refused to write: no space")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "put", full)
            assert shop.refusal().reason is Reason.WRITE_FAILED
        assert shop.refs() == {}
        assert shop.words() == {"context": "made", "context.review": "made"}


class TestCopies:
    """What people open: whole copies, withdrawn with their ref, made again when missing, read by no stage."""

    def test_they_are_what_the_refs_point_to(self, shop: Workshop) -> None:
        shop.build()
        outs = shop.outs()
        assert set(outs) == {
            *(f"context/{makes}.json" for makes in ("manifest", "graph", "query", "selection", "snapshot", "compaction", "quality")),
            *(f"context.review/{makes}.json" for makes in ("query", "selection", "snapshot", "compaction", "quality")),
            "context/context.md",
            "context.review/context.md",
        }
        assert outs["context/snapshot.json"] == shop.object_of("snapshot").read_bytes()
        assert outs["context.review/context.md"] == shop.object_of("document", REVIEW).read_bytes()

    @pytest.mark.parametrize("damage", [lambda place: place.unlink(), lambda place: place.write_text("mine")], ids=["deleted", "edited"])
    def test_they_are_made_again(self, shop: Workshop, damage: Any) -> None:
        shop.build()
        whole = shop.outs()
        damage(shop.folder / "out/context/context.md")
        assert shop.words() == {"context": "up to date", "context.review": "up to date"}
        assert shop.outs() == whole

    def test_the_whole_folder_is_made_again(self, shop: Workshop) -> None:
        shop.build()
        whole = shop.outs()
        for place in sorted((shop.folder / "out").rglob("*"), reverse=True):
            place.rmdir() if place.is_dir() else place.unlink()
        assert shop.made() == set()
        assert shop.outs() == whole

    def test_all_files_are_for_their_owner_alone(self, shop: Workshop) -> None:
        shop.build()
        modes = {path.stat().st_mode & 0o777 for path in shop.folder.rglob("*") if path.is_file() and path.name != ".gitignore"}
        assert modes == {0o600}


class TestWhatIsNoMore:
    """Copies show what is current: a query or manifest that is gone leaves nothing behind."""

    def test_a_query_that_was_removed(self, shop: Workshop) -> None:
        shop.build()
        shop.manifest(MANIFEST.replace("  review: {seeds: [decisions], terms: [two]}\n", ""))
        shop.build()
        assert not [name for name in {*shop.refs(), *shop.outs()} if "review" in name]

    def test_a_manifest_that_was_removed(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST, "other")
        shop.build()
        (shop.path / "manifests/context.yaml").unlink()
        shop.build()
        assert {name.partition("/")[0].partition(".")[0] for name in {*shop.refs(), *shop.outs()}} == {"other"}

    def test_a_manifest_that_cannot_be_read_loses_nothing_by_observing(self, shop: Workshop) -> None:
        shop.build()
        refs = shop.refs()
        shop.manifest("sdaqf: 1\nspecification: [\n")
        with shop.run() as run:
            stages.observe(run)
        assert shop.refs() == refs


class TestNothingElseChanges:
    """Nothing in the work tree or `.git` changes but the build folder."""

    def test_by_building_refusing_status_and_doing_nothing(self, shop: Workshop) -> None:
        before = shop.everything()
        shop.build()
        shop.build()
        shop.status()
        assert shop.everything() == before

    def test_by_a_refusal(self, shop: Workshop) -> None:
        (shop.path / "docs/spec.md").unlink()
        before = shop.everything()
        shop.build()
        assert shop.everything() == before

    def test_status_writes_nothing_at_all(self, shop: Workshop) -> None:
        shop.status()
        assert not (shop.path / ".sdaqf").exists()


class TestOutputNotIgnored:
    """`observe` refuses where git lists or tracks a path under what the program writes."""

    @pytest.mark.parametrize("folder", [".sdaqf/build", ".sdaqf/shards"])
    @pytest.mark.parametrize("kind", ["file", "link", "deleted"])
    def test_whatever_is_tracked_there(self, shop: Workshop, folder: str, kind: str) -> None:
        name = f"{folder}/x"
        if kind == "link":
            shop.tree.link(name, "elsewhere")
        else:
            shop.write(name, "x\n")
        shop.tree.git("add", "-f", name)
        if kind == "deleted":
            (shop.path / name).unlink()
        with pytest.raises(Refused) as refusal:
            shop.build()
        assert refusal.value.reason is Reason.OUTPUT_NOT_IGNORED
        assert shop.refs() == {}
        assert (shop.folder / "blocked").exists() is (
            folder != ".sdaqf/build" or kind == "deleted"
        )  # nothing is written to what is somebody else's

    def test_a_folder_that_is_somebody_elses_is_not_written_to(self, tmp_path: Path) -> None:
        shop = Workshop(tmp_path / "project", build="src")
        shop.write("sdaqf.toml", 'build = "src"\n')
        before = shop.everything() | {"src": sorted((shop.path / "src").iterdir())}
        with pytest.raises(Refused) as refusal:
            shop.build()
        assert refusal.value.message == "src/a.py lies in src, and git lists it"
        assert shop.everything() | {"src": sorted((shop.path / "src").iterdir())} == before

    def test_a_gitignore_that_was_deleted_is_made_again(self, shop: Workshop) -> None:
        shop.build()
        (shop.folder / ".gitignore").unlink()
        assert shop.made() == set()
        assert (shop.folder / ".gitignore").read_bytes() == b"*\n"

    def test_a_gitignore_of_somebody_else_stays(self, shop: Workshop) -> None:
        shop.write(".sdaqf/build/.gitignore", "*\n# mine\n")
        shop.build()
        assert (shop.folder / ".gitignore").read_bytes() == b"*\n# mine\n"


def _refusing(patch: pytest.MonkeyPatch, name: str) -> None:
    """Make a stage refuse."""

    def refuse(job: stages.Job) -> stages.Made:
        raise Refused(Reason.REQUIRED_UNAVAILABLE, "it does not want to")

    table = tuple(stage._replace(run=refuse) if stage.name == name else stage for stage in STAGES)
    patch.setattr(stages, "STAGES", table)
    patch.setattr(build, "STAGES", table)


def test_a_run_that_cannot_begin_leaves_nothing_open(shop: Workshop, tmp_path: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/dev/fd").iterdir()))

    before = open_files()
    for _ in range(5):
        with pytest.raises(SdaqfError, match="the owner root"):
            Run(Project.find(shop.path, owner_root=tmp_path / "nowhere"))
    assert open_files() <= before
