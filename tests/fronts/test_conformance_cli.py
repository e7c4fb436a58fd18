"""The command line gives every step of the conformance vectors on real repositories: id, published bytes, or refusal.

Every step of all scenarios goes through `main` in this process, on a repository that git made; the scenarios of SAMPLE,
which have every command, outcome, phase, owner root and proposal between them, go through the installed `sdaqf` as well,
with `validate` and `compare` of what was published. Outputs lie outside the repository, or in its ignored `build/`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.formats import canonical
from tests import repositories, scenarios
from tests.disk.worktree import everything_below
from tests.fronts.run import Ran, in_process, program

Run = Callable[..., Ran]
SAMPLE = ("1001", "1006", "1007", "1008", "1021", "1040")
OF_THE_MACHINE = ("git-failed", "candidate-moved", "write-failed", "not-a-repository", "foreign-owner")
MEMBERS = ("step", "outcome", "phase", "owner_root", "proposal")


class Scenario:
    """A scenario at work: its repository, its artifact files, and the folder of outputs."""

    def __init__(self, path: Path, folder: Path, *, inside: bool) -> None:
        self.given = scenarios.load(path)
        self.tree = repositories.of_scenario(folder / "repository", self.given)
        self.owner, self.inputs = folder / "owner", folder / "inputs"
        self.outputs = self.tree.path / "build" / "published" if inside else folder / "published"
        repositories.write(self.owner, scenarios.bodies(self.given["owner"]))
        for place in (self.owner, self.inputs, self.outputs):
            place.mkdir(parents=True, exist_ok=True)
        self.manifest = self._input("manifest", self.given["manifest"])
        self.queries = [self._input(f"query-{number}", query) for number, query in enumerate(self.given["queries"])]
        self.proposals = {name: self._input(f"proposal-{name}", proposal) for name, proposal in self.given["proposals"].items()}

    def _input(self, name: str, artifact: Any) -> Path:
        place = self.inputs / f"{name}.json"
        place.write_bytes(scenarios.bytes_of(artifact))
        return place

    def change(self) -> None:
        for change in self.given["changes"]:
            place = (self.owner if change["scope"] == "owner" else self.tree.path) / change["path"]
            if change["body"] is None:
                place.unlink()
            else:
                repositories.write(place.parent, {place.name: scenarios.body(change["body"])})

    def output(self, step: str, *parts: object) -> Path:
        return self.outputs / ("-".join([step, *(str(part) for part in parts)]) + ".json")

    def command(self, step: dict[str, Any]) -> tuple[list[str | Path], Path]:
        """The arguments of a step, and its output."""
        query, phase = step.get("query"), step.get("phase")
        graph, selection, snapshot = self.output("index"), self.output("select", query), self.output("snapshot", query, phase)
        world: list[str | Path] = ["--repository-root", self.tree.path]
        world += ["--owner-root", self.owner] if step.get("owner_root") else []
        match step["step"]:
            case "index":
                return [self.manifest, *world], graph
            case "select":
                return [graph, self.queries[step["query"]]], selection
            case "snapshot":
                return [graph, selection, *world], snapshot
        proposed: list[str | Path] = ["--host-summary-proposal", self.proposals[f"{phase}-{query}"]] if step["proposal"] else []
        return [snapshot, *world, *proposed], self.output("compact", query, phase, step["proposal"])

    def state(self) -> dict[str, Any]:
        """Everything but the outputs, with every byte and time stamp, `.git` included."""
        found = {f"{place.name}/{name}": entry for place in (self.tree.path, self.owner) for name, entry in everything_below(place).items()}
        return {name: entry for name, entry in found.items() if not name.startswith("repository/build/published")}


@pytest.mark.parametrize("number", range(len(scenarios.SCENARIOS)), ids=lambda number: scenarios.SCENARIOS[number].stem)
def test_a_scenario_gives_its_bytes_in_this_process(number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = Scenario(scenarios.SCENARIOS[number], tmp_path, inside=number % 2 == 1)

    def run(*arguments: str | Path) -> Ran:
        return in_process(*arguments, capsys=capsys)

    follow(scenario, run)


@pytest.mark.parametrize("stem", SAMPLE)
def test_a_scenario_gives_its_bytes_through_the_installed_command(stem: str, tmp_path: Path) -> None:
    scenario = Scenario(scenarios.VECTORS / "pipeline" / f"{stem}.json", tmp_path, inside=stem == SAMPLE[0])

    def run(*arguments: str | Path) -> Ran:
        return program(*(os.path.relpath(a, tmp_path) if isinstance(a, Path) else a for a in arguments), cwd=tmp_path)

    follow(scenario, run)
    for output in sorted(scenario.outputs.iterdir()):
        ran = run("context", "validate", "--json", output)
        assert (ran.code, ran.value["valid"], ran.err) == (0, True, "")
    for snapshot in sorted(scenario.outputs.glob("snapshot-*")):
        ran = run("context", "compare", snapshot, snapshot, "--json")
        assert (ran.code, ran.value["added_node_ids"], ran.value["candidate_changed"]) == (0, [], False)


def test_the_sample_has_every_kind_of_step() -> None:
    def kinds(paths: list[Path]) -> set[tuple[Any, ...]]:
        return {tuple(step.get(member) for member in MEMBERS) for path in paths for step in scenarios.load(path)["steps"]}

    assert kinds([path for path in scenarios.SCENARIOS if path.stem in SAMPLE]) == kinds(scenarios.SCENARIOS)


def follow(scenario: Scenario, run: Run) -> None:
    """Run every step and compare. A step changes nothing but its output, and a refused one nothing at all."""
    assert scenario.tree.head() == scenario.given["manifest"]["content"]["candidate"]["git_head"]
    phase = None
    before = scenario.state()
    for step in scenario.given["steps"]:
        if step.get("phase") == "changed" != phase:
            scenario.change()
            phase, before = "changed", scenario.state()
        arguments, output = scenario.command(step)
        outputs = everything_below(scenario.outputs)
        ran = run("context", step["step"], *arguments, "--output", output, "--json")
        assert scenario.state() == before
        if step["outcome"] == "refused":
            assert (ran.code, ran.value["error"], ran.value["operation"]) == (1, "context-contract-invalid", step["step"])
            assert ran.value["reason"] not in OF_THE_MACHINE
            assert str(scenario.tree.path) not in ran.out + ran.err
            assert everything_below(scenario.outputs) == outputs
            continue
        assert (ran.code, ran.err) == (0, "")
        assert ran.value["artifact_id"] == step["artifact_id"]
        assert ran.value["output"] == output.name
        assert canonical.digest(output.read_bytes()) == step["file_sha256"]
        assert (output.stat().st_mode & 0o777, output.stat().st_nlink) == (0o600, 1)
        assert everything_below(scenario.outputs).keys() - outputs.keys() == {output.name}
