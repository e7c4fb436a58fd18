"""This module makes a Snapshot: what was selected, observed again and held against the Graph (FORMAT 8)."""

from __future__ import annotations

from sdaqf_tasks.context import rules
from sdaqf_tasks.context.graph import Chosen
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
    content = selection.content
    if content.graph_id != graph.artifact_id or content.candidate != graph.content.candidate:
        raise Refused(Reason.CHAIN_MISMATCH, "the Selection is of another Graph", at="content/graph_id")
    rules.verify_candidate(sources, content.candidate)
    if select(graph, seal(content.query)) != selection:
        raise Refused(Reason.CHAIN_MISMATCH, "the Selection is not what its Query selects of the Graph", at="content")
    chosen = Chosen.of(graph.content, content)
    rules.verify_owner_root((chosen.nodes[node_id] for node_id in chosen.decisions), owner_root)
    dropped = _dropped(chosen, content.as_of, sources)
    kept = [chosen.nodes[node_id] for node_id in sorted(chosen.decisions.keys() - dropped.keys())]
    edges = tuple(edge for edge in chosen.edges if edge.source_node_id not in dropped and edge.target_node_id not in dropped)
    for position, edge in enumerate(edges):
        rules.verify_relation(sources, edge, "content", "edges", position)
    rules.verify_candidate(sources, content.candidate)

    excluded = [*content.excluded, *(Exclusion(node_id=node_id, reason=why.value, details=()) for node_id, why in dropped.items())]
    return publishable(
        Snapshot(
            candidate=content.candidate,
            graph_id=content.graph_id,
            query_id=content.query_id,
            selection_id=selection.artifact_id,
            as_of=content.as_of,
            sensitivity=max(node.sensitivity for node in kept),
            nodes=tuple(kept),
            edges=edges,
            selected=tuple(chosen.decisions[node.node_id] for node in kept),
            excluded=tuple(sorted(excluded, key=lambda exclusion: exclusion.node_id)),
            unresolved_contradiction_ids=contradiction_ids(edges),
            context_bytes=sum(map(cost, kept)) + sum(map(cost, edges)),
            budget_bytes=content.budget_bytes,
        )
    )


def _dropped(chosen: Chosen, as_of: str, sources: Sources) -> dict[str, Reason]:
    """The nodes that fail or contradict one that does, and why. One that fails itself keeps its own reason."""
    dropped: dict[str, Reason] = {}
    for node_id in sorted(chosen.decisions):
        node, component = chosen.nodes[node_id], chosen.component[node_id]
        problem = _problem(node, as_of, sources)
        if problem is None:
            continue
        if bound := chosen.required.intersection(component):
            other = chosen.nodes[min(bound)].locator.path
            what = f"{node.locator.path}, which contradicts the required {other}"
            what = f"required source {node.locator.path}" if node_id in bound else what
            raise rules.unavailable(problem, what, "content", "selected", node_id[:24])
        dropped[node_id] = problem.reason
        for member in component:
            dropped.setdefault(member, Reason.CONTRADICTION_CLOSURE_UNAVAILABLE)
    return dropped


def _problem(node: Node, as_of: str, sources: Sources) -> Unreadable | None:
    """The first row of FORMAT 8 (6) that holds; the node comes before its references here."""
    try:
        rules.verify_node(sources, node, as_of)
    except Unreadable as error:
        return error
    try:
        rules.observe_provenance(sources, node.locator.root_scope, node.provenance)
    except Unreadable as error:
        return Unreadable(Reason.PROVENANCE_UNAVAILABLE, error.message)
    return None
