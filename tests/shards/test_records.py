"""The objects of a shard: their ids, bounds and derived members (ABSTRACTIONS 1.1 and 2)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest

from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.records import CORE, LARGEST, Abstraction, Front, Tier, Trust, decode, sealed
from tests.keys import KEY
from tests.shards.records import record, source
from tests.shards.simulator import Bench, changed, distil, joined

# ---- 1.1, ids -----------------------------------------------------------------------------------------------------------


def history() -> Bench:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil("a"), "/reuse_abstractions reject core:retry", "/merge_abstractions adopt core:retry")
    project.run("begin scratch", distil("b", "loop"))
    return project


def test_an_id_is_the_digest_of_canonical_bytes_and_every_object_is_read_from_them() -> None:
    held = history().objects.held
    kinds = {object_id.split("-")[1] for object_id in held}
    assert kinds == {"STATE", "CATALOG", "BUCKET", "STAGED", "EVENT", "TEXT", "RECORD", "DECISION"}
    for object_id, data in held.items():
        assert object_id.rpartition("-")[2] == hashlib.sha256(data).hexdigest().upper()
        assert data == json.dumps(json.loads(data), sort_keys=True, separators=(",", ":")).encode()
        assert sealed(decode(object_id, data)) == (object_id, data)


def test_the_members_of_each_object_are_those_of_the_page() -> None:
    bench = history()
    state = json.loads(bench.objects.held[bench.head])
    assert state.keys() == {"shard", "previous", "event", "revision", "live", "saved", "committed", "session", "staged"}
    assert json.loads(bench.objects.held[state["live"]]).keys() == {"records", "decisions", "lineages"}
    assert json.loads(bench.objects.held[state["staged"]]).keys() == {"records", "decisions", "patches"}
    event = json.loads(bench.objects.held[state["event"]])
    assert event.keys() == {"command", "inputs", "program", "front"}
    assert [each.keys() for each in event["inputs"]] == [{"role", "id"}] * 2
    root = json.loads(bench.objects.held[[*bench.desk.chain()][-1].state_id])
    assert (root["previous"], root["saved"], root["session"], root["staged"], root["revision"]) == (None, None, None, None, 0)


@pytest.mark.parametrize(("number", "fits"), [(0, True), (LARGEST, True), (LARGEST + 1, False), (10**30, False), (-1, False)])
def test_a_number_in_the_provenance_is_bounded_like_every_other(number: int, fits: bool) -> None:
    value = msgspec.to_builtins(record())
    value["provenance"][0]["extra"] = {"count": number}
    data = json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    object_id = f"SHARD-RECORD-{hashlib.sha256(data).hexdigest().upper()}"
    if fits:
        assert decode(object_id, data).provenance[0].extra == {"count": number}
        return
    with pytest.raises(Invalid) as caught:
        decode(object_id, data)
    assert caught.value.reason is Reason.OBJECT_DAMAGED


@pytest.mark.parametrize("spoil", [lambda data: data + b"\n", lambda data: b" " + data, lambda data: data.replace(b":", b": ", 1)])
def test_bytes_that_are_not_canonical_are_damaged_even_under_their_own_digest(spoil: Any) -> None:
    data = spoil(sealed(record())[1])
    with pytest.raises(Invalid) as caught:
        decode(f"SHARD-RECORD-{hashlib.sha256(data).hexdigest().upper()}", data)
    assert caught.value.reason is Reason.OBJECT_DAMAGED


# ---- 2.3, scores, worked out by hand --------------------------------------------------------------------------------------


def sources(count: int) -> list[Any]:
    return [source(f"{number}.py") for number in range(count)]


SCORES: list[tuple[dict[str, Any], tuple[int, int, int, int, bool]]] = [
    # support 60+40+12+10, reuse 80, w 1024, r 600, quality 600+61+40, confidence 350+341+256+36+24
    ({}, (122, 80, 701, 1_000, False)),
    ({"tier": Tier.CONVENTION}, (122, 100, 711, 1_000, True)),
    ({"tier": Tier.CONVENTION, "parent": "base"}, (122, 140, 731, 1_000, True)),
    ({"tier": Tier.CONTRACT}, (122, 140, 731, 1_000, False)),
    # w 560, r 350; quality 350+61+40, confidence 225+186+140+36+24
    ({"min_resonance": 560, "average_resonance": 560}, (122, 80, 451, 611, False)),
    # w (55·560+45·562)/100 = 560; w (55·560+45·563)/100 = 561, r 350+250/464 = 350
    ({"min_resonance": 560, "average_resonance": 562}, (122, 80, 451, 611, False)),
    # w (55·700+45·900)/100 = 790, r 350+230·250/464 = 473; quality 473+61+40, confidence 287+233+225+36+24
    ({"min_resonance": 700, "average_resonance": 900}, (122, 80, 574, 805, False)),
    # support 360+160+12+10 is capped at 400, reuse 320+60+40 at 250; quality 600+200+125
    ({"sources": sources(12), "tier": Tier.CONTRACT, "parent": "base"}, (400, 250, 925, 1_000, True)),
    # support 90+40+144+160 is capped at 400
    (
        {"sources": sources(3), "tokens": [f"t{n}" for n in range(24)], "patterns": [f"p{n}" for n in range(16)]},
        (400, 120, 860, 1_000, False),
    ),
    ({"tier": Tier.CONVENTION, "min_resonance": 800, "average_resonance": 800}, (122, 100, 590, 821, False)),
    ({"tier": Tier.CONVENTION, "min_resonance": 860, "average_resonance": 860}, (122, 100, 622, 872, True)),
]


@pytest.mark.parametrize(("said", "expected"), SCORES)
def test_scores(said: dict[str, Any], expected: tuple[int, int, int, int, bool]) -> None:
    assert records.scores(record(**said)) == expected


def test_fewer_examples_than_the_threshold_are_not_ready() -> None:
    made = record(tier=Tier.CONVENTION)
    assert records.scores(made).promotion_ready
    assert not records.scores(changed(made, threshold=3)).promotion_ready


@pytest.mark.parametrize(("examples", "threshold"), [*enumerate((2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8), 2)])
def test_two_thirds_of_the_examples_must_agree_and_two_at_least(examples: int, threshold: int) -> None:
    assert records.threshold(examples) == threshold


def test_the_consensus_hash_is_that_of_the_sorted_features_and_the_normaliser() -> None:
    text = '{"normaliser":"1","patterns":["a","b"],"tokens":["c","d"]}'
    assert records.consensus("1", ["b", "a"], ["d", "c"]) == hashlib.sha256(text.encode()).hexdigest().upper()


# ---- 2, bounds and what relates the members ---------------------------------------------------------------------------------

PAIRS: list[tuple[str, Any, Any]] = [
    ("concept_id", "a" * 64, "a" * 65),
    ("concept_id", "-", ""),
    ("statement", "x" * 500, "x" * 501),
    ("examples", 12, 13),
    ("examples", 2, 1),
    ("threshold", 12, 13),
    ("min_resonance", 1_024, 1_025),
    ("average_resonance", 0, -1),
    ("quality_score", 1_000, 1_001),
    ("confidence_score", 1_000, 1_001),
    ("reuse_score", 250, 251),
    ("support_score", 400, 401),
    ("lineage_version", 1, 0),
    ("lineage_version", LARGEST, LARGEST + 1),
    ("last_revision", LARGEST, LARGEST + 1),
    ("last_review_revision", 0, -1),
    ("retained_tokens", [str(n) for n in range(24)], [str(n) for n in range(25)]),
    ("retained_patterns", [str(n) for n in range(16)], [str(n) for n in range(17)]),
    ("retained_patterns", ["a"], []),
    ("consensus_hash", "A" * 64, "a" * 64),
    ("lineage_id", "project:a:b", "project:a"),
    ("lineage_id", "core:core:b", "core:other:b"),
    ("owner", {"kind": "core", "id": "core"}, {"kind": "core", "id": "other"}),
    ("owner", {"kind": "project", "id": "a.b"}, {"kind": "project", "id": "a..b"}),
    ("trust_class", "core", "CORE"),
    ("parent", None, ""),
]


@pytest.mark.parametrize(("member", "good", "bad"), PAIRS)
def test_each_bound_of_a_record(member: str, good: Any, bad: Any) -> None:
    plain = msgspec.to_builtins(record())
    msgspec.convert(plain | {member: good}, Abstraction)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(plain | {member: bad}, Abstraction)


def test_a_record_has_2_to_12_sources_and_1_to_16_entries() -> None:
    plain = msgspec.to_builtins(record())
    for member, counts in (("sources", {1: False, 2: True, 12: True, 13: False}), ("provenance", {0: False, 1: True, 16: True, 17: False})):
        for count, good in counts.items():
            value = plain | {member: plain[member][:1] * count}
            if good:
                msgspec.convert(value, Abstraction)
            else:
                with pytest.raises(msgspec.ValidationError):
                    msgspec.convert(value, Abstraction)


WRONG: list[tuple[dict[str, Any], str]] = [
    *(({member: 1}, member) for member in ("quality_score", "confidence_score", "reuse_score", "support_score")),
    ({"promotion_ready": True}, "promotion_ready"),
    ({"consensus_hash": "0" * 64}, "consensus_hash"),
    ({"lineage_id": "project:default:other"}, "lineage_id"),
    ({"parent": "retry", "reuse_score": 120, "quality_score": 721, "confidence_score": 1_000}, "parent"),
    ({"first_revision": 2}, "first_revision"),
    ({"provenance_dropped": 1}, "provenance_dropped"),
    ({"statement": f"see {KEY}"}, ""),
    ({"statement": "a\0b"}, ""),
]


@pytest.mark.parametrize(("fields", "where"), WRONG)
def test_members_that_do_not_fit_one_another_are_named(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(Invalid) as caught:
        records.verify(changed(record(), **fields))
    assert caught.value.where == where


def test_core_is_the_only_shard_of_its_kind_and_trusts_most() -> None:
    assert (str(CORE), CORE.trust) == ("core", Trust.CORE)
    assert Front("mcp") is Front.MCP
