"""`/prune_abstractions`: marks, and what `collect` takes (ABSTRACTIONS 6)."""

from __future__ import annotations

from typing import Any

import pytest

from sdaqf_tasks.errors import Reason
from sdaqf_tasks.shards.records import LARGEST, Abstraction, Decay, Front, Operation, Trust
from tests.shards.records import record
from tests.shards.simulator import Bench, distil

MARKS = {
    "stale": (Decay.STALE, Operation.PRUNE_MARK_STALE),
    "prunable": (Decay.PRUNABLE, Operation.PRUNE_MARK_PRUNABLE),
    "refresh": (Decay.ACTIVE, Operation.PRUNE_REFRESH),
    "protect": (Decay.PROTECTED, Operation.PROTECT),
    "unprotect": (Decay.ACTIVE, Operation.UNPROTECT),
}


def benches(*live: Abstraction, revision: int = 9) -> Bench:
    made = Bench().plant(*live, revision=revision)
    made.run("begin scratch")
    return made


# ---- marks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("front", Front)
@pytest.mark.parametrize("before", Decay)
@pytest.mark.parametrize("mode", MARKS)
def test_each_mark_gives_its_state_and_its_entry(mode: str, before: Decay, front: Front) -> None:
    bench = benches(record(decay_state=before, trust_class=Trust.PROMOTED))
    line = f"/prune_abstractions {mode} retry"
    if before is Decay.PROTECTED and mode != "unprotect":
        bench.refuses(Reason.PROTECTED_RECORD, line, front=front)
        return
    assert bench.run(line, front=front) == {"abstractionPrune": {"mode": mode, "concepts": ["retry"]}}
    live, made = bench.live(), bench.staged()
    decay, operation = MARKS[mode]
    assert (made.decay_state, made.provenance[-1].operation, made.trust_class) == (decay, operation, Trust.PROMOTED)
    assert made.last_review_revision == (10 if mode == "refresh" else 0)
    changes = {name for name in live.__struct_fields__ if getattr(live, name) != getattr(made, name)}
    assert changes <= {"decay_state", "last_review_revision", "provenance", "lineage_version"}


@pytest.mark.parametrize("mode", MARKS)
def test_what_is_neither_staged_nor_live_is_not_found(mode: str) -> None:
    benches().refuses(Reason.ABSTRACTION_NOT_FOUND, f"/prune_abstractions {mode} retry")


def test_a_mark_acts_on_the_staged_copy_if_there_is_one() -> None:
    bench = benches(record(decay_state=Decay.PROTECTED))
    bench.run(
        "/prune_abstractions unprotect retry", "/prune_abstractions stale retry", distil("other"), "/prune_abstractions protect other"
    )
    assert (bench.staged().decay_state, bench.staged("other").decay_state) == (Decay.STALE, Decay.PROTECTED)
    assert bench.live().decay_state is Decay.PROTECTED
    bench.refuses(Reason.PROTECTED_RECORD, "/prune_abstractions stale other")


def test_nothing_is_deleted_by_pruning() -> None:
    bench = benches(record("a"), record("b"))
    bench.run("/prune_abstractions prunable a", "/prune_abstractions prunable b", "commit")
    assert [*bench.desk.all_live] == ["a", "b"]


# ---- collect ----------------------------------------------------------------------------------------------------------

LOW: dict[str, Any] = {"min_resonance": 560, "average_resonance": 600}


def collected(bench: Bench, line: str = "") -> tuple[list[str], int]:
    told = bench.run(f"/prune_abstractions collect {line}")["abstractionPrune"]
    assert told["mode"] == "collect"
    return told["concepts"], told["remaining"]


def test_the_defaults_are_gap_2_quality_700_confidence_700_and_trust_project() -> None:
    weak = record(**LOW)
    assert (weak.quality_score, weak.confidence_score) == (460, 626)
    assert collected(benches(weak, revision=3)) == (["retry"], 0)
    assert collected(benches(weak, revision=2)) == ([], 0)
    assert collected(benches(record(trust_class=Trust.PROMOTED, **LOW))) == ([], 0)
    assert collected(benches(record(trust_class=Trust.EXPLORATORY, **LOW))) == (["retry"], 0)


def test_quality_and_confidence_have_both_to_be_at_the_limit_or_below() -> None:
    at = "quality_at_most:460 confidence_at_most:626"
    assert collected(benches(record(**LOW)), at) == (["retry"], 0)
    assert collected(benches(record(**LOW)), "quality_at_most:459 confidence_at_most:626") == ([], 0)
    assert collected(benches(record(**LOW)), "quality_at_most:460 confidence_at_most:625") == ([], 0)
    assert collected(benches(record(**LOW)), "quality_below:460 confidence_below:626") == (["retry"], 0)


def test_a_strong_record_is_not_collected_by_the_defaults() -> None:
    strong = record()
    assert strong.confidence_score > 700
    assert collected(benches(strong)) == ([], 0)
    assert collected(benches(strong), "quality_at_most:1000 confidence_at_most:1000") == (["retry"], 0)


@pytest.mark.parametrize("limit", Trust)
@pytest.mark.parametrize("trust", Trust)
def test_trust_is_at_most_the_limit(limit: Trust, trust: Trust) -> None:
    found, _ = collected(benches(record(trust_class=trust, **LOW)), f"trust_at_most:{limit.value}")
    assert bool(found) is (trust.rank <= limit.rank)


@pytest.mark.parametrize("decay", Decay)
def test_what_is_protected_or_prunable_is_not_collected(decay: Decay) -> None:
    found, _ = collected(benches(record(decay_state=decay, **LOW)))
    assert bool(found) is (decay in (Decay.ACTIVE, Decay.STALE))


@pytest.mark.parametrize(("changed", "reviewed", "due"), [(4, 0, 7), (4, 6, 9), (6, 4, 9)])
def test_the_gap_counts_from_the_last_change_or_review(changed: int, reviewed: int, due: int) -> None:
    held = record(last_revision=changed, last_review_revision=reviewed, **LOW)
    assert collected(benches(held, revision=due), "gap:3") == (["retry"], 0)
    assert collected(benches(held, revision=due - 1), "gap:3") == ([], 0)


def test_a_gap_of_nothing_and_the_largest() -> None:
    assert collected(benches(record(**LOW), revision=1), "gap:0") == (["retry"], 0)
    assert collected(benches(record(**LOW), revision=LARGEST), f"gap:{LARGEST}") == ([], 0)
    assert collected(benches(record(**LOW), revision=LARGEST), f"gap:{LARGEST - 1}") == (["retry"], 0)


def test_eligible_is_judged_on_live_and_not_where_it_is_staged_otherwise() -> None:
    bench = benches(record("a", **LOW), record("b", **LOW))
    bench.run("/prune_abstractions stale a", distil("c"))
    assert collected(bench, "gap:0") == (["b"], 0)
    assert bench.staged("a").decay_state is Decay.STALE
    assert collected(bench, "gap:0") == ([], 0)


def test_at_most_32_are_taken_and_the_rest_is_told() -> None:
    many = [record(f"c{number:02}", **LOW) for number in range(33)]
    assert collected(benches(*many[:32])) == ([f"c{number:02}" for number in range(32)], 0)
    bench = benches(*many)
    assert collected(bench) == ([f"c{number:02}" for number in range(32)], 1)
    assert len(bench.desk.staged.records) == 32
    assert collected(bench) == (["c32"], 0)


def test_the_order_is_by_last_revision_then_concept() -> None:
    live = [record("a", last_revision=3, **LOW), record("c", **LOW), record("b", **LOW), record("d", last_revision=2, **LOW)]
    assert collected(benches(*live)) == (["b", "c", "d", "a"], 0)


def test_each_collected_record_is_marked_prunable_and_keeps_its_last_revision() -> None:
    bench = benches(record(**LOW))
    bench.run("/prune_abstractions collect")
    made = bench.staged()
    assert (made.decay_state, made.provenance[-1].operation) == (Decay.PRUNABLE, Operation.PRUNE_COLLECT)
    assert (made.last_revision, made.last_review_revision, made.lineage_version) == (1, 0, 2)


def test_an_empty_collect_stages_nothing() -> None:
    bench = benches()
    assert collected(bench) == ([], 0)
    assert bench.desk.staged.records == {}
