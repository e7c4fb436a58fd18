"""Folders of a project that are closed to us: whatever the command, a refusal that names the folder, and no traceback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import repositories
from tests.fronts.run import MODULE, SDAQF, program

POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all") if os.geteuid() == 0 else ()
"""Root opens whatever is closed, unless it gives that up."""

pytestmark = pytest.mark.skipif(bool(POWERLESS) and not shutil.which("setpriv"), reason="root cannot do without its powers here")

CLOSED = {
    ".sdaqf": 0,
    ".sdaqf/build": 0,
    ".sdaqf/build/refs": 0o444,
    ".sdaqf/build/blocked": 0o444,
    ".sdaqf/shards/project": 0,
}
EVERY = ("build", "status", "check", "doctor", "replay latest", "gc", "shard list")
TOLD = {
    **{(".sdaqf", command): ".sdaqf" for command in EVERY[:-1]},
    **{(".sdaqf/build", command): ".sdaqf/build" for command in EVERY[:-2]},
    (".sdaqf/build", "gc"): "build",
    **{(".sdaqf/build/refs", command): ".sdaqf/build/refs" for command in (*EVERY[:-3], "gc")},
    **{(".sdaqf/build/blocked", command): ".sdaqf/build/blocked" for command in ("build", "doctor", "replay latest", "gc")},
    (".sdaqf/shards/project", "shard list"): ".sdaqf/shards/project",
    (".sdaqf", "shard list"): ".sdaqf/shards",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("closed") / "project"
    repositories.make(top, {"docs/spec.md": "# Specification\n", "manifests/context.yaml": "sdaqf: 1\nspecification: docs/spec.md\n"})
    assert [program(*line.split(), cwd=top, by=(SDAQF,)).code for line in ("build", "shard init")] == [0, 0]
    (top / ".sdaqf/build/blocked/one").mkdir(parents=True)
    return top


@pytest.fixture
def closed(project: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    folder = project / request.param
    folder.chmod(CLOSED[request.param])
    yield project
    folder.chmod(0o700)


@pytest.mark.parametrize(("closed", "command", "where"), [(*key, where) for key, where in TOLD.items()], indirect=["closed"])
def test_a_closed_folder_is_named(closed: Path, command: str, where: str) -> None:
    ran = program(*command.split(), "--json", cwd=closed, by=(*POWERLESS, *MODULE))
    assert (ran.code, ran.value["where"], ran.err) == (1, where, "")
    assert ran.value["reason"] in ("missing-or-unreadable", "output-invalid")
