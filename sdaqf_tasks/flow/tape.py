"""This module keeps what is asked of the world outside, and the answers, so that a replay can give them again (ABSTRACTIONS 8).

One table says what may be asked, and what comes back. A `Witness` stands before an object of the disk and tells whoever
listens; a `Told` stands in its place where there is no disk, and knows recorded answers only.

    with Heard() as heard: …      what was asked meanwhile, in order
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from typing import Any, NamedTuple, Self, TypeVar, cast

import msgspec

from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards.records import Abstraction
from sdaqf_tasks.world import Tree

T = TypeVar("T")

HELD = 33_554_432
"""Bytes of answers that are held meanwhile; beyond them only digests are."""

_FILES = {"read": bytes, "has": bool}
QUESTIONS: Mapping[str, Mapping[str, Any]] = {
    "project": _FILES,  # the top, for the YAML and the locks
    "repository": _FILES,  # the top, for whatever these name
    "owner": _FILES,
    "git": {
        "observe": Tree,
        "history": bytes,
        "blobs": list[bytes | None],
        "resolve": str | None,
        "merge_base": str | None,
        "committed": str,
        "modified": tuple[str, ...],
        "is_shallow": bool,
    },
    "store": {"ref": str | None, "get": bytes, "verify": None, "queries": list[str], "is_there": bool, "create": None},
    "past": {"tell": str},
    "documents": {"marked": dict[str, bytes]},
    "shards": {"has": bool, "live": tuple[str, Abstraction | None]},
}
"""Who is asked, what, and the type of the answer."""

_FACTS = frozenset(("is_shallow", "is_there"))
"""Questions that are put without a call."""


class Digest(NamedTuple):
    """An answer of which only the SHA-256 is kept."""

    sha256: str


class Asked(NamedTuple):
    """One question, and its answer: bytes, another value of its type, `Digest`, or the error that it failed with."""

    who: str
    what: str
    about: tuple[Any, ...]
    answer: Any


class Heard:
    """What was asked while it listened. It listens to the thread that enters it, and may be entered again."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self._room = HELD
        self._parts: set[Heard] = set()
        self._tokens: list[Token[Heard | None]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_listening.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _listening.reset(self._tokens.pop())

    def hear(self, asked: Asked) -> None:
        self._room -= _size(asked.answer)
        if self._room < 0 and _size(asked.answer):
            asked = asked._replace(answer=Digest(canonical.digest(encode(asked.answer))))
        self.asked.append(asked)

    def take(self, part: Heard) -> None:
        """Hear, once, what another has heard."""
        if part not in self._parts:
            self._parts.add(part)
            for asked in part.asked:
                self.hear(asked)


def _size(answer: Any) -> int:
    """The bytes of files that an answer holds."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    return sum(map(_size, answer)) if isinstance(answer, list) else len(answer) if isinstance(answer, bytes) else 0


_listening: ContextVar[Heard | None] = ContextVar("listening", default=None)


class Known:
    """Values that are made once, each with what was asked to make it: whoever takes one later hears that too."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Heard]] = {}

    def get(self, key: Any, make: Callable[[], T]) -> T:
        if key not in self._known:
            return self.put(key, make)
        value, part = self._known[key]
        if listener := _listening.get():
            listener.take(part)
        return cast(T, value)

    def put(self, key: Any, make: Callable[[], T]) -> T:
        """Make the value, whether or not there was one."""
        part, listener = Heard(), _listening.get()
        try:
            with part:
                value = make()
        finally:
            if listener:
                listener.take(part)
        self._known[key] = value, part
        return value

    def forget(self, kind: type) -> None:
        """Forget the values whose keys are of a kind."""
        for key in [key for key in self._known if isinstance(key, kind)]:
            del self._known[key]


class Witness:
    """Stands before an object, and tells whoever listens what it was asked and what it answered. Questions that an answer
    takes are its own affair; what is not in the table is not told."""

    def __init__(self, who: str, real: Any) -> None:
        self._who, self._real = who, real

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS[self._who]:
            return getattr(self._real, name)
        if name in _FACTS:
            return self._ask(name, (), lambda: getattr(self._real, name))
        return lambda *about: self._ask(name, about, lambda: getattr(self._real, name)(*about))

    def _ask(self, what: str, about: tuple[Any, ...], put: Callable[[], Any]) -> Any:
        listener = _listening.get()
        if listener is None:
            return put()
        token = _listening.set(None)
        try:
            answer = put()
        except SdaqfError as error:
            listener.hear(Asked(self._who, what, about, error))
            raise
        finally:
            _listening.reset(token)
        listener.hear(Asked(self._who, what, about, answer))
        return answer


class Told:
    """Stands in the place of an object, and gives the answers that were recorded, each question's in their order; then the
    last one again. `find` gives them, and raises for a question that has none."""

    def __init__(self, who: str, find: Callable[[str, str, tuple[Any, ...]], Any]) -> None:
        self._who, self._find = who, find

    def __getattr__(self, name: str) -> Any:
        if name not in QUESTIONS[self._who]:
            raise AttributeError(name)
        return self._find(self._who, name, ()) if name in _FACTS else lambda *about: self._find(self._who, name, about)


# ---- questions and answers as bytes ---------------------------------------------------------------------------------


def words(about: Iterable[Any]) -> str:
    """What a question is about, in one line of JSON."""
    return encode(tuple(about)).decode("utf-8")


def encode(answer: Any) -> bytes:
    """An answer as a record holds it: bytes as they are, anything else as JSON."""
    return answer if isinstance(answer, bytes) else msgspec.json.encode(_walk(msgspec.to_builtins(answer, order="deterministic"), _escape))


def decode(data: bytes, kind: Any) -> Any:
    """The answer of that type in such bytes. Raises `ValueError` where it is none."""
    if kind is bytes:
        return data
    try:
        return msgspec.convert(_walk(msgspec.json.decode(data), _unescape), kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every string in it changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _walk(item, change) for key, item in value.items()}
    return [_walk(item, change) for item in value] if isinstance(value, list | tuple) else value


def _escape(text: str) -> str:
    r"""Names are git's bytes: what is not UTF-8 in them stands as `\xNN`, and a backslash as two."""
    return re.sub(r"[\\\udc80-\udcff]", lambda found: "\\\\" if found[0] == "\\" else f"\\x{ord(found[0]) - 0xDC00:02x}", text)


def _unescape(text: str) -> str:
    return re.sub(r"\\(?:\\|x([0-9a-f]{2}))", lambda found: chr(0xDC00 + int(found[1], 16)) if found[1] else "\\", text)
