"""This module holds the eight artifacts and their envelope (FORMAT 2 and 3.7 to 3.14).

    seal(content)            → Artifact      the envelope with the derived id
    publishable(content)     → Artifact      the same, and whoever reads its bytes will accept them
    parse(data[, content])   → Artifact      strict JSON, typed, self-consistent; refused with the member's path
    render(artifact)         → bytes         as published

A content checks itself when it is built; what relates two artifacts, a clock or the world is policy in `context/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Invalid, Malformed, Reason
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import (
    Adoptable,
    Authority,
    Body,
    CandidateIdentity,
    ClaimedIds,
    Edge,
    EdgeIds,
    EdgeType,
    GraphId,
    Kind,
    ManifestId,
    Node,
    NodeId,
    NodeIds,
    ProposalIdOrNull,
    Prose100,
    Prose4000,
    Provenance,
    QueryId,
    Reasons,
    Record,
    RootScope,
    SelectionId,
    Sensitivity,
    Sha256,
    Sha256s,
    SnapshotId,
    Source,
    SourceId,
    Texts16,
    Texts128,
    Time,
    ascending,
    cost,
    distinct_ends,
)

SCHEMA_VERSION = "1.0"

CONTEXT_BYTES = 8_388_608
"""The most that a budget may have, and the most text that a Graph may hold."""

NODES = 4_096
EDGES = 16_384

Bytes = Annotated[int, Meta(ge=0, le=CONTEXT_BYTES)]
Cost = Annotated[int, Meta(ge=1, le=CONTEXT_BYTES)]
BudgetBytes = Annotated[int, Meta(ge=1_024, le=CONTEXT_BYTES)]
Count = Annotated[int, Meta(ge=0, le=16_777_216)]


def _many(fewest: int, most: int, **schema: Any) -> Meta:
    return Meta(min_length=fewest, max_length=most, extra_json_schema={"uniqueItems": True} | schema)


def _invalid(message: str, *at: str | int) -> Invalid:
    return Invalid(Reason.CONTRACT_INVALID, message, at=at)


def _ascending(values: Sequence[Any], *at: str) -> None:
    try:
        ascending(values)
    except Invalid as error:
        raise _invalid(error.message, *at, error.where) from None


def _highest(members: Sequence[Source] | Sequence[Node], given: Sensitivity) -> None:
    if max(member.sensitivity for member in members) is not given:
        raise _invalid("is not the highest of its members", "sensitivity")


# ---- Manifest -------------------------------------------------------------------------------------------------------


class Relationship(Record, frozen=True, kw_only=True):
    edge_type: EdgeType
    source_id: SourceId
    target_id: SourceId
    provenance: Provenance

    def __post_init__(self) -> None:
        super().__post_init__()
        distinct_ends(self.edge_type, self.source_id, self.target_id)


class Manifest(Record, frozen=True, kw_only=True):
    """What a context is made of: sources by digest, and how they are related (FORMAT 3.7)."""

    candidate: CandidateIdentity
    sensitivity: Adoptable
    sources: Annotated[tuple[Source, ...], _many(1, NODES)]
    relationships: Annotated[tuple[Relationship, ...], _many(0, EDGES)]

    def __post_init__(self) -> None:
        super().__post_init__()
        _ascending([source.source_id for source in self.sources], "sources")
        _highest(self.sources, self.sensitivity)
        known = {source.source_id for source in self.sources}
        _ascending([(rel.edge_type.value, rel.source_id, rel.target_id) for rel in self.relationships], "relationships")
        for index, rel in enumerate(self.relationships):
            if rel.source_id not in known or rel.target_id not in known:
                raise _invalid("relates something that is no source here", "relationships", index)


# ---- Graph ----------------------------------------------------------------------------------------------------------


class ExcludedSource(Record, frozen=True, kw_only=True):
    source_id: SourceId
    reason: Prose100
    details: Texts16


class Graph(Record, frozen=True, kw_only=True):
    """The sources of a Manifest with their text (FORMAT 3.8)."""

    candidate: CandidateIdentity
    manifest_id: ManifestId
    sensitivity: Adoptable
    nodes: Annotated[tuple[Node, ...], _many(1, NODES)]
    edges: Annotated[tuple[Edge, ...], _many(0, EDGES)]
    excluded_sources: Annotated[tuple[ExcludedSource, ...], _many(0, NODES)]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_nodes(self.nodes, self.candidate, self.sensitivity)
        if sum(len(node.text.encode("utf-8")) for node in self.nodes) > CONTEXT_BYTES:
            raise _invalid(f"more than {CONTEXT_BYTES} bytes of text", "nodes")
        _check_edges(self.edges, self.nodes)
        _ascending([excluded.source_id for excluded in self.excluded_sources], "excluded_sources")
        taken = {node.source_id for node in self.nodes}
        if any(excluded.source_id in taken for excluded in self.excluded_sources):
            raise _invalid("excludes the source of a node", "excluded_sources")


def _check_nodes(nodes: Sequence[Node], candidate: CandidateIdentity, sensitivity: Sensitivity) -> None:
    _ascending([node.node_id for node in nodes], "nodes")
    if len({node.source_id for node in nodes}) != len(nodes):
        raise _invalid("two nodes of one source", "nodes")
    _highest(nodes, sensitivity)
    check_canonical(nodes, candidate)


def _check_edges(edges: Sequence[Edge], nodes: Sequence[Node]) -> None:
    known = {node.node_id for node in nodes}
    _ascending([edge.edge_id for edge in edges], "edges")
    for index, edge in enumerate(edges):
        if edge.source_node_id not in known or edge.target_node_id not in known:
            raise _invalid("joins something that is no node here", "edges", index)


def check_canonical(sources: Sequence[Node] | Sequence[Source], candidate: CandidateIdentity) -> None:
    """Raise `Invalid` unless exactly one member is the canonical specification that the candidate names (FORMAT 3.8)."""
    found = [source for source in sources if source.authority is Authority.CANONICAL_SPECIFICATION]
    if len(found) != 1:
        raise Invalid(Reason.CANONICAL_INVALID, f"{len(found)} canonical specifications; exactly one is needed")
    (specification,) = found
    if not (
        specification.required
        and specification.kind is Kind.SPECIFICATION
        and specification.locator.root_scope is RootScope.REPOSITORY
        and specification.locator.sha256 == candidate.source_spec_sha256
    ):
        raise Invalid(Reason.CANONICAL_INVALID, "the canonical specification is a required one of the repository, and the candidate's")


# ---- Query and Selection --------------------------------------------------------------------------------------------


class Budget(Record, frozen=True, kw_only=True):
    unit: Literal["canonical_utf8_bytes"]
    budget_bytes: BudgetBytes
    max_nodes: Annotated[int, Meta(ge=1, le=NODES)]
    max_edges: Annotated[int, Meta(ge=0, le=EDGES)]
    max_traversal_depth: Annotated[int, Meta(ge=0, le=8)]


class Query(Record, frozen=True, kw_only=True):
    """What is asked of a Graph, at which moment, for whom and within what (FORMAT 3.9)."""

    candidate: CandidateIdentity
    graph_id: GraphId
    as_of: Time
    clearance: Sensitivity
    required_node_ids: NodeIds
    seed_node_ids: NodeIds
    identifiers: Texts128
    terms: Texts128
    allowed_edge_types: Annotated[
        tuple[EdgeType, ...], Meta(min_length=1, max_length=7, extra={"rule": ascending}, extra_json_schema={"uniqueItems": True})
    ]
    budget: Budget


class Rank(Record, frozen=True, kw_only=True):
    """Why a node stands where it stands: lower is taken earlier, but for the score."""

    phase: Annotated[int, Meta(ge=0, le=3)]
    authority_rank: Annotated[int, Meta(ge=0, le=6)]
    graph_distance: Annotated[int, Meta(ge=0, le=8)]
    lexical_score: Annotated[int, Meta(ge=0, le=1_000_000)]
    sensitivity_rank: Annotated[int, Meta(ge=0, le=3)]
    node_id: NodeId


class Decision(Record, frozen=True, kw_only=True):
    """A node that was taken."""

    node_id: NodeId
    reasons: Reasons
    rank: Rank
    cost_bytes: Cost

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rank.node_id != self.node_id:
            raise _invalid("is of another node", "rank", "node_id")


class Exclusion(Record, frozen=True, kw_only=True):
    """A node that was not taken."""

    node_id: NodeId
    reason: Prose100
    details: Texts16


class Selection(Record, frozen=True, kw_only=True):
    """Which nodes a Query takes of its Graph (FORMAT 3.10)."""

    candidate: CandidateIdentity
    graph_id: GraphId
    query_id: QueryId
    query: Query
    as_of: Time
    sensitivity: Adoptable
    selected: Annotated[tuple[Decision, ...], _many(1, NODES)]
    excluded: Annotated[tuple[Exclusion, ...], _many(0, NODES)]
    selected_edge_ids: EdgeIds
    unresolved_contradiction_ids: EdgeIds
    edge_cost_bytes: Bytes
    used_bytes: Bytes
    budget_bytes: BudgetBytes
    traversal_truncated: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.query_id != canonical.identity("CTX-QUERY-", self.query):
            raise Invalid(Reason.IDENTITY_MISMATCH, "is not the identity of the query", at="query_id")
        for name in ("candidate", "graph_id", "as_of"):
            if getattr(self, name) != getattr(self.query, name):
                raise _invalid("is not that of the query", name)
        if self.budget_bytes != self.query.budget.budget_bytes:
            raise _invalid("is not that of the query", "budget_bytes")
        _check_excluded(self.excluded, {decision.node_id for decision in self.selected}, len(self.selected))
        if self.used_bytes != sum(decision.cost_bytes for decision in self.selected) + self.edge_cost_bytes:
            raise _invalid("is not the sum of what was taken", "used_bytes")
        if self.used_bytes > self.budget_bytes:
            raise _invalid("exceeds the budget", "used_bytes")


def _check_excluded(excluded: Sequence[Exclusion], taken: set[str], count: int) -> None:
    if len(taken) != count:
        raise _invalid("one node twice", "selected")
    _ascending([exclusion.node_id for exclusion in excluded], "excluded")
    if any(exclusion.node_id in taken for exclusion in excluded):
        raise _invalid("holds a node that was taken", "excluded")


# ---- Snapshot -------------------------------------------------------------------------------------------------------


class Snapshot(Record, frozen=True, kw_only=True):
    """What was selected, observed again: nodes, edges, and why (FORMAT 3.11)."""

    candidate: CandidateIdentity
    graph_id: GraphId
    query_id: QueryId
    selection_id: SelectionId
    as_of: Time
    sensitivity: Adoptable
    nodes: Annotated[tuple[Node, ...], _many(1, NODES)]
    edges: Annotated[tuple[Edge, ...], _many(0, EDGES)]
    selected: Annotated[tuple[Decision, ...], _many(1, NODES)]
    excluded: Annotated[tuple[Exclusion, ...], _many(0, NODES)]
    unresolved_contradiction_ids: EdgeIds
    context_bytes: Bytes
    budget_bytes: BudgetBytes

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_nodes(self.nodes, self.candidate, self.sensitivity)
        _check_edges(self.edges, self.nodes)
        if [decision.node_id for decision in self.selected] != [node.node_id for node in self.nodes]:
            raise _invalid("is not the sequence of the nodes", "selected")
        costs = [cost(node) for node in self.nodes]
        for index, (decision, node) in enumerate(zip(self.selected, self.nodes, strict=True)):
            if decision.cost_bytes != costs[index]:
                raise _invalid("is not the cost of the node", "selected", index, "cost_bytes")
            if (decision.rank.authority_rank, decision.rank.sensitivity_rank) != (node.authority.rank, node.sensitivity.rank):
                raise _invalid("is not the rank of the node", "selected", index, "rank")
        _check_excluded(self.excluded, {node.node_id for node in self.nodes}, len(self.nodes))
        if self.unresolved_contradiction_ids != contradiction_ids(self.edges):
            raise _invalid("is not the list of contradictions among the edges", "unresolved_contradiction_ids")
        if self.context_bytes != sum(costs) + sum(map(cost, self.edges)):
            raise _invalid("is not the sum of nodes and edges", "context_bytes")
        if self.context_bytes > self.budget_bytes:
            raise _invalid("exceeds the budget", "context_bytes")


def contradiction_ids(edges: Sequence[Edge]) -> tuple[str, ...]:
    """The ids of the `contradicts` edges, in the order given."""
    return tuple(edge.edge_id for edge in edges if edge.edge_type is EdgeType.CONTRADICTS)


# ---- Compaction, proposal, quality ----------------------------------------------------------------------------------


class Extract(Record, frozen=True, kw_only=True):
    """What an agent reads of a node."""

    node_id: NodeId
    source_id: SourceId
    text: Body
    text_sha256: Sha256
    authority: Authority
    sensitivity: Adoptable
    required: bool
    contradiction_ids: EdgeIds
    cost_bytes: Cost

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.text_sha256 != canonical.digest(self.text.encode("utf-8")):
            raise Invalid(Reason.IDENTITY_MISMATCH, "is not the digest of the text", at="text_sha256")
        if self.cost_bytes != len(canonical.encode(self.text)):
            raise _invalid("is not the cost of the text", "cost_bytes")


class Compaction(Record, frozen=True, kw_only=True):
    """A Snapshot reduced to its extracts (FORMAT 3.12)."""

    candidate: CandidateIdentity
    snapshot_id: SnapshotId
    sensitivity: Adoptable
    budget_bytes: BudgetBytes
    used_bytes: Bytes
    extracts: Annotated[tuple[Extract, ...], _many(1, NODES, contains={"properties": {"required": {"const": True}}})]
    omitted_node_ids: NodeIds
    unresolved_contradiction_ids: EdgeIds
    host_summary_proposal_id: ProposalIdOrNull

    def __post_init__(self) -> None:
        super().__post_init__()
        _ascending([extract.node_id for extract in self.extracts], "extracts")
        if max(extract.sensitivity for extract in self.extracts).rank > self.sensitivity.rank:
            raise _invalid("understates an extract", "sensitivity")
        if not any(extract.required for extract in self.extracts):
            raise _invalid("no extract is required", "extracts")
        if {extract.node_id for extract in self.extracts} & set(self.omitted_node_ids):
            raise _invalid("holds an extract", "omitted_node_ids")
        if self.used_bytes != sum(extract.cost_bytes for extract in self.extracts):
            raise _invalid("is not the sum of the extracts", "used_bytes")
        if self.used_bytes > self.budget_bytes:
            raise _invalid("exceeds the budget", "used_bytes")
        ends = Counter(edge_id for extract in self.extracts for edge_id in extract.contradiction_ids)
        if tuple(sorted(ends)) != self.unresolved_contradiction_ids or any(count != 2 for count in ends.values()):
            raise _invalid("every contradiction has its two ends among the extracts", "unresolved_contradiction_ids")


class Claim(Record, frozen=True, kw_only=True):
    """A sentence and the texts that it rests on. The two lists are each sorted; they are not parallel."""

    claim: Prose4000
    source_node_ids: ClaimedIds
    extract_sha256s: Sha256s

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.source_node_ids) != len(self.extract_sha256s):
            raise _invalid("as many nodes as digests", "source_node_ids")


class HostSummaryProposal(Record, frozen=True, kw_only=True):
    """What a host says of a Snapshot: an untrusted proposal (FORMAT 3.13)."""

    snapshot_id: SnapshotId
    authority: Annotated[Authority, Meta(extra_json_schema={"const": Authority.UNTRUSTED_PROPOSAL.value})]
    sensitivity: Adoptable
    claims: Annotated[tuple[Claim, ...], Meta(min_length=1, max_length=256)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.authority is not Authority.UNTRUSTED_PROPOSAL:
            raise _invalid("a proposal is an untrusted-proposal", "authority")


class QualityReport(Record, frozen=True, kw_only=True):
    """Counts about a Snapshot; no score is made of them (FORMAT 3.14)."""

    candidate: CandidateIdentity
    snapshot_id: SnapshotId
    sensitivity: Adoptable
    required_reference_recall: Annotated[int, Meta(ge=0, le=100)]
    stale_required_count: Count
    provenance_complete_count: Count
    provenance_missing_count: Count
    sensitivity_violation_count: Count
    selected_context_bytes: Count
    budget_bytes: Count
    redundant_bytes: Count
    selected_node_count: Count
    excluded_node_count: Count
    unresolved_contradiction_count: Count
    traversal_truncated: bool


# ---- envelope -------------------------------------------------------------------------------------------------------

Content = Manifest | Graph | Query | Selection | Snapshot | Compaction | HostSummaryProposal | QualityReport
C = TypeVar("C", bound=Content)

TYPES: dict[str, type[Content]] = {
    "context-manifest": Manifest,
    "context-graph": Graph,
    "context-query": Query,
    "context-selection": Selection,
    "context-snapshot": Snapshot,
    "context-compaction": Compaction,
    "context-host-summary-proposal": HostSummaryProposal,
    "context-quality-report": QualityReport,
}
NAMES: dict[type[Any], str] = {content: name for name, content in TYPES.items()}
PREFIXES: dict[type[Any], str] = {content: name.upper().replace("CONTEXT-", "CTX-", 1) + "-" for name, content in TYPES.items()}
SMALL = frozenset({Manifest, Query, HostSummaryProposal})


class Artifact(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """A content with its identity. `seal` and `parse` alone make one."""

    artifact_id: str
    artifact_type: str
    content: C
    schema_version: str = SCHEMA_VERSION


def seal(content: C) -> Artifact[C]:
    """The envelope of `content`, with the id that its canonical bytes give."""
    kind = type(content)
    return Artifact(artifact_id=canonical.identity(PREFIXES[kind], content), artifact_type=NAMES[kind], content=content)


def render(artifact: Artifact[Any]) -> bytes:
    """The published bytes. Raises `Malformed` where they could not be read back for their size."""
    data = canonical.render(artifact)
    limit = canonical.SMALL_BYTES if type(artifact.content) in SMALL else canonical.ARTIFACT_BYTES
    if len(data) > limit:
        raise Malformed(Reason.TOO_LARGE, f"the {artifact.artifact_type} would have {len(data)} bytes; at most {limit} can be read back")
    return data


def publishable(content: C) -> Artifact[C]:
    """The artifact of `content` as a reader of its bytes gets it: sealed, rendered and parsed again."""
    return parse(render(seal(content)), type(content))


def parse(data: bytes, wanted: type[C] | None = None) -> Artifact[C]:
    """The artifact in `data`, checked under every rule of FORMAT 1 to 3.

    Raises `Malformed` or `Invalid` with the member's path; ARTIFACT_TYPE where it is another one than `wanted`.
    """
    envelope = canonical.load(data)
    if not isinstance(envelope, dict):
        raise _invalid("an artifact is an object")
    members = {"artifact_id", "artifact_type", "content", "schema_version"}
    if missing := sorted(members - set(envelope)):
        raise _invalid("is missing", missing[0])
    if unknown := sorted(set(envelope) - members):
        raise _invalid("an artifact has four members, and this is none of them", _shown(unknown[0]))
    if envelope["schema_version"] != SCHEMA_VERSION:
        raise _invalid("only 1.0 is known", "schema_version")
    named = envelope["artifact_type"]
    kind = TYPES.get(named) if isinstance(named, str) else None
    if kind is None:
        raise _invalid("no artifact type", "artifact_type")
    if wanted is not None and kind is not wanted:
        raise Invalid(Reason.ARTIFACT_TYPE, f"a {NAMES[kind]}, where a {NAMES[wanted]} belongs", at="artifact_type")
    if kind in SMALL and len(data) > canonical.SMALL_BYTES:
        raise Malformed(Reason.TOO_LARGE, f"{len(data)} bytes; a {named} has at most {canonical.SMALL_BYTES}")
    artifact = seal(convert(envelope["content"], kind, at=("content",)))
    if envelope["artifact_id"] != artifact.artifact_id:
        raise Invalid(Reason.IDENTITY_MISMATCH, "is not the identity of the content", at="artifact_id")
    return cast(Artifact[C], artifact)


R = TypeVar("R", bound=msgspec.Struct)


def convert(value: Any, kind: type[R], *, at: tuple[str | int, ...] = ()) -> R:
    """The record in a plain value. Raises `Invalid` with the path of the member, `at` before it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        steps = [*at, *_steps(path.rstrip("`"))]
        if isinstance(cause := error.__cause__, Invalid):
            raise Invalid(cause.reason, cause.message, at=(*steps, *filter(None, cause.where.split("/")))) from None
        words, *member = _own_words(message)
        raise _invalid(words, *steps, *member) from None


def _steps(path: str) -> list[str]:
    """The steps of a path that msgspec writes: `$.nodes[3].locator` is nodes, 3, locator."""
    return [_shown(step) for step in path.removeprefix("$").replace("[", ".").replace("]", "").split(".") if step]


def _own_words(message: str) -> tuple[str, ...]:
    """A sentence of msgspec's, in lower case and without the input that some of them quote; then the member that it names."""
    if message.startswith("Invalid enum value"):
        return ("not one of the words that are allowed here",)
    for start, words in (("Object missing required field `", "is missing"), ("Object contains unknown field `", "is no member here")):
        if message.startswith(start):
            return words, _shown(message.removeprefix(start).removesuffix("`"))
    return (message[:1].lower() + message[1:160].replace("`", "'"),)


def _shown(text: str) -> str:
    return ascii(text)[1:-1][:80]
