"""This module says what one Snapshot has and another has not (FORMAT 9)."""

from __future__ import annotations

from typing import Any

from sdaqf_tasks.formats.artifacts import Artifact, Snapshot


def compare(base: Artifact[Snapshot], current: Artifact[Snapshot]) -> dict[str, Any]:
    """Ids that came and went, each ascending, in the order of FORMAT 12.2. The two need not be related in any way."""
    nodes = [{node.node_id for node in side.content.nodes} for side in (base, current)]
    edges = [{edge.edge_id for edge in side.content.edges} for side in (base, current)]
    return {
        "base_snapshot_id": base.artifact_id,
        "current_snapshot_id": current.artifact_id,
        "added_node_ids": sorted(nodes[1] - nodes[0]),
        "removed_node_ids": sorted(nodes[0] - nodes[1]),
        "added_edge_ids": sorted(edges[1] - edges[0]),
        "removed_edge_ids": sorted(edges[0] - edges[1]),
        "sensitivity_changed": base.content.sensitivity is not current.content.sensitivity,
        "candidate_changed": base.content.candidate != current.content.candidate,
    }
