"""This module writes a first manifest as a person would write it. Values in, text out; `context.layout` finds the parts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sdaqf_tasks.context.layout import Part
from sdaqf_tasks.formats.records import Kind


class Specification(NamedTuple):
    """The document, the part of it that fits (`section` or `lines`, as written) where not all of it does, and why."""

    path: str
    part: tuple[str, str] = ("", "")
    note: str = ""


_HEAD = """\
# yaml-language-server: $schema=.schema.json
# What agents are told about this project. `sdaqf init` proposed it; it is yours to edit.
sdaqf: 1

# The one document that says what this project must do: always included, and when two sources disagree a reader goes by it."""
_PINNED = "  # Pinned: the lock says which version people have reviewed; after a change the build waits until somebody has read it."
_FOLLOWS = "  # These follow the tree: nobody has to review them for a build."
_REQUIRED = "    # In every context, or none is built."
_QUERY = """\
    # Everything above, as far as the budget goes.
    seeds: all
    budget: 256KiB"""


def manifest(specification: Specification, parts: Sequence[Part]) -> bytes:
    """The manifest, with one query that starts from all parts."""
    member, value = specification.part
    path = _scalar(specification.path)
    rows = [_HEAD, f"specification: {f'{{path: {path}, {member}: {_scalar(value)}}}' if member else path}", ""]
    rows += ["sources:"] if parts else []
    for title, pinned in ((_PINNED, True), (_FOLLOWS, False)):
        group = [line for part in parts if part.pinned is pinned for line in _source(part)]
        rows += [title, *group, ""] if group else []
    required = ", ".join(part.alias for part in parts if part.required)
    rows += ["queries:", "  default:", *([_REQUIRED, f"    require: [{required}]"] if required else []), _QUERY]
    return "".join(f"{row}\n" for row in rows).encode("utf-8")


def _source(part: Part) -> Iterator[str]:
    as_usual = part.pinned == (part.kind not in (Kind.SOURCE, Kind.TEST))
    if as_usual and not part.exclude:
        yield f"  {part.alias}: {part.kind.value} {part.pattern}"
        return
    yield f"  {part.alias}:"
    yield f"    {'glob' if part.is_glob else 'path'}: {_scalar(part.pattern)}"
    if part.exclude:
        yield "    exclude:"
        yield from (f"      - {_scalar(glob)}" for glob in part.exclude)
    yield f"    kind: {part.kind.value}"
    if not as_usual:
        yield "    pin: false"


def _scalar(text: str) -> str:
    """A string as YAML: plain where that is one, else quoted."""
    plain = re.fullmatch(r"[A-Za-z._][A-Za-z0-9._/*-]*|[1-9][0-9]*-[1-9][0-9]*", text) and text not in ("true", "false", "null")
    return text if plain else json.dumps(text, ensure_ascii=False)
