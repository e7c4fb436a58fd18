"""A shard against a model of forty lines: any order of words and commands gives what the model says.

The short run is part of the suite; the long one is `pytest -m long tests/shards/test_model.py`, which says how many steps it took.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.shards import records, replay
from sdaqf_tasks.shards.records import CORE, Front
from tests.shards.records import PROJECT
from tests.shards.simulator import TEXTS, Bench, distil, joined

NAMES = ("a", "b", "c", "d", "e", "f")
names, parents = st.sampled_from(NAMES), st.none() | st.sampled_from(NAMES)
Live = dict[str, Any]


class Model:
    """What a shard should hold. A record is its text, parent, trust, decay and version."""

    def __init__(self) -> None:
        self.live: tuple[Live, Live, int] = {}, {}, 0  # records, decisions, revision
        self.saved: tuple[Live, Live, int] | None = None
        self.records: Live | None = None  # with what is staged; None while idle
        self.decisions: Live = {}
        self.commits: list[tuple[str, tuple[Live, Live, int]]] = []

    def chain_fails(self, found: Live) -> Reason | None:
        for name in found:
            seen, above = [name], found[name]["parent"]
            while above:
                if above in seen:
                    return Reason.PARENT_CYCLE
                if above not in found:
                    return Reason.PARENT_NOT_FOUND
                seen.append(above)
                if len(seen) > 5:
                    return Reason.PARENT_CHAIN_TOO_LONG
                above = found[above]["parent"]
        return None

    def put(self, name: str, **fields: Any) -> Reason | None:
        assert self.records is not None
        version = self.live[0].get(name, {"version": 0})["version"] + 1
        after = self.records | {name: self.records.get(name, {}) | fields | {"version": version}}
        if reason := self.chain_fails(after):
            return reason
        self.records = after
        return None

    def commit(self, head: str) -> None:
        assert self.records is not None
        after = self.records, {name: choice for name, choice in self.decisions.items() if choice}
        if after != self.live[:2]:
            self.live = *after, self.live[2] + 1
        self.records = None
        self.commits.append((head, self.live))


class Shards(RuleBasedStateMachine):
    taken: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.core, self.bench = joined(Bench(CORE), Bench())
        self.core.commit(*(distil(name) for name in NAMES[:3]))
        self.model = Model()

    def tell(self, line: str, expected: Reason | None, front: Front = Front.CLI) -> bool:
        """Do the line, or see it refused for the expected reason with nothing changed."""
        type(self).taken += 1
        head = self.bench.head
        try:
            self.bench.run(line, front=front)
        except SdaqfError as error:
            assert error.reason is expected, (line, error)
            assert self.bench.head == head
            return False
        assert expected is None, (line, expected)
        return True

    @property
    def idle(self) -> bool:
        return self.model.records is None

    @rule()
    def begin(self) -> None:
        if self.tell("begin scratch", None if self.idle else Reason.SCRATCH_ACTIVE):
            self.model.records, self.model.decisions = dict(self.model.live[0]), dict(self.model.live[1])

    @rule()
    def discard(self) -> None:
        if self.tell("discard", Reason.SCRATCH_NOT_ACTIVE if self.idle else None):
            self.model.records = None

    @rule()
    def commit(self) -> None:
        if self.tell("commit", Reason.SCRATCH_NOT_ACTIVE if self.idle else None):
            self.model.commit(self.bench.head)

    @rule()
    def snapshot(self) -> None:
        if self.tell("snapshot", None if self.idle else Reason.SCRATCH_SESSION_ACTIVE):
            self.model.saved = self.model.live

    @rule()
    def revert(self) -> None:
        missing = None if self.model.saved else Reason.SNAPSHOT_MISSING
        if self.tell("revert", missing if self.idle else Reason.SCRATCH_SESSION_ACTIVE):
            assert self.model.saved
            self.model.live = self.model.saved

    @rule(at=st.integers(0, 9))
    def revert_to(self, at: int) -> None:
        head, live = self.model.commits[-1 - at] if at < len(self.model.commits) else ("x", None)
        missing = None if live else Reason.STATE_NOT_FOUND
        if self.tell(f"revert --to {head}", missing if self.idle else Reason.SCRATCH_SESSION_ACTIVE):
            assert live
            self.model.live = live

    @rule(name=names, text=st.sampled_from([*TEXTS]), parent=parents, front=st.sampled_from(Front))
    def distil(self, name: str, text: str, parent: str | None, front: Front) -> None:
        trust = "exploratory" if front is Front.MCP else "project"
        expected = Reason.SCRATCH_NOT_ACTIVE if self.idle else self.held(name, missing=None)
        expected = expected or self.model.put(name, text=text, parent=parent, trust=trust, decay="active")
        self.tell(distil(name, text, *([f"parent:{parent}"] if parent else [])), expected, front)

    def held(self, name: str, missing: Reason | None = Reason.ABSTRACTION_NOT_FOUND) -> Reason | None:
        """Why a command that a protected record resists is refused, if it is."""
        assert self.model.records is not None
        if name not in self.model.records:
            return missing
        return Reason.PROTECTED_RECORD if self.model.records[name]["decay"] == "protected" else None

    @rule(name=names, mode=st.sampled_from(["stale", "prunable", "refresh", "protect", "unprotect"]))
    def mark(self, name: str, mode: str) -> None:
        decay = {"protect": "protected", "unprotect": "active", "refresh": "active"}.get(mode, mode)
        expected = Reason.SCRATCH_NOT_ACTIVE if self.idle else self.held(name)
        if expected is Reason.PROTECTED_RECORD and mode == "unprotect":
            expected = None
        if self.tell(f"/prune_abstractions {mode} {name}", expected):
            self.model.put(name, decay=decay)

    @rule(name=names)
    def accept(self, name: str) -> None:
        expected = Reason.SCRATCH_NOT_ACTIVE if self.idle else self.held(name)
        if not self.idle and (self.model.records or {}).get(name, {}).get("trust") != "exploratory":
            expected = Reason.ABSTRACTION_NOT_FOUND
        if self.tell(f"accept {name}", expected):
            self.model.put(name, trust="project")

    @rule(name=names, choice=st.sampled_from(["reject", "withdraw"]))
    def decide(self, name: str, choice: str) -> None:
        expected = None if name in NAMES[:3] else Reason.ABSTRACTION_NOT_FOUND
        if choice == "withdraw":
            expected = None if self.model.decisions.get(name) else Reason.REUSE_DECISION_NOT_FOUND
        if self.tell(f"/reuse_abstractions {choice} core:{name}", Reason.SCRATCH_NOT_ACTIVE if self.idle else expected):
            self.model.decisions[name] = choice if choice == "reject" else None
            if choice == "reject" and name in (self.model.records or {}):
                self.model.put(name)

    @rule(name=names)
    def drop(self, name: str) -> None:
        expected, after = Reason.SCRATCH_NOT_ACTIVE, self.model.records
        if self.model.records is not None:
            live = self.model.live[0].get(name)
            after = {other: held for other, held in self.model.records.items() if other != name} | ({name: live} if live else {})
            staged = self.model.records.get(name) not in (None, live)
            expected = Reason.ABSTRACTION_NOT_FOUND if not staged else Reason.HAS_DEPENDENTS if self.model.chain_fails(after) else None  # type: ignore[assignment]
        if self.tell(f"drop {name}", expected):
            self.model.records = after

    # ---- what holds after every step

    @invariant()
    def it_is_what_the_model_says(self) -> None:
        desk, model = self.bench.desk, self.model
        assert {name: self.plain(record) for name, record in desk.all_live.items()} == model.live[0]
        assert {name: decision.decision.value for name, decision in desk.decisions.items()} == model.live[1]
        assert desk.state.revision == model.live[2]
        assert desk.catalog.lineages == {f"project:default:{name}": held["version"] for name, held in model.live[0].items()}
        assert (desk.state.session is None) == self.idle
        assert (desk.state.saved is None) == (model.saved is None)
        if model.records is not None:
            found = {name: record for name in NAMES if (record := desk.record(name))}
            assert {name: self.plain(record) for name, record in found.items()} == model.records
            for record in found.values():
                records.verify(record)

    def plain(self, record: records.Abstraction) -> dict[str, Any]:
        words = {"if": "guard", "while": "loop", "with": "lock"}
        text = next(words[token] for token in record.retained_tokens if token in words)
        decay, trust = record.decay_state.value, record.trust_class.value
        return {"text": text, "parent": record.parent, "trust": trust, "decay": decay, "version": record.lineage_version}

    def teardown(self) -> None:
        """The whole history gives all its ids again, and nothing is wrong with what it left."""
        count = sum(1 for _ in self.bench.desk.chain())
        assert replay.replay(self.bench.desk) == (count, count, 0, "")
        assert replay.audit(self.bench.head, PROJECT, self.bench.objects) == []


def test_a_shard_is_what_the_model_says() -> None:
    run_state_machine_as_test(Shards, settings=settings(max_examples=15, stateful_step_count=30))


@pytest.mark.long
def test_a_shard_is_what_the_model_says_for_a_long_time(record_property: Any) -> None:
    Shards.taken = 0
    run_state_machine_as_test(Shards, settings=settings(max_examples=400, stateful_step_count=100))
    record_property("steps", Shards.taken)
    print(f"{Shards.taken} steps")
    assert Shards.taken > 20_000
