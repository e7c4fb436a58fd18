"""The world of a commit: what was committed, without a checkout."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdaqf_tasks.disk.past import Past, converted
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Reason, Refused, Unreadable
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import SOURCE_BYTES, Observed, Sources
from tests.disk.worktree import WorkTree

HERE = RootScope.REPOSITORY
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    tree = WorkTree(tmp_path / "tree")
    for name, data in {"B/x.md": b"x\n", "a.md": b"old\n", "b.md": b"b\n", "gone.md": b"gone\n"}.items():
        tree.write(name, data)
    tree.link("link.md", "a.md")
    tree.gitlink("module")
    tree.git("add", "-A", "--", "a.md", "b.md", "gone.md", "link.md", "B")
    tree.git("commit", "-q", "-m", "one")
    return tree


@pytest.fixture
def repository(tree: WorkTree) -> Iterator[Repository]:
    with Repository(tree.path) as repository:
        yield repository


def observed(data: bytes) -> Observed:
    return Observed(data, hashlib.sha256(data).hexdigest().upper())


def reason(sources: Sources, path: str, limit: int = SOURCE_BYTES, scope: RootScope = HERE) -> tuple[Reason, str]:
    with pytest.raises(Unreadable) as refused:
        sources.read(scope, path, limit)
    return refused.value.reason, refused.value.where


def test_files_are_as_they_were_committed(tree: WorkTree, repository: Repository) -> None:
    first = tree.head()
    tree.write("a.md", b"new\n")
    tree.git("rm", "-q", "gone.md")
    second = tree.commit("a.md")
    tree.write("a.md", b"newest\n")
    old, new = Past(repository, first), Past(repository, second)
    assert (old.read(HERE, "a.md", 4), new.read(HERE, "a.md", 4)) == (observed(b"old\n"), observed(b"new\n"))
    assert old.read(HERE, "gone.md", SOURCE_BYTES) == observed(b"gone\n")
    assert reason(new, "gone.md") == (Reason.MISSING_OR_UNREADABLE, "gone.md")


def test_a_tree_is_that_of_the_commit_in_the_order_of_globs(tree: WorkTree, repository: Repository) -> None:
    tree.write("c.md", b"not committed\n")
    found = Past(repository, tree.head()).tree()
    assert (found.git_head, found.committed) == (tree.head(), "2026-01-01T00:00:00Z")
    assert found.files == ("a.md", "B/x.md", "b.md", "gone.md")
    assert (found.links, found.submodules, found.absent, found.untracked) == (("link.md",), ("module",), (), frozenset())


def test_its_digest_is_of_names_and_contents_and_is_asked_once(tree: WorkTree, repository: Repository) -> None:
    past = Past(repository, first := tree.head())
    assert past.tree() is past.tree()
    tree.write("a.md", b"new\n")
    second = tree.commit("a.md")
    assert past.tree().repository_digest == Past(repository, first).tree().repository_digest
    assert past.tree().repository_digest != Past(repository, second).tree().repository_digest


@pytest.mark.parametrize(("limit", "passes"), [(4, True), (3, False)])
def test_a_file_over_the_limit_is_not_read(limit: int, passes: bool, tree: WorkTree, repository: Repository) -> None:
    past = Past(repository, tree.head())
    if passes:
        assert past.read(HERE, "a.md", limit) == observed(b"old\n")
    else:
        assert reason(past, "a.md", limit) == (Reason.SOURCE_BYTE_LIMIT, "a.md")


@pytest.mark.parametrize("path", ["link.md", "module", "B", "missing.md", ".git/HEAD", "../tree/a.md", "a.md\nb.md"])
def test_only_regular_files_are_read(path: str, tree: WorkTree, repository: Repository) -> None:
    assert reason(Past(repository, tree.head()), path)[0] is Reason.MISSING_OR_UNREADABLE


def test_no_commit_holds_owner_files(tree: WorkTree, repository: Repository) -> None:
    assert reason(Past(repository, tree.head()), "a.md", scope=RootScope.OWNER) == (Reason.MISSING_OR_UNREADABLE, "a.md")


def test_what_is_excluded_from_the_tree_was_excluded_then(tree: WorkTree, repository: Repository) -> None:
    past = Past(repository, tree.head(), exclude=["*.md"])
    assert (past.tree().files, past.tree().links) == (("B/x.md",), ())
    assert reason(past, "a.md")[0] is Reason.MISSING_OR_UNREADABLE


def test_a_file_is_asked_of_git_once(tree: WorkTree, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    past = Past(repository, tree.head())
    once = past.read(HERE, "a.md", SOURCE_BYTES)
    monkeypatch.setattr(repository, "blobs", None)
    assert past.read(HERE, "a.md", 1_000) == once


def test_a_commit_that_is_none_is_refused(repository: Repository) -> None:
    with pytest.raises(Refused) as refused:
        Past(repository, "0" * 40)
    assert refused.value.reason is Reason.GIT_FAILED


class TestConverted:
    """Files of which git keeps other bytes than it writes are named; those that a person changed are not."""

    def found(self, tree: WorkTree, *paths: str) -> frozenset[str]:
        with Repository(tree.path) as repository:
            return converted(repository, paths)

    def test_a_file_as_it_was_committed_is_not(self, tree: WorkTree) -> None:
        assert self.found(tree, "a.md", "b.md") == frozenset()

    def test_a_file_that_was_edited_is_not(self, tree: WorkTree) -> None:
        tree.write("a.md", b"edited\n")
        assert self.found(tree, "a.md") == frozenset()

    def test_a_file_that_is_missing_or_new_is_not(self, tree: WorkTree) -> None:
        tree.write("new.md", b"new\n")
        tree.place("a.md").unlink()
        assert self.found(tree, "a.md", "new.md", "never.md") == frozenset()

    def test_line_ends_by_attribute(self, tree: WorkTree) -> None:
        tree.write(".gitattributes", b"*.md text eol=crlf\n")
        tree.commit(".gitattributes")
        tree.place("a.md").unlink()
        tree.git("checkout", "--", "a.md")
        assert tree.place("a.md").read_bytes() == b"old\r\n"
        assert self.found(tree, "a.md", "b.md") == {"a.md"}

    def test_line_ends_by_a_setting_that_is_not_read(self, tree: WorkTree) -> None:
        tree.git("config", "core.autocrlf", "true")
        tree.place("a.md").unlink()
        tree.git("checkout", "--", "a.md")
        assert self.found(tree, "a.md", "b.md") == {"a.md"}

    def test_an_encoding(self, tree: WorkTree) -> None:
        tree.write(".gitattributes", b"a.md text working-tree-encoding=UTF-16LE\n")
        tree.commit(".gitattributes")
        tree.place("a.md").unlink()
        tree.git("checkout", "--", "a.md")
        assert self.found(tree, "a.md") == {"a.md"}

    def test_a_pointer_of_git_lfs(self, tree: WorkTree) -> None:
        tree.write("a.md", POINTER)
        tree.commit("a.md")
        assert self.found(tree, "a.md") == frozenset()
        tree.write("a.md", b"the file itself\n")
        assert self.found(tree, "a.md") == {"a.md"}
