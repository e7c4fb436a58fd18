"""This module says which contexts tell a pinned source, and which of them require it, on the present tree.

It is asked where something differs: only then are the queries run, in memory.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from sdaqf_tasks.context.compile import Compiled
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.query import query
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats.declaration import Declaration, Declared
from sdaqf_tasks.world import Sources


class Told(NamedTuple):
    """Labels of contexts, NAME or NAME.QUERY, in the order of the manifest."""

    contexts: tuple[str, ...]
    required: tuple[str, ...]


class Telling:
    """What the queries of one manifest tell. Where that cannot be found out, each may tell everything."""

    def __init__(self, run: Run, declaration: Declaration, sources: Sources, compiled: Compiled | None = None) -> None:
        self._run, self._declaration, self._sources, self._given = run, declaration, sources, compiled
        self.name = declaration.name

    def of(self, declared: Declared, path: str) -> Told:
        """The contexts that tell the source, or the member of its glob at `path`; the manifest itself where none does."""
        contexts, required = [], []
        for name in self._declaration.queries:
            label = Chain(self.name, name).label
            told = self._selected.get(name)
            members = self._members(declared, path)
            if told is None or not members.isdisjoint(told):
                contexts.append(label)
                if declared.entry.required or declared.alias in self._declaration.queries[name].entry.require:
                    required.append(label)
        return Told(tuple(contexts) or (self.name,), tuple(required))

    def _members(self, declared: Declared, path: str) -> set[str]:
        sources = self._compiled.manifest.content.sources if self._compiled else ()
        here = {source.source_id for source in sources if source.locator.path == path}
        return here.intersection(self._compiled.members[declared.alias]) if self._compiled else here

    @cached_property
    def _compiled(self) -> Compiled | None:
        with suppress(SdaqfError):
            return self._given or compile_manifest(self._declaration, self._sources)
        return None

    @cached_property
    def _selected(self) -> dict[str, set[str]]:
        """The source ids that each query takes; a query that is refused is not in it."""
        if self._compiled is None:
            return {}
        manifest, found = self._compiled.manifest, {}
        try:
            graph = index(manifest, self._sources, owner_root=self._declaration.has_owner_sources)
        except SdaqfError:
            return {}
        sources = {node.node_id: node.source_id for node in graph.content.nodes}
        for name in self._declaration.queries:
            try:
                asked = query(self._declaration, name, graph, self._run.tree.committed, manifest).query
                found[name] = {sources[decision.node_id] for decision in select(graph, asked).content.selected}
            except SdaqfError:
                continue
        return found
