"""What may be written, and what it means (ABSTRACTIONS 1.2, 3 to 6)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.shards.commands import Collect, Command, Distil, Import, Mark, Merge, Reuse, Word, parse
from sdaqf_tasks.shards.records import CORE, LARGEST, SPEC_CHARACTERS, Category, Choice, Kind, Shard, Tier, Trust
from tests.keys import KEY

OTHER = Shard(kind=Kind.PROJECT, id="other")
SPEC = "region:a.py:1-2"
STATE = f"SHARD-STATE-{'A' * 64}"


def refusal(line: str) -> Reason:
    with pytest.raises(Refused) as caught:
        parse(line)
    return caught.value.reason


# ---- what each form means -------------------------------------------------------------------------------------------

WORDS = {
    "begin scratch": Word("begin scratch"),
    " \t BEGIN \n  Scratch\r\n": Word("begin scratch"),
    "\u2003begin\u00a0scratch\x1c": Word("begin scratch"),
    "discard": Word("discard"),
    "Commit": Word("commit"),
    "SNAPSHOT\n": Word("snapshot"),
    "revert": Word("revert"),
    "rollback": Word("revert"),
    "RollBack": Word("revert"),
    f"revert --to {STATE}": Word("revert", STATE),
    f"ROLLBACK --TO {STATE}": Word("revert", STATE),
    "drop retry": Word("drop", "retry"),
    " DROP   retry ": Word("drop", "retry"),
    "accept retry": Word("accept", "retry"),
}


@pytest.mark.parametrize(("line", "command"), WORDS.items())
def test_words_are_read_in_any_case_with_any_white_space(line: str, command: Word) -> None:
    assert parse(line) == command


def distilled(**said: Any) -> Distil:
    return Distil("retry", Tier.PATTERN, Category.STRUCTURAL, None, "", (SPEC,))._replace(**said)


DISTILS = {
    f"/commit_abstractions retry {SPEC}": distilled(),
    f"\t/commit_abstractions\n  retry   {SPEC} ": distilled(),
    f"/commit_abstractions tier:logic category:state parent:base retry {SPEC}": distilled(
        tier=Tier.LOGIC, category=Category.STATE, parent="base"
    ),
    f"/commit_abstractions retry {SPEC} tier:contract": distilled(tier=Tier.CONTRACT),
    f'/commit_abstractions retry statement:"a  b" {SPEC}': distilled(statement="a  b"),
    f'/commit_abstractions retry statement:"say \\"tier:x\\" \\u00e9\\n" {SPEC}': distilled(statement='say "tier:x" é\n'),
    f'/commit_abstractions retry statement:"" {SPEC}': distilled(),
    "/commit_abstractions retry node:CTX-NODE-1 intel:last_result:overlap": distilled(
        specs=("node:CTX-NODE-1", "intel:last_result:overlap")
    ),
}


@pytest.mark.parametrize(("line", "command"), DISTILS.items())
def test_distil_takes_options_in_any_order_and_a_statement_with_spaces(line: str, command: Distil) -> None:
    assert parse(line) == command


@pytest.mark.parametrize(
    ("alias", "tier"), {**{tier.value: tier for tier in Tier}, "idiom": Tier.CONVENTION, "mechanism": Tier.LOGIC}.items()
)
def test_tiers_and_their_aliases(alias: str, tier: Tier) -> None:
    assert parse(f"/commit_abstractions retry tier:{alias} {SPEC}") == distilled(tier=tier)


ALIASES = {"syntax": "structural", "control_flow": "procedural", "data_flow": "relational", "interface": "boundary"}


@pytest.mark.parametrize(("alias", "category"), {**{each.value: each.value for each in Category}, **ALIASES}.items())
def test_categories_and_their_aliases(alias: str, category: str) -> None:
    assert parse(f"/commit_abstractions retry category:{alias} {SPEC}") == distilled(category=Category(category))


OTHERS: dict[str, Command] = {
    "/reuse_abstractions adopt core:a": Reuse(Choice.ADOPT, "a", None),
    "/reuse_abstractions reject core:a": Reuse(Choice.REJECT, "a", None),
    "/reuse_abstractions promote core:a local:b": Reuse(Choice.PROMOTE, "a", "b"),
    "/reuse_abstractions promote local:b core:a": Reuse(Choice.PROMOTE, "a", "b"),
    "/reuse_abstractions withdraw core:a": Reuse(None, "a", None),
    "/merge_abstractions adopt core:a": Merge(False, CORE, "a", "a"),
    "/merge_abstractions promote project:other:a as:b": Merge(True, OTHER, "a", "b"),
    "/merge_abstractions adopt as:b project:other:a": Merge(False, OTHER, "a", "b"),
    "/merge_abstractions adopt core:a as:a": Merge(False, CORE, "a", "a"),
    **{f"/prune_abstractions {mode} a": Mark(mode, "a") for mode in ("stale", "prunable", "refresh", "protect", "unprotect")},
    "/prune_abstractions collect": Collect(2, 700, 700, Trust.PROJECT),
    "/prune_abstractions collect gap:0 quality_at_most:1 confidence_at_most:2 trust_at_most:core": Collect(0, 1, 2, Trust.CORE),
    "/prune_abstractions collect quality_below:1 confidence_below:2 trust_below:exploratory": Collect(2, 1, 2, Trust.EXPLORATORY),
    "/import_abstractions a.json b.json": Import(("a.json", "b.json")),
}


@pytest.mark.parametrize(("line", "command"), OTHERS.items())
def test_reuse_merge_prune_and_import(line: str, command: Command) -> None:
    assert parse(line) == command


@pytest.mark.parametrize("line", [*WORDS, *DISTILS, *OTHERS])
def test_the_canonical_spelling_reads_as_the_same(line: str) -> None:
    assert parse(str(parse(line))) == parse(line)
    assert str(parse(str(parse(line)))) == str(parse(line))


# ---- what is malformed ----------------------------------------------------------------------------------------------

TWICE = ("tier:logic", "category:state", "parent:a", 'statement:"a"')
NO_STATEMENTS = ("", "a", "'a'", '"a', '"a"b', '" "', '"\\t"', '"\\u0000"', '"\\ud800"', '"\\x"', '"a\nb"', "1", "null", '["a"]')
MALFORMED = [
    *("", " ", "\0", "begin", "begin scratches", "beginscratch", "scratch", "begin scratch now", "commit all", "discard x", "snapshot x"),
    *("revert x", "revert --to", f"revert --to {STATE} x", f"revert {STATE}", "drop", "drop a b", "accept", "init", "stage", "import a"),
    *("commit_abstractions a b", "/COMMIT_ABSTRACTIONS a b", "/commit", "/apply_abstractions a"),
    *("/commit_abstractions", "/commit_abstractions retry", f"/commit_abstractions {SPEC}", "/commit_abstractions retry tier:logic"),
    *(f"/commit_abstractions retry tier:{tier} {SPEC}" for tier in ("", "Logic", "axiom")),
    *(f"/commit_abstractions retry category:{category} {SPEC}" for category in ("", "STATE", "control-flow")),
    *(f"/commit_abstractions retry {option} {option} {SPEC}" for option in TWICE),
    *(f"/commit_abstractions retry statement:{text} {SPEC}" for text in NO_STATEMENTS),
    *(f"/reuse_abstractions {rest}" for rest in ("", "adopt", "adopt a", "ADOPT core:a", "adopt core:a local:b", "reject core:a local:b")),
    *(f"/reuse_abstractions {rest}" for rest in ("withdraw core:a local:b", "promote core:a", "promote local:b", "adopt core:a core:a")),
    *(f"/reuse_abstractions {rest}" for rest in ("adopt core:a extra", "keep core:a", "promote core:a local:b local:c")),
    *(f"/merge_abstractions {rest}" for rest in ("", "adopt", "adopt a", "reject core:a", "adopt core:a project:other:a")),
    *(f"/merge_abstractions {rest}" for rest in ("adopt core:a extra", "adopt core:a as:b as:c", "adopt core:a local:b")),
    *(f"/prune_abstractions {rest}" for rest in ("", "stale", "stale a b", "Stale a", "a", "collect a", "collect trust_at_most:")),
    *(f"/prune_abstractions collect {rest}" for rest in ("gap:1 gap:1", "quality_at_most:1 quality_below:1", "trust_below:CORE", "gaps:1")),
    *(f"/prune_abstractions collect gap:{number}" for number in ("", "-1", "+1", "1.0", "x", "\u0663", "0x1")),
    *("/import_abstractions", "/import_abstractions a a"),
]


@pytest.mark.parametrize("line", MALFORMED)
def test_what_is_malformed_is_refused(line: str) -> None:
    assert refusal(line) is Reason.INVALID_COMMAND


CONCEPTS = ["A", "a.b", "aé", "a/b", "a" * 65, "a\u200b", "é", "../a"]


@pytest.mark.parametrize("concept", CONCEPTS)
@pytest.mark.parametrize(
    "form",
    [
        "drop {}",
        "accept {}",
        f"/commit_abstractions {{}} {SPEC}",
        f"/commit_abstractions retry parent:{{}} {SPEC}",
        "/reuse_abstractions adopt core:{}",
        "/reuse_abstractions promote core:a local:{}",
        "/merge_abstractions adopt core:{}",
        "/merge_abstractions adopt project:other:{}",
        "/merge_abstractions adopt core:a as:{}",
        "/prune_abstractions stale {}",
    ],
)
def test_a_concept_is_refused_with_the_allowed_form_and_never_rewritten(form: str, concept: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(form.format(concept))
    assert caught.value.reason is Reason.INVALID_CONCEPT
    assert "a-z 0-9 _ -" in caught.value.message


@pytest.mark.parametrize("concept", ["a", "-", "_", "0", "a" * 64, "a-b_c"])
def test_a_concept_is_taken_as_it_is(concept: str) -> None:
    assert parse(f"drop {concept}") == Word("drop", concept)


@pytest.mark.parametrize("name", ["", "A", ".a", "-a", "a..b", "a" * 65, "é", "a/b"])
def test_sh_2_a_project_id_is_refused_and_never_rewritten(name: str) -> None:
    assert refusal(f"/merge_abstractions adopt project:{name}:a") is Reason.INVALID_SHARD


def test_a_source_without_its_project_or_its_concept() -> None:
    assert refusal("/merge_abstractions adopt project:a") is Reason.INVALID_SHARD
    assert refusal("/merge_abstractions adopt core:core:a") is Reason.INVALID_CONCEPT
    assert refusal("/merge_abstractions adopt core:") is Reason.INVALID_CONCEPT


# ---- bounds, the last good and the first bad ------------------------------------------------------------------------


def test_eight_sources_and_not_nine() -> None:
    specs = tuple(f"region:{number}.py:1-2" for number in range(9))
    assert parse(f"/commit_abstractions retry {' '.join(specs[:8])}") == distilled(specs=specs[:8])
    assert refusal(f"/commit_abstractions retry {' '.join(specs)}") is Reason.TOO_MANY_SOURCES


def test_a_source_has_at_most_400_characters() -> None:
    spec = "region:" + "a" * (SPEC_CHARACTERS - 7)
    assert parse(f"/commit_abstractions retry {spec}") == distilled(specs=(spec,))
    assert refusal(f"/commit_abstractions retry {spec}a") is Reason.INVALID_REGION


@pytest.mark.parametrize("character", ["a", "é", "😀", '"', "\\"])
def test_a_statement_has_at_most_500_characters(character: str) -> None:
    for spelt in (json.dumps(character * 500), json.dumps(character * 500, ensure_ascii=False)):
        assert parse(f"/commit_abstractions retry statement:{spelt} {SPEC}") == distilled(statement=character * 500)
    for spelt in (json.dumps(character * 501), json.dumps(character * 501, ensure_ascii=False)):
        assert refusal(f"/commit_abstractions retry statement:{spelt} {SPEC}") is Reason.INVALID_COMMAND


@pytest.mark.parametrize("key", ["gap", "quality_at_most", "confidence_at_most", "quality_below", "confidence_below"])
def test_numbers_are_range_checked(key: str) -> None:
    for number in (0, LARGEST):
        fields: dict[str, Any] = {key.partition("_")[0]: number}
        assert parse(f"/prune_abstractions collect {key}:{number}") == Collect()._replace(**fields)
    for text in ("4294967296", "99999999999", "18446744073709551616"):
        assert refusal(f"/prune_abstractions collect {key}:{text}") is Reason.INVALID_COMMAND


def test_a_command_has_at_most_65536_characters() -> None:
    assert parse("commit" + " " * (65_536 - 6)) == Word("commit")
    assert refusal("commit" + " " * (65_536 - 5)) is Reason.INVALID_COMMAND


@pytest.mark.parametrize(
    "line",
    [
        f'/commit_abstractions retry statement:"{KEY}" {SPEC}',
        f'/commit_abstractions retry statement:"\\u{ord(KEY[0]):04x}{KEY[1:]}" {SPEC}',
        f"/commit_abstractions retry region:{KEY}.py:1-2 {SPEC}",
        f"revert --to {KEY}",
        f"/import_abstractions {KEY}.json",
        f"drop ghp_{'a' * 20}",
        f"/merge_abstractions adopt project:ghp_{'a' * 20}:a",
    ],
)
def test_a_command_that_looks_like_a_secret_is_not_kept(line: str) -> None:
    with pytest.raises(Refused) as caught:
        parse(line)
    assert caught.value.reason is Reason.SECRET_SHAPED_TEXT
    assert KEY not in str(caught.value)


# ---- laws -----------------------------------------------------------------------------------------------------------

concepts = st.from_regex(r"[a-z0-9_-]{1,64}", fullmatch=True)
projects = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True).map(lambda name: Shard(kind=Kind.PROJECT, id=name))
numbers = st.integers(0, LARGEST)
prose = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=500)
statements = prose.filter(lambda text: not text or text.strip())
words = st.text(st.characters(exclude_categories=["Cs", "Z", "C"]), min_size=1, max_size=60)
specs = st.builds("region:{}".format, words)
commands: st.SearchStrategy[Command] = st.one_of(
    st.sampled_from([Word(word) for word in ("begin scratch", "discard", "commit", "snapshot", "revert")]),
    st.builds(Word, st.sampled_from(["drop", "accept"]), concepts),
    st.builds(Word, st.just("revert"), words),
    st.builds(
        Distil,
        concepts,
        st.sampled_from(Tier),
        st.sampled_from(Category),
        st.none() | concepts,
        statements,
        st.lists(specs, min_size=1, max_size=8).map(tuple),
    ),
    st.builds(Reuse, st.sampled_from([None, Choice.ADOPT, Choice.REJECT]), concepts, st.none()),
    st.builds(Reuse, st.just(Choice.PROMOTE), concepts, concepts),
    st.builds(Merge, st.booleans(), st.just(CORE) | projects, concepts, concepts),
    st.builds(Mark, st.sampled_from(["stale", "prunable", "refresh", "protect", "unprotect"]), concepts),
    st.builds(Collect, numbers, numbers, numbers, st.sampled_from(Trust)),
    st.builds(Import, st.lists(words, min_size=1, max_size=9, unique=True).map(tuple)),
)


@given(commands)
def test_every_command_is_read_from_its_spelling(command: Command) -> None:
    assert parse(str(command)) == command


pieces = st.sampled_from(
    [
        *("begin", "scratch", "revert", "--to", "drop", "a", "/commit_abstractions", "/merge_abstractions", "/reuse_abstractions"),
        *("/prune_abstractions", "collect", "adopt", "promote", "core:a", "project:b:c", "local:a", "as:b", "gap:7", "tier:idiom", SPEC),
        *("statement:", '"', "\\", 'statement:"x y"', " ", "\n", "\u2003", "é", "x", "parent:a", "quality_below:3", "/import_abstractions"),
    ]
)


@given(st.lists(pieces | st.text(max_size=3), max_size=8), st.sampled_from(["", " "]))
def test_a_line_is_refused_or_read_as_its_spelling_is(parts: list[str], between: str) -> None:
    try:
        command = parse(between.join(parts))
    except Refused:
        return
    assert parse(str(command)) == command
