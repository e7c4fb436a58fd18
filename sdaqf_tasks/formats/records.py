"""This module holds the values that artifacts are made of (FORMAT 3.1 to 3.6): text rules, enumerations, records.

A record is written once, here: its fields give decoding with the failing path, encoding, and the JSON Schema. Lengths
and number bounds are `Meta`; a rule about text or order is a function named in `Meta(extra={"rule": …})` that
`Record.__post_init__` applies, so a record that exists is a record that keeps its contract.
"""

from __future__ import annotations

import datetime
import enum
import functools
import re
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.formats import canonical

# ---- text -----------------------------------------------------------------------------------------------------------

SECRET = re.compile(r"AKIA[0-9A-Z]{16}|gh[pousr]_[A-Za-z0-9]{20,}|-----BEGIN (?:RSA |EC |OPENSSH )?PRIVATE KEY-----")
"""The three shapes that no stored text may hold."""

TEXT_CHARACTERS = 65_536
"""Characters that a selected text may have."""

_PATH = re.compile(r"[A-Za-z0-9._/-]+")
_DEVICES = frozenset({"CON", "PRN", "AUX", "NUL", *(f"{name}{n}" for name in ("COM", "LPT") for n in range(1, 10))})
_TIME = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,6}))?Z")
_ID = re.compile(r"CTX-[A-Z-]+-[0-9A-F]{64}")
_SHA256 = re.compile(r"[0-9A-F]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def _invalid(message: str, *at: str | int) -> Invalid:
    return Invalid(Reason.CONTRACT_INVALID, message, at=at)


def is_secret_shaped(text: str) -> bool:
    return SECRET.search(text) is not None


def _clean(text: str) -> None:
    """The part that every text rule shares, blankness apart."""
    if "\0" in text:
        raise _invalid("U+0000 in a text")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise _invalid("a lone surrogate in a text") from None
    if is_secret_shaped(text):
        raise Invalid(Reason.SECRET_SHAPED, "looks like a key or a token")


def _prose(text: str) -> None:
    if not text.strip():  # str.strip takes exactly the blank set of FORMAT 3.1
        raise _invalid("blank")
    _clean(text)


def _line(text: str) -> None:
    _prose(text)
    if "\r" in text or "\n" in text:
        raise _invalid("more than one line")


def _path(text: str) -> None:
    _line(text)
    if not _PATH.fullmatch(text):
        raise _invalid("not a portable path: only A-Z a-z 0-9 . _ / - are")
    for component in text.split("/"):
        if component in ("", ".", ".."):
            raise _invalid("not a portable path: relative, without empty, . or .. components")
        if component.endswith("."):
            raise _invalid("not a portable path: a component ends with a dot")
        if component.split(".", 1)[0].upper() in _DEVICES:
            raise _invalid("not a portable path: a component is a device name on Windows")


def is_path(text: str) -> bool:
    """Whether `text` is a PATH (FORMAT 3.2)."""
    try:
        _path(text)
    except Invalid:
        return False
    return len(text) <= 240


def instant(text: str) -> datetime.datetime:
    """The moment that a TIME names, in UTC with microseconds. Raises `Invalid` where it is none (FORMAT 3.3)."""
    found = _TIME.fullmatch(text)
    if not found:
        raise _invalid("not a time of the form YYYY-MM-DDThh:mm:ssZ")
    try:
        year, month, day, hour, minute, second = (int(digits) for digits in found.groups()[:6])
        return datetime.datetime(year, month, day, hour, minute, second, int((found[7] or "0").ljust(6, "0")))
    except ValueError:
        raise _invalid("no such date or time of day") from None


def _time(text: str) -> None:
    _line(text)
    instant(text)


def _sha256(text: str) -> None:
    if not _SHA256.fullmatch(text):
        raise _invalid("not a SHA-256 in 64 uppercase hexadecimal digits")


def _commit(text: str) -> None:
    if not _COMMIT.fullmatch(text):
        raise _invalid("not a commit id in 40 lowercase hexadecimal digits")


def _id(prefix: str, text: str) -> None:
    _line(text)
    # Loose on purpose: the reference takes any id that starts so (FORMAT 3.1, "loose IDs").
    if not (_ID.fullmatch(text) and text.startswith(prefix)):
        raise _invalid(f"not an id {prefix}… with 64 uppercase hexadecimal digits")


def ascending(values: Sequence[Any], what: str = "") -> None:
    """Raise `Invalid` at the first value that is not greater than the one before it."""
    for index in range(1, len(values)):
        if not values[index - 1] < values[index]:
            raise _invalid(f"not ascending{what}", index)


def _each(rule: Callable[[Any], None], values: Sequence[Any]) -> None:
    for index, value in enumerate(values):
        try:
            rule(value)
        except Invalid as error:
            raise Invalid(error.reason, error.message, at=(index,)) from None
    ascending(values)


def _text(rule: Callable[[str], None], longest: int, *, pattern: str = "", shortest: int = 1) -> Meta:
    schema: dict[str, Any] = {"pattern": pattern} if pattern else {}
    return Meta(min_length=shortest, max_length=longest, extra={"rule": rule}, extra_json_schema=schema or None)


def _list_of(rule: Callable[[Any], None], fewest: int, most: int) -> Meta:
    return Meta(min_length=fewest, max_length=most, extra={"rule": functools.partial(_each, rule)}, extra_json_schema={"uniqueItems": True})


def _if_any(rule: Callable[[Any], None]) -> Meta:
    return Meta(extra={"rule": lambda value: None if value is None else rule(value)})


END = r"$(?!\n)"
"""The end of a schema pattern, for engines whose `$` matches before a final line feed."""

PATH_PATTERN = (
    r"^(?!/)(?!.*//)(?!.*(?:^|/)\.{1,2}(?:/|$))(?!.*(?:^|/)~)(?!.*\.(?:/|$))"
    r"(?!.*(?:^|/)(?:[Cc][Oo][Nn]|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]|[Cc][Oo][Mm][1-9]|[Ll][Pp][Tt][1-9])(?:\.|/|$))"
    r"[A-Za-z0-9._/-]+" + END
)
TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z" + END


def id_pattern(prefix: str) -> str:
    """The schema pattern of the ids of one type; the runtime takes looser ones where nothing recomputes them."""
    return f"^{prefix}[0-9A-F]{{64}}{END}"


def _id_meta(prefix: str) -> Meta:
    return _text(functools.partial(_id, prefix), 128, pattern=id_pattern(prefix))


Prose100 = Annotated[str, _text(_prose, 100)]
Prose500 = Annotated[str, _text(_prose, 500)]
Prose4000 = Annotated[str, _text(_prose, 4_000)]
Body = Annotated[str, _text(_clean, TEXT_CHARACTERS, shortest=0)]
Path = Annotated[str, _text(_path, 240, pattern=PATH_PATTERN)]
Time = Annotated[str, _text(_time, 40, pattern=TIME_PATTERN)]
TimeOrNull = Annotated[Time | None, _if_any(_time)]
Sha256 = Annotated[str, Meta(extra={"rule": _sha256}, extra_json_schema={"pattern": "^[0-9A-F]{64}" + END})]
Commit = Annotated[str, Meta(extra={"rule": _commit}, extra_json_schema={"pattern": "^[0-9a-f]{40}" + END})]

ManifestId = Annotated[str, _id_meta("CTX-MANIFEST-")]
GraphId = Annotated[str, _id_meta("CTX-GRAPH-")]
QueryId = Annotated[str, _id_meta("CTX-QUERY-")]
SelectionId = Annotated[str, _id_meta("CTX-SELECTION-")]
SnapshotId = Annotated[str, _id_meta("CTX-SNAPSHOT-")]
SourceId = Annotated[str, _id_meta("CTX-SOURCE-")]
NodeId = Annotated[str, _id_meta("CTX-NODE-")]
EdgeId = Annotated[str, _id_meta("CTX-EDGE-")]
ProposalId = Annotated[str, _id_meta("CTX-HOST-SUMMARY-PROPOSAL-")]
ProposalIdOrNull = Annotated[ProposalId | None, _if_any(functools.partial(_id, "CTX-HOST-SUMMARY-PROPOSAL-"))]

Texts16 = Annotated[tuple[Prose500, ...], _list_of(_prose, 0, 16)]
Texts64 = Annotated[tuple[Prose500, ...], _list_of(_prose, 0, 64)]
Texts128 = Annotated[tuple[Prose500, ...], _list_of(_prose, 0, 128)]
Reasons = Annotated[tuple[Prose500, ...], _list_of(_prose, 1, 16)]
Sha256s = Annotated[tuple[Sha256, ...], _list_of(_sha256, 1, 64)]
NodeIds = Annotated[tuple[NodeId, ...], _list_of(functools.partial(_id, "CTX-NODE-"), 0, 4_096)]
ClaimedIds = Annotated[tuple[NodeId, ...], _list_of(functools.partial(_id, "CTX-NODE-"), 1, 64)]
EdgeIds = Annotated[tuple[EdgeId, ...], _list_of(functools.partial(_id, "CTX-EDGE-"), 0, 16_384)]

# ---- enumerations ---------------------------------------------------------------------------------------------------


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
    if sensitivity is Sensitivity.SECRET_OR_PROHIBITED:
        raise _invalid("secret-or-prohibited can never be adopted")


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


# ---- records --------------------------------------------------------------------------------------------------------


@functools.cache
def _rules(cls: type) -> tuple[tuple[str, Callable[[Any], None]], ...]:
    found = []
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        for meta in getattr(hint, "__metadata__", ()):
            if isinstance(meta, Meta) and meta.extra and "rule" in meta.extra:
                found.append((name, meta.extra["rule"]))
    return tuple(found)


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed JSON object. Building one applies the rule of every field; subclasses add what relates the fields.

    `schema` is what the JSON Schema says of an object beyond its fields.
    """

    schema: ClassVar[dict[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, rule in _rules(type(self)):
            try:
                rule(getattr(self, name))
            except Invalid as error:
                raise Invalid(error.reason, error.message, at=f"{name}/{error.where}" if error.where else name) from None

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
    references: Annotated[
        tuple[ArtifactReference, ...],
        Meta(min_length=1, max_length=64, extra={"rule": ascending}, extra_json_schema={"uniqueItems": True}),
    ]


class Locator(Record, frozen=True, kw_only=True):
    """Lines of a file. `sha256` is of the complete file; lines are 1-based, inclusive, as FORMAT 5.3 counts them."""

    root_scope: RootScope
    path: Path
    sha256: Sha256
    line_start: Annotated[int, Meta(ge=1, le=1_000_000)]
    line_end: Annotated[int, Meta(ge=1, le=1_000_000)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.line_end < self.line_start:
            raise _invalid("ends before it starts", "line_end")


class Freshness(Record, frozen=True, kw_only=True):
    """How long a text holds. Both times are there exactly for `expires-at`; the window is inclusive."""

    kind: FreshnessKind
    observed_at: TimeOrNull
    valid_until: TimeOrNull

    schema = {
        "if": {"properties": {"kind": {"const": "expires-at"}}},
        "then": {"properties": {"observed_at": {"type": "string"}, "valid_until": {"type": "string"}}},
        "else": {"properties": {"observed_at": {"type": "null"}, "valid_until": {"type": "null"}}},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind is not FreshnessKind.EXPIRES_AT:
            if self.observed_at is not None or self.valid_until is not None:
                raise _invalid("times are given for expires-at alone", "kind")
        elif self.observed_at is None or self.valid_until is None:
            raise _invalid("expires-at has both times", "kind")
        elif instant(self.valid_until) < instant(self.observed_at):
            raise _invalid("ends before it was observed", "valid_until")

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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.freshness.kind is FreshnessKind.IMMUTABLE and not (
            self.locator.path.lower().endswith(".json") and self.authority.authoritative and self.refers_to_itself
        ):
            raise _invalid("immutable takes a .json file of an authoritative class that refers to itself", "freshness")

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

    def __post_init__(self) -> None:
        super().__post_init__()
        _same_id(self.source_id, "CTX-SOURCE-", self.metadata, "source_id")
        if self.kind is Kind.TOOL_OBSERVATION and self.freshness.kind is not FreshnessKind.EXPIRES_AT:
            raise _invalid("a tool-observation expires", "freshness")

    @classmethod
    def seal(cls, **metadata: Any) -> Self:
        return cls(source_id=canonical.identity("CTX-SOURCE-", metadata), **metadata)


class Node(Metadata, frozen=True, kw_only=True):
    """A source with its selected text."""

    node_id: NodeId
    source_id: SourceId
    text: Body
    text_sha256: Sha256

    def __post_init__(self) -> None:
        super().__post_init__()
        _same_id(self.source_id, "CTX-SOURCE-", self.metadata, "source_id")
        if self.text_sha256 != canonical.digest(self.text.encode("utf-8")):
            raise Invalid(Reason.IDENTITY_MISMATCH, "is not the digest of the text", at="text_sha256")
        _same_id(self.node_id, "CTX-NODE-", self.without("node_id"), "node_id")
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

    def __post_init__(self) -> None:
        super().__post_init__()
        distinct_ends(self.edge_type, self.source_node_id, self.target_node_id)
        _same_id(self.edge_id, "CTX-EDGE-", self.without("edge_id"), "edge_id")

    @classmethod
    def seal(cls, **fields: Any) -> Self:
        return cls(edge_id=canonical.identity("CTX-EDGE-", fields), **fields)


def distinct_ends(edge_type: EdgeType, source: str, target: str) -> None:
    """Raise `Invalid` for a self loop, or for a contradiction whose ends do not ascend."""
    if source == target:
        raise _invalid("related to itself")
    if edge_type is EdgeType.CONTRADICTS and not source < target:
        raise _invalid("the ends of a contradiction ascend")


def _same_id(given: str, prefix: str, content: dict[str, Any], at: str) -> None:
    if given != canonical.identity(prefix, content):
        raise Invalid(Reason.IDENTITY_MISMATCH, "is not the identity of its content", at=at)


def authority_fault(source: Metadata) -> Reason | None:
    """The first row of FORMAT 3.6's authority table that does not hold, as its exclusion reason; else nothing."""
    authority, kind, scope = source.authority, source.kind, source.locator.root_scope
    here, accord = scope is RootScope.REPOSITORY, {Kind.REQUIREMENT, Kind.DECISION, Kind.DESIGN}
    if authority.authoritative and not source.refers_to_itself:
        return Reason.PROVENANCE_INVALID
    allowed = {
        Authority.OWNER_APPROVED: not here
        and kind in accord | {Kind.HANDOFF}
        and source.provenance.producer == source.provenance.recorded_by == "Owner",
        Authority.CANONICAL_SPECIFICATION: here and kind is Kind.SPECIFICATION,
        Authority.ACCEPTED_PUBLIC_CONTRACT: here and kind in accord,
        Authority.VERIFIED_EVIDENCE: here and kind is Kind.EVIDENCE,
    }
    if not allowed.get(authority, True):
        return Reason.AUTHORITY_INVALID
    if kind is Kind.TOOL_OBSERVATION and authority is not Authority.UNTRUSTED_OBSERVATION:
        return Reason.AUTHORITY_INVALID
    return None


def cost(record: Node | Edge) -> int:
    """Bytes that a node or an edge takes of a budget: its canonical form without its own id (FORMAT 2.4)."""
    own = "node_id" if isinstance(record, Node) else "edge_id"
    return len(canonical.encode(record.without(own), of_records=True))
