"""Git that cannot be used against us: nothing of the repository runs, and nothing below `.git` changes."""

from __future__ import annotations

import ast
import os
import pty
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import sdaqf_tasks
from sdaqf_tasks.disk.repository import Limits, Repository
from sdaqf_tasks.errors import Reason, Refused
from tests.disk.worktree import WorkTree, committed, environment, everything_below


class Trap(NamedTuple):
    """A repository with a bait in it, and the bait: a program that leaves a witness."""

    tree: WorkTree
    bait: str

    @property
    def witness(self) -> Path:
        return self.tree.path.parent / "witness"

    def config(self, *pairs: str) -> None:
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            self.tree.git("config", key, value)

    def touched(self) -> None:
        """Make git look into the file to see whether it changed."""
        os.utime(self.tree.path / "a", ns=(1, 1))


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    tree = committed(tmp_path / "tree", a=b"one\n")
    tree.write("a", b"two\n")
    tree.commit(message="two")
    bait = tmp_path / "bait"
    bait.write_text(f"#!/bin/sh\n: > '{tmp_path}/witness'\nexit 1\n")
    bait.chmod(0o755)
    return Trap(tree, str(bait))


BAITS: list[Callable[[Trap], tuple[str, ...]]] = []


def bait(make: Callable[[Trap], tuple[str, ...]]) -> Callable[[Trap], tuple[str, ...]]:
    """One that sets a bait, and returns a plain git command that takes it."""
    BAITS.append(make)
    return make


@bait
def fsmonitor(trap: Trap) -> tuple[str, ...]:
    trap.config("core.fsmonitor", trap.bait)
    return ("status",)


@bait
def hooks_path(trap: Trap) -> tuple[str, ...]:
    hooks = trap.tree.path.parent / "hooks"
    hooks.mkdir()
    (hooks / "post-index-change").symlink_to(trap.bait)
    trap.config("core.hooksPath", str(hooks))
    trap.touched()
    return ("status",)


@bait
def hook(trap: Trap) -> tuple[str, ...]:
    hooks = trap.tree.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(trap.bait)
    trap.touched()
    return ("status",)


@bait
def clean_filter(trap: Trap) -> tuple[str, ...]:
    trap.tree.write(".gitattributes", b"* filter=bait\n")
    trap.config("filter.bait.clean", trap.bait)
    trap.touched()
    return ("status",)


@bait
def process_filter(trap: Trap) -> tuple[str, ...]:
    trap.tree.write(".git/info/attributes", b"* filter=bait\n")
    trap.config("filter.bait.process", trap.bait, "filter.bait.required", "true")
    trap.touched()
    return ("status",)


@bait
def smudge_filter(trap: Trap) -> tuple[str, ...]:
    trap.tree.write(".gitattributes", b"* filter=bait\n")
    trap.config("filter.bait.smudge", trap.bait)
    return ("cat-file", "--filters", "HEAD:a")


@bait
def textconv(trap: Trap) -> tuple[str, ...]:
    trap.tree.write(".gitattributes", b"* diff=bait\n")
    trap.config("diff.bait.textconv", trap.bait)
    return ("log", "-p")


@bait
def external_diff(trap: Trap) -> tuple[str, ...]:
    trap.config("diff.external", trap.bait)
    trap.tree.write("a", b"three\n")
    return ("diff",)


@bait
def diff_driver(trap: Trap) -> tuple[str, ...]:
    trap.tree.write(".gitattributes", b"* diff=bait\n")
    trap.config("diff.bait.command", trap.bait)
    trap.tree.write("a", b"three\n")
    return ("diff",)


@bait
def pager(trap: Trap) -> tuple[str, ...]:
    trap.config("core.pager", trap.bait)
    ours, theirs = pty.openpty()  # git asks for a terminal before it pages
    subprocess.run(["git", "log"], cwd=trap.tree.path, env=environment(TERM="vt100"), stdout=theirs, check=False)
    os.close(theirs)
    os.close(ours)
    return ("log",)


@bait
def alias(trap: Trap) -> tuple[str, ...]:
    for name in ("ls-files", "rev-list", "config", "log"):
        trap.config(f"alias.{name}", f"!{trap.bait}")
    trap.config("alias.bait", f"!{trap.bait}")
    return ("bait",)


@bait
def ssh_command(trap: Trap) -> tuple[str, ...]:
    trap.config("core.sshCommand", trap.bait, "remote.origin.url", "ssh://host.invalid/x")
    return ("fetch", "origin")


@bait
def git_proxy(trap: Trap) -> tuple[str, ...]:
    trap.config("core.gitProxy", trap.bait, "remote.origin.url", "git://host.invalid/x")
    return ("fetch", "origin")


@bait
def credential_helper(trap: Trap) -> tuple[str, ...]:
    trap.config("credential.helper", trap.bait)
    return ("credential", "fill")


@bait
def askpass(trap: Trap) -> tuple[str, ...]:
    trap.config("core.askPass", trap.bait)
    return ("credential", "fill")


@bait
def include(trap: Trap) -> tuple[str, ...]:
    (trap.tree.path / "included").write_text(f"[core]\n\tfsmonitor = {trap.bait}\n")
    trap.config("include.path", "../included")
    return ("status",)


@bait
def include_for_this_folder(trap: Trap) -> tuple[str, ...]:
    (trap.tree.path / "included").write_text(f"[core]\n\tfsmonitor = {trap.bait}\n")
    trap.config("includeIf.gitdir/i:**.path", "../included")
    return ("status",)


@bait
def work_tree_configuration(trap: Trap) -> tuple[str, ...]:
    trap.config("extensions.worktreeConfig", "true")
    trap.tree.git("config", "--worktree", "core.fsmonitor", trap.bait)
    return ("status",)


@bait
def alternate_refs_command(trap: Trap) -> tuple[str, ...]:
    other = committed(trap.tree.path.parent / "other")
    trap.tree.write(".git/objects/info/alternates", os.fsencode(other.path / ".git" / "objects") + b"\n")
    trap.config("core.alternateRefsCommand", trap.bait)
    return ("rev-list", "--alternate-refs")


@bait
def lazy_fetch(trap: Trap) -> tuple[str, ...]:
    blob = trap.tree.git("rev-parse", "HEAD:a").decode().strip()
    (trap.tree.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    trap.config("core.repositoryFormatVersion", "1", "extensions.partialClone", "origin", "remote.origin.promisor", "true")
    trap.config("remote.origin.url", f"ext::{trap.bait}", "protocol.ext.allow", "always")
    return ("show", "HEAD:a")


@bait
def signature(trap: Trap) -> tuple[str, ...]:
    commit = trap.tree.git("cat-file", "commit", "HEAD").replace(
        b"\n\n", b"\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END PGP SIGNATURE-----\n\n", 1
    )
    signed = trap.tree.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=commit).decode().strip()
    trap.tree.git("update-ref", "HEAD", signed)
    trap.config("gpg.program", trap.bait, "log.showSignature", "true")
    return ("log",)


@bait
def submodule_monitor(trap: Trap) -> tuple[str, ...]:
    _with_submodule(trap).git("config", "core.fsmonitor", trap.bait)
    return ("status",)


@bait
def submodule_filter(trap: Trap) -> tuple[str, ...]:
    inner = _with_submodule(trap)
    inner.git("config", "filter.bait.clean", trap.bait)
    inner.write(".gitattributes", b"* filter=bait\n")
    os.utime(inner.path / "a", ns=(1, 1))
    return ("status",)


@bait
def submodule_update(trap: Trap) -> tuple[str, ...]:
    _with_submodule(trap)
    trap.config("submodule.sub.update", f"!{trap.bait}", "submodule.recurse", "true")
    trap.tree.git("-C", "sub", "checkout", "-q", "HEAD~0")
    trap.tree.git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "ahead")
    return ("submodule", "update")


def _with_submodule(trap: Trap) -> WorkTree:
    committed(trap.tree.path.parent / "other")
    trap.tree.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub")
    trap.tree.git("commit", "-q", "-m", "sub")
    return WorkTree(trap.tree.path / "sub")


QUESTIONS = (
    ("log", "-p", "--stat", "HEAD"),
    ("show", "HEAD"),
    ("show", "HEAD:a"),
    ("cat-file", "-p", "HEAD"),
    ("rev-list", "--objects", "HEAD"),
    ("ls-tree", "-r", "HEAD"),
    ("diff-tree", "-p", "HEAD~1", "HEAD"),
    ("log", "--follow", "--name-status", "--", "a"),
)


def ask_everything(top: Path) -> None:
    with Repository(top) as repository:
        for _ in range(2):
            repository.observe()
            _or_failed(repository.modified)
        for question in QUESTIONS:
            _or_failed(lambda question=question: repository.history(*question))  # type: ignore[misc]


def _or_failed(question: Callable[[], object]) -> None:
    try:
        question()
    except Refused as refusal:
        assert refusal.reason is Reason.GIT_FAILED


class TestBaits:
    @pytest.mark.parametrize("make", BAITS, ids=lambda make: make.__name__.replace("_", " "))
    def test_what_plain_git_runs_we_do_not(self, trap: Trap, make: Callable[[Trap], tuple[str, ...]]) -> None:
        command = make(trap)
        trap.tree.git(*command, check=False, stdin=b"protocol=https\nhost=host.invalid\n\n")
        assert trap.witness.exists(), "the bait does not work"
        trap.witness.unlink()
        os.utime(trap.tree.path / "a", ns=(2, 2))
        before = everything_below(trap.tree.path)
        ask_everything(trap.tree.path)
        assert not trap.witness.exists()
        assert everything_below(trap.tree.path) == before

    ENVIRONMENT = (
        {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "{bait}"},
        {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor={bait}'"},
        {"GIT_CONFIG_GLOBAL": "{home}/.gitconfig"},
        {"GIT_CONFIG_GLOBAL": "", "HOME": "{home}"},
        {"GIT_CONFIG_SYSTEM": "{home}/.gitconfig", "GIT_CONFIG_NOSYSTEM": ""},
        {"GIT_EXTERNAL_DIFF": "{bait}"},
    )

    @pytest.mark.parametrize("variables", ENVIRONMENT, ids=" ".join)
    def test_what_the_environment_makes_plain_git_run_we_do_not(
        self, trap: Trap, variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = trap.tree.path.parent
        (home / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {trap.bait}\n")
        trap.tree.write("a", b"three\n")
        set_here = {name: value.format(bait=trap.bait, home=home) for name, value in variables.items()}
        for name, value in set_here.items():
            monkeypatch.setenv(name, value)
        kept = {name: value for name, value in os.environ.items() if name in set_here and value} | {"PATH": os.environ["PATH"]}
        for command in ("status", "diff"):
            subprocess.run(["git", command], cwd=trap.tree.path, env=kept, capture_output=True, check=False)
        assert trap.witness.exists(), "the bait does not work"
        trap.witness.unlink()
        ask_everything(trap.tree.path)
        assert not trap.witness.exists()


class TestTheGitDirectory:
    STATES: tuple[tuple[str, ...], ...] = (
        (),
        ("update-index", "--split-index"),
        ("update-index", "--force-untracked-cache"),
        ("update-index", "--index-version", "4"),
        ("pack-refs", "--all"),
        ("worktree", "add", "-q", "../linked"),
        ("sparse-checkout", "set", "--cone", "none"),
        ("sparse-checkout", "set", "--cone", "--sparse-index", "none"),
    )

    @pytest.mark.parametrize("state", STATES, ids=" ".join)
    def test_nothing_below_it_changes_where_plain_git_would_write(self, trap: Trap, state: tuple[str, ...]) -> None:
        trap.tree.write("deep/b/c", b"c")
        trap.tree.commit(message="three")
        if state:
            trap.tree.git(*state)
        trap.tree.write("d", b"staged, so that a tree of the index is not yet an object")
        trap.tree.git("add", "d")
        trap.touched()
        before = everything_below(trap.tree.path)
        ask_everything(trap.tree.path)
        assert everything_below(trap.tree.path) == before
        trap.tree.git("status")
        assert everything_below(trap.tree.path) != before

    def test_a_repository_that_cannot_be_written_is_observed(self, trap: Trap) -> None:
        for place in sorted(trap.tree.path.rglob("*"), reverse=True):
            if place.is_dir():
                place.chmod(stat.S_IRUSR | stat.S_IXUSR)
        ask_everything(trap.tree.path)
        for place in [place for place in trap.tree.path.rglob("*") if place.is_dir()]:
            place.chmod(stat.S_IRWXU)

    def test_the_private_copy_is_gone_afterwards_and_lies_outside(
        self, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inside = trap.tree.path / "tmp"
        inside.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(inside))
        with Repository(trap.tree.path) as repository:
            repository.observe()
            assert not list(inside.iterdir())
        outside = tmp_path / "outside"
        outside.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(outside))
        with Repository(trap.tree.path) as repository:
            repository.observe()
            (private,) = outside.iterdir()
            assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert not list(outside.iterdir())


def fake_git(folder: Path, body: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "git").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "git").chmod(0o755)


class TestTheProgram:
    @pytest.fixture
    def path(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
        yield lambda first: monkeypatch.setenv("PATH", first + os.pathsep + os.environ["PATH"])

    def refusal(self, tree: WorkTree, **limits: float) -> Refused:
        with pytest.raises(Refused) as refused, Repository(tree.path, limits=Limits(**limits)) as repository:  # type: ignore[arg-type]
            repository.observe()
        return refused.value

    def test_a_git_that_lies_inside_the_repository_is_refused(self, trap: Trap, path: Callable[[str], None]) -> None:
        fake_git(trap.tree.path / "bin", trap.bait)
        path(str(trap.tree.path / "bin"))
        assert self.refusal(trap.tree).reason is Reason.GIT_MISSING
        assert not trap.witness.exists()

    def test_a_link_to_a_git_inside_the_repository_is_refused(self, trap: Trap, path: Callable[[str], None], tmp_path: Path) -> None:
        fake_git(trap.tree.path / "bin", trap.bait)
        (tmp_path / "bin").symlink_to("tree/bin")
        path(str(tmp_path / "bin"))
        assert self.refusal(trap.tree).reason is Reason.GIT_MISSING

    @pytest.mark.parametrize("entry", ["", ".", "bin"])
    def test_relative_entries_of_the_path_are_passed_over(
        self, trap: Trap, entry: str, path: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake_git(trap.tree.path / "bin", trap.bait)
        fake_git(trap.tree.path, trap.bait)
        monkeypatch.chdir(trap.tree.path)
        path(entry)
        ask_everything(trap.tree.path)
        assert not trap.witness.exists()

    def test_entries_that_cannot_be_looked_into_are_passed_over(self, trap: Trap, path: Callable[[str], None]) -> None:
        """Here a name too long stands for a folder that is closed to us, which root never meets."""
        path(f"/{'x' * 300}")
        ask_everything(trap.tree.path)

    def test_without_git_the_refusal_says_so(self, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        refused = self.refusal(trap.tree)
        assert (refused.reason, refused.todo) == (Reason.GIT_MISSING, "Install git.")

    def test_a_git_that_takes_too_long_is_killed_with_all_that_it_started(
        self, trap: Trap, path: Callable[[str], None], tmp_path: Path
    ) -> None:
        fake_git(tmp_path / "bin", f"sleep 60 & echo $! > '{tmp_path}/child'; wait")
        path(str(tmp_path / "bin"))
        began = time.monotonic()
        refused = self.refusal(trap.tree, git_seconds=0.3)
        assert time.monotonic() - began < 5
        assert (refused.reason, refused.message) == (
            Reason.GIT_FAILED,
            "git config did not end within 0.3 seconds",
        )
        child = int((tmp_path / "child").read_text())
        deadline = time.monotonic() + 5
        while _alive(child) and time.monotonic() < deadline:
            os.sched_yield()
        assert not _alive(child)

    def test_a_git_that_says_too_much_is_killed(self, trap: Trap, path: Callable[[str], None], tmp_path: Path) -> None:
        fake_git(tmp_path / "bin", "exec yes")
        path(str(tmp_path / "bin"))
        refused = self.refusal(trap.tree)
        assert refused.reason is Reason.TREE_LIMIT

    def test_what_it_complains_of_counts_only_where_it_fails(self, trap: Trap, path: Callable[[str], None], tmp_path: Path) -> None:
        real = subprocess.run(["/bin/sh", "-c", "command -v git"], capture_output=True, check=True).stdout.decode().strip()
        fake_git(tmp_path / "bin", f'head -c 1000000 /dev/zero >&2; exec {real} "$@"')
        path(str(tmp_path / "bin"))
        ask_everything(trap.tree.path)
        fake_git(tmp_path / "bin", f"echo \"fatal: '{trap.tree.path}/x' and /etc/passwd: \033[31mbad\" >&2; exit 3")
        refused = self.refusal(trap.tree)
        assert (refused.reason, refused.message) == (Reason.GIT_FAILED, "git config failed: fatal: '…/x' and …: \\x1b[31mbad")


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class TestHistory:
    def test_only_questions_about_history_are_asked(self, trap: Trap) -> None:
        with Repository(trap.tree.path) as repository:
            assert repository.history("show", "HEAD~1:a") == b"one\n"
            assert repository.history("log", "--format=%s", "--", "a") == b"two\none\n"
            for question in (
                ("status",),
                ("gc",),
                ("log", "-p", "--ext-diff"),
                ("cat-file", "--textconv", "HEAD:a"),
                ("log", "--output=x"),
                ("log", "--outp=x"),
                ("log", "--o", "x"),
            ):
                with pytest.raises(ValueError, match="history"):
                    repository.history(*question)

    def test_a_path_is_meant_literally(self, trap: Trap) -> None:
        name = "[a]\udcff*\n"
        trap.tree.write(name, b"x")
        trap.tree.commit(message="odd")
        with Repository(trap.tree.path) as repository:
            assert repository.history("log", "--format=%s", "--", name) == b"odd\n"
            assert repository.history("log", "--format=%s", "--", "*") == b""

    def test_a_new_commit_is_seen(self, trap: Trap) -> None:
        with Repository(trap.tree.path) as repository:
            assert repository.history("rev-list", "--count", "HEAD") == b"2\n"
            trap.tree.git("commit", "-q", "--allow-empty", "-m", "three")
            assert repository.history("rev-list", "--count", "HEAD") == b"3\n"


class TestTheWorkTree:
    def test_the_names_that_differ_from_head_are_told(self, trap: Trap) -> None:
        with Repository(trap.tree.path) as repository:
            assert repository.modified() == ()
            trap.touched()
            assert repository.modified() == ()
        trap.tree.write("b", b"b")
        trap.tree.write("new")
        trap.tree.git("add", "b")
        (trap.tree.path / "a").unlink()
        with Repository(trap.tree.path) as repository:
            assert repository.modified() == ("a", "b", "new")

    def test_any_commits_time_is_told(self, trap: Trap) -> None:
        with Repository(trap.tree.path) as repository:
            assert repository.committed(trap.tree.head()) == "2026-01-01T00:00:00Z"
            with pytest.raises(Refused) as refused:
                repository.committed("e" * 40)
        assert refused.value.reason is Reason.GIT_FAILED


class TestNobodyElse:
    PACKAGE = Path(sdaqf_tasks.__file__).parent
    STARTING = frozenset(
        {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile", "execv", "execve", "execvp", "execvpe"}
    )

    def test_one_module_starts_programs_and_one_calls_it(self) -> None:
        for module in sorted(self.PACKAGE.rglob("*.py")):
            name = str(module.relative_to(self.PACKAGE))
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
                imported = {alias.name for alias in node.names} if isinstance(node, ast.Import | ast.ImportFrom) else set()
                origin = node.module if isinstance(node, ast.ImportFrom) else None
                if name != "disk/git.py":
                    assert not {"subprocess", "pty", "_posixsubprocess"} & {*imported, origin}, name
                    assert not (isinstance(node, ast.Attribute) and node.attr in self.STARTING), name
                if name not in ("disk/git.py", "disk/repository.py"):
                    assert "sdaqf_tasks.disk.git" not in {*imported, origin}, name
                    assert not (origin == "sdaqf_tasks.disk" and "git" in imported), name

    def test_observing_needs_no_descriptor_0_to_2(self, trap: Trap) -> None:
        code = (
            "import os, sys; [os.close(number) for number in (0, 1, 2)]; from pathlib import Path;"
            "from sdaqf_tasks.disk.repository import Repository\n"
            "with Repository(Path(sys.argv[1])) as repository: sys.exit(0 if repository.observe().files == ('a',) else 5)"
        )
        assert subprocess.run([sys.executable, "-c", code, trap.tree.path], check=False).returncode == 0
