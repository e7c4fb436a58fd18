"""This module is the lock: which version of each pinned text a person has reviewed (PIPELINE 3).

    {"sdaqf-lock": 1, "sources": [{"path", "pinned", "scope", "section" or "symbol" or "lines"}]}

Entries ascend by scope, path and part as written; several lines each, so that neighbours merge without conflict and each
hunk of a diff names its file. No totals, times, hosts, commits or resolved line numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.errors import Invalid, Malformed, Reason
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import RootScope, is_path

LOCK_BYTES = 4_194_304
PARTS = ("section", "symbol", "lines")

_MARKERS = (b"<<<<<<< ", b"=======", b">>>>>>> ", b"||||||| ")


class Pin(NamedTuple):
    """What is pinned: a file, or a part of it as it was written (`("section", "Decision")`). Ordered as the lock is."""

    scope: str
    path: str
    part: tuple[str, str] = ("", "")

    @property
    def shown(self) -> str:
        """`docs/a.md`, or `docs/a.md § Decision`; owner files say so."""
        root = "owner:" if self.scope == RootScope.OWNER.value else ""
        return f"{root}{self.path}" + (f" § {self.part[1]}" if self.part[1] else "")


Lock = Mapping[Pin, str]
"""Text digest in 64 lowercase hexadecimal digits, by pin."""


def text_digest(text: str) -> str:
    """The digest of a selected text, as the lock writes it: people compare it with `sha256sum`."""
    return canonical.digest(text.encode("utf-8")).lower()


def render(lock: Lock) -> bytes:
    """The lock as it is committed."""
    sources = []
    for pin in sorted(lock):
        entry = {"path": pin.path, "pinned": lock[pin], "scope": pin.scope}
        if pin.part[0]:
            entry[pin.part[0]] = pin.part[1]
        sources.append(entry)
    return canonical.render({"sdaqf-lock": 1, "sources": sources})


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    pinned: str
    scope: RootScope
    section: str | None = None
    symbol: str | None = None
    lines: str | None = None


def parse(data: bytes, name: str) -> dict[Pin, str]:
    """The pins in a lock; `name` is what its errors call it.

    Raises `Malformed` or `Invalid` with the place; a merge conflict says how it is resolved.
    """
    if in_conflict(data):
        line = next(number for number, text in enumerate(data.splitlines(), 1) if text.startswith(_MARKERS[0]))
        raise Malformed(Reason.MALFORMED_JSON, "a merge conflict", at=f"{name}:{line}", todo="Resolve it with: sdaqf lock --resolve")
    try:
        value = canonical.load(data, LOCK_BYTES)
    except Malformed as error:
        raise Malformed(
            error.reason, error.message, at=f"{name}:{error.where}", todo="Restore it from git, or write it with `sdaqf lock`."
        ) from None
    if not (
        isinstance(value, dict)
        and value.get("sdaqf-lock") == 1
        and set(value) == {"sdaqf-lock", "sources"}
        and isinstance(value["sources"], list)
    ):
        raise Invalid(Reason.CONTRACT_INVALID, "is no lock of version 1", at=name, todo="Write it with `sdaqf lock`.")
    found: dict[Pin, str] = {}
    for index, item in enumerate(value["sources"]):
        pin, pinned = _entry(item, f"{name}: sources/{index}")
        if found and not max(found) < pin:
            raise Invalid(Reason.CONTRACT_INVALID, "entries are not ascending, or one stands twice", at=f"{name}: sources/{index}")
        found[pin] = pinned
    return found


def in_conflict(data: bytes) -> bool:
    """Whether git left its conflict markers in the file."""
    lines = data.splitlines()
    return any(line.startswith(_MARKERS[0]) for line in lines) and any(line.startswith(_MARKERS[2]) for line in lines)


def sides(data: bytes, name: str) -> tuple[dict[Pin, str], dict[Pin, str]]:
    """Our and their lock of a file with conflict markers. Raises as `parse` where a side is no lock."""
    ours: list[bytes] = []
    theirs: list[bytes] = []
    state = ""
    for line in data.splitlines(keepends=True):
        if line.startswith(_MARKERS[0]):
            state = "ours"
        elif line.startswith(_MARKERS[3]) and state:
            state = "base"
        elif line.rstrip() == _MARKERS[1] and state:
            state = "theirs"
        elif line.startswith(_MARKERS[2]) and state:
            state = ""
        else:
            if state in ("", "ours"):
                ours.append(line)
            if state in ("", "theirs"):
                theirs.append(line)
    return _side(ours, name), _side(theirs, name)


def _side(lines: Iterable[bytes], name: str) -> dict[Pin, str]:
    """One side of a conflict. Git cuts between entries, so a comma may be missing or left over: that is mended."""
    text = re.sub(rb"\}(\s*)\{", rb"},\1{", b"".join(lines))
    return parse(re.sub(rb",(\s*)\]", rb"\1]", text), name)


def _entry(item: Any, at: str) -> tuple[Pin, str]:
    try:
        entry = msgspec.convert(item, _Entry)
    except msgspec.ValidationError as error:
        raise Invalid(Reason.CONTRACT_INVALID, str(error)[:200].replace("`", "'"), at=at) from None
    parts = [(name, value) for name in PARTS if (value := getattr(entry, name)) is not None]
    if len(parts) > 1 or not is_path(entry.path):
        raise Invalid(Reason.CONTRACT_INVALID, "an entry has a portable path and at most one of section, symbol and lines", at=at)
    if len(entry.pinned) != 64 or any(character not in "0123456789abcdef" for character in entry.pinned):
        raise Invalid(Reason.CONTRACT_INVALID, "pinned is a SHA-256 in 64 lowercase hexadecimal digits", at=at)
    return Pin(entry.scope.value, entry.path, parts[0] if parts else ("", "")), entry.pinned
