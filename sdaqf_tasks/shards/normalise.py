"""This module turns source text into normalised lines, by a table a kind of file (ABSTRACTIONS 3, step 2).

The tables are data and are versioned together: a record names the `VERSION` that made it, and any change of a table or
of the reading below is a new one. Text is read line by line (FORMAT 5.3, whatever the language calls a line), from left
to right, once; no expression backtracks, and any text is read.

What is not known: whether the text begins inside a string or a comment. It is read as if it did not. Block comments do
not nest, what a template string embeds is part of the string, here-documents and regular expression literals are read
as code, and a string that does not span lines ends with its line.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Mapping
from typing import NamedTuple

from sdaqf_tasks.world import TERMINATORS, lines

VERSION = "1"

IDENTIFIER, NUMBER, STRING = "id", "#", "str"
"""What stands for an identifier that is not capitalised, for a number, and for a string."""

SILENT = frozenset({IDENTIFIER, NUMBER, STRING, *"()[]{},;:.\\\"'`"})
"""Lexemes that are no tokens: the three above, and brackets, separators, quotes and backslashes that stand alone."""

_NAME = r"[A-Za-z_\x80-\U0010FFFF][0-9A-Za-z_\x80-\U0010FFFF]*+"
_DIGITS = r"0[xX][0-9A-Za-z_]++|\.?[0-9](?:[eE][+-][0-9]|\.[0-9]|[0-9A-Za-z_])*+"


class Quote(NamedTuple):
    """A kind of string: an expression that opens it, the text that closes it, whether `\\` takes the next character along."""

    opens: str
    closes: str
    escape: bool = True
    spans: bool = False


class Language(NamedTuple):
    """How a kind of file is read.

    `comments`, `identifier` and `number` are expressions, a comment running to the end of its line; `blocks` are the
    texts that open and close a comment; `quotes` are tried in their order; `operators` stand longest first.
    """

    name: str
    suffixes: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    quotes: tuple[Quote, ...] = ()
    identifier: str = _NAME
    number: str = _DIGITS
    operators: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()


class Line(NamedTuple):
    """A normalised line: its lexemes joined by one space, and those of them that are tokens."""

    pattern: str
    tokens: tuple[str, ...]


# ---- the tables -----------------------------------------------------------------------------------------------------


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_DOLLAR_NAME = r"#?[A-Za-z_$\x80-\U0010FFFF][0-9A-Za-z_$\x80-\U0010FFFF]*+"
_PARTED_DIGITS = r"0[xX](?:'?[0-9A-Za-z_])++|\.?[0-9](?:[eE][+-][0-9]|\.[0-9]|'?[0-9A-Za-z_])*+"
_SLASHES, _STARS = ("//",), (("/*", "*/"),)

PYTHON = Language(
    name="Python",
    suffixes=_words("py pyi pyw"),
    comments=("#",),
    quotes=tuple(Quote("[bBfFrRtTuU]{0,2}" + mark, mark, spans=len(mark) == 3) for mark in ('"""', "'''", '"', "'")),
    operators=_words("**= //= >>= <<= ... -> := == != <= >= += -= *= /= %= @= &= |= ^= ** // << >>"),
    keywords=_words("""
        False None True and as assert async await break case class continue def del elif else except finally for from global if import in
        is lambda match nonlocal not or pass raise return try while with yield"""),
)
JAVASCRIPT = Language(
    name="JavaScript, TypeScript",
    suffixes=_words("js jsx mjs cjs ts tsx mts cts"),
    comments=_SLASHES,
    blocks=_STARS,
    quotes=(Quote('"', '"'), Quote("'", "'"), Quote("`", "`", spans=True)),
    identifier=_DOLLAR_NAME,
    operators=_words(">>>= === !== **= <<= >>= >>> &&= ||= ??= ... => == != <= >= && || ?? ?. ++ -- += -= *= /= %= &= |= ^= << >> **"),
    keywords=_words("""
        abstract as async await break case catch class const continue debugger declare default delete do else enum export extends false
        finally for from function if implements import in instanceof interface keyof let namespace new null of private protected public
        readonly return satisfies static super switch this throw true try type typeof undefined var void while with yield"""),
)
C_FAMILY = Language(
    name="C family",
    suffixes=_words("c h cc cpp cxx hh hpp hxx cs go java kt kts rs scala swift"),
    comments=_SLASHES,
    blocks=_STARS,
    quotes=(
        Quote('"""', '"""', spans=True),
        *(Quote(opens, closes, escape=False, spans=True) for opens, closes in ((r'R"\(', ')"'), ('r#"', '"#'), ('[r@]"', '"'), ("`", "`"))),
        Quote('(?:u8|[LUubc$])?"', '"'),
        Quote(r"'(?=\\|[^'\\]')", "'"),  # one character: the lifetimes of Rust open nothing
    ),
    identifier="#?" + _NAME,
    number=_PARTED_DIGITS,
    operators=_words("""
        >>>= <=> === !== <<= >>= >>> ... ..= ..< -> => :: := <- == != <= >= && || ?? ?. ?: !! ++ -- += -= *= /= %= &= |= ^= << >> .. ##"""),
    keywords=_words("""
        #define #elif #else #endif #if #ifdef #ifndef #include #pragma #undef abstract as async auto await bool boolean break byte case
        catch chan char class const constexpr continue crate data decimal default defer delegate delete do double dyn else enum explicit
        extends extension extern fallthrough false final finally float fn for foreach friend fun func go goto guard if impl implements
        import in inline instanceof int interface internal is let lock long loop match mod move mut namespace native new nil noexcept
        null nullptr object operator out override package private protected protocol pub public range readonly ref register return
        sealed select self short signed sizeof static struct super switch synchronized template this throw throws trait transient true
        try type typedef typename union unsafe unsigned use using val var virtual void volatile when where while yield"""),
)
ZIG = Language(
    name="Zig",
    suffixes=_words("zig zon"),
    comments=_SLASHES,
    quotes=(Quote('"', '"'), Quote("'", "'"), Quote(r"\\\\", "\n", escape=False)),  # the last ends with its line: no line holds its end
    operators=_words(
        "<<|= <<= >>= *%= *|= +%= +|= -%= -|= <<| ... => == != <= >= += -= *= /= %= &= |= ^= << >> || ++ ** +% +| -% -| *% *| .* .? .."
    ),
    keywords=_words("""
        addrspace align allowzero and anyframe anytype asm break callconv catch comptime const continue defer else enum errdefer error
        export extern false fn for if inline linksection noalias noinline nosuspend null opaque or orelse packed pub resume return struct
        suspend switch test threadlocal true try undefined union unreachable usingnamespace var volatile while"""),
)
SHELL = Language(
    name="shell",
    suffixes=_words("sh bash bats ksh zsh"),
    comments=(r"(?<![^ \t;&|()])#",),  # where a word begins
    quotes=(Quote('[$]?"', '"', spans=True), Quote("[$]'", "'", spans=True), Quote("'", "'", escape=False, spans=True)),
    operators=_words("$(( <<< <<- ;;& && || ;; ;& |& &> >& <& << >> $( ${ (( )) [[ ]] == != =~ += -- :- :="),
    keywords=_words("""
        break case continue declare do done elif else esac eval exec exit export fi for function if in local readonly return select set
        shift source test then time trap unset until wait while"""),
)
PLAIN = Language(name="plain text", operators=_words("... -> => <- :: := == != <= >= && || --"))

TABLES = (PYTHON, JAVASCRIPT, C_FAMILY, ZIG, SHELL, PLAIN)
_BY_SUFFIX = {suffix: table for table in TABLES for suffix in table.suffixes}


def language(path: str) -> Language:
    """The table for a file: by what follows the last dot of its name, in any case; plain text for everything else."""
    _, dot, suffix = path.rpartition("/")[2].rpartition(".")
    return _BY_SUFFIX.get(suffix.lower(), PLAIN) if dot else PLAIN


# ---- the reading ----------------------------------------------------------------------------------------------------


def normalise(text: str, language: Language) -> tuple[Line, ...]:
    """One `Line` for each line of the text (FORMAT 5.3), the last one too if it is empty because the text is.

    A string stands as `str` in the line where it begins; a string or block comment that is not closed runs to the end
    of the text. A capitalised identifier begins with A to Z; lower case changes these letters alone, so that no version
    of Unicode plays a part. A character that no expression takes is an operator, controls and spaces of ASCII separate.
    Takes time linear in the text. Raises nothing.
    """
    reader, inside, found = _reader(language), None, []
    for line in lines(text):
        lexemes, inside = _read(line.rstrip(TERMINATORS), reader, inside)
        found.append(Line(" ".join(lexemes), tuple(lexeme for lexeme in lexemes if lexeme not in SILENT)))
    return tuple(found)


class _Stretch(NamedTuple):
    """A comment or a string: what it leaves in the line, the expression to its end, whether that may be lines away."""

    mark: tuple[str, ...]
    rest: re.Pattern[str]
    spans: bool


class _Reader(NamedTuple):
    """A table made ready: the expression of one lexeme, and what the groups of it open that are stretches."""

    lexeme: re.Pattern[str]
    stretches: Mapping[str, _Stretch]
    keywords: frozenset[str]


def _read(line: str, reader: _Reader, inside: _Stretch | None) -> tuple[list[str], _Stretch | None]:
    """The normalised lexemes of a line that begins `inside` a stretch or in none, and what the next line begins inside."""
    lexemes: list[str] = []
    at = 0
    while True:
        if inside is not None:
            rest = inside.rest.match(line, at)
            if rest is None:
                return lexemes, inside if inside.spans else None
            at = rest.end()
        found = reader.lexeme.match(line, at)
        if found is None:
            return lexemes, None
        kind, at = str(found.lastgroup), found.end()
        inside = reader.stretches.get(kind)
        lexemes.extend(inside.mark if inside else (_normalised(kind, found[kind], reader.keywords),))


_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _normalised(kind: str, lexeme: str, keywords: frozenset[str]) -> str:
    if kind == "number":
        return NUMBER
    if kind == "operator" or lexeme in keywords:
        return lexeme
    return lexeme.translate(_LOWER) if lexeme[0] in string.ascii_uppercase else IDENTIFIER


@functools.cache
def _reader(language: Language) -> _Reader:
    kinds = [
        *((opens, _stretch("\n", spans=False)) for opens in language.comments),
        *((re.escape(opens), _stretch(closes, spans=True)) for opens, closes in language.blocks),
        *((opens, _stretch(closes, STRING, escape=escape, spans=spans)) for opens, closes, escape, spans in language.quotes),
    ]
    groups = [f"(?P<stretch{index}>{opens})" for index, (opens, _) in enumerate(kinds)]
    operators = "|".join([*map(re.escape, language.operators), "."])
    groups += [f"(?P<number>{language.number})", f"(?P<identifier>{language.identifier})", f"(?P<operator>{operators})"]
    lexeme = re.compile(rf"[\x00-\x20\x7F]*+(?:{'|'.join(groups)})", re.DOTALL)
    return _Reader(lexeme, {f"stretch{index}": stretch for index, (_, stretch) in enumerate(kinds)}, frozenset(language.keywords))


def _stretch(closes: str, *mark: str, escape: bool = False, spans: bool) -> _Stretch:
    end = re.escape(closes)
    taken = r"\\.|" if escape else ""
    return _Stretch(mark, re.compile(f"(?:{taken}(?!{end}).)*+{end}", re.DOTALL), spans)
