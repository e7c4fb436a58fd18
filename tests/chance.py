"""This module damages artifacts by chance, reproducibly: what a careless program, an editor or an attacker does to them.

A mutant is one artifact with one change. Half of them are mended afterwards: ids and digests fit their content again,
references follow and lists are sorted, so that a reader gets past the identities to the rules behind them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sdaqf_tasks.formats.artifacts import Artifact
from sdaqf_tasks.formats.records import Authority, EdgeType, FreshnessKind, Kind, RootScope, Sensitivity
from tests.builders import plain, resealed
from tests.keys import BEGIN, KEY

WORDS = [member.value for enumeration in (Authority, Sensitivity, Kind, RootScope, EdgeType, FreshnessKind) for member in enumeration]
LENGTHS = (40, 41, 100, 101, 128, 129, 240, 241, 500, 501, 4_000, 4_001, 65_536, 65_537)
NUMBERS = (-1, 0, 1, 3, 4, 6, 7, 8, 9, 100, 101, 1_023, 1_024, 4_096, 4_097, 16_384, 16_385, 1_000_000, 1_000_001, 8_388_609, 10**30)
ANYTHING: tuple[Any, ...] = (None, True, False, 0, 1, -1, "", "x", [], {}, 1.0, 0.5, ["x"], {"x": 1})
TEXTS = ("", " ", "\t", "\u200b", "\x85", "a\0b", "\ud800", "a\rb", "\x7f", KEY, f"{BEGIN} EC PRIVATE KEY-----")
PATHS = ("a/", "/a", "a//b", "./a", "a/..", "con", "a/nul.txt", "com0", "a.", "~a", "a\\b", "a b", "-a", ".git/x", f"{KEY}/b")
TIMES = (
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    "2026-07-31T00:00:00.0Z",
    "2026-02-30T00:00:00Z",
    "2026-07-31T24:00:00Z",
    "2026-07-31T00:00:00.1234567Z",
    "٢٠٢٦-07-31T00:00:00Z",
    "0000-01-01T00:00:00Z",
)

SORTED = (("sources", "source_id"), ("nodes", "node_id"), ("edges", "edge_id"), ("extracts", "node_id"), ("selected", "node_id"))


class Mutant(NamedTuple):
    value: Any
    data: bytes


def mutants(artifact: Artifact[Any], chance: random.Random, count: int) -> Iterator[Mutant]:
    """`count` mutants of one artifact, as values and as the bytes that give them."""
    whole = plain(artifact)
    for _ in range(count):
        inside = chance.random() < 0.95
        value = whole | {"content": _damaged(whole["content"], chance)} if inside else _damaged(whole, chance)
        if chance.random() < 0.7 and isinstance(value, dict):
            value = mended(value, whole)
        yield Mutant(value, json.dumps(value).encode())


def _damaged(value: Any, chance: random.Random) -> Any:
    """A copy with one change somewhere: at every level it is made here or further in."""
    if isinstance(value, dict) and value and chance.random() < 0.97:
        key = chance.choice(list(value))
        return value | {key: _damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.75:
        at = chance.randrange(len(value))
        return [*value[:at], _damaged(value[at], chance), *value[at + 1 :]]
    if chance.random() < 0.06:
        return chance.choice(ANYTHING)
    change = CHANGES.get(type(value))
    return change(value, chance) if change else chance.choice(ANYTHING)


def _members(value: dict[str, Any], chance: random.Random) -> Any:
    if value and chance.random() < 0.5:
        gone = chance.choice(list(value))
        return {key: item for key, item in value.items() if key != gone}
    return value | {chance.choice(("unexpected", "é", "Kind", "x" * 200, "\n")): 1}


def _items(value: list[Any], chance: random.Random) -> Any:
    turned = [value[::-1], chance.sample(value, len(value)), [], value[1:], value[:-1], value + value[:1], value[:1] + value]
    return chance.choice([*turned, value * 20, [f"{n:04}" for n in range(chance.choice((16, 17, 64, 65, 128, 129)))]])


def _number(value: int, chance: random.Random) -> Any:
    return chance.choice((value + 1, value - 1, -value, float(value), str(value), bool(value), chance.choice(NUMBERS)))


def _text(value: str, chance: random.Random) -> Any:
    """Another text of the same shape more often than not."""
    loud = (
        value + "\n",
        value + " ",
        " " + value,
        value + "\0",
        value.upper(),
        value.lower(),
        value[:-1],
        value + "x",
        "x" * chance.choice(LENGTHS),
    )
    like: tuple[str, ...] = TEXTS
    if value.startswith("CTX-"):
        head, digits = value[:-64], value[-64:]
        like = (f"{head}X-{digits}", f"{head}-{digits}", f"{head}{'A' * 54}-{digits}", f"CTX-OTHER-{digits}", f"{head}{digits[::-1]}")
    elif re.fullmatch("[0-9A-Fa-f]{40,64}", value):
        like = (value[::-1], value[1:] + value[:1])
    elif re.match("[0-9]{4}-", value):
        like = TIMES
    elif value in WORDS:
        like = tuple(WORDS)
    elif re.fullmatch(r"[a-z0-9/-]+/[a-z0-9.-]+", value):
        like = PATHS
    return chance.choice(like if chance.random() < 0.7 else loud)


CHANGES: dict[type, Callable[[Any, random.Random], Any]] = {dict: _members, list: _items, str: _text, int: _number}


def mended(value: Any, original: Any) -> Any:
    """The same with ids and digests that fit, references that follow, and the lists of members sorted."""
    for _ in range(3):
        before = _own_ids(value)
        value = resealed(value)
        text = json.dumps(value)
        for old, new in zip(before, _own_ids(value), strict=True):
            if old != new and isinstance(old, str) and len(old) > 60:
                text = text.replace(json.dumps(old)[1:-1], new)
        value = _sorted(json.loads(text))
    return resealed(value)


def _own_ids(value: Any) -> list[Any]:
    """The ids of sources, nodes and edges, and the digests of texts, in order of appearance."""
    if isinstance(value, list):
        return [found for item in value for found in _own_ids(item)]
    if not isinstance(value, dict):
        return []
    own = [value.get(name) for name in ("source_id", "node_id", "edge_id", "text_sha256") if "locator" in value or "edge_id" in value]
    return own + [found for item in value.values() for found in _own_ids(item)]


def _sorted(value: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(value.get("content"), dict)):
        return value
    content = dict(value["content"])
    for name, own in SORTED:
        members = content.get(name)
        if isinstance(members, list) and all(isinstance(member, dict) and isinstance(member.get(own), str) for member in members):
            content[name] = sorted(members, key=lambda member: str(member[own]))
    return value | {"content": content}
