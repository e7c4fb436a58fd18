"""What a person is told to do next: a command that does it, whatever was typed or is in the repository."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import repositories
from tests.flow.reviewing import RETRIES, Team
from tests.fronts.run import in_process


class TestAfterARefusalTheHintIsCheck:
    """A build that is refused gives nothing to explain: what shows the cause is `sdaqf check NAME`, not another build."""

    @pytest.fixture(params=["changed", "refused", "unreadable", "lock-out-of-date"])
    def blocked(self, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
        team = Team(tmp_path, capsys)
        match request.param:
            case "changed":
                team.edit(RETRIES, "three", "five")
            case "refused":
                team.edit("manifests/context.yaml", "src/*.py", "lib/*.py")
            case "unreadable":
                team.write("manifests/context.yaml", "sdaqf: 1\nspecification:\n")
            case _:
                team.edit("manifests/context.yaml", "caches: decision", "caches: source")
        assert team.build().code == 1
        return team

    def test_of_status(self, blocked: Team) -> None:
        (entry,) = blocked.sdaqf("status", "--json").value["contexts"]
        assert entry["next"] == "sdaqf check context"
        assert blocked.sdaqf("status").out.endswith("\nNext: sdaqf check context\n")

    def test_of_explain_and_diff(self, blocked: Team) -> None:
        for command in (["explain", "context"], ["diff", "context", "context"]):
            ran = blocked.sdaqf(*command)
            assert (ran.code, ran.err.splitlines()[-1]) == (1, "  sdaqf check context   (not-built)")

    def test_and_what_was_never_built_says_build(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        team = Team(tmp_path, capsys)
        assert team.sdaqf("explain", "context").err.endswith("  sdaqf build context   (not-built)\n")
        assert team.sdaqf("status").out.endswith("\nNext: sdaqf build context\n")

    def test_what_a_query_is_refused_for_is_not_sent_to_the_gate_which_runs_none(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        team = Team(tmp_path, capsys)
        team.edit(
            "manifests/context.yaml", "sources:\n", "queries: {default: {seeds: all, require: [retries, caches], budget: 1KiB}}\nsources:\n"
        )
        ran = team.sdaqf("build")
        assert (ran.code, "(required-context-over-budget)" in ran.out, "Next:" in ran.out) == (1, True, False)
        team.edit(RETRIES, "three", "five")
        assert team.sdaqf("build").out.endswith("Next: sdaqf check context\n")


class TestInit:
    """What `init` writes or shows can be used as it is, or it says that it cannot yet."""

    def init(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        tree = repositories.make(tmp_path / "r", {"README.md": "# It\n\nIt does this.\n"})
        monkeypatch.chdir(tree.path)
        return in_process("init", "--yes", *words, capsys=capsys).out

    def test_the_lines_for_doit_keep_its_database_out_of_the_tree(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = self.init(tmp_path, monkeypatch, capsys, "--doit")
        rows = told.partition("For doit, in dodo.py:\n")[2].partition("Next:")[0]
        Path("dodo.py").write_text("\n".join(row.strip() for row in rows.splitlines()))
        ran = subprocess.run([sys.executable, "-m", "doit"], capture_output=True, text=True, check=False)
        assert (ran.returncode, "made" in ran.stdout, sorted(Path().glob(".doit.db*"))) == (0, True, []), ran.stderr

    @pytest.mark.parametrize(("agents", "says"), [("codex", True), ("claude", True), ("", False)])
    def test_a_server_that_does_not_exist_yet_is_said_not_to(
        self, agents: str, says: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = self.init(tmp_path, monkeypatch, capsys, *(["--agents", agents] if agents else []))
        assert ("`sdaqf mcp` comes with a later release" in told) is says


class TestWhatWasTypedIsQuoted:
    """A hint is copied into a shell: no word of it may be two, or a command of its own."""

    def test_the_ref_to_fetch(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ran = Team(tmp_path, capsys).sdaqf("check", "--base", "gone; touch x~2")
        assert ran.err.endswith("fetch it: git fetch origin 'gone; touch x'\n")

    def test_the_build_folder_to_untrack(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        team = Team(tmp_path, capsys)
        team.write("sdaqf.toml", 'build = "the output"\n')
        team.write("the output/x", "x")
        team.commit()
        assert "`git rm -r --cached 'the output'`" in team.build().err

    def test_the_file_that_a_block_was_moved_into(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        team = Team(tmp_path, capsys)
        assert team.sdaqf("render", "context", "--into", "AGENTS.md").code == 0
        (tmp_path / "AGENTS.md").rename(tmp_path / "for agents.md")
        assert team.found()["settle"] == "sdaqf render context --into 'for agents.md'"

    def test_the_context_of_a_manifest_that_cannot_be_read(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        team = Team(tmp_path, capsys)
        team.write("manifests/context.yaml", "sdaqf: 1\nspecification:\n")
        assert "\nNext: sdaqf status 'context.a b'\n" in team.sdaqf("render", "context.a b").out


class TestAWordThatWasMeant:
    """What is mistyped, or stands in another's place, is answered with what was probably meant."""

    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("chek", "argument COMMAND: 'chek' is none; did you mean check?"),
            ("context qery", "argument STAGE: 'qery' is none; did you mean query?"),
            ("build --until snapshoot", "argument --until: 'snapshoot' is none; did you mean snapshot?"),
            ("check --format marckdown", "argument --format: 'marckdown' is none; did you mean markdown?"),
            ("render x --clearance x", "argument --clearance: 'x' is none; there are: public, repository-private, owner-private"),
        ],
    )
    def test_of_a_command_or_a_choice(self, line: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
        ran = in_process(*line.split(), capsys=capsys)
        assert (ran.code, ran.err.splitlines()[1]) == (2, f"  {told}")

    @pytest.mark.parametrize("given", [RETRIES, "docs/spec.md", f"{RETRIES}:1-2", "src/new one.py"])
    def test_of_a_source_in_place_of_a_context(self, given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        ran = Team(tmp_path, capsys).sdaqf("explain", given)
        told = [f"  {given!r} is a source, not a context", f"  Say: sdaqf explain context {shlex.quote(given)}   (unknown-name)"]
        assert (ran.code, ran.err.splitlines()[1:]) == (1, told)

    def test_of_a_path_that_nothing_names_and_of_another_name(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        team = Team(tmp_path, capsys)
        assert "  Say: sdaqf explain NAME lib/a.md   (unknown-name)\n" in team.sdaqf("explain", "lib/a.md").err
        assert "there is no manifest 'contxt'; did you mean context?" in team.sdaqf("explain", "contxt").err
