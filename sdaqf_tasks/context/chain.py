"""This module relates whole artifacts of one chain: whether they follow from one another, and two Snapshots (FORMAT 9, 16.6, 17.8).

A Snapshot alone cannot show that a contradiction was taken out of it. Held against Graph and Selection it can. Pure: which
optional members were unreadable when the Snapshot was made is its own word, and is taken; everything else must follow.
"""

from __future__ import annotations

from typing import Any

from sdaqf_tasks.context.graph import Chosen
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Selection, Snapshot, seal


def verify_links(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> None:
    """The three name one another. Whether their contents follow from one another is `verify`'s to say."""
    chosen, content = selection.content, snapshot.content
    links = (
        (chosen.graph_id, graph.artifact_id, "the Selection is of another Graph"),
        (content.graph_id, graph.artifact_id, "the Snapshot is of another Graph"),
        (content.selection_id, selection.artifact_id, "the Snapshot is of another Selection"),
        (content.query_id, chosen.query_id, "the Snapshot is of another Query"),
        (chosen.candidate, graph.content.candidate, "the Selection is of another candidate"),
        (content.candidate, graph.content.candidate, "the Snapshot is of another candidate"),
    )
    for given, wanted, message in links:
        if given != wanted:
            raise Refused(Reason.CHAIN_MISMATCH, message)


def verify(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> None:
    """Raise `Refused` with CHAIN_MISMATCH at the first member of the Snapshot that does not follow from the other two."""
    verify_links(graph, selection, snapshot)
    if select(graph, seal(selection.content.query)) != selection:
        raise _mismatch("the Selection is not what its Query selects of the Graph", "selection_id")
    content, of = snapshot.content, selection.content
    nodes, decisions, edges, required, component = Chosen.of(graph.content, of)
    taken = {node.node_id for node in content.nodes}

    if any(nodes.get(node.node_id) != node or node.node_id not in decisions for node in content.nodes):
        raise _mismatch("the Snapshot holds a node that was not selected", "nodes")
    if not required <= taken:
        raise _mismatch("the Snapshot lacks a required node", "nodes")
    if any(taken.intersection(component[node_id]) for node_id in decisions.keys() - taken):
        raise _mismatch("the Snapshot lacks one end of a contradiction", "nodes")
    if list(content.edges) != [edge for edge in edges if edge.source_node_id in taken and edge.target_node_id in taken]:
        raise _mismatch("the Snapshot holds other relations than those between its nodes", "edges")
    if any(decisions[decision.node_id] != decision for decision in content.selected):
        raise _mismatch("the Snapshot gives other reasons than the Selection", "selected")
    if (content.as_of, content.budget_bytes) != (of.as_of, of.budget_bytes):
        raise _mismatch("the Snapshot is of another moment or budget", "as_of")
    kept = [exclusion for exclusion in content.excluded if exclusion.node_id not in decisions]
    if kept != list(of.excluded) or len(content.excluded) - len(kept) != len(decisions) - len(taken):
        raise _mismatch("the Snapshot excludes other nodes than the Selection and what it lacks", "excluded")


def _mismatch(message: str, member: str) -> Refused:
    return Refused(Reason.CHAIN_MISMATCH, message, at=("content", member))


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
