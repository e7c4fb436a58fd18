"""This module keeps what was built: immutable objects by id, refs that point to them, receipts that say from what (DESIGN).

objects/ID.json        exclusive, mode 0600, held against its id on every read
refs/…                 one line, an id; replaced atomically
refs/….made            the receipt of that ref
out/…                  copies for people, read by nobody here
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Lock
from sdaqf_tasks.errors import Conflict, Invalid, Malformed, Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import artifacts, canonical
from sdaqf_tasks.formats.records import instant

PROGRAM = "1"
"""Version of what stages make of the same inputs; a receipt of another version counts for nothing."""

DOCUMENT = "CTX-DOCUMENT-"
"""Prefix of a document's id; the rest is the SHA-256 of its bytes."""

FOLDERS, IGNORING = ("objects", "refs", "out"), b"*\n"

_ID = re.compile(r"CTX-[A-Z-]+-[0-9A-F]{64}")
_REF_BYTES = 4_096
_RECEIPT_BYTES = 1_048_576


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a ref was made from: input name to id or digest. `until`, a TIME, is when the first required window ends."""

    inputs: dict[str, str]
    output: str
    program: str
    until: str | None = None


class Store:
    """The build folder of a project. Reading needs nothing to be there; writing creates it.

    Nothing between `top` and a file that is written or removed may be a link: a repository can bring links of its own.
    """

    def __init__(self, top: Path, build: str) -> None:
        self.top, self.folder = top, top / build
        self._swept = False

    @property
    def is_there(self) -> bool:
        """Whether the folder is one of ours, and not one of that name which is somebody else's."""
        return all((self.folder / name).is_dir() for name in FOLDERS)

    @property
    def is_foreign(self) -> bool:
        """Whether the folder is none of ours, made or being made."""
        if self.is_there or not self.folder.is_dir():
            return False
        others = {path.name for path in self.folder.iterdir()} - {".gitignore", "lock", *FOLDERS}
        return not all(map(files.TEMPORARY.fullmatch, others))

    def create(self) -> None:
        """The folder with what git must know about it: nothing below it is part of the tree. A `.gitignore` that is there stays."""
        files.make_folder(self.folder, within=self.top)
        if not os.path.lexists(ignore := self.folder / ".gitignore"):
            try:
                files.publish(ignore, IGNORING, mode=0o644)
            except Conflict:
                # Somebody else was faster, and may have swept what we were about to link.
                if not ignore.is_file():
                    raise
        for name in FOLDERS:
            files.make_folder(self.folder / name, within=self.top)

    def ignore(self) -> bool:
        """Make the `.gitignore` what it is when the folder is made, where that is ours; whether it was not."""
        if not self.is_there or self._read(".gitignore", _REF_BYTES) == IGNORING:
            return False
        files.replace(self.folder / ".gitignore", IGNORING, mode=0o644)
        return True

    @contextlib.contextmanager
    def lock(self, wait: float, report: Callable[[], object]) -> Iterator[None]:
        """Hold the project. Who holds it first in a process removes what killed writers left. Raises as `files.Lock`."""
        self.create()
        with Lock(self.folder / "lock", wait, report):
            if not self._swept:
                self.sweep()
                self._swept = True
            yield

    # ---- objects

    def put(self, object_id: str, data: bytes) -> None:
        """Keep an object. One that is there already stays; a damaged one is made again."""
        path = self._object(object_id)
        try:
            files.publish(path, data)
        except Conflict as error:
            if error.reason is not Reason.OUTPUT_EXISTS:
                raise
            with contextlib.suppress(SdaqfError):
                if self.get(object_id) == data:
                    return
            files.replace(path, data)

    def get(self, object_id: str) -> bytes:
        """The bytes of an object, which are what its id says. Raises `Unreadable`: OBJECT_MISSING, OBJECT_DAMAGED."""
        path = self._object(object_id)
        try:
            data = files.read_file(path, canonical.ARTIFACT_BYTES)
        except Unreadable as error:
            reason = Reason.OBJECT_MISSING if error.reason is Reason.MISSING_OR_UNREADABLE else Reason.OBJECT_DAMAGED
            raise Unreadable(reason, f"the object {object_id[:24]}… cannot be read: {error.message}") from None
        if not _is_intact(object_id, data):
            raise Unreadable(Reason.OBJECT_DAMAGED, f"the object {object_id[:24]}… is not what its name says")
        return data

    def verify(self, object_id: str) -> None:
        """Raise as `get` does."""
        self.get(object_id)

    def _object(self, object_id: str) -> Path:
        if not _ID.fullmatch(object_id):
            raise Unreadable(Reason.OBJECT_MISSING, "a ref does not hold an id")
        return self.folder / "objects" / object_name(object_id)

    # ---- refs

    def ref(self, name: str) -> str | None:
        """The id that a ref holds, or None where there is no such ref or it holds something else."""
        data = self._read(f"refs/{name}", _REF_BYTES)
        text = data.decode("ascii", "replace") if data is not None else ""
        return text[:-1] if text.endswith("\n") and "\n" not in text[:-1] else None

    def receipt(self, name: str) -> Receipt | None:
        """The receipt of a ref, or None where it is missing or damaged."""
        data = self._read(f"refs/{name}.made", _RECEIPT_BYTES)
        with contextlib.suppress(Malformed, msgspec.ValidationError, Invalid):
            found = msgspec.convert(canonical.load(data) if data is not None else None, Receipt)
            return found if found.until is None or instant(found.until) else None
        return None

    def point(self, name: str, receipt: Receipt) -> None:
        """Make a ref hold the receipt's output; the receipt is there first."""
        path = self._folder_of(f"refs/{name}")
        files.replace(path.with_name(path.name + ".made"), canonical.render(msgspec.to_builtins(receipt)))
        files.replace(path, receipt.output.encode("ascii") + b"\n")

    def withdraw(self, name: str) -> None:
        """Take a ref and its receipt away."""
        for suffix in ("", ".made"):
            self.remove(f"refs/{name}{suffix}")

    def manifests(self) -> list[str]:
        """The manifests of which there are refs, whether or not there is a YAML file by now."""
        return self._folders("refs/m")

    def queries(self, manifest: str) -> list[str]:
        """The queries of which a manifest has refs, whatever its YAML says by now."""
        return self._folders(f"refs/m/{manifest}/q")

    def _folders(self, name: str) -> list[str]:
        folder = self.folder / name
        return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []

    # ---- what people open

    def shows(self, name: str, data: bytes) -> bool:
        """Whether the copy under `out/` is there and whole."""
        return self._read(f"out/{name}", len(data)) == data

    def show(self, name: str, data: bytes) -> None:
        """Put a whole copy under `out/`, unless it is there."""
        if not self.shows(name, data):
            files.replace(self._folder_of(f"out/{name}"), data)

    def hide(self, name: str) -> None:
        """Take a copy away, and its folder with the last one."""
        self.remove(f"out/{name}")
        with contextlib.suppress(OSError):
            (self.folder / "out" / name).parent.rmdir()

    # ---- housekeeping

    def references(self) -> Iterator[str]:
        """The ids that refs hold."""
        root = self.folder / "refs"
        for path in sorted(root.rglob("*")) if root.is_dir() else ():
            if path.suffix != ".made" and path.is_file() and (held := self.ref(path.relative_to(root).as_posix())):
                yield held

    def collect(self) -> tuple[int, int]:
        """Remove the objects that no ref reaches, and what killed writers left. Returns how many, and their bytes.

        For who holds the lock.
        """
        kept = {self._object(held).name for held in self.references() if _ID.fullmatch(held)}
        objects = self.folder / "objects"
        removed = size = 0
        for path in sorted(objects.iterdir()) if objects.is_dir() else ():
            if path.name not in kept and path.is_file() and not path.is_symlink():
                size += path.stat().st_size
                self.remove(f"objects/{path.name}")
                removed += 1
        self.sweep()
        return removed, size

    def sweep(self) -> None:
        """Remove what killed writers left anywhere in the folder. For who holds the lock."""
        for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir() and not path.is_symlink())):
            files.sweep(folder)

    def _folder_of(self, name: str) -> Path:
        """The path of a file in the build folder, whose folder is made."""
        path = self.folder / name
        files.make_folder(path.parent, within=self.top)
        return path

    def remove(self, name: str) -> None:
        """Take a file of the build folder away, if it is there. For who holds the lock."""
        path = self.folder / name
        if self.is_led_to(path.parent):
            raise Conflict(Reason.OUTPUT_INVALID, "the folder is a link", at=files.shown(path.name))
        files.remove(path)

    def is_led_to(self, folder: Path) -> bool:
        """Whether a link leads from the top to a folder, or the folder is one."""
        return any(each.is_symlink() for each in (folder, *folder.parents) if each != self.top and each.is_relative_to(self.top))

    def _read(self, name: str, limit: int) -> bytes | None:
        with contextlib.suppress(Unreadable):
            return files.read_file(self.folder / name, limit)
        return None


def object_name(object_id: str) -> str:
    """The name of the file that holds an object."""
    return object_id + (".md" if object_id.startswith(DOCUMENT) else ".json")


def identity(data: bytes) -> str | None:
    """The id of an artifact by its bytes, which are its only ones; None where they are no artifact's.

    An id is the digest of the content's canonical bytes, and those are the rendered ones without white space: so nothing is
    parsed here. What the content says is *not* checked, only that it is what was once named so.
    """
    try:
        plain = msgspec.json.format(data, indent=-1)
        found = _ENVELOPE.fullmatch(plain)
        if found is None or (kind := artifacts.TYPES.get(found[2].decode("ascii"))) is None:
            return None
        # The bytes are compared too: an object is a file, and another formatting is another file.
        named = artifacts.PREFIXES[kind] + canonical.digest(found[3])
        return named if named.encode("ascii") == found[1] and msgspec.json.format(plain, indent=2) + b"\n" == data else None
    except msgspec.MsgspecError:
        return None


_ENVELOPE = re.compile(
    rb'\{"artifact_id":"([A-Z0-9-]+)","artifact_type":"([a-z-]+)","content":(\{.*\}),"schema_version":"%b"\}'
    % re.escape(artifacts.SCHEMA_VERSION.encode("ascii")),
    re.DOTALL,
)


def _is_intact(object_id: str, data: bytes) -> bool:
    return (DOCUMENT + canonical.digest(data) if object_id.startswith(DOCUMENT) else identity(data)) == object_id
