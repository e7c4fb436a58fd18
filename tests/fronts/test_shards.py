"""`sdaqf shard`: every command in words and as JSON, what each refuses, and that a refusal changes nothing (ABSTRACTIONS 1.2 and 9)."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.flow.project import Project, Settings
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.fronts import shards
from sdaqf_tasks.fronts.shell import completions, past, status_line
from sdaqf_tasks.shards.records import Front
from sdaqf_tasks.shards.records import shard as shard_of
from tests import repositories
from tests.fronts.run import SDAQF, Ran, program

Sdaqf = Callable[..., Ran]

LOOP = """\
    for {0} in range(MAX_ATTEMPTS):
        try:
            return {1}({0})
        except Timeout:
            sleep(delay({0}))
"""
FILES = {
    "src/a.py": "def fetch(url):\n" + LOOP.format("attempt", "get"),
    "src/b.py": "def store(key):\n" + LOOP.format("n", "put"),
    "README.md": "# It\n",
}
DISTIL = ("shard", "distil", "guard", "tier:convention", "region:src/a.py:1-6", "region:src/b.py:1-6")
SIGIL = "/commit_abstractions guard tier:convention region:src/a.py:1-6 region:src/b.py:1-6"


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repositories.make(tmp_path / "project", FILES)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


@pytest.fixture
def shard(top: Path, sdaqf: Sdaqf) -> Path:
    assert sdaqf("shard", "init").code == 0
    return top


@pytest.fixture
def live(shard: Path, sdaqf: Sdaqf) -> Path:
    assert sdaqf("shard", "run", "begin scratch", SIGIL, "commit").code == 0
    return shard


def head(top: Path, which: str = "project/default") -> str:
    return (top / ".sdaqf/shards" / which / "HEAD").read_text()


def test_without_a_shard_every_command_says_how_to_make_one(top: Path, sdaqf: Sdaqf) -> None:
    for command, arguments in shards.TABLE:
        needed = {
            "concepts": ["x"],
            "concept": ["x"],
            "specs": ["y"],
            "files": ["README.md"],
            "paths": ["README.md"],
            "words": ["adopt", "core:x"],
        } | {"commands": ["begin scratch"]}
        given = [word for name, _ in arguments for word in needed.get(name, [])]
        if command.name not in ("init", "list"):
            ran = sdaqf("shard", command.name, *given, "--json")
            assert (command.name, ran.code, ran.value["reason"]) == (command.name, 1, "no-shard")
    assert not (top / ".sdaqf/shards").exists()
    assert sdaqf("shard", "list").out == "There is no shard. Make one: sdaqf shard init\n"


def test_init_makes_it_once_and_git_sees_nothing(top: Path, sdaqf: Sdaqf) -> None:
    assert sdaqf("shard", "init").out == "project:default is created (a shard of this work tree, not of git)\nNext: sdaqf shard begin\n"
    before = head(top)
    ran = sdaqf("shard", "init", "--json")
    assert (ran.code, ran.value["reason"], head(top)) == (1, "shard-exists", before)
    assert subprocess.run(["git", "status", "--porcelain"], cwd=top, capture_output=True, check=True).stdout == b""


@pytest.mark.parametrize(
    ("option", "variable", "settings", "expected"),
    [
        (None, None, None, "project:default"),
        (None, None, "project:ours", "project:ours"),
        (None, "project:env", "project:ours", "project:env"),
        ("core", "project:env", "project:ours", "core"),
    ],
)
def test_which_shard_is_mounted_sh_3(
    option: str | None,
    variable: str | None,
    settings: str | None,
    expected: str,
    top: Path,
    sdaqf: Sdaqf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if settings:
        (top / "sdaqf.toml").write_text(f'shard = "{settings}"\n')
    if variable:
        monkeypatch.setenv("SDAQF_SHARD", variable)
    ran = sdaqf("shard", "init", *(["--shard", option] if option else []))
    assert ran.out.startswith(f"{expected} is created")


@pytest.mark.parametrize("name", ["", "other", "project", "project:", "project:a..b", "project:A", "project:" + "a" * 65, "core:x", "../x"])
def test_a_name_that_is_no_shard_is_refused_and_never_rewritten_sh_2(name: str, top: Path, sdaqf: Sdaqf) -> None:
    ran = sdaqf("shard", "init", f"--shard={name}", "--json")
    if name == "":
        assert ran.code == 0  # an empty option says nothing
        return
    assert (ran.code, ran.value["reason"]) == (1, "InvalidShard")
    assert not (top / ".sdaqf").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["publish", "b", "--to", "/home/me/records"],
        ["publish", "b", "--to=/home/me/records"],
        ["distil", "q", "region:/home/me/a.py:1-2", "region:/home/me/b.py:1-2"],
        ["run", "/distill_abstraction q from region:/home/me/a.py:1-2 region:/home/me/b.py:1-2"],
        ["run", "/commit_abstractionz region:/home/me/a.py:1-2"],
        ["merge", "adopt", "core:/home/me"],
        ["show", "/home/me/b"],
        ["import", "/home/me/b.json"],
        ["lookup", "/home/me/b.py"],
    ],
)
@pytest.mark.parametrize("json", [[], ["--json"]], ids=["words", "json"])
def test_no_absolute_path_of_a_command_line_is_repeated(words: list[str], json: list[str], shard: Path, sdaqf: Sdaqf) -> None:
    sdaqf("shard", "begin")
    ran = sdaqf("shard", *words, *json)
    assert (ran.code, "/home" in ran.out + ran.err) == (1, False)
    if words[0] == "run" and not json:
        assert " commit_abstractions" not in ran.err


class TestWords:
    def test_a_session_from_begin_to_commit(self, shard: Path, sdaqf: Sdaqf) -> None:
        assert sdaqf("shard", "begin").code == 0
        staged = sdaqf(*DISTIL, "--statement", 'It is "so".')
        assert (
            staged.out.splitlines()[0]
            == "staged in project:default: guard · convention · project; 2 of 2 examples agree, ready for convention"
        )
        review = sdaqf("shard", "review").out
        assert '"It is "so"."        (said by: the command line)' in review
        assert "guard   new · convention · project · active" in review
        assert "2 of 2 examples agree, ready for convention: src/a.py:1-6 · src/b.py:1-6" in review
        assert sdaqf("shard", "status").out.splitlines()[1] == "a session is open: 1 staged, 0 exploratory: guard"
        assert (
            sdaqf("shard", "commit").out
            == "committed to project:default (the shard, not git), revision 1: +guard v1\nNext: sdaqf shard publish guard\n"
        )
        assert "guard  v1 · convention · project · active" in sdaqf("shard", "list").out

    def test_drop_and_discard(self, shard: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "begin")
        sdaqf(*DISTIL)
        assert sdaqf("shard", "drop", "guard").out == "guard is no longer staged in project:default\n"
        sdaqf(*DISTIL)
        assert sdaqf("shard", "discard").out == "discarded in project:default: guard\n"
        assert sdaqf("shard", "status", "--json").value["records"] == 0

    def test_snapshot_and_revert(self, live: Path, sdaqf: Sdaqf) -> None:
        assert sdaqf("shard", "snapshot").code == 0
        first = sdaqf("shard", "log", "--json").value["events"]
        sdaqf("shard", "run", "begin scratch", "/prune_abstractions stale guard", "commit")
        assert "stale" in sdaqf("shard", "list").out
        assert sdaqf("shard", "revert").out == "project:default is back at revision 1\n"
        assert "active" in sdaqf("shard", "list").out
        commit = next(event["state"] for event in first if event["event"] == "commit")
        assert sdaqf("shard", "revert", "--to", commit).code == 0
        assert sdaqf("shard", "revert", "--to", commit[12:24].lower()).code == 0
        assert sdaqf("shard", "revert", "--to", commit[12:17], "--json").value["reason"] == "StateNotFound"
        ran = sdaqf("shard", "revert", "--to", "SHARD-STATE-" + "0" * 64, "--json")
        assert (ran.code, ran.value["reason"]) == (1, "StateNotFound")

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("commit",), "ScratchNotActive"),
            (("discard",), "ScratchNotActive"),
            (("drop", "guard"), "ScratchNotActive"),
            (("accept", "guard"), "ScratchNotActive"),
            (DISTIL[1:], "ScratchNotActive"),
            (("merge", "adopt", "core:x"), "ScratchNotActive"),
            (("reuse", "adopt", "core:x"), "ScratchNotActive"),
            (("prune", "stale", "guard"), "ScratchNotActive"),
            (("refresh", "guard"), "ScratchNotActive"),
            (("revert",), "SnapshotMissing"),
            (("show", "no"), "AbstractionSourceNotFound"),
            (("publish", "no"), "AbstractionSourceNotFound"),
            (("run", "begin"), "InvalidAbstractionCommand"),
        ],
        ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
    )
    def test_while_idle_these_are_refused_and_nothing_changes(self, words: tuple[str, ...], reason: str, live: Path, sdaqf: Sdaqf) -> None:
        before = head(live)
        ran = sdaqf("shard", *words, "--json")
        assert (ran.code, ran.value["reason"], head(live)) == (1, reason, before)
        assert set(ran.value) == {"error", "message", "operation", "reason", "where"}
        human = sdaqf("shard", *words)
        assert (human.code, human.out, len(human.err.splitlines())) == (1, "", 3)

    @pytest.mark.parametrize("word", ["begin", "snapshot", "revert"])
    def test_while_a_session_is_active_these_are(self, word: str, live: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "begin")
        before = head(live)
        ran = sdaqf("shard", word, "--json")
        assert ran.value["reason"] == ("ScratchAlreadyActive" if word == "begin" else "ScratchSessionActive")
        assert (ran.code, head(live)) == (1, before)

    def test_a_list_is_all_or_nothing(self, shard: Path, sdaqf: Sdaqf) -> None:
        before = head(shard)
        ran = sdaqf("shard", "run", "begin scratch", SIGIL, "drop other", "commit", "--json")
        assert (ran.code, ran.value["reason"], head(shard)) == (1, "AbstractionSourceNotFound", before)

    def test_expectations_sh_8(self, live: Path, sdaqf: Sdaqf) -> None:
        state = sdaqf("shard", "status", "--json").value["state"]
        session = sdaqf("shard", "begin", "--expect", state, "--json").value["session"]
        assert sdaqf("shard", "refresh", "guard", "--expect", state, "--json").value["reason"] == "StateChanged"
        assert sdaqf("shard", "refresh", "guard", "--session", "SHARD-STATE-" + "0" * 64, "--json").value["reason"] == "SessionChanged"
        assert sdaqf("shard", "refresh", "guard", "--session", session).code == 0
        assert sdaqf("shard", "commit", "--session", session).code == 0


class TestPerson:
    """Only a person at a terminal accepts a record."""

    def test_without_a_terminal_nobody_is_there(self, live: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "begin")
        before = head(live)
        for words in (("accept", "guard"), ("run", "accept guard")):
            ran = sdaqf("shard", *words, "--json")
            assert (ran.code, ran.value["reason"], head(live)) == (1, "NeedsAPerson", before)

    def test_at_a_terminal_an_agents_record_becomes_the_shards_own(self, shard: Path, sdaqf: Sdaqf) -> None:
        staged_by_an_agent(shard)
        assert "guard   new · convention · exploratory" in sdaqf("shard", "review").out
        assert "(said by: an agent, untrusted)" in sdaqf("shard", "review").out
        code, said = at_terminal(shard, "shard", "accept", "guard")
        assert (code, "staged in project:default: guard · convention · project" in said) == (0, True)
        assert "1 staged, 1 accepted" in sdaqf("shard", "review").out
        assert sdaqf("shard", "commit").out.count("exploratory") == 0

    def test_what_is_accepted_is_what_was_reviewed(self, shard: Path, sdaqf: Sdaqf) -> None:
        staged_by_an_agent(shard)
        [line] = [line for line in sdaqf("shard", "review").out.splitlines() if "--expect" in line]
        command = line.partition(": sdaqf ")[2].split()
        bench = Workbench(Project.find(shard), shard_of("project:default"), Front.MCP)
        bench.run([SIGIL.replace("region", 'statement:"Something else." region', 1)])
        before = head(shard)
        code, said = at_terminal(shard, *command)
        assert (code, "StateChanged" in said, head(shard)) == (1, True, before)
        [line] = [line for line in sdaqf("shard", "review").out.splitlines() if "--expect" in line]
        assert at_terminal(shard, *line.partition(": sdaqf ")[2].split())[0] == 0

    def test_a_commit_says_what_stays_exploratory(self, shard: Path, sdaqf: Sdaqf) -> None:
        staged_by_an_agent(shard)
        assert sdaqf("shard", "commit").out.splitlines()[-1] == "1 stay exploratory until somebody accepts them: guard"


def staged_by_an_agent(top: Path) -> None:
    bench = Workbench(Project.find(top), shard_of("project:default"), Front.MCP)
    bench.run(["begin scratch", SIGIL.replace("region", 'statement:"It is so." region', 1)])


class TestLooking:
    def test_show_quotes_what_stands_and_diff_says_what_does_not(self, live: Path, sdaqf: Sdaqf) -> None:
        shown = sdaqf("shard", "show", "guard").out
        assert "    | def fetch(url):" in shown
        assert "src/b.py:1-6\n" in shown
        (live / "src/b.py").write_text(FILES["src/b.py"].replace("n)", "m)"))
        assert "src/b.py:1-6   reads differently now: sdaqf shard show guard --diff" in sdaqf("shard", "show", "guard").out
        diff = sdaqf("shard", "show", "guard", "--diff").out
        assert "-            return put(n)" in diff
        assert "+            return put(m)" in diff
        assert "1 of 2 examples agree" in review_of_a_refresh(sdaqf)

    def test_lookup_in_words_and_as_json(self, live: Path, sdaqf: Sdaqf) -> None:
        ran = sdaqf("shard", "lookup", "src/a.py", "--token", "max_attempts", "--hint", "impact")
        assert ran.out.splitlines()[1].startswith("  guard  usable · convention · project · active · local · score ")
        [reference] = sdaqf("shard", "lookup", "src/a.py", "--json").value["references"]
        assert (reference["concept_id"], reference["usable"], reference["drifted"]) == ("guard", True, False)
        assert sdaqf("shard", "lookup", "src/b.py", "--token", "no", "--json").value["references"][0]["counts"]["tokens"] == 0
        assert sdaqf("shard", "lookup", "no.py", "--json").value["reason"] == "SourceNotFound"
        assert sdaqf("shard", "lookup", "--json").code == 2

    def test_log_is_newest_first_and_bounded(self, live: Path, sdaqf: Sdaqf) -> None:
        events = sdaqf("shard", "log", "--json").value["events"]
        assert [event["event"].split()[0] for event in events] == ["commit", "/commit_abstractions", "begin", "init"]
        assert len(sdaqf("shard", "log", "--limit", "2", "--json").value["events"]) == 2

    def test_fsck_gc_and_verify(self, live: Path, sdaqf: Sdaqf) -> None:
        assert sdaqf("shard", "verify").out == "project:default: 4 of 4 events replayed, 0 not replayable\n"
        assert sdaqf("shard", "fsck").out.splitlines()[0] == "project:default: 16 objects, 0 defects"
        assert sdaqf("shard", "gc").out == "0 objects removed, 0.0 MiB\n"
        next((live / ".sdaqf/shards/project/default/objects").glob("SHARD-BUCKET-*")).write_bytes(b"{}")
        ran = sdaqf("shard", "fsck", "--json")
        assert (ran.code, [defect["code"] for defect in ran.value["defects"]]) == (1, ["tampered"])
        assert sdaqf("shard", "list", "--json").value["reason"] == "tampered"


def review_of_a_refresh(sdaqf: Sdaqf) -> str:
    sdaqf("shard", "run", "begin scratch", "/prune_abstractions refresh guard")
    return sdaqf("shard", "review").out


class TestTwoShards:
    @pytest.fixture
    def core(self, live: Path, sdaqf: Sdaqf) -> Path:
        sdaqf("shard", "init", "--shard", "core")
        ran = sdaqf("shard", "run", "begin scratch", "/merge_abstractions promote project:default:guard", "commit", "--shard", "core")
        assert "project:default:guard v1 is staged as guard · promoted in core" in ran.out
        return live

    def test_merge_and_reuse(self, core: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "init", "--shard", "project:other")
        sdaqf("shard", "begin", "--shard", "project:other")
        assert (
            sdaqf("shard", "reuse", "adopt", "core:guard", "--shard", "project:other").out == "staged in project:other: adopt core:guard\n"
        )
        ran = sdaqf("shard", "merge", "adopt", "core:guard", "as:ours", "--shard", "project:other")
        assert ran.out == "core:core:guard v1 is staged as ours · promoted in project:other\n"
        assert "core:guard: adopt" in sdaqf("shard", "review", "--shard", "project:other").out
        sdaqf("shard", "commit", "--shard", "project:other")
        assert "core:guard  adopt" in sdaqf("shard", "list", "--shard", "project:other").out

    def test_keep_local_is_promote_in_the_grammar(self, core: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "begin")
        assert sdaqf("shard", "reuse", "keep-local", "core:guard", "local:guard").code == 0
        event = sdaqf("shard", "log", "--json").value["events"][0]["event"]
        assert event == "/reuse_abstractions promote core:guard local:guard"
        assert sdaqf("shard", "reuse", "withdraw", "core:guard").code == 0

    def test_core_has_no_reuse_decisions(self, core: Path, sdaqf: Sdaqf) -> None:
        sdaqf("shard", "begin", "--shard", "core")
        ran = sdaqf("shard", "reuse", "adopt", "core:guard", "--shard", "core", "--json")
        assert ran.value["reason"] == "CrossShardReuseRequiresProjectShard"


class TestFiles:
    def test_publish_says_what_it_did(self, live: Path, sdaqf: Sdaqf) -> None:
        first = sdaqf("shard", "publish", "guard").out
        assert first == "wrote abstractions/guard.json   commit it: colleagues and CI read this file, not your shard\n"
        assert sdaqf("shard", "publish", "guard").out == "same abstractions/guard.json\n"
        sdaqf("shard", "run", "begin scratch", "/prune_abstractions stale guard", "commit")
        replaced = sdaqf("shard", "publish", "guard").out.splitlines()
        assert 'abstractions/guard.json: decay_state: "active" → "stale"' in replaced[:-1]  # shown before it is written
        assert replaced[-1].startswith("replaced abstractions/guard.json   commit it")

    def test_import_into_another_project(self, live: Path, tmp_path: Path, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        sdaqf("shard", "publish", "guard")
        repositories.make(tmp_path / "other", {"README.md": "# Other\n"})
        monkeypatch.chdir(tmp_path / "other")
        sdaqf("shard", "init")
        sdaqf("shard", "begin")
        path = live / "abstractions/guard.json"
        assert sdaqf("shard", "import", path, "--expect", "0" * 64, "--json").value["reason"] == "StateChanged"
        assert sdaqf("shard", "import", path).out.splitlines()[0] == "staged in project:default: guard"
        assert str(live) not in "".join(each.read_text() for each in (tmp_path / "other/.sdaqf/shards/project/default/objects").iterdir())
        [staged] = sdaqf("shard", "review", "--json").value["staged"]
        assert (staged["said_by"], staged["accepted"]) == ("an imported file", False)
        value = json.loads(path.read_bytes())
        value["record"]["quality_score"] += 1
        (tmp_path / "bad.json").write_text(json.dumps(value))
        before = head(tmp_path / "other")
        ran = sdaqf("shard", "import", tmp_path / "bad.json", "--json")
        assert (ran.code, ran.value["where"], head(tmp_path / "other")) == (1, "bad.json/quality_score", before)


def test_every_answer_is_json(live: Path, sdaqf: Sdaqf) -> None:
    """Also of what is not understood."""
    for words in (["list"], ["status"], ["review"], ["log"], ["show", "guard"], ["lookup", "src/a.py"], ["fsck"], ["verify"], ["gc"]):
        ran = sdaqf("shard", *words, "--json")
        assert ran.code == 0
        if words != ["gc"]:
            assert ran.value["shard"] == {"kind": "project", "id": "default"}
    for words in (["begin"], ["refresh", "guard"], ["prune", "protect", "guard"], ["commit"], ["snapshot"], ["revert"]):
        ran = sdaqf("shard", *words, "--json")
        assert ran.value["status"] == "ok"
        assert set(ran.value["snapshots"]) == {"scratchActive", "committed", "snapshot"}
    for words in ([], ["no"], ["drop"], ["distil", "x"], ["log", "--limit", "x"], ["commit", "extra"]):
        ran = sdaqf("shard", *words, "--json")
        assert (ran.code, ran.value["error"]) == (2, "usage")


# ---- the shell ------------------------------------------------------------------------------------------------------


class TestShell:
    def test_lines_from_a_pipe_stop_at_the_first_refusal(self, live: Path) -> None:
        ran = piped(live, "status\nbegin scratch\n/prune_abstractions stale guard\nreview\naccept guard\ncommit\n")
        assert ran.code == 1
        assert "a session is open · 1 staged, 0 accepted" in ran.out
        assert "only a person at a terminal accepts a record" in ran.err
        assert "committed" not in ran.out

    def test_a_session_that_was_left_is_told(self, live: Path) -> None:
        piped(live, "begin scratch\n/prune_abstractions stale guard\n")
        assert piped(live, "exit\n").out.splitlines()[1] == "A session was left active, with 1 staged: review, then commit or discard."

    @pytest.mark.parametrize("line", ["nothing", "show", "show a b c", "log --limit x", "list --help", "'", "show 'a", "\x00", "/", "drop"])
    def test_a_line_that_is_not_understood_is_refused_calmly(self, line: str, live: Path) -> None:
        before = head(live)
        ran = piped(live, f"{line}\n")
        assert (ran.code, head(live)) == (1, before)
        assert "Traceback" not in ran.err

    def test_help_and_looking(self, live: Path) -> None:
        ran = piped(live, "help\nlist\nshow guard\nlog --limit 1\nlookup src/a.py\nverify\nfsck\n")
        assert (ran.code, ran.err) == (0, "")
        assert "/merge_abstractions" in ran.out

    def test_at_a_terminal_a_person_accepts_and_a_refusal_ends_nothing(self, shard: Path) -> None:
        staged_by_an_agent(shard)
        code, said = at_terminal(shard, "shell", lines=["nothing", "accept guard", "commit", "exit"])
        assert code == 0
        assert "not a command" in said
        assert "committed to project:default" in said
        assert head(shard) != ""

    def test_words_and_concepts_are_completed(self, live: Path) -> None:
        bench = Workbench(Project.find(live), shard_of("project:default"), Front.SHELL)
        assert completions(bench, "comm") == ["commit"]
        assert completions(bench, "/mer") == ["/merge_abstractions"]
        assert completions(bench, "drop gu") == ["guard"]
        assert completions(bench, "/prune_abstractions pro") == ["protect"]
        assert completions(bench, "drop no") == []

    def test_a_damaged_shard_completes_nothing(self, live: Path) -> None:
        bench = Workbench(Project.find(live), shard_of("project:default"), Front.SHELL)
        (live / ".sdaqf/shards/project/default/HEAD").write_text("x")
        assert completions(bench, "drop g") == []

    def test_what_is_not_utf_8_is_refused(self, live: Path) -> None:
        strict = os.environ | {"PYTHONIOENCODING": "utf-8:strict"}
        ended = subprocess.run(
            [SDAQF, "shell"], cwd=live, input=b"status\n\xff\n", env=strict, capture_output=True, check=False, timeout=60
        )
        assert (ended.returncode, b"Traceback" in ended.stderr, b"(not-utf8)" in ended.stderr) == (1, False, True)

    def test_the_history_is_the_shards_own(self, live: Path) -> None:
        bench = Workbench(Project.find(live), shard_of("project:default"), Front.SHELL)
        assert [line.split()[0] for line in past(bench)] == ["begin", "/commit_abstractions", "commit"]
        assert status_line(bench) == " project:default · revision 1 · no session"


def piped(top: Path, text: str) -> Ran:
    ended = subprocess.run([SDAQF, "shell"], cwd=top, input=text.encode(), capture_output=True, check=False, timeout=60)
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def at_terminal(top: Path, *arguments: str, lines: Sequence[str] = ()) -> tuple[int, str]:
    """Run the program before a terminal, and type lines when it asks. Its exit code, and all that it wrote."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(top)
        os.environ["TERM"] = "xterm"
        os.execv(SDAQF, [str(SDAQF), *arguments])
    said, waiting, asked = b"", list(lines), 0
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is gone
            break
        said += piece
        if b"\x1b[6n" in piece:  # where is the cursor?
            os.write(terminal, b"\x1b[1;1R")
        if waiting and said.count(b"\x1b[6n") > asked:
            asked = said.count(b"\x1b[6n")
            os.write(terminal, waiting.pop(0).encode() + b"\r")
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said.decode()


def test_the_installed_program_has_them(shard: Path) -> None:
    assert program("shard", "status", cwd=shard).out.startswith("project:default · revision 0")


@pytest.mark.parametrize("number", ["-1", "0", "1001", "9" * 20, "x", "", "1e3", "٣"])
@pytest.mark.parametrize("command", [("log",), ("lookup", "src/a.py")])
def test_a_limit_is_a_number_from_1_to_1000(live: Path, sdaqf: Sdaqf, command: Sequence[str], number: str) -> None:
    ran = sdaqf("shard", *command, f"--limit={number}")
    assert (ran.code, "write a number from 1 to 1000" in ran.err) == (2, True)


@pytest.mark.parametrize("number", ["1", "1000"])
def test_limits_that_are(live: Path, sdaqf: Sdaqf, number: str) -> None:
    assert sdaqf("shard", "log", "--limit", number).code == sdaqf("shard", "lookup", "src/a.py", "--limit", number).code == 0


def test_a_log_that_is_cut_says_so(live: Path, sdaqf: Sdaqf) -> None:
    more = "There is more: --limit N tells up to 1000"
    assert sdaqf("shard", "log", "--limit", "3").out.splitlines()[-1] == more
    assert more not in sdaqf("shard", "log", "--limit", "4").out


def test_what_is_wrong_with_a_source_is_named(shard: Path, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
    def distil(spec: str) -> tuple[str, str]:
        value = sdaqf("shard", "distil", "guard", spec, "region:src/b.py:1-6", "--json").value
        return value["reason"], value["where"]

    assert sdaqf("shard", "begin").code == 0
    assert "not portable" in sdaqf("shard", "distil", "guard", "region:src/nul.py:1-2").err
    assert distil("region:src/gone.py:1-6") == ("SourceNotFound", "src/gone.py")
    (shard / "src/link.py").symlink_to("a.py")
    assert distil("region:src/link.py:1-6") == ("SourceUnreadable", "src/link.py")

    def closed(*given: object) -> bytes:
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "closed to us") from PermissionError()

    monkeypatch.setattr(Root, "read", closed)
    monkeypatch.setattr(Project, "settings", Settings())
    ran = sdaqf("shard", "distil", "guard", "region:src/a.py:1-6", "region:src/b.py:1-6")
    assert "See to its permissions.   (SourceUnreadable)" in ran.err
