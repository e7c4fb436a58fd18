"""This module holds artifacts of every type, made once: a small chain with a contradiction, and those of the vectors."""

from __future__ import annotations

import json
from typing import Any

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, HostSummaryProposal, QualityReport, parse
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind
from tests import scenarios
from tests.builders import Chain, Repository, expires, node_of, proposal


def _chain() -> tuple[Repository, Chain]:
    repository = Repository(identifiers=("FR-1",), labels=("must",))
    one = repository.add("docs/one.md", "It is so.\n", kind=Kind.DECISION, authority=Authority.ACCEPTED_PUBLIC_CONTRACT)
    other = repository.add("docs/other.md", "It is not so.\n", freshness=expires())
    seen = repository.add(
        "out/log.txt", "é seen\n", kind=Kind.TOOL_OBSERVATION, authority=Authority.UNTRUSTED_OBSERVATION, freshness=expires()
    )
    repository.add("docs/aside.md", "Nobody asks.\n")
    repository.relate(EdgeType.CONTRADICTS, one, other)
    repository.relate(EdgeType.REFERENCES, repository.specification, one)
    return repository, repository.chain(seeds=[seen], identifiers=("FR-1",), terms=("spec",), max_traversal_depth=2)


REPOSITORY, CHAIN = _chain()
"""Specification, two that contradict each other, an observation; one node that nobody asks for is excluded."""

MANIFEST = REPOSITORY.manifest()
PROPOSAL: Artifact[HostSummaryProposal] = proposal(CHAIN.snapshot, node_of(CHAIN.graph, REPOSITORY.specification))
COMPACTION: Artifact[Compaction] = compact(CHAIN.snapshot, REPOSITORY.world, proposal=PROPOSAL)
REPORT: Artifact[QualityReport] = quality(CHAIN.graph, CHAIN.selection, CHAIN.snapshot)


def _of_the_vectors() -> list[Artifact[Any]]:
    found: dict[str, Artifact[Any]] = {}
    for number in (1001, 1002, 1004, 1005, 1006):
        scenario = scenarios.load(scenarios.VECTORS / "pipeline" / f"{number}.json")
        published = [step["artifact"] for step in scenario["steps"] if "artifact" in step]
        for artifact in (scenario["manifest"], *scenario["queries"], *scenario["proposals"].values(), *published):
            read: Artifact[Any] = parse(json.dumps(artifact).encode())
            found[read.artifact_id] = read
    return list(found.values())


VECTORS = _of_the_vectors()
ARTIFACTS: list[Artifact[Any]] = [MANIFEST, *CHAIN, PROPOSAL, COMPACTION, REPORT, *VECTORS]
