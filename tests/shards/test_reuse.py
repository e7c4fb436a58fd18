"""`/reuse_abstractions`, row by row of the table of checks (ABSTRACTIONS 4). How decisions resolve is in `test_lookup.py`."""

from __future__ import annotations

from typing import Any

import pytest

from sdaqf_tasks.errors import Reason
from sdaqf_tasks.shards.records import CORE, Abstraction, Category, Choice, Decay, Decision, Front, Operation, Tier, Trust
from tests.shards.records import record
from tests.shards.simulator import Bench, changed, distil, joined

ADOPT, REJECT = "/reuse_abstractions adopt core:retry", "/reuse_abstractions reject core:retry"
PROMOTE = "/reuse_abstractions promote core:retry local:mine"
WITHDRAW = "/reuse_abstractions withdraw core:retry"


def benches(*local: Abstraction, core: bool = True) -> Bench:
    """A project with these live records and a session; core holds `retry` or nothing."""
    made, project = joined(Bench(CORE), Bench())
    if core:
        made.plant(record(owner=CORE))
    project.plant(*local)
    project.run("begin scratch")
    return project


def decided(bench: Bench) -> Decision:
    found = bench.desk.decision("retry")
    assert found is not None
    return found


# ---- checks 0 to 5, each where all later ones fail too ----------------------------------------------------------------


def test_check_0_without_a_session_nothing_else_is_looked_at() -> None:
    Bench(CORE).refuses(Reason.SCRATCH_NOT_ACTIVE, "/reuse_abstractions nonsense core:none")


def test_check_1_core_makes_no_decision_whatever_is_written() -> None:
    core = Bench(CORE)
    core.run("begin scratch")
    for line in ("/reuse_abstractions nonsense core:none", "/reuse_abstractions adopt core:none", WITHDRAW):
        core.refuses(Reason.REUSE_NEEDS_PROJECT, line)


@pytest.mark.parametrize("rest", ["promote core:none", "adopt core:none local:mine", "reject core:none local:mine", "keep core:none"])
def test_check_2_a_malformed_command_comes_before_a_missing_source(rest: str) -> None:
    benches(core=False).refuses(Reason.INVALID_COMMAND, f"/reuse_abstractions {rest}")


def test_check_3_a_missing_source_comes_before_the_local_record() -> None:
    bench = benches(record("retry", tokens=("other",)), core=False)
    for line in (ADOPT, REJECT, PROMOTE):
        assert bench.refuses(Reason.ABSTRACTION_NOT_FOUND, line).message == "core has no live retry"


def test_check_3_what_core_only_staged_is_no_source() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.run("begin scratch", distil())
    project.run("begin scratch")
    project.refuses(Reason.ABSTRACTION_NOT_FOUND, ADOPT)


INCOMPATIBLE: list[dict[str, Any]] = [
    {"tokens": ("other",)},
    {"patterns": ("other",)},
    {"tier": Tier.LOGIC},
    {"category": Category.STATE},
    {"parent": "base"},
]


@pytest.mark.parametrize("difference", INCOMPATIBLE)
def test_check_4_adopt_is_refused_beside_an_incompatible_local_record(difference: dict[str, Any]) -> None:
    bench = benches(record("base"), record(**difference))
    bench.refuses(Reason.CONFLICT_NEEDS_CHOICE, ADOPT)
    bench.run(REJECT)


def test_check_4_what_is_staged_counts_before_what_is_live() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil())
    project.run("begin scratch", distil("retry", "loop"))
    project.refuses(Reason.CONFLICT_NEEDS_CHOICE, ADOPT)
    project.run("drop retry", ADOPT)


def test_check_4_names_statements_scores_trust_and_decay_play_no_part() -> None:
    bench = benches(
        record(
            statement="otherwise",
            sources=("x.py", "y.py", "z.py"),
            min_resonance=600,
            average_resonance=700,
            decay_state=Decay.STALE,
            trust_class=Trust.EXPLORATORY,
        )
    )
    bench.run(ADOPT)
    assert decided(bench).decision is Choice.ADOPT


def test_check_5_promote_needs_the_local_record_staged_or_live() -> None:
    bench = benches()
    assert bench.refuses(Reason.ABSTRACTION_NOT_FOUND, PROMOTE).message == "there is no local mine"
    bench.run(distil("mine"), PROMOTE)
    assert benches(record("mine")).run(PROMOTE)["abstractionReuse"]["decision"] == "promote"


# ---- what a decision holds ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("line", [ADOPT, REJECT])
def test_a_decision_pins_the_source(line: str) -> None:
    bench = benches()
    told = bench.run(line)["abstractionReuse"]
    made = decided(bench)
    assert made.source == record(owner=CORE).pin
    assert made.local is None
    assert told["source"] == {
        "concept_id": "retry",
        "consensus_hash": made.source.consensus_hash,
        "lineage_id": "core:core:retry",
        "lineage_version": 1,
        "trust_class": "core",
    }


def test_promote_pins_the_local_record_too_as_it_will_be_live() -> None:
    bench = benches(record("mine", tokens=("other",)))
    bench.run(PROMOTE, "commit")
    assert bench.desk.decisions["retry"].local == bench.live("mine").pin
    assert bench.live("mine").lineage_version == 2


@pytest.mark.parametrize(("line", "operation"), [(ADOPT, Operation.REUSE_ADOPT), (REJECT, Operation.REUSE_REJECT)])
def test_a_local_record_of_that_concept_says_so_in_its_provenance(line: str, operation: Operation) -> None:
    bench = benches(record())
    bench.run(line)
    before, after = bench.live(), bench.staged()
    assert (after.provenance[:-1], after.provenance[-1].operation) == (before.provenance, operation)
    assert after.provenance[-1].extra == {"source": "core:retry"}
    stamped = {"provenance", "lineage_version", "last_revision"}
    assert {name for name in before.__struct_fields__ if getattr(before, name) != getattr(after, name)} == stamped
    assert (after.lineage_version, after.last_revision) == (2, 2)


def test_a_decision_without_a_local_record_stages_no_record() -> None:
    bench = benches()
    bench.run(ADOPT, REJECT)
    assert bench.desk.staged.records == {}


def test_a_later_decision_about_a_source_replaces_the_earlier_one() -> None:
    bench = benches(record("mine"))
    bench.run(ADOPT, REJECT)
    assert decided(bench).decision is Choice.REJECT
    bench.run("commit", "begin scratch", PROMOTE, "commit")
    assert [decision.decision for decision in bench.desk.decisions.values()] == [Choice.PROMOTE]


def test_a_decision_becomes_part_of_the_shard_on_commit() -> None:
    bench = benches()
    bench.run(ADOPT)
    assert bench.desk.decisions == {}
    bench.run("commit")
    assert [*bench.desk.decisions] == ["retry"]
    assert bench.desk.state.revision == 2


def test_withdraw_removes_a_decision_staged_or_live() -> None:
    bench = benches()
    bench.refuses(Reason.REUSE_DECISION_NOT_FOUND, WITHDRAW)
    bench.run(ADOPT, WITHDRAW)
    bench.refuses(Reason.REUSE_DECISION_NOT_FOUND, WITHDRAW)
    bench.run(ADOPT, "commit", "begin scratch", WITHDRAW)
    assert [*bench.desk.decisions] == ["retry"]
    bench.run("commit")
    assert bench.desk.decisions == {}
    bench.run("begin scratch")
    bench.refuses(Reason.REUSE_DECISION_NOT_FOUND, WITHDRAW)


def test_withdraw_needs_no_source_any_more() -> None:
    bench = benches(core=False)
    bench.run("commit")
    bench.plant(decisions=[Decision(decision=Choice.ADOPT, source=record(owner=CORE).pin, local=None)])
    bench.run("begin scratch", WITHDRAW, "commit")
    assert bench.desk.decisions == {}


@pytest.mark.parametrize("front", Front)
def test_a_decision_changes_the_trust_of_no_record(front: Front) -> None:
    for trust in (Trust.EXPLORATORY, Trust.PROJECT, Trust.PROMOTED):
        bench = benches(record(trust_class=trust), record("mine", trust_class=trust))
        bench.run(ADOPT, REJECT, PROMOTE, front=front)
        assert {bench.staged().trust_class, bench.staged("mine").trust_class} == {trust}


def test_a_source_that_is_not_the_one_that_the_command_names_is_none() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.plant(changed(record(owner=CORE), concept_id="other"))
    project.run("begin scratch")
    project.refuses(Reason.ABSTRACTION_NOT_FOUND, ADOPT)
