"""This module moves a shard from one state to the next (ABSTRACTIONS 1.1 to 1.3).

A shard is idle, or it has one scratch session. What commands make is *staged*: it belongs to the session and to nobody
else, and lookup does not see it. Two words end a session. `commit` makes all of it live together, as the next revision;
`discard` forgets it. Nothing else changes live while a session is open, so that what is staged can be numbered when it is
made: the version after the lineage's highest, the revision after the present one.

`snapshot` keeps the live catalog in the saved slot; `revert` brings it back, or with `--to` that of any commit, together
with its revision. Both are for an idle shard: else they would pull the floor from under what is staged.

The table below is the whole of it. Each row is a word, or `stage` for every command; each cell is what is done, or why
not. A word is refused before anything is read but the state itself, and a refusal makes no state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from sdaqf_tasks.errors import Invalid, Reason, Refused
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards import commands, operations, records
from sdaqf_tasks.shards.commands import SIGILS, Command, Word
from sdaqf_tasks.shards.desk import Desk, Objects
from sdaqf_tasks.shards.distill import Example
from sdaqf_tasks.shards.operations import Change, Foreign, Given
from sdaqf_tasks.shards.records import Abstraction, Bucket, Catalog, Decision, Event, Front, Input, Shard, Source, Staged, State, Text

PROGRAM = "1"
"""Version of what commands make of the same state and inputs. A chain made by another version is not replayed."""

PREFIX = 6
"""Digits of a state's id that name it, where no other commit's id begins so."""

PERSONS = frozenset({Front.CLI, Front.SHELL})
"""Where a person may sit at a terminal."""


class Move(NamedTuple):
    """A new state: its id, the objects that it needs beside those that are there, and what the answer tells of it."""

    state_id: str
    objects: Mapping[str, bytes]
    answer: Mapping[str, Any]


class _Making(dict[str, bytes]):
    """The objects of a move, by id, before they are anywhere."""

    def keep(self, value: records.Object | Bucket) -> str:
        object_id, data = records.sealed(value)
        self[object_id] = data
        return object_id


class _Step(NamedTuple):
    """A command that was admitted, with what it comes with and what keeps its objects; `argument` is that of a word."""

    command: Command
    front: Front
    given: Given
    keep: Callable[[records.Object | Bucket], str]

    @property
    def argument(self) -> str:
        return self.command.argument if isinstance(self.command, Word) else ""


_Effect = tuple[dict[str, Any], Mapping[str, Any]]
"""The fields of the state that change, and what the answer tells."""

_Cell = Callable[[Desk, _Step], _Effect] | Reason
"""What is done, or why not."""


def born(which: Shard, front: Front) -> Move:
    """The root of a chain: nothing is live."""
    making = _Making()
    live = making.keep(Catalog(records={}, decisions={}, lineages={}))
    event = making.keep(Event(word="init", inputs=(), program=PROGRAM, front=front))
    root = State(shard=which, previous=None, event=event, revision=0, live=live, saved=None, committed=False, session=None, staged=None)
    return Move(making.keep(root), making, {})


def admit(state: State, line: str, front: Front) -> Command:
    """The command of a line, if the state takes it at all: what the table says comes before the grammar does.

    Raises `Refused`: the reason of the cell; REUSE_NEEDS_PROJECT; NEEDS_A_PERSON for `accept` from another front; or as
    `commands.parse`.
    """
    name = commands.name_of(line)
    cell = TABLE["stage" if name in SIGILS else name][state.session is not None]
    if isinstance(cell, Reason):
        raise Refused(cell, f"{state.shard}: {cell.when[:1].lower()}{cell.when[1:].rstrip('.')}")
    if name == "/reuse_abstractions" and state.shard.kind is not records.Kind.PROJECT:
        raise Refused(Reason.REUSE_NEEDS_PROJECT, "core is mounted, and reuse decisions belong to a project shard")
    if name == "accept" and front not in PERSONS:
        raise Refused(Reason.NEEDS_A_PERSON, "only a person at a terminal accepts a record")
    return commands.parse(line)


def advance(desk: Desk, command: Command, front: Front, given: Given = Given()) -> Move:  # noqa: B008 (an empty tuple of nothing)
    """The state after a command that was admitted. Pure: the same desk, command and inputs give the same ids.

    Raises `Refused` or `Invalid`; then there is no new state.
    """
    making = _Making()
    cell = TABLE[command.word if isinstance(command, Word) else "stage"][desk.state.session is not None]
    assert not isinstance(cell, Reason), "the command was not admitted"
    fields, answer = cell(desk, _Step(command, front, given, making.keep))
    told = {"word" if isinstance(command, Word) else "command": str(command)}
    event = making.keep(Event(inputs=_inputs(given, making), program=PROGRAM, front=front, **told))
    return Move(making.keep(replace(desk.state, previous=desk.state_id, event=event, **fields)), making, answer)


# ---- the cells ------------------------------------------------------------------------------------------------------


def _begin(desk: Desk, step: _Step) -> _Effect:
    return {"session": desk.state_id, "staged": step.keep(Staged())}, {}


def _stage(desk: Desk, step: _Step) -> _Effect:
    """Stage a change, which has to fit: nothing that is staged can fail to commit."""
    change: Change = operations.STAGING[type(step.command)](desk, step.command, step.front, step.given)
    desk.verify_parents(change.records)
    desk.verify_room(change.records)
    for record in change.records.values():
        records.verify(record)
    made = {name: step.keep(record) for name, record in change.records.items()}
    decided = {name: decision and step.keep(decision) for name, decision in change.decisions.items()}
    staged = replace(desk.staged, records={**desk.staged.records, **made}, decisions={**desk.staged.decisions, **decided})
    return {"staged": step.keep(staged)}, change.answer


def _drop(desk: Desk, step: _Step) -> _Effect:
    name = step.argument
    if name not in desk.staged.records:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"{name} is not staged")
    without = desk.without(name)
    if needing := _needing(desk, without, name):
        raise Refused(Reason.HAS_DEPENDENTS, f"staged work needs {name}: {', '.join(needing)}")
    without.verify_room({})
    return {"staged": step.keep(without.staged)}, {"dropped": name}


def _needing(desk: Desk, without: Desk, name: str) -> list[str]:
    """The records whose parents would not hold without it, live ones too, and the staged decisions that keep it."""
    found, live = [], desk.live(name)
    for other in {*desk.all_live, *without.staged.records}:
        try:
            without.verify_chain(other)
        except Refused:
            found.append(other)
    for source, held in desk.staged.decisions.items():
        decision: Decision | None = desk.objects.get(held) if held else None
        pin = decision.local if decision else None
        if pin and pin.concept_id == name and (live is None or live.consensus_hash != pin.consensus_hash):
            found.append(f"the decision about core:{source}")
    return sorted(found)


def _discard(desk: Desk, step: _Step) -> _Effect:
    dropped = {"records": sorted(desk.staged.records), "decisions": sorted(desk.staged.decisions)}
    return {"session": None, "staged": None}, {"discarded": dropped}


def _commit(desk: Desk, step: _Step) -> _Effect:
    live = _applied(desk, step)
    if live == desk.state.live:
        return {"session": None, "staged": None}, {"committed": []}
    made = desk.all_staged.values()
    told = [{"concept": each.concept_id, "version": each.lineage_version, "trust": each.trust_class.value} for each in made]
    fields = {"live": live, "revision": desk.state.revision + 1, "committed": True, "session": None, "staged": None}
    return fields, {"committed": told, "decisions": sorted(desk.staged.decisions)}


def _applied(desk: Desk, step: _Step) -> str:
    """The id of the live catalog with what is staged: only the buckets that change are made anew."""
    buckets, lineages = dict(desk.catalog.records), dict(desk.catalog.lineages)
    changed: dict[str, dict[str, Abstraction]] = {}
    for name, record in desk.all_staged.items():
        digits = records.bucket_of(name)
        changed.setdefault(digits, dict(desk.bucket(digits)))[name] = record
        lineages[record.lineage_id] = record.lineage_version
    buckets.update({digits: step.keep(bucket) for digits, bucket in changed.items()})
    decided = {**desk.catalog.decisions, **desk.staged.decisions}
    decisions = {name: held for name, held in decided.items() if held}
    return step.keep(Catalog(records=buckets, decisions=decisions, lineages=lineages))


def _snapshot(desk: Desk, step: _Step) -> _Effect:
    return {"saved": desk.state.live}, {}


def _revert(desk: Desk, step: _Step) -> _Effect:
    """`revision` is part of live: it comes back from the state that saved the catalog, or that committed it."""
    if not step.argument and desk.state.saved is None:
        raise Refused(Reason.SNAPSHOT_MISSING, f"{desk.shard}: nothing was saved")
    word = "commit" if step.argument else "snapshot"
    wanted = step.argument.upper().removeprefix("SHARD-STATE-")
    known = (each for each in desk.chain() if each.event.word == word and each.state_id.removeprefix("SHARD-STATE-").startswith(wanted))
    past, other = next(known, None), next(known, None) if wanted else None
    if past is None or other is not None or 0 < len(wanted) < PREFIX:
        raise Refused(Reason.STATE_NOT_FOUND, "no commit of this chain has that id, or several begin so")
    return {"live": past.state.live, "revision": past.state.revision}, {"reverted": {"to": past.state_id, "revision": past.state.revision}}


# word:                         while idle                    while a session is active
TABLE: Mapping[str, tuple[_Cell, _Cell]] = {
    "begin scratch":           (_begin,                       Reason.SCRATCH_ACTIVE),
    "stage":                   (Reason.SCRATCH_NOT_ACTIVE,    _stage),
    "accept":                  (Reason.SCRATCH_NOT_ACTIVE,    _stage),
    "drop":                    (Reason.SCRATCH_NOT_ACTIVE,    _drop),
    "discard":                 (Reason.SCRATCH_NOT_ACTIVE,    _discard),
    "commit":                  (Reason.SCRATCH_NOT_ACTIVE,    _commit),
    "snapshot":                (_snapshot,                    Reason.SCRATCH_SESSION_ACTIVE),
    "revert":                  (_revert,                      Reason.SCRATCH_SESSION_ACTIVE),
}  # fmt: skip


# ---- inputs ---------------------------------------------------------------------------------------------------------
# An event keeps what came from outside as objects of this shard; the role says what each is, in words that are parsed again.


def _inputs(given: Given, making: _Making) -> tuple[Input, ...]:
    found = []
    for example in given.examples:
        source = example.source
        role = f"example {source.spec} {source.path} {source.line_start} {source.line_end} {source.sha256}"
        found.append(Input(role=role, id=making.keep(Text(text=example.text))))
    if given.foreign and given.foreign.record:
        found.append(Input(role=f"record {given.foreign.shard} {given.foreign.state}", id=making.keep(given.foreign.record)))
    found.extend(Input(role=f"file {name}", id=making.keep(Text(text=text))) for name, text in given.files.items())
    return tuple(found)


def given_of(event: Event, objects: Objects) -> Given:
    """What an event was given, from its inputs: for a replay. Raises `Invalid`: CONTRACT_INVALID where one is not what its role says."""
    examples, foreign, files = [], None, {}
    for each in event.inputs:
        held = objects.get(each.id)
        match each.role.split(" "), held:
            case ["example", spec, path, first, last, sha256], Text(text=text) if first.isdecimal() and last.isdecimal():
                digest = canonical.digest(text.encode("utf-8"))
                source = Source(spec=spec, path=path, line_start=int(first), line_end=int(last), sha256=sha256, text_sha256=digest)
                examples.append(Example(source, text))
            case ["record", which, state], Abstraction():
                foreign = Foreign(records.shard(which), state, held)
            case ["file", name], Text(text=text):
                files[name] = text
            case _:
                raise Invalid(Reason.CONTRACT_INVALID, "an input of the event is not what its role says")
    return Given(tuple(examples), foreign, files)
