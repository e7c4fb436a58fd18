"""This module tells of published abstractions whose examples read differently now (ABSTRACTIONS 1.4 and 7, PIPELINE 3)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.context.staleness import Held
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.errors import Finding, SdaqfError, Severity
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.shards import store_of
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.shards.records import Published
from sdaqf_tasks.world import SOURCE_BYTES, lines


class Drift(NamedTuple):
    """What is told of a published record: a sentence, what settles it, and where the example stood that it is about."""

    code: Finding
    message: str
    settle: str
    place: str = ""
    severity: Severity = Finding.DRIFTED.severity


def drifts(run: Run, held: Held) -> Iterator[Drift]:
    """The examples of one pinned source that stand nowhere in their files any more, if it is a published record at all.

    In the record's order. Where somebody has reviewed the record since it was made (`refresh`), it is a notice.
    """
    record, read = _record(held), run.reader()
    examples: list[Mapping[str, Any]] = [example for example in record.get("sources", ()) if isinstance(example, dict)]
    gone: list[tuple[Mapping[str, Any], bool]] = []
    for example in examples:
        try:
            data = read.read(RootScope.REPOSITORY, str(example.get("path")), SOURCE_BYTES).data
        except SdaqfError:
            data = None
        if not _stands(example, data):
            gone.append((example, data is not None))
    reviewed = _number(record, "last_review_revision") > _number(record, "last_revision")
    severity = Severity.NOTICE if reviewed else Finding.DRIFTED.severity
    for example, is_there in gone:
        place = _place(example)
        agree = f"{len(examples) - len(gone)} of {len(examples)} examples still agree ({record.get('threshold')} needed)"
        reads = "reads differently" if is_there else "is gone, or cannot be read"
        message = f"{place} {reads}{_since(run, example)}; {agree}" + ("; reviewed since" if reviewed else "")
        yield Drift(Finding.DRIFTED, message, again(record), place, severity)


def again(record: Mapping[str, Any]) -> str:
    """The command that distils a record again, from the places that it names."""
    name, sources = str(record.get("concept_id")), [each for each in record["sources"] if isinstance(each, dict)]
    options = [f"{key}:{record[key]}" for key in ("tier", "category", "parent") if isinstance(record.get(key), str)]
    specs = [f"region:{_place(each)}" for each in sources]
    said = ["--statement", str(record["statement"])] if record.get("statement") else []
    words = " ".join(map(shlex.quote, (name, *options, *specs, *said)))
    return f"sdaqf shard distil {words}   or, where it still holds: sdaqf shard refresh {shlex.quote(name)}   and publish it"


def _place(example: Mapping[str, Any]) -> str:
    return f"{example.get('path')}:{example.get('line_start')}-{example.get('line_end')}"


def _number(record: Mapping[str, Any], key: str) -> int:
    found = record.get(key)
    return found if isinstance(found, int) else 0


def differs(run: Run, held: Held) -> Drift | None:
    """Whether a published record is the live one of its shard, where that is at hand; None where it is, or for another file."""
    try:
        published = msgspec.convert(_value(held), Published)
    except msgspec.ValidationError:
        return None
    record, store = published.record, store_of(run.project, published.shard)
    name, begin = record.concept_id, f"sdaqf shard begin   then: sdaqf shard import {shlex.quote(held.pin.path)}"
    unknown = f"whether {name} is the live record: "
    if not store.is_there:
        return Drift(Finding.NOT_CHECKED, f"{unknown}{published.shard} is not at hand", f"To have it: sdaqf shard init   then: {begin}")
    try:
        live = store.desk().live(name)
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


def _record(held: Held) -> Mapping[str, Any]:
    value = _value(held)
    record = value.get("record") if isinstance(value, dict) else None
    return record if isinstance(record, dict) and isinstance(record.get("sources"), list) else {}


def _value(held: Held) -> Any:
    """The JSON of a pinned file; None where it is none."""
    if held.error or held.pin.part[0] or not held.pin.path.endswith(".json"):
        return None
    try:
        return canonical.load(held.text.encode("utf-8"), SOURCE_BYTES)
    except SdaqfError:
        return None


def stands(first: Any, last: Any, digest: Any, data: bytes | None) -> bool:
    """Whether a text of so many lines with that digest stands anywhere in the file."""
    if data is None or not isinstance(first, int) or not isinstance(last, int) or not isinstance(digest, str):
        return False
    rows, length = lines(data.decode("utf-8", "replace")), last - first + 1
    texts = ("".join(rows[start : start + length]) for start in range(len(rows) - length + 1))
    return 0 < length <= 96 and any(canonical.digest(text.encode("utf-8")) == digest.upper() for text in texts)


def _stands(example: Mapping[str, Any], data: bytes | None) -> bool:
    return stands(example.get("line_start"), example.get("line_end"), example.get("text_sha256"), data)


def _since(run: Run, example: Mapping[str, Any]) -> str:
    """` since 8ac1f0e`: the oldest commit after which the example does not stand in its file, where git knows."""
    path, found = str(example.get("path")), ""
    with suppress(SdaqfError):
        history = History(run.repository, [path])
        versions = history.versions(path)
        contents = history.contents([version.blob for version in versions], SOURCE_BYTES)
        for version in versions:
            if _stands(example, contents.get(version.blob)):
                return f" since {found[:7]}" if found else ""
            found = version.commit
    return ""
