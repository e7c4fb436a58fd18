"""This module reads and writes the lock: what was reviewed, and by whose act that changes (PIPELINE 3).

Nothing but `sdaqf lock` writes one. Pins of owner sources lie under the owner root and never in the repository, since the
digest of a short note gives the note away.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.staleness import Difference, Held, differences
from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.errors import Conflict, Finding, Reason, Refused, Unreadable
from sdaqf_tasks.flow.project import ManifestFile
from sdaqf_tasks.flow.run import Pass, Run
from sdaqf_tasks.flow.stories import Stories, changed_lines
from sdaqf_tasks.flow.telling import Telling, Told
from sdaqf_tasks.formats import canonical, lockfile
from sdaqf_tasks.formats.lockfile import LOCK_BYTES, Lock, Pin
from sdaqf_tasks.formats.records import RootScope

OWNER = RootScope.OWNER.value

_NAMED = 5


# ---- reading --------------------------------------------------------------------------------------------------------


class Locks(NamedTuple):
    """The pins of one manifest, by where they are kept; None where there is no such file. `digest` names both, `read` holds them."""

    repository: Lock | None
    owner: Lock | None
    digest: str
    read: tuple[bytes | None, bytes | None]

    @property
    def pins(self) -> Lock:
        return {**(self.repository or {}), **(self.owner or {})}

    def covers(self, each: Held) -> bool:
        """Whether there is a lock where the pin of a source is kept."""
        return (self.owner if each.pin.scope == OWNER else self.repository) is not None


def lock_path(manifest: ManifestFile) -> str:
    """`manifests/NAME.lock`, beside the YAML."""
    return str(PurePosixPath(manifest.path).with_suffix(".lock"))


def owner_path(manifest: ManifestFile) -> str:
    """Where the pins of owner sources are, below the owner root."""
    return f".sdaqf/{manifest.name}.lock"


def read(run: Run, manifest: ManifestFile) -> Locks:
    """The locks of a manifest.

    Raises `Malformed` or `Invalid` with the place, also for a merge conflict; `Unreadable` for what is no regular file.
    """
    owner = run.owner if run.reading(manifest).declaration.has_owner_sources else None
    here, private = data(run.root, lock_path(manifest)), data(owner, owner_path(manifest)) if owner else None
    return Locks(
        None if here is None else lockfile.parse(here, lock_path(manifest)),
        None if private is None else lockfile.parse(private, f"owner:{owner_path(manifest)}"),
        canonical.digest(canonical.encode([None if found is None else canonical.digest(found) for found in (here, private)])),
        (here, private),
    )


def data(root: Root, path: str) -> bytes | None:
    """The bytes of a lock, None where there is none. A link is refused: nobody is led astray, and none is overwritten."""
    try:
        return root.read(path, LOCK_BYTES)
    except Unreadable as error:
        if not root.has(path):
            return None
        todo = "Put a regular file in its place, or remove it."
        raise Unreadable(error.reason, f"the lock cannot be read: {error.message}", at=path, todo=todo) from None


def verify(run: Run, manifest: ManifestFile, held: Sequence[Held], *, locked: bool) -> tuple[str, ...]:
    """Refuse a manifest whose pinned texts are not those that were reviewed; a note where there is no lock.

    Raises `Refused`: CHANGED for a text that differs, LOCK_OUT_OF_DATE with the names, NO_LOCK where `locked`.
    """
    locks = read(run, manifest)
    without = [each for each in held if not locks.covers(each)]
    if without and locked:
        raise Refused(Reason.NO_LOCK, f"{lock_path(manifest)}: nobody has said what was reviewed")
    found = list(differences([each for each in held if locks.covers(each)], locks.pins))
    if changed := [each for each in found if each.code is not Finding.LOCK_OUT_OF_DATE]:
        first = changed[0]
        others = f"; nor are {len(changed) - 1} others" if len(changed) > 1 else ""
        why = "" if first.code is Finding.CHANGED else f": {first.message}"
        message = f"{first.pin.shown} is not the version that was reviewed{run.past.tell(first.pin, first.old)}{why}{others}"
        only = shlex.quote(first.pin.path)
        raise Refused(Reason.CHANGED, message, todo=f"See it with: sdaqf check {manifest.name}   then: sdaqf lock --only {only}")
    if found:
        lacks, has = ([each.pin.shown for each in found if bool(each.held) is there] for there in (True, False))
        parts = [*([f"it lacks {named(lacks)}"] if lacks else []), *([f"no pinned source is {named(has)}"] if has else [])]
        raise Refused(Reason.LOCK_OUT_OF_DATE, "; ".join(parts), at=lock_path(manifest), todo=f"sdaqf lock {manifest.name}")
    if not without:
        return ()
    taken = ("1 pinned text is", "it is", "it") if len(without) == 1 else (f"{len(without)} pinned texts are", "they are", "them")
    return (f"{taken[0]} taken as {taken[1]}: there is no lock yet. Review {taken[2]}, then: sdaqf lock {manifest.name}",)


def named(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


# ---- writing --------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One entry that `sdaqf lock` would write or take out: `word` is changed, new or gone; renamed or moved, with where `to`.

    `old` and `new` are digests, `lines` the changed lines. `known` is false where git does not have the reviewed text.
    """

    pin: Pin
    word: str
    told: Told
    old: str = ""
    new: str = ""
    lines: tuple[str, ...] = ()
    known: bool = True
    to: Pin | None = None


class Write(NamedTuple):
    """A file to write: its path below a root, whole; `was` is what was read there, None for nothing; `private` where it lies
    under the owner root."""

    root: Root
    path: str
    data: bytes
    was: bytes | None
    private: bool = False

    @property
    def shown(self) -> str:
        return f"owner:{self.path}" if self.private else self.path


class Relocked(NamedTuple):
    """What `sdaqf lock` would do. Nothing is written yet."""

    entries: tuple[Entry, ...] = ()
    writes: tuple[Write, ...] = ()


def relock(run: Run, manifests: Sequence[ManifestFile], only: Sequence[str] = ()) -> Relocked:
    """The locks as the present texts give them; with `only` (paths or aliases) the other entries stay as they are.

    Raises `SdaqfError` with the place where a manifest cannot be compiled, or nothing has a name in `only`.
    """
    entries: list[Entry] = []
    writes: list[Write] = []
    unknown = dict.fromkeys(only)
    for manifest in manifests:
        declaration = run.reading(manifest).declaration
        sources = Pass(run)
        compiled, locks = compile_manifest(declaration, sources), read(run, manifest)
        held = compiled.held
        found = [each for each in differences(held, locks.pins) if not only or is_meant(only, each.pin, each.held)]
        for word in list(unknown):
            if any(is_meant([word], each.pin, each) for each in held) or any(is_meant([word], pin, None) for pin in locks.pins):
                del unknown[word]
        entries += _entries(found, Stories(run, found), Telling(run, declaration, sources, compiled))
        new = {**locks.pins, **{each.pin: each.new for each in found}}
        writes += lock_writes(run, manifest, locks, {pin: digest for pin, digest in new.items() if digest})
    if unknown:
        raise Refused(Reason.UNKNOWN_NAME, f"no pinned source is {next(iter(unknown))[:80]!r}", todo="Name its path or its alias.")
    return Relocked(tuple(entries), tuple(writes))


def is_meant(only: Iterable[str], pin: Pin, held: Held | None) -> bool:
    """Whether a path or an alias in `only` means this pin."""
    return any(word == pin.path or (held is not None and word == held.declared.alias) for word in only)


def _entries(found: Sequence[Difference], stories: Stories, telling: Telling) -> Iterator[Entry]:
    for each in found:
        if each.held is None:
            yield Entry(each.pin, "gone", Told((telling.name,), ()), old=each.old)
            continue
        if each.held.is_pointer:
            raise Refused(Reason.MISSING_OR_UNREADABLE, "a pointer of git-lfs, not the file", at=each.pin.place, todo="git lfs pull")
        told = telling.of(each.held.declared, each.pin.path)
        if not each.old:
            yield Entry(each.pin, "new", told, new=each.new)
            continue
        old = stories.of(each.pin, each.old).old
        yield Entry(each.pin, "changed", told, each.old, each.new, changed_lines(old, each.held.text), known=old is not None)


def lock_writes(run: Run, manifest: ManifestFile, locks: Locks, new: Lock) -> Iterator[Write]:
    """The files of a manifest's locks that are not yet what `new` says, each by its scope."""
    here = {pin: digest for pin, digest in new.items() if pin.scope != OWNER}
    private = {pin: digest for pin, digest in new.items() if pin.scope == OWNER}
    if here != locks.repository and (here or locks.repository is not None):
        yield Write(run.root, lock_path(manifest), lockfile.render(here), locks.read[0])
    if run.owner and private != (locks.owner or {}):
        yield Write(run.owner, owner_path(manifest), lockfile.render(private), locks.read[1], private=True)


def write(run: Run, writes: Sequence[Write]) -> None:
    """Put the files in place, each atomically. What is private is readable by its owner alone, and no part of a work tree.

    Raises `Conflict` with CHANGED, before anything is written, where one of them is not what was read: somebody else may
    have said meanwhile that other texts were reviewed.
    """
    for each in writes:
        if each.private:
            folder = (each.root.path / each.path).parent
            files.make_folder(folder, within=each.root.path)
            if folder.is_relative_to(run.root.path) and not os.path.lexists(folder / ".gitignore"):
                files.publish(folder / ".gitignore", b"*\n")
    with files.alone((each.root.path / each.path).parent for each in writes):
        for each in writes:
            if data(each.root, each.path) != each.was:
                todo = "Read what it says now, then run the same again."
                raise Conflict(Reason.CHANGED, "it was written meanwhile; nothing was written over", at=each.shown, todo=todo)
        for each in writes:
            path = each.root.path / each.path
            mode = 0o600 if each.private else stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
            files.replace(path, each.data, mode=mode)


# ---- a merge conflict -----------------------------------------------------------------------------------------------


class Resolved(NamedTuple):
    """One entry of a conflict: `word` is ours, theirs, neither, or gone where no pinned source is this any more."""

    pin: Pin
    word: str


def resolve(run: Run, manifest: ManifestFile) -> tuple[list[Resolved], Write | None]:
    """A conflict in a lock, entry by entry: equal on both sides, kept; one side is what the file says, taken; else left out.

    Returns the entries that differed and the mended lock, or None where there is no conflict. An entry that is neither
    side's waits for `sdaqf lock --only`: nothing is accepted that nobody read.
    """
    found = data(run.root, lock_path(manifest))
    if found is None or not lockfile.conflict(found):
        return [], None
    ours, theirs = lockfile.sides(found, lock_path(manifest))
    now = {each.pin: "" if each.error else each.digest for each in held_now(run.reading(manifest).declaration, Pass(run))}
    told, merged = [], {}
    for pin in sorted({*ours, *theirs}, key=lambda pin: pin.order):
        mine, other, here = ours.get(pin, ""), theirs.get(pin, ""), now.get(pin, "")
        word = "same" if mine == other else "ours" if here == mine else "theirs" if here == other else "neither"
        if word == "neither" and pin not in now:
            word = "gone"
        if word != "same":
            told.append(Resolved(pin, word))
        if word in ("same", "ours", "theirs") and (taken := theirs.get(pin) if word == "theirs" else ours.get(pin)):
            merged[pin] = taken
    return told, Write(run.root, lock_path(manifest), lockfile.render(merged), found)
