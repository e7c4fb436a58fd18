"""This module decides which nodes of a Graph a Query takes (FORMAT 7). Pure: no file, no git, no clock.

The one idea that makes it linear: contradiction components are taken whole or not at all. So what a component adds to the
selection is a sum known beforehand (its nodes, the edges inside it) plus the edges between it and what is selected
already, and those are counted once, when their other end is adopted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import NamedTuple

from sdaqf_tasks.context.graph import components, distances, incidence, required
from sdaqf_tasks.context.lexical import query_tokens, score
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Decision, Exclusion, Graph, Query, Rank, Selection, contradiction_ids, publishable
from sdaqf_tasks.formats.records import Node, cost

REQUIRED, GRAPH, IDENTIFIER, LEXICAL = range(4)

CUT = frozenset({Reason.BYTE_BUDGET.value, Reason.NODE_BUDGET.value, Reason.EDGE_BUDGET.value})
"""Why a candidate is out that the budget has no room for."""

DETAILS = 16
"""Details that an exclusion may have (FORMAT 3.10)."""


class Ground:
    """A Graph with what does not depend on bounds, so that several Queries are tried at the price of one."""

    def __init__(self, graph: Artifact[Graph]) -> None:
        self.graph, self.edges = graph, graph.content.edges
        self.nodes = {node.node_id: node for node in graph.content.nodes}
        self.component = components(self.nodes, self.edges)
        self._scores: dict[tuple[str, ...], dict[str, int]] = {}

    @cached_property
    def costs(self) -> dict[str, int]:
        """The cost of every node and edge, by its id."""
        return {id_: cost(node) for id_, node in self.nodes.items()} | {edge.edge_id: cost(edge) for edge in self.edges}

    def scores(self, terms: tuple[str, ...]) -> dict[str, int]:
        if terms not in self._scores:
            wanted = query_tokens(terms)
            self._scores[terms] = {node_id: score(node, wanted) for node_id, node in self.nodes.items()}
        return self._scores[terms]


class Retrieval(NamedTuple):
    """What a Query leads to, before any budget. Mappings are by node id; `phase` holds candidates alone."""

    query: Query
    nodes: dict[str, Node]
    component: dict[str, tuple[str, ...]]
    problem: dict[str, Reason]
    required: frozenset[str]
    distance: dict[str, int]
    score: dict[str, int]
    phase: dict[str, int]
    reasons: dict[str, set[str]]

    def order(self, node_id: str) -> tuple[int, int, int, int, int, str]:
        """The rank tuple of FORMAT 7.8; lower is taken earlier."""
        node = self.nodes[node_id]
        distance = self.distance.get(node_id, self.query.budget.max_traversal_depth)
        return self.phase[node_id], node.authority.rank, distance, -self.score[node_id], node.sensitivity.rank, node_id


def select(graph: Artifact[Graph], query: Artifact[Query]) -> Artifact[Selection]:
    """The Selection of `query` over `graph`. Every node is either selected or excluded with a reason.

    Raises `Refused` where required context is unknown, not cleared, stale, or does not fit; where what is reachable
    exceeds a traversal bound; where the result could not be loaded again.
    """
    taking, content = Taking(Ground(graph), query.content), query.content
    edges = [edge for edge in graph.content.edges if edge.edge_id in taking.edge_ids]
    return publishable(
        Selection(
            candidate=content.candidate,
            graph_id=content.graph_id,
            query_id=query.artifact_id,
            query=content,
            as_of=content.as_of,
            sensitivity=max(taking.found.nodes[node_id].sensitivity for node_id in taking.taken),
            selected=tuple(map(taking.decision, sorted(taking.taken))),
            excluded=tuple(
                Exclusion(node_id=node_id, reason=reason.value, details=details)
                for node_id, (reason, details) in sorted(taking.excluded.items())
            ),
            selected_edge_ids=tuple(edge.edge_id for edge in edges),
            unresolved_contradiction_ids=contradiction_ids(edges),
            edge_cost_bytes=sum(taking.costs[edge.edge_id] for edge in edges),
            used_bytes=taking.used,
            budget_bytes=content.budget.budget_bytes,
            traversal_truncated=False,
        )
    )


def retrieve(ground: Ground, query: Query) -> Retrieval:
    """Eligibility, required closure, traversal, phases and scores (FORMAT 7.1 to 7.6)."""
    graph, nodes, component = ground.graph, ground.nodes, ground.component
    if query.graph_id != graph.artifact_id or query.candidate != graph.content.candidate:
        raise Refused(Reason.CHAIN_MISMATCH, "the Query is of another Graph", at="content/graph_id")
    for member in ("required_node_ids", "seed_node_ids"):
        for position, node_id in enumerate(getattr(query, member)):
            if node_id not in nodes:
                raise Refused(Reason.REQUIRED_UNKNOWN, f"{node_id[:24]}… is no node of the Graph", at=("content", member, position))

    problem: dict[str, Reason] = {}
    for node_id, node in nodes.items():
        if query.clearance < node.sensitivity:
            problem[node_id] = Reason.SENSITIVITY_CLEARANCE
        elif not node.freshness.holds_at(query.as_of):
            problem[node_id] = Reason.STALE
    direct = required(graph.content, query)
    closure = frozenset(member for node_id in direct for member in component[node_id])
    for node_id in sorted(closure & problem.keys()):
        node = nodes[node_id]
        what = node.locator.path if node_id in direct else f"{node.locator.path}, which contradicts required context,"
        if problem[node_id] is Reason.STALE:
            message = f"{what} holds until {node.freshness.valid_until}; as_of is {query.as_of}"
            raise Refused(Reason.REQUIRED_STALE, message, at="content/as_of")
        message = f"{what} is {node.sensitivity.value}; the query is cleared for {query.clearance.value}"
        raise Refused(Reason.REQUIRED_NOT_CLEARED, message, at="content/clearance")

    starts = closure | {node_id for node_id in query.seed_node_ids if node_id not in problem}
    distance = distances(starts, ground.edges, query)

    phase = dict.fromkeys(closure, REQUIRED)
    reasons: defaultdict[str, set[str]] = defaultdict(set)
    for node_id in closure:
        reasons[node_id].add("required-reference" if node_id in direct else "contradiction-closure")
    scores, identifiers = ground.scores(query.terms), set(query.identifiers)
    for node_id in nodes.keys() - problem.keys():
        leads = (
            (GRAPH, "graph", node_id in distance and node_id not in closure),
            (IDENTIFIER, "identifier", not identifiers.isdisjoint(nodes[node_id].identifiers)),
            (LEXICAL, "lexical", scores[node_id] > 0),
        )
        for lead, reason, holds in leads:
            if holds:
                reasons[node_id].add(reason)
                phase[node_id] = min(phase.get(node_id, lead), lead)
    return Retrieval(query, nodes, component, problem, closure, distance, scores, phase, reasons)


def tied(graph: Artifact[Graph], query: Artifact[Query], selection: Artifact[Selection]) -> tuple[int, int]:
    """How many candidates the budget cut although another one ranks the same but for its id, and how many it cut in all."""
    cut = {exclusion.node_id for exclusion in selection.content.excluded if exclusion.reason in CUT}
    if not cut:
        return 0, 0
    found = retrieve(Ground(graph), query.content)
    ranks = {node_id: found.order(node_id)[:-1] for node_id in found.phase.keys() - found.required}
    shared = Counter(ranks.values())
    return sum(1 for node_id in cut if shared[ranks[node_id]] > 1), len(cut)


class Taking:
    """What a Query takes of a Graph: first what is required, then candidate by candidate what fits (FORMAT 7.7, 7.8).

    Raises `Refused` as `select`, which publishes it.
    """

    def __init__(self, ground: Ground, query: Query) -> None:
        self.query, self.found, self.edges, self.costs = query, retrieve(ground, query), ground.edges, ground.costs
        self.taken: set[str] = set()
        self.edge_ids: set[str] = set()
        self.used = 0
        self.along: dict[str, str] = {}  # which candidate a member of its contradiction component came with
        self.excluded: dict[str, tuple[Reason, tuple[str, ...]]] = {}
        # By the first member of a component: edges within it and to what is taken, their number and their bytes.
        self._edges_added: defaultdict[str, int] = defaultdict(int)
        self._bytes_added: defaultdict[str, int] = defaultdict(int)
        self._incident = incidence(self.edges)
        for edge in self.edges:
            if (first := self.found.component[edge.source_node_id][0]) == self.found.component[edge.target_node_id][0]:
                self._edges_added[first] += 1
                self._bytes_added[first] += self.costs[edge.edge_id]
        for node_id, component in self.found.component.items():
            self._bytes_added[component[0]] += self.costs[node_id]
        self._require()
        self._fill()

    def decision(self, node_id: str) -> Decision:
        """Why a node that was taken is in, and where it stands."""
        found, node, along = self.found, self.found.nodes[node_id], self.along.get(node_id)
        rank = Rank(
            phase=found.phase[along or node_id],
            authority_rank=node.authority.rank,
            graph_distance=found.distance.get(node_id, 0),  # 0 where not reached; the order uses the depth instead (FORMAT 7.9)
            lexical_score=found.score[node_id],
            sensitivity_rank=node.sensitivity.rank,
            node_id=node_id,
        )
        reasons = {*found.reasons.get(node_id, ()), *(["contradiction-closure"] if along else [])}
        return Decision(node_id=node_id, reasons=tuple(sorted(reasons)), rank=rank, cost_bytes=self.costs[node_id])

    def _require(self) -> None:
        """Adopt the required closure, or refuse."""
        for component in sorted({self.found.component[node_id] for node_id in self.found.required}):
            self._adopt(component)
        budget = self.query.budget
        largest = sorted(self.taken, key=lambda node_id: (-self.costs[node_id], node_id))[:3]
        named = ", ".join(f"{self.found.nodes[node_id].locator.path} {self.costs[node_id]}" for node_id in largest)
        bounds = (
            ("max_nodes", len(self.taken), f"{len(self.taken)} nodes are required, at most {budget.max_nodes} are allowed"),
            ("max_edges", len(self.edge_ids), f"{len(self.edge_ids)} edges join required nodes, at most {budget.max_edges} are allowed"),
            ("budget_bytes", self.used, f"required sources take {self.used} of {budget.budget_bytes} bytes; the largest: {named}"),
        )
        for member, used, message in bounds:
            if used > getattr(budget, member):
                raise Refused(Reason.REQUIRED_OVER_BUDGET, message, at=("content", "budget", member))

    def _fill(self) -> None:
        found = self.found
        for node_id in found.nodes.keys() - found.phase.keys():
            self.excluded[node_id] = (found.problem.get(node_id, Reason.NOT_RETRIEVED), ())
        for node_id in sorted(found.phase.keys() - found.required, key=found.order):
            if node_id in self.taken:
                continue
            component = found.component[node_id]
            if barred := tuple(member for member in component if member in found.problem):
                self.excluded[node_id] = (Reason.CONTRADICTION_CLOSURE_UNAVAILABLE, barred)
            elif reason := self._refuses(component):
                self.excluded[node_id] = (reason, ())
            else:
                self._adopt(component)
                for member in component:
                    self.excluded.pop(member, None)
                self.along |= {member: node_id for member in component if member != node_id}
        for node_id, (_, details) in self.excluded.items():
            if len(details) > DETAILS:
                path = found.nodes[node_id].locator.path
                message = f"{path} contradicts {len(details)} nodes that cannot be taken; {DETAILS} can be listed"
                raise Refused(Reason.UNPUBLISHABLE, message, at="content/excluded")

    def _refuses(self, component: tuple[str, ...]) -> Reason | None:
        budget = self.query.budget
        if len(self.taken) + len(component) > budget.max_nodes:
            return Reason.NODE_BUDGET
        if len(self.edge_ids) + self._edges_added[component[0]] > budget.max_edges:
            return Reason.EDGE_BUDGET
        return Reason.BYTE_BUDGET if self.used + self._bytes_added[component[0]] > budget.budget_bytes else None

    def _adopt(self, component: tuple[str, ...]) -> None:
        self.used += self._bytes_added[component[0]]
        self.taken.update(component)
        for node_id in component:
            for edge in self._incident[node_id]:
                other = edge.target_node_id if edge.source_node_id == node_id else edge.source_node_id
                if other in self.taken:
                    self.edge_ids.add(edge.edge_id)
                else:
                    first = self.found.component[other][0]
                    self._edges_added[first] += 1
                    self._bytes_added[first] += self.costs[edge.edge_id]
