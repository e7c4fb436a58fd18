"""`sdaqf check`: each finding is told apart on a real history, what settles it does so, and nothing is written (PIPELINE 3)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.context import staleness
from sdaqf_tasks.disk import history
from sdaqf_tasks.flow import check as gate
from sdaqf_tasks.flow import lock as locking
from sdaqf_tasks.formats.lockfile import text_digest
from tests.flow.reviewing import CACHES, FILES, LOCK, MANIFEST, RETRIES, Team

THREE, FIVE = "We retry three times with jitter.", "We retry five times with jitter."
NEW = "docs/adr/0007-retrying.md"
YAML = "manifests/context.yaml"


@pytest.fixture
def team(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
    """Everything is reviewed, and committed."""
    return Team(tmp_path / "project", capsys)


def settled(team: Team) -> None:
    """After a commit nothing is left to find."""
    team.commit("Settled")
    assert team.codes() == []


class TestChanged:
    """A pinned text is not the reviewed one."""

    def test_it_says_what_changed_in_which_commit_and_who_tells_it(self, team: Team) -> None:
        old = team.pins()[RETRIES]
        team.edit(RETRIES, THREE, FIVE)
        commit = team.commit("Five times")
        assert team.found() == {
            "code": "changed",
            "severity": "error",
            "path": RETRIES,
            "line": 3,
            "part": "",
            "message": "the lock pins another version",
            "settle": f"Read it, then: sdaqf lock --only {RETRIES}",
            "lines": [f"- {THREE}", f"+ {FIVE}"],
            "contexts": ["context"],
            "required": [],
            "old": old,
            "new": text_digest(team.read(RETRIES)),
            "change": {"commit": commit, "subject": "Five times", "time": "2026-01-01T00:02:00Z"},
        }
        team.lock("--only", RETRIES)
        settled(team)

    def test_what_is_not_committed_has_no_commit(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        found = team.found()
        assert (found["code"], found["change"], found["lines"]) == ("changed", None, [f"- {THREE}", f"+ {FIVE}"])

    def test_the_commit_is_the_one_that_left_the_reviewed_text_and_not_a_later_one(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        commit = team.commit("Five")
        team.edit(RETRIES, "five", "six")
        team.commit("Six")
        assert team.found()["change"]["commit"] == commit

    def test_of_two_branches_it_is_the_merge_in_which_their_texts_met(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "side")
        team.edit(RETRIES, "Always", "Mostly")
        team.lock()
        team.commit("side")
        team.git("checkout", "-q", "main")
        team.edit(RETRIES, THREE, FIVE)
        team.commit("Five")
        team.merge("side")
        merge = team.tree.head()
        found = team.found()
        assert (found["change"]["commit"], found["lines"]) == (merge, [f"- {THREE}", f"+ {FIVE}"])

    def test_a_section_is_shown_at_the_line_that_changed_and_alone(self, team: Team) -> None:
        team.edit(YAML, f"decision {CACHES}", f"{{path: {CACHES}, section: Later, kind: decision}}")
        team.lock()
        team.commit()
        team.edit(CACHES, "We cache nothing.", "We cache everything.\n\nAll of it.")
        settled(team)
        team.edit(CACHES, "Perhaps", "Never")
        team.commit()
        found = team.found()
        assert (found["line"], found["part"], found["lines"]) == (9, "Later", ["- Perhaps.", "+ Never."])

    def test_one_finding_a_text_with_the_contexts_of_every_manifest(self, team: Team) -> None:
        team.manifest(MANIFEST + "queries:\n  review: {require: [retries]}\n  fix: {seeds: [caches]}\n", "api")
        team.lock()
        team.commit()
        team.edit(RETRIES, THREE, FIVE)
        team.commit()
        found = team.found()
        assert (found["contexts"], found["required"]) == (["api.review", "context"], ["api.review"])
        assert team.found("context")["contexts"] == ["context"]

    def test_a_text_that_no_query_tells_is_found_under_its_manifest(self, team: Team) -> None:
        team.manifest(MANIFEST + "queries:\n  fix: {seeds: [caches]}\n")
        team.edit(RETRIES, THREE, FIVE)
        team.commit()
        assert team.found()["contexts"] == ["context"]

    def test_a_file_that_attributes_convert_is_compared_by_the_pinned_text_only(self, team: Team) -> None:
        team.write(".gitattributes", f"{RETRIES} text eol=crlf\n")
        team.write(RETRIES, team.read(RETRIES).replace("\n", "\r\n"))
        team.lock()
        settled(team)
        team.edit(RETRIES, THREE, FIVE)
        team.commit()
        found = team.found()
        assert (found["code"], found["lines"], found["change"]) == ("changed", [], None)
        team.lock()
        settled(team)

    def test_a_text_that_git_ignores_is_compared_and_has_no_history(self, team: Team) -> None:
        team.write(".gitignore", "evidence/\n")
        team.write("evidence/run.txt", "All well.\n")
        team.manifest(MANIFEST + "  run: {path: evidence/run.txt, kind: evidence, ignored: true}\n")
        team.lock()
        settled(team)
        team.write("evidence/run.txt", "Not so well.\n")
        found = team.found()
        assert (found["code"], found["path"], found["lines"]) == ("changed", "evidence/run.txt", [])


class TestGone:
    """`missing`, `renamed`, `moved`."""

    def test_missing(self, team: Team) -> None:
        (team.path / RETRIES).unlink()
        team.commit("Remove")
        found = team.found()
        assert (found["code"], found["path"], found["message"]) == ("missing", RETRIES, f"{RETRIES} is missing or cannot be read")
        team.edit(YAML, f"  retries: decision {RETRIES}   # the one that people argue about\n", "")
        team.lock()
        settled(team)

    def test_a_file_that_is_deleted_in_the_work_tree_alone(self, team: Team) -> None:
        (team.path / RETRIES).unlink()
        assert team.codes() == [f"missing {RETRIES}"]
        team.git("checkout", "-q", RETRIES)
        assert team.codes() == []

    def test_a_section_that_is_gone_is_missing_too(self, team: Team) -> None:
        team.edit(YAML, f"decision {CACHES}", f"{{path: {CACHES}, section: Later, kind: decision}}")
        team.lock()
        team.commit()
        team.edit(CACHES, "# Later", "# Much later")
        team.commit()
        found = team.found()
        assert (found["code"], found["path"], found["part"]) == ("missing", CACHES, "Later")

    def test_renamed(self, team: Team) -> None:
        team.git("mv", RETRIES, NEW)
        commit = team.commit("Rename")
        found = team.found()
        assert (found["code"], found["message"]) == ("renamed", f"renamed to {NEW}, by {commit[:7]}")
        assert (found["settle"], found["change"]["subject"]) == ("sdaqf lock --moved", "Rename")
        team.lock("--moved")
        settled(team)

    def test_a_glob_that_takes_the_new_name_too_makes_it_no_pinned_text_more(self, team: Team) -> None:
        team.edit(YAML, f"  caches: decision {CACHES}", "  others: decision docs/adr/*.md")
        team.lock()
        team.git("mv", RETRIES, NEW)
        team.commit("Rename")
        value = team.check()
        assert ([found["code"] for found in value["findings"]], value["as_reviewed"]) == (["renamed"], 2)
        team.lock("--moved")
        settled(team)

    def test_renamed_in_a_branch_that_was_merged(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "side")
        team.git("mv", RETRIES, NEW)
        team.commit("Rename")
        team.git("checkout", "-q", "main")
        team.edit("src/a.py", "1", "2")
        team.commit("Code")
        team.merge("side")
        assert team.codes() == [f"renamed {RETRIES}"]
        team.lock("--moved")
        settled(team)

    def test_renamed_and_not_committed_yet(self, team: Team) -> None:
        team.git("mv", RETRIES, NEW)
        found = team.found()
        assert (found["code"], found["message"]) == ("renamed", f"renamed to {NEW}, which is not committed yet")
        team.lock("--moved")
        settled(team)

    def test_renamed_and_edited(self, team: Team) -> None:
        team.git("mv", RETRIES, NEW)
        team.edit(NEW, THREE, FIVE)
        team.commit("Rename and edit")
        assert team.codes() == [f"renamed {RETRIES}"]
        team.lock("--moved")
        team.commit("Follow")
        assert team.codes() == [f"changed {NEW}"]
        team.lock("--only", NEW)
        settled(team)

    LINES = MANIFEST.replace(f"decision {RETRIES}", f"{{path: {RETRIES}, lines: 3, kind: decision}}")

    def test_moved(self, team: Team) -> None:
        team.manifest(self.LINES)
        team.lock()
        team.commit()
        team.edit(RETRIES, "# Retries\n", "# Retries\n\nOf course:\n")
        team.commit()
        found = team.found()
        assert (found["code"], found["message"], found["line"]) == ("moved", "the pinned lines stand at 5-5 now", 3)
        team.lock("--moved")
        settled(team)

    def test_lines_that_stand_twice_have_not_moved_they_changed(self, team: Team) -> None:
        team.manifest(self.LINES)
        team.lock()
        team.commit()
        team.edit(RETRIES, "# Retries\n", f"# Retries\n\nOf course:\n{THREE}\n")
        team.commit()
        assert team.codes() == [f"changed {RETRIES}"]

    def test_a_source_that_is_refused_for_another_reason_is_not_missing(self, team: Team) -> None:
        team.edit(YAML, f"decision {RETRIES}", f"{{path: {RETRIES}, kind: decision, authority: owner-approved}}")
        found = team.found()
        assert (found["code"], found["path"], found["line"]) == ("refused", YAML, 4)
        assert "owner-approved" in found["message"]


class TestLocks:
    """`no-lock`, `lock-out-of-date`, and locks that cannot be read."""

    def test_no_lock(self, team: Team) -> None:
        (team.path / LOCK).unlink()
        team.commit()
        found = team.found()
        assert (found["code"], found["path"], found["message"]) == ("no-lock", YAML, "3 pinned texts and no lock")
        assert team.check()["pinned"] == 0
        team.lock()
        settled(team)

    def test_a_pinned_glob_matches_another_file(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n")
        team.commit()
        team.write("docs/adr/0012-queues.md", "# Queues\n")
        team.commit()
        found = team.found()
        assert (found["code"], found["path"]) == ("lock-out-of-date", LOCK)
        assert found["message"] == "docs/adr/0012-queues.md: it is pinned, and the lock does not have it"
        assert found["settle"] == "Read it, then: sdaqf lock --only docs/adr/0012-queues.md"
        team.lock()
        settled(team)

    def test_a_file_of_a_glob_that_was_moved_is_followed(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n")
        team.commit()
        team.git("mv", RETRIES, NEW)
        gone, new = sorted(team.check()["findings"], key=lambda each: each["message"])[:2]
        assert gone["message"] == f"{RETRIES}: the lock has it, and no pinned source is this any more; renamed to {NEW}"
        assert gone["settle"] == "sdaqf lock --moved"
        assert new["message"].startswith(f"{NEW}: it is pinned")
        assert team.sdaqf("lock", "--moved").code == 0
        assert "error" not in {each["severity"] for each in team.check()["findings"]}

    def test_an_entry_too_much(self, team: Team) -> None:
        team.edit(YAML, f"  caches: decision {CACHES}\n", "")
        team.commit()
        assert team.found()["message"] == f"{CACHES}: the lock has it, and no pinned source is this any more"
        team.lock()
        settled(team)

    def test_unpinning_in_the_yaml_alone_is_an_entry_too_much(self, team: Team) -> None:
        team.edit(YAML, f"decision {CACHES}", f"{{path: {CACHES}, kind: decision, pin: false}}")
        team.commit()
        assert team.codes() == [f"lock-out-of-date {LOCK}"]

    @pytest.mark.parametrize("text", ["{}", "<<<<<<< HEAD\n=======\n>>>>>>> x\n"])
    def test_a_lock_that_cannot_be_read_is_refused_at_its_place(self, team: Team, text: str) -> None:
        team.write(LOCK, text)
        found = team.found()
        assert (found["code"], found["path"], found["line"]) == ("refused", LOCK, 1)
        assert found["message"] in ("sdaqf-lock: is missing", "a merge conflict")

    def test_a_manifest_that_cannot_be_read_does_not_hide_the_others(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nnonsense: 1\n", "api")
        team.edit(RETRIES, THREE, FIVE)
        assert team.codes() == [f"changed {RETRIES}", "refused manifests/api.yaml"]


class TestRefused:
    """What `build` would refuse is no pass, whether or not a source is sealed to find it out."""

    LONG = "x" * 501

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (f"{{path: src/a.py, kind: source, title: '{LONG}'}}", "expected a text of length <= 500"),
            ("{path: src/a.py, kind: source, authority: owner-approved}", "owner-approved does not go with"),
            ("{path: src/a.py, kind: tool-observation}", "says when it was observed"),
            ("{path: src/a.py, kind: source, lines: 1-9}", "src/a.py has 2 lines"),
            ("{path: src/a.py, kind: source, symbol: b}", "no symbol is called"),
            (f"{{path: {CACHES}, kind: source}}", "is caches already"),
            ("{path: src/none.py, kind: source}", "src/none.py is missing"),
            ("{glob: src/*.none, kind: source}", "matches no file"),
        ],
    )
    def test_refused(self, team: Team, source: str, message: str) -> None:
        team.edit(YAML, "  code: source src/*.py", f"  code: {source}")
        refusal = team.build()
        found = team.found()
        assert (found["code"], found["severity"], found["path"], found["line"]) == ("refused", "error", YAML, 6)
        assert message in found["message"] and found["message"] in refusal.out

    def test_a_relationship_too(self, team: Team) -> None:
        team.manifest(MANIFEST + "relationships:\n  - caches implements caches\n")
        found = team.found()
        assert (found["code"], found["line"], found["message"]) == ("refused", 8, "caches is related to itself")

    def test_a_manifest_of_too_many_bytes(self, team: Team) -> None:
        for number in range(900):
            team.write(f"many/{'x' * 60}-{number}.txt", f"{number}\n")
        team.manifest(MANIFEST + "  many: source many/*.txt\n")
        assert "the Manifest would have more than 1,048,576 bytes" in team.found()["message"]


class TestPhantom:
    """No commit of that path ever had the pinned text."""

    def phantom(self, team: Team) -> None:
        team.edit(RETRIES, THREE, "a draft that nobody ever saw")
        team.lock()
        team.git("checkout", "-q", RETRIES)
        team.commit("A lock of nothing")

    def test_phantom(self, team: Team) -> None:
        self.phantom(team)
        found = team.found()
        assert (found["code"], found["path"]) == ("phantom", RETRIES)
        assert found["settle"] == f"On a clean tree: sdaqf lock --only {RETRIES}"
        team.lock("--only", RETRIES)
        settled(team)

    def test_with_a_shallow_history_it_is_changed_and_not_checked(self, team: Team, tmp_path: Path) -> None:
        self.phantom(team)
        team.edit("src/a.py", "1", "2")
        team.commit()
        assert team.shallow(tmp_path / "clone", 1).codes() == [f"changed {RETRIES}", f"not-checked {RETRIES}"]

    def test_a_shallow_history_that_reaches_far_enough_tells_everything(self, team: Team, tmp_path: Path) -> None:
        team.edit(RETRIES, THREE, FIVE)
        commit = team.commit("Five")
        found = team.shallow(tmp_path / "clone", 2).found()
        assert (found["code"], found["change"]["commit"]) == ("changed", commit)

    def test_a_text_from_before_a_rename_is_none(self, team: Team) -> None:
        team.git("mv", RETRIES, NEW)
        team.edit(NEW, THREE, FIVE)
        team.edit(YAML, RETRIES, NEW)
        team.edit(LOCK, RETRIES, NEW)
        team.commit()
        assert team.codes() == [f"changed {NEW}"]

    def test_beyond_a_thousand_versions_it_is_not_checked(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        self.phantom(team)
        monkeypatch.setattr(history, "VERSIONS", 1)
        assert team.codes() == [f"changed {RETRIES}", f"not-checked {RETRIES}"]

    def test_versions_of_one_path_do_not_eat_up_those_of_another(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        self.phantom(team)
        for number in range(4):
            team.write(CACHES, f"{number}\n")
            team.commit()
        monkeypatch.setattr(history, "VERSIONS", 2)
        assert f"phantom {RETRIES}" not in team.codes() and f"not-checked {RETRIES}" in team.codes()


class TestOtherBytes:
    """The same text with other line ends; a pointer in place of the file."""

    def test_crlf_where_lf_was_reviewed(self, team: Team) -> None:
        text = team.read(RETRIES)
        team.write(RETRIES, text.replace("\n", "\r\n"))
        assert team.found()["code"] == "line-endings"
        team.write(".gitattributes", "*.md text eol=lf\n")
        team.write(RETRIES, text)
        settled(team)

    def test_lf_where_crlf_was_reviewed(self, team: Team) -> None:
        team.write(".gitattributes", "*.md -text\n")
        text = team.read(RETRIES)
        team.write(RETRIES, text.replace("\n", "\r\n"))
        team.lock()
        settled(team)
        team.write(RETRIES, text)
        found = team.found()
        assert (found["code"], found["severity"]) == ("line-endings", "error")
        assert found["settle"] == "Set them in .gitattributes, then check the file out again"
        team.git("checkout", "-q", RETRIES)
        assert team.codes() == []

    def test_mixed_line_ends_are_told_by_history(self, team: Team) -> None:
        team.write(".gitattributes", "*.md -text\n")
        text = team.read(RETRIES)
        team.write(RETRIES, text.replace("\n", "\r\n", 1))
        team.lock()
        settled(team)
        team.write(RETRIES, text)
        team.commit()
        assert team.codes() == [f"line-endings {RETRIES}"]

    def test_lfs_pointer(self, team: Team) -> None:
        text = team.read(RETRIES)
        team.write(RETRIES, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
        found = team.found()
        assert (found["code"], found["settle"]) == ("lfs-pointer", "git lfs pull")
        team.write(RETRIES, text)
        assert team.codes() == []


class TestClock:
    """`expired` and `expires-soon`, by today's clock or SDAQF_NOW."""

    YAML = MANIFEST + (
        "  lint: {path: evidence/lint.txt, kind: evidence, required: true, freshness: {observed: 2026-01-01T00:00:00Z, for: 30d}}\n"
    )

    @pytest.fixture
    def watched(self, team: Team) -> Team:
        team.write("evidence/lint.txt", "All well.\n")
        team.manifest(self.YAML)
        team.lock()
        team.commit()
        return team

    @pytest.mark.parametrize(
        ("now", "code"),
        [
            ("2026-01-23T23:59:59Z", None),
            ("2026-01-24T00:00:00Z", "expires-soon"),
            ("2026-01-31T00:00:00Z", "expires-soon"),
            ("2026-01-31T00:00:01Z", "expired"),
        ],
    )
    def test_when(self, watched: Team, monkeypatch: pytest.MonkeyPatch, now: str, code: str | None) -> None:
        monkeypatch.setenv("SDAQF_NOW", now)
        assert watched.codes() == ([f"{code} evidence/lint.txt"] if code else [])
        assert watched.check()["fixed_clock"] is True

    def test_expired(self, watched: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T00:00:00Z")
        found = watched.found()
        assert (found["severity"], found["required"]) == ("error", ["context"])
        assert found["message"] == "valid until 2026-01-31T00:00:00Z; it is 2026-02-01T00:00:00Z now"
        assert found["settle"] == "Observe again, then: sdaqf lock context --only lint --observed now"
        watched.lock("context", "--only", "lint", "--observed", "now")
        settled(watched)

    @pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.5Z", "9999-12-28T00:00:00Z"])
    def test_the_last_moments_that_there_are(self, watched: Team, now: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", now)
        assert watched.codes() == ["expired evidence/lint.txt"]
        watched.lock("--observed", "now", "--dry-run")

    def test_an_empty_fixed_clock_fixes_nothing(self, watched: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "")
        assert watched.check()["fixed_clock"] is False

    def test_expires_soon(self, watched: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-30T00:00:00Z")
        assert watched.found()["severity"] == "warning"
        watched.lock("--observed", "now")
        settled(watched)

    def test_soon_is_a_setting(self, watched: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-30T00:00:00Z")
        watched.write("sdaqf.toml", 'soon = "12h"\n')
        assert watched.codes() == []


class TestTampered:
    """An object fails its hash."""

    def test_tampered(self, team: Team) -> None:
        assert team.build().code == 0
        [graph] = (team.path / ".sdaqf/build/objects").glob("CTX-GRAPH-*.json")
        graph.write_bytes(graph.read_bytes().replace(b"three", b"seven"))
        found = team.found()
        assert (found["code"], found["path"], found["part"]) == ("tampered", YAML, "m/context/graph")
        assert found["settle"] == "sdaqf build context"
        assert team.build().code == 0
        assert team.codes() == []

    def test_an_object_that_is_not_there_was_not_tampered_with(self, team: Team) -> None:
        team.build()
        shutil.rmtree(team.path / ".sdaqf/build/objects")
        assert team.codes() == []


class TestContradictions:
    """A `contradicts` whose one end was left out: an error where the other end is required."""

    YAML = MANIFEST + (
        "  rates: {path: docs/rates.json, kind: evidence, authority: verified-evidence, freshness: immutable, pin: false}\n"
        "relationships:\n  - rates contradicts END\n"
    )

    @pytest.mark.parametrize(("end", "severity", "path"), [("specification", "error", "docs/spec.md"), ("caches", "warning", CACHES)])
    def test_hidden(self, team: Team, end: str, severity: str, path: str) -> None:
        team.write("docs/rates.json", "{}\n")
        team.manifest(self.YAML.replace("END", end))
        team.lock()
        settled(team)
        team.write("docs/rates.json", "no JSON\n")
        team.commit()
        found = team.found()
        assert (found["code"], found["severity"], found["path"]) == ("contradiction-hidden", severity, path)
        assert found["message"] == "contradicts docs/rates.json, which was left out (invalid-json)"
        team.write("docs/rates.json", "{}\n")
        settled(team)

    def test_two_that_are_hidden_from_one_source_are_two_findings(self, team: Team) -> None:
        other = "  dues: {path: docs/dues.json, kind: evidence, authority: verified-evidence, freshness: immutable, pin: false}\n"
        text = self.YAML.replace("END", "caches").replace("relationships:\n", other + "relationships:\n  - dues contradicts caches\n")
        team.manifest(text)
        for name in ("rates", "dues"):
            team.write(f"docs/{name}.json", "no JSON\n")
        team.lock()
        team.commit()
        assert team.codes() == [f"contradiction-hidden {CACHES}"] * 2


class TestDirty:
    """As reviewed, not committed yet."""

    def test_the_text_and_the_lock(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        team.lock()
        assert team.codes() == [f"dirty {RETRIES}", f"dirty {LOCK}"]
        assert team.sdaqf("check").code == 0
        settled(team)

    def test_what_is_about_to_be_committed_passes(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        team.lock()
        team.git("add", "-A")
        assert team.sdaqf("check").code == 0
        assert {found["severity"] for found in team.check()["findings"]} == {"notice"}

    def test_a_new_document_that_git_does_not_track_yet(self, team: Team) -> None:
        team.write("docs/adr/0012-queues.md", "# Queues\n")
        team.edit(YAML, "  code:", "  queues: decision docs/adr/0012-queues.md\n  code:")
        team.lock()
        assert team.codes() == ["dirty docs/adr/0012-queues.md", f"dirty {LOCK}"]
        settled(team)

    def test_an_edit_elsewhere_in_the_file_does_not_make_a_section_dirty(self, team: Team) -> None:
        team.edit(YAML, f"decision {CACHES}", f"{{path: {CACHES}, section: Caches, kind: decision}}")
        team.lock()
        team.commit()
        team.edit(CACHES, "Perhaps", "Never")
        assert team.codes() == []

    def test_code_is_never_dirty(self, team: Team) -> None:
        team.edit("src/a.py", "1", "2")
        assert team.codes() == []


class TestMentions:
    """A document names what git had and the tree has no more."""

    def test_dead_mention(self, team: Team) -> None:
        team.edit(RETRIES, "Always", "See `src/a.py`. Always")
        team.lock()
        settled(team)
        team.git("mv", "src/a.py", "src/b.py")
        commit = team.commit("Rename")
        found = team.found()
        assert (found["code"], found["severity"], found["path"], found["line"]) == ("dead-mention", "warning", RETRIES, 5)
        assert found["message"] == f"src/a.py   renamed to src/b.py by {commit[:7]}" and found["contexts"] == ["context"]
        assert team.check()["mentions"] == 1
        team.edit(RETRIES, "src/a.py", "src/b.py")
        team.lock()
        settled(team)

    def test_a_readme_is_looked_through_though_nothing_pins_it(self, team: Team) -> None:
        team.write("README.md", "See [this](src/a.py).\n")
        team.git("rm", "-q", "src/a.py")
        team.write("src/b.py", "")
        team.commit()
        assert team.codes() == ["dead-mention README.md"]

    def test_with_a_shallow_history_it_is_not_checked(self, team: Team, tmp_path: Path) -> None:
        team.write("README.md", "See `src/gone.py`.\n")
        team.commit()
        assert team.codes() == []
        assert team.shallow(tmp_path / "clone", 1).codes() == ["not-checked README.md"]


class TestNotChecked:
    """What could not be checked is a notice, and never a pass."""

    def test_owner_sources_without_an_owner_root(self, team: Team) -> None:
        team.manifest(MANIFEST + "  note: {path: n.md, root: owner, kind: decision, authority: owner-approved}\n", "release")
        found = team.found()
        assert (found["code"], found["severity"], found["path"]) == ("not-checked", "notice", "manifests/release.yaml")
        assert found["settle"] == "Give --owner-root or SDAQF_OWNER_ROOT"
        assert team.sdaqf("check").code == 0 and team.sdaqf("check", "--fail-on", "not-checked").code == 1

    def test_an_owner_root_that_was_asked_for_and_is_not_there(self, team: Team) -> None:
        assert team.sdaqf("check", "--owner-root", "nowhere").code == 2


class TestBase:
    """--base REF: what this change says it reviewed, since the merge base of REF and HEAD."""

    def pinned_again(self, team: Team, path: str = RETRIES) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.edit(path, THREE, FIVE)
        team.lock()
        team.commit("Five times")

    def test_re_pinned(self, team: Team) -> None:
        base, old = team.tree.head(), team.pins()[RETRIES]
        self.pinned_again(team)
        assert team.codes() == []
        value = team.check("--base", "main")
        [found] = value["findings"]
        assert value["base"] == base
        assert (found["code"], found["severity"], found["path"]) == ("re-pinned", "notice", RETRIES)
        assert (found["old"], found["new"]) == (old, text_digest(team.read(RETRIES)))
        assert (found["lines"], found["contexts"]) == ([f"- {THREE}", f"+ {FIVE}"], ["context"])
        assert team.sdaqf("check", "--base", "main").code == 0

    def test_the_base_is_the_merge_base_and_not_the_tip(self, team: Team) -> None:
        self.pinned_again(team)
        team.git("checkout", "-q", "main")
        team.edit(CACHES, "nothing", "everything")
        team.lock()
        team.commit("Elsewhere")
        team.git("checkout", "-q", "change")
        assert team.codes("--base", "main") == [f"re-pinned {RETRIES}"]

    def test_a_text_that_matches_neither_is_changed(self, team: Team) -> None:
        self.pinned_again(team)
        team.edit(RETRIES, "five", "six")
        team.commit("Six")
        assert team.codes("--base", "main") == [f"changed {RETRIES}"]
        assert team.sdaqf("check", "--base", "main").code == 1

    def test_an_edit_without_a_pin_is_changed(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.edit(RETRIES, THREE, FIVE)
        team.commit()
        assert team.codes("--base", "main") == [f"changed {RETRIES}"]

    def test_a_new_pin_is_no_re_pin(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.write("docs/adr/0012-queues.md", "# Queues\n")
        team.edit(YAML, "  code:", "  queues: decision docs/adr/0012-queues.md\n  code:")
        team.lock()
        team.commit()
        assert team.codes("--base", "main") == []

    def test_unpinning_is_seen(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.edit(YAML, f"decision {RETRIES}", f"{{path: {RETRIES}, kind: decision, pin: false}}")
        team.edit(RETRIES, THREE, FIVE)
        team.lock()
        team.commit()
        found = team.found("--base", "main")
        assert (found["code"], found["path"], found["part"]) == ("re-pinned", LOCK, RETRIES)
        assert found["message"] == f"{RETRIES} was pinned at the merge base, and this change pins it no longer"

    def test_a_deleted_document_is_seen(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.git("rm", "-q", CACHES)
        team.edit(YAML, f"  caches: decision {CACHES}\n", "")
        team.lock()
        team.commit()
        assert team.codes("--base", "main") == [f"re-pinned {LOCK}"]

    def test_a_plain_rename_is_none(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.git("mv", RETRIES, NEW)
        team.lock("--moved")
        team.commit()
        assert team.codes("--base", "main") == []

    def test_a_rename_hides_no_edit(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.git("mv", RETRIES, NEW)
        team.edit(NEW, THREE, FIVE)
        team.edit(YAML, RETRIES, NEW)
        team.lock()
        team.commit()
        assert team.found("--base", "main")["message"].startswith(f"{RETRIES} was pinned at the merge base")

    def test_a_renamed_manifest_hides_no_edit(self, team: Team) -> None:
        team.git("checkout", "-q", "-b", "change")
        team.git("mv", YAML, "manifests/other.yaml")
        team.git("rm", "-q", LOCK)
        team.edit(RETRIES, THREE, FIVE)
        team.lock()
        team.commit()
        assert f"re-pinned {RETRIES}" in team.codes("--base", "main")

    def test_a_removed_manifest_is_seen(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\n", "api")
        team.lock()
        team.commit()
        team.git("checkout", "-q", "-b", "change")
        team.git("rm", "-q", YAML, LOCK)
        team.commit()
        assert [(found["code"], found["part"]) for found in team.check("--base", "main")["findings"]] == [
            ("re-pinned", RETRIES),
            ("re-pinned", CACHES),
        ]

    def test_what_the_base_cannot_say_is_not_checked(self, team: Team) -> None:
        good = team.read(LOCK)
        team.write(LOCK, good.replace('"path"', '"pad"', 1))
        team.commit()
        team.git("checkout", "-q", "-b", "change")
        team.write(LOCK, good)
        team.commit()
        assert team.codes("--base", "main") == [f"not-checked {LOCK}"]

    @pytest.mark.parametrize("name", ["nowhere", "main~9", "--all", "HEAD^2"])
    def test_a_name_that_the_clone_does_not_have_ends_with_2(self, team: Team, name: str) -> None:
        with team.unchanged():
            ran = team.sdaqf("check", f"--base={name}")
        assert ran.code == 2 and f"{name} is not in this clone: fetch it: git fetch origin {name.split('~')[0].split('^')[0]}" in ran.err

    @pytest.mark.parametrize(
        ("name", "advice"),
        [
            ("HEAD^1", "fetch-depth: 2, or git fetch --depth 2"),
            ("HEAD~3", "fetch-depth: 4, or git fetch --depth 4"),
            ("HEAD^2~1", "fetch-depth: 3, or git fetch --depth 3"),
            ("origin/main~1", "fetch-depth: 0, or git fetch --unshallow"),
        ],
    )
    def test_a_shallow_clone_names_the_depth_to_fetch(self, team: Team, tmp_path: Path, name: str, advice: str) -> None:
        clone = team.shallow(tmp_path / "clone", 1)
        ran = clone.sdaqf("check", "--base", name, "--exit-zero")
        assert ran.code == 2 and f"{name} is not in this clone: {advice}" in ran.err

    def test_a_merge_base_that_is_too_far_away_names_the_depth_too(self, team: Team, tmp_path: Path) -> None:
        self.pinned_again(team)
        team.git("checkout", "-q", "main")
        team.edit("src/a.py", "1", "2")
        team.commit()
        clone = team.shallow(tmp_path / "clone", 1, "change")
        clone.git("fetch", "-q", "--depth", "1", "origin", "main:refs/remotes/origin/main")
        ran = clone.sdaqf("check", "--base", "origin/main")
        assert ran.code == 2
        assert "the merge base of origin/main and HEAD is not in this clone: fetch-depth: 0, or git fetch --unshallow" in ran.err

    def test_a_merge_checkout_of_depth_2_is_enough_for_its_first_parent(self, team: Team, tmp_path: Path) -> None:
        self.pinned_again(team)
        team.git("checkout", "-q", "main")
        team.edit("src/a.py", "1", "2")
        team.commit()
        team.git("checkout", "-q", "-b", "merged")
        team.merge("change")
        clone = team.shallow(tmp_path / "clone", 2, "merged")
        assert clone.codes("--base", "HEAD^1") == [f"re-pinned {RETRIES}"]
        assert clone.sdaqf("check", "--base", "HEAD^1").code == 0
        assert team.shallow(tmp_path / "other", 1, "merged").sdaqf("check", "--base", "HEAD^1").code == 2

    def test_named_manifests_alone_are_compared(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\n", "api")
        team.lock()
        team.commit()
        self.pinned_again(team)
        assert team.codes("api", "--base", "main") == []


class TestPolicy:
    """Levels, codes, exit codes."""

    def test_the_settings_say_otherwise(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        for level, code in (("error", 1), ("warning", 0), ("notice", 0)):
            team.write("sdaqf.toml", f'[policy]\nchanged = "{level}"\n')
            assert team.found()["severity"] == level and team.sdaqf("check").code == code

    def test_what_is_off_is_not_shown_and_not_called_reviewed(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        team.write("sdaqf.toml", '[policy]\nchanged = "off"\n')
        value = team.check()
        assert (value["findings"], value["pinned"], value["as_reviewed"]) == ([], 3, 2)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('chnged = "off"', "policy: 'chnged' is no finding; did you mean changed?"),
            ('changed = "warn"', "policy: 'warn' is no level; did you mean warning?"),
            ('"no-such-thing-at-all" = "off"', "policy: 'no-such-thing-at-all' is no finding"),
        ],
    )
    def test_words_that_are_not_known_are_refused_with_the_nearest(self, team: Team, text: str, message: str) -> None:
        team.write("sdaqf.toml", f"[policy]\n{text}\n")
        ran = team.sdaqf("check")
        assert ran.code == 1 and f"sdaqf.toml: {message}" in ran.err and "Known: " in ran.err

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ((), 0),
            (("--fail-on", "error"), 0),
            (("--fail-on", "warning"), 1),
            (("--fail-on", "notice"), 1),
            (("--fail-on", "dead-mention"), 1),
            (("--fail-on", "changed"), 0),
            (("--fail-on", "changed", "--fail-on", "dead-mention"), 1),
            (("--fail-on", "warning", "--exit-zero"), 0),
            (("--fail-on", "nonsense"), 2),
        ],
    )
    def test_what_fails(self, team: Team, options: tuple[str, ...], code: int) -> None:
        team.write("README.md", "See `src/b.py`.\n")
        team.git("mv", "src/a.py", "src/b.py")
        team.commit()
        team.git("mv", "src/b.py", "src/a.py")
        team.commit()
        assert team.codes() == ["dead-mention README.md"]
        assert team.sdaqf("check", *options).code == code

    def test_a_name_that_nothing_has(self, team: Team) -> None:
        ran = team.sdaqf("check", "contxt")
        assert ran.code == 1 and "did you mean context?" in ran.err


class TestNothingIsWritten:
    """`check` compares everything, before any build and after, and writes nothing but the record of a gate that failed."""

    def test_before_any_build(self, team: Team) -> None:
        with team.unchanged():
            team.sdaqf("check", "--base", "HEAD")
        assert not (team.path / ".sdaqf").exists()

    def test_a_gate_that_fails_leaves_its_record_and_nothing_else(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        before = team.everything()
        team.sdaqf("check", "--base", "HEAD")
        new = {name for name in team.everything().keys() - before.keys() if (team.path / name).is_file()}
        ignore, record = sorted(new)
        assert (ignore, Path(record).match(".sdaqf/build/blocked/*/REPLAY-*.json")) == (".sdaqf/build/.gitignore", True)
        assert {name: found for name, found in team.everything().items() if name in before and not (team.path / name).is_dir()} == {
            name: found for name, found in before.items() if not (team.path / name).is_dir()
        }

    def test_in_a_folder_that_is_somebody_elses_there_is_no_record(self, team: Team) -> None:
        team.write(".sdaqf/build/theirs", "x\n")
        team.write(".gitignore", ".sdaqf/\n")
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged():
            assert team.sdaqf("check").code == 1

    def test_after_a_build(self, team: Team) -> None:
        team.build()
        with team.unchanged():
            team.sdaqf("check")

    def test_but_the_outputs_that_are_asked_for(self, team: Team) -> None:
        with team.unchanged("report.json", "page.md"):
            team.sdaqf("check", "--output", "json=report.json", "--output", "markdown=page.md")
        assert json.loads(team.read("report.json"))["pinned"] == 3

    @pytest.mark.parametrize(
        ("output", "why"),
        [
            ("docs/spec.md", "is tracked by git"),
            ("docs/../.gitignore", "is tracked by git"),
            ("left/out.json", "is tracked by git"),
            (".git/config", "belongs to git"),
            ("manifests/new.lock", "is a source of new, its YAML or its lock"),
            ("manifests/new.yaml", "is a source of new, its YAML or its lock"),
            ("manifests/_more.yaml", "is a source of new, its YAML or its lock"),
            ("run/seen.txt", "is a source of new, its YAML or its lock"),
            ("notes/new.md", "is a source of new, its YAML or its lock"),
        ],
    )
    def test_no_output_is_written_over_what_is_in_use(self, team: Team, output: str, why: str) -> None:
        for name in ("left/out.json", ".gitignore"):
            team.write(name, "run/\n")
        team.write("sdaqf.toml", 'exclude = ["left/**"]\n')
        team.commit()
        seen = "  seen: {path: run/seen.txt, kind: finding, ignored: true}\n"
        notes = "  notes: {glob: notes/*.md, exclude: [notes/not.md], kind: finding}\n"
        team.manifest(f"sdaqf: 1\nspecification: docs/spec.md\ninclude: [_more.yaml]\nsources:\n{seen}{notes}", "new")
        team.write("manifests/_more.yaml", "sdaqf: 1\n")
        for name in ("run/seen.txt", "notes/a.md"):
            team.write(name, "x\n")
        with team.unchanged():
            ran = team.sdaqf("check", "--output", "json=notes/not.md", "--output", f"json={output}")
        told = f"  {Path(output).name}: it {why}, and would be written over"
        assert (ran.code, ran.err.splitlines()[:2]) == (1, ["sdaqf check: refused", told])

    def test_outputs_may_be_untracked_ignored_or_elsewhere(self, team: Team, tmp_path: Path) -> None:
        team.write(".gitignore", "run/\n")
        team.commit()
        for output in ("new.json", "run/new.json", str(tmp_path / "new.json")):
            for _ in range(2):
                (team.path / "run").mkdir(exist_ok=True)
                assert team.sdaqf("check", "--output", f"json={output}").code == 0

    def test_counts_tell_what_is_pinned_and_what_follows_the_tree(self, team: Team) -> None:
        team.write("src/b.py", "")
        team.write("src/c.py", "c = 1\n" * 20_000)  # two pieces
        team.commit()
        value = team.check()
        assert (value["pinned"], value["as_reviewed"], value["following"]) == (3, 3, 4)
        assert team.sdaqf("check").out == "3 pinned, all as reviewed · 4 follow the tree\n"


def test_one_staleness_function_serves_check_status_build_doit_and_lock(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    team.write("dodo.py", "import sdaqf_tasks\ncontext = sdaqf_tasks.pipeline()\nDOIT_CONFIG = sdaqf_tasks.doit_config()\n")
    real = staleness.differences

    def all_of_them(held: Any, lock: Any) -> Any:
        return real(held, dict.fromkeys(lock, "0" * 64))

    def doit() -> int:
        from doit.cmd_base import ModuleTaskLoader
        from doit.doit_cmd import DoitMain

        from sdaqf_tasks import doit_config, pipeline

        monkeypatch.chdir(team.path)
        loader = ModuleTaskLoader({"context": pipeline(), "DOIT_CONFIG": doit_config()})
        return int(DoitMain(loader).run(["manifest"]))

    assert [team.sdaqf("check").code, team.build().code, doit()] == [0, 0, 0]
    assert "3 pinned, all as reviewed" in team.sdaqf("status").out
    for module in (gate, locking):
        assert vars(module)["differences"] is real
        monkeypatch.setattr(module, "differences", all_of_them)
    shutil.rmtree(team.path / ".sdaqf")
    assert [team.sdaqf("check").code, team.build().code, doit()] == [1, 1, 1]
    assert team.lock("--dry-run").out.count("   changed ") == 3
    assert "0 of 3 pinned as reviewed" in team.sdaqf("status").out


def test_the_whole_story(team: Team, tmp_path: Path) -> None:
    """A teammate edits a pinned decision; CI fails with the line; the author pins it again; the reviewer sees both."""
    ci = ("check", "--base", "HEAD^1", "--format", "github", "--output", "markdown=page.md")

    def in_ci(name: str) -> Team:
        """The merge checkout of the change, two commits deep."""
        team.git("checkout", "-q", "-B", "merge", "main")
        team.merge("change")
        clone = team.shallow(tmp_path / name, 2, "merge")
        team.git("checkout", "-q", "change")
        return clone

    team.edit("src/a.py", "1", "2")
    team.commit("Code on main")
    team.git("checkout", "-q", "-b", "change")
    team.edit(RETRIES, THREE, FIVE)
    team.commit("Five times")

    first = in_ci("first")
    ran = first.sdaqf(*ci)
    assert ran.code == 1
    assert f"::error file={RETRIES},line=3,title=sdaqf changed::" in ran.out and f"- {THREE}%0A+ {FIVE}" in ran.out
    assert "error: changed" in first.read("page.md")

    assert team.lock().code == 0
    team.commit("Reviewed: five times")
    second = in_ci("second")
    ran = second.sdaqf(*ci)
    assert ran.code == 0
    assert f"::notice file={RETRIES},line=3,title=sdaqf re-pinned::" in ran.out and f"- {THREE}%0A+ {FIVE}" in ran.out

    page = second.read("page.md")
    assert "### Context changes in this pull request" in page and "Re-pinned by this change: 1. Everything else is as reviewed." in page
    assert "1 line: <code>three</code> → <code>five</code>" in page and "context/default" in page
    diff = team.git("diff", "main...change", "--", LOCK)
    assert f'"path": "{RETRIES}"' in diff and [line[:1] for line in diff.splitlines()[4:] if line[:1] in "+-"] == ["-", "+"]

    team.edit("src/a.py", "2", "3")
    assert team.sdaqf("check").code == 0, "editing code touches no lock"
    assert FILES[RETRIES] != team.read(RETRIES)


def test_a_change_cannot_turn_off_its_own_gate(team: Team) -> None:
    """With a base, findings weigh as the policy of the merge base has it; a new policy counts once it is merged."""
    team.git("checkout", "-q", "-b", "change")
    team.edit(RETRIES, "three", "five")
    team.write("sdaqf.toml", '[policy]\nchanged = "off"\nre-pinned = "off"\n')
    team.commit("five, and nobody is told")
    assert team.sdaqf("check").code == 0
    assert team.sdaqf("check", "--base", "main").code == 1
    team.lock()
    team.commit("pinned")
    assert f"re-pinned {RETRIES}" in team.codes("--base", "main")
