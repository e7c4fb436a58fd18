"""This module judges windows by a clock, and contradictions by what was left out (PIPELINE 4). The clock is data here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from sdaqf_tasks.formats.artifacts import Artifact, Graph, Manifest
from sdaqf_tasks.formats.records import EdgeType, Metadata, Source, instant

M = TypeVar("M", bound=Metadata)


def expired(members: Iterable[M], now: str) -> M | None:
    """The first member, by the end of its window, whose window ended before `now`."""
    past = [(instant(end), member) for member in members if (end := member.freshness.valid_until) and instant(end) < instant(now)]
    return min(past, key=lambda pair: pair[0])[1] if past else None


def first_end(members: Iterable[Metadata]) -> str | None:
    """The earliest end of a window, or None where nothing expires."""
    ends = [end for member in members if (end := member.freshness.valid_until)]
    return min(ends, key=instant, default=None)


class Hidden(NamedTuple):
    """A contradiction that the Graph does not show: the end that it has, the one that was left out, and why."""

    kept: Source
    lost: Source
    reason: str


def hidden_contradictions(manifest: Artifact[Manifest], graph: Artifact[Graph]) -> Iterator[Hidden]:
    """FORMAT 6 (7) skips a relationship whose end was excluded; of a contradiction that must be said."""
    sources = {source.source_id: source for source in manifest.content.sources}
    reasons = {excluded.source_id: excluded.reason for excluded in graph.content.excluded_sources}
    for relationship in manifest.content.relationships:
        if relationship.edge_type is not EdgeType.CONTRADICTS:
            continue
        for kept, lost in ((relationship.source_id, relationship.target_id), (relationship.target_id, relationship.source_id)):
            if lost in reasons and kept not in reasons:
                yield Hidden(sources[kept], sources[lost], reasons[lost])
