"""This module reads a manifest's YAML into a declaration: what was written, typed, and where each of it stands (PIPELINE 2).

What a declaration means (files, globs, digests) is `context.compile`'s. Nothing here opens a file.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import UNSET

from sdaqf_tasks.errors import Invalid, shown
from sdaqf_tasks.formats import globs, manifest_yaml, plain_yaml
from sdaqf_tasks.formats.entries import Spot, meant, members, typed, words
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry, Defaults, Expiry, ManifestFile, QueryEntry, SourceEntry
from sdaqf_tasks.formats.plain_yaml import Document
from sdaqf_tasks.formats.records import Authority, Freshness, FreshnessKind, Kind, RootScope, Sensitivity, instant

ALIAS = re.compile(r"[a-z0-9][a-z0-9-]*")
SPECIFICATION = "specification"
"""The alias of the specification; no source may have it."""

PINNED = frozenset({Kind.SPECIFICATION, Kind.REQUIREMENT, Kind.DECISION, Kind.DESIGN, Kind.EVIDENCE, Kind.HANDOFF})
"""Kinds whose reviewed version the lock holds, unless `pin` says otherwise; the others follow the tree."""

DEFAULT = "default"
"""The query that a manifest's own name stands for."""

BUDGET_BYTES = 262_144
"""The budget of a query that names none."""

_LINES = re.compile(r"([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?")
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SIZE = re.compile(r"([1-9][0-9]{0,8})(B|KiB|MiB)")
_SIZES = {"B": 1, "KiB": 1_024, "MiB": 1_048_576}


# ---- what was declared ----------------------------------------------------------------------------------------------


class Declared(NamedTuple):
    """One source as it was written, with the defaults of the file it is written in; `short` is `KIND PATH-OR-GLOB`."""

    alias: str
    entry: SourceEntry
    defaults: Defaults
    spot: Spot
    short: bool

    @property
    def is_glob(self) -> bool:
        return self.entry.glob is not UNSET

    @property
    def pattern(self) -> str:
        """The path or the glob, whichever was given."""
        return cast(str, self.entry.glob if self.is_glob else self.entry.path)

    @property
    def place(self) -> Spot:
        """Where the path or glob stands."""
        return self.spot if self.short else self.spot.at("glob" if self.is_glob else "path")

    @property
    def excluded(self) -> tuple[str, ...]:
        """The globs that `glob` leaves out."""
        given = self.entry.exclude
        return (given,) if isinstance(given, str) else tuple(given or ())

    def takes(self, name: str) -> bool:
        """Whether it means the file of that name, which may not be there. Raises `Invalid` for a glob that is none."""
        if not self.is_glob:
            return name == self.pattern
        return globs.matches(self.pattern, name) and not any(globs.matches(glob, name) for glob in self.excluded)

    @property
    def authority(self) -> Authority:
        """As written, else as usual."""
        observed = self.entry.kind is Kind.TOOL_OBSERVATION
        return self.entry.authority or (Authority.UNTRUSTED_OBSERVATION if observed else Authority.REPOSITORY_RECORD)

    @property
    def sensitivity(self) -> Sensitivity:
        """As written, else as usual for owner files, else as in the defaults."""
        usual = self.defaults.sensitivity or Sensitivity.REPOSITORY_PRIVATE
        return self.entry.sensitivity or (Sensitivity.OWNER_PRIVATE if self.entry.root is RootScope.OWNER else usual)

    @property
    def freshness(self) -> Freshness:
        """As written, else bound to the candidate. Raises `Invalid`, also for a tool-observation that does not say it."""
        given, kind, observed, until = self.entry.freshness, FreshnessKind.CANDIDATE_BOUND, None, None
        if isinstance(given, str):
            kind = FreshnessKind.IMMUTABLE
        elif isinstance(given, Expiry):
            kind, (observed, until) = FreshnessKind.EXPIRES_AT, window(given, self.spot.at("freshness"))
        elif self.entry.kind is Kind.TOOL_OBSERVATION:
            todo = "Write:  freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}"
            raise self.spot.fault("a tool-observation says when it was observed and how long it holds", todo=todo, key=True)
        return Freshness(kind=kind, observed_at=observed, valid_until=until)

    def says(self, member: str) -> Spot | None:
        """Where its authority or sensitivity is written, if that is not the usual one."""
        if getattr(self.entry, member) is not UNSET:
            return self.spot if (self.alias, member) == (SPECIFICATION, "authority") else self.spot.at(member)
        if member == "sensitivity" and self.entry.root is not RootScope.OWNER and self.defaults.sensitivity is not UNSET:
            return Spot(self.spot.document, ("defaults", member))
        return None

    @property
    def pinned(self) -> bool:
        """Whether the lock holds what was reviewed of it: as written, else by kind (PIPELINE 3)."""
        return self.entry.kind in PINNED if self.entry.pin is UNSET else bool(self.entry.pin)

    @property
    def part(self) -> tuple[str, str]:
        """Section, symbol or lines, as they were written; two empty texts for the whole file."""
        for name in ("section", "symbol", "lines"):
            if (value := getattr(self.entry, name)) is not UNSET:
                return name, str(value)
        return "", ""

    @property
    def title(self) -> str:
        """As written, else the path or glob, with the section or symbol."""
        part = self.entry.section or self.entry.symbol
        return self.entry.title or (f"{self.pattern} § {part}" if part else self.pattern)

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last line, where they were written. Raises `Invalid`."""
        return line_range(self.entry.lines, self.spot.at("lines")) if self.entry.lines is not UNSET else None


class Related(NamedTuple):
    """One relationship as it was written, with the defaults of the file it is written in."""

    entry: manifest_yaml.RelationshipEntry
    defaults: Defaults
    spot: Spot


class Asked(NamedTuple):
    """One query as it was written."""

    name: str
    entry: QueryEntry
    spot: Spot

    @property
    def budget_bytes(self) -> int:
        """Raises `Invalid` where it is no size, or none that a budget can have (FORMAT 3.9)."""
        given, spot = self.entry.budget, self.spot.at("budget")
        if isinstance(given, BudgetEntry):
            given, spot = given.bytes, spot.at("bytes")
        return BUDGET_BYTES if given is UNSET else size(given, spot)


class Declaration(NamedTuple):
    """A manifest with its includes. `sources` holds the specification first, where there is one."""

    name: str
    documents: tuple[Document, ...]
    sources: tuple[Declared, ...]
    relationships: tuple[Related, ...]
    queries: dict[str, Asked]

    @property
    def title(self) -> str:
        """As written; empty where it is not."""
        return str(self.documents[0].value.get("title") or "")

    def find(self, alias: str) -> Declared:
        """The source of an alias that was declared."""
        return next(declared for declared in self.sources if declared.alias == alias)

    @property
    def named(self) -> frozenset[str]:
        """The paths of the repository that a source names: no glob takes them."""
        return frozenset(d.pattern for d in self.sources if not d.is_glob and d.entry.root is RootScope.REPOSITORY)

    @property
    def outside(self) -> list[tuple[RootScope, str]]:
        """The files that are named and in no tree: of the owner root, or ignored by git; with their provenance, ascending."""
        found = {
            (declared.entry.root, path)
            for declared in self.sources
            if not declared.is_glob and (declared.entry.ignored or declared.entry.root is RootScope.OWNER)
            for path in (declared.pattern, *declared.entry.provenance)
        }
        return sorted(found, key=lambda pair: (pair[0].value, pair[1]))

    @property
    def has_owner_sources(self) -> bool:
        return any(declared.entry.root is RootScope.OWNER for declared in self.sources)


# ---- reading --------------------------------------------------------------------------------------------------------


def is_manifest(data: bytes) -> bool:
    """Whether a YAML file is one of ours: its first line beside blanks, comments and `---` starts with `sdaqf:`.

    A byte-order mark is overlooked, so that whoever reads the file can say that it is one too many.
    """
    for line in data[: plain_yaml.BYTES].removeprefix(b"\xef\xbb\xbf").splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(b"#") and stripped != b"---":
            return line.startswith(b"sdaqf:")
    return False


def includes(document: Document) -> list[str]:
    """The files that a manifest includes, as written. Raises `Invalid`."""
    return typed(document.value.get("include", []), list[str], Spot(document, ("include",)))


def read(name: str, document: Document, included: Sequence[Document] = ()) -> Declaration:
    """The declaration in `document`, with the sources and relationships of what it includes.

    Raises `Invalid` with `file:line:column` where something has the wrong shape, a word or an alias is unknown, or an
    alias is there twice. What needs the tree (paths, globs, whether there is a specification) is *not* checked here.
    """
    sources: list[Declared] = []
    relationships: list[Related] = []
    for part in (document, *included):
        shape = _file(part, _MEMBERS if part is document else _INCLUDED)
        sources += [*_specification(part, shape), *_sources(part, shape)]
        relationships += _relationships(part, shape)
    seen: dict[str, Declared] = {}
    for declared in sources:
        if other := seen.get(declared.alias):
            place = other.spot.document.place(other.spot.path, key=True)
            raise declared.spot.fault(f"the alias '{shown(declared.alias)}' is taken at {place}", todo="Choose another.", key=True)
        seen[declared.alias] = declared
    declaration = Declaration(name, (document, *included), tuple(sources), tuple(relationships), _queries(document))
    _verify_aliases(declaration, frozenset((*seen, SPECIFICATION)))
    return declaration


_MEMBERS = members(ManifestFile)
_INCLUDED = ("sdaqf", "title", "defaults", "sources", "relationships")
_ENTRIES = (SPECIFICATION, "sources", "relationships", "queries")
"""Members that are typed entry by entry, where their place is known."""


def _file(document: Document, known: Sequence[str]) -> ManifestFile:
    for key in document.value:
        if key in known:
            continue
        spot = Spot(document, (key,))
        if key in _MEMBERS:
            raise spot.fault(f"{key} cannot be included: only defaults, sources and relationships are", todo="Move it.", key=True)
        raise Spot(document).unknown(key, known)
    if "sdaqf" not in document.value:
        raise Spot(document).fault("the first member is missing", todo="Begin the file with:  sdaqf: 1")
    value = {key: inner for key, inner in document.value.items() if key not in _ENTRIES}
    return typed(value, ManifestFile, Spot(document))


def _specification(document: Document, shape: ManifestFile) -> Iterator[Declared]:
    if SPECIFICATION not in document.value:
        return
    spot, value = Spot(document, (SPECIFICATION,)), document.value[SPECIFICATION]
    for key in ("kind", "authority", "required"):
        if isinstance(value, dict) and key in value:
            raise spot.at(key).fault(f"the specification's {key} is fixed", todo=f"Leave {key} out.", key=True)
    short = isinstance(value, str)
    entry = msgspec.to_builtins(typed({"path": value} if short else value, manifest_yaml.SpecificationEntry, spot))
    fixed = {"kind": Kind.SPECIFICATION.value, "authority": Authority.CANONICAL_SPECIFICATION.value, "required": True}
    yield _verified(Declared(SPECIFICATION, msgspec.convert(entry | fixed, SourceEntry), shape.defaults, spot, short))


def _sources(document: Document, shape: ManifestFile) -> Iterator[Declared]:
    for alias, value, spot in _named(document, "sources", "alias"):
        if alias == SPECIFICATION:
            raise spot.fault("`specification:` has that alias", todo="Choose another.", key=True)
        entry = typed(_long_form(value, spot), SourceEntry, spot)
        if (entry.path is UNSET) == (entry.glob is UNSET):
            raise spot.fault("a source has a path or a glob, one of them", todo="Write `path:` for a file, `glob:` for many.", key=True)
        if entry.authority is Authority.CANONICAL_SPECIFICATION:
            todo = "For an accepted document use accepted-public-contract (requirement, decision or design in this repository)."
            raise spot.at("authority").fault("canonical-specification is the authority of `specification:` alone", todo=todo)
        yield _verified(Declared(alias, entry, shape.defaults, spot, isinstance(value, str)))


_OF_A_PATH = ("section", "symbol", "lines", "ignored", "sha256")


def _verified(declared: Declared) -> Declared:
    """The same, if its members go together."""
    entry, spot = declared.entry, declared.spot
    if declared.is_glob:
        for member in _OF_A_PATH:
            if getattr(entry, member) is not UNSET and getattr(entry, member) is not False:
                raise spot.at(member).fault(f"{member} goes with a path, not with a glob", todo="Leave it out.", key=True)
        if entry.root is RootScope.OWNER:
            raise spot.at("root").fault("owner files are named one by one; globs are for files of the tree", todo="Name each.", key=True)
    elif entry.exclude is not UNSET:
        raise spot.at("exclude").fault("exclude goes with a glob", todo="Leave it out.", key=True)
    if entry.abstractions is not UNSET and not declared.is_glob:
        raise spot.at("abstractions").fault("abstractions goes with a glob, not with a path", todo="Write `glob:`.", key=True)
    if entry.ignored and entry.root is RootScope.OWNER:
        raise spot.at("ignored").fault("owner files are in no tree anyway", todo="Leave `ignored` out.", key=True)
    if sum(member is not UNSET for member in (entry.section, entry.symbol, entry.lines)) > 1:
        raise spot.fault("a source has one of section, symbol and lines", todo="Keep one of them.", key=True)
    if entry.sha256 is not UNSET and not re.fullmatch("[0-9A-Fa-f]{64}", entry.sha256):
        raise spot.at("sha256").fault("not a SHA-256", todo="Write its 64 hexadecimal digits.")
    if isinstance(entry.freshness, Expiry):
        window(entry.freshness, spot.at("freshness"))
    if entry.lines is not UNSET:
        line_range(entry.lines, spot.at("lines"))
    return declared


def _long_form(value: Any, spot: Spot) -> Any:
    """`KIND PATH-OR-GLOB` as a mapping; a mapping as it is, with what is usual for abstractions."""
    if isinstance(value, dict) and "abstractions" in value:
        where = {} if "path" in value else {"glob": "abstractions/*.json"}
        return {**where, "kind": Kind.FINDING.value, "pin": True, **value}
    if not isinstance(value, str):
        return value
    kind, _, pattern = value.partition(" ")
    if kind not in (kinds := words(Kind)):
        todo = "Write KIND PATH-OR-GLOB; the kinds: " + ", ".join(kinds)
        raise spot.fault(f"'{shown(kind)}' is no kind" + meant(kind, kinds), todo=todo)
    pattern = pattern.strip(" ")
    if not pattern:
        raise spot.fault("the path is missing", todo=f"Write:  {kind} PATH-OR-GLOB")
    return {"kind": kind, "glob" if "*" in pattern or "?" in pattern else "path": pattern}


def _relationships(document: Document, shape: ManifestFile) -> Iterator[Related]:
    listed = document.value.get("relationships", [])
    if not isinstance(listed, list):
        raise Spot(document, ("relationships",)).fault("relationships are a list", todo="Write each as  - ALIAS TYPE ALIAS")
    for index, value in enumerate(listed):
        spot = Spot(document, ("relationships", index))
        sentence = value.split() if isinstance(value, str) else []
        if isinstance(value, str) and len(sentence) != 3:
            raise spot.fault("a relationship is three words", todo="Write:  ALIAS TYPE ALIAS")
        long_form = dict(zip(("from", "type", "to"), sentence, strict=True)) if sentence else value
        yield Related(typed(long_form, manifest_yaml.RelationshipEntry, spot), shape.defaults, spot)


def _queries(document: Document) -> dict[str, Asked]:
    if "queries" not in document.value:
        return {DEFAULT: Asked(DEFAULT, QueryEntry(seeds="all"), Spot(document))}
    found = {}
    for name, value, spot in _named(document, "queries", "name for a query"):
        asked = Asked(name, typed(value, QueryEntry, spot), spot)
        if isinstance(asked.entry.as_of, str):
            moment(asked.entry.as_of, spot.at("as_of"))
        _ = asked.budget_bytes
        found[name] = asked
    if not found:
        raise Spot(document, ("queries",)).fault("no query", todo="Leave `queries` out for one that takes everything.")
    return found


def _verify_aliases(declaration: Declaration, known: frozenset[str]) -> None:
    """Every alias that a relationship or a query mentions is one of `known`."""
    mentioned: list[tuple[str, Spot]] = []
    for related in declaration.relationships:
        mentioned += [(related.entry.start, related.spot.at("from")), (related.entry.to, related.spot.at("to"))]
    for asked in declaration.queries.values():
        for member in ("require", "seeds"):
            aliases = getattr(asked.entry, member)
            mentioned += [(alias, asked.spot.at(member, index)) for index, alias in enumerate(() if aliases == "all" else aliases)]
    for alias, spot in mentioned:
        if alias not in known:
            raise spot.fault(f"there is no source '{shown(alias)}'" + meant(alias, known), todo="Name an alias that `sources` declares.")


def _named(document: Document, member: str, called: str) -> Iterator[tuple[str, Any, Spot]]:
    """The names in a mapping, what stands there, and where."""
    value, spot = document.value.get(member, {}), Spot(document, (member,))
    if not isinstance(value, dict):
        raise spot.fault(f"{member} is a mapping", todo=f"Write each as  NAME: …  below {member}.")
    for name, inner in value.items():
        if not ALIAS.fullmatch(name):
            raise spot.at(name).fault(f"'{shown(name)}' is no {called}", todo="Use lower case letters, digits and hyphens.", key=True)
        yield name, inner, spot.at(name)


# ---- small texts ----------------------------------------------------------------------------------------------------


def line_range(value: str | int, spot: Spot) -> tuple[int, int]:
    """`1-40` or `7` as first and last line."""
    found = _LINES.fullmatch(str(value))
    if not found:
        raise spot.fault("not lines", todo="Write them as 1-40, or as 7.")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise spot.fault("ends before it starts", todo="Write the lower line first.")
    return first, last


def window(expiry: Expiry, spot: Spot) -> tuple[str, str]:
    """`observed` and the end of the window as TIMEs."""
    observed = moment(expiry.observed, spot.at("observed"))
    if (expiry.holds is UNSET) == (expiry.expires is UNSET):
        raise spot.fault("freshness has `for` or `expires`, one of them", todo="Write `for: 30d`, or `expires:` with a time.")
    if isinstance(expiry.expires, str):
        if moment(expiry.expires, spot.at("expires")) < observed:
            raise spot.at("expires").fault("ends before it was observed", todo="Correct one of the two times.")
        return expiry.observed, expiry.expires
    try:
        return expiry.observed, as_time(observed + duration(cast(str, expiry.holds)))
    except ValueError:
        raise spot.at("for").fault("not a duration", todo="Write N with m, h, d or w, such as 30d.") from None
    except OverflowError:
        raise spot.at("for").fault("ends after the year 9999", todo="Write less.") from None


def duration(text: str) -> datetime.timedelta:
    """`30d` and the like. Raises `ValueError`."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError(text)
    return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})


def later(when: str, by: str) -> str:
    """The TIME that a duration after another is, or the last that there is. Raises `ValueError`."""
    start = instant(when)
    return as_time(start + min(duration(by), datetime.datetime.max.replace(microsecond=0) - start))


def moment(text: str, spot: Spot) -> datetime.datetime:
    try:
        return instant(text)
    except Invalid as error:
        raise spot.fault(error.message, todo="Write it as 2026-11-01T00:00:00Z.") from None


def as_time(when: datetime.datetime) -> str:
    """The TIME of a moment in UTC."""
    return f"{when.isoformat()}Z"


def size(value: str | int, spot: Spot) -> int:
    """`64KiB` or a number as the bytes of a budget."""
    found = _SIZE.fullmatch(value if isinstance(value, str) else f"{value}B")
    if not found:
        raise spot.fault("not a size", todo="Write it as 64KiB, 1MiB, or a number of bytes.")
    amount = int(found[1]) * _SIZES[found[2]]
    if not 1_024 <= amount <= 8_388_608:
        raise spot.fault(f"{amount:,} bytes; a budget has 1KiB to 8MiB", todo="Write it as 64KiB, 1MiB, or a number of bytes.")
    return amount
