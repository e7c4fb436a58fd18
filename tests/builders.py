"""This module builds records and artifacts that say only what matters to a test; everything else has a plain default.

Two ways in. For what is pure, `node`, `edge`, `graph` and `query` give values at once. For what reads files, a
`Repository` holds the files in memory together with the sources that are made of them:

    repository = Repository()                              # with its specification
    a = repository.add("docs/a.md", "one\\n")
    b = repository.add("docs/b.md", "two\\n", required=True)
    repository.relate(EdgeType.CONTRADICTS, a, b)
    graph = repository.graph()
    selection = select(graph, query(graph, terms=("two",)))
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import (
    NAMES,
    PREFIXES,
    TYPES,
    Artifact,
    Budget,
    Claim,
    ExcludedSource,
    Graph,
    HostSummaryProposal,
    Manifest,
    Query,
    Relationship,
    Selection,
    Snapshot,
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
    Kind,
    Locator,
    Metadata,
    Node,
    Provenance,
    RootScope,
    Sensitivity,
    Source,
)
from sdaqf_tasks.world import lines
from tests.simulator import World

AS_OF = "2026-07-31T00:00:00Z"
HEAD = "b" * 40
DIGEST = "C" * 64
SPECIFICATION = "# Specification\n"
CANDIDATE_BOUND = Freshness(kind=FreshnessKind.CANDIDATE_BOUND, observed_at=None, valid_until=None)
IMMUTABLE = Freshness(kind=FreshnessKind.IMMUTABLE, observed_at=None, valid_until=None)


def sha256(text: str | bytes) -> str:
    return canonical.digest(text.encode("utf-8") if isinstance(text, str) else text)


def candidate(specification: str = SPECIFICATION) -> CandidateIdentity:
    return CandidateIdentity(source_spec_sha256=sha256(specification), git_head=HEAD, repository_digest=DIGEST)


def expires(observed_at: str = "2026-07-01T00:00:00Z", valid_until: str = "2026-08-31T00:00:00Z") -> Freshness:
    """A window around AS_OF, unless said otherwise."""
    return Freshness(kind=FreshnessKind.EXPIRES_AT, observed_at=observed_at, valid_until=valid_until)


def provenance(*references: tuple[str, str | bytes], producer: str = "repository", recorded_by: str = "tests") -> Provenance:
    """Names the given (path, content) pairs."""
    found = sorted(ArtifactReference(path=path, sha256=sha256(content)) for path, content in references)
    return Provenance(producer=producer, recorded_by=recorded_by, references=tuple(found))


def source(path: str = "docs/a.md", text: str | bytes = "a\n", **fields: Any) -> Source:
    """A source of the whole file, vouched for by the file itself: public, optional, a repository record.

    `lines=(2, 3)` takes a part; `scope`, `references` (pairs as of `provenance`), `producer` and `recorded_by` reach into
    locator and provenance; every other field is one of the record.
    """
    content = text if isinstance(text, bytes) else text.encode("utf-8")
    start, end = fields.pop("lines", None) or (1, len(lines(content.decode("utf-8", "replace"))))
    locator = Locator(
        root_scope=fields.pop("scope", RootScope.REPOSITORY), path=path, sha256=sha256(content), line_start=start, line_end=end
    )
    named: Sequence[tuple[str, str | bytes]] = fields.pop("references", ((path, content),))
    by = {name: fields.pop(name) for name in ("producer", "recorded_by") if name in fields}
    plain: dict[str, Any] = {
        "kind": Kind.DESIGN,
        "title": path,
        "locator": locator,
        "provenance": provenance(*named, **by),
        "authority": Authority.REPOSITORY_RECORD,
        "freshness": CANDIDATE_BOUND,
        "sensitivity": Sensitivity.PUBLIC,
        "identifiers": (),
        "labels": (),
        "required": False,
    }
    return Source.seal(**(plain | fields))


def specification(text: str = SPECIFICATION, path: str = "docs/spec.md", **fields: Any) -> Source:
    canonical_ = {"kind": Kind.SPECIFICATION, "authority": Authority.CANONICAL_SPECIFICATION, "required": True}
    return source(path, text, **(canonical_ | fields))


def relationship(edge_type: EdgeType, one: Source, other: Source, provenance_: Provenance | None = None) -> Relationship:
    """From `one` to `other`; the ends of a contradiction ascend. Vouched for by the provenance of `one` unless said."""
    ends = [one.source_id, other.source_id]
    if edge_type is EdgeType.CONTRADICTS:
        ends.sort()
    return Relationship(edge_type=edge_type, source_id=ends[0], target_id=ends[1], provenance=provenance_ or one.provenance)


def manifest(
    sources: Iterable[Source], relationships: Iterable[Relationship] = (), of: CandidateIdentity | None = None
) -> Artifact[Manifest]:
    """In any order: sorted here."""
    found = tuple(sorted(sources, key=lambda source: source.source_id))
    related = sorted(relationships, key=lambda rel: (rel.edge_type.value, rel.source_id, rel.target_id))
    return seal(
        Manifest(
            candidate=of or candidate(),
            sensitivity=max(source.sensitivity for source in found),
            sources=found,
            relationships=tuple(related),
        )
    )


def node(path: str = "docs/a.md", text: str = "a\n", **fields: Any) -> Node:
    return Node.seal(source(path, text, **fields), text)


def specification_node(text: str = SPECIFICATION, **fields: Any) -> Node:
    return Node.seal(specification(text, **fields), text)


def edge(edge_type: EdgeType, one: Node, other: Node, provenance_: Provenance | None = None) -> Edge:
    """From `one` to `other`; the ends of a contradiction ascend."""
    ends = [one.node_id, other.node_id]
    if edge_type is EdgeType.CONTRADICTS:
        ends.sort()
    return Edge.seal(edge_type=edge_type, source_node_id=ends[0], target_node_id=ends[1], provenance=provenance_ or one.provenance)


def graph(*nodes: Node, edges: Iterable[Edge] = (), excluded: Iterable[ExcludedSource] = ()) -> Artifact[Graph]:
    """In any order: sorted here. The specification comes along by itself."""
    found = sorted({specification_node(), *nodes}, key=lambda node: node.node_id)
    return seal(
        Graph(
            candidate=candidate(),
            manifest_id="CTX-MANIFEST-" + "0" * 64,
            sensitivity=max(node.sensitivity for node in found),
            nodes=tuple(found),
            edges=tuple(sorted(edges, key=lambda edge: edge.edge_id)),
            excluded_sources=tuple(excluded),
        )
    )


def query(of: Artifact[Graph], **fields: Any) -> Artifact[Query]:
    """Asks for nothing, cleared for `owner-private`, with room for everything.

    `required` and `seeds` take nodes; `budget_bytes`, `max_nodes`, `max_edges` and `max_traversal_depth` reach into the budget.
    """
    bounds = {"budget_bytes": 8_388_608, "max_nodes": 4_096, "max_edges": 16_384, "max_traversal_depth": 8}
    budget = Budget(unit="canonical_utf8_bytes", **{name: fields.pop(name, bound) for name, bound in bounds.items()})
    plain: dict[str, Any] = {
        "candidate": of.content.candidate,
        "graph_id": of.artifact_id,
        "as_of": AS_OF,
        "clearance": Sensitivity.OWNER_PRIVATE,
        "required_node_ids": tuple(sorted(node.node_id for node in fields.pop("required", ()))),
        "seed_node_ids": tuple(sorted(node.node_id for node in fields.pop("seeds", ()))),
        "identifiers": (),
        "terms": (),
        "allowed_edge_types": tuple(sorted(EdgeType)),
        "budget": budget,
    }
    return seal(Query(**(plain | fields)))


def proposal(of: Artifact[Snapshot], *nodes: Node, **fields: Any) -> Artifact[HostSummaryProposal]:
    """One claim that rests on `nodes`."""
    claim = Claim(
        claim="They say so.",
        source_node_ids=tuple(sorted(node.node_id for node in nodes)),
        extract_sha256s=tuple(sorted(node.text_sha256 for node in nodes)),
    )
    plain: dict[str, Any] = {
        "snapshot_id": of.artifact_id,
        "authority": Authority.UNTRUSTED_PROPOSAL,
        "sensitivity": of.content.sensitivity,
        "claims": (claim,),
    }
    return seal(HostSummaryProposal(**(plain | fields)))


class Chain(NamedTuple):
    graph: Artifact[Graph]
    query: Artifact[Query]
    selection: Artifact[Selection]
    snapshot: Artifact[Snapshot]


class Repository:
    """Files in memory and the sources made of them. The tree's digest is pinned, so files may change under a Manifest."""

    def __init__(self, **specification_fields: Any) -> None:
        self.world = World({}, digest=DIGEST)
        self.sources: list[Source] = []
        self.relationships: list[Relationship] = []
        self.owner_root = False
        self.specification = self.take(specification(**specification_fields), SPECIFICATION)

    def take(self, source_: Source, text: str | bytes) -> Source:
        owner = source_.locator.root_scope is RootScope.OWNER
        self.owner_root = self.owner_root or owner
        files = self.world.owner if owner else self.world.repository
        files[source_.locator.path] = text if isinstance(text, bytes) else text.encode("utf-8")
        self.sources.append(source_)
        return source_

    def add(self, path: str, text: str | bytes, **fields: Any) -> Source:
        """A file with `text`, and the source of it (see `source`)."""
        return self.take(source(path, text, **fields), text)

    def relate(self, edge_type: EdgeType, one: Source, other: Source, provenance_: Provenance | None = None) -> Relationship:
        """Vouched for by the specification unless said otherwise."""
        self.relationships.append(relationship(edge_type, one, other, provenance_ or self.specification.provenance))
        return self.relationships[-1]

    def manifest(self) -> Artifact[Manifest]:
        return manifest(self.sources, self.relationships)

    def graph(self) -> Artifact[Graph]:
        return index(self.manifest(), self.world, owner_root=self.owner_root)

    def chain(self, *, owner_root: bool = False, **asked: Any) -> Chain:
        """Graph, Query, Selection and Snapshot; `required` and `seeds` take sources here."""
        graph_ = self.graph()
        for name in ("required", "seeds"):
            if name in asked:
                asked[name] = [node_of(graph_, source) for source in asked[name]]
        query_ = query(graph_, **asked)
        selection = select(graph_, query_)
        return Chain(graph_, query_, selection, snapshot(graph_, selection, self.world, owner_root=owner_root))


def node_of(where: Artifact[Graph] | Artifact[Snapshot], wanted: Source) -> Node:
    """The node that was made of a source."""
    return next(node for node in where.content.nodes if node.source_id == wanted.source_id)


# ---- plain values, for what a builder would refuse ------------------------------------------------------------------


def plain(record: msgspec.Struct) -> dict[str, Any]:
    """The JSON object of a record or an artifact, to be changed at will."""
    built: dict[str, Any] = json.loads(canonical.encode(record))
    return built


def changed(value: Any, path: str, new: Any) -> Any:
    """A copy with the member at `path` (`locator/line_end`, `sources/0/title`) replaced; with REMOVED, taken out."""
    copied = copy.deepcopy(value)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
    below = copied
    for step in steps:
        below = below[step]
    if new is REMOVED:
        del below[last]
    else:
        below[last] = new
    return copied


REMOVED = object()


def resealed(value: Any) -> Any:
    """A copy whose own ids and digests fit it again, innermost first: what anybody can do who edits an artifact.

    Members are not sorted and references to other members are not followed.
    """
    if isinstance(value, list):
        return [resealed(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {name: resealed(item) for name, item in value.items()}
    if isinstance(value.get("text"), str) and "text_sha256" in value and value["text"].isascii():
        value["text_sha256"] = sha256(value["text"])
    if "locator" in value and "source_id" in value:
        metadata = {name: item for name, item in value.items() if name in Metadata.__struct_fields__}
        value["source_id"] = _identity("CTX-SOURCE-", {"sensitivity": "owner-private"} | metadata)
    for own, prefix in (("node_id", "CTX-NODE-"), ("edge_id", "CTX-EDGE-")):
        if own in value and ("locator" in value or "source_node_id" in value):
            value[own] = _identity(prefix, {name: item for name, item in value.items() if name != own})
    if isinstance(value.get("query"), dict) and "query_id" in value:
        value["query_id"] = _identity("CTX-QUERY-", value["query"])
    if "artifact_id" in value and str(value.get("artifact_type")) in TYPES:
        value["artifact_id"] = _identity(PREFIXES[TYPES[value["artifact_type"]]], _with_default(value.get("content")))
    return value


def enveloped(kind: type[Any], content: dict[str, Any]) -> bytes:
    """The bytes of an artifact around a plain content, with the id that fits it."""
    envelope = {"artifact_id": "", "artifact_type": NAMES[kind], "content": content, "schema_version": "1.0"}
    envelope["artifact_id"] = _identity(PREFIXES[kind], _with_default(content))
    return json.dumps(envelope).encode()


def _with_default(content: Any) -> Any:
    if not (isinstance(content, dict) and isinstance(content.get("sources"), list)):
        return content
    found = [{"sensitivity": "owner-private"} | source if isinstance(source, dict) else source for source in content["sources"]]
    return content | {"sources": found}


def _identity(prefix: str, value: Any) -> str:
    # The plain encoder: this takes what ours refuses, lone surrogates and floats among it.
    return prefix + sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
