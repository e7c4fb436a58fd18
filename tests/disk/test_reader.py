"""One pass: a file is read once, and everybody sees the same bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from sdaqf_tasks.disk import reader
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Reason, Unreadable
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import REFERENCE_BYTES, SOURCE_BYTES, Observed, Sources
from tests.disk.worktree import WorkTree, committed

REPOSITORY, OWNER = RootScope.REPOSITORY, RootScope.OWNER


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "a").write_bytes(b"owner's")
    return committed(tmp_path / "tree")


@pytest.fixture
def one_pass(tree: WorkTree, tmp_path: Path) -> Iterator[Reader]:
    with Repository(tree.path) as repository, Root(tmp_path / "owner") as owner:
        yield Reader(repository, owner)


def reason(sources: Sources, path: str, limit: int = SOURCE_BYTES, scope: RootScope = REPOSITORY) -> Reason:
    with pytest.raises(Unreadable) as refused:
        sources.read(scope, path, limit)
    assert refused.value.where == path
    return refused.value.reason


def test_each_scope_has_its_own_files(one_pass: Reader) -> None:
    assert one_pass.read(REPOSITORY, "a", 100) == Observed(b"a\n", hashlib.sha256(b"a\n").hexdigest().upper())
    assert one_pass.read(OWNER, "a", 100).data == b"owner's"


def test_without_an_owner_root_its_files_are_missing(tree: WorkTree) -> None:
    with Repository(tree.path) as repository:
        assert reason(Reader(repository), "a", scope=OWNER) is Reason.MISSING_OR_UNREADABLE


def test_the_tree_is_asked_anew_each_time(one_pass: Reader, tree: WorkTree) -> None:
    assert one_pass.tree().files == ("a",)
    tree.write("b")
    assert one_pass.tree().files == ("a", "b")


def test_whoever_reads_a_file_again_sees_the_same_bytes(one_pass: Reader, tree: WorkTree) -> None:
    first = one_pass.read(REPOSITORY, "a", 100)
    tree.write("a", b"changed")
    assert one_pass.read(REPOSITORY, "a", 100) == first


def test_a_failure_stays_a_failure(one_pass: Reader, tree: WorkTree) -> None:
    assert reason(one_pass, "b") is Reason.MISSING_OR_UNREADABLE
    tree.write("b")
    assert reason(one_pass, "b") is Reason.MISSING_OR_UNREADABLE


@pytest.mark.parametrize("size", [SOURCE_BYTES, SOURCE_BYTES + 1, REFERENCE_BYTES, REFERENCE_BYTES + 1])
@pytest.mark.parametrize("limits", [(SOURCE_BYTES, REFERENCE_BYTES), (REFERENCE_BYTES, SOURCE_BYTES), (SOURCE_BYTES, 2 * REFERENCE_BYTES)])
def test_a_reading_at_one_limit_does_not_change_the_outcome_at_another(
    one_pass: Reader, tree: WorkTree, size: int, limits: tuple[int, ...]
) -> None:
    tree.write("b", b"b" * size)
    for limit in limits:
        if size <= limit:
            assert len(one_pass.read(REPOSITORY, "b", limit).data) == size
        else:
            assert reason(one_pass, "b", limit) is Reason.SOURCE_BYTE_LIMIT


class TestBeyondTheBytesThatAreKept:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reader, "KEPT_BYTES", 2)

    def test_a_file_is_read_again_and_is_the_same(self, one_pass: Reader, tree: WorkTree) -> None:
        tree.write("b", b"bbb")
        assert one_pass.read(REPOSITORY, "b", 100) == one_pass.read(REPOSITORY, "b", 100)

    def test_a_file_that_changed_meanwhile_is_refused(self, one_pass: Reader, tree: WorkTree) -> None:
        tree.write("b", b"bbb")
        one_pass.read(REPOSITORY, "b", 100)
        tree.write("b", b"ccc")
        assert reason(one_pass, "b") is Reason.CHANGED

    def test_what_fits_is_kept(self, one_pass: Reader, tree: WorkTree) -> None:
        first = one_pass.read(REPOSITORY, "a", 100)
        (tree.path / "a").unlink()
        assert one_pass.read(REPOSITORY, "a", 100) == first
