"""This module lets the Nth mutating system call of a command fail, by strace: the program's own calls, not those of git.

A command is traced once without a fault, which gives its calls in order; then once per call and fault. To stop at the traced
calls alone takes a third of the time, but strace can do so only where it follows git, too, and cannot send a signal then: so that is
done for errors, and for the calls that git does not make.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.fronts.run import SDAQF

CALLS = (
    *("openat", "write", "pwrite64", "fsync", "fdatasync", "link", "linkat", "rename", "renameat", "renameat2"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "fchmod", "chmod", "ftruncate"),
)
"""The system calls by which files come, go and change; of `openat` only with O_CREAT."""

FAULTS: Mapping[str, str] = {
    "SIGKILL": "signal=KILL",
    **{name: f"error={name}" for name in ("EIO", "ENOSPC", "EROFS", "EDQUOT", "EINTR")},
    "nothing is taken": "retval=0",
}
"""What happens, and how strace says so. The last is for `write` alone: the system takes no byte of what it is given."""

KILLED = -9, 137
FOLLOWED = ("-f", "--seccomp-bpf")
"""strace counts the calls of each process for itself."""


class Fault(NamedTuple):
    """The `nth` call of `call`, counted from 1, ends so. `gits`: some git makes so many of it, and is not to be followed."""

    call: str
    nth: int
    how: str
    gits: bool


class Ended(NamedTuple):
    """`met`: the run came as far as its fault."""

    code: int
    out: str
    err: str
    met: bool


@functools.cache
def missing() -> str | None:
    """Why there are no faults on this machine, if there are none."""
    if not shutil.which("strace"):
        return "there is no strace: no fault was tried"
    tried = subprocess.run(
        ["strace", "-f", "--seccomp-bpf", "-qq", "-o", os.devnull, "-e", "inject=close:retval=0:when=9999", "true"],
        capture_output=True,
        check=False,
    )
    return None if tried.returncode == 0 else "strace may not trace here: no fault was tried"


def run(arguments: Sequence[str | Path], *, cwd: Path, scratch: Path, fault: Fault | None = None, log: Path | None = None) -> Ended:
    """Run `sdaqf …` with a fault, or traced into a log, or as it is. `scratch` is its temporary folder."""
    scratch.mkdir(exist_ok=True)
    trace: list[str | Path] = []
    if log:
        trace = ["strace", *FOLLOWED, "-qq", "-o", log, "-e", f"trace={','.join(CALLS)}"]
    if fault:
        log = scratch.with_suffix(".log")
        trace = ["strace", *(() if fault.gits or fault.how == "SIGKILL" else FOLLOWED), "-qq", "-o", log, "-e", f"trace={fault.call}"]
        trace += ["-e", f"inject={fault.call}:{FAULTS[fault.how]}:when={fault.nth}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "TMPDIR": str(scratch)}
    ended = subprocess.run(
        [*trace, SDAQF, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    met = ended.returncode in KILLED or (log is not None and "(INJECTED)" in log.read_text("utf-8", "replace"))
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode(), met)


def calls(log: Path) -> Iterator[tuple[str, int, bool, bool]]:
    """Every mutating call of a trace: its name, its number, whether it did something, and whether some git makes so many of it."""
    lines = [match for line in log.read_text("utf-8", "replace").splitlines() if (match := re.match(r"(\d+) +(\w+)\((.*)", line))]
    made = Counter((process, call) for process, call, _ in map(re.Match.groups, lines))
    own, seen = lines[0][1], Counter[str]()
    most = {name: max((count for (process, call), count in made.items() if call == name and process != own), default=0) for name in CALLS}
    for process, call, rest in map(re.Match.groups, lines):
        if process == own:
            seen[call] += 1
            if call != "openat" or "O_CREAT" in rest:
                yield call, seen[call], " = -1 " not in rest, seen[call] <= most[call]


def faults(log: Path, *, every: int = 1) -> Iterator[Fault]:
    """All faults of a traced command; of calls that did nothing (a folder that was there) only one in `every`."""
    idle = 0
    for call, nth, did, gits in calls(log):
        idle += not did
        if did or idle % every == 0:
            yield from (Fault(call, nth, how, gits) for how in FAULTS if how != "nothing is taken" or call == "write")
