"""This program measures `check` on 5,000 pinned spans: sections of 100 documents, in ten manifests, all as reviewed.

python -m benchmarks.check
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from sdaqf_tasks.flow import lock
from sdaqf_tasks.flow.check import check
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.run import Run

DOCUMENTS, SECTIONS, MANIFESTS = 100, 50, 10
RUNS = 5

T = TypeVar("T")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "work"
        make(work)
        print(f"{'':48}   wall   processor")
        timed("sdaqf lock, the first", lambda: write(work), 1)
        commit(work)
        checked = timed("sdaqf check, 5,000 spans as reviewed", lambda: judge(work), RUNS)
        assert checked == DOCUMENTS * SECTIONS + 1, checked
        document = work / "docs" / "d-042.md"
        document.write_text(document.read_text("utf-8").replace("What 42 says of 7.", "What 42 says no more."), "utf-8")
        timed("sdaqf check, one of them changed", lambda: judge(work), RUNS)
    return 0


def make(work: Path) -> None:
    for name in ("docs", "manifests"):
        (work / name).mkdir(parents=True)
    (work / "README.md").write_text("# All that is pinned\n", "utf-8")
    for number in range(DOCUMENTS):
        sections = "".join(f"## Section {part}\n\nWhat {number} says of {part}.\n\n" for part in range(SECTIONS))
        (work / "docs" / f"d-{number:03d}.md").write_text(f"# Document\n\n{sections}", "utf-8")
    share = DOCUMENTS // MANIFESTS
    for manifest in range(MANIFESTS):
        sources = "".join(
            f"  s-{number}-{part}: {{path: docs/d-{number:03d}.md, section: Section {part}, kind: design}}\n"
            for number in range(manifest * share, (manifest + 1) * share)
            for part in range(SECTIONS)
        )
        text = f"sdaqf: 1\nspecification: README.md\nsources:\n{sources}queries:\n  default: {{seeds: all, budget: 8MiB}}\n"
        (work / "manifests" / f"m-{manifest}.yaml").write_text(text, "utf-8")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=work, check=True)
    commit(work)


def commit(work: Path) -> None:
    git = ["git", "-c", "user.name=Example", "-c", "user.email=example@example.org"]
    for command in (["add", "."], ["commit", "-q", "-m", "All"]):
        subprocess.run([*git, *command], cwd=work, check=True)


def write(work: Path) -> None:
    with Run(Project(work)) as run:
        lock.write(run, lock.relock(run, run.project.manifests).writes)


def judge(work: Path) -> int:
    """How many texts were compared."""
    with Run(Project(work)) as run:
        return check(run).pinned


def timed(label: str, action: Callable[[], T], runs: int) -> T:
    """The result of the last run; the best time is printed."""
    wall, processor = [], []
    for _ in range(runs):
        began, spent = time.perf_counter(), time.process_time()
        result = action()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - spent)
    print(f"{label:48} {min(wall):6.2f} s {min(processor):6.2f} s", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
