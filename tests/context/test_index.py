"""Manifest → Graph (FORMAT 6): what excludes an optional source, refuses a required one, and is read in which order."""

from __future__ import annotations

from typing import Any

import pytest

from sdaqf_tasks.context.index import index
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.formats.artifacts import Artifact, Graph, parse, render
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, RootScope, Sensitivity, Source
from sdaqf_tasks.world import Observed
from tests.builders import (
    DIGEST,
    HEAD,
    IMMUTABLE,
    SPECIFICATION,
    Repository,
    candidate,
    expires,
    manifest,
    node_of,
    provenance,
    sha256,
    source,
    specification,
)
from tests.keys import KEY
from tests.simulator import World


def refusal(repository: Repository, **how: Any) -> SdaqfError:
    with pytest.raises(SdaqfError) as caught:
        index(repository.manifest(), repository.world, **({"owner_root": repository.owner_root} | how))
    return caught.value


def exclusions(graph: Artifact[Graph]) -> dict[str, str]:
    assert all(excluded.details == () for excluded in graph.content.excluded_sources)
    return {excluded.source_id: excluded.reason for excluded in graph.content.excluded_sources}


class Failing(Repository):
    """A repository in which one source, `self.source`, cannot be adopted; `required` says whether that matters."""

    def __init__(self, *, required: bool, **fields: Any) -> None:
        super().__init__()
        plain: dict[str, Any] = {"path": "e/a.json", "text": "{}", "required": required}
        self.source = self.add(**(plain | fields))


def a_claim_without_a_self_reference(**how: Any) -> Repository:
    made = Failing(kind=Kind.TEST, authority=Authority.VERIFIED_EVIDENCE, references=(("docs/spec.md", SPECIFICATION),), **how)
    del made.world.repository["e/a.json"]  # the authority comes before anything is read
    return made


def a_claim_that_its_kind_does_not_allow(**how: Any) -> Repository:
    made = Failing(kind=Kind.TEST, authority=Authority.VERIFIED_EVIDENCE, **how)
    del made.world.repository["e/a.json"]
    return made


def a_wrong_reference(**how: Any) -> Repository:
    made = Failing(references=(("docs/spec.md", "an older one"),), **how)
    del made.world.repository["e/a.json"]  # references come before the source
    return made


def a_changed_file_that_vouches_for_itself(**how: Any) -> Repository:
    made = Failing(**how)
    made.world.repository["e/a.json"] = b"{ }"
    return made


def a_large_reference(**how: Any) -> Repository:
    made = Failing(references=(("big", "x" * 1_048_577),), **how)
    made.world.repository["big"] = b"x" * 1_048_577
    return made


def a_large_source(**how: Any) -> Repository:
    return Failing(text="x" * 262_145, references=(("docs/spec.md", SPECIFICATION),), **how)


def a_file_that_moves(**how: Any) -> Repository:
    made = Failing(references=(("docs/spec.md", SPECIFICATION),), **how)

    class Moving(World):
        def read(self, scope: RootScope, path: str, limit: int) -> Observed:
            if path == "e/a.json":
                raise Unreadable(Reason.CHANGED, "e/a.json changed while it was read")
            return super().read(scope, path, limit)

    made.world = Moving(made.world.repository, digest=DIGEST)
    return made


def a_changed_file_with_intact_references(**how: Any) -> Repository:
    made = Failing(references=(("docs/spec.md", SPECIFICATION),), **how)
    made.world.repository["e/a.json"] = b"\xff\xfe"  # the digest comes before the decoding
    return made


def a_missing_file(**how: Any) -> Repository:
    made = Failing(references=(("docs/spec.md", SPECIFICATION),), **how)
    del made.world.repository["e/a.json"]
    return made


def a_missing_self_reference(**how: Any) -> Repository:
    made = Failing(**how)
    del made.world.repository["e/a.json"]
    return made


def a_missing_reference(**how: Any) -> Repository:
    return Failing(references=(("docs/none.md", ""),), **how)


def bytes_that_are_no_text(**how: Any) -> Repository:
    return Failing(text=b"\xff", **how)


def a_binary_file(**how: Any) -> Repository:
    return Failing(text="one\ntwo\0\n", lines=(1, 1), **how)


def lines_that_are_not_there(**how: Any) -> Repository:
    return Failing(text="one\n", lines=(1, 2), **how)


def a_git_folder(**how: Any) -> Repository:
    return Failing(path="sub/.GIT/config", references=(("docs/spec.md", SPECIFICATION),), **how)


def an_immutable_file_that_is_no_json(**how: Any) -> Repository:
    evidence: dict[str, Any] = {"kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE, "freshness": IMMUTABLE}
    return Failing(text='{}\n{"a": 1.5}\n', lines=(1, 1), **evidence, **how)


def an_immutable_file_that_is_large_json(**how: Any) -> Repository:
    evidence: dict[str, Any] = {"kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE, "freshness": IMMUTABLE}
    return Failing(text="[" * 66 + "]" * 66 + "\n" + KEY + "x" * 65_536, lines=(2, 2), **evidence, **how)


def a_long_text(**how: Any) -> Repository:
    return Failing(text=KEY + "x" * 65_517, **how)  # the length comes before the look for secrets


def a_secret(**how: Any) -> Repository:
    return Failing(text=f"key: {KEY}\n", **how)


ROWS = [
    (a_claim_without_a_self_reference, Reason.PROVENANCE_INVALID),
    (a_claim_that_its_kind_does_not_allow, Reason.AUTHORITY_INVALID),
    (a_wrong_reference, Reason.PROVENANCE_INVALID),
    (a_changed_file_that_vouches_for_itself, Reason.PROVENANCE_INVALID),
    (a_large_reference, Reason.SOURCE_BYTE_LIMIT),
    (a_large_source, Reason.SOURCE_BYTE_LIMIT),
    (a_file_that_moves, Reason.CHANGED),
    (a_changed_file_with_intact_references, Reason.DIGEST_MISMATCH),
    (a_missing_file, Reason.MISSING_OR_UNREADABLE),
    (a_missing_self_reference, Reason.MISSING_OR_UNREADABLE),
    (a_missing_reference, Reason.MISSING_OR_UNREADABLE),
    (bytes_that_are_no_text, Reason.MISSING_OR_UNREADABLE),
    (a_binary_file, Reason.MISSING_OR_UNREADABLE),
    (lines_that_are_not_there, Reason.MISSING_OR_UNREADABLE),
    (a_git_folder, Reason.MISSING_OR_UNREADABLE),
    (an_immutable_file_that_is_no_json, Reason.INVALID_JSON),
    (an_immutable_file_that_is_large_json, Reason.INVALID_JSON),
    (a_long_text, Reason.SOURCE_TEXT_LIMIT),
    (a_secret, Reason.SECRET_SHAPED),
]


@pytest.mark.parametrize(("repository", "reason"), ROWS, ids=lambda part: getattr(part, "__name__", None))
def test_an_optional_source_that_fails_is_excluded_with_its_reason(repository: Any, reason: Reason) -> None:
    made: Failing = repository(required=False)
    graph = made.graph()
    assert exclusions(graph) == {made.source.source_id: reason.value}
    assert [node.source_id for node in graph.content.nodes] == [made.specification.source_id]


@pytest.mark.parametrize(("repository", "reason"), ROWS, ids=lambda part: getattr(part, "__name__", None))
def test_a_required_source_that_fails_refuses_all_with_the_same_reason(repository: Any, reason: Reason) -> None:
    made: Failing = repository(required=True)
    error = refusal(made)
    position = made.manifest().content.sources.index(made.source)
    assert (type(error), error.reason, error.where) == (Refused, reason, f"content/sources/{position}")
    assert error.message.startswith(f"required source {made.source.locator.path}: ")


def test_a_source_may_have_262144_bytes_and_a_reference_1048576() -> None:
    repository = Repository()
    repository.world.repository["big"] = b"x" * 1_048_576
    text = ("x" * 63 + "\n") * 4_096
    large = repository.add("a", text, lines=(1, 1_024), references=(("big", "x" * 1_048_576),))
    assert len(text) == 262_144
    node = node_of(repository.graph(), large)
    assert (len(node.text), node.text_sha256, node.locator.sha256) == (65_536, sha256(text[:65_536]), sha256(text))


def test_the_selected_text_is_not_altered() -> None:
    repository = Repository()
    part = repository.add("a", "a\x85b\u2028c\x1cd\x0be\rf\r\ng", lines=(4, 5))
    last = repository.add("a", "a\x85b\u2028c\x1cd\x0be\rf\r\ng", lines=(6, 6))
    empty = repository.add("b", "")
    marked = repository.add("c", "\ufeffx\r\r\n")
    graph = repository.graph()
    texts = [node_of(graph, source).text for source in (part, last, empty, marked)]
    assert texts == ["d\x0be\r", "f\r\n", "", "\ufeffx\r\r\n"]


def test_a_secret_outside_the_selected_lines_does_not_matter() -> None:
    repository = Repository()
    part = repository.add("a", f"fine\n{KEY}\n", lines=(1, 1))
    assert node_of(repository.graph(), part).text == "fine\n"


# ---- the total ------------------------------------------------------------------------------------------------------


def in_order(count: int, *, text: str, **fields: Any) -> tuple[Repository, list[Source]]:
    """A repository with `count` sources of one whole file each, and those sources in the order in which they are taken."""
    repository = Repository()
    for number in range(count):
        repository.add(f"d/{number}", text, lines=(1, 1), **fields)
    return repository, [made for made in repository.manifest().content.sources if made != repository.specification]


def test_the_files_of_all_sources_have_8388608_bytes_together() -> None:
    specification_bytes = len(SPECIFICATION)
    line = "x" * 65_535 + "\n"
    repository, _ = in_order(31, text=line * 4)
    left = 8_388_608 - specification_bytes - 31 * 262_144
    repository.add("last", line * 3 + "y" * (left - 3 * 65_536), lines=(1, 1))
    assert exclusions(repository.graph()) == {}

    repository.sources.pop()
    repository.add("last", line * 3 + "y" * (left - 3 * 65_536 + 1), lines=(1, 1))
    last_taken = repository.manifest().content.sources[-1]
    assert exclusions(repository.graph()) == {last_taken.source_id: "total-source-byte-limit"}


def test_a_source_over_the_total_is_not_counted_and_later_smaller_ones_fit() -> None:
    line = "x" * 65_535 + "\n"
    repository, large = in_order(40, text=line * 4)
    small = [repository.add(f"s/{number}", "small\n") for number in range(12)]
    order = repository.manifest().content.sources
    graph = repository.graph()
    total, over = 0, set()
    for member in order:  # the rule of FORMAT 6 (5e), word by word
        size = len(repository.world.repository[member.locator.path])
        if total + size > 8_388_608:
            over.add(member.source_id)
        else:
            total += size
    assert exclusions(graph) == dict.fromkeys(over, "total-source-byte-limit")
    assert len(over) == 9
    assert over < {member.source_id for member in large}
    later = [member for member in small if order.index(member) > min(order.index(member) for member in large if member.source_id in over)]
    assert later and all(node_of(graph, member) for member in later)


def test_every_range_of_one_file_counts_the_whole_file() -> None:
    line = "x" * 4_095 + "\n"
    repository = Repository()
    for number in range(1, 33):
        repository.add("a", line * 64, lines=(number, number))
    assert list(exclusions(repository.graph()).values()) == ["total-source-byte-limit"]


def test_a_text_over_its_limit_does_not_count_towards_the_total() -> None:
    repository, _ = in_order(31, text=("x" * 65_535 + "\n") * 4)
    repository.sources = [repository.specification, *repository.sources[1:]]
    left = 8_388_608 - len(SPECIFICATION) - 31 * 262_144
    long = repository.add("long", "x" * 65_537)
    repository.add("rest", "\n" + "y" * (left - 1), lines=(1, 1))
    assert exclusions(repository.graph()) == {long.source_id: "source-text-limit"}


# ---- the whole ------------------------------------------------------------------------------------------------------


def test_the_graph_holds_what_the_manifest_names_and_can_be_read_back() -> None:
    repository = Repository()
    kept = repository.add("a", "x", sensitivity=Sensitivity.REPOSITORY_PRIVATE)
    lost = repository.add("b", "y", sensitivity=Sensitivity.OWNER_PRIVATE)
    del repository.world.repository["b"]
    graph = repository.graph()
    content = graph.content
    assert content.candidate == candidate()
    assert content.manifest_id == repository.manifest().artifact_id
    assert content.sensitivity is Sensitivity.REPOSITORY_PRIVATE
    assert repository.manifest().content.sensitivity is Sensitivity.OWNER_PRIVATE
    assert {node.source_id for node in content.nodes} == {repository.specification.source_id, kept.source_id}
    assert exclusions(graph) == {lost.source_id: "missing-or-unreadable"}
    assert parse(render(graph)) == graph


@pytest.mark.parametrize(("member", "value"), [("git_head", "0" * 40), ("digest", "0" * 64)])
def test_the_tree_is_the_candidate_before_anything_is_read(member: str, value: str) -> None:
    repository = Repository()
    setattr(repository.world, member, value)
    error = refusal(repository)
    where = {"git_head": "candidate/git_head", "digest": "candidate/repository_digest"}[member]
    assert (error.reason, error.where, repository.world.reads) == (Reason.CANDIDATE_MISMATCH, where, [])


@pytest.mark.parametrize(("member", "value"), [("git_head", "0" * 40), ("digest", "0" * 64)])
def test_a_tree_that_changes_meanwhile_refuses_all(member: str, value: str) -> None:
    repository = Repository()
    repository.add("a", "x")
    repository.world.before_read = lambda path: setattr(repository.world, member, value)
    assert refusal(repository).reason is Reason.CANDIDATE_MISMATCH
    assert len(repository.world.reads) == 4


@pytest.mark.parametrize(
    "fields",
    [{"required": False}, {"authority": Authority.REPOSITORY_RECORD}, {"text": "another\n"}],
    ids=["optional", "none", "another file"],
)
def test_there_is_one_canonical_specification_and_it_is_the_candidates(fields: dict[str, Any]) -> None:
    world = World({"docs/spec.md": b"another\n"}, digest=DIGEST)
    with pytest.raises(Refused) as caught:
        index(manifest((specification(**fields),)), world)
    assert (caught.value.reason, caught.value.where, world.reads) == (Reason.CANONICAL_INVALID, "content/sources", [])


def test_a_second_canonical_specification_refuses_all() -> None:
    repository = Repository()
    repository.take(specification(path="docs/more.md"), SPECIFICATION)
    error = refusal(repository)
    assert (error.reason, error.message) == (Reason.CANONICAL_INVALID, "2 canonical specifications; exactly one is needed")


def test_the_same_lines_of_one_file_are_one_source() -> None:
    repository = Repository()
    repository.add("a", "one\ntwo\n", lines=(1, 1))
    repository.add("a", "one\ntwo\n", lines=(1, 2))
    repository.add("a", "one\ntwo\n", lines=(1, 1), scope=RootScope.OWNER)
    assert len(repository.graph().content.nodes) == 4
    repository.add("a", "one\ntwo\n", lines=(1, 1), title="again")
    error = refusal(repository)
    assert (error.reason, error.message) == (Reason.DUPLICATE_LOCATOR, "a lines 1 to 1 twice")


# ---- the owner root -------------------------------------------------------------------------------------------------


def test_an_owner_root_is_given_exactly_where_a_source_lies_under_it() -> None:
    repository = Repository()
    error = refusal(repository, owner_root=True)
    assert (error.reason, error.message) == (Reason.OWNER_ROOT, "an owner root is given and no source lies under it")
    note = repository.add("note.md", "mine\n", scope=RootScope.OWNER)
    error = refusal(repository, owner_root=False)
    assert (error.reason, error.message) == (Reason.OWNER_ROOT, "there are owner sources and no owner root is given")
    assert repository.world.reads == []
    assert node_of(repository.graph(), note).text == "mine\n"


def test_an_owner_root_that_is_no_folder_excludes_every_optional_owner_source() -> None:
    repository = Repository()
    notes = [repository.add(f"{name}.md", "mine\n", scope=RootScope.OWNER) for name in "ab"]
    repository.world.owner.clear()
    assert exclusions(repository.graph()) == {note.source_id: "missing-or-unreadable" for note in notes}


def test_a_reference_of_a_source_lies_under_the_root_of_the_source() -> None:
    repository = Repository()
    note = repository.add("note.md", "mine\n", scope=RootScope.OWNER, references=(("why.md", "because\n"),))
    repository.world.repository["why.md"] = b"because\n"
    assert exclusions(repository.graph()) == {note.source_id: "missing-or-unreadable"}
    repository.world.owner["why.md"] = b"because\n"
    assert exclusions(repository.graph()) == {}


# ---- relationships --------------------------------------------------------------------------------------------------


def test_a_relationship_without_two_nodes_is_skipped_and_its_provenance_not_read() -> None:
    repository = Repository()
    kept, lost = repository.add("a", "x"), repository.add("b", "y")
    del repository.world.repository["b"]
    repository.relate(EdgeType.REFERENCES, kept, lost, provenance(("nowhere", "")))
    assert repository.graph().content.edges == ()
    assert (RootScope.REPOSITORY, "nowhere") not in repository.world.reads


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({}, Reason.MISSING_OR_UNREADABLE),
        ({"why": b"other"}, Reason.PROVENANCE_INVALID),
        ({"why": b"x" * 1_048_577}, Reason.SOURCE_BYTE_LIMIT),
    ],
)
def test_the_provenance_of_a_relationship_refuses_all(files: dict[str, bytes], reason: Reason) -> None:
    repository = Repository()
    one, other = repository.add("a", "x"), repository.add("b", "y")
    repository.relate(EdgeType.REFERENCES, one, other)
    repository.relate(EdgeType.VERIFIES, one, other, provenance(("why", "because")))
    repository.world.repository |= files
    error = refusal(repository)
    assert (error.reason, error.where) == (reason, "content/relationships/1")
    assert error.message.startswith("the provenance of a relationship (verifies): ")


def test_the_provenance_of_a_relationship_lies_in_the_repository_even_between_owner_sources() -> None:
    repository = Repository()
    one, other = (repository.add(name, name, scope=RootScope.OWNER) for name in "ab")
    repository.relate(EdgeType.REFERENCES, one, other, provenance(("why", "because")))
    repository.world.owner["why"] = b"because"
    assert refusal(repository).reason is Reason.MISSING_OR_UNREADABLE
    repository.world.repository["why"] = b"because"
    assert len(repository.graph().content.edges) == 1


def test_directed_edges_keep_their_direction_and_contradictions_ascend_by_node() -> None:
    turned = 0
    for number in range(12):
        repository = Repository()
        one, other = repository.add("a", f"{number}"), repository.add("b", f"{number}")
        repository.relate(EdgeType.DEPENDS_ON, other, one)
        related = repository.relate(EdgeType.CONTRADICTS, one, other)
        graph = repository.graph()
        ids = {member.source_id: node_of(graph, member).node_id for member in (one, other)}
        ends = {edge.edge_type: (edge.source_node_id, edge.target_node_id) for edge in graph.content.edges}
        assert ends[EdgeType.DEPENDS_ON] == (ids[other.source_id], ids[one.source_id])
        assert ends[EdgeType.CONTRADICTS] == tuple(sorted(ids.values()))
        turned += ids[related.source_id] > ids[related.target_id]
    assert 0 < turned < 12, "some of these have their nodes in the opposite order of their sources"


def test_a_tool_observation_that_expired_is_indexed_all_the_same() -> None:
    repository = Repository()
    window = expires("2001-01-01T00:00:00Z", "2001-01-02T00:00:00Z")
    seen = repository.add("out.txt", "seen\n", kind=Kind.TOOL_OBSERVATION, authority=Authority.UNTRUSTED_OBSERVATION, freshness=window)
    assert node_of(repository.graph(), seen).freshness == window


def test_a_manifest_is_unchanged_by_being_indexed() -> None:
    repository = Repository()
    repository.add("a", "x")
    before = render(repository.manifest())
    assert repository.graph() == repository.graph()
    assert render(repository.manifest()) == before
    assert repository.world.git_head == HEAD


def test_the_order_in_which_files_are_read_is_references_then_source() -> None:
    world = World({"docs/spec.md": SPECIFICATION.encode(), "a": b"x", "r/1": b"1", "r/2": b"2"}, digest=DIGEST)
    named = source("a", "x", references=(("r/2", "2"), ("r/1", "1")), authority=Authority.REPOSITORY_RECORD)
    index(manifest((specification(), named)), world)
    paths = [path for _, path in world.reads]
    assert [path for path in paths if path != "docs/spec.md"] == ["r/1", "r/2", "a"]
