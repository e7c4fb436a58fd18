"""`sdaqf lock`: what is reviewed is written by that act alone, shown first, and nothing beside it changes (PIPELINE 3)."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
from pathlib import Path

import pytest

from sdaqf_tasks.errors import Conflict, Reason
from sdaqf_tasks.flow import lock as locking
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats import lockfile
from sdaqf_tasks.formats.lockfile import Pin, text_digest
from tests.flow.reviewing import CACHES, FILES, LOCK, MANIFEST, RETRIES, Team
from tests.fronts.run import SDAQF, Ran

NO_TERMINAL = "written without a terminal: whoever called this says that the texts were read"
FIVE = "We retry five times with jitter."
THREE = "We retry three times with jitter."


@pytest.fixture
def team(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
    """Everything is reviewed, and committed."""
    return Team(tmp_path / "project", capsys)


@pytest.fixture
def fresh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
    """Nothing is reviewed yet."""
    return Team(tmp_path / "project", capsys, locked=False)


def lines(ran: Ran) -> list[str]:
    assert ran.err == ""
    return ran.out.splitlines()


class TestWriting:
    """The present texts of everything that is pinned by kind."""

    def test_the_first_lock_has_the_pinned_texts_and_no_code(self, fresh: Team) -> None:
        with fresh.unchanged(LOCK):
            fresh.lock()
        wanted = {path: hashlib.sha256(FILES[path].encode()).hexdigest() for path in ("docs/spec.md", RETRIES, CACHES)}
        assert fresh.pins() == wanted
        assert stat.S_IMODE((fresh.path / LOCK).stat().st_mode) == 0o644

    def test_what_is_new_is_told_with_who_tells_it(self, fresh: Team) -> None:
        assert lines(fresh.lock()) == [
            f"{RETRIES}   new        (context)",
            f"{CACHES}    new        (context)",
            "docs/spec.md               new        (context; required in context)",
            f"wrote {LOCK}",
            NO_TERMINAL,
        ]

    def test_a_changed_text_is_shown_with_the_old_one_from_git(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged(LOCK):
            said = lines(team.lock())
        assert said == [
            f"{RETRIES}   changed    1 line   (context)",
            f"    - {THREE}",
            f"    + {FIVE}",
            f"wrote {LOCK}",
            NO_TERMINAL,
        ]

    def test_a_text_whose_reviewed_version_git_never_had_says_so(self, team: Team) -> None:
        team.edit(RETRIES, THREE, "draft")
        team.lock()
        team.edit(RETRIES, "draft", FIVE)
        assert lines(team.lock())[0] == f"{RETRIES}   changed    the reviewed text is not at hand   (context)"

    def test_many_changed_lines_are_counted_for_people_and_kept_for_programs(self, team: Team) -> None:
        team.write(RETRIES, "".join(f"{number}\n" for number in range(30)))
        told = team.lock("--dry-run").out.splitlines()
        assert told[0] == f"{RETRIES}   changed    30 lines   (context)" and told[21] == "    … and 15 more"
        [change] = team.lock("--json").value["changes"]
        assert len(change["lines"]) == 35

    def test_it_says_which_queries_tell_a_text_and_which_require_it(self, fresh: Team) -> None:
        fresh.manifest(MANIFEST + "queries:\n  default: {seeds: [caches]}\n  review: {require: [retries]}\n  fix: {terms: [zebra]}\n")
        every = "context, context.review, context.fix"
        assert lines(fresh.lock())[:3] == [
            f"{RETRIES}   new        (context.review; required in context.review)",
            f"{CACHES}    new        (context)",
            f"docs/spec.md               new        ({every}; required in {every})",
        ]

    def test_one_line_a_text_however_many_manifests_pin_it(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n", "api")
        team.lock("api")
        team.edit(RETRIES, THREE, FIVE)
        assert lines(team.lock())[0] == f"{RETRIES}   changed    1 line   (api, context)"
        assert team.pins() == team.pins("manifests/api.lock")

    def test_nothing_to_say_writes_nothing(self, team: Team) -> None:
        with team.unchanged():
            assert lines(team.lock()) == ["every lock is as the files are"]

    def test_editing_code_touches_no_lock(self, team: Team) -> None:
        team.edit("src/a.py", "1", "2")
        with team.unchanged():
            team.lock()
        assert team.sdaqf("check").code == 0

    def test_an_edit_elsewhere_in_the_file_is_no_change_of_a_section(self, team: Team) -> None:
        team.edit("manifests/context.yaml", f"decision {CACHES}", f"{{path: {CACHES}, section: Caches, kind: decision}}")
        team.lock()
        team.edit(CACHES, "Perhaps", "Never")
        with team.unchanged():
            assert lines(team.lock()) == ["every lock is as the files are"]

    def test_an_entry_that_nothing_declares_any_more_goes(self, team: Team) -> None:
        team.edit("manifests/context.yaml", f"  caches: decision {CACHES}\n", "")
        assert lines(team.lock())[0] == f"{CACHES}   gone       (context)"
        assert list(team.pins()) == [RETRIES, "docs/spec.md"]

    def test_a_manifest_in_which_nothing_is_pinned_gets_no_lock(self, fresh: Team) -> None:
        fresh.manifest("sdaqf: 1\nspecification: {path: docs/spec.md, pin: false}\nsources:\n  code: source src/*.py\n")
        with fresh.unchanged():
            assert lines(fresh.lock()) == ["every lock is as the files are"]

    def test_pin_says_otherwise_than_the_kind(self, fresh: Team) -> None:
        fresh.edit("manifests/context.yaml", "source src/*.py", "{glob: src/*.py, kind: source, pin: true}")
        fresh.edit("manifests/context.yaml", f"decision {CACHES}", f"{{path: {CACHES}, kind: decision, pin: false}}")
        fresh.lock()
        assert list(fresh.pins()) == [RETRIES, "docs/spec.md", "src/a.py"]

    def test_the_mode_of_a_lock_stays(self, team: Team) -> None:
        (team.path / LOCK).chmod(0o664)
        team.edit(RETRIES, THREE, FIVE)
        team.lock()
        assert stat.S_IMODE((team.path / LOCK).stat().st_mode) == 0o664

    def test_json_is_one_document_with_everything_in_it(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        old, new = team.pins()[RETRIES], text_digest(team.read(RETRIES))
        change = {
            "change": "changed",
            "scope": "repository",
            "path": RETRIES,
            "part": "",
            "before": RETRIES,
            "old": old,
            "new": new,
            "lines": [f"- {THREE}", f"+ {FIVE}"],
            "contexts": ["context"],
            "required": [],
        }
        wanted = {"changes": [change], "files": [LOCK], "terminal": False, "waiting": 0, "written": True}
        assert team.lock("--json").value == wanted

    def test_it_works_below_the_top_too(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        inside = Team.__new__(Team)
        inside.path, inside._capsys = team.path / "docs", team._capsys
        assert inside.sdaqf("lock").code == 0
        assert team.pins()[RETRIES] == text_digest(team.read(RETRIES))


class TestTwoAtOnce:
    """Whoever comes second is told, and nothing that the first said is lost."""

    @pytest.mark.parametrize("locked", [True, False])
    def test_a_lock_that_was_written_meanwhile_is_not_written_over(
        self, locked: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        team = Team(tmp_path / "project", capsys, locked=locked)
        team.edit(RETRIES, THREE, FIVE)
        team.edit(CACHES, "nothing", "everything")
        with Run(Project.find(team.path)) as second:
            found = locking.relock(second, second.project.manifests, [RETRIES])
            team.lock("--only", CACHES)
            with team.unchanged(), pytest.raises(Conflict) as caught:
                locking.write(second, found.writes)
        assert (caught.value.reason, caught.value.where) == (Reason.CHANGED, LOCK)
        team.lock("--only", RETRIES)
        assert (team.pins()[RETRIES], team.pins()[CACHES]) == tuple(text_digest(team.read(name)) for name in (RETRIES, CACHES))

    def test_nor_is_any_other_file_of_the_same_act(self, team: Team) -> None:
        team.manifest(MANIFEST, "other")
        team.lock()
        team.edit(RETRIES, THREE, FIVE)
        with Run(Project.find(team.path)) as second:
            found = locking.relock(second, second.project.manifests)
            team.lock("other")
            with team.unchanged(), pytest.raises(Conflict):
                locking.write(second, found.writes)

    def test_of_four_processes_nothing_is_lost(self, team: Team) -> None:
        names = [f"docs/adr/{number}.md" for number in range(4)]
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n")
        for name in names:
            team.write(name, "one\n")
        team.lock()
        for name in names:
            team.write(name, "two\n")
        running = [
            subprocess.Popen([SDAQF, "lock", "--only", name], cwd=team.path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for name in names
        ]
        ended = [(process.communicate(timeout=120)[1].decode(), process.returncode) for process in running]
        pins = team.pins()
        assert {code for _, code in ended} <= {0, 1} and 0 in {code for _, code in ended}
        for name, (said, code) in zip(names, ended, strict=True):
            assert (pins[name] == text_digest("two\n")) == (code == 0)
            assert code == 0 or said.endswith(("(changed)\n", "(candidate-moved)\n"))


class TestChoosing:
    """NAME, --only, --check and --dry-run."""

    def test_only_the_named_manifest(self, fresh: Team) -> None:
        fresh.manifest(MANIFEST, "api")
        with fresh.unchanged("manifests/api.lock"):
            fresh.lock("api")

    @pytest.mark.parametrize("word", [RETRIES, "retries"])
    def test_only_the_named_source(self, team: Team, word: str) -> None:
        team.edit(RETRIES, THREE, FIVE)
        team.edit(CACHES, "nothing", "everything")
        before = team.pins()
        team.lock("--only", word)
        assert team.pins() == before | {RETRIES: text_digest(team.read(RETRIES))}

    def test_only_a_member_of_a_glob(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n")
        team.edit(RETRIES, THREE, FIVE)
        team.edit(CACHES, "nothing", "everything")
        before = team.pins()
        team.lock("--only", CACHES)
        assert team.pins() == before | {CACHES: text_digest(team.read(CACHES))}

    def test_only_an_entry_that_nothing_declares_any_more(self, team: Team) -> None:
        team.edit("manifests/context.yaml", f"  caches: decision {CACHES}\n", "")
        team.edit(RETRIES, THREE, FIVE)
        before = team.pins()
        team.lock("--only", CACHES)
        assert team.pins() == {path: digest for path, digest in before.items() if path != CACHES}

    def test_only_may_be_repeated_and_every_word_must_mean_something(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged():
            ran = team.sdaqf("lock", "--only", "retries", "--only", "retires")
        assert ran.code == 1 and "no pinned source is 'retires'" in ran.err and "(unknown-name)" in ran.err

    def test_what_is_as_reviewed_may_be_named(self, team: Team) -> None:
        with team.unchanged():
            assert lines(team.lock("--only", "retries")) == ["every lock is as the files are"]

    def test_a_manifest_that_is_not_there(self, team: Team) -> None:
        with team.unchanged():
            ran = team.sdaqf("lock", "contxt")
        assert ran.code == 1 and "there is no manifest 'contxt'; did you mean context?" in ran.err

    @pytest.mark.parametrize(("option", "code"), [("--check", 1), ("--dry-run", 0)])
    def test_without_writing(self, team: Team, option: str, code: int) -> None:
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged():
            ran = team.sdaqf("lock", option)
        assert ran.code == code and ran.out.splitlines()[-1] == f"would write {LOCK}"

    def test_check_is_calm_where_nothing_would_be_written(self, team: Team) -> None:
        assert team.sdaqf("lock", "--check").code == 0

    @pytest.mark.parametrize("options", [("--moved", "--resolve"), ("--observed", "now", "--moved"), ("--resolve", "--only", "retries")])
    def test_what_does_not_go_together_is_wrong_usage(self, team: Team, options: tuple[str, ...]) -> None:
        with team.unchanged():
            assert team.sdaqf("lock", *options).code == 2

    def test_no_manifest_at_all(self, fresh: Team) -> None:
        (fresh.path / "manifests/context.yaml").unlink()
        ran = fresh.sdaqf("lock")
        assert ran.code == 1 and "there is no manifest to lock" in ran.err
        assert "Run: sdaqf init" in ran.err
        fresh.write("manifests/context.yaml", "sdqf: 1\n")
        assert "A manifest begins with `sdaqf: 1`, and manifests/context.yaml does not." in fresh.sdaqf("lock").err


class TestRefusals:
    """A manifest that cannot be compiled, a link, a pointer: nothing is written, anywhere."""

    def test_a_manifest_that_cannot_compile_writes_no_lock_at_all(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/none.md\n", "zz")
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged():
            ran = team.sdaqf("lock")
        assert ran.code == 1 and "manifests/zz.yaml:2:16: docs/none.md is missing" in ran.err

    @pytest.mark.parametrize("target", ["../docs/spec.md", "nowhere"])
    def test_a_lock_that_is_a_link_is_refused(self, team: Team, target: str) -> None:
        (team.path / LOCK).unlink()
        (team.path / LOCK).symlink_to(target)
        with team.unchanged():
            ran = team.sdaqf("lock")
        assert ran.code == 1 and f"{LOCK}: the lock cannot be read: the file is missing, a link" in ran.err
        assert team.codes()[0] == f"refused {LOCK}"

    def test_a_damaged_lock_is_not_written_over(self, team: Team) -> None:
        team.write(LOCK, "{}")
        with team.unchanged():
            ran = team.sdaqf("lock")
        assert ran.code == 1 and LOCK in ran.err and "nobody edits it by hand" in ran.err

    def test_a_pointer_of_git_lfs_is_never_pinned(self, team: Team) -> None:
        team.write(RETRIES, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
        with team.unchanged():
            ran = team.sdaqf("lock")
        assert ran.code == 1 and "a pointer of git-lfs" in ran.err and "git lfs pull" in ran.err

    def test_a_write_that_fails_leaves_the_old_lock_whole(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        team.edit(RETRIES, THREE, FIVE)
        monkeypatch.setattr("sdaqf_tasks.disk.files.os.rename", full)
        with team.unchanged():
            ran = team.sdaqf("lock")
        assert ran.code == 1 and "(write-failed)" in ran.err


class TestOwner:
    """Pins of owner sources lie under the owner root, mode 0600, and never in the repository."""

    NOTE = "A short note.\n"
    YAML = MANIFEST + "  note: {path: notes/release.md, root: owner, kind: decision, authority: owner-approved}\n"
    PRIVATE = ".sdaqf/release.lock"

    @pytest.fixture
    def root(self, tmp_path: Path, fresh: Team) -> Path:
        (tmp_path / "owner/notes").mkdir(parents=True)
        (tmp_path / "owner/notes/release.md").write_text(self.NOTE)
        fresh.manifest(self.YAML, "release")
        return tmp_path / "owner"

    def test_its_pins_are_apart(self, fresh: Team, root: Path) -> None:
        said = lines(fresh.lock("--owner-root", str(root)))
        assert said[-2] == f"wrote {LOCK}, manifests/release.lock, owner:{self.PRIVATE}"
        private = root / self.PRIVATE
        assert lockfile.parse(private.read_bytes(), "") == {Pin("owner", "notes/release.md"): text_digest(self.NOTE)}
        assert stat.S_IMODE(private.stat().st_mode) == 0o600 and stat.S_IMODE(private.parent.stat().st_mode) == 0o700
        assert fresh.pins("manifests/release.lock") == fresh.pins()
        assert fresh.sdaqf("check", "--owner-root", str(root)).code == 0

    def test_no_digest_of_an_owner_file_is_in_the_repository_or_what_others_build(self, fresh: Team, root: Path) -> None:
        fresh.lock("--owner-root", str(root))
        fresh.commit()
        assert fresh.build("context").code == 0
        assert fresh.sdaqf("check", "--owner-root", str(root), "--output", "json=report.json", "--output", "sarif=r.sarif").code == 0
        digest = text_digest(self.NOTE)
        for path in fresh.path.rglob("*"):
            if path.is_file():
                assert digest.encode() not in path.read_bytes().lower(), path

    def test_a_changed_note_is_found_and_is_locked_again(self, fresh: Team, root: Path) -> None:
        fresh.lock("--owner-root", str(root))
        fresh.commit()
        (root / "notes/release.md").write_text("Another note.\n")
        found = fresh.found("--owner-root", str(root))
        assert (found["code"], found["path"], found["lines"]) == ("changed", "owner:notes/release.md", [])
        ran = fresh.build("--owner-root", str(root), "release")
        assert ran.code == 1 and "owner:notes/release.md is not the version that was reviewed" in ran.out
        with fresh.unchanged():
            fresh.lock("--owner-root", str(root), "--only", "note")
        assert fresh.sdaqf("check", "--owner-root", str(root)).code == 0

    def test_who_lacks_the_owner_root_locks_the_rest(self, fresh: Team, root: Path) -> None:
        ran = fresh.sdaqf("lock")
        assert ran.code == 0 and ran.out.splitlines()[-2] == f"wrote {LOCK}"
        assert ran.err == "release   skipped: it has owner sources and no owner root is given (SDAQF_OWNER_ROOT, --owner-root)\n"

    def test_who_names_such_a_manifest_is_refused(self, fresh: Team, root: Path) -> None:
        with fresh.unchanged():
            ran = fresh.sdaqf("lock", "release")
        assert ran.code == 1 and "(owner-sources-skipped)" in ran.err

    def test_a_missing_private_lock_does_not_hide_what_the_other_one_says(self, fresh: Team, root: Path) -> None:
        fresh.lock("--owner-root", str(root))
        fresh.commit()
        (root / self.PRIVATE).unlink()
        fresh.edit(RETRIES, THREE, FIVE)
        assert fresh.codes("--owner-root", str(root)) == [f"changed {RETRIES}", "no-lock manifests/release.yaml"]
        assert fresh.build("--owner-root", str(root), "release").code == 1

    def test_an_owner_root_inside_the_work_tree_keeps_its_pins_from_git(self, fresh: Team, root: Path) -> None:
        inside = fresh.path / "private"
        root.rename(inside)
        fresh.lock("--owner-root", str(inside))
        assert (inside / ".sdaqf/.gitignore").read_text() == "*\n"
        assert ".sdaqf" not in fresh.git("status", "--porcelain", "-uall")

    def test_a_lock_of_that_name_for_another_repository_is_not_read(self, fresh: Team, root: Path) -> None:
        fresh.lock("--owner-root", str(root))
        (root / ".sdaqf/context.lock").write_bytes((root / self.PRIVATE).read_bytes())
        assert "lock-out-of-date" not in " ".join(fresh.codes("--owner-root", str(root)))


class TestMoved:
    """--moved edits the YAML, where it stands, and the lock together."""

    NEW = "docs/adr/0007-retrying.md"

    def renamed(self, team: Team, old: str = RETRIES, new: str = NEW) -> None:
        (team.path / new).parent.mkdir(parents=True, exist_ok=True)
        team.git("mv", old, new)

    def test_a_renamed_file(self, team: Team) -> None:
        self.renamed(team)
        team.commit("Rename")
        pinned, yaml = team.pins()[RETRIES], team.read("manifests/context.yaml")
        with team.unchanged(LOCK, "manifests/context.yaml"):
            said = lines(team.lock("--moved"))
        assert said[0] == f"{RETRIES}   renamed    is {self.NEW} now   (context)"
        assert said[1] == f"wrote manifests/context.yaml, {LOCK}"
        assert team.read("manifests/context.yaml") == yaml.replace(RETRIES, self.NEW)
        assert "# the one that people argue about" in yaml
        assert team.pins()[self.NEW] == pinned and RETRIES not in team.pins()

    def test_one_that_is_not_committed_yet(self, team: Team) -> None:
        self.renamed(team)
        assert team.lock("--moved").out.startswith(f"{RETRIES}   renamed    is {self.NEW} now")

    def test_one_that_was_renamed_twice(self, team: Team) -> None:
        self.renamed(team, RETRIES, "docs/between.md")
        team.commit()
        self.renamed(team, "docs/between.md")
        team.commit()
        team.lock("--moved")
        assert self.NEW in team.pins()

    def test_a_renamed_and_edited_file_is_followed_and_still_to_be_read(self, team: Team) -> None:
        self.renamed(team)
        team.edit(self.NEW, THREE, FIVE)
        team.commit("Rename and edit")
        team.lock("--moved")
        team.commit()
        found = team.found()
        assert (found["code"], found["path"], found["lines"]) == ("changed", self.NEW, [f"- {THREE}", f"+ {FIVE}"])

    @pytest.mark.parametrize(
        ("written", "wanted"),
        [
            ("{path: OLD, kind: decision}", "{path: NEW, kind: decision}"),
            ("{kind: decision, path: 'OLD'}", "{kind: decision, path: 'NEW'}"),
            ('{title: OLD, path: "OLD", kind: decision}   # OLD', '{title: OLD, path: "NEW", kind: decision}   # OLD'),
            ('"decision OLD"', '"decision NEW"'),
            ("decision   OLD   # see OLD", "decision   NEW   # see OLD"),
            ("\n    kind: decision\n    # OLD\n    path: OLD", "\n    kind: decision\n    # OLD\n    path: NEW"),
            (
                "{path: OLD, kind: decision, section: Retries, provenance: [docs/spec.md, OLD]}",
                "{path: NEW, kind: decision, section: Retries, provenance: [docs/spec.md, NEW]}",
            ),
        ],
    )
    @pytest.mark.parametrize("end", ["\n", "\r\n"])
    def test_however_it_is_written_nothing_else_changes(self, team: Team, written: str, wanted: str, end: str) -> None:
        def yaml(source: str, path: str) -> str:
            text = f"sdaqf: 1  # {RETRIES}\nspecification: docs/spec.md\n\n\nsources:\n  retries: {source}\n# ende ä\n"
            return text.replace("OLD", RETRIES).replace("NEW", path).replace("\n", end)

        team.manifest(yaml(written, ""))
        team.lock()
        self.renamed(team)
        team.commit()
        team.lock("--moved")
        assert team.read("manifests/context.yaml") == yaml(wanted, self.NEW)
        assert [code for code in team.codes() if not code.startswith("dirty")] == []

    def test_a_path_that_is_a_part_of_its_kind(self, team: Team) -> None:
        team.write("sion", "# Short\n")
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  short: decision sion\n")
        team.lock()
        team.commit()
        self.renamed(team, "sion", "long.md")
        team.commit()
        team.lock("--moved")
        assert team.read("manifests/context.yaml").endswith("  short: decision long.md\n")

    def test_the_specification(self, team: Team) -> None:
        self.renamed(team, "docs/spec.md", "docs/specification.md")
        team.commit()
        team.lock("--moved")
        assert "specification: docs/specification.md\n" in team.read("manifests/context.yaml")

    def test_two_parts_of_one_file_on_one_line(self, team: Team) -> None:
        two = "{{one: {{path: {0}, section: Caches, kind: decision}}, two: {{path: {0}, section: Later, kind: decision}}}}"
        team.manifest(f"sdaqf: 1\nspecification: docs/spec.md\nsources: {two.format(CACHES)}\n")
        team.lock()
        self.renamed(team, CACHES, "docs/c.md")
        team.commit()
        team.lock("--moved")
        assert team.read("manifests/context.yaml").endswith(f"sources: {two.format('docs/c.md')}\n")
        assert sorted(team.pins())[:2] == ["docs/c.md § Caches", "docs/c.md § Later"]

    def test_a_file_that_two_manifests_include_is_edited_once_for_both(self, team: Team) -> None:
        team.write("manifests/_shared.yaml", f"sdaqf: 1\n# shared\nsources:\n  retries: decision {RETRIES}\n  caches: decision {CACHES}\n")
        for name in ("api", "context"):
            team.manifest("sdaqf: 1\nspecification: docs/spec.md\ninclude: [_shared.yaml]\n", name)
        team.lock()
        self.renamed(team)
        self.renamed(team, CACHES, "docs/c.md")
        team.commit()
        with team.unchanged("manifests/_shared.yaml", LOCK, "manifests/api.lock"):
            team.lock("--moved")
        wanted = f"sdaqf: 1\n# shared\nsources:\n  retries: decision {self.NEW}\n  caches: decision docs/c.md\n"
        assert team.read("manifests/_shared.yaml") == wanted
        assert team.pins() == team.pins("manifests/api.lock")

    def test_a_member_of_a_glob_with_another_name_keeps_its_digest(self, team: Team) -> None:
        team.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources:\n  all: decision docs/adr/*.md\n")
        team.lock()
        pinned = team.pins()[RETRIES]
        self.renamed(team)
        team.commit()
        with team.unchanged(LOCK):
            team.lock("--moved")
        assert team.pins()[self.NEW] == pinned
        assert [code for code in team.codes() if not code.startswith("dirty")] == []

    LINES = MANIFEST.replace(f"decision {RETRIES}", f"{{path: {RETRIES}, lines: 3-5, kind: decision}}")

    def test_moved_lines(self, team: Team) -> None:
        team.manifest(self.LINES)
        team.lock()
        team.commit()
        pinned = team.pins()[f"{RETRIES} § 3-5"]
        team.edit(RETRIES, "# Retries\n", "# Retries\n\nFirst of all:\n")
        assert team.codes() == [f"dirty {LOCK}", f"moved {RETRIES}"][1:]
        with team.unchanged(LOCK, "manifests/context.yaml"):
            said = lines(team.lock("--moved"))
        assert said[0] == f"{RETRIES} § 3-5   moved      is {RETRIES} § 5-7 now   (context)"
        assert team.read("manifests/context.yaml") == self.LINES.replace("lines: 3-5", "lines: 5-7")
        assert team.pins()[f"{RETRIES} § 5-7"] == pinned

    def test_one_moved_line_stays_a_number(self, team: Team) -> None:
        team.manifest(self.LINES.replace("3-5", "3"))
        team.lock()
        team.edit(RETRIES, "# Retries\n", "# Retries\n\n")
        team.lock("--moved")
        assert "lines: 4," in team.read("manifests/context.yaml")

    def test_only_what_is_named(self, team: Team) -> None:
        self.renamed(team)
        self.renamed(team, CACHES, "docs/c.md")
        team.commit()
        team.lock("--moved", "--only", "caches")
        assert RETRIES in team.pins() and "docs/c.md" in team.pins()

    def test_what_is_written_in_a_way_that_cannot_be_edited_is_refused(self, team: Team) -> None:
        team.manifest(MANIFEST.replace(f"decision {RETRIES}", '{kind: decision, path: "docs\\x2fadr/0007-retries.md"}'))
        team.lock()
        self.renamed(team)
        team.commit()
        with team.unchanged():
            ran = team.sdaqf("lock", "--moved")
        assert ran.code == 1 and "cannot be edited where it stands" in ran.err and f"Write {self.NEW} there by hand" in ran.err

    def test_a_new_name_that_no_manifest_can_have_is_refused(self, team: Team) -> None:
        self.renamed(team, RETRIES, "docs/our retries.md")
        team.commit()
        with team.unchanged():
            ran = team.sdaqf("lock", "--moved")
        assert ran.code == 1 and "it is 'docs/our retries.md' now, which is not a portable path" in ran.err

    def test_nothing_moved(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        with team.unchanged():
            assert lines(team.lock("--moved")) == ["nothing moved"]


class TestObserved:
    """--observed now says in the YAML when something was observed again, and pins what it says now."""

    YAML = MANIFEST + (
        "  # run it on Mondays\n"
        "  lint:\n    path: evidence/lint.txt\n    kind: evidence\n"
        "    freshness: {observed: 2026-01-01T00:00:00Z, for: 30d}   # a month\n"
    )

    @pytest.fixture
    def watched(self, fresh: Team, monkeypatch: pytest.MonkeyPatch) -> Team:
        fresh.write("evidence/lint.txt", "All well.\n")
        fresh.manifest(self.YAML)
        fresh.lock()
        fresh.commit()
        monkeypatch.setenv("SDAQF_NOW", "2026-02-01T08:00:00Z")
        return fresh

    def test_the_moment_and_the_text(self, watched: Team) -> None:
        watched.write("evidence/lint.txt", "All well again.\n")
        with watched.unchanged(LOCK, "manifests/context.yaml"):
            said = lines(watched.lock("--only", "lint", "--observed", "now"))
        assert said[:3] == [
            "lint   observed 2026-02-01T08:00:00Z, last at 2026-01-01T00:00:00Z",
            "evidence/lint.txt   changed    1 line   (context)",
            "    - All well.",
        ]
        assert watched.read("manifests/context.yaml") == self.YAML.replace("2026-01-01T00:00:00Z", "2026-02-01T08:00:00Z")
        assert watched.pins()["evidence/lint.txt"] == text_digest("All well again.\n")

    def test_without_a_name_all_that_has_ended_or_ends_soon(self, watched: Team) -> None:
        text = self.YAML + "  fine: {path: evidence/fine.txt, kind: evidence, freshness: {observed: 2026-01-31T00:00:00Z, for: 30d}}\n"
        watched.write("evidence/fine.txt", "Fine.\n")
        watched.manifest(text)
        watched.lock()
        watched.lock("--observed", "now")
        assert watched.read("manifests/context.yaml") == text.replace("2026-01-01T", "2026-02-01T").replace(
            "1T00:00:00Z, for: 30d}   #", "1T08:00:00Z, for: 30d}   #"
        )

    def test_nothing_has_ended(self, watched: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-02T00:00:00Z")
        with watched.unchanged():
            assert lines(watched.lock("--observed", "now")) == ["no observation has ended"]

    def test_other_changes_stay_unread(self, watched: Team) -> None:
        watched.edit(RETRIES, THREE, FIVE)
        before = watched.pins()
        watched.lock("--only", "lint", "--observed", "now")
        assert watched.pins() == before

    def test_what_is_no_observation_is_refused(self, watched: Team) -> None:
        with watched.unchanged():
            ran = watched.sdaqf("lock", "--only", "retries", "--observed", "now")
        assert ran.code == 1 and "no observation is 'retries'" in ran.err

    def test_a_fixed_end_is_for_a_person_to_move(self, watched: Team) -> None:
        watched.edit("manifests/context.yaml", "for: 30d", "expires: 2026-01-31T00:00:00Z")
        with watched.unchanged():
            ran = watched.sdaqf("lock", "--only", "lint", "--observed", "now")
        assert ran.code == 1 and "manifests/context.yaml:11:" in ran.err and "lint ends at a fixed time" in ran.err

    def test_an_observation_that_follows_the_tree_is_in_the_yaml_alone(self, watched: Team) -> None:
        watched.edit("manifests/context.yaml", "kind: evidence", "kind: tool-observation")
        watched.lock()
        with watched.unchanged("manifests/context.yaml"):
            watched.lock("--only", "lint", "--observed", "now")


class TestResolve:
    """--resolve settles a merge conflict entry by entry, and never accepts what nobody read."""

    QUEUES = "docs/adr/0012-queues.md"

    def documents(self, team: Team) -> None:
        team.write(self.QUEUES, "# Queues\n\nWe queue.\n")
        team.edit("manifests/context.yaml", "  code:", f"  queues: decision {self.QUEUES}\n  code:")
        team.lock()
        team.commit("base")

    def branches(self, team: Team, ours: dict[str, str], theirs: dict[str, str]) -> None:
        """Both sides edit and pin, each what it says; then they merge, and the documents are as `main` has them."""
        for branch, texts in (("theirs", theirs), ("main", ours)):
            team.git("checkout", "-q", *(("-b", branch) if branch == "theirs" else (branch,)))
            for path, text in texts.items():
                team.write(path, text)
            team.lock()
            team.commit(branch)
        team.merge("theirs")
        assert "<<<<<<<" in team.read(LOCK)

    def test_entry_by_entry(self, team: Team) -> None:
        self.documents(team)
        self.branches(
            team,
            {RETRIES: "a\n", CACHES: "ours\n", self.QUEUES: "ours\n"},
            {RETRIES: "theirs\n", CACHES: "b\n", self.QUEUES: "theirs\n"},
        )
        for path, text in ((RETRIES, "theirs\n"), (CACHES, "ours\n"), (self.QUEUES, "both\n")):
            team.write(path, text)
        with team.unchanged(LOCK):
            ran = team.sdaqf("lock", "--resolve")
        assert ran.code == 1 and ran.out.splitlines() == [
            f"{RETRIES}   theirs     the file is their version",
            f"{CACHES}    ours       the file is ours",
            f"{self.QUEUES}    neither    both sides edited it: read it, then sdaqf lock --only {self.QUEUES}",
            f"wrote {LOCK}; 1 entry waits for you",
        ]
        assert list(team.pins()) == [RETRIES, CACHES, "docs/spec.md"]
        assert team.sdaqf("check").code == 1
        team.lock("--only", self.QUEUES)
        team.commit("merged")
        assert team.codes() == []

    def test_all_settled_is_exit_0_and_its_commit_passes(self, team: Team) -> None:
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        team.write(RETRIES, "ours\n")
        assert team.sdaqf("lock", "--resolve").code == 0
        team.commit("merged")
        assert team.codes() == []

    def test_an_entry_that_both_deleted_stays_away(self, team: Team) -> None:
        without = team.read("manifests/context.yaml").replace(f"  caches: decision {CACHES}\n", "")
        self.branches(
            team,
            {"manifests/context.yaml": without, RETRIES: "ours\n"},
            {"manifests/context.yaml": without, RETRIES: "theirs\n"},
        )
        team.write(RETRIES, "ours\n")
        assert team.sdaqf("lock", "--resolve").code == 0
        assert list(team.pins()) == [RETRIES, "docs/spec.md"]

    def test_an_entry_that_nothing_declares_any_more_goes(self, team: Team) -> None:
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        team.manifest(f"sdaqf: 1\nspecification: docs/spec.md\nsources:\n  caches: decision {CACHES}\n")
        ran = team.sdaqf("lock", "--resolve")
        assert ran.code == 0 and ran.out.splitlines()[0] == f"{RETRIES}   gone       no pinned source is this any more"
        assert list(team.pins()) == [CACHES, "docs/spec.md"]

    def test_a_document_that_is_in_conflict_itself_waits(self, team: Team) -> None:
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        assert "<<<<<<<" in team.read(RETRIES)
        ran = team.sdaqf("lock", "--resolve")
        assert ran.code == 1 and ran.out.startswith(f"{RETRIES}   neither")
        assert RETRIES not in team.pins()

    def test_only_the_lock_that_is_in_conflict_is_written(self, team: Team) -> None:
        team.manifest(f"sdaqf: 1\nspecification: docs/spec.md\nsources:\n  caches: decision {CACHES}\n", "api")
        team.lock()
        team.commit()
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        team.write(RETRIES, "theirs\n")
        with team.unchanged(LOCK):
            assert team.sdaqf("lock", "--resolve").code == 0

    def test_check_and_dry_run_write_nothing(self, team: Team) -> None:
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        team.write(RETRIES, "ours\n")
        with team.unchanged():
            assert team.sdaqf("lock", "--resolve", "--dry-run").code == 0
            assert team.sdaqf("lock", "--resolve", "--check").code == 1

    def test_no_conflict(self, team: Team) -> None:
        with team.unchanged():
            ran = team.sdaqf("lock", "--resolve")
        assert (ran.code, ran.out) == (0, "no lock is in conflict\n")

    def test_until_then_everything_says_how_it_is_resolved(self, team: Team) -> None:
        self.branches(team, {RETRIES: "ours\n"}, {RETRIES: "theirs\n"})
        line = team.read(LOCK).splitlines().index("<<<<<<< HEAD") + 1
        for command in ("lock", "build", "check"):
            ran = team.sdaqf(command)
            assert ran.code == 1 and "a merge conflict" in ran.out + ran.err and "sdaqf lock --resolve" in ran.out + ran.err
        assert f"{LOCK}:{line}" in team.sdaqf("status").out
        assert f"{LOCK}:{line}  a merge conflict. Resolve with: sdaqf lock --resolve" in team.sdaqf("status").out


class TestBuild:
    """`build` refuses what is not as reviewed, says so where there is no lock, and writes none."""

    def blocked(self, team: Team, *options: str) -> str:
        ran = team.build(*options)
        assert ran.code == 1
        return ran.out

    def test_a_changed_text_with_the_commit_that_changed_it(self, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SDAQF_NOW", "2026-01-03T12:00:00Z")
        team.edit(RETRIES, THREE, FIVE)
        commit = team.commit("Five times")
        team.edit("src/a.py", "1", "2")
        team.commit("Code")
        told = self.blocked(team)
        assert f'{RETRIES} is not the version that was reviewed (changed by {commit[:7]}, 2 days ago: "Five times")' in told
        assert f"See it with: sdaqf check context   then: sdaqf lock --only {RETRIES}" in told

    def test_a_source_that_is_not_required_blocks_too_and_comes_back(self, team: Team) -> None:
        assert team.build().code == 0
        team.edit(CACHES, "nothing", "everything")
        self.blocked(team)
        assert not (team.path / ".sdaqf/build/out/context/context.md").exists()
        team.lock()
        assert team.build().code == 0

    def test_several_are_counted(self, team: Team) -> None:
        team.write(RETRIES, "a\n")
        team.write(CACHES, "b\n")
        assert f"{RETRIES} is not the version that was reviewed; nor are 1 others" in self.blocked(team)

    def test_the_lock_is_out_of_date_with_names(self, team: Team) -> None:
        team.write("docs/adr/0012-queues.md", "# Queues\n")
        team.edit("manifests/context.yaml", f"  caches: decision {CACHES}", "  queues: decision docs/adr/0012-queues.md")
        told = self.blocked(team)
        assert f"{LOCK}: it lacks docs/adr/0012-queues.md; no pinned source is {CACHES}" in told
        assert "(lock-out-of-date)" in told and "sdaqf lock context" in told

    def test_without_a_lock_there_is_a_note_and_no_lock_is_written(self, fresh: Team) -> None:
        ran = fresh.build()
        note = "3 pinned texts are taken as they are: there is no lock yet. Review them, then: sdaqf lock context"
        assert ran.code == 0 and note in ran.out
        assert not (fresh.path / LOCK).exists()

    def test_locked_refuses_that(self, fresh: Team) -> None:
        assert fresh.build().code == 0
        told = self.blocked(fresh, "--locked")
        assert f"{LOCK}: nobody has said what was reviewed" in told and "(no-lock)" in told
        fresh.lock()
        assert fresh.build("--locked").code == 0

    def test_locked_refuses_what_is_skipped_unless_that_is_allowed(self, team: Team) -> None:
        team.manifest(TestOwner.YAML, "release")
        assert team.build("--allow-skipped").code == team.build().code == 0
        ran = team.build("--locked")
        assert ran.code == 1 and "release: skipped, and --locked refuses that: give --owner-root, or --allow-skipped" in ran.err
        assert team.build("--locked", "--allow-skipped").code == 0

    def test_receipts_hold_the_digest_of_the_lock(self, team: Team) -> None:
        def receipt() -> dict[str, str]:
            found = json.loads((team.path / ".sdaqf/build/refs/m/context/manifest.made").read_text())
            return dict(found["inputs"])

        team.build()
        first = receipt()
        team.write(LOCK, team.read(LOCK).replace("  ", " "))  # the same pins, other bytes
        assert team.build().code == 0
        assert {key for key, value in receipt().items() if first.get(key) != value} == {"lock", "candidate"}

    def test_build_writes_no_lock(self, team: Team) -> None:
        team.edit(RETRIES, THREE, FIVE)
        before = team.read(LOCK)
        self.blocked(team)
        assert team.read(LOCK) == before
