"""What may be written in `manifests/NAME.yaml`, and what is said where it may not (PIPELINE 2)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import UNSET

from sdaqf_tasks.errors import Reason, SdaqfError, shown
from sdaqf_tasks.formats import declaration, plain_yaml
from sdaqf_tasks.formats.declaration import Asked, Declared, as_time, duration, includes, is_manifest
from sdaqf_tasks.formats.entries import Spot
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry, Defaults, Expiry, QueryEntry
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, RootScope, Sensitivity, instant
from sdaqf_tasks.formats.schemas import schemas
from tests.keys import TOKEN
from tests.written import FILE, TOP, declared, document, made, refused

ROOT = Path(__file__).parents[2]
KINDS = "specification, requirement, decision, design, source, test, evidence, finding, task, handoff, tool-observation, solver-artifact"
AUTHORITIES = (
    "owner-approved, canonical-specification, accepted-public-contract, verified-evidence, repository-record, untrusted-observation, "
    "untrusted-proposal"
)
TYPES = "references, implements, verifies, depends-on, supersedes, contradicts, derived-from"

EVERYTHING = """\
# yaml-language-server: $schema=.schema.json
sdaqf: 1
title: What a reviewer must see                 # for people; in no artifact
specification: docs/specification.md
defaults:
  sensitivity: public
  recorded_by: review
sources:
  identity-decision:
    path: docs/decisions/0001-identity.md
    kind: decision
    authority: accepted-public-contract
    section: Decision
    title: Identities
    identifiers: [D-1]
    labels: [contract, identity]
    required: true
    provenance: [docs/decisions/index.md]
    pin: true
    sha256: 9F869F869F869F869F869F869F869F869F869F869F869F869F869F869F869F86
  decisions: decision docs/decisions/*.md
  core: {glob: src/**/*.py, exclude: [src/**/generated/**], kind: source}
  lint-run:
    path: build/evidence/lint.txt
    kind: tool-observation
    ignored: true
    freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}
relationships:
  - core implements specification
  - {from: core, type: implements, to: identity-decision, provenance: [docs/decisions/index.md]}
queries:
  default: {seeds: all}
  identity:
    terms: [identity, digest]
    identifiers: [D-1]
    require: [identity-decision]
    seeds: [core]
    edges: [implements, contradicts]
    clearance: repository-private
    as_of: 2026-11-15T12:00:00Z
    budget: 64KiB
"""


def source(below: str) -> Declared:
    """The only source beside the specification, called `a`."""
    return declared(f"sources:\n{below}").sources[1]


def asked(below: str) -> Asked:
    return declared(f"queries:\n  default: {below}\n").queries["default"]


class TestTheWholeExample:
    written = declared(EVERYTHING, top="")

    def test_sources_come_in_the_order_of_the_file_after_the_specification(self) -> None:
        assert [each.alias for each in self.written.sources] == ["specification", "identity-decision", "decisions", "core", "lint-run"]

    def test_the_specification_is_a_source_whose_kind_authority_and_need_are_fixed(self) -> None:
        first = self.written.sources[0]
        assert (first.pattern, first.entry.kind, first.entry.authority, first.entry.required) == (
            "docs/specification.md",
            Kind.SPECIFICATION,
            Authority.CANONICAL_SPECIFICATION,
            True,
        )

    def test_the_long_form_says_everything(self) -> None:
        found = self.written.find("identity-decision")
        assert (found.pattern, found.title, found.is_glob, found.lines) == ("docs/decisions/0001-identity.md", "Identities", False, None)
        assert (found.entry.kind, found.entry.authority) == (Kind.DECISION, Authority.ACCEPTED_PUBLIC_CONTRACT)
        assert (found.entry.section, found.entry.identifiers, found.entry.labels) == ("Decision", ["D-1"], ["contract", "identity"])
        assert (found.entry.required, found.entry.pin, found.entry.provenance) == (True, True, ["docs/decisions/index.md"])

    def test_the_short_form_is_a_kind_and_a_path_or_glob(self) -> None:
        found = self.written.find("decisions")
        assert (found.entry.kind, found.entry.glob, found.entry.path, found.is_glob) == (Kind.DECISION, "docs/decisions/*.md", UNSET, True)

    def test_a_glob_has_what_it_leaves_out(self) -> None:
        assert self.written.find("core").excluded == ("src/**/generated/**",)

    def test_defaults_stand_beside_each_source(self) -> None:
        assert self.written.find("core").defaults == Defaults(sensitivity=Sensitivity.PUBLIC, recorded_by="review")

    def test_relationships_are_read_in_both_forms(self) -> None:
        first, second = (related.entry for related in self.written.relationships)
        assert (first.start, first.type, first.to, first.provenance) == ("core", EdgeType.IMPLEMENTS, "specification", [])
        assert (second.start, second.to, second.provenance) == ("core", "identity-decision", ["docs/decisions/index.md"])

    def test_queries_are_read_by_name(self) -> None:
        assert self.written.queries["default"].entry == QueryEntry(seeds="all")
        wanted = self.written.queries["identity"]
        assert (wanted.entry.terms, wanted.entry.require, wanted.entry.seeds) == (["identity", "digest"], ["identity-decision"], ["core"])
        assert wanted.entry.edges == [EdgeType.IMPLEMENTS, EdgeType.CONTRADICTS]
        assert (wanted.entry.clearance, wanted.entry.as_of, wanted.budget_bytes) == (
            Sensitivity.REPOSITORY_PRIVATE,
            "2026-11-15T12:00:00Z",
            65_536,
        )

    def test_what_is_in_no_tree_is_known_by_name(self) -> None:
        assert self.written.outside == [(RootScope.REPOSITORY, "build/evidence/lint.txt")]


class TestWhatIsAbsent:
    def test_the_smallest_useful_manifest(self) -> None:
        found = declared("sources:\n  decisions: decision docs/adr/*.md\n  code: source src/**/*.py\n")
        assert [each.alias for each in found.sources] == ["specification", "decisions", "code"]

    def test_one_query_that_starts_everywhere(self) -> None:
        found = declared("")
        assert {name: query.entry for name, query in found.queries.items()} == {"default": QueryEntry(seeds="all")}

    def test_a_query_asks_for_nothing_by_itself(self) -> None:
        entry = asked("{}").entry
        assert (entry.terms, entry.identifiers, entry.require, entry.seeds, entry.edges) == ([], [], [], [], UNSET)
        assert (entry.clearance, entry.as_of, entry.budget) == (Sensitivity.REPOSITORY_PRIVATE, UNSET, UNSET)
        assert asked("{}").budget_bytes == 262_144

    def test_a_source_claims_nothing_by_itself(self) -> None:
        found = source("  a: design docs/a.md\n")
        assert (found.entry.required, found.entry.root, found.entry.ignored, found.entry.provenance) == (
            False,
            RootScope.REPOSITORY,
            False,
            [],
        )
        assert {found.entry.authority, found.entry.sensitivity, found.entry.freshness, found.entry.pin, found.entry.sha256} == {UNSET}
        assert found.defaults == Defaults(producer="repository")


@pytest.mark.parametrize(
    ("members", "title"),
    [
        ("path: docs/a.md", "docs/a.md"),
        ("path: docs/a.md, lines: 1-4", "docs/a.md"),
        ("path: docs/a.md, section: Why", "docs/a.md § Why"),
        ("path: a.py, symbol: A.run", "a.py § A.run"),
        ("path: docs/a.md, section: Why, title: Because", "Because"),
    ],
)
def test_a_title_is_the_path_with_section_or_symbol_unless_it_is_written(members: str, title: str) -> None:
    assert source(f"  a: {{kind: design, {members}}}\n").title == title


@pytest.mark.parametrize(
    ("written", "lines"), [("1-40", (1, 40)), ("7", (7, 7)), ('"7"', (7, 7)), ("3-3", (3, 3)), ("1000000", (10**6, 10**6))]
)
def test_lines_are_a_range_or_one(written: str, lines: tuple[int, int]) -> None:
    assert source(f"  a: {{kind: design, path: a.md, lines: {written}}}\n").lines == lines


@pytest.mark.parametrize(
    ("pattern", "is_glob"), [("docs/a.md", False), ("docs/*.md", True), ("docs/?.md", True), ("docs/[a].md", False), ("docs/{a}.md", False)]
)
def test_a_star_or_a_question_mark_makes_a_short_form_a_glob(pattern: str, is_glob: bool) -> None:
    assert source(f"  a: design   {pattern}\n").is_glob is is_glob
    assert source(f"  a: design   {pattern}\n").pattern == pattern


def test_exclude_may_be_one_glob() -> None:
    assert source('  a: {kind: source, glob: "**", exclude: "*.md"}\n').excluded == ("*.md",)


def test_the_specification_may_be_a_part_of_a_document() -> None:
    found = declared("", top="sdaqf: 1\nspecification: {path: docs/a.md, section: Rules, labels: [b, a], pin: false}\n").sources[0]
    assert (found.pattern, found.entry.section, found.entry.labels, found.entry.pin) == ("docs/a.md", "Rules", ["b", "a"], False)
    assert (found.entry.kind, found.entry.required, found.short) == (Kind.SPECIFICATION, True, False)


class TestIncludes:
    SHARED = (
        "sdaqf: 1\ndefaults: {sensitivity: public, producer: team}\nsources:\n  shared: design docs/s.md\n"
        "relationships:\n  - own implements shared\n"
    )
    OWN = "defaults: {recorded_by: me}\nsources:\n  own: source src/a.py\n"

    def test_a_source_gets_the_defaults_of_the_file_it_is_written_in(self) -> None:
        found = declared(self.OWN, self.SHARED)
        assert [each.alias for each in found.sources] == ["specification", "own", "shared"]
        assert found.find("own").defaults == Defaults(recorded_by="me") == found.sources[0].defaults
        assert found.find("shared").defaults == Defaults(sensitivity=Sensitivity.PUBLIC, producer="team")

    def test_a_relationship_may_join_what_different_files_declare(self) -> None:
        (related,) = declared(self.OWN, self.SHARED).relationships
        assert (related.entry.start, related.entry.to, related.defaults.producer) == ("own", "shared", "team")
        assert related.spot.document.name == "manifests/_1.yaml"

    def test_an_alias_twice_is_an_error_that_names_the_other(self) -> None:
        refused(
            "sources:\n  shared: source src/a.py\n",
            "manifests/_1.yaml:4:3",
            f"the alias 'shared' is taken at {FILE}:4:3",
            "Choose another.",
            included=[self.SHARED],
        )

    @pytest.mark.parametrize("member", ["include: [b.yaml]", "specification: README.md", "queries: {a: {}}"])
    def test_one_level_deep_and_no_more_than_sources(self, member: str) -> None:
        refused(
            "",
            "manifests/_1.yaml:2:1",
            f"{member.split(':')[0]} cannot be included: only defaults, sources and relationships are",
            "Move it.",
            included=[f"sdaqf: 1\n{member}\n"],
        )

    def test_an_unknown_word_is_explained_there_too(self) -> None:
        refused(
            "",
            "manifests/_1.yaml:2:1",
            "'souces' is not known here; did you mean sources?",
            "Known: sdaqf, title, defaults, sources, relationships",
            included=["sdaqf: 1\nsouces: {}\n"],
        )

    def test_they_are_a_list_of_names(self) -> None:
        assert includes(document("sdaqf: 1\ninclude: [_a.yaml, /b/_c.yaml]\n")) == ["_a.yaml", "/b/_c.yaml"]
        assert includes(document("sdaqf: 1\n")) == []
        refused("include: _a.yaml\n", "3:10", "expected a list, got a text", "Write it in brackets, several with commas: [a, b].")
        refused("include: [_a.yaml, _a.yaml]\n", "3:20", "'_a.yaml' stands here twice", "Leave one of them out.")

    def test_owner_sources_of_an_include_count(self) -> None:
        assert not declared(self.OWN, self.SHARED).has_owner_sources
        assert declared("", "sdaqf: 1\nsources:\n  note: {kind: decision, path: n.md, root: owner}\n").has_owner_sources


class TestOutside:
    def test_owner_files_and_ignored_ones_with_their_provenance_ascending(self) -> None:
        found = declared(
            "sources:\n"
            "  note: {kind: decision, path: z/note.md, root: owner, provenance: [a/log.md]}\n"
            "  lint: {kind: finding, path: build/lint.txt, ignored: true, provenance: [build/how.txt]}\n"
            "  plain: {kind: design, path: docs/a.md, provenance: [docs/b.md]}\n"
        )
        assert found.outside == [
            (RootScope.OWNER, "a/log.md"),
            (RootScope.OWNER, "z/note.md"),
            (RootScope.REPOSITORY, "build/how.txt"),
            (RootScope.REPOSITORY, "build/lint.txt"),
        ]
        assert found.named == {"README.md", "build/lint.txt", "docs/a.md"}


# ---- what is refused ------------------------------------------------------------------------------------------------


class TestTheFile:
    def test_it_begins_with_its_version(self) -> None:
        refused("", "1:1", "the first member is missing", "Begin the file with:  sdaqf: 1", top="specification: README.md\n")
        refused("", "1:8", "'2' is not one of the words for sdaqf", "Known: 1", top="sdaqf: 2\nspecification: README.md\n")
        refused("", "1:8", "expected a number, got a text", top="sdaqf: one\nspecification: README.md\n")
        refused("", "1:8", "expected a number, got true or false", top="sdaqf: true\nspecification: README.md\n")

    def test_an_unknown_member_is_shown_with_the_nearest(self) -> None:
        refused(
            "relationship:\n  - a implements b\n",
            "3:1",
            "'relationship' is not known here; did you mean relationships?",
            "Known: sdaqf, title, include, specification, defaults, sources, relationships, queries",
        )
        refused("xyz: 1\n", "3:1", "'xyz' is not known here")

    @pytest.mark.parametrize(
        ("below", "place", "message"),
        [
            ("sources: [a]\n", "3:10", "sources is a mapping"),
            ("sources: decision a.md\n", "3:10", "sources is a mapping"),
            ("queries: default\n", "3:10", "queries is a mapping"),
            ("relationships: {a: b}\n", "3:16", "relationships are a list"),
            ("relationships: a implements b\n", "3:16", "relationships are a list"),
            ("title: 7\n", "3:8", "expected a text, got a number"),
            ("title: [a]\n", "3:8", "expected a text, got a list"),
            ("defaults: public\n", "3:11", "expected a mapping, got a text"),
            ("queries: {}\n", "3:10", "no query"),
            ("queries: {a: all}\n", "3:14", "expected a mapping, got a text"),
            ("sources: {a: 7}\n", "3:14", "expected a mapping, got a number"),
            ("sources: {a: [decision, a.md]}\n", "3:14", "expected a mapping, got a list"),
        ],
    )
    def test_a_member_has_its_shape(self, below: str, place: str, message: str) -> None:
        refused(below, place, message)

    @pytest.mark.parametrize(
        ("below", "place", "message"),
        [
            ("title: null\n", "3:8", "null says nothing"),
            ("sources: null\n", "3:10", "sources is a mapping"),
            ("relationships: null\n", "3:16", "relationships are a list"),
            ("sources: {a: null}\n", "3:14", "null says nothing"),
            ("sources: {a: {kind: null}}\n", "3:21", "null says nothing"),
            ("sources: {a: {kind: design, path: null}}\n", "3:35", "null says nothing"),
            ("sources: {a: {kind: design, path: a.md, labels: [null]}}\n", "3:50", "null says nothing"),
            ("relationships: [null]\n", "3:17", "null says nothing"),
            ("queries: {a: null}\n", "3:14", "null says nothing"),
            ("queries: {a: {seeds: null}}\n", "3:22", "null says nothing"),
            ("queries: {a: {budget: null}}\n", "3:23", "null says nothing"),
            ("queries: {a: {budget: {bytes: null}}}\n", "3:31", "null says nothing"),
        ],
    )
    def test_null_is_accepted_nowhere(self, below: str, place: str, message: str) -> None:
        refused(below, place, message)

    def test_null_is_no_specification(self) -> None:
        refused("", "2:16", "null says nothing", "Leave the member out, or give it a value.", top="sdaqf: 1\nspecification: null\n")


class TestAliases:
    @pytest.mark.parametrize("alias", ["a", "0", "a-b", "9-", "a" * 200])
    def test_lower_case_letters_digits_and_hyphens(self, alias: str) -> None:
        assert source(f'  "{alias}": design a.md\n').alias == alias

    @pytest.mark.parametrize("alias", ["A", "-a", "a_b", "a.b", "a b", "é", "a/b"])
    def test_nothing_else(self, alias: str) -> None:
        refused(f'sources:\n  "{alias}": design a.md\n', "4:3", f"'{alias}' is no alias", "Use lower case letters, digits and hyphens.")
        refused(f'queries:\n  "{alias}": {{}}\n', "4:3", f"'{alias}' is no name for a query", "Use lower case letters, digits and hyphens.")

    def test_the_specification_has_its_own(self) -> None:
        refused("sources:\n  specification: design a.md\n", "4:3", "`specification:` has that alias", "Choose another.")

    def test_whoever_is_mentioned_was_declared(self) -> None:
        sources = "sources:\n  core: source README.py\n"
        todo = "Name an alias that `sources` declares."
        refused(sources + "relationships:\n  - cor implements core\n", "6:5", "there is no source 'cor'; did you mean core?", todo)
        refused(sources + "relationships:\n  - {from: core, type: implements, to: x}\n", "6:40", "there is no source 'x'", todo)
        refused(sources + "queries:\n  a: {require: [core, cores]}\n", "6:23", "there is no source 'cores'; did you mean core?", todo)
        refused(
            sources + "queries:\n  a: {seeds: [core, Specification]}\n",
            "6:21",
            "there is no source 'Specification'; did you mean specification?",
            todo,
        )

    def test_an_alias_may_have_the_name_of_a_member(self) -> None:
        known = "section, symbol, lines, title, identifiers, labels, provenance, producer, recorded_by, sensitivity, freshness, pin, sha256"
        for alias in ("budget", "freshness", "defaults", "queries"):
            refused(
                f"sources:\n  {alias}: {{kind: design, path: a.md, labls: [a]}}\n",
                f"4:{len(alias) + 32}",
                "'labls' is not known here; did you mean labels?",
                f"Known: {known}, kind, path, glob, abstractions, exclude, authority, required, ignored, root",
            )


class TestSources:
    @pytest.mark.parametrize(
        ("entry", "column", "message", "todo"),
        [
            ("src/**/*.py", 6, "'src/**/*.py' is no kind", f"Write KIND PATH-OR-GLOB; the kinds: {KINDS}"),
            ("descision docs/a.md", 6, "'descision' is no kind; did you mean decision?", None),
            ("Decision docs/a.md", 6, "'Decision' is no kind; did you mean decision?", None),
            ("decision", 6, "the path is missing", "Write:  decision PATH-OR-GLOB"),
            ("{path: a.md}", 3, "kind is missing", f"The words for it: {KINDS}"),
            ("{kind: design}", 3, "a source has a path or a glob, one of them", "Write `path:` for a file, `glob:` for many."),
            ("{kind: design, path: a.md, glob: b}", 3, "a source has a path or a glob, one of them", None),
            ("{kind: desing, path: a.md}", 13, "'desing' is not one of the words for kind; did you mean design?", f"Known: {KINDS}"),
            ("{kind: design, path: 7}", 27, "expected a text, got a number", 'Quote it: "7".'),
            ("{kind: design, path: true}", 27, "expected a text, got true or false", 'Quote it: "true".'),
            ("{kind: design, paht: a.md}", 21, "'paht' is not known here; did you mean path?", None),
            (
                "{kind: design, path: a.md, authority: canonical}",
                44,
                "'canonical' is not one of the words for authority",
                f"Known: {AUTHORITIES}",
            ),
            (
                "{kind: design, path: a.md, sensitivity: privat}",
                46,
                "'privat' is not one of the words for sensitivity; did you mean owner-private?",
                "Known: public, repository-private, owner-private",
            ),
            (
                "{kind: design, path: a.md, sensitivity: secret-or-prohibited}",
                46,
                "secret-or-prohibited can never be adopted",
                "Known: public, repository-private, owner-private",
            ),
            ("{kind: design, path: a.md, root: home}", 39, "'home' is not one of the words for root", "Known: repository, owner"),
            ("{kind: design, path: a.md, required: yes}", 43, "expected true or false, got a text", "Write true or false."),
            (
                "{kind: design, path: a.md, labels: a}",
                41,
                "expected a list, got a text",
                "Write it in brackets, several with commas: [a, b].",
            ),
            ("{kind: design, path: a.md, labels: [1]}", 42, "expected a text, got a number", 'Quote it: "1".'),
            ("{kind: design, path: a.md, labels: [a, b, a]}", 48, "'a' stands here twice", "Leave one of them out."),
            ("{kind: design, path: a.md, identifiers: [a, a]}", 50, "'a' stands here twice", None),
            ("{kind: design, path: a.md, provenance: [b, b]}", 49, "'b' stands here twice", None),
            ('{kind: design, path: a.md, title: ""}', 40, "expected a text of length >= 1", None),
            ('{kind: design, path: a.md, title: " "}', 40, "a blank text", "Leave the member out, or give it a value."),
            ("{kind: design, path: a.md, exclude: [b]}", 33, "exclude goes with a glob", "Leave it out."),
            ("{kind: design, path: a.md, section: A, lines: 1}", 3, "a source has one of section, symbol and lines", "Keep one of them."),
            ("{kind: design, path: a.md, section: A, symbol: b}", 3, "a source has one of section, symbol and lines", None),
            ("{kind: design, path: a.md, lines: 0}", 40, "expected a number >= 1", None),
            ("{kind: design, path: a.md, lines: 1-}", 40, "not lines", "Write them as 1-40, or as 7."),
            ("{kind: design, path: a.md, lines: 01-2}", 40, "not lines", None),
            ("{kind: design, path: a.md, lines: 4-3}", 40, "ends before it starts", "Write the lower line first."),
            ("{kind: design, path: a.md, sha256: 9F86}", 41, "not a SHA-256", "Write its 64 hexadecimal digits."),
            ("{kind: design, path: a.md, root: owner, ignored: true}", 46, "owner files are in no tree anyway", "Leave `ignored` out."),
            ("{kind: design, glob: b, section: A}", 30, "section goes with a path, not with a glob", "Leave it out."),
            ("{kind: design, glob: b, symbol: A}", 30, "symbol goes with a path, not with a glob", None),
            ("{kind: design, glob: b, lines: 1}", 30, "lines goes with a path, not with a glob", None),
            ("{kind: design, glob: b, ignored: true}", 30, "ignored goes with a path, not with a glob", None),
            ("{kind: design, glob: b, sha256: a}", 30, "sha256 goes with a path, not with a glob", None),
            ("{kind: design, glob: b, root: owner}", 30, "owner files are named one by one; globs are for files of the tree", "Name each."),
            (
                f"{{kind: design, path: a.md, title: {TOKEN}}}",
                40,
                "looks like a key or a token",
                "Take the secret out, or select other lines.",
            ),
        ],
    )
    def test_what_cannot_be_meant_is_shown_where_it_stands(self, entry: str, column: int, message: str, todo: str | None) -> None:
        reason = Reason.SECRET_SHAPED if "key or a token" in message else Reason.MANIFEST_INVALID
        refused(f"sources:\n  a: {entry}\n", f"4:{column}", message, todo, reason=reason)

    def test_canonical_specification_is_the_authority_of_the_specification_alone(self) -> None:
        refused(
            "sources:\n  a: {kind: specification, path: a.md, authority: canonical-specification}\n",
            "4:51",
            "canonical-specification is the authority of `specification:` alone",
            "For an accepted document use accepted-public-contract (requirement, decision or design in this repository).",
        )

    @pytest.mark.parametrize("member", ["kind: design", "authority: repository-record", "required: false"])
    def test_the_specification_is_what_it_is(self, member: str) -> None:
        name = member.split(":")[0]
        top = f"sdaqf: 1\nspecification: {{path: README.md, {member}}}\n"
        refused("", "2:34", f"the specification's {name} is fixed", f"Leave {name} out.", top=top)

    @pytest.mark.parametrize("member", ["root: owner", "ignored: true", "glob: a", "exclude: [a]"])
    def test_the_specification_is_one_file_of_the_tree(self, member: str) -> None:
        top = f"sdaqf: 1\nspecification: {{path: README.md, {member}}}\n"
        refused("", "2:34", f"'{member.split(':')[0]}' is not known here", top=top)

    @pytest.mark.parametrize(("member", "bound"), [("labels", 64), ("identifiers", 128), ("provenance", 63)])
    def test_lists_are_as_long_as_the_format_takes(self, member: str, bound: int) -> None:
        words = [f"w{number}" for number in range(bound + 1)]
        found = source(f"  a: {{kind: design, path: a.md, {member}: [{', '.join(words[:-1])}]}}\n")
        assert getattr(found.entry, member) == words[:-1]
        column = len("  a: {kind: design, path: a.md, : ") + len(member) + 1
        refused(
            f"sources:\n  a: {{kind: design, path: a.md, {member}: [{', '.join(words)}]}}\n",
            f"4:{column}",
            f"expected a list of length <= {bound}",
        )

    @pytest.mark.parametrize(("member", "bound"), [("title", 500), ("producer", 100), ("recorded_by", 100), ("section", 500)])
    def test_texts_are_as_long_as_the_format_takes(self, member: str, bound: int) -> None:
        assert getattr(source(f"  a: {{kind: design, path: a.md, {member}: {'x' * bound}}}\n").entry, member) == "x" * bound
        with pytest.raises(SdaqfError) as caught:
            declared(f"sources:\n  a: {{kind: design, path: a.md, {member}: {'x' * (bound + 1)}}}\n")
        assert (caught.value.where, caught.value.message) == (f"{FILE}:4:{35 + len(member)}", f"expected a text of length <= {bound}")


class TestDefaults:
    @pytest.mark.parametrize(
        ("below", "place", "message"),
        [
            ("defaults: {sensitivity: secret-or-prohibited}\n", "3:25", "secret-or-prohibited can never be adopted"),
            ("defaults: {recordedby: me}\n", "3:12", "'recordedby' is not known here; did you mean recorded_by?"),
            ('defaults: {producer: ""}\n', "3:22", "expected a text of length >= 1"),
            ("defaults: {sensitivity: puplic}\n", "3:25", "'puplic' is not one of the words for sensitivity; did you mean public?"),
        ],
    )
    def test_they_are_judged_where_they_stand(self, below: str, place: str, message: str) -> None:
        refused(below, place, message)


class TestRelationships:
    @pytest.mark.parametrize(
        ("entry", "column", "message", "todo"),
        [
            ("a implements", 5, "a relationship is three words", "Write:  ALIAS TYPE ALIAS"),
            ("a implements b c", 5, "a relationship is three words", None),
            ('""', 5, "a relationship is three words", None),
            ("a implemens b", 5, "'implemens' is not one of the words for type; did you mean implements?", f"Known: {TYPES}"),
            ("a CONTRADICTS b", 5, "'CONTRADICTS' is not one of the words for type", f"Known: {TYPES}"),
            ("{from: a, type: blocks, to: b}", 21, "'blocks' is not one of the words for type", f"Known: {TYPES}"),
            ("{from: a, type: implements}", 5, "to is missing", "Write `to:` with a value."),
            ("{form: a, type: implements, to: b}", 6, "'form' is not known here; did you mean from?", "Known: from, type, to, provenance"),
            ("{from: a, type: implements, to: b, provenance: x}", 52, "expected a list, got a text", None),
            ("7", 5, "expected a mapping, got a number", None),
        ],
    )
    def test_what_cannot_be_meant_is_shown_where_it_stands(self, entry: str, column: int, message: str, todo: str | None) -> None:
        refused(f"relationships:\n  - {entry}\n", f"4:{column}", message, todo)


class TestQueries:
    @pytest.mark.parametrize(
        ("entry", "column", "message", "todo"),
        [
            (
                "{term: [a]}",
                13,
                "'term' is not known here; did you mean terms?",
                "Known: terms, identifiers, require, seeds, edges, clearance, as_of, budget",
            ),
            ("{terms: [a, a]}", 24, "'a' stands here twice", None),
            ("{identifiers: [a, b, b]}", 33, "'b' stands here twice", None),
            ("{require: [specification, specification]}", 38, "'specification' stands here twice", None),
            ("{seeds: [specification, specification]}", 36, "'specification' stands here twice", None),
            ("{edges: [implements, implements]}", 33, "'implements' stands here twice", None),
            ("{edges: []}", 20, "expected a list of length >= 1", None),
            ("{edges: [implement]}", 21, "'implement' is not one of the words for edges; did you mean implements?", f"Known: {TYPES}"),
            ("{seeds: al}", 20, "'al' is not one of the words for seeds; did you mean all?", "Write all, or aliases in brackets: [a, b]."),
            ("{seeds: 7}", 20, "expected a text or a list, got a number", None),
            ("{clearance: secret}", 24, "'secret' is not one of the words for clearance", None),
            ("{as_of: 2026-01-01}", 20, "not a time of the form YYYY-MM-DDThh:mm:ssZ", "Write it as 2026-11-01T00:00:00Z."),
            ("{as_of: 2026-02-29T00:00:00Z}", 20, "no such date or time of day", None),
            ("{budget: 64KB}", 21, "not a size", "Write it as 64KiB, 1MiB, or a number of bytes."),
            ("{budget: 0}", 21, "not a size", None),
            ("{budget: 1023}", 21, "1,023 bytes; a budget has 1KiB to 8MiB", None),
            ("{budget: 8388609}", 21, "8,388,609 bytes; a budget has 1KiB to 8MiB", None),
            ("{budget: 9MiB}", 21, "9,437,184 bytes; a budget has 1KiB to 8MiB", None),
            ("{budget: {bytes: 1023B}}", 29, "1,023 bytes; a budget has 1KiB to 8MiB", None),
            ("{budget: {nodes: 0}}", 29, "expected a number >= 1", None),
            ("{budget: {nodes: 4097}}", 29, "expected a number <= 4096", None),
            ("{budget: {edges: -1}}", 29, "expected a number >= 0", None),
            ("{budget: {edges: 16385}}", 29, "expected a number <= 16384", None),
            ("{budget: {depth: 9}}", 29, "expected a number <= 8", None),
            ("{budget: {depht: 8}}", 22, "'depht' is not known here; did you mean depth?", "Known: bytes, nodes, edges, depth"),
            ("{budget: [64KiB]}", 21, "expected a number or a text or a mapping, got a list", None),
        ],
    )
    def test_what_cannot_be_meant_is_shown_where_it_stands(self, entry: str, column: int, message: str, todo: str | None) -> None:
        refused(f"queries:\n  default: {entry}\n", f"4:{column}", message, todo)

    @pytest.mark.parametrize(
        ("written", "amount"),
        [
            ("1KiB", 1_024),
            ("1024", 1_024),
            ("1024B", 1_024),
            ("64KiB", 65_536),
            ("8MiB", 8_388_608),
            ("8388608", 8_388_608),
            ("{bytes: 2KiB}", 2_048),
            ("{nodes: 1}", 262_144),
        ],
    )
    def test_a_budget_is_a_size_or_a_mapping(self, written: str, amount: int) -> None:
        assert asked(f"{{budget: {written}}}").budget_bytes == amount

    def test_the_bounds_of_a_budget_are_the_formats(self) -> None:
        entry = asked("{budget: {nodes: 4096, edges: 0, depth: 8}}").entry
        assert entry.budget == BudgetEntry(nodes=4_096, edges=0, depth=8)
        assert BudgetEntry() == BudgetEntry(nodes=4_096, edges=16_384, depth=8)

    def test_what_nobody_may_adopt_may_be_cleared(self) -> None:
        assert asked("{clearance: secret-or-prohibited}").entry.clearance is Sensitivity.SECRET_OR_PROHIBITED


class TestWindows:
    @staticmethod
    def window(freshness: str) -> tuple[str, str]:
        found = source(f"  a: {{kind: finding, path: a.md, freshness: {freshness}}}\n")
        assert isinstance(found.entry.freshness, Expiry)
        return declaration.window(found.entry.freshness, found.spot)

    @pytest.mark.parametrize(
        ("written", "until"),
        [
            ("1m", "2026-11-01T00:01:00Z"),
            ("90m", "2026-11-01T01:30:00Z"),
            ("24h", "2026-11-02T00:00:00Z"),
            ("30d", "2026-12-01T00:00:00Z"),
            ("2w", "2026-11-15T00:00:00Z"),
            ("999999m", "2028-09-25T10:39:00Z"),
        ],
    )
    def test_for_is_a_number_with_a_unit(self, written: str, until: str) -> None:
        assert self.window(f"{{observed: 2026-11-01T00:00:00Z, for: {written}}}") == ("2026-11-01T00:00:00Z", until)

    @pytest.mark.parametrize("written", ["0d", "01d", "d", "1", "1s", "1y", "1D", "-1d", "1.5d", "1 d", "1d1h", "1000000m", "P1D", "１d"])
    def test_nothing_else(self, written: str) -> None:
        text = f'sources:\n  a: {{kind: finding, path: a.md, freshness: {{observed: 2026-11-01T00:00:00Z, for: "{written}"}}}}\n'
        refused(text, "4:83", "not a duration", "Write N with m, h, d or w, such as 30d.")
        with pytest.raises(ValueError):
            duration(written)

    def test_the_last_moment_is_in_the_year_9999(self) -> None:
        assert self.window("{observed: 9999-12-31T23:58:59Z, for: 1m}")[1] == "9999-12-31T23:59:59Z"
        text = "sources:\n  a: {kind: finding, path: a.md, freshness: {observed: 9999-12-31T23:59:00Z, for: 1m}}\n"
        refused(text, "4:83", "ends after the year 9999", "Write less.")

    def test_fractions_of_a_second_are_kept(self) -> None:
        assert self.window("{observed: 2026-11-01T00:00:00.5Z, for: 1h}") == ("2026-11-01T00:00:00.5Z", "2026-11-01T01:00:00.500000Z")

    def test_a_window_may_be_one_moment_and_no_less(self) -> None:
        moment = "2026-11-01T00:00:00Z"
        assert self.window(f"{{observed: {moment}, expires: {moment}}}") == (moment, moment)
        text = f"sources:\n  a: {{kind: finding, path: a.md, freshness: {{observed: {moment}, expires: 2026-10-31T23:59:59Z}}}}\n"
        refused(text, "4:87", "ends before it was observed", "Correct one of the two times.")

    @pytest.mark.parametrize(
        ("freshness", "column", "message", "todo"),
        [
            (
                "imutable",
                45,
                "'imutable' is not one of the words for freshness; did you mean immutable?",
                "Write immutable, or {observed: 2026-11-01T00:00:00Z, for: 30d}.",
            ),
            ("{for: 30d}", 34, "observed is missing", "Write `observed:` with a value."),
            (
                "{observed: 2026-11-01T00:00:00Z}",
                45,
                "freshness has `for` or `expires`, one of them",
                "Write `for: 30d`, or `expires:` with a time.",
            ),
            (
                "{observed: 2026-11-01T00:00:00Z, for: 1d, expires: 2026-11-02T00:00:00Z}",
                45,
                "freshness has `for` or `expires`, one of them",
                None,
            ),
            ("{observed: 2026-11-01, for: 1d}", 56, "not a time of the form YYYY-MM-DDThh:mm:ssZ", "Write it as 2026-11-01T00:00:00Z."),
            ("{observed: 2026-11-01T00:00:00+01:00, for: 1d}", 56, "not a time of the form YYYY-MM-DDThh:mm:ssZ", None),
            ("{observed: 2026-11-01T00:00:00Z, expires: 2026-11-31T00:00:00Z}", 87, "no such date or time of day", None),
            (
                "{obsrved: 2026-11-01T00:00:00Z, for: 1d}",
                46,
                "'obsrved' is not known here; did you mean observed?",
                "Known: observed, for, expires",
            ),
            ("30d", 45, "'30d' is not one of the words for freshness", None),
            ("7", 45, "expected a text or a mapping, got a number", None),
        ],
    )
    def test_what_cannot_be_meant_is_shown_where_it_stands(self, freshness: str, column: int, message: str, todo: str | None) -> None:
        refused(f"sources:\n  a: {{kind: finding, path: a.md, freshness: {freshness}}}\n", f"4:{column}", message, todo)

    @given(st.datetimes())
    def test_a_moment_is_written_so_that_it_is_read_again(self, moment: Any) -> None:
        assert instant(as_time(moment)) == moment


class TestWhoseFileItIs:
    @pytest.mark.parametrize(
        "text", ["sdaqf: 1\n", "\n# about\n---\n  \n# more\nsdaqf: 1\n", "sdaqf:\n", "sdaqf: 99\n", "\ufeffsdaqf: 1\n", "#\r\nsdaqf: 1\r\n"]
    )
    def test_ours_begins_with_our_word(self, text: str) -> None:
        assert is_manifest(text.encode())

    @pytest.mark.parametrize(
        "text", ["", "# sdaqf: 1\n", "apiVersion: v1\nsdaqf: 1\n", " sdaqf: 1\n", "sdaqf\n", "--- \n--- a\nsdaqf: 1\n", "{sdaqf: 1}\n"]
    )
    def test_everything_else_is_somebody_elses(self, text: str) -> None:
        assert not is_manifest(text.encode())


class TestWords:
    def test_a_message_holds_at_most_eighty_characters_of_what_was_written(self) -> None:
        assert shown("x" * 80) == "x" * 80
        assert shown("a" + "x" * 80) == "…" + "x" * 79
        assert shown("\n" * 40) == ("\\n" * 40)
        assert shown("\n" * 41) == "…" + "n" + "\\n" * 39
        assert shown("a\u202eb\udcff") == "a\\u202eb\\udcff"

    def test_a_key_that_imitates_a_place_is_still_shown(self) -> None:
        for imitated in ("x", "labels", "freshness", "labels[0]", "freshness.for"):
            key = f"q - at `$.{imitated}"
            entry = f"{{kind: finding, path: a.md, labels: [a], freshness: immutable, {json.dumps(key)}: 1}}"
            with pytest.raises(SdaqfError) as caught:
                declared(f"sources:\n  a: {entry}\n")
            assert caught.value.reason is Reason.MANIFEST_INVALID
            assert caught.value.where.startswith(f"{FILE}:4:")


# ---- the schema for editors -----------------------------------------------------------------------------------------

SCHEMA = Draft202012Validator(json.loads(schemas()["manifest-yaml.schema.json"]))


def value(text: str) -> Any:
    return plain_yaml.load(text.encode(), FILE).value


class TestTheSchema:
    @pytest.mark.parametrize(
        "path", sorted(path for folder in ("examples", "manifests") for path in (ROOT / folder).rglob("*.yaml")), ids=lambda path: path.name
    )
    def test_every_manifest_of_this_repository_validates(self, path: Path) -> None:
        if is_manifest(path.read_bytes()):
            SCHEMA.validate(value(path.read_text("utf-8")))

    def test_the_whole_example_validates(self) -> None:
        SCHEMA.validate(value(EVERYTHING))
        SCHEMA.validate(value(TOP))
        SCHEMA.validate(value("sdaqf: 1\nspecification: {path: a.md, section: A}\n"))
        SCHEMA.validate(value(TestIncludes.SHARED))

    @pytest.mark.parametrize(
        "below",
        [
            "source: {}\n",
            "sources: {A: design a.md}\n",
            "sources: {specification: design a.md}\n",
            "sources: {a: desing a.md}\n",
            "sources: {a: design}\n",
            "sources: {a: {path: a.md}}\n",
            "sources: {a: {kind: design, path: /a.md}}\n",
            "sources: {a: {kind: design, path: a.md, labls: []}}\n",
            "sources: {a: {kind: design, path: a.md, lines: 1-}}\n",
            "sources: {a: {kind: design, path: a.md, sensitivity: secret-or-prohibited}}\n",
            "sources: {a: {kind: design, path: a.md, freshness: {observed: 2026-11-01, for: 1d}}}\n",
            "sources: {a: {kind: design, path: a.md, freshness: {observed: 2026-11-01T00:00:00Z, for: 1y}}}\n",
            "relationships: [a implemens b]\n",
            "relationships: [{from: a, type: implements}]\n",
            "queries: {A: {}}\n",
            "queries: {a: {seeds: al}}\n",
            "queries: {a: {budget: 64KB}}\n",
            "queries: {a: {edges: []}}\n",
            "queries: {a: {require: [A]}}\n",
            "title: null\n",
        ],
    )
    def test_what_is_wrong_does_not(self, below: str) -> None:
        assert not SCHEMA.is_valid(value(TOP + below))
        with pytest.raises(SdaqfError):
            made(below)

    def test_every_member_is_described(self) -> None:
        schema = json.loads(schemas()["manifest-yaml.schema.json"])
        definitions = schema["$defs"]
        for name in ("SourceEntry", "SpecificationEntry", "QueryEntry", "RelationshipEntry", "Defaults", "Expiry"):
            assert all("description" in member for member in definitions[name]["properties"].values()), name
            assert definitions[name]["additionalProperties"] is False
        assert all("description" in member for member in schema["properties"].values())


# ---- chance ---------------------------------------------------------------------------------------------------------

WORDS = st.sampled_from([*re.findall(r"[\w./*-]+", EVERYTHING), "null", "true", "7", "''", "{}", "[]", "{a: b}", "[a]"])
MEMBERS = st.sampled_from(
    re.findall(
        r"\w+",
        "sdaqf title include specification defaults sources relationships queries path glob kind authority section symbol lines title "
        "labels freshness observed for expires required ignored root sha256 seeds require edges budget bytes nodes as_of from type to a b",
    )
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    WORDS | st.text(max_size=8).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(MEMBERS, inner, max_size=4).map(
            lambda found: "{" + ", ".join(f"{key}: {item}" for key, item in found.items()) + "}"
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(MEMBERS, VALUES, max_size=4))
@example({"sources": "{a: {kind: design, path: a, freshness: {for: [a]}}}"})
def test_whatever_is_written_is_a_declaration_or_refused_at_its_place(members: dict[str, str]) -> None:
    text = "".join(f"{key}: {item}\n" for key, item in ({"sdaqf": "1"} | members).items())
    try:
        written = plain_yaml.load(text.encode(), FILE)
        declaration.read("review", written)
    except SdaqfError as error:
        assert re.fullmatch(rf"{re.escape(FILE)}:\d+:\d+", error.where)
        assert error.message.isprintable()
    else:
        assert Spot(written).document is written
