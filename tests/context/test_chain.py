"""What relates whole artifacts: the chain (FORMAT 16.6, 17.8), the comparison (9) and the report (11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from sdaqf_tasks.context import chain
from sdaqf_tasks.context.chain import compare
from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.artifacts import Artifact, Exclusion, Snapshot, parse, render, seal
from sdaqf_tasks.formats.records import EdgeType, Sensitivity, cost
from tests.builders import Chain, Repository, node_of, query

CONTRADICTS, REFERENCES = EdgeType.CONTRADICTS, EdgeType.REFERENCES


def repository() -> Repository:
    """a and b contradict each other; c refers to a; d is sensitive and left out."""
    made = Repository()
    sources = {name: made.add(name, f"{name}\n") for name in "abc"}
    made.add("d", "d\n", sensitivity=Sensitivity.OWNER_PRIVATE)
    made.relate(CONTRADICTS, sources["a"], sources["b"])
    made.relate(REFERENCES, sources["c"], sources["a"])
    return made


def whole(made: Repository, **asked: Any) -> Chain:
    return made.chain(seeds=made.sources, clearance=Sensitivity.PUBLIC, **asked)


def resealed(of: Artifact[Snapshot], **members: Any) -> Artifact[Snapshot]:
    """The Snapshot with members replaced and the sums made to fit, as a forger would."""
    nodes, edges = (members.get(name, getattr(of.content, name)) for name in ("nodes", "edges"))
    fitting = {
        "context_bytes": sum(map(cost, nodes)) + sum(map(cost, edges)),
        "unresolved_contradiction_ids": tuple(edge.edge_id for edge in edges if edge.edge_type is CONTRADICTS),
        "sensitivity": max(node.sensitivity for node in nodes),
    }
    return seal(replace(of.content, **fitting, **members))


def without_nodes(of: Artifact[Snapshot], *gone: str, excluded: bool = True) -> Artifact[Snapshot]:
    content = of.content
    lost = [node.node_id for node in content.nodes if node.locator.path in gone]
    known = list(content.excluded)
    if excluded:
        known += [Exclusion(node_id=node_id, reason="changed", details=()) for node_id in lost]
    return resealed(
        of,
        nodes=tuple(node for node in content.nodes if node.node_id not in lost),
        selected=tuple(decision for decision in content.selected if decision.node_id not in lost),
        edges=tuple(edge for edge in content.edges if edge.source_node_id not in lost and edge.target_node_id not in lost),
        excluded=tuple(sorted(known, key=lambda exclusion: exclusion.node_id)),
    )


def without_contradictions(of: Artifact[Snapshot]) -> Artifact[Snapshot]:
    return resealed(of, edges=tuple(edge for edge in of.content.edges if edge.edge_type is not CONTRADICTS))


# ---- the chain ------------------------------------------------------------------------------------------------------


def test_a_chain_that_was_made_here_holds() -> None:
    made = repository()
    graph, _, selection, shown = whole(made)
    chain.verify(graph, selection, shown)
    made.world.repository["a"] = b"other"
    dropped = snapshot(graph, selection, made.world)
    assert len(dropped.content.nodes) == len(shown.content.nodes) - 2
    chain.verify(graph, selection, dropped)


def test_a_snapshot_without_its_contradiction_compacts_alone_and_is_no_chain() -> None:
    made = repository()
    graph, _, selection, shown = whole(made)
    forged = without_contradictions(shown)
    assert parse(render(forged)) == forged
    assert compact(forged, made.world).content.unresolved_contradiction_ids == ()
    with pytest.raises(Refused) as caught:
        chain.verify(graph, selection, forged)
    assert (caught.value.reason, caught.value.where) == (Reason.CHAIN_MISMATCH, "content/edges")


FORGERIES: list[tuple[Callable[[Artifact[Snapshot]], Artifact[Snapshot]], str]] = [
    (lambda of: without_nodes(of, "b"), "content/nodes"),
    (lambda of: without_nodes(of, "a", "b", excluded=False), "content/excluded"),
    (lambda of: resealed(of, edges=()), "content/edges"),
    (lambda of: resealed(of, excluded=()), "content/excluded"),
    (
        lambda of: resealed(of, excluded=(*of.content.excluded, Exclusion(node_id="CTX-NODE-" + "F" * 64, reason="changed", details=()))),
        "content/excluded",
    ),
    (
        lambda of: resealed(of, selected=(replace(of.content.selected[0], reasons=("on a whim",)), *of.content.selected[1:])),
        "content/selected",
    ),
    (lambda of: resealed(of, as_of="2026-07-31T00:00:00.0Z"), "content/as_of"),
    (lambda of: resealed(of, budget_bytes=of.content.budget_bytes - 1), "content/as_of"),
]


@pytest.mark.parametrize(("forge", "where"), FORGERIES)
def test_what_does_not_follow_from_graph_and_selection_is_refused(
    forge: Callable[[Artifact[Snapshot]], Artifact[Snapshot]], where: str
) -> None:
    graph, _, selection, shown = whole(repository())
    forged = forge(shown)
    assert parse(render(forged)) == forged
    with pytest.raises(Refused) as caught:
        chain.verify(graph, selection, forged)
    assert (caught.value.reason, caught.value.where) == (Reason.CHAIN_MISMATCH, where)


def test_required_context_cannot_be_missing() -> None:
    made = repository()
    graph, _, selection, shown = whole(made, required=[made.sources[3]])
    with pytest.raises(Refused) as caught:
        chain.verify(graph, selection, without_nodes(shown, "c"))
    assert (caught.value.where, caught.value.message) == ("content/nodes", "the Snapshot lacks a required node")


def test_optional_context_may_be_missing_if_the_snapshot_says_so() -> None:
    graph, _, selection, shown = whole(repository())
    chain.verify(graph, selection, without_nodes(shown, "c"))
    chain.verify(graph, selection, without_nodes(shown, "a", "b"))


def test_a_selection_that_its_query_does_not_give_breaks_the_chain() -> None:
    graph, _, selection, shown = whole(repository())
    forged = seal(replace(selection.content, selected_edge_ids=(), unresolved_contradiction_ids=()))
    linked = resealed(shown, selection_id=forged.artifact_id, edges=())
    with pytest.raises(Refused) as caught:
        chain.verify(graph, forged, linked)
    assert (caught.value.reason, caught.value.where) == (Reason.CHAIN_MISMATCH, "content/selection_id")


def test_a_node_that_the_graph_does_not_have_breaks_the_chain() -> None:
    made, more = repository(), repository()
    more.add("e", "e\n")
    graph, _, selection, shown = whole(made)
    other = whole(more).snapshot.content
    smuggled = replace(other, graph_id=graph.artifact_id, query_id=selection.content.query_id, selection_id=selection.artifact_id)
    with pytest.raises(Refused) as caught:
        chain.verify(graph, selection, seal(smuggled))
    assert (caught.value.where, caught.value.message) == ("content/nodes", "the Snapshot holds a node that was not selected")
    assert shown.content.nodes != other.nodes


# ---- the report -----------------------------------------------------------------------------------------------------


def test_a_report_counts() -> None:
    made = repository()
    twin = made.add("twin", "a\n")
    graph, _, selection, shown = whole(made, required=[twin])
    report = quality(graph, selection, shown)
    content = report.content
    assert (content.candidate, content.snapshot_id, content.sensitivity) == (graph.content.candidate, shown.artifact_id, Sensitivity.PUBLIC)
    assert content.required_reference_recall == 100
    assert (content.stale_required_count, content.provenance_missing_count, content.sensitivity_violation_count) == (0, 0, 0)
    assert (content.provenance_complete_count, content.selected_node_count, content.excluded_node_count) == (5, 5, 1)
    assert (content.selected_context_bytes, content.budget_bytes) == (shown.content.context_bytes, 8_388_608)
    assert (content.redundant_bytes, content.unresolved_contradiction_count) == (2, 1)
    assert content.traversal_truncated is False
    assert parse(render(report)) == report


@pytest.mark.parametrize(("count", "redundant"), [(1, 0), (2, 7), (3, 14)])
def test_a_text_is_redundant_from_its_second_time_on(count: int, redundant: int) -> None:
    made = Repository()
    for number in range(count):
        made.add(f"t/{number}", "😀é\n")
    graph, _, selection, shown = made.chain(seeds=made.sources)
    assert quality(graph, selection, shown).content.redundant_bytes == redundant


@pytest.mark.parametrize(("lost", "recall"), [("", 100), ("c", 66)])
def test_the_recall_is_rounded_down(lost: str, recall: int) -> None:
    made = repository()
    a, b, c = (source for source in made.sources if source.locator.path in "abc")
    graph, _, selection, shown = whole(made, required=[c, a])
    assert node_of(graph, b).node_id in {node.node_id for node in shown.content.nodes}
    # A forged Snapshot may lack a required node: the report shows it, the chain refuses it.
    content = quality(graph, selection, without_nodes(shown, lost)).content
    assert content.required_reference_recall == recall


def test_a_report_is_about_one_chain() -> None:
    made, other = repository(), repository()
    other.add("e", "e\n")
    mine, theirs = whole(made), whole(other)
    narrow = query(mine.graph, terms=("a",), clearance=Sensitivity.PUBLIC)
    selection = select(mine.graph, narrow)
    wrong = [
        (theirs.graph, mine.selection, mine.snapshot, "the Selection is of another Graph"),
        (mine.graph, mine.selection, theirs.snapshot, "the Snapshot is of another Graph"),
        (mine.graph, selection, mine.snapshot, "the Snapshot is of another Selection"),
        (
            mine.graph,
            mine.selection,
            resealed(mine.snapshot, query_id=narrow.artifact_id),
            "the Snapshot is of another Query",
        ),
    ]
    for graph, chosen, shown, message in wrong:
        for judge in (quality, chain.verify):
            with pytest.raises(Refused) as caught:
                judge(graph, chosen, shown)
            assert (caught.value.reason, caught.value.message) == (Reason.CHAIN_MISMATCH, message)


def test_a_report_is_about_one_candidate() -> None:
    graph, _, selection, shown = whole(repository())
    moved = replace(shown.content.candidate, git_head="0" * 40)
    with pytest.raises(Refused) as caught:
        quality(graph, selection, resealed(shown, candidate=moved))
    assert caught.value.message == "the Snapshot is of another candidate"


# ---- the comparison -------------------------------------------------------------------------------------------------


def test_a_comparison_lists_what_came_and_went() -> None:
    made = repository()
    base = whole(made).snapshot
    gone = {node.locator.path: node for node in base.content.nodes}
    made.sources = [source for source in made.sources if source.locator.path != "c"]
    made.relationships = made.relationships[:1]
    added = made.add("e", "e\n", sensitivity=Sensitivity.REPOSITORY_PRIVATE)
    chained = made.chain(seeds=made.sources, clearance=Sensitivity.REPOSITORY_PRIVATE)
    current = chained.snapshot
    (reference,) = (edge for edge in base.content.edges if edge.edge_type is REFERENCES)
    assert compare(base, current) == {
        "base_snapshot_id": base.artifact_id,
        "current_snapshot_id": current.artifact_id,
        "added_node_ids": [node_of(current, added).node_id],
        "removed_node_ids": [gone["c"].node_id],
        "added_edge_ids": [],
        "removed_edge_ids": [reference.edge_id],
        "sensitivity_changed": True,
        "candidate_changed": False,
    }
    turned = compare(current, base)
    assert (turned["added_node_ids"], turned["removed_edge_ids"]) == ([gone["c"].node_id], [])


def test_a_snapshot_does_not_differ_from_itself() -> None:
    shown = whole(repository()).snapshot
    found = compare(shown, shown)
    assert [value for value in found.values() if value] == [shown.artifact_id, shown.artifact_id]


@pytest.mark.parametrize("member", ["git_head", "repository_digest"])
def test_a_candidate_has_changed_where_any_part_of_it_has(member: str) -> None:
    shown = whole(repository()).snapshot
    length = len(getattr(shown.content.candidate, member))
    moved = resealed(shown, candidate=replace(shown.content.candidate, **{member: "0" * length}))
    assert compare(shown, moved)["candidate_changed"] is True


def test_lists_of_a_comparison_ascend() -> None:
    made = Repository()
    empty = made.chain().snapshot
    sources = [made.add(f"n/{number}", "x") for number in range(9)]
    full = made.chain(seeds=sources).snapshot
    added = compare(empty, full)["added_node_ids"]
    assert added == sorted(added)
    assert len(added) == 9
