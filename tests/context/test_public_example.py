"""The public example of FORMAT A.5, from its table: every id, cost, rank, size and digest."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from sdaqf_tasks.context import chain
from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import PREFIXES, Artifact, Claim, Compaction, Rank, Snapshot, parse, render
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, Sensitivity, Source, cost
from tests.builders import candidate, manifest, node_of, proposal, query, relationship, source
from tests.simulator import World

SPECIFICATION = "# Specification\n\nThe framework must validate context.\n"
CONTRACT = "# Accepted contract\n\nContext snapshots are exact.\n"
EVIDENCE = "PASS: public fixture evidence is verified.\n"


class Example(NamedTuple):
    sources: dict[str, Source]
    artifacts: dict[str, Artifact[Any]]


def sources() -> dict[str, Source]:
    folder = "examples/m5-context/sources/"
    by = {"recorded_by": "M5-CONTEXT-INTEGRITY"}
    return {
        "specification": source(
            folder + "specification.md",
            SPECIFICATION,
            kind=Kind.SPECIFICATION,
            authority=Authority.CANONICAL_SPECIFICATION,
            required=True,
            title="Canonical specification",
            identifiers=("FR-M5-001",),
            labels=("context", "must"),
            **by,
        ),
        "contract": source(
            folder + "accepted-contract.md",
            CONTRACT,
            kind=Kind.DECISION,
            authority=Authority.ACCEPTED_PUBLIC_CONTRACT,
            title="Accepted Context contract",
            identifiers=("M5-D1",),
            labels=("contract", "identity"),
            **by,
        ),
        "evidence": source(
            folder + "verified-evidence.txt",
            EVIDENCE,
            kind=Kind.EVIDENCE,
            authority=Authority.VERIFIED_EVIDENCE,
            title="Verified public evidence",
            identifiers=("EV-M5-PUBLIC",),
            labels=("evidence", "pass"),
            **by,
        ),
    }


@pytest.fixture(scope="module")
def example() -> Example:
    found = sources()
    texts = {"specification": SPECIFICATION, "contract": CONTRACT, "evidence": EVIDENCE}
    world = World({found[name].locator.path: text.encode() for name, text in texts.items()}, digest="C" * 64)
    made = manifest(
        found.values(),
        (
            relationship(EdgeType.REFERENCES, found["specification"], found["evidence"]),
            relationship(EdgeType.VERIFIES, found["contract"], found["specification"]),
        ),
        candidate(SPECIFICATION),
    )
    graph = index(made, world)
    asked = query(
        graph,
        as_of="2026-07-31T00:00:00Z",
        clearance=Sensitivity.PUBLIC,
        required=[node_of(graph, found["specification"])],
        identifiers=("FR-M5-001",),
        terms=("context", "validate"),
        budget_bytes=65_536,
        max_nodes=64,
        max_edges=128,
        max_traversal_depth=4,
    )
    selection = select(graph, asked)
    shown = snapshot(graph, selection, world)
    chain.verify(graph, selection, shown)
    contract = node_of(graph, found["contract"])
    claim = Claim(
        claim="The public fixture proposes a source-linked summary.",
        source_node_ids=(contract.node_id,),
        extract_sha256s=(contract.text_sha256,),
    )
    proposed = proposal(shown, contract, claims=(claim,))
    artifacts: dict[str, Artifact[Any]] = {
        "manifest": made,
        "graph": graph,
        "query": asked,
        "selection": selection,
        "snapshot": shown,
        "compaction": compact(shown, world, proposal=proposed),
        "host summary proposal": proposed,
        "quality report": quality(graph, selection, shown),
    }
    return Example(found, artifacts)


def test_the_candidate_names_the_specification() -> None:
    assert candidate(SPECIFICATION).source_spec_sha256 == "050EA855693A9DD43303872934824E4B116A9210CECBD3CAA6F24F9EB9823FF4"


@pytest.mark.parametrize(
    ("name", "source_id", "node_id", "size"),
    [
        (
            "specification",
            "50CCB567B1EA07728A6E09C5C5D6823B53A709A1E1CCBFBE31E0596627B24D5C",
            "CC3BAB26EB0DFBF46B4A91F502AC3C31E214573485EA9562B2F562AF3CD5F17C",
            925,
        ),
        (
            "evidence",
            "5512965B631295B53D4B600D061747CB28CBAA7D11B6A2942BDA8219FBCDC8EE",
            "595683BB6C6EB82812B16CF16AD66F06ECDC3B2CCE085D8279C7DAE07C64E84E",
            917,
        ),
        (
            "contract",
            "972BE98E396BD4D8E340A294901D53C1E5815B30A023C8AA28D584E62DA2E30D",
            "56D84380E522C62FC0B2411AD045A359AB2870078A9512850FA457F579190B49",
            929,
        ),
    ],
)
def test_a_source_and_its_node_have_the_ids_of_the_table(example: Example, name: str, source_id: str, node_id: str, size: int) -> None:
    node = node_of(example.artifacts["graph"], example.sources[name])
    assert (node.source_id, node.node_id, cost(node)) == ("CTX-SOURCE-" + source_id, "CTX-NODE-" + node_id, size)


def test_the_edges_have_the_ids_of_the_table(example: Example) -> None:
    assert [(edge.edge_type, edge.edge_id, cost(edge)) for edge in example.artifacts["graph"].content.edges] == [
        (EdgeType.VERIFIES, "CTX-EDGE-00A00FE1BE1AD74FEEBF4D9E978AA39D341EB7D4B4A7BD58C6C01FE4AE7098A4", 437),
        (EdgeType.REFERENCES, "CTX-EDGE-03867DC2256A88F3D60FA32B872D26714D2797EDF077BD21B3F54356F915BDF3", 435),
    ]


@pytest.mark.parametrize(
    ("name", "phase", "authority", "distance", "score", "reasons"),
    [
        ("specification", 0, 1, 0, 14, ("identifier", "lexical", "required-reference")),
        ("evidence", 1, 3, 1, 4, ("graph", "lexical")),
        ("contract", 3, 2, 0, 21, ("lexical",)),
    ],
)
def test_a_decision_is_that_of_the_table(
    example: Example, name: str, phase: int, authority: int, distance: int, score: int, reasons: tuple[str, ...]
) -> None:
    node = node_of(example.artifacts["graph"], example.sources[name])
    (decision,) = (taken for taken in example.artifacts["selection"].content.selected if taken.node_id == node.node_id)
    assert decision.reasons == reasons
    assert decision.cost_bytes == cost(node)
    assert decision.rank == Rank(
        phase=phase, authority_rank=authority, graph_distance=distance, lexical_score=score, sensitivity_rank=0, node_id=node.node_id
    )


def test_the_bytes_used_are_those_of_the_table(example: Example) -> None:
    selection, shown, compaction = (example.artifacts[name].content for name in ("selection", "snapshot", "compaction"))
    assert isinstance(shown, Snapshot)
    assert isinstance(compaction, Compaction)
    assert (selection.used_bytes, selection.edge_cost_bytes, selection.excluded) == (3643, 872, ())
    assert (shown.context_bytes, compaction.used_bytes) == (3643, 160)


@pytest.mark.parametrize(
    ("name", "suffix", "size", "sha256"),
    [
        (
            "manifest",
            "7ECB272D665593AED3E1BFF65EDAC8A403A26EAC56BEB13B58A09B1A80A68F62",
            5299,
            "CCE604AABADA3D1CDBD8C25CC95F7F8EF3DE1528A73C8C13BA46BFDE31159EEB",
        ),
        (
            "graph",
            "D1FC9F96691D7B947FF3CAD08B27336C8E7C305F27E3A908B265D6A5CED96096",
            6390,
            "8DB9CB0FF0DD5C66AAC39BA9F9DF2175C45C1EA14AA3122868D714F3FCDD2D32",
        ),
        (
            "query",
            "76204DB6D3EE80C6EE8998F1807311BFCA3437055632197008075364F0DABA91",
            1202,
            "BD80754C32FA27957EC7B483F1275362B11092BF4001D5770316B06C3FFD7C43",
        ),
        (
            "selection",
            "3D7E2B0CCDD5C9E637505CBF13F434C4F8DE35100B22EAC4C0C0CC0C7313D5AC",
            3698,
            "A0CF082C9887F91CAB28954CBF243A754EB52BD3E6959EA1AC174F18E66BB273",
        ),
        (
            "snapshot",
            "60806B57F8C2C1B3E8AA059428C0FAD2D1629DD06B4E3A402F476497E4038A2C",
            8202,
            "5451B8D5C76A61A1B1D9337D8EA6FC4FD9F7E82B79F0CDEB3FCC4E276488F19C",
        ),
        (
            "compaction",
            "D7BFE62F2BA657158E3EC63F8D1F14C8E6077872F79194E9F30DDA9EA2B28129",
            2483,
            "6B1EC4EC0BBA61F6F06C1D0FB954B83D0899A3DC2A83C720C815B9616AEB3AE3",
        ),
        (
            "host summary proposal",
            "1AEE979D38EDAD5DB429ED863BB0FF4899987289FF960FFC49147475F11B2E20",
            734,
            "66312CF39ADFEF7F44E10550B131796CEB4136AF0AD33D7439C51A58FFECEFB8",
        ),
        (
            "quality report",
            "032845D077786A902666CF422CF98CA3942491950860E8710DD526806C22DEE4",
            1007,
            "41ECF9F4C214CC7346BB3C185629B0D36DB909E5F9BBA285A1F8E999C19A056F",
        ),
    ],
)
def test_an_artifact_is_published_as_the_table_says(example: Example, name: str, suffix: str, size: int, sha256: str) -> None:
    artifact = example.artifacts[name]
    data = render(artifact)
    assert artifact.artifact_id == PREFIXES[type(artifact.content)] + suffix
    assert (len(data), canonical.digest(data)) == (size, sha256)
    assert parse(data) == artifact
