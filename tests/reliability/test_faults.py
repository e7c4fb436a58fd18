"""Whatever system call fails, and however: what is published is whole or not there, and the exit code says which.

A sample runs always. All of it, which takes an hour or two: `pytest -m long tests/reliability/test_faults.py -n auto`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path

import pytest

from sdaqf_tasks.disk.files import TEMPORARY
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.flow import blocked, doctor, replay
from tests.disk.worktree import WorkTree
from tests.flow.workshop import Workshop
from tests.fronts.project import Made, made
from tests.reliability.faults import KILLED as KILLED
from tests.reliability.faults import Ended, Fault, faults, missing, run

needs_strace = pytest.mark.skipif(missing() is not None, reason=missing() or "")

SEED = 3


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("project"))


def sample(wanted: Iterable[Fault], count: int) -> list[Fault]:
    """Some faults of every kind of call, always the same."""
    found = list(wanted)
    random.Random(SEED).shuffle(found)
    first: dict[object, Fault] = {}
    for fault in found:
        first.setdefault(fault.call, fault)
    return [*first.values(), *(fault for fault in found if fault not in first.values())][:count]


def check_met(met: Sequence[bool], what: str) -> int:
    """How many faults were tried. A run that copies less, because what it copies has settled by now, may never meet the last ones."""
    print(f"{what}: {len(met)} faults, {len(met) - sum(met)} of them not met")
    assert sum(met) > 0.9 * len(met)
    return len(met)


def check_words(ended: Ended, fault: Fault) -> None:
    """The run was killed, or ended as documented; in no case is there a traceback, or a place of this machine."""
    assert ended.code in ((KILLED if ended.met else (0,)) if fault.how == "SIGKILL" else (0, 1, 4)), (fault, ended)
    assert "Traceback" not in ended.err and "Exception" not in ended.err, (fault, ended)
    assert "/tmp/" not in ended.out + ended.err and str(Path.home()) not in ended.out + ended.err, (fault, ended)


# ---- the stages on explicit files -----------------------------------------------------------------------------------

STAGES = ("manifest", "index", "query", "select", "snapshot", "compact", "quality", "render")


def stage(name: str, project: Made, output: Path) -> list[str | Path]:
    """The command of a stage that writes `output`."""
    root: list[str | Path] = ["--repository-root", project.tree.path]
    takes: dict[str, list[str | Path]] = {
        "manifest": [project.yaml, *root],
        "index": [project["manifest"], *root],
        "query": [project.yaml, project["graph"], "--query", "all"],
        "select": [project["graph"], project["query-all"]],
        "snapshot": [project["graph"], project["selection-all"], *root],
        "compact": [project["snapshot-all"], *root],
        "quality": [project["graph"], project["selection-all"], project["snapshot-all"]],
        "render": [project["snapshot-all"], project["compaction-all"]],
    }
    return ["context", name, *takes[name], "--output", output]


def check_stage(name: str, project: Made, tmp_path: Path, choose: Callable[[Iterable[Fault]], Iterable[Fault]]) -> int:
    suffix = ".md" if name == "render" else ".json"
    usual = tmp_path / f"usual{suffix}"
    assert run(stage(name, project, usual), cwd=tmp_path, scratch=tmp_path / "t", log=tmp_path / "log").code == 0
    whole, met = usual.read_bytes(), list[bool]()
    for count, fault in enumerate(choose(faults(tmp_path / "log")), 1):
        folder = tmp_path / str(count)
        folder.mkdir()
        output = folder / f"o{suffix}"
        ended = run(stage(name, project, output), cwd=tmp_path, scratch=tmp_path / "t", fault=fault)
        check_words(ended, fault)
        met.append(ended.met)
        there = output.exists()
        assert not there or output.read_bytes() == whole, fault
        if ended.code not in KILLED:
            assert there == (ended.code in (0, 4)), (fault, ended)
        left = [path.name for path in folder.iterdir() if path.name != output.name]
        assert all(TEMPORARY.fullmatch(each) for each in left), (fault, left)
        assert fault.how == "SIGKILL" or fault.call == "unlinkat" or not left, (fault, left)
        again = run(stage(name, project, output), cwd=tmp_path, scratch=tmp_path / "t")
        assert (again.code, output.read_bytes()) == (1 if there else 0, whole), (fault, again)
        shutil.rmtree(folder)
    return check_met(met, name)


@needs_strace
def test_a_sample_of_faults_in_a_stage(project: Made, tmp_path: Path) -> None:
    assert check_stage("select", project, tmp_path, lambda all_: sample(all_, 12)) == 12


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("name", STAGES)
def test_every_fault_in_a_stage(name: str, project: Made, tmp_path: Path) -> None:
    assert check_stage(name, project, tmp_path, lambda all_: all_) > 30


# ---- the commands on a project --------------------------------------------------------------------------------------

SMALL = {"README.md": "# It\n\nIt does this.\n", "manifests/context.yaml": "sdaqf: 1\nspecification: README.md\n"}
"""A project with one source: each command writes little, and all that it ever does."""

HARMLESS = frozenset({"temporary", "receipt-mismatch", "receipt-damaged", "ref-damaged", "copy-damaged", "copy-left-over"})
"""What a run that ended early may leave: between two steps of `refs → receipt → ref → copy`. Never a damaged object."""

PARTS = 4
"""A loop of two thousand faults is so many tests, for more than one processor."""


def at(path: Path) -> Workshop:
    """The project that lies there already."""
    shop = Workshop.__new__(Workshop)
    shop.tree, shop.path, shop.owner_root, shop.folder, shop.said = WorkTree(path), path, None, path / ".sdaqf" / "build", []
    return shop


def check_build(shop: Workshop, ended: Ended, fault: Fault, wanted: dict[str, str], *, building: bool) -> None:
    """What is there is whole; the next build works, gives the same, and clears up."""
    store = Store(shop.path, ".sdaqf/build")
    if store.folder.exists():
        assert {defect.code for defect in doctor.examine(store).defects} <= HARMLESS, (fault, ended)
    if ended.code in (0, 4) and building:
        assert shop.refs() == wanted, (fault, ended)
    shop.build()
    assert shop.refs() == wanted, (fault, ended)
    assert doctor.examine(store).defects == (), (fault, ended)


def check_builds(tmp_path: Path, command: Sequence[str], choose: Callable[[Iterable[Fault]], Iterable[Fault]], *, before: bool) -> int:
    """`before`: the project is built, and then its document is another one."""
    model = Workshop(tmp_path / "model", SMALL)
    if before:
        model.build()
        model.write("README.md", "# It\n\nIt does that.\n")
    shutil.copytree(model.path, tmp_path / "usual", symlinks=True)
    assert run(command, cwd=tmp_path / "usual", scratch=tmp_path / "t", log=tmp_path / "log").code == 0
    model_refs = at(tmp_path / "usual")
    model_refs.build()
    wanted, met = model_refs.refs(), list[bool]()
    for fault in choose(faults(tmp_path / "log", every=10)):
        place = tmp_path / "x"
        shutil.copytree(model.path, place, symlinks=True)
        ended = run(command, cwd=place, scratch=tmp_path / "t", fault=fault)
        check_words(ended, fault)
        met.append(ended.met)
        check_build(at(place), ended, fault, wanted, building=command[0] == "build")
        shutil.rmtree(place)
    return check_met(met, " ".join(command))


@needs_strace
def test_a_sample_of_faults_in_a_build(tmp_path: Path) -> None:
    assert check_builds(tmp_path, ["build"], lambda all_: sample(all_, 12), before=False) == 12


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("before", [False, True], ids=["first", "second"])
def test_every_fault_in_a_build(before: bool, part: int, tmp_path: Path) -> None:
    assert check_builds(tmp_path, ["build"], lambda all_: islice(all_, part, None, PARTS), before=before) > 500 / PARTS


def check_refusals(command: str, tmp_path: Path, choose: Callable[[Iterable[Fault]], Iterable[Fault]]) -> int:
    """A run that is refused is refused, whatever fails; a record of it is whole, or not there; the next run leaves one."""
    model = Workshop(tmp_path / "model", SMALL)
    assert run(["lock"], cwd=model.path, scratch=tmp_path / "t").code == 0
    model.write("README.md", "# It\n\nIt does that.\n")
    shutil.copytree(model.path, tmp_path / "usual", symlinks=True)
    assert run([command], cwd=tmp_path / "usual", scratch=tmp_path / "t", log=tmp_path / "log").code == 1
    met = list[bool]()
    for fault in choose(faults(tmp_path / "log", every=10)):
        place = tmp_path / "x"
        shutil.copytree(model.path, place, symlinks=True)
        store, before = Store(place, ".sdaqf/build"), tree(place)
        ended = run([command], cwd=place, scratch=tmp_path / "t", fault=fault)
        check_words(ended, fault)
        met.append(ended.met)
        assert ended.code not in (0, 4), (fault, ended)
        assert tree(place) == before, fault
        assert all(replay.read(path.read_bytes()) for path in blocked.records(store)), fault
        again = run([command], cwd=place, scratch=tmp_path / "t")
        assert (again.code, {replay.replay(path.read_bytes()).cls for path in blocked.records(store)}) == (1, {replay.FULLY}), fault
        assert doctor.examine(store).defects == () or command == "check", fault  # the gate sweeps nothing
        shutil.rmtree(place)
    return check_met(met, command)


@needs_strace
@pytest.mark.parametrize("command", ["build", "check"])
def test_a_sample_of_faults_in_what_is_refused(command: str, tmp_path: Path) -> None:
    assert check_refusals(command, tmp_path, lambda all_: sample(all_, 8)) == 8


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("command", ["build", "check"])
def test_every_fault_in_what_is_refused(command: str, tmp_path: Path) -> None:
    assert check_refusals(command, tmp_path, lambda all_: all_) > 100


@needs_strace
@pytest.mark.long
def test_every_fault_in_gc(tmp_path: Path) -> None:
    assert check_builds(tmp_path, ["gc"], lambda all_: all_, before=True) > 5


@needs_strace
@pytest.mark.long
def test_every_fault_in_doctor(tmp_path: Path) -> None:
    assert check_builds(tmp_path, ["doctor", "--repair"], lambda all_: all_, before=True) > 5


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("command", ["lock", "init --yes", "render context --into AGENTS.md"])
def test_every_fault_in_what_writes_into_the_tree(command: str, tmp_path: Path) -> None:
    """Each file is as it was or as it will be; what fails leaves all as it was, or says with 0 or 4 that it did not."""
    words = command.split()
    model = Workshop(tmp_path / "model", {**SMALL, "AGENTS.md": "# Agents\n"} if words[0] != "init" else {"README.md": "# It\n"})
    if words[0] == "render":
        assert run(["lock"], cwd=model.path, scratch=tmp_path / "t").code == 0
    before = tree(model.path)
    shutil.copytree(model.path, tmp_path / "usual", symlinks=True)
    assert run(words, cwd=tmp_path / "usual", scratch=tmp_path / "t", log=tmp_path / "log").code == 0
    after, met = tree(tmp_path / "usual"), list[bool]()
    assert after != before
    for fault in faults(tmp_path / "log", every=10):
        place = tmp_path / "x"
        shutil.copytree(model.path, place, symlinks=True)
        ended = run(words, cwd=place, scratch=tmp_path / "t", fault=fault)
        check_words(ended, fault)
        met.append(ended.met)
        found = tree(place)
        whole = {name: data for name, data in found.items() if not TEMPORARY.fullmatch(Path(name).name)}
        assert all(data in (before.get(name), after.get(name)) for name, data in whole.items())
        assert whole == found or ended.code in KILLED or "unlink" in fault.call, (fault, found.keys())
        if fault.how != "SIGKILL":
            assert (whole == after) if ended.code in (0, 4) else True, (fault, ended)
        shutil.rmtree(place)
    assert check_met(met, command) > 30


def tree(top: Path) -> dict[str, bytes]:
    """The files of a work tree, but for git's and the build folder's."""
    named = ((path.relative_to(top).as_posix(), path) for path in sorted(top.rglob("*")) if path.is_file())
    return {name: path.read_bytes() for name, path in named if not name.startswith((".git/", ".sdaqf/"))}


def test_a_run_that_was_killed_while_it_made_the_build_folder(shop: Workshop) -> None:
    """There is no `.gitignore` yet, and git lists what the killed writer left: the next run finishes the folder."""
    shop.folder.mkdir(parents=True)
    (shop.folder / f".sdaqf-{'0' * 16}.tmp").write_bytes(b"*")
    assert {result.word for result in shop.build()} == {"made"}
    assert doctor.examine(Store(shop.path, ".sdaqf/build")).defects == ()
