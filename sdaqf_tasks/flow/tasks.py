"""This module gives the stages to doit: tasks, reporter, codec (DESIGN, PIPELINE 1).

Refs are targets and file dependencies; whether a task is current is `stages.judge`'s to say, whatever doit's own database
holds. Tasks are defined from a tolerant reading: what cannot be read is refused when its task runs, with its place.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from doit.exceptions import BaseFail, TaskFailed
from doit.reporter import ConsoleReporter

from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow import build, report, stages
from sdaqf_tasks.flow.project import Chain, ManifestFile, Project
from sdaqf_tasks.flow.stages import BY_NAME, LAST, STAGES, Job, Outcome, Run, Stage
from sdaqf_tasks.formats.declaration import DEFAULT

OBSERVE = "observe"
META = "sdaqf"

Task = dict[str, Any]


class Pipeline:
    """What `sdaqf_tasks.pipeline()` returns: an object in a `dodo.py` from which doit takes the tasks."""

    def __init__(self, prefix: str | None = None) -> None:
        self.prefix = prefix

    def create_doit_tasks(self) -> Iterator[Task]:
        """The pipeline of sdaqf-tasks."""
        yield from _tasks(_Names(self.prefix))


class _Names:
    """Task names: plain ones, or private ones behind a prefix."""

    def __init__(self, prefix: str | None) -> None:
        self.prefix = prefix

    def base(self, stage: str) -> str:
        return stage if self.prefix is None else f"_{self.prefix}-{stage}"

    def of(self, stage: Stage, chain: Chain) -> str:
        return f"{self.base(stage.name)}:{chain.label if stage.per_query else chain.manifest}"


def _tasks(names: _Names) -> Iterator[Task]:
    here = Path.cwd()
    try:
        project = Project.find(here)
        manifests = project.manifests
    except SdaqfError:
        # What is wrong is said when `observe` runs; every other group leads there.
        yield _observe(names, here, ())
        yield from ({"basename": names.base(stage.name), "actions": None, "task_dep": [names.base(OBSERVE)]} for stage in STAGES)
        return
    yield _observe(names, project.top, _targets(project, ["candidate", *(f"m/{manifest.name}/outside" for manifest in manifests)]))
    for stage in STAGES:
        yield {"basename": names.base(stage.name), "name": None, "doc": stage.says, "task_dep": _group(names, stage)}
    if names.prefix is not None:
        yield {"basename": names.prefix, "name": None, "doc": "Contexts for agents: Snapshot, extracts, document and report of each."}
    for manifest in manifests:
        yield from _of_manifest(names, project, manifest)


def _group(names: _Names, stage: Stage) -> list[str]:
    """`doit snapshot` gives every Snapshot, and what people open of it: extracts, document and report."""
    return [names.base(last) for last in sorted(LAST)] if stage.name == "snapshot" and names.prefix is None else []


def _observe(names: _Names, top: Path, targets: tuple[str, ...] | list[str]) -> Task:
    return {
        "basename": names.base(OBSERVE),
        "actions": [(observe, [os.fspath(top)])],
        "targets": list(targets),
        "uptodate": [False],
        "meta": {META: (OBSERVE, "", "")},
        "doc": "Look at the tree: HEAD and every file that git would let you commit.",
    }


def _of_manifest(names: _Names, project: Project, manifest: ManifestFile) -> Iterator[Task]:
    queries, skipped = [DEFAULT], False
    try:
        declaration = project.read(manifest).declaration
        queries, skipped = list(declaration.queries), declaration.has_owner_sources and project.owner_root is None
    except SdaqfError:
        pass
    chains = [Chain(manifest.name, query) for query in queries]
    for stage in STAGES:
        for chain in chains if stage.per_query else chains[:1]:
            yield _stage(names, project, manifest, stage, chain, skipped)
    if names.prefix is not None:
        for chain in chains:
            wanted = [names.of(BY_NAME[last], chain) for last in sorted(LAST)]
            yield {"basename": names.prefix, "name": chain.label, "actions": None, "task_dep": wanted}


def _stage(names: _Names, project: Project, manifest: ManifestFile, stage: Stage, chain: Chain, skipped: bool) -> Task:
    arguments = [os.fspath(project.top), stage.name, chain.manifest, chain.query]
    task: Task = {
        "basename": names.base(stage.name),
        "name": chain.label if stage.per_query else chain.manifest,
        "actions": [(run_stage, arguments)],
        "task_dep": [names.base(OBSERVE)],
        "meta": {META: (stage.name, chain.manifest, chain.query)},
    }
    if skipped:
        return task | {"uptodate": [False]}
    taken = [stages.ref_name(chain, name) for name in stage.takes]
    if stage.observes:
        taken += ["candidate"]
    made_by = {each.makes: each for each in STAGES}
    return task | {
        "targets": _targets(project, [stages.ref_name(chain, stage.makes)]),
        "file_dep": _targets(project, taken),
        "task_dep": [names.base(OBSERVE), *(names.of(made_by[name], chain) for name in stage.takes)],
        "uptodate": [(is_current, arguments)],
    }


def _targets(project: Project, refs: list[str]) -> list[str]:
    return [os.path.relpath(project.store.folder / "refs" / ref) for ref in refs]


# ---- actions: module-level and with plain arguments, since doit may send them to another process ------------------------

_runs: dict[str, Run] = {}
_before: dict[Chain, str | None] = {}
_outcomes: dict[Chain, list[Outcome]] = {}


def _run(top: str) -> Run:
    if top not in _runs:
        _runs[top] = Run(Project(Path(top)), report=print)
    return _runs[top]


def observe(top: str) -> bool | TaskFailed:
    """Begin a run: look at the tree."""
    _runs.pop(top, None)
    _before.clear()
    _outcomes.clear()
    try:
        stages.observe(_run(os.fspath(Project.find(Path(top)).top)))
    except SdaqfError as error:
        return _refused(error, "the tree cannot be observed")
    return True


def run_stage(top: str, stage: str, manifest: str, query: str) -> bool | TaskFailed:
    """Run one stage. A refusal is a failed task with three lines; whatever else happens is a defect and keeps its traceback."""
    run, chain = _run(top), Chain(manifest, query)
    try:
        if stages.is_skipped(run, run.reading(run.project.manifest(manifest)).declaration):
            print(f"{chain.label} skipped: it has owner sources and no owner root is given (SDAQF_OWNER_ROOT)")
            return True
    except SdaqfError:
        pass  # the stage itself refuses it, with its place
    if chain not in _before:
        _before[chain] = build.content(run, chain)
    try:
        outcome = stages.run_stage(run, BY_NAME[stage], chain)
    except SdaqfError as error:
        return _refused(error, f"{chain.label} is blocked at {stage}")
    _outcomes.setdefault(chain, []).append(outcome)
    for note in outcome.notes:
        print(note)
    return True


def is_current(top: str, stage: str, manifest: str, query: str) -> bool:
    """What doit asks before it runs a stage."""
    run, chain = _run(top), Chain(manifest, query)
    try:
        job = Job(run, BY_NAME[stage], chain)
        return stages.judge(job, job.inputs()) is None and stages.is_shown(job)
    except SdaqfError:
        return False


def _refused(error: SdaqfError, what: str) -> TaskFailed:
    return TaskFailed("\n".join(report.refusal(error, what)))


# ---- reporter and codec -------------------------------------------------------------------------------------------------


class Reporter(ConsoleReporter):  # type: ignore[misc]
    """One line a context, at the end; tasks that are not ours are reported as doit does."""

    desc = "one line a context"

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        self._chains: dict[Chain, None] = {}
        self._blocked = 0

    def execute_task(self, task: Any) -> None:
        if not _ours(task):
            super().execute_task(task)

    def skip_uptodate(self, task: Any) -> None:
        self._seen(task)
        if not _ours(task):
            super().skip_uptodate(task)

    def add_success(self, task: Any) -> None:
        self._seen(task)

    def add_failure(self, task: Any, fail: BaseFail) -> None:
        if not (_ours(task) and isinstance(fail, TaskFailed)):
            super().add_failure(task, fail)
            return
        self._blocked += 1
        self.write(fail.get_msg() + "\n")

    def complete_run(self) -> None:
        super().complete_run()
        if not self._chains or not _runs:
            return
        run = next(iter(_runs.values()))
        width = max(len(chain.label) for chain in self._chains) + 2
        for chain in self._chains:
            result = build.finished(run, chain, _outcomes.get(chain, []), _before.get(chain))
            self.write("\n".join(report.chain_lines(result, width)) + "\n")
        self.write(report.tree_line(run.tree, run.repository.modified()) + "\n")
        if readable := next((chain for chain in self._chains if run.store.ref(stages.ref_name(chain, "document"))), None):
            self.write(f"Read it: {run.project.settings.build}/out/{readable.label}/context.md\n")

    def _seen(self, task: Any) -> None:
        if (ours := _ours(task)) and ours[0] in {"snapshot", *LAST}:
            self._chains[Chain(ours[1], ours[2])] = None


def _ours(task: Any) -> tuple[str, str, str] | None:
    found: tuple[str, str, str] | None = (task.meta or {}).get(META)
    return found


class Codec:
    """doit's database as JSON. Whatever is not a mapping of mappings reads as empty: nothing is counted fresh by it."""

    def encode(self, data: Any) -> str:
        return json.dumps(data)

    def decode(self, data: str) -> Any:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or not all(isinstance(entry, dict) for entry in found.values()):
            return {}
        # Marks of `doit ignore` would let a stage pass for done.
        return {name: {key: value for key, value in entry.items() if key != "ignore:"} for name, entry in found.items()}


def doit_config() -> dict[str, Any]:
    """Our reporter, and a database that lies in the build folder and may be damaged."""
    found: dict[str, Any] = {"reporter": Reporter, "backend": "json", "codec_cls": Codec, "verbosity": 0}
    try:
        store = Project.find(Path.cwd()).store
        store.create()
        found["dep_file"] = os.path.relpath(store.folder / "doit.json")
    except SdaqfError:
        pass  # `observe` says what is wrong
    return found
