"""This module keeps one shard on the disk: immutable objects, and one pointer, `HEAD` (ABSTRACTIONS 1.1).

core/ · project/ID/        one folder a shard, below a root that git ignores
    HEAD                   the id of a state; replaced atomically, after every object that it needs is on the disk
    objects/ID.json        the canonical bytes that the id is the digest of
    lock                   one permanent file
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict, Invalid, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.shards.records import OBJECT_ID, Kind, Shard, decode, shard

OBJECT_BYTES = 33_554_432
"""Bytes that an object may have: a catalog's bound, and what its form adds."""

HEAD_BYTES = 256
_LOST = "Write the id of its last state into HEAD again; `sdaqf shard fsck` lists the states that nothing follows."
KEPT = 100_000
"""Objects that one process keeps."""


class ShardStore:
    """One shard. `root` lies below `top`, and nothing between the two may be a link."""

    def __init__(self, top: Path, root: str, which: Shard) -> None:
        self.top, self.root, self.shard = top, top / root, which
        self.folder = self.root / ("core" if which.kind is Kind.CORE else f"project/{which.id}")
        self._kept: dict[str, Any] = {}
        self._swept = False

    @property
    def is_there(self) -> bool:
        return os.path.lexists(self.folder / "HEAD")

    def create(self, state_id: str, objects: Mapping[str, bytes]) -> None:
        """Make the shard, whose first state this is. Raises `Conflict`: SHARD_EXISTS, or as the writing does."""
        files.make_folder(self.folder / "objects", within=self.top)
        with contextlib.suppress(Conflict):
            files.publish(self.root / ".gitignore", b"*\n", mode=0o644)
        if not (self.root / ".gitignore").is_file():
            raise Conflict(Reason.WRITE_FAILED, "the folder of shards could not be hidden from git", at=".gitignore")
        with self.lock(60):
            if self.is_there:
                raise Conflict(Reason.SHARD_EXISTS, f"{self.shard} is there already")
            if {name for name in self.names() if name.startswith("SHARD-STATE-")} - {f"{state_id}.json"}:
                raise Unreadable(Reason.OBJECT_MISSING, f"{self.shard} has states and no HEAD", todo=_LOST)
            self.advance(state_id, objects)

    @contextlib.contextmanager
    def lock(self, wait: float, report: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Hold the shard. Who holds it first in a process removes what killed writers left. Raises as `files.Lock`."""
        self.verify_made()
        with files.Lock(self.folder / "lock", wait, report):
            if not self._swept:
                for folder in (self.folder, self.folder / "objects"):
                    files.sweep(folder)
                self._swept = True
            yield

    def verify_made(self) -> None:
        if not (self.folder / "objects").is_dir():
            raise Refused(Reason.NO_SHARD, f"{self.shard} has not been created", todo=f"sdaqf shard init --shard {self.shard}")

    def head(self) -> str:
        """The id of the present state. Raises `Refused`: NO_SHARD; `Unreadable`: OBJECT_DAMAGED. Never empty (SH-7)."""
        self.verify_made()
        if not self.is_there:
            if sum(name.startswith("SHARD-STATE-") for name in self.names()) > 1:  # of one alone, the making was interrupted
                raise Unreadable(Reason.OBJECT_MISSING, f"{self.shard} has states and no HEAD", todo=_LOST)
            raise Refused(Reason.NO_SHARD, f"{self.shard} has not been created", todo=f"sdaqf shard init --shard {self.shard}")
        text = files.read_file(self.folder / "HEAD", HEAD_BYTES).decode("ascii", "replace")
        if not text.endswith("\n") or not OBJECT_ID.fullmatch(text[:-1]) or not text.startswith("SHARD-STATE-"):
            raise Unreadable(Reason.OBJECT_DAMAGED, f"HEAD of {self.shard} does not hold the id of a state", todo="sdaqf shard fsck")
        return text[:-1]

    def get(self, object_id: str) -> Any:
        """The object, held against its id. Raises `Unreadable`: OBJECT_MISSING; `Invalid`: OBJECT_DAMAGED."""
        if object_id not in self._kept:
            if len(self._kept) > KEPT:
                self._kept.clear()
            self._kept[object_id] = decode(object_id, self._bytes(object_id))
        return self._kept[object_id]

    def size(self, object_id: str) -> int:
        return self._path(object_id).stat().st_size

    def advance(self, state_id: str, objects: Mapping[str, bytes]) -> None:
        """Write the objects that are not there, then point HEAD at the state. For who holds the lock (SH-6)."""
        for object_id, data in objects.items():
            self._put(object_id, data)
        files.replace(self.folder / "HEAD", state_id.encode("ascii") + b"\n")

    def _put(self, object_id: str, data: bytes) -> None:
        """Keep an object. One that is there already stays; a damaged one is made again."""
        try:
            files.publish(self._path(object_id), data)
        except Conflict as error:
            if error.reason is not Reason.OUTPUT_EXISTS:
                raise
            try:
                intact = self._bytes(object_id) == data
            except SdaqfError:
                intact = False
            if not intact:
                files.replace(self._path(object_id), data)

    def names(self) -> Iterator[str]:
        """The names of all files that lie among the objects."""
        yield from sorted(path.name for path in (self.folder / "objects").iterdir())

    def remove(self, object_id: str) -> int:
        """Take an object away; its bytes. For who holds the lock."""
        path = self._path(object_id)
        size = path.lstat().st_size
        try:
            path.unlink()
        except OSError as error:
            raise Conflict(Reason.WRITE_FAILED, f"the system refused to remove it: {error.strerror}", at=files.shown(path.name)) from error
        return size

    def _path(self, object_id: str) -> Path:
        if not OBJECT_ID.fullmatch(object_id):
            raise Invalid(Reason.OBJECT_DAMAGED, "an object names another one by what is no id", todo="sdaqf shard fsck")
        return self.folder / "objects" / f"{object_id}.json"

    def _bytes(self, object_id: str) -> bytes:
        try:
            return files.read_file(self._path(object_id), OBJECT_BYTES)
        except Unreadable as error:
            message = f"the object {object_id[:24]}… of {self.shard} cannot be read: {error.message}"
            raise Unreadable(Reason.OBJECT_MISSING, message, todo="sdaqf shard fsck") from None


def shards_there(top: Path, root: str) -> list[Shard]:
    """The shards that were created below the root: core first, projects by id."""
    found = [shard("core")] if ShardStore(top, root, shard("core")).is_there else []
    projects = top / root / "project"
    for path in sorted(projects.iterdir()) if projects.is_dir() else ():
        with contextlib.suppress(Refused):
            if ShardStore(top, root, which := shard(f"project:{path.name}")).is_there:
                found.append(which)
    return found
