"""This module makes a Manifest of a declaration: it finds the files, reads them and pins them by digest (PIPELINE 2).

The same YAML, files and tree give the same Manifest on every machine. Nothing is inferred from a file's content but
digests, lines, headings and symbols. What a person wrote and cannot be meant is refused with its line; a member of a
glob that cannot be a source is left out and named in the notes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from sdaqf_tasks.context import excerpts
from sdaqf_tasks.context.excerpts import Span
from sdaqf_tasks.context.listing import File, Listing, also
from sdaqf_tasks.context.staleness import Held
from sdaqf_tasks.errors import Invalid, Malformed, Reason, SdaqfError, Unreadable, shown
from sdaqf_tasks.formats import canonical, records
from sdaqf_tasks.formats.artifacts import CONTEXT_BYTES, NODES, Artifact, Manifest, Relationship, convert, publishable
from sdaqf_tasks.formats.declaration import SPECIFICATION, Declaration, Declared, Related
from sdaqf_tasks.formats.entries import Spot
from sdaqf_tasks.formats.lockfile import Pin
from sdaqf_tasks.formats.manifest_yaml import Defaults
from sdaqf_tasks.formats.records import Authority, Kind, Locator, Provenance, RootScope, Source
from sdaqf_tasks.world import Sources, Tree, lines


class Compiled(NamedTuple):
    """A Manifest, the source ids of every alias, what a person should know (one sentence each, in reading order), and the
    present text of every pinned source.
    """

    manifest: Artifact[Manifest]
    members: dict[str, tuple[str, ...]]
    notes: tuple[str, ...]
    held: tuple[Held, ...]


def compile(declaration: Declaration, sources: Sources) -> Compiled:
    """The Manifest of `declaration` on the present tree, which is observed before and after.

    Raises `Invalid` with `file:line:column` for what cannot be meant, `Unreadable` where the tree moves meanwhile.
    """
    tree = sources.tree()
    compiler = _Compiler(declaration, sources, tree)
    compiler.verify_specification()
    members = {declared.alias: compiler.sources_of(declared) for declared in declaration.sources}
    compiler.verify_bounds(members)
    found = sorted((source for group in members.values() for source in group), key=lambda source: source.source_id)
    measure = members[SPECIFICATION][0].locator.sha256
    content = Manifest(
        candidate=records.CandidateIdentity(source_spec_sha256=measure, git_head=tree.git_head, repository_digest=tree.repository_digest),
        sensitivity=max(source.sensitivity for source in found),
        sources=tuple(found),
        relationships=compiler.relationships(members),
    )
    if sources.tree()[:2] != tree[:2]:
        raise Unreadable(Reason.CANDIDATE_MOVED, "the tree changed while the manifest was compiled")
    try:
        manifest = publishable(content)
    except Malformed:
        related = f" and {len(content.relationships)} relationships" if content.relationships else ""
        message = f"the Manifest would have more than {canonical.SMALL_BYTES:,} bytes: {_counts(members)}{related}"
        raise compiler.spot.fault(message, todo="Narrow the largest globs: about 900 sources fit.", reason=Reason.TOO_LARGE) from None
    ids = {alias: tuple(source.source_id for source in group) for alias, group in members.items()}
    return Compiled(manifest, ids, compiler.listing.notes, tuple(compiler.held))


class Survey(NamedTuple):
    """What `check` asks of a manifest: where its sources are, by alias, and the present text of every pinned one."""

    places: dict[str, tuple[Place, ...]]
    held: tuple[Held, ...]


def survey(declaration: Declaration, sources: Sources) -> Survey:
    """The sources of `declaration` as `compile` finds them, refused as there, and without a Manifest of them.

    Thousands are surveyed in the time in which hundreds are compiled: of those that say nothing but where they are and of
    what kind, one a kind is made. That the tree stays as it is meanwhile is *not* checked.
    """
    compiler = _Compiler(declaration, sources, sources.tree())
    compiler.verify_specification()
    related = {end for each in declaration.relationships for end in (each.entry.start, each.entry.to)}
    places = {}
    members: dict[str, list[Source]] = {}
    made: set[tuple[Kind, int]] = set()
    for declared in declaration.sources:
        places[declared.alias] = found = tuple(compiler.places_of(declared))
        sort = (declared.entry.kind, id(declared.defaults))
        if declared.alias in related or not (sort in made and _says_little(declared, found)):
            made.add(sort)
            members[declared.alias] = [compiler.source(declared, place) for place in found]
    compiler.verify_bounds(places)
    compiler.relationships(members)
    if sum(_USUAL_BYTES + 3 * len(place.file.path) + len(place.title) for group in places.values() for place in group) > _CLOSE:
        compile(declaration, sources)  # which counts its bytes
    return Survey(places, tuple(compiler.held))


_USUAL_BYTES, _CLOSE = 1_000, 900_000
"""What a source has in a Manifest beside its names, and from where on the bound of a Manifest may be near."""


def _says_little(declared: Declared, places: Sequence[Place]) -> bool:
    """Whether the sources are as good as any other of their kind: nothing was written that could be wrong."""
    entry = declared.entry
    written = (entry.title, entry.identifiers, entry.labels, entry.producer, entry.recorded_by, entry.sensitivity, entry.authority)
    plain = all(member is UNSET for member in (*written, entry.freshness)) and not entry.provenance
    return plain and entry.root is RootScope.REPOSITORY and all(len(p.title) <= _SHORT and p.title.isprintable() for p in places)


_SHORT = 200


def held(declaration: Declaration, sources: Sources) -> list[Held]:
    """The present text of every pinned source, or why it cannot be had; nothing is raised for a single one."""
    compiler = _Compiler(declaration, sources, sources.tree())
    for declared in declaration.sources:
        try:
            compiler.sources_of(declared)
        except SdaqfError as error:
            if declared.pinned:
                pin = Pin(declared.entry.root.value, declared.pattern, declared.part)
                compiler.held.append(Held(pin, declared, error=error))
    return compiler.held


class Place(NamedTuple):
    """Where a source is: a file, some of its lines, and the title it goes by."""

    file: File
    span: Span
    title: str


class _Compiler:
    """One compilation: which lines are taken, under which title, and what their files weigh."""

    def __init__(self, declaration: Declaration, sources: Sources, tree: Tree) -> None:
        self.declaration = declaration
        self.listing = Listing(declaration, sources, tree)
        self.places: dict[tuple[RootScope, str, Span], Declared] = {}
        self.titles: dict[tuple[RootScope, str, str], Declared] = {}
        self.weights: Counter[str] = Counter()
        self.held: list[Held] = []

    @property
    def spot(self) -> Spot:
        """Where the sources of the manifest itself begin."""
        return Spot(self.declaration.documents[0], ("sources",))

    def verify_specification(self) -> None:
        if self.declaration.sources and self.declaration.sources[0].alias == SPECIFICATION:
            return
        document = self.declaration.documents[0]
        first = next((key for key in document.value if key not in ("sdaqf", "title")), "sdaqf")
        offered = self.listing.offered()
        todo = (
            "A manifest names the one document that says what this project must do: it is always included and everything else is "
            f"measured against it. Add:  specification: {offered[0] if offered else 'README.md'}{also(offered)}"
        )
        raise Spot(document, (first,)).fault("no specification", todo=todo, key=True)

    # ---- sources

    def sources_of(self, declared: Declared) -> list[Source]:
        """The sources of one alias: one for a path, any number for a glob, in the order of the tree."""
        return [self.source(declared, place) for place in self.places_of(declared)]

    def places_of(self, declared: Declared) -> Iterator[Place]:
        """Where the sources of one alias are; what is pinned is held, and no two are the same."""
        if not declared.is_glob:
            file = self.listing.named(declared)
            span = self._span(declared, file)
            self._hold(declared, file, excerpts.selected(file.text, span), span.first)
            yield self._distinct(declared, Place(file, span, declared.title))
            return
        for file, spans in self.listing.matching(declared):
            self._hold(declared, file, file.text, 1)
            title = declared.entry.title or file.path
            for number, span in enumerate(spans, 1):
                yield self._distinct(declared, Place(file, span, title if len(spans) == 1 else f"{title} ({number} of {len(spans)})"))

    def _hold(self, declared: Declared, file: File, text: str, line: int) -> None:
        if declared.pinned:
            self.held.append(Held(Pin(file.scope.value, file.path, declared.part), declared, text, line))

    def _span(self, declared: Declared, file: File) -> Span:
        """The lines that were asked for, at most 65,536 characters of them."""
        try:
            span = excerpts.part(file.text, declared.part)
        except Invalid as error:
            kind = declared.part[0]
            path = shown(file.path)
            message = f"{path} has {len(lines(file.text))} lines" if kind == "lines" else f"{path}: {error.message}"
            raise declared.spot.at(kind).fault(message, todo=error.todo) from None
        if (size := excerpts.characters(file.text, span)) > records.TEXT_CHARACTERS:
            part = "" if span == (1, len(lines(file.text))) else f", lines {span.first} to {span.last},"
            message = f"{shown(file.path)}{part} has {size:,} characters; a source has at most {records.TEXT_CHARACTERS:,}"
            todo = _shorter(file) if declared.alias == SPECIFICATION else "Name a part of it: section, symbol or lines."
            raise declared.place.fault(message, todo=todo, reason=Reason.SOURCE_TEXT_LIMIT)
        return span

    def source(self, declared: Declared, place: Place) -> Source:
        """The source at a place of `places_of`. Raises `Invalid` at the member that does not fit."""
        (file, span, title), entry, defaults, spot = place, declared.entry, declared.defaults, declared.spot
        owner = "Owner" if entry.authority is Authority.OWNER_APPROVED else None
        references = {file.path: file.observed.sha256} | self._references(file.scope, entry.provenance, spot, ignored=entry.ignored)
        freshness = declared.freshness
        try:
            source = Source.seal(
                kind=entry.kind,
                title=title,
                locator=Locator(
                    root_scope=file.scope, path=file.path, sha256=file.observed.sha256, line_start=span.first, line_end=span.last
                ),
                provenance=self._provenance(references, defaults, entry.producer or owner, entry.recorded_by or owner),
                authority=declared.authority,
                freshness=freshness,
                sensitivity=declared.sensitivity,
                identifiers=tuple(sorted(entry.identifiers or ())),
                labels=tuple(sorted(entry.labels or ())),
                required=entry.required,
            )
            convert(msgspec.to_builtins(source), Source)  # lengths, which a record does not count when it is built
        except Invalid as error:
            steps = [int(step) if step.isdigit() else step for step in error.where.split("/") if step and step != "provenance"]
            raise spot.at(*steps).fault(f"{error.where.replace('/', ' ')}: {error.message}", reason=error.reason) from None
        _verify_authority(declared, source)
        return source

    def _references(self, scope: RootScope, paths: Sequence[str], spot: Spot, *, ignored: bool = False) -> dict[str, str]:
        """The digests of the files that `provenance` names."""
        spots = {path: spot.at("provenance", index) for index, path in enumerate(paths)}
        return {path: self.listing.reference(scope, path, there, ignored=ignored) for path, there in spots.items()}

    def _provenance(
        self, references: dict[str, str], defaults: Defaults, producer: str | None = None, recorded_by: str | None = None
    ) -> Provenance:
        """`references` by path with their digests; who produced and recorded it as given, or as usual."""
        return Provenance(
            producer=producer or defaults.producer,
            recorded_by=recorded_by or defaults.recorded_by or self.declaration.name,
            references=tuple(records.ArtifactReference(path=path, sha256=sha256) for path, sha256 in sorted(references.items())),
        )

    def _distinct(self, declared: Declared, found: Place) -> Place:
        """No lines twice; and titles that tell the parts of a file apart, since a query finds them again by title."""
        file, span, title = found
        place, name = (file.scope, file.path, span), (file.scope, file.path, title)
        if other := self.places.get(place):
            message = f"{shown(file.path)}, lines {span.first} to {span.last}, is {other.alias} already"
            raise declared.place.fault(message, todo="Leave one of the two out.", reason=Reason.DUPLICATE_LOCATOR)
        self.places[place] = declared
        self._look_at(declared, file, span)
        if declared.entry.lines is not UNSET:
            return found
        if other := self.titles.get(name):
            raise declared.place.fault(f"{other.alias} has the title '{shown(title)}' already", todo="Give one of the two another title.")
        self.titles[name] = declared
        return found

    def _look_at(self, declared: Declared, file: File, span: Span) -> None:
        """Weigh the file, and note what a person should know of its text."""
        if _UNCOUNTED.search(file.text):
            self.listing.note(f"{file.path} has line breaks that an editor does not count: its line numbers here count them")
        secret = records.SECRET.search(file.text)
        if secret:
            start = excerpts.characters(file.text, Span(1, span.first - 1))
            secret = records.SECRET.search(file.text, start, start + excerpts.characters(file.text, span))
        if not secret:
            self.weights[file.path] += len(file.observed.data)
            return
        line = file.text.count("\n", 0, secret.start()) + 1
        what = "looks like a key or a token (one of three known shapes; this is a heuristic, not a scan)"
        if declared.entry.required:
            message = f"{shown(file.path)}:{line} is required and {what}"
            raise declared.place.fault(message, todo=Reason.SECRET_SHAPED.todo, reason=Reason.SECRET_SHAPED)
        self.listing.note(f"{file.path}:{line} left out: {what}")

    # ---- what relates sources

    def relationships(self, members: dict[str, list[Source]]) -> tuple[Relationship, ...]:
        """Every declared relationship, an alias with several members standing for each; ascending as FORMAT 3.7 wants."""
        found: dict[tuple[str, str, str], Relationship] = {}
        for related in self.declaration.relationships:
            entry, spot = related.entry, related.spot
            starts, targets = members[entry.start], members[entry.to]
            if len(starts) > 1 and len(targets) > 1:
                product = f"{len(starts)} × {len(targets)} = {len(starts) * len(targets):,} relationships"
                raise spot.fault(f"{entry.start} and {entry.to} have several members each: {product}", todo="Name one file at one end.")
            if entry.start == entry.to and len(starts) == 1:
                raise spot.fault(f"{entry.start} is related to itself", todo="Leave it out, or name another alias.")
            for start, target in ((start, target) for start in starts for target in targets if start is not target):
                source_id, target_id = records.ends(entry.type, start.source_id, target.source_id)
                key = (entry.type.value, source_id, target_id)
                if key in found:
                    message = f"{shown(start.locator.path)} {entry.type.value} {shown(target.locator.path)} is said already"
                    raise spot.fault(message, todo="Leave one of them out.")
                provenance = self._bears_out(related, start, target)
                found[key] = Relationship(edge_type=entry.type, source_id=source_id, target_id=target_id, provenance=provenance)
        return tuple(found[key] for key in sorted(found))

    def _bears_out(self, related: Related, start: Source, target: Source) -> Provenance:
        """The files given, else that of `from` if it is in the repository, else that of `to`."""
        references = self._references(RootScope.REPOSITORY, related.entry.provenance, related.spot)
        here = [end.locator for end in (start, target) if end.locator.root_scope is RootScope.REPOSITORY]
        if not references and not here:
            todo = f"Write:  {{from: {related.entry.start}, type: {related.entry.type.value}, to: {related.entry.to}, provenance: [FILE]}}"
            raise related.spot.fault("both ends are owner files: a file of the repository must bear the relationship out", todo=todo)
        return self._provenance(references or {here[0].path: here[0].sha256}, related.defaults)

    # ---- bounds

    def verify_bounds(self, members: Mapping[str, Sequence[object]]) -> None:
        """Not too many sources, and files that together are no more than a Graph takes (FORMAT 6.5 e)."""
        if (count := sum(map(len, members.values()))) > NODES:
            raise self.spot.fault(f"{count:,} sources; at most {NODES:,}: {_counts(members)}", todo="Narrow the largest globs.")
        if (total := self.weights.total()) > CONTEXT_BYTES:
            largest = sorted(self.weights.items(), key=lambda item: (-item[1], item[0]))[:5]
            named = ", ".join(f"{shown(path)} {size // 1_024:,} KiB" for path, size in largest)
            message = f"the files of all sources have {total:,} bytes, whole and once a source; at most {CONTEXT_BYTES:,}: {named}"
            raise self.spot.fault(message, todo="Leave some out: exclude, or narrower globs.", reason=Reason.TOTAL_SOURCE_BYTE_LIMIT)


_UNCOUNTED = re.compile(r"[\v\f\x1c-\x1e\x85\u2028\u2029]|\r(?!\n)")
"""The line ends of FORMAT 5.3 that an editor does not count."""


def _verify_authority(declared: Declared, source: Source) -> None:
    """FORMAT 3.6, at the member that does not go with the others."""
    if not (fault := records.authority_fault(source)):
        return
    spot, authority = declared.spot, source.authority.value
    for member in ("producer", "recorded_by"):
        if getattr(declared.entry, member) not in (UNSET, "Owner") and source.authority is Authority.OWNER_APPROVED:
            raise spot.at(member).fault(f"of {authority} the {member} is Owner", todo=f"Leave {member} out.", reason=fault)
    message = f"{authority} does not go with kind {source.kind.value} under the {source.locator.root_scope.value} root"
    raise spot.at("authority").fault(message, todo=ALLOWED, reason=fault)


ALLOWED = (
    "accepted-public-contract takes requirement, decision or design of the repository; verified-evidence takes evidence of the "
    "repository; owner-approved takes requirement, decision, design or handoff of the owner root; a tool-observation is an "
    "untrusted-observation."
)


def _shorter(file: File) -> str:
    """What to write in place of a specification that is too long: a section that fits, else lines that do."""
    fitting: list[excerpts.Heading] = []
    part = "lines: 1-1"
    known = excerpts.headings(file.text)
    once = Counter(heading.text for heading in known)
    for heading in known:
        inside = fitting and heading.span.last <= fitting[-1].span.last
        short = once[heading.text] == 1 and shown(heading.text) == heading.text != ""
        if not inside and short and excerpts.characters(file.text, heading.span) <= records.TEXT_CHARACTERS:
            fitting.append(heading)
    others = ""
    if fitting:
        part = f"section: {json.dumps(fitting[0].text, ensure_ascii=False)}"
        others = f"     (sections that fit: {', '.join(heading.text for heading in fitting[:6])})"
    else:
        with suppress(Invalid):  # a line that no source can hold
            part = f"lines: 1-{excerpts.pieces(file.text, file.path)[0].last}"
    return f"It is always included, so it must fit. Add:  specification: {{path: {file.path}, {part}}}{others}"


def _counts(members: Mapping[str, Sequence[object]]) -> str:
    """How many sources the aliases have that have most."""
    return ", ".join(f"{alias} {len(group)}" for alias, group in sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))[:8])
