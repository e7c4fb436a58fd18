"""This module runs the stages of a project: one table, and one function that keeps the promises (DESIGN, PIPELINE 1 and 4).

    refs → ids → objects → parse → same tree? → run → render → parse again → same tree? → object → receipt → ref → copy in out/

The same table feeds doit, `sdaqf build` and the command line. `judge` alone says whether a stage is current; everybody asks it.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from sdaqf_tasks.context import chain as whole_chain
from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.document import cite, document
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.context.query import query
from sdaqf_tasks.context.select import select, tied
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.context.staleness import expired, first_end, hidden_contradictions
from sdaqf_tasks.disk.store import DOCUMENT, PROGRAM, Receipt
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable, reason_of
from sdaqf_tasks.flow import blocked, lock
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.flow.run import Origin, Pass, Run
from sdaqf_tasks.flow.tape import Heard
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, render
from sdaqf_tasks.formats.declaration import DEFAULT, Declaration
from sdaqf_tasks.formats.records import RootScope, instant
from sdaqf_tasks.world import REFERENCE_BYTES, Tree

CANDIDATE, OUTSIDE = "candidate", "outside"

UNREADABLE = "the manifest cannot be read"
"""What stands for the files outside the tree where the YAML does not say which they are."""


class Made(NamedTuple):
    """What a stage made: its id and bytes, what a person should know, and when its first required window ends."""

    object_id: str
    data: bytes
    notes: tuple[str, ...] = ()
    until: str | None = None


class Outcome(NamedTuple):
    """How a stage ended. `made` is false where it was current and nothing ran."""

    stage: str
    object_id: str
    made: bool
    notes: tuple[str, ...] = ()


class Job:
    """One stage of one chain: what it may ask for."""

    def __init__(self, run: Run, stage: Stage, chain: Chain) -> None:
        self.run, self.stage, self.chain = run, stage, chain
        self.manifest_file = run.project.manifest(chain.manifest)
        self.heard = Heard()
        self.sources = Pass(run)

    @property
    def declaration(self) -> Declaration:
        return self.run.reading(self.manifest_file).declaration

    def __getitem__(self, name: str) -> Artifact[Any]:
        """The artifact that the ref `name` of this chain points to."""
        return self.run.load(self._taken(name))

    def inputs(self) -> dict[str, str]:
        """Every id and digest that the stage reads, as they are now (DESIGN, receipts)."""
        with self.heard:
            found = {name: self._taken(name) for name in self.stage.takes}
            if self.stage.declares:
                found |= {f"file:{path}": sha256 for path, sha256 in self.run.reading(self.manifest_file).digests.items()}
            if not self.stage.takes:
                locks = lock.read(self.run, self.manifest_file)
                found["lock"] = locks.digest
                if self.run.locked and locks.repository is None:
                    found["locked"] = "yes"  # what was built without a lock does not pass for reviewed
            if self.stage.observes:
                found[CANDIDATE] = canonical.digest(self.run.candidate.encode("ascii"))
                found[OUTSIDE] = outside(self.run, self.declaration)
            return found

    def _taken(self, name: str) -> str:
        """The id that the ref `name` of this chain holds."""
        object_id = self.run.store.ref(ref_name(self.chain, name))
        if object_id is None:
            raise Refused(Reason.NOT_BUILT, f"{self.label}: there is no {name} to make the {self.stage.makes} from")
        return object_id

    def verify_same_tree(self) -> None:
        """What the stage takes is of the tree that this run observed: another run may have come between (DESIGN)."""
        tree = self.run.tree
        for name in self.stage.takes:
            found = self[name].content.candidate
            if (found.git_head, found.repository_digest) != (tree.git_head, tree.repository_digest):
                raise Refused(Reason.CANDIDATE_MISMATCH, f"{self.label}: the {name} is of another tree")

    @property
    def origin(self) -> Origin:
        return Origin(self.run, self.stage.name, self.heard, self.chain.manifest, self.chain.query)

    @property
    def label(self) -> str:
        """What the stage works for: a manifest, or one of its queries."""
        return self.chain.label if self.stage.per_query else self.chain.manifest

    def owner_root(self, members: Any) -> bool:
        """Whether to tell a stage of an owner root: where one is given and needed."""
        return self.run.owner is not None and any(member.locator.root_scope is RootScope.OWNER for member in members)


class Stage(NamedTuple):
    """One row of the table. `observes`: it verifies the tree; `declares`: it reads the YAML; `per_query`: once a query."""

    name: str
    says: str
    takes: tuple[str, ...]
    makes: str
    run: Callable[[Job], Made]
    observes: bool = False
    declares: bool = False
    per_query: bool = True


def _artifact(artifact: Artifact[Any], notes: tuple[str, ...] = (), until: str | None = None) -> Made:
    return Made(artifact.artifact_id, render(artifact), notes, until)


def _manifest(job: Job) -> Made:
    compiled = compile_manifest(job.declaration, job.sources)
    reviewed = lock.verify(job.run, job.manifest_file, compiled.held, locked=job.run.locked)
    required = [source for source in compiled.manifest.content.sources if source.required]
    _verify_unexpired(job, required)
    return _artifact(compiled.manifest, (*compiled.notes, *reviewed), first_end(required))


def _index(job: Job) -> Made:
    manifest = job["manifest"]
    graph = index(manifest, job.sources, owner_root=job.owner_root(manifest.content.sources))
    titles = {source.source_id: source for source in manifest.content.sources}
    notes = [f"{titles[e.source_id].locator.path} left out: {_in_words(e.reason)}" for e in graph.content.excluded_sources]
    for hidden in hidden_contradictions(manifest, graph):
        message = f"{hidden.kept.locator.path} contradicts {hidden.lost.locator.path}, which was left out ({hidden.reason})"
        if hidden.kept.required:
            raise Refused(Reason.CONTRADICTION_HIDDEN, message)
        notes.append(f"{message}: the contradiction is not shown")
    return _artifact(graph, tuple(notes))


def _query(job: Job) -> Made:
    graph = job["graph"]
    asked = query(job.declaration, job.chain.query, graph, job.run.tree.committed, job["manifest"])
    wanted = set(asked.query.content.required_node_ids)
    required = [node for node in graph.content.nodes if node.node_id in wanted]
    _verify_unexpired(job, required)
    return _artifact(asked.query, asked.notes, first_end(required))


def _select(job: Job) -> Made:
    graph, wanted = job["graph"], job["query"]
    selection = select(graph, wanted)
    equal, cut = tied(graph, wanted, selection)
    notes = (f"{cut} left out for the budget",) if cut else ()
    if equal:
        notes = (f"{equal} of {cut} left out rank equal; the id decided: name what matters (require, terms) or raise the budget",)
    nodes = {node.node_id: node for node in graph.content.nodes}
    above = [nodes[e.node_id] for e in selection.content.excluded if e.reason == Reason.SENSITIVITY_CLEARANCE.value]
    cleared = wanted.content.clearance.value
    more = (f"{cite(node)} left out: it is {node.sensitivity.value}, and the query's clearance is {cleared}" for node in above)
    return _artifact(selection, (*notes, *more))


def _snapshot(job: Job) -> Made:
    graph, selection = job["graph"], job["selection"]
    chosen = {decision.node_id for decision in selection.content.selected}
    owner_root = job.owner_root(node for node in graph.content.nodes if node.node_id in chosen)
    made = snapshot(graph, selection, job.sources, owner_root=owner_root)
    present = {node.node_id for node in made.content.nodes}
    lost = {exclusion.node_id: exclusion.reason for exclusion in made.content.excluded if exclusion.node_id in chosen - present}
    paths = {node.node_id: node.locator.path for node in graph.content.nodes}
    return _artifact(made, tuple(f"{paths[node_id]} dropped out: {_in_words(reason)}" for node_id, reason in lost.items()))


def _in_words(code: str) -> str:
    """An exclusion reason as people read it: the sentence, then the identifier."""
    reason = reason_of(code)
    return f"{reason.when[:1].lower()}{reason.when[1:].rstrip('.')} ({code})" if reason else code


def _compact(job: Job) -> Made:
    made = job["snapshot"]
    whole_chain.verify(job["graph"], job["selection"], made)
    return _artifact(compact(made, job.sources, owner_root=job.owner_root(made.content.nodes)))


def _render(job: Job) -> Made:
    data = document(job["snapshot"], job["compaction"], title=job.declaration.title or job.chain.label).encode("utf-8")
    return Made(DOCUMENT + canonical.digest(data), data)


def _quality(job: Job) -> Made:
    taken = job["graph"], job["selection"], job["snapshot"]
    whole_chain.verify(*taken)
    return _artifact(quality(*taken))


def _verify_unexpired(job: Job, required: list[Any]) -> None:
    """Required context is refused once today's clock has passed its window, wherever as_of lies."""
    if member := expired(required, job.run.now):
        message = f"{member.locator.path} is past its window: valid until {member.freshness.valid_until}; it is {job.run.now} now"
        raise Refused(Reason.REQUIRED_EXPIRED, message, todo="Observe again, then: sdaqf lock --observed now")


STAGES: tuple[Stage, ...] = (
    Stage("manifest", "Compile the YAML: find the files and pin them.", (), "manifest", _manifest, True, True, per_query=False),
    Stage("index", "Read every source into a Graph.", ("manifest",), "graph", _index, observes=True, per_query=False),
    Stage("query", "Compile a query for the Graph.", ("manifest", "graph"), "query", _query, declares=True),
    Stage("select", "Select what the query takes within its budget.", ("graph", "query"), "selection", _select),
    Stage("snapshot", "Observe what was selected again, exactly.", ("graph", "selection"), "snapshot", _snapshot, observes=True),
    Stage("compact", "Reduce the Snapshot to its extracts.", ("graph", "selection", "snapshot"), "compaction", _compact, observes=True),
    Stage("render", "Write the extracts as a document, context.md.", ("snapshot", "compaction"), "document", _render, declares=True),
    Stage("quality", "Count what the Snapshot holds.", ("graph", "selection", "snapshot"), "quality", _quality),
)
BY_NAME: Mapping[str, Stage] = {stage.name: stage for stage in STAGES}
LAST = frozenset(stage.name for stage in STAGES if not any(stage.makes in other.takes for other in STAGES))
"""Stages that nothing is made from."""

PER_MANIFEST = frozenset(stage.makes for stage in STAGES if not stage.per_query)


def ref_name(chain: Chain, makes: str) -> str:
    """Where the ref of a result is, below `refs/`."""
    return f"m/{chain.manifest}/{makes}" if makes in PER_MANIFEST else f"m/{chain.manifest}/q/{chain.query}/{makes}"


def out_name(chain: Chain, makes: str) -> str:
    """Where the readable copy of a result is, below `out/`."""
    folder = chain.manifest if makes in PER_MANIFEST or chain.query == DEFAULT else chain.label
    return f"{folder}/context.md" if makes == "document" else f"{folder}/{makes}.json"


def below(stage: Stage) -> list[Stage]:
    """The stage and those that are made from what it makes, in the order of the table."""
    found = [stage]
    for other in STAGES:
        if other not in found and any(lower.makes in other.takes for lower in found):
            found.append(other)
    return found


def up_to(stage: Stage) -> list[Stage]:
    """The stage and those that it is made from, in the order of the table."""
    wanted = {stage.makes}
    for other in reversed(STAGES):
        if other.makes in wanted:
            wanted.update(other.takes)
    return [other for other in STAGES if other.makes in wanted]


def judge(job: Job, inputs: Mapping[str, str]) -> str | None:
    """Why the stage must run, or None where its result is current.

    Current means: the receipt's output is the ref, its inputs are the present ones, the object is intact, and no required
    window has ended.
    """
    name, store = ref_name(job.chain, job.stage.makes), job.run.store
    held, receipt = store.ref(name), store.receipt(name)
    if held is None or receipt is None:
        return "not built"
    if receipt.program != PROGRAM:
        return "made by another version of the program"
    if receipt.output != held:
        return "its ref is not the one that its receipt names"
    if different := sorted(key for key in {*inputs, *receipt.inputs} if inputs.get(key) != receipt.inputs.get(key)):
        return "changed: " + ", ".join(_INPUTS.get(key, key.removeprefix("file:")) for key in different)
    if receipt.until is not None and instant(receipt.until) < instant(job.run.now):
        return f"expired at {receipt.until}; it is {job.run.now} now"
    try:
        store.get(held)
    except Unreadable as error:
        return error.message
    return None


_INPUTS = {CANDIDATE: "the tree", OUTSIDE: "files outside the tree", "lock": "the lock", "locked": "a lock is asked for"}


def is_shown(job: Job) -> bool:
    """Whether the copy that people open is there, and whole."""
    held = job.run.store.ref(ref_name(job.chain, job.stage.makes))
    return held is not None and job.run.store.shows(out_name(job.chain, job.stage.makes), job.run.store.get(held))


def run_stage(run: Run, stage: Stage, chain: Chain) -> Outcome:
    """Run one stage of one chain under the project lock, unless it is current.

    A refusal withdraws the stage's ref and every ref below it, and is raised.
    """
    with run.lock():
        job = Job(run, stage, chain)
        name, out = ref_name(chain, stage.makes), out_name(chain, stage.makes)
        try:
            inputs = job.inputs()
            if judge(job, inputs) is None:
                object_id = run.store.ref(name) or ""
                run.store.show(out, run.store.get(object_id))
                return Outcome(stage.name, object_id, made=False)
            made = execute(job, inputs)
            run.store.put(made.object_id, made.data)
            run.store.point(name, Receipt(inputs=inputs, output=made.object_id, until=made.until, program=PROGRAM))
            run.store.show(out, made.data)
        except SdaqfError as error:
            error.origin = job.origin
            with suppress(SdaqfError):  # what is told is the refusal, not that it could not be acted upon
                withdraw(run, stage, chain)
            raise
        return Outcome(stage.name, made.object_id, made=True, notes=made.notes)


def execute(job: Job, inputs: Mapping[str, str]) -> Made:
    """Do what the stage does, and write nothing: a replay does the same in the world of its record."""
    with job.heard:
        _ = job.run.tree
        job.verify_same_tree()
        made = job.stage.run(job)
    if job.inputs() != inputs:
        raise Refused(Reason.CANDIDATE_MOVED, f"{job.label}: what {job.stage.name} reads changed while it ran")
    return made


def withdraw(run: Run, stage: Stage, chain: Chain) -> None:
    """Take back a stage's result and everything that was made from it, in every query where the stage is the manifest's."""
    chains = [chain] if stage.per_query else [Chain(chain.manifest, name) for name in run.store.queries(chain.manifest)] or [chain]
    for each in chains:
        for lower in below(stage):
            run.store.withdraw(ref_name(each, lower.makes))
            run.store.hide(out_name(each, lower.makes))


def observe(run: Run) -> None:
    """The stage before all others: look at the tree, and at what manifests name outside it, and write both down.

    What belongs to manifests and queries that are no more is withdrawn. Raises `Refused` where the tree cannot be
    observed, or where git would list what the program writes; then nothing that was built holds any longer, and there is a
    record of it.
    """
    run.forget()
    heard = Heard()
    try:
        with heard:
            look(run)
    except SdaqfError as error:
        error.origin = Origin(run, OBSERVE, heard)
        if run.store.is_there:
            with suppress(SdaqfError), run.lock():
                _withdraw_all(run, keep={})
                run.store.withdraw(CANDIDATE)
        blocked.keep(error)
        raise
    with run.lock():
        _point(run, CANDIDATE, run.candidate)
        keep: dict[str, Iterable[str] | None] = {}
        for manifest in run.project.manifests:
            try:
                declaration = run.reading(manifest).declaration
                if is_skipped(run, declaration):
                    continue  # what the owner built earlier does not stay to be taken for the present
                keep[manifest.name], found = declaration.queries, outside(run, declaration)
            except SdaqfError:
                keep[manifest.name], found = None, UNREADABLE  # the manifest stage refuses it, with its place
            _point(run, f"m/{manifest.name}/{OUTSIDE}", found)
        _withdraw_all(run, keep)


OBSERVE = "observe"
"""What the stage before all others is called in a record."""


def look(run: Run) -> None:
    """Observe the tree, with one more try where it moves; nothing of ours may be a part of it."""
    if run.store.is_there:
        run.store.create()  # a `.gitignore` that somebody deleted would show git everything
    try:
        run.observe()
    except SdaqfError as error:
        if error.reason is not Reason.CANDIDATE_MOVED:
            raise
        run.report(f"the tree moved while it was read ({error.where}): once more")
        run.observe()
    settings = run.project.settings
    for folder in (settings.build, settings.shards):
        inside = _listed(run.tree, folder)
        if inside and set(inside) <= {f"{folder}/{name}" for name in BEING_MADE} | set(_temporaries(inside)):
            # Another run is making the folder at this very moment; when it holds the lock, git does not list it any more.
            time.sleep(0.05)
            if any(_temporaries(inside)) and folder == settings.build:
                run.store.create()  # or one was killed while it did: then it is made now, and swept by who holds the lock
            inside = _listed(run.observe(), folder)
        if inside:
            message = f"{inside[0]} lies in {folder}, and git lists it"
            todo = f"Run `git rm -r --cached {shlex.quote(folder)}`, and ignore {folder}/."
            if folder == settings.build and run.store.is_there and not run.tree.untracked.isdisjoint(inside):
                todo = "Its `.gitignore` was changed. Run: sdaqf doctor --repair"
            raise Refused(Reason.OUTPUT_NOT_IGNORED, message, todo=todo)


BEING_MADE = (".gitignore", "lock")


def _temporaries(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.endswith(".tmp"))


def _listed(tree: Tree, folder: str) -> list[str]:
    names = (*tree.files, *tree.links, *tree.submodules, *tree.absent)
    return sorted(name for name in names if name.startswith(folder + "/"))


def _withdraw_all(run: Run, keep: Mapping[str, Iterable[str] | None]) -> None:
    """Take back everything but the manifests that are kept, each with these queries, or with all where that is not known."""
    for name in run.store.manifests():
        queries = keep.get(name, ())
        if name not in keep:
            withdraw(run, STAGES[0], Chain(name, DEFAULT))
            run.store.withdraw(f"m/{name}/{OUTSIDE}")
        elif queries is not None:
            for query in sorted({*run.store.queries(name)} - {*queries}):
                withdraw(run, BY_NAME["query"], Chain(name, query))


def _point(run: Run, name: str, content: str) -> None:
    if run.store.ref(name) != content:
        run.store.point(name, Receipt(inputs={}, output=content, program=PROGRAM))


def outside(run: Run, declaration: Declaration) -> str:
    """The digest of every named file that is in no tree: scope, path, and SHA-256 or why it cannot be read (PIPELINE 4)."""
    look = Pass(run)
    found = []
    for scope, path in declaration.outside:
        try:
            state = look.read(scope, path, REFERENCE_BYTES).sha256
        except Unreadable as error:
            state = error.reason.value
        found.append([scope.value, path, state])
    return canonical.digest(canonical.encode(found))


def is_skipped(run: Run, declaration: Declaration) -> bool:
    """Whether a manifest is left aside because it has owner sources and nobody said where they are."""
    return declaration.has_owner_sources and run.owner is None
