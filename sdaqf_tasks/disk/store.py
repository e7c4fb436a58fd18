"""This module keeps what was built: immutable objects by id, refs that point to them, receipts that say from what (DESIGN).

objects/ID.json        exclusive, mode 0600, held against its id on every read
refs/…                 one line, an id; replaced atomically
refs/….made            the receipt of that ref
out/…                  copies for people, read by nobody here
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Lock
from sdaqf_tasks.errors import Conflict, Malformed, Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import artifacts, canonical

PROGRAM = "1"
"""Version of what stages make of the same inputs; a receipt of another version counts for nothing."""

DOCUMENT = "CTX-DOCUMENT-"
"""Prefix of a document's id; the rest is the SHA-256 of its bytes."""

_ID = re.compile(r"CTX-[A-Z-]+-[0-9A-F]{64}")
_REF_BYTES = 4_096
_RECEIPT_BYTES = 1_048_576


class Receipt(NamedTuple):
    """What a ref was made from: input name to id or digest. `until` is when the first required window ends."""

    inputs: Mapping[str, str]
    output: str
    until: str | None = None


class Store:
    """The build folder of a project. Reading needs nothing to be there; writing creates it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        """The folder with what git must know about it: nothing below it is part of the tree."""
        files.make_folder(self.folder)
        ignore = self.folder / ".gitignore"
        if not ignore.is_file() or ignore.is_symlink() or ignore.read_bytes() != b"*\n":
            files.replace(ignore, b"*\n", mode=0o644)
        for name in ("objects", "refs", "out"):
            files.make_folder(self.folder / name)

    def lock(self, wait: float, report: Callable[[], object]) -> Lock:
        self.create()
        return Lock(self.folder / "lock", wait, report)

    # ---- objects

    def put(self, object_id: str, data: bytes) -> None:
        """Keep an object. One that is there already stays; a damaged one is made again."""
        path = self._object(object_id)
        try:
            files.publish(path, data)
        except Conflict as error:
            if error.reason is not Reason.OUTPUT_EXISTS:
                raise
            try:
                intact = self.get(object_id) == data
            except SdaqfError:
                intact = False
            if not intact:
                files.replace(path, data)

    def get(self, object_id: str) -> bytes:
        """The bytes of an object, which are what its id says. Raises `Unreadable`: OBJECT_MISSING, OBJECT_DAMAGED."""
        try:
            data = files.read_file(self._object(object_id), canonical.ARTIFACT_BYTES)
        except Unreadable as error:
            reason = Reason.OBJECT_MISSING if error.reason is Reason.MISSING_OR_UNREADABLE else Reason.OBJECT_DAMAGED
            raise Unreadable(reason, f"the object {object_id[:24]}… cannot be read: {error.message}") from None
        if not _is_intact(object_id, data):
            raise Unreadable(Reason.OBJECT_DAMAGED, f"the object {object_id[:24]}… is not what its name says")
        return data

    def _object(self, object_id: str) -> Path:
        if not _ID.fullmatch(object_id):
            raise Unreadable(Reason.OBJECT_MISSING, "a ref does not hold an id")
        return self.folder / "objects" / (object_id + (".md" if object_id.startswith(DOCUMENT) else ".json"))

    # ---- refs

    def ref(self, name: str) -> str | None:
        """The id that a ref holds, or None where there is no such ref or it holds something else."""
        data = self._read(f"refs/{name}", _REF_BYTES)
        text = data.decode("ascii", "replace") if data is not None else ""
        return text[:-1] if text.endswith("\n") and "\n" not in text[:-1] else None

    def receipt(self, name: str) -> Receipt | None:
        """The receipt of a ref, or None where it is missing, damaged or of another program."""
        data = self._read(f"refs/{name}.made", _RECEIPT_BYTES)
        try:
            value = canonical.load(data) if data is not None else None
        except Malformed:
            return None
        if not isinstance(value, dict) or value.get("program") != PROGRAM or not isinstance(value.get("inputs"), dict):
            return None
        output, until = value.get("output"), value.get("until")
        if not isinstance(output, str) or not isinstance(until, str | None):
            return None
        return Receipt(value["inputs"], output, until)

    def point(self, name: str, receipt: Receipt) -> None:
        """Make a ref hold the receipt's output; the receipt is there first."""
        path = self.folder / "refs" / name
        files.make_folder(path.parent)
        value: dict[str, Any] = {"inputs": dict(receipt.inputs), "output": receipt.output, "program": PROGRAM}
        if receipt.until is not None:
            value["until"] = receipt.until
        files.replace(path.with_name(path.name + ".made"), canonical.render(value))
        files.replace(path, receipt.output.encode("ascii") + b"\n")

    def withdraw(self, name: str) -> None:
        """Take a ref and its receipt away."""
        for suffix in ("", ".made"):
            path = self.folder / "refs" / (name + suffix)
            with contextlib.suppress(FileNotFoundError):
                path.unlink()

    def queries(self, manifest: str) -> list[str]:
        """The queries of which a manifest has refs, whatever its YAML says by now."""
        folder = self.folder / "refs" / "m" / manifest / "q"
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    # ---- what people open

    def show(self, name: str, data: bytes) -> None:
        """Put a whole copy under `out/`, unless it is there."""
        path = self.folder / "out" / name
        if self._read(f"out/{name}", len(data)) != data:
            files.make_folder(path.parent)
            files.replace(path, data)

    def hide(self, name: str) -> None:
        path = self.folder / "out" / name
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
        with contextlib.suppress(OSError):
            path.parent.rmdir()

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
                path.unlink()
                removed += 1
        self.sweep()
        return removed, size

    def sweep(self) -> None:
        """Remove what killed writers left anywhere in the folder. For who holds the lock."""
        for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir() and not path.is_symlink())):
            files.sweep(folder)

    def _read(self, name: str, limit: int) -> bytes | None:
        try:
            return files.read_file(self.folder / name, limit)
        except Unreadable:
            return None


def _is_intact(object_id: str, data: bytes) -> bool:
    if object_id.startswith(DOCUMENT):
        return DOCUMENT + canonical.digest(data) == object_id
    try:
        value = canonical.load(data)
    except Malformed:
        return False
    if not isinstance(value, dict) or value.get("artifact_id") != object_id or value.get("artifact_type") not in artifacts.TYPES:
        return False
    prefix = artifacts.PREFIXES[artifacts.TYPES[value["artifact_type"]]]
    content = canonical.encode(value.get("content"))
    # The bytes are compared too: an object is a file, and another formatting is another file.
    return prefix + canonical.digest(content) == object_id and canonical.render(value) == data
