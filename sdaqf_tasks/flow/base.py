"""This module reads the locks as they are at a merge base, so that a change cannot say in silence what it reviewed (PIPELINE 3)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple, Self

from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow.project import SETTINGS_BYTES, read_settings
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stories import part
from sdaqf_tasks.formats import lockfile
from sdaqf_tasks.formats.lockfile import LOCK_BYTES, Lock, Pin, text_digest
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import SOURCE_BYTES

EVERYTHING = "fetch-depth: 0, or git fetch --unshallow"

_OURS = b'"sdaqf-lock"'
_STEPS = re.compile(r"HEAD((?:[~^][0-9]{0,4})+)")


class Base(NamedTuple):
    """A merge base: its commit, its locks by path, and why one cannot be read. `unmet` says why there is none."""

    run: Run | None = None
    commit: str = ""
    locks: dict[str, Lock] = {}  # noqa: RUF012
    unreadable: dict[str, str] = {}  # noqa: RUF012
    unmet: str = ""

    @classmethod
    def find(cls, run: Run, name: str) -> Self:
        """The merge base of what a person calls `name` and HEAD. All locks are read: a change may rename a manifest."""
        other = run.repository.resolve(name)
        if other is None:
            return cls(unmet=f"{name[:80]} is not in this clone: {_fetch(run, name)}")
        commit = run.repository.merge_base(other, run.tree.git_head)
        if commit is None:
            return cls(unmet=f"the merge base of {name[:80]} and HEAD is not in this clone: {_fetch(run, '')}")
        listing = run.repository.history("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit).decode("utf-8", "surrogateescape")
        paths = [path for path in listing.split("\0") if path.endswith(".lock") and "\n" not in path]
        locks: dict[str, Lock] = {}
        unreadable: dict[str, str] = {}
        for path, data in zip(paths, run.repository.blobs([f"{commit}:{path}" for path in paths], LOCK_BYTES), strict=True):
            try:
                if data is not None and _OURS in data:
                    locks[path] = lockfile.parse(data, path)
            except SdaqfError as error:
                unreadable[path] = error.message
        return cls(run, commit, locks, unreadable)

    def policy(self) -> Mapping[str, str]:
        """How findings weighed at the merge base: a change cannot turn off its own gate. As usual where that cannot be read."""
        if self.run:
            repository, commit = self.run.repository, self.commit
            with suppress(SdaqfError):
                return read_settings(lambda name: repository.blobs([f"{commit}:{name}"], SETTINGS_BYTES)[0]).policy
        return {}

    def pinned(self, path: str, pin: Pin, now: str) -> str:
        """The digest that the lock at `path` had for a pin, or any other lock where that one is new; empty for none.

        Where several had one, `now` if it is among them.
        """
        if path in self.locks:
            return self.locks[path].get(pin, "")
        digests = {found for other in self.locks.values() if (found := other.get(pin))}
        return now if now in digests else min(digests, default="")

    def text(self, pin: Pin, digest: str) -> str | None:
        """How a pinned text read at the merge base, if that is the reviewed one."""
        if self.run is None or pin.scope == RootScope.OWNER.value:
            return None
        (data,) = self.run.repository.blobs([f"{self.commit}:{pin.path}"], SOURCE_BYTES)
        text = part(data, pin.part)
        return text if text is not None and text_digest(text) == digest else None


def _fetch(run: Run, name: str) -> str:
    """What brings the history that is missing: as deep as `HEAD^1` asks for, else all of it."""
    if not run.repository.is_shallow:
        wanted = re.split("[~^]", name)[0]
        return "fetch it: git fetch origin" + (f" {shlex.quote(wanted)}" if wanted else "")
    if steps := _STEPS.fullmatch(name):
        generations = (int(number or 1) if sign == "~" else int(number != "0") for sign, number in re.findall(r"([~^])([0-9]*)", steps[1]))
        depth = 1 + sum(generations)
        return f"fetch-depth: {depth}, or git fetch --depth {depth}"
    return EVERYTHING
