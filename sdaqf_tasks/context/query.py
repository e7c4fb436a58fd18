"""This module makes a Query of a declaration and a Graph: aliases become node ids (PIPELINE 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import UNSET

from sdaqf_tasks.context.document import reading_order
from sdaqf_tasks.errors import Reason, Refused, reason_of, shown
from sdaqf_tasks.formats.artifacts import Artifact, Budget, Graph, Manifest, Query, publishable
from sdaqf_tasks.formats.declaration import Asked, Declaration, Declared
from sdaqf_tasks.formats.entries import Spot, meant
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry
from sdaqf_tasks.formats.records import EdgeType, Metadata, instant


class Question(NamedTuple):
    """A Query, and what a person should know."""

    query: Artifact[Query]
    notes: tuple[str, ...]


def query(
    declaration: Declaration, name: str, graph: Artifact[Graph], committed: str | None, manifest: Artifact[Manifest] | None = None
) -> Question:
    """The Query `name` of `declaration` over `graph`; `committed` is the commit time of the Graph's HEAD, where it is known.

    With the Manifest, a source that the Graph excluded is named with its reason; without it, a member of a glob that was
    excluded is not known to be one, and the notes say so.

    Raises `Invalid` where as_of is neither written nor known; `Refused` with UNKNOWN_NAME, CHAIN_MISMATCH, or the reason
    why a required source is not in the Graph.
    """
    asked = declaration.queries.get(name)
    if asked is None:
        known = list(declaration.queries)
        message = f"{shown(declaration.name)} has no query '{shown(name)}'{meant(name, known)}"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=f"It has: {', '.join(map(shown, known[:8]))}")
    if manifest and manifest.artifact_id != graph.content.manifest_id:
        raise Refused(Reason.CHAIN_MISMATCH, "the Graph was made of another Manifest", at="content/manifest_id")
    entry, resolver = asked.entry, _Resolver(declaration, graph, manifest)
    seeds = {node.node_id for node in graph.content.nodes} if entry.seeds == "all" else resolver.seeds(asked)
    content = Query(
        candidate=graph.content.candidate,
        graph_id=graph.artifact_id,
        as_of=_as_of(asked, graph, committed),
        clearance=entry.clearance,
        required_node_ids=tuple(sorted(resolver.required(asked))),
        seed_node_ids=tuple(sorted(seeds)),
        identifiers=tuple(sorted(entry.identifiers)),
        terms=tuple(sorted(entry.terms)),
        allowed_edge_types=tuple(sorted(EdgeType if entry.edges is UNSET else entry.edges)),
        budget=_budget(asked),
    )
    return Question(publishable(content), tuple(resolver.notes))


def _as_of(asked: Asked, graph: Artifact[Graph], committed: str | None) -> str:
    """What was written, else the later of HEAD's commit time and the newest observation."""
    if isinstance(asked.entry.as_of, str):
        return asked.entry.as_of
    if committed is None:
        todo = "Give the query an as_of, or give --repository-root."
        raise asked.spot.fault("as_of is HEAD's commit time, and there is no repository at hand to ask", todo=todo, key=True)
    observed = [node.freshness.observed_at for node in graph.content.nodes if node.freshness.observed_at is not None]
    return max([committed, *sorted(observed)], key=instant)


def _budget(asked: Asked) -> Budget:
    bounds = asked.entry.budget if isinstance(asked.entry.budget, BudgetEntry) else BudgetEntry()
    most = {"max_nodes": bounds.nodes, "max_edges": bounds.edges, "max_traversal_depth": bounds.depth}
    return Budget(unit="canonical_utf8_bytes", budget_bytes=asked.budget_bytes, **most)


class Origins:
    """Finds what a source was declared as, by what is written: path and lines, path and title, or glob.

    `compile` sees to it that these tell sources apart.
    """

    def __init__(self, declaration: Declaration) -> None:
        self._sources, self._named = declaration.sources, declaration.named
        self._lined = {(d.entry.root.value, d.pattern, *d.lines) for d in declaration.sources if d.lines}

    def of(self, member: Metadata) -> Declared | None:
        """The declared source of a source or node, if the declaration still has it."""
        return next((declared for declared in self._sources if self.is_of(member, declared)), None)

    def is_of(self, member: Metadata, declared: Declared) -> bool:
        locator = member.locator
        if locator.root_scope is not declared.entry.root or not declared.takes(locator.path):
            return False
        if declared.is_glob:
            return locator.path not in self._named
        if declared.lines:
            return (locator.line_start, locator.line_end) == declared.lines
        return member.title == declared.title and reading_order(member) not in self._lined


class _Resolver:
    """The nodes of an alias, and what a person should know of those that the Graph does not have."""

    def __init__(self, declaration: Declaration, graph: Artifact[Graph], manifest: Artifact[Manifest] | None) -> None:
        self.declaration, self.origins, self.whole = declaration, Origins(declaration), manifest is not None
        self.notes: list[str] = []
        self.node_ids = {node.source_id: node.node_id for node in graph.content.nodes}
        self.reasons = {excluded.source_id: excluded.reason for excluded in graph.content.excluded_sources}
        members = manifest.content.sources if manifest else graph.content.nodes
        self.members: Mapping[str, Metadata] = {member.source_id: member for member in members}

    def required(self, asked: Asked) -> set[str]:
        """The nodes of every alias that is required. Raises `Refused` where one has a member that is not in the Graph."""
        found: set[str] = set()
        for index, alias in enumerate(asked.entry.require):
            node_ids, missing = self._find(alias)
            if missing:
                raise _refusal(alias, *missing[0], asked.spot.at("require", index))
            found.update(node_ids)
        return found

    def seeds(self, asked: Asked) -> set[str]:
        """The nodes of every alias that is a seed; a member that is not in the Graph is noted."""
        found: set[str] = set()
        for alias in asked.entry.seeds:
            node_ids, missing = self._find(alias)
            self.notes += [f"{alias} is a seed, and {_absent(path, why)}" for path, why in missing]
            found.update(node_ids)
        return found

    def _find(self, alias: str) -> tuple[list[str], list[tuple[str, str]]]:
        """The node ids that an alias stands for, and path and reason of each member that is not in the Graph."""
        declared = self.declaration.find(alias)
        members = {source_id: member.locator.path for source_id, member in self.members.items() if self.origins.is_of(member, declared)}
        if not members:
            possible = set() if self.whole else set(self.reasons.values())
            return [], [(declared.pattern, " or ".join(sorted(possible)) or Reason.REQUIRED_UNKNOWN.value)]
        if declared.is_glob and self.reasons and not self.whole:
            self.notes.append(f"{len(self.reasons)} sources were left out of the Graph; whether {alias} had one, only its Manifest tells")
        node_ids = [self.node_ids[source_id] for source_id in members if source_id in self.node_ids]
        return node_ids, [(path, self.reasons[source_id]) for source_id, path in members.items() if source_id in self.reasons]


def _refusal(alias: str, path: str, why: str, spot: Spot) -> Refused:
    reason = reason_of(why) or Reason.REQUIRED_UNAVAILABLE
    fault = spot.fault(f"{alias} is required, and {_absent(path, why)}", reason=reason)
    return Refused(reason, fault.message, at=fault.where, todo=reason.todo, excerpt=fault.excerpt)


def _absent(path: str, why: str) -> str:
    if why == Reason.REQUIRED_UNKNOWN.value:
        return f"the Graph has nothing of {shown(path)}"
    return f"{shown(path)} was left out of the Graph: {why}"
