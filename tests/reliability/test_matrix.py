"""The same tree gives the same bytes for every combination of what a machine may have otherwise.

A sample runs always; `pytest -m long tests/reliability/test_matrix.py` runs 128 combinations, and every Python that is there.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.disk.worktree import WorkTree
from tests.flow.workshop import FILES
from tests.fronts.run import SDAQF
from tests.repositories import make, write

MORE = {f"src/{name}.py": f"# {name}\n" for name in ("B", "a-b", "a_b", "ab", "é", "Z/z", "z/Z")}
NOW = "2026-11-01T00:00:00Z"
SEED = 7


class Machine(NamedTuple):
    """What may be otherwise. `order` is that in which the files were written: forward, backward, or by chance."""

    seed: str
    zone: str
    locale: str
    umask: int
    folder: str
    order: str
    clone: str


def machines() -> Iterator[Machine]:
    yield from map(
        Machine._make,
        itertools.product(
            ("0", "4294967295"),
            ("UTC", "Pacific/Kiritimati"),
            ("C", "C.UTF-8"),
            (0o022, 0o077),
            ("r", "deep/er/and/deep er/é"),
            ("forward", "backward"),
            ("whole", "shallow"),
        ),
    )


def written(machine: Machine, place: Path) -> WorkTree:
    """The project as that machine has it: a clone whose files were written once more, in that order."""
    origin = make(place / "origin", {**FILES, **MORE})
    origin.write("docs/late.md", b"Later.\n")
    origin.commit(message="two")
    top = place / machine.folder
    top.parent.mkdir(parents=True, exist_ok=True)
    depth = ["--depth", "1"] if machine.clone == "shallow" else []
    origin.git("clone", "-q", *depth, f"file://{origin.path}", str(top))
    names = sorted(path.relative_to(top).as_posix() for path in top.rglob("*") if path.is_file() and ".git" not in path.parts)
    files = {name: (top / name).read_bytes() for name in (reversed(names) if machine.order == "backward" else names)}
    for folder in {top / Path(name).parts[0] for name in names if "/" in name}:
        shutil.rmtree(folder)
    write(top, files)
    return WorkTree(top)


def results(top: Path) -> dict[str, bytes]:
    """Objects, refs, receipts, copies and the lock."""
    build = top / ".sdaqf" / "build"
    found = {path.relative_to(build).as_posix(): path.read_bytes() for path in build.rglob("*") if path.is_file()}
    return found | {"context.lock": (top / "manifests" / "context.lock").read_bytes()}


def made(machine: Machine, place: Path) -> dict[str, bytes]:
    before = os.umask(machine.umask)
    try:
        top = written(machine, place).path
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"PYTHONHASHSEED": machine.seed, "TZ": machine.zone, "LC_ALL": machine.locale, "SDAQF_NOW": NOW}
        environment |= {"PYTHONCOERCECLOCALE": "0"}
        for words in (["lock"], ["build"]):
            ended = subprocess.run([SDAQF, *words], cwd=top, env=environment, capture_output=True, check=False, timeout=120)
            assert ended.returncode == 0, (machine, ended)
        return results(top)
    finally:
        os.umask(before)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    found = made(next(machines()), tmp_path_factory.mktemp("usual"))
    assert len(found) > 30
    return found


ALL = list(machines())


@pytest.mark.parametrize("machine", [ALL[-1], *random.Random(SEED).sample(ALL, 3)], ids=str)
def test_a_sample_of_machines(machine: Machine, usual: dict[str, bytes], tmp_path: Path) -> None:
    assert made(machine, tmp_path) == usual


@pytest.mark.long
@pytest.mark.parametrize("machine", ALL, ids=str)
def test_every_machine(machine: Machine, usual: dict[str, bytes], tmp_path: Path) -> None:
    assert made(machine, tmp_path) == usual


@pytest.mark.long
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_every_python(version: str, usual: dict[str, bytes], tmp_path: Path) -> None:
    """An environment of that Python, in which the dependencies can be installed; skipped where there is none."""
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"there is no Python {version}")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True, timeout=120)
    own = tmp_path / "venv" / "bin"
    top = Path(__file__).parents[2]
    pip: list[str | Path] = [own / "pip", "install", "-q", "doit>=0.36,<1", "msgspec>=0.18.6", "PyYAML>=6.0.1", "jsonschema>=4.18"]
    installed = subprocess.run(pip, capture_output=True, check=False, timeout=300)
    if installed.returncode:
        pytest.skip(f"the dependencies cannot be installed for Python {version}")
    starter = tmp_path / "start.py"
    starter.write_text(f"import sys\nsys.path.insert(0, {str(top)!r})\nfrom sdaqf_tasks.__main__ import main\nsys.exit(main())\n")
    machine = ALL[-1]
    top_of_tree = written(machine, tmp_path / "p").path
    for words in (["lock"], ["build"]):
        ended = subprocess.run(
            [own / "python", "-I", starter, *words],
            cwd=top_of_tree,
            env={**os.environ, "SDAQF_NOW": NOW},
            capture_output=True,
            check=False,
            timeout=120,
        )
        assert ended.returncode == 0, ended
    assert results(top_of_tree) == usual
