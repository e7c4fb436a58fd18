"""This module makes a small project on a real disk, under real git, and builds it in process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sdaqf_tasks.disk.files import Mark
from sdaqf_tasks.flow import build, stages, status
from sdaqf_tasks.flow.build import Result
from sdaqf_tasks.flow.project import Chain, Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.formats.artifacts import Artifact, parse
from tests import repositories
from tests.disk.worktree import WorkTree

MANIFEST = """\
sdaqf: 1
specification: docs/spec.md
sources:
  decisions: decision docs/adr/*.md
  code: source src/*.py
relationships:
  - code implements specification
queries:
  default: {seeds: all}
  review: {seeds: [decisions], terms: [two]}
"""

FILES: Mapping[str, str] = {
    "docs/spec.md": "# Specification\n\nIt does this.\n",
    "docs/adr/0001-one.md": "# One\n\nWe do one thing.\n",
    "docs/adr/0002-two.md": "# Two\n\nWe do two things.\n",
    "src/a.py": "def a() -> int:\n    return 1\n",
    "manifests/context.yaml": MANIFEST,
}

DEFAULT = Chain("context", "default")
REVIEW = Chain("context", "review")


class Workshop:
    """A project at `path`. `owner_root` and `wait` are those of every run; `said` is what the last run reported."""

    def __init__(
        self, path: Path, files: Mapping[str, str] = FILES, *, build: str = ".sdaqf/build", owner_root: Path | None = None
    ) -> None:
        self.tree: WorkTree = repositories.make(path, files)
        self.path, self.owner_root = path, owner_root
        self.folder = path / build
        self.said: list[str] = []

    def write(self, name: str, text: str) -> Path:
        return self.tree.write(name, text.encode())

    def manifest(self, text: str, name: str = "context") -> Path:
        return self.write(f"manifests/{name}.yaml", text)

    @contextmanager
    def run(self, wait: float = 30) -> Iterator[Run]:
        self.said = []
        run = Run(Project.find(self.path, owner_root=self.owner_root), wait=wait, report=self.said.append)
        try:
            yield run
        finally:
            run.close()

    def build(self, *names: str, until: str | None = None) -> list[Result]:
        with self.run() as run:
            return build.build(run, names, until=until)

    def words(self, *names: str) -> dict[str, str]:
        """What became of every chain."""
        return {result.chain.label: result.word for result in self.build(*names)}

    def made(self, *names: str) -> set[str]:
        """The stages that ran, of any chain."""
        return {outcome.stage for result in self.build(*names) for outcome in result.outcomes if outcome.made}

    def refusal(self, *names: str) -> Any:
        """The refusal of the one chain that is blocked."""
        [error] = [result.error for result in self.build(*names) if result.error]
        return error

    def status(self, *names: str) -> dict[str, tuple[str, str]]:
        """State and why, by chain."""
        with self.run() as run:
            return {entry["context"]: (entry["state"], entry["why"]) for entry in status.status(run, names)["contexts"]}

    def current(self) -> bool:
        return {state for state, _ in self.status().values()} == {"current"}

    def ref(self, makes: str, chain: Chain = DEFAULT) -> str | None:
        return Project.find(self.path).store.ref(stages.ref_name(chain, makes))

    def refs(self) -> dict[str, str]:
        """Every ref of stages by name, without what `observe` writes."""
        root = self.folder / "refs" / "m"
        found = {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*")) if path.is_file()}
        return {name: path.read_text() for name, path in found.items() if path.suffix != ".made" and not name.endswith("/outside")}

    def outs(self) -> dict[str, bytes]:
        root = self.folder / "out"
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}

    def artifact(self, makes: str, chain: Chain = DEFAULT) -> Artifact[Any]:
        found: Artifact[Any] = parse(Project.find(self.path).store.get(self.ref(makes, chain) or ""))
        return found

    def receipt(self, makes: str, chain: Chain = DEFAULT) -> Path:
        return self.folder / "refs" / f"{stages.ref_name(chain, makes)}.made"

    def object_of(self, makes: str, chain: Chain = DEFAULT) -> Path:
        [found] = (self.folder / "objects").glob(f"{self.ref(makes, chain)}.*")
        return found

    def content(self, chain: Chain = DEFAULT) -> str:
        with self.run() as run:
            found = build.content(run, chain)
        assert found is not None
        return found

    def everything(self) -> dict[str, tuple[object, ...]]:
        """The work tree and `.git`, byte for byte, without the build folder."""
        found: dict[str, tuple[object, ...]] = {}
        for place in sorted(self.path.rglob("*")):
            if place != self.folder and not place.is_relative_to(self.folder) and place not in self.folder.parents:
                held = place.readlink() if place.is_symlink() else place.read_bytes() if place.is_file() else ""
                found[place.relative_to(self.path).as_posix()] = (held, Mark.of(place.lstat()))
        return found

    def command(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """`sdaqf …` in a process of its own."""
        return self._process([sys.executable, "-m", "sdaqf_tasks", *arguments], environment)

    def doit(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self._process([sys.executable, "-m", "doit", *arguments], environment)

    def _process(self, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.path, env=self.environment(**environment), capture_output=True, text=True, check=False, timeout=120
        )

    def environment(self, **more: str) -> dict[str, str]:
        source = Path(__file__).parents[2]
        return {**os.environ, "PYTHONPATH": os.fspath(source), "PYTHONDONTWRITEBYTECODE": "1", **more}
