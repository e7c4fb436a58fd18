"""This module reads one state of a shard: what is live, what is staged, and what both together give.

Nothing here opens a file: objects come from whoever calls, by id, and are read when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Protocol

from msgspec.structs import replace

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.records import Abstraction, Bucket, Catalog, Decision, Event, Shard, Staged, State


class Objects(Protocol):
    """The objects of a shard. Raises `Unreadable` or `Invalid` where one is missing or damaged; never gives an empty one."""

    def get(self, object_id: str) -> Any: ...

    def size(self, object_id: str) -> int:
        """Bytes of the object's canonical form."""


class Desk:
    """A state, and what it points to. `state` is what to take it for, where that is not what its id says."""

    def __init__(self, state_id: str, objects: Objects, state: State | None = None) -> None:
        self.state_id, self.objects = state_id, objects
        self.state: State = state or objects.get(state_id)

    @property
    def shard(self) -> Shard:
        return self.state.shard

    @cached_property
    def event(self) -> Event:
        event: Event = self.objects.get(self.state.event)
        return event

    @cached_property
    def catalog(self) -> Catalog:
        catalog: Catalog = self.objects.get(self.state.live)
        return catalog

    @cached_property
    def staged(self) -> Staged:
        """What is staged; nothing without a session."""
        return self.objects.get(self.state.staged) if self.state.staged else Staged()

    def chain(self) -> Iterator[Desk]:
        """This state and those before it, newest first."""
        desk = self
        while True:
            yield desk
            if desk.state.previous is None:
                return
            desk = Desk(desk.state.previous, self.objects)

    # ---- records

    def bucket(self, digits: str) -> Bucket:
        return self.objects.get(self.catalog.records[digits]) if digits in self.catalog.records else {}

    def live(self, concept: str) -> Abstraction | None:
        return self.bucket(records.bucket_of(concept)).get(concept)

    @cached_property
    def all_live(self) -> Mapping[str, Abstraction]:
        """Every live record, by concept, ascending."""
        found = {concept: record for digits in self.catalog.records for concept, record in self.bucket(digits).items()}
        return dict(sorted(found.items()))

    def staged_record(self, concept: str) -> Abstraction | None:
        held = self.staged.records.get(concept)
        return self.objects.get(held) if held else None

    @cached_property
    def all_staged(self) -> Mapping[str, Abstraction]:
        """Every staged record, by concept, ascending."""
        return {concept: self.objects.get(held) for concept, held in sorted(self.staged.records.items())}

    def record(self, concept: str) -> Abstraction | None:
        """The staged record, else the live one."""
        return self.staged_record(concept) or self.live(concept)

    def decision(self, concept: str) -> Decision | None:
        """The decision about a record of core, as it will be when what is staged is committed."""
        held = {**self.catalog.decisions, **self.staged.decisions}.get(concept)
        return self.objects.get(held) if held else None

    @cached_property
    def decisions(self) -> Mapping[str, Decision]:
        """The live decisions, by concept of core."""
        return {concept: self.objects.get(held) for concept, held in sorted(self.catalog.decisions.items())}

    # ---- what may be staged

    def without(self, concept: str) -> Desk:
        """The same desk, had this record not been staged."""
        rest = {name: held for name, held in self.staged.records.items() if name != concept}
        other = Desk(self.state_id, self.objects, self.state)
        other.__dict__["staged"] = replace(self.staged, records=rest)
        return other

    def verify_parents(self, changed: Mapping[str, Abstraction]) -> None:
        """Raise `Refused` unless every chain of parents that the change touches holds, judged with what is staged.

        PARENT_NOT_FOUND, PARENT_CYCLE, PARENT_CHAIN_TOO_LONG (more than four levels).
        """
        moved = False
        for concept, record in changed.items():
            before = self.record(concept)
            if before is None or before.parent != record.parent:
                self.verify_chain(concept, changed)
                moved = moved or before is not None
        if moved:  # then chains that lead through the changed record have another length
            for concept in sorted({*self.all_live, *self.staged.records} - {*changed}):
                self.verify_chain(concept, changed)

    def verify_chain(self, concept: str, changed: Mapping[str, Abstraction] = {}) -> None:
        """Raise `Refused`, as above, unless the chain of parents above a record holds."""
        record = changed.get(concept) or self.record(concept)
        seen, parent = [concept], record.parent if record else None
        while parent:
            if parent in seen:
                raise Refused(Reason.PARENT_CYCLE, f"the parents of {concept} lead back: {' → '.join((*seen, parent))}")
            above = changed.get(parent) or self.record(parent)
            if above is None:
                raise Refused(Reason.PARENT_NOT_FOUND, f"{parent}, the parent of {seen[-1]}, is neither live nor staged")
            seen.append(parent)
            if len(seen) > records.PARENTS + 1:
                raise Refused(Reason.PARENT_CHAIN_TOO_LONG, f"{' → '.join(seen)} are more than {records.PARENTS} levels")
            parent = above.parent

    def verify_room(self, changed: Mapping[str, Abstraction]) -> None:
        """Raise `Refused` where live and staged and changed records together are too many or too large: CATALOG_FULL, CATALOG_TOO_LARGE."""
        # A bucket is {"concept":record,…}: four bytes more a record, and one more a bucket.
        touched = {concept: held for concept, held in self.staged.records.items() if concept not in changed}
        digits = {records.bucket_of(concept) for concept in (*touched, *changed)}
        live = {concept: record for each in digits for concept, record in self.bucket(each).items()}
        replaced = sum(len(concept) + 4 + _bytes(live[concept]) for concept in (*touched, *changed) if concept in live)
        added = sum(map(self.objects.size, touched.values())) + sum(map(_bytes, changed.values()))
        framed = sum(len(concept) + 4 for concept in (*touched, *changed)) + len(digits - self.catalog.records.keys())
        total = sum(map(self.objects.size, self.catalog.records.values())) - replaced + added + framed
        if total > records.CATALOG_BYTES:
            raise Refused(Reason.CATALOG_TOO_LARGE, f"the records would take {total} bytes; at most {records.CATALOG_BYTES} are kept")
        count = len(self.catalog.lineages) + sum(concept not in live for concept in (*touched, *changed))
        if count > records.CATALOG_RECORDS:
            raise Refused(Reason.CATALOG_FULL, f"there would be {count} records; a shard holds at most {records.CATALOG_RECORDS}")


def _bytes(record: Abstraction) -> int:
    return len(records.sealed(record)[1])
