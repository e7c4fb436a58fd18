"""The only door between bytes and JSON values (FORMAT 1): what is refused, and which bytes an accepted value has."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import Malformed, Reason, SdaqfError
from sdaqf_tasks.formats import canonical
from tests.shared import shared

VECTORS = Path(__file__).parents[1] / "vectors"
INPUTS = [json.loads(line) for line in (VECTORS / "canonical-json.jsonl").read_text("utf-8").splitlines()]

keys = st.text(st.characters(max_codepoint=0x7F), max_size=6)
texts = st.text(
    st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('\x00\x1f"\\/\x7f\x80\u2028\ud7ff\ue000\uffff😀\U0010ffff'))
)
integers = st.one_of(st.integers(), st.sampled_from([2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1]))
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), integers, texts),
    lambda below: st.one_of(st.lists(below, max_size=4), st.dictionaries(keys, below, max_size=4)),
    max_leaves=12,
)


def refusal(data: bytes, limit: int = canonical.ARTIFACT_BYTES) -> Malformed:
    with pytest.raises(Malformed) as caught:
        canonical.load(data, limit)
    return caught.value


# ---- vectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", INPUTS, ids=lambda case: ascii(case["input"])[:40])
def test_a_vector_has_its_verdict_and_its_canonical_form(case: dict[str, str]) -> None:
    data = case["input"].encode("utf-8", "surrogatepass")
    if case["verdict"] == "refuse":
        refusal(data)
        return
    made = canonical.encode(canonical.load(data))
    assert (made.decode("ascii"), canonical.digest(made)) == (case["canonical"], case["sha256"])


def test_every_file_of_the_public_parsing_suite_has_its_verdict() -> None:
    rows = shared("corpora", "jsontestsuite", "verdicts.tsv").read_text("utf-8").splitlines()[1:]
    folder = shared("corpora", "jsontestsuite", "test_parsing")
    wrong = []
    for name, verdict in (row.split("\t") for row in rows):
        try:
            canonical.load((folder / name).read_bytes())
        except Malformed:
            given_ = "refuse"
        else:
            given_ = "accept"
        if given_ != verdict:
            wrong.append(name)
    assert (len(rows), wrong) == (318, [])


def test_the_golden_value_has_its_bytes_and_its_identity() -> None:
    value = {"b": [1, -2, None, True, 'é😀\u2028/"\\\x7f\t'], "A": {}, "a": []}
    assert canonical.encode(value) == rb'{"A":{},"a":[],"b":[1,-2,null,true,"\u00e9\ud83d\ude00\u2028/\"\\\u007f\t"]}'
    assert canonical.identity("CTX-NODE-", value) == "CTX-NODE-325D4F16647263307BB5636A3F05B15DB6ADA0FB0B55C3809720FD41F4D9B666"


# ---- bounds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [canonical.ARTIFACT_BYTES, canonical.SMALL_BYTES])
def test_white_space_counts_towards_the_size(limit: int) -> None:
    assert canonical.load(b"{}".ljust(limit), limit) == {}
    assert refusal(b"{}".ljust(limit + 1), limit).reason is Reason.TOO_LARGE


def test_an_artifact_may_have_sixteen_mebibytes_and_a_small_one_a_single_one() -> None:
    assert (canonical.ARTIFACT_BYTES, canonical.SMALL_BYTES) == (16_777_216, 1_048_576)


def test_a_document_has_250_000_values_with_its_root_and_without_its_keys() -> None:
    assert len(canonical.load(json.dumps([0] * 249_999).encode())) == 249_999
    assert len(canonical.load(json.dumps({f"k{n}": n for n in range(249_999)}).encode())) == 249_999
    error = refusal(json.dumps([0] * 250_000).encode())
    assert (error.reason, error.message) == (Reason.MALFORMED_JSON, "more than 250000 values")


def test_so_many_texts_are_too_many_values_or_no_document() -> None:
    many = "".join(f'"{n}":"",' for n in range(249_998))
    assert len(canonical.load(('{"a,,":"[[[",' + many[:-1] + "}").encode())) == 249_999
    assert refusal(("{" + many + many[:-1] + "}").encode()).message == "more than 250000 values"
    assert refusal(b"[" + b"," * 250_001 + b'\\"' * 1_000_000).message == "more than 250000 values"
    assert refusal(b'["' + b"," * 250_001).where == "1:2"


@pytest.mark.parametrize(("inside", "deepest"), [(b"", 65), (b"0", 64), (b"{}", 64), (b'{"k":0}', 63)])
def test_a_value_stands_at_most_at_depth_64(inside: bytes, deepest: int) -> None:
    canonical.load(b"[" * deepest + inside + b"]" * deepest)
    error = refusal(b"[" * (deepest + 1) + inside + b"]" * (deepest + 1))
    assert (error.reason, error.message) == (Reason.MALFORMED_JSON, "nested deeper than 64")


@pytest.mark.parametrize("data", [b"[" * 1_000_000, b'{"a":' * 1_000_000, b"[" * 1_000_000 + b"]" * 1_000_000])
def test_nesting_that_exhausts_a_parser_is_refused(data: bytes) -> None:
    assert refusal(data).reason is Reason.MALFORMED_JSON


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_an_integer_has_4_300_digits_and_the_sign_is_none(sign: bytes) -> None:
    longest = int(sign + b"1") * (10**4_300 - 1)
    assert canonical.load(b"[" + sign + b"9" * 4_300 + b"]") == [longest]
    error = refusal(b"[" + sign + b"9" * 4_301 + b"]")
    assert (error.where, error.message) == ("0", "an integer of more than 4300 digits")


@pytest.mark.parametrize("digits", [499, 500, 501, 1_000, 1_001, 4_299])
def test_a_long_integer_is_read_exactly(digits: int) -> None:
    assert canonical.load(b"123456789"[: digits % 9] + b"123456789" * (digits // 9)) == int(
        "123456789"[: digits % 9] + "123456789" * (digits // 9)
    )


def test_the_bounds_hold_for_what_is_encoded_too() -> None:
    canonical.encode([0] * 249_999)
    with pytest.raises(Malformed, match="more than 250000 values"):
        canonical.encode([0] * 250_000)
    nested: Any = []
    for _ in range(64):
        nested = [nested]
    canonical.encode(nested)
    with pytest.raises(Malformed, match="nested deeper than 64"):
        canonical.encode([nested])
    canonical.encode(10**4_300 - 1)
    with pytest.raises(Malformed, match="more than 4300 digits"):
        canonical.encode(10**4_300)


# ---- grammar --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason", "where", "message"),
    [
        (b"", Reason.MALFORMED_JSON, "1:1", "expecting value"),
        (b"\xef\xbb\xbf{}", Reason.MALFORMED_JSON, "1:1", "a byte-order mark"),
        (b"\xff\xfe{\0}\0", Reason.NOT_UTF8, "", "byte 0 is not UTF-8"),
        (b'"\xc0\xaf"', Reason.NOT_UTF8, "", "byte 1 is not UTF-8"),
        (b'"\xed\xa0\x80"', Reason.NOT_UTF8, "", "byte 1 is not UTF-8"),
        (b'{"a":1,"a":1}', Reason.MALFORMED_JSON, "a", "a key twice in one object"),
        (b'{"a":1,"\\u0061":1}', Reason.MALFORMED_JSON, "a", "a key twice in one object"),
        (b'{"x":[0,{"a":{},"a":{}}]}', Reason.MALFORMED_JSON, "x/1/a", "a key twice in one object"),
        (b'{"a":[1,2.0]}', Reason.MALFORMED_JSON, "a/1", "2.0 is not an integer"),
        (b'{"a":1e3}', Reason.MALFORMED_JSON, "a", "1e3 is not an integer"),
        (b'{"a":NaN}', Reason.MALFORMED_JSON, "a", "NaN is not an integer"),
        (b'{"a":-Infinity}', Reason.MALFORMED_JSON, "a", "-Infinity is not an integer"),
        (b'{"a":{"\xc3\xa9":1}}', Reason.MALFORMED_JSON, "a", "a key outside ASCII"),
        (b'{"a":{"\\ud800":1}}', Reason.MALFORMED_JSON, "a", "a key outside ASCII"),
        (b'{"a":["\\ud800"]}', Reason.MALFORMED_JSON, "a/0", "a lone surrogate"),
        (b'{"a":["\\ude00\\ud83d"]}', Reason.MALFORMED_JSON, "a/0", "a lone surrogate"),
        (b'["\x1f"]', Reason.MALFORMED_JSON, "1:3", "invalid control character at"),
        (b"[1]\x0b", Reason.MALFORMED_JSON, "1:4", "extra data"),
        ("\N{NO-BREAK SPACE}[]".encode(), Reason.MALFORMED_JSON, "1:1", "expecting value"),
        ("[\N{ARABIC-INDIC DIGIT ONE}]".encode(), Reason.MALFORMED_JSON, "1:2", "expecting value"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_a_refusal_says_what_is_wrong_and_where(data: bytes, reason: Reason, where: str, message: str) -> None:
    error = refusal(data)
    assert (error.reason, error.where, error.message) == (reason, where, message)


def test_minus_zero_is_zero_and_a_pair_of_escapes_is_one_character() -> None:
    assert canonical.encode(canonical.load(b"[-0]")) == b"[0]"
    assert canonical.load(rb'"\ud83d\ude00"') == "😀"
    assert canonical.load(b'"\x7f"') == "\x7f"


def test_a_repeated_key_is_refused_even_where_the_value_is_wrong_anyway() -> None:
    assert refusal(b'{"unknown":{"a":1.5,"a":NaN}}').where == "unknown/a"


def test_no_message_quotes_more_than_a_little_of_the_input() -> None:
    for data in (b"[1." + b"0" * 5_000 + b"]", b'{"' + b"Q" * 5_000 + b'":1.5}', b'{"\\u0001\\u001b":1.5}', b"[" + b"9" * 5_000 + b"]"):
        error = refusal(data)
        shown = str(error)
        assert len(shown) < 160
        assert shown.isascii()
        assert shown.isprintable()


# ---- canonical form -------------------------------------------------------------------------------------------------


def escaped(character: str) -> str:
    """FORMAT 1.2, word by word."""
    short = {'"': '\\"', "\\": "\\\\", "\x08": "\\b", "\t": "\\t", "\n": "\\n", "\x0c": "\\f", "\r": "\\r"}
    if character in short:
        return short[character]
    if 0x20 <= ord(character) <= 0x7E:
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


@pytest.mark.parametrize("plane", range(17))
def test_every_character_is_escaped_by_its_rule(plane: int) -> None:
    text = "".join(chr(code) for code in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= code <= 0xDFFF)
    assert canonical.encode(text).decode("ascii") == '"' + "".join(map(escaped, text)) + '"'


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), {"a": 1.5}, {1: 2}, {"é": 1}, {"\ud800": 1}, "\ud800", ["\udfff"], {"a": object()}, b"x"]
)
def test_what_is_no_json_of_ours_is_not_encoded(value: object) -> None:
    with pytest.raises(Malformed) as caught:
        canonical.encode(value)
    assert caught.value.reason is Reason.MALFORMED_JSON


@given(values)
@example("\x7f")
@example({"\x7f": "\x7f"})
@example(["é", "\U0010ffff"])
@example(2**64)
@settings(max_examples=400, deadline=None)
def test_encoding_is_undone_by_loading_and_equals_the_plain_encoder(value: Any) -> None:
    data = canonical.encode(value)
    assert data == json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
    assert canonical.load(data) == value
    assert canonical.encode(canonical.load(data)) == data


@given(values)
@example([[], {}, [{}], {"a": []}])
@example({"b": '[1,2]{"', "a": "\\"})
@settings(max_examples=400, deadline=None)
def test_rendering_is_the_same_value_indented_by_two_with_one_line_feed(value: Any) -> None:
    data = canonical.render(value)
    assert data == json.dumps(value, sort_keys=True, indent=2, ensure_ascii=True).encode() + b"\n"
    assert canonical.load(data) == value


@given(st.dictionaries(keys, values, max_size=6), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: random.Random) -> None:
    shuffled = list(value.items())
    chance.shuffle(shuffled)
    assert canonical.encode(dict(shuffled)) == canonical.encode(value)


# ---- chance ---------------------------------------------------------------------------------------------------------


@given(st.one_of(st.binary(max_size=64), st.text(st.sampled_from('[]{}:,"\\u0d8ae19-+.eE truefalsn\n'), max_size=40).map(str.encode)))
@settings(max_examples=1_500, deadline=None)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = canonical.load(data)
    except SdaqfError:
        return
    assert canonical.load(canonical.encode(value)) == value


def test_the_interpreters_own_bound_of_digits_changes_nothing() -> None:
    program = """
from sdaqf_tasks.errors import Malformed
from sdaqf_tasks.formats import canonical
assert canonical.load(b"-" + b"9" * 4300) == 1 - 10 ** 4300
for data in (b"9" * 4301, b"[1." + b"9" * 9000 + b"]", b"1e" + b"9" * 9000):
    try:
        canonical.load(data)
    except Malformed as error:
        print(str(error)[:40])
"""
    for bound in ("640", "0"):
        ran = subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONINTMAXSTRDIGITS": bound}, capture_output=True, text=True, check=False
        )
        assert (ran.stderr, ran.stdout.splitlines()) == (
            "",
            ["an integer of more than 4300 digits", "0: 1.999999999999999999 is not an intege", "1e999999999999999999 is not an integer"],
        )
