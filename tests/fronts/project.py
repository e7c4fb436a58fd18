"""This module is one small project and every artifact of it, made once a run by the command line itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sdaqf_tasks.fronts.cli import main
from tests import repositories
from tests.disk.worktree import WorkTree

YAML = """\
sdaqf: 1
specification: SPEC.md
include: [_shared.yaml]
sources:
  one: decision docs/one.md
  other: design docs/other.md
relationships:
  - one contradicts other
queries:
  default:
    as_of: 2026-01-02T00:00:00Z
    require: [one]
  all:
    as_of: 2026-01-02T00:00:00Z
    seeds: all
  head:
    terms: [aside]
"""

FILES = {
    ".gitignore": "build/\n",
    "SPEC.md": "# What it must do\n\nIt MUST do FR-1.\n",
    "docs/one.md": "It is so.\n",
    "docs/other.md": "It is not so.\n",
    "docs/aside.md": "An aside that nobody asks for.\n",
    "manifests/context.yaml": YAML,
    "manifests/_shared.yaml": "sdaqf: 1\nsources:\n  aside: source docs/aside.md\n",
}


@dataclass(frozen=True)
class Made:
    """The work tree, and the folder beside it that holds the artifacts."""

    tree: WorkTree
    folder: Path

    def __getitem__(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    @property
    def yaml(self) -> Path:
        return self.tree.path / "manifests" / "context.yaml"


def made(folder: Path) -> Made:
    """The project in a folder, with `manifest`, `graph`, and of its queries `query-NAME` and so on."""
    tree = repositories.make(folder / "repository", FILES)
    found = Made(tree, folder / "made")
    found.folder.mkdir()

    def run(stage: str, *arguments: str | Path, makes: str) -> None:
        world = ["--repository-root", str(tree.path)] if stage in ("manifest", "index", "snapshot", "compact") else []
        assert main(["context", stage, *map(str, arguments), *world, "--output", str(found[makes])]) == 0

    run("manifest", found.yaml, makes="manifest")
    run("index", found["manifest"], makes="graph")
    for query in ("default", "all", "head"):
        run("query", found.yaml, found["graph"], "--query", query, makes=f"query-{query}")
        run("select", found["graph"], found[f"query-{query}"], makes=f"selection-{query}")
        run("snapshot", found["graph"], found[f"selection-{query}"], makes=f"snapshot-{query}")
        run("compact", found[f"snapshot-{query}"], makes=f"compaction-{query}")
    return found
