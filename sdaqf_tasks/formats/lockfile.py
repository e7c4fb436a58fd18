"""This module is the lock: which version of each pinned text a person has reviewed (PIPELINE 3).

    {"sdaqf-lock": 1, "sources": [{"path", "pinned", "scope", "section" or "symbol" or "lines"}]}

Entries ascend by scope, path and part as written; several lines each, so that neighbours merge without conflict and each
hunk of a diff names its file. No totals, times, hosts, commits or resolved line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Malformed, Reason, SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import convert
from sdaqf_tasks.formats.records import RootScope, is_path, must

LOCK_BYTES = 4_194_304
PARTS = ("section", "symbol", "lines")

_BEGINS, _ENDS = re.compile(rb"^<{7} ", re.MULTILINE), re.compile(rb"^>{7} ", re.MULTILINE)
_MARK = re.compile(rb"^([<|=>])\1{6}(?:(?<!=) .*|(?<==)[ \t\r]*)$\n?", re.MULTILINE)


class Pin(NamedTuple):
    """What is pinned: a file, or a part of it as it was written, such as `("section", "Decision")`."""

    scope: str
    path: str
    part: tuple[str, str] = ("", "")

    @property
    def order(self) -> tuple[str, str, str, str]:
        """The order of the lock: scope, path, part as written."""
        return self.scope, self.path, self.part[1], self.part[0]

    @property
    def place(self) -> str:
        """The file, for people: `docs/a.md`, or `owner:notes/a.md`."""
        return f"owner:{self.path}" if self.scope == RootScope.OWNER.value else self.path

    @property
    def shown(self) -> str:
        """`docs/a.md`, or `docs/a.md § Decision`."""
        return f"{self.place} § {self.part[1]}" if self.part[1] else self.place


Lock = Mapping[Pin, str]
"""Text digest in 64 lowercase hexadecimal digits, by pin."""


def text_digest(text: str) -> str:
    """The digest of a selected text, as the lock writes it: people compare it with `sha256sum`."""
    return canonical.digest(text.encode("utf-8")).lower()


def render(lock: Lock) -> bytes:
    """The lock as it is committed."""
    sources = []
    for pin in sorted(lock, key=lambda pin: pin.order):
        entry = {"path": pin.path, "pinned": lock[pin], "scope": pin.scope}
        if pin.part[0]:
            entry[pin.part[0]] = pin.part[1]
        sources.append(entry)
    return canonical.render({"sdaqf-lock": 1, "sources": sources})


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    pinned: Annotated[str, Meta(pattern="^[0-9a-f]{64}$", max_length=64)]
    scope: RootScope
    section: str | None = None
    symbol: str | None = None
    lines: str | None = None

    def __post_init__(self) -> None:
        must(len(self.parts) <= 1 and is_path(self.path), "an entry has a portable path and at most one of section, symbol and lines")

    @property
    def parts(self) -> list[tuple[str, str]]:
        return [(name, value) for name in PARTS if (value := getattr(self, name)) is not None]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: Literal[1] = msgspec.field(name="sdaqf-lock")
    sources: list[_Entry]


def parse(data: bytes, name: str) -> dict[Pin, str]:
    """The pins in a lock, in its order; `name` is what its errors call it.

    Raises `Malformed` or `Invalid` with the place; a merge conflict says how it is resolved.
    """
    if line := conflict(data):
        raise Malformed(Reason.MALFORMED_JSON, "a merge conflict", at=f"{name}:{line}", todo="Resolve with: sdaqf lock --resolve")
    try:
        return _pins(data)
    except SdaqfError as error:
        at = f"{name}:{error.where}" if error.where[:1].isdigit() else f"{name}: {error.where}" if error.where else name
        raise type(error)(error.reason, error.message, at=at, todo="Restore it from git; nobody edits it by hand.") from None


def _pins(data: bytes) -> dict[Pin, str]:
    value = canonical.load(data, LOCK_BYTES)
    must(not isinstance(value, dict) or value.get("sdaqf-lock", 1) == 1, "is no lock of version 1", "sdaqf-lock")
    found: dict[Pin, str] = {}
    last: Pin | None = None
    for index, entry in enumerate(convert(value, _File).sources):
        pin = Pin(entry.scope.value, entry.path, *entry.parts)
        must(last is None or last.order < pin.order, "entries are not ascending, or one stands twice", "sources", index)
        found[pin], last = entry.pinned, pin
    return found


def conflict(data: bytes) -> int:
    """The line of the first of the conflict markers that git left in the file, or 0 where there are none."""
    begins = _BEGINS.search(data)
    return data.count(b"\n", 0, begins.start()) + 1 if begins and _ENDS.search(data, begins.end()) else 0


def sides(data: bytes, name: str) -> tuple[dict[Pin, str], dict[Pin, str]]:
    """Our and their lock of a file with conflict markers, whatever style they have. Raises as `parse`."""
    split = _MARK.split(data)
    parts = list(zip([b">", *split[1::2]], split[::2], strict=True))  # each with the mark above it, as if one had just ended
    ours, theirs = (b"".join(part for mark, part in parts if mark in marks) for marks in (b"<>", b"=>"))
    return _side(ours, name), _side(theirs, name)


def _side(data: bytes, name: str) -> dict[Pin, str]:
    """One side of a conflict. Git cuts between entries, so a comma may be missing or left over: that is mended."""
    data = re.sub(rb"\}([ \t\r]*+\n\s*+)\{", rb"},\1{", data)
    return parse(re.sub(rb",([ \t\r]*+\n\s*+)\]", rb"\1]", data), name)
