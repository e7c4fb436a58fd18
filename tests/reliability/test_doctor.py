"""`sdaqf doctor` names every damage to a build folder and nothing else; what it clears away, the next build makes again."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.flow import doctor
from tests.flow.workshop import FILES, Workshop
from tests.fronts.run import Ran

Sdaqf = Callable[..., Ran]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """A project that is built; tests leave it as it is."""
    shop = Workshop(tmp_path_factory.mktemp("built") / "project")
    shop.build()
    return shop


@pytest.fixture
def store(built: Workshop, tmp_path: Path) -> Store:
    """A copy of its build folder, to be damaged."""
    shutil.copytree(built.folder, tmp_path / "build")
    return Store(tmp_path, "build")


def objects(store: Store) -> list[str]:
    return sorted(f"objects/{path.name}" for path in (store.folder / "objects").iterdir())


def refs(store: Store) -> list[str]:
    root = store.folder / "refs"
    return sorted(path.relative_to(store.folder).as_posix() for path in root.rglob("*") if path.is_file() and path.suffix != ".made")


def leading_to(store: Store, name: str) -> set[tuple[str, str]]:
    """What is said of the refs of an object that is gone."""
    object_id = Path(name).stem
    return {("object-missing", ref) for ref in refs(store) if store.ref(ref.removeprefix("refs/")) == object_id}


def put(path: Path, data: bytes | None) -> None:
    """Make the file hold these bytes, as private as the program would; None takes it away."""
    if data is None:
        path.unlink()
    else:
        path.write_bytes(data)
        path.chmod(0o600)


def exchange(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def named(store: Store) -> set[tuple[str, str]]:
    return set(doctor.examine(store).defects)


def flips(data: bytes, most: int) -> Iterator[tuple[int, bytes]]:
    """The data with one bit turned, at up to `most` places from the first to the last."""
    step = max(1, -(-len(data) // most))
    for place in sorted({*range(0, len(data), step), len(data) - 1}):
        yield place, data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :]


def flipped(store: Store, name: str, most: int) -> Iterator[set[tuple[str, str]]]:
    path = store.folder / name
    data = path.read_bytes()
    for place, damaged in flips(data, most):
        path.write_bytes(damaged)
        found = named(store)
        assert len(found) == 1, (name, place, found)
        yield found
    path.write_bytes(data)
    assert named(store) == set()


class TestObjects:
    """Everything that can become of an object is named, at its place, and nothing else is."""

    def test_a_whole_store_has_no_defect(self, store: Store) -> None:
        assert doctor.examine(store) == ((), len(objects(store)), 0)

    def test_one_that_nothing_leads_to_is_counted(self, built: Workshop, store: Store, tmp_path: Path) -> None:
        other = Workshop(tmp_path / "other", {**FILES, "docs/spec.md": "# Another\n"})
        other.build()
        for path in (other.folder / "objects").iterdir():
            shutil.copy2(path, store.folder / "objects" / path.name)
        found = doctor.examine(store)
        assert (found.defects, found.unreachable > 0, found.objects - found.unreachable) == (
            (),
            True,
            len(objects(Store(built.path, ".sdaqf/build"))),
        )

    def test_any_bit_turned(self, store: Store) -> None:
        for name in objects(store):
            for found in flipped(store, name, 5):
                assert found == {("object-damaged", name)}

    @pytest.mark.long
    def test_any_bit_turned_at_every_byte_of_small_ones(self, store: Store) -> None:
        for name in objects(store):
            for found in flipped(store, name, 4_000):
                assert found == {("object-damaged", name)}

    def test_cut_anywhere_emptied_or_longer(self, store: Store) -> None:
        for name in objects(store):
            path = store.folder / name
            data = path.read_bytes()
            for damaged in (b"", data[:1], data[: len(data) // 2], data[:-1], data + b"\n", data + data, b"\0" * len(data)):
                path.write_bytes(damaged)
                assert named(store) == {("object-damaged", name)}, damaged[:20]
            path.write_bytes(data)

    def test_deleted(self, store: Store) -> None:
        for name in objects(store):
            path = store.folder / name
            path.rename(store.folder.parent / "aside")
            assert named(store) == leading_to(store, name) != set()
            (store.folder.parent / "aside").rename(path)

    def test_another_one_under_its_name(self, store: Store) -> None:
        names = objects(store)
        for name, other in zip(names, names[1:] + names[:1], strict=True):
            data = (store.folder / name).read_bytes()
            (store.folder / name).write_bytes((store.folder / other).read_bytes())
            assert named(store) == {("object-duplicated", name)}
            (store.folder / name).write_bytes(data)

    def test_two_that_changed_places(self, store: Store) -> None:
        names = objects(store)
        for name, other in zip(names, names[1:] + names[:1], strict=True):
            for expected in ({("object-swapped", name), ("object-swapped", other)}, set()):
                exchange(store.folder / name, store.folder / other)
                assert named(store) == expected

    def test_a_copy_under_an_id_of_its_own(self, store: Store) -> None:
        name = objects(store)[0]
        other = f"objects/CTX-GRAPH-{'0' * 64}.json"
        shutil.copy2(store.folder / name, store.folder / other)
        assert named(store) == {("object-duplicated", other)}

    def test_a_name_that_is_none(self, store: Store) -> None:
        for name in ("objects/x", "objects/CTX-GRAPH-1.json", objects(store)[0] + ".bak", "objects/deep/x.json"):
            path = store.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"{}\n")
            path.chmod(0o600)
            assert named(store) == {("extra-file", name)}
            path.unlink()

    def test_a_link_in_its_place(self, store: Store) -> None:
        for name in objects(store):
            path = store.folder / name
            path.rename(store.folder.parent / "aside")
            path.symlink_to(store.folder.parent / "aside")
            assert named(store) == {("link", name), *leading_to(store, name)}
            path.unlink()
            (store.folder.parent / "aside").rename(path)

    def test_open_to_others(self, store: Store) -> None:
        for mode in (0o604, 0o640, 0o666):
            (store.folder / objects(store)[0]).chmod(mode)
            assert named(store) == {("mode", objects(store)[0])}


class TestRefs:
    def test_any_bit_turned(self, store: Store) -> None:
        for name in refs(store):
            for found in flipped(store, name, 6):
                [(code, place)] = found
                assert (code in ("ref-damaged", "receipt-mismatch"), place) == (True, name)

    @pytest.mark.long
    def test_any_bit_turned_at_every_byte(self, store: Store) -> None:
        for name in refs(store):
            for found in flipped(store, name, 4_000):
                assert {place for _, place in found} == {name}

    def test_deleted_cut_or_longer(self, store: Store) -> None:
        for name in refs(store):
            path = store.folder / name
            data = path.read_bytes()
            for damaged in (None, b"", data[:-1], data[:20], data + b"\n", data + data, b"\0" * len(data)):
                put(path, damaged)
                assert named(store) == {("ref-damaged", name)}, damaged
            put(path, data)

    def test_two_that_changed_places(self, store: Store) -> None:
        one, other = (f"refs/m/context/{makes}" for makes in ("graph", "manifest"))
        exchange(store.folder / one, store.folder / other)
        assert named(store) == {("ref-damaged", one), ("ref-damaged", other)}

    def test_a_receipt_that_is_missing_cut_or_of_another_spelling(self, store: Store) -> None:
        for name in refs(store):
            path = store.folder / f"{name}.made"
            data = path.read_bytes()
            for damaged in (None, b"", data[:-1], data[:-3], data.replace(b": ", b":"), b"[]\n", b"{}\n"):
                put(path, damaged)
                assert named(store) == {("receipt-damaged", name)}, damaged
            put(path, data)

    def test_a_name_that_is_none(self, store: Store) -> None:
        for name in ("refs/x", "refs/m/x", "refs/m/context/selection", "refs/m/context/q/default/graph", "x", "refs/x.made"):
            (store.folder / name).write_bytes(b"x\n")
            (store.folder / name).chmod(0o600)
            assert named(store) == {("extra-file", name)}
            (store.folder / name).unlink()


class TestCopies:
    def test_one_that_differs(self, store: Store) -> None:
        for path in sorted((store.folder / "out").rglob("*.*")):
            if path.is_file():
                data, name = path.read_bytes(), path.relative_to(store.folder).as_posix()
                for damaged in (b"", data[:-1], data + b"\n"):
                    path.write_bytes(damaged)
                    assert named(store) == {("copy-damaged", name)}
                path.write_bytes(data)

    def test_one_that_no_ref_leads_to(self, store: Store) -> None:
        (store.folder / "out" / "context" / "notes.md").write_bytes(b"mine\n")
        (store.folder / "out" / "context" / "notes.md").chmod(0o600)
        assert named(store) == {("copy-left-over", "out/context/notes.md")}


class TestLeftovers:
    def test_of_killed_writers_anywhere(self, store: Store) -> None:
        name = f".sdaqf-{'0' * 16}.tmp"
        places = {f"{folder}{name}" for folder in ("", "objects/", "refs/", "refs/m/context/q/default/", "out/context/")}
        for place in places:
            (store.folder / place).write_bytes(b"half")
            (store.folder / place).chmod(0o600)
        assert named(store) == {("temporary", place) for place in places}

    def test_what_is_no_file(self, store: Store) -> None:
        os.mkfifo(store.folder / "objects" / "pipe", 0o600)
        (store.folder / "refs" / "away").symlink_to("/")
        assert named(store) == {("extra-file", "objects/pipe"), ("link", "refs/away")}

    def test_a_folder_that_is_a_link_is_named_and_not_looked_into(self, store: Store, tmp_path: Path) -> None:
        (tmp_path / "away").mkdir()
        (tmp_path / "away" / "precious").write_text("")
        (tmp_path / "linked").symlink_to("away")
        linked = Store(tmp_path, "linked")
        assert named(linked) == {("link", ".")}
        assert doctor.repair(linked) == 0
        assert (tmp_path / "away" / "precious").exists()


def _link(path: Path) -> Path:
    path.symlink_to("/etc/passwd")
    return path


class TestRepair:
    """It takes away, and a build makes the same again."""

    DAMAGE: tuple[Callable[[Path], object], ...] = (
        lambda path: path.write_bytes(path.read_bytes()[:-2]),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(path.read_bytes().replace(b"e", b"f", 1)),
        lambda path: _link(path.with_name("x")).replace(path),
        lambda path: path.chmod(0o666),
        lambda path: path.write_bytes(b""),
    )

    def test_then_a_build_gives_the_same_refs(self, tmp_path: Path) -> None:
        shop = Workshop(tmp_path / "project")
        shop.build()
        refs_before, outs_before = shop.refs(), shop.outs()
        everything = sorted(path for part in ("objects", "refs", "out") for path in (shop.folder / part).rglob("*") if path.is_file())
        for number, path in enumerate(everything):
            self.DAMAGE[number % len(self.DAMAGE)](path)
        store = Store(shop.path, ".sdaqf/build")
        assert len(named(store)) > len(everything) // 2
        outside = Path("/etc/passwd").read_bytes()
        assert doctor.repair(store) > 0
        assert named(store) == set()
        shop.build()
        assert (shop.refs(), shop.outs(), Path("/etc/passwd").read_bytes()) == (refs_before, outs_before, outside)
        assert (named(store), shop.current()) == (set(), True)

    def test_of_a_whole_store_takes_nothing(self, store: Store) -> None:
        before = {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()}
        assert doctor.repair(store) == 0
        assert {path: path.read_bytes() for path in store.folder.rglob("*") if path.is_file()} == before


class TestCommand:
    def test_it_names_all_at_once_and_ends_with_1(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        assert sdaqf("doctor").code == 0
        for name in ("src/__pycache__/a.pyc", ".doit.db.dat"):
            shop.write(name, "x")
        shop.object_of("graph").write_bytes(b"")
        (shop.folder / f".sdaqf-{'1' * 16}.tmp").touch()
        ran = sdaqf("doctor", "--json")
        found = {(defect["code"], defect["place"]) for defect in ran.value["defects"]}
        graph = f"objects/{shop.ref('graph')}.json"
        places = {("in-the-tree", ".doit.db.dat"), ("in-the-tree", "src/__pycache__/a.pyc"), ("object-damaged", graph)}
        assert (ran.code, found) == (1, places | {("temporary", f".sdaqf-{'1' * 16}.tmp")})
        assert shop.object_of("graph").read_bytes() == b"", "looking changes nothing"
        ran = sdaqf("doctor", "--repair", "--json")
        assert (ran.code, ran.value["removed"], [defect["code"] for defect in ran.value["defects"]]) == (
            1,
            4,
            ["in-the-tree", "in-the-tree"],
        )

    def test_without_a_build_folder_it_makes_none(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        assert sdaqf("doctor", "--repair").code == 0
        assert not shop.folder.exists()

    def test_what_makes_the_tree_unreadable_is_a_defect_too(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        shop.tree.git("config", "extensions.objectFormat", "sha256")
        ran = sdaqf("doctor", "--json")
        assert (ran.code, [defect["code"] for defect in ran.value["defects"]]) == (1, ["repository-unsupported"])

    def test_versions_and_the_owner_that_is_allowed(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        monkeypatch.setenv("SDAQF_ALLOW_OWNER", "1234")
        value = json.loads(sdaqf("doctor", "--json").out)
        assert value["settings"] == {"SDAQF_ALLOW_OWNER": "1234"}
        assert value["git"][0].isdigit() and value["libyaml"][0].isdigit()

    def test_a_build_folder_that_git_lists(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        (shop.folder / ".gitignore").unlink()
        ran = sdaqf("doctor", "--json")
        assert (ran.code, {defect["code"] for defect in ran.value["defects"]}) == (1, {"output-not-ignored"})

    def test_shards_that_git_lists_are_named(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.write(".sdaqf/shards/.gitignore", "!*\n")
        ran = sdaqf("doctor", "--json")
        found = [(defect["code"], defect["place"]) for defect in ran.value["defects"]]
        assert (ran.code, found) == (1, [("output-not-ignored", ".sdaqf/shards/.gitignore")])

    @pytest.mark.parametrize("text", ["", "out/\n", "*\n!*\n", None])
    def test_a_gitignore_that_was_changed_is_written_again(
        self, text: str | None, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        place = shop.folder / ".gitignore"
        place.unlink() if text is None else place.write_text(text)
        if text is not None:  # one that is gone, a build makes again by itself
            refused = sdaqf("build")
            assert refused.code == 1
            assert "  Its `.gitignore` was changed. Run: sdaqf doctor --repair   (output-not-ignored)\n" in refused.err
            assert "sdaqf doctor --repair" in sdaqf("doctor").out
        ran = sdaqf("doctor", "--repair", "--json")
        assert (ran.code, ran.value["removed"] > 0, ran.value["build"]["ignored"]) == (0, True, True)
        assert (place.read_bytes(), sdaqf("build").code, shop.current()) == (b"*\n", 0, True)

    def test_one_that_does_its_work_stays(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        (shop.folder / ".gitignore").write_text("# nothing of this is ours\n*\n")
        assert sdaqf("doctor", "--repair", "--json").value["removed"] == 0

    def test_what_git_tracks_is_to_be_untracked(self, shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        shop.build()
        shop.tree.git("add", "-f", ".sdaqf/build/out")
        assert (sdaqf("doctor", "--repair").code, sdaqf("build").code) == (1, 1)
        assert "git rm -r --cached .sdaqf/build`" in sdaqf("build").err
