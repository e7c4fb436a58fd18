"""This module decides which nodes of a Graph a Query takes (FORMAT 7). Pure: no file, no git, no clock.

The one idea that makes it linear: contradiction components are taken whole or not at all. So what a component adds to the
selection is a sum known beforehand (its nodes, the edges inside it) plus the edges between it and what is selected
already, and those are counted once, when their other end is adopted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import NamedTuple

from sdaqf_tasks.context.graph import components, distances, incidence
from sdaqf_tasks.context.lexical import query_tokens, score
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Decision, Exclusion, Graph, Query, Rank, Selection, contradiction_ids, publishable
from sdaqf_tasks.formats.records import Node, cost

REQUIRED, GRAPH, IDENTIFIER, LEXICAL = range(4)

DETAILS = 16
"""Details that an exclusion may have (FORMAT 3.10)."""


class Retrieval(NamedTuple):
    """What a Query leads to, before any budget. Mappings are by node id; `phase` holds candidates alone."""

    nodes: dict[str, Node]
    component: dict[str, tuple[str, ...]]
    problem: dict[str, Reason]
    required: frozenset[str]
    distance: dict[str, int]
    score: dict[str, int]
    phase: dict[str, int]
    reasons: dict[str, set[str]]

    def order(self, node_id: str, query: Query) -> tuple[int, int, int, int, int, str]:
        """The rank tuple of FORMAT 7.8; lower is taken earlier."""
        node = self.nodes[node_id]
        distance = self.distance.get(node_id, query.budget.max_traversal_depth)
        return self.phase[node_id], node.authority.rank, distance, -self.score[node_id], node.sensitivity.rank, node_id


def select(graph: Artifact[Graph], query: Artifact[Query]) -> Artifact[Selection]:
    """The Selection of `query` over `graph`. Every node is either selected or excluded with a reason.

    Raises `Refused` where required context is unknown, not cleared, stale, or does not fit; where what is reachable
    exceeds a traversal bound; where the result could not be loaded again.
    """
    content = query.content
    found = retrieve(graph, query)
    filling = _Filling(graph.content, content.budget.max_nodes, content.budget.max_edges, content.budget.budget_bytes, found)
    filling.require()
    excluded: dict[str, tuple[Reason, tuple[str, ...]]] = {}
    for node_id in found.nodes.keys() - found.phase.keys():
        excluded[node_id] = (found.problem.get(node_id, Reason.NOT_RETRIEVED), ())
    for node_id in sorted(found.phase.keys() - found.required, key=lambda node_id: found.order(node_id, content)):
        if node_id in filling.taken:
            continue
        component = found.component[node_id]
        if barred := tuple(member for member in component if member in found.problem):
            excluded[node_id] = (Reason.CONTRADICTION_CLOSURE_UNAVAILABLE, barred)
        elif reason := filling.refuses(component):
            excluded[node_id] = (reason, ())
        else:
            filling.adopt(component)
            for member in component:
                excluded.pop(member, None)
                if member != node_id:
                    found.phase[member] = found.phase[node_id]
                    found.reasons[member].add("contradiction-closure")
    return _publish(graph, query, found, filling, excluded)


def retrieve(graph: Artifact[Graph], query: Artifact[Query]) -> Retrieval:
    """Eligibility, required closure, traversal, phases and scores (FORMAT 7.1 to 7.6)."""
    if query.content.graph_id != graph.artifact_id or query.content.candidate != graph.content.candidate:
        raise Refused(Reason.CHAIN_MISMATCH, "the Query is of another Graph", at="content/graph_id")
    wanted = query.content
    nodes = {node.node_id: node for node in graph.content.nodes}
    for member in ("required_node_ids", "seed_node_ids"):
        for position, node_id in enumerate(getattr(wanted, member)):
            if node_id not in nodes:
                raise Refused(Reason.REQUIRED_UNKNOWN, f"{node_id[:24]}… is no node of the Graph", at=("content", member, position))
    direct = {node_id for node_id, node in nodes.items() if node.required} | set(wanted.required_node_ids)

    problem: dict[str, Reason] = {}
    for node_id, node in nodes.items():
        if wanted.clearance < node.sensitivity:
            problem[node_id] = Reason.SENSITIVITY_CLEARANCE
        elif not node.freshness.holds_at(wanted.as_of):
            problem[node_id] = Reason.STALE
    component = components(nodes, graph.content.edges)
    required = frozenset(member for node_id in direct for member in component[node_id])
    _verify_eligible(nodes, direct, required, problem, wanted)

    starts = required | {node_id for node_id in wanted.seed_node_ids if node_id not in problem}
    distance = distances(starts, graph.content.edges, wanted)

    phase = dict.fromkeys(required, REQUIRED)
    reasons: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in required:
        reasons[node_id].add("required-reference" if node_id in direct else "contradiction-closure")
    tokens, identifiers = query_tokens(wanted.terms), set(wanted.identifiers)
    scores = {node_id: score(node, tokens) for node_id, node in nodes.items()}
    for node_id in nodes.keys() - problem.keys():
        leads = (
            (GRAPH, "graph", node_id in distance and node_id not in required),
            (IDENTIFIER, "identifier", not identifiers.isdisjoint(nodes[node_id].identifiers)),
            (LEXICAL, "lexical", scores[node_id] > 0),
        )
        for lead, reason, holds in leads:
            if holds:
                reasons[node_id].add(reason)
                phase[node_id] = min(phase.get(node_id, lead), lead)
    return Retrieval(nodes, component, problem, required, distance, scores, phase, reasons)


def tied(graph: Artifact[Graph], query: Artifact[Query], selection: Artifact[Selection]) -> tuple[int, int]:
    """How many candidates the budget cut although another one ranks the same but for its id, and how many it cut in all."""
    budget = {Reason.NODE_BUDGET.value, Reason.EDGE_BUDGET.value, Reason.BYTE_BUDGET.value}
    cut = {exclusion.node_id for exclusion in selection.content.excluded if exclusion.reason in budget}
    if not cut:
        return 0, 0
    found = retrieve(graph, query)
    ranks = {node_id: found.order(node_id, query.content)[:-1] for node_id in found.phase.keys() - found.required}
    shared = Counter(ranks.values())
    return sum(1 for node_id in cut if shared[ranks[node_id]] > 1), len(cut)


def _verify_eligible(nodes: dict[str, Node], direct: set[str], required: frozenset[str], problem: dict[str, Reason], query: Query) -> None:
    for node_id in sorted(required & problem.keys()):
        node = nodes[node_id]
        what = node.locator.path if node_id in direct else f"{node.locator.path}, which contradicts required context,"
        if problem[node_id] is Reason.STALE:
            message = f"{what} holds until {node.freshness.valid_until}; as_of is {query.as_of}"
            raise Refused(Reason.REQUIRED_STALE, message, at="content/as_of")
        message = f"{what} is {node.sensitivity.value}; the query is cleared for {query.clearance.value}"
        raise Refused(Reason.REQUIRED_NOT_CLEARED, message, at="content/clearance")


class _Filling:
    """The selection as it grows: what is taken, and what every component would add to it."""

    def __init__(self, graph: Graph, max_nodes: int, max_edges: int, budget_bytes: int, found: Retrieval) -> None:
        self.found, self.limits = found, (max_nodes, max_edges, budget_bytes)
        self.node_cost = {node.node_id: cost(node) for node in graph.nodes}
        self.edge_cost = {edge.edge_id: cost(edge) for edge in graph.edges}
        self.incident = incidence(graph.edges)
        self.taken: set[str] = set()
        self.edge_ids: set[str] = set()
        self.used = 0
        # By the first member of a component: edges within it and to what is taken, their number and their bytes.
        self.edges_added: defaultdict[str, int] = defaultdict(int)
        self.bytes_added: defaultdict[str, int] = defaultdict(int)
        for edge in graph.edges:
            if (first := found.component[edge.source_node_id][0]) == found.component[edge.target_node_id][0]:
                self.edges_added[first] += 1
                self.bytes_added[first] += self.edge_cost[edge.edge_id]
        for node_id, size in self.node_cost.items():
            self.bytes_added[found.component[node_id][0]] += size

    def require(self) -> None:
        """Adopt the required closure, or refuse (FORMAT 7.7)."""
        for component in sorted({self.found.component[node_id] for node_id in self.found.required}):
            self.adopt(component)
        max_nodes, max_edges, budget_bytes = self.limits
        if len(self.taken) > max_nodes:
            raise self._over(f"{len(self.taken)} nodes are required, at most {max_nodes} are allowed", "max_nodes")
        if len(self.edge_ids) > max_edges:
            raise self._over(f"{len(self.edge_ids)} edges join required nodes, at most {max_edges} are allowed", "max_edges")
        if self.used > budget_bytes:
            largest = sorted(self.taken, key=lambda node_id: (-self.node_cost[node_id], node_id))[:3]
            named = ", ".join(f"{self.found.nodes[node_id].locator.path} {self.node_cost[node_id]}" for node_id in largest)
            raise self._over(f"required sources take {self.used} of {budget_bytes} bytes; the largest: {named}", "budget_bytes")

    def _over(self, message: str, member: str) -> Refused:
        return Refused(Reason.REQUIRED_OVER_BUDGET, message, at=("content", "budget", member))

    def refuses(self, component: tuple[str, ...]) -> Reason | None:
        max_nodes, max_edges, budget_bytes = self.limits
        if len(self.taken) + len(component) > max_nodes:
            return Reason.NODE_BUDGET
        if len(self.edge_ids) + self.edges_added[component[0]] > max_edges:
            return Reason.EDGE_BUDGET
        if self.used + self.bytes_added[component[0]] > budget_bytes:
            return Reason.BYTE_BUDGET
        return None

    def adopt(self, component: tuple[str, ...]) -> None:
        self.used += self.bytes_added[component[0]]
        self.taken.update(component)
        for node_id in component:
            for edge in self.incident[node_id]:
                other = edge.target_node_id if edge.source_node_id == node_id else edge.source_node_id
                if other in self.taken:
                    self.edge_ids.add(edge.edge_id)
                else:
                    first = self.found.component[other][0]
                    self.edges_added[first] += 1
                    self.bytes_added[first] += self.edge_cost[edge.edge_id]


def _publish(
    graph: Artifact[Graph], query: Artifact[Query], found: Retrieval, filling: _Filling, excluded: dict[str, tuple[Reason, tuple[str, ...]]]
) -> Artifact[Selection]:
    for node_id, (_, details) in excluded.items():
        if len(details) > DETAILS:
            message = f"{found.nodes[node_id].locator.path} contradicts {len(details)} nodes that cannot be taken; {DETAILS} can be listed"
            raise Refused(Reason.UNPUBLISHABLE, message, at="content/excluded")
    edges = [edge for edge in graph.content.edges if edge.edge_id in filling.edge_ids]
    content = query.content
    return publishable(
        Selection(
            candidate=content.candidate,
            graph_id=content.graph_id,
            query_id=query.artifact_id,
            query=content,
            as_of=content.as_of,
            sensitivity=max(found.nodes[node_id].sensitivity for node_id in filling.taken),
            selected=tuple(_decision(node_id, found, filling) for node_id in sorted(filling.taken)),
            excluded=tuple(
                Exclusion(node_id=node_id, reason=reason.value, details=details) for node_id, (reason, details) in sorted(excluded.items())
            ),
            selected_edge_ids=tuple(edge.edge_id for edge in edges),
            unresolved_contradiction_ids=contradiction_ids(edges),
            edge_cost_bytes=sum(filling.edge_cost[edge.edge_id] for edge in edges),
            used_bytes=filling.used,
            budget_bytes=content.budget.budget_bytes,
            traversal_truncated=False,
        )
    )


def _decision(node_id: str, found: Retrieval, filling: _Filling) -> Decision:
    node = found.nodes[node_id]
    rank = Rank(
        phase=found.phase[node_id],
        authority_rank=node.authority.rank,
        graph_distance=found.distance.get(node_id, 0),  # 0 where not reached; the order uses the depth instead (FORMAT 7.9)
        lexical_score=found.score[node_id],
        sensitivity_rank=node.sensitivity.rank,
        node_id=node_id,
    )
    return Decision(node_id=node_id, reasons=tuple(sorted(found.reasons[node_id])), rank=rank, cost_bytes=filling.node_cost[node_id])
