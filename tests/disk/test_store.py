"""The build folder: objects are what their names say, refs and receipts are read whole or not at all, no link is followed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.store import DOCUMENT, PROGRAM, Receipt, Store
from sdaqf_tasks.errors import Conflict, Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import render
from tests import builders

MANIFEST = builders.manifest([builders.specification()])
DATA = render(MANIFEST)
ID = MANIFEST.artifact_id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path, "out/build")
    made.create()
    return made


def place(store: Store) -> Path:
    return store.folder / "objects" / f"{ID}.json"


class TestFolder:
    def test_git_is_told_to_look_away(self, store: Store) -> None:
        assert (store.folder / ".gitignore").read_bytes() == b"*\n"
        assert store.is_there

    def test_reading_needs_nothing_to_be_there(self, tmp_path: Path) -> None:
        store = Store(tmp_path, "build")
        assert (store.ref("candidate"), store.receipt("candidate"), store.manifests(), store.queries("x")) == (None, None, [], [])
        assert list(store.references()) == []
        assert not store.is_there
        assert not store.folder.exists()

    def test_what_somebody_says_to_git_there_stays(self, store: Store) -> None:
        (store.folder / ".gitignore").write_text("# mine\n")
        store.create()
        assert (store.folder / ".gitignore").read_text() == "# mine\n"

    @pytest.mark.parametrize("name", ["out", "out/build", "out/build/objects", "out/build/refs", "out/build/out"])
    def test_a_link_in_the_way_is_refused(self, tmp_path: Path, name: str) -> None:
        """A repository may bring `.sdaqf` as a link to wherever it wants to be written."""
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        link = tmp_path / "top" / name
        link.parent.mkdir(parents=True)
        link.symlink_to(elsewhere)
        with pytest.raises(Conflict) as refusal:
            Store(tmp_path / "top", "out/build").create()
        assert refusal.value.reason is Reason.OUTPUT_INVALID
        assert list(elsewhere.iterdir()) == []

    def test_two_make_it_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other one has written `.gitignore` and swept our temporary file before we could link it."""

        def late(path: Path, data: bytes, mode: int = 0o600) -> None:
            path.write_bytes(data)
            raise Conflict(Reason.WRITE_FAILED, "no such file")

        monkeypatch.setattr(files, "publish", late)
        Store(tmp_path, "build").create()

    def test_a_gitignore_that_cannot_be_written_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(path: Path, data: bytes, mode: int = 0o600) -> None:
            raise Conflict(Reason.WRITE_FAILED, "no space")

        monkeypatch.setattr(files, "publish", full)
        with pytest.raises(Conflict):
            Store(tmp_path, "build").create()


class TestObjects:
    """Immutable, exclusive, mode 0600, held against their id on every read."""

    def test_what_was_put_is_got(self, store: Store) -> None:
        store.put(ID, DATA)
        assert store.get(ID) == DATA
        assert place(store).stat().st_mode & 0o777 == 0o600

    def test_one_that_is_there_stays(self, store: Store) -> None:
        store.put(ID, DATA)
        before = place(store).stat()
        store.put(ID, DATA)
        assert (place(store).stat().st_ino, place(store).stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    def test_a_damaged_one_is_made_again(self, store: Store) -> None:
        store.put(ID, DATA)
        place(store).write_bytes(DATA[:-1])
        store.put(ID, DATA)
        assert store.get(ID) == DATA

    def test_a_missing_one_is_named(self, store: Store) -> None:
        with pytest.raises(Unreadable) as refusal:
            store.get(ID)
        assert refusal.value.reason is Reason.OBJECT_MISSING

    @pytest.mark.parametrize("object_id", ["", "x", "CTX-GRAPH-", "../../etc/passwd", f"{ID}\n", f"{ID}/x", ID.lower()])
    def test_what_is_no_id_names_no_file(self, store: Store, object_id: str) -> None:
        with pytest.raises(Unreadable) as refusal:
            store.get(object_id)
        assert refusal.value.reason is Reason.OBJECT_MISSING

    @pytest.mark.parametrize("position", range(0, len(DATA), 37))
    def test_every_flipped_byte_is_seen(self, store: Store, position: int) -> None:
        store.put(ID, DATA)
        place(store).write_bytes(DATA[:position] + bytes([DATA[position] ^ 1]) + DATA[position + 1 :])
        with pytest.raises(Unreadable) as refusal:
            store.get(ID)
        assert refusal.value.reason is Reason.OBJECT_DAMAGED

    @pytest.mark.parametrize(
        "change",
        [
            lambda value: value | {"schema_version": "1.1"},
            lambda value: value | {"more": 1},
            lambda value: value | {"artifact_type": []},
            lambda value: value | {"artifact_type": {}},
            lambda value: value | {"artifact_type": "context-graph"},
            lambda value: value | {"content": None},
            lambda value: {name: item for name, item in value.items() if name != "content"},
            lambda value: [value],
            lambda value: 7,
        ],
    )
    def test_every_other_value_is_seen(self, store: Store, change: Callable[[Any], Any]) -> None:
        place(store).write_bytes(canonical.render(change(json.loads(DATA))))
        with pytest.raises(Unreadable) as refusal:
            store.get(ID)
        assert refusal.value.reason is Reason.OBJECT_DAMAGED

    @pytest.mark.parametrize("data", [b"", DATA + b"\n", DATA + DATA, DATA[:-1], canonical.encode(json.loads(DATA)), b"\xff"], ids=repr)
    def test_every_other_form_is_seen(self, store: Store, data: bytes) -> None:
        place(store).write_bytes(data)
        with pytest.raises(Unreadable) as refusal:
            store.get(ID)
        assert refusal.value.reason is Reason.OBJECT_DAMAGED

    def test_an_object_of_another_name_is_seen(self, store: Store) -> None:
        other = builders.manifest([builders.specification("# Other\n")])
        place(store).write_bytes(render(other))
        with pytest.raises(Unreadable):
            store.get(ID)

    def test_a_link_is_not_followed(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "whole").write_bytes(DATA)
        place(store).symlink_to(tmp_path / "whole")
        with pytest.raises(Unreadable):
            store.get(ID)

    def test_documents_are_held_against_their_bytes(self, store: Store) -> None:
        object_id = DOCUMENT + canonical.digest(b"# One\n")
        store.put(object_id, b"# One\n")
        assert store.get(object_id) == b"# One\n"
        (store.folder / "objects" / f"{object_id}.md").write_bytes(b"# Two\n")
        with pytest.raises(Unreadable):
            store.get(object_id)

    @given(st.binary(max_size=200))
    def test_random_bytes_are_damage_and_nothing_else(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        store = Store(tmp_path_factory.getbasetemp(), "random-objects")
        store.create()
        place(store).write_bytes(data)
        with pytest.raises(Unreadable):
            store.get(ID)


class TestRefs:
    def receipt(self, output: str = ID, **fields: Any) -> Receipt:
        return Receipt(**({"inputs": {"a": "b"}, "output": output, "program": PROGRAM} | fields))

    def test_a_ref_holds_one_line_and_its_receipt_is_canonical(self, store: Store) -> None:
        store.point("m/x/graph", self.receipt(until="2026-01-01T00:00:00Z"))
        assert (store.folder / "refs/m/x/graph").read_text() == f"{ID}\n"
        made = (store.folder / "refs/m/x/graph.made").read_bytes()
        assert made == canonical.render({"inputs": {"a": "b"}, "output": ID, "program": PROGRAM, "until": "2026-01-01T00:00:00Z"})
        assert (store.ref("m/x/graph"), store.receipt("m/x/graph")) == (ID, self.receipt(until="2026-01-01T00:00:00Z"))

    def test_the_receipt_is_there_first(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        original = files.replace

        def broken(path: Path, data: bytes, mode: int = 0o600) -> None:
            if not path.name.endswith(".made"):
                raise Conflict(Reason.WRITE_FAILED, "killed")
            original(path, data, mode)

        store.point("m/x/graph", self.receipt())
        monkeypatch.setattr(files, "replace", broken)
        other = "CTX-GRAPH-" + "0" * 64
        with pytest.raises(Conflict):
            store.point("m/x/graph", self.receipt(other))
        # The two differ now, which is what tells that the ref is not what the receipt says.
        assert store.ref("m/x/graph") == ID
        assert store.receipt("m/x/graph") == self.receipt(other)

    @pytest.mark.parametrize("data", [b"", b"\n\n", b"a", b"a\nb\n", b"x" * 5_000 + b"\n"])
    def test_a_ref_that_is_not_one_line_is_none(self, store: Store, data: bytes) -> None:
        (store.folder / "refs/candidate").write_bytes(data)
        assert store.ref("candidate") is None

    @given(st.binary(max_size=100) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
    def test_a_scrambled_receipt_is_none(self, tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
        store = Store(tmp_path_factory.getbasetemp(), "random-receipts")
        store.create()
        (store.folder / "refs/x.made").write_bytes(data)
        assert store.receipt("x") is None

    def test_withdrawing_takes_both_and_may_be_done_twice(self, store: Store) -> None:
        store.point("m/x/graph", self.receipt())
        for _ in range(2):
            store.withdraw("m/x/graph")
            assert (store.ref("m/x/graph"), store.receipt("m/x/graph")) == (None, None)

    def test_nothing_is_removed_through_a_link(self, store: Store, tmp_path: Path) -> None:
        victim = tmp_path / "elsewhere/x/graph"
        victim.parent.mkdir(parents=True)
        victim.write_text("precious")
        (store.folder / "refs/m").symlink_to(tmp_path / "elsewhere")
        (store.folder / "out/x").symlink_to(tmp_path / "elsewhere/x")
        acts: list[Callable[[], object]] = [lambda: store.withdraw("m/x/graph"), lambda: store.hide("x/graph")]
        for act in acts:
            with pytest.raises(Conflict) as refusal:
                act()
            assert refusal.value.reason is Reason.OUTPUT_INVALID
        assert victim.read_text() == "precious"

    def test_nothing_is_written_through_a_link(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "elsewhere/x").mkdir(parents=True)
        (store.folder / "refs/m").symlink_to(tmp_path / "elsewhere")
        (store.folder / "out/x").symlink_to(tmp_path / "elsewhere/x")
        acts: list[Callable[[], object]] = [lambda: store.point("m/x/graph", self.receipt()), lambda: store.show("x/graph.json", b"")]
        for act in acts:
            with pytest.raises(Conflict):
                act()
        assert list((tmp_path / "elsewhere/x").iterdir()) == []

    def test_manifests_and_queries_are_what_has_refs(self, store: Store) -> None:
        store.point("m/b/q/two/query", self.receipt())
        store.point("m/b/q/one/query", self.receipt())
        store.point("m/a/manifest", self.receipt())
        assert store.manifests() == ["a", "b"]
        assert store.queries("b") == ["one", "two"]
        assert store.queries("a") == []


class TestCopies:
    def test_shown_once_and_hidden_with_their_folder(self, store: Store) -> None:
        store.show("x/context.md", b"# One\n")
        before = (store.folder / "out/x/context.md").stat().st_ino
        store.show("x/context.md", b"# One\n")
        assert (store.folder / "out/x/context.md").stat().st_ino == before
        assert store.shows("x/context.md", b"# One\n")
        assert not store.shows("x/context.md", b"# Two\n")
        for _ in range(2):
            store.hide("x/context.md")
            assert not (store.folder / "out/x").exists()

    def test_a_folder_with_other_things_stays(self, store: Store) -> None:
        store.show("x/context.md", b"")
        (store.folder / "out/x/mine").write_text("")
        store.hide("x/context.md")
        assert [path.name for path in (store.folder / "out/x").iterdir()] == ["mine"]


class TestCollecting:
    """`gc` keeps what refs reach, and nothing else."""

    def test_what_no_ref_reaches_is_removed(self, store: Store) -> None:
        other = builders.manifest([builders.specification("# Other\n")])
        store.put(ID, DATA)
        store.put(other.artifact_id, render(other))
        store.point("m/x/manifest", Receipt(inputs={}, output=ID, program=PROGRAM))
        store.point("candidate", Receipt(inputs={}, output="{}", program=PROGRAM))
        assert store.collect() == (1, len(render(other)))
        assert [path.name for path in (store.folder / "objects").iterdir()] == [f"{ID}.json"]

    def test_what_killed_writers_left_is_removed(self, store: Store) -> None:
        left = [store.folder / name / f".sdaqf-{'0' * 16}.tmp" for name in ("", "objects", "refs", "out")]
        for path in left:
            path.write_text("half")
        store.collect()
        assert not [path for path in left if path.exists()]

    def test_a_file_that_cannot_be_removed_is_refused_not_a_defect(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        store.put(ID, DATA)

        def denied(path: Path, missing_ok: bool = False) -> None:
            raise PermissionError(13, "Permission denied", os.fspath(path))

        monkeypatch.setattr(Path, "unlink", denied)
        with pytest.raises(SdaqfError) as refusal:
            store.collect()
        assert refusal.value.reason is Reason.WRITE_FAILED
        assert os.fspath(store.folder) not in str(refusal.value)


class TestLock:
    def test_the_first_holder_in_a_process_sweeps(self, store: Store) -> None:
        left = store.folder / "objects" / f".sdaqf-{'0' * 16}.tmp"
        left.write_text("half")
        with store.lock(1, lambda: None):
            assert not left.exists()
        left.write_text("half")
        with store.lock(1, lambda: None):
            assert left.exists()  # once a process is enough

    def test_it_is_held_once(self, store: Store) -> None:
        with store.lock(1, lambda: None), pytest.raises(Conflict) as refusal, Store(store.folder.parent, "build").lock(0, lambda: None):
            pass
        assert refusal.value.reason is Reason.LOCKED
