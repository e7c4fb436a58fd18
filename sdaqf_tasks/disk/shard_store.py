"""This module keeps one shard on the disk: immutable objects, and one pointer, `HEAD` (ABSTRACTIONS 1.1).

core/ · project/ID/        one folder a shard, below a root that git ignores
    HEAD                   the id of a state; replaced atomically, after every object that it needs is on the disk
    objects/ID.json        the canonical bytes that the id is the digest of
    lock                   one permanent file; beside the shards lies another, for who makes one
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict, Invalid, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.records import OBJECT_ID, Kind, Shard, State, decode, shard

OBJECT_BYTES = 33_554_432
"""Bytes that an object may have: a catalog's bound, and what its form adds."""

HEAD_BYTES = 256
IGNORING = b"*\n"
TRIES = 100
"""Times that a file is read again which was replaced meanwhile."""

KEPT = 100_000
"""Objects that one process keeps."""

_OURS = re.compile(r"\.gitignore|lock|token-[0-9]+|(core|project/[^/]+)/(HEAD|lock|objects/SHARD-[^/]+)")
_LOST = "`sdaqf shard fsck` lists the states that nothing follows; write the id of the last one into HEAD."


class ShardStore:
    """One shard. `root` lies below `top`, and nothing from there to an object may be a link: a repository can bring links."""

    def __init__(self, top: Path, root: str, which: Shard) -> None:
        self.top, self.root, self.shard = top, top / root, which
        self.folder = self.root / ("core" if which.kind is Kind.CORE else f"project/{which.id}")
        self._kept: dict[str, Any] = {}
        self._swept = False

    @property
    def is_there(self) -> bool:
        """Whether the shard was created, also where its HEAD is lost. Raises `Unreadable` where a link leads to it."""
        return self._is_made() and (os.path.lexists(self.folder / "HEAD") or self._has_history())

    def create(self, state_id: str, objects: Mapping[str, bytes]) -> None:
        """Make the shard, whose first state this is. Raises `Conflict`: SHARD_EXISTS, or as the writing does."""
        self._verify_new()
        self._verify_ours()
        files.make_folder(self.folder / "objects", within=self.top)
        with files.Lock(self.root / "lock", 60):
            files.sweep(self.root)
            self.verify_ignored()
        with self.lock(60):
            self._verify_new()
            self.advance(state_id, objects)

    def _verify_new(self) -> None:
        if self.is_there:
            self.pointed()
            raise Conflict(Reason.SHARD_EXISTS, f"{self.shard} is there already")

    def _verify_ours(self) -> None:
        """Raise `Conflict` where a file lies below the root that is no shard's: git would not see it any more."""
        for folder, _, names in os.walk(self.root):
            for place in (Path(folder, name) for name in names):
                name = place.relative_to(self.root).as_posix()
                if not _OURS.fullmatch(name) and not files.TEMPORARY.fullmatch(place.name):
                    message = f"the folder of the shards holds {files.shown(name)[:80]}, which is none of theirs"
                    todo = 'Name a folder of its own in the settings: shards = ".sdaqf/shards"'
                    raise Conflict(Reason.OUTPUT_INVALID, message, todo=todo)

    def verify_ignored(self) -> None:
        """Keep git from everything below the root, in this and every later run. Raises `Conflict`: OUTPUT_NOT_IGNORED,
        OUTPUT_INVALID where the repository brought another `.gitignore`."""
        ignore = self.root / ".gitignore"
        try:
            files.publish(ignore, IGNORING, mode=0o644)
        except Conflict as error:
            if error.reason is not Reason.OUTPUT_EXISTS:
                raise
            regular = stat.S_ISREG(ignore.lstat().st_mode)
            if not regular or files.read_file(ignore, OBJECT_BYTES) != IGNORING:
                reason = Reason.OUTPUT_NOT_IGNORED if regular else Reason.OUTPUT_INVALID
                todo = f"Remove {ignore.relative_to(self.top).as_posix()}: it is made anew."
                raise Conflict(reason, "is no file that says `*` alone, and git may see the shards", at=".gitignore", todo=todo) from None

    @contextlib.contextmanager
    def lock(self, wait: float, report: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Hold the shard. Who holds it first in a process removes what killed writers left. Raises as `files.Lock`."""
        self._verify_made()
        self.verify_ignored()
        with files.Lock(self.folder / "lock", wait, report):
            if not self._swept:
                for folder in (self.folder, self.folder / "objects"):
                    files.sweep(folder)
                self._swept = True
            yield

    def _verify_made(self) -> None:
        """Raise `Refused`: NO_SHARD unless there are folders for it; `Unreadable` where they are links, or gone from under HEAD."""
        if not self._is_made():
            raise self._not_created()

    def _not_created(self) -> Refused:
        return Refused(Reason.NO_SHARD, f"{self.shard} has not been created", todo=f"sdaqf shard init --shard {self.shard}")

    def _is_made(self) -> bool:
        if _is_folder(self.top, self.folder / "objects"):
            return True
        if os.path.lexists(self.folder / "HEAD"):
            raise Unreadable(Reason.OBJECT_MISSING, f"{self.shard} has a HEAD and no objects", at="objects", todo="Restore the folder.")
        return False

    def _has_history(self) -> bool:
        """Whether there is a state that is no root, or that nobody can read: without a HEAD, it was lost. The making of a
        shard that was interrupted leaves nothing but roots."""
        for object_id in self.ids():
            if object_id.startswith("SHARD-STATE-"):
                try:
                    state: State = self.get(object_id)
                except SdaqfError:
                    return True
                if state.previous is not None:
                    return True
        return False

    def desk(self) -> Desk:
        """The present state, to look at. Raises as `head`."""
        return Desk(self.head(), self)

    def head(self) -> str:
        """The id of the present state, which is one of this shard. Raises as `pointed` and `get`. Never empty (SH-7)."""
        state_id = self.pointed()
        state: State = self.get(state_id)
        if state.shard != self.shard:
            raise Invalid(Reason.OBJECT_DAMAGED, f"HEAD of {self.shard} holds a state of {state.shard}", at="HEAD", todo="sdaqf shard fsck")
        return state_id

    def pointed(self) -> str:
        """The id that HEAD holds. Raises `Refused`: NO_SHARD; `Unreadable`: OBJECT_MISSING, OBJECT_DAMAGED."""
        self._verify_made()
        if not os.path.lexists(self.folder / "HEAD"):
            if self._has_history():
                raise Unreadable(Reason.OBJECT_MISSING, f"{self.shard} has states and no HEAD", at="HEAD", todo=_LOST)
            raise self._not_created()
        try:
            text = _settled(self.folder / "HEAD", HEAD_BYTES).decode("ascii", "replace")
        except Unreadable as error:
            raise Unreadable(Reason.OBJECT_DAMAGED, f"HEAD of {self.shard}: {error.message}", at="HEAD", todo=_LOST) from None
        if not text.endswith("\n") or not OBJECT_ID.fullmatch(text[:-1]) or not text.startswith("SHARD-STATE-"):
            raise Unreadable(Reason.OBJECT_DAMAGED, f"HEAD of {self.shard} does not hold the id of a state", at="HEAD", todo=_LOST)
        return text[:-1]

    # ---- objects

    def get(self, object_id: str) -> Any:
        """The object, held against its id. Raises `Unreadable`: OBJECT_MISSING, OBJECT_DAMAGED; `Invalid`: OBJECT_DAMAGED."""
        if object_id not in self._kept:
            if len(self._kept) > KEPT:
                self._kept.clear()
            self._kept[object_id] = decode(object_id, self._bytes(object_id))
        return self._kept[object_id]

    def size(self, object_id: str) -> int:
        """Bytes of the object, by its folder's entry alone. Raises `Unreadable`: OBJECT_MISSING."""
        try:
            return self._path(object_id).lstat().st_size
        except OSError as error:
            raise self._lost(object_id, Reason.OBJECT_MISSING, error.strerror or "missing") from None

    def advance(self, state_id: str, objects: Mapping[str, bytes]) -> None:
        """Write the objects that are not there, then point HEAD at the state. For who holds the lock (SH-6).

        An object that is there stays; a damaged one is made again. Raises `Conflict`: then HEAD is what it was.
        """
        head, place = self.folder / "HEAD", self.folder / "objects"
        contents = {f"{object_id}.json": data for object_id, data in objects.items()}
        for name in files.publish_each(place, contents):
            with contextlib.suppress(SdaqfError):
                if self._bytes(name.removesuffix(".json")) == contents[name]:
                    continue
            files.replace(place / name, contents[name])
        before = files.read_file(head, HEAD_BYTES) if os.path.lexists(head) else None
        try:
            files.replace(head, state_id.encode("ascii") + b"\n")
        except Conflict:  # where only its folder did not come to the disk, it is the new one
            with contextlib.suppress(SdaqfError, OSError):
                if before is None:
                    head.unlink()
                elif files.read_file(head, HEAD_BYTES) != before:
                    files.replace(head, before)
            raise

    def names(self) -> list[str]:
        """The names of all files that lie among the objects, ascending."""
        try:
            return sorted(path.name for path in (self.folder / "objects").iterdir())
        except OSError as error:
            raise _closed(Path("objects"), f"cannot be listed: {error.strerror}", todo="See to its permissions.") from None

    def ids(self) -> list[str]:
        """The ids that those files are called after, of those that are called after any."""
        found = (name.removesuffix(".json") for name in self.names() if name.endswith(".json"))
        return [object_id for object_id in found if OBJECT_ID.fullmatch(object_id)]

    def remove(self, object_id: str) -> int:
        """Take an object away; its bytes. For who holds the lock."""
        size = self.size(object_id)
        files.remove(self._path(object_id))
        return size

    def _path(self, object_id: str) -> Path:
        if not OBJECT_ID.fullmatch(object_id):
            raise Invalid(Reason.OBJECT_DAMAGED, f"{files.shown(object_id)[:80]} is the id of no object", todo="sdaqf shard fsck")
        return self.folder / "objects" / f"{object_id}.json"

    def _bytes(self, object_id: str) -> bytes:
        try:
            return _settled(self._path(object_id), OBJECT_BYTES)
        except Unreadable as error:
            missing = error.reason is Reason.MISSING_OR_UNREADABLE
            raise self._lost(object_id, Reason.OBJECT_MISSING if missing else Reason.OBJECT_DAMAGED, error.message) from None

    def _lost(self, object_id: str, reason: Reason, why: str) -> Unreadable:
        message = f"the object {object_id[:24]}… of {self.shard} cannot be read: {why}"
        return Unreadable(reason, message, at=object_id, todo="sdaqf shard fsck")


def shards_there(top: Path, root: str) -> list[Shard]:
    """The shards that were created below the root, damaged ones among them: core first, projects by id.

    Raises `Unreadable` where the root is behind a link.
    """
    folder = top / root / "project"
    projects = sorted(path.name for path in folder.iterdir()) if _is_folder(top, folder) else ()
    found = []
    for name in ("core", *(f"project:{each}" for each in projects)):
        with contextlib.suppress(Refused):  # no name of a shard
            which = shard(name)
            with contextlib.suppress(Unreadable):  # damaged, and so there
                if not ShardStore(top, root, which).is_there:
                    continue
            found.append(which)
    return found


def _settled(path: Path, limit: int) -> bytes:
    """The file, read again where it was replaced meanwhile: who looks holds no lock. Raises as `files.read_file`."""
    for _ in range(TRIES):
        try:
            return files.read_file(path, limit)
        except Unreadable as error:
            if error.reason is not Reason.CHANGED:
                raise
    return files.read_file(path, limit)


def _is_folder(top: Path, folder: Path) -> bool:
    """Whether the folder is there. Raises `Unreadable` where it, or one between it and `top`, is a link or no folder."""
    path = folder.relative_to(top)
    for place in (*reversed(path.parents[:-1]), path):
        try:
            mode = (top / place).lstat().st_mode
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _closed(place, f"cannot be read: {error.strerror}", todo="See to the permissions of its folder.") from None
        if not stat.S_ISDIR(mode):
            raise _closed(place, "is a link or no folder, and no shard is looked for behind it")
    return True


def _closed(place: Path, why: str, todo: str = "Make it a folder, or remove it.") -> Unreadable:
    return Unreadable(Reason.MISSING_OR_UNREADABLE, why, at=files.shown(place.as_posix()), todo=todo)
