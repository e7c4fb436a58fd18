"""This module says what agents are told by one context and not by another (PIPELINE 6). Pure.

Sources are recognised by what they are, not by their ids, which change with every byte: the same file and title, else the
same file, else the same text elsewhere.
"""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

from sdaqf_tasks.context.document import cite, content_digest, contradictions, reading_order
from sdaqf_tasks.context.ways import BUDGETS
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, Graph, Manifest, Query, Selection, Snapshot
from sdaqf_tasks.formats.records import Node, Source

LINES = 40
"""Changed lines that are shown of one source."""

WIDTH = 200
"""Characters that are shown of a line."""


class Side(NamedTuple):
    """One Snapshot with as much of its chain as is at hand."""

    snapshot: Artifact[Snapshot]
    selection: Artifact[Selection] | None = None
    graph: Artifact[Graph] | None = None
    manifest: Artifact[Manifest] | None = None
    compaction: Artifact[Compaction] | None = None


class Item(NamedTuple):
    """A source on one side: `reason` is why it is out, or None."""

    member: Node | Source
    reason: str | None
    required: bool = False

    @property
    def text(self) -> str:
        return self.member.text if isinstance(self.member, Node) else ""


class Pair(NamedTuple):
    """One source on both sides, where it is; `member` is as it is now, if it is there."""

    before: Item | None
    after: Item | None
    member: Node | Source

    @property
    def name(self) -> str:
        return cite(self.member)


def difference(base: Side, current: Side) -> dict[str, Any]:
    """Everything that differs, as plain values; lists are in the order of paths and lines.

    `not_compared` says what could not be: a Snapshot alone knows neither the query nor the sources that are out.
    """
    pairs = _paired(_items(base, current), _items(current, base))
    both = [(pair.name, pair.before, pair.after) for pair in pairs if pair.before and pair.after]
    told = [(name, before, after) for name, before, after in both if before.reason is None and after.reason is None]
    digests = [content_digest(side.snapshot, side.compaction) if side.compaction else None for side in (base, current)]
    return {
        "content": {"before": digests[0], "after": digests[1]},
        "as_of": {"before": base.snapshot.content.as_of, "after": current.snapshot.content.as_of},
        "tree": {"before": base.snapshot.content.candidate.git_head, "after": current.snapshot.content.candidate.git_head},
        "added": [_told(pair.name, pair.after) for pair in pairs if pair.after and not pair.before],
        "removed": [_told(pair.name, pair.before) for pair in pairs if pair.before and not pair.after],
        "moved_in": [{"source": name, "reason": before.reason} for name, before, after in both if before.reason and not after.reason],
        "moved_out": [{"source": name, "reason": after.reason} for name, before, after in both if after.reason and not before.reason],
        "changed": [_changed(name, before, after) for name, before, after in told if before.text != after.text],
        "marked": [mark for name, before, after in told for mark in _marks(name, before, after)],
        "contradictions": _contradictions(base, current, pairs),
        "query": _query(base, current, pairs),
        "not_compared": _not_compared(base, current),
    }


def is_same(found: dict[str, Any]) -> bool:
    """Whether agents are told the same, by the same rules. Tree and as_of, which move with every commit, do not count."""
    lists = ("added", "removed", "moved_in", "moved_out", "changed", "marked", "query")
    return not any(found[name] for name in lists) and not any(found["contradictions"].values())


def _items(side: Side, other: Side) -> list[Item]:
    """Every source of the side that is known: in, out by its query, and out of its Graph. Without a Graph, what the other
    side knows under the same id serves.
    """
    out = {exclusion.node_id: exclusion.reason for exclusion in side.snapshot.content.excluded}
    known = {node.node_id: node for one in (other, side) for node in (one.graph or one.snapshot).content.nodes}
    by_query = set(side.selection.content.query.required_node_ids) if side.selection else set[str]()
    nodes = [known[node_id] for node_id in {*out, *(node.node_id for node in side.snapshot.content.nodes)} if node_id in known]
    items = [Item(node, out.get(node.node_id), node.required or node.node_id in by_query) for node in nodes]
    if side.graph and side.manifest:
        sources = {source.source_id: source for source in side.manifest.content.sources}
        lost = [(sources[excluded.source_id], excluded.reason) for excluded in side.graph.content.excluded_sources]
        items += [Item(source, reason, source.required) for source, reason in lost]
    return sorted(items, key=lambda item: reading_order(item.member))


KEYS: tuple[Callable[[Item], Hashable], ...] = (
    lambda item: (*reading_order(item.member)[:2], item.member.title, item.text),
    lambda item: (*reading_order(item.member)[:2], item.member.title),
    lambda item: reading_order(item.member)[:2],
    lambda item: (item.text, item.member.kind) if item.text else item.member.source_id,
)
"""What makes one source of two, strongest first; a key counts where each side has it once."""


def _paired(base: list[Item], current: list[Item]) -> list[Pair]:
    pairs, left = [], [base, current]
    for key in KEYS:
        held: list[defaultdict[Hashable, list[Item]]] = [defaultdict(list), defaultdict(list)]
        for side, items in enumerate(left):
            for item in items:
                held[side][key(item)].append(item)
        shared = {one for one, items in held[0].items() if len(items) == 1 == len(held[1][one])}
        pairs += [Pair(before, after, after.member) for before, after in ((held[0][one][0], held[1][one][0]) for one in shared)]
        left = [[item for item in items if key(item) not in shared] for items in left]
    pairs += [Pair(item, None, item.member) for item in left[0]] + [Pair(None, item, item.member) for item in left[1]]
    return sorted(pairs, key=lambda pair: reading_order(pair.member))


def _told(name: str, item: Item) -> dict[str, Any]:
    return {"source": name, "reason": item.reason, "lines": len(item.text.splitlines()), "required": item.required}


def _changed(name: str, before: Item, after: Item) -> dict[str, Any]:
    """The changed lines of a text, as a unified diff without its head."""
    found = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), n=1, lineterm="")
    lines = [line[:WIDTH] + ("…" if len(line) > WIDTH else "") for line in list(found)[2:]]
    return {"source": name, "lines": lines[:LINES], "lines_left_out": max(0, len(lines) - LINES)}


def _marks(name: str, before: Item, after: Item) -> Iterator[dict[str, Any]]:
    """What else is said about a text that is in on both sides. Lines count where it begins elsewhere: one that grew is no other."""
    told: list[dict[str, Any]] = []
    begins = before.member.locator.line_start, after.member.locator.line_start
    for item in (before, after):
        member, locator = item.member, item.member.locator
        marks = {"authority": member.authority.value, "sensitivity": member.sensitivity.value, "required": item.required}
        marks |= {"kind": member.kind.value, "title": member.title, "path": locator.path}
        told.append(marks | ({"lines": f"{locator.line_start}-{locator.line_end}"} if begins[0] != begins[1] else {}))
    old, new = told
    return ({"source": name, "what": what, "before": old[what], "after": new[what]} for what in old if old[what] != new[what])


def _contradictions(base: Side, current: Side, pairs: list[Pair]) -> dict[str, list[list[str]]]:
    """The contradictions that came and went, by the names of their ends."""

    def ends(side: Side, number: int) -> set[frozenset[int]]:
        index = _indexed(pairs, number)
        return {frozenset((index[edge.source_node_id], index[edge.target_node_id])) for edge in contradictions(side.snapshot)}

    def named(found: set[frozenset[int]]) -> list[list[str]]:
        return sorted([pairs[position].name for position in sorted(pair)] for pair in found)

    before, after = ends(base, 0), ends(current, 1)
    return {"came": named(after - before), "went": named(before - after)}


def _indexed(pairs: list[Pair], side: int) -> dict[str, int]:
    items = [(pair.before, pair.after)[side] for pair in pairs]
    return {item.member.node_id: position for position, item in enumerate(items) if item and isinstance(item.member, Node)}


def _query(base: Side, current: Side, pairs: list[Pair]) -> list[dict[str, Any]]:
    """The rules that differ: members of the query, as the YAML calls them. Sources count as the same where they are paired."""
    if base.selection is None or current.selection is None:
        return []
    old, new = _rules(base, base.selection.content.query, pairs, 0), _rules(current, current.selection.content.query, pairs, 1)
    return [{"what": what, "before": old[what], "after": new[what]} for what in old if old[what] != new[what]]


def _rules(side: Side, query: Query, pairs: list[Pair], number: int) -> dict[str, Any]:
    index = _indexed(pairs, number)

    def named(node_ids: tuple[str, ...]) -> list[str]:
        return sorted(pairs[index[node_id]].name if node_id in index else "a source that is out" for node_id in node_ids)

    everything = side.graph is not None and len(query.seed_node_ids) == len(side.graph.content.nodes)
    return {
        "terms": list(query.terms),
        "identifiers": list(query.identifiers),
        "require": named(query.required_node_ids),
        "seeds": "all" if everything else named(query.seed_node_ids),
        "edges": [edge_type.value for edge_type in query.allowed_edge_types],
        "clearance": query.clearance.value,
        **{f"budget.{name}": getattr(query.budget, member) for name, member in BUDGETS.items()},
    }


def _not_compared(base: Side, current: Side) -> list[str]:
    """What a Snapshot without its chain leaves unknown."""
    missing = [
        ("selection", "the queries: a Selection is not at hand"),
        ("graph", "sources that are out: a Graph is not at hand"),
        ("compaction", "content digests: a Compaction is not at hand"),
    ]
    return [what for member, what in missing if getattr(base, member) is None or getattr(current, member) is None]
