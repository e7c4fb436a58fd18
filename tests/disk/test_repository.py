"""The candidate of real repositories (FORMAT 4, PIPELINE 5)."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.repository import Limits, Repository, find_top
from sdaqf_tasks.errors import Invalid, Reason, Refused
from sdaqf_tasks.world import Tree
from tests.disk.worktree import WorkTree, committed, digest, everything_below, file, link
from tests.scenarios import SCENARIOS, bodies, load

EMPTY = "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"
A = file("a", b"a\n")


def observe(tree: WorkTree | Path, **options: Any) -> Tree:
    with Repository(tree.path if isinstance(tree, WorkTree) else tree, **options) as repository:
        return repository.observe()


def refused(tree: WorkTree | Path, **options: Any) -> Refused:
    """The refusal to observe, which changed nothing."""
    place = tree.path if isinstance(tree, WorkTree) else tree
    before = everything_below(place)
    with pytest.raises(Refused) as refusal:
        observe(place, **options)
    assert everything_below(place) == before
    assert str(place) not in str(refusal.value) + refusal.value.todo
    return refusal.value


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    return committed(tmp_path / "tree")


class TestFormula:
    def test_the_golden_digest(self, tmp_path: Path) -> None:
        tree = WorkTree(tmp_path / "tree")
        for name, data in {"A.txt": b"", "b.txt": b"b\n", "dir/z": b"1", "dir-x": b"2\r\n"}.items():
            tree.write(name, data)
        head = tree.commit()
        assert observe(tree) == Tree(
            head,
            "7EAA0A599CB62EA7CAB554FCE260A35CD1C61EBE81181AD47B835B9D07178635",
            "2026-01-01T00:00:00Z",
            ("A.txt", "b.txt", "dir/z", "dir-x"),
        )

    @pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
    def test_the_conformance_vectors(self, path: Path, tmp_path: Path) -> None:
        scenario = load(path)
        tree, commit = WorkTree(tmp_path / "tree"), scenario["repository"]["commit"]
        for name, data in bodies(scenario["repository"]["committed"]).items():
            tree.write(name, data)
        who = {
            f"GIT_{role.upper()}_{key}": value
            for role in ("author", "committer")
            for key, value in zip(("NAME", "EMAIL", "DATE"), (*commit[role].rstrip(">").split(" <"), commit["date"]), strict=True)
        }
        tree.git("add", ".")
        tree.git("commit", "-q", "-m", commit["message"], **who)
        for name, data in bodies(scenario["repository"]["untracked"]).items():
            tree.write(name, data)
        seen, candidate = observe(tree), scenario["manifest"]["content"]["candidate"]
        assert (seen.git_head, seen.repository_digest) == (candidate["git_head"], candidate["repository_digest"])
        assert seen.committed == commit["date"]

    def test_case_twins_stand_beside_each_other_the_exact_name_decides(self, tmp_path: Path) -> None:
        tree = committed(tmp_path / "tree", **{"a.txt": b"1", "A.txt": b"2", "B": b"3"})
        assert observe(tree).files == ("A.txt", "a.txt", "B")

    def test_bytes_are_those_of_the_work_tree_staged_or_not(self, tree: WorkTree) -> None:
        tree.write("a", b"staged")
        tree.git("add", "a")
        tree.write("a", b"not staged")
        assert observe(tree).repository_digest == digest(file("a", b"not staged"))

    def test_no_line_end_is_converted(self, tmp_path: Path) -> None:
        tree = WorkTree(tmp_path / "tree")
        tree.git("config", "core.autocrlf", "true")
        tree.write(".gitattributes", b"* text eol=crlf\n")
        tree.write("a", b"1\n2\r\n")
        tree.commit()
        assert observe(tree).repository_digest == digest(file(".gitattributes", b"* text eol=crlf\n"), file("a", b"1\n2\r\n"))

    def test_mode_and_time_do_not_count(self, tree: WorkTree) -> None:
        before = observe(tree).repository_digest
        (tree.path / "a").chmod(0o755)
        os.utime(tree.path / "a", ns=(1, 1))
        assert observe(tree).repository_digest == before == digest(A)

    def test_a_file_is_streamed_whatever_its_size(self, tree: WorkTree) -> None:
        data = bytes(range(256)) * 20_000
        tree.write("b", data)
        assert observe(tree).repository_digest == digest(A, file("b", data))


class TestWhatIsListed:
    def test_untracked_files_count_and_ignored_ones_do_not(self, tree: WorkTree) -> None:
        tree.write(".gitignore", b"/ignored\n")
        tree.write("ignored")
        tree.write("folder/.gitignore", b"*.log\n")
        tree.write("folder/x.log")
        tree.write("excluded")
        tree.write(".git/info/exclude", b"/excluded\n")
        seen = observe(tree)
        assert seen.files == (".gitignore", "a", "folder/.gitignore")
        assert seen.untracked == {".gitignore", "folder/.gitignore"}

    def test_a_tracked_file_counts_though_it_is_ignored(self, tree: WorkTree) -> None:
        tree.write(".git/info/exclude", b"*\n")
        assert observe(tree).files == ("a",)

    def test_the_configuration_does_not_change_what_is_listed(self, tree: WorkTree, tmp_path: Path) -> None:
        tree.write("mine.log")
        tree.write("MINE")
        tree.write(".gitignore", b"mine\n")
        (tmp_path / "patterns").write_bytes(b"*.log\n")
        tree.git("config", "core.excludesFile", str(tmp_path / "patterns"))
        tree.git("config", "core.ignoreCase", "true")
        assert observe(tree).files == (".gitignore", "a", "MINE", "mine.log")

    def test_the_users_configuration_and_environment_do_not_count(
        self, tree: WorkTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = committed(tmp_path / "other", b=b"other")
        (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
        (tmp_path / "home" / ".config" / "git" / "ignore").write_bytes(b"*.log\n")
        tree.write("mine.log")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
        monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
        monkeypatch.setenv("GIT_INDEX_FILE", str(other.path / ".git" / "index"))
        monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
        monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.excludesFile")
        monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(tmp_path / "home" / ".config" / "git" / "ignore"))
        assert observe(tree).files == ("a", "mine.log")

    def test_names_are_exact(self, tmp_path: Path) -> None:
        names = [
            b" leading",
            b"trailing ",
            b'quo"ted',
            b"back\\slash",
            b"new\nline",
            b"\xff\xfe",
            "日本 é".encode(),
            b"? b",
            b"H 1 2\tc",
            b"-x",
        ]
        tree = WorkTree(tmp_path / "tree")
        for name in names:
            tree.write(name, name)
        tree.commit(*names[:5])
        seen = observe(tree)
        assert sorted(os.fsencode(name) for name in seen.files) == sorted(names)
        assert {os.fsencode(name) for name in seen.untracked} == set(names[5:])
        assert seen.repository_digest == digest(*(file(name, os.fsencode(name)) for name in seen.files))

    NAME = st.binary(min_size=1, max_size=30).filter(
        lambda name: not {0, 47} & set(name) and name not in (b".", b"..", b"d", b"D") and not name.lower().startswith(b".git")
    )

    @settings(max_examples=25, deadline=None)
    @given(st.sets(st.tuples(st.sampled_from([b"", b"d/", b"D/e/"]), NAME).map(b"".join), min_size=1, max_size=8), st.data())
    def test_any_name_comes_back(self, names: set[bytes], data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            tree = WorkTree(Path(folder) / "tree")
            for name in names:
                tree.write(name, name)
            tracked = sorted(data.draw(st.sets(st.sampled_from(sorted(names)))))
            tree.git("commit", "-q", "--allow-empty", "-m", "none")
            if tracked:
                tree.git("update-index", "-z", "--add", "--stdin", stdin=b"\0".join(tracked))
            seen = observe(tree)
        assert {os.fsencode(name) for name in seen.files} == names
        assert {os.fsencode(name) for name in seen.untracked} == names - set(tracked)
        assert seen.repository_digest == digest(*(file(name, os.fsencode(name)) for name in seen.files))

    def test_a_file_in_conflict_is_listed_once(self, tree: WorkTree) -> None:
        blob = tree.git("hash-object", "-w", "a").decode().strip()
        entries = "".join(f"100644 {blob} {stage}\ta\n" for stage in (1, 2, 3))
        tree.git("update-index", "--index-info", stdin=f"0 {'0' * 40}\ta\n{entries}".encode())
        assert observe(tree) == Tree(tree.head(), digest(A), "2026-01-01T00:00:00Z", ("a",))


class TestEntries:
    def test_a_link_is_its_target_and_never_followed(self, tree: WorkTree) -> None:
        tree.link("b", "a")
        tree.link("c", b"\xff nowhere")
        tree.commit("b")
        seen = observe(tree)
        assert (seen.files, seen.links, seen.untracked) == (("a",), ("b", "c"), frozenset({"c"}))
        assert seen.repository_digest == digest(A, link("b", b"a"), link("c", b"\xff nowhere"))

    def test_a_link_to_a_folder_is_not_entered(self, tree: WorkTree, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (tmp_path / "outside" / "b").touch()
        tree.link("folder", "../outside")
        assert observe(tree).repository_digest == digest(A, link("folder", b"../outside"))

    def test_a_submodule_is_the_recorded_commit_and_not_entered(self, tree: WorkTree, tmp_path: Path) -> None:
        committed(tmp_path / "other", b=b"b")
        tree.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub")
        tree.write("sub/untracked")
        recorded = tree.git("rev-parse", ":sub").strip()
        modules = (tree.path / ".gitmodules").read_bytes()
        seen = observe(tree)
        assert (seen.files, seen.submodules) == ((".gitmodules", "a"), ("sub",))
        assert seen.repository_digest == digest(file(".gitmodules", modules), A, ("sub", "gitlink:40", recorded))

    @pytest.mark.parametrize("folder", [True, False])
    def test_a_submodule_that_is_not_checked_out_is_still_its_commit(self, tree: WorkTree, folder: bool) -> None:
        tree.gitlink("sub", "d" * 40)
        if folder:
            (tree.path / "sub").mkdir()
        assert observe(tree).repository_digest == digest(A, ("sub", "gitlink:40", b"d" * 40))

    def test_a_file_in_the_place_of_a_submodule_is_that_file(self, tree: WorkTree) -> None:
        tree.gitlink("sub")
        tree.write("sub", b"text")
        assert observe(tree).repository_digest == digest(A, file("sub", b"text"))

    def test_a_tracked_file_that_is_gone_is_absent(self, tree: WorkTree) -> None:
        (tree.path / "a").unlink()
        seen = observe(tree)
        assert (seen.files, seen.absent, seen.repository_digest) == ((), ("a",), digest(("a", "absent:0", b"")))

    def test_a_deletion_that_is_staged_is_no_entry(self, tree: WorkTree) -> None:
        tree.write("b", b"b")
        tree.commit()
        tree.git("rm", "-q", "a")
        assert observe(tree).repository_digest == digest(file("b", b"b"))

    def test_a_sparse_checkout_has_absent_files(self, tree: WorkTree) -> None:
        tree.write("in/b", b"b")
        tree.write("out/c", b"c")
        tree.commit()
        for arguments in (("--cone",), ("--cone", "--sparse-index")):
            tree.git("sparse-checkout", "set", *arguments, "in")
            tree.gitlink("out/sub")
            submodule = ("out/sub", "gitlink:40", b"c" * 40)
            assert observe(tree).repository_digest == digest(A, file("in/b", b"b"), ("out/c", "absent:0", b""), submodule)
            tree.git("rm", "-q", "--cached", "--sparse", "out/sub")

    def test_a_folder_in_the_place_of_a_file_makes_it_absent(self, tree: WorkTree) -> None:
        (tree.path / "a").unlink()
        tree.write("a/b", b"b")
        assert observe(tree).repository_digest == digest(("a", "absent:0", b""), file("a/b", b"b"))

    def test_what_lies_behind_a_link_is_absent_and_never_read_through(self, tree: WorkTree) -> None:
        tree.write("folder/b", b"b")
        tree.commit()
        (tree.path / "folder").rename(tree.path.parent / "moved")
        tree.link("folder", "../moved")
        assert observe(tree).repository_digest == digest(A, link("folder", b"../moved"), ("folder/b", "absent:0", b""))

    def test_a_file_above_makes_what_was_below_absent(self, tree: WorkTree) -> None:
        tree.write("folder/b", b"b")
        tree.commit()
        shutil.rmtree(tree.path / "folder")
        tree.write("folder", b"f")
        assert observe(tree).repository_digest == digest(A, file("folder", b"f"), ("folder/b", "absent:0", b""))

    def test_a_tracked_path_that_is_now_a_fifo_is_refused_by_name(self, tree: WorkTree) -> None:
        (tree.path / "a").unlink()
        os.mkfifo(tree.path / "a")
        refusal = refused(tree)
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, "a")

    def test_untracked_fifos_and_sockets_are_no_part(self, tree: WorkTree) -> None:
        os.mkfifo(tree.path / "fifo")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(tree.path / "socket"))
            assert observe(tree).repository_digest == digest(A)

    def test_a_repository_inside_the_tree_is_refused_by_name_unless_it_is_ignored_or_excluded(self, tree: WorkTree) -> None:
        committed(tree.path / "inner" / "one")
        refusal = refused(tree)
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, "inner/one")
        assert observe(tree, exclude=["inner/**"]).files == ("a",)
        assert observe(tree, exclude_untracked=True).files == ("a",)
        tree.write(".git/info/exclude", b"inner/\n")
        assert observe(tree).repository_digest == digest(A)

    def test_a_submodule_in_conflict_is_refused(self, tree: WorkTree) -> None:
        tree.git("update-index", "--index-info", stdin=b"".join(b"160000 %b %d\tsub\n" % (b"c" * 40, stage) for stage in (1, 2)))
        refusal = refused(tree)
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, "sub")

    def test_a_file_that_may_not_be_read_is_refused_by_name(self, tree: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.open

        def closed(name: Any, *arguments: Any, **named: Any) -> int:
            if name == b"a":
                raise PermissionError(13, "Permission denied")
            return real(name, *arguments, **named)

        monkeypatch.setattr(os, "open", closed)  # root may read everything
        refusal = refused(tree)
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, "a")

    def test_an_index_that_names_the_git_directory_is_refused(self, tree: WorkTree) -> None:
        index = tree.path / ".git" / "index"
        tree.write("xgit/config", b"")
        tree.git("add", "xgit/config")
        forged = index.read_bytes()[:-20].replace(b"xgit/config", b".git/config")
        index.write_bytes(forged + hashlib.sha1(forged).digest())
        assert refused(tree).reason in (Reason.TREE_ENTRY, Reason.GIT_FAILED)


class TestFallback:
    """With nothing tracked and nothing untracked, all files count but those below well-known folders (FORMAT 4.3, step 1)."""

    @pytest.fixture
    def bare_tree(self, tmp_path: Path) -> WorkTree:
        tree = WorkTree(tmp_path / "tree")
        tree.git("commit", "-q", "--allow-empty", "-m", "none")
        tree.write(".git/info/exclude", b"*\n")
        return tree

    def test_an_empty_tree_has_the_digest_of_nothing(self, bare_tree: WorkTree) -> None:
        assert observe(bare_tree) == Tree(bare_tree.head(), EMPTY, "2026-01-01T00:00:00Z", ())

    def test_all_files_and_links_count_but_those_left_out(self, bare_tree: WorkTree) -> None:
        for name in ("b", ".hidden/c", "builds/d", "x/build/e", "dist", ".venv/f", "x/__pycache__/g", ".sdaqf/h"):
            bare_tree.write(name, name.encode())
        bare_tree.link("link", ".hidden")
        seen = observe(bare_tree)
        assert seen.files == (".hidden/c", "b", "builds/d")
        assert seen.untracked == {".hidden/c", "b", "builds/d", "link"}
        assert seen.repository_digest == digest(
            file(".hidden/c", b".hidden/c"), file("b", b"b"), file("builds/d", b"builds/d"), link("link", b".hidden")
        )

    def test_one_file_that_git_would_list_ends_it(self, bare_tree: WorkTree) -> None:
        bare_tree.write("b")
        bare_tree.write(".git/info/exclude", b"b\n")
        bare_tree.write("c")
        assert observe(bare_tree).files == ("c",)

    def test_patterns_apply_after_the_decision(self, bare_tree: WorkTree) -> None:
        bare_tree.write("b", b"b")
        bare_tree.write("c", b"c")
        assert observe(bare_tree, exclude=["b"]).repository_digest == digest(("", "exclude:1", b"b"), file("c", b"c"))
        bare_tree.commit("b")
        assert observe(bare_tree, exclude=["b"]).repository_digest == digest(("", "exclude:1", b"b"))


class TestExcluding:
    def test_patterns_leave_paths_out_and_mark_the_digest(self, tree: WorkTree) -> None:
        tree.write("large/b", b"b")
        tree.write("é", b"e")
        seen = observe(tree, exclude=["é", "large/**"])
        assert seen.files == ("a",)
        assert seen.repository_digest == digest(("", "exclude:11", "large/**\né".encode()), A)

    def test_a_pattern_that_matches_nothing_marks_the_digest_all_the_same(self, tree: WorkTree) -> None:
        assert observe(tree, exclude=["none"]).repository_digest == digest(("", "exclude:4", b"none"), A)

    def test_neither_order_nor_repetition_of_patterns_counts(self, tree: WorkTree) -> None:
        one, other = (observe(tree, exclude=patterns).repository_digest for patterns in (["b", "c"], ["c", "b", "c"]))
        assert one == other == digest(("", "exclude:3", b"b\nc"), A)

    @pytest.mark.parametrize("options", [{"exclude_untracked": True}, {"exclude": ["untracked:"]}])
    def test_untracked_files_are_left_out_where_that_is_asked_for(self, tree: WorkTree, options: dict[str, Any]) -> None:
        tree.write("b", b"b")
        assert observe(tree, **options).repository_digest == digest(("", "exclude:10", b"untracked:"), A)

    def test_an_excluded_path_is_not_even_looked_at(self, tree: WorkTree) -> None:
        (tree.path / "a").unlink()
        os.mkfifo(tree.path / "a")
        assert observe(tree, exclude=["a"]).files == ()

    def test_a_pattern_that_is_none_is_refused(self, tree: WorkTree) -> None:
        with pytest.raises(Invalid) as refusal:
            observe(tree, exclude=["vendor/"])
        assert refusal.value.reason is Reason.SETTINGS_INVALID


class TestLimits:
    CASES = (
        ({"files": 2}, {"files": 1}, "the tree has 2 entries; limits.files is 1"),
        ({"file_bytes": 5}, {"file_bytes": 4}, "with this file it is 5 bytes; limits.file_bytes is 4"),
        ({"total_bytes": 7}, {"total_bytes": 6}, "with this file it is 7 bytes; limits.total_bytes is 6"),
    )

    @pytest.mark.parametrize(("enough", "too_little", "message"), CASES)
    def test_the_last_that_fits_and_the_first_that_does_not(
        self, tree: WorkTree, enough: dict[str, int], too_little: dict[str, int], message: str
    ) -> None:
        tree.write("b", b"12345")
        assert observe(tree, limits=Limits(**enough)).files == ("a", "b")
        refusal = refused(tree, limits=Limits(**too_little))
        assert (refusal.reason, refusal.message, refusal.where) == (Reason.TREE_LIMIT, message, "" if "files" in enough else "b")

    def test_a_sparse_file_of_a_tebibyte_is_refused_at_once(self, tree: WorkTree) -> None:
        with (tree.path / "b").open("wb") as sparse:
            sparse.truncate(1 << 40)
        with pytest.raises(Refused) as refusal:
            observe(tree)
        assert (refusal.value.reason, refusal.value.where) == (Reason.TREE_LIMIT, "b")


KINDS: list[Callable[[WorkTree], None]] = []


def kind(make: Callable[[WorkTree], None]) -> Callable[[WorkTree], None]:
    """One that keeps the same tree in another way."""
    KINDS.append(make)
    return make


@kind
def detached(tree: WorkTree) -> None:
    tree.git("checkout", "-q", "--detach")


@kind
def packed_refs(tree: WorkTree) -> None:
    tree.git("pack-refs", "--all", "--prune")
    assert not (tree.path / ".git/refs/heads/main").exists()


@kind
def packed_objects(tree: WorkTree) -> None:
    tree.git("repack", "-q", "-a", "-d")


@kind
def branch_below_a_branch(tree: WorkTree) -> None:
    tree.git("checkout", "-q", "-b", "über#+@/x")
    tree.git("pack-refs", "--all", "--prune")


@kind
def chain_of_symbolic_refs(tree: WorkTree) -> None:
    tree.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    tree.git("symbolic-ref", "HEAD", "refs/heads/alias")


@kind
def head_as_a_link(tree: WorkTree) -> None:
    (tree.path / ".git" / "HEAD").unlink()
    (tree.path / ".git" / "HEAD").symlink_to("refs/heads/main")
    packed_refs_by_hand(tree)


@kind
def packed_refs_by_hand(tree: WorkTree) -> None:
    loose = tree.path / ".git/refs/heads/main"
    other = tree.git("rev-parse", "HEAD^{tree}").strip()
    names = [(other, b"a/refs/heads/main"), (other, b"heads/main-2"), (loose.read_bytes().strip(), b"heads/main"), (other, b"tags/main")]
    lines = [b"# pack-refs with: peeled", *(commit + b" refs/" + name for commit, name in names)]
    (tree.path / ".git/packed-refs").write_bytes(b"\n".join([*lines, b""]))
    loose.unlink()


@kind
def split_index(tree: WorkTree) -> None:
    tree.git("config", "core.splitIndex", "true")
    tree.git("update-index", "--split-index")
    tree.write("b", b"b")
    tree.git("add", "b")
    tree.git("reset", "-q", "--", "b")
    (tree.path / "b").unlink()
    assert list((tree.path / ".git").glob("sharedindex.*"))


@kind
def index_of_version_4(tree: WorkTree) -> None:
    tree.git("update-index", "--index-version", "4")


@kind
def untracked_cache(tree: WorkTree) -> None:
    tree.git("update-index", "--force-untracked-cache")
    tree.git("status")


@kind
def index_lock(tree: WorkTree) -> None:
    tree.write(".git/index.lock")


@kind
def assumed_unchanged(tree: WorkTree) -> None:
    tree.git("update-index", "--assume-unchanged", "a")


@kind
def partial_clone(tree: WorkTree) -> None:
    tree.git("config", "core.repositoryFormatVersion", "1")
    tree.git("config", "extensions.partialClone", "origin")


@kind
def worktree_config(tree: WorkTree) -> None:
    tree.git("config", "extensions.worktreeConfig", "true")
    tree.git("config", "--worktree", "core.sparseCheckout", "false")


@kind
def git_directory_as_a_link(tree: WorkTree) -> None:
    (tree.path / ".git").rename(tree.path.parent / "git")
    (tree.path / ".git").symlink_to("../git")


@kind
def git_directory_elsewhere(tree: WorkTree) -> None:
    (tree.path / ".git").rename(tree.path.parent / "git")
    (tree.path / ".git").write_bytes(b"gitdir: ../git\n")


@kind
def no_configuration(tree: WorkTree) -> None:
    (tree.path / ".git" / "config").unlink()


class TestKindsOfRepositories:
    @pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__.replace("_", " "))
    def test_however_it_is_kept_the_candidate_is_the_same(self, tree: WorkTree, make: Callable[[WorkTree], None]) -> None:
        before = observe(tree)
        make(tree)
        assert observe(tree) == before

    def test_a_linked_work_tree(self, tree: WorkTree, tmp_path: Path) -> None:
        tree.git("worktree", "add", "-q", "-b", "other", "../linked")
        linked = WorkTree(tmp_path / "linked")
        linked.write("b", b"b")
        assert linked.commit() != tree.head()
        seen = observe(linked)
        assert (seen.git_head, seen.repository_digest) == (linked.head(), digest(A, file("b", b"b")))
        assert observe(tree).repository_digest == digest(A)

    def test_a_linked_work_tree_of_a_bare_repository(self, tree: WorkTree, tmp_path: Path) -> None:
        tree.git("clone", "-q", "--bare", ".", "../bare")
        tree.git("--git-dir=../bare", "worktree", "add", "-q", "../linked", "main")
        assert observe(tmp_path / "linked") == observe(tree)

    def test_a_shallow_clone_and_a_clone_with_alternates(self, tree: WorkTree, tmp_path: Path) -> None:
        tree.write("b", b"b")
        tree.commit(message="two")
        tree.git("clone", "-q", "--depth=1", f"file://{tree.path}", "../shallow")
        tree.git("clone", "-q", "--shared", ".", "../shared")
        assert observe(tmp_path / "shallow") == observe(tmp_path / "shared") == observe(tree)
        with Repository(tmp_path / "shallow") as shallow:
            assert shallow.history("rev-list", "--count", "HEAD") == b"1\n"
        with Repository(tmp_path / "shared") as shared:
            assert shared.history("rev-list", "--count", "HEAD") == b"2\n"

    def test_alternates_inside_the_project(self, tree: WorkTree) -> None:
        before = observe(tree)
        objects = tree.path / ".git" / "objects"
        objects.rename(tree.path / ".git" / "store")
        (objects / "info").mkdir(parents=True)
        (objects / "info" / "alternates").write_bytes(b"../store\n")
        assert observe(tree) == before

    def test_the_work_tree_of_a_submodule(self, tree: WorkTree, tmp_path: Path) -> None:
        committed(tmp_path / "other", b=b"b")
        tree.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../other", "sub")
        assert observe(tree.path / "sub").repository_digest == digest(file("b", b"b"))

    def test_a_root_with_spaces_and_other_letters(self, tmp_path: Path) -> None:
        assert observe(committed(tmp_path / " é $(x) ")).repository_digest == digest(A)

    def test_a_root_reached_through_a_link(self, tree: WorkTree, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        assert observe(tmp_path / "link" / "tree") == observe(tree)

    def test_a_missing_index_tracks_nothing(self, tree: WorkTree) -> None:
        (tree.path / ".git" / "index").unlink()
        seen = observe(tree)
        assert (seen.repository_digest, seen.untracked) == (digest(A), frozenset({"a"}))

    @pytest.mark.parametrize(
        ("date", "time"),
        [
            ("@0 +0000", "1970-01-01T00:00:00Z"),
            ("2026-01-01T00:00:00-11:30", "2026-01-01T11:30:00Z"),
            ("@253402300799 +0000", "9999-12-31T23:59:59Z"),
            ("@253402300800 +0000", "9999-12-31T23:59:59Z"),
        ],
    )
    def test_the_committers_time_is_given_in_utc(self, tree: WorkTree, date: str, time: str) -> None:
        tree.git("commit", "-q", "--allow-empty", "-m", "x", GIT_COMMITTER_DATE=date)
        assert observe(tree).committed == time


class TestRefusals:
    def test_head_without_a_commit(self, tmp_path: Path) -> None:
        assert refused(WorkTree(tmp_path / "tree")).reason is Reason.REPOSITORY_UNBORN

    def test_a_head_whose_commit_is_missing(self, tree: WorkTree) -> None:
        tree.write(".git/refs/heads/main", b"e" * 40 + b"\n")
        refusal = refused(tree)
        assert refusal.reason is Reason.GIT_FAILED
        assert "e" * 40 in refusal.message

    @pytest.mark.parametrize(
        "head", [b"", b"nonsense", b"ref: refs/../../secret", b"ref: /etc/passwd", b"ref: HEAD", b"ref: refs/heads/\n/x"]
    )
    def test_a_head_that_leads_nowhere(self, tree: WorkTree, head: bytes) -> None:
        tree.write(".git/HEAD", head)
        assert refused(tree).reason is Reason.GIT_FAILED

    def test_a_circle_of_symbolic_refs(self, tree: WorkTree) -> None:
        tree.write(".git/refs/heads/main", b"ref: refs/heads/main\n")
        assert refused(tree).reason is Reason.GIT_FAILED

    def test_a_git_directory_with_fifos_blocks_nobody(self, tree: WorkTree) -> None:
        for name in ("HEAD", "config", "index", "info/exclude"):
            place = tree.path / ".git" / name
            place.rename(tree.path / ".git" / "kept")
            os.mkfifo(place)
            assert refused(tree).reason is Reason.GIT_FAILED
            (tree.path / ".git" / "kept").rename(place)
        assert observe(tree).repository_digest == digest(A)

    def test_a_fifo_that_git_waits_for_is_given_up(self, tree: WorkTree) -> None:
        os.mkfifo(tree.path / ".gitignore")
        refusal = refused(tree, limits=Limits(git_seconds=0.3))
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, ".gitignore")

    def test_a_fifo_that_git_waits_for_is_named_long_before_the_limit(self, tree: WorkTree) -> None:
        """Also below folders of which git knows nothing."""
        tree.write("deep/er/x", b"x")
        os.mkfifo(tree.path / "deep" / "er" / ".gitignore")
        refusal = refused(tree, limits=Limits(git_seconds=600))
        assert (refusal.reason, refusal.where) == (Reason.TREE_ENTRY, "deep/er/.gitignore")

    @pytest.mark.parametrize("place", ["bare", "clone"])
    def test_a_bare_repository(self, tree: WorkTree, tmp_path: Path, place: str) -> None:
        tree.git("clone", "-q", "--bare", ".", "../bare")
        tree.git("clone", "-q", ".", "../clone")
        WorkTree(tmp_path / "clone").git("config", "core.bare", "true")
        assert refused(tmp_path / place).reason is Reason.REPOSITORY_UNSUPPORTED

    def test_sha_256_objects(self, tmp_path: Path) -> None:
        tree = WorkTree(tmp_path / "tree", init=("--object-format=sha256",))
        tree.write("a")
        tree.commit()
        refusal = refused(tree)
        assert (refusal.reason, "SHA-1" in refusal.message) == (Reason.REPOSITORY_UNSUPPORTED, True)

    @pytest.mark.parametrize("key", ["refStorage=reftable", "unknown=true", "objectFormat=sha256", "compatObjectFormat=sha256"])
    @pytest.mark.parametrize("version", ["0", "1"])
    def test_extensions_that_are_not_known(self, tree: WorkTree, key: str, version: str) -> None:
        name, _, value = key.partition("=")
        config = f"[core]\n\trepositoryFormatVersion = {version}\n[extensions]\n\t{name} = {value}\n"
        tree.write(".git/config", config.encode())
        assert refused(tree).reason is Reason.REPOSITORY_UNSUPPORTED

    def test_an_unknown_format_version(self, tree: WorkTree) -> None:
        tree.write(".git/config", b"[core]\n\trepositoryFormatVersion = 2\n")
        assert refused(tree).reason is Reason.REPOSITORY_UNSUPPORTED

    def test_a_configuration_that_git_cannot_read(self, tree: WorkTree) -> None:
        tree.write(".git/config", b"[core\n")
        assert refused(tree).reason is Reason.GIT_FAILED

    def test_a_work_tree_that_is_said_to_be_elsewhere(self, tree: WorkTree) -> None:
        tree.git("config", "core.worktree", "/")
        assert refused(tree).reason is Reason.REPOSITORY_UNSUPPORTED

    def test_a_folder_below_the_top_names_the_way_up(self, tree: WorkTree) -> None:
        (tree.path / "b" / "c").mkdir(parents=True)
        refusal = refused(tree.path / "b" / "c")
        assert (refusal.reason, refusal.todo) == (Reason.NOT_A_REPOSITORY, "Give its top, which is ../.. from here.")

    def test_a_folder_without_git_and_one_that_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "empty" / ".git").mkdir(parents=True)
        (tmp_path / "wrong").mkdir()
        (tmp_path / "wrong" / ".git").write_bytes(b"nonsense")
        (tmp_path / "lost").mkdir()
        (tmp_path / "lost" / ".git").write_bytes(b"gitdir: ../nowhere\n")
        for name in ("folder", "empty", "wrong", "lost", "missing"):
            assert refused(tmp_path / name).reason is Reason.NOT_A_REPOSITORY

    def test_a_root_that_is_a_link(self, tree: WorkTree, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to("tree")
        assert refused(tmp_path / "link").reason is Reason.ROOT_IS_A_LINK

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away: run as root")
    @pytest.mark.parametrize("owned", ["", ".git"])
    def test_a_foreign_owner_unless_it_is_allowed_by_number(self, tree: WorkTree, owned: str, monkeypatch: pytest.MonkeyPatch) -> None:
        os.chown(tree.path / owned, 12345, -1)
        refusal = refused(tree)
        assert (refusal.reason, refusal.todo) == (Reason.FOREIGN_OWNER, "If you trust it, set SDAQF_ALLOW_OWNER=12345.")
        for other in ("1234", "123456", "*", ""):
            monkeypatch.setenv("SDAQF_ALLOW_OWNER", other)
            assert refused(tree).reason is Reason.FOREIGN_OWNER
        monkeypatch.setenv("SDAQF_ALLOW_OWNER", "12345")
        assert observe(tree).repository_digest == digest(A)


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[bytes | Path]:
    """The names of the files that were read, as it goes."""
    names: list[bytes | Path] = []
    real = files.File.__init__

    def opened(self: files.File, name: bytes | Path, folder: int | None = None) -> None:
        names.append(name)
        real(self, name, folder)

    monkeypatch.setattr(files.File, "__init__", opened)
    return names


class TestObservingAgain:
    @pytest.fixture
    def repository(self, tree: WorkTree, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
        """A repository that believes every time stamp at once."""
        monkeypatch.setattr(files, "SETTLED_NS", 0)
        tree.write("folder/b", b"b")
        tree.link("link", "a")
        with Repository(tree.path) as repository:
            yield repository

    def test_a_tree_that_is_unchanged_is_not_read_again(self, repository: Repository, hashed: list[bytes | Path]) -> None:
        first = repository.observe()
        assert sorted(hashed, key=str) == [b"a", b"b"]
        assert repository.observe() == first
        assert len(hashed) == 2

    def test_time_stamps_younger_than_two_seconds_are_not_believed(self, tree: WorkTree, hashed: list[bytes | Path]) -> None:
        with Repository(tree.path) as repository:
            repository.observe()
            repository.observe()
        assert hashed == [b"a", b"a"]

    CHANGES: tuple[tuple[str, Callable[[WorkTree], object]], ...] = (
        ("bytes", lambda tree: tree.write("a", b"x\n")),
        ("bytes under a restored time", lambda tree: os.utime(tree.write("a", b"x\n"), ns=(1, 1))),
        ("a new file", lambda tree: tree.write("c")),
        ("a file less", lambda tree: (tree.path / "folder" / "b").unlink()),
        ("another link", lambda tree: tree.link("new", "b").replace(tree.path / "link")),
        ("a link instead of a file", lambda tree: tree.link("new", "b").replace(tree.path / "a")),
        ("a folder behind a link", lambda tree: ((tree.path / "folder").rename(tree.path / "other"), tree.link("folder", "other"))),
        ("a pattern", lambda tree: tree.write(".git/info/exclude", b"folder/\n")),
        ("a submodule", lambda tree: tree.gitlink("sub")),
        ("a commit", lambda tree: tree.commit(message="two")),
        ("a branch", lambda tree: tree.git("checkout", "-q", "-b", "other")),
        ("a file untracked", lambda tree: tree.git("rm", "-q", "--cached", "a")),
        ("an unsupported extension", lambda tree: tree.git("config", "extensions.unknown", "1")),
    )

    @pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
    def test_every_change_is_seen_as_a_new_process_would_see_it(
        self, repository: Repository, tree: WorkTree, change: Callable[[WorkTree], object]
    ) -> None:
        os.utime(tree.path / "a", ns=(1, 1))
        repository.observe()
        change(tree)
        try:
            expected: object = observe(tree)
        except Refused as refusal:
            with pytest.raises(Refused) as again:
                repository.observe()
            assert again.value.reason is refusal.reason
        else:
            assert repository.observe() == expected

    def test_what_can_be_seen_again_after_a_refusal_is_seen(self, repository: Repository, tree: WorkTree) -> None:
        first = repository.observe()
        committed(tree.path / "inner")
        with pytest.raises(Refused):
            repository.observe()
        shutil.rmtree(tree.path / "inner")
        assert repository.observe() == first

    def test_a_root_that_was_replaced_is_refused(self, repository: Repository, tree: WorkTree) -> None:
        repository.observe()
        tree.path.rename(tree.path.parent / "moved")
        shutil.copytree(tree.path.parent / "moved", tree.path, symlinks=True)
        with pytest.raises(Refused) as refusal:
            repository.observe()
        assert refusal.value.reason is Reason.CANDIDATE_MOVED

    def test_a_file_that_changes_while_it_is_hashed_is_refused_by_name(
        self, tree: WorkTree, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read = os.read

        def writing(descriptor: int, length: int) -> bytes:
            if length == 2 and (tree.path / "folder" / "b").stat().st_size == 1:
                tree.write("folder/b", b"bb")
            return read(descriptor, length)

        monkeypatch.setattr(os, "read", writing)
        with pytest.raises(Refused) as refusal:
            repository.observe()
        assert (refusal.value.reason, refusal.value.where) == (Reason.CANDIDATE_MOVED, "folder/b")


class TestFindingTheTop:
    def test_the_nearest_folder_with_a_git_directory(self, tree: WorkTree) -> None:
        (tree.path / "b" / "c").mkdir(parents=True)
        (tree.path / "b" / ".git").mkdir()
        assert find_top(tree.path / "b" / "c") == find_top(tree.path) == tree.path

    def test_the_top_of_a_linked_work_tree(self, tree: WorkTree, tmp_path: Path) -> None:
        tree.git("worktree", "add", "-q", "../linked")
        (tmp_path / "linked" / "b").mkdir()
        assert find_top(tmp_path / "linked" / "b") == tmp_path / "linked"

    def test_there_is_none(self, tmp_path: Path) -> None:
        with pytest.raises(Refused) as refusal:
            find_top(tmp_path)
        assert refusal.value.reason is Reason.NOT_A_REPOSITORY

    def test_a_folder_that_cannot_be_looked_into(self, tree: WorkTree) -> None:
        """Whether it is a top is not known, so none above it is taken. A name too long stands for a folder closed to us."""
        with pytest.raises(Refused) as refusal:
            find_top(tree.path / ("x" * 300))
        assert refusal.value.reason is Reason.NOT_A_REPOSITORY
        assert "cannot be seen" in refusal.value.message
