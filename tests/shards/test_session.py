"""Sessions: what each word does in each state, and what is staged, committed, saved and brought back (ABSTRACTIONS 1 and 2)."""

from __future__ import annotations

from typing import Any

import pytest

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.shards import replay
from sdaqf_tasks.shards.records import (
    CATALOG_BYTES,
    CORE,
    Choice,
    Decay,
    Front,
    Kind,
    Operation,
    Shard,
    Trust,
    bucket_of,
    sealed,
    shard,
)
from tests.shards.records import PROJECT, decision, record
from tests.shards.simulator import Bench, distil, joined

OTHER = Shard(kind=Kind.PROJECT, id="other")
COMMANDS = (
    distil("new"),
    "/reuse_abstractions adopt core:retry",
    "/reuse_abstractions withdraw core:retry",
    "/merge_abstractions adopt core:retry as:new",
    "/prune_abstractions stale retry",
    "/prune_abstractions collect gap:0",
    "/import_abstractions a.json",
    "accept retry",
    "drop retry",
)


def bench(*, session: bool, saved: bool) -> Bench:
    made = Bench()
    made.commit(distil())
    if saved:
        made.run("snapshot")
    if session:
        made.run("begin scratch", distil("retry", "loop"))
    return made


BOTH = [False, True]

# ---- 1.2, the table: word, session, saved → the reason, or the fields of the state that change --------------------------

TABLE: list[tuple[str, bool, bool, Reason | set[str]]] = [
    *(("begin scratch", False, saved, {"session", "staged"}) for saved in BOTH),
    *(("begin scratch", True, saved, Reason.SCRATCH_ACTIVE) for saved in BOTH),
    *(("discard", False, saved, Reason.SCRATCH_NOT_ACTIVE) for saved in BOTH),
    *(("discard", True, saved, {"session", "staged"}) for saved in BOTH),
    *(("commit", False, saved, Reason.SCRATCH_NOT_ACTIVE) for saved in BOTH),
    *(("commit", True, saved, {"session", "staged", "live", "revision"}) for saved in BOTH),
    ("snapshot", False, False, {"saved"}),
    ("snapshot", False, True, set()),
    *(("snapshot", True, saved, Reason.SCRATCH_SESSION_ACTIVE) for saved in BOTH),
    ("revert", False, False, Reason.SNAPSHOT_MISSING),
    ("rollback", False, False, Reason.SNAPSHOT_MISSING),
    ("revert", False, True, set()),
    *((word, True, saved, Reason.SCRATCH_SESSION_ACTIVE) for saved in BOTH for word in ("revert", "rollback", "revert --to x")),
    ("drop retry", True, False, {"staged"}),
    ("drop other", True, False, Reason.ABSTRACTION_NOT_FOUND),
    ("accept retry", True, False, Reason.ABSTRACTION_NOT_FOUND),
    *((line, False, saved, Reason.SCRATCH_NOT_ACTIVE) for saved in BOTH for line in COMMANDS),
    *((distil("new"), True, saved, {"staged"}) for saved in BOTH),
]


@pytest.mark.parametrize(("line", "session", "saved", "outcome"), TABLE)
def test_each_cell_of_the_table(line: str, session: bool, saved: bool, outcome: Reason | set[str]) -> None:
    made = bench(session=session, saved=saved)
    if isinstance(outcome, Reason):
        made.refuses(outcome, line)
        return
    before, head = made.desk.state, made.head
    made.run(line)
    after = made.desk.state
    fields = set(before.__struct_fields__) - {"previous", "event"}
    assert {name for name in fields if getattr(before, name) != getattr(after, name)} == outcome
    assert after.previous == head
    assert (after.staged is None) == (after.session is None)


@pytest.mark.parametrize("line", COMMANDS)
@pytest.mark.parametrize("front", Front)
def test_staging_without_a_session_is_refused_alike_from_every_front(line: str, front: Front) -> None:
    Bench().refuses(Reason.SCRATCH_NOT_ACTIVE, line, front=front)


def test_a_word_that_is_out_of_place_is_refused_before_its_grammar_is_looked_at() -> None:
    Bench().refuses(Reason.SCRATCH_NOT_ACTIVE, "drop A B C")
    Bench().refuses(Reason.SCRATCH_NOT_ACTIVE, "/merge_abstractions nonsense")
    Bench(CORE).refuses(Reason.SCRATCH_NOT_ACTIVE, "/reuse_abstractions adopt core:a")


@pytest.mark.parametrize("front", [Front.HTTP, Front.MCP])
def test_only_a_person_at_a_terminal_accepts(front: Front) -> None:
    made = Bench()
    made.run("begin scratch", distil(), front=Front.MCP)
    made.refuses(Reason.NEEDS_A_PERSON, "accept retry", front=front)


# ---- sessions -------------------------------------------------------------------------------------------------------


def test_the_session_is_the_state_before_begin() -> None:
    made = Bench()
    root = made.head
    made.run("begin scratch")
    assert made.desk.state.session == root
    assert made.desk.staged.records == {}
    made.run(distil())
    assert made.desk.state.session == root


def test_what_is_staged_is_not_live_until_it_is_committed() -> None:
    made = Bench()
    made.run("begin scratch", distil())
    assert made.desk.live("retry") is None
    assert made.desk.record("retry") == made.staged()
    made.run("commit")
    assert made.live().concept_id == "retry"
    assert made.desk.state.committed


def test_discard_drops_records_and_decisions_and_leaves_live_as_it_is() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    live = project.desk.state.live
    project.run("begin scratch", distil("a"), "/reuse_abstractions adopt core:retry")
    assert project.run("discard") == {"discarded": {"records": ["a"], "decisions": ["retry"]}}
    assert (project.desk.state.live, project.desk.state.revision, project.desk.state.committed) == (live, 0, False)
    assert project.desk.staged.records == {}


def test_a_commit_of_nothing_changes_nothing_but_the_session() -> None:
    made = Bench()
    before = made.desk.state
    assert made.commit() == {"committed": []}
    after = made.desk.state
    assert (after.live, after.revision, after.committed, after.session, after.staged) == (before.live, 0, False, None, None)


def test_a_commit_of_what_cancels_out_changes_nothing_either() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit("/reuse_abstractions adopt core:retry", "/reuse_abstractions withdraw core:retry")
    project.commit(distil("a"), "drop a")
    assert (project.desk.state.revision, project.desk.catalog.records) == (0, {})


def test_a_commit_makes_records_decisions_and_lineages_live_in_one_state() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.run("begin scratch", distil("b"), distil("a", "loop"), "/reuse_abstractions adopt core:retry")
    staged = project.head
    told = project.run("commit")
    made = [{"concept": name, "version": 1, "trust": "project"} for name in ("a", "b")]
    assert told == {"committed": made, "decisions": ["retry"]}
    assert project.desk.state.previous == staged
    assert project.desk.catalog.lineages == {"project:default:a": 1, "project:default:b": 1}
    assert [*project.desk.decisions] == ["retry"]


def test_revision_counts_the_commits_that_change_anything() -> None:
    made = Bench()
    made.commit(distil("a"), distil("b", "loop"))
    made.commit()
    made.commit("/prune_abstractions stale a")
    assert made.desk.state.revision == 2


def test_a_refused_command_leaves_session_and_staged_work_as_they_were() -> None:
    made = Bench()
    made.run("begin scratch", distil())
    made.refuses(Reason.PARENT_NOT_FOUND, distil("other", "loop", "parent:nowhere"))
    made.refuses(Reason.INVALID_COMMAND, "/prune_abstractions nonsense")
    assert [*made.desk.staged.records] == ["retry"]


def test_a_bucket_is_named_by_the_first_byte_of_the_digest_of_the_concept() -> None:
    made = Bench()
    made.commit(distil())
    assert bucket_of("retry") == "06"
    assert [*made.desk.catalog.records] == ["06"]


def test_a_commit_writes_only_the_buckets_that_change() -> None:
    made = Bench().plant(*(record(f"c{number}") for number in range(40)))
    before = made.desk.catalog.records
    made.commit("/prune_abstractions stale c7")
    after = made.desk.catalog.records
    assert {digits for digits in after if after[digits] != before.get(digits)} == {bucket_of("c7")}


# ---- drop -----------------------------------------------------------------------------------------------------------


def test_drop_takes_one_staged_record_back_to_what_is_live() -> None:
    made = Bench()
    made.commit(distil())
    made.run("begin scratch", distil("retry", "loop"), distil("other"), "drop retry")
    assert made.desk.staged_record("retry") is None
    assert made.desk.record("retry") == made.live()
    assert [*made.desk.staged.records] == ["other"]


def test_drop_of_what_is_only_live_finds_nothing() -> None:
    made = Bench()
    made.commit(distil())
    made.run("begin scratch")
    made.refuses(Reason.ABSTRACTION_NOT_FOUND, "drop retry")


def test_a_staged_parent_is_not_dropped_from_below_its_children() -> None:
    made = Bench()
    made.run("begin scratch", distil("a"), distil("b", "loop", "parent:a"), distil("c", "lock", "parent:a"))
    error = made.refuses(Reason.HAS_DEPENDENTS, "drop a")
    assert error.message == "staged work needs a: b, c"
    made.run("drop b", "drop c", "drop a")
    assert made.desk.staged.records == {}


def test_a_staged_parent_below_which_a_live_one_lies_is_dropped() -> None:
    made = Bench()
    made.commit(distil("a"))
    made.run("begin scratch", "/prune_abstractions stale a", distil("b", "loop", "parent:a"), "drop a")
    assert [*made.desk.staged.records] == ["b"]


def test_drop_is_refused_where_the_live_record_below_would_make_a_staged_chain_too_long() -> None:
    made = Bench()
    made.commit(distil("a"), distil("b", "guard", "parent:a"), distil("c", "guard", "parent:b"), distil("d", "guard", "parent:c"))
    made.run("begin scratch", distil("d", "loop"), distil("e", "guard", "parent:d"), distil("f", "guard", "parent:e"))
    error = made.refuses(Reason.HAS_DEPENDENTS, "drop d")
    assert error.message == "staged work needs d: f"


def test_drop_is_refused_where_it_would_break_a_chain_of_live_records() -> None:
    """The live child of `x` holds only while `x` is staged without the parent that grew in the same session."""
    made = Bench()
    made.commit(distil("a"), distil("x", "guard", "parent:a"), distil("z", "guard", "parent:x"))
    made.commit(distil("d"), distil("c", "guard", "parent:d"), distil("b", "guard", "parent:c"))
    made.run("begin scratch", distil("x", "loop"), distil("a", "loop", "parent:b"))
    error = made.refuses(Reason.HAS_DEPENDENTS, "drop x")
    assert error.message == "staged work needs x: z"
    made.run("drop a", "drop x")


def test_a_staged_decision_needs_the_local_record_that_it_pins() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.run("begin scratch", distil("mine", "loop"), "/reuse_abstractions promote core:retry local:mine")
    error = project.refuses(Reason.HAS_DEPENDENTS, "drop mine")
    assert error.message == "staged work needs mine: the decision about core:retry"
    project.run("/reuse_abstractions withdraw core:retry", "drop mine")


def test_a_staged_decision_does_not_need_a_copy_of_what_is_live() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil("mine", "loop"))
    project.run("begin scratch", "/reuse_abstractions promote core:retry local:mine", "drop mine")
    assert [*project.desk.staged.decisions] == ["retry"]


# ---- snapshot and revert --------------------------------------------------------------------------------------------


def test_revert_brings_back_records_decisions_lineage_versions_and_revision() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil())
    project.run("snapshot")
    live, records = project.desk.state.live, project.desk.all_live
    project.commit(distil("retry", "loop"), distil("other"), "/reuse_abstractions reject core:retry")
    assert (project.desk.state.revision, project.live().lineage_version) == (2, 2)

    project.run("revert")

    assert (project.desk.state.live, project.desk.state.revision, project.desk.all_live) == (live, 1, records)
    assert project.desk.catalog.lineages == {"project:default:retry": 1}
    assert project.desk.decisions == {}
    assert project.desk.state.saved == live
    assert project.desk.state.committed
    project.commit(distil("retry", "lock"))
    assert (project.live().lineage_version, project.live().last_revision) == (2, 2)


def test_the_saved_slot_holds_what_was_saved_last_and_stays() -> None:
    made = Bench()
    made.run("snapshot")
    made.commit(distil("a"))
    made.run("snapshot")
    made.commit(distil("b"))
    made.run("revert", "revert")
    assert [*made.desk.all_live] == ["a"]
    assert made.desk.state.revision == 1


def test_revert_to_a_commit_of_the_chain() -> None:
    made = Bench()
    made.commit(distil("a"))
    first = made.head
    made.commit(distil("b", "loop"))
    second = made.head
    answer = made.run(f"revert --to {first}")
    assert answer == {"reverted": {"to": first, "revision": 1}}
    assert [*made.desk.all_live] == ["a"]
    assert made.desk.state.saved is None
    made.run(f"rollback --to {second}")
    assert ([*made.desk.all_live], made.desk.state.revision) == (["a", "b"], 2)


def test_revert_to_what_is_no_commit_is_refused() -> None:
    made = Bench()
    root = made.head
    made.run("begin scratch", distil("a"))
    staged = made.head
    made.run("commit", "snapshot")
    for state in (root, staged, made.head, made.head.lower(), "SHARD-STATE-" + "0" * 64, "x"):
        made.refuses(Reason.STATE_NOT_FOUND, f"revert --to {state}")


# ---- shards (SH) ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind"), [("core", "core"), ("project:a", "project"), (f"project:{'a' * 64}", "project"), ("project:0.a_b-c", "project")]
)
def test_sh_1_a_shard_is_core_or_a_project(text: str, kind: str) -> None:
    assert str(shard(text)) == text
    assert shard(text).kind.value == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Core",
        "core:core",
        "project",
        "project:",
        "project:A",
        "project:a..b",
        "project:.a",
        f"project:{'a' * 65}",
        "project:a\n",
        "other:a",
    ],
)
def test_sh_2_anything_else_is_refused_and_never_rewritten(text: str) -> None:
    with pytest.raises(Refused) as caught:
        shard(text)
    assert caught.value.reason is Reason.INVALID_SHARD


def test_sh_4_default_trust_follows_the_kind_and_trust_is_ordered() -> None:
    for which, trust in ((CORE, Trust.CORE), (PROJECT, Trust.PROJECT), (OTHER, Trust.PROJECT)):
        made = Bench(which)
        made.commit(distil())
        assert made.live().trust_class is trust
    assert sorted([Trust.CORE, Trust.PROMOTED, Trust.EXPLORATORY, Trust.PROJECT]) == [
        Trust.EXPLORATORY,
        Trust.PROJECT,
        Trust.PROMOTED,
        Trust.CORE,
    ]


def test_sh_6_a_new_state_is_computed_purely() -> None:
    lines = ("begin scratch", distil(), distil("other", "loop", "parent:retry"), "commit", "snapshot", "revert")
    one, other = Bench(), Bench()
    for line in lines:
        one.run(line)
        other.run(line)
        assert (one.head, one.objects.held) == (other.head, other.objects.held)


def test_sh_7_a_missing_or_damaged_object_is_never_an_empty_catalog() -> None:
    made = Bench()
    made.commit(distil())
    for object_id in (made.desk.state.live, *made.desk.catalog.records.values(), made.head):
        held = made.objects.held.pop(object_id)
        made.refuses_to_read(Reason.OBJECT_MISSING)
        made.objects.held[object_id] = b"{}"
        made.refuses_to_read(Reason.OBJECT_DAMAGED)
        made.objects.held[object_id] = held
    assert [*made.desk.all_live] == ["retry"]


# ---- lineage (LI) ---------------------------------------------------------------------------------------------------


def test_li_1_the_id_is_made_once_from_the_owner_at_birth() -> None:
    made = Bench(OTHER)
    made.commit(distil())
    assert made.live().lineage_id == "project:other:retry"
    assert made.live().owner == OTHER


def test_li_2_the_version_counts_commits_that_changed_the_record_not_stagings() -> None:
    made = Bench()
    made.commit(distil(), distil("retry", "loop"), "/prune_abstractions stale retry", distil("retry", "lock"))
    assert made.live().lineage_version == 1
    made.run("begin scratch", distil("retry", "guard"), "discard")
    made.commit(distil("other"))
    made.commit("/prune_abstractions stale retry")
    assert (made.live().lineage_version, made.live("other").lineage_version) == (2, 1)
    assert made.desk.catalog.lineages == {"project:default:retry": 2, "project:default:other": 1}


def test_li_3_re_distilling_keeps_the_lineage_and_the_provenance() -> None:
    made = Bench()
    made.commit(distil())
    made.commit(distil("other"))
    made.commit("/prune_abstractions stale retry")
    before = made.live()
    made.commit(distil("retry", "loop", "tier:logic"))
    after = made.live()
    assert (after.lineage_id, after.lineage_version) == (before.lineage_id, 3)
    assert (after.first_revision, after.last_revision, after.decay_state) == (1, 4, Decay.ACTIVE)
    assert after.provenance[:-1] == before.provenance
    assert after.consensus_hash != before.consensus_hash


def test_re_distilling_resets_trust_to_the_default_of_the_shard() -> None:
    made = Bench().plant(record(trust_class=Trust.PROMOTED))
    made.commit(distil())
    assert made.live().trust_class is Trust.PROJECT


def test_a_protected_record_is_not_distilled_again() -> None:
    made = Bench().plant(record(decay_state=Decay.PROTECTED))
    made.run("begin scratch")
    made.refuses(Reason.PROTECTED_RECORD, distil())


def test_marks_do_not_stamp_the_last_revision_and_refresh_stamps_only_the_review() -> None:
    made = Bench().plant(record(), revision=5)
    made.commit("/prune_abstractions stale retry")
    assert (made.live().first_revision, made.live().last_revision, made.live().last_review_revision) == (1, 1, 0)
    made.commit("/prune_abstractions refresh retry")
    assert (made.live().last_revision, made.live().last_review_revision) == (1, 7)
    made.commit(distil())
    assert (made.live().first_revision, made.live().last_revision, made.live().last_review_revision) == (1, 8, 7)


# ---- provenance (PR) ------------------------------------------------------------------------------------------------


def test_pr_1_every_operation_appends_one_entry() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    lines = {
        distil(): Operation.DISTILLED,
        "/reuse_abstractions adopt core:retry": Operation.REUSE_ADOPT,
        "/reuse_abstractions reject core:retry": Operation.REUSE_REJECT,
        "/reuse_abstractions promote core:retry local:retry": Operation.REUSE_PROMOTE,
        "/merge_abstractions adopt core:retry": Operation.MERGE_ADOPT,
        "/prune_abstractions stale retry": Operation.PRUNE_MARK_STALE,
        "/prune_abstractions refresh retry": Operation.PRUNE_REFRESH,
        "/prune_abstractions prunable retry": Operation.PRUNE_MARK_PRUNABLE,
        "/prune_abstractions protect retry": Operation.PROTECT,
        "/prune_abstractions unprotect retry": Operation.UNPROTECT,
    }
    project.run("begin scratch", *lines)
    assert [entry.operation for entry in project.staged().provenance] == [*lines.values()]
    assert {entry.owner for entry in project.staged().provenance} == {PROJECT}
    made = project.staged().provenance[0]
    assert (made.concept_id, made.lineage_id, made.lineage_version, made.trust_class) == (
        "retry",
        "project:default:retry",
        1,
        Trust.PROJECT,
    )
    assert made.extra == {"front": "cli", "sources": tuple(source.sha256 for source in project.staged().sources)}


def test_pr_2_past_sixteen_entries_the_first_and_the_newest_fifteen_stay() -> None:
    made = Bench()
    made.commit(distil())
    for number in range(15):
        made.commit(f"/prune_abstractions {('stale', 'refresh')[number % 2]} retry")
    assert (len(made.live().provenance), made.live().provenance_dropped) == (16, 0)
    before = made.live().provenance
    made.commit("/prune_abstractions protect retry")
    after = made.live().provenance
    assert (len(after), made.live().provenance_dropped) == (16, 1)
    assert (after[0], after[1:-1], after[-1].operation) == (before[0], before[2:], Operation.PROTECT)
    made.commit("/prune_abstractions unprotect retry")
    assert made.live().provenance_dropped == 2


# ---- parents --------------------------------------------------------------------------------------------------------


def chain(made: Bench, *names: str, text: str = "guard") -> None:
    for above, name in zip(("", *names), names, strict=False):
        made.run(distil(name, text, *([f"parent:{above}"] if above else [])))


def test_four_levels_of_parents_and_not_five() -> None:
    made = Bench()
    made.run("begin scratch")
    chain(made, "a", "b", "c", "d", "e")
    error = made.refuses(Reason.PARENT_CHAIN_TOO_LONG, distil("f", "guard", "parent:e"))
    assert error.message == "f → e → d → c → b → a are more than 4 levels"


def test_a_parent_is_live_or_staged() -> None:
    made = Bench()
    made.commit(distil("a"))
    made.run("begin scratch", distil("b", "guard", "parent:a"), distil("c", "guard", "parent:b"))
    error = made.refuses(Reason.PARENT_NOT_FOUND, distil("d", "guard", "parent:x"))
    assert error.message == "x, the parent of d, is neither live nor staged"


def test_no_record_is_its_own_parent_nor_above_it() -> None:
    made = Bench()
    made.commit(distil("a"), distil("b", "guard", "parent:a"), distil("c", "guard", "parent:b"))
    made.run("begin scratch")
    made.refuses(Reason.PARENT_CYCLE, distil("a", "guard", "parent:a"))
    made.refuses(Reason.PARENT_CYCLE, distil("new", "guard", "parent:new"))
    error = made.refuses(Reason.PARENT_CYCLE, distil("a", "guard", "parent:c"))
    assert error.message == "the parents of a lead back: a → c → b → a"


def test_a_change_is_judged_by_every_chain_that_it_touches() -> None:
    made = Bench()
    made.run("begin scratch")
    chain(made, "a", "b", "c")
    made.run("commit", "begin scratch")
    chain(made, "x", "y", "z")
    made.refuses(Reason.PARENT_CHAIN_TOO_LONG, distil("a", "guard", "parent:z"))
    made.run(distil("a", "guard", "parent:y"))
    made.refuses(Reason.PARENT_CHAIN_TOO_LONG, distil("d", "guard", "parent:c"))


# ---- bounds ---------------------------------------------------------------------------------------------------------


def test_a_shard_holds_4096_records_and_not_one_more() -> None:
    made = Bench().plant(*(record(f"c{number}") for number in range(4_095)))
    made.run("begin scratch", distil("new"))
    error = made.refuses(Reason.CATALOG_FULL, distil("newer"))
    assert error.message == "there would be 4097 records; a shard holds at most 4096"
    made.run(distil("c1"), "commit", "begin scratch")
    made.refuses(Reason.CATALOG_FULL, distil("newer"))
    made.run(distil("c1", "loop"), "drop c1", "commit")
    assert len(made.desk.all_live) == 4_096


BIG = tuple(f"big{number}" for number in range(63))


def filled(spare: int) -> Bench:
    """A shard whose records leave room for so many bytes: the patterns of `last` are as long as it takes."""
    big = [record(name, patterns=[letter * 16_384 for letter in "abcdefghijklmnop"]) for name in BIG]
    room = CATALOG_BYTES - spare - size(Bench().plant(*big, record("last", patterns="abcdefghijklmnop")))
    lengths = [1 + max(0, min(16_383, room - 16_383 * index)) for index in range(16)]
    made = Bench().plant(
        *big, record("last", patterns=[letter * length for letter, length in zip("abcdefghijklmnop", lengths, strict=True)])
    )
    assert size(made) == CATALOG_BYTES - spare
    return made


def size(made: Bench) -> int:
    return sum(map(made.objects.size, made.desk.catalog.records.values()))


def cost(line: str, name: str) -> int:
    made = Bench().plant(record("x"))
    made.run("begin scratch", line)
    return len(sealed({name: made.staged(name)})[1])


def test_records_take_sixteen_mebibytes_and_not_a_byte_more() -> None:
    line = distil("new")
    assert bucket_of("new") not in map(bucket_of, ("last", *BIG))
    exact = filled(cost(line, "new"))
    exact.run("begin scratch", line)
    exact.refuses(Reason.CATALOG_TOO_LARGE, distil("newer"))
    exact.run("commit")
    assert size(exact) == CATALOG_BYTES
    assert replay.audit(exact.head, PROJECT, exact.objects) == []

    over = filled(cost(line, "new") - 1)
    over.run("begin scratch")
    error = over.refuses(Reason.CATALOG_TOO_LARGE, line)
    assert error.message == "the records would take 16777217 bytes; at most 16777216 are kept"


def test_a_drop_that_brings_back_a_larger_record_needs_room_too() -> None:
    made = filled(0)
    grown = distil("new")
    made.run("begin scratch", distil("last"), grown)
    made.refuses(Reason.CATALOG_TOO_LARGE, "drop last")
    made.run("drop new", "drop last")


# ---- accept ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [CORE, PROJECT])
@pytest.mark.parametrize("front", [Front.CLI, Front.SHELL])
def test_a_person_raises_an_agents_record_to_the_default_of_the_shard(which: Shard, front: Front) -> None:
    made = Bench(which)
    made.commit(distil(), front=Front.MCP)
    assert made.live().trust_class is Trust.EXPLORATORY
    made.commit("accept retry", front=front)
    record = made.live()
    assert (record.trust_class, record.lineage_version, record.last_revision) == (which.trust, 2, 2)
    assert [entry.operation for entry in record.provenance] == [Operation.DISTILLED, Operation.ACCEPTED]
    assert record.provenance[-1].trust_class is which.trust
    made.run("begin scratch")
    made.refuses(Reason.ABSTRACTION_NOT_FOUND, "accept retry")


def test_a_protected_record_is_not_accepted_until_it_is_unprotected() -> None:
    made = Bench().plant(record(trust_class=Trust.EXPLORATORY, decay_state=Decay.PROTECTED))
    made.run("begin scratch")
    made.refuses(Reason.PROTECTED_RECORD, "accept retry")
    made.run("/prune_abstractions unprotect retry", "accept retry")
    assert made.staged().trust_class is Trust.PROJECT


def test_a_commit_tells_what_stays_exploratory() -> None:
    made = Bench()
    made.run("begin scratch", distil("b"))
    made.run(distil("a", "loop"), front=Front.MCP)
    told: dict[str, Any] = made.run("commit")
    assert [(each["concept"], each["trust"]) for each in told["committed"]] == [("a", "exploratory"), ("b", "project")]


def test_a_decision_lives_apart_from_the_records() -> None:
    made = Bench().plant(record("a"), decisions=[decision(Choice.REJECT, record("b", owner=CORE))])
    assert [*made.desk.all_live] == ["a"]
    assert [*made.desk.decisions] == ["b"]
