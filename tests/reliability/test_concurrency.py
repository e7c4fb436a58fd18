"""Eight processes at once: of each output there is one winner, the others are told; the lock stays the lock."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import Conflict, Reason
from sdaqf_tasks.flow import doctor
from sdaqf_tasks.fronts import calls
from tests.flow.workshop import Workshop
from tests.fronts.project import Made, made
from tests.fronts.run import SDAQF

PROCESSES, OUTPUTS = 8, 40


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("project"))


def _publish(graph: Path, query: Path, folder: Path, turn: int) -> list[str]:
    """What became of each output, tried in an order of this process's own."""
    found = []
    for number in range(OUTPUTS):
        name = f"{(number + turn * 3) % OUTPUTS}.json"
        try:
            calls.select(graph, query, folder / name)
            found.append(f"{name} made")
        except Conflict as error:
            found.append(f"{name} {error.reason.value}")
    return found


def test_of_forty_outputs_each_has_one_winner(project: Made, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        given = [(project["graph"], project["query-all"], tmp_path, turn) for turn in range(PROCESSES)]
        said = Counter(line for lines in pool.starmap(_publish, given) for line in lines)
    wanted = {f"{number}.json made": 1 for number in range(OUTPUTS)}
    wanted |= {f"{number}.json {Reason.OUTPUT_EXISTS.value}": PROCESSES - 1 for number in range(OUTPUTS)}
    assert said == wanted
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {project["selection-all"].read_bytes()}
    assert len(list(tmp_path.iterdir())) == OUTPUTS


def test_builds_gc_and_doctor_at_once_share_one_lock_file(shop: Workshop) -> None:
    shop.build()
    lock, wanted = (shop.folder / "lock").stat().st_ino, shop.refs()
    commands = (["build"], ["gc"], ["build"], ["doctor", "--repair"], ["build"], ["gc"], ["build"], ["doctor"])
    for turn in range(3):
        shop.write("docs/spec.md", f"# {turn}\n")
        running = [
            subprocess.Popen([SDAQF, *words], cwd=shop.path, env=shop.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for words in commands
        ]
        ended = [(process.communicate(timeout=120)[0].decode(), process.returncode) for process in running]
        assert [code for _, code in ended] == [0] * len(commands), ended
    shop.write("docs/spec.md", "# Specification\n\nIt does this.\n")
    shop.build()
    assert ((shop.folder / "lock").stat().st_ino, shop.refs()) == (lock, wanted)
    assert doctor.examine(Store(shop.path, ".sdaqf/build")).defects == ()


@pytest.mark.parametrize("command", ["build", "gc", "doctor --repair"])
def test_a_lock_that_is_a_link_leads_nobody_away(command: str, shop: Workshop, tmp_path: Path) -> None:
    shop.build()
    (shop.folder / "lock").unlink()
    (shop.folder / "lock").symlink_to(tmp_path / "away")
    ended = subprocess.run([SDAQF, *command.split()], cwd=shop.path, env=shop.environment(), capture_output=True, check=False, timeout=60)
    assert (ended.returncode, (tmp_path / "away").exists()) == (0 if command.startswith("doctor") else 1, False), ended
    assert os.path.lexists(shop.folder / "lock") != command.startswith("doctor")
