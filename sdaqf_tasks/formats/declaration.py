"""This module reads a manifest's YAML into a declaration: what was written, typed, and where each of it stands (PIPELINE 2).

What a declaration means (files, globs, digests) is `context.compile`'s.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import UNSET

from sdaqf_tasks.errors import Invalid, Reason, SdaqfError
from sdaqf_tasks.formats import plain_yaml
from sdaqf_tasks.formats.manifest_yaml import (
    BudgetEntry,
    Defaults,
    Expiry,
    ManifestFile,
    QueryEntry,
    RelationshipEntry,
    Shape,
    SourceEntry,
    SpecificationEntry,
)
from sdaqf_tasks.formats.plain_yaml import Document, nearest
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, RootScope, Sensitivity, instant

ALIAS = re.compile(r"[a-z0-9][a-z0-9-]*")
SPECIFICATION = "specification"
"""The alias of the specification; no source may have it."""

DEFAULT = "default"
"""The query that a manifest's own name stands for."""

_LINES = re.compile(r"([1-9][0-9]{0,6})(?:-([1-9][0-9]{0,6}))?")
_DURATION = re.compile(r"([1-9][0-9]{0,5})([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SIZE = re.compile(r"([1-9][0-9]{0,8})(B|KiB|MiB)")
_SIZES = {"B": 1, "KiB": 1_024, "MiB": 1_048_576}


# ---- what was declared ----------------------------------------------------------------------------------------------


class Spot(NamedTuple):
    """Where something was written."""

    document: Document
    path: tuple[str | int, ...]

    @property
    def value(self) -> Any:
        """What stands there; of a path that leads nowhere, the nearest ancestor."""
        found: Any = self.document.value
        for step in self.path:
            if not isinstance(found, dict | list):
                break
            try:
                found = found[step]  # type: ignore[index]
            except (LookupError, TypeError):
                break
        return found

    def at(self, *steps: str | int) -> Spot:
        return Spot(self.document, (*self.path, *steps))

    def fault(self, message: str, *, todo: str | None = None, reason: Reason = Reason.MANIFEST_INVALID, key: bool = False) -> SdaqfError:
        """The error to raise, with the line and a caret."""
        return self.document.fault(self.path, message, todo=todo, reason=reason, key=key)


class Declared(NamedTuple):
    """One source as it was written, with the defaults of the file it is written in."""

    alias: str
    entry: SourceEntry
    defaults: Defaults
    spot: Spot

    @property
    def is_glob(self) -> bool:
        return self.entry.glob is not UNSET

    @property
    def pattern(self) -> str:
        """The path or the glob, whichever was given."""
        return cast(str, self.entry.glob if self.is_glob else self.entry.path)

    @property
    def excluded(self) -> tuple[str, ...]:
        """The globs that `glob` leaves out."""
        given = self.entry.exclude
        return (given,) if isinstance(given, str) else tuple(given or ())

    @property
    def title(self) -> str:
        """As written, else the path or glob, with the section or symbol."""
        if isinstance(self.entry.title, str):
            return self.entry.title
        part = self.entry.section or self.entry.symbol
        return f"{self.pattern} § {part}" if isinstance(part, str) else self.pattern

    @property
    def lines(self) -> tuple[int, int] | None:
        """First and last line, where they were written. Raises `Invalid`."""
        given = self.entry.lines
        return line_range(given, self.spot.at("lines")) if isinstance(given, str | int) else None

    @property
    def place(self) -> Spot:
        """Where the path or glob stands."""
        return self.spot.at("glob" if self.is_glob else "path") if isinstance(self.spot.value, dict) else self.spot


class Related(NamedTuple):
    start: str
    edge_type: EdgeType
    to: str
    provenance: tuple[str, ...]
    defaults: Defaults
    spot: Spot


class Asked(NamedTuple):
    name: str
    entry: QueryEntry
    spot: Spot


class Declaration(NamedTuple):
    """A manifest with its includes. `sources` holds the specification first."""

    name: str
    documents: tuple[Document, ...]
    sources: tuple[Declared, ...]
    relationships: tuple[Related, ...]
    queries: dict[str, Asked]

    def find(self, alias: str, spot: Spot) -> Declared:
        """The source of that alias. Raises `Invalid` at `spot` with the nearest one."""
        for declared in self.sources:
            if declared.alias == alias:
                return declared
        raise spot.fault(f"there is no source {alias!r}" + _meant(alias, [declared.alias for declared in self.sources]))

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


def includes(document: Document) -> list[str]:
    """The files that a manifest includes, as written. Raises `Invalid`."""
    listed = document.value.get("include", [])
    return _typed(listed, list[str], Spot(document, ("include",)))


def is_manifest(data: bytes) -> bool:
    """Whether a YAML file is one of ours: its first line beside blanks, comments and `---` starts with `sdaqf:`."""
    for line in data[: plain_yaml.BYTES].splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith(b"#") and stripped != b"---":
            return line.startswith(b"sdaqf:")
    return False


def read(name: str, document: Document, included: Sequence[Document] = ()) -> Declaration:
    """The declaration in `document`, with the sources and relationships of what it includes.

    Raises `Invalid` with `file:line:column` where something has the wrong shape, an unknown word, or an alias twice. What
    needs the tree (paths, globs, aliases of relationships) is *not* checked here.
    """
    sources: list[Declared] = []
    relationships: list[Related] = []
    main = _file(document)
    sources.append(_specification(main, document))
    for part in (document, *included):
        shape = main if part is document else _included(part)
        sources.extend(_sources(part, shape))
        relationships.extend(_relationships(part, shape))
    seen: dict[str, Declared] = {}
    for declared in sources:
        if declared.alias in seen:
            other = seen[declared.alias].spot
            raise declared.spot.fault(f"the alias {declared.alias!r} is taken at {other.document.place(other.path, key=True)}", key=True)
        seen[declared.alias] = declared
    return Declaration(name, (document, *included), tuple(sources), tuple(relationships), _queries(document))


def _file(document: Document) -> ManifestFile:
    """The outermost members; those with free keys are typed entry by entry, where their place is known."""
    value = {key: inner for key, inner in document.value.items() if key not in ("sources", "relationships", "queries", "specification")}
    known = [field.encode_name for field in msgspec.structs.fields(ManifestFile)]
    for key in document.value:
        if key not in known:
            raise Spot(document, (key,)).fault(f"{key!r} is no member of a manifest" + _meant(key, known), key=True)
    if "sdaqf" not in value:
        raise Spot(document, ()).fault("the first member is missing", todo="Begin the file with:  sdaqf: 1")
    return _typed(value, ManifestFile, Spot(document, ()))


def _included(document: Document) -> ManifestFile:
    for key in document.value:
        if key not in ("sdaqf", "title", "defaults", "sources", "relationships"):
            raise Spot(document, (key,)).fault(f"{key!r} cannot be included: only defaults, sources and relationships are", key=True)
    return _file(document)


def _specification(main: ManifestFile, document: Document) -> Declared:
    spot = Spot(document, (SPECIFICATION,))
    value = document.value.get(SPECIFICATION)
    if value is None:
        raise (
            Spot(document, ()).fault("no specification", todo=NO_SPECIFICATION)
            if SPECIFICATION not in document.value
            else spot.fault("null is no document", todo="Name a file.")
        )
    given = {"path": value} if isinstance(value, str) else value
    for key in ("kind", "authority", "required"):
        if isinstance(given, dict) and key in given:
            raise spot.at(key).fault(f"the specification's {key} is fixed", todo=f"Leave {key} out.", key=True)
    entry = msgspec.to_builtins(_typed(given, SpecificationEntry, spot))
    fixed = {"kind": Kind.SPECIFICATION.value, "authority": Authority.CANONICAL_SPECIFICATION.value, "required": True}
    return Declared(SPECIFICATION, msgspec.convert(entry | fixed, SourceEntry), main.defaults, spot)


NO_SPECIFICATION = (
    "A manifest names the one document that says what this project must do: it is always included and everything else is "
    "measured against it. Add:  specification: README.md"
)


def _sources(document: Document, shape: ManifestFile) -> Iterator[Declared]:
    for alias, value in _mapping(document, "sources"):
        spot = Spot(document, ("sources", alias))
        if not ALIAS.fullmatch(alias) or alias == SPECIFICATION:
            todo = (
                "Use lower case letters, digits and hyphens."
                if alias != SPECIFICATION
                else "`specification:` has that name; choose another."
            )
            raise spot.fault(f"{alias!r} is no alias for a source", todo=todo, key=True)
        entry = _typed(_long_form(value, spot), SourceEntry, spot)
        if (entry.path is UNSET) == (entry.glob is UNSET):
            raise spot.fault("a source has a path or a glob, one of them", key=True)
        if entry.authority is Authority.CANONICAL_SPECIFICATION:
            raise (spot.at("authority")).fault(
                "canonical-specification is the authority of `specification:` alone",
                todo="For an accepted document use accepted-public-contract (requirement, decision or design in this repository).",
            )
        if entry.glob is not UNSET:
            for member in ("section", "symbol", "lines", "ignored", "sha256"):
                if getattr(entry, member) not in (UNSET, False):
                    raise spot.at(member).fault(f"{member} goes with a path, not with a glob", key=True)
            if entry.root is RootScope.OWNER:
                raise spot.at("root").fault("owner files are named one by one; globs are for files of the tree", key=True)
        elif entry.exclude is not UNSET:
            raise spot.at("exclude").fault("exclude goes with a glob", key=True)
        if sum(member is not UNSET for member in (entry.section, entry.symbol, entry.lines)) > 1:
            raise spot.fault("a source has one of section, symbol and lines", key=True)
        yield Declared(alias, entry, shape.defaults, spot)


def _long_form(value: Any, spot: Spot) -> Any:
    """`KIND PATH-OR-GLOB` as a mapping; a mapping as it is."""
    if not isinstance(value, str):
        return value
    kind, _, pattern = value.partition(" ")
    kinds = [known.value for known in Kind]
    if kind not in kinds:
        raise spot.fault(f"{kind!r} is no kind" + _meant(kind, kinds), todo="Write KIND PATH-OR-GLOB; the kinds: " + ", ".join(kinds))
    pattern = pattern.strip()
    if not pattern:
        raise spot.fault("the path is missing", todo=f"Write:  {kind} PATH-OR-GLOB")
    return {"kind": kind, "glob" if "*" in pattern or "?" in pattern else "path": pattern}


def _relationships(document: Document, shape: ManifestFile) -> Iterator[Related]:
    listed = document.value.get("relationships", [])
    if not isinstance(listed, list):
        raise Spot(document, ("relationships",)).fault("relationships are a list")
    for index, value in enumerate(listed):
        spot = Spot(document, ("relationships", index))
        words = value.split() if isinstance(value, str) else []
        if isinstance(value, str) and len(words) != 3:
            raise spot.fault("a relationship is three words", todo="Write:  ALIAS TYPE ALIAS")
        entry = _typed(dict(zip(("from", "type", "to"), words, strict=True)) if words else value, RelationshipEntry, spot)
        yield Related(entry.start, entry.type, entry.to, tuple(entry.provenance), shape.defaults, spot)


def _queries(document: Document) -> dict[str, Asked]:
    if "queries" not in document.value:
        return {DEFAULT: Asked(DEFAULT, QueryEntry(seeds="all"), Spot(document, ()))}
    found = {}
    for name, value in _mapping(document, "queries"):
        spot = Spot(document, ("queries", name))
        if not ALIAS.fullmatch(name):
            raise spot.fault(f"{name!r} is no name for a query", todo="Use lower case letters, digits and hyphens.", key=True)
        found[name] = Asked(name, _typed(value, QueryEntry, spot), spot)
    if not found:
        raise Spot(document, ("queries",)).fault("no query", todo="Leave `queries` out for one that takes everything.")
    return found


def _mapping(document: Document, member: str) -> Iterator[tuple[str, Any]]:
    value = document.value.get(member, {})
    if not isinstance(value, dict):
        raise Spot(document, (member,)).fault(f"{member} is a mapping", todo=f"Write each as  NAME: …  below {member}.")
    yield from value.items()


T = TypeVar("T")


def _typed(value: Any, kind: type[T], spot: Spot) -> T:
    """`value` as `kind`. Raises `Invalid` at the member that does not fit, with the nearest known word."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, where = str(error).partition(" - at `")
        steps: list[str | int] = [
            int(step) if step.isdigit() else step
            for step in where.rstrip("`").removeprefix("$").replace("[", ".").replace("]", "").split(".")
            if step
        ]
        raise _explained(message, spot.at(*steps)) from None


def _explained(message: str, spot: Spot) -> SdaqfError:
    found = spot.value
    if match := re.match(r"Object contains unknown field `(.*)`", message, re.DOTALL):
        word, known = match[1], _members(spot)
        return spot.at(word).fault(f"{word[:60]!r} is not known here" + _meant(word, known), todo="Known: " + ", ".join(known), key=True)
    if match := re.match(r"Object missing required field `(.*)`", message):
        return spot.fault(f"{match[1]} is missing", key=bool(spot.path))
    named = next((step for step in reversed(spot.path) if isinstance(step, str)), "")
    if message.startswith("Invalid enum value") and isinstance(found, str) and named in _ENUMERATIONS:
        known = [member.value for member in _ENUMERATIONS[named]]
        return spot.fault(f"{found[:60]!r} is not one of the words for {named}" + _meant(found, known), todo="Known: " + ", ".join(known))
    if found is None:
        return spot.fault("null says nothing here", todo="Leave the member out, or give it a value.")
    return spot.fault(message[:1].lower() + message[1:200].replace("`", "'"))


_ENUMERATIONS: dict[str, type[Enum]] = {
    "kind": Kind,
    "authority": Authority,
    "sensitivity": Sensitivity,
    "clearance": Sensitivity,
    "root": RootScope,
    "type": EdgeType,
    "edges": EdgeType,
}
_SHAPES: dict[str, type[Shape]] = {
    "freshness": Expiry,
    "budget": BudgetEntry,
    "defaults": Defaults,
    "sources": SourceEntry,
    "queries": QueryEntry,
    "relationships": RelationshipEntry,
    SPECIFICATION: SpecificationEntry,
}


def _members(spot: Spot) -> list[str]:
    shape = next((_SHAPES[step] for step in reversed(spot.path) if step in _SHAPES), ManifestFile)
    return [field.encode_name for field in msgspec.structs.fields(shape)]


def _meant(word: str, known: Sequence[str]) -> str:
    close = nearest(word, known)
    return f"; did you mean {close}?" if close else ""


# ---- small texts ----------------------------------------------------------------------------------------------------


def line_range(value: str | int, spot: Spot) -> tuple[int, int]:
    """`1-40` or `7` as first and last line."""
    found = _LINES.fullmatch(str(value))
    if not found:
        raise spot.fault("not lines", todo="Write them as 1-40, or as 7.")
    first, last = int(found[1]), int(found[2] or found[1])
    if last < first:
        raise spot.fault("ends before it starts")
    return first, last


def window(expiry: Expiry, spot: Spot) -> tuple[str, str]:
    """`observed` and the end of the window as TIMEs."""
    observed = moment(expiry.observed, spot.at("observed"))
    if (expiry.holds is UNSET) == (expiry.expires is UNSET):
        raise spot.fault("freshness has `for` or `expires`, one of them")
    if isinstance(expiry.expires, str):
        end = moment(expiry.expires, spot.at("expires"))
        if end < observed:
            raise spot.at("expires").fault("ends before it was observed")
        return expiry.observed, expiry.expires
    try:
        return expiry.observed, as_time(observed + duration(cast(str, expiry.holds)))
    except (ValueError, OverflowError):
        raise spot.at("for").fault("not a duration", todo="Write N with m, h, d or w, such as 30d.") from None


def duration(text: str) -> datetime.timedelta:
    """`30d` and the like. Raises `ValueError`."""
    found = _DURATION.fullmatch(text)
    if not found:
        raise ValueError(text)
    return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(text: str, spot: Spot) -> datetime.datetime:
    try:
        return instant(text)
    except Invalid as error:
        raise spot.fault(error.message, todo="Write it as 2026-11-01T00:00:00Z.") from None


def as_time(when: datetime.datetime) -> str:
    """The TIME of a moment in UTC."""
    text = when.isoformat(timespec="microseconds" if when.microsecond else "seconds")
    return f"{text}Z"


def size(value: str | int, spot: Spot) -> int:
    """`64KiB` or a number as bytes."""
    if isinstance(value, int):
        return value
    found = _SIZE.fullmatch(value)
    if not found:
        raise spot.fault("not a size", todo="Write it as 64KiB, 1MiB, or a number of bytes.")
    return int(found[1]) * _SIZES[found[2]]
