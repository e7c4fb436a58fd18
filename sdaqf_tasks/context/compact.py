"""This module reduces a Snapshot to what an agent reads, after observing all of it once more (FORMAT 10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sdaqf_tasks.context import rules
from sdaqf_tasks.errors import Reason, Refused, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, Decision, Extract, HostSummaryProposal, Snapshot, parse, publishable, render
from sdaqf_tasks.formats.records import EdgeType, Node
from sdaqf_tasks.world import Sources


def compact(
    snapshot: Artifact[Snapshot], sources: Sources, *, proposal: Artifact[HostSummaryProposal] | None = None, owner_root: bool = False
) -> Artifact[Compaction]:
    """The Compaction of `snapshot`. Nothing is excluded here: any member that fails refuses all, required or not.

    Values that were made in memory are rendered and parsed again first. What is *not* checked: that the Snapshot is what
    a Graph and a Selection give (`chain.verify` does that).
    """
    snapshot = parse(render(snapshot), Snapshot)
    content = snapshot.content
    if proposal is not None:
        proposal = parse(render(proposal), HostSummaryProposal)
        _verify_proposal(proposal.content, snapshot)
    rules.verify_owner_root(content.nodes, owner_root)
    rules.verify_candidate(sources, content.candidate)
    for position, node in enumerate(content.nodes):
        try:
            _verify_node(node, content.as_of, sources)
        except Unreadable as error:
            raise rules.unavailable(error, node.locator.path, "content", "nodes", position) from None
    rules.verify_edges(sources, content.edges)
    rules.verify_candidate(sources, content.candidate)

    contradictions = _contradictions(content)
    kept, omitted = _fitting(content, contradictions)
    sensitivity = max(content.sensitivity, proposal.content.sensitivity) if proposal else content.sensitivity
    extracts = tuple(_extract(node, tuple(contradictions[node.node_id])) for node in kept)
    return publishable(
        Compaction(
            candidate=content.candidate,
            snapshot_id=snapshot.artifact_id,
            sensitivity=sensitivity,
            budget_bytes=content.budget_bytes,
            used_bytes=sum(extract.cost_bytes for extract in extracts),
            extracts=extracts,
            omitted_node_ids=omitted,
            unresolved_contradiction_ids=content.unresolved_contradiction_ids,
            host_summary_proposal_id=proposal.artifact_id if proposal else None,
        )
    )


def _verify_proposal(proposal: HostSummaryProposal, snapshot: Artifact[Snapshot]) -> None:
    if proposal.snapshot_id != snapshot.artifact_id:
        raise Refused(Reason.PROPOSAL_INVALID, "the proposal is of another Snapshot", at="content/snapshot_id")
    if proposal.sensitivity < snapshot.content.sensitivity:
        raise Refused(Reason.PROPOSAL_INVALID, "the proposal understates the Snapshot's sensitivity", at="content/sensitivity")
    texts = {node.node_id: node.text_sha256 for node in snapshot.content.nodes}
    for position, claim in enumerate(proposal.claims):
        # Both lists are sorted, so equal texts of two nodes can never be claimed (FORMAT 10.2).
        if sorted(texts.get(node_id, "") for node_id in claim.source_node_ids) != list(claim.extract_sha256s):
            message = "the claim's digests are not those of its nodes in the Snapshot"
            raise Refused(Reason.PROPOSAL_INVALID, message, at=("content", "claims", position))


def _verify_node(node: Node, as_of: str, sources: Sources) -> None:
    _, text = rules.observe_member(sources, node)
    if text != node.text:
        raise Unreadable(Reason.CHANGED, "the selected text is not that of the Snapshot")
    if not node.freshness.holds_at(as_of):
        raise Unreadable(Reason.STALE, f"holds until {node.freshness.valid_until}; as_of is {as_of}")
    rules.observe_provenance(sources, node.locator.root_scope, node.provenance)


def _contradictions(content: Snapshot) -> Mapping[str, list[str]]:
    """The ids of the contradictions at every node, ascending."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for edge in content.edges:
        if edge.edge_type is EdgeType.CONTRADICTS:
            found[edge.source_node_id].append(edge.edge_id)
            found[edge.target_node_id].append(edge.edge_id)
    return found


def _fitting(content: Snapshot, contradictions: Mapping[str, list[str]]) -> tuple[list[Node], tuple[str, ...]]:
    """The nodes whose extracts fit the budget, and the ids of the others, each ascending.

    A Snapshot that parses leaves room for all of them, since a text costs less than its node; the order in which they
    would be taken otherwise is that of FORMAT 10.
    """

    def order(pair: tuple[Node, Decision]) -> tuple[bool, int, int, int, int, int, str]:
        node, rank = pair[0], pair[1].rank
        first = node.required or node.node_id in contradictions
        return not first, rank.phase, rank.authority_rank, rank.graph_distance, -rank.lexical_score, rank.sensitivity_rank, node.node_id

    left, kept, omitted = content.budget_bytes, [], []
    for node, _ in sorted(zip(content.nodes, content.selected, strict=True), key=order):
        size = len(canonical.encode(node.text))
        if node.required or node.node_id in contradictions or size <= left:
            kept.append(node)
            left -= size
        else:
            omitted.append(node.node_id)
    return sorted(kept, key=lambda node: node.node_id), tuple(sorted(omitted))


def _extract(node: Node, contradictions: tuple[str, ...]) -> Extract:
    return Extract(
        node_id=node.node_id,
        source_id=node.source_id,
        text=node.text,
        text_sha256=node.text_sha256,
        authority=node.authority,
        sensitivity=node.sensitivity,
        required=node.required,
        contradiction_ids=contradictions,
        cost_bytes=len(canonical.encode(node.text)),
    )
