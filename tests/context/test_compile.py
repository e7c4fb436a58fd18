"""What a manifest means for a tree: which files, which lines, which claims, and what is refused where (PIPELINE 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sdaqf_tasks.context.compile import ALLOWED, Compiled, compile
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.listing import PORTABLE
from sdaqf_tasks.errors import Reason, SdaqfError, Unreadable
from sdaqf_tasks.formats import canonical, declaration, plain_yaml
from sdaqf_tasks.formats.artifacts import render
from sdaqf_tasks.formats.records import Authority, EdgeType, FreshnessKind, Kind, RootScope, Sensitivity, Source
from tests.written import FILE, NAME, README, TOP, World, declared, document, made, paths, refused, source_of, sources_of

MISSING = Reason.MISSING_OR_UNREADABLE


def taken(below: str, world: World, alias: str = "a") -> list[str]:
    return paths(sources_of(made(below, world), alias))


def same(one: Compiled, other: Compiled) -> bool:
    return (render(one.manifest), one.members, one.notes) == (render(other.manifest), other.members, other.notes)


def span_of(source: Source) -> tuple[int, int]:
    return source.locator.line_start, source.locator.line_end


# ---- sources --------------------------------------------------------------------------------------------------------


class TestOneFile:
    world = World({"docs/a.md": "# A\n\nIt is so.\n", "docs/b.md": "b\n"})

    def test_it_is_pinned_by_its_digest_whole(self) -> None:
        source = source_of(made("sources: {a: design docs/a.md}\n", self.world), "a")
        assert source.locator.path == "docs/a.md"
        assert source.locator.sha256 == canonical.digest(b"# A\n\nIt is so.\n")
        assert (source.locator.root_scope, *span_of(source)) == (RootScope.REPOSITORY, 1, 3)

    def test_what_nobody_said(self) -> None:
        source = source_of(made("sources: {a: design docs/a.md}\n", self.world), "a")
        assert (source.kind, source.title, source.authority, source.required) == (
            Kind.DESIGN,
            "docs/a.md",
            Authority.REPOSITORY_RECORD,
            False,
        )
        assert (source.sensitivity, source.freshness.kind) == (Sensitivity.REPOSITORY_PRIVATE, FreshnessKind.CANDIDATE_BOUND)
        assert (source.identifiers, source.labels) == ((), ())
        assert (source.provenance.producer, source.provenance.recorded_by) == ("repository", NAME)

    def test_it_refers_to_itself_and_to_what_bears_it_out(self) -> None:
        compiled = made("sources: {a: {kind: design, path: docs/b.md, provenance: [docs/a.md, README.md]}}\n", self.world)
        references = [(reference.path, reference.sha256) for reference in source_of(compiled, "a").provenance.references]
        assert references == [
            ("README.md", canonical.digest(README.encode())),
            ("docs/a.md", canonical.digest(b"# A\n\nIt is so.\n")),
            ("docs/b.md", canonical.digest(b"b\n")),
        ]

    def test_naming_itself_as_provenance_adds_nothing(self) -> None:
        plain = made("sources: {a: {kind: design, path: docs/b.md}}\n", self.world)
        assert same(made("sources: {a: {kind: design, path: docs/b.md, provenance: [docs/b.md]}}\n", self.world), plain)

    def test_words_are_sorted(self) -> None:
        source = source_of(
            made("sources: {a: {kind: design, path: docs/a.md, labels: [b, é, a], identifiers: [D-2, D-1]}}\n", self.world), "a"
        )
        assert (source.labels, source.identifiers) == (("a", "b", "é"), ("D-1", "D-2"))

    def test_what_was_said_is_kept(self) -> None:
        source = source_of(
            made(
                "sources:\n  a: {kind: decision, path: docs/a.md, title: So, required: true, producer: p, recorded_by: r, "
                "authority: accepted-public-contract, sensitivity: owner-private}\n",
                self.world,
            ),
            "a",
        )
        assert (source.title, source.required, source.provenance.producer, source.provenance.recorded_by) == ("So", True, "p", "r")
        assert (source.authority, source.sensitivity) == (Authority.ACCEPTED_PUBLIC_CONTRACT, Sensitivity.OWNER_PRIVATE)

    def test_an_empty_file_is_one_line(self) -> None:
        assert span_of(source_of(made("sources: {a: design e.md}\n", World({"e.md": ""})), "a")) == (1, 1)


class TestTheSpecification:
    def test_it_is_required_canonical_and_what_the_candidate_is_bound_to(self) -> None:
        compiled = made("", World())
        source = source_of(compiled, "specification")
        assert (source.kind, source.authority, source.required) == (Kind.SPECIFICATION, Authority.CANONICAL_SPECIFICATION, True)
        assert compiled.manifest.content.candidate.source_spec_sha256 == source.locator.sha256 == canonical.digest(README.encode())

    def test_a_part_of_it_is_bound_by_the_whole_file(self) -> None:
        text = "# A\nx\n# Rules\ny\n"
        compiled = made("", World({"s.md": text}), top="sdaqf: 1\nspecification: {path: s.md, section: Rules}\n")
        source = source_of(compiled, "specification")
        assert (span_of(source), source.title) == ((3, 4), "s.md § Rules")
        assert compiled.manifest.content.candidate.source_spec_sha256 == canonical.digest(text.encode())

    def test_without_one_the_error_offers_what_there_is(self) -> None:
        world = World({"docs/architecture.md": "a\n", "docs/deep/design.md": "d\n", "a.py": "", "notes.md": "n\n"})
        refused(
            "sources:\n  a: design notes.md\n",
            "2:1",
            "no specification",
            "A manifest names the one document that says what this project must do: it is always included and everything else is "
            "measured against it. Add:  specification: README.md   (also found: docs/architecture.md, docs/deep/design.md)",
            world=world,
            top="sdaqf: 1\n",
        )

    def test_what_does_not_fit_or_cannot_be_named_is_not_offered(self) -> None:
        world = World({"SPEC.md": "x" * 65_537, "docs/spec.md": b"\xff\n", "docs/my spec.md": "a\n", "docs/spec.txt": "fits\n"})
        del world.repository["README.md"]
        error = refused("", "1:1", "no specification", world=world, top="sdaqf: 1\n")
        assert str(error.todo).endswith("Add:  specification: docs/spec.txt")

    def test_the_first_member_after_the_title_is_shown(self) -> None:
        refused("sources: {}\n", "3:1", "no specification", top="sdaqf: 1\ntitle: What it is\n")
        refused("title: What it is\n", "1:1", "no specification", top="sdaqf: 1\n")

    def test_one_that_is_not_there_offers_what_there_is(self) -> None:
        refused(
            "",
            "2:16",
            "docs/spec.md is missing or cannot be read",
            "Write:  specification: README.md",
            top="sdaqf: 1\nspecification: docs/spec.md\n",
            reason=MISSING,
        )

    def test_one_that_is_too_long_offers_its_sections(self) -> None:
        text = "# All\n" + "".join(f"## {name}\n{'x' * 1_000}\n" for name in ("Requirements", "Interfaces", "Limits")) + "y" * 64_000 + "\n"
        text = text.replace("## Limits", "## Long\n" + "z" * 65_000 + "\n### Inner\n## Twice\n## Twice\n## Limits")
        refused(
            "",
            "2:16",
            f"docs/specification.md has {len(text):,} characters; a source has at most 65,536",
            "It is always included, so it must fit. Add:  specification: {path: docs/specification.md, "
            'section: "Requirements"}     (sections that fit: Requirements, Interfaces, Long, Limits)',
            world=World({"docs/specification.md": text}),
            top="sdaqf: 1\nspecification: docs/specification.md\n",
            reason=Reason.SOURCE_TEXT_LIMIT,
        )

    def test_the_section_that_is_offered_can_be_written(self) -> None:
        text = '# All\n## The "best" \\ part: yes\nfits\n## Rest\n' + "x" * 65_536 + "\n"
        world = World({"s.md": text})
        error = refused(
            "",
            "2:16",
            f"s.md has {len(text):,} characters; a source has at most 65,536",
            world=world,
            top="sdaqf: 1\nspecification: s.md\n",
            reason=Reason.SOURCE_TEXT_LIMIT,
        )
        written = re.search(r"Add:  (.*?\})", str(error.todo))
        assert written and span_of(source_of(made("", world, top=f"sdaqf: 1\n{written[1]}\n"), "specification")) == (2, 3)

    def test_without_sections_lines_that_fit_are_offered(self) -> None:
        text = f"{'x' * 999}\n" * 70
        error = refused(
            "",
            "2:16",
            "s.md has 70,000 characters; a source has at most 65,536",
            world=World({"s.md": text}),
            top="sdaqf: 1\nspecification: s.md\n",
            reason=Reason.SOURCE_TEXT_LIMIT,
        )
        assert error.todo == "It is always included, so it must fit. Add:  specification: {path: s.md, lines: 1-65}"

    def test_no_other_source_may_be_its_file(self) -> None:
        refused(
            "sources:\n  a: design README.md\n",
            "4:6",
            "README.md, lines 1 to 1, is specification already",
            "Leave one of the two out.",
            reason=Reason.DUPLICATE_LOCATOR,
        )


class TestDefaults:
    SHARED = "sdaqf: 1\ndefaults: {sensitivity: public, producer: team}\nsources:\n  s: design s.md\n"
    world = World({"s.md": "s\n", "a.md": "a\n"}, owner={"n.md": "n\n"})

    def test_each_file_has_its_own_and_the_recorder_is_the_manifest(self) -> None:
        compiled = made("defaults: {recorded_by: me}\nsources: {a: design a.md}\n", self.world, self.SHARED)
        own, shared = source_of(compiled, "a"), source_of(compiled, "s")
        assert (own.provenance.producer, own.provenance.recorded_by, own.sensitivity) == (
            "repository",
            "me",
            Sensitivity.REPOSITORY_PRIVATE,
        )
        assert (shared.provenance.producer, shared.provenance.recorded_by, shared.sensitivity) == ("team", NAME, Sensitivity.PUBLIC)

    def test_the_manifest_is_as_sensitive_as_its_most_sensitive_source(self) -> None:
        compiled = made(
            "defaults: {sensitivity: public}\nsources: {a: {kind: design, path: a.md, sensitivity: repository-private}}\n", self.world
        )
        assert source_of(compiled, "specification").sensitivity is Sensitivity.PUBLIC
        assert compiled.manifest.content.sensitivity is Sensitivity.REPOSITORY_PRIVATE

    def test_owner_files_are_owner_private_unless_they_say_otherwise_themselves(self) -> None:
        below = "defaults: {sensitivity: public}\nsources: {n: {kind: decision, path: n.md, root: owner%s}}\n"
        assert source_of(made(below % "", self.world), "n").sensitivity is Sensitivity.OWNER_PRIVATE
        assert source_of(made(below % ", sensitivity: public", self.world), "n").sensitivity is Sensitivity.PUBLIC

    def test_a_name_that_nobody_could_record_under_is_refused(self) -> None:
        assert source_of(made("", name="n" * 100), "specification").provenance.recorded_by == "n" * 100
        with pytest.raises(SdaqfError) as caught:
            made("", name="n" * 101)
        assert caught.value.message == "provenance recorded_by: expected 'str' of length <= 100"


class TestOwnerFiles:
    world = World({"a.md": "a\n"}, owner={"a.md": "owner's\n", "why.md": "because\n"})

    def test_they_are_read_under_the_owner_root(self) -> None:
        source = source_of(made("sources: {n: {kind: decision, path: a.md, root: owner, provenance: [why.md]}}\n", self.world), "n")
        assert (source.locator.root_scope, source.locator.sha256) == (RootScope.OWNER, canonical.digest(b"owner's\n"))
        assert [reference.path for reference in source.provenance.references] == ["a.md", "why.md"]

    def test_the_same_path_in_the_repository_is_another_file(self) -> None:
        compiled = made("sources: {n: {kind: decision, path: a.md, root: owner}, a: design a.md}\n", self.world)
        assert len(compiled.manifest.content.sources) == 3

    def test_what_an_owner_approved_is_produced_and_recorded_by_the_owner(self) -> None:
        below = "defaults: {producer: team, recorded_by: bot}\n"
        below += "sources: {n: {kind: decision, path: a.md, root: owner, authority: owner-approved}}\n"
        provenance = source_of(made(below, self.world), "n").provenance
        assert (provenance.producer, provenance.recorded_by) == ("Owner", "Owner")

    @pytest.mark.parametrize(("member", "column"), [("producer", 85), ("recorded_by", 88)])
    def test_by_nobody_else(self, member: str, column: int) -> None:
        below = f"sources:\n  n: {{kind: decision, path: a.md, root: owner, authority: owner-approved, {member}: team}}\n"
        refused(
            below,
            f"4:{column}",
            f"of owner-approved the {member} is Owner",
            f"Leave {member} out.",
            world=self.world,
            reason=Reason.AUTHORITY_INVALID,
        )
        made(below.replace("team", "Owner"), self.world)

    def test_one_that_is_not_there(self) -> None:
        refused(
            "sources:\n  n: {kind: decision, path: b.md, root: owner}\n",
            "4:29",
            "b.md cannot be a source: b.md is not there",
            world=self.world,
            reason=MISSING,
        )


class TestAuthority:
    """FORMAT 3.6 is checked while compiling, required or not."""

    world = World({"a.md": "a\n"}, owner={"a.md": "a\n"})
    GOOD = (
        ("requirement", "repository", "accepted-public-contract"),
        ("decision", "repository", "accepted-public-contract"),
        ("design", "repository", "accepted-public-contract"),
        ("evidence", "repository", "verified-evidence"),
        ("requirement", "owner", "owner-approved"),
        ("handoff", "owner", "owner-approved"),
        ("source", "repository", "repository-record"),
        ("source", "repository", "untrusted-observation"),
        ("source", "owner", "untrusted-proposal"),
    )
    BAD = (
        ("source", "repository", "accepted-public-contract"),
        ("handoff", "repository", "accepted-public-contract"),
        ("decision", "owner", "accepted-public-contract"),
        ("finding", "repository", "verified-evidence"),
        ("evidence", "owner", "verified-evidence"),
        ("decision", "repository", "owner-approved"),
        ("evidence", "owner", "owner-approved"),
        ("tool-observation", "repository", "repository-record"),
        ("tool-observation", "repository", "untrusted-proposal"),
    )

    @staticmethod
    def below(kind: str, root: str, authority: str, required: str) -> str:
        window = ", freshness: {observed: 2026-01-01T00:00:00Z, for: 1d}"
        return f"sources:\n  a: {{authority: {authority}, kind: {kind}, root: {root}, path: a.md, required: {required}{window}}}\n"

    @pytest.mark.parametrize("required", ["true", "false"])
    @pytest.mark.parametrize(("kind", "root", "authority"), GOOD)
    def test_what_goes_together(self, kind: str, root: str, authority: str, required: str) -> None:
        source = source_of(made(self.below(kind, root, authority, required), self.world), "a")
        assert (source.authority.value, source.required) == (authority, required == "true")

    @pytest.mark.parametrize("required", ["true", "false"])
    @pytest.mark.parametrize(("kind", "root", "authority"), BAD)
    def test_what_does_not(self, kind: str, root: str, authority: str, required: str) -> None:
        message = f"{authority} does not go with kind {kind} under the {root} root"
        refused(self.below(kind, root, authority, required), "4:18", message, ALLOWED, world=self.world, reason=Reason.AUTHORITY_INVALID)

    def test_it_is_never_inferred_upward(self) -> None:
        for kind in Kind:
            if kind is not Kind.TOOL_OBSERVATION:
                assert source_of(made(f"sources: {{a: {kind.value} a.md}}\n", self.world), "a").authority is Authority.REPOSITORY_RECORD


class TestFreshness:
    world = World({"a.md": "a\n", "a.json": "{}\n", "build/lint.txt": "ok\n"})

    def test_an_observation_says_when_and_is_trusted_by_nobody(self) -> None:
        below = "sources:\n  a: {path: build/lint.txt, kind: tool-observation, ignored: true, "
        below += "freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}}\n"
        source = source_of(made(below, self.world), "a")
        assert (source.freshness.observed_at, source.freshness.valid_until) == ("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
        assert (source.authority, source.freshness.kind) == (Authority.UNTRUSTED_OBSERVATION, FreshnessKind.EXPIRES_AT)

    def test_an_observation_without_a_moment_is_refused(self) -> None:
        message = "a tool-observation says when it was observed and how long it holds"
        todo = "Write:  freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}"
        refused("sources:\n  a: tool-observation a.md\n", "4:3", message, todo, world=self.world)
        refused("sources:\n  a: {kind: tool-observation, path: a.md}\n", "4:3", message, todo, world=self.world)

    def test_any_source_may_have_a_window_as_it_is_written(self) -> None:
        below = "sources: {a: {kind: design, path: a.md, freshness: {observed: 2026-11-01T00:00:00.0Z, expires: 2026-11-01T00:00:00Z}}}\n"
        found = source_of(made(below, self.world), "a").freshness
        assert (found.observed_at, found.valid_until) == ("2026-11-01T00:00:00.0Z", "2026-11-01T00:00:00Z")

    def test_immutable_is_json_of_an_authoritative_class(self) -> None:
        below = "sources:\n  a: {kind: evidence, authority: %s, path: %s, freshness: immutable}\n"
        source = source_of(made(below % ("verified-evidence", "a.json"), self.world), "a")
        assert source.freshness.kind is FreshnessKind.IMMUTABLE
        message = "freshness: immutable takes a .json file of an authoritative class that refers to itself"
        refused(below % ("verified-evidence", "a.md"), "4:76", message, world=self.world, reason=Reason.CONTRACT_INVALID)
        refused(below % ("repository-record", "a.json"), "4:78", message, world=self.world, reason=Reason.CONTRACT_INVALID)


# ---- files by path --------------------------------------------------------------------------------------------------


class TestNamedFiles:
    @pytest.mark.parametrize("path", ["/a.md", "a//b.md", "./a.md", "../a.md", "a/", "a b.md", "é.md", "a:b", "aux.md", "a./b", "x" * 241])
    def test_a_path_is_portable(self, path: str) -> None:
        shown = path if len(path) <= 80 else "…" + path[-79:]
        refused(
            f'sources:\n  a: {{kind: design, path: "{path}"}}\n', "4:27", f"{shown} is not a portable path", f"Portable is: {PORTABLE}."
        )

    def test_the_longest_path(self) -> None:
        assert taken(f"sources: {{a: design {'x' * 240}}}\n", World({"x" * 240: "a\n"})) == ["x" * 240]

    def test_a_glob_is_no_path(self) -> None:
        todo = "One file is named here; globs go with `glob:`."
        refused("sources:\n  a: {kind: design, path: docs/*.md}\n", "4:27", "docs/*.md is not a portable path", todo)

    @pytest.mark.parametrize("path", [".git/config", "sub/.git/config", ".GIT/config", "a/.Git"])
    def test_no_path_leads_through_git(self, path: str) -> None:
        world = World({path: "secret\n", "a.md": "a\n"})
        refused(
            f"sources:\n  a: design {path}\n", "4:6", f"{path} leads through .git, which is never read", "Name another file.", world=world
        )
        below = f"sources:\n  a: {{kind: design, path: a.md, provenance: [{path}]}}\n"
        refused(below, "4:46", f"{path} leads through .git, which is never read", world=world)
        assert {read for _, read in world.reads} == {"README.md", "a.md"}

    def test_a_file_that_git_ignores_needs_to_be_meant(self) -> None:
        world = World({"build/log.txt": "x\n"})
        refused(
            "sources:\n  a: evidence build/log.txt\n",
            "4:6",
            "build/log.txt is ignored by git: its bytes are not part of the tree and nobody else may have it",
            "Say so if you mean it:  {path: build/log.txt, ignored: true}",
            world=world,
        )
        assert taken("sources:\n  a: {kind: evidence, path: build/log.txt, ignored: true}\n", world) == ["build/log.txt"]

    def test_a_file_of_the_tree_is_not_ignored(self) -> None:
        refused(
            "sources:\n  a: {kind: design, path: a.md, ignored: true}\n",
            "4:33",
            "a.md is part of the tree: git does not ignore it",
            "Leave `ignored` out.",
            world=World({"a.md": "a\n"}),
        )

    @pytest.mark.parametrize(
        ("path", "todo"),
        [
            ("docs/desing.md", "Nearest file: docs/design.md"),
            ("design.md", "Nearest file: docs/design.md"),
            ("DOCS/design.md", "Nearest file: docs/design.md"),
            ("zzz", "Correct the path."),
        ],
    )
    def test_one_that_is_missing_is_shown_with_the_nearest(self, path: str, todo: str) -> None:
        world = World({"docs/design.md": "d\n", "src/b.py": "b\n"})
        refused(f"sources:\n  a: design {path}\n", "4:6", f"{path} is missing or cannot be read", todo, world=world, reason=MISSING)

    def test_case_counts_even_where_the_disk_does_not_care(self) -> None:
        world = World({"Docs/a.md": "a\n", "docs/a.md": "a\n"})
        world.unlisted = frozenset({"docs/a.md"})
        refused(
            "sources:\n  a: design docs/a.md\n",
            "4:6",
            "docs/a.md is missing or cannot be read",
            "Nearest file: Docs/a.md",
            world=world,
            reason=MISSING,
        )

    def test_one_that_is_ignored_and_missing_cannot_come_from_git(self) -> None:
        refused(
            "sources:\n  a: {kind: design, path: build/x.md, ignored: true}\n",
            "4:27",
            "build/x.md is missing or cannot be read",
            "Restore it: git ignores it, so no commit has it.",
            reason=MISSING,
        )

    @pytest.mark.parametrize("ignored", ["", ", ignored: true"])
    @pytest.mark.parametrize(
        ("path", "why"),
        [
            ("link.md", "is a link"),
            ("folder/a.md", "lies behind a link, folder"),
            ("lib", "is a submodule"),
            ("lib/a.md", "lies behind a submodule, lib"),
            ("gone.md", "is deleted, or left out by a sparse checkout"),
        ],
    )
    def test_other_entries_of_the_tree_are_no_sources(self, path: str, why: str, ignored: str) -> None:
        world = World({"lib/a.md": "a\n"})
        world.unlisted = frozenset({"lib/a.md"})
        world.links, world.submodules, world.absent = ("folder", "link.md"), ("lib",), ("gone.md",)
        below = f"sources:\n  a: {{kind: design, path: {path}{ignored}}}\n"
        refused(below, "4:27", f"{path} {why}", "Name a regular file.", world=world, reason=MISSING)

    @pytest.mark.parametrize(
        ("data", "why", "reason"),
        [
            (b"a\0b\n", "holds U+0000: a binary file is no source", MISSING),
            (b"caf\xe9\n", "byte 3 is not UTF-8", MISSING),
            (b"x" * 262_145, "it has more than 262,144 bytes, and no part of such a file can be a source", Reason.SOURCE_BYTE_LIMIT),
            (b"x" * 1_048_577, "it has more than 262,144 bytes, and no part of such a file can be a source", Reason.SOURCE_BYTE_LIMIT),
        ],
    )
    def test_what_is_no_text_of_the_size_is_refused(self, data: bytes, why: str, reason: Reason) -> None:
        below = "sources:\n  a: {kind: design, path: a.bin, lines: 1}\n"
        refused(below, "4:27", f"a.bin cannot be a source: {why}", world=World({"a.bin": data}), reason=reason)

    def test_the_largest_file_that_a_source_can_be_of(self) -> None:
        world = World({"a.md": b"x\n" * 131_072})
        assert span_of(source_of(made("sources: {a: {kind: design, path: a.md, lines: 131072}}\n", world), "a")) == (131_072, 131_072)

    def test_a_long_file_is_refused_with_what_to_name(self) -> None:
        below = "sources:\n  a: design a.md\n"
        assert len(taken(below, World({"a.md": "x" * 65_535 + "\n"}))) == 1
        refused(
            below,
            "4:6",
            "a.md has 65,537 characters; a source has at most 65,536",
            "Name a part of it: section, symbol or lines.",
            world=World({"a.md": "x" * 65_536 + "\n"}),
            reason=Reason.SOURCE_TEXT_LIMIT,
        )

    def test_a_part_may_be_too_long_too(self) -> None:
        refused(
            "sources:\n  a: {kind: design, path: a.md, lines: 2-3}\n",
            "4:27",
            "a.md, lines 2 to 3, has 80,002 characters; a source has at most 65,536",
            world=World({"a.md": "\n" + ("é" * 40_000 + "\n") * 2}),
            reason=Reason.SOURCE_TEXT_LIMIT,
        )

    def test_the_digest_may_be_pinned_in_either_case(self) -> None:
        world = World({"a.md": "a\n"})
        digest = canonical.digest(b"a\n")
        below = "sources:\n  a: {kind: design, path: a.md, sha256: %s}\n"
        assert same(made(below % digest, world), made(below % digest.lower(), world))
        refused(
            below % ("F" * 64),
            "4:41",
            f"a.md is not the pinned version; its digest is {digest}",
            "Read what changed, then correct the digest.",
            world=world,
            reason=Reason.DIGEST_MISMATCH,
        )

    def test_a_file_that_changes_under_the_reader_is_not_taken(self) -> None:
        world = World({"a.md": "a\n"})

        def moving(path: str) -> None:
            if path == "a.md":
                raise Unreadable(Reason.CHANGED, "it moved")

        world.before_read = moving
        refused("sources:\n  a: design a.md\n", "4:6", "a.md cannot be a source: it moved", world=world, reason=Reason.CHANGED)
        with pytest.raises(Unreadable) as caught:
            made('sources:\n  a: design "*.md"\n'.replace('"', ""), world)
        assert caught.value.reason is Reason.CHANGED


class TestProvenance:
    world = World({"a.md": "a\n", "b.md": "b\n", "build/log.txt": "x\n", "big": b"\0" * 1_048_576, "bigger": b"\0" * 1_048_577})

    @pytest.mark.parametrize(
        ("path", "message", "todo", "reason"),
        [
            ("c.md", "c.md is missing or cannot be read", "Nearest file: b.md", MISSING),
            (
                "build/log.txt",
                "build/log.txt is ignored by git: its bytes are not part of the tree and nobody else may have it",
                "Name a file of the tree.",
                Reason.MANIFEST_INVALID,
            ),
            ("bigger", "bigger cannot be provenance: bigger has 1048577 bytes; at most 1048576 are read", None, Reason.SOURCE_BYTE_LIMIT),
            ("*.md", "*.md is not a portable path", "One file is named here; globs go with `glob:`.", Reason.MANIFEST_INVALID),
        ],
    )
    def test_it_is_a_file_of_the_tree(self, path: str, message: str, todo: str | None, reason: Reason) -> None:
        below = f'sources:\n  a: {{kind: design, path: a.md, provenance: [README.md, "{path}"]}}\n'
        refused(below, "4:57", message, todo, world=self.world, reason=reason)
        below = (
            f'sources: {{a: design a.md}}\nrelationships:\n  - {{from: a, type: implements, to: specification, provenance: ["{path}"]}}\n'
        )
        refused(below, "5:65", message, todo, world=self.world, reason=reason)

    def test_any_bytes_up_to_a_mebibyte_will_do(self) -> None:
        source = source_of(made("sources: {a: {kind: design, path: a.md, provenance: [big]}}\n", self.world), "a")
        assert [reference.path for reference in source.provenance.references] == ["a.md", "big"]

    def test_of_an_ignored_file_it_may_be_ignored_too(self) -> None:
        world = World({"build/log.txt": "x\n", "build/how.txt": "y\n"})
        below = "sources: {a: {kind: evidence, path: build/log.txt, ignored: true, provenance: [build/how.txt]}}\n"
        assert [reference.path for reference in source_of(made(below, world), "a").provenance.references] == [
            "build/how.txt",
            "build/log.txt",
        ]

    def test_a_file_that_a_source_says_is_ignored_is_meant(self) -> None:
        below = (
            "sources:\n  log: {kind: evidence, path: build/log.txt, ignored: true}\n"
            "  a: {kind: design, path: a.md, provenance: [build/log.txt]}\n"
            "relationships:\n  - {from: a, type: references, to: log, provenance: [build/log.txt]}\n"
        )
        assert len(made(below, self.world).manifest.content.relationships) == 1


# ---- files by glob --------------------------------------------------------------------------------------------------


class TestGlobs:
    TREE = World(
        {
            "docs/a.md": "a\n",
            "docs/deep/b.md": "b\n",
            "docs/.hidden.md": "h\n",
            "docs/B.MD": "B\n",
            "docs/[x].md": "x\n",
            "src/x.py": "x\n",
            "src/generated/y.py": "y\n",
            "build/z.md": "z\n",
        }
    )

    @pytest.mark.parametrize(
        ("glob", "found"),
        [
            ("docs/*.md", ["docs/.hidden.md", "docs/a.md"]),
            ("docs/**/*.md", ["docs/.hidden.md", "docs/a.md", "docs/deep/b.md"]),
            ("docs/?.md", ["docs/a.md"]),
            ("**/*.py", ["src/generated/y.py", "src/x.py"]),
            ("src/**", ["src/generated/y.py", "src/x.py"]),
            ("docs/*.MD", ["docs/B.MD"]),
            ("**/.*", ["docs/.hidden.md"]),
        ],
    )
    def test_they_match_files_of_the_tree(self, glob: str, found: list[str]) -> None:
        assert taken(f'sources:\n  a: {{kind: design, glob: "{glob}"}}\n', self.TREE) == found

    def test_what_is_excluded_is_not_taken_and_not_noted(self) -> None:
        compiled = made("sources:\n  a: {glob: src/**/*.py, exclude: [src/generated/**, docs/**], kind: source}\n", self.TREE)
        assert (paths(sources_of(compiled, "a")), compiled.notes) == (["src/x.py"], ())

    def test_each_file_is_a_source_with_what_was_said(self) -> None:
        below = "sources:\n  a: {glob: src/**/*.py, kind: source, labels: [code], required: true, title: Code, provenance: [docs/a.md]}\n"
        for source in sources_of(made(below, self.TREE), "a"):
            assert (source.title, source.labels, source.required, source.kind) == ("Code", ("code",), True, Kind.SOURCE)
            assert [reference.path for reference in source.provenance.references] == sorted(["docs/a.md", source.locator.path])

    def test_brackets_and_braces_are_literal(self) -> None:
        world = World({"docs/{x}*.md": "a\n", "docs/[x]a.md": "a\n", "docs/x.md": "a\n"})
        for glob in ("docs/[x]*.md", "docs/{x}*.md"):
            compiled = made(f'sources:\n  a: {{kind: design, glob: "{glob}"}}\n', world)
            assert compiled.members["a"] == () and len(compiled.notes) == 1

    @pytest.mark.parametrize("glob", ["build/*.md", "docs/*.txt", "*.py", "DOCS/*.md", "docs"])
    def test_no_match_is_an_error(self, glob: str) -> None:
        refused(f'sources:\n  a: {{kind: design, glob: "{glob}"}}\n', "4:27", f"{glob} matches no file of the tree", world=self.TREE)

    def test_an_error_that_shows_the_nearest(self) -> None:
        refused(
            "sources:\n  a: design doc/*.md\n", "4:6", "doc/*.md matches no file of the tree", "Nearest file: docs/a.md", world=self.TREE
        )

    def test_what_is_excluded_is_no_match(self) -> None:
        below = "sources:\n  a: {kind: design, glob: docs/*.MD, exclude: docs/B.MD}\n"
        refused(below, "4:27", "docs/*.MD matches no file of the tree", world=self.TREE)

    @pytest.mark.parametrize(
        ("members", "column", "message", "todo"),
        [
            ("glob: src/**.py", 27, "** stands alone between slashes", "Write **/*.py, not **.py."),
            (
                "glob: /src/*.py",
                27,
                "a glob is relative to the top of the tree, without empty, . or .. components",
                "Write it like src/**/*.py.",
            ),
            ("glob: src/../*.py", 27, "a glob is relative to the top of the tree, without empty, . or .. components", None),
            ("glob: src/*.py, exclude: a**", 46, "** stands alone between slashes", None),
            ("glob: src/*.py, exclude: [a, ./b]", 50, "a glob is relative to the top of the tree, without empty, . or .. components", None),
        ],
    )
    def test_what_is_no_glob_is_shown_where_it_stands(self, members: str, column: int, message: str, todo: str | None) -> None:
        refused(f"sources:\n  a: {{kind: design, {members}}}\n", f"4:{column}", message, todo, world=self.TREE)

    def test_members_that_cannot_be_sources_are_left_out_and_named(self) -> None:
        world = World(
            {
                "d/a.md": "a\n",
                "d/binary": b"\0",
                "d/latin.md": b"\xe9",
                "d/large.md": b"x" * 262_145,
                "d/line.md": "x" * 65_537,
                "d/my file.md": "a\n",
                "d/con.md": "a\n",
                "d/.GIT/x": "a\n",
                "d/a\nb": "a\n",
            }
        )
        world.links, world.submodules, world.absent = ("d/link",), ("d/sub", "e/sub"), ("d/gone",)
        compiled = made("sources: {a: design d/**}\n", world)
        assert paths(sources_of(compiled, "a")) == ["d/a.md"]
        assert sorted(compiled.notes) == [
            "d/.GIT/x left out: a path through .git is never read",
            f"d/a\\nb left out: its name is not portable ({PORTABLE})",
            "d/binary left out: holds U+0000: a binary file is no source",
            f"d/con.md left out: its name is not portable ({PORTABLE})",
            "d/large.md left out: it has more than 262,144 bytes, and no part of such a file can be a source",
            "d/latin.md left out: byte 0 is not UTF-8",
            "d/line.md left out: line 1 alone has 65,537 characters; a source has at most 65,536",
            "d/link left out: a link",
            f"d/my file.md left out: its name is not portable ({PORTABLE})",
            "d/sub left out: a submodule",
        ]

    def test_what_two_globs_leave_out_is_named_once_and_no_conflict(self) -> None:
        world = World({"d/a.md": "a\n", "d/b.txt": "b\n", "d/c.bin": b"\0"})
        compiled = made(
            "sources:\n  a: {kind: design, glob: d/*, exclude: d/*.txt}\n  b: {kind: design, glob: d/*, exclude: d/*.md}\n", world
        )
        assert compiled.notes == ("d/c.bin left out: holds U+0000: a binary file is no source",)


class TestOverlap:
    world = World({"src/a.py": "a\n", "src/b.py": "b\nc\n"})

    def test_a_file_that_is_named_is_not_taken_again_by_a_glob(self) -> None:
        for below in ("sources: {b: design src/b.py, a: source src/*.py}\n", "sources: {a: source src/*.py, b: design src/b.py}\n"):
            assert taken(below, self.world) == ["src/a.py"]
        assert taken("sources: {b: {kind: design, path: src/b.py, lines: 1}, a: source src/*.py}\n", self.world) == ["src/a.py"]

    def test_the_specification_is_named(self) -> None:
        assert taken("sources: {a: design '*.md'}\n".replace("'", ""), World({"a.md": "a\n"})) == ["a.md"]

    def test_an_owner_file_of_the_same_name_is_another(self) -> None:
        world = World({"src/a.py": "a\n"}, owner={"src/a.py": "o\n"})
        assert taken("sources: {b: {kind: design, path: src/a.py, root: owner}, a: source src/*.py}\n", world) == ["src/a.py"]

    def test_two_globs_that_give_one_file_are_both_named_with_what_to_exclude(self) -> None:
        message = "two globs give src/a.py: all (src/*.py) and a (src/a*)"
        refused(
            "sources:\n  all: source src/*.py\n  a: test src/a*\n",
            "5:6",
            message,
            "Write:  a: {glob: src/a*, exclude: [src/a.py], kind: test}",
            world=self.world,
        )
        below = "sources:\n  all: source src/*.py\n  a: {glob: src/a*, kind: test}\n"
        refused(below, "5:13", message, "Add to one of them:  exclude: [src/a.py]", world=self.world)

    def test_what_to_exclude_can_be_written(self) -> None:
        world = World({"a.py": "a\n", "b.py": "b\n"})
        below = 'sources:\n  all: {glob: "*.py", kind: source}\n  a: "test **/a.*"\n'
        error = refused(below, "5:6", "two globs give a.py: all (*.py) and a (**/a.*)", world=world)
        assert error.todo == 'Write:  a: {glob: "**/a.*", exclude: [a.py], kind: test}'
        written = str(error.todo).removeprefix("Write:  ")
        with pytest.raises(SdaqfError, match="matches no file"):
            made(f'sources:\n  all: {{glob: "*.py", kind: source}}\n  {written}\n', world)

    def test_the_same_lines_twice(self) -> None:
        for again in ("lines: 1-2", "title: Again"):
            refused(
                f"sources:\n  a: source src/b.py\n  b: {{kind: source, path: src/b.py, {again}}}\n",
                "5:27",
                "src/b.py, lines 1 to 2, is a already",
                "Leave one of the two out.",
                world=self.world,
                reason=Reason.DUPLICATE_LOCATOR,
            )

    def test_other_lines_of_the_same_file_are_fine(self) -> None:
        compiled = made("sources: {a: source src/b.py, b: {kind: source, path: src/b.py, lines: 2}}\n", self.world)
        assert [span_of(source_of(compiled, alias)) for alias in "ab"] == [(1, 2), (2, 2)]

    @pytest.mark.parametrize("order", [1, -1])
    def test_parts_of_a_file_are_told_apart_by_title_unless_they_are_lines(self, order: int) -> None:
        world = World({"a.md": "# A\n\n# B\n\n# C\n"})
        one = "{kind: design, path: a.md, section: A, title: T}"
        for other, fine in (("section: B, title: T", False), ("lines: 5, title: T", True), ("section: B", True)):
            entries = [f"one: {one}", f"other: {{kind: design, path: a.md, {other}}}"][::order]
            below = "sources:\n  " + "\n  ".join(entries) + "\n"
            if fine:
                made(below, world)
            else:
                first = "one" if order == 1 else "other"
                message = f"{first} has the title 'T' already"
                refused(
                    below, f"5:{26 + len('one' if order == -1 else 'other')}", message, "Give one of the two another title.", world=world
                )


# ---- parts of files -------------------------------------------------------------------------------------------------


class TestParts:
    world = World(
        {
            "a.md": "# One\n\ntext\n\n## Two\n\nmore\n\n# Three\n\n# Twice\n# Twice\n",
            "a.py": "import os\n\n\nclass A:\n    @property\n    def run(self) -> None: ...\n\n\ndef run() -> None: ...\n",
            "bad.py": "def (:\n",
        }
    )

    @pytest.mark.parametrize(
        ("part", "span", "title"),
        [
            ("path: a.md, section: One", (1, 8), "a.md § One"),
            ("path: a.md, section: Two", (5, 8), "a.md § Two"),
            ("path: a.py, symbol: A", (4, 6), "a.py § A"),
            ("path: a.py, symbol: A.run", (5, 6), "a.py § A.run"),
            ("path: a.py, symbol: run", (9, 9), "a.py § run"),
            ("path: a.md, lines: 2-12", (2, 12), "a.md"),
            ("path: a.md, lines: 12", (12, 12), "a.md"),
        ],
    )
    def test_a_section_a_symbol_or_lines(self, part: str, span: tuple[int, int], title: str) -> None:
        source = source_of(made(f"sources:\n  a: {{kind: source, {part}}}\n", self.world), "a")
        assert (span_of(source), source.title) == (span, title)

    @pytest.mark.parametrize(
        ("part", "column", "message", "todo"),
        [
            ("path: a.md, section: Tow", 42, 'a.md: no heading is called "Tow"', 'Nearest: "Two"'),
            (
                "path: a.md, section: Twice",
                42,
                'a.md: 2 headings are called "Twice": lines 11-11, 12-12',
                "Name the lines of the one that is meant, or rename the others.",
            ),
            ("path: a.py, symbol: B", 41, 'a.py: no symbol is called "B"', None),
            ("path: bad.py, symbol: B", 43, None, "Name lines, correct the file, or run with the Python that it is written for."),
            ("path: a.md, lines: 12-13", 40, "a.md has 12 lines", "Write lines up to 12."),
        ],
    )
    def test_what_is_not_there_is_shown_where_it_is_asked_for(self, part: str, column: int, message: str | None, todo: str | None) -> None:
        below = f"sources:\n  a: {{kind: source, {part}}}\n"
        with pytest.raises(SdaqfError) as caught:
            made(below, self.world)
        refused(below, f"4:{column}", message or caught.value.message, todo, world=self.world)

    def test_lines_are_those_of_the_format_and_the_run_says_where_an_editor_counts_others(self) -> None:
        for mark in ("\f", "\v", "\x1c", "\x85", "\u2028", "\r"):
            compiled = made("sources: {a: design a.md}\n", World({"a.md": f"one{mark}two\r\nthree\n"}))
            assert span_of(source_of(compiled, "a")) == (1, 3)
            assert compiled.notes == ("a.md has line breaks that an editor does not count: its line numbers here count them",)
        assert made("sources: {a: design a.md}\n", World({"a.md": "one\r\ntwo\x1f\n"})).notes == ()

    def test_a_long_file_of_a_glob_becomes_pieces(self) -> None:
        text = "".join(f"def f{number}():\n    {'x' * 30_000}\n" for number in range(5))
        compiled = made("sources: {a: source src/*.py}\n", World({"src/a.py": text, "src/b.py": "b\n"}))
        found = [(source.locator.path, span_of(source), source.title) for source in sources_of(compiled, "a")]
        assert found == [
            ("src/a.py", (1, 4), "src/a.py (1 of 3)"),
            ("src/a.py", (5, 8), "src/a.py (2 of 3)"),
            ("src/a.py", (9, 10), "src/a.py (3 of 3)"),
            ("src/b.py", (1, 1), "src/b.py"),
        ]

    def test_the_pieces_keep_the_title_that_was_given(self) -> None:
        world = World({"src/a.txt": ("x" * 65_535 + "\n") * 2})
        compiled = made("sources: {a: {kind: source, glob: src/*, title: Long}}\n", world)
        assert [source.title for source in sources_of(compiled, "a")] == ["Long (1 of 2)", "Long (2 of 2)"]

    def test_a_title_that_becomes_too_long_is_refused(self) -> None:
        heading = "h" * (500 - len("a.md § "))
        world = World({"a.md": f"# {heading}\n\n# {heading}h\n"})
        below = "sources:\n  a: {kind: source, path: a.md, section: %s}\n"
        assert len(source_of(made(below % heading, world), "a").title) == 500
        refused(below % (heading + "h"), "4:6", "title: expected 'str' of length <= 500", world=world, reason=Reason.CONTRACT_INVALID)


class TestSecrets:
    KEY = "AKIA" + "A" * 16
    SAID = "looks like a key or a token (one of three known shapes; this is a heuristic, not a scan)"
    world = World({"src/keys.py": f"# one\n\nKEY = '{KEY}'\n# four\n"})

    @pytest.mark.parametrize("below", ["sources: {a: source src/keys.py}\n", "sources: {a: source src/*.py}\n"])
    def test_one_that_will_be_left_out_is_named_with_its_line(self, below: str) -> None:
        compiled = made(below, self.world)
        assert compiled.notes == (f"src/keys.py:3 left out: {self.SAID}",)
        assert [excluded.reason for excluded in index(compiled.manifest, self.world).content.excluded_sources] == ["secret-shaped"]

    def test_lines_without_it_are_fine(self) -> None:
        assert made("sources: {a: {kind: source, path: src/keys.py, lines: 1-2}}\n", self.world).notes == ()
        assert made("sources: {a: {kind: source, path: src/keys.py, lines: 4}}\n", self.world).notes == ()

    def test_where_it_is_required_nothing_is_built(self) -> None:
        below = "sources:\n  a: {kind: source, path: src/keys.py, required: true}\n"
        refused(below, "4:27", f"src/keys.py:3 is required and {self.SAID}", world=self.world, reason=Reason.SECRET_SHAPED)


# ---- relationships --------------------------------------------------------------------------------------------------


def related(below: str, world: World) -> list[tuple[str, str, str]]:
    """Type, and the paths of the ends, ascending."""
    content = made(below, world).manifest.content
    path = {source.source_id: source.locator.path for source in content.sources}
    return sorted((each.edge_type.value, path[each.source_id], path[each.target_id]) for each in content.relationships)


class TestRelationships:
    world = World(
        {"src/a.py": "a\n", "src/b.py": "b\n", "d/1.md": "1\n", "d/2.md": "2\n", "x.md": "x\n"}, owner={"n.md": "n\n", "m.md": "m\n"}
    )
    SOURCES = (
        "sources:\n  code: source src/*.py\n  docs: decision d/*.md\n  x: design x.md\n"
        "  n: {kind: decision, path: n.md, root: owner}\n  m: {kind: decision, path: m.md, root: owner}\n"
    )

    def test_both_forms_say_the_same(self) -> None:
        short = made(self.SOURCES + "relationships:\n  - x implements specification\n", self.world)
        assert same(short, made(self.SOURCES + "relationships:\n  - {from: x, type: implements, to: specification}\n", self.world))

    def test_an_alias_with_several_members_stands_for_each(self) -> None:
        assert related(self.SOURCES + "relationships:\n  - code implements x\n  - specification references docs\n", self.world) == [
            ("implements", "src/a.py", "x.md"),
            ("implements", "src/b.py", "x.md"),
            ("references", "README.md", "d/1.md"),
            ("references", "README.md", "d/2.md"),
        ]

    def test_several_at_both_ends_are_refused_with_the_product(self) -> None:
        message = "code and docs have several members each: 2 × 2 = 4 relationships"
        refused(self.SOURCES + "relationships:\n  - code implements docs\n", "10:5", message, "Name one file at one end.", world=self.world)
        message = "code and code have several members each: 2 × 2 = 4 relationships"
        refused(self.SOURCES + "relationships:\n  - code references code\n", "10:5", message, world=self.world)

    def test_a_source_is_not_related_to_itself(self) -> None:
        refused(
            self.SOURCES + "relationships:\n  - {from: x, type: references, to: x}\n",
            "10:5",
            "x is related to itself",
            "Leave it out, or name another alias.",
            world=self.world,
        )

    def test_an_alias_without_members_stands_for_none(self) -> None:
        world = World({"d/b.bin": b"\0", "x.md": "x\n"})
        assert related("sources: {d: design d/*, x: design x.md}\nrelationships:\n  - d references x\n  - d references d\n", world) == []

    @pytest.mark.parametrize(
        "again",
        [
            "x contradicts specification",
            "specification contradicts x",
            "{from: x, type: contradicts, to: specification, provenance: [d/1.md]}",
        ],
    )
    def test_one_thing_is_said_once_and_a_contradiction_has_no_direction(self, again: str) -> None:
        below = self.SOURCES + f"relationships:\n  - x contradicts specification\n  - {again}\n"
        ends = ("x.md", "README.md") if again.startswith(("x", "{")) else ("README.md", "x.md")
        refused(below, "11:5", f"{ends[0]} contradicts {ends[1]} is said already", "Leave one of them out.", world=self.world)

    def test_other_types_have_two_directions(self) -> None:
        below = (
            self.SOURCES
            + "relationships:\n  - x references specification\n  - specification references x\n  - x implements specification\n"
        )
        assert len(related(below, self.world)) == 3

    def test_they_ascend_as_the_format_wants(self) -> None:
        below = (
            self.SOURCES
            + "relationships:\n"
            + "".join(f"  - {one} {kind} x\n" for kind in ("verifies", "contradicts") for one in ("code", "docs", "n"))
        )
        found = made(below, self.world).manifest.content.relationships
        assert [(each.edge_type.value, each.source_id, each.target_id) for each in found] == sorted(
            (each.edge_type.value, each.source_id, each.target_id) for each in found
        )
        assert all(each.source_id < each.target_id for each in found if each.edge_type is EdgeType.CONTRADICTS)

    @pytest.mark.parametrize(
        ("said", "path", "text"),
        [
            ("x contradicts specification", "x.md", b"x\n"),
            ("specification contradicts x", "README.md", README.encode()),
            ("n contradicts x", "x.md", b"x\n"),
            ("x contradicts n", "x.md", b"x\n"),
        ],
    )
    def test_the_file_of_from_bears_it_out_else_that_of_to(self, said: str, path: str, text: bytes) -> None:
        (found,) = made(
            self.SOURCES + f"defaults: {{producer: team}}\nrelationships:\n  - {said}\n", self.world
        ).manifest.content.relationships
        assert [(reference.path, reference.sha256) for reference in found.provenance.references] == [(path, canonical.digest(text))]
        assert (found.provenance.producer, found.provenance.recorded_by) == ("team", NAME)

    def test_between_owner_files_a_file_of_the_repository_must(self) -> None:
        refused(
            self.SOURCES + "relationships:\n  - n contradicts m\n",
            "10:5",
            "both ends are owner files: a file of the repository must bear the relationship out",
            "Write:  {from: n, type: contradicts, to: m, provenance: [FILE]}",
            world=self.world,
        )
        below = self.SOURCES + "relationships:\n  - {from: n, type: contradicts, to: m, provenance: [x.md, d/1.md]}\n"
        (found,) = made(below, self.world).manifest.content.relationships
        assert [reference.path for reference in found.provenance.references] == ["d/1.md", "x.md"]


# ---- bounds ---------------------------------------------------------------------------------------------------------


class TestBounds:
    @staticmethod
    def large(count: int, last: int = 0) -> World:
        files: dict[str, str | bytes] = {f"d/{number:02}.md": b"x\nx\n" + b"y" * 262_140 for number in range(count)}
        return World(files | ({"e.md": b"y" * last} if last else {}))

    TEXTS = "sources:\n" + "".join(f"  s{number}: {{kind: design, path: d/{number:02}.md, lines: 1}}\n" for number in range(31))

    def test_all_files_together_have_eight_mebibytes(self) -> None:
        room = 8_388_608 - 31 * 262_144 - len(README)
        made(self.TEXTS + "  e: {kind: design, path: e.md}\n", self.large(31, 65_536))
        below = self.TEXTS + "  f: {kind: design, path: d/00.md, lines: 2}\n"
        refused(
            below,
            "4:3",
            f"the files of all sources have {8_388_608 + len(README):,} bytes, whole and once a source; at most 8,388,608: "
            "d/00.md 512 KiB, d/01.md 256 KiB, d/02.md 256 KiB, d/03.md 256 KiB, d/04.md 256 KiB",
            "Leave some out: exclude, or narrower globs.",
            world=self.large(31),
            reason=Reason.TOTAL_SOURCE_BYTE_LIMIT,
        )
        assert room == 262_144 - len(README)

    def test_the_bound_is_inclusive(self) -> None:
        room = 262_144 - len(README)
        below = self.TEXTS + "  e: {kind: design, path: e.txt, lines: 1}\n"
        world = self.large(31)
        world.repository["e.txt"] = b"\n" + b"z" * (room - 1)
        made(below, world)
        world.repository["e.txt"] = b"\n" + b"z" * room
        with pytest.raises(SdaqfError) as caught:
            made(below, world)
        assert caught.value.message.startswith("the files of all sources have 8,388,609 bytes")

    def test_the_same_path_under_two_roots_counts_as_two_files(self) -> None:
        world = self.large(31)
        world.repository["e.txt"], world.owner["e.txt"] = b"\n", b"\n" + b"z" * 262_143
        owner = "  o: {kind: design, path: e.txt, root: owner, lines: 1}\n"
        below = self.TEXTS + owner + "  e: {kind: design, path: e.txt}\n"
        with pytest.raises(SdaqfError) as caught:
            made(below, world)
        assert caught.value.message.startswith(f"the files of all sources have {8_388_608 + len(README) + 1:,} bytes")

    def test_what_looks_like_a_key_does_not_count_since_no_graph_takes_it(self) -> None:
        world = self.large(32)
        secret = TestSecrets.KEY.encode() + b"\n"
        world.repository["d/31.md"] = secret + b"z" * (262_144 - len(secret))
        compiled = made(self.TEXTS + "  s31: {kind: design, path: d/31.md, lines: 1}\n", world)
        assert len(index(compiled.manifest, world).content.excluded_sources) == 1

    def test_a_manifest_has_one_mebibyte(self) -> None:
        few, many = ({f"d/{number}.md": f"{number}\n" for number in range(count)} for count in (700, 1_200))
        assert len(render(made("sources: {a: design d/*.md}\n", World(few)).manifest)) < 1_048_576
        refused(
            "sources:\n  a: design d/*.md\n  b: design README.*\n".replace("  b: design README.*\n", ""),
            "4:3",
            "the Manifest would have more than 1,048,576 bytes: a 1200, specification 1",
            "Narrow the largest globs: about 900 sources fit.",
            world=World(many),
            reason=Reason.TOO_LARGE,
        )

    def test_relationships_count_too(self) -> None:
        files = {f"d/{number}.md": f"{number}\n" for number in range(700)}
        below = "sources:\n  a: design d/*.md\nrelationships:\n" + "".join(f"  - a {kind.value} specification\n" for kind in EdgeType)
        with pytest.raises(SdaqfError) as caught:
            made(below, World(files))
        assert caught.value.message == "the Manifest would have more than 1,048,576 bytes: a 700, specification 1 and 4900 relationships"

    def test_more_sources_than_nodes_are_refused_before_they_are_related(self) -> None:
        files = {f"d/{number}.md": f"{number}\n" for number in range(4_096)}
        refused("sources:\n  a: design d/*.md\n", "4:3", "4,097 sources; at most 4,096: a 4096, specification 1", world=World(files))


# ---- the same bytes -------------------------------------------------------------------------------------------------


class TestSameBytes:
    FILES = {"src/a.py": "a\n", "src/b.py": "b\n", "src/long.py": "x = 1\n" * 20_000, "d/1.md": "# One\n", "x.md": "x\n"}  # noqa: RUF012
    ENTRIES = ("code: source src/*.py", "docs: decision d/*.md", "x: {kind: design, path: x.md, labels: [a, b]}")
    RELATED = ("code implements x", "docs contradicts x", "docs contradicts specification")

    def below(self, entries: Sequence[str], relations: Sequence[str]) -> str:
        return (
            "sources:\n"
            + "".join(f"  {entry}\n" for entry in entries)
            + "relationships:\n"
            + "".join(f"  - {each}\n" for each in relations)
        )

    def test_neither_the_order_of_the_yaml_nor_that_of_the_listing_matters(self) -> None:
        plain = made(self.below(self.ENTRIES, self.RELATED), World(self.FILES))
        world = World(self.FILES)
        world.backwards = True
        other = made(self.below(self.ENTRIES[::-1], self.RELATED[::-1]).replace("[a, b]", "[b, a]"), world)
        assert render(plain.manifest) == render(other.manifest)
        assert {alias: set(ids) for alias, ids in plain.members.items()} == {alias: set(ids) for alias, ids in other.members.items()}

    def test_titles_comments_and_queries_are_in_no_artifact(self) -> None:
        plain = made(self.below(self.ENTRIES, self.RELATED), World(self.FILES))
        told = made(
            "title: For people\n# a comment\n" + self.below(self.ENTRIES, self.RELATED) + "queries: {q: {terms: [x]}}\n", World(self.FILES)
        )
        assert render(plain.manifest) == render(told.manifest)

    def test_it_does_not_matter_in_which_file_a_source_is_written(self) -> None:
        plain = made(self.below(self.ENTRIES, self.RELATED), World(self.FILES))
        first, *rest = self.ENTRIES
        included = made(self.below(rest, self.RELATED[1:]), World(self.FILES), "sdaqf: 1\n" + self.below([first], self.RELATED[:1]))
        assert render(plain.manifest) == render(included.manifest)

    def test_the_name_of_the_manifest_is_who_recorded_it(self) -> None:
        plain, other = (made("", World(), name=name) for name in (NAME, "other"))
        assert plain.manifest.artifact_id != other.manifest.artifact_id
        top = TOP + "defaults: {recorded_by: x}\n"
        assert same(made("", World(), name="other", top=top), made("", World(), top=top))


class TestTheTree:
    @pytest.mark.parametrize("what", ["a file", "HEAD"])
    def test_one_that_moves_while_it_is_read_is_refused(self, what: str) -> None:
        world = World({"a.md": "a\n"})

        def move(path: str) -> None:
            if what == "HEAD":
                world.git_head = "c" * 40
            else:
                world.repository["new.md"] = b"new\n"

        world.before_read = move
        with pytest.raises(Unreadable) as caught:
            made("sources: {a: design a.md}\n", world)
        assert (caught.value.reason, caught.value.message) == (Reason.CANDIDATE_MOVED, "the tree changed while the manifest was compiled")

    def test_the_candidate_is_the_tree_that_was_observed(self) -> None:
        world = World({"a.md": "a\n"})
        candidate = made("", world).manifest.content.candidate
        assert (candidate.git_head, candidate.repository_digest) == world.tree()[:2]

    def test_a_graph_can_be_made_of_it(self) -> None:
        world = World(TestSameBytes.FILES)
        compiled = made(TestSameBytes().below(TestSameBytes.ENTRIES, TestSameBytes.RELATED), world)
        graph = index(compiled.manifest, world).content
        assert (len(graph.nodes), len(graph.edges), graph.excluded_sources) == (len(compiled.manifest.content.sources), 6, ())

    def test_aliases_are_answered_with_the_ids_of_their_sources(self) -> None:
        compiled = made("sources: {a: source src/*.py, x: design x.md}\n", World(TestSameBytes.FILES))
        assert [len(compiled.members[alias]) for alias in ("specification", "a", "x")] == [1, 4, 1]
        found = {source_id for ids in compiled.members.values() for source_id in ids}
        assert found == {source.source_id for source in compiled.manifest.content.sources}


# ---- chance ---------------------------------------------------------------------------------------------------------

WHOLE = """\
sdaqf: 1
title: A
specification: {path: s.md, section: "Rules"}
defaults: {sensitivity: public}
sources:
  a: {path: a.md, kind: decision, authority: accepted-public-contract, labels: [x, y], required: true, provenance: [s.md]}
  code: {glob: src/**/*.py, exclude: [src/b.py], kind: source}
  run: {path: build/log.txt, kind: tool-observation, ignored: true, freshness: {observed: 2026-01-01T00:00:00Z, for: 30d}}
  f: {path: src/b.py, kind: test, symbol: f}
relationships:
  - code implements specification
  - {from: a, type: contradicts, to: f, provenance: [a.md]}
queries:
  default: {seeds: all, budget: 64KiB}
"""
FOREIGN = "\x1b[31m\u202e" + "z" * 300
SPLICES = (
    *("", "\n", "\t", "*", "a: ", "- ", "{", "}", "[", "]", '"', "null", "../", "/etc/passwd", "\0", "é", "\\x1b", "owner", "0", "7", "**"),
    "x" * 90,
    '"\\e[31m\\u202e' + "z" * 200 + '"',
)


def judge(data: bytes) -> None:
    """A value or a refusal, whose message is our own: short, printable, without a path of the machine."""
    world = World(
        {
            "s.md": "# Rules\nx\n",
            "a.md": "a\n",
            "src/a.py": "x = 1\n",
            "src/b.py": "def f(): ...\n",
            "build/log.txt": "ok\n",
            "src/bad name.py": "",
            FOREIGN: "",
        }
    )
    try:
        compile(declaration.read(NAME, plain_yaml.load(data, FILE)), world)
    except SdaqfError as error:
        assert error.message.isprintable() and str(error.todo).isprintable()
        assert len(error.message) <= 600 and all(line.isprintable() for line in error.excerpt)
        assert not re.search(r"(?<![\w.*'])/(?:work|home|tmp|root)/", error.message)
        written = data.decode("utf-8", "replace")
        assert not any(error.message[at : at + 81] in written for at in range(max(0, len(error.message) - 80)))
        assert error.where.startswith(f"{FILE}:")


def test_the_manifest_that_chance_begins_with_is_a_good_one() -> None:
    judge(WHOLE.encode())
    made(
        "", World({"s.md": "# Rules\n", "a.md": "a\n", "src/a.py": "x\n", "src/b.py": "def f(): ...\n", "build/log.txt": "ok\n"}), top=WHOLE
    )


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 12), st.sampled_from(SPLICES) | st.text(max_size=4)), min_size=1, max_size=3
    )
)
@example([(0, len(WHOLE), "")])
def test_a_manifest_with_anything_changed_is_a_value_or_a_refusal(changes: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for at, length, splice in changes:
        text = text[:at] + splice + text[at + length :]
    judge(text.encode("utf-8", "replace"))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_refusal(data: bytes) -> None:
    judge(data)
    judge(TOP.encode() + b"sources:\n  a: " + data)


@pytest.mark.parametrize(
    "below",
    [
        f"{'k' * 300}: 1\n",
        f"sources:\n  {'A' * 300}: design a.md\n",
        f"sources:\n  a: {'k' * 300} a.md\n",
        f"sources:\n  a: design {'p/' * 150}\n",
        f"sources:\n  a: design {'p/' * 100}x\n",
        f"sources:\n  a: design {'p' * 200}*\n",
        f"sources: {{a: {{kind: {'k' * 300}, path: a.md}}}}\n",
        f"sources: {{a: {{kind: design, path: s.md, freshness: {'k' * 300}}}}}\n",
        f"sources: {{a: {{kind: design, path: s.md, {'k' * 300}: 1}}}}\n",
        f"sources: {{a: {{kind: design, path: a.md, section: {'k' * 300}}}}}\n",
        f"sources: {{a: {{kind: design, path: a.md, labels: [{'k' * 300}, {'k' * 300}]}}}}\n",
        f"relationships:\n  - {'k' * 300} implements specification\n",
        f"relationships:\n  - specification {'k' * 300} specification\n",
        f"queries:\n  {'Q' * 300}: {{}}\n",
        f"queries: {{a: {{require: [{'k' * 300}]}}}}\n",
        f"queries: {{a: {{seeds: {'k' * 300}}}}}\n",
        'sources:\n  "a\\x1b": design a.md\n',
        'sources:\n  a: "design a\\x1b\\u202e.md"\n',
        'relationships:\n  - "specification \\x1b specification"\n',
    ],
)
def test_long_and_unprintable_words_are_shown_short_and_escaped(below: str) -> None:
    judge((TOP.replace("README", "s") + below).encode())
    with pytest.raises(SdaqfError) as caught:
        made(below, World({"a.md": "a\n"}))
    assert caught.value.message.isprintable() and len(caught.value.message) < 200


def test_nothing_is_asked_of_the_world_before_the_yaml_is_read() -> None:
    world: Any = None
    with pytest.raises(SdaqfError):
        compile(declared("sources: 7\n"), world)
    assert document("a: 1\n").name == FILE
