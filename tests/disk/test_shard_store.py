"""A shard on the disk: one pointer, objects that are what their names say, and no damage that looks like an empty catalog."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.shard_store import OBJECT_BYTES, ShardStore, shards_there
from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.shards import session
from sdaqf_tasks.shards.records import CORE, Abstraction, Front, shard
from tests.disk.worktree import WorkTree, everything_below
from tests.fronts.run import in_process
from tests.reliability.shards import ROOT, ShardProject, distil
from tests.shards.records import PROJECT


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard with a live, a saved and a staged record, and core with one."""
    made = ShardProject(tmp_path_factory.mktemp("model") / "project")
    made.of(CORE).create().commit("a", "y", "z")
    made.create().commit("a", "b").run("snapshot")
    made.run("begin scratch", "/reuse_abstractions adopt core:z", "/reuse_abstractions reject core:y", "commit")
    made.run("begin scratch", distil("c"))
    return made.path


@pytest.fixture
def made(model: Path, tmp_path: Path) -> ShardProject:
    return ShardProject(Path(shutil.copytree(model, tmp_path / "project", symlinks=True)))


@pytest.fixture
def new(tmp_path: Path) -> ShardProject:
    return ShardProject(tmp_path / "project")


def refusal(action: Callable[[], object]) -> SdaqfError:
    with pytest.raises(SdaqfError) as caught:
        action()
    return caught.value


def opened(descriptor: int) -> Path:
    """What a descriptor was opened as."""
    return Path(f"/proc/self/fd/{descriptor}").readlink()


LOOKS: dict[str, Callable[[ShardProject], object]] = {
    "list": lambda made: shard_views.records(made.bench()),
    "status": lambda made: shard_views.status(made.bench()),
    "show": lambda made: [shard_views.shown(made.bench(), name) for name in ("a", "c")],
    "show --diff": lambda made: list(shard_views.changes(made.bench(), live(made, "a"))),
    "review": lambda made: shard_views.review(made.bench()),
    "log": lambda made: shard_views.log(made.bench()),
    "verify": lambda made: shard_views.verify(made.bench()),
    "reuse": lambda made: shard_views.reuse(made.bench()),
    "lookup": lambda made: shard_views.support(made.bench(), ("src/a.py",), ("retry",), (), None, 4),
}


def live(made: ShardProject, concept: str) -> Abstraction:
    found = made.desk().live(concept)
    assert found
    return found


class TestCreation:
    """`create` makes a shard, nothing else does, and git never hears of it (SH-5)."""

    def test_git_sees_nothing_of_it(self, new: ShardProject) -> None:
        new.create().commit("a")
        assert (new.path / ROOT / ".gitignore").read_bytes() == b"*\n"
        assert WorkTree(new.path).git("status", "--porcelain", "--untracked-files=all") == b""

    @pytest.mark.parametrize("text", ["!*\n", "# mine\n", "*\n!token-7323\n", ""])
    def test_a_gitignore_that_says_something_else_is_refused_by_whatever_writes(self, text: str, new: ShardProject) -> None:
        ignore = new.path / ROOT / ".gitignore"
        ignore.parent.mkdir(parents=True)
        ignore.write_text(text)
        error = refusal(new.create)
        assert (error.reason, error.where) == (Reason.OUTPUT_NOT_IGNORED, ".gitignore")
        assert refusal(new.desk).reason is Reason.NO_SHARD
        ignore.unlink()
        new.create()
        ignore.write_text(text)
        before = new.everything()
        assert refusal(lambda: new.run("begin scratch")).reason is Reason.OUTPUT_NOT_IGNORED
        assert new.everything() == before
        ignore.unlink()
        new.run("begin scratch")
        assert ignore.read_bytes() == b"*\n"

    @pytest.mark.parametrize("name", ["token-7323", "core/HEAD", ".gitignore"])
    def test_what_git_tracks_among_the_shards_is_refused(self, name: str, new: ShardProject) -> None:
        place = new.path / ROOT / name
        place.parent.mkdir(parents=True)
        place.write_text("*\n")
        WorkTree(new.path).git("add", "--force", f"{ROOT}/{name}")
        before = everything_below(new.path / ROOT)
        error = refusal(new.create)
        assert error.reason is Reason.OUTPUT_NOT_IGNORED
        assert f"{ROOT}/{name} lies in {ROOT}" in error.message
        assert everything_below(new.path / ROOT) == before

    def test_a_folder_that_holds_anything_else_is_no_place_for_shards(self, new: ShardProject) -> None:
        """A `.gitignore` in it would hide every new file of somebody's."""
        (new.path / "sdaqf.toml").write_text('shards = "src"\n')
        before = everything_below(new.path)
        assert refusal(new.create).reason is Reason.OUTPUT_NOT_IGNORED
        WorkTree(new.path).git("rm", "-r", "-q", "--cached", "src")
        error = refusal(new.create)
        assert (error.reason, error.message) == (Reason.OUTPUT_INVALID, "the folder of the shards holds a.py, which is none of theirs")
        assert everything_below(new.path).keys() - {".git"} == before.keys() - {".git"}
        assert not (new.path / "src/.gitignore").exists()

    def test_there_need_be_no_commit(self, tmp_path: Path) -> None:
        subprocess.run(["git", "init", "-q", tmp_path / "project"], check=True)
        ShardProject(tmp_path / "project").create()

    @pytest.mark.parametrize("kind", ["link", "folder"])
    def test_a_gitignore_that_git_would_not_read_is_refused(self, kind: str, new: ShardProject) -> None:
        (new.path / ROOT).mkdir(parents=True)
        ignore = new.path / ROOT / ".gitignore"
        ignore.mkdir() if kind == "folder" else ignore.symlink_to("nowhere")
        error = refusal(new.create)
        assert (type(error), error.reason, error.where) == (Conflict, Reason.OUTPUT_INVALID, ".gitignore")
        assert refusal(new.desk).reason is Reason.NO_SHARD

    def test_a_shard_that_is_there_stays_as_it_is(self, made: ShardProject) -> None:
        before = made.everything()
        assert refusal(made.create).reason is Reason.SHARD_EXISTS
        assert made.everything() == before

    def test_everything_in_it_is_private(self, made: ShardProject) -> None:
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (made.folder, *made.folder.rglob("*"))}
        assert found.pop("default") == found.pop("objects") == 0o700
        assert set(found.values()) == {0o600}

    @pytest.mark.parametrize("look", [*LOOKS, "run"])
    def test_nothing_else_makes_one(self, look: str, new: ShardProject) -> None:
        act: Callable[[ShardProject], object] = LOOKS.get(look, lambda made: made.run("begin scratch"))
        assert refusal(lambda: act(new)).reason is Reason.NO_SHARD
        assert not (new.path / ".sdaqf").exists()

    @pytest.mark.parametrize("there", ["", "core", "core/objects"])
    def test_what_a_killed_init_left_is_finished_by_the_next_one(self, there: str, new: ShardProject) -> None:
        core = new.of(CORE)
        (new.path / ROOT / there).mkdir(parents=True)
        for folder in (new.path / ROOT, core.folder, core.folder / "objects"):
            if folder.exists():
                (folder / f".sdaqf-{'0' * 16}.tmp").write_bytes(b"cut")
        assert refusal(core.desk).reason is Reason.NO_SHARD
        core.create()
        assert core.leftovers() == []
        assert (core.fsck(), core.desk().state.revision) == ([], 0)

    def test_a_root_that_another_front_had_begun_to_make_is_in_nobodys_way(self, new: ShardProject) -> None:
        begun = session.born(PROJECT, Front.SHELL)
        (new.folder / "objects").mkdir(parents=True)
        files.publish_each(new.folder / "objects", {f"{object_id}.json": data for object_id, data in begun.objects.items()})
        assert refusal(new.desk).reason is Reason.NO_SHARD
        assert new.create().state() == session.born(PROJECT, Front.CLI).state_id

    def test_shards_are_listed_core_first(self, made: ShardProject) -> None:
        made.of(shard("project:another")).create()
        (made.path / ROOT / "project" / "no..shard").mkdir()
        (made.path / ROOT / "project" / "empty").mkdir()
        assert [*map(str, shards_there(made.path, ROOT))] == ["core", "project:another", "project:default"]

    def test_a_damaged_shard_is_listed(self, made: ShardProject) -> None:
        made.head.unlink()
        shutil.rmtree(made.of(CORE).folder / "objects")
        assert [*map(str, shards_there(made.path, ROOT))] == ["core", "project:default"]


PLACES = (".sdaqf", ROOT, f"{ROOT}/project", f"{ROOT}/project/default", f"{ROOT}/project/default/objects")


class TestLinks:
    """A repository can bring links: no shard is made or read behind one."""

    @pytest.mark.parametrize("place", PLACES)
    def test_no_shard_is_read_behind_a_link(self, place: str, made: ShardProject, tmp_path: Path) -> None:
        (made.path / place).rename(tmp_path / "elsewhere")
        (made.path / place).symlink_to(tmp_path / "elsewhere")
        before = everything_below(tmp_path / "elsewhere")
        for act in (made.desk, made.create, lambda: made.run("discard"), made.fsck):
            error = refusal(act)
            assert (error.reason, error.where) == (Reason.MISSING_OR_UNREADABLE, place)
        assert everything_below(tmp_path / "elsewhere") == before

    @pytest.mark.parametrize("place", PLACES)
    def test_no_shard_is_made_behind_a_link(self, place: str, new: ShardProject, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        (new.path / place).parent.mkdir(parents=True, exist_ok=True)
        (new.path / place).symlink_to(tmp_path / "elsewhere")
        assert refusal(new.create).where == place
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("place", PLACES)
    def test_a_file_in_the_way_is_no_folder(self, place: str, new: ShardProject) -> None:
        (new.path / place).parent.mkdir(parents=True, exist_ok=True)
        (new.path / place).write_bytes(b"")
        assert refusal(new.create).where == place
        assert refusal(new.desk).where == place

    def test_the_lock_is_not_looked_for_behind_a_link(self, made: ShardProject, tmp_path: Path) -> None:
        (made.folder / "lock").unlink()
        (made.folder / "lock").symlink_to(tmp_path / "away")
        assert refusal(lambda: made.run("discard")).reason is Reason.OUTPUT_INVALID
        assert not (tmp_path / "away").exists()


def _link(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to("moved")


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _moved_in(made: ShardProject) -> None:
    core = made.of(CORE)
    shutil.copytree(core.folder / "objects", made.folder / "objects", dirs_exist_ok=True)
    made.point(core.state())


HEADS: dict[str, tuple[Callable[[ShardProject], object], Reason, str]] = {
    "missing": (lambda made: made.head.unlink(), Reason.OBJECT_MISSING, "has states and no HEAD"),
    "empty": (lambda made: made.head.write_bytes(b""), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "cut": (lambda made: made.head.write_bytes(made.head.read_bytes()[:-2]), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "cut by its line end": (lambda made: made.head.write_bytes(made.head.read_bytes()[:-1]), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "scrambled": (lambda made: made.head.write_bytes(os.urandom(77)), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "lower case": (lambda made: made.point(made.state().lower()), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "two lines": (lambda made: made.point(f"{made.state()}\n"), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "long": (lambda made: made.point("0" * 300), Reason.OBJECT_DAMAGED, "HEAD of project:default"),
    "a catalog": (lambda made: made.point(made.desk().state.live), Reason.OBJECT_DAMAGED, "does not hold the id"),
    "a link": (lambda made: _link(made.head), Reason.OBJECT_DAMAGED, "a link"),
    "a fifo": (lambda made: _fifo(made.head), Reason.OBJECT_DAMAGED, "not regular"),
    "a folder": (lambda made: _folder(made.head), Reason.OBJECT_DAMAGED, "not regular"),
    "of another shard": (_moved_in, Reason.OBJECT_DAMAGED, "a state of core"),
}


class TestHead:
    """Whatever becomes of HEAD, it is an error that names it (SH-7)."""

    @pytest.mark.parametrize("damage", HEADS)
    def test_a_damaged_head_is_refused_by_everything(self, damage: str, made: ShardProject) -> None:
        break_, reason, message = HEADS[damage]
        break_(made)
        before = made.everything()
        acts = [
            *LOOKS.values(),
            lambda made: made.run("begin scratch"),
            lambda made: made.create(),
            lambda made: shard_views.collect(made.bench()),
        ]
        for act in acts:
            error = refusal(lambda act=act: act(made))  # type: ignore[misc]
            if error.reason is not Reason.SHARD_EXISTS:  # of a shard whose HEAD leads to another one, that much is known
                assert (error.reason, error.where) == (reason, "HEAD"), error
                assert message in error.message
        assert made.everything() == before

    @pytest.mark.parametrize("damage", sorted(HEADS.keys() - {"of another shard"}))
    def test_fsck_lists_the_states_that_it_may_have_held(self, damage: str, made: ShardProject) -> None:
        state, (break_, reason, _) = made.state(), HEADS[damage]
        break_(made)
        found = shard_views.fsck(made.bench())
        assert [(defect["code"], defect["place"]) for defect in found["defects"]] == [(reason.value, "HEAD")]
        assert found["tips"] == [state]
        if made.head.is_dir():
            made.head.rmdir()
        else:
            made.head.unlink(missing_ok=True)
        made.point(state)
        assert made.fsck() == []

    def test_a_head_without_objects_is_no_new_shard(self, made: ShardProject) -> None:
        shutil.rmtree(made.folder / "objects")
        for act in (made.desk, made.create, lambda: made.run("discard"), made.fsck):
            error = refusal(act)
            assert (error.reason, error.where) == (Reason.OBJECT_MISSING, "objects")
        assert not (made.folder / "objects").exists()

    def test_a_head_whose_objects_are_all_gone_names_the_state(self, made: ShardProject) -> None:
        state = made.state()
        for path in made.objects():
            path.unlink()
        error = refusal(made.desk)
        assert (error.reason, error.where) == (Reason.OBJECT_MISSING, state)

    def test_a_lost_head_of_core_is_no_empty_core(self, made: ShardProject) -> None:
        """What looks for support in core must not find that there is none."""
        made.of(CORE).head.unlink()
        for act in (LOOKS["lookup"], lambda made: made.run("/merge_abstractions adopt core:a as:d")):
            error = refusal(lambda act=act: act(made))  # type: ignore[misc]
            assert (error.reason, error.where) == (Reason.OBJECT_MISSING, "HEAD")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _swap(made: ShardProject, path: Path, *, alike: bool) -> None:
    """Exchange the bytes of an object with those of another one."""
    kind = path.name.split("-")[1]
    other = next(each for each in made.objects() if each != path and (each.name.split("-")[1] == kind) is alike)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


DAMAGES: dict[str, tuple[Callable[[ShardProject, Path], object], Reason]] = {
    "missing": (lambda made, path: path.unlink(), Reason.OBJECT_MISSING),
    "flipped": (lambda made, path: _flip(path), Reason.OBJECT_DAMAGED),
    "cut": (lambda made, path: path.write_bytes(path.read_bytes()[:-1]), Reason.OBJECT_DAMAGED),
    "empty": (lambda made, path: path.write_bytes(b""), Reason.OBJECT_DAMAGED),
    "longer": (lambda made, path: path.write_bytes(path.read_bytes() + b"\n"), Reason.OBJECT_DAMAGED),
    "exchanged": (lambda made, path: _swap(made, path, alike=True), Reason.OBJECT_DAMAGED),
    "of another type": (lambda made, path: _swap(made, path, alike=False), Reason.OBJECT_DAMAGED),
    "huge": (lambda made, path: os.truncate(path, OBJECT_BYTES + 1), Reason.OBJECT_DAMAGED),
    "a link": (lambda made, path: _link(path), Reason.OBJECT_MISSING),
    "a fifo": (lambda made, path: _fifo(path), Reason.OBJECT_MISSING),
    "a folder": (lambda made, path: _folder(path), Reason.OBJECT_MISSING),
}
LIVE = ("STATE", "CATALOG", "BUCKET")


def needed(made: ShardProject) -> dict[str, str]:
    """One object of each type that the present state leads to."""
    desk = made.desk()
    return {
        "STATE": made.state(),
        "CATALOG": desk.state.live,
        "BUCKET": next(iter(desk.catalog.records.values())),
        "STAGED": desk.state.staged or "",
        "RECORD": desk.staged.records["c"],
        "DECISION": desk.catalog.decisions["z"],
        "EVENT": desk.state.event,
        "TEXT": desk.event.inputs[0].id,
    }


class TestObjects:
    """A damaged object is an error that names it, never an empty one (SH-7)."""

    @pytest.mark.parametrize("kind", ["STATE", "CATALOG", "BUCKET", "STAGED", "RECORD", "DECISION", "EVENT", "TEXT"])
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_a_damaged_object_is_named(self, damage: str, kind: str, made: ShardProject) -> None:
        object_id = needed(made)[kind]
        break_, reason = DAMAGES[damage]
        break_(made, made.place(object_id))
        error = refusal(lambda: made.store.get(object_id))
        assert (error.reason, error.where) == (reason, object_id)
        assert error.todo == "sdaqf shard fsck"

    @pytest.mark.parametrize("kind", LIVE)
    @pytest.mark.parametrize("damage", DAMAGES)
    def test_no_command_takes_it_for_empty(self, damage: str, kind: str, made: ShardProject) -> None:
        object_id = needed(made)[kind]
        DAMAGES[damage][0](made, made.place(object_id))
        before = made.everything()
        looks = ("list", "status", "lookup") if kind != "BUCKET" else ("list", "lookup")
        changes = ("commit", "/prune_abstractions collect gap:0")
        asked = (*(LOOKS[look] for look in looks), *(lambda made, line=line: made.run(line) for line in changes))
        for act in asked[: len(looks)] if kind == "BUCKET" else asked:
            error = refusal(lambda act=act: act(made))  # type: ignore[misc]
            assert error.reason in (Reason.OBJECT_DAMAGED, Reason.OBJECT_MISSING)
            assert error.where.startswith("SHARD-")
        assert made.everything() == before

    def test_room_is_not_counted_with_a_bucket_that_is_gone(self, made: ShardProject) -> None:
        for object_id in made.desk().catalog.records.values():
            made.place(object_id).unlink()
        assert refusal(lambda: made.run(distil("d"))).reason is Reason.OBJECT_MISSING

    @pytest.mark.parametrize("object_id", ["", "SHARD-STATE-0", "../HEAD", "SHARD-STATE-" + "0" * 64 + "/x"])
    def test_what_is_no_id_is_no_path(self, object_id: str, made: ShardProject) -> None:
        assert refusal(lambda: made.store.get(object_id)).reason is Reason.OBJECT_DAMAGED

    def test_a_damaged_object_is_made_again_by_who_needs_it(self, made: ShardProject) -> None:
        made.run("discard", "begin scratch")
        empty = made.desk().state.staged or ""
        made.run("discard")
        made.place(empty).write_bytes(b"")
        made.run("begin scratch")
        assert made.fsck() == []


class TestReading:
    """A look leaves every byte and every time of every shard as it was (section 7)."""

    @pytest.mark.parametrize("look", LOOKS)
    def test_a_look_leaves_everything_as_it_was(self, look: str, made: ShardProject) -> None:
        before = made.everything()
        assert LOOKS[look](made) is not None
        assert made.everything() == before

    @pytest.mark.parametrize(
        "words", ["list", "status", "show a", "show c", "show a --diff", "review", "log", "verify", "lookup src/a.py --token retry"]
    )
    def test_a_look_from_the_command_line_does_too(
        self, words: str, made: ShardProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(made.path)
        before = made.everything()
        assert in_process("shard", *words.split(), capsys=capsys).code == 0
        assert made.everything() == before

    def test_a_refused_command_leaves_everything_as_it_was(self, made: ShardProject) -> None:
        before = made.everything()
        assert refusal(lambda: made.run("drop c", "commit", "drop c")).reason is Reason.SCRATCH_NOT_ACTIVE
        assert made.everything() == before


class TestAdvancing:
    """Objects and their folder are on the disk before HEAD is replaced (SH-6)."""

    def calls(self, monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> list[str]:
        """What is brought to the disk, and what is renamed, in order."""
        found: list[str] = []
        fsync, rename = os.fsync, os.rename

        def noted(descriptor: Any) -> None:
            path = opened(descriptor)
            found.append(
                "an object" if path.suffix == ".tmp" and path.parent.name == "objects" else path.name if path.is_dir() else "a pointer"
            )
            fsync(descriptor)

        def renamed(old: Any, new: Any, **named: Any) -> None:
            found.append(f"→ {new}")
            rename(old, new, **named)

        monkeypatch.setattr(os, "fsync", noted)
        monkeypatch.setattr(os, "rename", renamed)
        action()
        monkeypatch.undo()
        return found

    def test_objects_then_their_folder_once_then_head(self, made: ShardProject, monkeypatch: pytest.MonkeyPatch) -> None:
        before = {*made.store.names()}
        calls = self.calls(monkeypatch, lambda: made.run("commit"))
        new = {*made.store.names()} - before
        assert calls == ["an object"] * len(new) + ["objects", "a pointer", "→ HEAD", "default"]

    def test_the_folder_is_brought_to_the_disk_also_where_every_object_is_there(
        self, made: ShardProject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A writer that was killed after it linked them may not have waited for the disk."""
        before = made.state()
        made.run("commit")
        after = made.state()
        made.point(before)
        assert self.calls(monkeypatch, lambda: made.run("commit")) == ["objects", "a pointer", "→ HEAD", "default"]
        assert made.state() == after

    @pytest.mark.parametrize("place", ["objects", "HEAD", "default"])
    def test_a_pointer_that_does_not_come_to_the_disk_is_put_back(
        self, place: str, made: ShardProject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Where the system refuses, the shard is as it was: also in the last step, when HEAD is the new one already."""
        before, fsync = made.head.read_bytes(), os.fsync
        failed: list[bool] = []

        def failing(descriptor: Any) -> None:
            path = opened(descriptor)
            if not failed and ("HEAD" if path.suffix == ".tmp" and path.parent == made.folder else path.name) == place:
                failed.append(made.head.read_bytes() != before)
                raise OSError(5, "Input/output error")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)
        error = refusal(lambda: made.run("commit"))
        monkeypatch.undo()
        assert (type(error), error.reason, failed) == (Conflict, Reason.WRITE_FAILED, [place == "default"])
        assert (made.head.read_bytes(), made.fsck(), made.leftovers()) == (before, [], [])

    def test_the_making_of_a_shard_that_does_not_come_to_the_disk_is_no_shard(
        self, new: ShardProject, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fsync = os.fsync

        def failing(descriptor: Any) -> None:
            if os.path.lexists(new.head) and opened(descriptor) == new.folder:
                raise OSError(5, "Input/output error")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)
        assert refusal(new.create).reason is Reason.WRITE_FAILED
        monkeypatch.undo()
        assert refusal(new.desk).reason is Reason.NO_SHARD
        assert new.create().fsck() == []


def test_a_head_that_is_replaced_while_it_is_read_is_read_again(made: ShardProject) -> None:
    """Who looks takes no lock, and may come between any two calls of who writes."""
    one, other = made.state(), made.desk().state.previous or ""
    store, ended, seen = made.store, threading.Event(), Counter[str]()

    def exchange() -> None:
        for turn in itertools.cycle((other, one)):
            (made.folder / "next").write_text(f"{turn}\n")
            (made.folder / "next").rename(made.head)
            if ended.is_set() and turn == one:
                return

    writer = threading.Thread(target=exchange)
    writer.start()
    try:
        seen.update(store.head() for _ in range(3_000))
    finally:
        ended.set()
        writer.join()
    assert seen.keys() <= {one, other}
    assert len(seen) == 2, "the race was not run"


def test_the_next_holder_of_the_lock_sweeps_what_was_left(made: ShardProject) -> None:
    for folder in (made.folder, made.folder / "objects"):
        (folder / f".sdaqf-{'0' * 16}.tmp").write_bytes(b"cut")
    made.run("discard")
    assert made.leftovers() == []


def test_a_store_reads_what_another_one_wrote(made: ShardProject) -> None:
    one, other = made.store, ShardStore(made.path, ROOT, PROJECT)
    before = one.head()
    made.run("discard")
    assert one.head() == other.head() != before


def test_an_unknown_shard_is_refused_by_everything(made: ShardProject) -> None:
    error = refusal(made.of(shard("project:nobody")).desk)
    assert (type(error), error.reason, error.todo) == (Refused, Reason.NO_SHARD, "sdaqf shard init --shard project:nobody")
