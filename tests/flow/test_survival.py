"""A killed run leaves whole objects and old refs; runs at once agree and none fails; the lock of the dead is free."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict
from tests.flow.workshop import FILES, MANIFEST, Workshop


def many(path: Path) -> Workshop:
    """A project with enough to do that there is a moment to be killed at."""
    more = {f"src/m{number:02}.py": f"x = {number}\n" * 50 for number in range(20)}
    return Workshop(path, {**FILES, **more, "manifests/second.yaml": MANIFEST})


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """What a run gives that nobody kills."""
    shop = many(tmp_path_factory.mktemp("undisturbed") / "project")
    shop.build()
    return shop


def same(shop: Workshop, other: Workshop) -> None:
    assert shop.refs() == other.refs()
    assert shop.outs() == other.outs()
    receipts = [{path.relative_to(each.folder): path.read_bytes() for path in each.folder.rglob("*.made")} for each in (shop, other)]
    assert receipts[0] == receipts[1]


def leftovers(shop: Workshop) -> list[str]:
    return [path.name for path in shop.folder.rglob(".sdaqf-*.tmp")]


@contextlib.contextmanager
def started(shop: Workshop, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    scratch = shop.path.parent / "scratch"  # who is killed leaves its private git directory behind
    scratch.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "sdaqf_tasks", *arguments],
        cwd=shop.path,
        env=shop.environment(TMPDIR=os.fspath(scratch)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class _Killed(BaseException):
    """Stands for a kill: nothing in the program may catch it."""


class TestKilled:
    """The next run works, and leaves what an undisturbed one leaves."""

    @pytest.mark.parametrize("write", [*range(8), 12, 20, 33, 47, 60])
    def test_between_any_two_writes(self, tmp_path: Path, undisturbed: Workshop, monkeypatch: pytest.MonkeyPatch, write: int) -> None:
        """In process: the Nth write is not done, and nothing after it is either, not even clearing away."""
        shop = many(tmp_path / "project")
        left = [write]

        def dying(original: object) -> object:
            def wrapped(*arguments: object, **named: object) -> object:
                if left[0] <= 0:
                    raise _Killed
                left[0] -= 1
                return original(*arguments, **named)  # type: ignore[operator]

            return wrapped

        with monkeypatch.context() as patch, contextlib.suppress(_Killed):
            for name in ("publish", "replace", "make_folder"):
                patch.setattr(files, name, dying(getattr(files, name)))
            shop.build()
        assert left == [0]
        assert shop.words()["context"] in {"made", "up to date", "same"}
        same(shop, undisturbed)
        assert shop.made() == set()

    def test_at_random_moments(self, tmp_path: Path, undisturbed: Workshop) -> None:
        self.kill(tmp_path, undisturbed, times=4, seed=1)

    @pytest.mark.long
    @pytest.mark.parametrize("seed", range(8))
    def test_at_many_random_moments(self, tmp_path: Path, undisturbed: Workshop, seed: int) -> None:
        self.kill(tmp_path, undisturbed, times=25, seed=seed)

    def kill(self, tmp_path: Path, undisturbed: Workshop, *, times: int, seed: int) -> None:
        shop, chance = many(tmp_path / "project"), random.Random(seed)
        for _ in range(times):
            shop.write("src/a.py", f"a = {chance.random()}\n")
            with started(shop, "build") as process:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0.05, 0.9))
                process.send_signal(signal.SIGKILL)
        shop.write("src/a.py", FILES["src/a.py"])
        assert set(shop.words().values()) <= {"made", "same", "up to date"}
        same(shop, undisturbed)
        assert leftovers(shop) == []
        assert shop.command("gc").returncode == 0
        assert shop.current()

    def test_a_refusal_that_was_killed_half_way_is_refused_again(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        from sdaqf_tasks.disk.store import Store

        shop.build()
        (shop.path / "docs/spec.md").unlink()
        original, left = Store.withdraw, [3]

        def dying(store: Store, name: str) -> None:
            if not left[0]:
                raise _Killed
            left[0] -= 1
            original(store, name)

        with monkeypatch.context() as patch, pytest.raises(_Killed):
            patch.setattr(Store, "withdraw", dying)
            shop.build()
        assert not shop.current()
        shop.build()
        assert (shop.refs(), shop.outs()) == ({}, {})


class TestAtOnce:
    """Two runs interleave safely: the lock is held for one stage at a time."""

    def test_eight_runs_agree_and_none_fails(self, tmp_path: Path, undisturbed: Workshop) -> None:
        shop = many(tmp_path / "project")
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(started(shop, "build")) for _ in range(8)]
            ended = [process.communicate(timeout=120) for process in processes]
        assert [process.returncode for process in processes] == [0] * 8, [error for _, error in ended]
        same(shop, undisturbed)
        assert leftovers(shop) == []
        assert shop.made() == set()

    def test_building_and_collecting_at_once(self, tmp_path: Path, undisturbed: Workshop) -> None:
        shop = many(tmp_path / "project")
        with contextlib.ExitStack() as stack:
            processes = [stack.enter_context(started(shop, command)) for command in ("build", "gc", "build", "gc", "status")]
            for process in processes:
                process.communicate(timeout=120)
        assert [process.returncode for process in processes] == [0] * 5
        same(shop, undisturbed)


class TestLock:
    def test_a_killed_holder_blocks_nobody(self, shop: Workshop) -> None:
        shop.build()
        program = (
            "import sys, time; from pathlib import Path; from sdaqf_tasks.disk.files import Lock\n"
            "with Lock(Path(sys.argv[1]), 5):\n    print('held', flush=True)\n    time.sleep(60)\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program, os.fspath(shop.folder / "lock")], stdout=subprocess.PIPE, env=shop.environment()
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            with pytest.raises(Conflict), shop.run(wait=0.05) as run, run.lock():
                pass
            holder.kill()
            holder.wait()
        began = time.monotonic()
        assert set(shop.words().values()) == {"up to date"}
        assert time.monotonic() - began < 20

    def test_it_is_not_held_between_stages(self, shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever waits gets its turn after each stage."""
        from sdaqf_tasks.flow import stages

        taken: list[str] = []
        original = stages.run_stage

        def between(run: object, stage: stages.Stage, chain: object) -> stages.Outcome:
            with shop.run(wait=0) as other, other.lock():
                taken.append(stage.name)
            return original(run, stage, chain)  # type: ignore[arg-type]

        monkeypatch.setattr(stages, "run_stage", between)
        shop.build("context.default")
        assert taken == [stage.name for stage in stages.STAGES]


class TestCollecting:
    def test_gc_keeps_what_refs_reach(self, shop: Workshop) -> None:
        shop.build()
        whole = {path.name for path in (shop.folder / "objects").iterdir()}
        shop.write("src/a.py", "a = 5\n")
        shop.build()
        assert shop.command("gc").returncode == 0
        left = {path.name.rpartition(".")[0] for path in (shop.folder / "objects").iterdir()}
        assert left == {line.strip() for line in shop.refs().values()}
        assert not whole <= {path.name for path in (shop.folder / "objects").iterdir()}
        assert set(shop.words().values()) == {"up to date"}
