"""The command line: what it accepts, what it prints, how it says no, and with which exit code (FORMAT 12, 14, 17.5)."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.fronts import calls, commands
from tests import repositories
from tests.disk.worktree import everything_below
from tests.fronts.project import Made, made
from tests.fronts.run import Ran

Sdaqf = Callable[..., Ran]
LIMIT = 16_777_216


def leaves() -> Iterator[argparse.ArgumentParser]:
    """Every parser that runs something."""
    waiting = [commands.parser()]
    while waiting:
        parser = waiting.pop()
        inner = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not inner:
            yield parser
        for action in inner:
            waiting += action.choices.values()


COMMANDS = sorted(parser.prog for parser in leaves())


def world(project: Made) -> tuple[str, str]:
    return "--repository-root", str(project.tree.path)


class TestHelp:
    """Every command teaches: its usage, and an example that is a command line."""

    def test_there_are_these_commands(self) -> None:
        assert [c for c in COMMANDS if c.startswith("sdaqf context ")] == [
            *("sdaqf context candidate", "sdaqf context compact", "sdaqf context compare", "sdaqf context index", "sdaqf context manifest"),
            *("sdaqf context quality", "sdaqf context query", "sdaqf context render", "sdaqf context select", "sdaqf context snapshot"),
            "sdaqf context validate",
        ]
        assert {"sdaqf build", "sdaqf gc", "sdaqf schema", "sdaqf status"} <= {*COMMANDS}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_its_example_is_a_command_line_of_it(self, command: str, sdaqf: Sdaqf) -> None:
        ran = sdaqf(*command.split()[1:], "--help")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"usage: {command} ")
        example = re.search(r"Example: (sdaqf .*)\Z", ran.out, re.DOTALL)
        assert example
        assert commands.parse(shlex.split(example[1])[1:]).program == command

    @pytest.mark.parametrize("words", [(), ("context",)])
    def test_a_group_lists_what_is_in_it(self, words: tuple[str, ...], sdaqf: Sdaqf) -> None:
        ran = sdaqf(*words, "--help")
        prefix = " ".join(["sdaqf", *words])
        assert ran.code == 0
        assert {c.split()[1 + len(words)] for c in COMMANDS if c.startswith(prefix)} <= {*re.findall(r"^ {4}(\w+)", ran.out, re.MULTILINE)}
        assert "Example: sdaqf " in ran.out

    def test_the_version_is_one_line(self, sdaqf: Sdaqf) -> None:
        assert re.fullmatch(r"sdaqf \d+\.\d+\.\d+\n", sdaqf("--version").out)


class TestGrammar:
    """Options may appear before or after positionals; unambiguous prefixes of long options are accepted."""

    @pytest.mark.parametrize("order", ["{o} {g} {s}", "{g} {o} {s}", "{g} {s} {o}", "--json {g} {o} {s}"])
    def test_options_stand_anywhere(self, order: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        options = f"--repository-root {project.tree.path} --output {tmp_path / 'new.json'}"
        line = order.format(o=options, g=project["graph"], s=project["selection-all"])
        assert sdaqf("context", "snapshot", *line.split()).code == 0
        assert (tmp_path / "new.json").read_bytes() == project["snapshot-all"].read_bytes()

    @pytest.mark.parametrize("prefixes", ["--out --repo", "--ou --r", "--output --repository-root"])
    def test_prefixes_will_do(self, prefixes: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        out, repo = prefixes.split()
        assert sdaqf("context", "index", project["manifest"], repo, project.tree.path, f"{out}={tmp_path / 'g.json'}").code == 0

    def test_an_ambiguous_prefix_is_not_understood(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "index", project["manifest"], *world(project), "--o", tmp_path / "g.json")
        assert (ran.code, ran.out) == (2, "")
        assert "--output" in ran.err and "--owner-root" in ran.err

    def test_behind_two_hyphens_all_are_files(self, project: Made, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "-x.json").write_bytes(project["graph"].read_bytes())
        assert sdaqf("context", "validate", "--", "-x.json").code == 0
        ran = sdaqf("context", "validate", "--", "--json")
        assert (ran.code, ran.out) == (1, "")

    def test_relative_paths_begin_in_the_working_directory(
        self, project: Made, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project.tree.path)
        out = os.path.relpath(tmp_path / "m.json")
        assert sdaqf("context", "manifest", "manifests/context.yaml", "--repo", ".", "--out", out).code == 0
        assert (tmp_path / "m.json").read_bytes() == project["manifest"].read_bytes()


class TestResults:
    """FORMAT 12.2, to the letter."""

    def test_validate(self, project: Made, sdaqf: Sdaqf) -> None:
        artifact_id = json.loads(project["graph"].read_bytes())["artifact_id"]
        assert sdaqf("context", "validate", project["graph"]) == Ran(
            0, f"artifact_type: context-graph\nartifact_id: {artifact_id}\nvalid: True\n", ""
        )
        assert sdaqf("context", "validate", project["graph"], "--json").out == (
            f'{{\n  "artifact_id": "{artifact_id}",\n  "artifact_type": "context-graph",\n  "valid": true\n}}\n'
        )

    def test_a_publishing_command(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        artifact_id = json.loads(project["selection-all"].read_bytes())["artifact_id"]
        command = ("context", "select", project["graph"], project["query-all"], "--output")
        assert sdaqf(*command, tmp_path / "one.json") == Ran(
            0, f"artifact_type: context-selection\nartifact_id: {artifact_id}\noutput: one.json\n", ""
        )
        assert sdaqf(*command, tmp_path / "other.JSON", "--json").out == (
            f'{{\n  "artifact_id": "{artifact_id}",\n  "artifact_type": "context-selection",\n  "output": "other.JSON"\n}}\n'
        )

    def test_compare(self, project: Made, sdaqf: Sdaqf) -> None:
        base, current = (json.loads(project[f"snapshot-{name}"].read_bytes()) for name in ("default", "all"))
        (added,) = {node["node_id"] for node in current["content"]["nodes"]} - {node["node_id"] for node in base["content"]["nodes"]}
        command = ("context", "compare", project["snapshot-default"], project["snapshot-all"])
        assert sdaqf(*command) == Ran(
            0,
            f"base_snapshot_id: {base['artifact_id']}\ncurrent_snapshot_id: {current['artifact_id']}\n"
            f"added_node_ids: ['{added}']\nremoved_node_ids: []\nadded_edge_ids: []\nremoved_edge_ids: []\n"
            "sensitivity_changed: False\ncandidate_changed: False\n",
            "",
        )
        assert sdaqf(*command, "--json").out == (
            f'{{\n  "added_edge_ids": [],\n  "added_node_ids": [\n    "{added}"\n  ],\n'
            f'  "base_snapshot_id": "{base["artifact_id"]}",\n  "candidate_changed": false,\n'
            f'  "current_snapshot_id": "{current["artifact_id"]}",\n'
            '  "removed_edge_ids": [],\n  "removed_node_ids": [],\n  "sensitivity_changed": false\n}\n'
        )

    def test_what_is_not_ascii_is_escaped_in_json_and_shown_to_people(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        command = ("context", "select", project["graph"], project["query-all"], "--output")
        assert sdaqf(*command, tmp_path / "é.json").out.endswith("output: é.json\n")
        assert '"output": "\\u00e9\\u00e9.json"' in sdaqf(*command, tmp_path / "éé.json", "--json").out

    @pytest.mark.parametrize("name", ["a\x1b[31mb.json", "a\nvalid: True.json", "a\u202eb.json"])
    def test_a_name_does_not_move_the_terminal(self, name: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        output = tmp_path / name
        ran = sdaqf("context", "select", project["graph"], project["query-all"], "--output", output)
        assert (ran.code, ran.out.splitlines()[2:]) == (0, [f"output: {ascii(name)[1:-1]}"])
        assert sdaqf("context", "validate", output, "--json").value["valid"]


USAGE = {
    "no command": "",
    "no stage": "context",
    "an unknown command": "bulid",
    "an unknown stage": "context sellect",
    "an unknown option": "context validate x.json --jsno",
    "too many files": "context validate x.json y.json",
    "no output": "context select g.json q.json",
    "no root": "context index m.json --output g.json",
    "a limit that is none": "context candidate --repository-root . --limit files",
    "a limit of no name": "context candidate --repository-root . --limit size=3",
    "a limit of many digits": "context candidate --repository-root . --limit files=" + "9" * 5000,
    "no seconds": "build --wait soon",
    "not a number of seconds": "build --wait nan",
    "negative seconds": "gc --wait=-1",
    "an unknown clearance": "context render s.json c.json --output c.md --clearance secret",
    "an unknown schema": "schema context-novel",
    "a stage that is none": "build --until end",
    "no value, where argparse makes a list of it": "check --base=--",
    "no value in a list": "lock --only=--",
    "no value of two parts": "check --output=--",
}


class TestUsage:
    """Exit 2 is for usage: what is wrong and which help to read; under `--json` one object on stdout and nothing else."""

    @pytest.mark.parametrize("line", USAGE.values(), ids=USAGE)
    def test_people_read_three_lines(self, line: str, sdaqf: Sdaqf) -> None:
        ran = sdaqf(*line.split())
        program, why, todo = ran.err.splitlines()
        assert (ran.code, ran.out) == (2, "")
        assert program.endswith(": not understood")
        assert re.fullmatch(r"  \S.*", why)
        assert todo == f"  Try: {program.removesuffix(': not understood')} --help"

    @pytest.mark.parametrize("word", ["--json", "--js", "--j"])
    @pytest.mark.parametrize("line", USAGE.values(), ids=USAGE)
    def test_programs_read_one_object(self, line: str, word: str, sdaqf: Sdaqf) -> None:
        ran = sdaqf(*line.split(), word)
        assert (ran.code, ran.err) == (2, "")
        assert {*ran.value} == {"error", "operation", "reason", "where", "message"}
        assert (ran.value["error"], ran.value["reason"]) == ("usage", "usage")

    def test_the_operation_is_the_command_that_was_understood(self, sdaqf: Sdaqf) -> None:
        assert sdaqf("--json").value["operation"] == ""
        assert sdaqf("context", "--json").value["operation"] == "context"
        assert sdaqf("context", "select", "--json").value["operation"] == "select"

    @pytest.mark.parametrize(
        "line", ["context validate x.json /home/me/y.json", "/home/me/y.json", "build --until /home/me/y.json", "schema /home/me/y.json"]
    )
    def test_no_absolute_path_is_repeated(self, line: str, sdaqf: Sdaqf) -> None:
        ran = sdaqf(*line.split())
        assert ran.code == 2
        assert "y.json" in ran.err and "/home" not in ran.err

    def test_nothing_of_a_command_line_moves_the_terminal(self, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "validate", "x.json", "\x1b[2J\udcff")
        assert ran.code == 2
        assert "\\x1b[2J\\udcff" in ran.err and "\x1b" not in ran.err


class TestRefusals:
    """FORMAT 17.5: exit 1, what, why, what to do; under `--json` one object. No absolute path, no source text."""

    def test_people_read_what_why_and_what_to_do(self, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "validate", tmp_path / "gone.json")
        assert ran == Ran(
            1,
            "",
            "sdaqf context validate: refused\n"
            "  gone.json: the file is missing, a link, not regular, or closed to us\n"
            "  Give a regular file that is no link.   (missing-or-unreadable)\n",
        )

    def test_programs_read_one_object(self, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "validate", tmp_path / "gone.json", "--json")
        assert (ran.code, ran.err) == (1, "")
        assert ran.value == {
            "error": "context-contract-invalid",
            "operation": "validate",
            "reason": "missing-or-unreadable",
            "where": "gone.json",
            "message": "the file is missing, a link, not regular, or closed to us",
        }

    def test_the_member_is_named_and_its_text_is_not_repeated(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        artifact = json.loads(project["graph"].read_bytes())
        artifact["content"]["nodes"][1]["kind"] = "hush-hush"
        place = tmp_path / "graph.json"
        place.write_text(json.dumps(artifact))
        ran = sdaqf("context", "validate", place, "--json")
        assert (ran.code, ran.value["where"]) == (1, "graph.json:content/nodes/1/kind")
        assert "hush" not in ran.out

    @pytest.mark.parametrize("name", ["a\x1b[31mb.json", "a\nb.json"])
    def test_a_name_is_escaped_wherever_it_is_told(self, name: str, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "validate", tmp_path / name)
        assert ran.err.splitlines()[1].startswith(f"  {ascii(name)[1:-1]}: ")
        assert sdaqf("context", "validate", tmp_path / name, "--json").value["where"] == ascii(name)[1:-1]

    def test_a_name_of_a_tree_is_escaped(self, sdaqf: Sdaqf, tmp_path: Path) -> None:
        tree = repositories.make(tmp_path / "r", {"a": "a"})
        nested = tree.path / "x\x1b[31m\ny"
        repositories.make(nested, {"b": "b"})
        ran = sdaqf("context", "candidate", "--repository-root", tree.path)
        assert ran.code == 1
        assert "x\\x1b[31m\\ny" in ran.err and "\x1b" not in ran.err

    @pytest.mark.parametrize(
        "command",
        [
            "index {m} --repository-root {gone} --output {out}",
            "index {m} --repository-root {m} --output {out}",
            "index {m} --repository-root {gone}/../docs --output {out}",
            "index {m} --repository-root {root} --owner-root {gone} --output {out}",
            "index {m} --repository-root {root} --owner-root {root} --output {out}",
            "manifest {gone} --repository-root {root} --output {out}",
            "manifest {gone}/x.yaml --repository-root {root} --output {out}",
            "query {gone} {g} --output {out}",
            "query {yaml} {g} --query nope --output {out}",
            "query {yaml} {g} --repository-root {gone} --output {out}",
            "candidate --repository-root {root} --specification /etc/passwd",
            "candidate --repository-root {root} --specification gone.md",
            "candidate --repository-root {root} --limit files=1",
            "select {g} {m} --output {out}",
            "select {g} {q} --output {m}",
            "select {g} {q} --output {gone}/x.json",
            "compact {s} --repository-root {root} --graph {g} --output {out}",
            "compare {s} {gone}",
        ],
    )
    def test_no_refusal_has_a_path_of_the_machine(self, command: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        line = command.format(
            m=project["manifest"],
            g=project["graph"],
            q=project["query-all"],
            s=project["snapshot-all"],
            root=project.tree.path,
            yaml=project.yaml,
            gone=project.tree.path / "gone",
            out=tmp_path / "out.json",
        )
        before = everything_below(project.tree.path.parent)
        for words in (line.split(), [*line.split(), "--json"]):
            ran = sdaqf("context", *words)
            assert ran.code == 1, ran
            assert "/tmp" not in ran.out + ran.err and str(project.tree.path.parent) not in ran.out + ran.err
            assert "/etc" not in ran.out + ran.err
            assert "Traceback" not in ran.err
        assert {*ran.value} == {"error", "operation", "reason", "where", "message"}
        assert ran.value["operation"] == command.split()[0]
        assert (everything_below(project.tree.path.parent), list(tmp_path.iterdir())) == (before, [])

    def test_a_command_on_a_project_refuses_alike(self, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for command in ("build", "status", "gc"):
            ran = sdaqf(command, "--json")
            assert (ran.code, ran.value["operation"], ran.value["reason"]) == (1, command, "not-a-repository")

    def test_a_working_directory_that_is_gone(self, project: Made, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        for line in (
            "build",
            "context manifest c.yaml --repository-root . --output m.json",
            f"context query c.yaml {project['graph']} --output q.json",
            f"context manifest c.yaml --repository-root {project.tree.path} --output m.json",
            "context validate m.json",
        ):
            ran = sdaqf(*line.split())
            assert (ran.code, ran.out) == (1, ""), ran
            assert len(ran.err.splitlines()) == 3


class TestDefects:
    """Whatever is not a refusal is a defect: it keeps its traceback, and exits with 3."""

    @pytest.fixture(autouse=True)
    def _defect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object) -> None:
            raise OSError(5, "the table is broken", "x")

        monkeypatch.setattr(calls, "validate", broken)

    def test_people_read_the_traceback(self, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "validate", "x.json")
        assert (ran.code, ran.out) == (3, "")
        assert ran.err.startswith("Traceback (most recent call last):\n")
        assert "the table is broken" in ran.err

    def test_programs_read_that_there_is_one(self, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "validate", "x.json", "--json")
        assert (ran.code, ran.value["error"], ran.value["operation"]) == (3, "defect", "validate")
        assert ran.err.startswith("Traceback")

    def test_an_interruption_is_none(self, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(calls, "validate", interrupted)
        assert sdaqf("context", "validate", "x.json") == Ran(130, "", "")


class TestArtifactArguments:
    """FORMAT 12.1: `.json` in any case, no link, a regular file, at most 16 MiB, of the type of its place."""

    @pytest.mark.parametrize("name", ["a.json", "a.JSON", "a.b.Json"])
    def test_the_suffix_in_any_case(self, name: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(project["graph"].read_bytes())
        assert sdaqf("context", "validate", tmp_path / name).code == 0

    @pytest.mark.parametrize("name", ["a", ".json", "a.jsonl", "a.json.txt", "ajson", "a.json~"])
    def test_another_suffix(self, name: str, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / name).write_bytes(project["graph"].read_bytes())
        self.refused(sdaqf("context", "validate", tmp_path / name, "--json"), "contract-invalid", name)

    def test_a_link(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "a.json").symlink_to(project["graph"])
        self.refused(sdaqf("context", "validate", tmp_path / "a.json", "--json"), "missing-or-unreadable", "a.json")

    def test_a_folder_of_it_may_be_a_link(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "folder").symlink_to(project.folder)
        assert sdaqf("context", "validate", tmp_path / "folder" / "graph.json").code == 0

    def test_a_directory(self, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "a.json").mkdir()
        self.refused(sdaqf("context", "validate", tmp_path / "a.json", "--json"), "missing-or-unreadable", "a.json")

    def test_a_fifo_is_not_waited_for(self, sdaqf: Sdaqf, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "a.json")
        self.refused(sdaqf("context", "validate", tmp_path / "a.json", "--json"), "missing-or-unreadable", "a.json")

    def test_the_last_good_size_and_the_first_bad(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        data = project["graph"].read_bytes()
        (tmp_path / "a.json").write_bytes(data + b" " * (LIMIT - len(data)))
        assert sdaqf("context", "validate", tmp_path / "a.json").code == 0
        (tmp_path / "a.json").write_bytes(data + b" " * (LIMIT + 1 - len(data)))
        ran = sdaqf("context", "validate", tmp_path / "a.json", "--json")
        self.refused(ran, "too-large", "a.json")
        assert "16,777,216" in ran.out

    def test_another_type(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "select", project["query-all"], project["graph"], "--output", tmp_path / "s.json", "--json")
        self.refused(ran, "artifact-type", "query-all.json:artifact_type")
        assert not (tmp_path / "s.json").exists()

    @pytest.mark.parametrize(
        ("data", "reason"), [(b"", "malformed-json"), (b"{", "malformed-json"), (b'{"\xff": 1}', "not-utf8"), (b"[]", "contract-invalid")]
    )
    def test_what_is_no_artifact(self, data: bytes, reason: str, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "a.json").write_bytes(data)
        ran = sdaqf("context", "validate", tmp_path / "a.json", "--json")
        assert (ran.code, ran.value["reason"], ran.value["where"].partition(":")[0]) == (1, reason, "a.json")

    def refused(self, ran: Ran, reason: str, where: str) -> None:
        assert (ran.code, ran.value["reason"], ran.value["where"], ran.err) == (1, reason, where, "")


class TestOutputs:
    """FORMAT 14: a new `.json` file in a folder that is there and no link; nothing is overwritten."""

    @pytest.fixture
    def select(self, project: Made, sdaqf: Sdaqf) -> Callable[[Path], Ran]:
        return lambda output: sdaqf("context", "select", project["graph"], project["query-all"], "--output", output, "--json")

    @pytest.mark.parametrize("name", ["s.json", "s.JSON", "..json", "s" * 250 + ".json"])
    def test_a_new_file_is_ours_alone(self, name: str, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        assert select(tmp_path / name).code == 0
        status = (tmp_path / name).stat()
        assert (status.st_mode & 0o777, status.st_nlink) == (0o600, 1)
        assert [place.name for place in tmp_path.iterdir()] == [name]

    @pytest.mark.parametrize("name", ["s", "s.txt", ".json", "s.json.gz", ".."])
    def test_another_suffix(self, name: str, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        self.refused(select(tmp_path / name), "output-invalid", tmp_path)

    def test_what_is_there_stays(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "s.json").write_bytes(b"mine")
        self.refused(select(tmp_path / "s.json"), "output-exists", tmp_path)

    @pytest.mark.parametrize("target", ["gone", "there"])
    def test_a_link_is_something(self, target: str, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "there").write_bytes(b"mine")
        (tmp_path / "s.json").symlink_to(target)
        self.refused(select(tmp_path / "s.json"), "output-exists", tmp_path)

    def test_a_directory_is_something(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "s.json").mkdir()
        self.refused(select(tmp_path / "s.json"), "output-exists", tmp_path)

    def test_a_folder_that_is_missing(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        self.refused(select(tmp_path / "gone" / "s.json"), "output-invalid", tmp_path)

    def test_a_folder_that_is_a_file(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"mine")
        self.refused(select(tmp_path / "file" / "s.json"), "output-invalid", tmp_path)

    def test_a_folder_that_is_a_link(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        self.refused(select(tmp_path / "link" / "s.json"), "output-invalid", tmp_path)

    def test_a_folder_above_may_be_a_link(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        (tmp_path / "real" / "inner").mkdir(parents=True)
        (tmp_path / "link").symlink_to("real")
        assert select(tmp_path / "link" / "inner" / "s.json").code == 0

    def test_a_name_that_is_too_long(self, select: Callable[[Path], Ran], tmp_path: Path) -> None:
        self.refused(select(tmp_path / ("s" * 251 + ".json")), "write-failed", tmp_path)

    def test_a_document_is_a_new_md_file(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        command = ("context", "render", project["snapshot-all"], project["compaction-all"], "--json", "--output")
        self.refused(sdaqf(*command, tmp_path / "c.json"), "output-invalid", tmp_path)
        assert sdaqf(*command, tmp_path / "c.md").code == 0
        assert ((tmp_path / "c.md").stat().st_mode & 0o777, (tmp_path / "c.md").stat().st_nlink) == (0o600, 1)
        assert sdaqf(*command, tmp_path / "c.md").value["reason"] == "output-exists"

    @pytest.mark.parametrize("stage", [stage for stage in commands.STAGES if stage.output.endswith(".json")], ids=lambda stage: stage.name)
    def test_no_command_overwrites(self, stage: commands.Stage, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        names = {"manifest": "manifest", "graph": "graph"}
        files = [project.yaml if name == "yaml" else project[names.get(name, f"{name}-all")] for name in stage.takes]
        roots = world(project) if stage.world else ()
        (tmp_path / "x.json").write_bytes(b"mine")
        self.refused(sdaqf("context", stage.name, *files, *roots, "--output", tmp_path / "x.json", "--json"), "output-exists", tmp_path)

    def refused(self, ran: Ran, reason: str, folder: Path) -> None:
        assert (ran.code, ran.value["reason"], ran.err) == (1, reason, "")
        assert str(folder) not in ran.out
        assert all(place.read_bytes() == b"mine" for place in folder.rglob("*") if place.is_file())
        assert not list(folder.rglob(".sdaqf-*"))


class TestCandidate:
    """Publishing commands verify the tree; `compact` a third time, immediately before publication (FORMAT 10.8)."""

    @pytest.fixture
    def own(self, tmp_path: Path) -> Made:
        return made(tmp_path)

    @pytest.mark.parametrize("line", ["index {manifest}", "snapshot {graph} {selection-all}", "compact {snapshot-all}"])
    def test_another_tree_is_refused(self, line: str, own: Made, sdaqf: Sdaqf) -> None:
        (own.tree.path / "more").write_bytes(b"more\n")
        words = [str(own[word[1:-1]]) if word.startswith("{") else word for word in line.split()]
        ran = sdaqf("context", *words, *world(own), "--output", own["new"], "--json")
        assert (ran.code, ran.value["reason"], own["new"].exists()) == (1, "candidate-mismatch", False)

    def test_compact_looks_once_more_at_the_end(self, own: Made, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> None:
        def and_then_somebody_writes(*given: Any, **options: Any) -> Any:
            found = compact(*given, **options)
            (own.tree.path / "more").write_bytes(b"more\n")
            return found

        monkeypatch.setattr("sdaqf_tasks.fronts.calls.compact_snapshot", and_then_somebody_writes)
        ran = sdaqf("context", "compact", own["snapshot-all"], *world(own), "--output", own["new"], "--json")
        assert (ran.code, ran.value["reason"], own["new"].exists()) == (1, "candidate-mismatch", False)

    def test_an_output_in_the_tree_succeeds_and_moves_it(self, own: Made, sdaqf: Sdaqf) -> None:
        inside = own.tree.path / "graph.json"
        assert sdaqf("context", "index", own["manifest"], *world(own), "--output", inside).code == 0
        ran = sdaqf("context", "index", own["manifest"], *world(own), "--output", own["new"], "--json")
        assert (ran.code, ran.value["reason"]) == (1, "candidate-mismatch")


@pytest.mark.parametrize(
    "command", ["build", "check", "diff --since HEAD", "doctor", "explain x", "gc", "init", "lock", "render x", "status"]
)
def test_a_working_directory_that_is_gone(command: str, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    ran = sdaqf(*command.split())
    assert ran.code == 1
    assert "the working directory is gone" in ran.err
