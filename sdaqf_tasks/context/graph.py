"""This module knows the shape of a graph: contradiction components, and what is reachable (FORMAT 7.3, 7.4).

Everything here is linear in nodes plus edges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Decision, Graph, Query, Selection
from sdaqf_tasks.formats.records import Edge, EdgeType, Node


def required(graph: Graph, query: Query) -> set[str]:
    """The nodes that the Manifest or the Query requires themselves, whatever contradicts them."""
    return {node.node_id for node in graph.nodes if node.required} | set(query.required_node_ids)


class Chosen(NamedTuple):
    """What a Selection takes of its Graph; mappings are by node id, `nodes` holds those left out too."""

    nodes: dict[str, Node]
    decisions: dict[str, Decision]
    edges: list[Edge]
    required: set[str]
    component: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, graph: Graph, selection: Selection) -> Chosen:
        decisions, edge_ids = {decision.node_id: decision for decision in selection.selected}, set(selection.selected_edge_ids)
        edges = [edge for edge in graph.edges if edge.edge_id in edge_ids]
        nodes = {node.node_id: node for node in graph.nodes}
        return cls(nodes, decisions, edges, required(graph, selection.query), components(decisions, edges))


def components(node_ids: Iterable[str], edges: Iterable[Edge]) -> dict[str, tuple[str, ...]]:
    """The contradiction component of every node: its members, ascending. A node without contradictions is alone."""
    parent = {node_id: node_id for node_id in node_ids}

    def root(node_id: str) -> str:
        while parent[node_id] != node_id:
            parent[node_id] = node_id = parent[parent[node_id]]
        return node_id

    for edge in edges:
        if edge.edge_type is EdgeType.CONTRADICTS:
            parent[root(edge.source_node_id)] = root(edge.target_node_id)
    members: defaultdict[str, list[str]] = defaultdict(list)
    for node_id in parent:
        members[root(node_id)].append(node_id)
    groups = [tuple(sorted(group)) for group in members.values()]
    return {node_id: group for group in groups for node_id in group}


def incidence(edges: Iterable[Edge]) -> Mapping[str, list[Edge]]:
    """The edges at every node, whatever their type and direction."""
    found: defaultdict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        found[edge.source_node_id].append(edge)
        found[edge.target_node_id].append(edge)
    return found


def distances(starts: frozenset[str], edges: Sequence[Edge], query: Query) -> dict[str, int]:
    """Breadth-first distance of every node that is reachable over the allowed edges, within the query's bounds.

    Raises `Refused` with TRAVERSAL_BOUND where depth, edges or nodes do not suffice: a bound is a statement about what is
    reachable, never a cut.
    """
    budget = query.budget
    allowed = frozenset(query.allowed_edge_types)
    leaving: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for edge in edges:
        if edge.edge_type in allowed:
            leaving[edge.source_node_id].append((edge.edge_id, edge.target_node_id))
            if edge.edge_type is EdgeType.CONTRADICTS:
                leaving[edge.target_node_id].append((edge.edge_id, edge.source_node_id))

    found = dict.fromkeys(starts, 0)
    used: set[str] = set()
    frontier = list(found)
    for distance in range(budget.max_traversal_depth):
        beyond = []
        for node_id in frontier:
            for edge_id, neighbour in leaving[node_id]:
                used.add(edge_id)
                if neighbour not in found:
                    found[neighbour] = distance + 1
                    beyond.append(neighbour)
        frontier = beyond
    deeper = any(neighbour not in found for node_id in frontier for _, neighbour in leaving[node_id])
    bounds = (
        (deeper, f"something lies deeper than {budget.max_traversal_depth}", "max_traversal_depth"),
        (len(used) > budget.max_edges, f"{len(used)} edges are reachable, at most {budget.max_edges}", "max_edges"),
        (len(found) > max(len(starts), budget.max_nodes), f"{len(found)} nodes are reachable, at most {budget.max_nodes}", "max_nodes"),
    )
    for exceeded, message, member in bounds:
        if exceeded:
            raise Refused(Reason.TRAVERSAL_BOUND, message, at=("content", "budget", member))
    return found
