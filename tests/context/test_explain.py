"""Why a source is in or out (exact values), and that what is said to let it in does so: every way is followed."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.context import ways as module
from sdaqf_tasks.context.explain import Explanation, Told
from sdaqf_tasks.context.lexical import fields, query_tokens, score
from sdaqf_tasks.context.select import Ground, select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.context.ways import Step
from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Query, Selection, seal
from sdaqf_tasks.formats.records import Authority, Edge, EdgeType, Freshness, Kind, Node, Sensitivity, Source, cost
from tests.builders import AS_OF, Repository, edge, expires, graph, node, node_of, query, specification_node

SPEC = specification_node()
REFERENCES, CONTRADICTS = EdgeType.REFERENCES, EdgeType.CONTRADICTS
PRIVATE, PUBLIC = Sensitivity.OWNER_PRIVATE, Sensitivity.PUBLIC
PAST = expires("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z")
MEMBERS = {"require": "required_node_ids", "seeds": "seed_node_ids", "terms": "terms", "identifiers": "identifiers"}
BOUNDS = {"bytes": "budget_bytes", "nodes": "max_nodes", "edges": "max_edges", "depth": "max_traversal_depth"}


def ways(of: Artifact[Graph], asked: Artifact[Query], node_id: str) -> list[list[Step]]:
    return module.ways(Ground(of), asked.content, node_id)


# ---- following advice: written once more, from what the steps say ----------------------------------------------------


def followed(
    of: Artifact[Graph], asked: Artifact[Query], steps: list[Step], window: Freshness
) -> tuple[Artifact[Selection], dict[str, str]]:
    """The Selection after all steps, and the new ids of nodes that were observed again."""
    content, wanted = of.content, asked.content
    nodes = {member.node_id: member for member in content.nodes}
    edges, new = list(content.edges), dict[str, str]()
    for step in steps:
        if step.change == "observe":
            for node_id in step.to:
                old = nodes[node_id]
                again = Node.seal(Source.seal(**(old.metadata | {"freshness": window})), old.text)
                nodes[node_id], new[node_id] = again, again.node_id
        elif step.change == "settle":
            edges = [one for one in edges if one.edge_id not in step.to]
    joined = []
    for one in edges:
        ends = [new.get(end, end) for end in (one.source_node_id, one.target_node_id)]
        ends = sorted(ends) if one.edge_type is CONTRADICTS else ends
        joined.append(Edge.seal(edge_type=one.edge_type, source_node_id=ends[0], target_node_id=ends[1], provenance=one.provenance))
    changed = graph(*(member for member in nodes.values() if member != SPEC), edges=joined)
    for member in ("required_node_ids", "seed_node_ids"):
        ids = tuple(sorted(new.get(node_id, node_id) for node_id in getattr(wanted, member)))
        wanted = msgspec.structs.replace(wanted, **{member: ids})
    wanted = msgspec.structs.replace(wanted, graph_id=changed.artifact_id)
    for step in steps:
        if step.change in MEMBERS:
            held = getattr(wanted, MEMBERS[step.change])
            wanted = msgspec.structs.replace(wanted, **{MEMBERS[step.change]: tuple(sorted({*held, new.get(step.to, step.to)}))})
        elif step.change == "clearance":
            wanted = msgspec.structs.replace(wanted, clearance=Sensitivity(step.to))
        elif step.change.startswith("budget."):
            bound = BOUNDS[step.change.removeprefix("budget.")]
            assert getattr(wanted.budget, bound) < step.to
            wanted = msgspec.structs.replace(wanted, budget=msgspec.structs.replace(wanted.budget, **{bound: step.to}))
    return select(changed, seal(wanted)), new


def lets_in(of: Artifact[Graph], asked: Artifact[Query], steps: list[Step], node_id: str, window: Freshness) -> bool:
    selection, new = followed(of, asked, steps, window)
    return new.get(node_id, node_id) in {decision.node_id for decision in selection.content.selected}


def now(asked: Artifact[Query]) -> Freshness:
    return expires(asked.content.as_of, asked.content.as_of)


def chance(seed: int) -> tuple[Artifact[Graph], Artifact[Query]]:
    """A small graph with everything in it that can keep a node out, and a query with tight bounds."""
    dice = random.Random(seed)
    members = [
        node(
            f"docs/{name}.md",
            "word " * dice.choice((1, 1, 20, 90)),
            title=dice.choice((f"docs/{name}.md", "a word", "—")),
            sensitivity=dice.choice((PUBLIC, PUBLIC, Sensitivity.REPOSITORY_PRIVATE, PRIVATE)),
            identifiers=dice.choice(((), (), ("X-1",), ("Y", f"{name}-1"))),
            authority=dice.choice((Authority.REPOSITORY_RECORD, Authority.ACCEPTED_PUBLIC_CONTRACT, Authority.UNTRUSTED_PROPOSAL)),
            kind=Kind.DECISION,
            **(
                {"freshness": dice.choice((expires(), PAST, expires("2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z")))}
                if dice.random() < 0.3
                else {}
            ),
        )
        for name in "abcdefgh"[: dice.randint(1, 8)]
    ]
    everything = [SPEC, *members]
    pairs = {(one, other) for one, other in (dice.sample(everything, 2) for _ in range(dice.randint(0, 8)))}
    edges = {one.edge_id: one for one in (edge(dice.choice((CONTRADICTS, REFERENCES, REFERENCES)), *pair) for pair in pairs)}
    of = graph(*members, edges=edges.values())
    asked = query(
        of,
        seeds=dice.sample(members, dice.randint(0, len(members))),
        required=dice.sample(members, dice.choice((0, 0, 0, 1))),
        terms=dice.choice(((), (), ("word",), ("md",))),
        identifiers=dice.choice(((), ("X-1",))),
        clearance=dice.choice((PUBLIC, Sensitivity.REPOSITORY_PRIVATE, PRIVATE)),
        allowed_edge_types=dice.choice(((REFERENCES,), (CONTRADICTS, REFERENCES))),
        budget_bytes=dice.choice((2_000, 4_000, 6_000, 9_000, 8_388_608)),
        max_nodes=dice.choice((1, 2, 4, 4_096)),
        max_edges=dice.choice((0, 1, 2, 5, 16_384)),
        max_traversal_depth=dice.choice((0, 1, 3, 8)),
    )
    return of, asked


@settings(max_examples=400, deadline=None)
@given(st.integers(min_value=0))
def test_every_way_that_is_given_lets_the_node_in(seed: int) -> None:
    of, asked = chance(seed)
    try:
        selection = select(of, asked)
    except SdaqfError:
        return
    for exclusion in selection.content.excluded:
        found = ways(of, asked, exclusion.node_id)
        for way in found:
            assert lets_in(of, asked, way, exclusion.node_id, now(asked)), way
        assert found, "in a graph this small there is always one"


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0), st.sampled_from(("2026-07-30T23:59:59.5Z", "2026-07-31T00:00:00Z")), st.integers(1, 9))
def test_observing_again_at_another_moment_lets_it_in_where_no_budget_is_short(seed: int, observed: str, years: int) -> None:
    of, asked = chance(seed)
    asked = seal(msgspec.structs.replace(asked.content, budget=module.WIDEST))
    try:
        selection = select(of, asked)
    except SdaqfError:
        return
    for exclusion in selection.content.excluded:
        for way in ways(of, asked, exclusion.node_id):
            assert lets_in(of, asked, way, exclusion.node_id, expires(observed, f"203{years}-01-01T00:00:00Z")), way


# ---- each kind of exclusion, one by one -----------------------------------------------------------------------------


def advice(of: Artifact[Graph], asked: Artifact[Query], member: Node) -> list[list[tuple[str, Any]]]:
    """The ways for a node, each followed before it is looked at."""
    found = ways(of, asked, member.node_id)
    assert all(lets_in(of, asked, way, member.node_id, now(asked)) for way in found)
    return [[(step.change, step.to) for step in way] for way in found]


def excluded(of: Artifact[Graph], asked: Artifact[Query]) -> dict[str, str]:
    return {exclusion.node_id: exclusion.reason for exclusion in select(of, asked).content.excluded}


def test_what_nothing_leads_to_is_named() -> None:
    a = node("docs/retries.md", "a\n", identifiers=("D-1",))
    of = graph(a, node("docs/b.md"))
    assert advice(of, query(of), a) == [
        [("require", a.node_id)],
        [("seeds", a.node_id)],
        [("terms", "retries")],
        [("identifiers", "D-1")],
    ]


def test_what_is_too_sensitive_needs_a_clearance_and_then_a_name() -> None:
    a = node("docs/a.md", sensitivity=PRIVATE)
    of = graph(a)
    assert advice(of, query(of, clearance=PUBLIC, seeds=[a]), a) == [[("clearance", "owner-private")]]
    assert advice(of, query(of, clearance=PUBLIC), a)[:2] == [
        [("clearance", "owner-private"), ("require", a.node_id)],
        [("clearance", "owner-private"), ("seeds", a.node_id)],
    ]


def test_what_is_stale_is_observed_again() -> None:
    a = node("docs/a.md", freshness=PAST)
    of = graph(a)
    found = ways(of, query(of, seeds=[a]), a.node_id)
    words = f"observe docs/a.md:1-1 again, so that the window holds as_of ({AS_OF})"
    assert found == [[Step("observe", (a.node_id,), words)]]
    assert advice(of, query(of, seeds=[a]), a) == [[("observe", (a.node_id,))]]


@pytest.mark.parametrize(
    ("fields_", "step"), [({"sensitivity": PRIVATE}, ("clearance", "owner-private")), ({"freshness": PAST}, ("observe", None))]
)
def test_the_other_end_of_a_contradiction_is_let_in_too_or_settled(fields_: dict[str, Any], step: tuple[str, Any]) -> None:
    a, b = node("docs/a.md"), node("docs/b.md", **fields_)
    of = graph(a, b, edges=[between := edge(CONTRADICTS, a, b)])
    asked = query(of, seeds=[a], clearance=PUBLIC)
    assert excluded(of, asked)[a.node_id] == "contradiction-closure-unavailable"
    step = (step[0], step[1] or (b.node_id,))
    assert advice(of, asked, a) == [[step], [("settle", (between.edge_id,))]]


def room(*members: Node) -> int:
    return sum(map(cost, (SPEC, *members)))


def test_what_misses_bytes_is_told_how_many() -> None:
    first = node("docs/a.md", "a" * 100, authority=Authority.ACCEPTED_PUBLIC_CONTRACT, kind=Kind.DECISION)
    last = node("docs/b.md", "b" * 300)
    of = graph(first, last)
    asked = query(of, seeds=[first, last], budget_bytes=room(first, last) - 7)
    assert advice(of, asked, last) == [[("budget.bytes", room(first, last))], [("require", last.node_id)]]
    explained = Explanation(Told(Repository().manifest(), of, select(of, asked))).of(last.source_id)
    assert (explained["misses"], explained["cost"]) == ({"bytes": 7}, {"text": 302, "record": cost(last) - 302})


def test_a_higher_budget_that_an_earlier_source_would_take_is_not_given() -> None:
    big = node("docs/big.md", "a" * 4_000, authority=Authority.ACCEPTED_PUBLIC_CONTRACT, kind=Kind.DECISION)
    small = node("docs/small.md", "b" * 900)
    of = graph(big, small)
    budget = room(small) - 1
    assert room(small) < room(big) < room(big, small)
    assert advice(of, query(of, seeds=[big, small], budget_bytes=budget), small)[0] == [("budget.bytes", room(small))]
    # With room for the big one alone, that room is taken.
    assert advice(of, query(of, seeds=[big, small], budget_bytes=room(big)), small)[0] == [("budget.bytes", room(big, small))]


def test_nodes_and_edges_that_are_missing_are_told() -> None:
    a, b = sorted((node("docs/a.md"), node("docs/b.md")), key=lambda member: member.node_id)
    of = graph(a, b)
    assert advice(of, query(of, terms=("docs",), max_nodes=2), b) == [[("budget.nodes", 3)], [("require", b.node_id)]]
    of = graph(a, b, edges=[edge(REFERENCES, a, SPEC), edge(REFERENCES, b, SPEC)])
    asked = query(of, terms=("docs",), allowed_edge_types=(CONTRADICTS,), max_edges=1)
    assert excluded(of, asked) == {b.node_id: "edge-budget"}
    assert advice(of, asked, b) == [[("budget.edges", 2)], [("require", b.node_id)]]


def test_a_name_that_leads_deeper_comes_with_the_depth() -> None:
    a, b = node("docs/a.md"), node("docs/b.md")
    of = graph(a, b, edges=[edge(REFERENCES, a, b)])
    assert [("seeds", a.node_id), ("budget.depth", 1)] in advice(of, query(of, max_traversal_depth=0), a)


def test_where_the_widest_bounds_do_not_suffice_nothing_is_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    a = node("docs/a.md", "a" * 5_000)
    of = graph(a)
    monkeypatch.setattr(module, "WIDEST", msgspec.structs.replace(module.WIDEST, budget_bytes=room(a) - 1))
    asked = query(of, seeds=[a], budget_bytes=2_000)
    assert excluded(of, asked) == {a.node_id: "byte-budget"}
    assert ways(of, asked, a.node_id) == []


def test_a_list_that_is_full_is_no_place_to_name_something() -> None:
    a = node("docs/a.md")
    of = graph(a)
    asked = query(of, terms=tuple(sorted(f"x{number}" for number in range(128))))
    assert advice(of, asked, a) == [[("require", a.node_id)], [("seeds", a.node_id)]]


# ---- everything about one source ------------------------------------------------------------------------------------


def explanation(repository: Repository, **asked: Any) -> Explanation:
    chain = repository.chain(**asked)
    return Explanation(Told(repository.manifest(), chain.graph, chain.selection, chain.snapshot))


def test_all_about_one_that_is_in() -> None:
    repository = Repository()
    a = repository.add("docs/a.md", "retry\n", title="How to retry", labels=("retry",), identifiers=("D-1",))
    b = repository.add("docs/b.md", "never\n")
    repository.relate(CONTRADICTS, a, b)
    explained = explanation(repository, terms=("retry twice",), identifiers=("D-1",))
    graph_ = repository.graph()
    node_id = node_of(graph_, a).node_id
    assert explained.of(a.source_id) == {
        "source": "docs/a.md:1-1",
        "source_id": a.source_id,
        "node_id": node_id,
        "state": "in",
        "reason": None,
        "phase": "identifier",
        "bytes": cost(node_of(graph_, a)),
        "title": "How to retry",
        "kind": "design",
        "reasons": [
            {"reason": "identifier", "means": "it has an identifier that the query names"},
            {"reason": "lexical", "means": "it has words of the query's terms"},
        ],
        "exclusion": None,
        "rank": {
            "position": 2,
            "phase": 2,
            "authority": "repository-record",
            "authority_rank": 4,
            "distance": None,
            "score": 25,
            "found": {"title": ["retry"], "labels": ["retry"], "text": ["retry"]},
            "sensitivity": "public",
            "sensitivity_rank": 0,
        },
        "cost": {"text": len(canonical.encode("retry\n")), "record": cost(node_of(graph_, a)) - len(canonical.encode("retry\n"))},
        "component": [{"source": "docs/b.md:1-1", "reason": None}],
        "misses": {},
        "ways": [],
    }
    assert explained.of(b.source_id)["rank"]["phase"] == 2, "as the Selection has it: with the one that took it along"


def test_a_source_that_never_came_into_the_graph_says_why() -> None:
    repository = Repository()
    a = repository.add("docs/a.md", "a\n")
    manifest = repository.manifest()
    repository.world.repository["docs/a.md"] = b"b\n"
    chain = repository.chain()
    explained = Explanation(Told(manifest, chain.graph, chain.selection, chain.snapshot)).of(a.source_id)
    assert explained["exclusion"] == {"reason": "provenance-invalid", "means": Reason.PROVENANCE_INVALID.when, "details": []}
    assert (explained["rank"], explained["cost"], explained["phase"]) == (None, None, None)
    assert explained["ways"] == [[{"change": "source", "to": "docs/a.md:1-1", "words": Reason.PROVENANCE_INVALID.todo}]]


def test_a_source_that_dropped_out_of_the_snapshot_says_why() -> None:
    repository = Repository()
    a = repository.add("docs/a.md", "a\n")
    graph_ = repository.graph()
    selection = select(graph_, query(graph_, seeds=[node_of(graph_, a)]))
    repository.world.repository["docs/a.md"] = b"b\n"
    made = snapshot(graph_, selection, repository.world)
    explained = Explanation(Told(repository.manifest(), graph_, selection, made)).of(a.source_id)
    assert (explained["state"], explained["reason"], explained["reasons"]) == ("out", "digest-mismatch", [])
    assert explained["ways"][0][0]["words"] == Reason.DIGEST_MISMATCH.todo


def test_the_score_by_field_is_the_score() -> None:
    member = node("docs/retry.md", "we retry\n", title="Retry", labels=("jitter", "retry"))
    weights = {"title": 16, "labels": 8, "path": 4, "text": 1}
    for terms in (("retry",), ("jitter we",), ("none",), ("retry we docs md",)):
        wanted = query_tokens(terms)
        assert score(member, wanted) == sum(weights[name] * len(wanted & held) for name, held in fields(member).items())


def test_the_list_is_in_order_of_rank_with_what_was_taken_along_beside_what_took_it() -> None:
    repository = Repository()
    seed = repository.add("docs/z.md", "z\n")
    along = repository.add("docs/a.md", "a\n")
    word = repository.add("docs/word.md", "word\n")
    aside = repository.add("docs/aside.md", "aside\n")
    repository.relate(CONTRADICTS, seed, along)
    explained = explanation(repository, seeds=[seed], terms=("word",), allowed_edge_types=(REFERENCES,))
    order = [repository.specification, seed, along, word, aside]
    assert explained.ranking == [source.source_id for source in order]
    assert [(entry["state"], entry["phase"], entry["reason"]) for entry in explained.listing()] == [
        ("in", "required", None),
        ("in", "graph", None),
        ("in", "graph", None),
        ("in", "lexical", None),
        ("out", None, "not-retrieved"),
    ]


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0))
def test_the_list_holds_every_source_once_and_what_is_cut_misses_something(seed: int) -> None:
    of, asked = chance(seed)
    try:
        selection = select(of, asked)
    except SdaqfError:
        return
    explained = Explanation(Told(Repository().manifest(), of, selection))
    assert sorted(explained.ranking) == sorted({*explained.sources})
    reasons = {entry["source_id"]: entry["reason"] for entry in explained.listing() if entry["node_id"]}
    assert {member.source_id for member in of.content.nodes if not reasons[member.source_id]} == {
        member.source_id for member in of.content.nodes if member.node_id in {decision.node_id for decision in selection.content.selected}
    }
    bounds = {"byte-budget": "bytes", "node-budget": "nodes", "edge-budget": "edges"}
    for source_id, reason in reasons.items():
        if reason in bounds:
            assert explained.of(source_id)["misses"][bounds[reason]] > 0
