"""This module says why a source is in a context or out of it (FORMAT 6 to 8). Pure."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from sdaqf_tasks.context.lexical import query_tokens
from sdaqf_tasks.context.select import retrieve
from sdaqf_tasks.context.ways import BUDGETS, Step, fields, needed, place, turns, ways
from sdaqf_tasks.errors import Reason, reason_of
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Manifest, Selection, Snapshot, seal
from sdaqf_tasks.formats.records import Node, Source, cost

PHASES = ("required", "graph", "identifier", "lexical")

MEANS = {
    "required-reference": "the manifest or the query requires it",
    "contradiction-closure": "it contradicts one that is in: both are, or neither",
    "graph": "it is a seed, or relations lead to it from what is in",
    "identifier": "it has an identifier that the query names",
    "lexical": "it has words of the query's terms",
}
CUT = frozenset(reason.value for reason in (Reason.BYTE_BUDGET, Reason.NODE_BUDGET, Reason.EDGE_BUDGET))


class Told(NamedTuple):
    """The artifacts of one chain; without a Snapshot, what the Selection took counts as in."""

    manifest: Artifact[Manifest]
    graph: Artifact[Graph]
    selection: Artifact[Selection]
    snapshot: Artifact[Snapshot] | None = None


class Explanation:
    """Why each source of a chain is in or out."""

    def __init__(self, told: Told) -> None:
        self.told, self.query = told, seal(told.selection.content.query)
        self.found = retrieve(told.graph, self.query)
        self.nodes = {node.source_id: node for node in told.graph.content.nodes}
        self.sources: dict[str, Source | Node] = {**{source.source_id: source for source in told.manifest.content.sources}, **self.nodes}
        self._unindexed = {excluded.source_id: excluded for excluded in told.graph.content.excluded_sources}
        self._decisions = {decision.node_id: decision for decision in told.selection.content.selected}
        self._excluded = {excluded.node_id: excluded for excluded in (told.snapshot or told.selection).content.excluded}

    def reason(self, source_id: str) -> str | None:
        """Why the source is out, as the artifacts have it; None where it is in."""
        node = self.nodes.get(source_id)
        excluded = self._excluded.get(node.node_id) if node else self._unindexed.get(source_id)
        return excluded.reason if excluded else None

    @cached_property
    def ranking(self) -> list[str]:
        """All source ids in the order in which they were considered; then those that nothing led to, by path."""
        first = turns(self.found, self.query.content)

        def order(source_id: str) -> tuple[Any, ...]:
            node = self.nodes.get(source_id)
            if node is None or (node.node_id not in self.found.phase and node.node_id not in self._decisions):
                return 1, node is None, place(self.sources[source_id])
            turn = self.found.order(node.node_id, self.query.content) if node.node_id in self.found.phase else ()
            taken = node.node_id in self._decisions and node.node_id not in self.found.required
            begun = first[self.found.component[node.node_id]] if taken else turn
            return 0, begun, turn != begun, turn

        return sorted(self.sources, key=order)

    def listing(self) -> list[dict[str, Any]]:
        """One entry a source, in and out, in the order of `ranking`."""
        return [self._entry(source_id) for source_id in self.ranking]

    def _entry(self, source_id: str) -> dict[str, Any]:
        node, reason = self.nodes.get(source_id), self.reason(source_id)
        phase = self._phase(node)
        return {
            "source": place(self.sources[source_id]),
            "source_id": source_id,
            "node_id": node.node_id if node else None,
            "state": "out" if reason else "in",
            "reason": reason,
            "phase": PHASES[phase] if phase is not None else None,
            "bytes": cost(node) if node else None,
        }

    def _phase(self, node: Node | None) -> int | None:
        if node is None:
            return None
        decision = self._decisions.get(node.node_id)
        return decision.rank.phase if decision else self.found.phase.get(node.node_id)

    def of(self, source_id: str) -> dict[str, Any]:
        """Everything about one source, as plain values."""
        node, member, reason = self.nodes.get(source_id), self.sources[source_id], self.reason(source_id)
        decision = self._decisions.get(node.node_id) if node else None
        details = [place(self.found.nodes[other]) for other in self._excluded[node.node_id].details] if node and reason else []
        return {
            **self._entry(source_id),
            "title": member.title,
            "kind": member.kind.value,
            "reasons": [{"reason": why, "means": MEANS.get(why, why)} for why in decision.reasons] if decision and not reason else [],
            "exclusion": {"reason": reason, "means": _means(reason), "details": details} if reason else None,
            "rank": self._rank(node) if node else None,
            "cost": {"text": (text := len(canonical.encode(node.text))), "record": cost(node) - text} if node else None,
            "component": [
                {"source": place(self.found.nodes[other]), "reason": self.reason(self.found.nodes[other].source_id)}
                for other in (self.found.component[node.node_id] if node else ())
                if node and other != node.node_id
            ],
            "misses": self._misses(node) if node and reason in CUT else {},
            "ways": [[step._asdict() for step in way] for way in self.ways(source_id)],
        }

    def _rank(self, node: Node) -> dict[str, Any]:
        phase = self._phase(node)
        wanted = query_tokens(self.query.content.terms)
        return {
            "position": self.ranking.index(node.source_id) + 1,
            "phase": phase,
            "authority": node.authority.value,
            "authority_rank": node.authority.rank,
            "distance": self.found.distance.get(node.node_id),
            "score": self.found.score[node.node_id],
            "found": {name: sorted(wanted & held) for name, held in fields(node).items() if wanted & held},
            "sensitivity": node.sensitivity.value,
            "sensitivity_rank": node.sensitivity.rank,
        }

    def _misses(self, node: Node) -> dict[str, int]:
        """How much of each bound was missing when the node's turn came."""
        bounds = needed(self.told.graph, self.query.content, self.found, self.told.selection, node.node_id)
        return {name: more for name in bounds if (more := bounds[name] - getattr(self.query.content.budget, BUDGETS[name])) > 0}

    def ways(self, source_id: str) -> list[list[Step]]:
        """What would let the source in, each way by itself. None for one that is in, or that nothing will let in.

        Where it could not be read, the one way is to see to the file, and that is *not* tried here.
        """
        node, reason = self.nodes.get(source_id), self.reason(source_id)
        if reason is None:
            return []
        if node is None or node.node_id in self._decisions:
            known = reason_of(reason)
            return [[Step("source", place(self.sources[source_id]), known.todo if known else "See to the file, then build again.")]]
        return ways(self.told.graph, self.query, node.node_id)


def _means(reason: str) -> str:
    known = reason_of(reason)
    return known.when if known else "A reason that this program does not know."
