"""This module lets the Nth mutating system call of a command fail, by strace: the program's own calls, not those of git.

A command is traced once without a fault, which gives its calls in order; then once per call and fault.
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


class Fault(NamedTuple):
    """The `nth` call of `call`, counted from 1, ends so."""

    call: str
    nth: int
    how: str


class Ended(NamedTuple):
    code: int
    out: str
    err: str


@functools.cache
def missing() -> str | None:
    """Why there are no faults on this machine, if there are none."""
    if not shutil.which("strace"):
        return "there is no strace: no fault was tried"
    tried = subprocess.run(
        ["strace", "-qq", "-o", os.devnull, "-e", "inject=close:retval=0:when=9999", "true"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else "strace may not trace here: no fault was tried"


def run(arguments: Sequence[str | Path], *, cwd: Path, scratch: Path, fault: Fault | None = None, log: Path | str = os.devnull) -> Ended:
    """Run `sdaqf …` with a fault. `scratch` is its temporary folder."""
    scratch.mkdir(exist_ok=True)
    trace = ["-e", f"trace={','.join(CALLS)}"]
    if fault:
        trace = ["-e", f"trace={fault.call}", "-e", f"inject={fault.call}:{FAULTS[fault.how]}:when={fault.nth}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "TMPDIR": str(scratch)}
    ended = subprocess.run(
        ["strace", "-qq", "-o", log, *trace, SDAQF, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())


def calls(log: Path) -> Iterator[tuple[str, int, bool]]:
    """Every mutating call of a trace: its name, its number among those of its name, and whether it did something."""
    seen: Counter[str] = Counter()
    for line in log.read_text("utf-8", "replace").splitlines():
        if match := re.match(r"(\w+)\(", line):
            seen[match[1]] += 1
            if match[1] != "openat" or "O_CREAT" in line:
                yield match[1], seen[match[1]], " = -1 " not in line


def faults(log: Path, *, every: int = 1) -> Iterator[Fault]:
    """All faults of a traced command; of calls that did nothing (a folder that was there) only one in `every`."""
    idle = 0
    for call, nth, did in calls(log):
        idle += not did
        if did or idle % every == 0:
            yield from (Fault(call, nth, how) for how in FAULTS if how != "nothing is taken" or call == "write")
