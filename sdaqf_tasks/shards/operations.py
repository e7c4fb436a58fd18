"""This module says what each command stages: distil, reuse, merge, prune, accept, import (ABSTRACTIONS 3 to 6).

An operation takes a desk, a command, where it came from and what it was given from outside; it gives a `Change`, or
raises `Refused` and has done nothing. Rules stand in the order in which the page checks them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from sdaqf_tasks.errors import Invalid, Malformed, Reason, Refused
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import is_secret_shaped, must
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.commands import Collect, Distil, Import, Mark, Merge, Reuse, Word
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.distill import Example, consensus_of
from sdaqf_tasks.shards.records import Abstraction, Choice, Decay, Decision, Entry, Front, Kind, Operation, Shard, Source, Trust

IMPORT_BYTES = 1_048_576
"""Bytes that a published record file may have."""


class Foreign(NamedTuple):
    """A record of another shard, as it was live in a state of it; None where it is not."""

    shard: Shard
    state: str
    record: Abstraction | None


class Given(NamedTuple):
    """What a command is given from outside the shard."""

    examples: tuple[Example, ...] = ()
    foreign: Foreign | None = None
    files: Mapping[str, str] = {}


class Change(NamedTuple):
    """What is staged anew, by concept (a decision of None withdraws one), and what the answer tells of it."""

    records: Mapping[str, Abstraction] = {}
    decisions: Mapping[str, Decision | None] = {}
    answer: Mapping[str, Any] = {}


# ---- distil ---------------------------------------------------------------------------------------------------------


def distil(desk: Desk, command: Distil, front: Front, given: Given) -> Change:
    before = desk.record(command.concept)
    _verify_unprotected(before)
    found = consensus_of(given.examples)
    sources = tuple(example.source for example in given.examples)
    made = Abstraction(
        concept_id=command.concept,
        statement=command.statement,
        tier=command.tier,
        category=command.category,
        parent=command.parent,
        examples=len(sources),
        threshold=records.threshold(len(sources)),
        average_resonance=found.average,
        min_resonance=found.minimum,
        normaliser=found.normaliser,
        consensus_hash=found.hash,
        trust_class=Trust.EXPLORATORY if front is Front.MCP else desk.shard.trust,
        decay_state=Decay.ACTIVE,
        owner=desk.shard,
        sources=sources,
        retained_tokens=found.tokens,
        retained_patterns=found.patterns,
        **_UNSCORED,
        **_born(desk, command.concept, before),
    )
    digests = tuple(source.sha256 for source in sources)
    record = _written(made, before, Operation.DISTILLED, desk.shard, front=front.value, sources=digests)
    return Change({command.concept: record}, answer={"abstraction": msgspec.to_builtins(record)})


_UNSCORED: dict[str, Any] = {"quality_score": 0, "confidence_score": 0, "reuse_score": 0, "support_score": 0, "promotion_ready": False}


def _born(desk: Desk, name: str, before: Abstraction | None) -> dict[str, Any]:
    """Lineage, version and revisions of content that becomes live with the next commit (1.3, LI-1 to LI-3)."""
    now = desk.state.revision + 1
    lineage = before.lineage_id if before else f"{desk.shard.kind.value}:{desk.shard.id}:{name}"
    return {
        "lineage_id": lineage,
        "lineage_version": desk.catalog.lineages.get(lineage, 0) + 1,
        "first_revision": before.first_revision if before else now,
        "last_revision": now,
        "last_review_revision": before.last_review_revision if before else 0,
        "provenance": (),
        "provenance_dropped": 0,
    }


def _written(record: Abstraction, before: Abstraction | None, operation: Operation, owner: Shard, **extra: Any) -> Abstraction:
    """The record with its scores, and with one entry more than the one before it: no operation erases any (PR-1)."""
    past: tuple[tuple[Entry, ...], int] = (before.provenance, before.provenance_dropped) if before else ((), 0)
    return records.scored(replace(record, **records.appended(*past, records.entry(record, operation, owner, **extra))))


def _verify_unprotected(record: Abstraction | None, reason: Reason = Reason.PROTECTED_RECORD) -> None:
    if record and record.decay_state is Decay.PROTECTED:
        raise Refused(reason, f"{record.concept_id} is protected", todo=f"sdaqf shard prune unprotect {record.concept_id}")


def _foreign(given: Given, which: Shard, name: str) -> Abstraction:
    """The live record of another shard that a command names."""
    record = given.foreign.record if given.foreign and given.foreign.shard == which else None
    if record is None or record.concept_id != name:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"{which} has no live {name}")
    return record


# ---- reuse (section 4) ----------------------------------------------------------------------------------------------


def reuse(desk: Desk, command: Reuse, front: Front, given: Given) -> Change:
    """Check 0, the session, and 1, a project, were made before the command was parsed (`session.admit`)."""
    held = desk.decision(command.source)
    if command.choice is None:
        if held is None:
            raise Refused(Reason.REUSE_DECISION_NOT_FOUND, f"there is no decision about core:{command.source}")
        return Change(decisions={command.source: None}, answer={"abstractionReuse": {"decision": "withdraw", "source": command.source}})
    source = _foreign(given, records.CORE, command.source)
    local = desk.record(command.local or command.source)
    if command.choice is Choice.ADOPT and local and not local.compatible(source):
        raise Refused(Reason.CONFLICT_NEEDS_CHOICE, f"the local {command.source} says something else than core's")
    if command.choice is Choice.PROMOTE and local is None:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"there is no local {command.local}")
    marked: dict[str, Abstraction] = {}
    if local:
        stamped = replace(local, last_revision=desk.state.revision + 1)
        marked[local.concept_id] = _marked(desk, stamped, Operation(f"reuse_{command.choice.value}"), source=f"core:{command.source}")
    pinned = marked[command.local].pin if command.local else None
    decision = Decision(decision=command.choice, source=source.pin, local=pinned)
    return Change(marked, {command.source: decision}, {"abstractionReuse": msgspec.to_builtins(decision)})


# ---- merge (section 5) ----------------------------------------------------------------------------------------------


def merge(desk: Desk, command: Merge, front: Front, given: Given) -> Change:
    source = _mergeable(desk, command, given)
    operation = Operation.MERGE_PROMOTE if command.promote else Operation.MERGE_ADOPT
    into = desk.record(command.target)
    if into:
        if not into.compatible(source):
            raise Refused(Reason.MERGE_CONFLICT, f"the {command.target} that is here says something else")
        _verify_unprotected(into, Reason.MERGE_PROTECTED)
    trust = Trust.PROMOTED if command.promote else min(source.trust_class, Trust.PROMOTED)
    made = _united(into, source, trust) if into else replace(source, owner=desk.shard, trust_class=trust, decay_state=Decay.ACTIVE)
    made = replace(made, concept_id=command.target, **_born(desk, command.target, into))
    # What an agent staged stays exploratory until a person accepts it: that others say the same does not raise it.
    if front is Front.MCP or (into and into.trust_class is Trust.EXPLORATORY):
        made = replace(made, trust_class=Trust.EXPLORATORY)
    named = {"shard": str(command.shard), "lineage_id": source.lineage_id, "lineage_version": source.lineage_version}
    record = _written(made, into or source, operation, desk.shard, **named)
    ends = {"source": _end(command.shard, source), "destination": _end(desk.shard, record), "mergedIntoExisting": into is not None}
    return Change({command.target: record}, answer={"abstractionMerge": ends})


def _mergeable(desk: Desk, command: Merge, given: Given) -> Abstraction:
    """The source record, once checks 1 to 6 of section 5 hold."""
    if command.shard == desk.shard:
        raise Refused(Reason.SELF_MERGE, f"{desk.shard} is the shard that is mounted")
    source = _foreign(given, command.shard, command.source)
    if source.trust_class is Trust.EXPLORATORY:
        raise Refused(Reason.EXPLORATORY_CONTENT, f"{command.source} of {command.shard} is exploratory")
    if source.decay_state is Decay.PRUNABLE:
        raise Refused(Reason.PRUNABLE_CONTENT, f"{command.source} of {command.shard} is prunable")
    higher = source.trust_class.rank < desk.shard.trust.rank
    if command.promote and not higher:
        raise Refused(Reason.TRUST_NEEDS_HIGHER, f"{desk.shard} trusts no more than the {source.trust_class.value} of the source")
    if not command.promote and (higher or desk.shard.kind is not Kind.PROJECT):
        raise Refused(Reason.USE_PROMOTE, f"{desk.shard} trusts more than the {source.trust_class.value} of the source")
    return source


def _united(into: Abstraction, source: Abstraction, trust: Trust) -> Abstraction:
    """What is there with the evidence of the source, unless that is trusted less: then it must not borrow trust."""
    if source.trust_class < into.trust_class:
        return into
    known = {_example(each) for each in into.sources}
    added = tuple(each for each in source.sources if _example(each) not in known)[: records.EXAMPLES - len(into.sources)]
    sources, count = (*into.sources, *added), into.examples + source.examples
    average = (into.average_resonance * into.examples + source.average_resonance * source.examples) // count
    return replace(
        into,
        sources=sources,
        examples=len(sources),
        threshold=records.threshold(len(sources)),
        min_resonance=min(into.min_resonance, source.min_resonance),
        average_resonance=average if added else into.average_resonance,
        statement=into.statement or source.statement,
        trust_class=max(into.trust_class, trust),
        decay_state=Decay.ACTIVE,
    )


def _example(source: Source) -> tuple[Any, ...]:
    return source.path, source.line_start, source.line_end, source.text_sha256


def _end(owner: Shard, record: Abstraction) -> dict[str, Any]:
    lineage = {"lineage": record.lineage_id, "version": record.lineage_version}
    return {"kind": owner.kind.value, "id": owner.id, "concept": record.concept_id, **lineage, "trust": record.trust_class.value}


# ---- prune (section 6) ----------------------------------------------------------------------------------------------

_MARKS = {
    "stale": (Decay.STALE, Operation.PRUNE_MARK_STALE),
    "prunable": (Decay.PRUNABLE, Operation.PRUNE_MARK_PRUNABLE),
    "refresh": (Decay.ACTIVE, Operation.PRUNE_REFRESH),
    "protect": (Decay.PROTECTED, Operation.PROTECT),
    "unprotect": (Decay.ACTIVE, Operation.UNPROTECT),
}


def mark(desk: Desk, command: Mark, front: Front, given: Given) -> Change:
    before = desk.record(command.concept)
    if before is None:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"{command.concept} is neither live nor staged")
    if command.mode != "unprotect":
        _verify_unprotected(before)
    decay, operation = _MARKS[command.mode]
    reviewed = desk.state.revision + 1 if command.mode == "refresh" else before.last_review_revision
    record = _marked(desk, replace(before, decay_state=decay, last_review_revision=reviewed), operation)
    return Change({command.concept: record}, answer={"abstractionPrune": {"mode": command.mode, "concepts": [command.concept]}})


def collect(desk: Desk, command: Collect, front: Front, given: Given) -> Change:
    eligible = [record for record in desk.all_live.values() if _eligible(desk, command, record)]
    eligible.sort(key=lambda record: (record.last_revision, record.concept_id))
    taken = eligible[: records.COLLECTED]
    marked = {record.concept_id: _marked(desk, replace(record, decay_state=Decay.PRUNABLE), Operation.PRUNE_COLLECT) for record in taken}
    told = {"mode": "collect", "concepts": [record.concept_id for record in taken], "remaining": len(eligible) - len(taken)}
    return Change(marked, answer={"abstractionPrune": told})


def _eligible(desk: Desk, command: Collect, record: Abstraction) -> bool:
    return (
        record.decay_state not in (Decay.PROTECTED, Decay.PRUNABLE)
        and not command.trust < record.trust_class
        and record.quality_score <= command.quality
        and record.confidence_score <= command.confidence
        and desk.state.revision >= max(record.last_review_revision, record.last_revision) + command.gap
        and record.concept_id not in desk.staged.records
    )


def _marked(desk: Desk, record: Abstraction, operation: Operation, **extra: Any) -> Abstraction:
    """The record with one entry more and, where it is live, its next version; a mark changes no content."""
    version = desk.catalog.lineages.get(record.lineage_id, 0) + 1
    return _written(replace(record, lineage_version=version), record, operation, desk.shard, **extra)


# ---- accept and import ----------------------------------------------------------------------------------------------


def accept(desk: Desk, command: Word, front: Front, given: Given) -> Change:
    """An agent's record becomes the shard's own, by the act of a person (section 3)."""
    before = desk.record(command.argument)
    if before is None or before.trust_class is not Trust.EXPLORATORY:
        raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"there is no exploratory {command.argument}")
    _verify_unprotected(before)
    raised = replace(before, trust_class=desk.shard.trust, last_revision=desk.state.revision + 1)
    record = _marked(desk, raised, Operation.ACCEPTED, front=front.value)
    return Change({command.argument: record}, answer={"abstraction": msgspec.to_builtins(record)})


def take_in(desk: Desk, command: Import, front: Front, given: Given) -> Change:
    """Published records of other projects: trusted at most as this shard trusts its own, and never above their file."""
    taken: dict[str, Abstraction] = {}
    notes: list[str] = []
    if not set(command.names) <= given.files.keys():
        raise Refused(Reason.INVALID_COMMAND, "files are imported at the command line", todo="sdaqf shard import FILE…")
    for name in command.names:
        record, filled = _imported(desk, name, given.files[name], front)
        before = taken.get(record.concept_id) or desk.record(record.concept_id)
        if before and before.lineage_id != record.lineage_id:
            raise Refused(Reason.MERGE_CONFLICT, f"{record.concept_id} is here already, of another lineage", at=name)
        _verify_unprotected(before)
        if before:
            new = [each for each in record.provenance if each not in before.provenance]
            kept = records.appended(before.provenance, before.provenance_dropped, *new)
            kept["provenance_dropped"] = max(kept["provenance_dropped"], record.provenance_dropped)
            record = replace(record, first_revision=before.first_revision, **kept)
        taken[record.concept_id] = record
        notes.extend(f"{name}: {each} filled in" for each in filled)
    return Change(taken, answer={"abstractionImport": {"imported": sorted(taken), "backfilled": notes}})


def _imported(desk: Desk, name: str, text: str, front: Front) -> tuple[Abstraction, list[str]]:
    """The record of one file, and what of it was missing and filled in (PR-3). Raises with the place in the file."""
    try:
        value = canonical.load(text.encode("utf-8"), IMPORT_BYTES)
        must(isinstance(value, dict) and isinstance(value.get("record"), dict), "not a published record", "record")
        must(not is_secret_shaped(canonical.encode(value).decode()), "looks like a key or a token", reason=Reason.SECRET_SHAPED_TEXT)
        fields = dict(value["record"])
        named = records.concept(str(fields.get("concept_id", "")))
        missing = [key for key in ("lineage_id", "provenance") if not fields.get(key)]
        born = _born(desk, named, None)
        if "lineage_id" in missing:
            fields |= {key: born[key] for key in ("lineage_id", "lineage_version")}
        if "provenance" in missing:
            fields |= {"provenance": [_backfilled(desk, fields)], "provenance_dropped": 0}
        record = msgspec.convert(fields, Abstraction)
        records.verify(record)
    except (Invalid, Malformed, Refused) as error:
        raise type(error)(error.reason, error.message, at="/".join(filter(None, (name, error.where)))) from None
    except msgspec.ValidationError as error:
        raise Invalid(Reason.CONTRACT_INVALID, str(error)[:200], at=f"{name}/record") from None
    highest = desk.catalog.lineages.get(record.lineage_id, 0)
    stamps = {key: born[key] for key in ("first_revision", "last_revision", "last_review_revision")}
    # Core is entered by promotion only: what a file claims there is at most that.
    trust = Trust.EXPLORATORY if front is Front.MCP else min(record.trust_class, desk.shard.trust, Trust.PROMOTED)
    return replace(record, owner=desk.shard, trust_class=trust, lineage_version=highest + 1, **stamps), missing


def _backfilled(desk: Desk, fields: Mapping[str, Any]) -> dict[str, Any]:
    what = {key: fields.get(key) for key in records.Pin.__struct_fields__}
    extra = {"backfilled": "imported without provenance"}
    return {"operation": "distilled", "owner": msgspec.to_builtins(desk.shard), "extra": extra, **what}


STAGING: Mapping[type, Any] = {Distil: distil, Reuse: reuse, Merge: merge, Mark: mark, Collect: collect, Import: take_in, Word: accept}
"""What does each command. Of the control words `accept` alone stages anything, and it is only a person's."""
