"""Snapshot → Compaction (FORMAT 10): extracts of everything, and whatever fails refuses all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.errors import Invalid, Reason, Refused, SdaqfError
from sdaqf_tasks.formats.artifacts import Artifact, Claim, Snapshot, parse, render, seal
from sdaqf_tasks.formats.records import EdgeType, Node, RootScope, Sensitivity, Source, cost
from tests.builders import Chain, Repository, expires, node_of, proposal, provenance, query, sha256


class Shown:
    """A repository and the Snapshot of all its sources."""

    def __init__(self) -> None:
        self.repository = Repository()
        self.repository.world.repository["why"] = b"because"
        self.a = self.repository.add("a", "one\n", references=(("why", "because"),))
        self.b = self.repository.add("b", "é\n", sensitivity=Sensitivity.REPOSITORY_PRIVATE)
        self.c = self.repository.add("c", "seen\n", freshness=expires())
        self.repository.relate(EdgeType.CONTRADICTS, self.a, self.b)
        self.repository.relate(EdgeType.REFERENCES, self.a, self.c, provenance(("why", "because")))
        self.chain: Chain = self.repository.chain(seeds=[self.a, self.b, self.c])
        self.repository.world.reads.clear()

    @property
    def snapshot(self) -> Artifact[Snapshot]:
        return self.chain.snapshot

    def node(self, source: Source) -> Node:
        return node_of(self.snapshot, source)

    def refusal(self, of: Artifact[Snapshot] | None = None, **how: Any) -> SdaqfError:
        with pytest.raises(SdaqfError) as caught:
            compact(of or self.snapshot, self.repository.world, **how)
        return caught.value


def test_every_node_becomes_an_extract() -> None:
    shown = Shown()
    made = compact(shown.snapshot, shown.repository.world)
    content = made.content
    (contradiction,) = shown.snapshot.content.unresolved_contradiction_ids
    assert [extract.node_id for extract in content.extracts] == [node.node_id for node in shown.snapshot.content.nodes]
    extracts = {extract.source_id: extract for extract in content.extracts}
    b = extracts[shown.b.source_id]
    assert (b.text, b.text_sha256, b.cost_bytes) == ("é\n", sha256("é\n"), len('"\\u00e9\\n"'))
    assert (b.authority, b.sensitivity, b.required, b.contradiction_ids) == (
        shown.b.authority,
        shown.b.sensitivity,
        False,
        (contradiction,),
    )
    assert extracts[shown.a.source_id].contradiction_ids == (contradiction,)
    assert extracts[shown.c.source_id].contradiction_ids == ()
    assert extracts[shown.repository.specification.source_id].required
    assert content.used_bytes == sum(extract.cost_bytes for extract in content.extracts)
    assert (content.omitted_node_ids, content.host_summary_proposal_id) == ((), None)
    assert (content.snapshot_id, content.budget_bytes) == (shown.snapshot.artifact_id, shown.snapshot.content.budget_bytes)
    assert (content.sensitivity, content.unresolved_contradiction_ids) == (Sensitivity.REPOSITORY_PRIVATE, (contradiction,))
    assert parse(render(made)) == made


def test_a_node_that_only_the_query_requires_is_not_required_in_its_extract() -> None:
    repository = Repository()
    a = repository.add("a", "one\n")
    chain = repository.chain(required=[a])
    extracts = {extract.source_id: extract.required for extract in compact(chain.snapshot, repository.world).content.extracts}
    assert extracts == {a.source_id: False, repository.specification.source_id: True}


def test_everything_fits_a_budget_that_the_snapshot_fits() -> None:
    repository = Repository()
    large = repository.add("a", "\u2028" * 4_000)
    tight = sum(cost(node) for node in repository.chain(seeds=[large]).snapshot.content.nodes)
    chain = repository.chain(seeds=[large], budget_bytes=tight)
    content = compact(chain.snapshot, repository.world).content
    assert (len(content.extracts), content.omitted_node_ids) == (2, ())
    assert content.used_bytes < content.budget_bytes == tight


# ---- observed once more ---------------------------------------------------------------------------------------------


def spoil(path: str, data: bytes | None) -> Any:
    def act(shown: Shown) -> None:
        files = shown.repository.world.repository
        if data is None:
            del files[path]
        else:
            files[path] = data

    return act


@pytest.mark.parametrize(
    ("act", "reason", "path"),
    [
        (spoil("a", b"other"), Reason.DIGEST_MISMATCH, "a"),
        (spoil("b", None), Reason.MISSING_OR_UNREADABLE, "b"),
        (spoil("b", b"x" * 262_145), Reason.SOURCE_BYTE_LIMIT, "b"),
        (spoil("docs/spec.md", None), Reason.MISSING_OR_UNREADABLE, "docs/spec.md"),
        (spoil("why", b"otherwise"), Reason.PROVENANCE_INVALID, "a"),
    ],
)
def test_whatever_fails_refuses_all_required_or_not(act: Any, reason: Reason, path: str) -> None:
    shown = Shown()
    act(shown)
    error = shown.refusal()
    position = [node.locator.path for node in shown.snapshot.content.nodes].index(path)
    assert (type(error), error.reason, error.where) == (Refused, reason, f"content/nodes/{position}")
    assert error.message.startswith(f"{path}: ")


def test_the_provenance_of_an_edge_is_observed_too() -> None:
    shown = Shown()
    read = shown.repository.world.read

    def late(scope: RootScope, path: str, limit: int) -> Any:
        count = [name for _, name in shown.repository.world.reads].count("why")
        if path == "why" and count == 1:
            shown.repository.world.repository["why"] = b"otherwise"
        return read(scope, path, limit)

    shown.repository.world.read = late  # type: ignore[method-assign]
    error = shown.refusal()
    position = [edge.edge_type for edge in shown.snapshot.content.edges].index(EdgeType.REFERENCES)
    assert (error.reason, error.where) == (Reason.PROVENANCE_INVALID, f"content/edges/{position}")


@pytest.mark.parametrize(
    ("as_of", "stale"), [("2026-07-01T00:00:00Z", False), ("2026-08-31T00:00:00.0Z", False), ("2026-08-31T00:00:00.000001Z", True)]
)
def test_a_window_contains_the_moment_of_the_snapshot(as_of: str, stale: bool) -> None:
    shown = Shown()
    moved = seal(replace(shown.snapshot.content, as_of=as_of))
    if stale:
        error = shown.refusal(moved)
        assert (error.reason, error.message) == (Reason.STALE, f"c: holds until 2026-08-31T00:00:00Z; as_of is {as_of}")
    else:
        assert compact(moved, shown.repository.world).content.snapshot_id == moved.artifact_id


def test_a_text_that_is_not_in_the_file_has_changed() -> None:
    repository = Repository()
    a = repository.add("a", "one\ntwo\n", lines=(1, 1))
    chain = repository.chain(seeds=[a])
    true, forged = node_of(chain.snapshot, a), Node.seal(a, "two\n")
    assert cost(true) == cost(forged)
    content = chain.snapshot.content
    pairs = [
        (forged, replace(decision, node_id=forged.node_id, rank=replace(decision.rank, node_id=forged.node_id)))
        if node == true
        else (node, decision)
        for node, decision in zip(content.nodes, content.selected, strict=True)
    ]
    pairs.sort(key=lambda pair: pair[0].node_id)
    lie = seal(replace(content, nodes=tuple(node for node, _ in pairs), selected=tuple(decision for _, decision in pairs)))
    with pytest.raises(Refused) as caught:
        compact(lie, repository.world)
    assert (caught.value.reason, caught.value.message) == (Reason.CHANGED, "a: the selected text is not the one that was recorded")


@pytest.mark.parametrize(("member", "value"), [("git_head", "0" * 40), ("digest", "0" * 64)])
def test_the_tree_is_the_candidate_before_and_after(member: str, value: str) -> None:
    shown = Shown()
    setattr(shown.repository.world, member, value)
    assert shown.refusal().reason is Reason.CANDIDATE_MISMATCH
    assert shown.repository.world.reads == []
    shown = Shown()
    shown.repository.world.before_read = lambda path: setattr(shown.repository.world, member, value)
    assert shown.refusal().reason is Reason.CANDIDATE_MISMATCH
    assert shown.repository.world.reads != []


def test_an_owner_root_is_given_exactly_where_a_node_lies_under_it() -> None:
    shown = Shown()
    assert shown.refusal(owner_root=True).reason is Reason.OWNER_ROOT
    assert shown.repository.world.reads == []
    repository = Repository()
    note = repository.add("note.md", "mine\n", scope=RootScope.OWNER)
    chain = repository.chain(seeds=[note], owner_root=True)
    with pytest.raises(Refused) as caught:
        compact(chain.snapshot, repository.world)
    assert caught.value.reason is Reason.OWNER_ROOT
    assert len(compact(chain.snapshot, repository.world, owner_root=True).content.extracts) == 2


def test_an_owner_node_that_dropped_out_needs_no_owner_root_any_more() -> None:
    repository = Repository()
    note = repository.add("note.md", "mine\n", scope=RootScope.OWNER)
    graph = repository.graph()
    assert node_of(graph, note)
    del repository.world.owner["note.md"]
    selection = select(graph, query(graph, seeds=[node_of(graph, note)]))
    made = snapshot(graph, selection, repository.world, owner_root=True)
    assert len(compact(made, repository.world).content.extracts) == 1
    with pytest.raises(Refused):
        compact(made, repository.world, owner_root=True)


def test_a_value_made_in_memory_is_read_again_first() -> None:
    shown = Shown()
    forged = replace(shown.snapshot, artifact_id="CTX-SNAPSHOT-" + "0" * 64)
    with pytest.raises(Invalid) as caught:
        compact(forged, shown.repository.world)
    assert (caught.value.reason, shown.repository.world.reads) == (Reason.IDENTITY_MISMATCH, [])


# ---- proposals ------------------------------------------------------------------------------------------------------


def test_a_proposal_is_named_and_may_raise_the_sensitivity() -> None:
    shown = Shown()
    proposed = proposal(shown.snapshot, shown.node(shown.a), shown.node(shown.c), sensitivity=Sensitivity.OWNER_PRIVATE)
    content = compact(shown.snapshot, shown.repository.world, proposal=proposed).content
    assert (content.host_summary_proposal_id, content.sensitivity) == (proposed.artifact_id, Sensitivity.OWNER_PRIVATE)
    equal = proposal(shown.snapshot, shown.node(shown.a))
    assert compact(shown.snapshot, shown.repository.world, proposal=equal).content.sensitivity is Sensitivity.REPOSITORY_PRIVATE


def test_a_proposal_of_another_snapshot_is_refused() -> None:
    shown = Shown()
    wrong = proposal(shown.snapshot, shown.node(shown.a), snapshot_id="CTX-SNAPSHOT-" + "0" * 64)
    error = shown.refusal(proposal=wrong)
    assert (error.reason, error.where) == (Reason.PROPOSAL_INVALID, "content/snapshot_id")
    assert shown.repository.world.reads == []


def test_a_proposal_does_not_understate_the_snapshot() -> None:
    shown = Shown()
    error = shown.refusal(proposal=proposal(shown.snapshot, shown.node(shown.a), sensitivity=Sensitivity.PUBLIC))
    assert (error.reason, error.where) == (Reason.PROPOSAL_INVALID, "content/sensitivity")


def test_a_claim_names_the_digests_of_its_nodes_each_list_sorted() -> None:
    shown = Shown()
    nodes = sorted(shown.snapshot.content.nodes, key=lambda node: node.node_id)
    crossed = next((one, other) for one in nodes for other in nodes if one.node_id < other.node_id and one.text_sha256 > other.text_sha256)
    proposed = proposal(shown.snapshot, *crossed)
    claim = proposed.content.claims[0]
    assert claim.extract_sha256s == (crossed[1].text_sha256, crossed[0].text_sha256), "not parallel to the nodes"
    assert compact(shown.snapshot, shown.repository.world, proposal=proposed)


@pytest.mark.parametrize("wrong", ["digest", "node"])
def test_a_claim_about_something_else_is_refused(wrong: str) -> None:
    shown = Shown()
    good = proposal(shown.snapshot, shown.node(shown.a)).content.claims[0]
    stranger = {"digest": {"extract_sha256s": ("0" * 64,)}, "node": {"source_node_ids": ("CTX-NODE-" + "0" * 64,)}}[wrong]
    bad: Claim = replace(good, **stranger)
    error = shown.refusal(proposal=proposal(shown.snapshot, claims=(good, bad)))
    assert (error.reason, error.where) == (Reason.PROPOSAL_INVALID, "content/claims/1")


def test_a_claim_about_two_nodes_of_one_text_can_never_be_valid() -> None:
    repository = Repository()
    twins = [repository.add(name, "same\n") for name in "ab"]
    chain = repository.chain(seeds=twins)
    nodes = [node_of(chain.snapshot, twin) for twin in twins]
    with pytest.raises(Invalid) as caught:
        compact(chain.snapshot, repository.world, proposal=parse(render(proposal(chain.snapshot, *nodes))))
    assert (caught.value.where, caught.value.message) == ("extract_sha256s/1", "not ascending")


def test_a_snapshot_and_a_proposal_are_unchanged_by_being_compacted() -> None:
    shown = Shown()
    before = render(shown.snapshot)
    compact(shown.snapshot, shown.repository.world)
    assert render(shown.snapshot) == before == json.dumps(json.loads(before), indent=2, sort_keys=True).encode() + b"\n"
