"""This module makes a Snapshot: what was selected, observed again and held against the Graph (FORMAT 8)."""

from __future__ import annotations

from sdaqf_tasks.context import rules
from sdaqf_tasks.context.graph import components
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import Reason, Refused, Unreadable
from sdaqf_tasks.formats.artifacts import Artifact, Exclusion, Graph, Selection, Snapshot, contradiction_ids, publishable, seal
from sdaqf_tasks.formats.records import Node, cost
from sdaqf_tasks.world import Sources


def snapshot(graph: Artifact[Graph], selection: Artifact[Selection], sources: Sources, *, owner_root: bool = False) -> Artifact[Snapshot]:
    """The Snapshot of `selection`. A member that fails drops out with its contradictions; a required one refuses all.

    Raises `Refused` with the member's own reason, where the Selection is not what its Query gives, or where the tree is
    not the candidate before or after.
    """
    chosen = selection.content
    if chosen.graph_id != graph.artifact_id or chosen.candidate != graph.content.candidate:
        raise Refused(Reason.CHAIN_MISMATCH, "the Selection is of another Graph", at="content/graph_id")
    rules.verify_candidate(sources, graph.content.candidate)
    if select(graph, seal(chosen.query)) != selection:
        raise Refused(Reason.CHAIN_MISMATCH, "the Selection is not what its Query selects of the Graph", at="content")

    nodes = {node.node_id: node for node in graph.content.nodes}
    decisions = {decision.node_id: decision for decision in chosen.selected}
    edge_ids = set(chosen.selected_edge_ids)
    edges = [edge for edge in graph.content.edges if edge.edge_id in edge_ids]
    rules.verify_owner_root((nodes[node_id] for node_id in decisions), owner_root)
    required = {node.node_id for node in graph.content.nodes if node.required} | set(chosen.query.required_node_ids)

    dropped: dict[str, Reason] = {}
    component = components(decisions, edges)
    for node_id in sorted(decisions):
        problem = _problem(nodes[node_id], chosen.as_of, sources)
        if problem is None:
            continue
        path = nodes[node_id].locator.path
        if node_id in required:
            raise rules.unavailable(problem, f"required source {path}", "content", "selected", node_id[:24])
        if bound := required.intersection(component[node_id]):
            other = nodes[min(bound)].locator.path
            raise rules.unavailable(problem, f"{path}, which contradicts the required {other}", "content", "selected", node_id[:24])
        dropped[node_id] = problem.reason
        for member in component[node_id]:
            dropped.setdefault(member, Reason.CONTRADICTION_CLOSURE_UNAVAILABLE)
        # A member that fails itself keeps its own problem, whichever came first.
    kept = [nodes[node_id] for node_id in sorted(decisions) if node_id not in dropped]
    kept_edges = [edge for edge in edges if edge.source_node_id not in dropped and edge.target_node_id not in dropped]
    rules.verify_edges(sources, kept_edges)
    rules.verify_candidate(sources, graph.content.candidate)

    excluded = {exclusion.node_id: exclusion for exclusion in chosen.excluded}
    for node_id, reason in dropped.items():
        excluded[node_id] = Exclusion(node_id=node_id, reason=reason.value, details=())
    return publishable(
        Snapshot(
            candidate=chosen.candidate,
            graph_id=chosen.graph_id,
            query_id=chosen.query_id,
            selection_id=selection.artifact_id,
            as_of=chosen.as_of,
            sensitivity=max(node.sensitivity for node in kept),
            nodes=tuple(kept),
            edges=tuple(kept_edges),
            selected=tuple(decisions[node.node_id] for node in kept),
            excluded=tuple(excluded[node_id] for node_id in sorted(excluded)),
            unresolved_contradiction_ids=contradiction_ids(kept_edges),
            context_bytes=sum(map(cost, kept)) + sum(map(cost, kept_edges)),
            budget_bytes=chosen.budget_bytes,
        )
    )


def _problem(node: Node, as_of: str, sources: Sources) -> Unreadable | None:
    """The first row of FORMAT 8 (6) that holds; the node comes before its references here."""
    try:
        _, text = rules.observe_member(sources, node)
    except Unreadable as error:
        return error
    if text != node.text:
        return Unreadable(Reason.CHANGED, "the selected text is not that of the Graph")
    if not node.freshness.holds_at(as_of):
        return Unreadable(Reason.STALE, f"holds until {node.freshness.valid_until}; as_of is {as_of}")
    try:
        rules.observe_provenance(sources, node.locator.root_scope, node.provenance)
    except Unreadable as error:
        return Unreadable(Reason.PROVENANCE_UNAVAILABLE, error.message)
    return None
