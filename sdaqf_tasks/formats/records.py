"""This module holds the values that artifacts are made of (FORMAT 3.1 to 3.6): text rules, enumerations, records.

A record is written once, here: its fields give decoding with the failing path, encoding, and the JSON Schema. Lengths
and number bounds are `Meta`; a rule about text or order is a function named in `Meta(extra={"rule": …})` that
`Record.__post_init__` applies, so a record that exists is a record that keeps its contract.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import functools
import re
import typing
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.formats import canonical

SECRET = re.compile(r"AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----")
"""The three shapes that no stored text may hold."""

TEXT_CHARACTERS = 65_536
"""Characters that a selected text may have."""

END = r"$(?!\n)"
"""The end of a schema pattern, for engines whose `$` matches before a final line feed."""

PATH_PATTERN = (
    r"^(?!/)(?!.*//)(?!.*(?:^|/)\.{1,2}(?:/|$))(?!.*(?:^|/)~)(?!.*\.(?:/|$))"
    r"(?!.*(?:^|/)(?:[Cc][Oo][Nn]|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]|[Cc][Oo][Mm][1-9]|[Ll][Pp][Tt][1-9])(?:\.|/|$))"
    r"[A-Za-z0-9._/-]+" + END
)
"""What a PATH is (FORMAT 3.2), but for the slash at the end, which the runtime alone refuses."""

_NOT_PORTABLE = "not a portable path: relative, of A-Z a-z 0-9 . _ - /, no component empty, ., .., ending in a dot, or a device of Windows"

TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z" + END

_PATH, _TIME = re.compile(PATH_PATTERN), re.compile(TIME_PATTERN)

Rule = Callable[[Any], None]
"""Raises `Invalid` for a value that breaks it."""


def must(holds: bool, message: str, *at: str | int, reason: Reason = Reason.CONTRACT_INVALID) -> None:
    """Raise `Invalid` at the member unless what the contract says `holds`."""
    if not holds:
        raise Invalid(reason, message, at=at)


def is_secret_shaped(text: str) -> bool:
    return SECRET.search(text) is not None


def _body(text: str) -> None:
    must("\0" not in text, "U+0000 in a text")
    must(text.isascii() or canonical.is_text(text), "a lone surrogate in a text")
    must(not is_secret_shaped(text), "looks like a key or a token", reason=Reason.SECRET_SHAPED)


def _prose(text: str) -> None:
    must(bool(text.strip()), "blank")  # str.strip takes exactly the blank set of FORMAT 3.1
    _body(text)


def _line(text: str) -> None:
    _prose(text)
    must("\r" not in text and "\n" not in text, "more than one line")


def _path(text: str) -> None:
    _line(text)
    must(_PATH.match(text) is not None and not text.endswith("/"), _NOT_PORTABLE)


def is_path(text: str) -> bool:
    """Whether `text` is a PATH (FORMAT 3.2)."""
    try:
        _path(text)
    except Invalid:
        return False
    return len(text) <= 240


def instant(text: str) -> datetime.datetime:
    """The moment that a TIME names, in UTC with microseconds. Raises `Invalid` where it is none (FORMAT 3.3)."""
    must(_TIME.match(text) is not None, "not a time of the form YYYY-MM-DDThh:mm:ssZ")
    with contextlib.suppress(ValueError):
        if text[11:13] != "24":  # which some versions of Python take for the next midnight
            return datetime.datetime.fromisoformat(text[:-1])
    raise Invalid(Reason.CONTRACT_INVALID, "no such date or time of day")


def _time(text: str) -> None:
    _line(text)
    instant(text)


def _text(rule: Rule, longest: int, *, shortest: int = 1, pattern: str = "") -> Meta:
    schema = {"pattern": pattern} if pattern else None
    return Meta(min_length=shortest, max_length=longest, extra={"rule": rule}, extra_json_schema=schema)


def _shaped(pattern: str, otherwise: str) -> Rule:
    shape = re.compile(pattern)
    return lambda text: must(shape.fullmatch(text) is not None, otherwise)


def _digits(pattern: str, otherwise: str) -> Meta:
    return Meta(extra={"rule": _shaped(pattern, otherwise)}, extra_json_schema={"pattern": f"^{pattern}{END}"})


def id_pattern(prefix: str) -> str:
    """The schema pattern of the ids of one type; the runtime takes looser ones where nothing recomputes them."""
    return f"^{prefix}[0-9A-F]{{64}}{END}"


def id_of(prefix: str) -> Meta:
    """An id that begins with `prefix`. Loose on purpose, as the reference is (FORMAT 3.1, "loose IDs")."""
    shaped = _shaped(rf"{prefix}(?:[A-Z-]*-)?[0-9A-F]{{64}}", f"not an id {prefix}… with 64 uppercase hexadecimal digits")

    def rule(text: str) -> None:
        _line(text)
        shaped(text)

    return _text(rule, 128, pattern=id_pattern(prefix))


def ascending(fewest: int, most: int, *by: str, **schema: Any) -> Meta:
    """A list of so many values, each greater than the one before it: by the members that are named, or as it is."""
    key = attrgetter(*by) if by else lambda value: value

    def rule(values: Sequence[Any]) -> None:
        keys = [key(value) for value in values]
        for index in range(1, len(keys)):
            must(keys[index - 1] < keys[index], "not ascending", index)

    return Meta(min_length=fewest, max_length=most, extra={"rule": rule}, extra_json_schema={"uniqueItems": True} | schema)


Prose100 = Annotated[str, _text(_prose, 100)]
Prose500 = Annotated[str, _text(_prose, 500)]
Prose4000 = Annotated[str, _text(_prose, 4_000)]
Body = Annotated[str, _text(_body, TEXT_CHARACTERS, shortest=0)]
Path = Annotated[str, _text(_path, 240, pattern=PATH_PATTERN)]
Time = Annotated[str, _text(_time, 40, pattern=TIME_PATTERN)]
Sha256 = Annotated[str, _digits("[0-9A-F]{64}", "not a SHA-256 in 64 uppercase hexadecimal digits")]
Commit = Annotated[str, _digits("[0-9a-f]{40}", "not a commit id in 40 lowercase hexadecimal digits")]
SourceId = Annotated[str, id_of("CTX-SOURCE-")]
NodeId = Annotated[str, id_of("CTX-NODE-")]
EdgeId = Annotated[str, id_of("CTX-EDGE-")]
Texts64 = Annotated[tuple[Prose500, ...], ascending(0, 64)]
Texts128 = Annotated[tuple[Prose500, ...], ascending(0, 128)]


class Ranked(enum.Enum):
    """An enumeration in rank order: `max` of several is the one of the highest rank."""

    rank: int

    def __init__(self, value: str) -> None:
        self.rank = len(type(self).__members__)

    def __lt__(self, other: Self) -> bool:
        return self.rank < other.rank


class Authority(Ranked):
    """Who vouches for a text. The first four are the authoritative ones."""

    OWNER_APPROVED = "owner-approved"
    CANONICAL_SPECIFICATION = "canonical-specification"
    ACCEPTED_PUBLIC_CONTRACT = "accepted-public-contract"
    VERIFIED_EVIDENCE = "verified-evidence"
    REPOSITORY_RECORD = "repository-record"
    UNTRUSTED_OBSERVATION = "untrusted-observation"
    UNTRUSTED_PROPOSAL = "untrusted-proposal"

    @property
    def authoritative(self) -> bool:
        return self.rank <= Authority.VERIFIED_EVIDENCE.rank


class Sensitivity(Ranked):
    """Who may see a text."""

    PUBLIC = "public"
    REPOSITORY_PRIVATE = "repository-private"
    OWNER_PRIVATE = "owner-private"
    SECRET_OR_PROHIBITED = "secret-or-prohibited"


def _adoptable(sensitivity: Sensitivity) -> None:
    must(sensitivity is not Sensitivity.SECRET_OR_PROHIBITED, "secret-or-prohibited can never be adopted")


_ADOPTABLE = [sensitivity.value for sensitivity in Sensitivity if sensitivity is not Sensitivity.SECRET_OR_PROHIBITED]
Adoptable = Annotated[Sensitivity, Meta(extra={"rule": _adoptable}, extra_json_schema={"enum": _ADOPTABLE})]


class RootScope(enum.Enum):
    REPOSITORY = "repository"
    OWNER = "owner"


class Kind(enum.Enum):
    SPECIFICATION = "specification"
    REQUIREMENT = "requirement"
    DECISION = "decision"
    DESIGN = "design"
    SOURCE = "source"
    TEST = "test"
    EVIDENCE = "evidence"
    FINDING = "finding"
    TASK = "task"
    HANDOFF = "handoff"
    TOOL_OBSERVATION = "tool-observation"
    SOLVER_ARTIFACT = "solver-artifact"


class EdgeType(enum.Enum):
    """How two sources are related. All are directed but `contradicts`. Compared as their text."""

    REFERENCES = "references"
    IMPLEMENTS = "implements"
    VERIFIES = "verifies"
    DEPENDS_ON = "depends-on"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"
    DERIVED_FROM = "derived-from"

    def __lt__(self, other: Self) -> bool:
        return str(self.value) < str(other.value)


class FreshnessKind(enum.Enum):
    IMMUTABLE = "immutable"
    CANDIDATE_BOUND = "candidate-bound"
    EXPIRES_AT = "expires-at"


class Trust(Ranked):
    """How far a record may be trusted, lowest first (ABSTRACTIONS SH-4)."""

    EXPLORATORY = "exploratory"
    PROJECT = "project"
    PROMOTED = "promoted"
    CORE = "core"


class Tier(Ranked):
    """What an abstraction claims to be, weakest first."""

    PATTERN = "pattern"
    CONVENTION = "convention"
    LOGIC = "logic"
    CONTRACT = "contract"


class Category(enum.Enum):
    """Which side of the text an abstraction is about."""

    STRUCTURAL = "structural"
    PROCEDURAL = "procedural"
    RELATIONAL = "relational"
    BOUNDARY = "boundary"
    STATE = "state"
    INVARIANT = "invariant"


def _below(step: str | int, rule: Rule, value: Any) -> None:
    """Apply a rule to a part; `step` leads to it."""
    try:
        rule(value)
    except Invalid as error:
        raise Invalid(error.reason, error.message, at=(step, *filter(None, [error.where]))) from None


def _each(rule: Rule, values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        _below(index, rule, value)


def _if_any(rule: Rule, value: Any) -> None:
    if value is not None:
        rule(value)


def _rules(hint: Any) -> list[Rule]:
    """The rules of a type: those that it is annotated with, after those of its items, or of what may be None instead."""
    if typing.get_origin(hint) is Annotated:
        inner, *notes = typing.get_args(hint)
        return [*_rules(inner), *(note.extra["rule"] for note in notes if note.extra)]
    parts = [rule for part in typing.get_args(hint) for rule in _rules(part)]
    return [functools.partial(_each if typing.get_origin(hint) is tuple else _if_any, rule) for rule in parts]


@functools.cache
def _fields(cls: type) -> tuple[tuple[str, Rule], ...]:
    """The fields of a record that have a rule."""
    return tuple((name, rule) for name, hint in typing.get_type_hints(cls, include_extras=True).items() for rule in _rules(hint))


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed JSON object. Building one applies the rule of every field, then `check`, which relates the fields.

    `schema` is what the JSON Schema says of an object beyond its fields.
    """

    schema: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, rule in _fields(type(self)):
            _below(name, rule, getattr(self, name))
        self.check()

    def check(self) -> None:
        """Raise `Invalid` unless the fields fit one another."""

    def without(self, *names: str) -> dict[str, Any]:
        """The fields, those named apart."""
        return {name: getattr(self, name) for name in self.__struct_fields__ if name not in names}


class CandidateIdentity(Record, frozen=True, kw_only=True):
    """What an artifact is bound to: specification, commit and tree (FORMAT 4)."""

    source_spec_sha256: Sha256
    git_head: Commit
    repository_digest: Sha256


class ArtifactReference(Record, frozen=True, kw_only=True, order=True):
    """A file as evidence. Ordered by (path, sha256)."""

    path: Path
    sha256: Sha256


class Provenance(Record, frozen=True, kw_only=True):
    """Who produced a statement, who recorded it, and the files that bear it out."""

    producer: Prose100
    recorded_by: Prose100
    references: Annotated[tuple[ArtifactReference, ...], ascending(1, 64)]


class Locator(Record, frozen=True, kw_only=True):
    """Lines of a file. `sha256` is of the complete file; lines are 1-based, inclusive, as FORMAT 5.3 counts them."""

    root_scope: RootScope
    path: Path
    sha256: Sha256
    line_start: Annotated[int, Meta(ge=1, le=1_000_000)]
    line_end: Annotated[int, Meta(ge=1, le=1_000_000)]

    def check(self) -> None:
        must(self.line_start <= self.line_end, "ends before it starts", "line_end")


class Freshness(Record, frozen=True, kw_only=True):
    """How long a text holds. Both times are there exactly for `expires-at`; the window is inclusive."""

    kind: FreshnessKind
    observed_at: Time | None
    valid_until: Time | None

    schema = {
        "if": {"properties": {"kind": {"const": "expires-at"}}},
        "then": {"properties": {"observed_at": {"type": "string"}, "valid_until": {"type": "string"}}},
        "else": {"properties": {"observed_at": {"type": "null"}, "valid_until": {"type": "null"}}},
    }

    def check(self) -> None:
        times = [instant(time) for time in (self.observed_at, self.valid_until) if time is not None]
        if self.kind is FreshnessKind.EXPIRES_AT:
            must(len(times) == 2, "expires-at has both times", "kind")
            must(times[0] <= times[1], "ends before it was observed", "valid_until")
        else:
            must(not times, "times are given for expires-at alone", "kind")

    def holds_at(self, as_of: str) -> bool:
        """Whether the text may be used at `as_of`; always, unless it expires."""
        if self.observed_at is None or self.valid_until is None:
            return True
        return instant(self.observed_at) <= instant(as_of) <= instant(self.valid_until)


class Metadata(Record, frozen=True, kw_only=True):
    """The ten fields that a source and its node share (FORMAT 3.6)."""

    kind: Kind
    title: Prose500
    locator: Locator
    provenance: Provenance
    authority: Authority
    freshness: Freshness
    sensitivity: Adoptable
    identifiers: Texts128
    labels: Texts64
    required: bool

    def check(self) -> None:
        if self.freshness.kind is FreshnessKind.IMMUTABLE:
            vouched = self.locator.path.lower().endswith(".json") and self.authority.authoritative and self.refers_to_itself
            must(vouched, "immutable takes a .json file of an authoritative class that refers to itself", "freshness")

    @property
    def refers_to_itself(self) -> bool:
        """Whether the provenance names the file itself; the root scope is not part of the comparison."""
        return any(ref.path == self.locator.path and ref.sha256 == self.locator.sha256 for ref in self.provenance.references)

    @property
    def metadata(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in Metadata.__struct_fields__}


class Source(Metadata, frozen=True, kw_only=True):
    """A source of a Manifest. An absent `sensitivity` reads as owner-private (FORMAT 2.3)."""

    source_id: SourceId
    sensitivity: Adoptable = Sensitivity.OWNER_PRIVATE

    def check(self) -> None:
        super().check()
        _must_identify(self.source_id, "CTX-SOURCE-", self.metadata, "source_id")
        expires = self.freshness.kind is FreshnessKind.EXPIRES_AT
        must(expires or self.kind is not Kind.TOOL_OBSERVATION, "a tool-observation expires", "freshness")

    @classmethod
    def seal(cls, **metadata: Any) -> Self:
        return cls(source_id=canonical.identity("CTX-SOURCE-", metadata), **metadata)


class Node(Metadata, frozen=True, kw_only=True):
    """A source with its selected text."""

    node_id: NodeId
    source_id: SourceId
    text: Body
    text_sha256: Sha256

    def check(self) -> None:
        super().check()
        _must_identify(self.source_id, "CTX-SOURCE-", self.metadata, "source_id")
        must_digest(self.text_sha256, self.text)
        _must_identify(self.node_id, "CTX-NODE-", self.without("node_id"), "node_id")
        if fault := authority_fault(self):
            raise Invalid(fault, fault.when[:1].lower() + fault.when[1:].rstrip("."), at="authority")

    @classmethod
    def seal(cls, source: Source, text: str) -> Self:
        fields = {"source_id": source.source_id, "text": text, "text_sha256": canonical.digest(text.encode("utf-8")), **source.metadata}
        return cls(node_id=canonical.identity("CTX-NODE-", fields), **fields)


class Edge(Record, frozen=True, kw_only=True):
    """A relation between two nodes. The ends of `contradicts` ascend."""

    edge_id: EdgeId
    edge_type: EdgeType
    source_node_id: NodeId
    target_node_id: NodeId
    provenance: Provenance

    def check(self) -> None:
        must_be_ends(self.edge_type, self.source_node_id, self.target_node_id)
        _must_identify(self.edge_id, "CTX-EDGE-", self.without("edge_id"), "edge_id")

    @classmethod
    def seal(cls, **fields: Any) -> Self:
        return cls(edge_id=canonical.identity("CTX-EDGE-", fields), **fields)


def ends(edge_type: EdgeType, source: str, target: str) -> list[str]:
    """The two ids in the order in which a relation has its ends: those of a contradiction ascend."""
    return sorted((source, target)) if edge_type is EdgeType.CONTRADICTS else [source, target]


def must_be_ends(edge_type: EdgeType, source: str, target: str) -> None:
    """Raise `Invalid` for a self loop, or for a contradiction whose ends do not ascend."""
    must(source != target, "related to itself")
    must(source < target or edge_type is not EdgeType.CONTRADICTS, "the ends of a contradiction ascend")


def must_digest(given: str, text: str) -> None:
    expected = canonical.digest(text.encode("utf-8"))
    must(given == expected, "is not the digest of the text", "text_sha256", reason=Reason.IDENTITY_MISMATCH)


def _must_identify(given: str, prefix: str, content: dict[str, Any], at: str) -> None:
    expected = canonical.identity(prefix, content)
    must(given == expected, "is not the identity of its content", at, reason=Reason.IDENTITY_MISMATCH)


_ACCORD = frozenset({Kind.REQUIREMENT, Kind.DECISION, Kind.DESIGN})
_AUTHORITATIVE = {
    Authority.OWNER_APPROVED: (RootScope.OWNER, _ACCORD | {Kind.HANDOFF}),
    Authority.CANONICAL_SPECIFICATION: (RootScope.REPOSITORY, {Kind.SPECIFICATION}),
    Authority.ACCEPTED_PUBLIC_CONTRACT: (RootScope.REPOSITORY, _ACCORD),
    Authority.VERIFIED_EVIDENCE: (RootScope.REPOSITORY, {Kind.EVIDENCE}),
}


def authority_fault(source: Metadata) -> Reason | None:
    """The first row of FORMAT 3.6's authority table that does not hold, as its exclusion reason; else nothing."""
    authority, kind = source.authority, source.kind
    if authority.authoritative:
        if not source.refers_to_itself:
            return Reason.PROVENANCE_INVALID
        scope, kinds = _AUTHORITATIVE[authority]
        if source.locator.root_scope is not scope or kind not in kinds:
            return Reason.AUTHORITY_INVALID
    names = {source.provenance.producer, source.provenance.recorded_by}
    foreign = authority is Authority.OWNER_APPROVED and names != {"Owner"}
    misplaced = kind is Kind.TOOL_OBSERVATION and authority is not Authority.UNTRUSTED_OBSERVATION
    return Reason.AUTHORITY_INVALID if foreign or misplaced else None


def cost(record: Node | Edge) -> int:
    """Bytes that a node or an edge takes of a budget: its canonical form without its own id (FORMAT 2.4)."""
    own = "node_id" if isinstance(record, Node) else "edge_id"
    return len(canonical.encode(record.without(own), of_records=True))
