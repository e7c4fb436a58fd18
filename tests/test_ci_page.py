"""The pipelines of docs/ci.md, run on clones like the runners': a merge commit at depth 2, and what the steps print and leave."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from junitparser import JUnitXml

from scripts import pages
from tests import repositories
from tests.disk.worktree import WorkTree, environment

PAGE = (pages.TOP / "docs/ci.md").read_text("utf-8")
FILES = {match[1]: part.body for part in pages.parts(PAGE) if (match := re.search(r"file=(\S+)", part.info))}
GITHUB = yaml.safe_load(FILES[".github/workflows/context.yml"])
GITLAB = yaml.safe_load(FILES[".gitlab-ci.yml"])
HOOKS = pages.TOP / ".pre-commit-hooks.yaml"

PROJECT = {
    "SPEC.md": "# It\n\nIt does this.\n",
    "docs/adr/0007-retries.md": "# Retries\n\nWe retry three times with jitter.\n",
    "src/a.py": "a = 1\n",
    "manifests/context.yaml": "sdaqf: 1\nspecification: SPEC.md\nsources:\n  decisions: decision docs/adr/*.md\n  code: source src/*.py\n",
}
FIVE = b"# Retries\n\nWe retry five times with jitter.\n"
BIN = Path(sys.executable).parent


class Ran(NamedTuple):
    code: int
    out: str


def bash(script: str, work: Path, **more: str) -> Ran:
    """Run a step as runners do, with `uvx` and `pip` that find what is installed here."""
    tools = work.parent / "tools"
    tools.mkdir(exist_ok=True)
    shims = {"uvx": '[ "$1 $2" = "--from sdaqf-tasks" ] || exit 9\nshift 2\nexec "$@"', "pip": '[ "$*" = "install --quiet sdaqf-tasks" ]'}
    for name, body in shims.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    known = environment(**more) | {"PATH": os.pathsep.join([str(tools), str(BIN), os.environ["PATH"]]), "HOME": str(work.parent)}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=work,
        env=known,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return Ran(done.returncode, done.stdout)


@pytest.fixture
def origin(tmp_path: Path) -> WorkTree:
    """A project whose documents were reviewed, on `main`; `topic` is a branch of it."""
    tree = repositories.make(tmp_path / "origin", PROJECT)
    assert bash("sdaqf lock", tree.path).code == 0
    tree.write(".gitignore", b".sdaqf/\n")
    tree.commit(message="Reviewed")
    tree.git("checkout", "-q", "-b", "topic")
    return tree


def merged(origin: WorkTree, depth: int = 2) -> Path:
    """What a runner checks out for the request to merge `topic`, when `main` has moved meanwhile."""
    origin.git("checkout", "-q", "main")
    origin.write("notes.txt", b"meanwhile\n")
    origin.commit("notes.txt", message="Meanwhile")
    origin.git("checkout", "-q", "--detach", "main")
    origin.git("merge", "-q", "--no-ff", "-m", "Merge", "topic")
    origin.git("update-ref", "refs/pull/1/merge", "HEAD")
    clone = WorkTree(origin.path.parent / "runner")
    clone.git("fetch", "-q", f"--depth={depth}", f"file://{origin.path}", "+refs/pull/1/merge:refs/remotes/pull/1/merge")
    clone.git("checkout", "-q", "--force", "refs/remotes/pull/1/merge")
    assert clone.git("rev-parse", "--is-shallow-repository") == b"true\n"
    return clone.path


def edit(origin: WorkTree, *, reviewed: bool) -> None:
    origin.write("docs/adr/0007-retries.md", FIVE)
    if reviewed:
        assert bash("sdaqf lock", origin.path).code == 0
    origin.commit(message="Five times")


class Job(NamedTuple):
    """How the steps of a job ended, one after the other as long as they should run, and what they left."""

    steps: Mapping[str, Ran]
    summary: str
    sarif: Any


def github(work: Path) -> Job:
    summary, temporary = work.parent / "summary.md", work.parent / "temp"
    summary.write_text("")
    temporary.mkdir(exist_ok=True)
    ended: dict[str, Ran] = {}
    for step in GITHUB["jobs"]["context"]["steps"]:
        if "run" in step and (all(not ran.code for ran in ended.values()) or "!cancelled()" in step.get("if", "")):
            ended[step["name"]] = bash(step["run"], work, GITHUB_STEP_SUMMARY=str(summary), RUNNER_TEMP=str(temporary))
    sarif = temporary / "context.sarif"
    return Job(ended, summary.read_text(), json.loads(sarif.read_bytes()) if sarif.exists() else None)


def gitlab(work: Path) -> Ran:
    return bash("\n".join(GITLAB["context"]["script"]), work)


class TestGitHub:
    def test_a_change_of_code_passes(self, origin: WorkTree) -> None:
        origin.write("src/a.py", b"a = 2\n")
        origin.commit(message="Two")
        job = github(merged(origin))
        assert {name: ran.code for name, ran in job.steps.items()} == {"check": 0, "build": 0}
        assert "::error" not in job.steps["check"].out
        assert job.sarif["runs"][0]["results"] == []

    def test_a_pinned_decision_that_was_edited_fails_at_its_line(self, origin: WorkTree) -> None:
        edit(origin, reviewed=False)
        job = github(merged(origin))
        assert {name: ran.code for name, ran in job.steps.items()} == {"check": 1, "build": 1}
        assert "::error file=docs/adr/0007-retries.md,line=" in job.steps["check"].out
        assert "docs/adr/0007-retries.md" in job.summary
        [result] = [result for result in job.sarif["runs"][0]["results"] if result["ruleId"] == "changed"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "docs/adr/0007-retries.md"

    def test_a_reviewed_change_passes_and_the_reviewer_is_told(self, origin: WorkTree) -> None:
        edit(origin, reviewed=True)
        job = github(merged(origin))
        assert {name: ran.code for name, ran in job.steps.items()} == {"check": 0, "build": 0}
        assert "::notice file=docs/adr/0007-retries.md" in job.steps["check"].out
        assert "re-pinned" in job.steps["check"].out
        assert "Re-pinned by this change: 1" in job.summary
        assert "docs/adr/0007-retries.md" in job.summary

    def test_at_depth_one_it_ends_with_two_and_names_the_depth(self, origin: WorkTree) -> None:
        edit(origin, reviewed=True)
        check = github(merged(origin, depth=1)).steps["check"]
        assert (check.code, "fetch-depth" in check.out) == (2, True)

    def test_the_steps_say_where_things_are(self) -> None:
        steps = {step["uses"].partition("@")[0]: step for step in GITHUB["jobs"]["context"]["steps"] if "uses" in step}
        assert steps["actions/checkout"]["with"] == {"fetch-depth": 2}
        assert steps["github/codeql-action/upload-sarif"]["with"]["sarif_file"] == "${{ runner.temp }}/context.sarif"
        kept = steps["actions/upload-artifact"]
        assert (kept["if"], kept["with"]["path"]) == ("${{ failure() }}", ".sdaqf/build/blocked/")
        assert GITHUB["permissions"] == {"contents": "read", "security-events": "write"}

    def test_nothing_is_left_in_the_tree(self, origin: WorkTree) -> None:
        edit(origin, reviewed=True)
        work = merged(origin)
        github(work)
        assert WorkTree(work).git("status", "--porcelain") == b""


class TestGitLab:
    @pytest.mark.parametrize(("reviewed", "code", "failures"), [(False, 1, 1), (True, 0, 0)])
    def test_the_job_ends_as_the_gate_does_and_leaves_its_reports(self, origin: WorkTree, reviewed: bool, code: int, failures: int) -> None:
        edit(origin, reviewed=reviewed)
        work = merged(origin)
        ran = gitlab(work)
        assert ran.code == code, ran.out
        artifacts = GITLAB["context"]["artifacts"]
        report = JUnitXml.fromfile(str(work / artifacts["reports"]["junit"]))
        assert report.failures + report.errors == failures
        assert "docs/adr/0007-retries.md" in (work / artifacts["paths"][0]).read_text()
        assert artifacts["paths"][1] == ".sdaqf/build/blocked/"
        assert GITLAB["context"]["variables"] == {"GIT_DEPTH": "2"}

    def test_a_build_that_is_blocked_fails_although_nothing_is_found(self, origin: WorkTree) -> None:
        little = "  code: {path: src/a.py, kind: source, required: true}\nqueries:\n  default: {seeds: all, budget: 1KiB}\n"
        origin.write("manifests/context.yaml", PROJECT["manifests/context.yaml"].replace("  code: source src/*.py\n", little).encode())
        origin.write("src/a.py", b"a = 1\n" * 400)
        origin.commit(message="Too little")
        ran = gitlab(merged(origin))
        assert (ran.code, "required-context-over-budget" in ran.out, "1 error" in ran.out) == (1, True, False)


class TestOwners:
    def test_the_locks_are_owned(self) -> None:
        [rule] = FILES["CODEOWNERS"].splitlines()
        pattern, owner = rule.split()
        assert fnmatch.fnmatch("/manifests/context.lock", pattern)
        assert not fnmatch.fnmatch("/manifests/context.yaml", pattern)
        assert owner.startswith("@")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
    def test_a_checkout_of_another_user_is_refused_until_that_user_is_named(self, origin: WorkTree) -> None:
        for place in (origin.path, *origin.path.rglob("*")):
            os.lchown(place, 1001, 1001)
        refused = bash("sdaqf check", origin.path)
        assert (refused.code, "SDAQF_ALLOW_OWNER" in refused.out) == (1, True)
        named = re.search(r'SDAQF_ALLOW_OWNER: "(\d+)"', PAGE)
        assert named
        assert bash("sdaqf check", origin.path, SDAQF_ALLOW_OWNER=named[1]).code == 0


class TestPreCommit:
    """The hook, run by pre-commit itself."""

    @pytest.fixture
    def hooked(self, origin: WorkTree) -> Iterator[WorkTree]:
        """The project with the hook installed; the program is the one that is installed here."""
        [hook] = yaml.safe_load(HOOKS.read_bytes())
        config = {"repos": [{"repo": "local", "hooks": [hook | {"language": "system"}]}]}
        origin.write(".pre-commit-config.yaml", yaml.safe_dump(config).encode())
        origin.commit(message="Hooked")
        assert bash("pre-commit install", origin.path).code == 0
        yield origin

    def commit(self, tree: WorkTree, how: str = "git commit -qm Change") -> Ran:
        return bash(how, tree.path, PRE_COMMIT_HOME=str(tree.path.parent / "cache"))

    def test_pre_commit_understands_the_hook_and_the_page_names_it(self) -> None:
        from pre_commit.clientlib import load_manifest  # type: ignore[import-untyped]

        [hook] = load_manifest(str(HOOKS))
        assert (hook["id"], hook["entry"], hook["language"], hook["pass_filenames"]) == ("sdaqf-check", "sdaqf check", "python", False)
        config = yaml.safe_load(FILES[".pre-commit-config.yaml"])
        assert [named["id"] for repo in config["repos"] for named in repo["hooks"]] == [hook["id"]]

    def test_what_was_not_reviewed_is_not_committed(self, hooked: WorkTree) -> None:
        head = hooked.head()
        hooked.write("docs/adr/0007-retries.md", FIVE)
        hooked.git("add", "docs")
        ran = self.commit(hooked)
        assert (ran.code, hooked.head()) == (1, head)
        assert re.search(r"^docs/adr/0007-retries\.md:\d+  error  changed", ran.out, re.MULTILINE)

    @pytest.mark.parametrize("how", ["git add -A && git commit -qm C", "git commit -qam C", "git commit -qm C -- docs manifests"])
    def test_what_is_about_to_be_committed_with_its_lock_passes(self, hooked: WorkTree, how: str) -> None:
        hooked.write("docs/adr/0007-retries.md", FIVE)
        assert bash("sdaqf lock", hooked.path).code == 0
        assert self.commit(hooked, how).code == 0
        assert hooked.git("show", "HEAD:docs/adr/0007-retries.md") == FIVE

    def test_a_lock_that_is_not_staged_does_not_count(self, hooked: WorkTree) -> None:
        hooked.write("docs/adr/0007-retries.md", FIVE)
        assert bash("sdaqf lock", hooked.path).code == 0
        hooked.git("add", "docs")
        assert self.commit(hooked).code == 1

    def test_an_edit_that_is_not_staged_does_not_either(self, hooked: WorkTree) -> None:
        hooked.write("docs/adr/0007-retries.md", FIVE)
        hooked.write("src/a.py", b"a = 3\n")
        hooked.git("add", "src")
        assert self.commit(hooked).code == 0

    @pytest.mark.long
    def test_it_installs_from_this_repository(self, origin: WorkTree) -> None:
        """As users have it: pre-commit clones this repository and installs it into an environment of its own."""
        source = WorkTree(origin.path.parent / "source")
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=pages.TOP, capture_output=True, check=True).stdout.decode().split("\0")
        for name in filter(None, listed):
            if (pages.TOP / name).is_file():
                source.write(name, (pages.TOP / name).read_bytes())
        revision = source.commit(message="Source")
        config = FILES[".pre-commit-config.yaml"].replace("v0.1.0", revision)
        config = re.sub(r"https://example\.com/\S+", f"file://{source.path}", config)
        origin.write(".pre-commit-config.yaml", config.encode())
        origin.commit(message="Hooked")
        ran = self.commit(origin, "pre-commit run --all-files")
        assert ran.code == 0, ran.out
        assert re.search(r"sdaqf check\.+Passed", ran.out)
