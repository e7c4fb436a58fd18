"""Many at once on one shard: each sees a state that some order gives, none is lost, and a dead process holds nothing (SH-8)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.flow import shard_views
from tests.fronts.run import SDAQF
from tests.reliability.shards import ShardProject, distil, environment

PROCESSES, COMMITS = 8, 40

DRIVER = """
import sys
from pathlib import Path
from sdaqf_tasks.errors import SdaqfError
from tests.reliability.shards import ShardProject, distil

made, name, count, concept = ShardProject(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]), sys.argv[4]
print("ready", flush=True)
sys.stdin.readline()
for number in range(count):
    try:
        made.run("begin scratch", distil(concept.format(name=name, number=number)), "commit")
        print("done")
    except SdaqfError as error:
        print(error.reason.value)
"""
"""Commits records one after the other, each in a workbench that remembers nothing, once it is told to begin."""

HOLDER = """
import sys, time
from pathlib import Path
from tests.reliability.shards import ShardProject

with ShardProject(Path(sys.argv[1])).store.lock(1):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def made(tmp_path: Path) -> ShardProject:
    return ShardProject(tmp_path / "project").create()


def python(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def at_once(made: ShardProject, count: int, concept: str) -> Counter[str]:
    """What eight processes said that commit `count` records each, begun together."""
    running = [python(DRIVER, made.path, str(number), str(count), concept) for number in range(PROCESSES)]
    for process in running:
        assert process.stdout and process.stdout.readline() == "ready\n"
    said: Counter[str] = Counter()
    for process in running:
        assert process.stdin
        process.stdin.write("\n")
        process.stdin.flush()
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        said.update(out.split())
    return said


def sdaqf(made: ShardProject, *words: str) -> subprocess.Popen[str]:
    command: Sequence[str | Path] = [SDAQF, "shard", *words]
    return subprocess.Popen(
        command, cwd=made.path, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def check_chain(made: ShardProject, events: int) -> None:
    found = shard_views.verify(made.bench())
    assert (found["events"], found["replayed"], found["failure"]) == (events, events, "")
    assert made.fsck() == []


@pytest.mark.parametrize("commits", [COMMITS // 8, pytest.param(COMMITS, marks=pytest.mark.long)])
def test_what_eight_processes_commit_is_all_there(commits: int, made: ShardProject) -> None:
    assert at_once(made, commits, "c{name}-{number}") == {"done": PROCESSES * commits}
    desk = made.desk()
    assert {*desk.all_live} == {f"c{process}-{number}" for process in range(PROCESSES) for number in range(commits)}
    assert {record.lineage_version for record in desk.all_live.values()} == {1}
    assert (desk.state.revision, desk.state.session) == (PROCESSES * commits, None)
    check_chain(made, 1 + 3 * PROCESSES * commits)


def test_the_same_command_from_eight_processes_makes_one_record_with_eight_versions(made: ShardProject) -> None:
    assert at_once(made, 1, "same") == {"done": PROCESSES}
    [record] = made.desk().all_live.values()
    assert (record.concept_id, record.lineage_version, len(record.provenance)) == ("same", PROCESSES, PROCESSES)
    check_chain(made, 1 + 3 * PROCESSES)


def test_eight_programs_at_once_share_one_session(made: ShardProject) -> None:
    """`begin` of one wins; what the others stage belongs to the one session, whoever began it."""
    begun = [sdaqf(made, "begin", "--json") for _ in range(PROCESSES)]
    said = [json.loads(process.communicate(timeout=60)[0]) for process in begun]
    assert Counter(each.get("reason", each.get("status")) for each in said) == {"ok": 1, Reason.SCRATCH_ACTIVE.value: PROCESSES - 1}
    staged = [sdaqf(made, "run", distil(f"c{number}")) for number in range(PROCESSES)]
    assert {process.communicate(timeout=60)[1] for process in staged} <= {"", "waiting for another run\n"}
    assert {process.returncode for process in staged} == {0}
    assert {*made.desk().staged.records} == {f"c{number}" for number in range(PROCESSES)}
    check_chain(made, 2 + PROCESSES)


@pytest.mark.parametrize("word", ["commit", "discard"])
def test_of_two_that_expect_one_state_one_wins(word: str, made: ShardProject) -> None:
    made.run("begin scratch", distil("a"))
    state = made.state()
    racing = [sdaqf(made, word, "--expect", state, "--json") for _ in range(2)]
    ended = sorted((process.communicate(timeout=60)[0], process.returncode) for process in racing)
    assert sorted(code for _, code in ended) == [0, 1]
    [refused] = [json.loads(out) for out, code in ended if code]
    assert refused["reason"] == Reason.STATE_CHANGED.value
    check_chain(made, 4)


def test_of_two_that_mean_one_session_the_later_is_told_that_it_ended(made: ShardProject) -> None:
    made.run("begin scratch", distil("a"))
    session = made.desk().state.session or ""
    racing = [sdaqf(made, "run", "commit", "begin scratch", "--session", session, "--json") for _ in range(2)]
    ended = [(json.loads(process.communicate(timeout=60)[0]), process.returncode) for process in racing]
    [refused] = [out for out, code in ended if code]
    assert refused["reason"] == Reason.SESSION_CHANGED.value
    check_chain(made, 5)


def test_who_looks_while_others_write_sees_a_whole_state(made: ShardProject) -> None:
    """No lock is taken to look: HEAD is replaced only after all that it needs is there."""
    process = python(DRIVER, made.path, "x", "30", "c{number}")
    assert process.stdout and process.stdin and process.stdout.readline() == "ready\n"
    process.stdin.write("\n")
    process.stdin.flush()
    seen = []
    while process.poll() is None:
        desk = made.desk()
        seen.append(desk.state.revision)
        assert len(desk.all_live) == len(desk.catalog.lineages) == desk.state.revision
    process.communicate()
    assert seen == sorted(seen)
    assert made.desk().state.revision == 30


def test_gc_and_fsck_among_those_who_commit_take_nothing_away(made: ShardProject) -> None:
    """An object is unreachable while its commit is under way; both wait for it."""
    writers = [python(DRIVER, made.path, str(number), "15", "c{name}-{number}") for number in range(2)]
    for process in writers:
        assert process.stdout and process.stdin and process.stdout.readline() == "ready\n"
        process.stdin.write("\n")
        process.stdin.flush()
    while any(process.poll() is None for process in writers):
        assert shard_views.collect(made.bench())["removed"] == 0
        assert made.fsck() == []
    assert [process.communicate()[0].split() for process in writers] == [["done"] * 15] * 2
    check_chain(made, 1 + 3 * 30)


def test_a_killed_holder_of_the_lock_blocks_nobody(made: ShardProject) -> None:
    holder = python(HOLDER, made.path)
    assert holder.stdout and holder.stdout.readline() == "held\n"
    with pytest.raises(SdaqfError) as caught:
        made.bench(wait=0).run(["begin scratch"])
    assert caught.value.reason is Reason.LOCKED
    inode = (made.folder / "lock").stat().st_ino
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    made.bench(wait=5).run(["begin scratch"])
    assert (made.folder / "lock").stat().st_ino == inode
    check_chain(made, 2)


def test_a_holder_of_one_shard_is_in_nobodys_way_in_another(made: ShardProject) -> None:
    core = made.of().create()
    with made.store.lock(1):
        core.bench(wait=0).run(["begin scratch"])
    assert core.desk().state.session
