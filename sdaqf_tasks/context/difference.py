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
    """One source on both sides, where it is."""

    before: Item | None
    after: Item | None

    @property
    def name(self) -> str:
        item = self.after or self.before
        return cite(item.member) if item else ""


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
        lost = {excluded.source_id: excluded.reason for excluded in side.graph.content.excluded_sources}
        items += [
            Item(source, lost[source.source_id], source.required) for source in side.manifest.content.sources if source.source_id in lost
        ]
    return sorted(items, key=_reading_order)


def _reading_order(item: Item) -> tuple[str, str, int, int]:
    locator = item.member.locator
    return locator.root_scope.value, locator.path, locator.line_start, locator.line_end


def _path(item: Item) -> Hashable:
    return item.member.locator.root_scope, item.member.locator.path


KEYS: tuple[Callable[[Item], Hashable], ...] = (
    lambda item: (_path(item), item.member.title, item.text),
    lambda item: (_path(item), item.member.title),
    _path,
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
        pairs += [Pair(held[0][one][0], held[1][one][0]) for one in shared]
        left = [[item for item in items if key(item) not in shared] for items in left]
    pairs += [Pair(item, None) for item in left[0]] + [Pair(None, item) for item in left[1]]
    return sorted(pairs, key=lambda pair: _reading_order(pair.after or pair.before))  # type: ignore[arg-type]


def _told(name: str, item: Item) -> dict[str, Any]:
    return {"source": name, "reason": item.reason, "lines": len(item.text.splitlines()), "required": item.required}


def _changed(name: str, before: Item, after: Item) -> dict[str, Any]:
    """The changed lines of a text, as a unified diff without its head."""
    found = difflib.unified_diff(before.text.splitlines(), after.text.splitlines(), n=1, lineterm="")
    lines = [line[:WIDTH] + ("…" if len(line) > WIDTH else "") for line in list(found)[2:]]
    return {"source": name, "lines": lines[:LINES], "lines_left_out": max(0, len(lines) - LINES)}


def _marks(name: str, before: Item, after: Item) -> Iterator[dict[str, Any]]:
    """What else is said about a text that is in on both sides."""
    one, other = before.member, after.member
    for mark, old, new in (
        ("authority", one.authority.value, other.authority.value),
        ("sensitivity", one.sensitivity.value, other.sensitivity.value),
        ("required", before.required, after.required),
        ("kind", one.kind.value, other.kind.value),
        ("title", one.title, other.title),
        ("path", one.locator.path, other.locator.path),
        ("lines", *_begins(one, other)),
    ):
        if old != new:
            yield {"source": name, "what": mark, "before": old, "after": new}


def _begins(one: Node | Source, other: Node | Source) -> tuple[str, str]:
    """The lines of both where they begin elsewhere; a text that only grew is no other span."""
    spans = [f"{member.locator.line_start}-{member.locator.line_end}" for member in (one, other)]
    return (spans[0], spans[1]) if one.locator.line_start != other.locator.line_start else ("", "")


def _contradictions(base: Side, current: Side, pairs: list[Pair]) -> dict[str, list[list[str]]]:
    """The contradictions that came and went, by the names of their ends."""
    shown = []
    for side, index in ((base, _indexed(pairs, 0)), (current, _indexed(pairs, 1))):
        shown.append({frozenset((index[e.source_node_id], index[e.target_node_id])) for e in contradictions(side.snapshot)})

    def named(ends: set[frozenset[int]]) -> list[list[str]]:
        return sorted([pairs[position].name for position in sorted(pair)] for pair in ends)

    return {"came": named(shown[1] - shown[0]), "went": named(shown[0] - shown[1])}


def _indexed(pairs: list[Pair], side: int) -> dict[str, int]:
    return {item.member.node_id: n for n, pair in enumerate(pairs) if (item := pair[side]) and isinstance(item.member, Node)}


def _query(base: Side, current: Side, pairs: list[Pair]) -> list[dict[str, Any]]:
    """The rules that differ: members of the query, as the YAML calls them. Sources count as the same where they are paired."""
    rules = [
        _rules(side.selection.content.query, len(side.graph.content.nodes) if side.graph else None, _indexed(pairs, number), pairs)
        for number, side in enumerate((base, current))
        if side.selection
    ]
    if len(rules) < 2:
        return []
    old, new = rules
    return [{"what": what, "before": old[what], "after": new[what]} for what in old if old[what] != new[what]]


def _rules(query: Query, nodes: int | None, index: dict[str, int], pairs: list[Pair]) -> dict[str, Any]:
    def named(node_ids: tuple[str, ...]) -> list[str]:
        return sorted(pairs[index[node_id]].name if node_id in index else "a source that is out" for node_id in node_ids)

    return {
        "terms": list(query.terms),
        "identifiers": list(query.identifiers),
        "require": named(query.required_node_ids),
        "seeds": "all" if len(query.seed_node_ids) == nodes else named(query.seed_node_ids),
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
