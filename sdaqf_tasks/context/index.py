"""This module makes a Graph of a Manifest by reading every source (FORMAT 6)."""

from __future__ import annotations

from sdaqf_tasks.context import rules
from sdaqf_tasks.context.document import reading_order
from sdaqf_tasks.errors import Invalid, Reason, Refused, SdaqfError, Unreadable
from sdaqf_tasks.formats.artifacts import CONTEXT_BYTES, Artifact, ExcludedSource, Graph, Manifest, check_canonical, publishable
from sdaqf_tasks.formats.records import TEXT_CHARACTERS, Edge, Node, Source, authority_fault, ends, is_secret_shaped
from sdaqf_tasks.world import Sources


def index(manifest: Artifact[Manifest], sources: Sources, *, owner_root: bool = False) -> Artifact[Graph]:
    """The Graph of `manifest`: a node for every source that could be adopted, an exclusion for every other.

    Raises `Refused` where a required source fails, with the reason that would have excluded an optional one; where the
    tree is not the Manifest's before or after; where the canonical specification is not as FORMAT 3.8 wants it.
    """
    content = manifest.content
    rules.verify_candidate(sources, content.candidate)
    try:
        check_canonical(content.sources, content.candidate)
    except Invalid as error:
        raise Refused(error.reason, error.message, at="content/sources") from None
    rules.verify_owner_root(content.sources, owner_root)
    _verify_distinct(content.sources)

    nodes: dict[str, Node] = {}
    excluded: list[ExcludedSource] = []
    total = 0
    for position, source in enumerate(content.sources):
        try:
            node, size = _adopt(source, sources, CONTEXT_BYTES - total)
        except SdaqfError as error:
            if source.required:
                raise rules.unavailable(error, f"required source {source.locator.path}", "content", "sources", position) from None
            excluded.append(ExcludedSource(source_id=source.source_id, reason=error.reason.value, details=()))
        else:
            nodes[source.source_id] = node
            total += size

    edges = _relate(content, nodes, sources)
    rules.verify_candidate(sources, content.candidate)
    return publishable(
        Graph(
            candidate=content.candidate,
            manifest_id=manifest.artifact_id,
            sensitivity=max(node.sensitivity for node in nodes.values()),
            nodes=tuple(sorted(nodes.values(), key=lambda node: node.node_id)),
            edges=tuple(sorted(edges, key=lambda edge: edge.edge_id)),
            excluded_sources=tuple(excluded),
        )
    )


def _verify_distinct(sources: tuple[Source, ...]) -> None:
    seen = set()
    for position, source in enumerate(sources):
        _, path, first, last = place = reading_order(source)
        if place in seen:
            at = ("content", "sources", position, "locator")
            raise Refused(Reason.DUPLICATE_LOCATOR, f"{path} lines {first} to {last} twice", at=at)
        seen.add(place)


def _adopt(source: Source, sources: Sources, left: int) -> tuple[Node, int]:
    """The node of one source and the bytes of its whole file; the order of the checks is that of FORMAT 6 (5)."""
    if fault := authority_fault(source):
        raise Refused(fault, fault.when)
    rules.observe_provenance(sources, source.locator.root_scope, source.provenance)
    data, text = rules.observe_member(sources, source)
    if len(text) > TEXT_CHARACTERS:
        raise Unreadable(Reason.SOURCE_TEXT_LIMIT, f"{len(text)} characters are selected; at most {TEXT_CHARACTERS}")
    if is_secret_shaped(text):
        raise Unreadable(Reason.SECRET_SHAPED, "the selected text looks like a key or a token")
    if len(data) > left:
        raise Unreadable(Reason.TOTAL_SOURCE_BYTE_LIMIT, f"all sources together exceed {CONTEXT_BYTES} bytes")
    return Node.seal(source, text), len(data)


def _relate(content: Manifest, nodes: dict[str, Node], sources: Sources) -> list[Edge]:
    """An edge for every relationship whose two ends are there. A contradiction's ends ascend by node id."""
    edges = []
    for position, relationship in enumerate(content.relationships):
        if relationship.source_id not in nodes or relationship.target_id not in nodes:
            continue
        rules.verify_relation(sources, relationship, "content", "relationships", position)
        kind = relationship.edge_type
        source, target = ends(kind, nodes[relationship.source_id].node_id, nodes[relationship.target_id].node_id)
        edges.append(Edge.seal(edge_type=kind, source_node_id=source, target_node_id=target, provenance=relationship.provenance))
    return edges
