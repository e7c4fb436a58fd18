"""What manifests may be written like (PIPELINE 2, "YAML subset"), against two corpora and against chance."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import Malformed, Reason, SdaqfError
from sdaqf_tasks.formats import plain_yaml
from sdaqf_tasks.formats.plain_yaml import Document, load, nearest

ROOT = Path(__file__).parents[2]
PROFILE = [json.loads(line) for line in (ROOT / "tests/vectors/yaml-profile.jsonl").read_text("utf-8").splitlines()]
SUITE = ROOT.parent / "shared/corpora/yaml-test-suite/src"

MANIFEST = """\
# what the reviewer is told
sources:
  spec: {path: docs/spec.md, kind: specification, for: 30d}
  code:
    glob: "src/**/*.py"   # quoted: it could begin with a star
    labels: [core,
      'it''s', "a\\tb"]
relationships:
- spec VERIFIES code
- from: spec
  to: code
  why: |
    two lines
    of text
  folded: >-
    one
    line
queries:
  review: {budget: {bytes: 65536, nodes: 64}, required: true, note: null}
"""


def read(text: str, name: str = "m.yaml") -> Document:
    return load(text.encode(), name)


def value(text: str) -> Any:
    return read(text).value


def refusal(text: str | bytes) -> SdaqfError:
    with pytest.raises(Malformed) as caught:
        load(text.encode() if isinstance(text, str) else text, "m.yaml")
    return caught.value


class TestCorpora:
    @pytest.mark.parametrize("case", PROFILE, ids=[case["name"] for case in PROFILE])
    def test_the_profile_holds(self, case: dict[str, Any]) -> None:
        if case["verdict"] == "accept":
            assert same(value(case["input"]), case["value"])
        else:
            assert refusal(case["input"]).excerpt

    def test_the_public_suite_holds(self) -> None:
        if not SUITE.is_dir():
            pytest.skip(f"the public YAML suite is not at {SUITE.relative_to(ROOT.parent)} beside the repository: 406 cases NOT RUN")
        same_value, refused, wrong = 0, 0, []
        for case in suite():
            try:
                got = load(case.text.encode(), case.name).value
            except SdaqfError as error:
                refused += 1
                assert error.reason is Reason.MALFORMED_YAML
                assert re.fullmatch(rf"{re.escape(case.name)}:\d+:\d+", error.where)
                assert len(error.excerpt) == 2
                assert case.fail or "this is not YAML" not in error.message, f"{case.name}: refused without naming a rule"
            else:
                if case.fail or not same(got, said(case.tree)):
                    wrong.append((case, got))
                same_value += 1
        assert not wrong
        assert same_value + refused == 406
        assert same_value >= 45  # 50 with libyaml 0.2.6: not everything is refused

    def test_the_public_suite_holds_inside_a_mapping_and_without_tabs(self) -> None:
        """Most of the suite's roots are lists and texts: below a key, they are ours to read too."""
        if not SUITE.is_dir():
            pytest.skip(f"the public YAML suite is not at {SUITE.relative_to(ROOT.parent)} beside the repository: NOT RUN")
        same_value, wrong = 0, []
        for case in suite():
            if re.search(r"(?m)^(---|\.\.\.|%)|\t", case.text) or not case.text.endswith("\n"):
                continue
            try:
                got = value("k:\n" + re.sub(r"(?m)^", "  ", case.text[:-1]) + "\n")
            except SdaqfError:
                continue
            if case.fail or not same(got, {"k": said(case.tree)}):
                wrong.append((case, got))
            same_value += 1
        assert not wrong
        assert same_value >= 70  # 74 with libyaml 0.2.6


class Case(NamedTuple):
    name: str
    text: str
    fail: bool
    tree: str


def suite() -> Iterator[Case]:
    """The suite's cases; later ones of a file inherit what they do not say from the first."""
    for file in sorted(SUITE.glob("*.yaml")):
        cases = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
        for number, case in enumerate(cases):
            whole = {**cases[0], **case}
            yield Case(f"{file.stem}-{number}", visible(whole["yaml"]), bool(whole.get("fail")), visible(whole["tree"]))


def visible(text: str) -> str:
    """The text that the suite's visible marks stand for."""
    text = re.sub("—*»", "\t", text.replace("␣", " ")).replace("⇔", "\ufeff").replace("↵", "").replace("←", "\r")
    return re.sub("∎\n\\Z", "", text)


def said(tree: str) -> Any:
    """The value that a list of the suite's events stands for, plain scalars typed as the profile does."""
    events = iter(line.lstrip(" ") for line in tree.splitlines())

    def node(event: str) -> Any:
        if event in ("+MAP", "+MAP {}"):
            pairs = []
            while (key := next(events)) != "-MAP":
                pairs.append((node(key), node(next(events))))
            assert len(dict(pairs)) == len(pairs)
            assert all(type(key) is str for key, _ in pairs)
            return dict(pairs)
        if event in ("+SEQ", "+SEQ []"):
            items = []
            while (item := next(events)) != "-SEQ":
                items.append(node(item))
            return items
        kind, style, text = event[:5], event[5], event[6:]
        assert kind == "=VAL ", f"{event}: a property, or no node"
        text = re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "\\": "\\"}[found[1]], text)
        return plain(text) if style == ":" else text

    assert [next(events), next(events)[:4]] == ["+STR", "+DOC"]
    root = node(next(events))
    assert [event[:4] for event in events] == ["-DOC", "-STR"]
    return root


def plain(text: str) -> Any:
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", text):
        return int(text)
    return {"true": True, "false": False, "null": None}.get(text, text)


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types: 1 is not true."""
    return json.dumps(one) == json.dumps(other)


class TestValues:
    """A plain scalar is what it looks like: a text, unless it is a word or a number as JSON writes them."""

    def test_a_manifest_reads_as_it_looks(self) -> None:
        assert value(MANIFEST) == {
            "sources": {
                "spec": {"path": "docs/spec.md", "kind": "specification", "for": "30d"},
                "code": {"glob": "src/**/*.py", "labels": ["core", "it's", "a\tb"]},
            },
            "relationships": [
                "spec VERIFIES code",
                {"from": "spec", "to": "code", "why": "two lines\nof text\n", "folded": "one line"},
            ],
            "queries": {"review": {"budget": {"bytes": 65536, "nodes": 64}, "required": True, "note": None}},
        }

    def test_line_ends_of_windows_change_nothing(self) -> None:
        assert value(MANIFEST.replace("\n", "\r\n")) == value(MANIFEST)

    @pytest.mark.parametrize("text", ["no", "~", "Null", "True", "010", "+1", "1.0", "1e3", "1_000", "12:30:00", "2026-01-01", "--", "<<"])
    def test_what_other_programs_would_convert_stays_a_text(self, text: str) -> None:
        assert value(f"a: {text}\n") == {"a": text}
        assert value(f"a: [{text}]\n") == {"a": [text]}

    @pytest.mark.parametrize(("text", "typed"), [("true", True), ("false", False), ("null", None), ("0", 0), ("-0", 0), ("-12", -12)])
    def test_words_and_integers_are_typed_where_they_are_plain(self, text: str, typed: object) -> None:
        assert same(value(f"a: {text}\n"), {"a": typed})
        assert value(f"a: '{text}'\n") == value(f'"a": "{text}"\n') == value(f"a: |-\n  {text}\n") == {"a": text}

    def test_an_integer_has_up_to_18_digits(self) -> None:
        assert value(f"a: -{'9' * 18}\n") == {"a": -(10**18 - 1)}
        error = refusal(f"a: {'9' * 19}\n")
        assert (error.message, error.where) == ("a number of more than 18 digits", "m.yaml:1:4")
        assert value(f"a: '{'9' * 19}'\n") == {"a": "9" * 19}

    def test_escapes_reach_every_character_but_nul_and_surrogates(self) -> None:
        assert value(r'a: "\t\n\x01\x7f\u2028\ufeff\U0001F600"' + "\n") == {"a": "\t\n\x01\x7f\u2028\ufeff\U0001f600"}

    def test_one_document_may_have_its_marks(self) -> None:
        assert value("---\na: 1\n...\n# end\n") == {"a": 1}


class TestBounds:
    def test_a_manifest_has_up_to_a_mebibyte(self) -> None:
        text = b"a: 1 #".ljust(plain_yaml.BYTES - 1, b"x")
        assert load(text + b"\n", "m.yaml").value == {"a": 1}
        error = refusal(text + b"x\n")
        assert (error.reason, error.where) == (Reason.TOO_LARGE, "m.yaml:1:1")

    @pytest.mark.parametrize(("opens", "inside", "closes"), [("[", "", "]"), ("{a: ", "x", "}"), ("- ", "x", "")])
    def test_collections_stand_in_one_another_up_to_32_deep(self, opens: str, inside: str, closes: str) -> None:
        def nested(depth: int) -> str:
            return "a:\n  " + opens * (depth - 1) + inside + closes * (depth - 1) + "\n"

        assert value(nested(32))
        error = refusal(nested(33))
        assert (error.message, error.where) == ("nested deeper than 32 levels", f"m.yaml:2:{3 + 31 * len(opens)}")

    def test_a_manifest_has_50_000_values_with_its_root_and_without_its_keys(self) -> None:
        assert len(value("a:\n" + "- b\n" * 49_998)["a"]) == 49_998  # the root and the list
        error = refusal("a:\n" + "- b\n" * 49_999)
        assert (error.reason, error.message, error.where) == (Reason.MALFORMED_YAML, "more than 50000 values", "m.yaml:50000:3")
        assert len(value("".join(f"a{n}: b\n" for n in range(49_999)))) == 49_999
        assert refusal("".join(f"a{n}: b\n" for n in range(50_000))).where == "m.yaml:50000:9"

    @pytest.mark.parametrize("unit", ["[", "{", "{a: ", "- ", "? ", "a:\n ", "[]", "!", "&a ", "*a ", "'", '"', "- |\n", "#", "\n"])
    def test_a_mebibyte_of_anything_is_answered(self, unit: str) -> None:
        for before in ("", "a: ", "a:\n  - ", "a: ["):
            text = (before + unit * (plain_yaml.BYTES // len(unit)))[: plain_yaml.BYTES - 1] + "\n"
            read_or_refused(text.encode())


REFUSED = [
    # text, message, line:column
    ("a: 1\na: 2\n", "the key `a` stands twice, first on line 1", "2:1"),
    ("a: {b: 1, 'b': 2}\n", "the key `b` stands twice, first on line 1", "1:11"),
    ("a: &x 1\n", "a plain value cannot begin with `&`, the sign of an anchor", "1:4"),
    ("a:\n  - *x\n", "a plain value cannot begin with `*`, the sign of an alias", "2:5"),
    ("a: *.py\n", "a plain value cannot begin with `*`, the sign of an alias", "1:4"),
    ("a: [**/*.py]\n", "a plain value cannot begin with `*`, the sign of an alias", "1:5"),
    ("a: ! x\n", "a plain value cannot begin with `!`, the sign of a tag", "1:4"),
    ("a: !!str x\n", "a plain value cannot begin with `!`, the sign of a tag", "1:4"),
    ("a: !x!y z\n", "a plain value cannot begin with `!`, the sign of a tag", "1:4"),
    ("a: %x\n", "a plain value cannot begin with `%`, the sign of a directive", "1:4"),
    ("%YAML 1.2\n---\na: 1\n", "a plain value cannot begin with `%`, the sign of a directive", "1:1"),
    ("%OTHER\n---\na: 1\n", "a plain value cannot begin with `%`, the sign of a directive", "1:1"),
    ("a: @x\n", "a plain value cannot begin with `@`", "1:4"),
    ("a: `x`\n", "a plain value cannot begin with a backtick", "1:4"),
    ("a: 1\n---\nb: 2\n", "a second document begins, and a manifest is one", "2:1"),
    ("a: 1\n...\nb: 2\n", "a second document begins, and a manifest is one", "3:1"),
    ("? a\n: b\n", "a key is written without `?`", "1:1"),
    ("a: [? b : c]\n", "a key is written without `?`", "1:5"),
    ("a: {?b: c}\n", "a key is written without `?`", "1:5"),
    ("<<: {a: 1}\n", "the key `<<` has a meaning of its own in YAML", "1:1"),
    ("'=': 1\n", "the key `=` has a meaning of its own in YAML", "1:1"),
    ("a:\n  12: b\n", "the key 12 is not a text", "2:3"),
    ("null: b\n", "the key null is not a text", "1:1"),
    ("[a]: b\n", "a key is a text, not a mapping or a list", "1:1"),
    ("a: {: b}\n", "a value is missing here", "1:5"),
    ("a: 1\nb:\n", "an empty value", "2:1"),
    ("a: {b: 1, c}\n", "an empty value", "1:11"),
    ("a:\n-\n- b\n", "an empty value", "2:2"),
    ('a: "\\ud83d\\ude00"\n', "the escape of a surrogate, or of no character", "1:7"),
    ('a: "b\\0"\n', "the escape of a NUL", "1:4"),
    ('a: "b\n  c"\n', "a quoted text on several lines", "1:4"),
    ("a: {'b\n  c': d}\n", "a quoted text on several lines", "1:5"),
    ("a: b\nc\n", "this is neither `key: value` nor a list item", "2:1"),
    ("a: 'b' c\n", "this belongs neither to what is above nor to the mapping around it", "1:8"),
    ("a: 'b'#c\n", "a comment directly after something", "1:7"),
    ("a: [b]#c\n", "a comment directly after something", "1:7"),
    ("a: [b,#c\n  d]\n", "a comment directly after something", "1:7"),
    ("a: |#c\n  b\n", "a comment after the sign of a block of text", "1:4"),
    ("a: >-  # c\n  b\n", "a comment after the sign of a block of text", "1:4"),
    ("a: |\n     \n  b\n", "a blank line above the text is longer than the text's indentation", "1:4"),
    ("a: |\n     \n  # b\nc: d\n", "a blank line above the text is longer than the text's indentation", "1:4"),
    ("a: |2\n   \n  b\n", "a blank line above the text is longer than the text's indentation", "1:4"),
    ("a:\n|\n  b\n", "a block of text begins no deeper than what it belongs to", "2:1"),
    ("a: [\n  b\n]\n", "a line between brackets is indented no deeper than what they belong to", "3:1"),
    ("a:\n- b: {c: d,\n  e: f}\n", "a line between brackets is indented no deeper than what they belong to", "3:3"),
    ("a: [-]\n", "a dash alone between brackets", "1:5"),
    ("- a\n", "a manifest is a mapping", "1:1"),
    ("a\n", "a manifest is a mapping", "1:1"),
    ("# a\n", "a manifest is a mapping", "2:1"),
    ("a: b: c\n", "a `: ` where no key can be", "1:5"),
    ("a: [b\n", "a list in brackets goes on with `,` or `]`", "1:4"),
    ("a: 'b\n", "the quote that opens here is never closed", "1:4"),
    ("", "the file must end in a line feed", "1:1"),
    ("a: b", "the file must end in a line feed", "1:5"),
    ("\ufeffa: b\n", "a byte-order mark", "1:1"),
    ("a: b\tc\n", "a tab", "1:5"),
    ("a: b\rc: d\n", "a carriage return without a line feed", "1:5"),
    ("a: 1\nb: é\x85\n", "the character U+0085", "2:5"),
    ("# \u2029\n", "the character U+2029", "1:3"),
    ("a: '\x00'\n", "the character U+0000", "1:5"),
    ("a: '\x7f'\n", "the character U+007F", "1:5"),
]


class TestRefusals:
    """What two programs could read differently is refused at its place, with the rule."""

    @pytest.mark.parametrize(("text", "message", "place"), REFUSED, ids=[repr(row[0]) for row in REFUSED])
    def test_a_refusal_names_rule_and_place(self, text: str, message: str, place: str) -> None:
        error = refusal(text)
        assert (error.reason, error.message, error.where) == (Reason.MALFORMED_YAML, message, f"m.yaml:{place}")
        assert error.todo

    def test_the_nearest_thing_that_is_allowed(self) -> None:
        assert value("a: b#c\nd: x*y&z!%@`\n") == {"a": "b#c", "d": "x*y&z!%@`"}
        assert value("a: [\n b,\n# c\n\n c ]\n") == {"a": ["b", "c"]}
        assert value("a: 'b' #c\n") == {"a": "b"}
        assert value("a: |\n  \n  b\n") == {"a": "\nb\n"}
        assert value("a: |\n     \nb: c\n") == {"a": "", "b": "c"}
        assert value("{\na: [\nb]\n}\n") == {"a": ["b"]}
        assert value("a: what? yes\n?b: c\n") == {"a": "what? yes", "?b": "c"}

    def test_globs_that_begin_with_a_star_are_explained(self) -> None:
        error = refusal("code:\n  glob: **/*.py\n")
        assert error.todo == 'Quote globs that begin with a star: "*.py".'
        assert error.excerpt == ("  |   glob: **/*.py", "  |         ^")

    def test_bytes_that_are_not_utf_8_have_a_place(self) -> None:
        error = refusal("a: é\nb: é".encode() + b"\xff\n")
        assert (error.reason, error.where, error.excerpt) == (Reason.NOT_UTF8, "m.yaml:2:5", ("  | b: é\\xff", "  |     ^"))

    def test_without_libyaml_nothing_is_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "yaml._yaml", None)
        error = refusal("a: 1\n")
        assert "libyaml" in error.message
        assert "pip install" in error.todo

    def test_an_older_libyaml_reads_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("yaml._yaml.get_version", lambda: (0, 2, 2))
        assert refusal("a: 1\n").message == "reading YAML needs PyYAML with libyaml 0.2.5 or newer, and this one is 0.2.2"


class TestPlaces:
    """Every value has a place, and a path that leads nowhere has that of its nearest ancestor."""

    def test_of_values_and_keys(self) -> None:
        document = read(MANIFEST)
        assert document.place(("sources", "spec", "path")) == "m.yaml:3:16"
        assert document.place(("sources", "spec", "path"), key=True) == "m.yaml:3:10"
        assert document.place(("sources", "code"), key=True) == "m.yaml:4:3"
        assert document.place(("sources", "code", "labels", 1)) == "m.yaml:7:7"
        assert document.place(("relationships", 1)) == "m.yaml:10:3"
        assert document.place(("relationships", 1, "why")) == "m.yaml:12:8"
        assert document.place(()) == "m.yaml:2:1"

    def test_of_the_nearest_ancestor(self) -> None:
        document = read(MANIFEST)
        assert document.place(("sources", "spec", "title", 3)) == document.place(("sources", "spec")) == "m.yaml:3:9"
        assert document.place(("sources", "spec", "title"), key=True) == "m.yaml:3:3"
        assert document.place(("relationships", 7)) == document.place(("relationships",)) == "m.yaml:9:1"

    def test_a_fault_shows_what_it_is_about(self) -> None:
        error = read("é: {kind: spce}\n").fault(("é", "kind"), "no such kind", todo="Did you mean `spec`?")
        assert (error.reason, error.where, error.todo) == (Reason.MANIFEST_INVALID, "m.yaml:1:11", "Did you mean `spec`?")
        assert error.excerpt == ("  | é: {kind: spce}", "  |           ^")

    def test_an_excerpt_is_short_and_prints_as_it_is(self) -> None:
        document = read(f"a: [{'x, ' * 100}'\u202e\u200b', b, {'y, ' * 100}z]\n")
        line, caret = document.excerpt(("a", 101))
        assert "'\\u202e\\u200b', b, y" in line
        assert line[caret.index("^")] == "b"
        assert line.isprintable()
        assert len(line) < 120

    def test_the_nearest_word(self) -> None:
        assert nearest("labls", ["kind", "labels"]) == "labels"
        assert nearest("xyz", ["kind", "labels"]) is None


def read_or_refused(data: bytes) -> None:
    try:
        document = load(data, "m.yaml")
    except SdaqfError as error:
        assert re.fullmatch(r"m\.yaml:\d+:\d+", error.where)
    else:
        assert type(document.value) is dict


SIGNS = "\n \t\r#-?:,[]{}&*!|>'\"%@`\\=~0a\x00\x85\ufeff"
PIECES = st.sampled_from([*SIGNS, "\n  ", "\n- ", ": ", "---\n", "...\n", "<<", " |\n   \n", " #", "\\ud800"])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
KEYS = TEXTS.filter(lambda key: key not in ("<<", "="))
LEAVES = TEXTS | st.booleans() | st.none() | st.integers(-(10**18) + 1, 10**18 - 1)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20)
ROOTS = st.dictionaries(KEYS, VALUES, max_size=4)


class TestChance:
    @given(st.binary(max_size=80))
    def test_bytes_are_read_or_refused(self, data: bytes) -> None:
        read_or_refused(data)

    @given(st.lists(PIECES, max_size=25).map("".join))
    @example("'a'b: c")
    def test_pieces_are_read_or_refused(self, text: str) -> None:
        read_or_refused(f"k: {text}\n".encode())

    @settings(max_examples=300)
    @given(st.lists(st.tuples(st.integers(0, len(MANIFEST)), st.integers(0, 4), PIECES | st.just("")), min_size=1, max_size=4))
    def test_a_changed_manifest_is_read_or_refused(self, changes: list[tuple[int, int, str]]) -> None:
        text = MANIFEST
        for start, length, piece in changes:
            text = text[:start] + piece + text[start + length :]
        read_or_refused(text.encode())

    @given(ROOTS, st.randoms(use_true_random=False))
    def test_what_is_written_is_read_and_has_its_place(self, root: dict[str, Any], chance: Any) -> None:
        writing = Writing(chance)
        writing.block(root, (), 0)
        document = read(writing.text)
        assert same(document.value, root)
        for path, (at, key) in writing.places.items():
            assert (document.place(path), document.place(path, key=True)) == (at, key)


class Writing:
    """A value as YAML, in brackets or in blocks as `chance` has it, and the places of its parts."""

    def __init__(self, chance: Any) -> None:
        self.chance = chance
        self.text = ""
        self.places: dict[tuple[str | int, ...], tuple[str, str]] = {}

    def here(self) -> str:
        return f"m.yaml:{self.text.count(chr(10)) + 1}:{len(self.text) - self.text.rfind(chr(10))}"

    def block(self, value: Any, path: tuple[str | int, ...], column: int) -> None:
        """Write `value`; the text stands at `column` of its line, and goes on at the start of the next."""
        if not isinstance(value, dict | list) or not value or (path and self.chance.random() < 0.3):
            self.flow(value, path)
            self.text += "\n"
            return
        for number, (step, part) in enumerate(value.items() if isinstance(value, dict) else enumerate(value)):
            self.text += " " * column if number else ""
            key = self.here()
            self.text += f"{quoted(step)}:" if isinstance(step, str) else "- "
            scalar = not isinstance(part, dict | list) or not part
            if isinstance(step, str):
                self.text += " " if scalar else "\n" + " " * (column + 2)
            at = self.here()
            self.places[*path, step] = (at, key if isinstance(step, str) else at)
            self.block(part, (*path, step), column + 2)

    def flow(self, value: Any, path: tuple[str | int, ...]) -> None:
        if not isinstance(value, dict | list):
            self.text += quoted(value) if isinstance(value, str) else json.dumps(value)
            return
        self.text += "{" if isinstance(value, dict) else "["
        for number, (step, part) in enumerate(value.items() if isinstance(value, dict) else enumerate(value)):
            self.text += ", " if number else ""
            key = self.here()
            self.text += f"{quoted(step)}: " if isinstance(step, str) else ""
            at = self.here()
            self.places[*path, step] = (at, key if isinstance(step, str) else at)
            self.flow(part, (*path, step))
        self.text += "}" if isinstance(value, dict) else "]"


def quoted(text: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text) + '"'
