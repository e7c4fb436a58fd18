"""This module makes a Manifest of a declaration: it finds the files, reads them and pins them by digest (PIPELINE 2).

The same YAML, files and tree give the same Manifest on every machine. Nothing is inferred from a file's content but
digests, lines, headings and symbols. What a person wrote and cannot be meant is refused with its line; a member of a
glob that cannot be a source is left out and named in the notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import UNSET

from sdaqf_tasks.context import excerpts, globs
from sdaqf_tasks.context.excerpts import Span
from sdaqf_tasks.errors import Invalid, Malformed, Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import CONTEXT_BYTES, NODES, Artifact, Manifest, Relationship, publishable
from sdaqf_tasks.formats.declaration import SPECIFICATION, Declaration, Declared, Related, Spot, window
from sdaqf_tasks.formats.plain_yaml import nearest
from sdaqf_tasks.formats.records import (
    SECRET,
    TEXT_CHARACTERS,
    ArtifactReference,
    Authority,
    CandidateIdentity,
    EdgeType,
    Freshness,
    FreshnessKind,
    Kind,
    Locator,
    Provenance,
    RootScope,
    Sensitivity,
    Source,
    authority_fault,
    is_path,
)
from sdaqf_tasks.world import REFERENCE_BYTES, SOURCE_BYTES, Observed, Sources, Tree, decode, lines


class Compiled(NamedTuple):
    """A Manifest, the source ids of every alias, and what a person should know (one sentence each, in reading order)."""

    manifest: Artifact[Manifest]
    members: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]


class _File(NamedTuple):
    """A file that can be a source."""

    path: str
    observed: Observed
    text: str


def compile(declaration: Declaration, sources: Sources) -> Compiled:
    """The Manifest of `declaration` on the present tree, which is observed before and after.

    Raises `Invalid` with `file:line:column` for what cannot be meant, `Unreadable` where a file moves under the reader.
    """
    tree = sources.tree()
    compiler = _Compiler(declaration, sources, tree)
    members = {declared.alias: list(compiler.sources_of(declared)) for declared in declaration.sources}
    found = compiler.verify_bounds(members)
    content = Manifest(
        candidate=CandidateIdentity(
            source_spec_sha256=members[SPECIFICATION][0].locator.sha256, git_head=tree.git_head, repository_digest=tree.repository_digest
        ),
        sensitivity=max(source.sensitivity for source in found),
        sources=tuple(sorted(found, key=lambda source: source.source_id)),
        relationships=compiler.relationships(members),
    )
    if sources.tree()[:2] != tree[:2]:
        raise Unreadable(Reason.CANDIDATE_MOVED, "the tree changed while the manifest was compiled")
    try:
        manifest = publishable(content)
    except Malformed:
        counts = ", ".join(f"{alias} {len(group)}" for alias, group in sorted(members.items(), key=lambda item: -len(item[1]))[:8])
        message = f"the Manifest would pass {canonical.SMALL_BYTES} bytes; sources per alias: {counts}"
        raise Spot(declaration.documents[0], ("sources",)).fault(message, todo="Narrow the largest globs, about 900 sources fit.") from None
    return Compiled(
        manifest, {alias: tuple(source.source_id for source in group) for alias, group in members.items()}, tuple(compiler.notes)
    )


class _Compiler:
    """One compilation: what is named, what globs took, and what was left out."""

    def __init__(self, declaration: Declaration, sources: Sources, tree: Tree) -> None:
        self.declaration, self.sources, self.tree = declaration, sources, tree
        self.files = frozenset(tree.files)
        self.named = {d.pattern for d in declaration.sources if not d.is_glob and d.entry.root is RootScope.REPOSITORY}
        self.taken: dict[str, Declared] = {}
        self.places: dict[tuple[RootScope, str, Span], Declared] = {}
        self.titles: dict[tuple[RootScope, str, str], Declared] = {}
        self.sizes: dict[str, int] = {}
        self.notes: list[str] = []

    # ---- sources

    def sources_of(self, declared: Declared) -> Iterator[Source]:
        """The sources of one alias: one for a path, any number for a glob, in the order of the tree."""
        if not declared.is_glob:
            file = self._named_file(declared)
            yield self._source(declared, file, self._span(declared, file), declared.title)
            return
        for path in self._matching(declared):
            try:
                file = self._file(RootScope.REPOSITORY, path)
                spans = excerpts.pieces(file.text, path)
            except SdaqfError as error:
                self._leave_out(path, error.message)
                continue
            if secret := SECRET.search(file.text):
                line = file.text.count("\n", 0, secret.start()) + 1
                self.notes.append(f"{path}:{line} looks like a key or a token (three known shapes; this is no scan): it will be left out")
            for number, span in enumerate(spans, 1):
                title = declared.entry.title or path
                yield self._source(declared, file, span, title if len(spans) == 1 else f"{title} ({number} of {len(spans)})")

    def _matching(self, declared: Declared) -> Iterator[str]:
        """The files that a glob takes. Whatever it matches and cannot take is noted; nothing at all is an error."""
        spot = declared.place
        try:
            wanted = globs.compiled(declared.pattern)
            unwanted = [globs.compiled(glob) for glob in declared.excluded]
        except Invalid as error:
            raise spot.fault(error.message, todo=error.todo) from None
        found = False
        for kind, names in (("", self.tree.files), ("a link", self.tree.links), ("a submodule", self.tree.submodules)):
            for name in names:
                if not wanted.fullmatch(name) or any(glob.fullmatch(name) for glob in unwanted):
                    continue
                found = True
                if kind or not is_path(name):
                    self._leave_out(name, kind or "its name is not portable: only A-Z a-z 0-9 . _ / - are")
                elif ".git" in name.lower().split("/"):
                    self._leave_out(name, "a path through .git is never read")
                elif name not in self.named:
                    self._take(name, declared)
                    yield name
        if not found:
            close = nearest(declared.pattern, self.tree.files)
            raise spot.fault(
                f"{declared.pattern} matches no file of the tree", todo=f"Nearest file: {close}" if close else "Correct the glob."
            )

    def _take(self, path: str, declared: Declared) -> None:
        if other := self.taken.get(path):
            raise declared.place.fault(
                f"{path} is taken by {other.alias} already ({other.pattern})", todo=f"Add to one of the two:  exclude: [{path}]"
            )
        self.taken[path] = declared

    def _leave_out(self, name: str, why: str) -> None:
        self.notes.append(f"{ascii(name)[1:-1]} left out: {why}")

    def _named_file(self, declared: Declared) -> _File:
        """The file of a `path`. Whatever would leave a member of a glob out is an error here."""
        entry, path, spot = declared.entry, declared.pattern, declared.place
        if not is_path(path):
            raise spot.fault(
                f"{ascii(path)[1:-1][:80]} is not a portable path", todo="Only A-Z a-z 0-9 . _ / - are, from the top of the tree."
            )
        if ".git" in path.lower().split("/"):
            raise spot.fault("a path through .git is never read", todo="Name another file.")
        if entry.root is RootScope.REPOSITORY:
            self._verify_in_tree(path, entry.ignored, spot)
        elif entry.ignored:
            raise declared.spot.at("ignored").fault("owner files are in no tree anyway", todo="Leave `ignored` out.", key=True)
        try:
            file = self._file(entry.root, path)
        except SdaqfError as error:
            raise spot.fault(f"{path} cannot be a source: {error.message}", todo=error.todo, reason=error.reason) from None
        if isinstance(entry.sha256, str) and entry.sha256.upper() != file.observed.sha256:
            message = f"{path} is not the pinned version; its digest is {file.observed.sha256.lower()}"
            raise declared.spot.at("sha256").fault(
                message, todo="Read what changed, then correct the digest.", reason=Reason.DIGEST_MISMATCH
            )
        return file

    def _verify_in_tree(self, path: str, ignored: bool, spot: Spot) -> None:
        if path in self.files:
            if ignored:
                raise spot.fault(f"{path} is part of the tree: git does not ignore it", todo="Leave `ignored` out.")
            return
        for kind, names in (("a link", self.tree.links), ("a submodule", self.tree.submodules), ("deleted", self.tree.absent)):
            if path in names:
                raise spot.fault(f"{path} is {kind}", todo="Name a regular file.", reason=Reason.MISSING_OR_UNREADABLE)
        try:
            self.sources.read(RootScope.REPOSITORY, path, REFERENCE_BYTES)
        except Unreadable as error:
            if error.reason is not Reason.MISSING_OR_UNREADABLE:
                return
            close = nearest(path, self.tree.files)
            todo = (
                "Restore it: git ignores it, so no commit has it."
                if ignored
                else f"Nearest file: {close}"
                if close
                else "Correct the path."
            )
            raise spot.fault(f"{path} is missing or cannot be read", todo=todo, reason=Reason.MISSING_OR_UNREADABLE) from None
        if not ignored:
            raise spot.fault(
                f"{path} is ignored by git: its bytes are not part of the tree and nobody else may have it",
                todo=f"Say so if you mean it:  {{path: {path}, ignored: true}}",
            )

    def _file(self, scope: RootScope, path: str) -> _File:
        observed = self.sources.read(scope, path, SOURCE_BYTES)
        return _File(path, observed, decode(observed.data))

    def _span(self, declared: Declared, file: _File) -> Span:
        """The lines that were asked for, at most 65,536 characters of them."""
        entry, spot, last = declared.entry, declared.spot, len(lines(file.text))
        if isinstance(entry.section, str):
            span = _located(lambda: excerpts.section(file.text, str(entry.section)), spot.at("section"), file.path)
        elif isinstance(entry.symbol, str):
            span = _located(lambda: excerpts.symbol(file.text, str(entry.symbol)), spot.at("symbol"), file.path)
        elif declared.lines:
            span = Span(*declared.lines)
            if span.last > last:
                raise spot.at("lines").fault(f"{file.path} has {last} lines")
        else:
            span = Span(1, last)
        if (size := excerpts.characters(file.text, span)) > TEXT_CHARACTERS:
            raise self._too_long(declared, file, size)
        return span

    def _too_long(self, declared: Declared, file: _File, size: int) -> SdaqfError:
        message = f"{file.path} has {size:,} characters; a source has at most {TEXT_CHARACTERS:,}"
        fitting = [head.text for head in excerpts.headings(file.text) if excerpts.characters(file.text, head.span) <= TEXT_CHARACTERS]
        if declared.alias != SPECIFICATION:
            return declared.place.fault(message, todo="Name a part of it: section, symbol or lines.", reason=Reason.SOURCE_TEXT_LIMIT)
        todo = "It is always included, so it must fit. "
        if fitting:
            todo += f'Write:  specification: {{path: {file.path}, section: "{fitting[0]}"}}   (sections that fit: {", ".join(fitting[:6])})'
        else:
            todo += f"Write:  specification: {{path: {file.path}, lines: 1-200}}"
        return declared.place.fault(message, todo=todo, reason=Reason.SOURCE_TEXT_LIMIT)

    def _source(self, declared: Declared, file: _File, span: Span, title: str) -> Source:
        entry, defaults, spot = declared.entry, declared.defaults, declared.spot
        scope, owner = entry.root, entry.root is RootScope.OWNER
        self._verify_distinct(declared, scope, file.path, span, title)
        self.sizes[file.path] = len(file.observed.data)
        approved = entry.authority is Authority.OWNER_APPROVED
        usual = Authority.UNTRUSTED_OBSERVATION if entry.kind is Kind.TOOL_OBSERVATION else Authority.REPOSITORY_RECORD
        sensitivity = Sensitivity.OWNER_PRIVATE if owner else defaults.sensitivity or Sensitivity.REPOSITORY_PRIVATE
        references = {(file.path, file.observed.sha256)} | {
            (path, self._reference(scope, path, entry.ignored, spot.at("provenance", index))) for index, path in enumerate(entry.provenance)
        }
        try:
            source = Source.seal(
                kind=entry.kind,
                title=title,
                locator=Locator(root_scope=scope, path=file.path, sha256=file.observed.sha256, line_start=span.first, line_end=span.last),
                provenance=Provenance(
                    producer=entry.producer or ("Owner" if approved else defaults.producer),
                    recorded_by=entry.recorded_by or ("Owner" if approved else defaults.recorded_by or self.declaration.name),
                    references=tuple(ArtifactReference(path=path, sha256=sha256) for path, sha256 in sorted(references)),
                ),
                authority=entry.authority or usual,
                freshness=self._freshness(declared),
                sensitivity=entry.sensitivity or sensitivity,
                identifiers=_sorted(entry.identifiers, spot.at("identifiers")),
                labels=_sorted(entry.labels, spot.at("labels")),
                required=entry.required,
            )
        except Invalid as error:
            if error.excerpt:
                raise
            raise _member(spot, error).fault(f"{error.where.replace('/', ' ')}: {error.message}", reason=error.reason) from None
        if fault := authority_fault(source):
            message = f"{source.authority.value} does not go with kind {entry.kind.value}, root {scope.value} and this producer"
            raise spot.at("authority").fault(message, todo=ALLOWED, reason=fault)
        return source

    def _verify_distinct(self, declared: Declared, scope: RootScope, path: str, span: Span, title: str) -> None:
        if other := self.places.get((scope, path, span)):
            raise declared.place.fault(f"{path} lines {span.first} to {span.last} are {other.alias} already")
        self.places[scope, path, span] = declared
        if declared.entry.lines is UNSET and (other := self.titles.get((scope, path, title))):
            raise declared.place.fault(f"{other.alias} has the title {title!r} already", todo="Give one of the two another title.")
        self.titles[scope, path, title] = declared

    def _freshness(self, declared: Declared) -> Freshness:
        given = declared.entry.freshness
        if given is UNSET:
            if declared.entry.kind is Kind.TOOL_OBSERVATION:
                todo = "Write:  freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}"
                raise declared.spot.fault("a tool-observation says when it was observed and how long it holds", todo=todo)
            return Freshness(kind=FreshnessKind.CANDIDATE_BOUND, observed_at=None, valid_until=None)
        if isinstance(given, str):
            return Freshness(kind=FreshnessKind.IMMUTABLE, observed_at=None, valid_until=None)
        observed, until = window(given, declared.spot.at("freshness"))
        return Freshness(kind=FreshnessKind.EXPIRES_AT, observed_at=observed, valid_until=until)

    def _reference(self, scope: RootScope, path: str, ignored: bool, spot: Spot) -> str:
        """The digest of a file named as provenance."""
        if not is_path(path):
            raise spot.fault(f"{ascii(path)[1:-1][:80]} is not a portable path")
        if scope is RootScope.REPOSITORY and not ignored:
            self._verify_in_tree(path, False, spot)
        try:
            return self.sources.read(scope, path, REFERENCE_BYTES).sha256
        except Unreadable as error:
            raise spot.fault(f"{path} cannot be provenance: {error.message}", todo=error.todo, reason=error.reason) from None

    # ---- what relates sources

    def relationships(self, members: dict[str, list[Source]]) -> tuple[Relationship, ...]:
        """Every declared relationship, an alias with several members standing for each; ascending as FORMAT 3.7 wants."""
        found: dict[tuple[str, str, str], Relationship] = {}
        for related in self.declaration.relationships:
            ends = [self.declaration.find(alias, related.spot) for alias in (related.start, related.to)]
            starts, targets = (members[end.alias] for end in ends)
            if len(starts) > 1 and len(targets) > 1:
                message = (
                    f"{related.start} has {len(starts)} members and {related.to} {len(targets)}: {len(starts) * len(targets)} relationships"
                )
                raise related.spot.fault(message, todo="Name one file at one of the ends.")
            if related.start == related.to and len(starts) == 1:
                raise related.spot.fault(f"{related.start} is related to itself")
            for start in starts:
                for target in targets:
                    if start is target:
                        continue
                    low, high = start.source_id, target.source_id
                    if related.edge_type is EdgeType.CONTRADICTS:
                        low, high = sorted((low, high))
                    key = (related.edge_type.value, low, high)
                    if key in found:
                        message = f"{start.locator.path} {related.edge_type.value} {target.locator.path} twice"
                        raise related.spot.fault(message, todo="Leave one of them out.")
                    found[key] = Relationship(
                        edge_type=related.edge_type, source_id=low, target_id=high, provenance=self._bears_out(related, start, target)
                    )
        return tuple(found[key] for key in sorted(found))

    def _bears_out(self, related: Related, start: Source, target: Source) -> Provenance:
        """The files given, else that of `from` if it is in the repository, else that of `to`."""
        references = {
            (path, self._reference(RootScope.REPOSITORY, path, False, related.spot.at("provenance", index)))
            for index, path in enumerate(related.provenance)
        }
        if not references:
            here = [end.locator for end in (start, target) if end.locator.root_scope is RootScope.REPOSITORY]
            if not here:
                todo = "Write {from:, type:, to:, provenance: [FILE]} with a file of the repository."
                raise related.spot.fault("both ends are owner files: what bears the relationship out must be said", todo=todo)
            references = {(here[0].path, here[0].sha256)}
        return Provenance(
            producer=related.defaults.producer,
            recorded_by=related.defaults.recorded_by or self.declaration.name,
            references=tuple(ArtifactReference(path=path, sha256=sha256) for path, sha256 in sorted(references)),
        )

    # ---- bounds

    def verify_bounds(self, members: dict[str, list[Source]]) -> list[Source]:
        """All sources, if there are not too many of them and their files do not exceed what a Graph takes (FORMAT 6.5 e)."""
        found = [source for group in members.values() for source in group]
        spot = Spot(self.declaration.documents[0], ("sources",))
        if len(found) > NODES:
            counts = ", ".join(f"{alias} {len(group)}" for alias, group in sorted(members.items(), key=lambda item: -len(item[1]))[:8])
            raise spot.fault(f"{len(found)} sources; at most {NODES}: {counts}", todo="Narrow the largest globs.")
        total = sum(self.sizes[source.locator.path] for source in found)
        if total > CONTEXT_BYTES:
            largest = sorted(self.sizes.items(), key=lambda item: (-item[1], item[0]))[:5]
            named = ", ".join(f"{path} {size // 1_024} KiB" for path, size in largest)
            message = f"the files of all sources have {total:,} bytes, each counted whole; at most {CONTEXT_BYTES:,}. The largest: {named}"
            raise spot.fault(message, todo="Leave some out: exclude, or narrower globs.", reason=Reason.TOTAL_SOURCE_BYTE_LIMIT)
        return found


ALLOWED = (
    "accepted-public-contract takes requirement, decision or design of the repository; verified-evidence takes evidence of the "
    "repository; owner-approved takes requirement, decision, design or handoff of the owner root; a tool-observation is an "
    "untrusted-observation."
)


def _located(find: Callable[[], Span], spot: Spot, path: str) -> Span:
    try:
        return find()
    except Invalid as error:
        raise spot.fault(f"{path}: {error.message}", todo=error.todo) from None


def _sorted(words: object, spot: Spot) -> tuple[str, ...]:
    """Words ascending; a duplicate is an error."""
    given: list[str] = words if isinstance(words, list) else []
    for index, word in enumerate(given):
        if word in given[:index]:
            raise spot.at(index).fault(f"{word!r} twice")
    return tuple(sorted(given))


def _member(spot: Spot, error: Invalid) -> Spot:
    """Where the member that a record refused was written."""
    steps = [int(step) if step.isdigit() else step for step in error.where.split("/") if step]
    return spot.at(*[step for step in steps if step != "provenance"])
