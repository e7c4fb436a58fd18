"""This module says what is no longer true: texts that differ from what was reviewed, windows that a clock has passed,
contradictions that do not show (PIPELINE 3 and 4). The clock is data here; `build`, `check`, `status`, `lock` and doit ask it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from sdaqf_tasks.errors import Finding, Reason, SdaqfError
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Manifest
from sdaqf_tasks.formats.declaration import Declared
from sdaqf_tasks.formats.lockfile import Lock, Pin, text_digest
from sdaqf_tasks.formats.records import EdgeType, Metadata, Source, instant
from sdaqf_tasks.world import lines

M = TypeVar("M", bound=Metadata)


def expired(members: Iterable[M], now: str) -> M | None:
    """The first member, by the end of its window, whose window ended before `now`."""
    past = [(instant(end), member) for member in members if (end := member.freshness.valid_until) and instant(end) < instant(now)]
    return min(past, key=lambda pair: pair[0])[1] if past else None


def first_end(members: Iterable[Metadata]) -> str | None:
    """The earliest end of a window, or None where nothing expires."""
    ends = [end for member in members if (end := member.freshness.valid_until)]
    return min(ends, key=instant, default=None)


class Hidden(NamedTuple):
    """A contradiction that the Graph does not show: the end that it has, the one that was left out, and why."""

    kept: Source
    lost: Source
    reason: str


def hidden_contradictions(manifest: Artifact[Manifest], graph: Artifact[Graph]) -> Iterator[Hidden]:
    """FORMAT 6 (7) skips a relationship whose end was excluded; of a contradiction that must be said."""
    sources = {source.source_id: source for source in manifest.content.sources}
    reasons = {excluded.source_id: excluded.reason for excluded in graph.content.excluded_sources}
    for relationship in manifest.content.relationships:
        if relationship.edge_type is not EdgeType.CONTRADICTS:
            continue
        for kept, lost in ((relationship.source_id, relationship.target_id), (relationship.target_id, relationship.source_id)):
            if lost in reasons and kept not in reasons:
                yield Hidden(sources[kept], sources[lost], reasons[lost])


# ---- what was reviewed ----------------------------------------------------------------------------------------------

SEARCHED = 67_108_864
"""Characters that are hashed to find where pinned lines stand now; what would take more is not looked for."""

_POINTER = "version https://git-lfs.github.com/spec/"


class Held(NamedTuple):
    """A pinned source as it is now: its text with the line where it begins, or why it cannot be had."""

    pin: Pin
    declared: Declared
    text: str = ""
    line: int = 1
    error: SdaqfError | None = None

    @property
    def digest(self) -> str:
        return text_digest(self.text)

    @property
    def is_pointer(self) -> bool:
        """Whether git-lfs has yet to put the file in place of what it left."""
        return self.text.startswith(_POINTER)

    @property
    def is_gone(self) -> bool:
        """Whether there is no such file, or no such part of it: other errors are the manifest's."""
        if self.error is None:
            return False
        kind, spot = self.pin.part[0], self.declared.spot.at(self.pin.part[0])
        return self.error.reason is Reason.MISSING_OR_UNREADABLE or (kind != "" and self.error.where == spot.document.place(spot.path))


class Difference(NamedTuple):
    """Something that is not as reviewed. `held` is missing where the lock has an entry that nothing declares.

    `old` and `new` are digests, empty where there is none.
    """

    code: Finding
    pin: Pin
    message: str
    held: Held | None = None
    old: str = ""
    new: str = ""


def differences(held: Sequence[Held], lock: Lock) -> Iterator[Difference]:
    """Everything in which the present texts and the lock differ, by pin. `build`, `check`, `status`, `lock` and doit ask this.

    A source that cannot be had for another reason than that it is gone is REFUSED: what refuses it says why.
    """
    present = {each.pin: each for each in held}
    for pin in sorted({*present, *lock}, key=lambda pin: pin.order):
        each, old = present.get(pin), lock.get(pin, "")
        if each is None:
            yield Difference(Finding.LOCK_OUT_OF_DATE, pin, "the lock has it, and no pinned source is this any more", old=old)
        elif each.error is not None:
            yield Difference(Finding.MISSING if each.is_gone else Finding.REFUSED, pin, each.error.message, each, old)
        elif not old:
            yield Difference(Finding.LOCK_OUT_OF_DATE, pin, "it is pinned, and the lock does not have it", each, new=each.digest)
        elif (new := each.digest) != old:
            code = _kind_of_change(each, old)
            yield Difference(code, pin, code.means[:1].lower() + code.means[1:].rstrip("."), each, old, new)


def _kind_of_change(held: Held, old: str) -> Finding:
    """Whether a text that differs is really another text."""
    if held.is_pointer:
        return Finding.LFS_POINTER
    lf = held.text.replace("\r\n", "\n")
    return Finding.LINE_ENDINGS if old in (text_digest(lf), text_digest(lf.replace("\n", "\r\n"))) else Finding.CHANGED


def moved_to(text: str, lines_of_pin: tuple[int, int], old: str) -> tuple[int, int] | None:
    """Where in a file the pinned lines stand now, if they stand there exactly once. Not looked for beyond SEARCHED."""
    rows, length = lines(text), lines_of_pin[1] - lines_of_pin[0] + 1
    if len(text) * length > SEARCHED:
        return None
    found = [first for first in range(len(rows) - length + 1) if text_digest("".join(rows[first : first + length])) == old]
    return (found[0] + 1, found[0] + length) if len(found) == 1 else None
