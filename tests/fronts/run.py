"""This module runs the command line as people do: as a program, or in this process, which is forty times as fast."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

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
    stdin: int | IO[bytes] = subprocess.DEVNULL,
    without: Sequence[str] = (),
    **environ: str,
) -> Ran:
    """Run the installed command in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_")) and name not in without}
    ended = subprocess.run([*by, *arguments], cwd=cwd, env=environment | environ, stdin=stdin, capture_output=True, timeout=60, check=False)
    return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def in_process(*arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> Ran:
    """Run the same entry in this process."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    return Ran(code, *capsys.readouterr())
