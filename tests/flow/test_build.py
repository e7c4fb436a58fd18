"""Building a project: which contexts, how far, what is told, and what the clock and files outside the tree say."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from sdaqf_tasks.errors import Invalid, Malformed, Reason, Refused
from sdaqf_tasks.flow import build, report, stages, status
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import STAGES
from tests import repositories
from tests.flow.workshop import DEFAULT, MANIFEST, REVIEW, Workshop

SECOND = MANIFEST.replace("  code: source src/*.py\n", "").replace("relationships:\n  - code implements specification\n", "")


class TestWords:
    """made, same (content unchanged, new tree), up to date, skipped, blocked."""

    def test_made_then_up_to_date(self, shop: Workshop) -> None:
        assert shop.words() == {"context": "made", "context.review": "made"}
        assert shop.words() == {"context": "up to date", "context.review": "up to date"}

    def test_same_on_a_new_commit_with_unchanged_content(self, shop: Workshop) -> None:
        shop.build()
        before = shop.content(), shop.ref("snapshot")
        shop.tree.git("commit", "-q", "--allow-empty", "-m", "two")
        assert shop.words() == {"context": "same", "context.review": "same"}
        assert shop.content() == before[0]
        assert shop.ref("snapshot") != before[1]

    def test_same_where_a_file_changed_that_nothing_tells(self, shop: Workshop) -> None:
        shop.build()
        shop.write("notes.txt", "untracked\n")
        assert shop.words() == {"context": "same", "context.review": "same"}

    def test_made_only_where_the_text_is_told(self, shop: Workshop) -> None:
        shop.build()
        shop.write("src/a.py", "a = 2\n")
        assert shop.words() == {"context": "made", "context.review": "same"}

    def test_a_second_run_runs_nothing_but_observe(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.build()

        def never(job: stages.Job) -> stages.Made:
            raise AssertionError(job.stage.name)

        table = tuple(stage._replace(run=never) for stage in STAGES)
        monkeypatch.setattr(stages, "STAGES", table)
        monkeypatch.setattr(build, "STAGES", table)
        assert set(shop.words().values()) == {"up to date"}


class TestNames:
    @pytest.fixture
    def two(self, shop: Workshop) -> Workshop:
        shop.manifest(SECOND, "second")
        return shop

    def test_all_where_none_is_named(self, two: Workshop) -> None:
        assert list(two.words()) == ["context", "context.review", "second", "second.review"]

    def test_a_manifest_stands_for_all_its_queries(self, two: Workshop) -> None:
        assert list(two.words("second")) == ["second", "second.review"]

    def test_one_query(self, two: Workshop) -> None:
        assert list(two.words("second.review")) == ["second.review"]
        assert not [name for name in two.refs() if name.startswith("context/") or "q/default" in name]

    def test_the_default_query_by_its_own_name(self, two: Workshop) -> None:
        assert list(two.words("context.default")) == ["context"]

    def test_several_in_any_order_and_twice(self, two: Workshop) -> None:
        named = ("second.review", "context", "context.review", "second.review")
        assert list(two.words(*named)) == ["second.review", "context", "context.review"]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("contxt", "there is no manifest 'contxt'; did you mean context?"),
            ("nothing-like-it", "there is no manifest 'nothing-like-it'"),
            ("context.reviw", "context has no query 'reviw'; did you mean context.review?"),
            ("", "there is no manifest ''"),
            ("context.", "context has no query ''"),
            (".review", "there is no manifest ''"),
            ("../context", "there is no manifest ''"),
        ],
    )
    def test_unknown_names_are_refused_before_anything_is_done(self, two: Workshop, name: str, message: str) -> None:
        with pytest.raises(Refused) as refusal:
            two.build("second", name)
        assert refusal.value.reason is Reason.UNKNOWN_NAME
        assert refusal.value.message == message
        assert not two.folder.exists()

    def test_status_takes_the_same_names(self, two: Workshop) -> None:
        two.build()
        assert list(two.status("second.review")) == ["second.review"]
        with pytest.raises(Refused):
            two.status("third")


class TestUntil:
    @pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
    def test_what_the_stage_is_made_from_and_no_more(self, shop: Workshop, stage: stages.Stage) -> None:
        [*_, result] = shop.build("context", until=stage.name)
        assert [outcome.stage for outcome in result.outcomes] == [each.name for each in stages.up_to(stage)]
        assert {name.rpartition("/")[2] for name in shop.refs()} == {each.makes for each in stages.up_to(stage)}

    def test_what_was_built_before_is_not_summed_up_as_new(self, shop: Workshop) -> None:
        shop.build()
        shop.write("docs/adr/0002-two.md", "# Two\n\nthree\n")
        result = shop.build("context.default", until="index")[0]
        assert (result.word, result.summary) == ("made", None)
        assert shop.status()["context"] == ("not current", "query: changed: graph, manifest")


class TestBlocked:
    """A refused manifest or query does not stop the others."""

    def test_a_manifest(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST.replace("docs/spec.md", "docs/no.md"), "aaa")
        shop.manifest("sdaqf: 1\nspecification: [\n", "bbb")
        results = {result.chain.label: result for result in shop.build()}
        words = {label: result.word for label, result in results.items()}
        assert words == {"aaa": "blocked", "bbb": "blocked", "context": "made", "context.review": "made"}
        assert results["aaa"].error is not None
        assert results["aaa"].error.where == "manifests/aaa.yaml:2:16"

    def test_a_query(self, shop: Workshop) -> None:
        shop.write("docs/spec.md", "# Specification\n" + "It does this.\n" * 100)
        shop.manifest(MANIFEST.replace("default: {seeds: all}", "default: {seeds: all, budget: 1KiB}"))
        results = shop.build()
        assert [(result.chain.label, result.word) for result in results] == [("context", "blocked"), ("context.review", "made")]
        assert results[0].error is not None
        assert results[0].error.reason is Reason.REQUIRED_OVER_BUDGET

    def test_the_command_ends_with_1_and_names_what_to_do(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST.replace("docs/spec.md", "docs/no.md"), "aaa")
        ran = shop.command("build")
        assert ran.returncode == 1
        assert "Traceback" not in ran.stderr + ran.stdout
        assert "2 made, 1 blocked" in ran.stdout
        assert shop.command("build", "context").returncode == 0


class TestNotes:
    """What a person should know is told once, by the chain that it concerns first."""

    def test_what_a_glob_leaves_out(self, shop: Workshop) -> None:
        shop.tree.write("src/binary.py", b"\0\1\2")
        first, second = shop.build()
        assert [note for note in first.notes if "src/binary.py" in note]
        assert not [note for note in second.notes if "src/binary.py" in note]

    def test_a_budget_that_cuts(self, shop: Workshop) -> None:
        for number in range(30):
            shop.write(f"src/m{number:02}.py", f"x = {number}\n" * 40)
        shop.manifest(MANIFEST.replace("default: {seeds: all}", "default: {seeds: all, budget: 8KiB}"))
        assert any("left out" in note and "budget" in note for note in shop.build("context.default")[0].notes)

    def hiding(self, shop: Workshop, kept: str) -> None:
        shop.write("rates.json", '{"rate": 1.4}\n')
        rates = "rates: {path: rates.json, kind: evidence, authority: verified-evidence, freshness: immutable}"
        sources = f"sources:\n  {rates}\n  one: decision docs/adr/0001-one.md\n"
        relationships = f"relationships:\n  - {{from: rates, type: contradicts, to: {kept}, provenance: [docs/spec.md]}}\n"
        shop.manifest(MANIFEST.replace("sources:\n", sources).replace("relationships:\n", relationships))

    def test_a_contradiction_that_is_hidden(self, shop: Workshop) -> None:
        self.hiding(shop, "one")
        assert [note for note in shop.build()[0].notes if "contradict" in note] == [
            "docs/adr/0001-one.md contradicts rates.json, which was left out (invalid-json): the contradiction is not shown"
        ]

    def test_a_contradiction_of_a_required_source_is_never_hidden(self, shop: Workshop) -> None:
        self.hiding(shop, "specification")
        assert shop.refusal().reason is Reason.CONTRADICTION_HIDDEN
        assert set(shop.refs()) == {"context/manifest"}

    def test_no_note_and_no_document_sends_an_agent_to_the_lock(self, shop: Workshop) -> None:
        shop.build()
        assert "sdaqf lock" not in "".join(data.decode() for name, data in shop.outs().items() if name.endswith(".md"))


class TestOwnerFiles:
    @pytest.fixture
    def owned(self, shop: Workshop, tmp_path: Path) -> Workshop:
        notes = tmp_path / "owner-root"
        notes.mkdir()
        (notes / "note.md").write_text("# Note\n\nhush hush\n")
        shop.manifest(
            "sdaqf: 1\nspecification: docs/spec.md\nsources:\n"
            "  note: {path: note.md, root: owner, kind: decision, authority: owner-approved}\n"
            "queries:\n  default: {seeds: all, clearance: owner-private}\n",
            "release",
        )
        return shop

    def test_skipped_where_no_owner_root_is_given(self, owned: Workshop) -> None:
        assert owned.words() == {"context": "made", "context.review": "made", "release": "skipped"}
        assert owned.status()["release"][0] == "skipped"
        assert owned.command("build").returncode == 0

    def test_built_where_one_is_given_and_readable_by_its_owner_alone(self, owned: Workshop, tmp_path: Path) -> None:
        owned.owner_root = tmp_path / "owner-root"
        assert owned.words()["release"] == "made"
        document = owned.folder / "out/release/context.md"
        assert "hush hush" in document.read_text()
        assert document.stat().st_mode & 0o777 == 0o600
        assert owned.folder.stat().st_mode & 0o077 == 0
        assert owned.words()["release"] == "up to date"

    def test_by_the_environment(self, owned: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_OWNER_ROOT", os.fspath(tmp_path / "owner-root"))
        assert owned.words()["release"] == "made"

    def test_an_edited_owner_file_is_built_anew(self, owned: Workshop, tmp_path: Path) -> None:
        owned.owner_root = tmp_path / "owner-root"
        owned.build()
        (tmp_path / "owner-root/note.md").write_text("# Note\n\nlouder\n")
        assert owned.status()["release"][1] == "manifest: changed: files outside the tree"
        assert owned.words() == {"context": "up to date", "context.review": "up to date", "release": "made"}
        assert "louder" in (owned.folder / "out/release/context.md").read_text()

    def test_a_missing_owner_file_is_refused_with_its_place_and_without_the_root(self, owned: Workshop, tmp_path: Path) -> None:
        owned.owner_root = tmp_path / "owner-root"
        owned.build()
        (tmp_path / "owner-root/note.md").unlink()
        error = owned.refusal("release")
        assert error.where == "manifests/release.yaml:4:16"
        assert os.fspath(tmp_path) not in str(error) + error.todo
        assert not [name for name in owned.refs() if name.startswith("release/")]

    def test_secrets_and_roots_are_in_no_message(self, owned: Workshop, tmp_path: Path) -> None:
        ran = owned.command("build", "-v", SDAQF_OWNER_ROOT=os.fspath(tmp_path / "owner-root"))
        assert ran.returncode == 0
        for told in (ran.stdout, ran.stderr):
            assert "hush" not in told
            assert os.fspath(tmp_path) not in told

    def test_an_owner_root_that_is_none_says_what_it_is(self, owned: Workshop, tmp_path: Path) -> None:
        ran = owned.command("build", SDAQF_OWNER_ROOT=os.fspath(tmp_path / "nowhere"))
        assert ran.returncode == 1
        assert "the owner root" in ran.stderr
        assert os.fspath(tmp_path) not in ran.stderr


class TestClock:
    """PIPELINE 4: `build` and `status` look at today's clock; bytes never do."""

    def watched(self, shop: Workshop, more: str = "") -> None:
        shop.write("lint.txt", "fine\n")
        window = "freshness: {observed: 2026-01-02T00:00:00Z, expires: 2026-02-01T00:00:00Z}"
        shop.manifest(MANIFEST.replace("sources:\n", f"sources:\n  lint: {{path: lint.txt, kind: tool-observation, {more}{window}}}\n"))

    def test_required_and_expired_is_refused_although_as_of_is_inside(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(shop, "required: true, ")
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:01Z")
        error = shop.refusal()
        assert error.reason is Reason.REQUIRED_EXPIRED
        assert error.message == "lint.txt is past its window: valid until 2026-02-01T00:00:00Z; it is 2026-02-01T00:00:01Z now"
        assert error.todo == "Observe again, then: sdaqf lock --observed now"

    def test_the_next_run_refuses_with_no_file_changed(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(shop, "required: true, ")
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:00Z")
        assert set(shop.words().values()) == {"made"}
        assert set(shop.words().values()) == {"up to date"}
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:01Z")
        assert shop.status()["context"][0] == "not current"
        assert shop.refusal().reason is Reason.REQUIRED_EXPIRED
        assert shop.refs() == {}

    def test_required_by_one_query_blocks_that_query(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(shop)
        text = (shop.path / "manifests/context.yaml").read_text()
        shop.manifest(text.replace("review: {", "review: {require: [lint], "))
        monkeypatch.setenv("SDAQF_NOW", "2026-01-31T00:00:00Z")
        assert set(shop.words().values()) == {"made"}
        monkeypatch.setenv("SDAQF_NOW", "2026-02-02T00:00:00Z")
        assert shop.words() == {"context": "up to date", "context.review": "blocked"}

    def test_optional_and_expired_stays_in_and_is_reported(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(shop)
        monkeypatch.setenv("SDAQF_NOW", "2026-01-31T00:00:00Z")
        shop.build()
        refs = shop.refs()
        monkeypatch.setenv("SDAQF_NOW", "2026-02-02T00:00:00Z")
        result = shop.build("context.default")[0]
        assert result.word == "up to date"
        assert list(result.notes) == ["lint.txt is expired: valid until 2026-02-01T00:00:00Z; it is 2026-02-02T00:00:00Z now"]
        assert shop.refs() == refs
        with shop.run() as run:
            [entry, _] = status.status(run)["contexts"]
        assert entry["notes"] == list(result.notes)

    def test_the_bytes_do_not_depend_on_the_clock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = []
        for number, now in enumerate(("2026-01-31T00:00:00Z", "2030-01-01T00:00:00Z")):
            monkeypatch.setenv("SDAQF_NOW", now)
            other = Workshop(tmp_path / str(number))
            self.watched(other)
            other.build()
            found.append(other.refs())
        assert found[0] == found[1]

    def test_a_clock_before_observed_is_reported_not_refused(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.watched(shop, "required: true, ")
        monkeypatch.setenv("SDAQF_NOW", "2025-12-31T00:00:00Z")
        result = shop.build("context.default")[0]
        assert result.word == "made"
        assert (
            "lint.txt was observed at 2026-01-02T00:00:00Z, and the clock says 2025-12-31T00:00:00Z: one of the two is wrong"
            in result.notes
        )

    def test_every_report_says_that_the_clock_is_fixed(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-31T00:00:00Z")
        results = shop.build()
        with shop.run() as run:
            found = status.status(run)
            lines = list(report.status_lines(found, run.tree, ()))
            assert report.build_object(results, run.tree)["clock"] == "2026-01-31T00:00:00Z"
        assert found["clock"] == {"now": "2026-01-31T00:00:00Z", "fixed": True}
        assert "SDAQF_NOW fixes the clock at 2026-01-31T00:00:00Z" in lines
        assert report.clock_line() == ["SDAQF_NOW fixes the clock at 2026-01-31T00:00:00Z"]

    @pytest.mark.parametrize("text", ["now", "2026-13-01T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00+01:00"])
    def test_a_clock_that_is_no_time_is_refused(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
        monkeypatch.setenv("SDAQF_NOW", text)
        with pytest.raises(Invalid, match="SDAQF_NOW"):
            shop.build()


class TestFilesOutsideTheTree:
    """`ignored: true` sources and owner files are in no candidate; their bytes count all the same."""

    @pytest.fixture
    def ignoring(self, shop: Workshop) -> Workshop:
        shop.write(".gitignore", "logs/\n")
        shop.write("logs/run.txt", "first\n")
        window = "freshness: {observed: 2026-01-01T00:00:00Z, for: 900000h}"
        shop.manifest(
            MANIFEST.replace("sources:\n", f"sources:\n  run: {{path: logs/run.txt, kind: tool-observation, ignored: true, {window}}}\n")
        )
        shop.build()
        return shop

    def test_an_edit_is_built_anew(self, ignoring: Workshop) -> None:
        assert ignoring.current()
        ignoring.write("logs/run.txt", "second\n")
        assert ignoring.status()["context"] == ("not current", "manifest: changed: files outside the tree")
        assert ignoring.words()["context"] == "made"
        assert "second" in (ignoring.folder / "out/context/context.md").read_text()

    def test_an_edit_of_the_same_size_and_time_is_built_anew(self, ignoring: Workshop) -> None:
        place = ignoring.path / "logs/run.txt"
        before = place.stat()
        place.write_text("FIRST\n")
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert ignoring.words()["context"] == "made"

    def test_a_missing_one_is_refused_with_its_place(self, ignoring: Workshop) -> None:
        (ignoring.path / "logs/run.txt").unlink()
        error = ignoring.refusal()
        assert error.where == "manifests/context.yaml:4:15"
        assert error.reason is Reason.MISSING_OR_UNREADABLE
        assert ignoring.refs() == {}

    def test_its_provenance_counts_too(self, ignoring: Workshop) -> None:
        ignoring.write("logs/how.txt", "make lint\n")
        text = (ignoring.path / "manifests/context.yaml").read_text()
        ignoring.manifest(text.replace("ignored: true", "ignored: true, provenance: [logs/how.txt]"))
        ignoring.build()
        ignoring.write("logs/how.txt", "make\n")
        assert ignoring.status()["context"][1] == "manifest: changed: files outside the tree"


class TestContentDigest:
    """PIPELINE 6: the same on every commit, until what agents read changes."""

    def digest(self, shop: Workshop) -> str:
        shop.build()
        return shop.content()

    def test_the_same_in_every_folder_and_on_every_commit(self, shop: Workshop, tmp_path: Path) -> None:
        one = self.digest(shop)
        shop.tree.git("commit", "-q", "--allow-empty", "-m", "two")
        assert self.digest(shop) == one
        assert self.digest(Workshop(tmp_path / "elsewhere/deeper")) == one
        assert re.fullmatch("[0-9a-f]{64}", one)

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("decisions: decision docs/adr/*.md", "decisions: {glob: docs/adr/*.md, kind: decision, authority: accepted-public-contract}"),
            ("decisions: decision docs/adr/*.md", "decisions: {glob: docs/adr/*.md, kind: decision, sensitivity: public}"),
            ("decisions: decision docs/adr/*.md", "decisions: {glob: docs/adr/*.md, kind: decision, required: true}"),
            ("code implements specification", "code contradicts specification"),
            ("  code: source src/*.py", "  code: {path: src/a.py, kind: source, lines: 1}"),
        ],
        ids=["authority", "sensitivity", "required", "contradiction", "text"],
    )
    def test_it_changes_with_what_is_read(self, shop: Workshop, old: str, new: str) -> None:
        one = self.digest(shop)
        assert old in MANIFEST
        shop.manifest(MANIFEST.replace(old, new))
        assert self.digest(shop) != one

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("sdaqf: 1\n", "sdaqf: 1\ntitle: Other\n"),
            ("decisions: decision docs/adr/*.md", "decisions: {glob: docs/adr/*.md, kind: design}"),
            ("decisions: decision docs/adr/*.md", "decisions: {glob: docs/adr/*.md, kind: decision, labels: [x]}"),
            ("code implements specification", "code references specification"),
            ("{seeds: all}", "{seeds: all, budget: 100KiB}"),
        ],
        ids=["title", "kind", "labels", "relation", "budget"],
    )
    def test_it_does_not_change_with_anything_else(self, shop: Workshop, old: str, new: str) -> None:
        one = self.digest(shop)
        assert old in MANIFEST
        shop.manifest(MANIFEST.replace(old, new))
        assert self.digest(shop) == one

    def test_it_is_shown_in_twelve_lowercase_digits(self, shop: Workshop) -> None:
        result = shop.build()[0]
        assert f"content {shop.content()[:12]}" in "\n".join(report.chain_lines(result, 10))
        assert f"Content {shop.content()[:12]} " in (shop.folder / "out/context/context.md").read_text()


class TestPlaces:
    def test_an_unreadable_setting_concerns_the_whole_project(self, shop: Workshop) -> None:
        shop.write("sdaqf.toml", "build = \n")
        with pytest.raises(Malformed) as refusal:
            shop.build()
        assert refusal.value.where.startswith("sdaqf.toml:1:")

    def test_every_chain_has_its_own_folder(self, shop: Workshop) -> None:
        shop.build()
        assert shop.ref("snapshot", DEFAULT) != shop.ref("snapshot", REVIEW)
        assert {name.partition("/")[0] for name in shop.outs()} == {"context", "context.review"}

    def test_a_manifest_without_a_default_query(self, shop: Workshop) -> None:
        shop.manifest(MANIFEST.replace("  default: {seeds: all}\n", ""))
        assert shop.words() == {"context.review": "made"}
        assert shop.words("context") == {"context.review": "up to date"}


def test_what_is_above_the_clearance_is_said_to_be_left_out(tmp_path: Path) -> None:
    """A source that the query may not tell is no surprise: the build names it, and what it would take."""
    top, owner = tmp_path / "p", tmp_path / "owner"
    owner.mkdir()
    (owner / "note.md").write_text("between us\n")
    manifest = "sdaqf: 1\nspecification: README.md\nsources:\n  note: {path: note.md, root: owner, kind: decision}\n"
    repositories.make(top, {"README.md": "# It\n", "manifests/context.yaml": manifest})
    run = Run(Project(top, owner_root=owner))
    try:
        (result,) = build.build(run)
    finally:
        run.close()
    assert "owner:note.md:1-1 left out: it is owner-private, and the query's clearance is repository-private" in result.notes
