"""Reads that cannot be led astray, and writes that survive."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import File, Lock, Root, make_folder, publish, publish_each, read_file, replace, sweep
from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError, Unreadable

Patch = pytest.MonkeyPatch
LIMIT = 1000


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A root beside an outside that must never be read."""
    top = tmp_path / "top"
    (top / "folder").mkdir(parents=True)
    (top / "folder" / "a").write_bytes(b"inside")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_bytes(b"SECRET")
    return top


@pytest.fixture
def root(top: Path) -> Iterator[Root]:
    with Root(top) as root:
        yield root


def refusal(action: Callable[[], object]) -> SdaqfError:
    with pytest.raises(SdaqfError) as refused:
        action()
    return refused.value


def unread(action: Callable[[], object]) -> Reason:
    refused = refusal(action)
    assert isinstance(refused, Unreadable)
    return refused.reason


class TestRoot:
    def test_a_root_that_is_itself_a_link_is_refused_with_what_to_do(self, top: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(top)
        refused = refusal(lambda: Root(tmp_path / "link"))
        assert (type(refused), refused.reason, refused.todo) == (Refused, Reason.ROOT_IS_A_LINK, "Use the path that it points to.")
        assert str(tmp_path) not in str(refused)

    def test_a_root_reached_through_a_link_works(self, top: Path, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        with Root(tmp_path / "link" / "top") as root:
            assert root.read("folder/a", LIMIT) == b"inside"
            assert root.path == top

    @pytest.mark.parametrize("name", ["missing", "outside/a"])
    def test_a_root_that_is_no_folder_is_refused(self, name: str, top: Path) -> None:
        assert unread(lambda: Root(top.parent / name)) is Reason.MISSING_OR_UNREADABLE

    def test_no_descriptor_is_left_open(self, top: Path) -> None:
        before = len(names(Path("/dev/fd")))
        with Root(top) as root:
            root.read("folder/a", LIMIT)
            for path in ("folder", "folder/missing", "folder/a/b", "folder/a"):
                with pytest.raises(Unreadable):
                    root.read(path, 1)
        root.close()
        assert len(names(Path("/dev/fd"))) == before


class TestReading:
    def test_a_file_of_exactly_the_limit_is_read_and_one_byte_more_is_not(self, root: Root) -> None:
        assert root.read("folder/a", 6) == b"inside"
        assert unread(lambda: root.read("folder/a", 5)) is Reason.SOURCE_BYTE_LIMIT

    def test_an_empty_file_is_read(self, root: Root, top: Path) -> None:
        (top / "empty").touch()
        assert root.read("empty", 0) == b""

    NO_PATHS = ("", "/", "/folder/a", "folder//a", "folder/a/", "./folder/a", "folder/./a", "folder/../folder/a", "..", "../outside/a")

    @pytest.mark.parametrize("path", NO_PATHS)
    def test_only_plain_relative_paths_are_read(self, root: Root, path: str) -> None:
        assert unread(lambda: root.read(path, LIMIT)) is Reason.MISSING_OR_UNREADABLE

    @pytest.mark.parametrize("path", ["folder/a\0", "\ud800", "folder/missing", "folder", "folder/a/b"])
    def test_what_names_no_file_is_refused(self, root: Root, path: str) -> None:
        assert unread(lambda: root.read(path, LIMIT)) is Reason.MISSING_OR_UNREADABLE

    @pytest.mark.parametrize("path", [".git/config", ".GIT/config", "folder/.Git/config", ".git", "folder/.git"])
    def test_what_lies_below_a_git_directory_is_never_opened(self, root: Root, top: Path, path: str, monkeypatch: Patch) -> None:
        place = top / path
        if place.name == "config":
            place.parent.mkdir()
        place.write_bytes(b"password")
        monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
        assert unread(lambda: root.read(path, LIMIT)) is Reason.MISSING_OR_UNREADABLE

    @pytest.mark.parametrize("path", [".gitignore", ".github/a", "git"])
    def test_what_only_resembles_a_git_directory_is_read(self, root: Root, top: Path, path: str) -> None:
        (top / path).parent.mkdir(exist_ok=True)
        (top / path).write_bytes(b"x")
        assert root.read(path, LIMIT) == b"x"

    def test_two_hundred_folders_are_walked_and_one_more_is_not(self, root: Root, top: Path) -> None:
        deep = top.joinpath(*["d"] * files.DEEPEST)
        (deep / "d").mkdir(parents=True)
        (deep / "a").write_bytes(b"deep")
        (deep / "d" / "a").write_bytes(b"deeper")
        assert root.read("d/" * files.DEEPEST + "a", LIMIT) == b"deep"
        assert unread(lambda: root.read("d/" * (files.DEEPEST + 1) + "a", LIMIT)) is Reason.MISSING_OR_UNREADABLE

    def test_links_are_not_followed_wherever_they_stand(self, root: Root, top: Path) -> None:
        (top / "file").symlink_to("folder/a")
        (top / "out").symlink_to("../outside/a")
        (top / "dangling").symlink_to("nowhere")
        (top / "parent").symlink_to("folder")
        for path in ("file", "out", "dangling", "parent/a", "parent"):
            assert unread(lambda path=path: root.read(path, LIMIT)) is Reason.MISSING_OR_UNREADABLE  # type: ignore[misc]

    def test_hard_links_are_fine(self, root: Root, top: Path) -> None:
        os.link(top / "folder" / "a", top / "b")
        assert root.read("b", LIMIT) == b"inside"

    def test_a_fifo_and_a_socket_are_refused_without_waiting_for_anybody(self, root: Root, top: Path) -> None:
        os.mkfifo(top / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(top / "socket"))
            began = time.monotonic()
            for name in ("fifo", "socket"):
                assert unread(lambda name=name: root.read(name, LIMIT)) is Reason.MISSING_OR_UNREADABLE  # type: ignore[misc]
                assert unread(lambda name=name: read_file(top / name, LIMIT)) is Reason.MISSING_OR_UNREADABLE  # type: ignore[misc]
        assert time.monotonic() - began < 1

    def test_a_device_is_refused_without_being_opened(self, monkeypatch: Patch) -> None:
        with Root(Path("/dev")) as root:
            monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("opened"))
            assert unread(lambda: root.read("zero", LIMIT)) is Reason.MISSING_OR_UNREADABLE

    @pytest.mark.skipif(not Path("/proc/version").exists(), reason="there is no /proc on this system")
    def test_a_file_of_proc_which_has_more_bytes_than_its_size_is_refused(self) -> None:
        with Root(Path("/proc")) as root:
            assert unread(lambda: root.read("version", LIMIT)) is Reason.CHANGED

    def test_a_sparse_file_of_a_tebibyte_is_refused_at_once(self, root: Root, top: Path) -> None:
        with (top / "sparse").open("wb") as file:
            file.truncate(1 << 40)
        began = time.monotonic()
        assert unread(lambda: root.read("sparse", 1 << 20)) is Reason.SOURCE_BYTE_LIMIT
        assert time.monotonic() - began < 1

    @pytest.mark.parametrize(
        "write",
        [
            lambda place: place.open("ab").write(b"more"),
            lambda place: os.truncate(place, 3),
            lambda place: os.utime(place, ns=(0, 0)),
            lambda place: place.write_bytes(b"INSIDE"),
        ],
        ids=["grows", "shrinks", "is touched", "is rewritten"],
    )
    def test_a_file_that_changes_while_it_is_read_is_refused(self, top: Path, write: Callable[[Path], object]) -> None:
        place = top / "folder" / "a"
        os.utime(place, ns=(1, 1))
        with File(place) as file:
            write(place)
            assert unread(lambda: list(file.chunks(LIMIT))) is Reason.CHANGED

    def test_a_file_that_never_stops_growing_is_read_no_further_than_its_size(self, top: Path) -> None:
        place = top / "folder" / "a"
        with File(place) as file, place.open("ab") as more:
            more.write(b"x" * 10_000_000)
            more.flush()
            pieces: list[bytes] = []
            with pytest.raises(Unreadable):
                pieces.extend(file.chunks(LIMIT))
        assert pieces == []

    def test_a_file_named_by_the_caller_may_lie_behind_a_link_but_is_none(self, top: Path) -> None:
        (top / "parent").symlink_to("folder")
        (top / "link").symlink_to("folder/a")
        assert read_file(top / "parent" / "a", LIMIT) == b"inside"
        refused = refusal(lambda: read_file(top / "link", LIMIT))
        assert (refused.reason, refused.where) == (Reason.MISSING_OR_UNREADABLE, "link")
        assert unread(lambda: read_file(top / "parent" / "a", 5)) is Reason.SOURCE_BYTE_LIMIT

    def test_messages_hold_neither_the_root_nor_what_a_terminal_obeys(self, root: Root, top: Path) -> None:
        refused = refusal(lambda: root.read("a\x1b[31m\n\u202e", LIMIT))
        assert refused.where == "a\\x1b[31m\\n\\u202e"
        assert str(top) not in str(refused)


EXCHANGE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
first, second = (name.encode() for name in sys.argv[1:])
print("ready", flush=True)
while True:
    libc.renameat2(-100, first, -100, second, 2)
"""


def exchange_exists() -> bool:
    return hasattr(ctypes.CDLL(None), "renameat2")


@pytest.mark.skipif(not exchange_exists(), reason="this system cannot exchange two names")
class TestRaces:
    """While two names are exchanged as fast as the system can, a read gives the inside or a refusal, never the outside."""

    CASES = ("folder and link", "file and link", "file and dangling link", "file and fifo", "folder above and link")

    def arranged(self, top: Path, case: str) -> tuple[Path, Path]:
        decoy = top / "decoy"
        if case == "folder and link":
            decoy.symlink_to("../outside")
            return top / "folder", decoy
        if case == "folder above and link":
            (top / "folder").rename(top / "b")
            (top / "x").mkdir()
            (top / "b").rename(top / "x" / "folder")
            (top.parent / "outside" / "folder").mkdir()
            (top.parent / "outside" / "folder" / "a").write_bytes(b"SECRET")
            decoy.symlink_to("../outside")
            return top / "x", decoy
        if case == "file and fifo":
            os.mkfifo(decoy)
        else:
            decoy.symlink_to("../../outside/a" if case == "file and link" else "nowhere")
        return top / "folder" / "a", decoy

    def race(self, top: Path, case: str, tries: int) -> set[bytes | Reason]:
        first, second = self.arranged(top, case)
        path = "x/folder/a" if case == "folder above and link" else "folder/a"
        seen: set[bytes | Reason] = set()
        with Root(top) as root, subprocess.Popen([sys.executable, "-c", EXCHANGE, first, second], stdout=subprocess.PIPE) as attacker:
            assert attacker.stdout is not None
            attacker.stdout.readline()
            try:
                for _ in range(tries):
                    try:
                        seen.add(root.read(path, LIMIT))
                    except Unreadable as error:
                        seen.add(error.reason)
            finally:
                attacker.kill()
        return seen

    @pytest.mark.parametrize("case", CASES)
    def test_no_read_escapes(self, top: Path, case: str) -> None:
        seen = self.race(top, case, 3000)
        assert seen <= {b"inside", Reason.MISSING_OR_UNREADABLE, Reason.CHANGED}

    @pytest.mark.long
    @pytest.mark.parametrize("case", CASES)
    def test_no_read_escapes_in_a_hundred_thousand_tries(self, top: Path, case: str) -> None:
        seen = self.race(top, case, 100_000)
        assert seen <= {b"inside", Reason.MISSING_OR_UNREADABLE, Reason.CHANGED}
        assert len(seen) > 1, "the race was not run"

    def test_a_root_that_is_exchanged_for_a_link_stays_the_folder_that_was_opened(self, top: Path) -> None:
        (top.parent / "outside" / "folder").mkdir()
        (top.parent / "outside" / "folder" / "a").write_bytes(b"SECRET")
        with Root(top) as root:
            top.rename(top.parent / "moved")
            top.symlink_to("outside")
            assert root.read("folder/a", LIMIT) == b"inside"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def failing(call: str, number: int, monkeypatch: Patch, *, nth: int = 1) -> None:
    """The nth such system call of `files` fails; the others do not."""
    real: Callable[..., object] = getattr(os, call)
    calls = 0

    def fail(*arguments: object, **named: object) -> object:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **named)

    monkeypatch.setattr(os, call, fail)


class TestPublishingEach:
    """Several files of one folder, which is brought to the disk once."""

    def test_each_is_whole_and_private_and_those_that_were_there_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "b").write_bytes(b"theirs")
        assert publish_each(tmp_path, {"a": b"1", "b": b"2", "c": b"3"}) == ["b"]
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"1", "b": b"theirs", "c": b"3"}
        assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ac"} == {0o600}

    @pytest.mark.parametrize("there", [0, 1, 3])
    def test_the_folder_waits_for_the_disk_once_also_where_all_were_there(self, there: int, tmp_path: Path, monkeypatch: Patch) -> None:
        contents = {"a": b"1", "b": b"2", "c": b"3"}
        publish_each(tmp_path, dict([*contents.items()][:there]))
        folders: list[bool] = []
        monkeypatch.setattr(os, "fsync", lambda descriptor: folders.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
        publish_each(tmp_path, contents)
        assert folders == [False] * (3 - there) + [True]

    @pytest.mark.parametrize("call, nth", [("write", 2), ("fsync", 2), ("link", 2), ("fsync", 4)])
    def test_what_fails_leaves_whole_files_alone(self, call: str, nth: int, tmp_path: Path, monkeypatch: Patch) -> None:
        failing(call, errno.ENOSPC, monkeypatch, nth=nth)
        refused = refusal(lambda: publish_each(tmp_path, {"a": b"1", "b": b"2", "c": b"3"}))
        assert (type(refused), refused.reason, refused.where) == (Conflict, Reason.WRITE_FAILED, tmp_path.name)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()}.items() <= {"a": b"1", "b": b"2", "c": b"3"}.items()

    def test_no_files_are_none(self, tmp_path: Path) -> None:
        assert publish_each(tmp_path, {}) == []
        assert names(tmp_path) == []


class TestPublishing:
    @pytest.mark.parametrize("umask", [0, 0o077, 0o777])
    def test_a_published_file_is_whole_private_and_has_one_name(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            publish(tmp_path / "a.json", b"data")
        finally:
            os.umask(before)
        status = (tmp_path / "a.json").stat()
        assert (status.st_size, stat.S_IMODE(status.st_mode), status.st_nlink) == (4, 0o600, 1)
        assert (tmp_path / "a.json").read_bytes() == b"data"
        assert names(tmp_path) == ["a.json"]

    @pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling link", "fifo"])
    def test_what_is_there_already_stays_as_it_is(self, tmp_path: Path, kind: str) -> None:
        target, other = tmp_path / "a.json", tmp_path / "other"
        other.write_bytes(b"old")
        make: dict[str, Callable[[], object]] = {
            "file": lambda: target.write_bytes(b"old"),
            "folder": target.mkdir,
            "link": lambda: target.symlink_to("other"),
            "dangling link": lambda: target.symlink_to("nowhere"),
            "fifo": lambda: os.mkfifo(target),
        }
        make[kind]()
        before = target.lstat()
        refused = refusal(lambda: publish(target, b"new"))
        assert (type(refused), refused.reason, refused.where) == (Conflict, Reason.OUTPUT_EXISTS, "a.json")
        assert target.lstat() == before
        assert other.read_bytes() == b"old"
        assert names(tmp_path) == ["a.json", "other"]

    def test_a_target_that_appears_at_the_last_moment_stays_as_it_is(self, tmp_path: Path, monkeypatch: Patch) -> None:
        target, fsync = tmp_path / "a.json", os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: (target.write_bytes(b"theirs"), fsync(descriptor)))
        assert refusal(lambda: publish(target, b"ours")).reason is Reason.OUTPUT_EXISTS
        assert target.read_bytes() == b"theirs"
        assert names(tmp_path) == ["a.json"]

    def test_of_many_that_publish_one_name_exactly_one_succeeds(self, tmp_path: Path) -> None:
        def attempt(number: int) -> int | None:
            try:
                publish(tmp_path / "a.json", str(number).encode() * 1000)
            except Conflict as error:
                assert error.reason is Reason.OUTPUT_EXISTS
                return None
            return number

        with ThreadPoolExecutor(8) as pool:
            winners = [number for number in pool.map(attempt, range(40)) if number is not None]
        assert len(winners) == 1
        assert (tmp_path / "a.json").read_bytes() == str(winners[0]).encode() * 1000
        assert names(tmp_path) == ["a.json"]

    @pytest.mark.parametrize("writing", [publish, replace])
    def test_a_folder_that_is_missing_a_file_or_a_link_is_refused(self, tmp_path: Path, writing: Callable[[Path, bytes], None]) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        (tmp_path / "file").touch()
        for folder in ("missing", "link", "file"):
            refused = refusal(lambda folder=folder: writing(tmp_path / folder / "a.json", b"x"))  # type: ignore[misc]
            assert refused.reason is Reason.OUTPUT_INVALID
            assert str(tmp_path) not in str(refused)
        assert names(tmp_path / "real") == []

    def test_a_folder_reached_through_a_link_is_fine(self, tmp_path: Path) -> None:
        (tmp_path / "real" / "deep").mkdir(parents=True)
        (tmp_path / "link").symlink_to("real")
        publish(tmp_path / "link" / "deep" / "a", b"x")
        assert (tmp_path / "real" / "deep" / "a").read_bytes() == b"x"

    def test_a_name_of_255_bytes_is_published_and_one_of_256_is_refused(self, tmp_path: Path) -> None:
        publish(tmp_path / ("a" * 255), b"x")
        assert refusal(lambda: publish(tmp_path / ("b" * 256), b"x")).reason is Reason.WRITE_FAILED
        assert names(tmp_path) == ["a" * 255]

    @pytest.mark.parametrize("writing", [publish, replace])
    def test_short_writes_are_continued(self, tmp_path: Path, writing: Callable[[Path, bytes], None], monkeypatch: Patch) -> None:
        write = os.write
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
        writing(tmp_path / "a", bytes(range(256)))
        assert (tmp_path / "a").read_bytes() == bytes(range(256))

    def test_a_system_that_takes_no_more_bytes_is_believed(self, tmp_path: Path, monkeypatch: Patch) -> None:
        monkeypatch.setattr(os, "write", lambda *_: 0)
        assert refusal(lambda: publish(tmp_path / "a", b"x")).reason is Reason.WRITE_FAILED
        assert names(tmp_path) == []

    FAULTS = (("open", 2), ("fchmod", 1), ("write", 1), ("fsync", 1), ("link", 1), ("fsync", 2))

    @pytest.mark.parametrize(("call", "nth"), FAULTS)
    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT])
    def test_a_publication_that_fails_leaves_nothing(self, tmp_path: Path, call: str, nth: int, number: int, monkeypatch: Patch) -> None:
        failing(call, number, monkeypatch, nth=nth)
        refused = refusal(lambda: publish(tmp_path / "a", b"new"))
        assert (refused.reason, refused.message) == (Reason.WRITE_FAILED, f"the system refused to write: {os.strerror(number)}")
        assert names(tmp_path) == []
        publish(tmp_path / "a", b"new")

    def test_a_temporary_name_that_cannot_be_removed_does_not_undo_the_publication(self, tmp_path: Path, monkeypatch: Patch) -> None:
        failing("unlink", errno.EIO, monkeypatch)
        publish(tmp_path / "a", b"new")
        assert (tmp_path / "a").read_bytes() == b"new"
        assert sweep(tmp_path) == 1
        assert names(tmp_path) == ["a"]

    @pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
    def test_a_file_system_without_hard_links_is_refused_by_its_name(self, tmp_path: Path, number: int, monkeypatch: Patch) -> None:
        failing("link", number, monkeypatch)
        refused = refusal(lambda: publish(tmp_path / "a", b"new"))
        assert refused.reason is Reason.WRITE_FAILED
        assert "hard link" in refused.message
        assert names(tmp_path) == []


class TestReplacing:
    def test_the_new_bytes_take_the_place_of_the_old(self, tmp_path: Path) -> None:
        for data in (b"old", b"new"):
            replace(tmp_path / "a", data)
            assert (tmp_path / "a").read_bytes() == data
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
        assert names(tmp_path) == ["a"]

    def test_a_link_is_replaced_and_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "other").write_bytes(b"theirs")
        (tmp_path / "a").symlink_to("other")
        replace(tmp_path / "a", b"ours")
        assert not (tmp_path / "a").is_symlink()
        assert (tmp_path / "other").read_bytes() == b"theirs"

    @pytest.mark.parametrize(("call", "nth"), [("open", 2), ("fchmod", 1), ("write", 1), ("fsync", 1), ("rename", 1)])
    def test_a_replacement_that_fails_leaves_the_old_bytes(self, tmp_path: Path, call: str, nth: int, monkeypatch: Patch) -> None:
        replace(tmp_path / "a", b"old")
        failing(call, errno.ENOSPC, monkeypatch, nth=nth)
        assert refusal(lambda: replace(tmp_path / "a", b"new")).reason is Reason.WRITE_FAILED
        assert (tmp_path / "a").read_bytes() == b"old"
        assert names(tmp_path) == ["a"]

    def test_a_reader_sees_the_old_bytes_or_the_new_and_nothing_between(self, tmp_path: Path) -> None:
        values = {b"a" * 50_000, b"b" * 50_000}
        replace(tmp_path / "a", b"a" * 50_000)
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                for value in values:
                    replace(tmp_path / "a", value)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert {(tmp_path / "a").read_bytes() for _ in range(200)} <= values
        finally:
            stop.set()
            writer.join()


class TestSweeping:
    def test_only_what_a_killed_writer_left_is_removed(self, tmp_path: Path) -> None:
        ours = ".sdaqf-0123456789abcdef.tmp"
        kept = ["a.json", ".sdaqf-0123.tmp", ".sdaqf-0123456789abcdeX.tmp", "x" + ours, ours + ".json"]
        for name in (*kept, ours):
            (tmp_path / name).touch()
        assert sweep(tmp_path) == 1
        assert names(tmp_path) == sorted(kept)

    def test_a_writer_that_is_killed_leaves_nothing_but_what_is_swept(self, tmp_path: Path) -> None:
        code = (
            "import os, signal, sys; from pathlib import Path; from sdaqf_tasks.disk import files;"
            "os.link = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL); files.publish(Path(sys.argv[1]), b'x')"
        )
        assert subprocess.run([sys.executable, "-c", code, tmp_path / "a"], check=False).returncode == -9
        assert len(names(tmp_path)) == 1
        assert sweep(tmp_path) == 1
        assert names(tmp_path) == []


class TestFolders:
    def test_folders_are_made_where_they_are_missing(self, tmp_path: Path) -> None:
        for _ in range(2):
            make_folder(tmp_path / "a" / "b" / "c", within=tmp_path)
            make_folder(tmp_path / "d" / "e")
        assert (tmp_path / "a" / "b" / "c").is_dir()
        assert (tmp_path / "d" / "e").is_dir()

    def test_no_folder_below_the_top_may_be_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "top").mkdir()
        (tmp_path / "top" / "link").symlink_to("../outside")
        (tmp_path / "top" / "file").touch()
        for path in ("link", "link/a", "file", "file/a", "../outside/a"):
            refused = refusal(lambda path=path: make_folder(tmp_path / "top" / path, within=tmp_path / "top"))  # type: ignore[misc]
            assert refused.reason is Reason.OUTPUT_INVALID
        assert refusal(lambda: make_folder(tmp_path / "top" / "link")).reason is Reason.OUTPUT_INVALID
        assert names(tmp_path / "outside") == []


class TestLock:
    def test_who_comes_second_is_refused_and_who_comes_after_is_not(self, tmp_path: Path) -> None:
        with Lock(tmp_path / "lock", 0):
            inode = (tmp_path / "lock").stat().st_ino
            refused = refusal(lambda: Lock(tmp_path / "lock", 0).__enter__())
            assert (type(refused), refused.reason) == (Conflict, Reason.LOCKED)
        with Lock(tmp_path / "lock", 0):
            pass
        status = (tmp_path / "lock").stat()
        assert (status.st_ino, stat.S_IMODE(status.st_mode)) == (inode, 0o600)

    def test_waiting_is_reported_once_after_a_second_and_given_up_after_the_wait(self, tmp_path: Path, monkeypatch: Patch) -> None:
        now, reported = [0.0], list[float]()
        monkeypatch.setattr(time, "monotonic", lambda: now[0])
        monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
        with Lock(tmp_path / "lock", 0):
            assert refusal(lambda: Lock(tmp_path / "lock", 5, lambda: reported.append(now[0])).__enter__()).reason is Reason.LOCKED
        assert [round(moment) for moment in reported] == [1]
        assert 5 <= now[0] < 5.2

    @pytest.mark.parametrize("target", ["outside", "nowhere"])
    def test_a_lock_that_is_a_link_is_refused(self, tmp_path: Path, target: str) -> None:
        (tmp_path / "outside").write_bytes(b"theirs")
        (tmp_path / "lock").symlink_to(target)
        assert refusal(lambda: Lock(tmp_path / "lock", 0).__enter__()).reason is Reason.OUTPUT_INVALID
        assert names(tmp_path) == ["lock", "outside"]
        assert (tmp_path / "outside").read_bytes() == b"theirs"

    def test_a_lock_that_is_a_fifo_is_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "lock")
        assert refusal(lambda: Lock(tmp_path / "lock", 0).__enter__()).reason is Reason.OUTPUT_INVALID

    def test_a_holder_that_is_killed_blocks_nobody(self, tmp_path: Path) -> None:
        code = (
            "import sys, time; from pathlib import Path; from sdaqf_tasks.disk.files import Lock;"
            "Lock(Path(sys.argv[1]), 0).__enter__(); print('held', flush=True); time.sleep(60)"
        )
        with subprocess.Popen([sys.executable, "-c", code, tmp_path / "lock"], stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            assert refusal(lambda: Lock(tmp_path / "lock", 0).__enter__()).reason is Reason.LOCKED
            holder.kill()
            holder.wait()
            with Lock(tmp_path / "lock", 5):
                pass

    def test_a_lock_whose_folder_was_deleted_and_made_again_is_not_the_lock(self, tmp_path: Path) -> None:
        with Lock(tmp_path / "lock", 0):
            (tmp_path / "lock").unlink()
            with Lock(tmp_path / "lock", 0):
                assert refusal(lambda: Lock(tmp_path / "lock", 0).__enter__()).reason is Reason.LOCKED
