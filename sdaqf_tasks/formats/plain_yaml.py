"""This module reads manifests: a plain part of YAML in which everything means what it looks like (PIPELINE 2, "YAML subset").

libyaml finds the events and the values are built from them here: no constructor, no resolver, no anchor ever runs.
Where libyaml is laxer than YAML 1.2, or reads something else than YAML 1.2 says, the text between and under its
events is looked at again, and what two parsers could read differently is refused with a rule that says its name.
Nothing here opens a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, cast

from yaml import events
from yaml.error import YAMLError

from sdaqf_tasks.errors import Invalid, Malformed, Reason, printable

Value: TypeAlias = "dict[str, Value] | list[Value] | str | int | None"
At: TypeAlias = tuple[int, int]
"""Line and column in characters, both from 0; what people see counts from 1."""

BYTES = 1_048_576  # of a manifest, inclusive
DEPTH = 32  # mappings and lists inside one another, inclusive; the root is the first
VALUES = 50_000  # the root included and keys not, inclusive; a manifest of 900 sources has ten thousand
DIGITS = 18  # of an integer, the sign not counted, inclusive
LOOKED_AT = 1_000  # known words that one may be meant

_LIBYAML = (0, 2, 5)
_WINDOW = 100
_LINE_ONE: At = (0, 0)

_FORBIDDEN = re.compile("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|\r(?!\n)")
_GAP = re.compile(r"(?:[ \r\n,:\[\]{}-]++|(?<![^ \n])#.*)*+")
"""All that may stand between two events: space, indicators, and comments that stand apart."""
_BLOCK_HEADER = re.compile(r"[|>]([0-9+-]*)( *#)?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_LONG_INTEGER = re.compile(r"-?[0-9]{19,}")
_WORDS = {"true": True, "false": False, "null": None}
_NODES = frozenset({events.ScalarEvent, events.MappingStartEvent, events.SequenceStartEvent, events.AliasEvent})
_PROPERTIES = frozenset("&*!%")

# Rules: what is wrong, and what to write instead
_QUOTE = 'Quote it: "…".'
_CLOSE = "Close the quote on its line."
_ALIGN = "Align the keys of a mapping and the dashes of a list; nothing follows a closing quote."
_DEEP = (f"nested deeper than {DEPTH} levels", "Write it flatter.")
_MANY = (f"more than {VALUES} values", "Write several manifests.")
_BLANK = ("a blank line above the text is longer than the text's indentation", "Remove the spaces from blank lines.")
_CHARACTERS = {
    "\t": ("a tab", "Indent and separate with spaces."),
    "\r": ("a carriage return without a line feed", "Save the file with ordinary line ends."),
    "\ufeff": ("a byte-order mark", "Save the file as UTF-8 without BOM."),
}
_SEVERAL = ("a second document begins, and a manifest is one", "Remove the line, or write a second file.")
_STARTS = {
    "*": ("a plain value cannot begin with `*`, the sign of an alias", 'Quote globs that begin with a star: "*.py".'),
    "&": ("a plain value cannot begin with `&`, the sign of an anchor", "Quote it, or write the value out wherever it is used."),
    "!": ("a plain value cannot begin with `!`, the sign of a tag", _QUOTE),
    "%": ("a plain value cannot begin with `%`, the sign of a directive", _QUOTE),
    "@": ("a plain value cannot begin with `@`", _QUOTE),
    "`": ("a plain value cannot begin with a backtick", _QUOTE),
}
_STRAY = {
    "?": ("a key is written without `?`", "Write `key: value`; quote a key that begins with `?`."),
    "#": ("a comment directly after something", "Put a space before `#`, or quote what holds it."),
}
_PROBLEMS = {
    "mapping values are not allowed in this context": ("a `: ` where no key can be", 'Quote a value that holds `: `: "a: b".'),
    "block sequence entries are not allowed in this context": ("no list can begin here", "Begin it on its own line, or quote the value."),
    "could not find expected ':'": ("this is neither `key: value` nor a list item", "Write `key: value`; use `|` for longer text."),
    "did not find expected key": ("this belongs neither to what is above nor to the mapping around it", _ALIGN),
    "did not find expected '-' indicator": ("this belongs neither to what is above nor to the list around it", _ALIGN),
    "did not find expected ',' or ']'": ("a list in brackets goes on with `,` or `]`", "Close it, or quote the item."),
    "did not find expected ',' or '}'": ("a mapping in braces goes on with `,` or `}`", "Close it, or quote the value."),
    "did not find expected node content": ("a value is missing here", 'Write it, or "" for an empty text; quote a value that begins so.'),
    "did not find expected <document start>": _SEVERAL,
    "found unexpected end of stream": ("the quote that opens here is never closed", _CLOSE),
    "found unexpected document indicator": ("the quote that opens here is not closed on its line", _CLOSE),
    "found invalid Unicode character escape code": ("the escape of a surrogate, or of no character", "Write the character itself."),
    "found unknown escape character": ("an unknown escape", "Write two backslashes, or use single quotes."),
    "found unexpected ':'": ("a `:` directly before a comma or a bracket", _QUOTE),
    "found character that cannot start any token": ("this character cannot begin a value", _QUOTE),
    "found incompatible YAML document": _STARTS["%"],
    "found undefined tag handle": _STARTS["!"],
    "mapping keys are not allowed in this context": _STRAY["?"],
    "exceeded maximum nesting depth": _DEEP,
}
_SHOWN_WHERE_IT_BEGAN = frozenset({"could not find expected ':'", "found unexpected document indicator"})

_Parts: TypeAlias = "Mapping[str | int, _Spot]"


class _Spot(NamedTuple):
    """Where a value and its key stand, and the same for what is inside it."""

    at: At
    key: At
    parts: _Parts


@dataclass(frozen=True, eq=False)
class Document:
    """A manifest's value, and where in the text each part of it stands.

    A place is asked for with a path of keys and indices; a path that leads nowhere stands for its nearest ancestor.
    """

    name: str
    value: dict[str, Value]
    lines: tuple[str, ...] = field(repr=False)
    root: _Spot = field(repr=False)

    def place(self, path: Sequence[str | int], key: bool = False) -> str:
        """`name:line:column` of the value at `path`, or of its key; both counted from 1, columns in characters."""
        return _place(self.name, self._find(path, key))

    def excerpt(self, path: Sequence[str | int], key: bool = False) -> tuple[str, ...]:
        """The line of that place and a caret under it: at most about 100 characters, all of them printable."""
        return _excerpt(self.lines, self._find(path, key))

    def fault(
        self,
        path: Sequence[str | int],
        message: str,
        *,
        todo: str | None = None,
        key: bool = False,
        reason: Reason = Reason.MANIFEST_INVALID,
    ) -> Invalid:
        """The error, to be raised, that shows what stands at `path`."""
        return Invalid(reason, message, at=self.place(path, key), todo=todo, excerpt=self.excerpt(path, key))

    def _find(self, path: Sequence[str | int], key: bool) -> At:
        spot = self.root
        for step in path:
            inner = spot.parts.get(step)
            if inner is None:
                break
            spot = inner
        return spot.key if key else spot.at


def load(data: bytes, name: str) -> Document:
    """The document in `data`; `name` is what its errors call it.

    Values are dict (keys are str, in the order of the text), list, str, bool, int and None. What they mean, and
    whether a text holds control characters by way of escapes, is *not* checked; only NUL is refused.

    Raises `Malformed` with `name:line:column` and an excerpt: `too-large`, `not-utf8`, or `malformed-yaml` for
    everything else that PIPELINE 2 does not allow.
    """
    if len(data) > BYTES:
        raise Malformed(Reason.TOO_LARGE, f"{len(data)} bytes; a manifest has at most {BYTES}", at=_place(name, _LINE_ONE))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        at, lines = _end_of(data[: error.start].decode("utf-8")), _lines(data.decode("utf-8", "backslashreplace"))
        raise Malformed(Reason.NOT_UTF8, "this byte is not UTF-8", at=_place(name, at), excerpt=_excerpt(lines, at)) from None
    return _Reader(text, name).document()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, or None. Of very many only the first are looked at."""
    from difflib import get_close_matches  # rarely needed, and not cheap

    return next(iter(get_close_matches(word[:80], sorted(known)[:LOOKED_AT], n=1)), None)


class _Around(NamedTuple):
    """What a value stands in: how deep, the column of the innermost block (-1 above the root), whether between brackets."""

    depth: int
    column: int
    in_flow: bool


class _Reader:
    """One pass over libyaml's events; `_end` is the index of the first character that no event has covered."""

    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._lines = _lines(text)
        self._end = 0
        self._values = 0

    def document(self) -> Document:
        if found := _FORBIDDEN.search(self._text):
            written = (f"the character U+{ord(found[0]):04X}", 'Remove it, or write it as an escape in double quotes, such as "\\u2028".')
            raise self._refusal(_end_of(self._text[: found.start()]), *_CHARACTERS.get(found[0], written))
        if not self._text.endswith("\n"):
            raise self._refusal(_end_of(self._text), "the file must end in a line feed", "End the last line with Enter.")
        self._lines = self._lines[:-1]
        self._events = _parser(self._text, self._name)
        self._next()  # the stream
        start = self._next()
        event = self._next() if type(start) is events.DocumentStartEvent else start
        if type(event) is not events.MappingStartEvent:
            raise self._refusal(_at(event), "a manifest is a mapping", "Begin with `key: value`.")
        value, root = self._node(event, None, _Around(0, -1, False))
        self._next()  # the end of the document
        after = self._next()
        if type(after) is not events.StreamEndEvent:
            raise self._refusal(_at(after), *_SEVERAL)
        return Document(self._name, cast(dict[str, Value], value), self._lines, root)

    def _next(self) -> Any:
        """The next event, after looking at what stands before it and how it begins."""
        try:
            event: Any = self._events.get_event()
        except YAMLError as error:
            raise self._explained(error) from None
        text, kind, start = self._text, type(event), event.start_mark.index
        gap = _GAP.match(text, self._end, start)
        if gap and gap.end() < start:
            stray = _STRAY.get(text[gap.end()], ("this belongs to nothing", _QUOTE))
            raise self._refusal(_end_of(text[: gap.end()]), *stray)
        first = text[start : start + 1]
        if first in _PROPERTIES and (kind in _NODES or (kind is events.DocumentStartEvent and first == "%")):
            raise self._refusal(_at(event), *_STARTS[first])
        # the start of a collection may cover the `?` of its first key, which belongs to the next gap
        self._end = start if kind is events.MappingStartEvent or kind is events.SequenceStartEvent else event.end_mark.index
        return event

    def _node(self, event: Any, key: At | None, around: _Around) -> tuple[Value, _Spot]:
        kind, at = type(event), _at(event)
        self._values += 1
        if self._values > VALUES:
            raise self._refusal(at, *_MANY)
        if kind is events.ScalarEvent:
            return self._scalar(event, key or at, around.column), _Spot(at, key or at, {})
        if around.depth == DEPTH:
            raise self._refusal(at, *_DEEP)
        flow = bool(event.flow_style)
        inside = _Around(around.depth + 1, around.column if flow else at[1], flow)
        value, parts, end = self._mapping(inside) if kind is events.MappingStartEvent else self._list(inside)
        if flow and not around.in_flow:
            self._check_brackets(at[0], end, around.column)
        return value, _Spot(at, key or at, parts)

    def _mapping(self, inside: _Around) -> tuple[Value, _Parts, At]:
        value: dict[str, Value] = {}
        parts: dict[str | int, _Spot] = {}
        while type(event := self._next()) is not events.MappingEndEvent:
            key, at = self._key(event), _at(event)
            if key in value:
                raise self._refusal(at, f"the key {_show(key)} stands twice, first on line {parts[key].key[0] + 1}", "Keep one of them.")
            value[key], parts[key] = self._node(self._next(), at, inside)
        return value, parts, _at(event)

    def _list(self, inside: _Around) -> tuple[Value, _Parts, At]:
        value: list[Value] = []
        parts: dict[str | int, _Spot] = {}
        while type(event := self._next()) is not events.SequenceEndEvent:
            item, parts[len(value)] = self._node(event, None, inside)
            value.append(item)
        return value, parts, _at(event)

    def _key(self, event: Any) -> str:
        at = _at(event)
        if type(event) is not events.ScalarEvent:
            raise self._refusal(at, "a key is a text, not a mapping or a list", _QUOTE)
        key = self._scalar(event, at, -1)
        if not isinstance(key, str):
            raise self._refusal(at, f"the key {event.value} is not a text", f'Quote it: "{event.value}".')
        if key in ("<<", "="):
            raise self._refusal(at, f"the key `{key}` has a meaning of its own in YAML", "Write the values out, or use another key.")
        return key

    def _scalar(self, event: Any, owner: At, column: int) -> str | int | None:
        """The value of a scalar in a block at `column`; where nothing is written, the `owner` is shown."""
        value: str = event.value
        if not event.style:
            if not value:
                raise self._refusal(owner, "an empty value", 'Write a value, or "" for an empty text.')
            if value in _WORDS:
                return _WORDS[value]
            if value == "-" and self._text[self._end] in ",[]{}":
                raise self._refusal(_at(event), "a dash alone between brackets", _QUOTE)
            if _LONG_INTEGER.fullmatch(value):
                raise self._refusal(_at(event), f"a number of more than {DIGITS} digits", _QUOTE)
            return int(value) if _INTEGER.fullmatch(value) else value
        if "\0" in value:
            raise self._refusal(_at(event), "the escape of a NUL", "Leave it out.")
        if event.style in "|>":
            self._check_block(event, column)
        elif event.start_mark.line != event.end_mark.line:
            raise self._refusal(_at(event), "a quoted text on several lines", _CLOSE)
        return value

    def _check_block(self, event: Any, column: int) -> None:
        """Refuse what libyaml allows around a block scalar and YAML 1.2 (8.1) does not.

        Without an indicator libyaml takes the longest leading blank line for the indentation, and reads the text
        below it as something else.
        """
        line, start = at = _at(event)
        header = _BLOCK_HEADER.match(self._text, event.start_mark.index)
        if header is None or header[2]:
            raise self._refusal(at, "a comment after the sign of a block of text", "Put the comment on the line above.")
        if start <= column:
            raise self._refusal(at, "a block of text begins no deeper than what it belongs to", "Put its sign after the key or the dash.")
        indicator = header[1].strip("+-")
        longest = 0
        for number in range(line + 1, len(self._lines)):
            indentation = _indentation(self._lines[number])
            if indentation < len(self._lines[number]):
                if not indicator and column < indentation < longest:
                    raise self._refusal(at, *_BLANK)
                break
            longest = max(longest, indentation)
        if indicator and longest > max(column, 0) + int(indicator):
            raise self._refusal(at, *_BLANK)

    def _check_brackets(self, first: int, end: At, column: int) -> None:
        """Refuse lines between brackets that are not deeper than the block they are in (YAML 1.2, 7.4)."""
        for number in range(first + 1, end[0] + 1):
            line = self._lines[number]
            indentation = _indentation(line)
            if indentation <= column and line[indentation : indentation + 1] not in ("", "#"):
                message = "a line between brackets is indented no deeper than what they belong to"
                raise self._refusal((number, indentation), message, f"Indent it by {column + 2} or more.")

    def _explained(self, error: Any) -> Malformed:
        """What libyaml could not read, in our words."""
        problem, context = str(getattr(error, "problem", error)), str(getattr(error, "context", ""))
        marks = [getattr(error, name, None) for name in ("problem_mark", "context_mark")]
        places = [(mark.line, mark.column) for mark in marks if mark and mark.line < len(self._lines)] or [_LINE_ONE]
        line, column = places[-1]
        first = self._lines[line][column : column + 1] if self._lines else ""
        if first in _STARTS and context.startswith("while scanning"):
            return self._refusal(places[-1], *_STARTS[first])
        at = places[-1 if problem in _SHOWN_WHERE_IT_BEGAN else 0]
        return self._refusal(at, *_PROBLEMS.get(problem, (f"this is not YAML: {problem}", _QUOTE)))

    def _refusal(self, at: At, message: str, todo: str) -> Malformed:
        where, excerpt = _place(self._name, at), _excerpt(self._lines, at)
        return Malformed(Reason.MALFORMED_YAML, message, at=where, todo=todo, excerpt=excerpt)


def _parser(text: str, name: str) -> Any:
    """libyaml's parser; the pure one of PyYAML, and older libyamls, judge differently."""
    try:
        from yaml._yaml import CParser, get_version
    except ImportError:
        found = "there is none"
    else:
        if get_version() >= _LIBYAML:
            return CParser(text)
        found = f"this one is {'.'.join(map(str, get_version()))}"
    message = f"reading YAML needs PyYAML with libyaml {'.'.join(map(str, _LIBYAML))} or newer, and {found}"
    todo = "pip install --force-reinstall --only-binary=:all: PyYAML"
    raise Malformed(Reason.MALFORMED_YAML, message, at=_place(name, _LINE_ONE), todo=todo)


def _at(event: Any) -> At:
    return event.start_mark.line, event.start_mark.column


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.removesuffix("\r") for line in text.split("\n"))


def _end_of(text: str) -> At:
    return text.count("\n"), len(text) - (text.rfind("\n") + 1)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _place(name: str, at: At) -> str:
    return f"{name}:{at[0] + 1}:{at[1] + 1}"


def _excerpt(lines: Sequence[str], at: At) -> tuple[str, ...]:
    line, column = at
    text = lines[line] if line < len(lines) else ""
    start = max(0, min(column - _WINDOW // 2, len(text) - _WINDOW))
    before, after = printable(text[start:column]), printable(text[column : start + _WINDOW])
    return f"  | {before}{after}", f"  | {' ' * len(before)}^"


def _show(word: str) -> str:
    return f"`{printable(word[:60])}{'…' if len(word) > 60 else ''}`"
