"""This module recomputes a shard from its root (ABSTRACTIONS 8), and looks a whole shard over (SH-9).

verify(desk)     every state of the chain from its predecessor and its event: the ids must match
audit(...)       what the objects say of one another, all faults at once
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container, Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from sdaqf_tasks.errors import Invalid, Malformed, Reason, Refused, SdaqfError
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
        except (Refused, Invalid, Malformed) as error:
            if error.reason is Reason.OBJECT_DAMAGED:
                raise
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
    command = session.admit(before.state, desk.event.told, desk.event.front)
    return session.advance(before, command, desk.event.front, session.given_of(desk.event, objects)).state_id


def _is_replayable(desk: Desk) -> bool:
    """Whether the program of the event, and the normaliser of what it distilled, are those of this program."""
    if desk.event.program != session.PROGRAM:
        return False
    command = commands.parse(desk.event.command) if desk.event.command else None
    made = desk.staged_record(command.concept) if isinstance(command, commands.Distil) else None
    return made is None or made.normaliser == normalise.VERSION


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
    if head not in damaged:
        for desk in _live_and_saved(Desk(head, objects), damaged):
            defects.extend(Defect("inconsistent", *found) for found in _mismatches(desk, damaged))
    return sorted(defects, key=lambda defect: (defect.place, defect.message))


def _faults(object_id: str, which: Shard, objects: Objects) -> Iterator[str]:
    value = objects.get(object_id)
    if isinstance(value, State):
        if value.shard != which:
            yield f"is a state of {value.shard}"
        if (value.staged is None) != (value.session is None):
            yield "has staged work without a session, or a session without any"
    elif isinstance(value, Staged):
        for name, held in value.records.items():
            with contextlib.suppress(SdaqfError):  # then it is named itself
                if objects.get(held).concept_id != name:
                    yield f"{name}: is the record of {objects.get(held).concept_id}"
    elif isinstance(value, Abstraction):
        yield from _invalid(value)
    elif isinstance(value, dict):
        for name, record in value.items():
            if name != record.concept_id:
                yield f"{name}: is the record of {record.concept_id}"
            yield from (f"{name}: {message}" for message in _invalid(record))


def _invalid(record: Abstraction) -> Iterator[str]:
    try:
        verify(record)
    except Invalid as error:
        yield str(error)


def _live_and_saved(desk: Desk, damaged: Container[str]) -> Iterator[Desk]:
    """The state, and as it would be after a revert; of both only what is not damaged."""
    if desk.state.live not in damaged and desk.state.staged not in damaged:
        yield desk
    if desk.state.saved not in (None, desk.state.live) and desk.state.saved not in damaged:
        yield Desk(desk.state_id, desk.objects, replace(desk.state, live=desk.state.saved, session=None, staged=None))


def _mismatches(desk: Desk, damaged: Container[str]) -> Iterator[tuple[str, str]]:
    """What is wrong between the records of one catalog, and where. What cannot be read has been named already."""
    intact = {digits: held for digits, held in desk.catalog.records.items() if held not in damaged}
    live: dict[str, Abstraction] = {}
    for digits, held in intact.items():
        yield from ((held, f"{name} is in bucket {digits}") for name in desk.bucket(digits) if bucket_of(name) != digits)
        live |= desk.bucket(digits)
    staged = {name: record for name, held in desk.staged.records.items() if held not in damaged and (record := desk.objects.get(held))}

    owners, highest = {record.lineage_id for record in live.values()}, desk.catalog.lineages
    for name, record in live.items():
        if highest.get(record.lineage_id) != record.lineage_version:
            yield desk.state.live, f"{name}: its version is not its lineage's highest"
    if len(intact) == len(desk.catalog.records):
        yield from ((desk.state.live, f"{lineage} is the lineage of no record") for lineage in sorted(highest.keys() - owners))
    for name, record in staged.items():
        if record.lineage_version != highest.get(record.lineage_id, 0) + 1:
            yield desk.state.staged or "", f"{name}: its version is not the next one of its lineage"

    for name in sorted({*live, *staged}):
        yield from ((desk.state_id, message) for message in _refused(desk.verify_chain, name))
    yield from ((desk.state_id, message) for message in _refused(desk.verify_room, {}))
    for name, decided in {**desk.catalog.decisions, **desk.staged.decisions}.items():
        if decided and decided not in damaged:
            yield from ((decided, message) for message in _refused(_verify_decision, desk, name, desk.objects.get(decided)))


def _refused(verify: Callable[..., None], *arguments: Any) -> Iterator[str]:
    """Why it does not hold, if what it asks for can be read."""
    try:
        verify(*arguments)
    except Refused as error:
        yield error.message
    except SdaqfError:
        return


def _verify_decision(desk: Desk, name: str, decision: Decision) -> None:
    if decision.source.concept_id != name:
        raise Refused(Reason.CONTRACT_INVALID, f"is kept as the decision about core:{name}, and is about {decision.source.concept_id}")
    if decision.local and desk.record(decision.local.concept_id) is None:
        raise Refused(Reason.CONTRACT_INVALID, f"the decision about core:{name} pins {decision.local.concept_id}, which is not there")
