"""This module answers from a commit instead of the work tree (`world.Sources`): what the files were, without a checkout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Reason, Unreadable, printable
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.globs import compiled, in_order
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import REFERENCE_BYTES, Observed, Tree

_LINK, _SUBMODULE = "120000", "160000"
_LFS = b"version https://git-lfs.github.com/spec/"


class Past:
    """The tree of one commit, as committed: no attribute converts it, and files that no commit holds are not there.

    The digest of its `tree` is one of names and blob ids. It is no candidate's, so nothing made from here is published.
    Raises `Refused` with GIT_FAILED where the commit cannot be read.
    """

    def __init__(self, repository: Repository, commit: str, *, exclude: Sequence[str] = ()) -> None:
        self._repository = repository
        self._blobs: dict[str, tuple[str, int]] = {}  # id and size, by path
        self._known: dict[str, bytes] = {}
        names: defaultdict[str, list[str]] = defaultdict(list)  # by mode
        excluded = [compiled(pattern, Reason.SETTINGS_INVALID) for pattern in exclude]
        listing = repository.history("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        for entry in listing.decode("utf-8", "surrogateescape").split("\0")[:-1]:
            (mode, _, blob, size), name = entry.partition("\t")[0].split(), entry.partition("\t")[2]
            if not any(means(name) for means in excluded):
                names[mode].append(name)
                if mode not in (_LINK, _SUBMODULE):
                    self._blobs[name] = blob, int(size)
        self._tree = Tree(
            git_head=commit,
            repository_digest=canonical.digest(listing),
            committed=repository.committed(commit),
            files=tuple(sorted(self._blobs, key=in_order)),
            links=tuple(sorted(names[_LINK], key=in_order)),
            submodules=tuple(sorted(names[_SUBMODULE], key=in_order)),
        )

    def tree(self) -> Tree:
        return self._tree

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        """The whole file as it was committed, as `world.Sources` promises."""
        if scope is not RootScope.REPOSITORY or path not in self._blobs:
            raise Unreadable(Reason.MISSING_OR_UNREADABLE, "no such file was committed", at=printable(path))
        blob, size = self._blobs[path]
        if size > limit:
            raise Unreadable(Reason.SOURCE_BYTE_LIMIT, f"the file has {size} bytes, more than are read here", at=printable(path))
        if blob not in self._known:
            (data,) = self._repository.blobs([blob], limit)
            if data is None:
                raise Unreadable(Reason.MISSING_OR_UNREADABLE, "the clone lacks the file of that commit", at=printable(path))
            self._known[blob] = data
        return Observed(self._known[blob], canonical.digest(self._known[blob]))

    def read_file(self, path: str, limit: int) -> bytes:
        """The bytes of a file of the tree. Raises as `read`."""
        return self.read(RootScope.REPOSITORY, path, limit).data


def converted(repository: Repository, paths: Collection[str]) -> frozenset[str]:
    """Those of the files that git writes otherwise than it keeps them: line ends, encodings, git-lfs.

    Their committed bytes say nothing about those of the work tree. Told from the present: a file that git calls unchanged
    and that differs from HEAD's, or differs from it by line ends alone, or of which HEAD holds a pointer.
    """
    ordered, modified = sorted(paths), set(repository.modified())
    found = set()
    for path, kept in zip(ordered, repository.blobs([f"HEAD:{path}" for path in ordered], REFERENCE_BYTES), strict=True):
        try:
            here = repository.root.read(path, REFERENCE_BYTES)
        except Unreadable:
            continue
        if kept is not None and kept != here:
            ends = kept.replace(b"\r\n", b"\n") == here.replace(b"\r\n", b"\n")
            if path not in modified or ends or (kept.startswith(_LFS) and not here.startswith(_LFS)):
                found.add(path)
    return frozenset(found)
