"""The program and its streams: what is done is done, whoever reads of it; and SIGINT ends it with 130."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fronts.project import Made
from tests.fronts.run import MODULE, SDAQF, program

CLOSED = [closed for count in (1, 2, 3) for closed in itertools.combinations((0, 1, 2), count)]


def select(project: Made, output: Path, *options: str) -> list[str]:
    return ["context", "select", str(project["graph"]), str(project["query-all"]), "--output", str(output), *options]


class TestStdout:
    """Where stdout does not take the report, the artifact is published all the same: exit 4, and no traceback."""

    @pytest.mark.parametrize("options", [(), ("--json",)], ids=["lines", "json"])
    @pytest.mark.parametrize("stdout", ["> /dev/full", ">&-"], ids=["full", "closed"])
    def test_full_or_closed(self, stdout: str, options: tuple[str, ...], project: Made, tmp_path: Path) -> None:
        output = tmp_path / "s.json"
        ran = program(*select(project, output, *options), cwd=tmp_path, by=("/bin/sh", "-c", f'"$0" "$@" {stdout}', SDAQF))
        assert (ran.code, ran.out, ran.err) == (4, "", "")
        assert output.read_bytes() == project["selection-all"].read_bytes()

    def test_a_pipe_that_nobody_reads(self, project: Made, tmp_path: Path) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        output = tmp_path / "s.json"
        ended = subprocess.run([SDAQF, *select(project, output)], stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60)
        os.close(writer)
        assert (ended.returncode, ended.stderr) == (4, b"")
        assert output.read_bytes() == project["selection-all"].read_bytes()

    @pytest.mark.parametrize("words", ["--help", "--version", "schema", "schema context-graph", "context select --help"])
    def test_also_where_only_a_text_was_asked_for(self, words: str, tmp_path: Path) -> None:
        ran = program(*words.split(), cwd=tmp_path, by=("/bin/sh", "-c", '"$0" "$@" > /dev/full', SDAQF))
        assert (ran.code, ran.err) == (4, "")

    @pytest.mark.parametrize("stdout", ["> /dev/full", ">&-"], ids=["full", "closed"])
    def test_a_refusal_stays_one(self, stdout: str, tmp_path: Path) -> None:
        for words, code in (("context validate gone.json", 1), ("context validate", 2)):
            for json in ((), ("--json",)):
                ran = program(*words.split(), *json, cwd=tmp_path, by=("/bin/sh", "-c", f'"$0" "$@" {stdout}', SDAQF))
                assert (ran.code, "Traceback" in ran.err, "Exception" in ran.err) == (code, False, False)

    def test_a_build_goes_on_when_nobody_reads_any_more(self, project: Made, tmp_path: Path) -> None:
        copy = tmp_path / "copy"
        project.tree.git("clone", "-q", f"file://{project.tree.path}", str(copy))
        ran = program("build", cwd=copy, by=("/bin/sh", "-c", '"$0" "$@" > /dev/full', SDAQF))
        assert (ran.code, "Traceback" in ran.err) == (4, False)
        assert program("status", "--json", cwd=copy).value["contexts"][0]["state"] == "current"


class TestStderr:
    """Notes that cannot be told are not missed, and never end on stdout instead."""

    @pytest.mark.parametrize("stderr", ["2> /dev/full", "2>&-"], ids=["full", "closed"])
    def test_full_or_closed(self, stderr: str, project: Made, tmp_path: Path) -> None:
        by = ("/bin/sh", "-c", f'"$0" "$@" {stderr}', SDAQF)
        assert program(*select(project, tmp_path / "s.json", "--json"), cwd=tmp_path, by=by).value["output"] == "s.json"
        for words, code in (("context validate gone.json", 1), ("context validate", 2)):
            ran = program(*words.split(), cwd=tmp_path, by=by)
            assert (ran.code, ran.out) == (code, "")


class TestDescriptors:
    """A standard stream that is closed at the start is no place for a file that is opened later."""

    @pytest.mark.parametrize("closed", CLOSED, ids=lambda closed: "".join(map(str, closed)))
    def test_nothing_is_written_into_an_artifact(self, closed: tuple[int, ...], project: Made, tmp_path: Path) -> None:
        output = tmp_path / "c.json"
        shut = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[descriptor] for descriptor in closed)
        words: list[str | Path] = [
            "context",
            "compact",
            project["snapshot-all"],
            "--repository-root",
            project.tree.path,
            "--output",
            output,
        ]
        ran = program(*words, cwd=tmp_path, by=("/bin/sh", "-c", f'"$0" "$@" {shut}', SDAQF))
        assert (ran.code, ran.err) == (4 if 1 in closed else 0, "")
        assert output.read_bytes() == project["compaction-all"].read_bytes()
        assert (
            program("context", "validate", tmp_path / "gone.json", cwd=tmp_path, by=("/bin/sh", "-c", f'"$0" "$@" {shut}', SDAQF)).code == 1
        )


class TestEncoding:
    """A terminal of another encoding gets escapes, not a traceback."""

    def test_a_stream_that_takes_ascii_only(self, project: Made, tmp_path: Path) -> None:
        ran = program(*select(project, tmp_path / "é.json"), cwd=tmp_path, environ={"PYTHONIOENCODING": "ascii"})
        assert (ran.code, ran.out.splitlines()[-1], ran.err) == (0, "output: \\xe9.json", "")

    def test_a_locale_that_knows_ascii_only(self, project: Made, tmp_path: Path) -> None:
        ran = program(
            *select(project, tmp_path / "é.json"), cwd=tmp_path, environ={"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
        )
        assert (ran.code, ran.out.splitlines()[-1], ran.err) == (0, "output: \\udcc3\\udca9.json", "")


class TestInterruption:
    """SIGINT ends a run with 130: no traceback, no output, no temporary file."""

    @pytest.mark.parametrize("by", [(SDAQF,), MODULE], ids=["command", "module"])
    def test_while_the_tree_is_read(self, by: tuple[str | Path, ...], project: Made, tmp_path: Path) -> None:
        """A git that sends the signal and then waits stands for a person who runs out of patience."""
        (tmp_path / "bin").mkdir()
        (tmp_path / "work").mkdir()
        git = tmp_path / "bin" / "git"
        git.write_text("#!/bin/sh\nkill -INT $PPID\nexec sleep 60\n")
        git.chmod(0o700)
        words: list[str | Path] = [
            "context",
            "index",
            project["manifest"],
            "--repository-root",
            project.tree.path,
            "--output",
            tmp_path / "work" / "g.json",
        ]
        (tmp_path / "t").mkdir()
        environ = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "t")}
        ran = program(*words, cwd=tmp_path / "work", by=by, environ=environ)
        assert (ran.code, ran.out, ran.err) == (130, "", "")
        assert [*(tmp_path / "work").iterdir(), *(tmp_path / "t").iterdir()] == []

    def test_while_the_program_loads(self, tmp_path: Path) -> None:
        """The signal comes as soon as the first of our modules is looked for."""
        program_text = (
            "import os, signal, sys\n"
            "class Impatient:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            "        if name == 'sdaqf_tasks.fronts.cli':\n"
            "            os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, Impatient())\n"
            "from sdaqf_tasks.__main__ import main\n"
            "sys.exit(main())\n"
        )
        ended = subprocess.run([sys.executable, "-c", program_text, "schema"], cwd=tmp_path, capture_output=True, check=False, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
