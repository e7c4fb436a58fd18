"""Whatever system call of a shard command fails, and however: the shard is as it was or as it will be, and the exit code says which.

A sample runs always. All of it, half an hour: `pytest -m long tests/reliability/test_shard_faults.py -rP`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from sdaqf_tasks.disk.files import TEMPORARY
from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.flow.publish import publish
from sdaqf_tasks.shards.records import CORE
from tests.reliability.faults import Ended, Fault, faults, run
from tests.reliability.shards import ROOT, ShardProject, distil
from tests.reliability.test_faults import KILLED, check_words, needs_strace, sample

CHANGE = ("begin scratch", distil("b"), "commit")


def _nothing(made: ShardProject) -> None:
    pass


def _one(made: ShardProject) -> None:
    made.create().commit("a")


def _begun(made: ShardProject) -> None:
    _one(made)
    made.run(*CHANGE[:2])


def _saved(made: ShardProject) -> None:
    _one(made)
    made.run("snapshot", *CHANGE)


def _spare(made: ShardProject) -> None:
    """Objects that HEAD does not lead to, as a killed commit leaves them."""
    _one(made)
    before = made.state()
    made.run(*CHANGE)
    made.point(before)


def _published(made: ShardProject) -> None:
    """A published record whose live one is another by now."""
    _one(made)
    assert run(["shard", "publish", "a"], cwd=made.path, scratch=made.path.parent / "t").code == 0
    made.run("begin scratch", distil("a", "tier:convention", third=True), "commit")


class Case(NamedTuple):
    """A command, and what is there before it. `done` says whether it was done, where that is not told by HEAD."""

    words: Sequence[str]
    before: Callable[[ShardProject], None]
    done: Callable[[ShardProject], bool] | None = None


def _file(made: ShardProject) -> bytes | None:
    path = made.path / "abstractions" / "a.json"
    return path.read_bytes() if path.exists() else None


CASES = {
    "init": Case(["init"], _nothing),
    "begin": Case(["begin"], _one),
    "commit": Case(["commit"], _begun),
    "discard": Case(["discard"], _begun),
    "snapshot": Case(["snapshot"], _one),
    "revert": Case(["revert"], _saved),
    "run": Case(["run", *CHANGE], _one),
    "gc": Case(["gc"], _spare, lambda made: not spare(made)),
    "publish": Case(["publish", "a"], _one, lambda made: _file(made) is not None),
    "publish again": Case(["publish", "a"], _published, lambda made: b"convention" in (_file(made) or b"")),
}


def spare(made: ShardProject) -> int:
    found: int = shard_views.fsck(made.bench())["unreachable"]
    return found


def pointed(made: ShardProject) -> str | None:
    """The id in HEAD; None where the shard was not made yet."""
    try:
        return made.state()
    except SdaqfError as error:
        assert error.reason is Reason.NO_SHARD, error
        return None


def check(made: ShardProject, case: Case, ended: Ended, fault: Fault, old: str | None, new: str | None) -> None:
    """The shard after a fault: all old or all new, as the exit code says, and ready for the next command."""
    check_words(ended, fault)
    head = pointed(made)
    assert head in (old, new), (fault, ended)
    left = made.leftovers()
    assert not left or fault.how == "SIGKILL" or fault.call == "unlinkat", (fault, left)
    if head:
        assert made.audit() == [], (fault, ended)
    done = case.done(made) if case.done else head == new
    late = fault.call == "fsync" and case is CASES["publish again"] and ended.code == 1  # replaced, and not known to stay
    if ended.code not in KILLED and not late:
        assert done == (ended.code in (0, 4)), (fault, ended)
    again(made, case, new, done=done)
    if case.words[0] == "init" and made.leftovers():  # beside the shards sweeps who makes the next one
        made.of(CORE).create()
    assert made.leftovers() == [], (fault, left)
    assert made.fsck() == [], fault


def again(made: ShardProject, case: Case, new: str | None, *, done: bool) -> None:
    """The next command works: the same one where it was not done, else a session."""
    bench, word = made.bench(), case.words[0]
    if done:
        bench.run(["discard"] if made.desk().state.session else ["begin scratch", "discard"])
    elif word == "init":
        bench.create()
    elif word == "gc":
        shard_views.collect(bench)
        assert not spare(made)
    elif word == "publish":
        publish(bench, ["a"], "abstractions/")
        bench.run(["begin scratch", "discard"])
    else:
        bench.run(case.words[1:] if word == "run" else ["begin scratch" if word == "begin" else word])
    if not done and word not in ("gc", "publish"):
        assert made.state() == new


def check_command(name: str, tmp_path: Path, choose: Callable[[Iterable[Fault]], Iterable[Fault]]) -> int:
    case = CASES[name]
    words = ["shard", *case.words]
    model = ShardProject(tmp_path / "model")
    case.before(model)
    shutil.copytree(model.path, tmp_path / "usual", symlinks=True)
    usual = ShardProject(tmp_path / "usual")
    assert run(words, cwd=usual.path, scratch=tmp_path / "t", log=tmp_path / "log").code == 0
    old, new, count, published = pointed(model), pointed(usual), 0, (_file(model), _file(usual))
    for fault in choose(faults(tmp_path / "log", every=10)):
        count += 1
        place = ShardProject(Path(shutil.copytree(model.path, tmp_path / "x", symlinks=True)))
        ended = run(words, cwd=place.path, scratch=tmp_path / "t", fault=fault)
        assert _file(place) in published, (fault, ended)
        outside = [path for path in place.path.rglob(".sdaqf-*.tmp") if TEMPORARY.fullmatch(path.name) and ROOT not in str(path)]
        assert not outside or (case.words[0] == "publish" and (fault.how == "SIGKILL" or fault.call == "unlinkat")), (fault, outside)
        check(place, case, ended, fault, old, new)
        shutil.rmtree(place.path)
    print(f"shard {name}: {count} faults")
    return count


@needs_strace
@pytest.mark.parametrize("name, count", [("init", 3), ("run", 6), ("commit", 2)])
def test_a_sample_of_faults_in_a_shard_command(name: str, count: int, tmp_path: Path) -> None:
    assert check_command(name, tmp_path, lambda all_: sample(all_, count)) == count


@needs_strace
@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_every_fault_in_a_shard_command(name: str, tmp_path: Path) -> None:
    assert check_command(name, tmp_path, lambda all_: all_) > 10


@needs_strace
@pytest.mark.parametrize("word", ["commit", "snapshot", "revert"])
def test_killed_at_any_replacing_of_head_the_shard_is_old_or_new(word: str, tmp_path: Path) -> None:
    """At the calls on which all hangs: the one that points HEAD at the new state, and those around it."""

    def around(all_: Iterable[Fault]) -> list[Fault]:
        killed = [fault for fault in all_ if fault.how == "SIGKILL"]
        [turn] = [index for index, fault in enumerate(killed) if fault.call.startswith("rename")]
        return killed[turn - 1 : turn + 2]

    assert check_command(word, tmp_path, around) == 3
