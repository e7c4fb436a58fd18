"""This module tells of published abstractions whose examples read differently now (ABSTRACTIONS 1.4 and 7, PIPELINE 3)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.context.staleness import Held
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.errors import Finding, SdaqfError, Severity
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.shards.records import EXAMPLES, REGION_LINES, Abstraction, Published, Source, verify
from sdaqf_tasks.world import SOURCE_BYTES, lines


class Drift(NamedTuple):
    """What is told of a published record: a sentence, what settles it, and where the example stood that it is about."""

    code: Finding
    message: str
    settle: str
    place: str = ""
    severity: Severity = Finding.DRIFTED.severity


VERSIONS = 100
"""Versions of a file that are looked through for when an example went away."""


class Drifts:
    """One look at published records. A file may hold anything and say that it is one: however many do, it costs at most so much."""

    def __init__(self, run: Run) -> None:
        self._run, self._search, self._histories = run, Search(), EXAMPLES

    def of(self, held: Held) -> Iterator[Drift]:
        """What is to be told of one pinned source, if it is a published record at all."""
        value = _value(held)
        record = value.get("record") if isinstance(value, dict) else None
        if not isinstance(record, dict) or "sources" not in record:
            return
        try:
            published = msgspec.convert(value, Published)
            verify(published.record)
        except (msgspec.ValidationError, SdaqfError) as error:
            message = f"whether its examples still stand: it is no record as `sdaqf shard publish` writes them: {str(error)[:200]}"
            yield Drift(Finding.NOT_CHECKED, message, "Restore it, or publish the record again")
            return
        yield from self._examples(published.record)
        if other := differs(self._run, held, published):
            yield other

    def _examples(self, record: Abstraction) -> Iterator[Drift]:
        """The examples that stand nowhere in their files any more, in the record's order.

        Where somebody has reviewed the record since it was made (`refresh`), it is a notice.
        """
        read, gone = self._run.reader(), list[tuple[Source, bool]]()
        for example in record.sources:
            try:
                data = read.read(RootScope.REPOSITORY, example.path, SOURCE_BYTES).data
            except SdaqfError:
                data = None
            if (stands := self._search.stands(data, example)) is None:
                message = f"whether {example.place} still stands in its file: there is too much to look through"
                yield Drift(Finding.NOT_CHECKED, message, "Compare them by eye", example.place)
            elif not stands:
                gone.append((example, data is not None))
        reviewed = record.last_review_revision > record.last_revision
        severity = Severity.NOTICE if reviewed else Finding.DRIFTED.severity
        agree = f"{record.examples - len(gone)} of {record.examples} examples still agree ({record.threshold} needed)"
        for example, is_there in gone:
            reads = "reads differently" if is_there else "is gone, or cannot be read"
            message = f"{example.place} {reads}{self._since(example)}; {agree}" + ("; reviewed since" if reviewed else "")
            yield Drift(Finding.DRIFTED, message, again(record), example.place, severity)

    def _since(self, example: Source) -> str:
        """` since 8ac1f0e`: the oldest commit after which the example does not stand in its file, where git knows; told of
        the first examples alone."""
        found, self._histories = "", self._histories - 1
        with suppress(SdaqfError):
            history = History(self._run.repository, [example.path] if self._histories >= 0 else [])
            versions = history.versions(example.path)[:VERSIONS]
            contents = history.contents([version.blob for version in versions], SOURCE_BYTES)
            for version in versions:
                if self._search.stands(contents.get(version.blob), example):
                    return f" since {found[:7]}" if found else ""
                found = version.commit
        return ""


def again(record: Abstraction) -> str:
    """The command that distils a record again, from the places that it names."""
    options = [f"tier:{record.tier.value}", f"category:{record.category.value}", *([f"parent:{record.parent}"] if record.parent else [])]
    said = ["--statement", record.statement] if record.statement else []
    words = " ".join(map(shlex.quote, (record.concept_id, *options, *(f"region:{each.place}" for each in record.sources), *said)))
    anew, name = f"sdaqf shard begin   then: sdaqf shard distil {words}", record.concept_id
    return f"{anew}   or, where it still holds: sdaqf shard refresh {name}   then: sdaqf shard commit, and sdaqf shard publish {name}"


def differs(run: Run, held: Held, published: Published) -> Drift | None:
    """Whether a published record is the live one of its shard, where that is at hand; None where it is."""
    record = published.record
    name, begin = record.concept_id, f"sdaqf shard begin   then: sdaqf shard import {shlex.quote(held.pin.path)}"
    unknown = f"whether {name} is the live record: "
    if not run.shards.has(published.shard):
        return Drift(Finding.NOT_CHECKED, f"{unknown}{published.shard} is not at hand", f"To have it: sdaqf shard init   then: {begin}")
    try:
        _, live = run.shards.live(published.shard, name)
    except SdaqfError as error:
        return Drift(Finding.NOT_CHECKED, f"{unknown}{error.message}", error.todo)
    if live == record:
        return None
    version = record.lineage_version
    if live is None:
        return Drift(Finding.DRIFTED, f"{name} is not live in {published.shard}", begin)
    if live.lineage_version == version:
        return Drift(Finding.DRIFTED, f"{name} is not what was published at v{version}", f"sdaqf shard publish {name}")
    message = f"{name} was published at v{version}, and v{live.lineage_version} is live in {published.shard}"
    return Drift(Finding.DRIFTED, message, f"sdaqf shard publish {name}")


def _value(held: Held) -> Any:
    """The JSON of a pinned file; None where it is none."""
    if held.error or held.pin.part[0] or not held.pin.path.endswith(".json"):
        return None
    with suppress(SdaqfError):
        return canonical.load(held.text.encode("utf-8"), SOURCE_BYTES)
    return None


LOOKED = 268_435_456
"""Bytes that are hashed in all to find where examples stand now; each text counts as START more."""

START = 512


class Search:
    """Whether examples stand in files: first where they are said to, then anywhere, once for each length of a file, and in
    all files together only as far as LOOKED allows."""

    def __init__(self) -> None:
        self._left, self._rows, self._known = LOOKED, list[str](), dict[int, frozenset[str]]()
        self._data: bytes | None = None

    def stands(self, data: bytes | None, example: Source) -> bool | None:
        """Whether the text of an example stands in the file; None where it is too much to look."""
        length = example.line_end - example.line_start + 1
        if data is None or length > REGION_LINES:
            return False
        if data is not self._data:
            self._data, self._rows, self._known = data, lines(data.decode("utf-8", "replace")), {}
        if _digest(self._rows[example.line_start - 1 : example.line_end]) == example.text_sha256:
            return True
        if length not in self._known:
            if (cost := len(data) * length + START * len(self._rows)) > self._left:
                return None
            self._left -= cost
            starts = range(len(self._rows) - length + 1)
            self._known[length] = frozenset(_digest(self._rows[start : start + length]) for start in starts)
        return example.text_sha256 in self._known[length]


def _digest(rows: Sequence[str]) -> str:
    return canonical.digest("".join(rows).encode("utf-8"))
