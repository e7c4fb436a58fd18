"""The published schemas (FORMAT 3.15): fresh, self-contained, and different from the runtime only where the format says."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats.artifacts import NAMES, TYPES, Artifact, Query, parse, render
from sdaqf_tasks.formats.records import Kind
from sdaqf_tasks.formats.schemas import describe, schemas
from tests.builders import REMOVED, changed, graph, manifest, plain, query, resealed, specification
from tests.chance import Mutant, mutants
from tests.examples import ARTIFACTS, CHAIN, COMPACTION, MANIFEST, PROPOSAL, REPORT

FOLDER = Path(__file__).parents[2] / "schemas"
SCHEMAS = {name.removesuffix(".schema.json"): json.loads(data) for name, data in schemas().items()}
VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}

LOOSE_ID = re.compile(r"CTX-[A-Z-]+-[0-9A-F]{64}")

ALLOWED: list[tuple[str, str]] = [
    ("1 paths", r"not a portable path: .*"),
    ("3 blank", r"blank"),
    ("4 text", r"U\+0000 in a text|a lone surrogate|looks like a key or a token"),
    ("5 order", r"not ascending|one node twice"),
    ("6 floats", r"\S+ is not an integer"),
    ("7 ranges and dates", r"ends before it starts|ends before it was observed|no such date or time of day"),
    ("8 identities, costs, sums", r"is not the identity of .*|is not the digest of the text|is not the cost of .*|is not the sum of .*"),
    ("8 identities, costs, sums", r"exceeds the budget"),
    ("9 sensitivity", r"is not the highest of its members|understates an extract"),
    ("10 rules of the table", r"a tool-observation expires|immutable takes .*|.* canonical specification.*"),
    ("10 rules of the table", r"the source claims an authority .*|a file named as provenance is not the one that was recorded"),
    ("11 ends", r"relates something that is no source here|joins something .*|related to itself|the ends of a contradiction ascend"),
    ("12 disjoint", r"excludes the source of a node|holds a node that was taken|holds an extract|two nodes of one source"),
    ("13 decisions", r"is of another node|is not the sequence of the nodes|is not the rank of the node|is not that of the query"),
    ("13 contradictions", r"is not the list of contradictions among the edges|every contradiction has its two ends among the extracts"),
    ("14 limits", r"more than 8388608 bytes of text|more than 250000 values|nested deeper than 64|\d+ bytes.*|a key twice in one object"),
    ("15 claims", r"as many nodes as digests"),
]
"""What only the runtime refuses, numbered as in FORMAT 3.15, by the sentence of the refusal."""


def kind_of(error: SdaqfError, value: Any) -> str:
    """The number of FORMAT 3.15 that allows the schema to be weaker here."""
    for kind, sentence in ALLOWED:
        if re.fullmatch(sentence, error.message):
            assert kind != "1 paths" or str(member(value, error.where)).endswith("/"), "only a trailing slash is left to the runtime"
            return kind
    pytest.fail(f"the schema accepts what the runtime refuses: {error.reason} {error}")


def member(value: Any, where: str) -> Any:
    for step in where.split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def only_loose_ids(name: str, value: Any) -> bool:
    """Whether every complaint of the schema is about the pattern of an id that the runtime takes."""
    return all(
        error.validator == "pattern" and error.validator_value.startswith("^CTX-") and LOOSE_ID.fullmatch(error.instance)
        for error in leaves(VALIDATORS[name].iter_errors(value))
    )


def leaves(errors: Any) -> Any:
    for error in errors:
        if error.validator == "anyOf":  # an id or null: the branch of the id is the one that matters
            yield from (below for below in error.context if below.validator != "type")
        else:
            yield error


def compare(artifact: Artifact[Any], mutant: Mutant) -> str:
    """How runtime and schema judge a mutant: the same, or the kind of difference; fails where the format allows none."""
    name = artifact.artifact_type
    by_schema = VALIDATORS[name].is_valid(mutant.value)
    try:
        parse(mutant.data, TYPES[name])
    except SdaqfError as error:
        return kind_of(error, mutant.value) if by_schema else "both refuse"
    if by_schema:
        return "both accept"
    assert only_loose_ids(name, mutant.value)
    return "loose ids"


# ---- the files ------------------------------------------------------------------------------------------------------


def test_they_are_those_of_the_artifacts_and_that_of_the_yaml() -> None:
    assert sorted(schemas()) == sorted(f"{name}.schema.json" for name in [*TYPES, "manifest-yaml"])


@pytest.mark.parametrize("name", sorted(schemas()))
def test_a_schema_that_is_checked_in_is_the_one_that_the_records_give(name: str) -> None:
    assert (FOLDER / name).read_bytes() == schemas()[name], "run `doit schemas`"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_a_draft_2020_12_schema_of_its_own(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert (SCHEMAS[name]["$schema"], SCHEMAS[name]["$id"]) == (
        "https://json-schema.org/draft/2020-12/schema",
        f"urn:sdaqf-tasks:{name}:1.0",
    )
    data = schemas()[f"{name}.schema.json"]
    assert data == json.dumps(json.loads(data), indent=2).encode() + b"\n"


def walk(value: Any) -> Any:
    yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(below)


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_a_schema_is_closed_and_refers_to_itself_alone(name: str) -> None:
    for part in walk(SCHEMAS[name]):
        if isinstance(part, dict) and part.get("type") == "object":
            assert part["additionalProperties"] is False or "propertyNames" in part
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            assert part["$ref"].removeprefix("#/$defs/") in SCHEMAS[name]["$defs"]
        if isinstance(part, dict) and isinstance(part.get("pattern"), str):
            assert part["pattern"].endswith(r"$(?!\n)")


def test_words_are_listed_in_the_order_of_their_ranks() -> None:
    definitions = SCHEMAS["context-manifest"]["$defs"]
    assert definitions["Sensitivity"]["enum"] == ["public", "repository-private", "owner-private", "secret-or-prohibited"]
    assert definitions["Authority"]["enum"][:2] == ["owner-approved", "canonical-specification"]
    assert definitions["Kind"]["enum"] == [kind.value for kind in Kind]


def test_a_record_without_an_envelope_can_be_described_too() -> None:
    class Setting(msgspec.Struct, forbid_unknown_fields=True):
        name: str
        kind: Kind

    described = json.loads(describe("setting", Setting))
    assert (described["$id"], described["title"], list(described["$defs"])) == ("urn:sdaqf-tasks:setting:1.0", "Setting", ["Kind"])
    assert Draft202012Validator(described).is_valid({"name": "x", "kind": "design"})
    assert not Draft202012Validator(described).is_valid({"name": "x", "kind": "poem"})


# ---- equal on both sides --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("artifact", ARTIFACTS, ids=lambda artifact: f"{artifact.artifact_type}-{artifact.artifact_id[-6:]}")
def test_every_artifact_that_was_published_validates(artifact: Artifact[Any]) -> None:
    VALIDATORS[artifact.artifact_type].validate(json.loads(render(artifact)))


@pytest.mark.parametrize("name", sorted(VALIDATORS))
def test_an_artifact_validates_under_its_own_schema_alone(name: str) -> None:
    for artifact in (MANIFEST, *CHAIN, PROPOSAL, COMPACTION, REPORT):
        assert VALIDATORS[name].is_valid(plain(artifact)) is (artifact.artifact_type == name)


def equal_on_both_sides(artifact: Artifact[Any], path: str, new: Any) -> bool:
    value = changed(plain(artifact), "content/" + path, new)
    value = resealed(value)
    verdict = compare(artifact, Mutant(value, json.dumps(value).encode()))
    assert verdict in ("both accept", "both refuse")
    return verdict == "both accept"


SMALL = manifest((specification(),))
TIMES = {"observed_at": "2026-01-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"}
NEVER = {"observed_at": None, "valid_until": None}


@pytest.mark.parametrize(
    ("freshness", "accepted"),
    [
        ({"kind": "candidate-bound"} | NEVER, True),
        ({"kind": "expires-at"} | TIMES, True),
        ({"kind": "candidate-bound"} | TIMES, False),
        ({"kind": "immutable"} | TIMES, False),
        ({"kind": "expires-at"} | NEVER, False),
        ({"kind": "expires-at"} | TIMES | {"valid_until": None}, False),
        ({"kind": "expires-at"} | TIMES | {"observed_at": None}, False),
        ({"kind": "candidate-bound"} | NEVER | {"valid_until": "2026-01-01T00:00:00Z"}, False),
        ({"kind": "candidate-bound", "observed_at": None}, False),
        ({"kind": "now and then"} | NEVER, False),
    ],
)
def test_times_are_given_for_what_expires_alone(freshness: dict[str, Any], accepted: bool) -> None:
    assert equal_on_both_sides(SMALL, "sources/0/freshness", freshness) is accepted


def test_a_source_may_leave_its_sensitivity_out_and_a_node_may_not() -> None:
    bare = changed(plain(SMALL), "content/sources/0/sensitivity", REMOVED)
    bare["content"]["sensitivity"] = "owner-private"
    bare = resealed(bare)
    assert compare(SMALL, Mutant(bare, json.dumps(bare).encode())) == "both accept"
    assert not equal_on_both_sides(SMALL, "sources/0/sensitivity", None)
    assert not equal_on_both_sides(graph(), "nodes/0/sensitivity", REMOVED)


def test_a_query_may_be_cleared_for_what_nobody_may_adopt() -> None:
    asked = query(graph())
    assert equal_on_both_sides(asked, "clearance", "secret-or-prohibited")
    assert not equal_on_both_sides(SMALL, "sensitivity", "secret-or-prohibited")


def test_a_proposal_is_untrusted_and_may_claim_a_thing_twice() -> None:
    assert not equal_on_both_sides(PROPOSAL, "authority", "repository-record")
    claim = plain(PROPOSAL)["content"]["claims"][0]
    assert equal_on_both_sides(PROPOSAL, "claims", [claim, claim])
    digits = [f"{n:064X}" for n in range(65)]
    for count, accepted in ((64, True), (65, False)):
        many = claim | {"source_node_ids": ["CTX-NODE-" + name for name in digits[:count]], "extract_sha256s": digits[:count]}
        assert equal_on_both_sides(PROPOSAL, "claims", [many]) is accepted


def test_a_compaction_has_a_required_extract() -> None:
    extracts = [extract | {"required": False} for extract in plain(COMPACTION)["content"]["extracts"]]
    assert not equal_on_both_sides(COMPACTION, "extracts", extracts)


def test_lengths_are_counted_in_characters() -> None:
    assert equal_on_both_sides(SMALL, "sources/0/title", "😀" * 500)
    assert not equal_on_both_sides(SMALL, "sources/0/title", "😀" * 501)


@pytest.mark.parametrize("text", ["\n", "\n\n", "\r\n", " "])
def test_a_line_feed_after_the_end_is_refused(text: str) -> None:
    for path in ("candidate/git_head", "candidate/repository_digest", "sources/0/locator/path"):
        value: Any = plain(SMALL)["content"]
        assert not equal_on_both_sides(SMALL, path, str(member(value, path)) + text)
    assert not equal_on_both_sides(CHAIN.query, "graph_id", CHAIN.graph.artifact_id + text)
    assert not equal_on_both_sides(CHAIN.query, "as_of", "2026-07-31T00:00:00Z" + text)


@pytest.mark.parametrize("types", [["references", "references"], ["verifies", "contradicts"], []])
def test_allowed_edge_types_are_unique(types: list[str]) -> None:
    value = changed(plain(CHAIN.query), "content/allowed_edge_types", types)
    assert VALIDATORS["context-query"].is_valid(value) is (types == ["verifies", "contradicts"])


def test_loose_ids_are_refused_by_the_schema_alone() -> None:
    value = changed(plain(CHAIN.query), "content/graph_id", "CTX-GRAPH-FOO-" + "0" * 64)
    value = resealed(value)
    assert parse(json.dumps(value).encode(), Query).content.graph_id == "CTX-GRAPH-FOO-" + "0" * 64
    assert compare(CHAIN.query, Mutant(value, json.dumps(value).encode())) == "loose ids"


# ---- parity by chance -----------------------------------------------------------------------------------------------

ROUNDS = 4_000


@pytest.mark.parametrize("name", sorted(NAMES.values()))
def test_runtime_and_schema_differ_only_where_the_format_says(name: str) -> None:
    chance = random.Random(name)
    mine = [artifact for artifact in ARTIFACTS if artifact.artifact_type == name]
    share = [1 / len(render(artifact)) for artifact in mine]  # a validator takes its time with a large one
    seen: Counter[str] = Counter()
    for artifact, part in zip(mine, share, strict=True):
        rounds = 8 + int(ROUNDS / len(TYPES) * part / sum(share))
        seen.update(compare(artifact, mutant) for mutant in mutants(artifact, chance, rounds))
    assert seen["both accept"] and seen["both refuse"] > seen.total() // 4
    assert len(seen) > (3 if name == "context-quality-report" else 5), seen
