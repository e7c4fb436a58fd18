"""How core's records look from a project, and which references support a query in which order."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.shards.lookup import HINTS, Conflict, Hint, Mode, Query, Reference, Resolution, lapsed, lookup, resolve
from sdaqf_tasks.shards.records import CORE, Abstraction, Category, Choice, Decay, Decision, Source, Tier, Trust
from tests.shards.records import PROJECT, catalog, decision, record, source

QUERY = Query(patterns=("if retry :",), limit=100)
ELSEWHERE = ("lock ( )",)
"""Patterns of a record that no query here matches."""


def still(_: Source) -> bool:
    return False


def found(
    query: Query = QUERY,
    *local: Abstraction,
    decisions: Mapping[str, Decision] | None = None,
    core: Sequence[Abstraction] | None = (),
) -> tuple[Reference, ...]:
    return lookup(query, catalog(*local), decisions or {}, None if core is None else catalog(*core), still)


def concepts(references: Sequence[Reference]) -> list[str]:
    return [reference.concept_id for reference in references]


# ---- section 4: decisions and the table -----------------------------------------------------------------------------

OF_CORE = record("a", owner=CORE)
SAME = record("a")
OTHER = record("a", tokens=("if", "again"))
NAMED = record("l", tokens=("if", "again"))

LOCAL = ("local", "none", None, None, True)
LOCAL_KEPT = ("local", "none", None, "promote", True)
OVERRIDE = ("local_override", "incompatible", "core a", None, True)
OVERRIDE_KEPT = ("local_override", "incompatible", "core a", "promote", True)


def refused(other: str, choice: str | None) -> tuple[Any, ...]:
    return ("conflict_refused", "incompatible", f"project:default {other}", choice, False)


ROWS: tuple[tuple[str, list[Abstraction], Decision | None, dict[str, tuple[Any, ...]]], ...] = (
    ("none, none", [], None, {"core a": ("imported", "none", None, None, True)}),
    ("none, adopt", [], decision(Choice.ADOPT, OF_CORE), {"core a": ("adopted", "none", None, "adopt", True)}),
    ("none, reject", [], decision(Choice.REJECT, OF_CORE), {"core a": ("rejected", "explicit_reject", None, "reject", False)}),
    (
        "none, promote",
        [NAMED],
        decision(Choice.PROMOTE, OF_CORE, NAMED),
        {"core a": refused("l", "promote"), "project:default l": LOCAL_KEPT},
    ),
    ("compatible, none", [SAME], None, {"project:default a": LOCAL}),
    ("compatible, adopt", [SAME], decision(Choice.ADOPT, OF_CORE), {"project:default a": ("local", "none", None, "adopt", True)}),
    ("compatible, reject", [SAME], decision(Choice.REJECT, OF_CORE), {"project:default a": ("local", "none", None, "reject", True)}),
    ("compatible, promote of it", [SAME], decision(Choice.PROMOTE, OF_CORE, SAME), {"project:default a": LOCAL_KEPT}),
    (
        "compatible, promote of another",
        [SAME, NAMED],
        decision(Choice.PROMOTE, OF_CORE, NAMED),
        {"project:default a": LOCAL, "project:default l": LOCAL_KEPT},
    ),
    ("incompatible, none", [OTHER], None, {"core a": refused("a", None), "project:default a": OVERRIDE}),
    (
        "incompatible, adopt",
        [OTHER],
        decision(Choice.ADOPT, OF_CORE),
        {"core a": refused("a", "adopt"), "project:default a": OVERRIDE},
    ),
    (
        "incompatible, reject",
        [OTHER],
        decision(Choice.REJECT, OF_CORE),
        {"core a": refused("a", "reject"), "project:default a": OVERRIDE},
    ),
    (
        "incompatible, promote of another",
        [OTHER, NAMED],
        decision(Choice.PROMOTE, OF_CORE, NAMED),
        {"core a": refused("a", "promote"), "project:default a": OVERRIDE, "project:default l": LOCAL_KEPT},
    ),
    (
        "incompatible, promote of it",
        [OTHER],
        decision(Choice.PROMOTE, OF_CORE, OTHER),
        {"core a": refused("a", "promote"), "project:default a": OVERRIDE_KEPT},
    ),
)


def shown(references: Sequence[Reference]) -> dict[str, tuple[Any, ...]]:
    """By owner and concept: resolution, conflict, with whom, decision, usable."""
    return {
        f"{one.owner} {one.concept_id}": (
            one.resolution.value,
            one.conflict.value,
            f"{one.conflict_with.owner} {one.conflict_with.concept_id}" if one.conflict_with else None,
            one.decision.value if one.decision else None,
            one.usable,
        )
        for one in references
    }


@pytest.mark.parametrize(("local", "decided", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_row_of_the_resolution_table(local: list[Abstraction], decided: Decision | None, expected: dict[str, tuple[Any, ...]]) -> None:
    references = found(QUERY, *local, decisions={"a": decided} if decided else {}, core=[OF_CORE])
    assert shown(references) == expected
    assert not any(reference.decision_lapsed for reference in references)


def test_a_local_record_counts_whether_or_not_the_lookup_matches_it() -> None:
    silent = record("a", patterns=ELSEWHERE)
    assert shown(found(QUERY, silent, core=[OF_CORE])) == {"core a": refused("a", None)}


def test_a_record_without_one_in_core_is_local() -> None:
    assert shown(found(QUERY, SAME)) == {"project:default a": LOCAL}


@pytest.mark.parametrize("changed", [{"tokens": ("if",)}, {"tier": Tier.LOGIC}, {"category": Category.STATE}, {"parent": "p"}])
def test_what_makes_a_local_record_incompatible(changed: dict[str, Any]) -> None:
    resolved = resolve(OF_CORE, catalog(record("a", **changed)), {})
    assert resolved.core is not None and resolved.core.resolution is Resolution.CONFLICT_REFUSED


def test_statement_scores_and_trust_play_no_part_in_compatibility() -> None:
    local = record("a", statement="ours", sources=("x", "y", "z"), trust_class=Trust.EXPLORATORY, min_resonance=600)
    assert resolve(OF_CORE, catalog(local), {}).core is None


CHANGES: tuple[dict[str, Any], ...] = (
    {"tokens": ("if",)},
    {"lineage_id": "core:core:b"},
    {"trust_class": Trust.PROMOTED},
)
UNCHANGES: tuple[dict[str, Any], ...] = (
    {},
    {"lineage_version": 2, "last_revision": 9},
    {"tier": Tier.LOGIC},
    {"decay_state": Decay.STALE},
)


@pytest.mark.parametrize("choice", Choice)
@pytest.mark.parametrize("changed", CHANGES)
def test_a_decision_lapses_when_its_source_changed(choice: Choice, changed: dict[str, Any]) -> None:
    assert lapsed(decision(choice, OF_CORE, NAMED), record("a", owner=CORE, **changed), NAMED)


@pytest.mark.parametrize("choice", Choice)
@pytest.mark.parametrize("unchanged", UNCHANGES)
def test_a_higher_version_alone_lapses_nothing(choice: Choice, unchanged: dict[str, Any]) -> None:
    assert not lapsed(decision(choice, OF_CORE, NAMED), record("a", owner=CORE, **unchanged), NAMED)


@pytest.mark.parametrize("choice", Choice)
def test_a_decision_lapses_when_its_source_is_gone(choice: Choice) -> None:
    assert lapsed(decision(choice, OF_CORE, NAMED), None, NAMED)


@pytest.mark.parametrize("changed", CHANGES)
def test_a_promote_lapses_when_its_local_record_changed(changed: dict[str, Any]) -> None:
    now = record("l", **({"tokens": NAMED.retained_tokens} | changed))
    assert lapsed(decision(Choice.PROMOTE, OF_CORE, NAMED), OF_CORE, now)
    assert not lapsed(decision(Choice.ADOPT, OF_CORE), OF_CORE, now)


def test_a_promote_lapses_when_its_local_record_is_gone_or_was_never_pinned() -> None:
    assert lapsed(decision(Choice.PROMOTE, OF_CORE, NAMED), OF_CORE, None)
    assert lapsed(decision(Choice.PROMOTE, OF_CORE), OF_CORE, NAMED)
    assert not lapsed(decision(Choice.ADOPT, OF_CORE), OF_CORE, None)


BEFORE = record("a", owner=CORE, tokens=("before",))


@pytest.mark.parametrize(
    ("decided", "expected"),
    [
        (decision(Choice.ADOPT, BEFORE), (Resolution.IMPORTED, Conflict.NONE, True)),
        (decision(Choice.PROMOTE, BEFORE, NAMED), (Resolution.IMPORTED, Conflict.NONE, True)),
        (decision(Choice.REJECT, BEFORE), (Resolution.REJECTED, Conflict.EXPLICIT_REJECT, False)),
    ],
)
def test_a_lapsed_adopt_or_promote_counts_as_none_and_a_lapsed_reject_holds(decided: Decision, expected: tuple[Any, ...]) -> None:
    references = {one.concept_id: one for one in found(QUERY, NAMED, decisions={"a": decided}, core=[OF_CORE])}
    one = references["a"]
    assert (one.resolution, one.conflict, one.usable) == expected
    assert (one.decision, one.decision_lapsed) == (decided.decision, True)
    assert references["l"].decision_lapsed is (decided.decision is Choice.PROMOTE)


def test_a_lapsed_promote_of_the_override_is_told_by_it() -> None:
    references = found(QUERY, OTHER, decisions={"a": decision(Choice.PROMOTE, BEFORE, OTHER)}, core=[OF_CORE])
    assert [(one.resolution.value, one.decision, one.decision_lapsed) for one in references] == [
        ("local_override", Choice.PROMOTE, True),
        ("conflict_refused", Choice.PROMOTE, True),
    ]


def test_a_promote_whose_source_is_gone_is_told_as_lapsed() -> None:
    (one,) = found(QUERY, NAMED, decisions={"a": decision(Choice.PROMOTE, OF_CORE, NAMED)})
    assert (one.decision, one.decision_lapsed, one.usable) == (Choice.PROMOTE, True, True)


def test_of_several_promotes_of_a_record_one_that_stands_is_told() -> None:
    other = record("b", owner=CORE)
    decisions = {"a": decision(Choice.PROMOTE, BEFORE, NAMED), "b": decision(Choice.PROMOTE, other, NAMED)}
    references = {one.concept_id: one for one in found(QUERY, NAMED, decisions=decisions, core=[OF_CORE, other])}
    assert (references["l"].decision, references["l"].decision_lapsed) == (Choice.PROMOTE, False)


def test_a_record_may_override_one_of_core_and_be_preferred_to_another() -> None:
    decisions = {"b": decision(Choice.PROMOTE, record("b", owner=CORE), OTHER)}
    references = found(QUERY, OTHER, decisions=decisions, core=[OF_CORE, record("b", owner=CORE)])
    assert shown(references) == {"project:default a": OVERRIDE_KEPT, "core a": refused("a", None), "core b": refused("a", "promote")}


@pytest.mark.parametrize("choice", [Choice.ADOPT, Choice.REJECT])
def test_only_a_promote_names_a_local_record(choice: Choice) -> None:
    references = found(QUERY, NAMED, decisions={"a": decision(choice, OF_CORE, NAMED)}, core=[OF_CORE])
    assert shown(references)["project:default l"] == LOCAL


@pytest.mark.parametrize("choice", Choice)
def test_where_core_is_mounted_its_records_are_local_and_decisions_play_no_part(choice: Choice) -> None:
    (one,) = found(QUERY, OF_CORE, decisions={"a": decision(choice, OF_CORE, OF_CORE)}, core=None)
    assert (one.owner, one.resolution, one.decision, one.usable) == (CORE, Resolution.LOCAL, None, True)


# ---- section 7: hits, parents, scores -------------------------------------------------------------------------------

FULL = ("src/a.py", "src/b.py")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(tokens=("retry", "x", "retry")), (1, 0, 0)),
        (Query(tokens=("if", "retry")), (2, 0, 0)),
        (Query(patterns=("if retry :",)), (0, 1, 0)),
        (Query(paths=("src/a.py", "src/a.py")), (0, 0, 1)),
        (Query(paths=FULL, tokens=("if",), patterns=("if retry :",)), (1, 1, 2)),
    ],
)
def test_a_hit_retains_what_is_asked_for(query: Query, expected: tuple[int, int, int]) -> None:
    (one,) = found(query, record())
    assert (one.counts.tokens, one.counts.patterns, one.counts.direct) == expected
    assert (one.mode, one.counts.depth, one.counts.lineage) == (Mode.DIRECT, 0, expected[2])


@pytest.mark.parametrize(
    "query",
    [Query(), Query(tokens=("Retry",)), Query(patterns=("if retry",)), Query(paths=("src",)), Query(paths=("./src/a.py", "src/a.p"))],
)
def test_what_matches_nothing_exactly_is_no_hit(query: Query) -> None:
    assert found(query._replace(hint="impact"), record(category=Category.RELATIONAL)) == ()


def test_two_examples_in_one_queried_file_count_twice() -> None:
    (one,) = found(Query(paths=("src/a.py",)), record(sources=[source("src/a.py", 9, 9), source("src/a.py", 1, 2), "src/b.py"]))
    assert one.counts.direct == 2
    assert one.source == source("src/a.py", 9, 9)


# By hand. The plain record: n, t, S 2, T 2, P 1, so support 60+40+12+10 = 122 and reuse 80. Fully resonant: quality
# 600+61+40 = 701, confidence 350+341+256+36+24 → 1,000; own 350+333+26 = 709. At 560: quality 350+61+40 = 451,
# confidence 225+186+140+36+24 = 611; own 225+203+26 = 454.
LOW: dict[str, Any] = {"min_resonance": 560, "average_resonance": 560}
SCORES: tuple[tuple[int, Query, dict[str, Any]], ...] = (
    (709 + 60, Query(tokens=("if",)), {}),
    (709 + 95, Query(patterns=("if retry :",)), {}),
    (709 + 120 + 80, Query(paths=("src/a.py",)), {}),
    (709 + 200 + 60, Query(paths=("src/a.py",), tokens=("if",)), {}),
    (1_000, Query(paths=("src/a.py",), tokens=("if",), hint="impact"), {"category": Category.RELATIONAL}),
    (454 + 60, Query(tokens=("if",)), LOW),
    (454 + 60 + 50, Query(tokens=("if",), hint="impact"), LOW | {"category": Category.RELATIONAL}),
    (454 + 400 + 120, Query(paths=FULL, tokens=("if", "retry")), LOW),
    # Tier logic with a parent: reuse 80+40+40 = 160, quality 350+61+80 = 491, confidence 245+386 = 631; rank 2.
    (245 + 210 + 53 + 120 + 60, Query(tokens=("if",)), LOW | {"tier": Tier.LOGIC, "parent": "p"}),
)


@pytest.mark.parametrize(("expected", "query", "said"), SCORES)
def test_a_score_by_hand(expected: int, query: Query, said: dict[str, Any]) -> None:
    (one,) = found(query, record(**said))
    assert one.score == expected


@pytest.mark.parametrize(("hint", "category"), [("impact", "relational"), ("breaks-if", "procedural"), ("contradicts", "invariant")])
def test_a_hint_favours_its_category_alone(hint: Hint, category: str) -> None:
    assert HINTS[hint] is Category(category)
    for each in Category:
        (one,) = found(Query(tokens=("if",), hint=hint), record(category=each))
        assert one.score == 769 + (50 if each.value == category else 0)


def parent(concept: str, above: str | None = None, **other: Any) -> Abstraction:
    """A convention that is ready for promotion and that no query here matches."""
    said: dict[str, Any] = {"tier": Tier.CONVENTION, "patterns": ELSEWHERE, "tokens": ("lock", "held"), "sources": ("lib/a.py", "lib/b.py")}
    made = record(concept, parent=above, **(said | other))
    assert made.promotion_ready or "min_resonance" in other or made.tier is Tier.PATTERN
    return made


def test_a_parent_is_reached_through_its_child_and_takes_its_direct_count() -> None:
    child, above = found(QUERY._replace(paths=("src/a.py",)), record("a", parent="p"), parent("p"))
    assert (child.concept_id, child.mode, child.counts.depth) == ("a", Mode.DIRECT, 0)
    assert (above.concept_id, above.mode, above.source) == ("p", Mode.PROMOTED, None)
    assert msgspec.structs.astuple(above.counts) == (0, 0, 0, 1, 1)
    # A convention: reuse 100, quality 600+61+50 = 711, confidence 1,000, rank 1.
    assert above.score == 355 + 333 + 33 + 60 + 80 - 25


def test_four_levels_of_parents_are_reached_and_no_fifth() -> None:
    chain = [parent(f"p{level}", f"p{level + 1}" if level < 6 else None) for level in range(1, 7)]
    references = found(QUERY, record("a", parent="p1"), *chain)
    assert {one.concept_id: one.counts.depth for one in references} == {"a": 0, "p1": 1, "p2": 2, "p3": 3, "p4": 4}
    scores = {one.concept_id: one.score for one in references}
    # With a parent of their own: reuse 140, quality 731.
    assert scores["p1"] - scores["p4"] == 75
    assert scores["p4"] == 365 + 333 + 46 + 60 - 100


def test_a_parent_that_is_not_ready_is_left_out_and_its_own_parent_is_not() -> None:
    references = found(QUERY, record("a", parent="p"), parent("p", "q", min_resonance=560, average_resonance=560), parent("q"))
    assert {one.concept_id: one.counts.depth for one in references} == {"a": 0, "q": 2}


def contract(**other: Any) -> Abstraction:
    return parent("p", tier=Tier.CONTRACT, sources=[f"lib/{n}.py" for n in range(4)], **other)


@pytest.mark.parametrize(("hits", "kept"), [(1, False), (2, True)])
def test_a_contract_needs_two_hits_to_be_kept(hits: int, kept: bool) -> None:
    children = [record(f"a{number}", parent="p") for number in range(hits)]
    assert ("p" in concepts(found(QUERY, *children, contract()))) is kept


def test_hits_of_a_contract_may_be_at_different_depths() -> None:
    references = found(QUERY, record("a", parent="b"), record("b", parent="p"), contract())
    assert {one.concept_id: (one.counts.depth, one.mode.value) for one in references} == {
        "a": (0, "direct"),
        "b": (0, "direct"),
        "p": (1, "promoted"),
    }


def test_a_contract_that_is_a_hit_itself_needs_no_other_and_no_readiness() -> None:
    (one,) = found(QUERY, record(tier=Tier.CONTRACT, min_resonance=560, average_resonance=560))
    assert (one.mode, one.usable) == (Mode.DIRECT, True)


def test_a_hit_that_is_also_reached_stays_direct_and_takes_its_childrens_count() -> None:
    query = Query(paths=("src/a.py", "src/b.py"), limit=100)
    references = found(query, record("a", parent="b"), record("b", parent="c", sources=("src/a.py", "lib/x.py")), parent("c"))
    counts = {one.concept_id: (one.mode.value, one.counts.direct, one.counts.lineage, one.counts.depth) for one in references}
    assert counts == {"a": ("direct", 2, 2, 0), "b": ("direct", 1, 3, 0), "c": ("promoted", 0, 3, 1)}


def test_parents_are_looked_up_in_the_catalog_of_the_child() -> None:
    child = record("a", owner=CORE, parent="p")
    assert concepts(found(QUERY, parent("p"), core=[child])) == ["a"]
    assert concepts(found(QUERY, core=[child, parent("p", owner=CORE)])) == ["a", "p"]


def test_a_parent_in_core_that_is_not_returned_is_not_reached() -> None:
    core = [record("a", owner=CORE, parent="p"), parent("p", owner=CORE)]
    assert concepts(found(QUERY, parent("p"), core=core)) == ["a"]


def test_a_rejected_parent_is_reached_and_unusable() -> None:
    core = [record("a", owner=CORE, parent="p"), parent("p", owner=CORE)]
    references = found(QUERY, decisions={"p": decision(Choice.REJECT, core[1])}, core=core)
    assert [(one.concept_id, one.usable) for one in references] == [("a", True), ("p", False)]


def test_a_hit_that_is_unusable_reaches_no_parent() -> None:
    assert concepts(found(QUERY, record("a", parent="p", decay_state=Decay.PRUNABLE), parent("p"))) == ["a"]


@pytest.mark.parametrize("above", ["a", "b", "gone"])
def test_a_chain_that_turns_back_or_leads_nowhere_ends(above: str) -> None:
    references = found(Query(paths=("src/a.py",)), record("a", parent="b"), parent("b", above))
    assert {one.concept_id: one.counts.lineage for one in references} == {"a": 1, "b": 1}


@pytest.mark.parametrize(("decay", "usable"), [("active", True), ("protected", True), ("stale", True), ("prunable", False)])
def test_prunable_records_are_never_usable(decay: str, usable: bool) -> None:
    (one,) = found(QUERY, record(decay_state=Decay(decay)))
    assert one.usable is usable


@pytest.mark.parametrize("name", ["quality_score", "confidence_score", "reuse_score", "support_score", "promotion_ready"])
def test_a_record_whose_scores_disagree_is_unusable_and_not_believed(name: str) -> None:
    good = record("a")
    (one,) = found(QUERY, msgspec.structs.replace(good, **{name: True if name == "promotion_ready" else getattr(good, name) - 10}))
    assert (one.usable, one.score) == (False, 709 + 95)


def test_a_parent_that_only_claims_to_be_ready_is_left_out() -> None:
    claims = msgspec.structs.replace(parent("p", min_resonance=560, average_resonance=560), promotion_ready=True)
    assert concepts(found(QUERY, record("a", parent="p"), claims)) == ["a"]


# ---- section 7: order, limit, drift, shape --------------------------------------------------------------------------

KEYS: Mapping[str, Callable[[Reference], Any]] = {
    "usable": lambda one: not one.usable,
    "decay": lambda one: ["active", "protected", "stale", "prunable"].index(one.decay_state.value),
    "trust": lambda one: ["core", "promoted", "project", "exploratory"].index(one.trust_class.value),
    "score": lambda one: -one.score,
    "tier": lambda one: ["contract", "logic", "convention", "pattern"].index(one.tier.value),
    "direct": lambda one: -one.counts.direct,
    "lineage": lambda one: -one.counts.lineage,
    "owner": lambda one: ["core", "project"].index(one.owner.kind.value),
    "concept": lambda one: one.concept_id,
}

INVALID = msgspec.structs.replace(record("z", decay_state=Decay.STALE), support_score=0)
REJECTED = record("a", owner=CORE)
MANY = [source("src/a.py", n, n) for n in range(1, 6)]
"""Five examples in one queried file: every score is at its cap."""

CAPPED = QUERY._replace(paths=("src/a.py",))
ORDER: tuple[tuple[str, list[Abstraction], list[Abstraction], Query], ...] = (
    ("usable", [record("z")], [REJECTED], QUERY),
    ("decay", [record("z"), record("a", decay_state=Decay.PROTECTED)], [], QUERY),
    ("decay", [record("z", decay_state=Decay.PROTECTED), record("a", decay_state=Decay.STALE)], [], QUERY),
    ("decay", [INVALID, record("a", decay_state=Decay.PRUNABLE)], [], QUERY),
    ("trust", [record("z", trust_class=Trust.CORE), record("a", trust_class=Trust.PROMOTED)], [], QUERY),
    ("trust", [record("z", trust_class=Trust.PROMOTED), record("a")], [], QUERY),
    ("trust", [record("z"), record("a", trust_class=Trust.EXPLORATORY)], [], QUERY),
    ("score", [record("z"), record("a", **LOW, tier=Tier.CONTRACT)], [], QUERY),
    *(
        ("tier", [record("z", tier=upper, sources=MANY), record("a", tier=lower, sources=[*MANY, source("src/a.py", 9, 9)])], [], CAPPED)
        for lower, upper in zip(list(Tier), list(Tier)[1:], strict=False)
    ),
    (
        "direct",
        [record("z", sources=[*MANY, source("src/a.py", 6, 6)]), record("a", sources=MANY), record("b", sources=FULL, parent="a")],
        [],
        CAPPED,
    ),
    ("lineage", [record("z", sources=MANY), record("a", sources=MANY), record("b", sources=FULL, parent="z")], [], CAPPED),
    ("owner", [record("a", trust_class=Trust.CORE)], [record("z", owner=CORE)], QUERY),
    ("concept", [record("z"), record("a")], [], QUERY),
)


@pytest.mark.parametrize(("key", "local", "core", "query"), ORDER, ids=[row[0] for row in ORDER])
def test_a_key_of_the_order_decides_where_the_earlier_are_equal(
    key: str, local: list[Abstraction], core: list[Abstraction], query: Query
) -> None:
    first, second, *_ = found(query, *local, decisions={"a": decision(Choice.REJECT, REJECTED)}, core=core)
    for earlier in list(KEYS)[: list(KEYS).index(key)]:
        assert KEYS[earlier](first) == KEYS[earlier](second)
    assert KEYS[key](first) < KEYS[key](second)
    assert {first.concept_id, second.concept_id} == {"a", "z"}
    assert key == "concept" or first.concept_id == "z", "the last key alone would have it the other way"


@pytest.mark.parametrize(("hits", "returned"), [(3, 3), (4, 4), (5, 4)])
def test_four_references_are_returned_unless_another_limit_is_asked_for(hits: int, returned: int) -> None:
    references = found(QUERY._replace(limit=Query().limit), *(record(f"a{number}") for number in range(hits)))
    assert concepts(references) == [f"a{number}" for number in range(returned)]


@pytest.mark.parametrize(
    ("limit", "expected"), [(-1, []), (0, []), (1, ["a"]), (2, ["a", "p"]), (3, ["a", "p", "q"]), (4, ["a", "p", "q"])]
)
def test_the_limit_is_for_hits_and_parents_together(limit: int, expected: list[str]) -> None:
    query = Query(paths=FULL, limit=limit)
    assert concepts(found(query, record("a", parent="p"), parent("p", "q"), parent("q"))) == expected


def test_one_drifted_source_marks_the_record_and_changes_nothing_else() -> None:
    moved = source("src/b.py")
    before, after = (lookup(QUERY, catalog(record()), {}, {}, judge)[0] for judge in (still, moved.__eq__))
    assert (before.drifted, after.drifted) == (False, True)
    assert msgspec.structs.replace(after, drifted=False) == before


def test_drift_is_asked_only_of_what_is_returned() -> None:
    asked: list[str] = []

    def drifted(one: Source) -> bool:
        asked.append(one.path)
        return False

    lookup(QUERY._replace(limit=1), catalog(record("a"), record("b", sources=("x", "y"))), {}, {}, drifted)
    assert asked == ["src/a.py", "src/b.py"]


def test_a_reference_as_json() -> None:
    (one, refused) = found(QUERY._replace(paths=("src/b.py",)), OTHER, core=[OF_CORE])
    assert msgspec.to_builtins(one) == {
        "concept_id": "a",
        "tier": "pattern",
        "category": "structural",
        "parent": None,
        "owner": {"kind": "project", "id": "default"},
        "lineage_id": "project:default:a",
        "lineage_version": 1,
        "consensus_hash": OTHER.consensus_hash,
        "trust_class": "project",
        "decay_state": "active",
        "resolution": "local_override",
        "conflict": "incompatible",
        "conflict_with": {"owner": {"kind": "core", "id": "core"}, "concept_id": "a"},
        "decision": None,
        "decision_lapsed": False,
        "mode": "direct",
        "source": msgspec.to_builtins(source("src/b.py")),
        "score": 1_000,
        "counts": {"tokens": 0, "patterns": 1, "direct": 1, "lineage": 1, "depth": 0},
        "usable": True,
        "drifted": False,
    }
    assert msgspec.json.decode(msgspec.json.encode(refused), type=Reference) == refused


# ---- whatever the catalogs ------------------------------------------------------------------------------------------

NAMES = "abcdef"


@st.composite
def records_of(draw: st.DrawFn, owner: Any, concept: str) -> Abstraction:
    lowest = draw(st.sampled_from([0, 560, 800, 1_024]))
    made = record(
        concept,
        owner=owner,
        tokens=draw(st.sampled_from([("if", "retry"), ("if",), ("lock",)])),
        patterns=draw(st.sampled_from([("if retry :",), ELSEWHERE])),
        sources=[source(draw(st.sampled_from(["src/a.py", "src/b.py", "lib/x.py"])), n + 1, n + 1) for n in range(draw(st.integers(2, 5)))],
        tier=draw(st.sampled_from(Tier)),
        category=draw(st.sampled_from([Category.RELATIONAL, Category.STATE])),
        parent=draw(st.sampled_from([None, *NAMES])),
        min_resonance=lowest,
        average_resonance=max(lowest, draw(st.sampled_from([600, 1_024]))),
        trust_class=draw(st.sampled_from(Trust)),
        decay_state=draw(st.sampled_from(Decay)),
    )
    return draw(st.sampled_from([made, made, made, msgspec.structs.replace(made, quality_score=1_000, promotion_ready=True)]))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Query, dict[str, Abstraction], dict[str, Decision], dict[str, Abstraction] | None]:
    def made(owner: Any) -> dict[str, Abstraction]:
        return catalog(*(draw(records_of(owner, concept)) for concept in draw(st.sets(st.sampled_from(NAMES)))))

    local, core = made(PROJECT), made(CORE)
    pool = [*core.values(), *local.values(), record("gone")]
    decided = {
        concept: decision(draw(st.sampled_from(Choice)), core.get(concept) or pool[-1], draw(st.sampled_from(pool)))
        for concept in draw(st.sets(st.sampled_from(NAMES)))
    }
    paths = draw(st.sets(st.sampled_from(FULL)))
    hint = draw(st.sampled_from([None, *HINTS]))
    query = Query(tuple(paths), draw(st.sampled_from([(), ("if",)])), draw(st.sampled_from([(), ("if retry :",)])), hint, 100)
    return query, local, decided, draw(st.sampled_from([core, core, None]))


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_of_what_is_given_does_not_matter(world: Any, chance: random.Random) -> None:
    def turned(given: Any) -> Any:
        """In another order, and read-only."""
        return None if given is None else MappingProxyType(dict(chance.sample(list(given.items()), len(given))))

    query, local, decided, core = world
    again = query._replace(paths=query.paths[::-1], tokens=query.tokens * 2)
    assert lookup(query, local, decided, core, still) == lookup(again, turned(local), turned(decided), turned(core), still)


@given(worlds())
def test_references_are_bounded_ordered_and_distinct(world: Any) -> None:
    query, local, decided, core = world
    references = lookup(query, local, decided, core, still)
    order = [tuple(key(one) for key in KEYS.values()) for one in references]
    assert order == sorted(order) and len(set(order)) == len(order)
    assert all(0 <= one.score <= 1_000 for one in references)
    assert all((one.counts.depth > 0) is (one.mode is Mode.PROMOTED) for one in references)
    assert all(one.counts.depth <= 4 and one.counts.direct <= one.counts.lineage for one in references)
    assert all(not one.usable for one in references if one.resolution in (Resolution.REJECTED, Resolution.CONFLICT_REFUSED))
    assert all((one.conflict_with is not None) is (one.conflict is Conflict.INCOMPATIBLE) for one in references)
    assert lookup(query._replace(limit=2), local, decided, core, still) == references[:2]
