"""This module says what may be asked of the world outside: files by scope and path, and the tree.

`disk/` answers from a real repository, tests from memory, a replay from its record. Nothing here opens a file.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sdaqf_tasks.formats.records import RootScope

SOURCE_BYTES = 262_144
"""Bytes that a source file may have (FORMAT 5.1)."""

REFERENCE_BYTES = 1_048_576
"""Bytes that a file named as provenance may have (FORMAT 5.1)."""


class Observed(NamedTuple):
    """One file as it was read: its bytes and their SHA-256 in uppercase."""

    data: bytes
    sha256: str


class Tree(NamedTuple):
    """The candidate as it was observed (FORMAT 4, PIPELINE 5).

    `files` are the regular files of it, `links` and `submodules` the other entries that are present, each in the order
    of the digest; `untracked` those of them that git does not track. Names are git's bytes, decoded as UTF-8 with
    surrogate escapes. `committed` is HEAD's commit time as a TIME in UTC.
    """

    git_head: str
    repository_digest: str
    committed: str
    files: tuple[str, ...]
    links: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    untracked: frozenset[str] = frozenset()


class Sources(Protocol):
    """What a stage may ask. One object serves one pass: a file is read once, and every caller sees the same bytes."""

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        """The whole file.

        Raises `Unreadable` with SOURCE_BYTE_LIMIT over `limit` bytes, CHANGED where the file moved under the reader,
        MISSING_OR_UNREADABLE for everything else (FORMAT 5.2).
        """
        ...

    def tree(self) -> Tree:
        """The tree as it is now; asked anew each time."""
        ...


TERMINATORS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
"""The line ends of FORMAT 5.3, beside CR LF as one. They are exactly those of `str.splitlines`."""


def lines(text: str) -> list[str]:
    """The lines of FORMAT 5.3 with their terminators; the empty text is one empty line."""
    return text.splitlines(keepends=True) or [""]
