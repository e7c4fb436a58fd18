"""This module counts what a Snapshot holds (FORMAT 11). No score is made of the counts."""

from __future__ import annotations

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Graph, QualityReport, Selection, Snapshot, publishable


def quality(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> Artifact[QualityReport]:
    """The report about one chain. Raises `Refused` with CHAIN_MISMATCH where the three do not belong together."""
    verify_links(graph, selection, snapshot)
    content = snapshot.content
    required = {node.node_id for node in graph.content.nodes if node.required} | set(selection.content.query.required_node_ids)
    present = {node.node_id for node in content.nodes}
    complete = sum(1 for node in content.nodes if node.provenance.references)
    seen: set[str] = set()
    redundant = 0
    for node in content.nodes:
        redundant += len(node.text.encode("utf-8")) if node.text_sha256 in seen else 0
        seen.add(node.text_sha256)
    return publishable(
        QualityReport(
            candidate=content.candidate,
            snapshot_id=snapshot.artifact_id,
            sensitivity=content.sensitivity,
            required_reference_recall=100 * len(required & present) // len(required) if required else 100,
            stale_required_count=0,
            provenance_complete_count=complete,
            provenance_missing_count=len(content.nodes) - complete,
            sensitivity_violation_count=sum(1 for node in content.nodes if content.sensitivity < node.sensitivity),
            selected_context_bytes=content.context_bytes,
            budget_bytes=selection.content.budget_bytes,
            redundant_bytes=redundant,
            selected_node_count=len(content.nodes),
            excluded_node_count=len(content.excluded),
            unresolved_contradiction_count=len(content.unresolved_contradiction_ids),
            traversal_truncated=selection.content.traversal_truncated,
        )
    )


def verify_links(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> None:
    """The three name one another. Whether their contents follow from one another is `snapshot`'s to say."""
    chain = (
        (selection.content.graph_id, graph.artifact_id, "the Selection is of another Graph"),
        (snapshot.content.graph_id, graph.artifact_id, "the Snapshot is of another Graph"),
        (snapshot.content.selection_id, selection.artifact_id, "the Snapshot is of another Selection"),
        (snapshot.content.query_id, selection.content.query_id, "the Snapshot is of another Query"),
        (selection.content.candidate, graph.content.candidate, "the Selection is of another candidate"),
        (snapshot.content.candidate, graph.content.candidate, "the Snapshot is of another candidate"),
    )
    for given, wanted, message in chain:
        if given != wanted:
            raise Refused(Reason.CHAIN_MISMATCH, message)
