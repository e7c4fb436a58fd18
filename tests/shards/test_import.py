"""Published records that are taken in: trust, lineage, what is filled in, what is refused and where (ABSTRACTIONS 1.4 and 2.5)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from sdaqf_tasks.errors import Reason
from sdaqf_tasks.shards.records import CORE, LARGEST, PROVENANCE, Abstraction, Decay, Front, Kind, Operation, Shard, Trust, entry
from tests.keys import KEY
from tests.shards.records import PROJECT, record
from tests.shards.simulator import Bench, changed, distil

OTHER = Shard(kind=Kind.PROJECT, id="other")
LINE = "/import_abstractions a.json"


def published(made: Abstraction, *without: str, **fields: Any) -> dict[str, str]:
    """The file of a record, without some of its members or with others."""
    plain = {name: value for name, value in (msgspec.to_builtins(made) | fields).items() if name not in without}
    return {"a.json": json.dumps({"record": plain, "shard": {"kind": "project", "id": "other"}, "state": "SHARD-STATE-" + "0" * 64})}


def benches(*live: Abstraction, which: Shard = PROJECT) -> Bench:
    made = Bench(which).plant(*live, revision=6)
    made.run("begin scratch")
    return made


# ---- trust ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", [PROJECT, CORE])
@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("front", [Front.CLI, Front.SHELL, Front.HTTP])
def test_trust_is_never_above_the_files_nor_the_default_of_the_shard(which: Shard, trust: Trust, front: Front) -> None:
    for live in ([], [record(owner=OTHER, trust_class=Trust.PROMOTED)], [record(owner=OTHER, trust_class=Trust.EXPLORATORY)]):
        bench = benches(*live, which=which)
        bench.run(LINE, front=front, files=published(record(owner=OTHER, trust_class=trust)))
        assert bench.staged().trust_class is min(trust, which.trust, Trust.PROMOTED)  # core is entered by promotion only


def test_a_count_at_its_bound_stays_there_whatever_is_done_to_the_record() -> None:
    many = record(owner=OTHER)
    entries = many.provenance * PROVENANCE
    files = published(replace(many, provenance=entries, provenance_dropped=LARGEST))
    bench = benches()
    bench.run(LINE, "/prune_abstractions stale retry", files=files)
    assert bench.staged().provenance_dropped == LARGEST
    bench.run("commit")
    assert bench.live().decay_state is Decay.STALE


@pytest.mark.parametrize("trust", Trust)
def test_what_an_agent_imports_is_exploratory(trust: Trust) -> None:
    bench = benches()
    bench.run(LINE, front=Front.MCP, files=published(record(owner=OTHER, trust_class=trust)))
    assert bench.staged().trust_class is Trust.EXPLORATORY


# ---- what is kept -----------------------------------------------------------------------------------------------------


def test_a_record_keeps_its_lineage_and_provenance_and_gets_the_owner_version_and_revisions_of_this_shard() -> None:
    held = record(owner=OTHER, lineage_version=9, first_revision=3, last_revision=40, last_review_revision=39, statement="said")
    bench = benches()
    answer = bench.run(LINE, files=published(held))
    made = bench.staged()
    assert answer == {"abstractionImport": {"imported": ["retry"], "backfilled": []}}
    assert (made.lineage_id, made.provenance, made.statement) == (held.lineage_id, held.provenance, "said")
    assert (made.owner, made.lineage_version) == (PROJECT, 1)
    assert (made.first_revision, made.last_revision, made.last_review_revision) == (7, 7, 0)
    bench.run("commit")
    assert bench.desk.catalog.lineages == {"project:other:retry": 1}


def test_the_same_lineage_is_replaced_and_no_entry_is_lost_nor_counted_twice() -> None:
    first = record(owner=OTHER, provenance_dropped=0)
    more = tuple(entry(changed(first, lineage_version=number), Operation.PRUNE_REFRESH, OTHER) for number in range(2, 17))
    here = changed(first, provenance=(*first.provenance, *more), provenance_dropped=5)
    newer = entry(changed(first, lineage_version=17), Operation.PRUNE_REFRESH, OTHER)
    there = changed(here, provenance=(*first.provenance, *more[1:], newer), provenance_dropped=6)

    bench = benches(here)
    bench.run(LINE, files=published(there))
    assert (bench.staged().provenance, bench.staged().provenance_dropped) == (there.provenance, 6)
    assert (bench.staged().lineage_version, bench.staged().first_revision) == (2, 1)

    bench = benches(here)
    bench.run(LINE, files=published(here))
    assert (bench.staged().provenance, bench.staged().provenance_dropped) == (here.provenance, 5)


def test_a_file_that_is_far_ahead_says_how_many_entries_were_dropped() -> None:
    first = record(owner=OTHER)
    more = tuple(entry(changed(first, lineage_version=number), Operation.PRUNE_REFRESH, OTHER) for number in range(2, 17))
    bench = benches(first)
    bench.run(LINE, files=published(changed(first, provenance=(*first.provenance, *more), provenance_dropped=9)))
    assert (len(bench.staged().provenance), bench.staged().provenance_dropped) == (16, 9)


def test_another_lineage_of_that_concept_is_a_conflict_and_a_protected_record_resists() -> None:
    file = published(record(owner=OTHER))
    benches(record()).refuses(Reason.MERGE_CONFLICT, LINE, files=file)
    benches(record(owner=OTHER, decay_state=Decay.PROTECTED)).refuses(Reason.PROTECTED_RECORD, LINE, files=file)


def test_several_files_are_all_taken_or_none() -> None:
    files = {"a.json": published(record("a", owner=OTHER, parent="b"))["a.json"], "b.json": published(record("b", owner=OTHER))["a.json"]}
    bench = benches()
    bench.refuses(Reason.PARENT_NOT_FOUND, LINE, files=files)
    bench.run("/import_abstractions a.json b.json", files=files)
    assert {*bench.desk.staged.records} == {"a", "b"}
    bench.refuses(Reason.MALFORMED_JSON, "/import_abstractions a.json c.json", files=files | {"c.json": "{"})


# ---- PR-3 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [("provenance",), ("lineage_id",), ("provenance", "lineage_id", "lineage_version")])
def test_pr_3_what_is_missing_is_filled_in_visibly(missing: tuple[str, ...]) -> None:
    bench = benches()
    answer = bench.run(LINE, files=published(record(owner=OTHER), *missing))
    made = bench.staged()
    filled = [f"a.json: {name} filled in" for name in ("lineage_id", "provenance") if name in missing]
    assert answer["abstractionImport"]["backfilled"] == filled
    assert made.lineage_id == ("project:default:retry" if "lineage_id" in missing else "project:other:retry")
    assert [each.operation for each in made.provenance] == [Operation.DISTILLED]
    if "provenance" in missing:
        made_here = made.provenance[0]
        assert (made_here.owner, made_here.lineage_id, made_here.consensus_hash) == (PROJECT, made.lineage_id, made.consensus_hash)
        assert made_here.extra == {"backfilled": "imported without provenance"}


# ---- what is refused, and where ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason", "where"),
    [
        ("", Reason.MALFORMED_JSON, "a.json/1:1"),
        ('{"record": {}', Reason.MALFORMED_JSON, "a.json/1:14"),
        ('{"record": 1.5}', Reason.MALFORMED_JSON, "a.json/record"),
        ("[]", Reason.CONTRACT_INVALID, "a.json/record"),
        ("{}", Reason.CONTRACT_INVALID, "a.json/record"),
        ('{"record": []}', Reason.CONTRACT_INVALID, "a.json/record"),
        ('{"record": {}}', Reason.INVALID_CONCEPT, "a.json"),
        ('{"record": {"concept_id": "A b"}}', Reason.INVALID_CONCEPT, "a.json"),
        ('{"record": {"concept_id": "a"}}', Reason.CONTRACT_INVALID, "a.json/record"),
        (f'{{"record": {{}}, "note": "{KEY}"}}', Reason.SECRET_SHAPED_TEXT, "a.json"),
        (f'{{"record": {{}}, "note": "\\u{ord(KEY[0]):04x}{KEY[1:]}"}}', Reason.SECRET_SHAPED_TEXT, "a.json"),
        (" " * 1_048_577, Reason.TOO_LARGE, "a.json"),
    ],
)
def test_a_damaged_file_is_refused_with_its_place(text: str, reason: Reason, where: str) -> None:
    error = benches().refuses(reason, LINE, files={"a.json": text})
    assert error.where == where
    assert KEY not in str(error)


WRONG: dict[str, Any] = {
    "quality_score": 1,
    "confidence_score": 1,
    "reuse_score": 1,
    "support_score": 1,
    "promotion_ready": True,
    "examples": 3,
    "consensus_hash": "0" * 64,
    "min_resonance": 1_024,
    "lineage_id": "project:other:another",
    "parent": "retry",
}


@pytest.mark.parametrize(("member", "value"), WRONG.items())
def test_a_wrong_derived_member_is_refused_by_its_name(member: str, value: Any) -> None:
    held = record(owner=OTHER, min_resonance=900, average_resonance=950)
    error = benches().refuses(Reason.CONTRACT_INVALID, LINE, files=published(held, **{member: value}))
    if member in ("examples", "min_resonance", "parent"):  # the scores follow from these, and are looked at first
        assert error.where.startswith("a.json/")
    else:
        assert error.where == f"a.json/{member}"


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("tier", "axiom"),
        ("statement", "x" * 501),
        ("examples", 13),
        ("retained_tokens", [f"t{n}" for n in range(25)]),
        ("retained_patterns", []),
        ("sources", []),
        ("provenance", [{}]),
        ("owner", {"kind": "project", "id": ".."}),
        ("lineage_version", 0),
        ("last_revision", 4_294_967_296),
        ("unknown", 1),
        ("consensus_hash", "a" * 64),
    ],
)
def test_what_is_out_of_bounds_is_refused_at_its_record(member: str, value: Any) -> None:
    error = benches().refuses(Reason.CONTRACT_INVALID, LINE, files=published(record(owner=OTHER), **{member: value}))
    assert error.where == "a.json/record"


def test_an_import_without_its_file_is_refused_in_the_library() -> None:
    benches().refuses(Reason.INVALID_COMMAND, LINE)


def test_what_was_distilled_is_taken_in_elsewhere_as_it_is() -> None:
    there, here = Bench(OTHER), Bench()
    there.commit(distil("retry", "guard", 'statement:"said"'))
    here.commit(LINE, files=published(there.live()))
    same = set(there.live().__struct_fields__) - {"owner"}
    assert {name for name in same if getattr(there.live(), name) != getattr(here.live(), name)} == set()
