"""This module is the grammar of what a shard is told: control words and sigil commands, once for every front (ABSTRACTIONS 1.2, 3 to 6).

`parse` reads a line; `str` of a command is its canonical spelling, which is what an event keeps and a replay parses again.
Words are case-insensitive, commands are not; any white space separates.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import is_secret_shaped
from sdaqf_tasks.shards.records import LARGEST, SPEC_CHARACTERS, SPECS, Category, Choice, Shard, Tier, Trust, concept, shard

COMMAND_CHARACTERS = 65_536

TIERS = {tier.value: tier for tier in Tier} | {"idiom": Tier.CONVENTION, "mechanism": Tier.LOGIC}
CATEGORIES = {category.value: category for category in Category} | {
    "syntax": Category.STRUCTURAL,
    "control_flow": Category.PROCEDURAL,
    "data_flow": Category.RELATIONAL,
    "interface": Category.BOUNDARY,
}
TRUSTS = {trust.value: trust for trust in Trust}
MARKS = ("stale", "prunable", "refresh", "protect", "unprotect")


class Word(NamedTuple):
    """A control word, with the concept of `drop` and `accept`, or the state of `revert --to`."""

    word: str
    argument: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.word, "--to" * (self.word == "revert" and bool(self.argument)), self.argument)))


class Distil(NamedTuple):
    concept: str
    tier: Tier
    category: Category
    parent: str | None
    statement: str
    specs: tuple[str, ...]

    def __str__(self) -> str:
        parent = f" parent:{self.parent}" if self.parent else ""
        said = f" statement:{json.dumps(self.statement)}" if self.statement else ""
        options = f"tier:{self.tier.value} category:{self.category.value}{parent}{said}"
        return f"/commit_abstractions {self.concept} {options} {' '.join(self.specs)}"


class Reuse(NamedTuple):
    """`choice` is None where a decision is withdrawn."""

    choice: Choice | None
    source: str
    local: str | None

    def __str__(self) -> str:
        local = f" local:{self.local}" if self.local else ""
        return f"/reuse_abstractions {self.choice.value if self.choice else 'withdraw'} core:{self.source}{local}"


class Merge(NamedTuple):
    """`promote`, or else adopt; from a concept of another shard, into `target` here."""

    promote: bool
    shard: Shard
    source: str
    target: str

    def __str__(self) -> str:
        renamed = f" as:{self.target}" if self.target != self.source else ""
        return f"/merge_abstractions {'promote' if self.promote else 'adopt'} {self.shard}:{self.source}{renamed}"


class Mark(NamedTuple):
    mode: str
    concept: str

    def __str__(self) -> str:
        return f"/prune_abstractions {self.mode} {self.concept}"


class Collect(NamedTuple):
    gap: int = 2
    quality: int = 700
    confidence: int = 700
    trust: Trust = Trust.PROJECT

    def __str__(self) -> str:
        limits = f"quality_at_most:{self.quality} confidence_at_most:{self.confidence} trust_at_most:{self.trust.value}"
        return f"/prune_abstractions collect gap:{self.gap} {limits}"


class Import(NamedTuple):
    """Published record files, by what they are called in the event; their texts are its inputs."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"/import_abstractions {' '.join(self.names)}"


Command = Word | Distil | Reuse | Merge | Mark | Collect | Import

WORDS = ("begin scratch", "discard", "drop", "accept", "commit", "snapshot", "revert")
_WITH_CONCEPT = ("drop", "accept")
_PARTS = re.compile(r'\s*(?:(statement:"(?:[^"\\]|\\.){0,6100}"?)(?=\s|$)|(\S+))', re.DOTALL)


def name_of(line: str) -> str:
    """The control word or the sigil (`/merge_abstractions`) that a line begins with. Raises `Refused`: INVALID_COMMAND."""
    if len(line) > COMMAND_CHARACTERS:
        raise _malformed(f"a command has at most {COMMAND_CHARACTERS} characters")
    words = line.split(maxsplit=2)
    first = words[0] if words else ""
    if first in SIGILS:
        return first
    word = "begin scratch" if [each.lower() for each in words[:2]] == ["begin", "scratch"] else first.lower()
    word = "revert" if word == "rollback" else word
    if word not in WORDS:
        raise _malformed("not a command", todo=f"Write one of: {', '.join((*WORDS, *SIGILS))}.")
    return word


def parse(line: str) -> Command:
    """The command.

    Raises `Refused`: INVALID_COMMAND, INVALID_CONCEPT, INVALID_REGION, INVALID_SHARD, TOO_MANY_SOURCES; SECRET_SHAPED_TEXT,
    for its canonical spelling is kept.
    """
    command = _parsed(line)
    if is_secret_shaped(str(command)):
        raise Refused(Reason.SECRET_SHAPED_TEXT, "the command holds what looks like a key or a token")
    return command


def _parsed(line: str) -> Command:
    name = name_of(line)
    if name in SIGILS:
        return SIGILS[name]([found[1] or found[2] for found in _PARTS.finditer(line)][1:])
    rest = line.split()[len(name.split()) :]
    if name == "revert" and len(rest) == 2 and rest[0].lower() == "--to":
        return Word(name, rest[1])
    if len(rest) != (name in _WITH_CONCEPT):
        raise _malformed(f"`{name}` takes {'one concept' if name in _WITH_CONCEPT else 'nothing'} after it")
    return Word(name, concept(rest[0]) if rest else "")


def _distil(words: list[str]) -> Distil:
    options, rest = _options(words, ("tier", "category", "parent", "statement"))
    if len(rest) < 2:
        raise _malformed("/commit_abstractions takes a concept and at least one source")
    name, *specs = rest
    if len(specs) > SPECS:
        raise Refused(Reason.TOO_MANY_SOURCES, f"{len(specs)} sources; a command takes at most {SPECS}")
    if max(map(len, specs)) > SPEC_CHARACTERS:
        raise Refused(Reason.INVALID_REGION, f"a source has at most {SPEC_CHARACTERS} characters")
    parent = concept(options["parent"]) if "parent" in options else None
    tier, category = _of(TIERS, options, "tier", Tier.PATTERN), _of(CATEGORIES, options, "category", Category.STRUCTURAL)
    return Distil(concept(name), tier, category, parent, _statement(options.get("statement", '""')), tuple(specs))


def _statement(text: str) -> str:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, str) or len(said) > 500 or "\0" in said or (said and not said.strip()) or not canonical.is_text(said):
        raise _malformed("statement: takes a JSON string of at most 500 characters", todo='Write for example: statement:"What it says."')
    return said


def _reuse(words: list[str]) -> Reuse:
    mode, *rest = words or [""]
    options, more = _options(rest, ("core", "local"))
    choices: dict[str, Choice | None] = {"withdraw": None} | {choice.value: choice for choice in Choice}
    if mode not in choices or more or "core" not in options or ("local" in options) != (mode == "promote"):
        raise _malformed("write adopt|reject|withdraw core:CONCEPT, or promote core:CONCEPT local:CONCEPT")
    local = options.get("local")
    return Reuse(choices[mode], concept(options["core"]), concept(local) if local is not None else None)


def _merge(words: list[str]) -> Merge:
    mode, *rest = words or [""]
    options, more = _options(rest, ("core", "project", "as"))
    if mode not in ("adopt", "promote") or more or ("core" in options) == ("project" in options):
        raise _malformed("write adopt|promote core:CONCEPT or project:ID:CONCEPT, and perhaps as:CONCEPT")
    owner, _, name = f"core:{options['core']}".partition(":") if "core" in options else f"project:{options['project']}".rpartition(":")
    return Merge(mode == "promote", shard(owner), concept(name), concept(options.get("as", name)))


def _prune(words: list[str]) -> Mark | Collect:
    mode, *rest = words or [""]
    if mode in MARKS and len(rest) == 1:
        return Mark(mode, concept(rest[0]))
    if mode != "collect":
        raise _malformed(f"write {'|'.join(MARKS)} CONCEPT, or collect")
    spelt = [re.sub(r"^(quality|confidence|trust)_below:", r"\1_at_most:", word) for word in rest]
    options, more = _options(spelt, ("gap", "quality_at_most", "confidence_at_most", "trust_at_most"))
    if more:
        raise _malformed("collect takes gap:N quality_at_most:N confidence_at_most:N trust_at_most:CLASS")
    usual = Collect()
    gap, quality = _number(options, "gap", usual.gap), _number(options, "quality_at_most", usual.quality)
    confidence = _number(options, "confidence_at_most", usual.confidence)
    return Collect(gap, quality, confidence, _of(TRUSTS, options, "trust_at_most", usual.trust))


def _import(words: list[str]) -> Import:
    if not words or len(set(words)) != len(words):
        raise _malformed("/import_abstractions takes the names of files, each once")
    return Import(tuple(words))


def _options(words: list[str], keys: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The words `key:value` of these keys, each at most once; and the other words."""
    options: dict[str, str] = {}
    rest = []
    for word in words:
        key, colon, value = word.partition(":")
        if not colon or key not in keys:
            rest.append(word)
        elif key in options:
            raise _malformed(f"{key}: is there twice")
        else:
            options[key] = value
    return options, rest


def _of(table: Mapping[str, Any], options: Mapping[str, str], key: str, default: Any) -> Any:
    if (found := table.get(options[key]) if key in options else default) is None:
        raise _malformed(f"{key}: is one of {', '.join(table)}", todo=f"Write for example: {key}:{next(iter(table))}")
    return found


def _number(options: Mapping[str, str], key: str, default: int) -> int:
    text = options.get(key, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= LARGEST):
        raise _malformed(f"{key}: is a number from 0 to {LARGEST}")
    return int(text)


def _malformed(message: str, todo: str | None = None) -> Refused:
    return Refused(Reason.INVALID_COMMAND, message, todo=todo)


SIGILS: Mapping[str, Callable[[list[str]], Command]] = {
    "/commit_abstractions": _distil,
    "/reuse_abstractions": _reuse,
    "/merge_abstractions": _merge,
    "/prune_abstractions": _prune,
    "/import_abstractions": _import,
}
