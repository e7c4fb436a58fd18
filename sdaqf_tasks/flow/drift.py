"""This module tells of published abstractions whose examples read differently now (ABSTRACTIONS 1.4 and 7, PIPELINE 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.context.staleness import Held
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.shard_store import ShardStore
from sdaqf_tasks.errors import Finding, SdaqfError
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.records import Published
from sdaqf_tasks.world import SOURCE_BYTES, lines


class Drift(NamedTuple):
    """One example that stands nowhere in its file any more: where it stood, and a sentence."""

    place: str
    message: str


def drifts(run: Run, held: Held) -> Iterator[Drift]:
    """The examples of one pinned source that have drifted, if it is a published record at all; in the record's order."""
    record = _record(held)
    examples = [example for example in record.get("sources", ()) if isinstance(example, dict)]
    read = run.reader()
    gone = []
    for example in examples:
        try:
            stands = _stands(example, read.read(RootScope.REPOSITORY, str(example.get("path")), SOURCE_BYTES).data)
        except SdaqfError:
            stands = False
        if not stands:
            gone.append(example)
    for example in gone:
        place = f"{example.get('path')}:{example.get('line_start')}-{example.get('line_end')}"
        agree = f"{len(examples) - len(gone)} of {len(examples)} examples still agree ({record.get('threshold')} needed)"
        yield Drift(place, f"{place} reads differently{_since(run, example)}; {agree}")


def differs(run: Run, held: Held) -> tuple[Finding, str] | None:
    """Whether a published record is the live one of its shard, where that is at hand; None where it is, or for another file."""
    value = _value(held)
    try:
        published = msgspec.convert(value, Published)
    except msgspec.ValidationError:
        return None
    name, store = published.record.concept_id, ShardStore(run.project.top, run.project.settings.shards, published.shard)
    if not store.is_there:
        return Finding.NOT_CHECKED, f"whether {name} is the live record: {published.shard} is not at hand"
    try:
        live = Desk(store.head(), store).live(name)
    except SdaqfError as error:
        return Finding.NOT_CHECKED, f"whether {name} is the live record: {error.message}"
    if live == published.record:
        return None
    now = f"v{live.lineage_version} is live" if live else "it is not live"
    return Finding.DRIFTED, f"{name} was published at v{published.record.lineage_version}, and {now} in {published.shard}"


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
    try:
        history = History(run.repository, [path])
        versions = history.versions(path)
        contents = history.contents([version.blob for version in versions], SOURCE_BYTES)
        for version in versions:
            if _stands(example, contents.get(version.blob)):
                return f" since {found[:7]}" if found else ""
            found = version.commit
    except SdaqfError:
        pass
    return ""
