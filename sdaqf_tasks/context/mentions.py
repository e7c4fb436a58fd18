"""This module finds the paths that a Markdown document names: in inline code and in relative links (PIPELINE 3, dead-mention).

Text in, places out; whether anything is there is not asked here. A name may be meant from the document's folder or from the
top of the work tree, so both are given. What stands in fences, comments and front matter is an example, not a mention.
Nothing is taken that cannot be one file or folder of a work tree: URLs, globs, placeholders, options, plain words.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import unquote


class Mention(NamedTuple):
    """A place that a document names.

    `paths` are from the top of the work tree: as seen from the document's folder, then as seen from the top, where the two
    differ. `lines` are first and last, 1-based and inclusive, where they were given. `line` is where the document says it.
    """

    paths: tuple[str, ...]
    lines: tuple[int, int] | None
    line: int


_KNOWN = (
    "adoc bash bat c cc cfg clj conf cpp cs css csv dart ex exs go gradle graphql h hpp hs html ini ipynb java jl js json jsx kt kts "
    "less lock lua m md mdc mdx mjs ml nix php pl proto ps1 py pyi pyx r rb rs rst scala scss sh sql svelte swift tf toml ts tsx txt "
    "vue xml yaml yml zig"
)
SUFFIXES = frozenset(_KNOWN.split())
"""What a word without a slash must end in to be a file."""

LONGEST = 1_000
"""Characters that a name may have."""

_NEVER = frozenset("*?<>{}$|\\\0")
_FENCE = re.compile(r"[ \t>]*(?:(?:[-+*]|[0-9]{1,9}[.)])[ \t]+)?(?:(`{3,})[^`]*$|(~{3,}))")
_TICKS = re.compile("`+")
_LINK = re.compile(r"\]\([ \t]*(?:<([^<>]*)>|([^\s()<>]+))")
_DEFINITION = re.compile(r" {0,3}\[[^\[\]]+\]:[ \t]*(?:<([^<>]*)>|(\S+))")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])|//|#|\?")
_WORD = re.compile(r"([\w.@+/~-]+?)(?:[:#]L?([0-9]{1,7})(?:-L?([0-9]{1,7})|:[0-9]+)?|::[\w.:\[\]-]+)?")
_FRAGMENT = re.compile(r"L([0-9]{1,7})(?:-L?([0-9]{1,7}))?")


def mentions(text: str, path: str) -> list[Mention]:
    """What the Markdown `text` of the file `path` names, in order, the same place on one line once."""
    found: dict[Mention, None] = {}
    folder = posixpath.dirname(path)
    for line, row in _prose(text):
        if "`" not in row and "]" not in row:
            continue
        codes, rest = _inline_code(row)
        for word in (word for code in codes for word in code.split()):
            name, lines = _code(word)
            found |= _mention(folder, name, lines, line, bare=True)
        for match in [*_LINK.finditer(rest), *_DEFINITION.finditer(rest)]:
            name, lines = _link(match[1] or match[2] or "")
            found |= _mention(folder, name, lines, line)
    return list(found)


def _prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are neither in fences, comments nor front matter, counted from 1 as Markdown does."""
    rows = re.split(r"\r\n?|\n", text.removeprefix("\ufeff"))
    fence, comment, front = "", False, rows[0].rstrip() == "---" and "---" in (row.rstrip() for row in rows[1:])
    for line, row in enumerate(rows, 1):
        if front:
            front = line == 1 or row.rstrip() != "---"
        elif fence:
            closing = row.strip(" \t>")
            fence = "" if len(closing) >= len(fence) and not closing.strip(fence[0]) else fence
        elif not comment and (opening := _FENCE.match(row)):
            fence = opening[1] or opening[2]
        else:
            kept, rest = "", row
            while rest:
                before, mark, rest = rest.partition("-->" if comment else "<!--")
                kept += "" if comment else before
                comment = comment != bool(mark)
            yield line, kept


def _inline_code(row: str) -> tuple[list[str], str]:
    """The code spans of a line, and the line with blanks in their place. A run of ticks ends at the next of its length."""
    codes, rest, end = [], [], 0
    runs = [match.span() for match in _TICKS.finditer(row)]
    alone: set[int] = set()  # lengths of which no other run follows
    position = 0
    while position < len(runs):
        start, inner = runs[position]
        length, position = inner - start, position + 1
        if length in alone:
            continue
        closing = next((place for place in range(position, len(runs)) if runs[place][1] - runs[place][0] == length), None)
        if closing is None:
            alone.add(length)
            continue
        codes.append(row[inner : runs[closing][0]])
        rest.append(row[end:start])
        end, position = runs[closing][1], closing + 1
    return codes, " ".join([*rest, row[end:]])


def _code(word: str) -> tuple[str, tuple[int, int] | None]:
    """`src/a.py:41-58`, `src/a.py:12`, `src/a.py#L12`, `tests/test_a.py::test_it`; what is none of a path is empty."""
    match = _WORD.fullmatch(word)
    return (match[1], _range(match[2], match[3])) if match else ("", None)


def _link(target: str) -> tuple[str, tuple[int, int] | None]:
    """The path of a relative link, and the lines in its fragment."""
    if _URL.match(target):
        return "", None
    name, _, fragment = target.partition("#")
    name, lines = unquote(name.partition("?")[0]), _FRAGMENT.fullmatch(fragment)
    if lines is None and (match := _WORD.fullmatch(name)):
        return match[1], _range(match[2], match[3])
    return name, _range(lines[1], lines[2]) if lines else None


def _range(first: str | None, last: str | None) -> tuple[int, int] | None:
    if not first or not int(first):
        return None
    return int(first), max(int(first), int(last or first))


def _mention(folder: str, name: str, lines: tuple[int, int] | None, line: int, *, bare: bool = False) -> dict[Mention, None]:
    """The mention that `name` is, if it can be one. A `bare` word needs a slash or a known suffix, and is never absolute."""
    plain = name.strip("/")
    stem, _, suffix = plain.rpartition(".")
    is_file = bool(stem) and suffix.lower() in SUFFIXES
    if bare and (name.startswith(("/", "-", "~", "@")) or not ("/" in plain or name.endswith("/") or is_file)):
        return {}
    if not 0 < len(plain) <= LONGEST or "..." in plain or not _NEVER.isdisjoint(plain):
        return {}
    above = [""] if name.startswith("/") else [folder, ""]
    seen = (posixpath.normpath(posixpath.join(place, plain)) for place in above)
    paths = tuple(dict.fromkeys(path for path in seen if path != "." and path.split("/")[0] != ".."))
    return {Mention(paths, lines, line): None} if paths else {}
