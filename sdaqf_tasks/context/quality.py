"""This module counts what a Snapshot holds (FORMAT 11). No score is made of the counts."""

from __future__ import annotations

from sdaqf_tasks.context import chain
from sdaqf_tasks.context.graph import required
from sdaqf_tasks.formats.artifacts import Artifact, Graph, QualityReport, Selection, Snapshot, publishable


def quality(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> Artifact[QualityReport]:
    """The report about one chain. Raises `Refused` with CHAIN_MISMATCH where the three do not belong together."""
    chain.verify_links(graph, selection, snapshot)
    content = snapshot.content
    wanted, present = required(graph.content, selection.content.query), {node.node_id for node in content.nodes}
    complete = sum(1 for node in content.nodes if node.provenance.references)
    distinct = {node.text_sha256: node.text for node in content.nodes}
    redundant = sum(_size(node.text) for node in content.nodes) - sum(map(_size, distinct.values()))
    return publishable(
        QualityReport(
            candidate=content.candidate,
            snapshot_id=snapshot.artifact_id,
            sensitivity=content.sensitivity,
            required_reference_recall=100 * len(wanted & present) // len(wanted) if wanted else 100,
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


def _size(text: str) -> int:
    return len(text.encode("utf-8"))
