"""Dead mentions on real histories (PIPELINE 3)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Finding, SdaqfError
from sdaqf_tasks.flow.mentions import Dead, Looked, ago, findings, look
from tests.disk.worktree import WorkTree

BODY = b"".join(b"line %d of what was moved\n" % number for number in range(37))


def looked(tree: WorkTree, documents: dict[str, str], asked: list[Collection[str]] | None = None) -> Looked:
    with Repository(tree.path) as repository:

        def history(paths: Collection[str]) -> History:
            if asked is not None:
                asked.append(paths)
            return History(repository, paths)

        def read(path: str) -> str | None:
            try:
                return repository.root.read(path, 262_144).decode()
            except (SdaqfError, UnicodeDecodeError):
                return None

        return look(documents, repository.observe(), history, read)


@pytest.fixture
def tree(tmp_path: Path) -> WorkTree:
    tree = WorkTree(tmp_path / "r")
    tree.write("src/session_pool.py", BODY)
    tree.write("src/old.py", b"x = 1\n")
    tree.write("src/retry.py", BODY)
    tree.write("docs/a.md", b"a\n")
    tree.commit()
    return tree


def renamed(tree: WorkTree) -> str:
    tree.git("mv", "src/session_pool.py", "src/pool.py")
    return tree.commit(message="Pools are not of sessions")


def test_a_renamed_file_is_dead_with_its_new_name_and_the_commit(tree: WorkTree) -> None:
    commit = renamed(tree)
    found = looked(tree, {"AGENTS.md": "See\n`src/session_pool.py` and `src/retry.py`.\n"})
    assert (found.total, found.counts) == (2, {"AGENTS.md": 2})
    assert [dead[:4] for dead in found.dead] == [("AGENTS.md", 2, "src/session_pool.py", f"renamed to src/pool.py by {commit[:7]}")]
    change = found.dead[0].change
    assert change and (change.commit, change.time, change.subject) == (commit, "2026-01-01T00:00:00Z", "Pools are not of sessions")


def test_where_the_new_name_is_gone_too_it_is_said(tree: WorkTree) -> None:
    renamed(tree)
    tree.git("rm", "-q", "src/pool.py")
    tree.commit()
    assert looked(tree, {"a.md": "`src/session_pool.py`"}).dead[0].what.endswith("; that is gone too")


def test_a_removed_file_is_dead_with_the_commit(tree: WorkTree) -> None:
    tree.git("rm", "-q", "src/old.py")
    commit = tree.commit()
    assert looked(tree, {"AGENTS.md": "[old](src/old.py)"}).dead[0][1:4] == (1, "src/old.py", f"removed by {commit[:7]}")


def test_a_removed_folder_is_dead_with_the_commit_that_took_its_last_file(tree: WorkTree) -> None:
    for name in ("lib/a/one.py", "lib/a/b/two.py", "lib/other.py"):
        tree.write(name, name.encode())
    tree.commit()
    tree.git("rm", "-q", "lib/a/one.py")
    tree.commit()
    assert looked(tree, {"AGENTS.md": "`lib/a/` `lib/a/b/`"}).dead == ()
    tree.git("rm", "-q", "lib/a/b/two.py")
    commit = tree.commit()
    tree.write("lib/other.py", b"more")
    tree.commit()
    found = looked(tree, {"AGENTS.md": "`lib/a/` [b](lib/a/b) `lib/` `lib/never/`"})
    assert [(dead.place, dead.what) for dead in found.dead] == [(name, f"removed by {commit[:7]}") for name in ("lib/a", "lib/a/b")]
    assert found.total == 3


def test_a_renamed_folder_is_dead_with_its_new_name(tree: WorkTree) -> None:
    for name in ("old/a/one.py", "old/a/two.py"):
        tree.write(name, BODY + name.encode())
    tree.commit()
    tree.git("mv", "old", "new")
    commit = tree.commit()
    found = looked(tree, {"AGENTS.md": "`old/` `old/a/`"})
    assert [(dead.place, dead.what) for dead in found.dead] == [
        ("old", f"renamed to new by {commit[:7]}"),
        ("old/a", f"renamed to new/a by {commit[:7]}"),
    ]


@pytest.mark.parametrize(("written", "dead"), [("37", False), ("30-37", False), ("38", True), ("30-38", True)])
def test_lines_beyond_the_end_are_dead(tree: WorkTree, written: str, dead: bool) -> None:
    expected = (Dead("AGENTS.md", 1, f"src/retry.py:{written}", "the file has 37 lines"),)
    assert looked(tree, {"AGENTS.md": f"`src/retry.py:{written}`"}) == Looked({"AGENTS.md": 1}, expected if dead else ())


def test_what_git_never_had_is_no_finding(tree: WorkTree) -> None:
    assert looked(tree, {"AGENTS.md": "`src/to_come.py` `path/to/file.py`"}) == Looked({})


def test_folders_links_and_deleted_files_that_git_still_tracks_are_there(tree: WorkTree) -> None:
    tree.link("linked", "src")
    tree.gitlink("module")
    tree.commit("linked")
    tree.place("src/old.py").unlink()
    assert looked(tree, {"AGENTS.md": "`src/` `linked/retry.py` `module/a.py` `src/old.py`"}) == Looked({"AGENTS.md": 4})


def test_a_document_may_mean_its_own_folder_or_the_top(tree: WorkTree) -> None:
    assert looked(tree, {"docs/b.md": "[a](a.md) `docs/a.md`"}) == Looked({"docs/b.md": 2})


def test_history_is_asked_once_and_only_for_what_is_gone(tree: WorkTree) -> None:
    asked: list[Collection[str]] = []
    looked(tree, {"AGENTS.md": "`src/retry.py`"}, asked)
    assert asked == []
    looked(tree, {"AGENTS.md": "`src/retry.py` `src/gone.py`", "docs/a.md": "`x/y.py`"}, asked)
    assert [sorted(paths) for paths in asked] == [["docs/x/y.py", "src/gone.py", "x/y.py"]]


def test_where_the_history_was_cut_off_nothing_is_claimed(tree: WorkTree, tmp_path: Path) -> None:
    tree.git("rm", "-q", "src/old.py")
    tree.commit()
    tree.write("src/retry.py", BODY + b"more\n")
    tree.commit()
    WorkTree(tmp_path).git("clone", "-q", "--depth=1", tree.path.as_uri(), "shallow")
    with Repository(tmp_path / "shallow") as repository:
        found = look({"AGENTS.md": "\n`src/old.py`"}, repository.observe(), lambda paths: History(repository, paths), lambda path: None)
    assert [(each.code, each.path, each.line) for each in findings(found)] == [(Finding.NOT_CHECKED, "AGENTS.md", 2)]


def test_findings_name_the_place_and_what_became_of_it(tree: WorkTree) -> None:
    commit = renamed(tree)
    found = findings(looked(tree, {"AGENTS.md": "`src/session_pool.py` `src/retry.py:38`"}))
    assert [(each.code, each.part, each.message) for each in found] == [
        (Finding.DEAD_MENTION, "src/retry.py:38", "src/retry.py:38   the file has 37 lines"),
        (Finding.DEAD_MENTION, "src/session_pool.py", f"src/session_pool.py   renamed to src/pool.py by {commit[:7]}"),
    ]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ("2026-01-01T12:00:00Z", "today"),
        ("2025-12-31T00:00:00Z", "today"),
        ("2026-01-02T00:00:00Z", "1 day ago"),
        ("2026-01-07T00:00:00Z", "6 days ago"),
        ("2026-01-08T00:00:00Z", "1 week ago"),
        ("2026-04-02T00:00:00Z", "3 months ago"),
        ("2028-02-01T00:00:00Z", "2 years ago"),
    ],
)
def test_how_long_ago_is_said_in_the_largest_unit(now: str, said: str) -> None:
    assert ago("2026-01-01T00:00:00Z", now) == said
