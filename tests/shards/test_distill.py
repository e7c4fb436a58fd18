"""Regions become examples, and examples a consensus (ABSTRACTIONS 3)."""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.formats.canonical import digest
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.distill import LAST_LINE, Consensus, Example, Region, consensus_of, cut, merged, parse_region
from sdaqf_tasks.shards.normalise import language, normalise


def refused(act: Callable[[], object]) -> tuple[Reason, str]:
    """Why and where `act` is refused."""
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.reason, caught.value.where


def example(text: str, path: str = "a.py") -> Example:
    """The whole of a file of its own name."""
    data = text.encode("utf-8")
    count = len(normalise(text, language(path)))
    return cut(f"region:{path}:1-{count}", Region(path, 1, count), data, digest(data))


def examples(*texts: str) -> list[Example]:
    return [example(text, f"{index}.py") for index, text in enumerate(texts)]


# ---- regions


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("region:src/a.py:3-9", Region("src/a.py", 3, 9)),
        ("region:a:1-1", Region("a", 1, 1)),
        (f"region:a:1000000-{LAST_LINE}", Region("a", 1_000_000, 1_000_000)),
        (f"region:{'a' * 240}:1-2", Region("a" * 240, 1, 2)),
    ],
)
def test_a_region_is_a_path_and_lines(text: str, region: Region) -> None:
    assert parse_region(text) == region


@pytest.mark.parametrize(
    "text",
    [
        "region:a:9-3",
        "region:a:0-3",
        "region:a:03-9",
        "region:a:1-1000001",
        "region:a:1-10000000",
        "region:a:3",
        "region:a:3-",
        "region:a:-3",
        "region:a:1-2 ",
        "region:a:1-2\n",
        "region:a:1-٣",
        "region::1-2",
        "region:/a:1-2",
        "region:../a:1-2",
        "region:a//b:1-2",
        "region:a:b:1-2",
        "region:nul:1-2",
        "Region:a:1-2",
        "node:a:1-2",
        "",
    ],
)
def test_what_is_no_region(text: str) -> None:
    assert refused(lambda: parse_region(text)) == (Reason.INVALID_REGION, text.replace("\n", "\\n"))


def test_a_long_text_is_no_region_and_shown_by_its_end() -> None:
    assert refused(lambda: parse_region(f"region:{'a' * 241}:1-2")) == (Reason.INVALID_REGION, "…" + "a" * 75 + ":1-2")


@given(st.text())
def test_any_text_is_a_region_or_refused(text: str) -> None:
    assert refused(lambda: parse_region(text))[0] is Reason.INVALID_REGION


def test_regions_that_overlap_or_touch_are_one() -> None:
    given_ = [Region("b", 4, 6), Region("a", 8, 9), Region("b", 1, 3), Region("a", 1, 9), Region("a", 11, 12), Region("c", 7, 7)]
    assert merged(given_) == (Region("a", 1, 9), Region("a", 11, 12), Region("b", 1, 6), Region("c", 7, 7))


REGIONS = st.lists(
    st.builds(lambda path, first, more: Region(path, first, first + more), st.sampled_from("ab"), st.integers(1, 30), st.integers(0, 5))
)


@given(REGIONS)
def test_merging_keeps_the_lines_and_parts_the_regions(regions: list[Region]) -> None:
    def covered(some: Sequence[Region]) -> set[tuple[str, int]]:
        return {(each.path, line) for each in some for line in range(each.first, each.last + 1)}

    found = merged(regions)
    assert covered(found) == covered(regions)
    assert list(found) == sorted(found)
    assert all(one.path != two.path or one.last + 1 < two.first for one, two in itertools.pairwise(found))


# ---- cutting


def lines_of(path: str, first: int, last: int, data: bytes) -> Example:
    return cut("spec", Region(path, first, last), data, "F" * 64)


def test_an_example_is_the_lines_unaltered_with_their_digests() -> None:
    data = "one\r\ntwo\u2028drei ä\rfour".encode()
    found = cut("node:X", Region("src/a.py", 2, 3), data, "F" * 64)
    assert found.text == "two\u2028drei ä\r"
    assert found.source == records.Source(
        spec="node:X",
        path="src/a.py",
        line_start=2,
        line_end=3,
        sha256="F" * 64,
        text_sha256=hashlib.sha256(found.text.encode("utf-8")).hexdigest().upper(),
    )


def test_lines_must_be_there() -> None:
    assert lines_of("a", 2, 2, b"a\nb").text == "b"
    assert lines_of("a", 1, 1, b"").text == ""
    for first, last in [(2, 3), (3, 3), (0, 1), (2, 1)]:
        assert refused(functools.partial(lines_of, "a", first, last, b"a\nb")) == (Reason.REGION_OUT_OF_RANGE, f"a:{first}-{last}")


def test_no_line_of_a_record_is_past_the_millionth() -> None:
    data = b"\n" * (LAST_LINE + 1)
    assert lines_of("a", LAST_LINE, LAST_LINE, data).source.line_end == LAST_LINE
    assert refused(lambda: lines_of("a", LAST_LINE, LAST_LINE + 1, data)) == (Reason.REGION_OUT_OF_RANGE, "a:1000000-1000001")


def test_a_region_has_at_most_96_lines() -> None:
    data = b"a\n" * 200
    assert lines_of("a", 2, 97, data).text == "a\n" * 96
    assert refused(lambda: lines_of("a", 2, 98, data)) == (Reason.REGION_TOO_LARGE, "a:2-98")


def test_a_region_has_at_most_16384_bytes_with_the_line_ends() -> None:
    assert len(lines_of("a", 2, 3, b"x\n" + "é\n".encode() + b"a" * 16_380 + b"\nx").text) == 16_383
    assert refused(lambda: lines_of("a", 2, 3, b"x\n" + "é\n".encode() + b"a" * 16_381 + b"\nx")) == (Reason.REGION_TOO_LARGE, "a:2-3")


@pytest.mark.parametrize("data", [b"a\nb\n\xff", b"a\nb\n\xed\xa0\x80", b"a\nb\n\0"])
def test_a_source_is_strict_text_throughout(data: bytes) -> None:
    assert refused(lambda: lines_of("src/a.py", 1, 1, data)) == (Reason.SOURCE_NOT_UTF8, "src/a.py")


def test_a_secret_is_refused_where_it_is_cut_and_not_quoted() -> None:
    data = b"a\nkey = 'ghp_" + b"a1" * 10 + b"'\nb"
    assert lines_of("a.py", 1, 1, data).text == "a\n"
    with pytest.raises(Refused) as caught:
        lines_of("a.py", 1, 2, data)
    assert (caught.value.reason, caught.value.where) == (Reason.SECRET_SHAPED_TEXT, "a.py:1-2")
    assert "ghp_" not in str(caught.value)


# ---- the consensus: worked examples

RETRY = """\
for attempt in range(3):
    try:
        return call()
    except Timeout:
        sleep(2)
"""


def test_what_all_examples_hold_is_kept_whole() -> None:
    found = consensus_of(examples(RETRY, RETRY.replace("call", "fetch").replace("3", "MAX")))
    assert found == Consensus(
        "1",
        ("except", "for", "in", "return", "timeout", "try"),
        ("except timeout :", "return id ( )", "try :"),
        1024,
        1024,
        "73F3DDE2FE7BCB9E75A405B3F3E5C493DC2CA9D2259B06F2DEA54D226CF34B2D",
    )


def test_what_too_few_examples_hold_is_dropped() -> None:
    """Three examples: two must agree, and `return` stands in one."""
    found = consensus_of(examples("try:\n pass\nraise X\n", "try:\n pass\nraise X\n", "try:\n pass\nreturn\n"))
    assert found.tokens == ("pass", "try", "raise", "x")
    assert found.patterns == ("pass", "try :", "raise x")
    assert (found.minimum, found.average) == (1024 * 4 // 7, (1024 + 1024 + 585) // 3) == (585, 877)


def test_the_consensus_fits_a_record() -> None:
    found = consensus_of(examples(RETRY, RETRY))
    assert found.hash == records.consensus("1", reversed(found.patterns), reversed(found.tokens))


def test_the_same_text_at_two_places_is_two_examples() -> None:
    one, two = (lines_of("a.py", first, first + 1, b"try:\n pass\n" * 2) for first in (1, 3))
    assert consensus_of([one, two]).minimum == 1024


# ---- the consensus: bounds and refusals


def test_an_abstraction_has_two_to_twelve_examples() -> None:
    def some(count: int) -> list[Example]:
        return examples(*["pass\n"] * count)

    assert consensus_of(some(2)).minimum == consensus_of(some(12)).minimum == 1024
    assert refused(lambda: consensus_of([])) == (Reason.NOT_ENOUGH_EXAMPLES, "")
    assert refused(lambda: consensus_of(some(1))) == (Reason.NOT_ENOUGH_EXAMPLES, "")
    assert refused(lambda: consensus_of(some(1) * 2)) == (Reason.NOT_ENOUGH_EXAMPLES, "")
    assert refused(lambda: consensus_of(some(13))) == (Reason.TOO_MANY_EXAMPLES, "")


def test_twenty_four_tokens_and_sixteen_patterns_are_kept_the_most_frequent_first() -> None:
    names = [f"N{index:02}" for index in range(30)]
    random.Random(7).shuffle(names)
    text = "".join(f"{name}\n" for name in names)
    found = consensus_of(examples(text, text + "zz + A\n", text + "zz + A\n"))
    assert found.tokens == tuple(f"n{index:02}" for index in range(24))
    assert found.patterns == tuple(f"n{index:02}" for index in range(16))
    fewer = consensus_of(examples("B\nN1\n", "N1\nA\nB\n", "A\nN1\nB\n"))
    assert fewer.tokens == fewer.patterns == ("b", "n1", "a")


def test_equal_counts_are_ordered_by_bytes() -> None:
    found = consensus_of(examples(*["A𝒳 = A\uffff = A = AB\n"] * 2))
    assert found.tokens == ("=", "a", "ab", "a\uffff", "a𝒳")


@pytest.mark.parametrize(
    "texts",
    [
        ("", ""),
        ("a(b)\n", "a(b)\n"),
        ("A + 1\n", "B - 1\n"),
        ("A + B\n", "A + C\n"),  # two tokens are shared, and no line
        ("A\n", "B\n", "C\n"),
    ],
)
def test_without_a_line_in_common_there_is_no_consensus(texts: tuple[str, ...]) -> None:
    assert refused(lambda: consensus_of(examples(*texts))) == (Reason.NO_CONSENSUS, "")


def test_a_line_of_one_token_is_enough() -> None:
    found = consensus_of(examples("A\n", "B\nA\n"))
    assert (found.tokens, found.patterns, found.minimum) == (("a",), ("a",), 1024)


def test_every_example_resonates_with_560_of_1024() -> None:
    """No count of features that a record may keep gives 559 or 560: the nearest are 17 of 31 and 6 of 11."""

    def some(lines: int, held: int) -> list[Example]:
        """Two with `lines` lines of one token and a last one of two; the third with `held` of these features."""
        whole = "".join(f"N{index}\n" for index in range(lines)) + "Last One\n"
        return examples(whole, whole, "".join(f"N{index}\n" for index in range(held // 2)) + "Last 1\n" * (held % 2))

    assert {1024 * held // kept for kept in range(2, 41) for held in range(kept + 1)} & set(range(559, 561)) == set()
    assert consensus_of(some(14, 17)).minimum == 1024 * 17 // 31 == 561
    assert 1024 * 6 // 11 == 558
    assert refused(lambda: consensus_of(some(4, 6))) == (Reason.BELOW_THRESHOLD, "2.py:1-3")


def test_the_first_example_that_does_not_resonate_is_named() -> None:
    weak = examples("A\n", "A\n", "A\n", "A\n", "b\n", "c\n")
    assert refused(lambda: consensus_of(weak)) == (Reason.BELOW_THRESHOLD, "4.py:1-1")
    assert refused(lambda: consensus_of(weak[::-1])) == (Reason.BELOW_THRESHOLD, "5.py:1-1")


def test_a_pattern_longer_than_a_record_holds_is_dropped() -> None:
    def kept(head: str, dashes: int) -> Consensus:
        return consensus_of(examples(*["A\n" + head + "-" * dashes + "\n"] * 2))

    assert [len(pattern) for pattern in kept("A==", 8_190).patterns] == [1, records.REGION_BYTES] == [1, 16_384]
    assert kept("A=", 8_191).patterns == ("a",)
    assert kept("A=", 8_191).tokens == ("-", "=", "a")


def test_a_feature_that_lower_case_makes_a_secret_is_dropped() -> None:
    name = "GHP_" + "A" * 20
    found = consensus_of(examples(*[f"A\n{name} = 1\n"] * 2))
    assert (found.tokens, found.patterns) == (("=", "a"), ("a",))


# ---- laws

WORDS = st.sampled_from(["alpha", "beta", "Gamma", "Delta", "if", "return", "1", "'s'", "+", "==", "(", ")", ":"])
CODE = st.lists(st.lists(WORDS, max_size=4), min_size=1, max_size=4)
CODES = st.lists(CODE, min_size=2, max_size=5)


def written(code: Sequence[Sequence[str]], gap: str = " ", end: str = "\n") -> str:
    return "".join(gap.join(line) + end for line in code)


def outcome(found: Sequence[Example]) -> Consensus | Reason:
    try:
        return consensus_of(found)
    except Refused as error:
        return error.reason


@given(CODES, st.randoms(use_true_random=False))
def test_the_order_of_the_examples_plays_no_part(codes: list[list[list[str]]], chance: random.Random) -> None:
    found = examples(*map(written, codes))
    shuffled = chance.sample(found, len(found))
    assert outcome(found) == outcome(shuffled)


@given(CODES)
def test_white_space_plays_no_part(codes: list[list[list[str]]]) -> None:
    spaced = examples(*(written(code, gap=" \t  ", end="   \r\n\n") for code in codes))
    assert outcome(spaced) == outcome(examples(*map(written, codes)))


@given(CODES)
def test_comments_play_no_part(codes: list[list[list[str]]]) -> None:
    commented = examples(*("# Why\n" + written(code, end="  # If + 'so\n") for code in codes))
    assert outcome(commented) == outcome(examples(*map(written, codes)))


@given(CODES)
def test_names_in_lower_case_numbers_and_strings_play_no_part(codes: list[list[list[str]]]) -> None:
    names = {"alpha": "_Other", "beta": "x1", "1": "2.5e-3", "'s'": 'rb"""If"""'}
    renamed = [[[names.get(word, word) for word in line] for line in code] for code in codes]
    assert outcome(examples(*map(written, renamed))) == outcome(examples(*map(written, codes)))


@given(CODES)
def test_what_is_kept_is_what_enough_examples_hold(codes: list[list[list[str]]]) -> None:
    found, given_ = outcome(examples(*map(written, codes))), [normalise(written(code), language("a.py")) for code in codes]
    if isinstance(found, Reason):
        assert found in (Reason.NO_CONSENSUS, Reason.BELOW_THRESHOLD)
        return
    enough = records.threshold(len(codes))
    for pattern in found.patterns:
        assert sum(any(line.tokens and line.pattern == pattern for line in lines) for lines in given_) >= enough
    for token in found.tokens:
        assert sum(any(token in line.tokens for line in lines) for lines in given_) >= enough
    assert records.RESONANT <= found.minimum <= found.average <= records.WHOLE
    assert found.patterns and len(found.patterns) + len(found.tokens) >= 2
