"""This module finds what would let a source into a context that a query leaves out (FORMAT 7). Pure.

Advice is not guessed: every way is followed here first, by selecting with all that it changes, and is given only where
the source is taken then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.context.document import cite
from sdaqf_tasks.context.lexical import fields
from sdaqf_tasks.context.select import Ground, Retrieval, Taking, retrieve
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats.artifacts import CONTEXT_BYTES, EDGES, NODES, Budget, Query, convert, seal
from sdaqf_tasks.formats.records import Edge, EdgeType, Freshness, FreshnessKind, Node, Source, ends

BUDGETS = {"bytes": "budget_bytes", "nodes": "max_nodes", "edges": "max_edges", "depth": "max_traversal_depth"}
"""The members of a budget, as the YAML and as a Query call them."""

WIDEST = Budget(unit="canonical_utf8_bytes", budget_bytes=CONTEXT_BYTES, max_nodes=NODES, max_edges=EDGES, max_traversal_depth=8)


class Step(NamedTuple):
    """One change: which member of the query or what outside it, its new value (added, where the member is a list), in words."""

    change: str
    to: Any
    words: str


class _Case(NamedTuple):
    """A graph and a query that could be, and the steps that lead there. `node_id` is the node that is to be taken, `known`
    what it is called as long as nothing is observed again.
    """

    ground: Ground
    query: Query
    known: str
    node_id: str
    steps: tuple[Step, ...] = ()

    def asking(self, *steps: Step, **changed: Any) -> _Case:
        return self._replace(query=msgspec.structs.replace(self.query, **changed), steps=(*self.steps, *steps))


def ways(ground: Ground, query: Query, node_id: str) -> list[list[Step]]:
    """Every way to have an excluded node taken, simplest first; none where nothing will. No way holds all of another."""
    cases = (led for eligible in _eligible(_Case(ground, query, node_id, node_id)) for led in _led(eligible))
    found = [fitting.steps for case in cases if (fitting := _fitting(case))]
    return [list(way) for way in found if not any({*other} < {*way} for other in found)]


def _eligible(case: _Case) -> Iterator[_Case]:
    """Clear and observe the whole contradiction component; or settle with those of the others that cannot be taken."""
    nodes, edges = case.ground.nodes, case.ground.edges
    component = [nodes[member] for member in case.ground.component[case.node_id]]
    yield _open(case, component)
    own = _open(case, [nodes[case.node_id]])
    barred = {node.node_id for node in component if own.query.clearance < node.sensitivity or not node.freshness.holds_at(case.query.as_of)}
    if others := barred - {case.node_id}:
        cut = {e.edge_id for e in edges if e.edge_type is EdgeType.CONTRADICTS and {e.source_node_id, e.target_node_id} & others}
        named = ", ".join(cite(nodes[node_id]) for node_id in sorted(others))
        step = Step("settle", tuple(sorted(cut)), f"settle the contradictions of {named}, and drop their relationships")
        settled = _moved(case, {}, tuple(edge for edge in edges if edge.edge_id not in cut))._replace(steps=(step,))
        yield _open(settled, [nodes[case.node_id]])


def _open(case: _Case, members: list[Node]) -> _Case:
    """The clearance that `members` need, and each of them observed again whose window does not hold as_of."""
    highest = max(node.sensitivity for node in members)
    if case.query.clearance < highest:
        case = case.asking(Step("clearance", highest.value, f"raise the clearance to {highest.value}"), clearance=highest)
    as_of = case.query.as_of
    stale = [node for node in members if not node.freshness.holds_at(as_of)]
    if not stale:
        return case
    now = Freshness(kind=FreshnessKind.EXPIRES_AT, observed_at=as_of, valid_until=as_of)
    again = {node.node_id: Node.seal(Source.seal(**(node.metadata | {"freshness": now})), node.text) for node in stale}
    named = ", ".join(cite(node) for node in stale)
    step = Step("observe", tuple(sorted(again)), f"observe {named} again, so that the window holds as_of ({as_of})")
    return _moved(case, again, case.ground.edges)._replace(steps=(*case.steps, step))


def _moved(case: _Case, again: dict[str, Node], edges: tuple[Edge, ...]) -> _Case:
    """The case in a graph with other edges, in which some nodes are others."""

    def renamed(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(sorted(again[node_id].node_id if node_id in again else node_id for node_id in ids))

    rejoined = []
    for edge in edges:
        joined = (again[end].node_id if end in again else end for end in (edge.source_node_id, edge.target_node_id))
        source, target = ends(edge.edge_type, *joined)
        rejoined.append(Edge.seal(edge_type=edge.edge_type, source_node_id=source, target_node_id=target, provenance=edge.provenance))
    nodes = sorted((again.get(node_id, node) for node_id, node in case.ground.nodes.items()), key=lambda node: node.node_id)
    rejoined.sort(key=lambda edge: edge.edge_id)
    graph = seal(msgspec.structs.replace(case.ground.graph.content, nodes=tuple(nodes), edges=tuple(rejoined)))
    required, seeds = renamed(case.query.required_node_ids), renamed(case.query.seed_node_ids)
    moved = case._replace(ground=Ground(graph), node_id=renamed((case.node_id,))[0])
    return moved.asking(graph_id=graph.artifact_id, required_node_ids=required, seed_node_ids=seeds)


def _led(case: _Case) -> Iterator[_Case]:
    """As it is, where something in the query leads to the node; and with each member that can name it."""
    try:
        found = retrieve(case.ground, case.asking(budget=WIDEST).query)
    except SdaqfError:
        return
    node = found.nodes[case.node_id]
    led = case.node_id in found.phase
    naming: list[tuple[str, str, str | None]] = [("require", "required_node_ids", node.node_id)]
    if led:
        yield case
    else:
        naming += [("seeds", "seed_node_ids", node.node_id), ("terms", "terms", _term(found, node))]
        naming += [("identifiers", "identifiers", next(iter(node.identifiers), None))]
    for change, member, word in naming:
        if word is not None:
            words = f"name it in {change}" + (f": {word}" if change in ("terms", "identifiers") else "")
            try:
                step = Step(change, case.known if word == node.node_id else word, words)
                named = case.asking(step, **{member: tuple(sorted({*getattr(case.query, member), word}))})
                convert(msgspec.to_builtins(named.query), Query)
                yield named
            except SdaqfError:
                continue  # the list is full


def _term(found: Retrieval, node: Node) -> str | None:
    """The word of title, labels and path that the fewest sources have; the longest of those."""
    held = Counter(word for other in found.nodes.values() for word in set().union(*fields(other).values()))
    own = {word for name, words in fields(node).items() if name != "text" for word in words}
    return min(own, key=lambda word: (held[word], -len(word), word), default=None)


def _fitting(case: _Case) -> _Case | None:
    """With bounds under which the node is taken: those that it misses at its turn, else those that leave room for
    everything that ranks before it. None where the widest will not do.
    """
    most = None
    for depth in range(case.query.budget.max_traversal_depth, WIDEST.max_traversal_depth + 1):
        case = _bounded(case, {"depth": depth})
        if most := _taking(case.asking(budget=msgspec.structs.replace(WIDEST, max_traversal_depth=depth))):
            break
    if most is None or case.node_id not in most.taken:
        return None
    trial = case
    for _ in range(4):
        taking = _taking(trial)
        if taking is None:
            break
        if case.node_id in taking.taken:
            return trial
        trial = _bounded(trial, needed(taking, case.node_id))
    # Everything that the widest bounds take before the node fits these, and nothing else does.
    trial = _bounded(case, needed(most, case.node_id))
    taking = _taking(trial)
    return trial if taking and case.node_id in taking.taken else None


def _bounded(case: _Case, needed: dict[str, int]) -> _Case:
    """With each bound at least as high as `needed`."""
    for name, bound in needed.items():
        if getattr(case.query.budget, BUDGETS[name]) < bound:
            step = Step(f"budget.{name}", bound, f"raise budget.{name} to {bound:,}")
            steps = tuple(other for other in case.steps if other.change != step.change)
            budget = msgspec.structs.replace(case.query.budget, **{BUDGETS[name]: bound})
            case = case._replace(steps=steps).asking(step, budget=budget)
    return case


def _taking(case: _Case) -> Taking | None:
    with suppress(SdaqfError):
        return Taking(case.ground, case.query)
    return None


def turns(found: Retrieval) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """When the turn of each contradiction component comes: at its earliest candidate; what is refused then stays out."""
    first: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for node_id in found.phase:
        component, turn = found.component[node_id], found.order(node_id)
        first[component] = min(first.get(component, turn), turn)
    return first


def needed(taking: Taking, node_id: str) -> dict[str, int]:
    """The bounds that the node needs at its turn: for what was taken before it, for its component, and for all that is
    reachable (FORMAT 7.4, 7.7, 7.8).
    """
    found, edges, query = taking.found, taking.edges, taking.query
    first, component = turns(found), found.component[node_id]
    turn = first[component] if node_id in taking.taken else found.order(node_id)
    before = {one for one in taking.taken if one in found.required or first[found.component[one]] < turn} | {*component}
    inner = [edge.edge_id for edge in edges if edge.source_node_id in before and edge.target_node_id in before]
    near = {one for one, distance in found.distance.items() if distance < query.budget.max_traversal_depth}
    followed = sum(
        edge.edge_type in query.allowed_edge_types
        and (edge.source_node_id in near or (edge.edge_type is EdgeType.CONTRADICTS and edge.target_node_id in near))
        for edge in edges
    )
    return {
        "bytes": sum(taking.costs[one] for one in before) + sum(taking.costs[one] for one in inner),
        "nodes": max(len(before), len(found.distance) if any(found.distance.values()) else 0),
        "edges": max(len(inner), followed),
    }
