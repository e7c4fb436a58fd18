"""Graph + Query → Selection (FORMAT 7): one test per rule and row, then chance against the rules written down literally."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.context import lexical
from sdaqf_tasks.context import select as module
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import Reason, Refused, SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Query, Selection, parse, render
from sdaqf_tasks.formats.records import Authority, Edge, EdgeType, Kind, Node, Sensitivity, cost, instant
from tests.builders import edge, expires, graph, node, query, specification_node

SPEC = specification_node()
REFERENCES, CONTRADICTS, DEPENDS_ON = EdgeType.REFERENCES, EdgeType.CONTRADICTS, EdgeType.DEPENDS_ON
PRIVATE = Sensitivity.OWNER_PRIVATE


def nodes(names: str, **fields: Any) -> list[Node]:
    """One node per letter, in that order."""
    return [node(name, name, **fields) for name in names]


def by_id(*members: Node) -> list[Node]:
    return sorted(members, key=lambda member: member.node_id)


def refusal(of: Artifact[Graph], **asked: Any) -> SdaqfError:
    with pytest.raises(SdaqfError) as caught:
        select(of, query(of, **asked))
    return caught.value


def taken(selection: Artifact[Selection]) -> set[str]:
    return {decision.node_id for decision in selection.content.selected}


def ids(*members: Node) -> set[str]:
    return {member.node_id for member in members}


def decision(selection: Artifact[Selection], member: Node) -> tuple[int, int, int, tuple[str, ...]]:
    """Phase, distance, score and reasons of a node that was taken."""
    (found,) = (decision for decision in selection.content.selected if decision.node_id == member.node_id)
    return found.rank.phase, found.rank.graph_distance, found.rank.lexical_score, found.reasons


def excluded(selection: Artifact[Selection]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {exclusion.node_id: (exclusion.reason, exclusion.details) for exclusion in selection.content.excluded}


def room(*members: Node, edges: Iterable[Edge] = ()) -> int:
    return sum(map(cost, (SPEC, *members))) + sum(map(cost, edges))


# ---- preconditions and eligibility ----------------------------------------------------------------------------------


def test_a_query_is_of_the_graph_that_it_names() -> None:
    (a,) = nodes("a")
    with pytest.raises(Refused) as caught:
        select(graph(a), query(graph()))
    assert (caught.value.reason, caught.value.where) == (Reason.CHAIN_MISMATCH, "content/graph_id")


@pytest.mark.parametrize(("name", "member"), [("required", "required_node_ids"), ("seeds", "seed_node_ids")])
def test_a_query_names_nodes_of_the_graph(name: str, member: str) -> None:
    error = refusal(graph(), **{name: nodes("a")})
    assert (error.reason, error.where) == (Reason.REQUIRED_UNKNOWN, f"content/{member}/0")


@pytest.mark.parametrize("clearance", list(Sensitivity))
def test_a_node_above_the_clearance_is_left_out(clearance: Sensitivity) -> None:
    members = [node(name.value, name.value, sensitivity=name) for name in Sensitivity if name is not Sensitivity.SECRET_OR_PROHIBITED]
    of = graph(*members)
    selection = select(of, query(of, seeds=members, clearance=clearance))
    above = [member for member in members if member.sensitivity.rank > clearance.rank]
    assert excluded(selection) == {member.node_id: ("sensitivity-clearance", ()) for member in above}


def test_clearance_comes_before_freshness() -> None:
    both = node("a", sensitivity=PRIVATE, freshness=expires("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"))
    of = graph(both)
    assert excluded(select(of, query(of, clearance=Sensitivity.PUBLIC))) == {both.node_id: ("sensitivity-clearance", ())}
    assert excluded(select(of, query(of))) == {both.node_id: ("stale", ())}


@pytest.mark.parametrize(
    ("as_of", "stale"),
    [
        ("2026-07-01T00:00:00Z", False),
        ("2026-06-30T23:59:59.999999Z", True),
        ("2026-07-01T00:00:01.000000Z", False),
        ("2026-07-01T00:00:01.000001Z", True),
    ],
)
def test_a_window_is_inclusive_and_compared_as_instants(as_of: str, stale: bool) -> None:
    seen = node("a", freshness=expires("2026-07-01T00:00:00.0Z", "2026-07-01T00:00:01Z"))
    of = graph(seen)
    found = excluded(select(of, query(of, seeds=[seen], as_of=as_of)))
    assert found == ({seen.node_id: ("stale", ())} if stale else {})


@pytest.mark.parametrize(
    ("fields", "asked", "reason", "where"),
    [
        ({"sensitivity": PRIVATE}, {"clearance": Sensitivity.PUBLIC}, Reason.REQUIRED_NOT_CLEARED, "content/clearance"),
        ({"freshness": expires()}, {"as_of": "2027-01-01T00:00:00Z"}, Reason.REQUIRED_STALE, "content/as_of"),
    ],
)
def test_a_required_node_that_is_not_eligible_refuses_all(
    fields: dict[str, Any], asked: dict[str, Any], reason: Reason, where: str
) -> None:
    by_itself, by_query, other = node("a", required=True, **fields), node("b", **fields), node("c")
    error = refusal(graph(by_itself), **asked)
    assert (error.reason, error.where) == (reason, where)
    error = refusal(graph(by_query), required=[by_query], **asked)
    assert (error.reason, error.where) == (reason, where)
    against = edge(CONTRADICTS, other, by_query)
    error = refusal(graph(by_query, other, edges=[against]), required=[other], **asked)
    assert (error.reason, error.where) == (reason, where)
    assert "which contradicts required context" in error.message


def test_an_ineligible_seed_is_silently_left_out() -> None:
    seed, beyond = node("a", sensitivity=PRIVATE), node("b")
    of = graph(seed, beyond, edges=[edge(REFERENCES, seed, beyond)])
    selection = select(of, query(of, seeds=[seed], clearance=Sensitivity.PUBLIC))
    assert excluded(selection) == {seed.node_id: ("sensitivity-clearance", ()), beyond.node_id: ("not-retrieved", ())}


# ---- required closure -----------------------------------------------------------------------------------------------


def test_what_contradicts_required_context_is_required_too_whatever_edges_are_allowed() -> None:
    a, b, c = nodes("abc")
    of = graph(a, b, c, edges=[edge(CONTRADICTS, a, b), edge(CONTRADICTS, b, c)])
    selection = select(of, query(of, required=[a], allowed_edge_types=(REFERENCES,)))
    assert taken(selection) == ids(SPEC, a, b, c)
    assert decision(selection, a) == (0, 0, 0, ("required-reference",))
    assert decision(selection, c) == (0, 0, 0, ("contradiction-closure",))
    assert decision(selection, SPEC) == (0, 0, 0, ("required-reference",))
    assert selection.content.unresolved_contradiction_ids == tuple(member.edge_id for member in of.content.edges)


def test_required_and_seed_may_be_the_same_node() -> None:
    (a,) = nodes("a")
    of = graph(a)
    assert decision(select(of, query(of, required=[a], seeds=[a])), a) == (0, 0, 0, ("required-reference",))


# ---- traversal ------------------------------------------------------------------------------------------------------


def test_directed_edges_are_followed_forwards_and_contradictions_both_ways() -> None:
    a, b, c, d = nodes("abcd")
    of = graph(a, b, c, d, edges=[edge(REFERENCES, a, b), edge(REFERENCES, c, a), edge(CONTRADICTS, b, d)])
    selection = select(of, query(of, seeds=[a]))
    assert taken(selection) == ids(SPEC, a, b, d)
    assert [decision(selection, member)[:2] for member in (a, b, d)] == [(1, 0), (1, 1), (1, 2)]
    assert decision(selection, a)[3] == ("graph",)
    assert excluded(selection) == {c.node_id: ("not-retrieved", ())}


def test_only_allowed_edges_are_followed() -> None:
    a, b, c = nodes("abc")
    of = graph(a, b, c, edges=[edge(REFERENCES, a, b), edge(DEPENDS_ON, a, c)])
    assert taken(select(of, query(of, seeds=[a], allowed_edge_types=(DEPENDS_ON,)))) == ids(SPEC, a, c)


def test_the_way_leads_through_nodes_that_are_not_eligible() -> None:
    a, b, c = node("a"), node("b", sensitivity=PRIVATE), node("c")
    of = graph(a, b, c, edges=[edge(REFERENCES, a, b), edge(REFERENCES, b, c)])
    selection = select(of, query(of, seeds=[a], clearance=Sensitivity.PUBLIC))
    assert decision(selection, c)[:2] == (1, 2)
    assert excluded(selection) == {b.node_id: ("sensitivity-clearance", ())}


def chain_of(count: int) -> tuple[list[Node], Artifact[Graph]]:
    members = nodes("abcdefghijklm"[:count])
    return members, graph(*members, edges=[edge(REFERENCES, one, other) for one, other in itertools.pairwise(members)])


@pytest.mark.parametrize("depth", [0, 1, 4, 8])
def test_the_depth_is_a_statement_about_what_is_reachable(depth: int) -> None:
    members, of = chain_of(depth + 1)
    assert taken(select(of, query(of, seeds=members[:1], max_traversal_depth=depth))) == ids(SPEC, *members)
    members, of = chain_of(depth + 2)
    error = refusal(of, seeds=members[:1], max_traversal_depth=depth)
    assert (error.reason, error.where) == (Reason.TRAVERSAL_BOUND, "content/budget/max_traversal_depth")


def test_at_depth_0_a_neighbour_must_be_a_start_itself() -> None:
    members, of = chain_of(2)
    assert taken(select(of, query(of, seeds=members, max_traversal_depth=0))) == ids(SPEC, *members)


def test_what_lies_deeper_counts_even_where_it_is_not_eligible() -> None:
    a, b = node("a"), node("b", sensitivity=PRIVATE)
    of = graph(a, b, edges=[edge(REFERENCES, a, b)])
    error = refusal(of, seeds=[a], clearance=Sensitivity.PUBLIC, max_traversal_depth=0)
    assert error.where == "content/budget/max_traversal_depth"


def test_edges_that_leave_nodes_before_the_last_depth_count_once_each() -> None:
    a, b, c = nodes("abc")
    joined = [edge(REFERENCES, a, b), edge(REFERENCES, b, a), edge(CONTRADICTS, a, b), edge(DEPENDS_ON, b, c), edge(REFERENCES, c, a)]
    of = graph(a, b, c, edges=joined)
    asked = {"seeds": [a], "max_traversal_depth": 2}
    # At depth 2 stands c: what leaves it is not counted. Of a and b it is four, the contradiction once.
    error = refusal(of, max_edges=3, **asked)
    assert (error.reason, error.where) == (Reason.TRAVERSAL_BOUND, "content/budget/max_edges")
    assert error.message == "4 edges are reachable, at most 3"
    selection = select(of, query(of, max_edges=4, **asked))
    assert excluded(selection) == {c.node_id: ("edge-budget", ())}


def test_starts_alone_never_exceed_the_nodes_and_everything_visited_counts() -> None:
    a, b, c = node("a"), node("b"), node("c", sensitivity=PRIVATE)
    alone = graph(a, b)
    assert taken(select(alone, query(alone, seeds=[a, b], max_nodes=1))) == ids(SPEC)
    of = graph(a, b, c, edges=[edge(REFERENCES, a, c)])
    asked = {"seeds": [a, b], "clearance": Sensitivity.PUBLIC}
    error = refusal(of, max_nodes=3, **asked)
    assert (error.reason, error.where, error.message) == (
        Reason.TRAVERSAL_BOUND,
        "content/budget/max_nodes",
        "4 nodes are reachable, at most 3",
    )
    assert taken(select(of, query(of, max_nodes=4, **asked))) == ids(SPEC, a, b)


# ---- phases, reasons, score -----------------------------------------------------------------------------------------


def test_identifiers_are_compared_exactly_and_any_one_will_do() -> None:
    a = node("a", identifiers=("FR-1", "FR-2"))
    b = node("b", identifiers=("fr-1",))
    of = graph(a, b)
    selection = select(of, query(of, identifiers=("FR-0", "FR-1")))
    assert decision(selection, a) == (2, 0, 0, ("identifier",))
    assert excluded(selection) == {b.node_id: ("not-retrieved", ())}


def test_reasons_are_added_and_the_phase_is_the_smallest() -> None:
    required = node("r", identifiers=("X",), title="word")
    seed = node("s", identifiers=("X",), title="word")
    named = node("n", identifiers=("X",), title="word")
    of = graph(required, seed, named)
    selection = select(of, query(of, required=[required], seeds=[seed], identifiers=("X",), terms=("word",)))
    assert decision(selection, required) == (0, 0, 16, ("identifier", "lexical", "required-reference"))
    assert decision(selection, seed) == (1, 0, 16, ("graph", "identifier", "lexical"))
    assert decision(selection, named) == (2, 0, 16, ("identifier", "lexical"))


def test_a_node_that_is_not_eligible_has_no_lead() -> None:
    hidden = node("a", sensitivity=PRIVATE, title="word", identifiers=("X",))
    of = graph(hidden)
    selection = select(of, query(of, terms=("word",), identifiers=("X",), clearance=Sensitivity.PUBLIC))
    assert excluded(selection) == {hidden.node_id: ("sensitivity-clearance", ())}


def test_tokens_are_those_of_the_format() -> None:
    assert lexical.tokens("ABC_def-42 é日😀 İß x\u0301") == {"abc", "def", "42", "é", "日", "😀", "İ", "ß", "x", "\u0301"}
    assert lexical.tokens("É_é") == {"É", "é"}
    assert lexical.tokens("\x7f\x00 \t_-.") == set()
    assert lexical.tokens("\x80\u200b") == {"\x80", "\u200b"}
    assert lexical.tokens("\u212a") == {"\u212a"}, "the Kelvin sign is not folded"


@pytest.mark.parametrize(
    ("fields", "score"),
    [
        ({"title": "Word word"}, 16),
        ({"labels": ("a word", "word")}, 8),
        ({"path": "src/word.md"}, 4),
        ({"text": "word-word"}, 1),
        ({"title": "other WORD", "labels": ("word",), "path": "word", "text": "word"}, 29),
        ({"title": "words"}, 0),
    ],
)
def test_a_token_counts_once_in_every_field(fields: dict[str, Any], score: int) -> None:
    plain: dict[str, Any] = {"path": "p", "text": "t", "title": "u"}
    assert lexical.score(node(**(plain | fields)), lexical.query_tokens(("word Word", "absent"))) == score


@pytest.mark.parametrize("terms", [(), ("---",), ("\t.", "_")])
def test_terms_without_tokens_score_nothing(terms: tuple[str, ...]) -> None:
    of = graph(node("a", title="---"))
    assert {decision.rank.lexical_score for decision in select(of, query(of, terms=terms)).content.selected} == {0}


# ---- required budget ------------------------------------------------------------------------------------------------


def test_required_context_fits_the_nodes_or_refuses() -> None:
    a, b = nodes("ab", required=True)
    of = graph(a, b)
    assert taken(select(of, query(of, max_nodes=3))) == ids(SPEC, a, b)
    error = refusal(of, max_nodes=2)
    assert (error.reason, error.where) == (Reason.REQUIRED_OVER_BUDGET, "content/budget/max_nodes")


def test_edges_of_every_type_between_required_nodes_count() -> None:
    a, b = nodes("ab", required=True)
    of = graph(a, b, edges=[edge(REFERENCES, a, b), edge(DEPENDS_ON, b, a)])
    asked = {"allowed_edge_types": (EdgeType.VERIFIES,)}
    assert len(select(of, query(of, max_edges=2, **asked)).content.selected_edge_ids) == 2
    error = refusal(of, max_edges=1, **asked)
    assert (error.reason, error.where) == (Reason.REQUIRED_OVER_BUDGET, "content/budget/max_edges")


def test_the_bytes_of_required_nodes_and_their_edges_fit_exactly_or_refuse() -> None:
    a, b = nodes("ab", required=True)
    joined = [edge(REFERENCES, a, b)]
    of = graph(a, b, edges=joined)
    needed = room(a, b, edges=joined)
    content = select(of, query(of, budget_bytes=needed)).content
    assert (content.used_bytes, content.edge_cost_bytes, content.budget_bytes) == (needed, cost(joined[0]), needed)
    error = refusal(of, budget_bytes=needed - 1)
    assert (error.reason, error.where) == (Reason.REQUIRED_OVER_BUDGET, "content/budget/budget_bytes")
    assert error.message.startswith(f"required sources take {needed} of {needed - 1} bytes; the largest: ")


# ---- optional nodes -------------------------------------------------------------------------------------------------


def test_a_contradiction_with_what_cannot_be_taken_leaves_the_node_out_and_lists_why() -> None:
    a, open_ = node("a", title="word"), node("o")
    hidden, old = node("h", sensitivity=PRIVATE), node("s", freshness=expires("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"))
    joined = [edge(CONTRADICTS, a, hidden), edge(CONTRADICTS, a, old), edge(CONTRADICTS, old, open_)]
    of = graph(a, hidden, old, open_, edges=joined)
    selection = select(of, query(of, terms=("word",), clearance=Sensitivity.PUBLIC, allowed_edge_types=(REFERENCES,)))
    assert excluded(selection) == {
        a.node_id: ("contradiction-closure-unavailable", tuple(sorted(ids(hidden, old)))),
        hidden.node_id: ("sensitivity-clearance", ()),
        old.node_id: ("stale", ()),
        open_.node_id: ("not-retrieved", ()),
    }


@pytest.mark.parametrize(
    ("bound", "reason"),
    [
        (lambda a, b, joined: {"max_nodes": 2}, "node-budget"),
        (lambda a, b, joined: {"max_edges": 0}, "edge-budget"),
        (lambda a, b, joined: {"budget_bytes": room(a, b, edges=joined) - 1}, "byte-budget"),
        (lambda a, b, joined: {"max_nodes": 2, "max_edges": 0, "budget_bytes": 1_024}, "node-budget"),
        (lambda a, b, joined: {"max_edges": 0, "budget_bytes": 1_024}, "edge-budget"),
    ],
)
def test_a_budget_that_does_not_suffice_leaves_a_node_out(bound: Callable[..., dict[str, int]], reason: str) -> None:
    a, b = node("a", title="word"), node("b")
    joined = [edge(CONTRADICTS, a, b)]
    of = graph(a, b, edges=joined)
    asked: dict[str, Any] = {"terms": ("word",), "allowed_edge_types": (REFERENCES,)}
    enough = {"max_nodes": 3, "max_edges": 1, "budget_bytes": room(a, b, edges=joined)}
    assert excluded(select(of, query(of, **asked, **enough))) == {}
    assert excluded(select(of, query(of, **asked, **(enough | bound(a, b, joined))))) == {
        a.node_id: (reason, ()),
        b.node_id: ("not-retrieved", ()),
    }


def test_edges_to_what_is_selected_already_cost_too() -> None:
    (a,) = nodes("a", title="word")
    joined = [edge(REFERENCES, SPEC, a), edge(DEPENDS_ON, a, SPEC)]
    of = graph(a, edges=joined)
    asked: dict[str, Any] = {"terms": ("word",), "allowed_edge_types": (EdgeType.VERIFIES,)}
    needed = room(a, edges=joined)
    selection = select(of, query(of, budget_bytes=needed, max_edges=2, **asked))
    assert (selection.content.used_bytes, selection.content.edge_cost_bytes) == (needed, sum(map(cost, joined)))
    assert selection.content.selected_edge_ids == tuple(sorted(member.edge_id for member in joined))
    assert excluded(select(of, query(of, budget_bytes=needed - 1, **asked))) == {a.node_id: ("byte-budget", ())}
    assert excluded(select(of, query(of, max_edges=1, **asked))) == {a.node_id: ("edge-budget", ())}


def test_a_later_cheaper_node_may_still_fit() -> None:
    large, small = node("a", "x" * 2_000, title="word word2"), node("b", title="word")
    of = graph(large, small)
    selection = select(of, query(of, terms=("word", "word2"), budget_bytes=room(small)))
    assert taken(selection) == ids(SPEC, small)
    assert excluded(selection) == {large.node_id: ("byte-budget", ())}


ORDER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"identifiers": ("X",)}, {"title": "word"}),
    ({"title": "word", "kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE}, {"title": "word", "labels": ("word",)}),
    ({"title": "word", "labels": ("word",), "sensitivity": PRIVATE}, {"title": "word"}),
    ({"title": "word"}, {"title": "word", "sensitivity": Sensitivity.REPOSITORY_PRIVATE}),
]


@pytest.mark.parametrize(("first", "second"), ORDER, ids=["phase", "authority", "score", "sensitivity"])
def test_nodes_are_taken_in_the_order_of_their_ranks(first: dict[str, Any], second: dict[str, Any]) -> None:
    for one, other in itertools.permutations("ab"):
        earlier, later = node(one, **first), node(other, **second)
        of = graph(earlier, later)
        selection = select(of, query(of, terms=("word",), identifiers=("X",), max_nodes=2))
        assert excluded(selection) == {later.node_id: ("node-budget", ())}


def test_a_nearer_node_comes_first_and_equal_ranks_are_settled_by_the_id() -> None:
    a, b, c = nodes("abc")
    joined = [edge(REFERENCES, SPEC, a), edge(REFERENCES, a, b)]
    of = graph(a, b, c, edges=joined)
    assert [decision(select(of, query(of, seeds=[c])), member)[1] for member in (a, b, c)] == [1, 2, 0]
    selection = select(of, query(of, seeds=[c], budget_bytes=room(a, c, edges=joined[:1])))
    assert excluded(selection) == {b.node_id: ("byte-budget", ())}
    selection = select(of, query(of, seeds=[c], budget_bytes=room(c)))
    assert excluded(selection) == dict.fromkeys(ids(a, b), ("byte-budget", ()))
    tied = by_id(*nodes("xyz", title="word"))
    of = graph(*tied)
    assert excluded(select(of, query(of, terms=("word",), max_nodes=3))) == {tied[2].node_id: ("node-budget", ())}


def test_what_is_not_reached_is_ordered_at_the_depth_and_shown_at_distance_0() -> None:
    near, lost = node("n", title="word"), node("l", title="word", labels=("word",))
    of = graph(near, lost, edges=[edge(REFERENCES, SPEC, near)])
    # Both are candidates; the one that was reached is of phase 1. Not reached: distance 0 in the decision.
    selection = select(of, query(of, terms=("word",), max_traversal_depth=8))
    assert decision(selection, near) == (1, 1, 16, ("graph", "lexical"))
    assert decision(selection, lost) == (3, 0, 24, ("lexical",))


def test_a_contradiction_pulls_its_other_end_in_and_overwrites_its_phase() -> None:
    a = node("a", identifiers=("X",))
    weak, silent = node("w", text="word"), node("s")
    of = graph(a, weak, silent, edges=[edge(CONTRADICTS, a, weak), edge(CONTRADICTS, weak, silent)])
    selection = select(of, query(of, identifiers=("X",), terms=("word",), allowed_edge_types=(REFERENCES,)))
    assert decision(selection, a) == (2, 0, 0, ("identifier",))
    assert decision(selection, weak) == (2, 0, 1, ("contradiction-closure", "lexical"))
    assert decision(selection, silent) == (2, 0, 0, ("contradiction-closure",))
    assert excluded(selection) == {}


def test_a_refusal_is_recorded_for_the_node_alone_and_members_may_differ() -> None:
    # One component of two candidates. Before its second member's turn something smaller is taken.
    first = node("f", "x" * 600, title="word", labels=("word",))
    second = node("s", "x" * 600, title="word")
    between = node("b", title="word", identifiers=("X",))
    joined = edge(CONTRADICTS, first, second)
    of = graph(first, second, between, edges=[joined])
    asked: dict[str, Any] = {"terms": ("word",), "allowed_edge_types": (REFERENCES,)}
    budget = room(first, second, edges=[joined]) - 1
    selection = select(of, query(of, budget_bytes=budget, max_nodes=3, **asked))
    assert taken(selection) == ids(SPEC, between)
    # `first` (score 24) did not fit the bytes; then `between` was taken if its id is smaller than that of `second`.
    reasons = {first.node_id: "byte-budget", second.node_id: "node-budget" if between.node_id < second.node_id else "byte-budget"}
    assert {node_id: reason for node_id, (reason, _) in excluded(selection).items()} == reasons
    earlier = select(of, query(of, budget_bytes=budget, max_nodes=3, identifiers=("X",), **asked))
    assert {node_id: reason for node_id, (reason, _) in excluded(earlier).items()} == dict.fromkeys(ids(first, second), "node-budget")


@pytest.mark.parametrize("count", [16, 17])
def test_more_than_16_details_could_not_be_read_back_and_are_refused(count: int) -> None:
    centre = node("centre", title="word")
    hidden = [node(f"h/{number}", sensitivity=PRIVATE) for number in range(count)]
    of = graph(centre, *hidden, edges=[edge(CONTRADICTS, centre, member) for member in hidden])
    asked: dict[str, Any] = {"terms": ("word",), "clearance": Sensitivity.PUBLIC, "allowed_edge_types": (REFERENCES,)}
    if count == 16:
        selection = select(of, query(of, **asked))
        assert excluded(selection)[centre.node_id] == ("contradiction-closure-unavailable", tuple(sorted(ids(*hidden))))
        assert parse(render(selection)) == selection
    else:
        error = refusal(of, **asked)
        assert (error.reason, error.where) == (Reason.UNPUBLISHABLE, "content/excluded")
        assert error.message == "centre contradicts 17 nodes that cannot be taken; 16 can be listed"


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_a_selection_copies_its_query_and_sums_what_was_taken() -> None:
    a, b = node("a", title="word", sensitivity=Sensitivity.REPOSITORY_PRIVATE), node("b", sensitivity=PRIVATE)
    of = graph(a, b)
    asked = query(of, terms=("word",))
    content = select(of, asked).content
    assert (content.candidate, content.graph_id, content.query_id) == (of.content.candidate, of.artifact_id, asked.artifact_id)
    assert (content.query, content.as_of, content.budget_bytes) == (asked.content, asked.content.as_of, 8_388_608)
    assert content.sensitivity is Sensitivity.REPOSITORY_PRIVATE
    assert [decision.node_id for decision in content.selected] == [member.node_id for member in by_id(SPEC, a)]
    assert [decision.cost_bytes for decision in content.selected] == [cost(member) for member in by_id(SPEC, a)]
    assert (content.used_bytes, content.edge_cost_bytes, content.traversal_truncated) == (room(a), 0, False)


def test_a_selection_could_exceed_no_bound_that_its_reader_has() -> None:
    of = graph(*nodes("abc"))
    selection = select(of, query(of, terms=("a", "b")))
    assert parse(render(selection)) == selection


def test_selecting_costs_every_node_and_edge_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Linear without a clock: twice the graph, twice the calls."""
    costed: list[object] = []
    encoded: list[object] = []

    def counting(record: Node | Edge) -> int:
        costed.append(record)
        return cost(record)

    def encoding(value: Any, **how: Any) -> bytes:
        encoded.append(value)
        return plain_encode(value, **how)

    plain_encode = canonical.encode
    counts = []
    for size in (40, 80, 160):
        members = [node(f"n/{number}", title="word") for number in range(size)]
        joined = [edge(CONTRADICTS, one, other) for one, other in itertools.pairwise(members[: size // 2])]
        joined += [edge(REFERENCES, one, other) for one, other in itertools.pairwise(members)]
        of = graph(*members, edges=joined)
        asked = query(of, terms=("word",), max_nodes=size // 4, max_edges=16_384, allowed_edge_types=(EdgeType.VERIFIES,))
        costed.clear()
        encoded.clear()
        with monkeypatch.context() as patched:
            patched.setattr(module, "cost", counting)
            patched.setattr(canonical, "encode", encoding)
            select(of, asked)
        assert len(costed) == len(of.content.nodes) + len(of.content.edges)
        counts.append(len(encoded) - len(costed))
    assert len(set(counts)) == 1, "nothing but costs is encoded more often in a larger graph"


# ---- chance ---------------------------------------------------------------------------------------------------------


def literal(of: Artifact[Graph], asked: Artifact[Query]) -> dict[str, Any] | None:
    """FORMAT 7 word by word, by fixed points and by counting everything again each time. None where it rejects."""
    q, g = asked.content, of.content
    n = {member.node_id: member for member in g.nodes}
    direct = {name for name, member in n.items() if member.required} | set(q.required_node_ids)
    if not direct | set(q.seed_node_ids) <= n.keys():
        return None

    problem: dict[str, str] = {}
    for name, member in n.items():
        if member.sensitivity.rank > q.clearance.rank:
            problem[name] = "sensitivity-clearance"
        elif (window := member.freshness).observed_at is not None and window.valid_until is not None:
            held = instant(window.observed_at) <= instant(q.as_of) <= instant(window.valid_until)
            problem |= {} if held else {name: "stale"}

    def component(start: str) -> set[str]:
        found = {start}
        while True:
            more = {
                end
                for e in g.edges
                if e.edge_type is CONTRADICTS and {e.source_node_id, e.target_node_id} & found
                for end in (e.source_node_id, e.target_node_id)
            }
            if more <= found:
                return found
            found |= more

    required = set().union(*(component(name) for name in direct))
    if required & problem.keys():
        return None

    starts = required | (set(q.seed_node_ids) - problem.keys())
    steps = [(e.edge_id, e.source_node_id, e.target_node_id) for e in g.edges if e.edge_type in q.allowed_edge_types]
    steps += [
        (e.edge_id, e.target_node_id, e.source_node_id)
        for e in g.edges
        if e.edge_type is CONTRADICTS and e.edge_type in q.allowed_edge_types
    ]
    deepest = q.budget.max_traversal_depth
    dist = dict.fromkeys(starts, 0)
    for distance in range(1, deepest + 1):
        dist |= {target: distance for _, source, target in steps if dist.get(source) == distance - 1 and target not in dist}
    if any(dist.get(source) == deepest and target not in dist for _, source, target in steps):
        return None
    if len({name for name, source, _ in steps if dist.get(source, deepest) < deepest}) > q.budget.max_edges:
        return None
    if len(dist) > len(starts) and len(dist) > q.budget.max_nodes:
        return None

    phase: dict[str, int] = {}
    reasons: dict[str, set[str]] = {name: set() for name in n}
    for name in required:
        phase[name] = 0
        reasons[name].add("required-reference" if name in direct else "contradiction-closure")
    score = {}
    for name, member in n.items():
        wanted = {token for term in q.terms for token in spell(term)}
        weights = ((16, [member.title]), (8, member.labels), (4, [member.locator.path]), (1, [member.text]))
        score[name] = sum(weight for token in wanted for weight, texts in weights if any(token in spell(text) for text in texts))
        if name in problem:
            continue
        if name in dist and name not in required:
            phase[name] = 1
            reasons[name].add("graph")
        if set(member.identifiers) & set(q.identifiers):
            phase[name] = min(phase.get(name, 2), 2)
            reasons[name].add("identifier")
        if score[name] > 0:
            phase[name] = min(phase.get(name, 3), 3)
            reasons[name].add("lexical")

    def induced(names: set[str]) -> set[Edge]:
        return {e for e in g.edges if e.source_node_id in names and e.target_node_id in names}

    def total(names: set[str]) -> int:
        return sum(cost(n[name]) for name in names) + sum(cost(e) for e in induced(names))

    chosen = set(required)
    budget = q.budget
    if len(chosen) > budget.max_nodes or len(induced(chosen)) > budget.max_edges or total(chosen) > budget.budget_bytes:
        return None
    out: dict[str, tuple[str, list[str]]] = {name: (why, []) for name, why in problem.items()}
    out |= {name: ("not-retrieved", []) for name in n if name not in phase and name not in problem}

    def rank(name: str) -> tuple[int, int, int, int, int, str]:
        member = n[name]
        return phase[name], member.authority.rank, dist.get(name, deepest), -score[name], member.sensitivity.rank, name

    for name in sorted(phase.keys() - required, key=rank):
        if name in chosen:
            continue
        added = component(name) - chosen
        if added & problem.keys():
            out[name] = ("contradiction-closure-unavailable", sorted(added & problem.keys()))
        elif len(chosen | added) > budget.max_nodes:
            out[name] = ("node-budget", [])
        elif len(induced(chosen | added)) > budget.max_edges:
            out[name] = ("edge-budget", [])
        elif total(chosen | added) > budget.budget_bytes:
            out[name] = ("byte-budget", [])
        else:
            for other in added:
                out.pop(other, None)
                if other != name:
                    phase[other] = phase[name]
                    reasons[other].add("contradiction-closure")
            chosen |= added
    if any(len(details) > 16 for _, details in out.values()):
        return None
    assert chosen | out.keys() == n.keys() and not chosen & out.keys()
    return {
        "selected": [
            (
                name,
                tuple(sorted(reasons[name])),
                (phase[name], n[name].authority.rank, dist.get(name, 0), score[name], n[name].sensitivity.rank),
                cost(n[name]),
            )
            for name in sorted(chosen)
        ],
        "excluded": [(name, *out[name]) for name in sorted(out)],
        "edges": sorted(e.edge_id for e in induced(chosen)),
        "contradictions": sorted(e.edge_id for e in induced(chosen) if e.edge_type is CONTRADICTS),
        "bytes": (sum(cost(e) for e in induced(chosen)), total(chosen)),
        "sensitivity": max(n[name].sensitivity.rank for name in chosen),
    }


def spell(text: str) -> set[str]:
    """The tokens of FORMAT 7.6, code point by code point."""
    found, run = [], ""
    for character in text:
        if "A" <= character <= "Z":
            run += chr(ord(character) + 32)
        elif "a" <= character <= "z" or "0" <= character <= "9":
            run += character
        else:
            found.append(run)
            run = ""
            if character > "\x7f":
                found.append(character)
    return {token for token in (*found, run) if token}


def shown(selection: Artifact[Selection]) -> dict[str, Any]:
    content = selection.content
    return {
        "selected": [
            (
                made.node_id,
                made.reasons,
                (
                    made.rank.phase,
                    made.rank.authority_rank,
                    made.rank.graph_distance,
                    made.rank.lexical_score,
                    made.rank.sensitivity_rank,
                ),
                made.cost_bytes,
            )
            for made in content.selected
        ],
        "excluded": [(made.node_id, made.reason, list(made.details)) for made in content.excluded],
        "edges": list(content.selected_edge_ids),
        "contradictions": list(content.unresolved_contradiction_ids),
        "bytes": (content.edge_cost_bytes, content.used_bytes),
        "sensitivity": content.sensitivity.rank,
    }


def at_random(chance: random.Random) -> tuple[Artifact[Graph], Artifact[Query]]:
    """A small graph with many contradictions and a query with little room."""
    words, labels = ("one", "two", "thr\u00e9e", "ONE_two"), ("X", "Y")
    public = chance.random() < 0.6
    members = []
    for number in range(chance.randint(0, 11)):
        claim: dict[str, Any] = chance.choice(
            (
                {},
                {"kind": Kind.DECISION, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT},
                {"authority": Authority.UNTRUSTED_PROPOSAL},
                {"freshness": expires()},
                {"freshness": expires("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z")} if chance.random() < 0.5 else {},
            )
        )
        members.append(
            node(
                f"n/{number}",
                chance.choice(("", "x" * chance.randint(1, 900), "one", "two one")),
                title=chance.choice((*words, "none")),
                labels=tuple(sorted(chance.sample(words, chance.randint(0, 2)))),
                identifiers=tuple(sorted(chance.sample(labels, chance.choice((0, 0, 1, 2))))),
                sensitivity=Sensitivity.PUBLIC if public or chance.random() < 0.6 else chance.choice(list(Sensitivity)[:3]),
                required=chance.random() < 0.08,
                **claim,
            )
        )
    everyone = [SPEC, *members]
    kinds = [CONTRADICTS] * 5 + sorted(EdgeType)
    joined = {}
    if members:
        for _ in range(chance.randint(0, 2 * len(members))):
            one, other = chance.sample(everyone, 2)
            made = edge(chance.choice(kinds), one, other)
            joined[made.edge_id] = made
    of = graph(*members, edges=joined.values())
    some = [member for member in members if chance.random() < 0.2]
    asked = query(
        of,
        seeds=some,
        required=[member for member in members if chance.random() < 0.06],
        clearance=chance.choice((Sensitivity.PUBLIC, *Sensitivity)),
        identifiers=chance.choice(((), ("X",), ("X", "Y"))),
        terms=chance.choice(((), ("one",), ("thr\u00e9e two",), ("-",))),
        allowed_edge_types=tuple(sorted(chance.sample(sorted(EdgeType), chance.randint(1, 7)))),
        budget_bytes=chance.choice((1_024, chance.randint(1_024, 9_000), chance.randint(2_000, 16_000), 8_388_608)),
        max_nodes=chance.choice((chance.randint(1, 6), chance.randint(4, 12), 4_096)),
        max_edges=chance.choice((chance.randint(0, 5), chance.randint(3, 20), 16_384)),
        max_traversal_depth=chance.choice((0, 1, 2, 3, 8, 8, 8)),
    )
    return of, asked


@given(st.randoms(use_true_random=False))
@settings(max_examples=400, deadline=None)
def test_a_selection_is_what_the_rules_say_literally(chance: random.Random) -> None:
    of, asked = at_random(chance)
    wanted = literal(of, asked)
    if wanted is None:
        with pytest.raises(Refused):
            select(of, asked)
    else:
        assert shown(select(of, asked)) == wanted


def test_chance_meets_every_rule() -> None:
    """The graphs above are not all alike: every reason occurs, and most queries are answered."""
    chance, reasons, answered = random.Random(3), set(), 0
    for _ in range(400):
        wanted = literal(*at_random(chance))
        if wanted is not None:
            answered += 1
            reasons |= {reason for _, reason, _ in wanted["excluded"]}
            reasons |= {reason for _, why, _, _ in wanted["selected"] for reason in why}
    assert answered > 120
    assert reasons == {
        *("sensitivity-clearance", "stale", "not-retrieved", "contradiction-closure-unavailable"),
        *("node-budget", "edge-budget", "byte-budget"),
        *("required-reference", "contradiction-closure", "graph", "identifier", "lexical"),
    }
