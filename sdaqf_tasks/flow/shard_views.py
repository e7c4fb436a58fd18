"""This module says what is in a shard, as JSON that every front tells alike (ABSTRACTIONS 1.2, 7 and 9). It only reads."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

import msgspec

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.shard_store import shards_there
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.flow.drift import Search
from sdaqf_tasks.flow.shards import Workbench, store_of, where
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards import replay
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.lookup import Hint, Query, lookup
from sdaqf_tasks.shards.records import CORE, Abstraction, Event, Kind, Operation, Source, State, Trust
from sdaqf_tasks.world import lines

View = dict[str, Any]


def listing(bench: Workbench) -> View:
    """The shards that were created, and the live records of the mounted one. Raises `Refused` with NO_SHARD where others alone are."""
    known = [str(which) for which in shards_there(bench.project.top, bench.project.settings.shards)]
    if known and str(bench.shard) not in known:
        raise Refused(
            Reason.NO_SHARD, f"there is no {bench.shard}; there is {', '.join(known)}", todo=f"sdaqf shard init --shard {bench.shard}"
        )
    return {"shards": known, **(records(bench) if known else {})}


def status(bench: Workbench) -> View:
    """Which shard in which state, and what is staged."""
    desk = bench.desk()
    staged = {"records": sorted(desk.staged.records), "decisions": sorted(desk.staged.decisions)}
    exploratory = sum(record.trust_class is Trust.EXPLORATORY for record in desk.all_staged.values())
    return {**where(desk), "records": len(desk.catalog.lineages), "staged": staged, "exploratory": exploratory}


def records(bench: Workbench) -> View:
    """The live records in brief, by concept, and the decisions about core's."""
    desk = bench.desk()
    keys = ("concept_id", "tier", "category", "trust_class", "decay_state", "lineage_version", "statement", "promotion_ready")
    brief = [{key: value for key, value in msgspec.to_builtins(record).items() if key in keys} for record in desk.all_live.values()]
    return {**where(desk), "abstractions": brief, "decisions": msgspec.to_builtins(desk.decisions)}


def reuse(bench: Workbench) -> View:
    desk = bench.desk()
    return {**where(desk), "decisions": msgspec.to_builtins(desk.decisions)}


def log(bench: Workbench, limit: int = 50) -> View:
    """The chain, newest first, and whether there is more of it."""
    desk = bench.desk()
    found = [
        {"state": each.state_id, "event": each.event.told, "front": each.event.front.value, "revision": each.state.revision}
        for each in islice(desk.chain(), limit + 1)
    ]
    return {**where(desk), "events": found[:limit], "more": len(found) > limit}


def shown(bench: Workbench, name: str, diff: bool = False) -> View:
    """The staged record of a concept, else the live one, with its examples as they read now; `text` is null where they have drifted.
    With `diff`, how these read now against how they were."""
    desk = bench.desk()
    record = desk.record(name)
    if record is None:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"{desk.shard} has no {name}")
    return {
        **where(desk),
        "abstraction": msgspec.to_builtins(record),
        "staged": name in desk.staged.records,
        "examples": [{"place": source.place, "text": _quoted(bench, source)} for source in record.sources],
        **({"diff": [*changes(bench, record)]} if diff else {}),
    }


def drifted(bench: Workbench) -> Callable[[Source], bool]:
    """Whether the recorded text of a source stands nowhere in its file any more, or it is too much to look; a file is read once."""
    search, read = Search(), cache(partial(_read, bench))
    return lambda source: not search.stands(read(source.path), source)


def _read(bench: Workbench, path: str) -> bytes | None:
    """A file of the repository, if it can be read."""
    try:
        return bench.source(path)
    except SdaqfError:
        return None


def _quoted(bench: Workbench, source: Source) -> str | None:
    """The text of an example, from its file, where it still stands where it stood."""
    rows = _rows(bench, source)
    text = "".join(rows or ())
    return text if rows is not None and canonical.digest(text.encode("utf-8")) == source.text_sha256 else None


def _rows(bench: Workbench, source: Source) -> list[str] | None:
    """The lines of an example as they read now; None where its file cannot be read."""
    data = _read(bench, source.path)
    return lines(data.decode("utf-8", "replace"))[source.line_start - 1 : source.line_end] if data is not None else None


def changes(bench: Workbench, record: Abstraction) -> Iterator[str]:
    """What each example that has drifted was, against the same lines as they read now; the old text is the shard's own copy."""
    desk, has_drifted = bench.desk(), drifted(bench)
    for source in record.sources:
        if has_drifted(source):
            old = _kept_text(desk, source).splitlines()
            new = [row.rstrip("\r\n") for row in _rows(bench, source) or ()]
            yield from difflib.unified_diff(old, new, source.place, "now", lineterm="")


def _kept_text(desk: Desk, source: Source) -> str:
    inputs = (held for each in desk.chain() for held in each.event.inputs if held.role.startswith("example "))
    texts: Iterator[str] = (desk.objects.get(held.id).text for held in inputs)
    return next((text for text in texts if canonical.digest(text.encode("utf-8")) == source.text_sha256), "")


def review(bench: Workbench) -> View:
    """What is staged, against what is live."""
    desk, has_drifted = bench.desk(), drifted(bench)
    acts = _acts(desk)
    found = [_reviewed(record, desk.live(name), has_drifted, acts.get(name, [])) for name, record in desk.all_staged.items()]
    accepted = sum(entry["accepted"] for entry in found)
    staged = {name: msgspec.to_builtins(desk.decision(name)) for name in sorted(desk.staged.decisions)}
    return {**where(desk), "staged": found, "accepted": accepted, "decisions": staged}


def _acts(desk: Desk) -> dict[str, list[Event]]:
    """What this session did to each staged record, newest first: told by the shard's own events, whatever a record claims."""
    found: dict[str, list[Event]] = {}
    for each in desk.chain():
        if each.state.session is None:
            break
        before = Desk(each.state.previous, desk.objects).staged.records if each.state.previous else {}
        for name, held in each.staged.records.items():
            if before.get(name) != held:
                found.setdefault(name, []).append(each.event)
    return found


def _said_by(record: Abstraction, acts: Sequence[Event]) -> str:
    """Where the content came from: what this session did, else the newest entry of the record that made any."""
    for event in acts:
        sigil = event.told.partition(" ")[0]
        if said := _SAID_BY[event.front.value] if sigil == "/commit_abstractions" else _SAID_ELSEWHERE.get(sigil):
            return said
    made = next((entry for entry in reversed(record.provenance) if entry.operation is Operation.DISTILLED), record.provenance[0])
    return _SAID_BY.get(str(made.extra.get("front")), "a file") + ("" if made.owner == record.owner else f" of {made.owner}")


def _reviewed(record: Abstraction, live: Abstraction | None, has_drifted: Callable[[Source], bool], acts: Sequence[Event]) -> View:
    holding = [source.place for source in record.sources if not has_drifted(source)]
    return {
        "concept": record.concept_id,
        "replaces": live.lineage_version if live else None,
        "same_content": live is not None and live.consensus_hash == record.consensus_hash,
        "last": record.provenance[-1].operation.value,
        "accepted": bool(acts) and (acts[0].word or "").startswith("accept "),
        "tier": record.tier.value,
        "trust": record.trust_class.value,
        "decay": record.decay_state.value,
        "promotion_ready": record.promotion_ready,
        "statement": record.statement,
        "said_by": _said_by(record, acts),
        "examples": [source.place for source in record.sources],
        "agree": len(holding),
        "threshold": record.threshold,
        "patterns": list(record.retained_patterns),
        "tokens": list(record.retained_tokens),
    }


_SAID_BY = {"cli": "the command line", "shell": "the shell", "http": "a client over HTTP", "mcp": "an agent"}
_SAID_ELSEWHERE = {"/import_abstractions": "an imported file", "/merge_abstractions": "another shard"}


def support(bench: Workbench, paths: Sequence[str], tokens: Sequence[str], patterns: Sequence[str], hint: Hint | None, limit: int) -> View:
    """The abstractions that support a query, with how far each may be used (section 7). Nothing is written."""
    query, desk = Query(tuple(paths), tuple(tokens), tuple(patterns), hint, limit), bench.desk()
    core: Mapping[str, Abstraction] | None = None
    if bench.shard.kind is not Kind.CORE:
        store = store_of(bench.project, CORE)
        core = store.desk().all_live if store.is_there else {}
    found = lookup(query, desk.all_live, desk.decisions, core, drifted(bench))
    return {**where(desk), "references": [msgspec.to_builtins(reference) for reference in found]}


def fsck(bench: Workbench) -> View:
    """Everything that is wrong with the shard, at once (SH-9). Holds its lock, so that no writer looks like damage.

    Where HEAD leads nowhere, `tips` are the states that it may have held: those that no other state follows.
    """
    store, known = store_of(bench.project, bench.shard), set[str]()
    with bench.hold():
        try:
            head = store.pointed()
            known, _ = replay.reachable(head, store)
            defects = replay.audit(head, store.shard, store)
        except Unreadable as error:
            defects = [replay.Defect(error.reason.value, "HEAD", error.message)]
        extra, states = [object_id for object_id in store.ids() if object_id not in known], dict[str, State]()
        for object_id in extra:
            try:
                found = store.get(object_id)
                states |= {object_id: found} if isinstance(found, State) else {}
            except SdaqfError as error:
                defects.append(replay.Defect(error.reason.value, object_id, error.message))
        ours = {f"{object_id}.json" for object_id in store.ids()}
        strange = [files.shown(name)[:100] for name in store.names() if name not in ours]
        defects += [replay.Defect(Reason.OBJECT_DAMAGED.value, name, "is called like no object") for name in strange]
    tips = sorted(states.keys() - {state.previous for state in states.values()}) if len(known) < 2 else []
    told = {"defects": [defect._asdict() for defect in defects], "tips": tips, "not_checked": list(replay.NOT_LOOKED_AT)}
    return {"shard": msgspec.to_builtins(store.shard), "objects": len(known), "unreachable": len(extra), **told}


def collect(bench: Workbench) -> View:
    """Remove the objects that HEAD does not lead to."""
    store = store_of(bench.project, bench.shard)
    with bench.hold():
        known, defects = replay.reachable(store.head(), store)
        if defects:
            raise Refused(Reason.OBJECT_DAMAGED, "the shard is damaged, and nothing is removed from it", todo="sdaqf shard fsck")
        spare = [object_id for object_id in store.ids() if object_id not in known]
        size = sum(map(store.remove, spare))
    return {"removed": len(spare), "bytes": size}


def verify(bench: Workbench) -> View:
    """Recompute the chain from its root (section 8)."""
    desk = store_of(bench.project, bench.shard).desk()
    return {**where(desk), **replay.replay(desk)._asdict()}
