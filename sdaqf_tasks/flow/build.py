"""This module builds the contexts of a project in process, with or without doit in it (PIPELINE 1).

A refused manifest does not stop the others. A tree that moves while it is read gets one more try.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sdaqf_tasks.context.document import content_digest
from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import blocked, lock, stages
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import BY_NAME, STAGES, Outcome, Stage
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact
from sdaqf_tasks.formats.declaration import DEFAULT
from sdaqf_tasks.formats.plain_yaml import nearest
from sdaqf_tasks.formats.records import cost, instant
from sdaqf_tasks.world import Tree

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
    notes: tuple[str, ...] = ()


def build(
    run: Run, names: Sequence[str] = (), *, until: str | None = None, done: Callable[[Result], object] = lambda result: None
) -> list[Result]:
    """Build every chain, or those named (NAME or NAME.QUERY), as far as the stage `until`.

    One result a chain, handed to `done` as soon as it is there. Raises `SdaqfError` only for what concerns the whole
    project: settings, a tree that cannot be observed, a name that nothing has.
    """
    wanted = STAGES if until is None else stages.up_to(stages.BY_NAME[until])
    meant = asked(run, names)
    stages.observe(run)
    results = []
    for manifest, queries in meant.items():
        for result in _manifest(run, manifest, queries, wanted):
            if result.error:
                blocked.keep(result.error)
            done(result)
            results.append(result)
    return results


def asked(run: Run, names: Sequence[str]) -> dict[ManifestFile, frozenset[str]]:
    """The manifests that the names mean, each with the queries that were named, or none where all are meant.

    Raises `Refused` with UNKNOWN_NAME before anything is done. What a YAML that cannot be read would name is not checked.
    """
    if not names:
        return {manifest: frozenset() for manifest in run.project.manifests}
    found: dict[ManifestFile, frozenset[str]] = {}
    for name in names:
        own, dot, query = name.partition(".")
        manifest = run.project.manifest(own)
        everything = not dot or found.get(manifest) == frozenset()
        found[manifest] = frozenset() if everything else found.get(manifest, frozenset()) | {query}
        if dot:
            _verify_query(run, manifest, query)
    return found


def _verify_query(run: Run, manifest: ManifestFile, query: str) -> None:
    try:
        queries = run.reading(manifest).declaration.queries
    except SdaqfError:
        return  # it is refused with its place when its turn comes
    if query not in queries:
        close = nearest(query, list(queries))
        hint = f"; did you mean {manifest.name}.{close}?" if close else ""
        raise Refused(Reason.UNKNOWN_NAME, f"{manifest.name} has no query {query[:60]!r}{hint}")


def _manifest(run: Run, manifest: ManifestFile, queries: frozenset[str], wanted: Sequence[Stage]) -> Iterator[Result]:
    """The results of one manifest's chains."""
    whole = Chain(manifest.name, DEFAULT)
    job = stages.Job(run, STAGES[0], whole)
    try:
        with job.heard:
            _ = run.tree
            declaration = run.reading(manifest).declaration
    except SdaqfError as error:
        error.origin = job.origin
        with suppress(SdaqfError), run.lock():
            stages.withdraw(run, STAGES[0], whole)
        yield Result(whole, BLOCKED, error=error)
        return
    chains = [Chain(manifest.name, query) for query in declaration.queries if not queries or query in queries]
    if stages.is_skipped(run, declaration):
        yield from (Result(chain, SKIPPED) for chain in chains)
        return
    try:
        common = attempt(run, whole, [stage for stage in wanted if not stage.per_query])
    except SdaqfError as error:
        yield Result(whole, BLOCKED, error=error)
        return
    for chain in chains:
        before = content(run, chain)
        try:
            outcomes = [*common, *attempt(run, chain, [stage for stage in wanted if stage.per_query])]
        except SdaqfError as error:
            yield Result(chain, BLOCKED, tuple(common), error=error)
        else:
            yield finished(run, chain, outcomes, before)
        common = [outcome._replace(notes=()) for outcome in common]  # what concerns the manifest is said once


def finished(run: Run, chain: Chain, outcomes: Sequence[Outcome], before: str | None) -> Result:
    """The result of a chain that was not refused; `before` is its content digest before the first stage ran."""
    summary = summarise(run, chain) if any(outcome.stage == "compact" for outcome in outcomes) else None
    notes = (*(note for outcome in outcomes for note in outcome.notes), *(clock_notes(run, chain) if summary else ()))
    made, same = any(outcome.made for outcome in outcomes), summary is not None and before == summary.content
    word = CURRENT if not made else SAME if same else MADE
    return Result(chain, word, tuple(outcomes), summary, notes=notes)


def clock_notes(run: Run, chain: Chain) -> Iterator[str]:
    """What today's clock says of the optional members of a Snapshot: they stay in, and it is told (PIPELINE 4)."""
    for node in held(run, chain, "snapshot").content.nodes:
        observed, until = node.freshness.observed_at, node.freshness.valid_until
        if until is not None and instant(until) < instant(run.now):
            yield f"{node.locator.path} is expired: valid until {until}; it is {run.now} now"
        if observed is not None and instant(run.now) < instant(observed):
            yield f"{node.locator.path} was observed at {observed}, and the clock says {run.now}: one of the two is wrong"


def attempt(run: Run, chain: Chain, wanted: Sequence[Stage]) -> list[Outcome]:
    """Run stages in order. Where the tree moved meanwhile, say what moved, and begin once more with all that is above them."""
    before, looks, told = run.tree, run.repository.looks, run.candidate
    try:
        return [stages.run_stage(run, stage, chain) for stage in wanted]
    except SdaqfError as error:
        if not _is_moved(run, error, told):
            raise
    run.report(f"the tree moved while it was read: {_named(run, before, looks)}; once more")
    stages.observe(run)
    before, looks, told = run.tree, run.repository.looks, run.candidate
    above = [stage for stage in STAGES if any(stage in stages.up_to(each) for each in wanted)]
    try:
        outcomes = [stages.run_stage(run, stage, chain) for stage in above]
    except SdaqfError as error:
        if not _is_moved(run, error, told):
            raise
        moved = Refused(Reason.CANDIDATE_MOVED, f"the tree moved twice while it was read: {_named(run, before, looks)}")
        moved.origin = error.origin and error.origin._replace(error=error)
        raise moved from None
    return [outcome for outcome in outcomes if BY_NAME[outcome.stage] in wanted]


def _is_moved(run: Run, error: SdaqfError, told: str) -> bool:
    """Whether a stage was refused because what it looked at was being written: whatever the refusal itself says."""
    if isinstance(error, Conflict):
        return False
    run.observe()
    return run.candidate != told or error.reason in (Reason.CANDIDATE_MOVED, Reason.CANDIDATE_MISMATCH)


def _named(run: Run, before: Tree, looks: Mapping[str, object]) -> str:
    """The names that look otherwise than in `looks`: written, added or removed since, whatever was done to mtime."""
    now = run.repository.looks
    names = [ascii(name)[1:-1] for name in sorted({*looks, *now}) if looks.get(name) != now.get(name)]
    if not names:
        return "HEAD" if before.git_head != run.tree.git_head else "files that are back as they were, or outside it"
    return lock.named(names)


def content(run: Run, chain: Chain) -> str | None:
    """The content digest of what a chain holds now, if it holds anything."""
    with suppress(SdaqfError):
        return content_digest(held(run, chain, "snapshot"), held(run, chain, "compaction"))
    return None


def held(run: Run, chain: Chain, makes: str, todo: str | None = None) -> Artifact[Any]:
    """The artifact that a chain's ref points to. Raises NOT_BUILT where there is none, with what to do where that is known."""
    object_id = run.store.ref(stages.ref_name(chain, makes))
    if object_id is None:
        raise Refused(Reason.NOT_BUILT, f"{chain.label} is not built: it has no {makes}", todo=todo)
    return run.load(object_id)


_SUMMED = ("manifest", "selection", "snapshot", "compaction")


def summarise(run: Run, chain: Chain) -> Summary | None:
    """Counts and bytes of a chain that was built to its Compaction; None where it was not."""
    try:
        manifest, selection, snapshot, compaction = (held(run, chain, makes) for makes in _SUMMED)
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
