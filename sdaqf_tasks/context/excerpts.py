"""This module finds excerpts: the section, the symbol, or the pieces of a file that a source means (PIPELINE 2).

Texts in, lines out; nothing here opens a file. Lines are those of FORMAT 5.3, 1-based and inclusive. Markdown and
Python count fewer breaks (LF, CR and CR LF alone) and FORMAT 5.3 counts those too, so a line of theirs is one or more
whole lines of ours: what is selected is what they mean, whatever breaks stand in strings and comments.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from sdaqf_tasks.errors import Invalid, Reason, printable
from sdaqf_tasks.formats.plain_yaml import LOOKED_AT
from sdaqf_tasks.formats.records import TEXT_CHARACTERS
from sdaqf_tasks.world import lines


class Span(NamedTuple):
    """Lines of FORMAT 5.3, 1-based, inclusive."""

    first: int
    last: int


class Heading(NamedTuple):
    """A heading, and its section: from its line to the line before the next heading of the same or a higher level."""

    level: int
    text: str
    span: Span


def characters(text: str, span: Span) -> int:
    """How many characters `span` selects."""
    return sum(map(len, _lines(text)[span.first - 1 : span.last]))


_FILES = 16
"""Files of which lines, headings and symbols are remembered: a manifest names one part of a file after the other."""


@lru_cache(_FILES)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(lines(text))


def headings(text: str) -> list[Heading]:
    """The ATX and Setext headings outside fences, in order (PIPELINE 2; blocks as CommonMark has them).

    A heading begins its line, after at most three spaces: what stands behind the mark of a list item or a quotation is
    none, and an underline makes none of a list item, a quotation, a table or a tag. Neither is anything one in code, in
    a comment, in `<pre>` and its kind, or in YAML front matter. Inline marks stay as they are written; `#`s that close
    a heading are no part of it, and the lines of a longer Setext heading are joined by a space.
    """
    rows, span = _rows(text), _counted(text)
    after = [len(rows) + 1] * 7  # the line of the next heading of each level
    found = []
    for level, name, line in reversed(list(_markdown(rows))):
        found.append(Heading(level, name, span(line, min(after[: level + 1]) - 1)))
        after[level] = line
    return found[::-1]


def section(text: str, wanted: str) -> Span:
    """The section whose heading's text equals `wanted`.

    Raises `Invalid` with MANIFEST_INVALID where there is none, with the nearest to write instead, or several.
    """
    return _only("heading", wanted, _sections(text))


@lru_cache(_FILES)
def _sections(text: str) -> tuple[tuple[str, Span], ...]:
    return tuple((heading.text, heading.span) for heading in headings(text))


def symbol(text: str, wanted: str) -> Span:
    """The function or class `wanted`, nested by dots, from its first decorator to its end.

    A definition under `if`, `try`, `with` and the like has the name that it would have without. Raises `Invalid` with
    MANIFEST_INVALID where there is none, or several (overloads, a property and its setter), or where this Python cannot
    parse the file.
    """
    return _only("symbol", wanted, _symbols(text))


@lru_cache(_FILES)
def _symbols(text: str) -> tuple[tuple[str, Span], ...]:
    span = _counted(text)
    return tuple((name, span(first, last)) for first, last, name in _python(_rows(text), span))


def part(text: str, written: tuple[str, str]) -> Span:
    """The lines of a part as a manifest writes it, ("section", "Rules") or symbol or lines; all of them where both are empty.

    Raises `Invalid` with MANIFEST_INVALID where the text has no such part.
    """
    kind, name = written
    if kind in ("section", "symbol"):
        return section(text, name) if kind == "section" else symbol(text, name)
    last = len(lines(text))
    first, _, end = name.partition("-")
    span = Span(int(first), int(end or first)) if kind else Span(1, last)
    if span.last > last:
        raise Invalid(Reason.MANIFEST_INVALID, f"it has {last} lines", todo=f"Write lines up to {last}.")
    return span


def part_of(text: str, written: tuple[str, str]) -> str:
    """The text of a part. Raises as `part`."""
    return selected(text, part(text, written))


def selected(text: str, span: Span) -> str:
    """The text of some lines, unaltered."""
    return "".join(_lines(text)[span.first - 1 : span.last])


def pieces(text: str, path: str, limit: int = TEXT_CHARACTERS) -> list[Span]:
    """Consecutive spans that hold every line once, each of at most `limit` characters (PIPELINE 2, Long files).

    What does not fit is cut before the last line that fits and matches the pattern of the path's suffix, else after the
    last line that fits. The rule is lexical: a `def` line that matches is parted from its decorator, and a line that is
    the first not to fit is not looked at. Raises `Invalid` with SOURCE_TEXT_LIMIT for a line that no piece can hold.
    """
    rows = lines(text)
    begins = _BEGINS.get(path[path.rfind(".") :], _NEVER)
    found, first = [], 0
    while first < len(rows):
        size, end, cut = 0, first, first
        while end < len(rows) and size + len(rows[end]) <= limit:
            size += len(rows[end])
            cut = end if begins.match(rows[end]) else cut
            end += 1
        if end == first:
            message = f"line {first + 1} alone has {len(rows[first]):,} characters; a source has at most {limit:,}"
            raise Invalid(Reason.SOURCE_TEXT_LIMIT, message, todo="Name a section, a symbol or lines without that line.")
        end = cut if first < cut and end < len(rows) else end
        found.append(Span(first + 1, end))
        first = end
    return found


_NEVER = re.compile(r"(?!)")
_HASHES = re.compile(r"^#{1,6} ")
_BEGINS = {".py": re.compile(r"^(?:async def|def|class|@)\b"), ".md": _HASHES, ".markdown": _HASHES}


def _rows(text: str) -> list[str]:
    """The lines of Markdown and Python, without breaks and byte order mark; an empty one follows a break at the end."""
    return re.split(r"\r\n?|\n", text.removeprefix("\ufeff"))


def _counted(text: str) -> Callable[[int, int], Span]:
    """Turns first and last line as Markdown and Python count them into a span; beyond the text is its last line."""
    numbers = list(accumulate((row.endswith(("\n", "\r")) for row in lines(text)), initial=1))[:-1]
    return lambda first, last: Span(min(bisect_left(numbers, first) + 1, len(numbers)), bisect_right(numbers, last))


def _only(kind: str, wanted: str, known: Sequence[tuple[str, Span]]) -> Span:
    spans = [span for name, span in known if name == wanted]
    if len(spans) == 1:
        return spans[0]
    if spans:
        where = ", ".join(f"{first}-{last}" for first, last in spans[:12]) + (", …" if len(spans) > 12 else "")
        todo = "Name the lines of the one that is meant, or rename the others."
        raise Invalid(Reason.MANIFEST_INVALID, f"{len(spans)} {kind}s are called {_shown([wanted])}: lines {where}", todo=todo)
    names = list(dict.fromkeys(name for name, _ in known if name))
    todo = f"It has no {kind}: name lines, or the whole file."
    if names:
        close = _nearest(wanted, names)
        todo = f"Nearest: {_shown(close)}" if close else f"It has: {_shown(names[:6])}" + (", …" if len(names) > 6 else "")
    raise Invalid(Reason.MANIFEST_INVALID, f"no {kind} is called {_shown([wanted])}", todo=todo)


def _nearest(wanted: str, names: Iterable[str]) -> list[str]:
    """At most three that were probably meant: the same without its marks, case or class, or spelled alike; of very many a part."""
    from difflib import get_close_matches  # rarely needed, and not cheap

    plain = {name.casefold()[:80]: name for name in names}
    word = wanted.strip("# \t").casefold()[:80]
    inner = [name for key, name in plain.items() if key.endswith("." + word)]
    return list(dict.fromkeys(inner + [plain[key] for key in get_close_matches(word, list(plain)[:LOOKED_AT])]))[:3]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(f'"{printable(name[:80])}"' for name in names)


# ---- Python ---------------------------------------------------------------------------------------------------------


def _python(rows: Sequence[str], span: Callable[[int, int], Span]) -> list[tuple[int, int, str]]:
    """First line, last line and dotted name of every definition, in order; lines are Python's."""
    import ast  # not cheap, and few sources are symbols
    import warnings

    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse("\n".join(rows))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        where = f"line {span(line, line).first}" if line else "too deep, or not the characters of a program"
        version = ".".join(map(str, sys.version_info[:2]))
        todo = "Name lines, correct the file, or run with the Python that it is written for."
        raise Invalid(Reason.MANIFEST_INVALID, f"this Python ({version}) cannot parse it: {where}", todo=todo) from None

    found: list[tuple[int, int, str]] = []
    left: list[tuple[str, ast.AST]] = [("", tree)]
    while left:
        outer, node = left.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = child.lineno
                if child.decorator_list:
                    # `ast` knows where the expression begins; parentheses and comments can put the `@` lines above it.
                    first = child.decorator_list[0].lineno
                    while not rows[first - 1].lstrip(" \t\f").startswith("@"):
                        first -= 1
                found.append((first, child.end_lineno or first, outer + child.name))
                left.append((f"{outer}{child.name}.", child))
            elif hasattr(child, "body") or isinstance(child, ast.Match):
                left.append((outer, child))
    return sorted(found)


# ---- Markdown -------------------------------------------------------------------------------------------------------

_ATX = re.compile(r"(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r"=+$|-+$")
_RULE = re.compile(r"([-*_])(?:[ \t]*\1){2,}$")
_FENCE = re.compile(r"((?:[-+*]|[0-9]{1,9}[.)])[ \t]+)?(?:(`{3,})[^`]*$|(~{3,}))")
_TABLE = r"(?=.*\|)\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$"
_TAG = r"</?[a-z][^<>]*>$|<(?:center|details|div|h[1-6]|p|summary|table)\b"
_OTHER = re.compile(rf">|(?:[-+*]|[0-9]{{1,9}}[.)])(?:[ \t]|$)|{_TAG}|{_TABLE}", re.IGNORECASE)
_DEFINITION = re.compile(r"\[[^\[\]]+\]:[ \t]*\S+(?:[ \t]+[\"'(].*)?$")
_RAW = re.compile(r"<(?:(!--)|(pre|script|style|textarea)(?:[ \t>]|$))", re.IGNORECASE)
_RAW_ENDS = re.compile("-->"), re.compile("</(?:pre|script|style|textarea)>", re.IGNORECASE)


def _markdown(rows: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Level, text and first line of every heading, in order; lines are Markdown's, counted from 1."""
    paragraph: list[str] = []  # the lines of the open paragraph
    begun, plain = 0, False  # its first line, and whether it is text alone, so that an underline makes a heading of it
    until: re.Pattern[str] | None = None  # what ends the open fence, comment or HTML block
    skipped = _front_matter(rows)

    for number, row in enumerate(rows[skipped:], skipped + 1):
        body = row.lstrip(" \t")
        indent, body = len(row[: len(row) - len(body)].expandtabs(4)), body.rstrip()
        if until:
            until = None if until.search(row) else until
        elif not body:
            paragraph = []
        elif indent >= 4:  # code, or a paragraph that goes on
            paragraph += [body] if paragraph else []
        elif atx := _ATX.match(body):
            paragraph = []
            yield len(atx[1]), _unclosed(body[atx.end() :].strip()), number
        elif fence := _FENCE.match(body):
            item, mark = fence[1], fence[2] or fence[3]
            paragraph, until = [], re.compile(rf"^ {{0,{'' if item else 3}}}{mark[0]}{{{len(mark)},}}\s*$")
        elif raw := _RAW.match(body):
            end = _RAW_ENDS[0 if raw[1] else 1]
            paragraph, until = [], None if end.search(body) else end
        elif plain and paragraph and _UNDERLINE.match(body):
            yield 1 if body[0] == "=" else 2, " ".join(paragraph).strip(), begun
            paragraph = []
        elif _RULE.match(body) or (not paragraph and _DEFINITION.match(body)):
            paragraph = []
        else:
            if not paragraph:
                begun, plain = number, True
            paragraph.append(body)
            plain = plain and not _OTHER.match(body)


def _unclosed(content: str) -> str:
    """The content of an ATX heading without the `#`s that close it, which stand apart."""
    shorter = content.rstrip("#")
    return content if shorter and not shorter[-1].isspace() else shorter.rstrip()


def _front_matter(rows: Sequence[str]) -> int:
    """How many lines at the top are YAML: those between `---` and `---` or `...`, and these."""
    if rows[0].rstrip() != "---" or not rows[1:] or not rows[1].strip():
        return 0
    return next((number for number, row in enumerate(rows[1:], 2) if row.rstrip() in ("---", "...")), 0)
