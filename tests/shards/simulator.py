"""This module is a shard in memory and a bench to work on it: no disk, no lock, no repository.

    bench = Bench()                                      # project:default, idle and empty
    bench.run("begin scratch", distil("retry"), "commit")
    bench.refuses(Reason.SCRATCH_NOT_ACTIVE, "commit")   # asserts also that nothing changed
    core, project = joined(Bench(CORE), Bench())         # each finds the other's live records
    project.plant(record("retry", decay_state=Decay.STALE))

Sources are regions of `FILES`: thirteen files of each of three texts, which have nothing in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from sdaqf_tasks.errors import Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards import session
from sdaqf_tasks.shards.commands import Command, Distil, Import, Merge, Reuse
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.distill import Example, cut, merged, parse_region
from sdaqf_tasks.shards.operations import Foreign, Given
from sdaqf_tasks.shards.records import (
    CORE,
    Abstraction,
    Bucket,
    Catalog,
    Decision,
    Event,
    Front,
    Object,
    Shard,
    bucket_of,
    decode,
    sealed,
)
from tests.shards.records import PROJECT

TEXTS = {
    "guard": "if Retry:\n    return Wait\n",
    "loop": "while Busy:\n    raise Stop\n",
    "lock": "with Lock:\n    yield Held\n",
}
FILES = {f"{text}/{number}.py": body for text, body in TEXTS.items() for number in range(1, 14)}


def distil(concept: str = "retry", text: str = "guard", *options: str, examples: int = 2, first: int = 1) -> str:
    """The command that distils some files of one text."""
    specs = [f"region:{text}/{number}.py:1-2" for number in range(first, first + examples)]
    return " ".join(["/commit_abstractions", concept, *options, *specs])


class Memory:
    """The objects of a shard. `held` may be damaged at will."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}
        self._read: dict[str, tuple[bytes, Any]] = {}

    def get(self, object_id: str) -> Any:
        data = self._bytes(object_id)
        if object_id not in self._read or self._read[object_id][0] is not data:
            self._read[object_id] = data, decode(object_id, data)
        return self._read[object_id][1]

    def size(self, object_id: str) -> int:
        return len(self._bytes(object_id))

    def keep(self, value: Object | Bucket) -> str:
        object_id, data = sealed(value)
        self.held.setdefault(object_id, data)
        return object_id

    def _bytes(self, object_id: str) -> bytes:
        if object_id not in self.held:
            raise Unreadable(Reason.OBJECT_MISSING, f"the object {object_id} is not there")
        return self.held[object_id]


class Bench:
    """One shard, as a front works on it. `head` is the id of its state."""

    def __init__(self, which: Shard = PROJECT, front: Front = Front.CLI) -> None:
        self.shard, self.front, self.objects = which, front, Memory()
        self.others: Mapping[Shard, Bench] = {}
        root = session.born(which, front)
        self.objects.held.update(root.objects)
        self.head = root.state_id

    @property
    def desk(self) -> Desk:
        return Desk(self.head, self.objects)

    def run(self, *lines: str, front: Front | None = None, files: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Do the lines one after the other; the answer to the last of them."""
        answer: dict[str, Any] = {}
        for line in lines:
            by = front or self.front
            command = session.admit(self.desk.state, line, by)
            move = session.advance(self.desk, command, by, self._given(command, files or {}))
            self.objects.held.update(move.objects)
            self.head, answer = move.state_id, dict(move.answer)
        return answer

    def commit(self, *lines: str, front: Front | None = None, files: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Do the lines in a session of their own."""
        return self.run("begin scratch", *lines, "commit", front=front, files=files)

    def refuses(self, reason: Reason, line: str, *, front: Front | None = None, files: Mapping[str, str] | None = None) -> SdaqfError:
        """Assert that the line is refused for that reason, and that nothing changed."""
        before = self.head, dict(self.objects.held)
        with pytest.raises(SdaqfError) as caught:
            self.run(line, front=front, files=files)
        assert caught.value.reason is reason, f"{caught.value.reason}: {caught.value}"
        assert (self.head, self.objects.held) == before
        return caught.value

    def refuses_to_read(self, reason: Reason) -> None:
        """Assert that the live records cannot be read, for that reason."""
        with pytest.raises(SdaqfError) as caught:
            _ = self.desk.all_live
        assert caught.value.reason is reason

    def plant(self, *records: Abstraction, decisions: Iterable[Decision] = (), revision: int = 1) -> Bench:
        """Make these records the live ones, with no event that would make them again."""
        buckets: dict[str, dict[str, Abstraction]] = {}
        for record in records:
            buckets.setdefault(bucket_of(record.concept_id), {})[record.concept_id] = record
        live = Catalog(
            records={digits: self.objects.keep(bucket) for digits, bucket in buckets.items()},
            decisions={decision.source.concept_id: self.objects.keep(decision) for decision in decisions},
            lineages={record.lineage_id: record.lineage_version for record in records},
        )
        event = self.objects.keep(Event(word="commit", inputs=(), program="planted", front=self.front))
        fields = {"previous": self.head, "event": event, "live": self.objects.keep(live), "revision": revision, "committed": True}
        self.head = self.objects.keep(changed(self.desk.state, **fields))
        return self

    def live(self, concept: str = "retry") -> Abstraction:
        found = self.desk.live(concept)
        assert found is not None, f"{concept} is not live"
        return found

    def staged(self, concept: str = "retry") -> Abstraction:
        found = self.desk.staged_record(concept)
        assert found is not None, f"{concept} is not staged"
        return found

    def _given(self, command: Command, files: Mapping[str, str]) -> Given:
        if isinstance(command, Distil):
            return Given(examples=examples(command.specs))
        if isinstance(command, Reuse) and command.choice:
            return Given(foreign=self._foreign(CORE, command.source))
        if isinstance(command, Merge):
            return Given(foreign=self._foreign(command.shard, command.source))
        if isinstance(command, Import):
            return Given(files={name: files[name] for name in command.names if name in files})
        return Given()

    def _foreign(self, which: Shard, name: str) -> Foreign | None:
        other = self.others.get(which)
        return Foreign(which, other.head, other.desk.live(name)) if other else None


def joined(*benches: Bench) -> tuple[Bench, ...]:
    """The benches, each of which finds the live records of the others."""
    for bench in benches:
        bench.others = {other.shard: other for other in benches}
    return benches


def examples(specs: Sequence[str]) -> tuple[Example, ...]:
    found = []
    for region in merged(map(parse_region, specs)):
        data = FILES[region.path].encode()
        found.append(cut(f"region:{region.place}", region, data, canonical.digest(data)))
    return tuple(found)


def changed(value: Any, **fields: Any) -> Any:
    """The object with other fields, held against no rule."""
    return type(value)(**{name: fields.get(name, getattr(value, name)) for name in value.__struct_fields__})
