"""`/merge_abstractions`, row by row of the table of checks, and what it makes (ABSTRACTIONS 5)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.errors import Reason
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.records import CORE, WHOLE, Abstraction, Category, Decay, Front, Kind, Operation, Shard, Tier, Trust
from tests.keys import KEY
from tests.shards.records import PROJECT, record, source
from tests.shards.simulator import Bench, distil, joined

OTHER = Shard(kind=Kind.PROJECT, id="other")
ADOPT, PROMOTE = "/merge_abstractions adopt", "/merge_abstractions promote"


def benches(into: Shard, held: Abstraction | None, *local: Abstraction, revision: int = 1) -> Bench:
    """The destination with these live records and a session; the owner of `held` has that one live."""
    destination, *others = joined(*(Bench(which) for which in dict.fromkeys((into, CORE, PROJECT, OTHER))))
    for other in others:
        if held and other.shard == held.owner:
            other.plant(held)
    destination.plant(*local, revision=revision)
    destination.run("begin scratch")
    return destination


# ---- checks 0 to 9, each where later ones fail too ----------------------------------------------------------------------

BAD: dict[str, Any] = {"trust_class": Trust.EXPLORATORY, "decay_state": Decay.PRUNABLE, "parent": "nowhere"}
CONFLICT = record(tokens=("other",), decay_state=Decay.PROTECTED)


def test_check_0_without_a_session_nothing_else_is_looked_at() -> None:
    Bench().refuses(Reason.SCRATCH_NOT_ACTIVE, f"{ADOPT} project:default:none")


@pytest.mark.parametrize(("which", "named"), [(PROJECT, "project:default:none"), (CORE, "core:none")])
@pytest.mark.parametrize("mode", [ADOPT, PROMOTE])
def test_check_1_a_shard_is_not_merged_into_itself(which: Shard, named: str, mode: str) -> None:
    benches(which, None).refuses(Reason.SELF_MERGE, f"{mode} {named}")


@pytest.mark.parametrize("mode", [ADOPT, PROMOTE])
@pytest.mark.parametrize("named", ["core:retry", "project:other:retry", "project:absent:retry"])
def test_check_2_the_source_is_live(mode: str, named: str) -> None:
    bench = benches(PROJECT, None, CONFLICT)
    error = bench.refuses(Reason.ABSTRACTION_NOT_FOUND, f"{mode} {named}")
    assert error.message == f"{named.removesuffix(':retry')} has no live retry"


def test_check_2_what_is_only_staged_is_no_source() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.run("begin scratch", distil())
    project.run("begin scratch")
    project.refuses(Reason.ABSTRACTION_NOT_FOUND, f"{ADOPT} core:retry")


@pytest.mark.parametrize("mode", [ADOPT, PROMOTE])
@pytest.mark.parametrize("into", [PROJECT, CORE])
def test_check_3_exploratory_content_goes_nowhere(mode: str, into: Shard) -> None:
    benches(into, record(owner=OTHER, **BAD), CONFLICT).refuses(Reason.EXPLORATORY_CONTENT, f"{mode} project:other:retry")


@pytest.mark.parametrize(("mode", "into"), [(ADOPT, CORE), (PROMOTE, PROJECT), (ADOPT, PROJECT), (PROMOTE, CORE)])
def test_check_4_prunable_content_goes_nowhere(mode: str, into: Shard) -> None:
    held = record(owner=OTHER, decay_state=Decay.PRUNABLE, parent="nowhere")
    benches(into, held, CONFLICT).refuses(Reason.PRUNABLE_CONTENT, f"{mode} project:other:retry")


@pytest.mark.parametrize(
    ("into", "owner", "trust"),
    [(PROJECT, CORE, Trust.CORE), (PROJECT, OTHER, Trust.PROJECT), (PROJECT, CORE, Trust.PROMOTED), (CORE, OTHER, Trust.CORE)],
)
def test_check_5_promote_leads_to_higher_trust_only(into: Shard, owner: Shard, trust: Trust) -> None:
    held = record(owner=owner, trust_class=trust, parent="nowhere")
    benches(into, held, CONFLICT).refuses(Reason.TRUST_NEEDS_HIGHER, f"{PROMOTE} {owner}:retry")


@pytest.mark.parametrize("trust", [Trust.PROJECT, Trust.PROMOTED, Trust.CORE])
def test_check_6_core_is_not_entered_by_adoption(trust: Trust) -> None:
    held = record(owner=OTHER, trust_class=trust, parent="nowhere")
    benches(CORE, held, CONFLICT).refuses(Reason.USE_PROMOTE, f"{ADOPT} project:other:retry")


@pytest.mark.parametrize(
    "difference", [{"tokens": ("x",)}, {"patterns": ("x",)}, {"tier": Tier.LOGIC}, {"category": Category.STATE}, {"parent": "base"}]
)
def test_check_7_what_is_incompatible_is_not_merged(difference: dict[str, Any]) -> None:
    local = record(decay_state=Decay.PROTECTED, **difference)
    bench = benches(PROJECT, record(owner=CORE), record("base"), local)
    bench.refuses(Reason.MERGE_CONFLICT, f"{ADOPT} core:retry")
    bench.run(f"{ADOPT} core:retry as:other")


def test_check_7_the_target_is_the_staged_record_before_the_live_one() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil())
    project.run("begin scratch", distil("retry", "loop"))
    project.refuses(Reason.MERGE_CONFLICT, f"{ADOPT} core:retry")


def test_check_8_a_protected_target_is_left_alone() -> None:
    held = record(owner=CORE, parent="nowhere")
    bench = benches(PROJECT, held, record(decay_state=Decay.PROTECTED, parent="nowhere"))
    bench.refuses(Reason.MERGE_PROTECTED, f"{ADOPT} core:retry")


def test_check_9_the_parent_is_in_the_destination_and_is_not_the_target() -> None:
    bench = benches(PROJECT, record(owner=CORE, parent="base"))
    bench.refuses(Reason.PARENT_NOT_FOUND, f"{ADOPT} core:retry")
    bench.refuses(Reason.PARENT_CYCLE, f"{ADOPT} core:retry as:base")
    bench.run(distil("base"), f"{ADOPT} core:retry")


def test_check_9_the_chain_of_the_destination_holds() -> None:
    chain = [record(name, parent=above) for above, name in zip((None, *"abcd"), "abcde", strict=True)]
    bench = benches(PROJECT, record(owner=CORE, parent="e"), *chain)
    bench.refuses(Reason.PARENT_CHAIN_TOO_LONG, f"{ADOPT} core:retry")
    assert benches(PROJECT, record(owner=CORE, parent="d"), *chain).run(f"{ADOPT} core:retry")


def test_what_does_not_verify_is_not_staged() -> None:
    benches(PROJECT, record(owner=CORE, statement=KEY)).refuses(Reason.SECRET_SHAPED_TEXT, f"{ADOPT} core:retry")


# ---- trust, exactly ---------------------------------------------------------------------------------------------------

NEW = [
    (ADOPT, PROJECT, CORE, Trust.CORE, Trust.PROMOTED),
    (ADOPT, PROJECT, CORE, Trust.PROMOTED, Trust.PROMOTED),
    (ADOPT, PROJECT, OTHER, Trust.PROJECT, Trust.PROJECT),
    (ADOPT, PROJECT, OTHER, Trust.PROMOTED, Trust.PROMOTED),
    (PROMOTE, CORE, OTHER, Trust.PROJECT, Trust.PROMOTED),
    (PROMOTE, CORE, OTHER, Trust.PROMOTED, Trust.PROMOTED),
]


@pytest.mark.parametrize(("mode", "into", "owner", "held", "trust"), NEW)
def test_the_trust_of_a_new_record(mode: str, into: Shard, owner: Shard, held: Trust, trust: Trust) -> None:
    bench = benches(into, record(owner=owner, trust_class=held))
    bench.run(f"{mode} {owner}:retry")
    assert bench.staged().trust_class is trust
    assert bench.staged().provenance[-1].trust_class is trust


@pytest.mark.parametrize(("mode", "into", "owner", "held", "trust"), NEW)
@pytest.mark.parametrize("had", [Trust.PROJECT, Trust.PROMOTED, Trust.CORE])
def test_an_existing_record_keeps_its_trust_where_that_is_higher(
    mode: str, into: Shard, owner: Shard, held: Trust, trust: Trust, had: Trust
) -> None:
    bench = benches(into, record(owner=owner, trust_class=held), record(owner=into, trust_class=had))
    bench.run(f"{mode} {owner}:retry")
    assert bench.staged().trust_class is (had if held < had else max(had, trust))


@pytest.mark.parametrize(("mode", "into", "owner", "held", "trust"), NEW)
@pytest.mark.parametrize("had", [None, *Trust])
def test_what_an_agent_merges_is_exploratory(mode: str, into: Shard, owner: Shard, held: Trust, trust: Trust, had: Trust | None) -> None:
    local = [record(owner=into, trust_class=had)] if had else []
    bench = benches(into, record(owner=owner, trust_class=held), *local)
    bench.run(f"{mode} {owner}:retry", front=Front.MCP)
    assert bench.staged().trust_class is Trust.EXPLORATORY


@pytest.mark.parametrize(("mode", "into", "owner", "held", "trust"), NEW)
def test_what_nobody_has_accepted_stays_exploratory_whoever_says_the_same(
    mode: str, into: Shard, owner: Shard, held: Trust, trust: Trust
) -> None:
    bench = benches(into, record(owner=owner, trust_class=held), record(owner=into, trust_class=Trust.EXPLORATORY))
    bench.run(f"{mode} {owner}:retry")
    assert bench.staged().trust_class is Trust.EXPLORATORY
    bench.run("accept retry", f"{mode} {owner}:retry")
    assert bench.staged().trust_class is max(into.trust, trust)


# ---- a new target -----------------------------------------------------------------------------------------------------


def test_li_4_a_new_target_starts_a_lineage_of_the_destination() -> None:
    held = record(owner=CORE, statement="said", tier=Tier.LOGIC, decay_state=Decay.STALE, lineage_version=7, last_review_revision=3)
    bench = benches(PROJECT, held, revision=4)
    answer = bench.run(f"{ADOPT} core:retry as:mine")
    made = bench.staged("mine")
    assert (made.concept_id, made.lineage_id, made.lineage_version, made.owner) == ("mine", "project:default:mine", 1, PROJECT)
    assert (made.first_revision, made.last_revision, made.last_review_revision, made.decay_state) == (5, 5, 0, Decay.ACTIVE)
    same = ("statement", "tier", "category", "sources", "examples", "retained_tokens", "retained_patterns", "consensus_hash")
    assert [getattr(made, name) for name in same] == [getattr(held, name) for name in same]
    assert made.provenance[:-1] == held.provenance
    entry = made.provenance[-1]
    assert (entry.operation, entry.owner, entry.lineage_id) == (Operation.MERGE_ADOPT, PROJECT, "project:default:mine")
    assert entry.extra == {"shard": "core", "lineage_id": "core:core:retry", "lineage_version": 7}
    assert answer == {
        "abstractionMerge": {
            "source": {"kind": "core", "id": "core", "concept": "retry", "lineage": "core:core:retry", "version": 7, "trust": "core"},
            "destination": {
                "kind": "project",
                "id": "default",
                "concept": "mine",
                "lineage": "project:default:mine",
                "version": 1,
                "trust": "promoted",
            },
            "mergedIntoExisting": False,
        }
    }


def test_the_source_shard_is_never_changed() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    before = core.head, dict(core.objects.held)
    project.commit(f"{ADOPT} core:retry")
    assert (core.head, core.objects.held) == before


def test_pr_2_holds_for_the_provenance_of_a_source() -> None:
    entries = record(owner=CORE).provenance * 16
    bench = benches(PROJECT, record(owner=CORE, provenance=entries, provenance_dropped=4))
    bench.run(f"{ADOPT} core:retry")
    assert (len(bench.staged().provenance), bench.staged().provenance_dropped) == (16, 5)


# ---- an existing target -----------------------------------------------------------------------------------------------


def files(letter: str, count: int) -> list[Any]:
    return [source(f"{letter}{number}.py") for number in range(count)]


def test_li_4_an_existing_target_keeps_its_lineage_and_gets_the_next_version() -> None:
    held = record(owner=CORE, sources=files("s", 3), lineage_version=9)
    local = record(sources=files("d", 2), lineage_version=4, decay_state=Decay.STALE, last_review_revision=1)
    bench = benches(PROJECT, held, local, revision=6)
    answer = bench.run(f"{ADOPT} core:retry")["abstractionMerge"]
    made = bench.staged()
    assert (made.lineage_id, made.lineage_version, made.decay_state) == ("project:default:retry", 5, Decay.ACTIVE)
    assert (made.first_revision, made.last_revision, made.last_review_revision) == (1, 7, 1)
    assert (made.examples, made.threshold) == (5, 4)
    assert made.sources == (*local.sources, *held.sources)
    assert made.provenance[:-1] == local.provenance
    assert (answer["mergedIntoExisting"], answer["destination"]["version"]) == (True, 5)
    records.verify(made)
    bench.run("commit")
    assert bench.desk.catalog.lineages == {"project:default:retry": 5}


@pytest.mark.parametrize(("mine", "theirs", "kept"), [(6, 6, 12), (6, 7, 12), (11, 12, 12), (12, 12, 12), (2, 2, 4)])
def test_the_union_of_sources_has_at_most_twelve_the_destinations_first(mine: int, theirs: int, kept: int) -> None:
    held, local = record(owner=CORE, sources=files("s", theirs)), record(sources=files("d", mine))
    bench = benches(PROJECT, held, local)
    bench.run(f"{ADOPT} core:retry")
    assert bench.staged().sources == (*local.sources, *held.sources)[:kept]
    assert bench.staged().threshold == records.threshold(kept)


def test_a_source_that_is_there_by_path_lines_and_text_is_not_added() -> None:
    there, same, moved, edited = source("a.py", 1, 3), source("a.py", 1, 3), source("a.py", 2, 4), source("a.py", 1, 3, "edited\n")
    held = record(owner=CORE, sources=[same, moved, edited])
    bench = benches(PROJECT, held, record(sources=[there, source("b.py")]))
    bench.run(f"{ADOPT} core:retry")
    assert bench.staged().sources == (there, source("b.py"), moved, edited)


@pytest.mark.parametrize("had", [Trust.PROMOTED, Trust.CORE])
def test_evidence_of_lower_trust_must_not_borrow_trust(had: Trust) -> None:
    """Then only the entry is added."""
    held = record(owner=OTHER, sources=files("s", 3), statement="theirs", min_resonance=600, average_resonance=700)
    local = record(owner=CORE, trust_class=had, sources=files("d", 2), decay_state=Decay.STALE)
    bench = benches(CORE, held, local)
    bench.run(f"{PROMOTE} project:other:retry")
    made = bench.staged()
    stamped = {"provenance", "lineage_version", "last_revision"}
    assert {name for name in local.__struct_fields__ if getattr(made, name) != getattr(local, name)} == stamped
    assert [entry.operation for entry in made.provenance] == [Operation.DISTILLED, Operation.MERGE_PROMOTE]
    assert made.trust_class is had


def test_resonance_is_the_lesser_and_the_weighted_average() -> None:
    held = record(owner=CORE, sources=files("s", 3), min_resonance=600, average_resonance=801)
    local = record(sources=files("d", 2), min_resonance=700, average_resonance=1_000)
    bench = benches(PROJECT, held, local)
    bench.run(f"{ADOPT} core:retry")
    assert (bench.staged().min_resonance, bench.staged().average_resonance) == (600, (1_000 * 2 + 801 * 3) // 5)


def test_the_average_stays_where_no_source_was_added() -> None:
    held = record(owner=CORE, min_resonance=600, average_resonance=800)
    bench = benches(PROJECT, held, record(min_resonance=700, average_resonance=1_000))
    bench.run(f"{ADOPT} core:retry")
    assert (bench.staged().min_resonance, bench.staged().average_resonance, bench.staged().examples) == (600, 1_000, 2)


@pytest.mark.parametrize(
    ("mine", "theirs", "kept"), [("mine", "theirs", "mine"), ("", "theirs", "theirs"), ("mine", "", "mine"), ("", "", "")]
)
def test_the_statement_is_the_destinations_or_the_sources_where_it_is_empty(mine: str, theirs: str, kept: str) -> None:
    bench = benches(PROJECT, record(owner=CORE, statement=theirs), record(statement=mine))
    bench.run(f"{ADOPT} core:retry")
    assert bench.staged().statement == kept


def test_a_merge_into_what_is_staged_sees_the_staged_record() -> None:
    bench = benches(PROJECT, record(owner=CORE, sources=files("s", 2)))
    bench.run(f"{ADOPT} core:retry", f"{ADOPT} core:retry")
    assert [entry.operation for entry in bench.staged().provenance] == [Operation.DISTILLED, Operation.MERGE_ADOPT, Operation.MERGE_ADOPT]
    assert bench.staged().lineage_version == 1


counts = st.integers(2, 12)
resonances = st.tuples(st.integers(560, WHOLE), st.integers(560, WHOLE)).map(sorted)


@given(counts, counts, resonances, resonances, st.integers(0, 12))
def test_whatever_is_merged_verifies(mine: int, theirs: int, ours: list[int], others: list[int], shared: int) -> None:
    here = files("d", mine)
    there = [*here[:shared], *files("s", 12)][:theirs]
    held = record(owner=CORE, sources=there, min_resonance=others[0], average_resonance=others[1])
    bench = benches(PROJECT, held, record(sources=here, min_resonance=ours[0], average_resonance=ours[1]))
    bench.run(f"{ADOPT} core:retry")
    records.verify(bench.staged())
    assert len(bench.staged().sources) == min(12, len({*here, *there}))
