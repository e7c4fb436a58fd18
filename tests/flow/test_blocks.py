"""Blocks in files of a real repository: what is written, what is left alone, and what `check` says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sdaqf_tasks.context.findings import Found
from sdaqf_tasks.errors import Finding, Reason, SdaqfError
from sdaqf_tasks.flow import blocks, check, lock
from sdaqf_tasks.flow.blocks import FILE_BYTES, Kept
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.formats.records import Sensitivity
from tests.flow.workshop import DEFAULT, MANIFEST, REVIEW, Workshop
from tests.fronts.run import in_process

RULES = "# Rules\r\n\r\nBe calm.\r\n"


@pytest.fixture
def shop(shop: Workshop) -> Workshop:
    """A project whose documents were reviewed, with a file that agents read."""
    shop.write("AGENTS.md", RULES)
    shop.tree.git("add", "AGENTS.md")
    review(shop)
    return shop


def review(shop: Workshop) -> None:
    with shop.run() as run:
        lock.write(run, lock.relock(run, run.project.manifests).writes)


def keep(shop: Workshop, file: str = "AGENTS.md", chain: Chain = DEFAULT, most: int = FILE_BYTES) -> Kept:
    with shop.run() as run:
        run.locked = True
        return blocks.keep(run, chain, file, clearance=Sensitivity.REPOSITORY_PRIVATE, most=most)


def refusal(shop: Workshop, file: str = "AGENTS.md") -> SdaqfError:
    """Why nothing was written; all files are as they were."""
    before = shop.everything()
    with pytest.raises(SdaqfError) as refused:
        keep(shop, file)
    assert shop.everything() == before
    return refused.value


def found(shop: Workshop, *names: str) -> list[Found]:
    """What `check` says of blocks."""
    with shop.run() as run:
        codes = (Finding.BLOCK_EDITED, Finding.BLOCK_OUT_OF_DATE, Finding.NOT_CHECKED)
        return [each for each in check.check(run, names).findings if each.code in codes]


def text(shop: Workshop, file: str = "AGENTS.md") -> str:
    return (shop.path / file).read_bytes().decode()


class TestKeep:
    def test_the_block_tells_the_present_tree_and_nothing_else_changes(self, shop: Workshop) -> None:
        kept = keep(shop)
        assert (kept.word, kept.block.named, kept.block.total) == ("made", 4, 4)
        edit = "edit manifests/context.yaml, then: sdaqf render context --into AGENTS.md"
        assert text(shop) == RULES + "\r\n" + "\r\n".join(
            [
                f"<!-- sdaqf:begin context content={kept.content[:12]} (generated; {edit}) -->",
                "Documents that bind this project, as reviewed:",
                "- docs/adr/0001-one.md — One",
                "- docs/adr/0002-two.md — Two",
                "- docs/spec.md — Specification",
                "",
                "These follow the tree; nobody has reviewed them:",
                "- src/a.py",
                "<!-- sdaqf:end -->",
                "",
            ]
        )
        shop.build()
        assert shop.content() == kept.content

    def test_it_is_written_once(self, shop: Workshop) -> None:
        keep(shop)
        before = shop.everything()
        assert keep(shop).word == "same"
        assert shop.everything() == before

    def test_it_is_the_same_after_a_commit_and_in_a_clone(self, shop: Workshop, tmp_path: Path) -> None:
        keep(shop)
        shop.tree.git("add", "-A")
        shop.tree.git("commit", "-qm", "two", GIT_COMMITTER_DATE="2026-06-01T00:00:00Z")
        assert (keep(shop).word, found(shop)) == ("same", [])
        subprocess.run(["git", "clone", "-q", shop.path, tmp_path / "clone"], check=True)
        shop.tree.path = shop.path = tmp_path / "clone"
        assert (keep(shop).word, found(shop)) == ("same", [])

    def test_it_follows_what_changes_and_keeps_its_place_and_mode(self, shop: Workshop) -> None:
        keep(shop)
        keep(shop, chain=REVIEW)
        shop.write("AGENTS.md", text(shop) + "\nBelow.")
        (shop.path / "AGENTS.md").chmod(0o664)
        before = text(shop)
        shop.write("src/a.py", "a = 1\n")
        assert keep(shop).word == "updated"
        lines, old = text(shop).split("\n"), before.split("\n")
        assert [number for number, (one, other) in enumerate(zip(lines, old, strict=True)) if one != other] == [4]
        assert (shop.path / "AGENTS.md").stat().st_mode & 0o777 == 0o664

    def test_a_file_that_is_not_there_is_made_with_its_folder(self, shop: Workshop) -> None:
        assert keep(shop, ".github/copilot-instructions.md").word == "made"
        assert text(shop, ".github/copilot-instructions.md").startswith("<!-- sdaqf:begin context content=")

    def test_a_section_a_given_title_and_a_contradiction_are_told(self, shop: Workshop) -> None:
        shop.manifest(
            "sdaqf: 1\nspecification: docs/spec.md\nsources:\n"
            "  one: {path: docs/adr/0001-one.md, kind: decision, section: One, title: We do --> one}\n"
            "  two: {path: docs/adr/0002-two.md, kind: decision, lines: 1-3}\n"
            "  seen: {path: src/a.py, kind: source, symbol: a}\nrelationships:\n  - one contradicts two\n"
        )
        review(shop)
        keep(shop)
        assert text(shop).split("\r\n")[6:13] == [
            "- docs/adr/0001-one.md § One — We do --\\> one   ⚠ contradicts docs/adr/0002-two.md:1-3; unresolved",
            "- docs/adr/0002-two.md:1-3   ⚠ contradicts docs/adr/0001-one.md § One; unresolved",
            "- docs/spec.md — Specification",
            "",
            "These follow the tree; nobody has reviewed them:",
            "- src/a.py § a",
            "<!-- sdaqf:end -->",
        ]

    def test_who_ignores_the_file_is_told_so(self, shop: Workshop) -> None:
        shop.write(".gitignore", "*.local.md\n")
        assert [keep(shop, name).listed for name in ("CLAUDE.md", "CLAUDE.local.md")] == [True, False]


class TestRefused:
    def test_without_a_lock(self, shop: Workshop) -> None:
        (shop.path / "manifests/context.lock").unlink()
        error = refusal(shop)
        assert (error.reason, error.todo) == (Reason.NO_LOCK, "A person must review this.")

    def test_what_is_not_as_reviewed(self, shop: Workshop) -> None:
        shop.write("docs/adr/0001-one.md", "# One\n\nWe do many.\n")
        error = refusal(shop)
        assert (error.reason, error.todo) == (Reason.CHANGED, "A person must review this.")
        assert "lock" not in str(error)

    @pytest.mark.parametrize("sensitivity", ["owner-private", "repository-private"])
    def test_above_the_clearance(self, shop: Workshop, sensitivity: str) -> None:
        shop.manifest(f"sdaqf: 1\nspecification: docs/spec.md\ndefaults:\n  sensitivity: {sensitivity}\n")
        review(shop)
        before = shop.everything()
        for clearance in (Sensitivity.PUBLIC, Sensitivity.OWNER_PRIVATE):
            with shop.run() as run, pytest.raises(SdaqfError) as error:
                blocks.keep(run, DEFAULT, "AGENTS.md", clearance=clearance)
            private = sensitivity == "owner-private" and clearance is Sensitivity.PUBLIC
            assert error.value.reason is (Reason.REQUIRED_NOT_CLEARED if private else Reason.ABOVE_CLEARANCE)
        assert shop.everything() == before

    def test_a_link_and_what_lies_behind_one(self, shop: Workshop) -> None:
        shop.tree.link("CLAUDE.md", "AGENTS.md")
        shop.tree.link("elsewhere", "docs")
        assert (refusal(shop, "CLAUDE.md").reason, refusal(shop, "CLAUDE.md").where) == (Reason.OUTPUT_INVALID, "CLAUDE.md")
        assert refusal(shop, "elsewhere/AGENTS.md").reason is Reason.OUTPUT_INVALID

    def test_a_folder_in_place_of_the_file(self, shop: Workshop) -> None:
        (shop.path / "NOTES.md").mkdir()
        assert refusal(shop, "NOTES.md").reason is Reason.MISSING_OR_UNREADABLE

    def test_a_file_that_agents_would_cut(self, shop: Workshop) -> None:
        keep(shop)
        room = FILE_BYTES - len(text(shop).encode())
        shop.write("AGENTS.md", "x" * room + RULES)
        assert keep(shop).word == "made"
        assert len(text(shop).encode()) == FILE_BYTES
        shop.write("AGENTS.md", "x" * (room + 1) + RULES)
        error = refusal(shop)
        assert (error.reason, error.where, error.todo) == (Reason.TOO_LARGE, "AGENTS.md", "Shorten it, or allow more: --max-file SIZE")
        assert keep(shop, most=FILE_BYTES + 1).word == "made"

    @pytest.mark.parametrize("name", ["notes.txt", "../AGENTS.md", ".git/AGENTS.md", "a b.md", "a<!--.md", "AGENTS.md/"])
    def test_a_name_that_is_none(self, shop: Workshop, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path)
        if name == "AGENTS.md/":
            assert blocks.target(shop.path, Path(name)) == "AGENTS.md"
            return
        with pytest.raises(SdaqfError) as error:
            blocks.target(shop.path, Path(name))
        assert error.value.reason is Reason.OUTPUT_INVALID

    def test_a_name_is_from_the_working_directory(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(shop.path / "docs")
        assert [blocks.target(shop.path, Path(name)) for name in ("AGENTS.md", "../AGENTS.md")] == ["docs/AGENTS.md", "AGENTS.md"]
        assert blocks.target(shop.path, shop.path / "src/A.md") == "src/A.md"


class TestTarget:
    """A file that a manifest renders into cannot be a source of that manifest: what it says would change by being told."""

    NAMED = MANIFEST.replace("  code:", "  rules: requirement AGENTS.md\n  code:")
    BY_GLOB = MANIFEST.replace("  code:", "  rules: requirement A*.md\n  code:")
    SPECIFIED = MANIFEST.replace("docs/spec.md", "AGENTS.md")

    def test_a_named_source_is_refused_at_its_line_before_anything_is_written(self, shop: Workshop) -> None:
        shop.manifest(self.NAMED)
        review(shop)
        error = refusal(shop)
        assert (error.reason, error.where) == (Reason.RENDER_TARGET, "manifests/context.yaml:5:10")
        assert error.message == "AGENTS.md is what a context of this manifest is rendered into"
        assert error.todo == (
            "Take `rules` (line 5) out, also where `require` names it: agents read AGENTS.md anyway. Or render into another file."
        )

    def test_what_init_proposes_is_mended_as_it_is_said(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        shop = Workshop(tmp_path / "new", {"README.md": "# Acme\n", "AGENTS.md": "Be calm.\n", "src/a.py": "a = 1\n"})
        monkeypatch.chdir(shop.path)
        assert in_process("init", "--yes", capsys=capsys).code == 0
        error = refusal(shop)
        place, line = shop.path / "manifests/context.yaml", error.where.split(":")[1]
        assert error.todo.startswith(f"Take `rules` (line {line}) out, also where `require` names it")
        rows = place.read_text().splitlines(keepends=True)
        assert "AGENTS.md" in rows.pop(int(line) - 1)
        place.write_text("".join(rows).replace("require: [rules]", "require: [specification]"))
        review(shop)
        assert (keep(shop).word, shop.words()["context"]) == ("made", "made")

    def test_so_is_one_that_is_named_later(self, shop: Workshop) -> None:
        keep(shop)
        shop.manifest(self.NAMED)
        assert shop.refusal().reason is Reason.RENDER_TARGET

    def test_as_specification_a_section_of_another_file_is_offered(self, shop: Workshop) -> None:
        keep(shop)
        shop.manifest(self.SPECIFIED)
        error = shop.refusal()
        assert (error.reason, error.where) == (Reason.RENDER_TARGET, "manifests/context.yaml:2:16")
        assert error.todo == 'Write:  specification: {path: docs/spec.md, section: "Specification"}'

    def test_from_a_glob_it_is_left_out_and_named_the_first_time_too(self, shop: Workshop) -> None:
        shop.write("ABOUT.md", "# About\n")
        shop.manifest(self.BY_GLOB)
        review(shop)
        shop.build()
        assert "AGENTS.md" in {node.locator.path for node in shop.artifact("snapshot").content.nodes}
        error = refusal(shop)
        assert (error.reason, error.message) == (Reason.RENDER_TARGET, "AGENTS.md is a pinned source of context, by a glob")
        assert error.todo == "Exclude it there, or render into another file. A person must review this."
        shop.manifest(self.BY_GLOB.replace("requirement A*.md", "{glob: A*.md, exclude: [AGENTS.md], kind: requirement}"))
        review(shop)
        assert keep(shop).word == "made"
        shop.manifest(self.BY_GLOB)
        assert (keep(shop).word, found(shop)) == ("same", [])
        [made] = [result for result in shop.build("context") if result.chain == DEFAULT]
        assert "AGENTS.md left out: it is what a context of this manifest is rendered into" in made.notes
        assert "AGENTS.md" not in {node.locator.path for node in shop.artifact("snapshot").content.nodes}

    def test_of_a_glob_that_is_not_pinned_once_is_enough(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST.replace("source src/*.py", "finding A*.md"))
        shop.write("ABOUT.md", "# About\n")
        review(shop)
        assert (keep(shop).word, keep(shop).word, found(shop)) == ("made", "same", [])

    def test_another_manifest_may_have_it(self, shop: Workshop) -> None:
        keep(shop)
        shop.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  rules: requirement AGENTS.md\n", "other")
        review(shop)
        assert (shop.words()["other"], found(shop)) == ("made", [])

    def test_a_source_that_shows_a_marker_in_a_fence_is_a_source(self, shop: Workshop) -> None:
        shop.write("docs/adr/0003-three.md", "```\n<!-- sdaqf:begin context -->\n<!-- sdaqf:end -->\n```\n")
        review(shop)
        assert shop.words()["context"] == "made"
        assert "docs/adr/0003-three.md" in {node.locator.path for node in shop.artifact("snapshot").content.nodes}


class TestFindings:
    """Each with the fix that it names, after which nothing is left to find."""

    def one(self, shop: Workshop) -> Found:
        [only] = found(shop)
        return only

    def fix(self, shop: Workshop, settle: str) -> None:
        program, *arguments = settle.split()
        assert program == "sdaqf"
        done = shop.command(*arguments)
        assert done.returncode == 0, done.stderr
        assert found(shop) == []

    def test_a_block_of_another_content_is_out_of_date(self, shop: Workshop) -> None:
        old = keep(shop).content[:12]
        shop.write("src/a.py", "a = 2\n")
        one = self.one(shop)
        assert (one.code, one.path, one.line, one.contexts) == (Finding.BLOCK_OUT_OF_DATE, "AGENTS.md", 5, ("context",))
        assert one.message.startswith(f"the block has content {old}, the context ")
        self.fix(shop, one.settle)

    def test_a_block_that_was_edited(self, shop: Workshop) -> None:
        keep(shop)
        shop.write("AGENTS.md", text(shop).replace("- docs/spec.md", "- Ignore docs/spec.md"))
        one = self.one(shop)
        assert (one.code, one.line, one.settle) == (Finding.BLOCK_EDITED, 5, "sdaqf render context --into AGENTS.md")
        self.fix(shop, one.settle)

    def test_a_block_whose_digest_was_taken_out(self, shop: Workshop) -> None:
        kept = keep(shop)
        shop.write("AGENTS.md", text(shop).replace(f" content={kept.content[:12]}", ""))
        one = self.one(shop)
        assert one.code is Finding.BLOCK_EDITED
        self.fix(shop, one.settle)

    def test_a_block_that_was_moved_into_another_file_says_so(self, shop: Workshop) -> None:
        keep(shop)
        shutil.move(shop.path / "AGENTS.md", shop.path / "CLAUDE.md")
        one = self.one(shop)
        assert (one.code, one.path, one.settle) == (Finding.BLOCK_EDITED, "CLAUDE.md", "sdaqf render context --into CLAUDE.md")
        self.fix(shop, one.settle)

    def test_a_marker_that_is_broken_has_its_line(self, shop: Workshop) -> None:
        keep(shop)
        good = text(shop)
        shop.write("AGENTS.md", good.replace("<!-- sdaqf:end -->", "<!-- sdaqf:end-->"))
        one = self.one(shop)
        assert (one.code, one.line, one.message) == (Finding.BLOCK_EDITED, 13, "a marker that is broken")
        shop.write("AGENTS.md", good)
        assert found(shop) == []

    def test_a_block_of_a_context_that_is_no_more(self, shop: Workshop) -> None:
        keep(shop, chain=REVIEW)
        shop.manifest(MANIFEST.replace("  review:", "  other:"))
        one = self.one(shop)
        assert (one.code, one.message) == (Finding.BLOCK_OUT_OF_DATE, "there is no context context.review any more")
        shop.write("AGENTS.md", RULES)
        assert found(shop) == []

    def test_a_block_that_cannot_be_compared_does_not_pass(self, shop: Workshop) -> None:
        keep(shop)
        shop.write("docs/spec.md", "# Other\n")
        one = self.one(shop)
        assert (one.code, one.message) == (
            Finding.NOT_CHECKED,
            "the block of context cannot be compared: docs/spec.md is not the version that was reviewed",
        )
        review(shop)
        assert self.one(shop).code is Finding.BLOCK_OUT_OF_DATE

    def test_blocks_of_other_contexts_are_not_asked_for(self, shop: Workshop) -> None:
        shop.manifest("sdaqf: 1\nspecification: docs/spec.md\n", "other")
        review(shop)
        keep(shop)
        shop.write("src/a.py", "a = 2\n")
        assert (found(shop, "other"), len(found(shop, "context"))) == ([], 1)

    def test_a_file_that_git_ignores_is_not_looked_at(self, shop: Workshop) -> None:
        keep(shop, "notes.md")
        shop.write(".gitignore", "notes.md\n")
        shop.write("src/a.py", "a = 2\n")
        assert found(shop) == []

    def test_checking_writes_nothing(self, shop: Workshop) -> None:
        keep(shop)
        shutil.rmtree(shop.folder)
        before = shop.everything()
        assert found(shop) == []
        assert (shop.everything(), os.path.lexists(shop.folder)) == (before, False)
