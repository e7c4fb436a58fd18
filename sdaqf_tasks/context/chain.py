"""This module demands the whole chain: that a Snapshot is what its Graph and its Selection give (FORMAT 16.6, 17.8).

A Snapshot alone cannot show that a contradiction was taken out of it. Held against Graph and Selection it can. Pure: which
optional members were unreadable when the Snapshot was made is its own word, and is taken; everything else must follow.
"""

from __future__ import annotations

from sdaqf_tasks.context.graph import components
from sdaqf_tasks.context.quality import verify_links
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Selection, Snapshot, seal


def verify(graph: Artifact[Graph], selection: Artifact[Selection], snapshot: Artifact[Snapshot]) -> None:
    """Raise `Refused` with CHAIN_MISMATCH at the first member of the Snapshot that does not follow from the other two."""
    verify_links(graph, selection, snapshot)
    if select(graph, seal(selection.content.query)) != selection:
        raise _mismatch("the Selection is not what its Query selects of the Graph", "selection_id")
    chosen, content = selection.content, snapshot.content
    taken = {node.node_id for node in content.nodes}
    decisions = {decision.node_id: decision for decision in chosen.selected}
    edge_ids = set(chosen.selected_edge_ids)
    edges = [edge for edge in graph.content.edges if edge.edge_id in edge_ids]
    nodes = {node.node_id: node for node in graph.content.nodes}

    if any(nodes.get(node.node_id) != node or node.node_id not in decisions for node in content.nodes):
        raise _mismatch("holds a node that was not selected", "nodes")
    required = {node_id for node_id, node in nodes.items() if node.required} | set(chosen.query.required_node_ids)
    if not required <= taken:
        raise _mismatch("lacks a required node", "nodes")
    component = components(decisions, edges)
    if any(taken.intersection(component[node_id]) for node_id in decisions.keys() - taken):
        raise _mismatch("lacks one end of a contradiction", "nodes")
    if list(content.edges) != [edge for edge in edges if edge.source_node_id in taken and edge.target_node_id in taken]:
        raise _mismatch("holds other relations than those between its nodes", "edges")
    if any(decisions[decision.node_id] != decision for decision in content.selected):
        raise _mismatch("gives other reasons than the Selection", "selected")
    if (content.as_of, content.budget_bytes) != (chosen.as_of, chosen.budget_bytes):
        raise _mismatch("is of another moment or budget", "as_of")
    kept = [exclusion for exclusion in content.excluded if exclusion.node_id not in decisions]
    if kept != list(chosen.excluded) or len(content.excluded) - len(kept) != len(decisions) - len(taken):
        raise _mismatch("excludes other nodes than the Selection and what it lacks", "excluded")


def _mismatch(message: str, member: str) -> Refused:
    return Refused(Reason.CHAIN_MISMATCH, f"the Snapshot {message}" if not message.startswith("the ") else message, at=("content", member))
