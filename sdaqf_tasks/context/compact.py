"""This module reduces a Snapshot to what an agent reads, after observing all of it once more (FORMAT 10)."""

from __future__ import annotations

from sdaqf_tasks.context import rules
from sdaqf_tasks.context.document import QUOTED, contradictions, ranks
from sdaqf_tasks.context.graph import incidence
from sdaqf_tasks.errors import Reason, Refused, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, Extract, HostSummaryProposal, Snapshot, parse, publishable, render
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
            rules.verify_node(sources, node, content.as_of)
            rules.observe_provenance(sources, node.locator.root_scope, node.provenance)
        except Unreadable as error:
            raise rules.unavailable(error, node.locator.path, "content", "nodes", position) from None
    for position, edge in enumerate(content.edges):
        rules.verify_relation(sources, edge, "content", "edges", position)
    rules.verify_candidate(sources, content.candidate)

    extracts, omitted = _fitting(snapshot)
    return publishable(
        Compaction(
            candidate=content.candidate,
            snapshot_id=snapshot.artifact_id,
            sensitivity=max(content.sensitivity, proposal.content.sensitivity) if proposal else content.sensitivity,
            budget_bytes=content.budget_bytes,
            used_bytes=sum(extract.cost_bytes for extract in extracts),
            extracts=tuple(sorted(extracts, key=lambda extract: extract.node_id)),
            omitted_node_ids=tuple(sorted(omitted)),
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


def _fitting(snapshot: Artifact[Snapshot]) -> tuple[list[Extract], list[str]]:
    """The extracts that fit the budget, and the ids of the nodes that do not.

    A Snapshot that parses leaves room for all of them, since a text costs less than its node; the order in which they
    would be taken otherwise is that of FORMAT 10.
    """
    order, disputes = ranks(snapshot), incidence(contradictions(snapshot))
    left = snapshot.content.budget_bytes
    extracts: list[Extract] = []
    omitted: list[str] = []
    for node in sorted(snapshot.content.nodes, key=lambda node: order[node.node_id]):
        size = len(canonical.encode(node.text))
        if not node.required and node.node_id not in disputes and size > left:
            omitted.append(node.node_id)
            continue
        left -= size
        quoted = {name: getattr(node, name) for name in ("node_id", *QUOTED)}
        disputed = tuple(edge.edge_id for edge in disputes.get(node.node_id, ()))
        extracts.append(Extract(**quoted, contradiction_ids=disputed, cost_bytes=size))
    return extracts, omitted
