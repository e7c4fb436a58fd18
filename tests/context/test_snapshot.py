"""Graph + Selection → Snapshot (FORMAT 8): the rows of its table, what drops out together, and what refuses all."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.formats.artifacts import Artifact, Graph, Query, Selection, Snapshot, convert, parse, render, seal
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, Node, RootScope, Sensitivity, Source, cost
from sdaqf_tasks.world import Observed
from tests.builders import DIGEST, IMMUTABLE, Repository, expires, node_of, plain, provenance, query
from tests.simulator import World

CONTRADICTS, REFERENCES = EdgeType.CONTRADICTS, EdgeType.REFERENCES


class Chosen:
    """A repository whose sources are all seeds; files may change before the Snapshot is made."""

    def __init__(self, repository: Repository, *, required: tuple[Source, ...] = (), **asked: Any) -> None:
        self.repository = repository
        self.graph: Artifact[Graph] = repository.graph()
        nodes = [node_of(self.graph, source) for source in repository.sources]
        self.query: Artifact[Query] = query(self.graph, seeds=nodes, required=[node_of(self.graph, source) for source in required], **asked)
        self.selection: Artifact[Selection] = select(self.graph, self.query)
        repository.world.reads.clear()

    def snapshot(self, **how: Any) -> Artifact[Snapshot]:
        return snapshot(self.graph, self.selection, self.repository.world, **({"owner_root": self.repository.owner_root} | how))

    def refusal(self, **how: Any) -> SdaqfError:
        with pytest.raises(SdaqfError) as caught:
            self.snapshot(**how)
        return caught.value

    def excluded(self) -> dict[str, str]:
        """The reasons in the Snapshot, by the path of the node."""
        paths = {node.node_id: node.locator.path for node in self.graph.content.nodes}
        made = self.snapshot().content.excluded
        assert all(exclusion.details == () for exclusion in made)
        return {paths[exclusion.node_id]: exclusion.reason for exclusion in made}


# ---- rows of the table ----------------------------------------------------------------------------------------------


class Moving(World):
    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        if path == "a":
            raise Unreadable(Reason.CHANGED, "a changed while it was read")
        return super().read(scope, path, limit)


def write(data: bytes) -> Any:
    return lambda repository: repository.world.repository.update(a=data)


def remove(path: str) -> Any:
    return lambda repository: repository.world.repository.pop(path)


def move(repository: Repository) -> None:
    repository.world = Moving(repository.world.repository, digest=DIGEST)


def rewrite_reference(repository: Repository) -> None:
    repository.world.repository["why"] = b"otherwise"


ROWS: list[tuple[Any, Reason]] = [
    (write(b"other"), Reason.DIGEST_MISMATCH),
    (move, Reason.CHANGED),
    (write(b"x" * 262_145), Reason.SOURCE_BYTE_LIMIT),
    (remove("a"), Reason.MISSING_OR_UNREADABLE),
    (remove("why"), Reason.PROVENANCE_UNAVAILABLE),
    (rewrite_reference, Reason.PROVENANCE_UNAVAILABLE),
]


def with_a(*, required: bool) -> Chosen:
    repository = Repository()
    repository.world.repository["why"] = b"because"
    a = repository.add("a", "x\n", references=(("a", "x\n"), ("why", "because")))
    return Chosen(repository, required=(a,) if required else ())


@pytest.mark.parametrize(("spoil", "reason"), ROWS)
def test_an_optional_node_that_fails_drops_out_with_its_reason(spoil: Any, reason: Reason) -> None:
    chosen = with_a(required=False)
    spoil(chosen.repository)
    assert chosen.excluded() == {"a": reason.value}
    assert [node.locator.path for node in chosen.snapshot().content.nodes] == ["docs/spec.md"]


@pytest.mark.parametrize(("spoil", "reason"), ROWS)
def test_a_required_node_that_fails_refuses_all_with_its_reason(spoil: Any, reason: Reason) -> None:
    chosen = with_a(required=True)
    spoil(chosen.repository)
    error = chosen.refusal()
    assert (type(error), error.reason) == (Refused, reason)
    assert error.where.startswith("content/selected/CTX-NODE-")
    assert error.message.startswith("required source a: ")


def test_the_source_comes_before_its_references_here() -> None:
    chosen = with_a(required=False)
    chosen.repository.world.repository |= {"a": b"other", "why": b"otherwise"}
    assert chosen.excluded() == {"a": "digest-mismatch"}
    assert [path for _, path in chosen.repository.world.reads if path in ("a", "why")] == ["a"]


def test_an_immutable_file_that_is_no_json_is_invalid_json() -> None:
    """The Graph was made by somebody who did not look: text and digests fit."""
    repository = Repository()
    fields: dict[str, Any] = {"kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE, "freshness": IMMUTABLE}
    good = repository.add("e/a.json", "{}", **fields)
    node = node_of(repository.graph(), good)
    bad = Repository()
    evil = bad.add("e/a.json", "{1}", **fields)
    content = repository.graph().content
    forged = Node.seal(evil, "{1}")
    kept = [member for member in content.nodes if member != node]
    of = seal(replace(content, nodes=tuple(sorted((*kept, forged), key=lambda member: member.node_id))))
    selection = select(of, query(of, seeds=[forged]))
    made = snapshot(of, selection, bad.world)
    assert [(exclusion.node_id, exclusion.reason) for exclusion in made.content.excluded] == [(forged.node_id, "invalid-json")]


def test_a_text_that_is_not_that_of_the_graph_has_changed() -> None:
    """Same file, same digest, another text: the Graph lies about the lines."""
    repository = Repository()
    a = repository.add("a", "one\ntwo\n", lines=(1, 1))
    content = repository.graph().content
    forged = Node.seal(a, "two\n")
    kept = [member for member in content.nodes if member.source_id != a.source_id]
    of = seal(replace(content, nodes=tuple(sorted((*kept, forged), key=lambda member: member.node_id))))
    selection = select(of, query(of, seeds=[forged]))
    made = snapshot(of, selection, repository.world)
    assert [(exclusion.node_id, exclusion.reason) for exclusion in made.content.excluded] == [(forged.node_id, "changed")]


# ---- what drops out together ----------------------------------------------------------------------------------------


def contradicting(required: str = "") -> Chosen:
    """a — b — c contradict each other in a row; d stands alone but is referred to."""
    repository = Repository()
    made = {name: repository.add(name, name, sensitivity=Sensitivity.OWNER_PRIVATE) for name in "abcd"}
    repository.relate(CONTRADICTS, made["a"], made["b"])
    repository.relate(CONTRADICTS, made["b"], made["c"])
    repository.relate(REFERENCES, made["a"], made["d"])
    return Chosen(repository, required=tuple(made[name] for name in required))


def test_a_contradiction_drops_out_as_a_whole() -> None:
    chosen = contradicting()
    del chosen.repository.world.repository["a"]
    closure = "contradiction-closure-unavailable"
    assert chosen.excluded() == {"a": "missing-or-unreadable", "b": closure, "c": closure}
    content = chosen.snapshot().content
    assert [node.locator.path for node in sorted(content.nodes, key=lambda node: node.locator.path)] == ["d", "docs/spec.md"]
    assert (content.edges, content.unresolved_contradiction_ids) == ((), ())


def test_every_member_that_fails_keeps_its_own_reason() -> None:
    chosen = contradicting()
    del chosen.repository.world.repository["a"]
    chosen.repository.world.repository["c"] = b"other"
    assert chosen.excluded() == {"a": "missing-or-unreadable", "b": "contradiction-closure-unavailable", "c": "digest-mismatch"}


@pytest.mark.parametrize("lost", ["a", "c"])
def test_a_contradiction_of_required_context_cannot_drop_out(lost: str) -> None:
    chosen = contradicting(required="b")
    del chosen.repository.world.repository[lost]
    error = chosen.refusal()
    assert (error.reason, error.message) == (
        Reason.MISSING_OR_UNREADABLE,
        f"{lost}, which contradicts the required b: {lost} is not there",
    )


def test_decisions_stay_as_they_were_and_the_rest_is_counted_again() -> None:
    chosen = contradicting()
    chosen.repository.world.repository["d"] = b"other"
    content, before = chosen.snapshot().content, chosen.selection.content
    kept = {node.node_id for node in content.nodes}
    assert content.selected == tuple(decision for decision in before.selected if decision.node_id in kept)
    assert content.context_bytes == sum(map(cost, content.nodes)) + sum(map(cost, content.edges))
    assert content.context_bytes < before.used_bytes
    assert content.budget_bytes == before.budget_bytes
    assert len(content.edges) == len(content.unresolved_contradiction_ids) == 2


def test_the_sensitivity_is_that_of_what_remains() -> None:
    repository = Repository()
    repository.add("a", "a", sensitivity=Sensitivity.OWNER_PRIVATE)
    repository.add("b", "b", sensitivity=Sensitivity.REPOSITORY_PRIVATE)
    chosen = Chosen(repository)
    assert chosen.snapshot().content.sensitivity is Sensitivity.OWNER_PRIVATE
    del repository.world.repository["a"]
    assert chosen.snapshot().content.sensitivity is Sensitivity.REPOSITORY_PRIVATE


def test_what_the_selection_left_out_stays_left_out() -> None:
    repository = Repository()
    repository.add("a", "a", sensitivity=Sensitivity.OWNER_PRIVATE)
    repository.add("b", "b")
    chosen = Chosen(repository, clearance=Sensitivity.PUBLIC)
    del repository.world.repository["b"]
    assert chosen.excluded() == {"a": "sensitivity-clearance", "b": "missing-or-unreadable"}
    content = chosen.snapshot().content
    assert list(content.excluded) == sorted(content.excluded, key=lambda exclusion: exclusion.node_id)


# ---- edges ----------------------------------------------------------------------------------------------------------


def related() -> Chosen:
    repository = Repository()
    repository.world.repository["why"] = b"because"
    a, b = repository.add("a", "a"), repository.add("b", "b")
    repository.relate(REFERENCES, a, b, provenance(("why", "because")))
    return Chosen(repository)


def test_the_provenance_of_a_remaining_edge_refuses_all() -> None:
    chosen = related()
    chosen.repository.world.repository["why"] = b"otherwise"
    error = chosen.refusal()
    assert (error.reason, error.where) == (Reason.PROVENANCE_INVALID, "content/edges/0")


def test_the_provenance_of_an_edge_that_drops_out_is_not_read() -> None:
    chosen = related()
    del chosen.repository.world.repository["why"]
    del chosen.repository.world.repository["b"]
    assert chosen.snapshot().content.edges == ()


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_a_snapshot_names_its_chain_and_can_be_read_back() -> None:
    chosen = related()
    made = chosen.snapshot()
    content = made.content
    assert (content.graph_id, content.query_id) == (chosen.graph.artifact_id, chosen.query.artifact_id)
    assert (content.selection_id, content.as_of) == (chosen.selection.artifact_id, chosen.query.content.as_of)
    assert content.candidate == chosen.graph.content.candidate
    assert content.nodes == chosen.graph.content.nodes
    assert content.edges == chosen.graph.content.edges
    assert parse(render(made)) == made
    assert chosen.snapshot() == made


def test_a_selection_of_another_graph_is_refused_before_anything_is_read() -> None:
    chosen, other = related(), contradicting()
    with pytest.raises(Refused) as caught:
        snapshot(other.graph, chosen.selection, chosen.repository.world)
    assert (caught.value.reason, caught.value.where, chosen.repository.world.reads) == (Reason.CHAIN_MISMATCH, "content/graph_id", [])


@pytest.mark.parametrize("member", ["reasons", "phase", "excluded", "edges"])
def test_a_selection_that_its_query_does_not_give_is_refused(member: str) -> None:
    chosen = contradicting()
    content: Any = plain(chosen.selection)["content"]
    if member == "reasons":
        content["selected"][0]["reasons"] = ["on a whim"]
    elif member == "phase":
        content["selected"][0]["rank"]["phase"] = 3
    elif member == "excluded":
        content["excluded"] = [{"node_id": "CTX-NODE-" + "0" * 64, "reason": "because", "details": []}]
    else:
        content["selected_edge_ids"], content["unresolved_contradiction_ids"] = [], []
    forged = seal(convert(content, Selection))
    assert parse(render(forged)) == forged
    with pytest.raises(Refused) as caught:
        snapshot(chosen.graph, forged, chosen.repository.world)
    assert (caught.value.reason, chosen.repository.world.reads) == (Reason.CHAIN_MISMATCH, [])


@pytest.mark.parametrize(("member", "value"), [("git_head", "0" * 40), ("digest", "0" * 64)])
def test_the_tree_is_the_candidate_before_and_after(member: str, value: str) -> None:
    chosen = related()
    setattr(chosen.repository.world, member, value)
    assert chosen.refusal().reason is Reason.CANDIDATE_MISMATCH
    assert chosen.repository.world.reads == []
    chosen = related()
    chosen.repository.world.before_read = lambda path: setattr(chosen.repository.world, member, value)
    assert chosen.refusal().reason is Reason.CANDIDATE_MISMATCH
    assert chosen.repository.world.reads != []


def with_owner(clearance: Sensitivity) -> Chosen:
    repository = Repository()
    repository.add("note.md", "mine\n", scope=RootScope.OWNER, sensitivity=Sensitivity.OWNER_PRIVATE)
    return Chosen(repository, clearance=clearance)


def test_an_owner_root_is_given_exactly_where_a_selected_node_lies_under_it() -> None:
    chosen = with_owner(Sensitivity.OWNER_PRIVATE)
    assert len(chosen.snapshot(owner_root=True).content.nodes) == 2
    assert chosen.refusal(owner_root=False).message == "there are owner sources and no owner root is given"
    chosen = with_owner(Sensitivity.PUBLIC)
    assert len(chosen.snapshot(owner_root=False).content.nodes) == 1
    assert chosen.refusal(owner_root=True).message == "an owner root is given and no source lies under it"


def test_references_of_an_owner_node_lie_under_the_owner_root() -> None:
    repository = Repository()
    repository.world.owner["why"] = b"because"
    repository.add("note.md", "mine\n", scope=RootScope.OWNER, references=(("why", "because"),))
    chosen = Chosen(repository)
    assert chosen.excluded() == {}
    del repository.world.owner["why"]
    repository.world.repository["why"] = b"because"
    assert chosen.excluded() == {"note.md": "provenance-unavailable"}


def test_a_window_that_ended_since_is_not_the_snapshots_to_judge() -> None:
    repository = Repository()
    repository.add("a", "a", freshness=expires("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z"))
    chosen = Chosen(repository, as_of="2001-01-02T00:00:00Z")
    assert chosen.excluded() == {}
