"""This module recomputes a shard from its root (ABSTRACTIONS 8), and looks a whole shard over (SH-9).

verify(desk)     every state of the chain from its predecessor and its event: the ids must match
audit(...)       what the objects say of one another, all faults at once
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sdaqf_tasks.errors import Invalid, Refused, SdaqfError
from sdaqf_tasks.shards import commands, normalise, session
from sdaqf_tasks.shards.desk import Desk, Objects
from sdaqf_tasks.shards.records import Abstraction, Catalog, Decision, Event, Shard, Staged, State, bucket_of, verify


class Replayed(NamedTuple):
    """Events that were replayed, out of all; those that cannot be, which is no failure; and the first that differs."""

    events: int
    replayed: int
    not_replayable: int
    failure: str = ""


def replay(desk: Desk) -> Replayed:
    """Walk the chain from its root. Raises as `Objects` where an object is missing or damaged."""
    chain = [each.state_id for each in desk.chain()][::-1]
    replayed = 0
    for index, state_id in enumerate(chain):
        try:
            expected = _recomputed(chain[index - 1] if index else None, state_id, desk.objects)
        except (Refused, Invalid) as error:
            return Replayed(len(chain), replayed, index - replayed, f"{state_id}: its event is refused: {error.message}")
        if expected not in (None, state_id):
            return Replayed(len(chain), replayed, index - replayed, f"{state_id}: its event gives {expected}")
        replayed += expected is not None
    return Replayed(len(chain), replayed, len(chain) - replayed)


def _recomputed(previous: str | None, state_id: str, objects: Objects) -> str | None:
    """The id of the state that its event makes of its predecessor; None where this program cannot make it."""
    desk = Desk(state_id, objects)
    if not _is_replayable(desk):
        return None
    if previous is None:
        return session.born(desk.shard, desk.event.front).state_id
    before = Desk(previous, objects)
    command = session.admit(before.state, desk.event.command or desk.event.word or "", desk.event.front)
    return session.advance(before, command, desk.event.front, session.given_of(desk.event, objects)).state_id


def _is_replayable(desk: Desk) -> bool:
    """Whether program and normaliser of the event are those of this program."""
    made = desk.event.command and commands.name_of(desk.event.command) == "/commit_abstractions"
    versions = {record.normaliser for record in map(desk.staged_record, desk.staged.records) if record} if made else set()
    return desk.event.program == session.PROGRAM and versions <= {normalise.VERSION}


# ---- looking a shard over -------------------------------------------------------------------------------------------


class Defect(NamedTuple):
    """What is wrong, and where: a code of `doctor`, an object or `HEAD`, a sentence."""

    code: str
    place: str
    message: str


NOT_LOOKED_AT = (
    "resonances, which `sdaqf shard verify` recomputes",
    "states before the present one beyond their hashes, which it recomputes too",
    "whether HEAD was moved back to an older state that is intact",
)


def references(value: Any) -> Iterator[str]:
    """The ids that an object names, of objects of the same shard."""
    if isinstance(value, State):
        yield from filter(None, (value.previous, value.event, value.live, value.saved, value.session, value.staged))
    elif isinstance(value, Catalog):
        yield from (*value.records.values(), *value.decisions.values())
    elif isinstance(value, Staged):
        yield from (*value.records.values(), *filter(None, value.decisions.values()))
    elif isinstance(value, Event):
        yield from (each.id for each in value.inputs)


def reachable(head: str, objects: Objects) -> tuple[set[str], list[Defect]]:
    """Every object that HEAD leads to, and those of them that are missing or damaged."""
    seen, todo, defects = {head}, [head], []
    while todo:
        object_id = todo.pop()
        try:
            new = set(references(objects.get(object_id))) - seen
        except SdaqfError as error:
            defects.append(Defect(error.reason.value, object_id, error.message))
            continue
        seen |= new
        todo.extend(new)
    return seen, defects


def audit(head: str, which: Shard, objects: Objects) -> list[Defect]:
    """What is wrong with the shard: hashes, chain, derived scores, bounds, parents, pins, staged work without a session."""
    seen, defects = reachable(head, objects)
    damaged = {defect.place for defect in defects}
    for object_id in sorted(seen - damaged):
        defects.extend(Defect("inconsistent", object_id, message) for message in _faults(object_id, which, objects))
    if not damaged:
        defects.extend(Defect("inconsistent", head, message) for message in _refusals(Desk(head, objects)))
    return sorted(defects, key=lambda defect: (defect.place, defect.message))


def _faults(object_id: str, which: Shard, objects: Objects) -> Iterator[str]:
    value = objects.get(object_id)
    if isinstance(value, State):
        if value.shard != which:
            yield f"is a state of {value.shard}"
        if (value.staged is None) != (value.session is None):
            yield "has staged work without a session, or a session without any"
    elif isinstance(value, Abstraction):
        yield from _invalid(value)
    elif isinstance(value, dict):
        for name, record in value.items():
            if name != record.concept_id:
                yield f"{name}: is the record of {record.concept_id}"
            yield from (f"{name}: {message}" for message in _invalid(record))


def _invalid(record: Abstraction) -> Iterable[str]:
    try:
        verify(record)
    except Invalid as error:
        return (str(error),)
    return ()


def _refusals(desk: Desk) -> Iterator[str]:
    """What relates the records of one state: buckets, lineages, parents, room, the records that decisions pin."""
    for digits, bucket in ((digits, desk.bucket(digits)) for digits in desk.catalog.records):
        yield from (f"{name} is in bucket {digits}" for name in bucket if bucket_of(name) != digits)
    for name, record in desk.all_live.items():
        if desk.catalog.lineages.get(record.lineage_id) != record.lineage_version:
            yield f"{name}: its version is not its lineage's highest"
    try:
        desk.verify_chains((*desk.all_live, *desk.staged.records))
        desk.verify_room({})
    except Refused as error:
        yield error.message
    for name in {*desk.catalog.decisions, *desk.staged.decisions}:
        decision: Decision | None = desk.decision(name)
        pin = decision.local if decision else None
        if decision and (decision.source.concept_id != name or (pin and desk.record(pin.concept_id) is None)):
            yield f"the decision about core:{name} pins what is not there"
