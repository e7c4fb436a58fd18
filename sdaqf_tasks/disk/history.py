"""This module asks git what became of files: who changed them, where they went, how they read before (PIPELINE 7).

History is asked only where something differs already. One listing answers for all paths; a path with more versions than
are read is said to be so, never taken for one without them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import SdaqfError

VERSIONS = 1_000
"""Versions of one path that are looked at."""

_NOTHING = "0" * 40


class Version(NamedTuple):
    """What a commit made of a path, as against one of its parents: `before` and `blob` are ids, None where it was not there.

    `time` is in seconds since 1970.
    """

    commit: str
    time: int
    subject: str
    blob: str | None
    before: str | None = None


class History:
    """The history of some paths, up to HEAD, newest first."""

    def __init__(self, repository: Repository, paths: Collection[str]) -> None:
        self._repository, self._paths = repository, sorted(paths)
        self._known: dict[str, bytes | None] = {}

    @cached_property
    def _listing(self) -> tuple[dict[str, list[Version]], bool]:
        """The versions of every path, and whether there may be more than were listed."""
        most = VERSIONS * len(self._paths)
        found: defaultdict[str, list[Version]] = defaultdict(list)
        if not self._paths:
            return found, False
        shape = ("-m", "--full-history", "--no-renames", "--no-abbrev", "--raw", "-z", "--format=%x01%H %ct %s")
        answer = self._repository.history("log", *shape, f"--max-count={most}", "HEAD", "--", *self._paths)
        commit, time, subject, commits = "", 0, "", set()
        tokens = iter(answer.decode("utf-8", "surrogateescape").split("\0"))
        for token in tokens:
            if token.startswith("\x01"):
                commit, seconds, subject = token[1:].split(" ", 2)
                time = int(seconds)
                commits.add(commit)
            elif token.lstrip("\n").startswith(":"):
                before, blob = (None if word == _NOTHING else word for word in token.split(" ")[2:4])
                versions = found[next(tokens)]
                if len(versions) < VERSIONS:
                    versions.append(Version(commit, time, subject, blob, before))
        return found, len(commits) >= most

    def versions(self, path: str) -> list[Version]:
        return self._listing[0].get(path, [])

    def is_cut(self, path: str) -> bool:
        """Whether there may be versions that are not looked at."""
        return self._repository.is_shallow or len(self.versions(path)) >= VERSIONS or self._listing[1]

    def contents(self, blobs: Iterable[str | None], limit: int) -> dict[str | None, bytes | None]:
        """The file of each id; None where it is a link, is larger than `limit` bytes or is not in the clone."""
        asked = dict.fromkeys(blobs)
        wanted = [blob for blob in asked if blob and blob not in self._known]
        if wanted:
            self._known.update(zip(wanted, self._repository.blobs(wanted, limit), strict=True))
        return {blob: self._known.get(blob) if blob else None for blob in asked}

    @cached_property
    def _folders(self) -> dict[str, Version]:
        """The last version of anything in a folder, for each folder that the listing has something of."""
        found: dict[str, Version] = {}
        for name, versions in self._listing[0].items():  # the newest first
            for end in (place for place, character in enumerate(name) if character == "/"):
                found.setdefault(name[:end], versions[0])
        return found

    def removed(self, path: str) -> Version | None:
        """The version in which the path went away, if that is its last one; of a folder, that in which its last file did."""
        last = next(iter(self.versions(path)), self._folders.get(path))
        return last if last and last.blob is None else None

    def renamed(self, path: str) -> str | None:
        """Where the commit that removed the path, or the last file of that folder, moved it to, as git sees it."""
        gone = self.removed(path)
        for old, new in self._renames(gone) if gone else ():
            inside = old[len(path) :]
            if f"{old}/".startswith(f"{path}/") and new.endswith(inside):
                return new.removesuffix(inside)
        return None

    def renamed_from(self, path: str) -> str | None:
        """Where the commit that first had the path moved it from, as git sees it."""
        added = next((version for version in reversed(self.versions(path)) if version.before is None), None)
        return next((old for old, new in self._renames(added) if new == path), None) if added else None

    def _renames(self, version: Version) -> list[tuple[str, str]]:
        """The old and new paths that a commit renamed, as against any of its parents."""
        shape = ("-r", "-m", "--root", "-M", "--diff-filter=R", "--name-status", "--no-commit-id", "-z")
        with suppress(SdaqfError):
            tokens = self._repository.history("diff-tree", *shape, version.commit).decode("utf-8", "surrogateescape").split("\0")[:-1]
            return list(zip(tokens[1::3], tokens[2::3], strict=True))
        return []
