"""The library gives every step of the conformance vectors: identity, published bytes, or refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, HostSummaryProposal, Manifest, Query, parse, render
from tests import scenarios
from tests.simulator import World


@pytest.mark.parametrize("path", scenarios.SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_gives_its_bytes(path: Path) -> None:
    scenario = scenarios.load(path)
    head = scenario["manifest"]["content"]["candidate"]["git_head"]
    world = World(scenarios.file_bytes(scenario), scenarios.bodies(scenario["owner"]), head)
    made: dict[tuple[Any, ...], Any] = {}
    changed = False
    for step in scenario["steps"]:
        if step.get("phase") == "changed" and not changed:
            apply_changes(world, scenario["changes"])
            changed = True
        key, act = operation(step, scenario, world, made)
        expect(step, key, act, made)


def operation(
    step: dict[str, Any], scenario: dict[str, Any], world: World, made: dict[tuple[Any, ...], Any]
) -> tuple[tuple[Any, ...], Any]:
    owner_root = step.get("owner_root", False)
    query, phase = step.get("query"), step.get("phase")
    if step["step"] == "index":
        data = scenarios.bytes_of(scenario["manifest"])
        return ("index",), lambda: index(parse(data, Manifest), world, owner_root=owner_root)
    if step["step"] == "select":
        data = scenarios.bytes_of(scenario["queries"][query])
        return ("select", query), lambda: select(made["index",], parse(data, Query))
    if step["step"] == "snapshot":
        return ("snapshot", query, phase), lambda: snapshot(made["index",], made["select", query], world, owner_root=owner_root)

    def compacting() -> Artifact[Any]:
        proposal = None
        if step["proposal"]:
            proposal = parse(scenarios.bytes_of(scenario["proposals"][f"{phase}-{query}"]), HostSummaryProposal)
        return compact(made["snapshot", query, phase], world, proposal=proposal, owner_root=owner_root)

    return ("compact", query, phase, step["proposal"]), compacting


def expect(step: dict[str, Any], key: tuple[Any, ...], act: Callable[[], Artifact[Any]], made: dict[tuple[Any, ...], Any]) -> None:
    if step["outcome"] == "refused":
        with pytest.raises(SdaqfError):
            act()
        return
    artifact = made[key] = act()
    data = render(artifact)
    if "artifact" in step:
        assert json.loads(data) == step["artifact"]
    assert (artifact.artifact_id, canonical.digest(data)) == (step["artifact_id"], step["file_sha256"])


def apply_changes(world: World, changes: list[dict[str, Any]]) -> None:
    for change in changes:
        files = world.owner if change["scope"] == "owner" else world.repository
        if change["body"] is None:
            files.pop(change["path"])
        else:
            files[change["path"]] = scenarios.body(change["body"])
