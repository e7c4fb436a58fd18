"""This module observes the candidate: HEAD's commit, and one digest over all that git tracks or would (FORMAT 4, PIPELINE 5).

Names come from git, bytes from the work tree as they are. Links are never followed, submodules never entered.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from sdaqf_tasks.disk.files import Closing, Mark, Root, Walk, components, shown
from sdaqf_tasks.disk.git import ANSWER_BYTES, Git
from sdaqf_tasks.errors import Reason, Refused, Unreadable
from sdaqf_tasks.formats.globs import compiled, in_order
from sdaqf_tasks.world import Tree

UNTRACKED = "untracked:"
"""The pattern that leaves out whatever git does not track."""

LEFT_OUT = frozenset(
    b".git .venv .coverage __pycache__ .pytest_cache .pytest-tmp .mypy_cache .ruff_cache .tox".split()
    + b".eggs build dist htmlcov .local .sdaqf".split()
)
"""Components that the fallback walk leaves out (FORMAT 4.3, step 1)."""

_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})
_LAST_SECOND = 253_402_300_799


Bound = Annotated[int, Meta(ge=1)]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a tree may hold, and how long one git may take: as the settings have it (PIPELINE 5 and 7)."""

    files: Bound = 100_000
    file_bytes: Bound = 268_435_456
    total_bytes: Bound = 4_294_967_296
    git_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 30.0


USUAL = Limits()


class Entry(NamedTuple):
    """One name of the candidate. `commit` is a submodule's, as recorded in the index; `unmerged` where it is in conflict."""

    name: str
    parts: tuple[bytes, ...]
    tracked: bool = True
    commit: bytes = b""
    unmerged: bool = False


class Observation(NamedTuple):
    """What was hashed, and how it looked. Where it is `settled`, equal marks tell that hashing again gives the same."""

    listing: bytes
    entries: tuple[Entry, ...]
    marks: tuple[Mark | None, ...]
    settled: bool
    tree: Tree


def find_top(start: Path) -> Path:
    """The nearest folder, from `start` upward, that has a git directory. Raises `Refused` with NOT_A_REPOSITORY."""
    start = start.absolute()
    for folder in (start, *start.parents):
        git = folder / ".git"
        try:
            if git.is_file() or (git / "HEAD").is_file() or (git / "HEAD").is_symlink():
                return folder
        except OSError as error:
            message = f"whether a folder from here upward is the top of a work tree cannot be seen: {error.strerror}"
            raise Refused(Reason.NOT_A_REPOSITORY, message, todo="See to the permissions of the folder and of its .git.") from error
    raise Refused(Reason.NOT_A_REPOSITORY, "no folder from here upward is the top of a git work tree", todo="Run `git init` first.")


class Repository(Closing):
    """The work tree whose top is `top`.

    The first `observe` hashes every file; later ones only look whether any entry changed since (PIPELINE 5).
    Raises `Refused`: ROOT_IS_A_LINK, NOT_A_REPOSITORY, REPOSITORY_UNSUPPORTED, FOREIGN_OWNER, GIT_MISSING, GIT_FAILED;
    `Invalid` with SETTINGS_INVALID for a pattern that is none.
    """

    def __init__(
        self, top: Path, *, exclude: Sequence[str] = (), exclude_untracked: bool = False, limits: Limits = USUAL, apart: Sequence[Path] = ()
    ) -> None:
        self._patterns = sorted({*exclude, UNTRACKED} if exclude_untracked else set(exclude))
        self._tracked_only = UNTRACKED in self._patterns
        self._excluded = [compiled(pattern, Reason.SETTINGS_INVALID) for pattern in self._patterns if pattern != UNTRACKED]
        self._limits = limits
        self._last: Observation | None = None
        self._apart: frozenset[str] = frozenset()
        self._committed: dict[str, str] = {}
        try:
            self.root = Root(top)
        except Unreadable as error:
            raise Refused(Reason.NOT_A_REPOSITORY, "the root is not a folder that can be read") from error
        try:
            _check_top(self.root.path)
            self._git = Git(self.root.path, apart=apart, seconds=limits.git_seconds)
        except BaseException:
            self.root.close()
            raise

    def close(self) -> None:
        self._git.close()
        self.root.close()

    def observe(self) -> Tree:
        """The candidate as it is now.

        Raises `Refused`: REPOSITORY_UNSUPPORTED, REPOSITORY_UNBORN, GIT_FAILED, TREE_ENTRY, TREE_LIMIT, CANDIDATE_MOVED.
        """
        head = self._git.refresh()
        if head not in self._committed:
            self._committed = {head: moment(self._git.committed(head))}
        listing = self._listing()
        last = self._last
        entries = last.entries if last and listing and last.listing == listing else self._entries(listing)
        if not (last and last.settled and last.entries == entries and self._still(last)):
            last = self._hash(listing, entries)
        if not os.path.samestat(self.root.path.lstat(), os.fstat(self.root.descriptor)):
            raise Refused(Reason.CANDIDATE_MOVED, "the root was replaced while it was read")
        self._last = last
        return last.tree._replace(git_head=head, committed=self._committed[head], excluded=self._apart)

    def history(self, *arguments: str, limit: int = ANSWER_BYTES) -> bytes:
        """What git says about the past: `log`, `rev-list`, `show`, `cat-file`, `ls-tree`, `diff-tree`, `merge-base`.

        HEAD is known, other refs are not. Paths go behind `--` and are literal. Raises `Refused` as `observe`.
        """
        self._git.refresh()
        return self._git.history(*arguments, limit=limit)

    @property
    def looks(self) -> Mapping[str, object]:
        """How every entry looked when it was last hashed, by name: equal looks tell that nothing was written between."""
        return {entry.name: mark for entry, mark in zip(self._last.entries, self._last.marks, strict=True)} if self._last else {}

    def tracks(self, name: str) -> bool:
        """Whether git tracks the name, also one that patterns leave out of the tree."""
        self._last or self.observe()
        return any(entry.tracked and entry.name == name for entry in _listed(self._last.listing if self._last else b""))

    def tracked(self, folder: str) -> list[str]:
        """The names below a folder that git tracks; nothing is hashed, and there need be no commit."""
        try:
            self._git.refresh()
        except Refused as error:
            if error.reason is not Reason.REPOSITORY_UNBORN:
                raise
        return [entry.name for entry in _listed(self._listing()) if entry.tracked and entry.name.startswith(f"{folder}/")]

    def _listing(self) -> bytes:
        return self._git.listing(max(ANSWER_BYTES, self._limits.files * 512))

    def blobs(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """The content of each blob, named by id or as COMMIT:PATH; None where it is none, or larger than `limit` bytes."""
        return self._git.blobs(names, limit)

    def resolve(self, name: str) -> str | None:
        """The commit that a person means by `name`, or None where the clone has no such commit."""
        self._git.refresh()
        return self._git.resolve(name)

    def git_version(self) -> str:
        return self._git.version()

    def ignored_by_user(self) -> tuple[str, ...]:
        """The untracked names that count here, and that the user's own git would ignore: a hint for people, in no digest."""
        ignored = {_text(name) for name in self._git.ignored_by_user().split(b"\0")}
        return tuple(sorted(ignored & (self._last.tree if self._last else self.observe()).untracked))

    @property
    def is_shallow(self) -> bool:
        """Whether the clone's history was cut off."""
        self._git.refresh()
        return self._git.is_shallow

    def merge_base(self, one: str, other: str) -> str | None:
        """The best common ancestor of two commits; None where there is none in the clone."""
        with suppress(Refused):
            return self.history("merge-base", one, other).decode("ascii").strip() or None
        return None

    def committed(self, commit: str) -> str:
        """The committer's time of a commit as a TIME in UTC. Raises `Refused` with GIT_FAILED where there is none."""
        self._git.refresh()
        return moment(self._git.committed(commit))

    def modified(self) -> tuple[str, ...]:
        """The names in which the work tree differs from HEAD: changed, added, deleted, untracked. For people alone."""
        untracked = (self._last.tree if self._last else self.observe()).untracked
        changed = self._git.changed()
        return tuple(sorted({*untracked, *(_text(name) for name in changed)}))

    def _entries(self, listing: bytes) -> tuple[Entry, ...]:
        """The entries of the candidate in the order of the digest (FORMAT 4.3, steps 1 and 2)."""
        found: dict[str, Entry] = {}
        apart: set[str] = set()
        more = 0  # beyond the limit they are counted, not kept
        for entry in _listed(listing) if listing else self._everything():
            if self._left_out(entry):
                apart.add(entry.name)
                continue
            if len(found) <= self._limits.files or entry.name in found:
                found[entry.name] = _checked(entry)
            else:
                more += 1
        if len(found) > self._limits.files:
            raise Refused(Reason.TREE_LIMIT, f"the tree has {len(found) + more} entries; limits.files is {self._limits.files}")
        self._apart = frozenset(apart)
        return tuple(sorted(found.values(), key=lambda entry: in_order(entry.name)))

    def _left_out(self, entry: Entry) -> bool:
        return (self._tracked_only and not entry.tracked) or any(means(entry.name) for means in self._excluded)

    def _everything(self) -> Iterator[Entry]:
        """All regular files and links below the root, but those with a component that is left out. Links are not followed."""
        folders: list[tuple[bytes, ...]] = [()]
        with self.root.walk() as walk:
            while folders:
                folder = folders.pop()
                try:
                    with os.scandir(walk.enter(folder)) as children:
                        for child in children:
                            parts = (*folder, os.fsencode(child.name))
                            if parts[-1] in LEFT_OUT:
                                continue
                            if child.is_dir(follow_symlinks=False):
                                folders.append(parts)
                            elif child.is_symlink() or child.is_file():
                                yield Entry(_text(b"/".join(parts)), parts, tracked=False)
                except OSError as error:
                    raise _unreadable(error, _text(b"/".join(folder))) from error
                if len(folders) > self._limits.files:
                    raise Refused(Reason.TREE_LIMIT, f"the tree has over {self._limits.files} folders; limits.files is that many")

    def _hash(self, listing: bytes, entries: tuple[Entry, ...]) -> Observation:
        """One SHA-256 over all entries (FORMAT 4.3, step 4; PIPELINE 5)."""
        began, total = time.time_ns(), 0
        digest = hashlib.sha256()
        if self._patterns:
            patterns = "\n".join(self._patterns).encode("utf-8", "surrogateescape")
            digest.update(b"\0exclude:%d\0%b\0" % (len(patterns), patterns))
        marks: list[Mark | None] = []
        names: dict[str, list[str]] = {"files": [], "links": [], "submodules": [], "absent": []}
        with self.root.walk() as walk:
            for entry in entries:
                try:
                    kind, mark = self._feed(digest.update, walk, entry, total)
                except Unreadable as error:
                    raise _moved(entry.name) from error
                except OSError as error:
                    raise _unreadable(error, entry.name) from error
                names[kind].append(entry.name)
                marks.append(mark)
                total += mark.size if mark else 0
        tree = Tree(
            git_head="",
            repository_digest=digest.hexdigest().upper(),
            committed="",
            untracked=frozenset(entry.name for entry in entries if not entry.tracked),
            excluded=frozenset(),
            **{kind: tuple(found) for kind, found in names.items()},
        )
        settled = all(mark is None or mark.settled(began) for mark in marks)
        return Observation(listing, entries, tuple(marks), settled, tree)

    def _feed(self, update: Callable[[bytes], object], walk: Walk, entry: Entry, total: int) -> tuple[str, Mark | None]:
        """Hash one entry by the table of PIPELINE 5, `total` bytes having gone before: where in the tree it belongs, its mark."""
        mark, name = _look(walk, entry.parts), b"/".join(entry.parts)
        if mark is None:
            if not entry.tracked:
                raise _moved(entry.name)
            update(b"%b\0gitlink:40\0%b\0" % (name, entry.commit) if entry.commit else b"%b\0absent:0\0\0" % name)
            return "submodules" if entry.commit else "absent", None
        if stat.S_ISLNK(mark.mode):
            target = walk.readlink(entry.parts)
            if _look(walk, entry.parts) != mark:
                raise _moved(entry.name)
            update(b"%b\0link:%d\0%b\0" % (name, len(target), target))
            return "links", mark
        if not stat.S_ISREG(mark.mode):
            raise Refused(Reason.TREE_ENTRY, "git tracks this path, and it is a FIFO, a socket or a device", at=shown(entry.name))
        with walk.open(entry.parts) as file:
            for bound, size in ("file_bytes", file.mark.size), ("total_bytes", total + file.mark.size):
                if size > (most := getattr(self._limits, bound)):
                    raise Refused(Reason.TREE_LIMIT, f"with this file it is {size} bytes; limits.{bound} is {most}", at=shown(entry.name))
            update(b"%b\0%d\0" % (name, file.mark.size))
            for chunk in file.chunks(file.mark.size):
                update(chunk)
            update(b"\0")
            return "files", file.mark

    def _still(self, last: Observation) -> bool:
        """Whether every entry looks as it did."""
        with self.root.walk() as walk:
            try:
                return all(_look(walk, entry.parts) == mark for entry, mark in zip(last.entries, last.marks, strict=True))
            except OSError:
                return False


def _check_top(top: Path) -> None:
    if os.path.lexists(top / ".git"):
        return
    if (top / "HEAD").is_file() and (top / "objects").is_dir():
        raise Refused(Reason.REPOSITORY_UNSUPPORTED, "the repository is bare", todo="Use a clone, or a work tree of it.")
    for levels, folder in enumerate(top.parents, 1):
        if os.path.lexists(folder / ".git"):
            up = "/".join([".."] * levels)
            raise Refused(Reason.NOT_A_REPOSITORY, "this folder lies inside a work tree", todo=f"Give its top, which is {up} from here.")
    raise Refused(Reason.NOT_A_REPOSITORY, "there is no .git in this folder")


def _listed(listing: bytes) -> Iterator[Entry]:
    """The entries of git's listing, not yet checked."""
    for item in re.finditer(rb"[^\0]+", listing):
        tag, name = item[0][:2], item[0][2:]
        if tag == b"? ":
            yield Entry(_text(name.removesuffix(b"/")), tuple(name.split(b"/")), tracked=False)
        else:
            state, _, name = name.partition(b"\t")
            mode, commit, stage = state.split(b" ")
            yield Entry(_text(name), tuple(name.split(b"/")), commit=commit if mode == b"160000" else b"", unmerged=stage != b"0")


def _checked(entry: Entry) -> Entry:
    if not entry.tracked and entry.parts[-1] == b"":
        message = "this is another repository inside the tree, which git does not track"
        todo = "Ignore it, exclude it, or add it as a submodule."
        raise Refused(Reason.TREE_ENTRY, message, at=shown(entry.name), todo=todo)
    if entry.commit and entry.unmerged:
        raise Refused(Reason.TREE_ENTRY, "this submodule is in conflict", at=shown(entry.name), todo="Resolve the merge.")
    try:
        components(entry.name)
    except Unreadable as error:
        raise Refused(Reason.TREE_ENTRY, error.message, at=shown(entry.name)) from None
    return entry


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _look(walk: Walk, parts: tuple[bytes, ...]) -> Mark | None:
    """How the entry looks; None where nothing is there, or a folder, or where a parent is a link (PIPELINE 5)."""
    try:
        status = walk.lstat(parts)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise
    return None if stat.S_ISDIR(status.st_mode) else Mark.of(status)


def _moved(name: str) -> Refused:
    return Refused(Reason.CANDIDATE_MOVED, "this path changed while it was read", at=shown(name))


def _unreadable(error: OSError, name: str) -> Refused:
    if error.errno in _NOT_THERE:
        return _moved(name)
    return Refused(Reason.TREE_ENTRY, f"this path cannot be read: {error.strerror}", at=shown(name), todo="Make it readable, or ignore it.")


def moment(seconds: int) -> str:
    """The TIME of seconds since 1970; what lies beyond the year 9999 counts as its end."""
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=min(max(seconds, 0), _LAST_SECOND))
    return when.isoformat() + "Z"
