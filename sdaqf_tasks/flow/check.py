"""This module is the gate: it compares everything, writes nothing, and says of each difference what settles it (PIPELINE 3)."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sdaqf_tasks.context.compile import Survey, survey
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.findings import LEVELS, Checked, Findings, worst
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.staleness import Difference, Held, differences, hidden_contradictions
from sdaqf_tasks.disk.files import shown
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.past import converted
from sdaqf_tasks.errors import Conflict, Finding, Reason, Refused, SdaqfError, Severity, Unreadable
from sdaqf_tasks.flow import blocked, blocks, lock, mentions, stages, tape
from sdaqf_tasks.flow.base import EVERYTHING, Base
from sdaqf_tasks.flow.drift import Drifts
from sdaqf_tasks.flow.lock import OWNER, lock_path
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import Origin, Pass, Run
from sdaqf_tasks.flow.stories import Stories, changed_lines, first_changed, now_at, part, read
from sdaqf_tasks.flow.tape import Heard
from sdaqf_tasks.flow.telling import Telling
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.declaration import DEFAULT, Declaration, later, window
from sdaqf_tasks.formats.lockfile import Lock, Pin
from sdaqf_tasks.formats.manifest_yaml import Expiry
from sdaqf_tasks.formats.records import EdgeType, RootScope, instant
from sdaqf_tasks.world import SOURCE_BYTES, Tree

GATE = "check"
"""What the gate is called in a record."""


def gate(run: Run, names: Sequence[str], *, base: str | None, fail_on: Sequence[str]) -> tuple[Checked, Refused | None]:
    """Check, and say whether that fails: a refusal of which `blocked.keep` makes a record. Raises as `check`; then that has been made."""
    meant(run, names)
    heard = Heard()
    origin = Origin(run, GATE, heard, names=tuple(names), base=base, fail_on=tuple(fail_on))
    try:
        with heard:
            checked = check(run, names, base=base)
    except SdaqfError as error:
        error.origin = origin
        blocked.keep(error)
        raise
    if refusal := failed(checked, fail_on):
        refusal.origin = origin
    return checked, refusal


def failed(checked: Checked, fail_on: Sequence[str]) -> Refused | None:
    """The refusal of the gate, with every finding as a line of JSON, or None where it passes or has not even begun."""
    if checked.unmet or not worst(checked, fail_on):
        return None
    counts = Counter(found.severity for found in checked.findings)
    message = ", ".join(f"{counts[level]} {level.value}{'' if counts[level] == 1 else 's'}" for level in LEVELS if counts[level])
    findings = [tape.encode(found._asdict()).decode("utf-8") for found in checked.findings]
    whole = "\n".join(findings).encode("utf-8")
    if len(whole) > EXCERPT_BYTES:
        first = whole[:EXCERPT_BYTES].decode("utf-8", "ignore").split("\n")[:-1]
        findings = [*first, f"SHA-256 of all findings: {canonical.digest(whole)}"]
    return Refused(Reason.GATE_FAILED, message, excerpt=findings)


def meant(run: Run, names: Sequence[str]) -> list[ManifestFile]:
    """The manifests of these names; all where no name is given. Raises `Refused` with UNKNOWN_NAME, also where there is none."""
    run.project.verify_any("check")
    return [run.project.manifest(name) for name in dict.fromkeys(names)] or list(run.project.manifests)


EXCERPT_BYTES = 1_048_576
"""Bytes of findings that the refusal of a gate holds; of all of them together it then holds the digest."""


def check(run: Run, names: Sequence[str] = (), *, base: str | None = None) -> Checked:
    """Compare what is with what was reviewed. Every text that differs is one finding, with all contexts that tell it.

    Raises `SdaqfError` only for what concerns the whole project. A precondition that was asked for and is missing is
    named in `unmet`.
    """
    before = run.observe()
    checking = _Checking(run, Base.find(run, base) if base is not None else Base())
    manifests = meant(run, names)
    for manifest in manifests:
        checking.manifest(manifest)
    if not names:
        checking.without_manifest()
    checking.look_through(manifests)
    if run.observe()[:2] != before[:2]:
        raise Unreadable(Reason.CANDIDATE_MOVED, "the tree changed while it was checked")
    return checking.result(manifests)


def verify_outputs(run: Run, outputs: Sequence[Path]) -> None:
    """Refuse to write over what git tracks or a manifest is made of. Raises `Conflict` with OUTPUT_INVALID."""
    for path in outputs:
        place = Path(os.path.realpath(path.parent), path.name)
        for scope, root in ((RootScope.REPOSITORY, run.root), (RootScope.OWNER, run.owner)):
            if root and place.is_relative_to(root.path) and (why := _in_use(run, scope, place.relative_to(root.path).as_posix())):
                todo = "Name a file that git does not track, and that no manifest names."
                raise Conflict(Reason.OUTPUT_INVALID, f"it {why}, and would be written over", at=shown(path.name), todo=todo)


def _in_use(run: Run, scope: RootScope, name: str) -> str:
    if ".git" in name.lower().split("/"):
        return "belongs to git"
    if scope is RootScope.REPOSITORY and run.repository.tracks(name):
        return "is tracked by git"
    for manifest in run.project.manifests:
        names = {manifest.path, lock_path(manifest), lock.owner_path(manifest)}
        with suppress(SdaqfError):  # what cannot be read names nothing
            names.update(run.reading(manifest).digests)
            names |= {name for each in run.reading(manifest).declaration.sources if each.entry.root is scope and each.takes(name)}
        if name in names:
            return f"is a source of {manifest.name}, its YAML or its lock"
    return ""


class _Asked(NamedTuple):
    """One manifest while it is checked."""

    file: ManifestFile
    declaration: Declaration
    telling: Telling


class _Look(Pass):
    """One look at the world for all manifests: a file is read once, and whether the tree moved is asked at the end."""

    def tree(self) -> Tree:
        return self._run.tree


class _Checking:
    """One check: findings by text, so that several manifests tell one together."""

    def __init__(self, run: Run, base: Base) -> None:
        self.run, self.base, self.look = run, base, _Look(run)
        self.found = Findings()
        self.add = self.found.add
        self.pinned: dict[tuple[Pin, str], bool] = {}
        self.following: set[str] = set()
        self.locked: dict[str, Lock] = {}
        self.documents: dict[str, set[str]] = {name: set() for name in mentions.ALWAYS if name in run.tree.files}
        self.mentioned = 0
        self.drifts = Drifts(run)
        self.modified = frozenset(run.repository.modified())
        self.soon = later(run.now, run.project.settings.soon)

    def manifest(self, manifest: ManifestFile) -> None:
        try:
            declaration = self.run.reading(manifest).declaration
        except SdaqfError as error:
            self._refused(error, manifest)
            return
        if stages.is_skipped(self.run, declaration):
            message = f"{manifest.name} has owner sources and no owner root is given"
            self.add(Finding.NOT_CHECKED, manifest.path, 1, message, [manifest.name], settle="Give --owner-root or SDAQF_OWNER_ROOT")
            return
        asked = _Asked(manifest, declaration, Telling(self.run, declaration, self.look))
        refusal = None
        try:
            surveyed = survey(declaration, self.look)
            held: Sequence[Held] = surveyed.held
        except SdaqfError as error:
            refusal, held = error, held_now(declaration, self.look)
        else:
            self._windows(surveyed, asked)
            self._contradictions(asked)
        self._pins(asked, held, refusal)
        self._objects(manifest)
        for each in held:
            for told in self.drifts.of(each) if each.pin.scope != OWNER else ():
                severity = told.severity if told.code is Finding.DRIFTED else told.code.severity
                more = {"part": told.place, "settle": told.settle, "severity": severity}
                self.add(told.code, each.pin.path, 1, told.message, [manifest.name], **more)
            if each.pin.path.endswith((".md", ".markdown")) and each.pin.scope != OWNER and not each.error:
                self.documents.setdefault(each.pin.path, set()).add(manifest.name)

    def _refused(self, error: SdaqfError, manifest: ManifestFile, path: str = "") -> None:
        name, _, rest = error.where.partition(":")  # `file:line:column`, or no place
        number = rest.partition(":")[0]
        place = (name, int(number)) if number.isdecimal() else (path or manifest.path, 1)
        member = "" if number.isdecimal() or not rest else f"{rest.strip()}: "
        self.add(Finding.REFUSED, *place, member + error.message, [manifest.name], settle=error.todo)

    def _pins(self, asked: _Asked, held: Sequence[Held], refusal: SdaqfError | None) -> None:
        """Everything that is not as reviewed; and the refusal of the manifest, unless what is gone explains it."""
        gone = {each.error.where for each in held if each.error and each.is_gone}
        if refusal and refusal.where not in gone:
            self._refused(refusal, asked.file)
        try:
            locks = lock.read(self.run, asked.file)
        except SdaqfError as error:
            self._refused(error, asked.file, lock_path(asked.file))
            return
        covered = [each for each in held if locks.covers(each)]
        if without := len(held) - len(covered):
            message = f"{without} pinned text{'' if without == 1 else 's'} and no lock"
            self.add(Finding.NO_LOCK, asked.file.path, 1, message, [asked.file.name])
        self.locked[lock_path(asked.file)] = locks.pins
        different = list(differences(covered, locks.pins))
        failing = {each.pin for each in different}
        for each in covered:
            key = (each.pin, each.digest)
            self.pinned[key] = self.pinned.get(key, True) and each.pin not in failing
        # Of a manifest that is refused it is not known what is pinned.
        untold = {Finding.REFUSED, *([Finding.LOCK_OUT_OF_DATE] if refusal else [])}
        different = [each for each in different if each.code not in untold]
        stories = Stories(self.run, different)
        for difference in different:
            self._difference(difference, stories, asked)
        self._uncommitted([each for each in covered if each.pin.path in self.modified and each.pin not in failing], asked)
        if self.base.commit:
            self._against_base(asked, covered, locks.pins)

    def _about(self, code: Finding, held: Held, asked: _Asked, message: str, was: str | None = None, **more: Any) -> None:
        """A finding about a pinned text, at its first line or, where it is known how it `was`, the first that changed."""
        if was is not None:
            more["lines"] = changed_lines(was, held.text)
        told = asked.telling.of(held.declared, held.pin.path)
        more.setdefault("settle", code.settles.replace("--only PATH", f"--only {shlex.quote(held.pin.path)}"))
        line, part = held.line + first_changed(was, held.text), held.pin.part[1]
        self.add(code, held.pin.place, line, message, told.contexts, required=told.required, part=part, **more)

    def _difference(self, found: Difference, stories: Stories, asked: _Asked) -> None:
        held, pin, digests = found.held, found.pin, {"old": found.old, "new": found.new}
        if found.code is Finding.LOCK_OUT_OF_DATE or held is None:
            message, settle = f"{pin.shown}: {found.message}", f"Read it, then: sdaqf lock --only {shlex.quote(pin.path)}"
            if held is None:
                renamed = stories.renamed(pin, found.old)
                message += f"; renamed to {renamed.path}" if renamed else ""
                settle = "sdaqf lock --moved" if renamed else found.code.settles
            self.add(found.code, lock_path(asked.file), 1, message, [asked.file.name], part=pin.shown, settle=settle, **digests)
        elif found.code is Finding.MISSING and (renamed := stories.renamed(pin, found.old)):
            by = f"by {renamed.change.commit[:7]}" if renamed.change else "which is not committed yet"
            self._about(Finding.RENAMED, held, asked, f"renamed to {renamed.path}, {by}", change=renamed.change, **digests)
        elif found.code is not Finding.CHANGED:
            self._about(found.code, held, asked, found.message, **digests)
        elif span := now_at(self.run, found):
            self._about(Finding.MOVED, held, asked, f"the pinned lines stand at {span[0]}-{span[1]} now", **digests)
        else:
            self._changed(found, held, stories, asked)

    def _changed(self, found: Difference, held: Held, stories: Stories, asked: _Asked) -> None:
        """Another text than the reviewed one; or one that nobody can have reviewed, where history says so."""
        story, digests = stories.of(found.pin, found.old), {"old": found.old, "new": found.new}
        if story.cut:
            message = "whether the pinned version ever was, the history at hand does not tell"
            self._about(Finding.NOT_CHECKED, held, asked, message, settle=f"Fetch more of the history: {EVERYTHING}")
        elif story.known and story.old is None and found.pin.path not in self.modified:
            self._about(Finding.PHANTOM, held, asked, "no commit of this path ever had the pinned text", **digests)
            return
        ends = story.old is not None and story.old.splitlines() == held.text.splitlines()
        code = Finding.LINE_ENDINGS if ends else Finding.CHANGED
        message = "the pinned text has other line ends here" if ends else "the lock pins another version"
        self._about(code, held, asked, message, story.old, change=story.change, **digests)

    def _uncommitted(self, held: Sequence[Held], asked: _Asked) -> None:
        """What is as reviewed and HEAD does not have so: texts, and the lock itself."""
        if paths := {each.pin.path for each in held if each.pin.scope != OWNER}:
            ordered = sorted(paths - converted(self.run.repository, paths))
            committed = dict(zip(ordered, self.run.repository.blobs([f"HEAD:{path}" for path in ordered], SOURCE_BYTES), strict=True))
            for each in held:
                if each.pin.path in committed and part(committed[each.pin.path], each.pin.part) != each.text:
                    self._about(Finding.DIRTY, each, asked, "as reviewed, not committed yet")
        if (path := lock_path(asked.file)) in self.modified:
            self.add(Finding.DIRTY, path, 1, "the lock is not committed yet", [asked.file.name])

    def _against_base(self, asked: _Asked, held: Sequence[Held], pins: Lock) -> None:
        """What this change says it reviewed: pins that differ from the merge base's and are what the file says."""
        path = lock_path(asked.file)
        if why := self.base.unreadable.get(path):
            message = f"the lock at the merge base cannot be read: {why}"
            self.add(Finding.NOT_CHECKED, path, 1, message, [asked.file.name], settle="Compare the two locks by eye")
        for each in held:
            old = self.base.pinned(path, each.pin, each.digest)
            if old and old != each.digest == pins.get(each.pin):
                was = self.base.text(each.pin, old)
                self._about(Finding.RE_PINNED, each, asked, "this change reviewed another version", was, old=old, new=each.digest)
        self._unpinned(path, self.base.locks.get(path, {}), pins, [asked.file.name])

    def without_manifest(self) -> None:
        """Locks of the merge base whose manifest is gone: what none of the present ones pins."""
        now = {pin: digest for pins in self.locked.values() for pin, digest in pins.items()}
        for path in sorted(set(self.base.locks) - {lock_path(manifest) for manifest in self.run.project.manifests}):
            self._unpinned(path, self.base.locks[path], now, [])

    def _unpinned(self, path: str, before: Lock, now: Lock, contexts: Sequence[str]) -> None:
        texts = set(now.values())
        for pin, old in before.items():
            if pin not in now and old not in texts:
                message = f"{pin.shown} was pinned at the merge base, and this change pins it no longer"
                self.add(Finding.RE_PINNED, path, 1, message, contexts, part=pin.shown, old=old)

    def _windows(self, surveyed: Survey, asked: _Asked) -> None:
        """What follows the tree is counted, and what was observed is held against the clock."""
        for declared in asked.declaration.sources:
            places = surveyed.places[declared.alias]
            if not declared.pinned:
                self.following |= {f"{place.file.path}:{place.span.first}" for place in places}
            expiry = declared.entry.freshness
            end = window(expiry, declared.spot.at("freshness"))[1] if isinstance(expiry, Expiry) else None
            if end is None or instant(end) > instant(self.soon):
                continue
            over = instant(end) < instant(self.run.now)
            code = Finding.EXPIRED if over else Finding.EXPIRES_SOON
            settle = code.settles.replace("sdaqf lock", f"sdaqf lock {asked.file.name} --only {declared.alias}")
            message = f"valid until {end}" + (f"; it is {self.run.now} now" if over else "")
            for file, span, _ in places:
                told = asked.telling.of(declared, file.path)
                more = {"settle": settle, "required": told.required, "part": declared.part[1]}
                self.add(code, Pin(file.scope.value, file.path).place, span.first, message, told.contexts, **more)

    def _contradictions(self, asked: _Asked) -> None:
        if not any(related.entry.type is EdgeType.CONTRADICTS for related in asked.declaration.relationships):
            return
        try:
            manifest = compile_manifest(asked.declaration, self.look).manifest
            graph = index(manifest, self.look, owner_root=asked.declaration.has_owner_sources)
        except SdaqfError as error:
            self._refused(error, asked.file)
            return
        for hidden in hidden_contradictions(manifest, graph):
            place, lost = hidden.kept.locator, hidden.lost.locator.path
            message = f"contradicts {lost}, which was left out ({hidden.reason})"
            severity = Severity.ERROR if hidden.kept.required else Severity.WARNING
            more = {"severity": severity, "part": f"contradicts {lost}", "settle": f"Settle {lost}"}
            self.add(Finding.CONTRADICTION_HIDDEN, place.path, place.line_start, message, [asked.file.name], **more)

    def _objects(self, manifest: ManifestFile) -> None:
        """Every object that a ref of the manifest points to is what its name says."""
        chains = [Chain(manifest.name, query) for query in self.run.store.queries(manifest.name)] or [Chain(manifest.name, DEFAULT)]
        for name in dict.fromkeys(stages.ref_name(chain, stage.makes) for chain in chains for stage in stages.STAGES):
            object_id = self.run.store.ref(name)
            try:
                if object_id is not None:
                    self.run.store.verify(object_id)
            except Unreadable as error:
                if error.reason is Reason.OBJECT_DAMAGED:
                    settle = f"sdaqf build {manifest.name}"
                    self.add(Finding.TAMPERED, manifest.path, 1, f"{name}: {error.message}", [manifest.name], settle=settle, part=name)

    def look_through(self, manifests: Sequence[ManifestFile]) -> None:
        def text(path: str) -> str | None:
            return part(read(self.run, Pin(RootScope.REPOSITORY.value, path)), ("", ""))

        texts = {path: there for path in sorted(self.documents) if (there := text(path)) is not None}
        looked = mentions.look(texts, self.run.tree, lambda paths: History(self.run.repository, paths), text)
        self.mentioned = looked.total
        for found in mentions.findings(looked):
            self.found.keep(found._replace(contexts=tuple(sorted(self.documents[found.path]))))
        for found in blocks.blocks(self.run, manifests):
            self.found.keep(found)

    def result(self, manifests: Sequence[ManifestFile]) -> Checked:
        return Checked(
            findings=self.found.judged(self.base.policy() if self.base.run else self.run.project.settings.policy),
            pinned=len(self.pinned),
            as_reviewed=sum(self.pinned.values()),
            following=len(self.following),
            mentions=self.mentioned,
            manifests=tuple(manifest.name for manifest in manifests),
            git_head=self.run.tree.git_head,
            now=self.run.now,
            fixed_clock=self.run.fixed_clock,
            base=self.base.commit,
            unmet=self.base.unmet,
        )
