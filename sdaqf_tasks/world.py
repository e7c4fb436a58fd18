"""This module says what may be asked of the world outside: files by scope and path, and the tree.

`disk/` answers from a real repository, tests from memory, a replay from its record. Nothing here opens a file.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.formats.records import ArtifactReference, Locator, RootScope

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
    of the digest; `untracked` those of them that git does not track; `excluded` is what patterns leave out. Names are git's
    bytes, decoded as UTF-8 with surrogate escapes. `committed` is HEAD's commit time as a TIME in UTC.
    """

    git_head: str
    repository_digest: str
    committed: str
    files: tuple[str, ...]
    links: tuple[str, ...] = ()
    submodules: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    untracked: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


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


def decode(data: bytes) -> str:
    """The text of a source file. Raises `Unreadable` where it is not strict UTF-8 or holds U+0000."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, f"byte {error.start} is not UTF-8") from None
    if "\0" in text:
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "holds U+0000: a binary file is no source")
    return text


def observe(sources: Sources, locator: Locator) -> tuple[bytes, str]:
    """The file behind `locator` and its selected text, unaltered (FORMAT 5).

    Raises `Unreadable` with the outcome of FORMAT 5.2, in that order: the safe read, DIGEST_MISMATCH, UTF-8, U+0000, lines.
    """
    observed = sources.read(locator.root_scope, locator.path, SOURCE_BYTES)
    if observed.sha256 != locator.sha256:
        raise Unreadable(Reason.DIGEST_MISMATCH, f"{locator.path} is not the file that was recorded")
    found = lines(decode(observed.data))
    if locator.line_end > len(found):
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, f"{locator.path} has {len(found)} lines, not {locator.line_end}")
    return observed.data, "".join(found[locator.line_start - 1 : locator.line_end])


def observe_reference(sources: Sources, scope: RootScope, reference: ArtifactReference) -> None:
    """Read a file named as provenance and compare its digest; any bytes will do.

    Raises `Unreadable` with the outcome of the safe read, or PROVENANCE_INVALID where it is another file.
    """
    if sources.read(scope, reference.path, REFERENCE_BYTES).sha256 != reference.sha256:
        raise Unreadable(Reason.PROVENANCE_INVALID, f"{reference.path} is not the file that was recorded as provenance")
