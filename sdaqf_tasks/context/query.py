"""This module makes a Query of a declaration and a Graph: aliases become node ids (PIPELINE 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from sdaqf_tasks.context import globs
from sdaqf_tasks.errors import Reason, Refused, reason_of
from sdaqf_tasks.formats.artifacts import Artifact, Budget, Graph, Manifest, Query, publishable
from sdaqf_tasks.formats.declaration import Asked, Declaration, Declared, Spot, moment, size
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry
from sdaqf_tasks.formats.records import EdgeType, Metadata, RootScope, instant

BUDGET_BYTES = 262_144
"""The budget of a query that names none."""


class Question(NamedTuple):
    """A Query, and what a person should know."""

    query: Artifact[Query]
    notes: tuple[str, ...]


def query(
    declaration: Declaration, name: str, graph: Artifact[Graph], committed: str | None, manifest: Artifact[Manifest] | None = None
) -> Question:
    """The Query `name` of `declaration` over `graph`; `committed` is the commit time of the Graph's HEAD, where it is known.

    With the Manifest, a source that the Graph excluded is named with its reason; without it, it is only known to be absent.
    Raises `Invalid` at what cannot be meant, `Refused` where a source is required that the Graph excluded.
    """
    asked = declaration.queries.get(name)
    if asked is None:
        raise Refused(Reason.UNKNOWN_NAME, f"{declaration.name} has no query {name!r}; it has {', '.join(declaration.queries)}")
    entry, spot = asked.entry, asked.spot
    resolve = _Resolver(declaration, graph, manifest)
    notes: list[str] = []
    required: set[str] = set()
    for index, alias in enumerate(entry.require):
        found, excluded = resolve.nodes(alias, spot.at("require", index))
        if excluded:
            path, why = excluded[0]
            reason = reason_of(why) or Reason.REQUIRED_UNAVAILABLE
            fault = spot.at("require", index).fault(f"{alias} is required, and {path} was left out of the Graph: {why}")
            raise Refused(reason, fault.message, at=fault.where, todo=reason.todo, excerpt=fault.excerpt)
        required.update(found)
    seeds: set[str] = set()
    for index, alias in enumerate(() if entry.seeds == "all" else entry.seeds):
        found, excluded = resolve.nodes(alias, spot.at("seeds", index))
        notes.extend(f"{path} is a seed and was left out of the Graph: {why}" for path, why in excluded)
        seeds.update(found)
    if entry.seeds == "all":
        seeds.update(node.node_id for node in graph.content.nodes)
    return Question(
        publishable(
            Query(
                candidate=graph.content.candidate,
                graph_id=graph.artifact_id,
                as_of=_as_of(asked, graph, committed),
                clearance=entry.clearance,
                required_node_ids=tuple(sorted(required)),
                seed_node_ids=tuple(sorted(seeds)),
                identifiers=_words(entry.identifiers, spot.at("identifiers")),
                terms=_words(entry.terms, spot.at("terms")),
                allowed_edge_types=tuple(sorted(set(EdgeType if entry.edges is UNSET else entry.edges))),
                budget=_budget(asked),
            )
        ),
        tuple(notes),
    )


def _as_of(asked: Asked, graph: Artifact[Graph], committed: str | None) -> str:
    """What was written, else the later of HEAD's commit time and the newest observation."""
    if isinstance(asked.entry.as_of, str):
        moment(asked.entry.as_of, asked.spot.at("as_of"))
        return asked.entry.as_of
    if committed is None:
        todo = "Give the query an as_of, or give --repository-root."
        raise asked.spot.fault("as_of is HEAD's commit time, and there is no repository at hand to ask", todo=todo, key=True)
    observed = [node.freshness.observed_at for node in graph.content.nodes if node.freshness.observed_at is not None]
    return max([committed, *sorted(observed)], key=instant)


def _budget(asked: Asked) -> Budget:
    given, spot = asked.entry.budget, asked.spot.at("budget")
    bounds = given if isinstance(given, BudgetEntry) else BudgetEntry()
    amount = bounds.bytes if isinstance(given, BudgetEntry) else given
    budget_bytes = BUDGET_BYTES if amount is UNSET else size(amount, spot)
    if not 1_024 <= budget_bytes <= 8_388_608:
        raise spot.fault(f"{budget_bytes} bytes; a budget has 1KiB to 8MiB")
    return Budget(
        unit="canonical_utf8_bytes",
        budget_bytes=budget_bytes,
        max_nodes=bounds.nodes,
        max_edges=bounds.edges,
        max_traversal_depth=bounds.depth,
    )


def _words(words: Sequence[str], spot: Spot) -> tuple[str, ...]:
    for index, word in enumerate(words):
        if word in words[:index]:
            raise spot.at(index).fault(f"{word!r} twice")
    return tuple(sorted(words))


class _Resolver:
    """Finds the nodes of an alias again, by what is written: path and lines, or title, or glob."""

    def __init__(self, declaration: Declaration, graph: Artifact[Graph], manifest: Artifact[Manifest] | None) -> None:
        self.declaration = declaration
        self.node_ids = {node.source_id: node.node_id for node in graph.content.nodes}
        self.reasons = {excluded.source_id: excluded.reason for excluded in graph.content.excluded_sources}
        members: Mapping[str, Metadata] = (
            {source.source_id: source for source in manifest.content.sources}
            if manifest
            else {node.source_id: node for node in graph.content.nodes}
        )
        self.members = members
        self.named = {d.pattern for d in declaration.sources if not d.is_glob and d.entry.root is RootScope.REPOSITORY}
        self.lined = {(d.entry.root, d.pattern, *d.lines) for d in declaration.sources if d.lines}

    def nodes(self, alias: str, spot: Spot) -> tuple[list[str], list[tuple[str, str]]]:
        """The node ids of an alias, and path and reason of each member that the Graph excluded."""
        declared = self.declaration.find(alias, spot)
        members = [(source_id, member) for source_id, member in self.members.items() if self._is_of(member, declared)]
        if not members and not declared.is_glob:
            return [], [(declared.pattern, " or ".join(sorted(set(self.reasons.values()))) or Reason.MISSING_OR_UNREADABLE.value)]
        found = [self.node_ids[source_id] for source_id, _ in members if source_id in self.node_ids]
        excluded = [(member.locator.path, self.reasons[source_id]) for source_id, member in members if source_id in self.reasons]
        return found, excluded

    def _is_of(self, member: Metadata, declared: Declared) -> bool:
        locator = member.locator
        place = (locator.root_scope, locator.path, locator.line_start, locator.line_end)
        if locator.root_scope is not declared.entry.root:
            return False
        if declared.is_glob:
            unwanted = any(globs.matches(glob, locator.path) for glob in declared.excluded)
            return locator.path not in self.named and globs.matches(declared.pattern, locator.path) and not unwanted
        if locator.path != declared.pattern:
            return False
        if declared.lines:
            return (locator.line_start, locator.line_end) == declared.lines
        return member.title == declared.title and place not in self.lined
