"""This module says why a source is in a context or out of it (FORMAT 6 to 8). Pure."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from sdaqf_tasks.context.document import cite
from sdaqf_tasks.context.lexical import fields, query_tokens
from sdaqf_tasks.context.select import CUT, Ground, Taking, retrieve
from sdaqf_tasks.context.ways import BUDGETS, Step, needed, turns, ways
from sdaqf_tasks.errors import reason_of
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Manifest, Selection, Snapshot
from sdaqf_tasks.formats.records import Node, Source

PHASES = ("required", "graph", "identifier", "lexical")

MEANS = {
    "required-reference": "the manifest or the query requires it",
    "contradiction-closure": "it contradicts one that is in: both are, or neither",
    "graph": "it is a seed, or relations lead to it from what is in",
    "identifier": "it has an identifier that the query names",
    "lexical": "it has words of the query's terms",
}


class Told(NamedTuple):
    """The artifacts of one chain; without a Snapshot, what the Selection took counts as in."""

    manifest: Artifact[Manifest]
    graph: Artifact[Graph]
    selection: Artifact[Selection]
    snapshot: Artifact[Snapshot] | None = None


class Explanation:
    """Why each source of a chain is in or out."""

    def __init__(self, told: Told) -> None:
        self.told, self.query = told, told.selection.content.query
        self.ground = Ground(told.graph)
        self.found = retrieve(self.ground, self.query)
        self.nodes = {node.source_id: node for node in told.graph.content.nodes}
        self.sources: dict[str, Source | Node] = {**{source.source_id: source for source in told.manifest.content.sources}, **self.nodes}
        self._unindexed = {excluded.source_id: excluded.reason for excluded in told.graph.content.excluded_sources}
        self._decisions = {decision.node_id: decision for decision in told.selection.content.selected}
        self._excluded = {excluded.node_id: excluded for excluded in (told.snapshot or told.selection).content.excluded}

    def reason(self, source_id: str) -> str | None:
        """Why the source is out, as the artifacts have it; None where it is in."""
        node = self.nodes.get(source_id)
        if node is None:
            return self._unindexed.get(source_id)
        return self._excluded[node.node_id].reason if node.node_id in self._excluded else None

    @cached_property
    def ranking(self) -> list[str]:
        """All source ids in the order in which they were considered; then those that nothing led to, by path."""
        found, first = self.found, turns(self.found)

        def order(source_id: str) -> tuple[Any, ...]:
            node = self.nodes.get(source_id)
            if node is None or (node.node_id not in found.phase and node.node_id not in self._decisions):
                return 1, node is None, cite(self.sources[source_id])
            turn = found.order(node.node_id) if node.node_id in found.phase else ()
            taken = node.node_id in self._decisions and node.node_id not in found.required
            begun = first[found.component[node.node_id]] if taken else turn
            return 0, begun, turn != begun, turn

        return sorted(self.sources, key=order)

    def listing(self) -> list[dict[str, Any]]:
        """One entry a source, in and out, in the order of `ranking`."""
        return [self._entry(source_id) for source_id in self.ranking]

    def _entry(self, source_id: str) -> dict[str, Any]:
        node, reason = self.nodes.get(source_id), self.reason(source_id)
        phase = self._phase(node) if node else None
        return {
            "source": cite(self.sources[source_id]),
            "source_id": source_id,
            "node_id": node.node_id if node else None,
            "state": "out" if reason else "in",
            "reason": reason,
            "phase": PHASES[phase] if phase is not None else None,
            "bytes": self.ground.costs[node.node_id] if node else None,
        }

    def _phase(self, node: Node) -> int | None:
        decision = self._decisions.get(node.node_id)
        return decision.rank.phase if decision else self.found.phase.get(node.node_id)

    def of(self, source_id: str) -> dict[str, Any]:
        """Everything about one source, as plain values."""
        node, member, reason = self.nodes.get(source_id), self.sources[source_id], self.reason(source_id)
        result: dict[str, Any] = {
            **self._entry(source_id),
            "title": member.title,
            "kind": member.kind.value,
            "reasons": [],
            "exclusion": {"reason": reason, "means": _means(reason), "details": []} if reason else None,
            "rank": None,
            "cost": None,
            "component": [],
            "misses": {},
            "ways": [[step._asdict() for step in way] for way in self.ways(source_id)],
        }
        if node is None:
            return result
        text = len(canonical.encode(node.text))
        others = [self.found.nodes[other] for other in self.found.component[node.node_id] if other != node.node_id]
        result["component"] = [{"source": cite(other), "reason": self.reason(other.source_id)} for other in others]
        result |= {"rank": self._rank(node), "cost": {"text": text, "record": self.ground.costs[node.node_id] - text}}
        if reason:
            result["exclusion"]["details"] = [cite(self.found.nodes[other]) for other in self._excluded[node.node_id].details]
            result["misses"] = self._misses(node) if reason in CUT else {}
        elif decision := self._decisions.get(node.node_id):
            result["reasons"] = [{"reason": why, "means": MEANS.get(why, why)} for why in decision.reasons]
        return result

    def _rank(self, node: Node) -> dict[str, Any]:
        wanted = query_tokens(self.query.terms)
        return {
            "position": self.ranking.index(node.source_id) + 1,
            "phase": self._phase(node),
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
        bounds = needed(Taking(self.ground, self.query), node.node_id)
        return {name: more for name in bounds if (more := bounds[name] - getattr(self.query.budget, BUDGETS[name])) > 0}

    def ways(self, source_id: str) -> list[list[Step]]:
        """What would let the source in, each way by itself. None for one that is in, or that nothing will let in.

        Where it could not be read, the one way is to see to the file, and that is *not* tried here.
        """
        node, reason = self.nodes.get(source_id), self.reason(source_id)
        if reason is None:
            return []
        if node is None or node.node_id in self._decisions:
            known = reason_of(reason)
            return [[Step("source", cite(self.sources[source_id]), known.todo if known else "See to the file, then build again.")]]
        return ways(self.ground, self.query, node.node_id)


def _means(reason: str) -> str:
    known = reason_of(reason)
    return known.when if known else "A reason that this program does not know."
