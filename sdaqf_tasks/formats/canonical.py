"""This module is the only door between bytes and JSON values: strict in, canonical out (FORMAT 1).

    load(data)      bytes  → value      refuses whatever FORMAT 1.1 refuses
    encode(value)   value  → C(x)       the bytes that are hashed and counted
    render(value)   value  → bytes      the same value as published: indented, one final line feed
    digest(data)    bytes  → SHA-256    64 uppercase hexadecimal digits

A value is plain JSON (dict, list, str, int, bool, None) or a record; equal values give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from sdaqf_tasks.errors import Malformed, Reason

ARTIFACT_BYTES = 16_777_216
"""Raw bytes of any artifact, inclusive."""

SMALL_BYTES = 1_048_576
"""Raw bytes of a Manifest, a Query or a host summary proposal, inclusive."""

VALUES = 250_000
"""Values that a document may have, the root included and keys not."""

DEPTH = 64
"""Depth that a value may stand at; the root stands at 0."""

INTEGER_DIGITS = 4_300
"""Digits of an integer literal, the sign not counted."""

_CHUNK = 500
_LARGEST = 10**INTEGER_DIGITS - 1
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A text; one that never ends goes on to the end, or it would be looked for at each of its quotes again."""
_TOO_DEEP = f"nested deeper than {DEPTH}"
_TOO_LONG = f"an integer of more than {INTEGER_DIGITS} digits"


def load(data: bytes, limit: int = ARTIFACT_BYTES) -> Any:
    """The value of strict JSON `data`.

    Raises `Malformed` with the place: `line:column` for grammar, the member's path for everything else.
    """
    if len(data) > limit:
        raise Malformed(Reason.TOO_LARGE, f"{len(data)} bytes; at most {limit} are read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(Reason.NOT_UTF8, f"byte {error.start} is not UTF-8") from None
    if _has_too_many(data):  # before they take their memory
        raise Malformed(Reason.MALFORMED_JSON, f"more than {VALUES} values")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_int=_integer, parse_float=_number, parse_constant=_number)
    except json.JSONDecodeError as error:
        why = "a byte-order mark" if text.startswith("\ufeff") else error.msg[:1].lower() + error.msg[1:]
        raise Malformed(Reason.MALFORMED_JSON, why, at=f"{error.lineno}:{error.colno}") from None
    except RecursionError:
        raise Malformed(Reason.MALFORMED_JSON, _TOO_DEEP) from None
    _check(value)
    return value


def encode(value: Any, *, of_records: bool = False, bounded: bool = True) -> bytes:
    """The canonical bytes `C(value)`: ASCII, keys ascending, no white space.

    `of_records` says that every member has been held against a contract narrower than the bounds here; a record itself
    always has. `bounded=False` leaves the number of values to a caller with bounds of its own. Raises `Malformed` where the
    value is over the bounds of FORMAT 1.1 (6), has a key outside ASCII, a lone surrogate, or a number that is no integer.
    """
    of_records = of_records or isinstance(value, msgspec.Struct)
    if not of_records:
        _check(value)
    try:
        data = msgspec.json.encode(value, order="sorted")
    except OverflowError:  # an integer of more than 64 bits
        return _dump(value)
    except UnicodeEncodeError:
        raise Malformed(Reason.MALFORMED_JSON, "a lone surrogate") from None
    if bounded and of_records and len(data) > VALUES:  # a value takes a byte at least
        _check(msgspec.to_builtins(value))
    # msgspec leaves U+007F and everything beyond ASCII as it is.
    return data if data.isascii() and b"\x7f" not in data else _dump(msgspec.to_builtins(value))


def render(value: Any) -> bytes:
    """The published bytes of FORMAT 1.3."""
    return msgspec.json.format(encode(value), indent=2) + b"\n"


def digest(data: bytes) -> str:
    """SHA-256 in 64 uppercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest().upper()


def identity(prefix: str, value: Any) -> str:
    """The id of a record, or of a mapping whose members are records: prefix and SHA-256 of `C(value)` (FORMAT 2.2)."""
    return prefix + digest(encode(value, of_records=True))


class _Fault(str):
    """Why a part of the text was refused, in the place of its value: the check says where that is."""

    __slots__ = ()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = (key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
    return found | dict.fromkeys(twice, _Fault("a key twice in one object"))


def _integer(literal: str) -> int | _Fault:
    # Counted by us: the interpreter's own limit can be set to anything.
    if len(literal) <= _CHUNK:
        return int(literal)
    digits = literal.removeprefix("-")
    if len(digits) > INTEGER_DIGITS:
        return _Fault(_TOO_LONG)
    value = 0
    for start in range(0, len(digits), _CHUNK):
        part = digits[start : start + _CHUNK]
        value = value * 10 ** len(part) + int(part)
    return -value if literal.startswith("-") else value


def _number(literal: str) -> _Fault:
    return _Fault(f"{literal[:20]} is not an integer")


def _dump(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _has_too_many(data: bytes) -> bool:
    """Whether commas, of which each stands between two values, or brackets, of which each opens one, tell of too many."""
    commas, brackets = data.count(b","), data.count(b"[") + data.count(b"{")
    if max(commas, brackets) > VALUES:
        for number, text in enumerate(_TEXT.finditer(data)):
            if number > 2 * VALUES:  # each is a value, or the key of one
                return True
            commas -= text[0].count(b",")
            brackets -= text[0].count(b"[") + text[0].count(b"{")
    return max(commas, brackets) > VALUES


def _check(value: Any) -> None:
    """Bounds, keys, surrogates and number types of a plain value, level by level."""
    count, depth, level, faulty = 0, 0, [value], False
    while level:
        count += len(level)
        if depth > DEPTH:
            raise Malformed(Reason.MALFORMED_JSON, _TOO_DEEP)
        if count > VALUES:
            raise Malformed(Reason.MALFORMED_JSON, f"more than {VALUES} values")
        faulty = faulty or any(map(_fault, level))
        inside = [item for item in level if isinstance(item, dict | list | tuple)]
        level = [part for item in inside for part in (item.values() if isinstance(item, dict) else item)]
        depth += 1
    if faulty:
        path, why = next(_faults(value, ()))
        raise Malformed(Reason.MALFORMED_JSON, why, at=tuple(ascii(str(step))[1:-1][:80] for step in path))


def _fault(item: Any) -> str:
    """What is wrong with this one value, its members apart; empty where nothing is."""
    if isinstance(item, str):
        return item if type(item) is _Fault else "" if item.isascii() or is_text(item) else "a lone surrogate"
    if isinstance(item, dict):
        return "" if all(isinstance(key, str) and key.isascii() for key in item) else "a key outside ASCII"
    if isinstance(item, int):
        return "" if -_LARGEST <= item <= _LARGEST else _TOO_LONG
    return "" if isinstance(item, list | tuple) or item is None else "only integers are numbers here"


def _faults(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The faulty values in reading order: where they stand, and why."""
    if why := _fault(value):
        yield path, why
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    for step, part in parts:
        yield from _faults(part, (*path, step))


def is_text(text: str) -> bool:
    """Whether the text can be written as UTF-8: it holds no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
