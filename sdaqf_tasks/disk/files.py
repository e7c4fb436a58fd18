"""This module reads files that cannot lead the reader astray, and writes files that survive.

Reading goes by descriptor, one component after the other, and follows no link (FORMAT 5.1, 17.9). Writing is a
temporary file, fsync, an exclusive link or an atomic rename, fsync of the folder; only then does it return.
A file system without hard links cannot publish exclusively: `publish` refuses there, it does not try something weaker.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError, Unreadable

CHUNK = 1_048_576
SETTLED_NS = 2_000_000_000
"""How much older than an observation a time stamp must be, to tell that nothing was written since."""

DEEPEST = 200
"""Folders that a path may have above its last component; each costs a descriptor while it is walked."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
TEMPORARY = re.compile(r"\.sdaqf-[0-9a-f]{16}\.tmp")
"""The name of a file that is being written."""


class Mark(NamedTuple):
    """What tells whether an entry is still the one that was read."""

    mode: int
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_mode, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def settled(self, moment_ns: int) -> bool:
        """Whether the entry was last written so long before the moment that a later write shows in the mark."""
        return max(self.mtime_ns, self.ctime_ns) + SETTLED_NS <= moment_ns


class Closing:
    """What a `with` closes at its end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError


def shown(name: str) -> str:
    """The name as a message may hold it: nothing that a terminal would obey."""
    return name if name.isprintable() else ascii(name)[1:-1]


def components(path: str) -> tuple[bytes, ...]:
    """The components of a relative path, as the bytes that the system knows (UTF-8 with surrogate escapes).

    Raises `Unreadable` for what is no path below a root, or has a component `.git` in any case (FORMAT 17.7).
    """
    try:
        parts = tuple(path.encode("utf-8", "surrogateescape").split(b"/"))
    except UnicodeEncodeError:
        parts = ()
    if not 0 < len(parts) <= DEEPEST + 1 or any(part in (b"", b".", b"..") or b"\0" in part or part.lower() == b".git" for part in parts):
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "the path names no file below the root that may be read", at=shown(path))
    return parts


class File(Closing):
    """A regular file, open for reading. `mark` is how it was before its first byte was read."""

    def __init__(self, name: bytes | Path, folder: int | None = None) -> None:
        before = os.stat(name, dir_fd=folder, follow_symlinks=False)  # a device must not even be opened
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        self._descriptor = os.open(name, _FILE, dir_fd=folder)
        self.mark = Mark.of(os.fstat(self._descriptor))
        self._same = self.mark == Mark.of(before)

    def close(self) -> None:
        os.close(self._descriptor)

    def chunks(self, limit: int) -> Iterator[bytes]:
        """All bytes, in pieces. Ends normally only where the file was still during the reading (FORMAT 5.1, 4 and 5)."""
        size = self.mark.size
        if stat.S_ISREG(self.mark.mode) and size > limit:
            raise Unreadable(Reason.SOURCE_BYTE_LIMIT, f"the file has {size} bytes, more than are read here")
        done = 0
        while self._same and (piece := os.read(self._descriptor, min(CHUNK, size + 1 - done))):
            done += len(piece)
            if done > size:
                break
            yield piece
        if not self._same or done != size or Mark.of(os.fstat(self._descriptor)) != self.mark:
            raise Unreadable(Reason.CHANGED, "the file changed while it was read")


class Walk(Closing):
    """One walk below a root. The folders of the last path stay open, so that its neighbours cost one call.

    Short-lived by design: a folder that stays open is not noticed when it is moved. The methods raise `OSError`.
    """

    def __init__(self, root: int) -> None:
        self._open = [root]
        self._folder: tuple[bytes, ...] = ()

    def close(self) -> None:
        self.enter(())

    def enter(self, folder: tuple[bytes, ...]) -> int:
        """The descriptor of the folder; it stays ours."""
        while self._folder != folder[: len(self._folder)]:
            self._folder = self._folder[:-1]
            os.close(self._open.pop())
        for part in folder[len(self._folder) :]:
            self._open.append(os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=self._open[-1]))
            self._folder = (*self._folder, part)
        return self._open[-1]

    def lstat(self, parts: tuple[bytes, ...]) -> os.stat_result:
        return os.stat(parts[-1], dir_fd=self.enter(parts[:-1]), follow_symlinks=False)

    def readlink(self, parts: tuple[bytes, ...]) -> bytes:
        return os.readlink(parts[-1], dir_fd=self.enter(parts[:-1]))

    def open(self, parts: tuple[bytes, ...]) -> File:
        return File(parts[-1], self.enter(parts[:-1]))


class Root(Closing):
    """A folder below which files are read. It may be reached through links, but is none itself (FORMAT 5.1, 1)."""

    def __init__(self, path: Path) -> None:
        try:
            if path.is_symlink():
                raise Refused(Reason.ROOT_IS_A_LINK, "the root itself is a symbolic link")
            self.path = path.resolve(strict=True)
            self.descriptor = os.open(self.path, _FOLDER | os.O_NOFOLLOW)
        except (OSError, RuntimeError, ValueError) as error:
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, "the root is not a folder that can be read") from error

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def walk(self) -> Walk:
        return Walk(self.descriptor)

    def has(self, path: str) -> bool:
        """Whether anything is there, readable or not."""
        return os.path.lexists(self.path / path)

    def read(self, path: str, limit: int) -> bytes:
        """The whole file.

        Raises `Unreadable`: SOURCE_BYTE_LIMIT over `limit` bytes, CHANGED where it moved, else MISSING_OR_UNREADABLE.
        """
        parts = components(path)
        with self.walk() as walk:
            return _whole(lambda: walk.open(parts), limit, shown(path))


def read_file(path: Path, limit: int) -> bytes:
    """The whole of a file that the caller named. Its folder may be a link, the file itself not. Raises as `Root.read`."""
    return _whole(lambda: File(path), limit, shown(path.name))


def _whole(opening: Callable[[], File], limit: int, at: str) -> bytes:
    try:
        with opening() as file:
            return b"".join(file.chunks(limit))
    except Unreadable as error:
        raise Unreadable(error.reason, error.message, at=at) from None
    except (OSError, ValueError) as error:
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "the file is missing, a link, not regular, or closed to us", at=at) from error


def publish(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make a file that was not there; afterwards it is on the disk, whole. An existing target stays as it is.

    Raises `Conflict`: OUTPUT_EXISTS, OUTPUT_INVALID (the folder is missing or a link), WRITE_FAILED.
    """
    with _folder(path) as folder:
        if not _published(path.name, data, mode, folder):
            raise Conflict(Reason.OUTPUT_EXISTS, "the output is there already", at=shown(path.name))
        try:
            os.fsync(folder)
        except OSError:  # not on the disk: then not there at all
            os.unlink(path.name, dir_fd=folder)
            raise


def publish_each(place: Path, contents: Mapping[str, bytes]) -> list[str]:
    """Make files of one folder; afterwards every one is on the disk, whole. The names of those that were there, and stay as they are.

    The folder is brought to the disk once, also where all were there: who made them may have died before. Raises
    `Conflict` as `publish`; then some may be there, each of them whole.
    """
    with _folder(place / place.name) as folder:
        there = [name for name, data in contents.items() if not _published(name, data, 0o600, folder)]
        os.fsync(folder)
    return there


def _published(name: str, data: bytes, mode: int, folder: int) -> bool:
    """Link the file, whole, into its folder, which is not brought to the disk yet; False where the name is taken."""
    if _status(name, folder):
        return False
    with _temporary(folder, data, mode) as temporary:
        try:
            os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
                raise OSError(error.errno, "the file system makes no hard link, which an exclusive output needs") from error
            raise
    return True


def replace(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Make the file hold these bytes: at every moment, and after a crash, it is the old one or the new one, whole.

    Raises `Conflict`: OUTPUT_INVALID, WRITE_FAILED (also where only the last fsync failed: then it is already the new one).
    """
    with _folder(path) as folder:
        with _temporary(folder, data, mode) as temporary:
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)


def remove(path: Path) -> None:
    """Take a file away, if it is there. Raises `Conflict` with WRITE_FAILED."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise Conflict(Reason.WRITE_FAILED, f"the system refused to remove it: {error.strerror}", at=shown(path.name)) from error


def sweep(path: Path) -> int:
    """Remove what killed writers left in a folder; the number of files. Only for who holds the lock of its writers."""
    with _folder(path / "_") as folder:
        with os.scandir(folder) as entries:
            left = [entry.name for entry in entries if TEMPORARY.fullmatch(entry.name)]
        for name in left:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
    return len(left)


def make_folder(path: Path, *, within: Path | None = None, mode: int = 0o700) -> None:
    """Make the folder, with those above it, unless it is there.

    No component below `within` may be a link; `within` must exist, and is by default the nearest folder that does.
    Raises `Conflict`: OUTPUT_INVALID, WRITE_FAILED.
    """
    above = within if within is not None else next(parent for parent in path.absolute().parents if parent.exists())
    with _folder(above / "_", link=True) as folder:
        current = os.dup(folder)
        try:
            for part in path.absolute().relative_to(above.absolute()).parts:
                if part == "..":
                    raise Conflict(Reason.OUTPUT_INVALID, "the folder's path goes up again", at=shown(path.name))
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, mode, dir_fd=current)
                    os.fsync(current)
                try:
                    deeper = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=current)
                except OSError as error:
                    raise _invalid(error, part) from error
                os.close(current)
                current = deeper
        finally:
            os.close(current)


class Lock:
    """A lock on one permanent file, which is never unlinked. A holder that dies lets go of it.

    `report` is called once when the waiting has lasted a second. Raises `Conflict`: LOCKED after `wait` seconds,
    OUTPUT_INVALID where the file is a link or not regular, WRITE_FAILED.
    """

    def __init__(self, path: Path, wait: float, report: Callable[[], object] = lambda: None) -> None:
        self._path, self._wait, self._report = path, wait, report
        self._descriptor = -1

    def __enter__(self) -> Self:
        began, reported = time.monotonic(), False
        while not self._taken():
            waited = time.monotonic() - began
            if waited >= self._wait:
                raise Conflict(Reason.LOCKED, f"another run held the lock for {self._wait:g} seconds", at=shown(self._path.name))
            if waited >= 1 and not reported:
                reported = True
                self._report()
            time.sleep(min(0.05, self._wait - waited))
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def _taken(self) -> bool:
        name = self._path.name
        with _folder(self._path) as folder:
            if (there := _status(name, folder)) and not stat.S_ISREG(there.st_mode):
                raise Conflict(Reason.OUTPUT_INVALID, "the lock is not a regular file", at=shown(name))
            self._descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=folder)
            taken = False
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # The folder may have been deleted and made again meanwhile: then this is nobody's lock.
                there = _status(name, folder)
                taken = there is not None and os.path.samestat(os.fstat(self._descriptor), there)
            except BlockingIOError:
                pass
            finally:
                if not taken:
                    os.close(self._descriptor)
            return taken


@contextlib.contextmanager
def alone(folders: Iterable[Path]) -> Iterator[None]:
    """While nobody else is inside who asks for one of these folders. Nothing is written, and where a file system knows no lock
    on a folder there is none."""
    with contextlib.ExitStack() as held:
        for path in sorted(set(folders)):
            folder = held.enter_context(_folder(path / "_"))
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_EX)
        yield


def _status(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _invalid(error: OSError, at: str) -> SdaqfError:
    return Conflict(Reason.OUTPUT_INVALID, f"the folder cannot be written to, or is a link: {error.strerror}", at=shown(at))


@contextlib.contextmanager
def _folder(path: Path, *, link: bool = False) -> Iterator[int]:
    """The folder of a file to be written, open. What the system refuses inside becomes WRITE_FAILED."""
    try:
        folder = os.open(path.parent, _FOLDER if link else _FOLDER | os.O_NOFOLLOW)
    except OSError as error:
        raise _invalid(error, path.parent.name if path.name == "_" else path.name) from error
    try:
        yield folder
    except OSError as error:
        reason = Reason.OUTPUT_INVALID if isinstance(error, IsADirectoryError) else Reason.WRITE_FAILED
        raise Conflict(reason, f"the system refused to write: {error.strerror}", at=shown(path.name)) from error
    finally:
        os.close(folder)


@contextlib.contextmanager
def _temporary(folder: int, data: bytes, mode: int) -> Iterator[str]:
    """A temporary file with these bytes, on the disk. Whatever happens inside, its name is gone afterwards.

    A name that cannot be removed is left to `sweep`: the file that was published is whole all the same.
    """
    name = f".sdaqf-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        try:
            os.fchmod(descriptor, mode)
            rest = memoryview(data)
            while rest:
                written = os.write(descriptor, rest)
                if not written:
                    raise OSError(errno.EIO, "nothing more is taken")
                rest = rest[written:]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        yield name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
