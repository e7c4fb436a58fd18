"""This module follows what moved, and notes what was observed again: in the YAML, where it stands, and in the lock (PIPELINE 3).

Comments and everything else in the YAML stay as they are, byte for byte. What cannot be edited so is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple

from msgspec import UNSET

from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.staleness import Difference, differences
from sdaqf_tasks.errors import Finding, Malformed, Reason, Refused
from sdaqf_tasks.flow import lock
from sdaqf_tasks.flow.lock import Entry, Relocked, Write
from sdaqf_tasks.flow.project import ManifestFile
from sdaqf_tasks.flow.run import Pass, Run
from sdaqf_tasks.flow.stories import Stories, now_at
from sdaqf_tasks.flow.telling import Telling
from sdaqf_tasks.formats import plain_yaml
from sdaqf_tasks.formats.declaration import Declaration, Declared, later, window
from sdaqf_tasks.formats.entries import Spot
from sdaqf_tasks.formats.lockfile import Pin
from sdaqf_tasks.formats.manifest_yaml import Expiry
from sdaqf_tasks.formats.records import RootScope, instant, is_path


def follow(run: Run, manifests: Sequence[ManifestFile], only: Sequence[str] = ()) -> Relocked:
    """Renamed files, and pinned lines that stand elsewhere in their file: the YAML and the locks that name them so.

    The digests stay: what moved and was edited is still to be read. Raises `SdaqfError` with the place of what cannot be
    edited where it stands.
    """
    entries: list[Entry] = []
    writes: list[Write] = []
    edits = Edits(run)
    for manifest in manifests:
        declaration, locks = run.reading(manifest).declaration, lock.read(run, manifest)
        sources, pins = Pass(run), dict(locks.pins)
        found, telling = list(differences(held_now(declaration, sources), locks.pins)), Telling(run, declaration, sources)
        for each, to in _moves(run, found):
            if only and not lock.is_meant(only, each.pin, each.held):
                continue
            if each.held and to.path != each.pin.path and not each.held.declared.is_glob:
                _rename(edits, declaration, each.held.declared, to.path)
            elif each.held and to.part != each.pin.part:
                edits.replace(each.held.declared.spot.at("lines"), each.pin.part[1], to.part[1])
            pins[to] = pins.pop(each.pin)
            held = each.held or next(other.held for other in found if other.held and other.pin == to)
            told = telling.of(held.declared, to.path)
            entries.append(Entry(each.pin, "renamed" if to.path != each.pin.path else "moved", told, each.old, each.old, to=to))
        writes += lock.lock_writes(run, manifest, locks, pins)
    return Relocked(tuple(entries), (*edits.writes(), *writes) if entries else ())


def _moves(run: Run, found: Sequence[Difference]) -> Iterator[tuple[Difference, Pin]]:
    """The differences that are moves, each with what its pin is now."""
    stories = Stories(run, found)
    new = {(each.new, each.pin.part): each.pin for each in found if each.held and not each.old}
    for each in found:
        if each.held is None:  # a member of a glob has another name: the text tells which
            if to := new.pop((each.old, each.pin.part), None):
                yield each, to
        elif each.code is Finding.MISSING and each.old and (renamed := stories.renamed(each.pin, each.old)):
            if not is_path(renamed.path):
                spot = each.held.declared.place
                raise spot.fault(f"it is {renamed.path!a} now, which is not a portable path", todo="Give it another name.")
            yield each, each.pin._replace(path=renamed.path)
        elif each.code is Finding.CHANGED and (span := now_at(run, each)):
            yield each, each.pin._replace(part=("lines", f"{span[0]}-{span[1]}" if span[0] < span[1] else str(span[0])))


def _rename(edits: Edits, declaration: Declaration, renamed: Declared, new: str) -> None:
    """Every place that names a file of that root: sources, and what bears out sources and relationships."""
    old, root = renamed.pattern, renamed.entry.root
    for declared in declaration.sources:
        if declared.entry.root is root and declared.pattern == old and not declared.is_glob:
            edits.replace(declared.place, old, new)
        if declared.entry.root is root:
            _replace_listed(edits, declared.spot, declared.entry.provenance, old, new)
    if root is RootScope.REPOSITORY:
        for related in declaration.relationships:
            _replace_listed(edits, related.spot, related.entry.provenance, old, new)


def _replace_listed(edits: Edits, spot: Spot, provenance: Sequence[str], old: str, new: str) -> None:
    for position, path in enumerate(provenance):
        if path == old:
            edits.replace(spot.at("provenance", position), old, new)


def observe_now(run: Run, manifests: Sequence[ManifestFile], only: Sequence[str] = ()) -> tuple[list[str], Relocked]:
    """Say in the YAML that observations were made again at the present moment, and pin what they say now.

    Meant are those in `only` (aliases or paths), else all that have ended or end soon. Returns a sentence for each.
    """
    soon = later(run.now, run.project.settings.soon)
    told, unknown, edits = dict[str, None](), dict.fromkeys(only), Edits(run)
    pinned: dict[ManifestFile, list[str]] = {}
    for manifest in manifests:
        for declared in run.reading(manifest).declaration.sources:
            freshness, spot, names = declared.entry.freshness, declared.spot.at("freshness"), {declared.alias, declared.pattern}
            if not isinstance(freshness, Expiry):
                continue
            if not (names & set(only) if only else instant(window(freshness, spot)[1]) <= instant(soon)):
                continue
            if freshness.expires is not UNSET:
                raise spot.at("expires").fault(f"{declared.alias} ends at a fixed time", todo="Write `for:`, or another time, by hand.")
            edits.replace(spot.at("observed"), freshness.observed, run.now)
            told[f"{declared.alias}   observed {run.now}, last at {freshness.observed}"] = None
            unknown = {word: None for word in unknown if word not in names}
            if declared.pinned and lock.read(run, manifest).pins:
                pinned.setdefault(manifest, []).append(declared.alias)
    if unknown:
        name = next(iter(unknown))[:80]
        raise Refused(Reason.UNKNOWN_NAME, f"no observation is {name!r}", todo="Name the alias of a source with `observed:`.")
    found = [lock.relock(run, [manifest], aliases) for manifest, aliases in pinned.items()]
    entries, writes = (entry for each in found for entry in each.entries), (write for each in found for write in each.writes)
    return list(told), Relocked(tuple(entries), (*edits.writes(), *writes))


# ---- editing --------------------------------------------------------------------------------------------------------


class _Edit(NamedTuple):
    spot: Spot
    old: str
    new: str


class Edits:
    """Changes of single words in YAML files, where they stand. The same one twice is one."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._found: dict[str, dict[tuple[int, int], _Edit]] = {}

    def replace(self, spot: Spot, old: str, new: str) -> None:
        """The value at `spot`, which is `old` or ends with it (the short form of a source), has `new` in its place."""
        name, row, column = spot.document.place(spot.path).rsplit(":", 2)
        self._found.setdefault(name, {})[int(row) - 1, int(column) - 1] = _Edit(spot, old, new)

    def writes(self) -> Iterator[Write]:
        """The edited files. Raises `Invalid` with the place of what is written in a way that cannot be edited there."""
        for name, edits in self._found.items():
            was = self._run.project.root.read(name, plain_yaml.BYTES)
            rows = was.decode("utf-8").split("\n")
            for (row, column), edit in sorted(edits.items(), reverse=True):  # so that no edit moves the place of another
                head, tail = rows[row][:column], rows[row][column:]
                position = tail.find(edit.old, len(str(_at(edit.spot.path, edit.spot.document.value))) - len(edit.old))
                rows[row] = head + (tail[:position] + edit.new + tail[position + len(edit.old) :] if position >= 0 else tail)
            data = "\n".join(rows).encode("utf-8")
            _verify(name, data, list(edits.values()))
            yield Write(self._run.project.root, name, data, was)


def _at(path: Sequence[str | int], value: Any) -> Any:
    """What stands at a path in a value."""
    return reduce(getitem, path, value)


def _verify(name: str, data: bytes, edits: Sequence[_Edit]) -> None:
    """What is read from the edited file is what was read before, but for the words that were to be replaced."""
    wanted: Any = deepcopy(edits[0].spot.document.value)
    for edit in edits:
        above = _at(edit.spot.path[:-1], wanted)
        written = str(above[edit.spot.path[-1]])
        above[edit.spot.path[-1]] = written.removesuffix(edit.old) + edit.new
    try:
        read: Any = plain_yaml.load(data, name).value
    except Malformed:
        read = None
    if _spelled(read) != _spelled(wanted):
        edit = edits[0]
        raise edit.spot.fault(f"{edit.old!a} cannot be edited where it stands", todo=f"Write {edit.new} there by hand, then: sdaqf lock")


def _spelled(value: Any) -> Any:
    """The value with its numbers as texts: `lines: 7` may become `lines: 8`."""
    if isinstance(value, dict):
        return {key: _spelled(inner) for key, inner in value.items()}
    return [_spelled(inner) for inner in value] if isinstance(value, list) else value if isinstance(value, bool) else str(value)
