"""This module asks git about a repository without letting the repository answer with a program. Nobody else runs git.

Git reads its configuration from the git directory, and much of it names programs. So git is never shown the
repository's: it runs in a private git directory with a configuration of ours, the repository's objects, and copies of
its index, `info/exclude` and `shallow`. HEAD is resolved here. Nothing below `.git` is written, and nothing of it run.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import selectors
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.disk.files import Mark, shown
from sdaqf_tasks.errors import Reason, Refused

ANSWER_BYTES = 67_108_864
_ADMIN_BYTES = 1_048_576
_REFS_BYTES = _INDEX_BYTES = 201_326_592

_COMMIT = re.compile(rb"[0-9a-f]{40}(?=\s|\Z)")
_PACKED = re.compile(rb"\n?([0-9a-f]{40})")
_REF = re.compile(rb"refs(?:/(?!\.)[^/\x00-\x20\x7f]+)+")
_SPARSE_INDEX = b"sdir\0\0\0\0"
_AS_IT_IS = ("core.sparseCheckout=true", "core.sparseCheckoutCone=true", "index.sparse=true", "sparse.expectFilesOutsideOfPatterns=true")
_REVISION = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,240}?)((?:[~^][0-9]{0,4})*)")
_OWN_REFS = (b"HEAD", b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
_KNOWN = "noop noop-v1 objectformat partialclone preciousobjects refstorage relativeworktrees worktreeconfig"
_EXTENSIONS = frozenset(_KNOWN.split())
_HISTORY = frozenset({"cat-file", "diff-tree", "log", "ls-tree", "merge-base", "rev-list", "show"})
_PROGRAM_OPTIONS = ("--ext-diff", "--textconv", "--filters", "--output", "--show-signature", "--submodule")
_SEE_OBJECTS = _HISTORY | {"diff"}
"""The commands that see the repository's objects. All others see none, so that they can neither touch nor add any."""

_CONFIG = """\
[core]
	repositoryFormatVersion = 0
	bare = false
	fileMode = false
	ignoreCase = false
	precomposeUnicode = false
	fsmonitor = false
	untrackedCache = false
	commitGraph = false
	hooksPath = /dev/null
	excludesFile = /dev/null
	attributesFile = /dev/null
[protocol]
	allow = never
[log]
	showSignature = false
	mailmap = false
[submodule]
	recurse = false
[gc]
	auto = 0
[maintenance]
	auto = false
"""


class Git:
    """A repository as git sees it, without its configuration. The private git directory lives as long as this object."""

    def __init__(self, top: Path, *, apart: Sequence[Path] = (), seconds: float = 30) -> None:
        """`top` is a resolved folder; neither the git program nor temporary files may lie below it or below `apart`."""
        roots = (top, *(root.resolve() for root in apart))
        self._top, self._seconds = top, seconds
        with _system():
            self._layout = _layout(top)
            _check_owner((top, top / ".git", *self._layout))
            self._program = _program(roots)
            with _undisturbed():
                self._private = _private(roots)
                self.close = functools.partial(_remove, self._private, os.getpid())
                atexit.register(self.close)  # no weak reference: what it calls could be stopped half way
        self._environment = {
            "PATH": os.defpath,
            "LC_ALL": "C",
            "GIT_DIR": os.fspath(self._private),
            "GIT_WORK_TREE": os.fspath(top),
            "GIT_CEILING_DIRECTORIES": os.fspath(top.parent),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PAGER": "cat",
        }
        self._objects = {"GIT_OBJECT_DIRECTORY": os.fspath(self._layout.common / "objects")}
        self._copies: dict[str, tuple[Mark | None, int]] = {}
        self._judged: bytes | None = None
        self._commit = ""

    def refresh(self) -> str:
        """Bring the private git directory up to date; HEAD's commit, in lowercase hex. No program is run, once judged.

        Raises `Refused`: REPOSITORY_UNSUPPORTED, REPOSITORY_UNBORN, GIT_FAILED.
        """
        with _system():
            self._judge()
            index = self._copy(self._layout.git / "index", "index", _INDEX_BYTES)
            if index is not None:
                self._copy_shared_index(index)
                if _SPARSE_INDEX in index:
                    self._fill_index()
            self._copy(self._layout.common / "info" / "exclude", "info/exclude", _ADMIN_BYTES)
            self._copy(self._layout.common / "shallow", "shallow", _ADMIN_BYTES)
            commit = _follow(self._layout, b"HEAD")
            if commit != self._commit:
                (self._private / "HEAD").write_text(commit + "\n", "ascii")
                self._commit = commit
            return commit

    def listing(self, limit: int) -> bytes:
        """What is tracked and what is neither tracked nor ignored, as of `refresh`: entries that end in NUL.

        An entry is `? NAME`, or a letter, a space, `MODE COMMIT STAGE`, a tab, NAME. No submodule is entered.
        """
        return self._run("ls-files", "-z", "-t", "--stage", "--cached", "--others", "--exclude-standard", limit=limit)

    def committed(self, commit: str) -> int:
        """The committer's time in seconds since 1970."""
        if not re.fullmatch("[0-9a-f]{40}", commit):
            raise ValueError("no id of a commit")
        return int(self._run("rev-list", "--timestamp", "--no-walk", commit, "--").split()[0])

    def changed(self) -> list[bytes]:
        """The names of tracked files that differ from HEAD, as of `refresh`."""
        quiet = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=all")
        return self._run("diff", *quiet, "--name-only", "-z", "HEAD", "--").split(b"\0")[:-1]

    def version(self) -> str:
        """What the program calls itself, such as `2.39.5`."""
        return self._run("version").decode("ascii", "replace").removeprefix("git version ").strip()

    def ignored_by_user(self) -> bytes:
        """What the user's own excludes file would ignore besides, NUL-terminated, as of `refresh`: a hint, in no digest."""
        home = Path(os.environ.get("HOME", os.devnull))
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
        excludes, copy, theirs = config / "ignore", self._private / "excludes", self._private / "theirs"
        with contextlib.suppress(Refused, RuntimeError):  # a configuration that cannot be read gives no hint
            given = os.environ.get("GIT_CONFIG_GLOBAL")
            for place in [Path(given)] if given else [config / "config", home / ".gitconfig"]:
                theirs.write_bytes(_admin(place) or b"")
                said = self._run("config", "--file", os.fspath(theirs), "--no-includes", "--default=", "--get", "core.excludesFile")
                excludes = Path(os.fsdecode(said[:-1])).expanduser() if said.strip() else excludes
            copy.write_bytes(_admin(excludes) or b"")
            return self._run("ls-files", "-z", "--others", "--ignored", f"--exclude-from={copy}")
        return b""

    def resolve(self, name: str) -> str | None:
        """The commit that a person means by `name`: HEAD, a branch, a tag, a remote's branch, or an id; with `^N` and `~N`.

        The name is looked up here and never reaches git; None where there is no such commit in the clone.
        """
        base, steps = (found[1], found[2]) if (found := _REVISION.fullmatch(name)) else ("", "")
        with _system():
            commit = base if re.fullmatch(r"[0-9a-f]{4,40}", base) else None
            for folder in ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"):
                reference = (folder + base).encode()
                if base == "HEAD" or ((folder + base).startswith("refs/") and _REF.fullmatch(reference)):
                    with contextlib.suppress(Refused):
                        commit = _follow(self._layout, reference)
                        break
        if commit is None:
            return None
        with contextlib.suppress(Refused):
            return self._run("rev-list", "--no-walk", "--max-count=1", commit + steps, "--").decode("ascii").strip() or None
        return None

    def blobs(self, names: Sequence[str], limit: int) -> list[bytes | None]:
        """The content of each blob, named by id or as COMMIT:PATH; None where it is none, or larger than `limit` bytes."""
        asked = "".join(f"{name}\n" for name in names if "\n" not in name).encode("utf-8", "surrogateescape")
        answer = self._run("cat-file", "--batch", given=asked)
        found: list[bytes | None] = []
        start = 0
        for _ in names:
            end = answer.index(b"\n", start)
            head = answer[start:end].rsplit(b" ", 2)
            if len(head) == 3 and head[2].isdigit():
                size = int(head[2])
                data = answer[end + 1 : end + 1 + size]
                found.append(data if head[1] == b"blob" and size <= limit else None)
                start = end + size + 2
            else:
                found.append(None)
                start = end + 1
        return found

    @property
    def is_shallow(self) -> bool:
        """Whether the clone's history was cut off."""
        return (self._private / "shallow").exists()

    def history(self, *arguments: str, limit: int = ANSWER_BYTES) -> bytes:
        """What a read-only question about history gives, as of `refresh`. HEAD is known, branches and tags are not."""
        names = [word.partition("=")[0] for word in takewhile(lambda word: word != "--", arguments) if word.startswith("--")]
        short = any(option.startswith(name) for option in _PROGRAM_OPTIONS for name in names)  # git takes abbreviations
        if arguments[0] not in _HISTORY or short or any(name.startswith(_PROGRAM_OPTIONS) for name in names):
            raise ValueError(f"not a question about history: {arguments[0]}")
        return self._run(*arguments, limit=limit)

    def _judge(self) -> None:
        """Refuse what the format cannot describe (PIPELINE 5). Git reads a copy of the configuration, as a plain file."""
        linked = self._layout.git != self._layout.common
        config = _admin(self._layout.common / "config") or b""
        if b"worktreeconfig" in config.lower() and not linked:
            config += b"\n" + (_admin(self._layout.git / "config.worktree") or b"")
        if config == self._judged:
            return
        theirs = self._private / "theirs"
        theirs.write_bytes(config)
        answer = os.fsdecode(self._run("config", "--file", os.fspath(theirs), "--no-includes", "-z", "--list"))
        settings = {key: value if equals else "true" for key, equals, value in (item.partition("\n") for item in answer.split("\0"))}
        version, bare, tree = (settings.get(f"core.{name}") for name in ("repositoryformatversion", "bare", "worktree"))
        _must(version in (None, "0", "1"), "its format version is unknown", "Use a repository of format version 0 or 1.")
        for name, value in ((key[11:], value.lower()) for key, value in settings.items() if key.startswith("extensions.")):
            sha1, files = name != "objectformat" or value == "sha1", name != "refstorage" or value == "files"
            _must(sha1, "its objects are not named by SHA-1", "Clone it into a repository with --object-format=sha1.")
            _must(files, "its refs are not stored as files", "Run `git refs migrate --ref-format=files`.")
            _must(name in _EXTENSIONS, f"it has the unknown extension {name[:40]!a}", "Use a clone without the extension.")
        if not linked:
            worktree = (bare or "false").lower() not in ("true", "yes", "on", "1")
            here = tree is None or (self._layout.git / tree).resolve() == self._top
            _must(worktree, "it is bare", "Use a clone, or a work tree that `git worktree add` makes.")
            _must(here, "its core.worktree is another folder", "Use that folder, or unset core.worktree.")
        self._judged = config

    def _copy(self, source: Path, name: str, limit: int) -> bytes | None:
        """Copy a file of the repository's, unless the copy is known to be the same; the bytes that were copied."""
        began = time.time_ns()
        try:
            mark = Mark.of(source.stat())
        except (FileNotFoundError, NotADirectoryError):
            mark = None
        known, when = self._copies.get(name, (None, 0))
        if name in self._copies and known == mark and (mark is None or mark.settled(when)):
            return None
        data = _admin(source, limit)
        target = self._private / name
        if data is None:
            target.unlink(missing_ok=True)
        else:
            target.write_bytes(data)
        self._copies[name] = (mark, began)
        return data or b""

    def _copy_shared_index(self, index: bytes) -> None:
        """The shared part of a split index: it is named by a digest that the index holds in binary."""
        for old in self._private.glob("sharedindex.*"):
            old.unlink()
        for shared in self._layout.git.glob("sharedindex.*"):
            name = shared.name.partition(".")[2]
            if re.fullmatch(r"[0-9a-f]{40}", name) and bytes.fromhex(name) in index:
                (self._private / shared.name).write_bytes(_admin(shared, _INDEX_BYTES) or b"")

    def _fill_index(self) -> None:
        """Write the copy of a sparse index anew, with all its files. Git would do so by itself, but add objects meanwhile."""
        entries = []
        settings = [word for setting in _AS_IT_IS for word in ("-c", setting)]
        for entry in self._run("ls-files", "-z", "--stage", "--sparse", before=settings).split(b"\0")[:-1]:
            state, _, name = entry.partition(b"\t")
            mode, tree, _ = state.split(b" ")
            if mode != b"040000":
                entries.append(entry)
                continue
            for inner in self._run("ls-tree", "-r", "-z", "--full-tree", tree.decode("ascii")).split(b"\0")[:-1]:
                state, _, rest = inner.partition(b"\t")
                entries.append(state + b"\t" + name + rest)
        (self._private / "index").unlink()
        self._run("update-index", "-z", "--index-info", given=b"".join(entry + b"\0" for entry in entries))

    def _run(self, command: str, *arguments: str, limit: int = ANSWER_BYTES, before: Sequence[str] = (), given: bytes = b"") -> bytes:
        """Git's answer. Its complaints count only where it fails. A child that answers too long or too much is killed,
        with all that it started."""
        child = None
        with _system(), tempfile.TemporaryFile(dir=self._private) as stdin:
            stdin.write(given)
            stdin.seek(0)
            try:
                with _undisturbed():
                    child = subprocess.Popen(
                        [self._program, *(argument.encode("utf-8", "surrogateescape") for argument in (*before, command, *arguments))],
                        cwd=self._top,
                        env=self._environment | (self._objects if command in _SEE_OBJECTS else {}),
                        stdin=stdin,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE,
                        start_new_session=True,
                    )
                answer, complaint = self._drain(child, command, limit)
            except BaseException:
                if child:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
                raise
            finally:
                if child:
                    child.__exit__(None, None, None)
        if child.returncode:
            raise Refused(Reason.GIT_FAILED, f"git {command} failed: {self._said(complaint)}")
        return answer

    def _drain(self, child: subprocess.Popen[bytes], command: str, limit: int) -> tuple[bytes, bytes]:
        deadline = time.monotonic() + self._seconds
        todo = "Raise limits.git_seconds if the tree is large; else look for a .gitignore that is no file."
        late = Refused(Reason.GIT_FAILED, f"git {command} did not end within {self._seconds:g} seconds", todo=todo)
        assert child.stdout is not None and child.stderr is not None
        answer, complaint = bytearray(), bytearray()
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ, answer)
            ready.register(child.stderr, selectors.EVENT_READ, complaint)
            while ready.get_map():
                if (left := deadline - time.monotonic()) <= 0:
                    raise late
                told = ready.select(min(left, 1))
                if not told and command == "ls-files" and (name := _blocking(self._top, deadline)):
                    raise Refused(Reason.TREE_ENTRY, "this is no file, and git would wait for it", at=shown(name), todo="Remove it.")
                for key, _ in told:
                    piece = os.read(key.fd, 262_144)
                    if not piece:
                        ready.unregister(key.fileobj)
                    elif key.data is answer:
                        answer += piece
                        if len(answer) > limit:
                            raise Refused(Reason.TREE_LIMIT, f"git {command} gave more than {limit} bytes", todo="Exclude or ignore paths.")
                    elif len(complaint) < 4096:
                        complaint += piece
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise late from None
        return bytes(answer), bytes(complaint)

    def _said(self, complaint: bytes) -> str:
        """The first line of a complaint, without the places of this machine."""
        line = complaint.decode("utf-8", "replace").strip().partition("\n")[0]
        for place in sorted((self._private, self._top, *self._layout), key=lambda place: -len(os.fspath(place))):
            line = line.replace(os.fspath(place), "…")
        line = re.sub(r"(?<![\w…])/[^\s'\":]+", "…", line)
        return ascii(line)[1:-1].replace("\\u2026", "…")[:200] or "it said nothing"


class _Layout(NamedTuple):
    """A work tree's own git directory, and the one that it shares with other work trees (often the same)."""

    git: Path
    common: Path


def _layout(top: Path) -> _Layout:
    git = top / ".git"
    if git.is_file():
        word, _, place = (_admin(git) or b"").partition(b": ")
        if word != b"gitdir":
            raise Refused(Reason.NOT_A_REPOSITORY, "the file .git does not say where the git directory is")
        git = top / os.fsdecode(place.rstrip(b"\r\n"))
    shared = _admin(git / "commondir")
    layout = _Layout(git, git if shared is None else git / os.fsdecode(shared.rstrip(b"\r\n")))
    if not (os.path.lexists(git / "HEAD") and (layout.common / "objects").is_dir()):
        raise Refused(Reason.NOT_A_REPOSITORY, "its .git is no git directory: HEAD or objects are missing")
    return layout


def _admin(path: Path, limit: int = _ADMIN_BYTES) -> bytes | None:
    """A file of a git directory; None where there is none. Links count as they do for git; what is no file blocks nobody."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return None
        if not stat.S_ISREG(mode):
            raise Refused(Reason.GIT_FAILED, f"{path.name} in the git directory is not a regular file")
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(min(os.fstat(file.fileno()).st_size, limit) + 1)  # as much as is asked for is reserved
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise Refused(Reason.GIT_FAILED, f"{path.name} in the git directory cannot be read") from error
    if len(data) > limit:
        raise Refused(Reason.GIT_FAILED, f"{path.name} in the git directory has more than {limit} bytes")
    return data


def _follow(layout: _Layout, name: bytes) -> str:
    """The commit of a ref by our own reading: symbolic refs, loose refs, packed refs. Raises REPOSITORY_UNBORN, GIT_FAILED."""
    for _ in range(5):
        place = (layout.git if name.startswith(_OWN_REFS) else layout.common) / os.fsdecode(name)
        target = os.fsencode(place.readlink()) if place.is_symlink() else b""
        value = b"ref: " + target if target.startswith(b"refs/") else _admin(place)
        if value is None:
            packed = _admin(layout.common / "packed-refs", _REFS_BYTES) or b""
            end = packed.find(b" " + name + b"\n")  # names are unlike; to try every line takes five times as long
            found = _PACKED.fullmatch(packed[max(end - 41, 0) : end]) if end >= 0 else None
            if not found:
                raise Refused(Reason.REPOSITORY_UNBORN, "HEAD has no commit yet")
            value = found[1]
        if match := _COMMIT.match(value):
            return match[0].decode("ascii")
        name = value.removeprefix(b"ref:").strip()
        if not value.startswith(b"ref:") or not _REF.fullmatch(name):
            break
    raise Refused(Reason.GIT_FAILED, "HEAD does not lead to a commit")


def _blocking(top: Path, deadline: float) -> str | None:
    """A `.gitignore` that is a FIFO, where there is one: git opens it, and waits for somebody to write."""
    for folder, _, names in os.walk(top):
        place = Path(folder, ".gitignore")
        if ".gitignore" in names and stat.S_ISFIFO(place.lstat().st_mode):
            return place.relative_to(top).as_posix()
        if time.monotonic() > deadline:
            break
    return None


def _check_owner(places: Sequence[Path]) -> None:
    """An explicit git directory switches git's own check off (PIPELINE 5)."""
    allowed = {str(os.geteuid()), os.environ.get("SDAQF_ALLOW_OWNER", "")}
    for place in places:
        owner = place.stat().st_uid
        if str(owner) not in allowed:
            todo = f"If you trust it, set SDAQF_ALLOW_OWNER={owner}."
            raise Refused(Reason.FOREIGN_OWNER, f"the repository belongs to user {owner}, not to you", todo=todo)


def _program(roots: Sequence[Path]) -> str:
    """The git program that PATH finds first. Entries that are relative, or closed to us, are passed over."""
    for entry in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = Path(entry) / "git"
        if found.is_absolute() and os.path.isfile(found) and os.access(found, os.X_OK):  # noqa: PTH113 (it never raises)
            real = found.resolve()
            if any(place.is_relative_to(root) for place in (real, found.parent.resolve()) for root in roots):
                raise Refused(Reason.GIT_MISSING, "the git that PATH finds lies inside the repository", todo="Correct PATH.")
            return os.fspath(real)
    raise Refused(Reason.GIT_MISSING, "PATH finds no git program")


def _private(roots: Sequence[Path]) -> Path:
    """A git directory without anything in it, in a temporary folder outside the roots."""
    for folder in (Path(tempfile.gettempdir()).resolve(), Path("/tmp").resolve(), Path("/var/tmp").resolve()):
        if folder.is_dir() and not any(folder.is_relative_to(root) for root in roots):
            private = Path(tempfile.mkdtemp(prefix="sdaqf-", dir=folder))
            for name in ("objects", "refs", "info"):
                (private / name).mkdir()
            (private / "HEAD").write_text("ref: refs/heads/none\n", "ascii")
            (private / "config").write_text(_CONFIG, "ascii")
            (private / "info" / "sparse-checkout").write_text("/*\n!/*/\n", "ascii")
            return private
    raise Refused(Reason.GIT_FAILED, "there is no temporary folder outside the repository", todo="Set TMPDIR to one.")


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """No signal ends the run here, nor one that was put off: what is made or started is known to whoever clears it away."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _remove(private: Path, process: int) -> None:
    if os.getpid() == process and private.exists():  # not in a forked child, where the parent goes on using it
        shutil.rmtree(private, ignore_errors=True)


@contextlib.contextmanager
def _system() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = os.strerror(error.errno or 0)  # not `strerror`, in which `tempfile` lists the folders that it tried
        raise Refused(Reason.GIT_FAILED, f"the git directory or its private copy failed: {said}") from error


def _must(holds: bool, why: str, todo: str) -> None:
    if not holds:
        raise Refused(Reason.REPOSITORY_UNSUPPORTED, f"the repository cannot be described: {why}", todo=todo)
