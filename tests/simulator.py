"""This module is a repository in memory: what stages read, without a disk and without git.

Files under `build/` are ignored, as in the conformance vectors. The digest is written down again here, from FORMAT 4.3.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import Observed, Tree


def repository_digest(files: Mapping[str, bytes]) -> str:
    def order(path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        parts = tuple(path.split("/"))
        return tuple(part.casefold() for part in parts), parts

    running = hashlib.sha256()
    for path in sorted(files, key=order):
        running.update(path.encode() + b"\0" + str(len(files[path])).encode() + b"\0" + files[path] + b"\0")
    return running.hexdigest().upper()


class World:
    """Implements `world.Sources`. Change `repository`, `owner` or `git_head` at will; `before_read` may do so mid-run.

    `digest` pins the digest of the tree, whatever the files are: a file can then change under an unchanged candidate.
    """

    def __init__(
        self,
        repository: Mapping[str, bytes],
        owner: Mapping[str, bytes] | None = None,
        git_head: str = "b" * 40,
        *,
        digest: str | None = None,
    ) -> None:
        self.repository, self.owner, self.git_head, self.digest = dict(repository), dict(owner or {}), git_head, digest
        self.reads: list[tuple[RootScope, str]] = []
        self.before_read: Callable[[str], None] = lambda path: None

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        self.before_read(path)
        self.reads.append((scope, path))
        data = (self.repository if scope is RootScope.REPOSITORY else self.owner).get(path)
        if data is None or ".git" in path.lower().split("/"):
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, f"{path} is not there")
        if len(data) > limit:
            raise Unreadable(Reason.SOURCE_BYTE_LIMIT, f"{path} has {len(data)} bytes; at most {limit} are read")
        return Observed(data, hashlib.sha256(data).hexdigest().upper())

    def tree(self) -> Tree:
        files = {path: data for path, data in self.repository.items() if not path.startswith("build/")}
        return Tree(self.git_head, self.digest or repository_digest(files), "2026-01-01T00:00:00Z", tuple(sorted(files)))
