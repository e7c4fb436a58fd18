"""This module types what stands at a place of a manifest's YAML, and says in words what does not fit there (PIPELINE 2).

msgspec finds the fault; the words are ours, and quote at most 80 characters of what was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec

from sdaqf_tasks.errors import Reason, SdaqfError, shown
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry, Defaults, Expiry, Filter, Shape
from sdaqf_tasks.formats.plain_yaml import Document, nearest
from sdaqf_tasks.formats.records import Authority, Category, EdgeType, Kind, RootScope, Sensitivity, Tier, Trust, is_secret_shaped


class Spot(NamedTuple):
    """Where something was written."""

    document: Document
    path: tuple[str | int, ...] = ()

    def at(self, *steps: str | int) -> Spot:
        return Spot(self.document, (*self.path, *steps))

    def fault(self, message: str, *, todo: str | None = None, reason: Reason = Reason.MANIFEST_INVALID, key: bool = False) -> SdaqfError:
        """The error to raise, with the line and a caret; of a path that leads nowhere, those of its nearest ancestor."""
        return self.document.fault(self.path, message, todo=todo, reason=reason, key=key)

    def unknown(self, word: str, known: Sequence[str]) -> SdaqfError:
        """The error to raise for a key that is none of `known`."""
        return self.at(word).fault(f"'{shown(word)}' is not known here{meant(word, known)}", todo=f"Known: {', '.join(known)}", key=True)


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, where something known is near."""
    close = nearest(word, known)
    return f"; did you mean {close}?" if close else ""


def members(kind: type[Any]) -> tuple[str, ...]:
    """The members of a mapping, as they are written."""
    return tuple(field.encode_name for field in msgspec.structs.fields(kind))


T = TypeVar("T")


def typed(value: Any, kind: type[T], spot: Spot) -> T:
    """`value` as `kind`. Raises `Invalid` at the member that does not fit, with the nearest known word."""
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _explained(str(error), kind, value, spot) from None
    _verify_texts(value, spot)
    return found


def words(kind: type[Enum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


_SUFFIX = re.compile(r" - at `\$([a-z_.\[\]0-9]*)`$")
_INNER: Mapping[str | int, type[Shape]] = {"freshness": Expiry, "budget": BudgetEntry, "abstractions": Filter, "defaults": Defaults}
_ADOPTABLE = tuple(word for word in words(Sensitivity) if word != Sensitivity.SECRET_OR_PROHIBITED.value)
_WORDS: Mapping[str, tuple[str, ...]] = {
    "kind": words(Kind),
    "authority": words(Authority),
    "sensitivity": _ADOPTABLE,
    "clearance": words(Sensitivity),
    "root": words(RootScope),
    "tier": words(Tier),
    "trust": words(Trust),
    "category": words(Category),
    "type": words(EdgeType),
    "edges": words(EdgeType),
    "freshness": ("immutable",),
    "seeds": ("all",),
    "sdaqf": ("1",),
}
_BESIDE = {
    "freshness": "Write immutable, or {observed: 2026-11-01T00:00:00Z, for: 30d}.",
    "seeds": "Write all, or aliases in brackets: [a, b].",
}
"""What may stand beside the words."""

_PLAIN = {"object": "a mapping", "array": "a list", "str": "a text", "int": "a number", "bool": "true or false"}


def _explained(message: str, kind: type[Any], value: Any, spot: Spot) -> SdaqfError:
    """A sentence of msgspec's in our words, without the input that it quotes."""
    suffix = _SUFFIX.search(message)
    found, here, named = value, spot, ""
    for word in re.findall(r"[^.\[\]]+", suffix[1]) if suffix else ():
        step: str | int = int(word) if word.isdigit() else word
        if not (step in found if isinstance(found, dict) else isinstance(found, list)):
            break  # an unknown key that imitates the suffix
        found, here, named = found[step], here.at(step), step if isinstance(step, str) else named
    if found is None:
        return here.fault("null says nothing", todo="Leave the member out, or give it a value.")
    if message.startswith("Object contains unknown field"):
        known = members(_INNER.get(named, kind))
        return here.unknown(next((key for key in found if key not in known), ""), known)
    if missing := re.match(r"Object missing required field `([a-z_]+)`", message):
        name = missing[1]
        todo = f"The words for it: {', '.join(_WORDS[name])}" if name in _WORDS else f"Write `{name}:` with a value."
        return here.fault(f"{name} is missing", todo=todo, key=True)
    if message.startswith("Invalid enum value"):
        text, known = str(found), _WORDS[named]
        todo = _BESIDE.get(named, f"Known: {', '.join(known)}")
        return here.fault(f"'{shown(text)}' is not one of the words for {named}{meant(text, known)}", todo=todo)
    plain = re.sub(r"`([a-z |]+)`", lambda types: " or ".join(_PLAIN.get(word, word) for word in types[1].split(" | ")), message)
    todo = Reason.MANIFEST_INVALID.todo
    if isinstance(found, int) and "`str" in message:
        todo = f'Quote it: "{str(found).lower()}".'
    elif isinstance(found, str) and "`array" in message:
        todo = "Write it in brackets, several with commas: [a, b]."
    elif "`bool" in message:
        todo = "Write true or false."
    return here.fault(_SUFFIX.sub("", plain[:1].lower() + plain[1:]), todo=todo)


def _verify_texts(value: Any, spot: Spot) -> None:
    """No text is blank or looks like a key, no list says one thing twice, nothing is secret-or-prohibited (FORMAT 3.1, 3.6)."""
    if isinstance(value, str):
        if not value.strip():
            raise spot.fault("a blank text", todo="Leave the member out, or give it a value.")
        if is_secret_shaped(value):
            raise spot.fault("looks like a key or a token", todo=Reason.SECRET_SHAPED.todo, reason=Reason.SECRET_SHAPED)
    elif isinstance(value, list):
        seen: set[str] = set()
        for index, item in enumerate(value):
            _verify_texts(item, spot.at(index))
            if item in seen:
                raise spot.at(index).fault(f"'{shown(item)}' stands here twice", todo="Leave one of them out.")
            seen.add(item)
    elif isinstance(value, dict):
        if value.get("sensitivity") == Sensitivity.SECRET_OR_PROHIBITED.value:
            raise spot.at("sensitivity").fault("secret-or-prohibited can never be adopted", todo=f"Known: {', '.join(_ADOPTABLE)}")
        for key, item in value.items():
            _verify_texts(item, spot.at(key))
