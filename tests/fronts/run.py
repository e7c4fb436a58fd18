"""This module runs the command line as people do: as a program, or in this process, which is forty times as fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sdaqf_tasks.fronts.cli import main

SDAQF = Path(sys.executable).parent / "sdaqf"
MODULE = (sys.executable, "-m", "sdaqf_tasks")


class Ran(NamedTuple):
    """How a run ended."""

    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The JSON document on stdout; there is nothing else on it."""
        value = json.loads(self.out)
        assert self.out == json.dumps(value, indent=2, sort_keys=True) + "\n"
        return value


def program(
    *arguments: str | Path,
    cwd: Path,
    by: Sequence[str | Path] = (SDAQF,),
    environ: Mapping[str, str] | None = None,
) -> Ran:
    """Run the installed command in a process of its own, which knows of Python's variables only those in `environ`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | dict(environ or {})
    ended = subprocess.run(
        [*by, *arguments], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False
    )
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def in_process(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run the same entry in this process."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    return Ran(code, *capsys.readouterr())
