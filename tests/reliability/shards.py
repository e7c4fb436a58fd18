"""This module makes a project with a shard on a real disk, small enough to break it in every place.

    made = ShardProject(path)                   # nothing but sources
    made.create(); made.commit("a", "b")        # two live records
    made.run("begin scratch", distil("c"))      # one staged

The same lines give the same ids, in this process and at the command line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sdaqf_tasks.disk.files import TEMPORARY
from sdaqf_tasks.disk.shard_store import ShardStore
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.shards import Expected, Workbench
from sdaqf_tasks.shards import replay
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.records import CORE, Front, Shard, sealed
from tests import repositories
from tests.disk.worktree import everything_below
from tests.shards.records import PROJECT

ROOT = ".sdaqf/shards"
FILES = {
    "README.md": "# It\n",
    "src/a.py": "def a():\n    for attempt in range(3):\n        if not retry(attempt):\n            break\n",
    "src/b.py": "def b():\n    for turn in range(5):\n        if not retry(turn):\n            break\n",
    "src/c.py": "def c():\n    for time in range(7):\n        if not retry(time):\n            break\n",
}


def distil(concept: str, *options: str, third: bool = False) -> str:
    """A command that stages a record over two or three of the files."""
    files = "abc" if third else "ab"
    return " ".join(["/commit_abstractions", concept, *options, *(f"region:src/{each}.py:2-4" for each in files)])


class ShardProject:
    """The project that lies at `path`, or a new one; and one mounted shard of it, which only `create` makes."""

    def __init__(self, path: Path, which: Shard = PROJECT) -> None:
        self.path, self.which = path, which
        if not path.exists():
            repositories.make(path, FILES)

    def bench(self, **options: Any) -> Workbench:
        """A workbench that remembers nothing."""
        return Workbench(Project(self.path), self.which, Front.CLI, **options)

    @property
    def store(self) -> ShardStore:
        return ShardStore(self.path, ROOT, self.which)

    @property
    def folder(self) -> Path:
        return self.store.folder

    @property
    def head(self) -> Path:
        return self.folder / "HEAD"

    def of(self, which: Shard = CORE) -> ShardProject:
        """The same project with another shard mounted."""
        return ShardProject(self.path, which)

    def create(self) -> ShardProject:
        self.bench().create()
        return self

    def run(self, *lines: str, expected: Expected = Expected()) -> list[dict[str, Any]]:  # noqa: B008
        return self.bench().run(lines, expected=expected)

    def commit(self, *concepts: str) -> ShardProject:
        self.run("begin scratch", *map(distil, concepts), "commit")
        return self

    def desk(self) -> Desk:
        return self.bench().desk()

    def state(self) -> str:
        return self.store.head()

    def place(self, object_id: str) -> Path:
        return self.folder / "objects" / f"{object_id}.json"

    def objects(self) -> list[Path]:
        return sorted((self.folder / "objects").iterdir())

    def fsck(self) -> list[tuple[str, str, str]]:
        """Code, place and message of every defect."""
        return [(defect["code"], defect["place"], defect["message"]) for defect in shard_views.fsck(self.bench())["defects"]]

    def audit(self) -> list[replay.Defect]:
        """As `fsck`, without the lock, and without what that sweeps."""
        store = self.store
        return replay.audit(store.pointed(), store.shard, store)

    def forge(self, *values: Any) -> str:
        """Write objects as they should never be, named as their bytes are. The id of the last; no other program would notice."""
        for value in values:
            object_id, data = sealed(value)
            self.place(object_id).write_bytes(data)
        return object_id

    def point(self, state_id: str) -> None:
        self.head.write_text(f"{state_id}\n")

    def leftovers(self) -> list[str]:
        """What killed writers left below the folder of shards."""
        return [path.name for path in sorted((self.path / ROOT).rglob("*")) if TEMPORARY.fullmatch(path.name)]

    def everything(self) -> dict[str, tuple[object, ...]]:
        """All shards, byte for byte, with what a write would change."""
        return everything_below(self.path / ROOT)


def environment() -> dict[str, str]:
    """What a program that is started here finds; it finds this source."""
    return {**os.environ, "PYTHONPATH": os.fspath(Path(__file__).parents[2]), "PYTHONDONTWRITEBYTECODE": "1"}
