"""This module answers one pass from the disk: a file is read once, and everybody sees the same bytes (`world.Sources`)."""

from __future__ import annotations

from typing import NamedTuple

from sdaqf_tasks.disk.files import Root, shown
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import REFERENCE_BYTES, Observed, Tree

KEPT_BYTES = 67_108_864
"""Bytes of files that are kept. Beyond them only digests are, and a file that is asked for again is read again."""


class _Outcome(NamedTuple):
    """How one file was found: its size and digest, or why not. `limit` is what the reading allowed."""

    limit: int
    size: int = 0
    sha256: str = ""
    failure: Unreadable | None = None


class Reader:
    """One pass over a repository and, where there is one, the owner's folder. Both stay the caller's to close."""

    def __init__(self, repository: Repository, owner: Root | None = None) -> None:
        self._repository = repository
        self._roots = {RootScope.REPOSITORY: repository.root, RootScope.OWNER: owner}
        self._known: dict[tuple[RootScope, str], _Outcome] = {}
        self._kept: dict[tuple[RootScope, str], bytes] = {}
        self._room = KEPT_BYTES

    def tree(self) -> Tree:
        """The tree as it is now. Raises as `Repository.observe`."""
        return self._repository.observe()

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        """The whole file, as `world.Sources` promises. A reading at another limit before does not change the outcome."""
        key = (scope, path)
        outcome = self._known.get(key)
        data = self._kept.get(key)
        if outcome is None or (outcome.limit < limit and outcome.failure and outcome.failure.reason is Reason.SOURCE_BYTE_LIMIT):
            outcome, data = self._observe(key, max(limit, REFERENCE_BYTES))
        if outcome.failure:
            raise Unreadable(outcome.failure.reason, outcome.failure.message, at=outcome.failure.where)
        if outcome.size > limit:
            raise Unreadable(Reason.SOURCE_BYTE_LIMIT, f"the file has {outcome.size} bytes, more than are read here", at=shown(path))
        if data is None:
            data = self._bytes(key, outcome.limit)
            if canonical.digest(data) != outcome.sha256:
                raise Unreadable(Reason.CHANGED, "the file changed since it was first read", at=shown(path))
        return Observed(data, outcome.sha256)

    def _observe(self, key: tuple[RootScope, str], limit: int) -> tuple[_Outcome, bytes | None]:
        data = None
        try:
            data = self._bytes(key, limit)
            outcome = _Outcome(limit, len(data), canonical.digest(data))
            if len(data) <= self._room:
                self._kept[key] = data
                self._room -= len(data)
        except Unreadable as error:
            outcome = _Outcome(limit, failure=error.with_traceback(None))
        self._known[key] = outcome
        return outcome, data

    def _bytes(self, key: tuple[RootScope, str], limit: int) -> bytes:
        scope, path = key
        root = self._roots[scope]
        if root is None:
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, "there is no owner root to read it from", at=shown(path))
        return root.read(path, limit)
