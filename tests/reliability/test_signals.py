"""A signal at any moment ends a run with 130, or not at all; nothing of it stays, and the next run works."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.flow.workshop import Workshop
from tests.fronts.run import SDAQF

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def interrupted(shop: Workshop, number: signal.Signals, after: float, scratch: Path) -> tuple[int, str]:
    """Exit code and stderr of a build that gets the signal after so many seconds."""
    environment = shop.environment(TMPDIR=str(scratch))
    with subprocess.Popen(
        [SDAQF, "build"], cwd=shop.path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as child:
        time.sleep(after)
        child.send_signal(number)
        _, err = child.communicate(timeout=60)
    return child.returncode, err.decode()


def check(shop: Workshop, rounds: int, scratch: Path, seed: int) -> None:
    chance, began = random.Random(seed), time.monotonic()
    assert interrupted(shop, signal.SIGCONT, 0, scratch)[0] == 0
    usual, wanted = time.monotonic() - began, shop.refs()
    ended = set()
    for turn in range(rounds):
        if turn % 2:
            shop.write("docs/spec.md", f"# {turn}\n")  # there is something to do
        code, err = interrupted(shop, SIGNALS[turn % 3], chance.uniform(0.03, usual), scratch)
        # Before the first line of ours runs, the interpreter dies of the signal, says KeyboardInterrupt itself, or that it cannot begin.
        assert code in (0, 130, -SIGNALS[turn % 3]) or err.startswith("Fatal Python error: init_"), (turn, code, err)
        if code in (0, 130):
            assert err == "" or "sdaqf_tasks" not in err, err
        assert list(scratch.iterdir()) == [], (turn, code)
        ended.add(code)
    shop.write("docs/spec.md", "# Specification\n\nIt does this.\n")
    shop.build()
    assert (shop.refs(), shop.current()) == (wanted, True)
    assert list(shop.folder.rglob("*.tmp")) == []
    assert 130 in ended or rounds < 12


def test_at_random_moments(shop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    check(shop, 12, tmp_path / "scratch", seed=1)


@pytest.mark.long
def test_at_random_moments_many_times(shop: Workshop, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    check(shop, 300, tmp_path / "scratch", seed=int.from_bytes(os.urandom(4)))


def test_a_signal_during_an_import_ends_the_run_after_it(tmp_path: Path) -> None:
    """Where classes are made an exception is wrapped, or worse: nothing is raised there."""
    (tmp_path / "slow.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nDONE = sum(range(1000))\n")
    program = (
        "import signal, sys, time\nfrom sdaqf_tasks.__main__ import _stop\n"
        "for number in (signal.SIGTERM, signal.SIGALRM):\n    signal.signal(number, _stop)\n"
        "try:\n    import slow\n    time.sleep(30)\nexcept KeyboardInterrupt:\n    print(sys.modules['slow'].DONE)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"499500\n")


def test_what_nohup_ignores_stays_ignored(shop: Workshop) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", f"trap '' HUP; {SDAQF} build & kill -HUP $!; wait $!"],
        cwd=shop.path,
        env=shop.environment(),
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("number", SIGNALS)
def test_the_private_git_folder_and_git_itself_are_gone(number: signal.Signals, shop: Workshop, tmp_path: Path) -> None:
    """A git that sends the signal and then waits: it dies too, and 130 tells that the run was ended."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "scratch").mkdir()
    git, alive = tmp_path / "bin" / "git", tmp_path / "alive"
    git.write_text(f"#!/bin/sh\necho $$ > {alive}\nkill -{number.name[3:]} $PPID\nexec sleep 60\n")
    git.chmod(0o700)
    environment = shop.environment(TMPDIR=str(tmp_path / "scratch"), PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    ended = subprocess.run([SDAQF, "build"], cwd=shop.path, env=environment, capture_output=True, check=False, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
    assert list((tmp_path / "scratch").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(int(alive.read_text()), 0)
