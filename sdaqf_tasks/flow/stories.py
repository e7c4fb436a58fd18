"""This module tells what git knows of a text that is not as reviewed: how it read, who changed it, where it went."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cached_property
from typing import NamedTuple

from sdaqf_tasks.context import excerpts
from sdaqf_tasks.context.findings import Change
from sdaqf_tasks.context.staleness import Difference, moved_to
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.past import converted
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow.mentions import ago, change_of
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats.lockfile import Pin, text_digest
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import SOURCE_BYTES, decode

_AT_ONCE = 32
_LOOKED_THROUGH = 200


class Story(NamedTuple):
    """How a text read when it was pinned, and the commit that made it another one.

    `known` is false where nothing can be told of it: the file is not git's, or git keeps it otherwise than it writes it.
    `cut` is true where the history at hand does not reach far enough to tell.
    """

    old: str | None = None
    change: Change | None = None
    known: bool = True
    cut: bool = False


class Renamed(NamedTuple):
    """Where a file is now, and the commit that moved it; None where that is not committed yet."""

    path: str
    change: Change | None


class Stories:
    """The stories of some differences; history is asked once, when the first is told."""

    def __init__(self, run: Run, found: Sequence[Difference]) -> None:
        self._run = run
        self._paths = sorted({each.pin.path for each in found if each.old and each.pin.scope != RootScope.OWNER.value})
        self._history = History(run.repository, self._paths)

    def of(self, pin: Pin, old: str) -> Story:
        """The story of a pin whose reviewed digest was `old`. Files that attributes convert have none (PIPELINE 7)."""
        if pin.path not in self._paths or pin.path in self._converted:
            return Story(known=False)
        try:
            if pin.path not in self._files and not self._history.versions(pin.path):
                return Story(known=False)
            _ = self._newest
            return self._told(self._history, pin, old, renames=5)
        except SdaqfError:
            return Story(cut=True)

    @cached_property
    def _converted(self) -> frozenset[str]:
        return converted(self._run.repository, self._paths)

    @cached_property
    def _newest(self) -> None:
        """The newest version of every file is asked for at once: where many were changed, most are told by it."""
        newest = (version for path in self._paths for version in self._history.versions(path)[:1])
        with suppress(SdaqfError):  # too much at once
            self._history.contents((blob for version in newest for blob in (version.blob, version.before)), SOURCE_BYTES)

    def _told(self, history: History, pin: Pin, old: str, renames: int) -> Story:
        versions, texts = history.versions(pin.path), dict[str | None, str | None]()
        for start in range(0, len(versions), _AT_ONCE):
            some = versions[start : start + _AT_ONCE]
            for blob, data in history.contents((blob for each in some for blob in (each.blob, each.before)), SOURCE_BYTES).items():
                texts[blob] = part(data, pin.part)
            for version in some:
                for blob, change in ((version.blob, None), (version.before, version)):
                    text = texts[blob]
                    if text is not None and text_digest(text) == old:
                        return Story(text, change and change_of(change))
        if renames and (before := history.renamed_from(pin.path)):
            story = self._told(History(self._run.repository, [before]), pin._replace(path=before), old, renames - 1)
            return story._replace(cut=story.cut or history.is_cut(pin.path))
        return Story(cut=history.is_cut(pin.path))

    def renamed(self, pin: Pin, old: str) -> Renamed | None:
        """Where git knows a file that is gone to be now: by a commit, or by a text that is not committed yet."""
        if pin.path not in self._paths:
            return None
        try:
            path, history = pin.path, self._history
            for _ in range(5):
                gone, new = history.removed(path), history.renamed(path)
                if gone is None or new is None:
                    break
                if new in self._files:
                    return Renamed(new, change_of(gone))
                path, history = new, History(self._run.repository, [new])
        except SdaqfError:
            return None
        there = (path for path in self._run.repository.modified()[:_LOOKED_THROUGH] if path in self._files)
        return next((Renamed(path, None) for path in there if self._reads(pin._replace(path=path)) == old), None)

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(self._run.tree.files)

    def _reads(self, pin: Pin) -> str:
        text = part(read(self._run, pin), pin.part)
        return "" if text is None else text_digest(text)

    def told(self, pin: Pin, old: str) -> str:
        """` (changed by 2f1c9aa, 2 days ago: "Ledger in cents")`, where git knows."""
        change = self.of(pin, old).change
        return f' (changed by {change.commit[:7]}, {ago(change.time, self._run.now)}: "{change.subject[:80]}")' if change else ""


def now_at(run: Run, found: Difference) -> tuple[int, int] | None:
    """Where the pinned lines of a source stand now, if they stand in its file exactly once."""
    spanned = found.held.declared.lines if found.held else None
    text = part(read(run, found.pin), ("", "")) if spanned and found.old else None
    return moved_to(text, spanned, found.old) if spanned and text is not None else None


def read(run: Run, pin: Pin) -> bytes | None:
    with suppress(SdaqfError):
        return run.reader().read(RootScope(pin.scope), pin.path, SOURCE_BYTES).data
    return None


def part(data: bytes | None, part: tuple[str, str]) -> str | None:
    """The text of a part as a manifest writes it; None where the file has none."""
    with suppress(SdaqfError):
        return None if data is None else excerpts.part_of(decode(data), part)
    return None


def changed_lines(old: str | None, new: str) -> tuple[str, ...]:
    """`- old` and `+ new` lines; nothing where the old text is not known."""
    return tuple(_changed(old.splitlines(), new.splitlines())) if old is not None else ()


def first_changed(old: str | None, new: str) -> int:
    """How many lines stand before the first one that changed; 0 where the old text is not known."""
    before, after = (old or "").splitlines(), new.splitlines()
    same = next((count for count, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))
    return min(same, max(len(after) - 1, 0))


def _changed(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new).get_opcodes():
        if tag != "equal":
            yield from (f"- {line}" for line in old[a:b])
            yield from (f"+ {line}" for line in new[c:d])
