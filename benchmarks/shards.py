"""This program measures a full shard, 4,096 live records: what a commit costs there, and what a look costs.

python -m benchmarks.shards

*In the process* is what `Workbench` takes, from an empty memory, as in the first command of a process. *Command line* is
the whole process. Each figure is the best of some runs; *median* is the middle one. Then what a commit writes.
"""

from __future__ import annotations

import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from msgspec.structs import replace

from sdaqf_tasks.disk.shard_store import ShardStore
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.shards import session
from sdaqf_tasks.shards.records import CATALOG_RECORDS, Abstraction, Bucket, Catalog, Event, Front, State, bucket_of, sealed
from tests.shards.records import PROJECT, record, source

RUNS = 15
SDAQF = Path(sys.executable).parent / "sdaqf"
FILES = {
    "src/a.py": "def a():\n    for attempt in range(3):\n        if not retry(attempt):\n            break\n",
    "src/b.py": "def b():\n    for turn in range(5):\n        if not retry(turn):\n            break\n",
}
DISTIL = "/commit_abstractions {} tier:convention region:src/a.py:2-4 region:src/b.py:2-4"
CHANGE = ("begin scratch", DISTIL.format("c0007"), "commit")
"""One record of the full shard, distilled anew."""


def main() -> int:
    print(f"{os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}\n")
    with tempfile.TemporaryDirectory(prefix="sdaqf-bench-") as folder:
        top = Path(folder).resolve()
        tree(top)
        print("| What | Best | Median | Processor |\n|---|---|---|---|")
        for count in (16, CATALOG_RECORDS):
            full(top, count)
            begun = f"a shard of {count:,} records"
            row(f"{begun}: `begin scratch`, distil, `commit`, in the process", lambda: bench(top).run(CHANGE))
            row(f"{begun}: `commit` alone", lambda: bench(top).run(["commit"]), lambda: bench(top).run(CHANGE[:2]))
            row(f"{begun}: lookup", lambda: shard_views.support(bench(top), ["src/a.py"], ["retry"], [], None, 4))
            bench(top).run(CHANGE[:2])
            row(f"{begun}: review of one staged record", lambda: shard_views.review(bench(top)))
            bench(top).run(["discard"])
            row(f"{begun}: status", lambda: shard_views.status(bench(top)))
            row(f"{begun}: the same change at the command line", lambda: program(top, "run", *CHANGE))
        row("the command line itself: `sdaqf --version`", lambda: subprocess.run([SDAQF, "--version"], capture_output=True, check=True))
        written(top)
    return 0


def tree(top: Path) -> None:
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    for name, text in FILES.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(text, "utf-8")


def bench(top: Path) -> Workbench:
    """A workbench that remembers nothing."""
    return Workbench(Project(top), PROJECT, Front.CLI)


def program(top: Path, *words: str) -> None:
    subprocess.run([SDAQF, "shard", *words], cwd=top, capture_output=True, check=True)


def full(top: Path, count: int) -> None:
    """The shard with so many live records, as if one commit had made them; what was there is gone."""
    store = ShardStore(top, ".sdaqf/shards", PROJECT)
    shutil.rmtree(store.folder, ignore_errors=True)
    root = session.born(PROJECT, Front.CLI)
    store.create(root.state_id, root.objects)
    state: State = store.get(root.state_id)
    objects: dict[str, bytes] = {}

    def keep(value: Any) -> str:
        object_id, data = sealed(value)
        objects[object_id] = data
        return object_id

    held: dict[str, dict[str, Abstraction]] = {}
    for number in range(count):
        made = some(number)
        held.setdefault(bucket_of(made.concept_id), {})[made.concept_id] = made
    buckets: Mapping[str, Bucket] = held
    lineages = {each.lineage_id: 1 for bucket in buckets.values() for each in bucket.values()}
    live = keep(Catalog(records={digits: keep(bucket) for digits, bucket in buckets.items()}, decisions={}, lineages=lineages))
    event = keep(Event(word="commit", inputs=(), program=session.PROGRAM, front=Front.CLI))
    after = keep(replace(state, previous=root.state_id, event=event, revision=1, live=live, committed=True))
    with store.lock(1):
        store.advance(after, objects)


def some(number: int) -> Abstraction:
    """A record as large as most: three examples, a dozen tokens, eight patterns."""
    places = tuple(source(f"src/part_{number % 97}/module_{number % 13}.py", first, first + 7) for first in (10, 40, 90))
    tokens = tuple(f"token_{(number * 7 + each) % 500}" for each in range(12))
    patterns = tuple(f"for id in range ( # ) : step_{(number * 3 + each) % 700} ( id , id )" for each in range(8))
    return record(f"c{number:04}", sources=places, tokens=("retry", *tokens) if number % 50 == 0 else tokens, patterns=patterns)


def row(what: str, action: Callable[[], object], before: Callable[[], object] = lambda: None) -> None:
    wall, processor = [], []
    for _ in range(RUNS):
        before()
        began, spent = time.perf_counter(), worked()
        action()
        wall.append(time.perf_counter() - began)
        processor.append(worked() - spent)
    best, middle, spent_at_least = (f"{each * 1_000:.1f} ms" for each in (min(wall), statistics.median(wall), min(processor)))
    print(f"| {what} | {best} | {middle} | {spent_at_least} |", flush=True)


def worked() -> float:
    """Seconds that the processors worked for this process and those that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def written(top: Path) -> None:
    """What one change of one record brings to the disk, by type; and how often that is waited for."""
    store = ShardStore(top, ".sdaqf/shards", PROJECT)
    before, waits, fsync = set(store.names()), 0, os.fsync

    def counted(descriptor: Any) -> None:
        nonlocal waits
        waits += 1
        fsync(descriptor)

    with mock.patch.object(os, "fsync", counted):
        bench(top).run(CHANGE)
    print(f"\nOne change of one record among {CATALOG_RECORDS:,} waits {waits} times for the disk, and writes:\n")
    print("| Object | Files | Bytes |\n|---|---|---|")
    sizes: dict[str, list[int]] = {}
    for name in sorted(set(store.names()) - before):
        sizes.setdefault(name.split("-")[1], []).append((store.folder / "objects" / name).stat().st_size)
    for kind, each in sorted(sizes.items()):
        print(f"| {kind} | {len(each)} | {sum(each):,} |")
    total = sum(map(store.size, store.get(store.get(store.head()).live).records.values()))
    print(f"\nAll live records together: {total:,} bytes.")


if __name__ == "__main__":
    sys.exit(main())
