"""This module reads and writes the lock: what was reviewed, and by whose act that changes (PIPELINE 3).

Nothing but `sdaqf lock` writes one. Pins of owner sources lie under the owner root and never in the repository, since the
digest of a short note gives the note away.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from sdaqf_tasks.context import excerpts
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.findings import Change
from sdaqf_tasks.context.staleness import Difference, Held, differences, moved_to
from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.errors import Finding, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.flow.mentions import ago, change_of
from sdaqf_tasks.flow.project import ManifestFile
from sdaqf_tasks.flow.run import Pass, Run
from sdaqf_tasks.formats import canonical, lockfile, plain_yaml
from sdaqf_tasks.formats.entries import Spot
from sdaqf_tasks.formats.lockfile import LOCK_BYTES, Lock, Pin
from sdaqf_tasks.formats.manifest_yaml import Expiry
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import SOURCE_BYTES

SHOWN_LINES = 20
"""Changed lines of one text that are shown."""

OWNER = RootScope.OWNER.value


class Locks(NamedTuple):
    """The pins of one manifest, by where they are kept; None where there is no such file. `digest` names both."""

    repository: Lock | None
    owner: Lock | None
    digest: str

    @property
    def pins(self) -> Lock:
        return {**(self.repository or {}), **(self.owner or {})}

    def lacks(self, held: Sequence[Held]) -> bool:
        """Whether a pinned source has no lock at all where its pin would be kept."""
        return any((self.owner if each.pin.scope == OWNER else self.repository) is None for each in held)


def lock_path(manifest: ManifestFile) -> str:
    """`manifests/NAME.lock`, beside the YAML."""
    return str(PurePosixPath(manifest.path).with_suffix(".lock"))


def read(run: Run, manifest: ManifestFile) -> Locks:
    """The locks of a manifest. Raises `Malformed` or `Invalid` with the place, also for a merge conflict."""
    here = _bytes(run.project.root.read, lock_path(manifest))
    private = _bytes(run.owner.read, f".sdaqf/{manifest.name}.lock") if run.owner else None
    return Locks(
        None if here is None else lockfile.parse(here, lock_path(manifest)),
        None if private is None else lockfile.parse(private, f"owner:.sdaqf/{manifest.name}.lock"),
        canonical.digest(canonical.encode([None if data is None else canonical.digest(data) for data in (here, private)])),
    )


def _bytes(read: Callable[[str, int], bytes], path: str) -> bytes | None:
    try:
        return read(path, LOCK_BYTES)
    except Unreadable as error:
        if error.reason is Reason.MISSING_OR_UNREADABLE:
            return None
        raise


def verify(run: Run, manifest: ManifestFile, held: Sequence[Held], *, locked: bool) -> tuple[str, ...]:
    """Refuse a manifest whose pinned texts are not those that were reviewed; a note where there is no lock.

    Raises `Refused` with the reason of the first difference: NO_LOCK (where `locked`), LOCK_OUT_OF_DATE, CHANGED.
    """
    locks = read(run, manifest)
    if held and locks.lacks(held):
        message = f"{lock_path(manifest)}: nobody has said what was reviewed"
        if locked:
            raise Refused(Reason.NO_LOCK, message)
        return (f"{len(held)} pinned texts are taken as they are: there is no lock yet. Review them, then: sdaqf lock",)
    for found in differences(held, locks.pins):
        told = Stories(run, [found]).told(found)
        path = shlex.quote(found.pin.path)
        if found.code is Finding.LOCK_OUT_OF_DATE:
            raise Refused(Reason.LOCK_OUT_OF_DATE, f"{found.pin.shown}: {found.message}", at=lock_path(manifest), todo="sdaqf lock")
        message = f"{found.pin.shown} is not the version that was reviewed{told}"
        raise Refused(Reason.CHANGED, message, todo=f"See it with: sdaqf check {manifest.name}   then: sdaqf lock --only {path}")
    return ()


# ---- what history tells ---------------------------------------------------------------------------------------------


class Story(NamedTuple):
    """What git knows of a text that differs: how it read when it was pinned, and which commit made it another one."""

    old: str | None = None
    change: Change | None = None
    cut: bool = False


class Stories:
    """The stories of some differences; history is asked once, when the first is told."""

    def __init__(self, run: Run, found: Sequence[Difference]) -> None:
        self._run = run
        self._history = History(run.repository, {each.pin.path for each in found if each.old and each.pin.scope != OWNER})

    def of(self, pin: Pin, old: str) -> Story:
        if pin.scope == OWNER or not old:
            return Story()
        try:
            versions = self._history.versions(pin.path)
            contents = self._history.contents(versions, SOURCE_BYTES)
        except SdaqfError:
            return Story(cut=True)
        newer = None
        for version, data in zip(versions, contents, strict=True):
            text = part(data, pin.part)
            if text is not None and lockfile.text_digest(text) == old:
                return Story(text, newer and change_of(newer))
            newer = version
        return Story(cut=self._history.is_cut(pin.path) or not versions)

    def renamed(self, path: str) -> tuple[str, Change] | None:
        """Where git knows a file to have gone, and in which commit."""
        try:
            gone, new = self._history.removed(path), self._history.renamed(path)
        except SdaqfError:
            return None
        return (new, change_of(gone)) if gone and new else None

    def told(self, found: Difference) -> str:
        """` (changed by 2f1c9aa, 2 days ago: "Ledger in cents")`, where git knows."""
        change = self.of(found.pin, found.old).change
        return f' (changed by {change.commit[:7]}, {ago(change.time, self._run.now)}: "{change.subject[:80]}")' if change else ""


def part(data: bytes | None, part: tuple[str, str]) -> str | None:
    try:
        return None if data is None else excerpts.part_of(data.decode("utf-8"), part)
    except (UnicodeDecodeError, SdaqfError):
        return None


def changed_lines(old: str | None, new: str) -> tuple[str, ...]:
    """`- old` and `+ new` lines, at most 20 of them; nothing where the old text is not known."""
    if old is None:
        return ()
    compared = difflib.ndiff(old.splitlines(), new.splitlines()) if len(old) + len(new) < 20_000 else _coarse(old, new)
    found = [line.rstrip("\n") for line in compared if line.startswith(("- ", "+ "))]
    return (*found[:SHOWN_LINES], f"  … {len(found) - SHOWN_LINES} more lines") if len(found) > SHOWN_LINES else tuple(found)


def _coarse(old: str, new: str) -> Iterator[str]:
    for line in difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm=""):
        if line[:1] in "+-" and not line.startswith(("+++", "---")):
            yield f"{line[0]} {line[1:]}"


# ---- writing --------------------------------------------------------------------------------------------------------


class Pinned(NamedTuple):
    """One entry that `sdaqf lock` would write or take out: `word` is changed, new or gone."""

    manifest: str
    pin: Pin
    word: str
    lines: tuple[str, ...] = ()
    known: bool = True


class Relocked(NamedTuple):
    """What `sdaqf lock` would do: entries for people, and the bytes of every file to write, by its place."""

    entries: tuple[Pinned, ...]
    writes: tuple[tuple[Path, bytes], ...]


def relock(run: Run, manifests: Sequence[ManifestFile], only: Sequence[str] = ()) -> Relocked:
    """The locks as the present texts give them; with `only` (paths or aliases) the other entries stay as they are.

    Raises `SdaqfError` with the place where a manifest cannot be compiled, or nothing has a name in `only`.
    """
    entries: list[Pinned] = []
    writes: list[tuple[Path, bytes]] = []
    matched: set[str] = set()
    for manifest in manifests:
        declaration = run.reading(manifest).declaration
        held = compile_manifest(declaration, Pass(run)).held
        locks = read(run, manifest)
        found = list(differences(held, locks.pins))
        stories = Stories(run, found)
        matched.update(word for word in only for each in held if _is_meant(word, each.pin, each))
        new = dict(locks.pins)
        for difference in found:
            if only and not any(_is_meant(word, difference.pin, difference.held) for word in only):
                continue
            matched.update(only)
            entries.append(_entry(manifest.name, difference, stories))
            if difference.held:
                new[difference.pin] = difference.new
            else:
                del new[difference.pin]
        writes += _writes(run, manifest, locks, new)
    if missing := [word for word in only if word not in matched]:
        raise Refused(Reason.UNKNOWN_NAME, f"no pinned source is {missing[0][:80]!r}", todo="Name a path or an alias of a pinned source.")
    return Relocked(tuple(entries), tuple(writes))


def _is_meant(word: str, pin: Pin, held: Held | None) -> bool:
    return word == pin.path or (held is not None and word == held.declared.alias)


def _entry(manifest: str, found: Difference, stories: Stories) -> Pinned:
    if found.held is None:
        return Pinned(manifest, found.pin, "gone")
    if not found.old:
        return Pinned(manifest, found.pin, "new")
    old = stories.of(found.pin, found.old).old
    return Pinned(manifest, found.pin, "changed", changed_lines(old, found.held.text), known=old is not None)


def _writes(run: Run, manifest: ManifestFile, locks: Locks, new: Mapping[Pin, str]) -> Iterator[tuple[Path, bytes]]:
    here = {pin: digest for pin, digest in new.items() if pin.scope != OWNER}
    private = {pin: digest for pin, digest in new.items() if pin.scope == OWNER}
    if here != locks.repository:
        yield run.project.top / lock_path(manifest), lockfile.render(here)
    if run.owner and private != (locks.owner or {}):
        yield run.owner.path / ".sdaqf" / f"{manifest.name}.lock", lockfile.render(private)


def write(run: Run, writes: Sequence[tuple[Path, bytes]]) -> None:
    """Put the files in place, each atomically; owner pins are readable by the owner alone."""
    for path, data in writes:
        private = not path.is_relative_to(run.project.top)
        files.make_folder(path.parent)
        files.replace(path, data, mode=0o600 if private else 0o644)


# ---- a merge conflict -----------------------------------------------------------------------------------------------


class Resolved(NamedTuple):
    """One entry of a conflict: `word` is ours, theirs, neither or same."""

    pin: Pin
    word: str


def resolve(run: Run, manifest: ManifestFile) -> tuple[list[Resolved], bytes | None]:
    """A conflict in a lock, entry by entry: equal on both sides, kept; what the file says, taken; else left out.

    Returns the entries that differed and the mended lock, or None where there is no conflict. An entry that is neither
    side's waits for `sdaqf lock --only`: nothing is accepted that nobody read.
    """
    data = _bytes(run.project.root.read, lock_path(manifest))
    if data is None or not lockfile.in_conflict(data):
        return [], None
    ours, theirs = lockfile.sides(data, lock_path(manifest))
    now = {each.pin: each.digest for each in compile_manifest(run.reading(manifest).declaration, Pass(run)).held}
    told, merged = [], {}
    for pin in sorted({*ours, *theirs}):
        mine, other = ours.get(pin), theirs.get(pin)
        if mine == other:
            merged[pin] = mine or ""
        elif now.get(pin) is None:
            continue  # no longer declared: nothing to review
        elif now[pin] in (mine, other):
            merged[pin] = now[pin]
            told.append(Resolved(pin, "ours" if now[pin] == mine else "theirs"))
        else:
            told.append(Resolved(pin, "neither"))
    return told, lockfile.render(merged)


# ---- what moved -----------------------------------------------------------------------------------------------------


def follow(run: Run, manifest: ManifestFile) -> tuple[list[str], list[tuple[Path, bytes]]]:
    """What moved, in the YAML and in the lock: renamed files, and pinned lines that stand elsewhere in their file.

    Returns a sentence for each and the files to write. Comments and everything else in the YAML stay as they are.
    """
    declaration, locks = run.reading(manifest).declaration, read(run, manifest)
    found = list(differences(held_now(declaration, Pass(run)), locks.pins))
    stories, told, edits = Stories(run, found), [], _Edits(run)
    pins = dict(locks.pins)
    for each in found:
        if each.held is None or not each.old or each.held.declared.is_glob:
            continue
        declared = each.held.declared
        if each.code is Finding.MISSING and (renamed := stories.renamed(each.pin.path)):
            new = each.pin._replace(path=renamed[0])
            edits.replace(declared.place, each.pin.path, new.path)
        elif each.code is Finding.CHANGED and declared.lines and (span := now_at(run, each, declared.lines)):
            new = each.pin._replace(part=("lines", f"{span[0]}-{span[1]}" if span[0] < span[1] else str(span[0])))
            edits.replace(declared.spot.at("lines"), each.pin.part[1], new.part[1])
        else:
            continue
        pins[new] = pins.pop(each.pin)
        told.append(f"{each.pin.shown} is {new.shown} now")
    return told, [*edits.writes(), *_writes(run, manifest, locks, pins)] if told else []


def observed_now(run: Run, manifest: ManifestFile, only: Sequence[str]) -> tuple[list[str], list[tuple[Path, bytes]]]:
    """Say in the YAML that observations were made again at the present moment, and pin what they say now."""
    declaration, locks = run.reading(manifest).declaration, read(run, manifest)
    told, edits = [], _Edits(run)
    for declared in declaration.sources:
        freshness = declared.entry.freshness
        if isinstance(freshness, Expiry) and (declared.alias in only or declared.pattern in only):
            edits.replace(declared.spot.at("freshness", "observed"), freshness.observed, run.now)
            told.append(f"{declared.alias}   observed {run.now}, before {freshness.observed}")
    if not told:
        return [], []
    pins = dict(locks.pins)
    for held in held_now(declaration, Pass(run)):
        if held.declared.alias in only or held.pin.path in only:
            pins[held.pin] = held.digest
    return told, [*edits.writes(), *(_writes(run, manifest, locks, pins) if locks.repository is not None else ())]


class _Edits:
    """Changes of single words in YAML files, where they stand."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._rows: dict[str, list[str]] = {}

    def replace(self, spot: Spot, old: str, new: str) -> None:
        name, row, column = spot.document.place(spot.path).rsplit(":", 2)
        if name not in self._rows:
            self._rows[name] = self._run.project.root.read(name, plain_yaml.BYTES).decode("utf-8").split("\n")
        line, start = self._rows[name][int(row) - 1], int(column) - 1
        self._rows[name][int(row) - 1] = line[:start] + line[start:].replace(old, new, 1)

    def writes(self) -> Iterator[tuple[Path, bytes]]:
        for name, rows in self._rows.items():
            yield self._run.project.top / name, "\n".join(rows).encode("utf-8")


def shown_place(run: Run, path: Path) -> str:
    """A file that is written, for people: below the top, or below the owner root."""
    if path.is_relative_to(run.project.top):
        return path.relative_to(run.project.top).as_posix()
    return f"owner:{path.name}"


def now_at(run: Run, found: Difference, lines_of_pin: tuple[int, int]) -> tuple[int, int] | None:
    try:
        text = run.reader().read(RootScope(found.pin.scope), found.pin.path, SOURCE_BYTES).data.decode("utf-8")
    except (UnicodeDecodeError, SdaqfError):
        return None
    return moved_to(text, lines_of_pin, found.old)
