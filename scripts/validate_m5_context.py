"""This module is the validator M5-CONTEXT-INTEGRITY (FORMAT 13): the public example of FORMAT A.5, made again and attacked.

    python scripts/run_local_gate.py script scripts/validate_m5_context.py

It reads `examples/m5-context/`, `evals/` and `schemas/` below the working directory, needs no git and writes nothing there.
What a file says is held against what happens here: a recorded `passed` proves nothing.
"""

from __future__ import annotations

import copy
import functools
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

import msgspec
from jsonschema import Draft202012Validator
from msgspec.structs import force_setattr, replace

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.errors import Reason, SdaqfError, Unreadable, shown
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import (
    NAMES,
    Artifact,
    C,
    Compaction,
    Content,
    Decision,
    Graph,
    HostSummaryProposal,
    Manifest,
    QualityReport,
    Query,
    Selection,
    Snapshot,
    contradiction_ids,
    convert,
    parse,
    render,
    seal,
)
from sdaqf_tasks.formats.records import (
    ArtifactReference,
    Authority,
    CandidateIdentity,
    Edge,
    EdgeType,
    Freshness,
    FreshnessKind,
    Node,
    RootScope,
    Sensitivity,
    Source,
    cost,
)
from sdaqf_tasks.formats.schemas import schemas
from sdaqf_tasks.fronts import calls
from sdaqf_tasks.world import Observed, Tree

NAME = "M5-CONTEXT-INTEGRITY"
PASS = f"PASS: {NAME} validated 8 artifacts, 7 scenarios, deterministic selection, exact snapshot, and extractive compaction."

FOLDER = "examples/m5-context"
SUITE = "evals/context-suite.json"
RESULT = "evals/results/m5-context-evaluation.json"
SUITE_ID = "M5-CONTEXT-PUBLIC-1"

PUBLISHED: dict[type[Content], str] = {
    Manifest: "CCE604AABADA3D1CDBD8C25CC95F7F8EF3DE1528A73C8C13BA46BFDE31159EEB",
    Graph: "8DB9CB0FF0DD5C66AAC39BA9F9DF2175C45C1EA14AA3122868D714F3FCDD2D32",
    Query: "BD80754C32FA27957EC7B483F1275362B11092BF4001D5770316B06C3FFD7C43",
    Selection: "A0CF082C9887F91CAB28954CBF243A754EB52BD3E6959EA1AC174F18E66BB273",
    Snapshot: "5451B8D5C76A61A1B1D9337D8EA6FC4FD9F7E82B79F0CDEB3FCC4E276488F19C",
    Compaction: "6B1EC4EC0BBA61F6F06C1D0FB954B83D0899A3DC2A83C720C815B9616AEB3AE3",
    HostSummaryProposal: "66312CF39ADFEF7F44E10550B131796CEB4136AF0AD33D7439C51A58FFECEFB8",
    QualityReport: "41ECF9F4C214CC7346BB3C185629B0D36DB909E5F9BBA285A1F8E999C19A056F",
}
"""The SHA-256 of the eight files (FORMAT A.5): a whole chain that was made again from something else is another example."""


def main() -> int:
    """The exit status: 0 after the one line of FORMAT 13, or 1 after a line on standard error that says what differs."""
    try:
        with Root(Path()) as root:
            validate(root)
    except (Differs, SdaqfError) as error:
        print(f"FAIL: {NAME}: {error}", file=sys.stderr)
        return 1
    print(PASS)
    return 0


def validate(root: Root) -> None:
    """The steps of FORMAT 13.1. Raises `Differs` at the first that does not hold."""
    example = load(root)
    verify_graph(example)
    verify_selection(example)
    verify_snapshot(example)
    verify_compaction(example)
    verify_report(example)
    verify_files(example)
    suite, result = read_evaluation(root)
    run_scenarios(example, suite, result)
    verify_report_file(root, result)
    run_regressions(example)


# ---- how a failure is told ------------------------------------------------------------------------------------------


class Differs(Exception):
    """Something is not as FORMAT 13 wants it. The message says where, and what."""


@contextmanager
def told(place: str) -> Iterator[None]:
    """Whatever fails inside says `place` first."""
    try:
        yield
    except SdaqfError as error:
        raise Differs(f"{place}: {error} ({error.reason.value})") from None
    except Differs as error:
        raise Differs(f"{place}: {error}") from None


def expect(holds: bool, message: str) -> None:
    if not holds:
        raise Differs(message)


def refused(act: Callable[[], object], reason: Reason, at: str = "") -> None:
    """`act` is refused for this reason, at a member whose path ends with `at`."""
    try:
        act()
    except SdaqfError as error:
        expected = error.reason is reason and error.where.endswith(at)
        expect(expected, f"{reason.value} was due at {at or 'any place'}, but it is {error} ({error.reason.value})")
    else:
        raise Differs(f"{reason.value} was due, and nothing was refused")


def same(made: Any, stored: Any, file: str) -> None:
    """What was made here is what the file holds."""
    for place, here, there in differences(plain(made), plain(stored), ()):
        raise Differs(f"{file} has {there} at {place}, where {here} was made")


def plain(value: Any) -> Any:
    """The JSON value of a record."""
    return msgspec.json.decode(msgspec.json.encode(value))


class Nothing:
    """Stands where there is no member; no value of a file equals it."""

    def __str__(self) -> str:
        return "nothing"


NOTHING = Nothing()


def differences(one: Any, other: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    """Where two plain values differ, and what is there; by names, and by positions where two lists are of one length."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in one | other:
            yield from differences(one.get(name, NOTHING), other.get(name, NOTHING), (*path, name))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for position, (here, there) in enumerate(zip(one, other, strict=True)):
            yield from differences(here, there, (*path, str(position)))
    elif type(one) is not type(other) or one != other:
        here, there = (f"{len(value)} members" if isinstance(value, list) else shown(str(value)) for value in (one, other))
        yield "/".join(path), here, there


# ---- the example ----------------------------------------------------------------------------------------------------


class Pinned:
    """The working directory at a candidate that is given: whatever git would say of it. Stands for `calls.Places`, too.

    Of several candidates each is observed once, and the last one ever after.
    """

    owner_root = None

    def __init__(self, root: Root, *candidates: CandidateIdentity) -> None:
        self._root, self._candidates, self.observed = root, candidates, 0

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        if scope is not RootScope.REPOSITORY:
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, "there is no owner root here")
        data = self._root.read(path, limit)
        return Observed(data, canonical.digest(data))

    def tree(self) -> Tree:
        now = self._candidates[min(self.observed, len(self._candidates) - 1)]
        self.observed += 1
        return Tree(now.git_head, now.repository_digest, committed="", files=())

    @contextmanager
    def open(self) -> Iterator[Pinned]:
        yield self


class Example(NamedTuple):
    root: Root
    manifest: Artifact[Manifest]
    graph: Artifact[Graph]
    query: Artifact[Query]
    selection: Artifact[Selection]
    snapshot: Artifact[Snapshot]
    compaction: Artifact[Compaction]
    proposal: Artifact[HostSummaryProposal]
    report: Artifact[QualityReport]

    @property
    def candidate(self) -> CandidateIdentity:
        return self.manifest.content.candidate

    @property
    def world(self) -> Pinned:
        return Pinned(self.root, self.candidate)

    @property
    def specification(self) -> Node:
        return next(node for node in self.graph.content.nodes if node.required)

    @property
    def optional(self) -> tuple[Node, Node]:
        """The two others, by node id."""
        lower, higher = (node for node in self.graph.content.nodes if not node.required)
        return lower, higher


def file_of(kind: type[Any]) -> str:
    return f"{FOLDER}/{NAMES[kind]}.json"


@told("step 1, artifacts and schemas")
def load(root: Root) -> Example:
    return Example(
        root,
        stored(root, Manifest),
        stored(root, Graph),
        stored(root, Query),
        stored(root, Selection),
        stored(root, Snapshot),
        stored(root, Compaction),
        stored(root, HostSummaryProposal),
        stored(root, QualityReport),
    )


def stored(root: Root, kind: type[C]) -> Artifact[C]:
    with told(file_of(kind)):
        data = root.read(file_of(kind), canonical.ARTIFACT_BYTES)
        artifact = parse(data, kind)
    breach = breach_of(root, kind, canonical.load(data))
    expect(breach is None, f"{file_of(kind)} breaks its schema: {breach}")
    return artifact


published_schemas = functools.cache(schemas)


def breach_of(root: Root, kind: type[Any], envelope: Any) -> str | None:
    """Where a plain envelope breaks the published schema of its type, and which word of it; None where it does not."""
    name = f"{NAMES[kind]}.schema.json"
    data = root.read(f"schemas/{name}", canonical.ARTIFACT_BYTES)
    expect(data == published_schemas()[name], f"schemas/{name} is not that of the records; `doit schemas` writes it")
    breach = next(Draft202012Validator(msgspec.json.decode(data)).iter_errors(envelope), None)
    return f"{breach.json_path} ({breach.validator})" if breach else None


# ---- steps 2 to 6: the chain, made again ----------------------------------------------------------------------------


@told("step 2, index")
def verify_graph(example: Example) -> None:
    same(index(example.manifest, example.world), example.graph, file_of(Graph))


@told("step 3, select twice")
def verify_selection(example: Example) -> None:
    once, again = (select(example.graph, example.query) for _ in range(2))
    expect(render(once) == render(again), "two selections of one Graph and Query differ")
    same(once, example.selection, file_of(Selection))


@told("step 4, snapshot")
def verify_snapshot(example: Example) -> None:
    same(snapshot(example.graph, example.selection, example.world), example.snapshot, file_of(Snapshot))


@told("step 5, compact")
def verify_compaction(example: Example) -> None:
    same(compact(example.snapshot, example.world, proposal=example.proposal), example.compaction, file_of(Compaction))


@told("step 6, quality")
def verify_report(example: Example) -> None:
    report = quality(example.graph, example.selection, example.snapshot)
    same(report, example.report, file_of(QualityReport))
    refuse_aggregate(plain(report))


def refuse_aggregate(value: Any) -> None:
    """No key says `aggregate`, at any depth: counts are told, and no score is made of them."""
    for key in keys(value):
        expect("aggregate" not in key.lower(), f"the key {shown(key)!r} promises an aggregate")


def keys(value: Any) -> Iterator[str]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    yield from value if isinstance(value, dict) else ()
    for each in inside:
        yield from keys(each)


@told("the published files")
def verify_files(example: Example) -> None:
    """Last of the chain, so that a step that can tell the member has told it."""
    for kind, sha256 in PUBLISHED.items():
        found = canonical.digest(example.root.read(file_of(kind), canonical.ARTIFACT_BYTES))
        expect(found == sha256, f"{file_of(kind)} has the SHA-256 {found}; the published one has {sha256}")


# ---- steps 7 to 9: the suite and its results ------------------------------------------------------------------------


class Case(msgspec.Struct, forbid_unknown_fields=True):
    case_id: str
    expected: str


class Suite(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: Literal["1.0"]
    suite_id: str
    description: str
    cases: tuple[Case, ...]


class Outcome(msgspec.Struct, forbid_unknown_fields=True):
    case_id: str
    passed: bool
    observed: str


class Result(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: Literal["1.0"]
    suite_id: str
    quality_report: ArtifactReference
    cases: tuple[Outcome, ...]


R = TypeVar("R", bound=msgspec.Struct)


@told("step 7, suite and results")
def read_evaluation(root: Root) -> tuple[Suite, Result]:
    suite, result = read(root, SUITE, Suite), read(root, RESULT, Result)
    for file, found in ((SUITE, suite.suite_id), (RESULT, result.suite_id)):
        expect(found == SUITE_ID, f"{file} is of the suite {shown(found)}, not {SUITE_ID}")
    return suite, result


def read(root: Root, file: str, kind: type[R]) -> R:
    """A file of `evals/`. No key of it says `aggregate` (step 9)."""
    with told(file):
        value = canonical.load(root.read(file, canonical.SMALL_BYTES))
        refuse_aggregate(value)
        return convert(value, kind)


@told("step 8, scenarios")
def run_scenarios(example: Example, suite: Suite, result: Result) -> None:
    """What happens, what the suite expects and what was recorded as passed are one map of seven."""
    executed = {}
    for case_id, scenario in SCENARIOS.items():
        with told(case_id):
            executed[case_id] = scenario(example)
    expect(len(executed) == 7, f"{len(executed)} scenarios, not seven")
    same(executed, mapped(SUITE, ((case.case_id, case.expected) for case in suite.cases)), SUITE)
    same(executed, mapped(RESULT, ((case.case_id, case.observed) for case in result.cases if case.passed)), RESULT)
    expect(len(result.cases) == 7, f"{RESULT} has {len(result.cases)} cases, not seven")


def mapped(file: str, pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for case_id, value in pairs:
        expect(case_id not in found, f"{file} has the case {shown(case_id)} twice")
        found[case_id] = value
    return found


@told("step 9, quality report")
def verify_report_file(root: Root, result: Result) -> None:
    named, file = result.quality_report, file_of(QualityReport)
    expect(named.path == file, f"{RESULT} names {shown(named.path)}, not {file}")
    found = canonical.digest(root.read(file, canonical.ARTIFACT_BYTES))
    expect(named.sha256 == found, f"{RESULT} names the SHA-256 {named.sha256}; {file} has {found}")


# ---- the seven scenarios (FORMAT 13.2) ------------------------------------------------------------------------------


def graph_of(example: Example, nodes: Sequence[Node], edges: Sequence[Edge] = ()) -> Artifact[Graph]:
    return seal(replace(example.graph.content, nodes=tuple(sorted(nodes, key=lambda node: node.node_id)), edges=tuple(edges)))


def query_of(example: Example, graph: Artifact[Graph], **fields: Any) -> Artifact[Query]:
    """The example's Query, asked of `graph`: for the required node alone, unless `fields` say more."""
    plain: dict[str, Any] = {"graph_id": graph.artifact_id, "seed_node_ids": (), "identifiers": (), "terms": ()}
    return seal(replace(example.query.content, **(plain | fields)))


def contradicted(example: Example) -> tuple[Artifact[Graph], Edge, Artifact[Selection]]:
    """A Graph whose one edge is a contradiction of the two optional nodes; and a Selection that asks for the lower one."""
    lower, higher = example.optional
    edge = Edge.seal(
        edge_type=EdgeType.CONTRADICTS, source_node_id=lower.node_id, target_node_id=higher.node_id, provenance=lower.provenance
    )
    graph = graph_of(example, example.graph.content.nodes, [edge])
    query = query_of(example, graph, identifiers=lower.identifiers, allowed_edge_types=(EdgeType.CONTRADICTS,))
    return graph, edge, select(graph, query)


def determinism(example: Example) -> str:
    once, again = (select(example.graph, example.query) for _ in range(2))
    expect(once == again, "two selections of one Graph and Query differ")
    expect(re.fullmatch("CTX-SELECTION-[0-9A-F]{64}", once.artifact_id) is not None, "the id is no full SHA-256")
    return "stable-full-sha256-identities"


def provenance(example: Example) -> str:
    expect(all(node.refers_to_itself for node in example.graph.content.nodes), "a node does not refer to its own file")
    expect(example.report.content.provenance_missing_count == 0, "the report counts missing provenance")
    return "complete"


def required_recall(example: Example) -> str:
    recall = example.report.content.required_reference_recall
    expect(recall == 100, f"the report's recall is {recall}")
    return str(recall)


def budget(example: Example) -> str:
    every = tuple(node.node_id for node in example.graph.content.nodes)
    small = replace(example.query.content.budget, budget_bytes=1_024)
    query = query_of(example, example.graph, required_node_ids=every, budget=small)
    refused(lambda: select(example.graph, query), Reason.REQUIRED_OVER_BUDGET, "budget/budget_bytes")
    return "required-context-over-budget"


def contradiction(example: Example) -> str:
    _, edge, selection = contradicted(example)
    taken = {decision.node_id for decision in selection.content.selected}
    expect(taken.issuperset(node.node_id for node in example.optional), "one end of the contradiction was not taken")
    expect(selection.content.unresolved_contradiction_ids == (edge.edge_id,), "the contradiction is not the one that is told")
    return "explicit-unresolved-closure"


def sensitivity(example: Example) -> str:
    proposal = seal(replace(example.proposal.content, sensitivity=Sensitivity.OWNER_PRIVATE))
    expect(example.snapshot.content.sensitivity is Sensitivity.PUBLIC, "the Snapshot is not public")
    made = compact(example.snapshot, example.world, proposal=proposal)
    expect(made.content.sensitivity is Sensitivity.OWNER_PRIVATE, f"the Compaction is {made.content.sensitivity.value}")
    return "automatic-downgrade-rejected"


def stale_required(example: Example) -> str:
    window = Freshness(kind=FreshnessKind.EXPIRES_AT, observed_at="2026-07-29T00:00:00Z", valid_until="2026-07-30T00:00:00Z")
    specification = example.specification
    expired = Node.seal(Source.seal(**(specification.metadata | {"freshness": window})), specification.text)
    graph = graph_of(example, [*example.optional, expired])
    query = query_of(example, graph, required_node_ids=(expired.node_id,))
    refused(lambda: select(graph, query), Reason.REQUIRED_STALE)
    return "hard-blocker"


SCENARIOS: dict[str, Callable[[Example], str]] = {
    "M5-CTX-DETERMINISM": determinism,
    "M5-CTX-PROVENANCE": provenance,
    "M5-CTX-REQUIRED-RECALL": required_recall,
    "M5-CTX-BUDGET": budget,
    "M5-CTX-CONTRADICTION": contradiction,
    "M5-CTX-SENSITIVITY": sensitivity,
    "M5-CTX-STALE-REQUIRED": stale_required,
}
"""Each returns what it observed, and only where that happened."""


# ---- the twelve regressions (FORMAT 13.3) ---------------------------------------------------------------------------


@told("step 10, regressions")
def run_regressions(example: Example) -> None:
    for number, regression in enumerate(REGRESSIONS, 1):
        with told(f"({number}) {regression.__name__.replace('_', ' ')}"):
            regression(example)


def forged(record: R, **fields: Any) -> R:
    """A copy with other members and without any check: what code in the same process could hand over."""
    made = copy.copy(record)
    for name, value in fields.items():
        force_setattr(made, name, value)
    return made


def made_of(record: R) -> R:
    """The same record by its constructor, which checks it."""
    return type(record)(**{name: getattr(record, name) for name in record.__struct_fields__})


def rehashed(node: Node, **fields: Any) -> Node:
    """The node with other members, unchecked; digest and node id fit it again."""
    made = forged(node, **fields)
    made = forged(made, text_sha256=canonical.digest(made.text.encode("utf-8")))
    return forged(made, node_id=canonical.identity("CTX-NODE-", made.without("node_id")))


def rebuilt(content: Snapshot, members: Iterable[tuple[Decision, Node]], edges: Iterable[Edge]) -> Artifact[Snapshot]:
    """The Snapshot with other members, unchecked; whatever is computed of them is computed again."""
    pairs = sorted(members, key=lambda pair: pair[1].node_id)
    nodes = tuple(node for _, node in pairs)
    decisions = tuple(
        replace(decision, node_id=node.node_id, rank=replace(decision.rank, node_id=node.node_id), cost_bytes=cost(node))
        for decision, node in pairs
    )
    found = tuple(sorted(edges, key=lambda edge: edge.edge_id))
    size = sum(map(cost, nodes)) + sum(map(cost, found))
    return seal(forged(content, nodes=nodes, selected=decisions, edges=found, context_bytes=size))


def members_of(content: Snapshot) -> list[tuple[Decision, Node]]:
    return list(zip(content.selected, content.nodes, strict=True))


def exchanged(content: Snapshot, old: Node, new: Node) -> Artifact[Snapshot]:
    """The Snapshot with `new` in the place of `old`, in its edges too."""
    members = [(decision, new if node == old else node) for decision, node in members_of(content)]
    names = {old.node_id: new.node_id}
    edges = [
        Edge.seal(
            **edge.without("edge_id", "source_node_id", "target_node_id"),
            source_node_id=names.get(edge.source_node_id, edge.source_node_id),
            target_node_id=names.get(edge.target_node_id, edge.target_node_id),
        )
        for edge in content.edges
    ]
    return rebuilt(content, members, edges)


def never_read(artifact: Artifact[Any], reason: Reason, at: str) -> None:
    refused(lambda: parse(render(artifact), type(artifact.content)), reason, at)


def never_compacted(example: Example, artifact: Artifact[Snapshot], reason: Reason, at: str) -> None:
    refused(lambda: compact(artifact, example.world), reason, at)


def without_canonical(example: Example) -> Artifact[Snapshot]:
    content = example.snapshot.content
    members = [(decision, node) for decision, node in members_of(content) if node.authority is not Authority.CANONICAL_SPECIFICATION]
    return rebuilt(content, members, ())


def fabricated_immutable_node(example: Example) -> None:
    evidence = next(node for node in example.optional if node.authority is Authority.VERIFIED_EVIDENCE)
    path, text = f"{FOLDER}/sources/fabricated.json", "{}\n"
    sha256 = canonical.digest(text.encode("utf-8"))
    fabricated = evidence.metadata | {
        "locator": replace(evidence.locator, path=path, sha256=sha256),
        "provenance": replace(evidence.provenance, references=(ArtifactReference(path=path, sha256=sha256),)),
        "freshness": Freshness(kind=FreshnessKind.IMMUTABLE, observed_at=None, valid_until=None),
    }
    node = Node.seal(Source.seal(**fabricated), text)
    graph = graph_of(example, [*example.graph.content.nodes, node], example.graph.content.edges)
    selection = select(graph, query_of(example, graph, seed_node_ids=(node.node_id,)))
    expect(node.node_id in {decision.node_id for decision in selection.content.selected}, "the node was not even selected")
    made = snapshot(graph, selection, example.world).content
    why = [exclusion.reason for exclusion in made.excluded if exclusion.node_id == node.node_id]
    expect(why == [Reason.MISSING_OR_UNREADABLE.value], f"the Snapshot excludes it with the reasons {why}")
    expect(node not in made.nodes, "the Snapshot holds it")


def snapshot_without_canonical(example: Example) -> None:
    artifact = without_canonical(example)
    refused(lambda: made_of(artifact.content), Reason.CANONICAL_INVALID)
    never_read(artifact, Reason.CANONICAL_INVALID, "content")


def understated_cost(example: Example) -> None:
    content = example.snapshot.content
    first, *others = content.selected
    decisions = (replace(first, cost_bytes=first.cost_bytes - 1), *others)
    artifact = seal(forged(content, selected=decisions, context_bytes=content.context_bytes - 1))
    refused(lambda: made_of(artifact.content), Reason.CONTRACT_INVALID, "selected/0/cost_bytes")
    never_read(artifact, Reason.CONTRACT_INVALID, "content/selected/0/cost_bytes")


def rewritten_canonical_text(example: Example) -> None:
    old = example.specification
    artifact = exchanged(example.snapshot.content, old, rehashed(old, text=old.text.replace("must", "may")))
    expect(parse(render(artifact), Snapshot) == artifact, "the Snapshot reads differently than it was written")
    never_compacted(example, artifact, Reason.CHANGED, "")


def false_source_id(example: Example) -> None:
    old = example.optional[0]
    new = rehashed(old, source_id="CTX-SOURCE-" + "0" * 64)
    artifact = exchanged(example.snapshot.content, old, new)
    refused(lambda: made_of(new), Reason.IDENTITY_MISMATCH, "source_id")
    never_read(artifact, Reason.IDENTITY_MISMATCH, "source_id")
    never_compacted(example, artifact, Reason.IDENTITY_MISMATCH, "source_id")


def two_nodes_of_one_source(example: Example) -> None:
    content = example.snapshot.content
    decision, node = next(pair for pair in members_of(content) if not pair[1].required)
    twin = rehashed(node, text=node.text + "More.\n")
    artifact = rebuilt(content, [*members_of(content), (decision, twin)], content.edges)
    refused(lambda: made_of(artifact.content), Reason.CONTRACT_INVALID, "nodes")
    never_read(artifact, Reason.CONTRACT_INVALID, "content/nodes")
    never_compacted(example, artifact, Reason.CONTRACT_INVALID, "content/nodes")


def compaction_without_canonical(example: Example) -> None:
    never_compacted(example, without_canonical(example), Reason.CANONICAL_INVALID, "content")


def false_snapshot_id(example: Example) -> None:
    artifact = forged(example.snapshot, artifact_id="CTX-SNAPSHOT-" + "0" * 64)
    never_read(artifact, Reason.IDENTITY_MISMATCH, "artifact_id")
    never_compacted(example, artifact, Reason.IDENTITY_MISMATCH, "artifact_id")


def proposal_with_authority(example: Example) -> None:
    proposal = seal(forged(example.proposal.content, authority=Authority.OWNER_APPROVED))
    refused(lambda: made_of(proposal.content), Reason.CONTRACT_INVALID, "authority")
    never_read(proposal, Reason.CONTRACT_INVALID, "content/authority")
    refused(lambda: compact(example.snapshot, example.world, proposal=proposal), Reason.CONTRACT_INVALID, "content/authority")


def title_of_astral_characters(example: Example) -> None:
    """A character beyond U+FFFF is one: to the runtime, and to the schema."""
    node = example.optional[0]

    def titled(length: int) -> Artifact[Graph]:
        new = Node.seal(Source.seal(**(node.metadata | {"title": "\N{GRINNING FACE}" * length})), node.text)
        return graph_of(example, [example.specification, example.optional[1], new])

    expect(parse(render(titled(500)), Graph) == titled(500), "a title of 500 reads differently than it was written")
    breach = breach_of(example.root, Graph, plain(titled(500)))
    expect(breach is None, f"a title of 500 breaks the schema: {breach}")
    never_read(titled(501), Reason.CONTRACT_INVALID, "title")
    breach = breach_of(example.root, Graph, plain(titled(501)))
    expect(breach is not None and breach.endswith(".title (maxLength)"), f"the schema takes a title of 501 ({breach})")


def contradiction_in_compaction(example: Example) -> None:
    graph, edge, selection = contradicted(example)
    made = snapshot(graph, selection, example.world)
    expect(contradiction_ids(made.content.edges) == (edge.edge_id,), "the Snapshot lost the contradiction")
    compaction = compact(made, example.world).content
    expect(compaction.unresolved_contradiction_ids == (edge.edge_id,), "the Compaction lost the contradiction")
    found = {extract.node_id: (extract.source_id, extract.contradiction_ids) for extract in compaction.extracts}
    wanted = {node.node_id: (node.source_id, (edge.edge_id,)) for node in example.optional}
    same(wanted | {example.specification.node_id: (example.specification.source_id, ())}, found, "the Compaction")


def candidate_moved_before_publication(example: Example) -> None:
    """The tree is the candidate while all is observed, and another one when the Compaction is about to be written."""
    moved = Pinned(example.root, example.candidate, example.candidate, replace(example.candidate, repository_digest="D" * 64))
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "compaction.json"

        def publish(world: Pinned) -> None:
            calls.compact(Path(file_of(Snapshot)), cast(calls.Places, world), output, proposal=Path(file_of(HostSummaryProposal)))

        refused(lambda: publish(moved), Reason.CANDIDATE_MISMATCH, "candidate/repository_digest")
        expect(moved.observed == 3, f"the candidate was observed {moved.observed} times, not three")
        expect(not any(Path(folder).iterdir()), "something was written")
        publish(example.world)
        expect(output.read_bytes() == render(example.compaction), "a tree that stays gives another Compaction")


REGRESSIONS: tuple[Callable[[Example], None], ...] = (
    fabricated_immutable_node,
    snapshot_without_canonical,
    understated_cost,
    rewritten_canonical_text,
    false_source_id,
    two_nodes_of_one_source,
    compaction_without_canonical,
    false_snapshot_id,
    proposal_with_authority,
    title_of_astral_characters,
    contradiction_in_compaction,
    candidate_moved_before_publication,
)


if __name__ == "__main__":
    sys.exit(main())
