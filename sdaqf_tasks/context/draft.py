"""This module writes a first manifest: rows that are proposed, narrowed to what a manifest takes, as a person would write them.

Values in, text out; nothing here opens a file. `context.layout` finds the rows, `flow.init` asks the world.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from sdaqf_tasks.context.layout import Row
from sdaqf_tasks.formats.records import Kind

WEIGHTS = {Kind.SOURCE: 3, Kind.TEST: 1, Kind.DESIGN: 1}
"""How code, tests and documents share a manifest that does not take them all, in this order; what one leaves goes to the next."""

BUDGET = "256KiB"
RELATED = 100
"""Members that an alias may have to be related: each relation takes over half a KiB of the budget."""

EXCLUDES, FEW = 100, 20
"""What a glob may leave out before it is left out itself; and the files of one folder that are left out one by one."""


class Specification(NamedTuple):
    """The document, the part of it that fits (`section` or `lines`, as written) where not all of it does, and why."""

    path: str
    part: tuple[str, str] = ("", "")
    note: str = ""


class Part(NamedTuple):
    """An alias that is proposed: how many sources it has, whether the query requires it, and what to know."""

    row: Row
    sources: int = 0
    required: bool = False
    note: str = ""


def fitted(parts: Sequence[Part], names: Sequence[str], cost: Callable[[str], float], room: float) -> list[Part]:
    """The parts, narrowed where they are too much: folders are left out, and the note says which.

    `cost` is how much a file takes of `room`.
    """
    mine = [part.row.takes(names) for part in parts]
    tight = sum(cost(name) for group in mine for name in group) > room
    present = [kind for kind in WEIGHTS if any(part.row.kind is kind for part in parts)]
    upto = {kind: sum(WEIGHTS[each] for each in present[: present.index(kind) + 1]) for kind in present}
    found, used = [], 0.0
    for part, group in zip(parts, mine, strict=True):
        share = upto[part.row.kind] / upto[present[-1]] if tight and part.row.kind in present else 1
        kept, out = _narrowed(group, _folder(part.row.pattern), room * share - used, cost)
        if not kept or len(out) > EXCLUDES:
            continue
        used += sum(map(cost, kept))
        narrowed = part._replace(sources=len(kept))
        if out:
            many = len(group) - len(kept)
            named = ", ".join(out[:3]) + (f" and {len(out) - 3} more" if len(out) > 3 else "")
            left = f"{many:,} file{'s' * (many != 1)} too much: {named}"
            narrowed = narrowed._replace(row=part.row._replace(exclude=(*part.row.exclude, *out)), note=left)
        found.append(narrowed)
    return found


def _narrowed(names: Sequence[str], folder: str, room: float, cost: Callable[[str], float]) -> tuple[list[str], list[str]]:
    """What fits, and the globs that leave out the rest: small files and folders first; of those that are too much, the first
    folder is looked into."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    few = sum(1 for name in names if "/" not in name[len(folder) :]) <= FEW
    for name in names:
        child, slash, _ = name[len(folder) :].partition("/")
        groups[f"{folder}{child}/**" if slash else name if few else f"{folder}*"].append(name)
    size = {glob: sum(map(cost, group)) for glob, group in groups.items()}
    if sum(size.values()) <= room:
        return list(names), []
    kept: list[str] = []
    out: list[str] = []
    looked_into = False
    for glob in sorted(groups, key=lambda glob: (glob.endswith("/**"), size[glob], glob)):
        more, deeper = groups[glob], list[str]()
        if size[glob] > room:
            more, deeper = _narrowed(more, glob[:-2], room, cost) if glob.endswith("/**") and not looked_into else ([], [])
            looked_into = looked_into or glob.endswith("/**")
            out += deeper if more else [glob]
        kept += more
        room -= sum(map(cost, more))
    return kept, out


def _folder(pattern: str) -> str:
    """`src/` of `src/**/*.py`: what all names that a pattern means begin with."""
    return re.split(r"[^/]*[*?]", pattern)[0] if set(pattern) & set("*?") else pattern.rpartition("/")[0]


_HEAD = """\
# yaml-language-server: $schema=.schema.json
# What agents are told about this project. `sdaqf init` proposed it; it is yours to edit.
sdaqf: 1

# The one document that says what this project must do: always included, and when two sources disagree a reader goes by it."""
_PINNED = "  # Pinned: the lock says which version people have reviewed; after a change the build waits until somebody has read it."
_FOLLOWS = "  # These follow the tree: nobody has to review them for a build."


def manifest(specification: Specification, parts: Sequence[Part], *, roomy: bool) -> bytes:
    """The manifest as a person would write it.

    Where the budget is `roomy` for all of it, the query starts from everything; else from what is pinned and from code,
    since nothing else would rank one file before another.
    """
    member, value = specification.part
    path = _scalar(specification.path)
    rows = [_HEAD, f"specification: {f'{{path: {path}, {member}: {_scalar(value)}}}' if member else path}"]
    for title, pinned in ((_PINNED, True), (_FOLLOWS, False)):
        group = [part for part in parts if part.row.pinned is pinned]
        rows += (["", "sources:"] if group and "sources:" not in rows else [""] if group else []) + ([title] if group else [])
        rows += [line for part in group for line in _source(part.row)]
    verbs = {Kind.SOURCE: "implements", Kind.TEST: "verifies"}
    related = [f"  - {p.row.alias} {verbs[p.row.kind]} specification" for p in parts if p.row.kind in verbs and p.sources <= RELATED]
    rows += ["", "relationships:", *related] if related else []
    required = [part.row.alias for part in parts if part.required]
    first = [part.row.alias for part in parts if part.row.pinned or part.row.kind is Kind.SOURCE]
    code = any(part.row.kind is Kind.SOURCE for part in parts)
    rows += ["", "queries:", "  default:"]
    rows += ["    # In every context, or none is built."] * bool(required) + [f"    require: [{', '.join(required)}]"] * bool(required)
    if roomy or not code or len(first) == len(parts):
        rows += ["    # Everything above, as far as the budget goes.", "    seeds: all"]
    else:
        rows += ["    # As far as the budget goes; the others come in where a word leads to them, such as  terms: [retry, timeout]"]
        rows += [f"    seeds: [{', '.join(first)}]"]
    rows += [f"    budget: {BUDGET}"]
    return "".join(f"{row}\n" for row in rows).encode("utf-8")


def _source(row: Row) -> Iterator[str]:
    usual = row.pinned or row.kind in (Kind.SOURCE, Kind.TEST)
    if usual and not row.exclude and row.glob == ("*" in row.pattern):
        yield f"  {row.alias}: {row.kind.value} {row.pattern}"
        return
    yield f"  {row.alias}:"
    yield f"    {'glob' if row.glob else 'path'}: {_scalar(row.pattern)}"
    if row.exclude:
        yield "    exclude:"
        yield from (f"      - {_scalar(glob)}" for glob in row.exclude)
    yield f"    kind: {row.kind.value}"
    if not usual:
        yield "    pin: false"


def _scalar(text: str) -> str:
    """A string as YAML: plain where that is one, else quoted."""
    plain = re.fullmatch(r"[A-Za-z._][A-Za-z0-9._/*-]*|[1-9][0-9]*-[1-9][0-9]*", text) and text not in ("true", "false", "null")
    return text if plain else json.dumps(text, ensure_ascii=False)
