"""This module gives the stages to doit as tasks, and doit a database that may be damaged (DESIGN, PIPELINE 1).

Refs are targets and file dependencies; whether a task is current is `stages.judge`'s to say, whatever doit's own database
holds. Tasks are defined from a tolerant reading: what cannot be read is refused when its task runs, with its place.

A `dodo.py` imports this on every run of doit, so what takes long is imported where it is needed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sdaqf_tasks.flow.project import Chain, ManifestFile, Project
    from sdaqf_tasks.flow.stages import Stage

OBSERVE = "observe"
META = "sdaqf"
"""The key of a task's `meta` under which its `Place` stands, and of the task's values under which its action tells."""

Task = dict[str, Any]


class Place(NamedTuple):
    """What a task is for: the top as seen from doit's folder, a stage, a manifest, and one of its queries or none."""

    top: str
    stage: str
    manifest: str = ""
    query: str = ""


class Pipeline:
    """What `sdaqf_tasks.pipeline()` returns: an object in a `dodo.py` from which doit takes the tasks."""

    def __init__(self, prefix: str | None = None) -> None:
        self._names = Names(prefix)
        _ours.append(self._names)

    def create_doit_tasks(self) -> Iterator[Task]:
        """The pipeline of sdaqf-tasks."""
        yield from _tasks(self._names)


class Names(NamedTuple):
    """Task names: plain ones, or private ones behind a prefix."""

    prefix: str | None

    def base(self, stage: str) -> str:
        return stage if self.prefix is None else f"_{self.prefix}-{stage}"

    def of(self, stage: Stage, chain: Chain) -> str:
        return f"{self.base(stage.name)}:{chain.label if stage.per_query else chain.manifest}"

    def has(self, task: str) -> bool:
        """Whether a task of that name is one of the pipeline's."""
        base = task.partition(":")[0]
        return base == self.prefix or base in {self.base(stage) for stage in STAGE_NAMES}


STAGE_NAMES = (OBSERVE, "manifest", "index", "query", "select", "snapshot", "compact", "render", "quality")

_ours: list[Names] = []
"""The pipelines of this process: their tasks cannot be ignored."""


# ---- definition ---------------------------------------------------------------------------------------------------------


def _tasks(names: Names) -> Iterator[Task]:
    from sdaqf_tasks.errors import SdaqfError
    from sdaqf_tasks.flow import actions
    from sdaqf_tasks.flow.project import Project
    from sdaqf_tasks.flow.stages import CANDIDATE, LAST, OUTSIDE, STAGES

    actions.forget()
    try:
        project = Project.find(Path.cwd())
        manifests = project.manifests
        seen = [CANDIDATE, *(f"m/{manifest.name}/{OUTSIDE}" for manifest in manifests)]
        targets = _refs(project, seen)
    except (SdaqfError, OSError):
        # What is wrong is said when `observe` runs; every other group leads there.
        yield _observe(names, os.curdir, [])
        for base in (*(names.base(stage.name) for stage in STAGES), *([names.prefix] if names.prefix else [])):
            yield {"basename": base, "actions": None, "task_dep": [names.base(OBSERVE)]}
        return
    yield _observe(names, os.path.relpath(project.top), targets)
    # `doit snapshot` gives every Snapshot, and what people open of it: extracts, document and report.
    opened = [names.base(last) for last in sorted(LAST)] if names.prefix is None else []
    for stage in STAGES:
        wanted = opened if stage.name == "snapshot" else []
        yield {"basename": names.base(stage.name), "name": None, "doc": stage.says, "task_dep": wanted}
    if names.prefix is not None:
        yield {"basename": names.prefix, "name": None, "doc": "Contexts for agents: Snapshot, extracts, document and report of each."}
    for manifest in manifests:
        yield from _of_manifest(names, project, manifest)


def _observe(names: Names, top: str, targets: list[str]) -> Task:
    from sdaqf_tasks.flow import actions

    return {
        "basename": names.base(OBSERVE),
        "actions": [(actions.observe, [top])],
        "targets": targets,
        "uptodate": [False],
        "verbosity": 2,
        "meta": {META: Place(top, OBSERVE)},
        "doc": "Look at the tree: HEAD and every file that git would let you commit.",
    }


def _of_manifest(names: Names, project: Project, manifest: ManifestFile) -> Iterator[Task]:
    from sdaqf_tasks.errors import SdaqfError
    from sdaqf_tasks.flow.project import Chain, read_declaration
    from sdaqf_tasks.flow.stages import BY_NAME, LAST, STAGES
    from sdaqf_tasks.formats.declaration import DEFAULT

    try:
        declaration = read_declaration(project.root.read, manifest.path, manifest.name).declaration
        queries, skipped = list(declaration.queries), declaration.has_owner_sources and project.owner_root is None
    except SdaqfError:
        queries, skipped = project.store.queries(manifest.name) or [DEFAULT], False
    chains = [Chain(manifest.name, query) for query in queries]
    for stage in STAGES:
        for chain in chains if stage.per_query else [Chain(manifest.name, DEFAULT)]:
            yield _stage(names, project, stage, chain, skipped)
    if names.prefix is not None:
        for chain in chains:
            wanted = [names.of(BY_NAME[last], chain) for last in sorted(LAST)]
            yield {"basename": names.prefix, "name": chain.label, "actions": None, "task_dep": wanted}


def _stage(names: Names, project: Project, stage: Stage, chain: Chain, skipped: bool) -> Task:
    from sdaqf_tasks.flow import actions
    from sdaqf_tasks.flow.stages import CANDIDATE, OUTSIDE, STAGES, ref_name

    place = Place(os.path.relpath(project.top), stage.name, chain.manifest, chain.query if stage.per_query else "")
    task: Task = {
        "basename": names.base(stage.name),
        "name": chain.label if stage.per_query else chain.manifest,
        "actions": [(actions.run_stage, list(place))],
        "task_dep": [names.base(OBSERVE)],
        "verbosity": 2,
        "meta": {META: place},
    }
    if skipped:
        return task | {"uptodate": [False]}
    taken = [ref_name(chain, name) for name in stage.takes]
    if stage.observes:
        taken += [CANDIDATE, f"m/{chain.manifest}/{OUTSIDE}"]
    made_by = {each.makes: each for each in STAGES}
    return task | {
        "targets": _refs(project, [ref_name(chain, stage.makes)]),
        "file_dep": _refs(project, taken),
        "task_dep": [names.base(OBSERVE), *(names.of(made_by[name], chain) for name in stage.takes)],
        "uptodate": [(actions.is_current, list(place))],
    }


def _refs(project: Project, refs: list[str]) -> list[str]:
    return [os.path.relpath(project.store.folder / "refs" / ref) for ref in refs]


# ---- doit's own state ---------------------------------------------------------------------------------------------------


class Codec:
    """doit's database as JSON. An entry that doit could not have written is none: nothing is counted fresh by it."""

    def encode(self, data: Any) -> str:
        return json.dumps(data)

    def decode(self, data: str) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return {}
        if not isinstance(found, dict):
            return {}
        # Marks of `doit ignore` would let a stage pass for done.
        return {
            name: {key: value for key, value in entry.items() if key != "ignore:" or not any(names.has(name) for names in _ours)}
            for name, entry in found.items()
            if _is_entry(entry)
        }


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("_values_:", {}), dict):
        return False
    dependencies = entry.get("deps:", [])
    if not isinstance(dependencies, list) or not all(isinstance(name, str) for name in dependencies):
        return False
    states = [value for key, value in entry.items() if key not in ("_values_:", "result:", "ignore:", "deps:", "checker:")]
    match entry.get("checker:"):
        case "MD5Checker":
            return all(isinstance(state, list) and list(map(type, state)) in _MD5_STATES for state in states)
        case "TimestampChecker":
            return all(isinstance(state, int | float) for state in states)
        case None:
            return not states
        case other:
            return isinstance(other, str)


_MD5_STATES = ([float, int, str], [int, int, str])
"""A file's mtime, size and MD5."""


def doit_config() -> dict[str, Any]:
    """Our reporter, and a database that lies in the build folder and may be damaged."""
    from sdaqf_tasks.disk.store import Store
    from sdaqf_tasks.errors import SdaqfError
    from sdaqf_tasks.flow.project import Project, Settings
    from sdaqf_tasks.flow.reporter import Reporter

    found: dict[str, Any] = {"reporter": Reporter, "backend": "json", "codec_cls": Codec}
    try:
        project = Project.find(Path.cwd())
        try:
            store = project.store
        except SdaqfError:  # settings that cannot be read: doit's files are not for the tree all the same
            store = Store(project.top, Settings().build)
        if not store.folder.is_dir():  # one that is there may be somebody else's: `observe` finds out before it writes
            store.create()
        database = store.folder / "doit.json"
        _verify_text(database)
        found["dep_file"] = os.path.relpath(database)
    except (SdaqfError, OSError):
        pass  # `observe` says what is wrong
    return found


def _verify_text(database: Path) -> None:
    """Remove a database that is no text: doit reads it before our codec can."""
    if database.is_file() and not database.read_bytes().isascii():
        database.unlink()
