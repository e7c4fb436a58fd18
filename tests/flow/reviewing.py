"""This module plays people at a project: they edit, commit, run `sdaqf lock` and `sdaqf check`, in this process."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.context.findings import Found
from tests import repositories
from tests.disk.worktree import WorkTree, everything_below
from tests.fronts.run import Ran, in_process

MANIFEST = """\
sdaqf: 1
specification: docs/spec.md
sources:
  retries: decision docs/adr/0007-retries.md   # the one that people argue about
  caches: decision docs/adr/0011-caches.md
  code: source src/*.py
"""

FILES: Mapping[str, str] = {
    "docs/spec.md": "# Specification\n\nIt does this.\n",
    "docs/adr/0007-retries.md": "# Retries\n\nWe retry three times with jitter.\n\nAlways, and whatever the caller says of it.\n",
    "docs/adr/0011-caches.md": "# Caches\n\nWe cache nothing.\n\n# Later\n\nPerhaps.\n",
    "src/a.py": "def a() -> int:\n    return 1\n",
    "manifests/context.yaml": MANIFEST,
}

RETRIES, CACHES = "docs/adr/0007-retries.md", "docs/adr/0011-caches.md"
LOCK = "manifests/context.lock"


class Team:
    """A project in which the pinned texts were reviewed once, unless `locked` is false."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str], files: Mapping[str, str] = FILES, *, locked: bool = True) -> None:
        self.tree: WorkTree = repositories.make(path, files)
        self.path, self._capsys = path, capsys
        self._minutes = itertools.count(1)
        if locked:
            self.lock()
            self.commit("Pin what agents are told")

    # ---- what people do

    def write(self, name: str, text: str | bytes) -> None:
        self.tree.write(name, text.encode() if isinstance(text, str) else text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.read(name)
        assert old in text
        self.write(name, text.replace(old, new))

    def manifest(self, text: str, name: str = "context") -> None:
        self.write(f"manifests/{name}.yaml", text)

    def commit(self, message: str = "more") -> str:
        """Everything, one minute after the commit before."""
        date = f"2026-01-01T00:{next(self._minutes):02d}:00Z"
        self.git("add", "-A", ".")
        self.git("commit", "-q", "--allow-empty", "-m", message, GIT_AUTHOR_DATE=date, GIT_COMMITTER_DATE=date)
        return self.tree.head()

    def git(self, *arguments: str, check: bool = True, **environ: str) -> str:
        return self.tree.git(*arguments, check=check, stdin=b"", **environ).decode()

    def merge(self, branch: str) -> str:
        return self.git("merge", "-q", "--no-ff", "--no-edit", branch, check=False)

    def sdaqf(self, *arguments: str) -> Ran:
        with _inside(self.path):
            return in_process(*arguments, capsys=self._capsys)

    def lock(self, *arguments: str) -> Ran:
        ran = self.sdaqf("lock", *arguments)
        assert ran.code == 0, ran.err
        return ran

    def build(self, *arguments: str) -> Ran:
        return self.sdaqf("build", *arguments)

    # ---- what there is then

    def read(self, name: str) -> str:
        return (self.path / name).read_bytes().decode()

    def pins(self, name: str = LOCK) -> dict[str, str]:
        """`path` or `path § part` → digest."""
        found = {}
        for entry in json.loads(self.read(name))["sources"]:
            part = next((entry[key] for key in ("section", "symbol", "lines") if key in entry), "")
            found[entry["path"] + (f" § {part}" if part else "")] = entry["pinned"]
        return found

    def check(self, *arguments: str) -> dict[str, Any]:
        """The whole answer of `check --json`."""
        value: dict[str, Any] = self.sdaqf("check", "--json", *arguments).value
        return value

    def codes(self, *arguments: str) -> list[str]:
        """What was found, as `code path`."""
        return [f"{found['code']} {found['path']}" for found in self.check(*arguments)["findings"]]

    def found(self, *arguments: str) -> dict[str, Any]:
        """The one finding there is."""
        [found] = self.check(*arguments)["findings"]
        assert set(found) == set(Found._fields)
        return dict(found)

    def everything(self) -> dict[str, tuple[object, ...]]:
        """The work tree and `.git`, byte for byte, the build folder too."""
        return everything_below(self.path)

    @contextmanager
    def unchanged(self, *but: str) -> Iterator[None]:
        """Nothing is written inside but the named files."""
        before = self.everything()
        yield
        after = self.everything()
        changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        assert {name for name in changed if not (self.path / name).is_dir()} == set(but)

    def shallow(self, path: Path, depth: int, branch: str = "main") -> Team:
        """A clone of so many commits, as CI makes it."""
        self.git("clone", "-q", "--depth", str(depth), "--branch", branch, f"file://{self.path}", str(path))
        return at(path, self._capsys)


def at(path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
    """A work tree that is there already."""
    team = Team.__new__(Team)
    team.tree, team.path, team._capsys, team._minutes = WorkTree(path), path, capsys, itertools.count(40)
    return team


@contextmanager
def _inside(path: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
