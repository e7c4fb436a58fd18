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
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Meta

from sdaqf_tasks.errors import Invalid, Malformed, Reason
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import (
    Adoptable,
    Authority,
    Body,
    CandidateIdentity,
    Edge,
    EdgeId,
    EdgeType,
    Kind,
    Node,
    NodeId,
    Prose100,
    Prose500,
    Prose4000,
    Provenance,
    Record,
    RootScope,
    Sensitivity,
    Sha256,
    Source,
    SourceId,
    Texts128,
    Time,
    ascending,
    cost,
    id_of,
    must,
    must_be_ends,
    must_digest,
)

SCHEMA_VERSION: Final = "1.0"

CONTEXT_BYTES = 8_388_608
"""The most that a budget may have, and the most text that a Graph may hold."""

NODES = 4_096
EDGES = 16_384

Bytes = Annotated[int, Meta(ge=0, le=CONTEXT_BYTES)]
Cost = Annotated[int, Meta(ge=1, le=CONTEXT_BYTES)]
BudgetBytes = Annotated[int, Meta(ge=1_024, le=CONTEXT_BYTES)]
Count = Annotated[int, Meta(ge=0, le=16_777_216)]

GraphId = Annotated[str, id_of("CTX-GRAPH-")]
QueryId = Annotated[str, id_of("CTX-QUERY-")]
SnapshotId = Annotated[str, id_of("CTX-SNAPSHOT-")]
NodeIds = Annotated[tuple[NodeId, ...], ascending(0, NODES)]
EdgeIds = Annotated[tuple[EdgeId, ...], ascending(0, EDGES)]
Texts16 = Annotated[tuple[Prose500, ...], ascending(0, 16)]


class Relationship(Record, frozen=True, kw_only=True):
    edge_type: EdgeType
    source_id: SourceId
    target_id: SourceId
    provenance: Provenance

    def check(self) -> None:
        must_be_ends(self.edge_type, self.source_id, self.target_id)


class Manifest(Record, frozen=True, kw_only=True):
    """What a context is made of: sources by digest, and how they are related (FORMAT 3.7)."""

    candidate: CandidateIdentity
    sensitivity: Adoptable
    sources: Annotated[tuple[Source, ...], ascending(1, NODES, "source_id")]
    relationships: Annotated[tuple[Relationship, ...], ascending(0, EDGES, "edge_type", "source_id", "target_id")]

    def check(self) -> None:
        _must_be_highest(self.sensitivity, self.sources)
        known = {source.source_id for source in self.sources}
        for index, rel in enumerate(self.relationships):
            related = rel.source_id in known and rel.target_id in known
            must(related, "relates something that is no source here", "relationships", index)


class ExcludedSource(Record, frozen=True, kw_only=True):
    source_id: SourceId
    reason: Prose100
    details: Texts16


class Graph(Record, frozen=True, kw_only=True):
    """The sources of a Manifest with their text (FORMAT 3.8)."""

    candidate: CandidateIdentity
    manifest_id: Annotated[str, id_of("CTX-MANIFEST-")]
    sensitivity: Adoptable
    nodes: Annotated[tuple[Node, ...], ascending(1, NODES, "node_id")]
    edges: Annotated[tuple[Edge, ...], ascending(0, EDGES, "edge_id")]
    excluded_sources: Annotated[tuple[ExcludedSource, ...], ascending(0, NODES, "source_id")]

    def check(self) -> None:
        _check_graph(self)
        size = sum(len(node.text.encode("utf-8")) for node in self.nodes)
        must(size <= CONTEXT_BYTES, f"more than {CONTEXT_BYTES} bytes of text", "nodes")
        excluded = {source.source_id for source in self.excluded_sources}
        must(excluded.isdisjoint(node.source_id for node in self.nodes), "excludes the source of a node", "excluded_sources")


def _check_graph(content: Graph | Snapshot) -> None:
    nodes = {node.node_id for node in content.nodes}
    must(len({node.source_id for node in content.nodes}) == len(nodes), "two nodes of one source", "nodes")
    _must_be_highest(content.sensitivity, content.nodes)
    check_canonical(content.nodes, content.candidate)
    for index, edge in enumerate(content.edges):
        joined = edge.source_node_id in nodes and edge.target_node_id in nodes
        must(joined, "joins something that is no node here", "edges", index)


def _must_be_highest(sensitivity: Sensitivity, members: Sequence[Source] | Sequence[Node]) -> None:
    must(sensitivity is max(member.sensitivity for member in members), "is not the highest of its members", "sensitivity")


def check_canonical(sources: Sequence[Node] | Sequence[Source], candidate: CandidateIdentity) -> None:
    """Raise `Invalid` unless exactly one member is the canonical specification that the candidate names (FORMAT 3.8)."""
    found = [source for source in sources if source.authority is Authority.CANONICAL_SPECIFICATION]
    must(len(found) == 1, f"{len(found)} canonical specifications; exactly one is needed", reason=Reason.CANONICAL_INVALID)
    for specification in found:
        scope, digest = specification.locator.root_scope, specification.locator.sha256
        here = scope is RootScope.REPOSITORY and digest == candidate.source_spec_sha256
        what = "the canonical specification is a required one of the repository, and the candidate's"
        must(specification.required and specification.kind is Kind.SPECIFICATION and here, what, reason=Reason.CANONICAL_INVALID)


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
    allowed_edge_types: Annotated[tuple[EdgeType, ...], ascending(1, 7)]
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
    reasons: Annotated[tuple[Prose500, ...], ascending(1, 16)]
    rank: Rank
    cost_bytes: Cost

    def check(self) -> None:
        must(self.rank.node_id == self.node_id, "is of another node", "rank", "node_id")


class Exclusion(Record, frozen=True, kw_only=True):
    """A node that was not taken."""

    node_id: NodeId
    reason: Prose100
    details: Texts16


Decisions = Annotated[tuple[Decision, ...], Meta(min_length=1, max_length=NODES, extra_json_schema={"uniqueItems": True})]
Exclusions = Annotated[tuple[Exclusion, ...], ascending(0, NODES, "node_id")]


class Selection(Record, frozen=True, kw_only=True):
    """Which nodes a Query takes of its Graph (FORMAT 3.10)."""

    candidate: CandidateIdentity
    graph_id: GraphId
    query_id: QueryId
    query: Query
    as_of: Time
    sensitivity: Adoptable
    selected: Decisions
    excluded: Exclusions
    selected_edge_ids: EdgeIds
    unresolved_contradiction_ids: EdgeIds
    edge_cost_bytes: Bytes
    used_bytes: Bytes
    budget_bytes: BudgetBytes
    traversal_truncated: bool

    def check(self) -> None:
        identity = canonical.identity("CTX-QUERY-", self.query)
        must(self.query_id == identity, "is not the identity of the query", "query_id", reason=Reason.IDENTITY_MISMATCH)
        for name in ("candidate", "graph_id", "as_of"):
            must(getattr(self, name) == getattr(self.query, name), "is not that of the query", name)
        must(self.budget_bytes == self.query.budget.budget_bytes, "is not that of the query", "budget_bytes")
        must(len({decision.node_id for decision in self.selected}) == len(self.selected), "one node twice", "selected")
        _check_excluded(self)
        _check_sum(self, "used_bytes", sum(decision.cost_bytes for decision in self.selected) + self.edge_cost_bytes, "what was taken")


class Snapshot(Record, frozen=True, kw_only=True):
    """What was selected, observed again: nodes, edges, and why (FORMAT 3.11)."""

    candidate: CandidateIdentity
    graph_id: GraphId
    query_id: QueryId
    selection_id: Annotated[str, id_of("CTX-SELECTION-")]
    as_of: Time
    sensitivity: Adoptable
    nodes: Annotated[tuple[Node, ...], ascending(1, NODES, "node_id")]
    edges: Annotated[tuple[Edge, ...], ascending(0, EDGES, "edge_id")]
    selected: Decisions
    excluded: Exclusions
    unresolved_contradiction_ids: EdgeIds
    context_bytes: Bytes
    budget_bytes: BudgetBytes

    def check(self) -> None:
        _check_graph(self)
        same = [decision.node_id for decision in self.selected] == [node.node_id for node in self.nodes]
        must(same, "is not the sequence of the nodes", "selected")
        for index, (decision, node) in enumerate(zip(self.selected, self.nodes, strict=True)):
            must(decision.cost_bytes == cost(node), "is not the cost of the node", "selected", index, "cost_bytes")
            ranks = (decision.rank.authority_rank, decision.rank.sensitivity_rank)
            must(ranks == (node.authority.rank, node.sensitivity.rank), "is not the rank of the node", "selected", index, "rank")
        _check_excluded(self)
        given, found = self.unresolved_contradiction_ids, contradiction_ids(self.edges)
        must(given == found, "is not the list of contradictions among the edges", "unresolved_contradiction_ids")
        costs = sum(decision.cost_bytes for decision in self.selected) + sum(map(cost, self.edges))
        _check_sum(self, "context_bytes", costs, "nodes and edges")


def _check_excluded(content: Selection | Snapshot) -> None:
    taken = {decision.node_id for decision in content.selected}
    must(taken.isdisjoint(exclusion.node_id for exclusion in content.excluded), "holds a node that was taken", "excluded")


def _check_sum(content: Selection | Snapshot | Compaction, name: str, found: int, of: str) -> None:
    must(getattr(content, name) == found, f"is not the sum of {of}", name)
    must(found <= content.budget_bytes, "exceeds the budget", name)


def contradiction_ids(edges: Sequence[Edge]) -> tuple[str, ...]:
    """The ids of the `contradicts` edges, in the order given."""
    return tuple(edge.edge_id for edge in edges if edge.edge_type is EdgeType.CONTRADICTS)


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

    def check(self) -> None:
        must_digest(self.text_sha256, self.text)
        must(self.cost_bytes == len(canonical.encode(self.text)), "is not the cost of the text", "cost_bytes")


class Compaction(Record, frozen=True, kw_only=True):
    """A Snapshot reduced to its extracts (FORMAT 3.12)."""

    candidate: CandidateIdentity
    snapshot_id: SnapshotId
    sensitivity: Adoptable
    budget_bytes: BudgetBytes
    used_bytes: Bytes
    extracts: Annotated[tuple[Extract, ...], ascending(1, NODES, "node_id", contains={"properties": {"required": {"const": True}}})]
    omitted_node_ids: NodeIds
    unresolved_contradiction_ids: EdgeIds
    host_summary_proposal_id: Annotated[str, id_of("CTX-HOST-SUMMARY-PROPOSAL-")] | None

    def check(self) -> None:
        highest = max(extract.sensitivity for extract in self.extracts)
        must(highest.rank <= self.sensitivity.rank, "understates an extract", "sensitivity")
        must(any(extract.required for extract in self.extracts), "no extract is required", "extracts")
        omitted = set(self.omitted_node_ids)
        must(omitted.isdisjoint(extract.node_id for extract in self.extracts), "holds an extract", "omitted_node_ids")
        _check_sum(self, "used_bytes", sum(extract.cost_bytes for extract in self.extracts), "the extracts")
        ends = Counter(edge_id for extract in self.extracts for edge_id in extract.contradiction_ids)
        paired = tuple(sorted(ends)) == self.unresolved_contradiction_ids and set(ends.values()) <= {2}
        must(paired, "every contradiction has its two ends among the extracts", "unresolved_contradiction_ids")


class Claim(Record, frozen=True, kw_only=True):
    """A sentence and the texts that it rests on. The two lists are each sorted; they are not parallel."""

    claim: Prose4000
    source_node_ids: Annotated[tuple[NodeId, ...], ascending(1, 64)]
    extract_sha256s: Annotated[tuple[Sha256, ...], ascending(1, 64)]

    def check(self) -> None:
        must(len(self.source_node_ids) == len(self.extract_sha256s), "as many nodes as digests", "source_node_ids")


class HostSummaryProposal(Record, frozen=True, kw_only=True):
    """What a host says of a Snapshot: an untrusted proposal (FORMAT 3.13)."""

    snapshot_id: SnapshotId
    authority: Annotated[Authority, Meta(extra_json_schema={"const": Authority.UNTRUSTED_PROPOSAL.value})]
    sensitivity: Adoptable
    claims: Annotated[tuple[Claim, ...], Meta(min_length=1, max_length=256)]

    def check(self) -> None:
        must(self.authority is Authority.UNTRUSTED_PROPOSAL, "a proposal is an untrusted-proposal", "authority")


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


class Artifact(msgspec.Struct, Generic[C], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A content with its identity. `seal` and `parse` alone make one."""

    artifact_id: str
    artifact_type: str
    content: C
    schema_version: Literal["1.0"]


def seal(content: C) -> Artifact[C]:
    """The envelope of `content`, with the id that its canonical bytes give."""
    name, identity = NAMES[type(content)], canonical.identity(PREFIXES[type(content)], content)
    return Artifact(artifact_id=identity, artifact_type=name, content=content, schema_version=SCHEMA_VERSION)


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
    envelope = convert(canonical.load(data), Artifact[Any])
    named = envelope.artifact_type
    must(named in TYPES, "no artifact type", "artifact_type")
    kind = TYPES[named]
    if wanted is not None and kind is not wanted:
        raise Invalid(Reason.ARTIFACT_TYPE, f"a {NAMES[kind]}, where a {NAMES[wanted]} belongs", at="artifact_type")
    if kind in SMALL and len(data) > canonical.SMALL_BYTES:
        raise Malformed(Reason.TOO_LARGE, f"{len(data)} bytes; a {named} has at most {canonical.SMALL_BYTES}")
    artifact = seal(convert(envelope.content, kind, at=("content",)))
    same = envelope.artifact_id == artifact.artifact_id
    must(same, "is not the identity of the content", "artifact_id", reason=Reason.IDENTITY_MISMATCH)
    return cast(Artifact[C], artifact)


R = TypeVar("R", bound=msgspec.Struct)


def convert(value: Any, kind: type[R], *, at: tuple[str | int, ...] = ()) -> R:
    """The record in a plain value. Raises `Invalid` with the path of the member, `at` before it."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `")
        inside = path.rstrip("`").removeprefix("$").replace("[", ".").replace("]", "").split(".")  # as in `$.nodes[3].locator`
        steps = [*at, *(_shown(step) for step in inside if step)]
        if isinstance(cause := error.__cause__, Invalid):
            raise Invalid(cause.reason, cause.message, at=(*steps, *filter(None, [cause.where]))) from None
        words, *member = _own_words(message)
        raise Invalid(Reason.CONTRACT_INVALID, words, at=(*steps, *member)) from None


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
