"""This module measures the whole chain and prints a table: `python -m benchmarks.chain` (docs/performance.md).

Three questions: how long a person waits in this repository, how long the largest context takes, and whether selection
stays quick when contradictions are made to hurt. Every figure is the best of some runs, in copies under a temporary folder.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.context.select import select
from sdaqf_tasks.flow import stages
from sdaqf_tasks.flow.project import Chain, Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import STAGES
from sdaqf_tasks.formats.artifacts import Artifact, Graph
from sdaqf_tasks.formats.records import EdgeType
from tests import builders

TOP = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
RUNS = 3
SOURCES, TEXT_BYTES = 300, 8_388_608
NODES = 4_096


class Taken(NamedTuple):
    """Seconds: on the wall, and of the processors."""

    wall: float
    processor: float


Row = tuple[str, Taken]


def main() -> int:
    print(f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}\n")
    print("| What | Wall | Processor |\n|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="sdaqf-bench-") as folder:
        place = Path(folder).resolve()
        for rows in (this_repository(place / "this"), ceiling(place / "ceiling"), selections()):
            for what, taken in rows:
                print(f"| {what} | {shown(taken.wall)} | {shown(taken.processor)} |", flush=True)
    return 0


def this_repository(work: Path) -> Iterator[Row]:
    """Both fronts, from nothing and again, with the start of the process."""
    listed = (
        subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=TOP, capture_output=True, check=True)
        .stdout.decode()
        .split("\0")
    )
    for name in filter(None, listed):
        if (TOP / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, work / name)
    commit(work)
    for label, command in (("`sdaqf build`", ["sdaqf", "build"]), ("`doit snapshot`", ["doit", "snapshot"])):
        yield f"this repository, {label}, from nothing", seconds(lambda c=command: run(work, c), lambda: clean(work))  # type: ignore[misc]
        yield f"this repository, {label}, nothing to do", seconds(lambda c=command: run(work, c))  # type: ignore[misc]
        program = work / "sdaqf_tasks" / "errors.py"
        yield (
            f"this repository, {label}, one file changed",
            seconds(lambda c=command: run(work, c), lambda p=program: append(p)),  # type: ignore[misc]
        )
    bare = seconds(lambda: run(work, ["python", "-c", "pass"]))
    yield "`import sdaqf_tasks`, beyond starting Python", seconds(lambda: run(work, ["python", "-c", "import sdaqf_tasks"]), less=bare)


def ceiling(work: Path) -> Iterator[Row]:
    """300 sources and 8 MB of text, stage by stage, all in one query."""
    (work / "manifests").mkdir(parents=True)
    (work / "docs").mkdir()
    (work / "README.md").write_text("# All that fits\n", "utf-8")
    line = "What stands here is as long as it may be, and says nothing: {:06d}.\n"
    for number in range(SOURCES - 1):
        text = "".join(line.format(number * 1_000 + i) for i in range(TEXT_BYTES // SOURCES // len(line.format(0))))
        (work / "docs" / f"part-{number:03d}.md").write_text(text, "utf-8")
    (work / "manifests" / "all.yaml").write_text(
        "sdaqf: 1\nspecification: README.md\nsources:\n  parts: design docs/*.md\n"
        "relationships:\n  - parts references specification\nqueries:\n  default: {seeds: all, budget: 8MiB}\n",
        "utf-8",
    )
    commit(work)
    run_ = Run(Project(work))
    try:
        with Watch() as watch:
            stages.observe(run_)
        yield f"{SOURCES} sources, 8 MB of text: observe", watch.taken
        for stage in STAGES:
            with Watch() as watch:
                stages.run_stage(run_, stage, Chain("all", "default"))
            yield f"{SOURCES} sources, 8 MB of text: {stage.name}", watch.taken
    finally:
        run_.close()
    yield (
        f"{SOURCES} sources, 8 MB of text: `sdaqf build`, from nothing",
        seconds(lambda: run(work, ["sdaqf", "build"]), lambda: clean(work)),
    )
    yield f"{SOURCES} sources, 8 MB of text: `sdaqf build`, nothing to do", seconds(lambda: run(work, ["sdaqf", "build"]))


def selections() -> Iterator[Row]:
    """4,096 nodes whose contradictions are one chain, one star or many pairs, with and without room for them."""
    nodes = [builders.node(f"docs/{number:04d}.md", f"text {number}\n") for number in range(NODES - 1)]
    shapes: dict[str, Iterable[tuple[int, int]]] = {
        "one chain": zip(range(NODES - 2), range(1, NODES - 1), strict=True),
        "one star": ((0, other) for other in range(1, NODES - 1)),
        "pairs": ((number, number + 1) for number in range(0, NODES - 2, 2)),
    }
    for name, pairs in shapes.items():
        graph = builders.graph(*nodes, edges=[builders.edge(EdgeType.CONTRADICTS, nodes[one], nodes[other]) for one, other in pairs])
        for room, budget in (("no room", 65_536), ("room for all", 8_388_608)):
            yield f"select, {NODES:,} nodes, contradictions in {name}, {room}", seconds(lambda g=graph, b=budget: selected(g, b))  # type: ignore[misc]


def selected(graph: Artifact[Graph], budget: int) -> None:
    select(graph, builders.query(graph, terms=("text",), budget_bytes=budget))


# ---- how it is measured ---------------------------------------------------------------------------------------------


def seconds(action: Callable[[], object], before: Callable[[], object] = lambda: None, less: Taken | None = None) -> Taken:
    """The best of some runs, each after `before`; without what `less` took."""
    found = []
    for _ in range(RUNS):
        before()
        with Watch() as watch:
            action()
        found.append(watch.taken)
    best = Taken(min(taken.wall for taken in found), min(taken.processor for taken in found))
    return Taken(best.wall - less.wall, best.processor - less.processor) if less else best


class Watch:
    """How long a block takes: on the wall, and of the processors, child processes included."""

    taken: Taken

    def __enter__(self) -> Watch:
        self._began = self._now()
        return self

    def __exit__(self, *error: object) -> None:
        wall, processor = self._now()
        self.taken = Taken(wall - self._began.wall, processor - self._began.processor)

    @staticmethod
    def _now() -> Taken:
        return Taken(time.perf_counter(), sum(os.times()[:4]))


def shown(taken: float) -> str:
    return f"{taken:.2f} s" if taken >= 0.1 else f"{taken * 1_000:.0f} ms"


def run(work: Path, command: list[str]) -> None:
    done = subprocess.run([BIN / command[0], *command[1:]], cwd=work, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def commit(work: Path) -> None:
    git = ["git", "-c", "user.name=Example", "-c", "user.email=example@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *command], cwd=work, check=True)


def clean(work: Path) -> None:
    for name in ("build", ".sdaqf"):
        shutil.rmtree(work / name, ignore_errors=True)


def append(path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write("\n# measured\n")


if __name__ == "__main__":
    sys.exit(main())
