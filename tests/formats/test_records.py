"""The values that artifacts are made of (FORMAT 3.1 to 3.6): text rules, ids, paths, times, records and their bounds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.formats import canonical, records
from sdaqf_tasks.formats.artifacts import Budget, Claim, Decision, Exclusion, Query, convert
from sdaqf_tasks.formats.records import (
    Authority,
    Edge,
    EdgeType,
    Freshness,
    FreshnessKind,
    Kind,
    Locator,
    Node,
    Provenance,
    RootScope,
    Sensitivity,
    Source,
    authority_fault,
    cost,
    instant,
    is_path,
)
from tests.builders import (
    IMMUTABLE,
    REMOVED,
    changed,
    edge,
    expires,
    graph,
    node,
    plain,
    provenance,
    query,
    resealed,
    sha256,
    source,
    specification,
)
from tests.keys import BEGIN, KEY

PATHS = [line.split("\t") for line in (Path(__file__).parents[1] / "vectors/locator-paths.tsv").read_text("utf-8").splitlines()[1:]]
BLANK = [*range(0x09, 0x0E), *range(0x1C, 0x21), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
SECRETS = [
    "AKIA" + "Z" * 16,
    f"x {KEY}",
    *("gh" + letter + "_" + "a" * 20 for letter in "pousr"),
    f"{BEGIN} PRIVATE KEY-----",
    f"{BEGIN} RSA PRIVATE KEY-----",
    f"{BEGIN} EC PRIVATE KEY-----",
    f"a\n{BEGIN} OPENSSH PRIVATE KEY-----\nb",
]
HARMLESS = [
    "AKIA" + "Z" * 15,
    "akia" + "z" * 16,
    "ghp_" + "a" * 19,
    "ghx_" + "a" * 20,
    "-----BEGIN DSA PRIVATE KEY-----",
    "-----BEGIN ENCRYPTED PRIVATE KEY-----",
]


def refusal(value: Any, kind: type[Any]) -> Invalid:
    with pytest.raises(Invalid) as caught:
        convert(value, kind)
    return caught.value


def refused(value: Any, kind: type[Any], where: str, message: str = "") -> None:
    error = refusal(value, kind)
    assert (error.where, error.reason) == (where, Reason.CONTRACT_INVALID)
    if message:
        assert error.message == message


def metadata(**fields: Any) -> dict[str, Any]:
    return plain(source(**fields))


# ---- text -----------------------------------------------------------------------------------------------------------


def test_the_blank_characters_are_exactly_those_that_are_listed() -> None:
    blank = []
    for code in range(sys.maxunicode + 1):
        try:
            records._prose(chr(code))
        except Invalid as error:
            if error.message == "blank":
                blank.append(code)
    assert blank == BLANK


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u2003\u3000", "\x1f"])
def test_a_prose_is_not_blank(text: str) -> None:
    refused(metadata() | {"title": text}, Source, "title")


@pytest.mark.parametrize("text", ["\u200b", "\ufeff", "\u180e", " x ", "a\r\nb\t\x01\u202e", "\x7f"])
def test_a_prose_holds_what_is_not_forbidden_and_keeps_it(text: str) -> None:
    assert source(title=text).title == text


@pytest.mark.parametrize("text", SECRETS)
def test_no_text_is_secret_shaped(text: str) -> None:
    for value, where in ((metadata() | {"title": text}, "title"), (metadata() | {"labels": ["a", text]}, "labels/1")):
        error = refusal(value, Source)
        assert (error.reason, error.where) == (Reason.SECRET_SHAPED, where)
        assert text not in str(error)
    assert refusal(plain(node()) | {"text": text}, Node).reason is Reason.SECRET_SHAPED


@pytest.mark.parametrize("text", HARMLESS)
def test_other_shapes_are_not_detected(text: str) -> None:
    assert node(text=text).text == text


def test_a_secret_shaped_path_id_or_time_is_one_too() -> None:
    assert refusal(changed(metadata(), "locator/path", f"docs/{KEY}"), Source).reason is Reason.SECRET_SHAPED
    assert refusal(plain(query(graph()))["content"] | {"graph_id": "AKIA" + "A" * 16}, Query).reason is Reason.SECRET_SHAPED
    assert refusal(plain(query(graph()))["content"] | {"as_of": "AKIA" + "A" * 16}, Query).reason is Reason.SECRET_SHAPED


@pytest.mark.parametrize("text", ["a\0b", "\0"])
def test_no_text_holds_a_nul(text: str) -> None:
    refused(metadata() | {"title": text}, Source, "title", "U+0000 in a text")
    refused(plain(node()) | {"text": text}, Node, "text", "U+0000 in a text")


def test_no_text_holds_a_lone_surrogate() -> None:
    refused(metadata() | {"title": "a\ud800"}, Source, "title", "a lone surrogate in a text")


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_a_body_may_be_empty_or_blank(text: str) -> None:
    assert node(text=text).text == text


def test_a_line_is_one_line() -> None:
    asked = plain(query(graph()))["content"]
    for text in ("CTX-GRAPH-" + "0" * 64 + "\n", "2026-01-01T00:00:00Z\r"):
        refused(asked | {"graph_id": text}, Query, "graph_id", "more than one line")


def test_lengths_are_counted_in_characters() -> None:
    assert node(text="😀" * 65_536).text == "😀" * 65_536
    refused(resealed(plain(node()) | {"text": "a" * 65_537}), Node, "text")


# ---- lengths, counts and numbers, in pairs --------------------------------------------------------------------------

HEX = [f"{n:064X}" for n in range(4_200)]
NODES = [f"CTX-NODE-{digits}" for digits in HEX]
TEXTS = [f"{n:05}" for n in range(200)]
FULL = provenance(("docs/a.md", "a\n"))
REFERENCES = [{"path": f"p/{n:03}", "sha256": HEX[0]} for n in range(66)]

Bound = tuple[type[Any], Callable[[], dict[str, Any]], str, Any, Any]
DECISION = {
    "node_id": NODES[0],
    "reasons": ["x"],
    "rank": {
        "phase": 0,
        "authority_rank": 0,
        "graph_distance": 0,
        "lexical_score": 0,
        "sensitivity_rank": 0,
        "node_id": NODES[0],
    },
    "cost_bytes": 1,
}
EXCLUSION = {"node_id": NODES[0], "reason": "x", "details": []}
CLAIM = {"claim": "x", "source_node_ids": NODES[:1], "extract_sha256s": HEX[:1]}
BUDGET = {"unit": "canonical_utf8_bytes", "budget_bytes": 1_024, "max_nodes": 1, "max_edges": 0, "max_traversal_depth": 0}


def asked() -> dict[str, Any]:
    content: dict[str, Any] = plain(query(graph()))["content"]
    return content


BOUNDS: list[Bound] = [
    (Source, metadata, "title", "x" * 500, "x" * 501),
    (Source, metadata, "title", "x", ""),
    (Source, metadata, "identifiers", TEXTS[:128], TEXTS[:129]),
    (Source, metadata, "labels", TEXTS[:64], TEXTS[:65]),
    (Source, metadata, "labels", ["x" * 500], ["x" * 501]),
    (Source, metadata, "labels", ["a", "b"], ["a", "a"]),
    (Source, metadata, "labels", ["B", "a", "\uffff", "😀"], ["a", "B"]),
    (Source, metadata, "required", False, 0),
    (Source, metadata, "sensitivity", "owner-private", "secret-or-prohibited"),
    (Source, metadata, "sensitivity", "public", None),
    (Provenance, lambda: plain(FULL), "producer", "x" * 100, "x" * 101),
    (Provenance, lambda: plain(FULL), "recorded_by", "x" * 100, "x" * 101),
    (Provenance, lambda: plain(FULL), "references", REFERENCES[:64], REFERENCES[:65]),
    (Provenance, lambda: plain(FULL), "references", REFERENCES[:1], []),
    (Provenance, lambda: plain(FULL), "references", REFERENCES[:2], REFERENCES[1::-1]),
    (
        Provenance,
        lambda: plain(FULL),
        "references",
        [{"path": "a", "sha256": HEX[0]}, {"path": "a", "sha256": HEX[1]}],
        [{"path": "a", "sha256": HEX[0]}] * 2,
    ),
    (Locator, lambda: plain(source().locator), "path", "x" * 240, "x" * 241),
    (Locator, lambda: plain(source().locator), "line_start", 1, 0),
    (Locator, lambda: plain(source().locator), "line_end", 1_000_000, 1_000_001),
    (Locator, lambda: plain(source().locator) | {"line_start": 5}, "line_end", 5, 4),
    (Locator, lambda: plain(source().locator), "line_start", 1, True),
    (Locator, lambda: plain(source().locator), "sha256", "0" * 64, "0" * 63),
    (Locator, lambda: plain(source().locator), "sha256", "F" * 64, "f" * 64),
    (Locator, lambda: plain(source().locator), "sha256", "F" * 64, "F" * 64 + "\n"),
    (Locator, lambda: plain(source().locator), "root_scope", "owner", "Owner"),
    (Budget, lambda: BUDGET, "budget_bytes", 1_024, 1_023),
    (Budget, lambda: BUDGET, "budget_bytes", 8_388_608, 8_388_609),
    (Budget, lambda: BUDGET, "max_nodes", 1, 0),
    (Budget, lambda: BUDGET, "max_nodes", 4_096, 4_097),
    (Budget, lambda: BUDGET, "max_edges", 0, -1),
    (Budget, lambda: BUDGET, "max_edges", 16_384, 16_385),
    (Budget, lambda: BUDGET, "max_traversal_depth", 0, -1),
    (Budget, lambda: BUDGET, "max_traversal_depth", 8, 9),
    (Budget, lambda: BUDGET, "unit", "canonical_utf8_bytes", "bytes"),
    (Query, asked, "required_node_ids", NODES[:4_096], NODES[:4_097]),
    (Query, asked, "seed_node_ids", NODES[:4_096], NODES[:4_097]),
    (Query, asked, "seed_node_ids", NODES[:2], NODES[1::-1]),
    (Query, asked, "identifiers", TEXTS[:128], TEXTS[:129]),
    (Query, asked, "terms", TEXTS[:128], TEXTS[:129]),
    (Query, asked, "allowed_edge_types", ["references"], []),
    (Query, asked, "allowed_edge_types", ["contradicts", "depends-on"], ["depends-on", "contradicts"]),
    (Query, asked, "allowed_edge_types", ["contradicts"], ["contradicts", "contradicts"]),
    (Query, asked, "clearance", "secret-or-prohibited", "secret"),
    (Query, asked, "graph_id", "CTX-GRAPH-" + "0" * 64, "CTX-QUERY-" + "0" * 64),
    (Query, asked, "candidate/git_head", "0" * 40, "0" * 39),
    (Query, asked, "candidate/git_head", "a" * 40, "A" * 40),
    (Query, asked, "candidate/git_head", "a" * 40, None),
    (Decision, lambda: DECISION, "reasons", TEXTS[:16], TEXTS[:17]),
    (Decision, lambda: DECISION, "reasons", TEXTS[:1], []),
    (Decision, lambda: DECISION, "rank/phase", 3, 4),
    (Decision, lambda: DECISION, "rank/authority_rank", 6, 7),
    (Decision, lambda: DECISION, "rank/graph_distance", 8, 9),
    (Decision, lambda: DECISION, "rank/lexical_score", 1_000_000, 1_000_001),
    (Decision, lambda: DECISION, "rank/sensitivity_rank", 3, 4),
    (Decision, lambda: DECISION, "rank/phase", 0, -1),
    (Decision, lambda: DECISION, "rank/node_id", NODES[0], NODES[1]),
    (Decision, lambda: DECISION, "cost_bytes", 1, 0),
    (Decision, lambda: DECISION, "cost_bytes", 8_388_608, 8_388_609),
    (Exclusion, lambda: EXCLUSION, "reason", "x" * 100, "x" * 101),
    (Exclusion, lambda: EXCLUSION, "details", TEXTS[:16], TEXTS[:17]),
    (Claim, lambda: CLAIM, "claim", "x" * 4_000, "x" * 4_001),
    (Claim, lambda: CLAIM | {"source_node_ids": NODES[:64]}, "extract_sha256s", HEX[:64], HEX[:65]),
    (Claim, lambda: CLAIM | {"extract_sha256s": HEX[:64]}, "source_node_ids", NODES[:64], NODES[:65]),
    (Claim, lambda: CLAIM | {"extract_sha256s": HEX[:2]}, "source_node_ids", NODES[:2], NODES[:1]),
    (Claim, lambda: CLAIM, "source_node_ids", NODES[:1], []),
]


@pytest.mark.parametrize(("kind", "whole", "member", "last_good", "first_bad"), BOUNDS, ids=lambda part: getattr(part, "__name__", None))
def test_a_bound_is_inclusive(kind: type[Any], whole: Callable[[], dict[str, Any]], member: str, last_good: Any, first_bad: Any) -> None:
    good = resealed(changed(whole(), member, last_good))
    assert json.loads(canonical.encode(convert(good, kind))) == good
    error = refusal(resealed(changed(whole(), member, first_bad)), kind)
    assert error.reason is Reason.CONTRACT_INVALID
    assert error.where == member or error.where.startswith(member + "/")


@pytest.mark.parametrize("value", ["1", 1.0, None, [], {}, 10**30, -(10**30), 2**63, 2**64])
def test_a_number_is_an_integer_in_range(value: Any) -> None:
    refused(BUDGET | {"max_nodes": value}, Budget, "max_nodes")


@pytest.mark.parametrize("name", BUDGET)
def test_every_member_is_needed(name: str) -> None:
    refused(changed(BUDGET, name, REMOVED), Budget, name, "is missing")


def test_no_other_member_is_taken() -> None:
    refused(BUDGET | {"Unit": 1}, Budget, "Unit", "is no member here")


# ---- ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("middle", ["", "-", "FOO-", "A" * 53 + "-", "-" * 54, "Z-Y--"])
def test_an_id_that_nothing_recomputes_may_be_loose(middle: str) -> None:
    loose = "CTX-GRAPH-" + middle + "0" * 64
    assert len(loose) <= 128
    assert convert(asked() | {"graph_id": loose}, Query).graph_id == loose


@pytest.mark.parametrize("middle", ["A" * 54 + "-", "foo-", "F0-", "é-", " ", "\n"])
def test_an_id_has_at_most_128_characters_and_only_those_of_ids(middle: str) -> None:
    refused(asked() | {"graph_id": "CTX-GRAPH-" + middle + "0" * 64}, Query, "graph_id")


@pytest.mark.parametrize("text", ["CTX-GRAPH" + "0" * 64, "CTX-GRAPH-" + "0" * 63, "CTX-GRAPH-" + "a" * 64, "CTX-GRAPH-" + "0" * 64 + "-"])
def test_an_id_ends_in_64_uppercase_digits(text: str) -> None:
    refused(asked() | {"graph_id": text}, Query, "graph_id")


def test_a_recomputed_id_is_never_loose() -> None:
    loose = plain(node())
    for member in ("node_id", "source_id"):
        given_ = loose[member]
        error = refusal(loose | {member: given_[:-64] + "X-" + given_[-64:]}, Node)
        assert (error.reason, error.where) == (Reason.IDENTITY_MISMATCH, member)


# ---- paths and times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("path_json", "verdict", "why"), PATHS)
def test_a_path_has_its_verdict(path_json: str, verdict: str, why: str) -> None:
    path = json.loads(path_json)
    assert is_path(path) is (verdict == "accept")
    locator = plain(source().locator) | {"path": path}
    if verdict == "accept":
        assert convert(locator, Locator).path == path
    else:
        assert refusal(locator, Locator).where == "path"


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999Z",
        "2024-02-29T00:00:00Z",
        "2026-07-31T00:00:00.0Z",
        "2000-02-29T00:00:00Z",
    ],
)
def test_a_time_is_kept_as_it_is_written(text: str) -> None:
    assert convert(asked() | {"as_of": text}, Query).as_of == text


@pytest.mark.parametrize(
    "text",
    [
        "0000-01-01T00:00:00Z",
        "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-01-32T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00.1234567Z",
        "2026-01-01T00:00:00.Z",
        "2026-01-01T00:00:00+00:00",
        "2026-01-01t00:00:00Z",
        "2026-01-01T00:00:00z",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00Z",
        "2026-01-01T00:00:00",
        "26-01-01T00:00:00Z",
        "٢٠٢٦-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
        "",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    refused(asked() | {"as_of": text}, Query, "as_of")


def test_times_are_compared_as_instants() -> None:
    assert instant("2026-01-01T00:00:00.1Z").microsecond == 100_000
    assert instant("2026-01-01T00:00:00Z") == instant("2026-01-01T00:00:00.000000Z")
    window = expires("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z")
    # As texts, "…00.5Z" < "…00Z": the window would be empty.
    assert window.holds_at("2026-01-01T00:00:00.25Z")


def test_a_window_is_inclusive_at_both_ends() -> None:
    window = expires("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert window.holds_at("2026-01-01T00:00:00.0Z")
    assert window.holds_at("2026-01-02T00:00:00Z")
    assert not window.holds_at("2025-12-31T23:59:59.999999Z")
    assert not window.holds_at("2026-01-02T00:00:00.000001Z")


@pytest.mark.parametrize("kind", ["immutable", "candidate-bound"])
def test_only_what_expires_has_times(kind: str) -> None:
    assert convert({"kind": kind, "observed_at": None, "valid_until": None}, Freshness).holds_at("0001-01-01T00:00:00Z")
    for member in ("observed_at", "valid_until"):
        refused({"kind": kind, "observed_at": None, "valid_until": None} | {member: "2026-01-01T00:00:00Z"}, Freshness, "kind")


def test_what_expires_has_both_times_in_order() -> None:
    window = {"kind": "expires-at", "observed_at": "2026-01-01T00:00:00.1Z", "valid_until": "2026-01-01T00:00:00.10Z"}
    assert convert(window, Freshness).kind is FreshnessKind.EXPIRES_AT
    refused(window | {"valid_until": "2026-01-01T00:00:00.099999Z"}, Freshness, "valid_until", "ends before it was observed")
    for member in ("observed_at", "valid_until"):
        refused(window | {member: None}, Freshness, "kind", "expires-at has both times")
        refused(changed(window, member, REMOVED), Freshness, member, "is missing")


# ---- enumerations ---------------------------------------------------------------------------------------------------


def test_ranks_are_those_of_the_format() -> None:
    assert [(member.value, member.rank) for member in Authority] == [
        ("owner-approved", 0),
        ("canonical-specification", 1),
        ("accepted-public-contract", 2),
        ("verified-evidence", 3),
        ("repository-record", 4),
        ("untrusted-observation", 5),
        ("untrusted-proposal", 6),
    ]
    assert [member.authoritative for member in Authority] == [True] * 4 + [False] * 3
    assert [(member.value, member.rank) for member in Sensitivity] == [
        ("public", 0),
        ("repository-private", 1),
        ("owner-private", 2),
        ("secret-or-prohibited", 3),
    ]
    assert max(Sensitivity.OWNER_PRIVATE, Sensitivity.PUBLIC, Sensitivity.REPOSITORY_PRIVATE) is Sensitivity.OWNER_PRIVATE
    assert max(Authority) is Authority.UNTRUSTED_PROPOSAL


def test_edge_types_are_ordered_as_text() -> None:
    assert [member.value for member in sorted(EdgeType)] == [
        "contradicts",
        "depends-on",
        "derived-from",
        "implements",
        "references",
        "supersedes",
        "verifies",
    ]


@pytest.mark.parametrize("word", ["Design", " design", "design ", "", "designs", None, 3, ["design"]])
def test_a_word_is_one_of_those_listed(word: Any) -> None:
    refused(metadata() | {"kind": word}, Source, "kind")


# ---- sources, nodes and edges ---------------------------------------------------------------------------------------


def test_an_absent_sensitivity_reads_as_owner_private() -> None:
    private = plain(source(sensitivity=Sensitivity.OWNER_PRIVATE))
    assert convert(changed(private, "sensitivity", REMOVED), Source) == convert(private, Source)
    assert plain(convert(changed(private, "sensitivity", REMOVED), Source)) == private


def test_a_node_has_no_such_default() -> None:
    private = plain(node(sensitivity=Sensitivity.OWNER_PRIVATE))
    refused(changed(private, "sensitivity", REMOVED), Node, "sensitivity", "is missing")


def test_a_source_id_that_left_the_default_out_is_wrong() -> None:
    private = plain(source(sensitivity=Sensitivity.OWNER_PRIVATE))
    bare = {name: value for name, value in private.items() if name not in ("sensitivity", "source_id")}
    error = refusal(bare | {"source_id": canonical.identity("CTX-SOURCE-", bare)}, Source)
    assert (error.reason, error.where) == (Reason.IDENTITY_MISMATCH, "source_id")


def immutable(**fields: Any) -> dict[str, Any]:
    plain_: dict[str, Any] = {
        "path": "e/a.json",
        "text": "{}",
        "kind": Kind.EVIDENCE,
        "authority": Authority.VERIFIED_EVIDENCE,
        "freshness": IMMUTABLE,
    }
    return plain(source(**(plain_ | fields)))


def test_an_immutable_source_is_a_json_file_of_an_authoritative_class_that_refers_to_itself() -> None:
    assert convert(immutable(), Source).freshness == IMMUTABLE
    assert convert(immutable(path="e/A.JSON"), Source).locator.path == "e/A.JSON"
    bad: list[dict[str, Any]] = [
        {"path": "e/a.txt"},
        {"path": "e/a.json.md"},
        {"authority": Authority.REPOSITORY_RECORD},
        {"references": (("e/a.json", "{ }"),)},
        {"references": (("e/b.json", "{}"),)},
    ]
    for fields in bad:
        with pytest.raises(Invalid) as caught:
            immutable(**fields)
        assert (caught.value.reason, caught.value.where) == (Reason.CONTRACT_INVALID, "freshness")


def test_a_self_reference_is_found_whatever_the_root_scope() -> None:
    assert source(scope=RootScope.OWNER).refers_to_itself
    assert source(references=(("docs/a.md", "old"), ("docs/a.md", "a\n"))).refers_to_itself
    assert not source(references=(("docs/a.md", "old"), ("docs/b.md", "a\n"))).refers_to_itself


def test_a_tool_observation_expires_where_it_is_a_source_and_only_there() -> None:
    observed: dict[str, Any] = {"kind": Kind.TOOL_OBSERVATION, "authority": Authority.UNTRUSTED_OBSERVATION}
    assert source(freshness=expires(), **observed).kind is Kind.TOOL_OBSERVATION
    with pytest.raises(Invalid, match="freshness: a tool-observation expires"):
        source(**observed)
    quirk = plain(node(freshness=expires(), **observed))
    quirk["freshness"] = {"kind": "candidate-bound", "observed_at": None, "valid_until": None}
    assert convert(resealed(quirk), Node).freshness.kind is FreshnessKind.CANDIDATE_BOUND


OTHER = (("docs/other.md", "x"),)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"authority": Authority.REPOSITORY_RECORD, "references": OTHER}, None),
        ({"authority": Authority.UNTRUSTED_PROPOSAL, "references": OTHER}, None),
        ({"kind": Kind.SPECIFICATION, "authority": Authority.CANONICAL_SPECIFICATION}, None),
        ({"kind": Kind.SPECIFICATION, "authority": Authority.CANONICAL_SPECIFICATION, "references": OTHER}, Reason.PROVENANCE_INVALID),
        ({"kind": Kind.SPECIFICATION, "authority": Authority.CANONICAL_SPECIFICATION, "scope": RootScope.OWNER}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.REQUIREMENT, "authority": Authority.CANONICAL_SPECIFICATION}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.REQUIREMENT, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT}, None),
        ({"kind": Kind.DECISION, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT}, None),
        ({"kind": Kind.DESIGN, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT}, None),
        ({"kind": Kind.HANDOFF, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.DESIGN, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT, "scope": RootScope.OWNER}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.DESIGN, "authority": Authority.ACCEPTED_PUBLIC_CONTRACT, "references": OTHER}, Reason.PROVENANCE_INVALID),
        ({"kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE}, None),
        ({"kind": Kind.TEST, "authority": Authority.VERIFIED_EVIDENCE}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.EVIDENCE, "authority": Authority.VERIFIED_EVIDENCE, "scope": RootScope.OWNER}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.TOOL_OBSERVATION, "authority": Authority.UNTRUSTED_OBSERVATION, "freshness": expires()}, None),
        ({"kind": Kind.TOOL_OBSERVATION, "authority": Authority.UNTRUSTED_PROPOSAL, "freshness": expires()}, Reason.AUTHORITY_INVALID),
        ({"kind": Kind.TOOL_OBSERVATION, "authority": Authority.REPOSITORY_RECORD, "freshness": expires()}, Reason.AUTHORITY_INVALID),
        # Both rows fail: the first of the table is the reason.
        ({"kind": Kind.TEST, "authority": Authority.VERIFIED_EVIDENCE, "references": OTHER}, Reason.PROVENANCE_INVALID),
    ],
)
def test_the_authority_table_row_by_row(fields: dict[str, Any], fault: Reason | None) -> None:
    claimed = source(**fields)
    assert authority_fault(claimed) is fault
    if fault is None:
        assert Node.seal(claimed, "a\n").source_id == claimed.source_id
    else:
        with pytest.raises(Invalid) as caught:
            Node.seal(claimed, "a\n")
        assert (caught.value.reason, caught.value.where) == (fault, "authority")


OWNED: dict[str, Any] = {"authority": Authority.OWNER_APPROVED, "scope": RootScope.OWNER, "producer": "Owner", "recorded_by": "Owner"}


@pytest.mark.parametrize("kind", list(Kind))
def test_an_owner_approves_four_kinds(kind: Kind) -> None:
    window: dict[str, Any] = {"freshness": expires()} if kind is Kind.TOOL_OBSERVATION else {}
    fault = authority_fault(source(kind=kind, **window, **OWNED))
    approved = {Kind.REQUIREMENT, Kind.DECISION, Kind.DESIGN, Kind.HANDOFF}
    assert fault is (None if kind in approved else Reason.AUTHORITY_INVALID)


@pytest.mark.parametrize("fields", [{"scope": RootScope.REPOSITORY}, {"producer": "owner"}, {"recorded_by": "Owner "}])
def test_an_owner_is_called_owner_and_speaks_from_the_owner_root(fields: dict[str, Any]) -> None:
    assert authority_fault(source(**(OWNED | fields))) is Reason.AUTHORITY_INVALID


def test_the_digest_of_a_node_is_that_of_its_text() -> None:
    part = node(text="one\ntwo\n", lines=(2, 2))
    assert part.text_sha256 == part.locator.sha256 == sha256("one\ntwo\n")
    error = refusal(plain(part) | {"text_sha256": sha256("two")}, Node)
    assert (error.reason, error.where) == (Reason.IDENTITY_MISMATCH, "text_sha256")


def test_the_ends_of_an_edge_are_distinct_and_those_of_a_contradiction_ascend() -> None:
    one, other = sorted((node("a"), node("b")), key=lambda node: node.node_id)
    assert edge(EdgeType.CONTRADICTS, other, one).source_node_id == one.node_id
    turned = plain(edge(EdgeType.REFERENCES, other, one))
    assert convert(turned, Edge).source_node_id == other.node_id
    refused(resealed(turned | {"edge_type": "contradicts"}), Edge, "", "the ends of a contradiction ascend")
    refused(resealed(turned | {"target_node_id": other.node_id}), Edge, "", "related to itself")


def test_an_edge_has_the_id_of_its_content() -> None:
    error = refusal(plain(edge(EdgeType.REFERENCES, node("a"), node("b"))) | {"edge_type": "implements"}, Edge)
    assert (error.reason, error.where) == (Reason.IDENTITY_MISMATCH, "edge_id")


def test_a_cost_is_the_canonical_size_without_the_own_id() -> None:
    member = node(text="é\n😀\x7f")
    bare = {name: value for name, value in plain(member).items() if name != "node_id"}
    assert cost(member) == len(json.dumps(bare, sort_keys=True, separators=(",", ":")))
    assert cost(node(text="é😀\x7f\t\n")) - cost(node(text="\n")) == 6 + 12 + 6 + 2


@given(st.text(st.sampled_from("aA0._-/~\\:é \n"), max_size=8))
@settings(max_examples=2_000, deadline=None)
def test_the_schema_pattern_of_paths_is_the_rule_but_for_a_trailing_slash(text: str) -> None:
    assert (re.search(records.PATH_PATTERN, text) is not None) == is_path(text.removesuffix("/") if text != "/" else text)


def test_a_specification_is_canonical() -> None:
    assert authority_fault(specification()) is None
