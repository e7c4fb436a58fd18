"""The program runs nothing of the working directory, and what it does is not up to PYTHON* variables.

One thing is out of reach: `python -m sdaqf_tasks` takes what is called `sdaqf_tasks` in the working directory for the
package, before any line of ours runs. `sdaqf` does not, nor does `python -P -m sdaqf_tasks`. And who names the working
directory in PYTHONPATH (an empty entry does) has asked Python for it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fronts.project import FILES, Made
from tests.fronts.run import MODULE, SDAQF, program
from tests.repositories import make, write

SAFE_MODULE = (sys.executable, "-P", "-m", "sdaqf_tasks")
RUNS = "import os, pathlib\npathlib.Path(os.environ['WITNESS']).write_text(__name__)\n"
NAMES = ("sitecustomize", "usercustomize", "conftest", "dodo", "yaml", "msgspec", "doit", "jsonschema", "sdaqf", *sys.stdlib_module_names)
COMMANDS = (
    "--help",
    "schema manifest-yaml",
    "status",
    "build",
    "gc",
    "context validate {graph}",
    "context candidate --repository-root .",
    "context manifest manifests/context.yaml --repository-root . --output {out}",
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that has a module of every name that Python or this program could look for."""
    files = {
        **{f"{name}.py": RUNS for name in NAMES},
        "doit.cfg": "[GLOBAL]\ndodoFile = dodo.py\n",
        "pyvenv.cfg": "home = .\n",
        "python311._pth": ".\n",
        "evil.pth": "import conftest\n",
        "setup.cfg": "[options]\n",
    }
    return make(tmp_path_factory.mktemp("hostile") / "repository", FILES | files).path


class TestWorkingDirectory:
    @pytest.fixture
    def witness(self, tmp_path: Path) -> Path:
        """The file that code of the working directory would make."""
        return tmp_path / "witness"

    @pytest.mark.parametrize("command", COMMANDS)
    @pytest.mark.parametrize("by", [(SDAQF,), MODULE], ids=["command", "module"])
    def test_its_modules_are_not_run(
        self, by: tuple[str | Path, ...], command: str, hostile: Path, witness: Path, project: Made, tmp_path: Path
    ) -> None:
        words = command.format(graph=project["graph"], out=tmp_path / "m.json").split()
        ran = program(*words, cwd=hostile, by=by, environ={"WITNESS": str(witness)})
        assert (ran.code, witness.exists()) == (0, False), ran

    @pytest.mark.parametrize("form", ["sdaqf_tasks.py", "sdaqf_tasks/__init__.py"])
    @pytest.mark.parametrize("by", [(SDAQF,), SAFE_MODULE], ids=["command", "safe module"])
    def test_its_sdaqf_tasks_is_not_run(self, by: tuple[str | Path, ...], form: str, witness: Path, tmp_path: Path) -> None:
        write(tmp_path / "here", {form: RUNS, "sdaqf_tasks/__main__.py": RUNS})
        ran = program("schema", cwd=tmp_path / "here", by=by, environ={"WITNESS": str(witness)})
        assert (ran.code, ran.out.splitlines()[0], witness.exists()) == (0, "check", False)

    def test_under_m_its_sdaqf_tasks_is_the_program(self, witness: Path, tmp_path: Path) -> None:
        write(tmp_path / "here", {"sdaqf_tasks/__init__.py": RUNS, "sdaqf_tasks/__main__.py": ""})
        program("schema", cwd=tmp_path / "here", by=MODULE, environ={"WITNESS": str(witness)})
        assert witness.read_text() == "sdaqf_tasks"

    def test_a_package_that_is_loaded_before_ours_imports_nothing(self, witness: Path, tmp_path: Path) -> None:
        """Under `-m` the package's `__init__` still sees the working directory."""
        loaded = "import sys; before = {*sys.modules}; import sdaqf_tasks; print(sorted({*sys.modules} - before))"
        ran = program("-I", "-c", loaded, cwd=tmp_path, by=(sys.executable,))
        assert (ran.out, ran.err) == ("['sdaqf_tasks']\n", "")

    def test_a_git_of_the_repository_is_not_run(self, hostile: Path, witness: Path, tmp_path: Path) -> None:
        tree = make(tmp_path / "repository", {"a": "a", "bin/git": f"#!/bin/sh\ntouch {witness}\n"})
        (tree.path / "bin" / "git").chmod(0o700)
        for path in (str(tree.path / "bin"), "bin", "."):
            program("context", "candidate", "--repository-root", ".", cwd=tree.path, environ={"PATH": f"{path}:{os.environ['PATH']}"})
        assert not witness.exists()


class TestEnvironment:
    """The same bytes and the same words, whatever Python is told."""

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("PYTHONOPTIMIZE", "2"),
            ("PYTHONDEVMODE", "1"),
            ("PYTHONWARNINGS", "error"),
            ("PYTHONUTF8", "0"),
            ("PYTHONUNBUFFERED", "1"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("PYTHONSAFEPATH", "1"),
            ("PYTHONNOUSERSITE", "1"),
            ("PYTHONINTMAXSTRDIGITS", "640"),
            ("PYTHONHASHSEED", "1"),
            ("PYTHONFAULTHANDLER", "1"),
            ("PYTHONMALLOC", "debug"),
        ],
    )
    def test_a_variable_changes_nothing(self, name: str, value: str, project: Made, tmp_path: Path) -> None:
        output = tmp_path / "c.json"
        words: list[str | Path] = ["context", "compact", project["snapshot-all"], "--repository-root", project.tree.path]
        ran = program(*words, "--output", output, "--json", cwd=tmp_path, environ={name: value})
        assert (ran.code, ran.value["output"], ran.err) == (0, "c.json", "")
        assert output.read_bytes() == project["compaction-all"].read_bytes()
        ran = program("context", "index", project["graph"], *words[3:], "--output", output, cwd=tmp_path, environ={name: value})
        assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 3)
