"""This module answers `diff`: what one context tells and another does not, in files, in the store, now and in the past.

Nothing is written: a context of the past is made in memory, from the files of its commit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.difference import Side, difference
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.query import query
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.disk.past import Past, converted
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import Invalid, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.flow import report
from sdaqf_tasks.flow.build import held
from sdaqf_tasks.flow.project import ManifestFile, read_declaration
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.status import status
from sdaqf_tasks.formats.artifacts import PREFIXES, Artifact, Compaction, Snapshot, parse
from sdaqf_tasks.formats.declaration import DEFAULT
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.fronts import calls
from sdaqf_tasks.fronts.questions import Result, chain_of

_ID = re.compile(r"CTX-[A-Z-]+-[0-9A-F]{64}")


def diff(run: Run | None, base: str, current: str) -> Result:
    """What differs between two contexts: artifact files, ids of objects, or labels of what is built now.

    Without a run, files are all that can be compared.
    """
    notes: list[str] = []
    sides = [_side(run, given, notes) for given in (base, current)]
    entry = {"base": _called(base), "current": _called(current), **difference(*sides), "notes": notes, "error": None}
    return {"since": None, "contexts": [entry], "skipped": []}


def _called(given: str) -> str:
    """A file goes by its name: no answer holds a path of the machine."""
    return Path(given).name if given.endswith(".json") else given


def since(run: Run, commit: str, names: Sequence[str] = ()) -> Result:
    """What is told now and was not at `commit`, or the reverse, for every context or those named. The past is made in memory;
    contexts with owner sources are skipped unless they are named.
    """
    run.observe()
    entries = [(manifest, entry) for manifest in run.project.manifests for entry in status(run, [manifest.name])["contexts"]]
    for name in names:
        if not any(name in (manifest.name, entry["context"]) for manifest, entry in entries):
            chain_of(run, name)  # refuses it
    past = Past(run.repository, commit, exclude=run.project.settings.exclude)
    contexts, skipped = [], []
    for manifest, entry in entries:
        if not names and entry["state"] == "skipped":
            skipped.append(entry["context"])
        elif not names or {manifest.name, entry["context"]} & {*names}:
            contexts.append(_since(run, manifest, entry["context"], past))
    return {"since": commit, "contexts": contexts, "skipped": skipped}


def _since(run: Run, manifest: ManifestFile, label: str, past: Past) -> Result:
    commit, notes = past.tree().git_head, list[str]()
    entry: Result = {"base": commit, "current": label}
    try:
        current = _side(run, label, notes)
        base = _past(manifest, label.partition(".")[2] or DEFAULT, past)
    except SdaqfError as error:
        return entry | {"error": report.error_object(error, "diff") | {"todo": error.todo}}
    found = difference(base, current)
    nodes = (node for side in (base, current) for node in side.snapshot.content.nodes)
    paths = {node.locator.path for node in nodes if node.locator.root_scope is RootScope.REPOSITORY}
    lost = dict.fromkeys(converted(run.repository, paths), "git writes it otherwise than it keeps it")
    links = {*past.tree().links, *run.tree.links}
    known = {source.locator.path for side in (base, current) if side.manifest for source in side.manifest.content.sources}
    found["changed"] = [change for change in found["changed"] if change["source"].rpartition(":")[0] not in lost]
    lost |= dict.fromkeys(known & links, "a link on one of the two sides")
    found["not_compared"] += [f"{path}: {why}" for path, why in sorted(lost.items())]
    return entry | found | {"notes": notes, "error": None}


def _past(manifest: ManifestFile, name: str, past: Past) -> Side:
    """The chain of a query as it would have been built from the commit alone."""
    commit = past.tree().git_head[:12]
    if manifest.path not in past.tree().files:
        raise Refused(Reason.UNKNOWN_NAME, f"{manifest.path} was not there at {commit}", todo="Everything in it is new since.")
    declaration = read_declaration(past.read_file, manifest.path, manifest.name).declaration
    if outside := declaration.outside:
        message = f"{manifest.name} has sources that no commit holds: {', '.join(path for _, path in outside[:3])}"
        raise Refused(Reason.MISSING_OR_UNREADABLE, message, todo="Compare two builds instead.")
    compiled = compile_manifest(declaration, past).manifest
    graph = index(compiled, past)
    selection = select(graph, query(declaration, name, graph, past.tree().committed, compiled).query)
    made = snapshot(graph, selection, past)
    return Side(made, selection, graph, compiled, compact(made, past))


def _side(run: Run | None, given: str, notes: list[str]) -> Side:
    """A file, an object or a label, with what the store has of its chain."""
    store = run.store if run else None
    found: Artifact[Any] | None
    if given.endswith(".json"):
        found = calls.load(Path(given))
    elif run is None:
        raise Refused(Reason.NOT_A_REPOSITORY, "outside a repository, artifact files alone can be compared", todo="Give two .json files.")
    elif _ID.fullmatch(given):
        found = parse(run.store.get(given))
    else:
        chain, state = chain_of(run, given)
        if state["state"] != "current":
            notes.append(f"{given} is {state['state']}: {state['why']}; this is about what was built last")
        found = held(run, chain, "snapshot", state["next"] or None)
    if isinstance(found.content, Compaction):
        compaction, found = found, _stored(store, found.content.snapshot_id)
        if found is None:
            raise Refused(Reason.OBJECT_MISSING, f"{_called(given)!a}: its Snapshot is not in the store", todo="Give the Snapshot.")
        return _completed(store, found)._replace(compaction=compaction)
    if not isinstance(found.content, Snapshot):
        raise Invalid(Reason.ARTIFACT_TYPE, f"a {found.artifact_type}, where a context-snapshot belongs", todo="Give a Snapshot.")
    return _completed(store, found)


def _completed(store: Store | None, made: Artifact[Snapshot]) -> Side:
    graph = _stored(store, made.content.graph_id)
    extracts = (_stored(store, name) for name in (store.references() if store else ()) if name.startswith(PREFIXES[Compaction]))
    return Side(
        made,
        _stored(store, made.content.selection_id),
        graph,
        _stored(store, graph.content.manifest_id) if graph else None,
        next((one for one in extracts if one and one.content.snapshot_id == made.artifact_id), None),
    )


def _stored(store: Store | None, object_id: str) -> Artifact[Any] | None:
    """The object, if it is there. Raises `Unreadable` where it is damaged."""
    if store is None:
        return None
    try:
        return parse(store.get(object_id))
    except Unreadable as error:
        if error.reason is Reason.OBJECT_MISSING:
            return None
        raise
