"""This module is the gate: it compares everything, writes nothing, and says of each difference what settles it (PIPELINE 3)."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.findings import Checked, Found
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.staleness import Difference, Held, differences, hidden_contradictions
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.errors import Finding, SdaqfError, Severity, Unreadable
from sdaqf_tasks.flow import blocks, lock, mentions, stages
from sdaqf_tasks.flow.lock import OWNER, Stories, changed_lines, lock_path
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import Pass, Run
from sdaqf_tasks.formats import lockfile
from sdaqf_tasks.formats.artifacts import Artifact, Manifest
from sdaqf_tasks.formats.declaration import DEFAULT, Declaration, as_time, duration
from sdaqf_tasks.formats.lockfile import LOCK_BYTES, Lock, Pin
from sdaqf_tasks.formats.records import EdgeType, RootScope, instant
from sdaqf_tasks.world import SOURCE_BYTES

FETCH = "fetch more of the history: fetch-depth: 0, or `git fetch --unshallow`"


def check(run: Run, names: Sequence[str] = (), *, base: str | None = None) -> Checked:
    """Compare what is with what was reviewed. Every text that differs is one finding, with all contexts that tell it.

    Raises `SdaqfError` only for what concerns the whole project. A precondition that was asked for and is missing is
    named in `unmet`.
    """
    run.observe()
    checking = _Checking(run)
    unmet, base_commit = checking.compare_with(base) if base is not None else ("", "")
    manifests = [run.project.manifest(name) for name in names] if names else list(run.project.manifests)
    for manifest in manifests:
        checking.manifest(manifest)
    checking.mentions()
    checking.blocks(manifests)
    return checking.result(manifests, base_commit, unmet)


class _Checking:
    """One check: findings by text, so that several manifests tell one together."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.found: dict[tuple[str, str, str, str], Found] = {}
        self.pinned: dict[tuple[Pin, str], bool] = {}
        self.following: set[str] = set()
        self.documents: dict[str, str] = {}
        self.mentioned = 0
        self.base = ""
        self.modified = frozenset(run.repository.modified())
        self.soon = as_time(instant(run.now) + duration(run.project.settings.soon))

    def compare_with(self, name: str) -> tuple[str, str]:
        """Find the merge base of `name` and HEAD: why there is none, and its commit."""
        other = self.run.repository.resolve(name)
        if other is None:
            return f"{name[:80]} is not in this clone: {FETCH}", ""
        self.base = self.run.repository.merge_base(other, self.run.tree.git_head) or ""
        return ("", self.base) if self.base else (f"the merge base of {name[:80]} and HEAD is not in this clone: {FETCH}", "")

    # ---- one manifest

    def manifest(self, manifest: ManifestFile) -> None:
        label = manifest.name
        try:
            declaration = self.run.reading(manifest).declaration
        except SdaqfError as error:
            self._refused(error, manifest)
            return
        if stages.is_skipped(self.run, declaration):
            message = f"{label} has owner sources and no owner root is given"
            self.add(Finding.NOT_CHECKED, manifest.path, 1, message, [label], settle="SDAQF_OWNER_ROOT, --owner-root")
            return
        try:
            compiled = compile_manifest(declaration, Pass(self.run))
            held: Sequence[Held] = compiled.held
        except SdaqfError as error:
            held = held_now(declaration, Pass(self.run))
            if not any(each.error and each.error.where == error.where for each in held):
                self._refused(error, manifest)
        else:
            self._windows(compiled.manifest, declaration, label)
            self._contradictions(compiled.manifest, manifest, label)
            pinned = {(each.pin.scope, each.pin.path) for each in held}
            for source in compiled.manifest.content.sources:
                if (source.locator.root_scope.value, source.locator.path) not in pinned:
                    self.following.add(f"{source.locator.root_scope.value}:{source.locator.path}:{source.locator.line_start}")
        self._pins(manifest, declaration, held)
        self._objects(manifest)
        for each in held:
            if each.pin.path.endswith(".md") and each.pin.scope != OWNER and not each.error:
                self.documents[each.pin.path] = ""

    def _refused(self, error: SdaqfError, manifest: ManifestFile) -> None:
        path, line = _place(error.where, manifest.path)
        self.add(Finding.REFUSED, path, line, error.message, [manifest.name], settle=error.todo)

    def _pins(self, manifest: ManifestFile, declaration: Declaration, held: Sequence[Held]) -> None:
        try:
            locks = lock.read(self.run, manifest)
        except SdaqfError as error:
            self._refused(error, manifest)
            return
        if held and locks.lacks(held):
            self.add(Finding.NO_LOCK, manifest.path, 1, f"{len(held)} pinned texts and no lock", [manifest.name])
            return
        different = list(differences(held, locks.pins))
        failing = {difference.pin for difference in different}
        stories = Stories(self.run, different)
        for each in held:
            key = (each.pin, each.digest)
            self.pinned[key] = self.pinned.get(key, True) and each.pin not in failing
            if each.pin.path in self.modified and each.pin not in failing:
                self._about(Finding.DIRTY, each, declaration, "as reviewed, not committed yet")
        for difference in different:
            self._difference(difference, stories, manifest, declaration)
        if self.base:
            self._against_base(manifest, declaration, held, locks.pins)

    def _about(self, code: Finding, held: Held, declaration: Declaration, message: str, **more: Any) -> None:
        """A finding about a pinned text, where it begins."""
        contexts, required = told_by(declaration, held)
        path = held.pin.path if held.pin.scope != OWNER else f"owner:{held.pin.path}"
        more.setdefault("settle", code.settles.replace("--only PATH", f"--only {shlex.quote(held.pin.path)}"))
        self.add(code, path, held.line, message, contexts, required=required, part=held.pin.part[1], **more)

    def _difference(self, found: Difference, stories: Stories, manifest: ManifestFile, declaration: Declaration) -> None:
        held, pin, digests = found.held, found.pin, {"old": found.old, "new": found.new}
        if found.code is Finding.LOCK_OUT_OF_DATE or held is None:
            message = f"{pin.shown}: {found.message}"
            self.add(found.code, lock_path(manifest), 1, message, [manifest.name], part=pin.shown, **digests)
            return
        if found.code is Finding.MISSING and (renamed := stories.renamed(pin.path)):
            message = f"renamed to {renamed[0]} by {renamed[1].commit[:7]}"
            self._about(Finding.RENAMED, held, declaration, message, change=renamed[1], **digests)
            return
        if found.code is not Finding.CHANGED:
            self._about(found.code, held, declaration, found.message, **digests)
            return
        if held.declared.lines and (span := lock.now_at(self.run, found, held.declared.lines)):
            self._about(Finding.MOVED, held, declaration, f"the pinned lines stand at {span[0]}-{span[1]} now", **digests)
            return
        story = stories.of(pin, found.old)
        if story.old is None and not story.cut and pin.scope != OWNER and pin.path not in self.modified:
            self._about(Finding.PHANTOM, held, declaration, "no commit of this path ever had the pinned text", **digests)
            return
        if story.cut:
            message = "the pinned version is not in the history at hand: it may never have been"
            self._about(Finding.NOT_CHECKED, held, declaration, message, settle=FETCH)
        lines = changed_lines(story.old, held.text)
        self._about(Finding.CHANGED, held, declaration, "the lock pins another version", lines=lines, change=story.change, **digests)

    def _against_base(self, manifest: ManifestFile, declaration: Declaration, held: Sequence[Held], pins: Lock) -> None:
        """What this change says it reviewed: pins that differ from the merge base's and are what the file says."""
        (data,) = self.run.repository.blobs([f"{self.base}:{lock_path(manifest)}"], LOCK_BYTES)
        try:
            before = lockfile.parse(data, lock_path(manifest)) if data is not None else {}
        except SdaqfError as error:
            message = f"the lock at the merge base cannot be read: {error.message}"
            self.add(Finding.NOT_CHECKED, lock_path(manifest), 1, message, [manifest.name], settle="look at it")
            return
        for each in held:
            old = before.get(each.pin)
            if not old or old == each.digest or pins.get(each.pin) != each.digest:
                continue
            (was,) = self.run.repository.blobs([f"{self.base}:{each.pin.path}"], SOURCE_BYTES)
            text = lock.part(was, each.pin.part)
            lines = changed_lines(text if text is not None and lockfile.text_digest(text) == old else None, each.text)
            message = "this change reviewed another version"
            self._about(Finding.RE_PINNED, each, declaration, message, lines=lines, old=old, new=each.digest)
        for pin in sorted(set(before) - {each.pin for each in held} - set(pins)):
            if pin.path in self.run.tree.files:
                message = f"{pin.shown} was pinned at the merge base, and this change pins it no longer"
                self.add(Finding.RE_PINNED, lock_path(manifest), 1, message, [manifest.name], part=pin.shown, old=before[pin])

    def _windows(self, manifest: Artifact[Manifest], declaration: Declaration, label: str) -> None:
        for source in manifest.content.sources:
            if (end := source.freshness.valid_until) is None:
                continue
            alias = next((d.alias for d in declaration.sources if d.pattern == source.locator.path), "")
            settle = Finding.EXPIRED.settles.replace("sdaqf lock", f"sdaqf lock {label} --only {alias}")
            path, line, required = source.locator.path, source.locator.line_start, [label] if source.required else []
            if instant(end) < instant(self.run.now):
                message = f"valid until {end}; it is {self.run.now} now"
                self.add(Finding.EXPIRED, path, line, message, [label], settle=settle, required=required)
            elif instant(end) <= instant(self.soon):
                self.add(Finding.EXPIRES_SOON, path, line, f"valid until {end}", [label], settle=settle, required=required)

    def _contradictions(self, manifest: Artifact[Manifest], file: ManifestFile, label: str) -> None:
        if not any(related.edge_type is EdgeType.CONTRADICTS for related in manifest.content.relationships):
            return
        owner = self.run.owner is not None and any(s.locator.root_scope is RootScope.OWNER for s in manifest.content.sources)
        try:
            graph = index(manifest, Pass(self.run), owner_root=owner)
        except SdaqfError as error:
            self._refused(error, file)
            return
        for hidden in hidden_contradictions(manifest, graph):
            message = f"contradicts {hidden.lost.locator.path}, which was left out ({hidden.reason})"
            severity = Severity.ERROR if hidden.kept.required else Severity.WARNING
            place = hidden.kept.locator
            self.add(Finding.CONTRADICTION_HIDDEN, place.path, place.line_start, message, [label], severity=severity)

    def _objects(self, manifest: ManifestFile) -> None:
        """Every object that a ref of the manifest points to is what its name says."""
        chains = [Chain(manifest.name, query) for query in self.run.store.queries(manifest.name)] or [Chain(manifest.name, DEFAULT)]
        for name in dict.fromkeys(stages.ref_name(chain, stage.makes) for chain in chains for stage in stages.STAGES):
            object_id = self.run.store.ref(name)
            try:
                if object_id is not None:
                    self.run.store.get(object_id)
            except Unreadable as error:
                settle = f"sdaqf build {manifest.name}"
                self.add(Finding.TAMPERED, manifest.path, 1, f"{name}: {error.message}", [manifest.name], settle=settle, part=name)

    # ---- what documents mention

    def mentions(self) -> None:
        for name in mentions.ALWAYS:
            if name in self.run.tree.files:
                self.documents.setdefault(name, "")
        reader = self.run.reader()

        def read(path: str) -> str | None:
            try:
                return reader.read(RootScope.REPOSITORY, path, SOURCE_BYTES).data.decode("utf-8")
            except (UnicodeDecodeError, SdaqfError):
                return None

        texts = {path: text for path in sorted(self.documents) if (text := read(path)) is not None}
        looked = mentions.look(texts, self.run.tree, lambda paths: History(self.run.repository, paths), read)
        self.mentioned = looked.total
        for found in mentions.findings(looked):
            self.found[found.path, f"{found.line}:{found.message}", found.code.value, ""] = found

    def blocks(self, manifests: Sequence[ManifestFile]) -> None:
        for found in blocks.blocks(self.run, manifests):
            self.found[found.path, f"{found.line}:{found.message}", found.code.value, ""] = found

    # ---- adding up

    def add(self, code: Finding, path: str, line: int, message: str, contexts: Iterable[str], **more: Any) -> None:
        """Keep a finding; one about the same text is told together with it."""
        key = (path, more.get("part", ""), code.value, more.get("old", ""))
        more = {"settle": code.settles, "severity": code.severity, "required": (), **more}
        found = self.found.get(key) or Found(code=code, path=path, line=line, message=message, **more)
        self.found[key] = found._replace(
            contexts=tuple(sorted({*found.contexts, *contexts})), required=tuple(sorted({*found.required, *more["required"]}))
        )

    def result(self, manifests: Sequence[ManifestFile], base: str, unmet: str) -> Checked:
        policy = self.run.project.settings.policy
        judged = [found._replace(severity=Severity(policy.get(found.code.value, found.severity.value))) for found in self.found.values()]
        shown = [found for found in judged if found.severity is not Severity.OFF]
        return Checked(
            findings=tuple(sorted(shown, key=lambda found: (found.path, found.line, found.code.value, found.part))),
            pinned=len(self.pinned),
            as_reviewed=sum(self.pinned.values()),
            following=len(self.following),
            mentions=self.mentioned,
            manifests=tuple(manifest.name for manifest in manifests),
            git_head=self.run.tree.git_head,
            now=self.run.now,
            fixed_clock="SDAQF_NOW" in os.environ,
            base=base,
            unmet=unmet,
        )


def told_by(declaration: Declaration, held: Held) -> tuple[list[str], list[str]]:
    """The contexts whose query may tell a source, and those that require it."""
    chains = {name: Chain(declaration.name, name).label for name in declaration.queries}
    alias, always = held.declared.alias, held.declared.entry.required
    required = [label for name, label in chains.items() if always or alias in declaration.queries[name].entry.require]
    return list(chains.values()), required


def _place(where: str, path: str) -> tuple[str, int]:
    """`file:line:column` as file and line; the manifest where an error has no place."""
    name, *numbers = where.split(":")
    return (name or path, int(numbers[0])) if numbers and numbers[0].isdecimal() else (path, 1)
