"""This module asks git what became of files: who changed them, where they went, how they read before (PIPELINE 7).

History is asked only where something differs already. One listing answers for all paths; a path with more versions than
are read is said to be so, never taken for one without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import NamedTuple

from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import SdaqfError

VERSIONS = 1_000
"""Versions of one path that are looked at."""

_NOTHING = "0" * 40


class Version(NamedTuple):
    """What a commit made of a path: `blob` is its id, or None where the path was removed. `time` is in seconds since 1970."""

    commit: str
    time: int
    subject: str
    blob: str | None


class History:
    """The history of some paths, up to HEAD, newest first."""

    def __init__(self, repository: Repository, paths: Collection[str]) -> None:
        self._repository, self._paths = repository, sorted(paths)

    @property
    def is_shallow(self) -> bool:
        return self._repository.is_shallow

    @cached_property
    def _versions(self) -> dict[str, list[Version]]:
        found: defaultdict[str, list[Version]] = defaultdict(list)
        if not self._paths:
            return found
        shape = ("-m", "--full-history", "--no-renames", "--no-abbrev", "--raw", "-z", "--format=%x01%H %ct %s")
        answer = self._repository.history("log", *shape, f"--max-count={VERSIONS * len(self._paths)}", "HEAD", "--", *self._paths)
        commit, time, subject, blob = "", 0, "", None
        tokens = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
        for token in tokens:
            if token.startswith("\x01"):
                commit, seconds, subject = token[1:].split(" ", 2)
                time = int(seconds)
            elif token.lstrip("\n").startswith(":"):
                blob = token.split(" ")[3]
                versions = found[next(tokens)]
                if len(versions) < VERSIONS:
                    versions.append(Version(commit, time, subject, None if blob == _NOTHING else blob))
        return found

    def versions(self, path: str) -> list[Version]:
        return self._versions.get(path, [])

    def is_cut(self, path: str) -> bool:
        """Whether there may be versions that are not looked at."""
        return self.is_shallow or len(self.versions(path)) >= VERSIONS

    def contents(self, versions: Sequence[Version], limit: int) -> list[bytes | None]:
        """The file of each version; None where it was removed, is a link or is larger than `limit` bytes."""
        blobs = list(dict.fromkeys(version.blob for version in versions if version.blob))
        known = dict(zip(blobs, self._repository.blobs(blobs, limit), strict=True)) if blobs else {}
        return [known.get(version.blob) if version.blob else None for version in versions]

    def removed(self, path: str) -> Version | None:
        """The version in which the path went away, if that is its last one."""
        last = next(iter(self.versions(path)), None)
        return last if last and last.blob is None else None

    def renamed(self, path: str) -> str | None:
        """Where the commit that removed the path moved it to, as git sees it."""
        gone = self.removed(path)
        if gone is None:
            return None
        try:
            answer = self._repository.history("diff-tree", "-r", "-m", "--root", "-M", "--name-status", "--no-commit-id", "-z", gone.commit)
        except SdaqfError:
            return None
        tokens = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
        for status in tokens:
            if status.startswith(("R", "C")):
                old, new = next(tokens), next(tokens)
                if old == path and status.startswith("R"):
                    return new
            elif status:
                next(tokens)
        return None
