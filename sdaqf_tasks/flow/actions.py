"""This module does what doit's tasks ask for. Its functions take plain values: doit may send them to another process.

An action tells what it did through the task's values, under the key META: what a worker prints, nobody may see.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from doit.exceptions import TaskFailed

from sdaqf_tasks.errors import SdaqfError, printable
from sdaqf_tasks.flow import blocked, build, report, stages
from sdaqf_tasks.flow.project import Chain, Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import BY_NAME, Job
from sdaqf_tasks.flow.tasks import META
from sdaqf_tasks.formats.declaration import DEFAULT

Told = dict[str, Any]

_runs: dict[tuple[int, str], Run] = {}
_contents: dict[Chain, str | None] = {}
_making = threading.Lock()
_reporters: list[object] = []


def told_by(reporter: object) -> None:
    """Notes are this reporter's to tell, and not to be printed: where threads run at once, doit's capturing leaks."""
    _reporters.append(reporter)


def forget() -> None:
    """End what this process knows of a run before."""
    with _making:
        _reporters.clear()
        for process, top in list(_runs):
            run = _runs.pop((process, top))
            if process == os.getpid():
                run.close()
        _contents.clear()


def run_at(top: str) -> Run:
    """The run of this process; a worker that was forked has its own. Raises `SdaqfError`."""
    key = (os.getpid(), top)
    with _making:
        if key not in _runs:
            _runs[key] = Run(Project.find(Path.cwd() / top), report=_say)
            if worker := sys.modules.get("multiprocessing.util"):
                worker.Finalize(None, _runs[key].close, exitpriority=1)  # a worker ends without an interpreter's goodbyes
        return _runs[key]


def _say(line: str) -> None:
    """What cannot wait until the task is done, past doit's capturing."""
    print(line, file=sys.__stderr__, flush=True)


def observe(top: str) -> bool | TaskFailed:
    """Begin a run: look at the tree."""
    try:
        stages.observe(run_at(top))
    except SdaqfError as error:
        return _refused(error, "the tree cannot be observed")
    return True


def run_stage(top: str, stage: str, manifest: str, query: str) -> Told | TaskFailed:
    """Run one stage. A refusal is a failed task with three lines; whatever else happens is a defect and keeps its traceback."""
    chain = Chain(manifest, query or DEFAULT)
    label = chain.label if query else manifest
    try:
        run = run_at(top)
        if _is_skipped(run, manifest):
            if not _reporters:
                print(f"{label} skipped: it has owner sources and no owner root is given (SDAQF_OWNER_ROOT)")
            return {META: {"word": build.SKIPPED}}
        if query and chain not in _contents:
            _contents[chain] = build.content(run, chain)
        [outcome] = build.attempt(run, chain, [BY_NAME[stage]])
    except SdaqfError as error:
        return _refused(error, f"{label} is blocked at {stage}")
    for note in () if _reporters else outcome.notes:
        print(printable(note))
    word = build.MADE if outcome.made else build.CURRENT
    return {META: {"word": word, "id": outcome.object_id, "notes": list(outcome.notes), "before": _contents[chain] if query else None}}


def _is_skipped(run: Run, manifest: str) -> bool:
    with suppress(SdaqfError):  # the stage itself refuses it, with its place
        return stages.is_skipped(run, run.reading(run.project.manifest(manifest)).declaration)
    return False


def is_current(top: str, stage: str, manifest: str, query: str) -> bool:
    """What doit asks before it runs a stage."""
    with suppress(SdaqfError):
        job = Job(run_at(top), BY_NAME[stage], Chain(manifest, query or DEFAULT))
        return stages.judge(job, job.inputs()) is None and stages.is_shown(job)
    return False


def _refused(error: SdaqfError, what: str) -> TaskFailed:
    blocked.keep(error)
    return TaskFailed("\n".join(report.refusal(error, what)))
