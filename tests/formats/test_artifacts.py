"""The eight artifacts (FORMAT 2 and 3.7 to 3.14): envelope, identity, and what relates the members of one artifact."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import Invalid, Malformed, Reason, SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import (
    PREFIXES,
    TYPES,
    Artifact,
    Compaction,
    ExcludedSource,
    Extract,
    Graph,
    HostSummaryProposal,
    Manifest,
    QualityReport,
    Query,
    Relationship,
    Selection,
    convert,
    parse,
    publishable,
    render,
    seal,
)
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, Sensitivity
from tests import scenarios
from tests.builders import (
    REMOVED,
    changed,
    edge,
    enveloped,
    graph,
    manifest,
    node,
    plain,
    provenance,
    relationship,
    resealed,
    sha256,
    source,
    specification,
    specification_node,
)
from tests.examples import ARTIFACTS, CHAIN, COMPACTION, MANIFEST, PROPOSAL, REPORT

MUTANTS = [json.loads(line) for line in (scenarios.VECTORS / "validate-mutants.jsonl").read_text("utf-8").splitlines()]


def refusal(data: bytes | dict[str, Any], wanted: type[Any] | None = None) -> SdaqfError:
    with pytest.raises(SdaqfError) as caught:
        parse(data if isinstance(data, bytes) else json.dumps(data).encode(), wanted)
    return caught.value


def refused(data: bytes | dict[str, Any], where: str, message: str, reason: Reason = Reason.CONTRACT_INVALID) -> None:
    error = refusal(data)
    assert (error.reason, error.where, error.message) == (reason, where, message)


def content_of(artifact: Artifact[Any], **members: Any) -> dict[str, Any]:
    content: dict[str, Any] = plain(artifact)["content"]
    return content | members


def altered(artifact: Artifact[Any], path: str, new: Any) -> dict[str, Any]:
    """The artifact with one member changed and every own id made to fit again."""
    made: dict[str, Any] = resealed(changed(plain(artifact), "content/" + path, new))
    return made


# ---- vectors --------------------------------------------------------------------------------------------------------


def test_every_mutant_has_its_verdict() -> None:
    wrong = []
    for number, case in enumerate(MUTANTS):
        try:
            parse(json.dumps(case["artifact"]).encode())
        except SdaqfError:
            verdict = "refuse"
        else:
            verdict = "accept"
        if verdict != case["verdict"]:
            wrong.append(number)
    assert (len(MUTANTS), wrong) == (480, [])


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda artifact: f"{artifact.artifact_type}-{artifact.artifact_id[-6:]}")
def test_what_is_rendered_parses_to_the_same_and_renders_the_same(artifact: Artifact[Any]) -> None:
    data = render(artifact)
    assert data == json.dumps(json.loads(data), indent=2, sort_keys=True).encode() + b"\n"
    assert parse(data) == artifact
    assert parse(json.dumps(json.loads(data), ensure_ascii=False, indent=None).encode("utf-8")) == artifact
    assert render(parse(data)) == data


# ---- envelope and identity ------------------------------------------------------------------------------------------


def test_the_types_and_their_prefixes_are_those_of_the_format() -> None:
    assert {name: PREFIXES[content] for name, content in TYPES.items()} == {
        "context-manifest": "CTX-MANIFEST-",
        "context-graph": "CTX-GRAPH-",
        "context-query": "CTX-QUERY-",
        "context-selection": "CTX-SELECTION-",
        "context-snapshot": "CTX-SNAPSHOT-",
        "context-compaction": "CTX-COMPACTION-",
        "context-host-summary-proposal": "CTX-HOST-SUMMARY-PROPOSAL-",
        "context-quality-report": "CTX-QUALITY-REPORT-",
    }


@pytest.mark.parametrize("name", ["artifact_id", "artifact_type", "content", "schema_version"])
def test_an_envelope_has_four_members(name: str) -> None:
    refused(changed(plain(CHAIN.query), name, REMOVED), name, "is missing")


def test_an_envelope_has_no_fifth_member() -> None:
    refused(plain(CHAIN.query) | {"kind\n": 1}, "kind\\n", "is no member here")


@pytest.mark.parametrize("version", ["1", "1.0.0", "1.1", "", 1, 1.0 == 1, None])
def test_only_one_version_is_known(version: Any) -> None:
    error = refusal(plain(CHAIN.query) | {"schema_version": version})
    assert (error.reason, error.where) == (Reason.CONTRACT_INVALID, "schema_version")


@pytest.mark.parametrize("name", ["context-queries", "Context-Query", "", None, 1, ["context-query"], {}])
def test_only_eight_types_are_known(name: Any) -> None:
    error = refusal(plain(CHAIN.query) | {"artifact_type": name})
    assert (error.reason, error.where) == (Reason.CONTRACT_INVALID, "artifact_type")


@pytest.mark.parametrize(("data", "found"), [(b"[]", "array"), (b"1", "int"), (b"null", "null"), (b'"x"', "str")])
def test_an_artifact_is_an_object(data: bytes, found: str) -> None:
    refused(data, "", f"expected 'object', got '{found}'")


@pytest.mark.parametrize("content", [[], None, "x", 1])
def test_a_content_is_an_object(content: Any) -> None:
    error = refusal(plain(CHAIN.query) | {"content": content})
    assert (error.reason, error.where) == (Reason.CONTRACT_INVALID, "content")


def test_the_id_is_that_of_the_content() -> None:
    for artifact in ARTIFACTS:
        assert artifact.artifact_id == PREFIXES[type(artifact.content)] + canonical.digest(canonical.encode(plain(artifact)["content"]))
    other = seal(CHAIN.query.content).artifact_id[:-1] + "X"
    refused(plain(CHAIN.query) | {"artifact_id": other}, "artifact_id", "is not the identity of the content", Reason.IDENTITY_MISMATCH)


def test_an_artifact_of_another_type_than_wanted_is_refused_as_such() -> None:
    error = refusal(render(CHAIN.query), Graph)
    assert (error.reason, error.where) == (Reason.ARTIFACT_TYPE, "artifact_type")
    assert error.message == "a context-query, where a context-graph belongs"
    assert parse(render(CHAIN.query), Query) == CHAIN.query


@pytest.mark.parametrize("artifact", [CHAIN.query, PROPOSAL], ids=lambda artifact: artifact.artifact_type)
def test_a_small_artifact_has_one_mebibyte_with_its_white_space(artifact: Artifact[Any]) -> None:
    data = render(artifact)
    assert parse(data.ljust(1_048_576)) == artifact
    error = refusal(data.ljust(1_048_577))
    assert (type(error), error.reason) == (Malformed, Reason.TOO_LARGE)


def test_any_other_artifact_has_sixteen() -> None:
    data = render(CHAIN.graph)
    assert parse(data.ljust(16_777_216)) == CHAIN.graph
    assert refusal(data.ljust(16_777_217)).reason is Reason.TOO_LARGE


def claiming(texts: list[str]) -> Artifact[HostSummaryProposal]:
    rests_on = {"source_node_ids": ["CTX-NODE-" + "0" * 64], "extract_sha256s": ["0" * 64]}
    return seal(convert(content_of(PROPOSAL, claims=[{"claim": text} | rests_on for text in texts]), HostSummaryProposal))


def test_what_could_not_be_read_back_is_not_rendered() -> None:
    texts = ["é" * 620] * 256
    left = 1_048_576 - len(canonical.render(claiming(texts)))
    assert 0 < left < 256 * 3_000
    texts = [text + "x" * max(0, min(3_000, left - 3_000 * number)) for number, text in enumerate(texts)]
    full = claiming(texts)
    assert len(render(full)) == 1_048_576
    assert parse(render(full)) == full
    with pytest.raises(Malformed) as caught:
        render(claiming([*texts[:-1], texts[-1] + "x"]))
    assert caught.value.reason is Reason.TOO_LARGE
    assert caught.value.message == "the context-host-summary-proposal would have 1048577 bytes; at most 1048576 can be read back"


# ---- refusals name the member ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("artifact", "path", "new", "where", "message"),
    [
        (
            CHAIN.graph,
            "nodes/1/locator/path",
            "a//b",
            "nodes/1/locator/path",
            "not a portable path: relative, of A-Z a-z 0-9 . _ - /, no component empty, ., .., ending in a dot, or a device of Windows",
        ),
        (CHAIN.graph, "nodes/0/provenance/references/0/sha256", 5, "nodes/0/provenance/references/0/sha256", "expected 'str', got 'int'"),
        (CHAIN.graph, "nodes/0/labels", ["b", "a"], "nodes/0/labels/1", "not ascending"),
        (CHAIN.graph, "nodes/0/labels", ["a", " "], "nodes/0/labels/1", "blank"),
        (CHAIN.graph, "nodes/2/kind", "poem", "nodes/2/kind", "not one of the words that are allowed here"),
        (CHAIN.graph, "nodes/2/unknown", 1, "nodes/2/unknown", "is no member here"),
        (CHAIN.graph, "nodes/2/title", REMOVED, "nodes/2/title", "is missing"),
        (CHAIN.selection, "selected/0/rank/phase", -1, "selected/0/rank/phase", "expected 'int' >= 0"),
        (CHAIN.selection, "query/budget/max_nodes", 0, "query/budget/max_nodes", "expected 'int' >= 1"),
        (CHAIN.query, "seed_node_ids", ["x"], "seed_node_ids/0", "not an id CTX-NODE-… with 64 uppercase hexadecimal digits"),
        (PROPOSAL, "claims/0/claim", "\t", "claims/0/claim", "blank"),
        (COMPACTION, "extracts/0/required", "yes", "extracts/0/required", "expected 'bool', got 'str'"),
    ],
)
def test_a_refusal_names_the_member(artifact: Artifact[Any], path: str, new: Any, where: str, message: str) -> None:
    refused(altered(artifact, path, new), "content/" + where, message)


@pytest.mark.parametrize("artifact", [CHAIN.query, CHAIN.graph, PROPOSAL, REPORT], ids=lambda artifact: artifact.artifact_type)
def test_no_refusal_quotes_more_than_a_little_of_the_input(artifact: Artifact[Any]) -> None:
    long, wild = "Q" * 5_000, "\x1b[31m\u202e\n\x07é"
    for loud in (long, wild):
        for envelope in (
            *(mutant for mutant in places(plain(artifact), loud)),
            plain(artifact) | {loud: 1},
            changed(plain(artifact), "content", plain(artifact)["content"] | {loud: 1}),
        ):
            error = refusal(json.dumps(envelope).encode())
            assert "Q" * 81 not in str(error)
            assert len(str(error)) < 300
            assert "\\x1b" in str(error) or "\x1b" not in str(error)
            assert str(error).replace("…", "").isprintable()


def places(value: Any, new: Any) -> Any:
    """Copies of a value with each leaf in turn replaced by `new`."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            for below in places(item, new):
                copied = value.copy()
                copied[key] = below
                yield copied
    elif value != new:
        yield new


# ---- Manifest -------------------------------------------------------------------------------------------------------

SPEC, A, B = specification(), source("docs/a.md", "a\n"), source("docs/b.md", "b\n")


def test_the_sources_of_a_manifest_ascend_by_id() -> None:
    made = manifest((SPEC, A, B), (relationship(EdgeType.REFERENCES, SPEC, A),))
    assert parse(render(made)) == made
    refused(altered(made, "sources", plain(made)["content"]["sources"][::-1]), "content/sources/1", "not ascending")


def test_a_manifest_is_as_sensitive_as_its_most_sensitive_source() -> None:
    made = manifest((SPEC, source(sensitivity=Sensitivity.REPOSITORY_PRIVATE)))
    assert made.content.sensitivity is Sensitivity.REPOSITORY_PRIVATE
    for other in ("public", "owner-private"):
        refused(altered(made, "sensitivity", other), "content/sensitivity", "is not the highest of its members")


def test_an_absent_sensitivity_counts_as_owner_private_for_the_whole_manifest() -> None:
    made = manifest((SPEC, source(sensitivity=Sensitivity.OWNER_PRIVATE)))
    at = next(number for number, member in enumerate(made.content.sources) if member != SPEC)
    bare = changed(plain(made), f"content/sources/{at}/sensitivity", REMOVED)
    assert parse(json.dumps(bare).encode()) == made


def test_relationships_ascend_by_type_and_ends_and_join_sources() -> None:
    related = [
        relationship(EdgeType.CONTRADICTS, A, B),
        relationship(EdgeType.REFERENCES, A, B),
        relationship(EdgeType.REFERENCES, B, A),
        relationship(EdgeType.VERIFIES, A, B),
    ]
    made = manifest((SPEC, A, B), related)
    assert parse(render(made)) == made
    given_ = plain(made)["content"]["relationships"]
    refused(altered(made, "relationships", given_[::-1]), "content/relationships/1", "not ascending")
    twice = [given_[0], given_[0] | {"provenance": plain(provenance(("docs/other.md", "x")))}]
    refused(altered(made, "relationships", twice), "content/relationships/1", "not ascending")
    stranger = [given_[0], given_[1] | {"target_id": "CTX-SOURCE-" + "F" * 64}]
    refused(altered(made, "relationships", stranger), "content/relationships/1", "relates something that is no source here")


def test_a_relationship_joins_two_sources_and_a_contradiction_ascends() -> None:
    one, other = sorted((A.source_id, B.source_id))
    related = plain(relationship(EdgeType.CONTRADICTS, A, B))
    assert convert(related, Relationship).source_id == one
    for ends, message in (
        ((other, one), "the ends of a contradiction ascend"),
        ((one, one), "related to itself"),
    ):
        with pytest.raises(Invalid, match=message):
            convert(related | {"source_id": ends[0], "target_id": ends[1]}, Relationship)


def test_a_manifest_is_not_held_against_the_rules_of_indexing() -> None:
    claims_too_much = source(authority=Authority.VERIFIED_EVIDENCE, kind=Kind.TEST)
    same_place = source("docs/a.md", "a\n", title="again")
    made = manifest((A, same_place, claims_too_much))
    assert parse(render(made)) == made


def test_a_manifest_has_1_to_4096_sources() -> None:
    sources = [source(f"d/{n}", "x") for n in range(4_097)]
    assert len(convert(plain(manifest(sources[1:]))["content"], Manifest).sources) == 4_096
    for wrong, message in ((sources, "expected 'array' of length <= 4096"), ([], "expected 'array' of length >= 1")):
        content = plain(manifest(sources[:1]))["content"] | {"sources": sorted(map(plain, wrong), key=lambda member: member["source_id"])}
        with pytest.raises(Invalid) as caught:
            convert(content, Manifest)
        assert (caught.value.where, caught.value.message) == ("sources", message)


def test_a_manifest_has_at_most_16384_relationships() -> None:
    sources = sorted((source(f"d/{n}", "x") for n in range(53)), key=lambda member: member.source_id)
    directed = sorted(EdgeType)[1:]
    related = [relationship(kind, one, other) for kind in directed for one in sources for other in sources if one is not other]
    content = manifest(sources).content
    allowed = plain(manifest(sources, related[:16_384]))["content"]
    assert len(convert(allowed, Manifest).relationships) == 16_384
    with pytest.raises(Invalid) as caught:
        convert(plain(content) | {"relationships": [plain(member) for member in related[:16_385]]}, Manifest)
    assert (caught.value.where, caught.value.message) == ("relationships", "expected 'array' of length <= 16384")


# ---- Graph ----------------------------------------------------------------------------------------------------------

ONE, OTHER = sorted((node("docs/a.md"), node("docs/b.md")), key=lambda member: member.node_id)


def test_the_nodes_of_a_graph_ascend_and_have_one_source_each() -> None:
    made = graph(ONE, OTHER)
    refused(altered(made, "nodes", plain(made)["content"]["nodes"][::-1]), "content/nodes/1", "not ascending")
    part = node("docs/a.md", "b\n")  # another text of the same source
    part = type(part).seal(source("docs/a.md"), "something else")
    doubled = graph(ONE, OTHER).content
    both = sorted((*doubled.nodes, part), key=lambda member: member.node_id)
    refused(altered(made, "nodes", [plain(member) for member in both]), "content/nodes", "two nodes of one source")


def test_a_graph_is_as_sensitive_as_its_most_sensitive_node() -> None:
    made = graph(node(sensitivity=Sensitivity.OWNER_PRIVATE))
    refused(altered(made, "sensitivity", "repository-private"), "content/sensitivity", "is not the highest of its members")


def test_the_manifest_id_of_a_graph_is_not_verified() -> None:
    assert parse(json.dumps(altered(graph(ONE), "manifest_id", "CTX-MANIFEST-X-" + "0" * 64)).encode())


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([ONE], "0 canonical specifications; exactly one is needed"),
        ([specification_node(), specification_node(path="docs/more.md")], "2 canonical specifications; exactly one is needed"),
        ([specification_node(required=False)], "the canonical specification is a required one of the repository, and the candidate's"),
        ([specification_node("other\n")], "the canonical specification is a required one of the repository, and the candidate's"),
    ],
)
def test_a_graph_has_exactly_one_canonical_specification(nodes: list[Any], message: str) -> None:
    ordered = sorted(map(plain, nodes), key=lambda member: member["node_id"])
    refused(altered(graph(), "nodes", ordered), "content", message, Reason.CANONICAL_INVALID)


def test_the_authority_rule_holds_for_nodes_at_parse() -> None:
    made = graph(node(kind=Kind.DECISION, authority=Authority.ACCEPTED_PUBLIC_CONTRACT))
    at = next(number for number, member in enumerate(made.content.nodes) if member.kind is Kind.DECISION)
    error = refusal(altered(made, f"nodes/{at}/kind", "test"))
    assert (error.reason, error.where) == (Reason.AUTHORITY_INVALID, f"content/nodes/{at}/authority")


def test_the_text_of_a_graph_has_at_most_8_mebibytes() -> None:
    texts = [f"{n:04}" + "x" * 65_532 for n in range(128)]
    rest = len("# Specification\n")
    nodes = [node(f"d/{n}", text[: 65_536 - rest] if n == 0 else text) for n, text in enumerate(texts)]
    content = graph(*nodes).content
    assert sum(len(member.text) for member in content.nodes) == 8_388_608
    nodes[0] = node("d/0", texts[0][: 65_536 - rest + 1])
    with pytest.raises(Invalid) as caught:
        graph(*nodes)
    assert (caught.value.where, caught.value.message) == ("nodes", "more than 8388608 bytes of text")


def test_the_edges_of_a_graph_ascend_and_join_its_nodes() -> None:
    related = [edge(EdgeType.REFERENCES, ONE, OTHER), edge(EdgeType.CONTRADICTS, OTHER, ONE)]
    made = graph(ONE, OTHER, edges=related)
    refused(altered(made, "edges", plain(made)["content"]["edges"][::-1]), "content/edges/1", "not ascending")
    stranger = edge(EdgeType.REFERENCES, ONE, node("docs/c.md"))
    refused(altered(graph(ONE), "edges", [plain(stranger)]), "content/edges/0", "joins something that is no node here")


def test_parallel_edges_that_differ_in_provenance_are_taken() -> None:
    related = [edge(EdgeType.REFERENCES, ONE, OTHER), edge(EdgeType.REFERENCES, ONE, OTHER, provenance(("x", "y")))]
    assert len(parse(render(graph(ONE, OTHER, edges=related)), Graph).content.edges) == 2


def exclusion(number: int, **fields: Any) -> ExcludedSource:
    return ExcludedSource(**({"source_id": f"CTX-SOURCE-{number:064X}", "reason": "because", "details": ()} | fields))


def test_excluded_sources_ascend_and_have_no_node() -> None:
    made = graph(ONE, excluded=(exclusion(0), exclusion(1)))
    assert parse(render(made)) == made
    turned = plain(made)["content"]["excluded_sources"][::-1]
    refused(altered(made, "excluded_sources", turned), "content/excluded_sources/1", "not ascending")
    taken = [plain(exclusion(0, source_id=ONE.source_id))]
    refused(altered(made, "excluded_sources", taken), "content/excluded_sources", "excludes the source of a node")


def test_a_graph_has_at_most_4096_nodes_and_as_many_exclusions() -> None:
    nodes = [node(f"d/{n}", "") for n in range(4_096)]
    full = graph(*nodes[:4_095], excluded=[exclusion(n) for n in range(4_096)])
    content = plain(full)["content"]
    assert len(convert(content, Graph).nodes) == 4_096
    one_more = sorted((*content["nodes"], plain(nodes[4_095])), key=lambda member: member["node_id"])
    for wrong, where in (
        (content | {"nodes": one_more}, "nodes"),
        (content | {"excluded_sources": [plain(exclusion(n)) for n in range(4_097)]}, "excluded_sources"),
    ):
        with pytest.raises(Invalid) as caught:
            convert(wrong, Graph)
        assert (caught.value.where, caught.value.message) == (where, "expected 'array' of length <= 4096")


def test_a_graph_has_at_most_16384_edges() -> None:
    evidence = [provenance((f"p/{n}", "")) for n in range(16_385)]
    edges = sorted((edge(EdgeType.REFERENCES, ONE, OTHER, named) for named in evidence), key=lambda member: member.edge_id)
    content = plain(graph(ONE, OTHER))["content"]
    assert len(convert(content | {"edges": [plain(member) for member in edges[1:]]}, Graph).edges) == 16_384
    with pytest.raises(Invalid) as caught:
        convert(content | {"edges": [plain(member) for member in edges]}, Graph)
    assert (caught.value.where, caught.value.message) == ("edges", "expected 'array' of length <= 16384")


def with_values(count: int) -> Graph:
    """A Graph whose content has exactly `count` values: edges with many references, then details to make it even."""

    def edges(references: list[int]) -> list[Any]:
        paths = [[(f"e/{number}/{position:02}", "") for position in range(many)] for number, many in enumerate(references)]
        return [edge(EdgeType.REFERENCES, ONE, OTHER, provenance(*named)) for named in paths]

    def values(value: Any) -> int:
        return 1 + sum(map(values, value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()))

    bare = values(plain(graph(ONE, OTHER).content))
    full = values(plain(edges([64])[0]))
    many, rest = divmod(count - bare - 4, full)
    rest += 4
    details = []  # an exclusion has four values of its own and at most 16 details
    while rest:
        details.append(min(rest, 20 if rest >= 24 else max(rest - 4, 4) if rest > 20 else rest) - 4)
        rest -= details[-1] + 4
    made = [exclusion(number, details=tuple(f"{n:02}" for n in range(size))) for number, size in enumerate(details)]
    return graph(ONE, OTHER, edges=edges([64] * many), excluded=made).content


def test_a_content_of_250000_values_has_an_id_but_no_reader() -> None:
    """The limits hold for the content alone where an id is computed, and for the whole document where it is read."""
    readable = with_values(249_996)
    assert parse(render(seal(readable))) == seal(readable)
    unreadable = with_values(250_000)
    assert seal(unreadable).artifact_id.startswith("CTX-GRAPH-")
    with pytest.raises(Malformed, match="more than 250000 values"):
        render(seal(unreadable))
    refused(enveloped(Graph, plain(unreadable)), "", "more than 250000 values", Reason.MALFORMED_JSON)
    with pytest.raises(Malformed, match="more than 250000 values"):
        with_values(250_001)


# ---- Selection ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "new", "where", "message"),
    [
        ("candidate/git_head", "0" * 40, "candidate", "is not that of the query"),
        ("graph_id", "CTX-GRAPH-" + "0" * 64, "graph_id", "is not that of the query"),
        ("as_of", "2026-07-31T00:00:00.0Z", "as_of", "is not that of the query"),
        ("budget_bytes", 8_388_607, "budget_bytes", "is not that of the query"),
        ("used_bytes", 1, "used_bytes", "is not the sum of what was taken"),
        ("edge_cost_bytes", 0, "used_bytes", "is not the sum of what was taken"),
        ("selected/0/rank/node_id", "CTX-NODE-" + "0" * 64, "selected/0/rank/node_id", "is of another node"),
    ],
)
def test_a_selection_agrees_with_its_query_and_its_sums(path: str, new: Any, where: str, message: str) -> None:
    refused(altered(CHAIN.selection, path, new), "content/" + where, message)


def test_the_query_of_a_selection_has_the_id_that_is_named() -> None:
    envelope = changed(plain(CHAIN.selection), "content/query/terms", ["other"])
    envelope["artifact_id"] = PREFIXES[Selection] + sha256(canonical.encode(envelope["content"]))
    refused(envelope, "content/query_id", "is not the identity of the query", Reason.IDENTITY_MISMATCH)


def test_a_selection_may_use_its_whole_budget_and_no_byte_more() -> None:
    content = content_of(CHAIN.selection)
    used = content["used_bytes"]
    for budget, fits in ((used, True), (used - 1, False)):
        tight = changed(content, "query/budget/budget_bytes", budget) | {"budget_bytes": budget}
        data = json.dumps(resealed(json.loads(enveloped(Selection, tight)))).encode()
        if fits:
            assert parse(data, Selection).content.used_bytes == budget
        else:
            refused(data, "content/used_bytes", "exceeds the budget")


def test_the_order_of_decisions_is_free_and_their_nodes_are_unique() -> None:
    selected = content_of(CHAIN.selection)["selected"]
    assert parse(json.dumps(altered(CHAIN.selection, "selected", selected[::-1])).encode())
    twice = [*selected, selected[0] | {"reasons": ["other"]}]
    content = content_of(CHAIN.selection, selected=twice)
    content["used_bytes"] += selected[0]["cost_bytes"]
    refused(enveloped(Selection, content), "content/selected", "one node twice")


def test_what_is_excluded_ascends_and_was_not_taken() -> None:
    taken = CHAIN.selection.content.selected[0].node_id
    known = {"reason": "because", "details": []}
    ids = ["CTX-NODE-" + "0" * 64, "CTX-NODE-" + "F" * 64]
    assert parse(json.dumps(altered(CHAIN.selection, "excluded", [known | {"node_id": name} for name in ids])).encode())
    turned = [known | {"node_id": name} for name in ids[::-1]]
    refused(altered(CHAIN.selection, "excluded", turned), "content/excluded/1", "not ascending")
    refused(altered(CHAIN.selection, "excluded", [known | {"node_id": taken}]), "content/excluded", "holds a node that was taken")


def test_nothing_binds_the_edges_of_a_selection() -> None:
    strangers = ["CTX-EDGE-" + "0" * 64, "CTX-EDGE-X-" + "0" * 64]
    made = altered(CHAIN.selection, "unresolved_contradiction_ids", strangers)
    assert parse(json.dumps(made).encode(), Selection).content.unresolved_contradiction_ids == tuple(strangers)


# ---- Snapshot -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "new", "where", "message"),
    [
        ("selected/0/cost_bytes", 1, "selected/0/cost_bytes", "is not the cost of the node"),
        ("selected/1/rank/authority_rank", 6, "selected/1/rank", "is not the rank of the node"),
        ("selected/1/rank/sensitivity_rank", 3, "selected/1/rank", "is not the rank of the node"),
        ("unresolved_contradiction_ids", [], "unresolved_contradiction_ids", "is not the list of contradictions among the edges"),
        ("context_bytes", 0, "context_bytes", "is not the sum of nodes and edges"),
        ("edges", [], "unresolved_contradiction_ids", "is not the list of contradictions among the edges"),
    ],
)
def test_a_snapshot_agrees_with_its_nodes_and_edges(path: str, new: Any, where: str, message: str) -> None:
    refused(altered(CHAIN.snapshot, path, new), "content/" + where, message)


def test_the_decisions_of_a_snapshot_follow_its_nodes() -> None:
    selected = content_of(CHAIN.snapshot)["selected"]
    for wrong in (selected[::-1], selected[:-1]):
        refused(altered(CHAIN.snapshot, "selected", wrong), "content/selected", "is not the sequence of the nodes")


@pytest.mark.parametrize(("member", "new"), [("phase", 3), ("graph_distance", 7), ("lexical_score", 9)])
def test_phase_distance_score_and_reasons_of_a_snapshot_are_taken_as_they_are(member: str, new: int) -> None:
    assert parse(json.dumps(altered(CHAIN.snapshot, f"selected/0/rank/{member}", new)).encode())
    assert parse(json.dumps(altered(CHAIN.snapshot, "selected/0/reasons", ["on a whim"])).encode())


def test_a_snapshot_may_use_its_whole_budget_and_no_byte_more() -> None:
    used = CHAIN.snapshot.content.context_bytes
    assert parse(json.dumps(altered(CHAIN.snapshot, "budget_bytes", used)).encode())
    refused(altered(CHAIN.snapshot, "budget_bytes", used - 1), "content/context_bytes", "exceeds the budget")


def test_a_snapshot_excludes_no_node_of_its_own() -> None:
    own = {"node_id": CHAIN.snapshot.content.nodes[0].node_id, "reason": "because", "details": []}
    refused(altered(CHAIN.snapshot, "excluded", [own]), "content/excluded", "holds a node that was taken")


def test_a_snapshot_is_not_held_against_the_clock() -> None:
    content = content_of(CHAIN.snapshot)
    assert parse(json.dumps(altered(CHAIN.snapshot, "as_of", "9999-01-01T00:00:00Z")).encode())
    assert content["as_of"] != "9999-01-01T00:00:00Z"


# ---- Compaction, proposal, quality ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "new", "where", "message"),
    [
        ("extracts/0/cost_bytes", 1, "extracts/0/cost_bytes", "is not the cost of the text"),
        ("used_bytes", 0, "used_bytes", "is not the sum of the extracts"),
        ("unresolved_contradiction_ids", [], "unresolved_contradiction_ids", "every contradiction has its two ends among the extracts"),
    ],
)
def test_a_compaction_agrees_with_its_extracts(path: str, new: Any, where: str, message: str) -> None:
    refused(altered(COMPACTION, path, new), "content/" + where, message)


def test_the_text_of_an_extract_has_the_digest_that_is_named() -> None:
    extract = plain(COMPACTION.content.extracts[0])
    with pytest.raises(Invalid) as caught:
        convert(extract | {"text_sha256": "0" * 64}, Extract)
    assert (caught.value.reason, caught.value.where) == (Reason.IDENTITY_MISMATCH, "text_sha256")


def test_a_compaction_may_overstate_its_sensitivity_and_not_understate_it() -> None:
    assert parse(json.dumps(altered(COMPACTION, "sensitivity", "owner-private")).encode())
    private = changed(plain(COMPACTION), "content/extracts/0/sensitivity", "repository-private")
    refused(resealed(private), "content/sensitivity", "understates an extract")


def test_a_compaction_has_a_required_extract() -> None:
    content = content_of(COMPACTION)
    content["extracts"] = [extract | {"required": False} for extract in content["extracts"]]
    refused(enveloped(Compaction, content), "content/extracts", "no extract is required")


def test_extracts_ascend_and_are_not_omitted() -> None:
    extracts = content_of(COMPACTION)["extracts"]
    refused(altered(COMPACTION, "extracts", extracts[::-1]), "content/extracts/1", "not ascending")
    refused(altered(COMPACTION, "omitted_node_ids", [extracts[0]["node_id"]]), "content/omitted_node_ids", "holds an extract")


def test_a_contradiction_has_exactly_two_extracts() -> None:
    content = content_of(COMPACTION)
    ends = [number for number, extract in enumerate(content["extracts"]) if extract["contradiction_ids"]]
    others = [number for number in range(len(content["extracts"])) if number not in ends]
    (edge_id,) = content["unresolved_contradiction_ids"]
    message = "every contradiction has its two ends among the extracts"
    one = changed(content, f"extracts/{ends[0]}/contradiction_ids", [])
    three = changed(content, f"extracts/{others[0]}/contradiction_ids", [edge_id])
    for wrong in (one, three):
        refused(enveloped(Compaction, wrong), "content/unresolved_contradiction_ids", message)


def test_a_compaction_may_use_its_whole_budget_and_no_byte_more() -> None:
    text = "x" * 1_022
    content = content_of(COMPACTION)
    extract = content["extracts"][0] | {
        "required": True,
        "contradiction_ids": [],
        "text": text,
        "text_sha256": sha256(text),
        "cost_bytes": 1_024,
    }
    exact = content | {"extracts": [extract], "unresolved_contradiction_ids": [], "used_bytes": 1_024, "budget_bytes": 1_024}
    assert parse(enveloped(Compaction, exact), Compaction).content.used_bytes == 1_024
    longer = extract | {"text": text + "x", "text_sha256": sha256(text + "x"), "cost_bytes": 1_025}
    refused(enveloped(Compaction, exact | {"extracts": [longer], "used_bytes": 1_025}), "content/used_bytes", "exceeds the budget")


def test_a_proposal_is_untrusted() -> None:
    for authority in Authority:
        envelope = altered(PROPOSAL, "authority", authority.value)
        if authority is Authority.UNTRUSTED_PROPOSAL:
            assert parse(json.dumps(envelope).encode())
        else:
            refused(envelope, "content/authority", "a proposal is an untrusted-proposal")


def test_a_proposal_has_1_to_256_claims_in_any_order_and_more_than_once() -> None:
    claim = content_of(PROPOSAL)["claims"][0]
    assert len(parse(json.dumps(altered(PROPOSAL, "claims", [claim] * 256)).encode(), HostSummaryProposal).content.claims) == 256
    refused(altered(PROPOSAL, "claims", [claim] * 257), "content/claims", "expected 'array' of length <= 256")
    refused(altered(PROPOSAL, "claims", []), "content/claims", "expected 'array' of length >= 1")


COUNTS = sorted(set(QualityReport.__struct_fields__) - {"candidate", "snapshot_id", "sensitivity", "traversal_truncated"})


@pytest.mark.parametrize("name", COUNTS)
def test_a_count_of_a_report_has_its_range_and_no_relation_to_others(name: str) -> None:
    most = 100 if name == "required_reference_recall" else 16_777_216
    for good in (0, most):
        assert parse(json.dumps(altered(REPORT, name, good)).encode())
    refused(altered(REPORT, name, -1), f"content/{name}", "expected 'int' >= 0")
    refused(altered(REPORT, name, most + 1), f"content/{name}", f"expected 'int' <= {most}")


def test_no_score_can_be_added_to_a_report() -> None:
    refused(altered(REPORT, "score", 1), "content/score", "is no member here")


@pytest.mark.parametrize("artifact", [MANIFEST, *CHAIN, COMPACTION, PROPOSAL, REPORT], ids=lambda artifact: artifact.artifact_type)
def test_what_is_publishable_is_what_a_reader_gets(artifact: Artifact[Any]) -> None:
    assert publishable(artifact.content) == artifact


# ---- counts and ranges that no vector reaches -----------------------------------------------------------------------

DIGITS = [f"{number:064X}" for number in range(16_385)]
EDGE_IDS = [f"CTX-EDGE-{digits}" for digits in DIGITS]
NODE_IDS = [f"CTX-NODE-{digits}" for digits in DIGITS[:4_097]]


def decided(count: int) -> dict[str, Any]:
    """Members of a Selection with `count` decisions that cost a byte each."""
    one = plain(CHAIN.selection)["content"]["selected"][0]
    made = [one | {"node_id": name, "rank": one["rank"] | {"node_id": name}, "cost_bytes": 1} for name in NODE_IDS[:count]]
    return {"selected": made, "excluded": [], "edge_cost_bytes": 0, "used_bytes": count}


def left_out(count: int) -> list[dict[str, Any]]:
    return [{"node_id": name, "reason": "because", "details": []} for name in NODE_IDS[:count]]


@pytest.mark.parametrize(
    ("artifact", "last_good", "first_bad", "message"),
    [
        (CHAIN.selection, decided(4_096), decided(4_097), "expected 'array' of length <= 4096"),
        (CHAIN.selection, decided(1), decided(0), "expected 'array' of length >= 1"),
        (CHAIN.selection, {"excluded": left_out(4_096)}, {"excluded": left_out(4_097)}, "expected 'array' of length <= 4096"),
        (
            CHAIN.selection,
            {"selected_edge_ids": EDGE_IDS[:16_384]},
            {"selected_edge_ids": EDGE_IDS},
            "expected 'array' of length <= 16384",
        ),
        (
            CHAIN.selection,
            {"unresolved_contradiction_ids": EDGE_IDS[:16_384]},
            {"unresolved_contradiction_ids": EDGE_IDS},
            "expected 'array' of length <= 16384",
        ),
        (CHAIN.selection, {}, {"edge_cost_bytes": -1}, "expected 'int' >= 0"),
        (CHAIN.selection, {}, {"edge_cost_bytes": 8_388_609}, "expected 'int' <= 8388608"),
        (CHAIN.selection, {}, {"used_bytes": 8_388_609}, "expected 'int' <= 8388608"),
        (CHAIN.snapshot, {"excluded": left_out(4_096)}, {"excluded": left_out(4_097)}, "expected 'array' of length <= 4096"),
        (CHAIN.snapshot, {"budget_bytes": 8_388_608}, {"budget_bytes": 8_388_609}, "expected 'int' <= 8388608"),
        (CHAIN.snapshot, {}, {"budget_bytes": 1_023}, "expected 'int' >= 1024"),
        (CHAIN.snapshot, {}, {"context_bytes": -1}, "expected 'int' >= 0"),
        (COMPACTION, {"omitted_node_ids": NODE_IDS[:4_096]}, {"omitted_node_ids": NODE_IDS}, "expected 'array' of length <= 4096"),
        (COMPACTION, {"budget_bytes": 1_024}, {"budget_bytes": 1_023}, "expected 'int' >= 1024"),
        (COMPACTION, {"budget_bytes": 8_388_608}, {"budget_bytes": 8_388_609}, "expected 'int' <= 8388608"),
        (COMPACTION, {}, {"used_bytes": 8_388_609}, "expected 'int' <= 8388608"),
        (COMPACTION, {}, {"extracts": []}, "expected 'array' of length >= 1"),
        (
            COMPACTION,
            {"host_summary_proposal_id": None},
            {"host_summary_proposal_id": "CTX-SNAPSHOT-" + DIGITS[0]},
            "not an id CTX-HOST-SUMMARY-PROPOSAL-… with 64 uppercase hexadecimal digits",
        ),
    ],
    ids=map(str, itertools.count()),
)
def test_a_bound_of_a_content_is_inclusive(
    artifact: Artifact[Any], last_good: dict[str, Any], first_bad: dict[str, Any], message: str
) -> None:
    kind, content = type(artifact.content), plain(artifact)["content"]
    assert plain(convert(content | last_good, kind)) == content | last_good
    with pytest.raises(Invalid) as caught:
        convert(content | first_bad, kind)
    assert (caught.value.message, caught.value.where in first_bad) == (message, True)


# ---- chance ---------------------------------------------------------------------------------------------------------


@given(st.integers())
@settings(max_examples=300, deadline=None)
def test_a_changed_artifact_is_read_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(render(chance.choice(ARTIFACTS)))
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data))
        data[at : at + chance.choice((0, 1, 1, 7))] = chance.randbytes(chance.choice((0, 1, 1, 2)))
    try:
        artifact: Artifact[Any] = parse(bytes(data))
    except SdaqfError as error:
        assert str(error).replace("…", "").isascii()
    else:
        assert parse(render(artifact)) == artifact


def test_mutants_are_read_or_refused_whatever_the_interpreters_bound_of_digits() -> None:
    program = """
import random
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats.artifacts import parse, render
from tests.chance import mutants
from tests.examples import ARTIFACTS

def attempt(data):
    try:
        parse(data)
    except SdaqfError as error:
        return str(error)

chance = random.Random(11)
for artifact in ARTIFACTS[:8]:
    for mutant in mutants(artifact, chance, 40):
        attempt(mutant.data)
for literal in (b"9" * 700, b"-" + b"9" * 4300, b"9" * 4301, b"1." + b"0" * 5000):
    for place in (b'"max_nodes": ', b'"as_of": ', b'"schema_version": ', b'"content": '):
        whole = render(ARTIFACTS[2])
        at = whole.index(place) + len(place)
        assert len(attempt(whole[:at] + literal + b', "x": ' + whole[at:])) < 200
print("done")
"""
    for bound in ("640", "0"):
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[2],
            env=os.environ | {"PYTHONINTMAXSTRDIGITS": bound},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (ran.stderr, ran.stdout) == ("", "done\n")
