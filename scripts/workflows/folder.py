"""This module is the world of one case: a fresh repository, a home, an owner root, a fixed clock, and no network.

FOLDER/repository    the project, with one commit
FOLDER/owner         the owner root
FOLDER/home          the home, empty
FOLDER/elsewhere     where records are carried, far from any repository
"""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from scripts.workflows.cases import Case
from sdaqf_tasks.fronts.cli import main

COMMITTED = "2026-01-01T00:00:00Z"
NOW = "2026-01-02T00:00:00Z"
NOTHING = object()
"""What an answer is that is no JSON document."""


class Answer(NamedTuple):
    """How a command ended, or what is in a file. `value` is its JSON document; a process knows how long it took."""

    exit: int
    text: str
    aside: str = ""
    seconds: float = 0.0
    processor: float = 0.0

    @property
    def value(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            return NOTHING


class Folder:
    """The world of a case at `path`, with its files committed."""

    def __init__(self, path: Path, case: Case) -> None:
        self.path, self.case = path, case
        self.repository, self.owner, self.elsewhere = path / "repository", path / "owner", path / "elsewhere"
        for each in (self.repository, self.owner, self.elsewhere, path / "home"):
            each.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")
        self.write(self.repository, case.files)
        self.write(self.owner, case.owner)
        self.commit("one")

    # ---- the product

    def sdaqf(self, line: str, more: Mapping[str, str], stdin: str = "") -> Answer:
        """A command line, in this process."""
        taken, err = io.BytesIO(), io.StringIO()
        out = io.TextIOWrapper(taken, "utf-8")
        given = io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
        with _environment(self.environment(more)), chdir(self.repository), redirect_stdout(out), redirect_stderr(err), _stdin(given):
            code = main(shlex.split(line))
        out.flush()
        return Answer(code, taken.getvalue().decode(), err.getvalue())

    def program(self, module: str, line: str, more: Mapping[str, str]) -> Answer:
        """A module of Python, in a process of its own."""
        return self._process([module, *shlex.split(line)], self.repository, self.environment(more))

    def replay(self, record: Path) -> Answer:
        """Replay a record in a new process that is told of nothing else, where no repository is."""
        return self._process(["sdaqf_tasks", "replay", os.fspath(record), "--json"], self.elsewhere, self.environment({}, bare=True))

    def _process(self, module: list[str], where: Path, environment: Mapping[str, str]) -> Answer:
        began, used = time.monotonic(), _processor()
        done = subprocess.run(
            [sys.executable, "-m", *module],
            cwd=where,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr, time.monotonic() - began, _processor() - used)

    def environment(self, more: Mapping[str, str], *, bare: bool = False) -> dict[str, str]:
        ours = {"SDAQF_NOW": NOW} | ({"SDAQF_OWNER_ROOT": os.fspath(self.owner)} if self.case.owner else {}) | self.case.env
        who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _IDENTITY.items()}
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": os.fspath(self.path / "home"),
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.fspath(Path(__file__).resolve().parents[2]),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **who,
            **({} if bare else ours),
            **more,
        }

    # ---- the files

    def write(self, folder: Path, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8", newline="")

    def one(self, pattern: str) -> Path:
        """The one file that a pattern names. Raises `LookupError`."""
        found = sorted(self.repository.glob(pattern))
        if len(found) != 1:
            raise LookupError(f"{pattern} is {len(found)} files")
        return found[0]

    def read(self, pattern: str) -> Answer:
        """A file as an answer; 1 where it is not there."""
        found = sorted(self.repository.glob(pattern))
        return Answer(0, self.one(pattern).read_text("utf-8")) if found else Answer(1, "")

    def edit(self, pattern: str, texts: Mapping[str, str]) -> None:
        """Replace texts in a file, also in one that nobody should write. Raises `LookupError` where one is not there."""
        path = self.one(pattern)
        mode, text = path.stat().st_mode, path.read_text("utf-8")
        for old, new in texts.items():
            if old not in text:
                raise LookupError(f"{pattern} does not hold {old!r}")
            text = text.replace(old, new)
        path.chmod(0o600)
        path.write_text(text, "utf-8", newline="")
        path.chmod(mode)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.repository, env=self.environment({}), check=True, capture_output=True, timeout=60)

    # ---- records

    def records(self) -> list[Path]:
        """The replay records that were left, oldest first."""
        return sorted(self.repository.glob("**/blocked/*/REPLAY-*.json"), key=lambda path: (path.stat().st_mtime_ns, path.name))

    def carry(self, records: list[Path]) -> list[Path]:
        """Move records away, and delete everything else of this world."""
        carried = [self.elsewhere / f"{number}.json" for number, _ in enumerate(records)]
        for old, new in zip(records, carried, strict=True):
            old.rename(new)
        for each in (self.repository, self.owner):
            shutil.rmtree(each)
        return carried


def _processor() -> float:
    """What the processes that this one started have used."""
    used = os.times()
    return used.children_user + used.children_system


_IDENTITY = {"NAME": "Example", "EMAIL": "example@example.org", "DATE": COMMITTED}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment of this process, for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _stdin(stream: io.TextIOWrapper) -> Iterator[None]:
    before, sys.stdin = sys.stdin, stream
    try:
        yield
    finally:
        sys.stdin = before
