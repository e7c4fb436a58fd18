"""This module builds the contexts of a project in process, with or without doit in it (PIPELINE 1).

A refused manifest does not stop the others. A tree that moves while it is read gets one more try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sdaqf_tasks.context.document import content_digest
from sdaqf_tasks.errors import Reason, Refused, SdaqfError
from sdaqf_tasks.flow import stages
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.stages import STAGES, Outcome, Run, Stage
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, Manifest, Selection, Snapshot
from sdaqf_tasks.formats.declaration import DEFAULT
from sdaqf_tasks.formats.plain_yaml import nearest
from sdaqf_tasks.formats.records import cost

MOVED = frozenset({Reason.CANDIDATE_MOVED, Reason.CANDIDATE_MISMATCH})

MADE, SAME, CURRENT, SKIPPED, BLOCKED = "made", "same", "up to date", "skipped", "blocked"


class Summary(NamedTuple):
    """What a chain holds. Bytes are canonical; `content` is the content digest, 64 lowercase digits."""

    sources: int
    taken: int
    budget_bytes: int
    text_bytes: int
    record_bytes: int
    relation_bytes: int
    content: str
    sensitivity: str


class Result(NamedTuple):
    """How one chain ended: a word, the stages that were run or found current, what to know, and the refusal if any."""

    chain: Chain
    word: str
    outcomes: tuple[Outcome, ...] = ()
    summary: Summary | None = None
    error: SdaqfError | None = None

    @property
    def notes(self) -> list[str]:
        return [note for outcome in self.outcomes for note in outcome.notes]


def build(
    run: Run, names: Sequence[str] = (), *, until: str | None = None, done: Callable[[Result], object] = lambda result: None
) -> list[Result]:
    """Build every chain, or those named (NAME or NAME.QUERY), as far as the stage `until`.

    One result a chain, handed to `done` as soon as it is there. Raises `SdaqfError` only for what concerns the whole
    project: settings, a tree that cannot be observed, a name that nothing has.
    """
    wanted = [stage for stage in STAGES if until is None or STAGES.index(stage) <= STAGES.index(stages.BY_NAME[until])]
    stages.observe(run)
    results = []
    for manifest in _manifests(run, names):
        for result in _manifest(run, manifest, names, wanted):
            done(result)
            results.append(result)
    return results


def _manifests(run: Run, names: Sequence[str]) -> Iterable[ManifestFile]:
    if not names:
        return run.project.manifests
    return list(dict.fromkeys(run.project.manifest(name.split(".", 1)[0]) for name in names))


def _manifest(run: Run, manifest: ManifestFile, names: Sequence[str], wanted: Sequence[Stage]) -> Iterable[Result]:
    """The results of one manifest's chains, with one more try where the tree moved."""
    whole = Chain(manifest.name, DEFAULT)
    try:
        declaration = run.reading(manifest).declaration
    except SdaqfError as error:
        with run.lock():
            stages.withdraw(run, STAGES[0], whole)
        yield Result(whole, BLOCKED, error=error)
        return
    chains = _chains(manifest.name, list(declaration.queries), names)
    if stages.is_skipped(run, declaration):
        yield from (Result(chain, SKIPPED) for chain in chains)
        return
    try:
        common = _tried(run, chains[0], [stage for stage in wanted if not stage.per_query])
    except SdaqfError as error:
        yield Result(whole, BLOCKED, error=error)
        return
    for chain in chains:
        before = content(run, chain)
        try:
            outcomes = (*common, *_tried(run, chain, [stage for stage in wanted if stage.per_query]))
        except SdaqfError as error:
            yield Result(chain, BLOCKED, tuple(common), error=error)
        else:
            yield finished(run, chain, outcomes, before)


def finished(run: Run, chain: Chain, outcomes: Sequence[Outcome], before: str | None) -> Result:
    """The result of a chain that was not refused; `before` is its content digest before the first stage ran."""
    summary = summarise(run, chain)
    if not any(outcome.made for outcome in outcomes):
        return Result(chain, CURRENT, tuple(outcomes), summary)
    same = summary is not None and before == summary.content
    return Result(chain, SAME if same else MADE, tuple(outcomes), summary)


def _chains(manifest: str, queries: list[str], names: Sequence[str]) -> list[Chain]:
    chains = [Chain(manifest, query) for query in queries]
    picked = [chain for chain in chains if not names or manifest in names or chain.label in names]
    for name in names:
        own, _, query = name.partition(".")
        if own == manifest and query and query not in queries:
            close = nearest(query, queries)
            raise Refused(Reason.UNKNOWN_NAME, f"{manifest} has no query {query[:60]!r}" + (f"; did you mean {close}?" if close else ""))
    return picked


def _tried(run: Run, chain: Chain, wanted: Sequence[Stage]) -> list[Outcome]:
    """Run stages in order. Where the tree moved meanwhile, observe it again and begin at the manifest, once."""
    try:
        return [stages.run_stage(run, stage, chain) for stage in wanted]
    except SdaqfError as error:
        if error.reason not in MOVED:
            raise
    before = run.tree
    stages.observe(run)
    again = [stage for stage in STAGES if not stage.per_query or stage in wanted]
    try:
        return [stages.run_stage(run, stage, chain) for stage in again][-len(wanted) :] if wanted else []
    except SdaqfError as error:
        if error.reason not in MOVED:
            raise
        named = ", ".join(sorted({*before.files} ^ {*run.tree.files})[:5]) or "files changed in place"
        raise Refused(Reason.CANDIDATE_MOVED, f"the tree changed twice while it was read: {named}") from None


def content(run: Run, chain: Chain) -> str | None:
    """The content digest of what a chain holds now, if it holds anything."""
    try:
        return content_digest(held(run, chain, "snapshot"), held(run, chain, "compaction"))
    except SdaqfError:
        return None


def held(run: Run, chain: Chain, makes: str) -> Artifact[Any]:
    """The artifact that a chain's ref points to. Raises NOT_BUILT where there is none."""
    object_id = run.store.ref(stages.ref_name(chain, makes))
    if object_id is None:
        raise Refused(Reason.NOT_BUILT, f"{chain.label}: there is no {makes} yet")
    return run.load(object_id)


def summarise(run: Run, chain: Chain) -> Summary | None:
    """Counts and bytes of a chain that was built to its Compaction; None where it was not."""
    try:
        manifest: Artifact[Manifest] = held(run, chain, "manifest")
        selection: Artifact[Selection] = held(run, chain, "selection")
        snapshot: Artifact[Snapshot] = held(run, chain, "snapshot")
        compaction: Artifact[Compaction] = held(run, chain, "compaction")
    except SdaqfError:
        return None
    relations = sum(map(cost, snapshot.content.edges))
    text = sum(len(canonical.encode(node.text)) for node in snapshot.content.nodes)
    return Summary(
        sources=len(manifest.content.sources),
        taken=len(snapshot.content.nodes),
        budget_bytes=selection.content.budget_bytes,
        text_bytes=text,
        record_bytes=snapshot.content.context_bytes - relations - text,
        relation_bytes=relations,
        content=content_digest(snapshot, compaction),
        sensitivity=compaction.content.sensitivity.value,
    )
