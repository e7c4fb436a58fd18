"""This module makes real repositories of one commit, and those of the conformance vectors (with `tests.disk.worktree`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import scenarios
from tests.disk.worktree import WorkTree

WHO = "a <a@example.invalid>"


def make(
    path: Path,
    files: Mapping[str, bytes | str],
    *,
    untracked: Mapping[str, bytes | str] | None = None,
    branch: str = "main",
    message: str = "one",
    author: str = WHO,
    committer: str = WHO,
    date: str = "2026-01-01T00:00:00Z",
) -> WorkTree:
    """A work tree at `path` whose one commit holds `files`; then `untracked` is written. `.git` is all that git adds."""
    tree = WorkTree(path, init=("-b", branch))
    write(path, files)
    tree.git("add", ".")
    written, committed = _who(author), _who(committer)
    tree.git(
        *("commit", "-q", "--allow-empty", "-m", message),
        GIT_AUTHOR_NAME=written[0],
        GIT_AUTHOR_EMAIL=written[1],
        GIT_AUTHOR_DATE=date,
        GIT_COMMITTER_NAME=committed[0],
        GIT_COMMITTER_EMAIL=committed[1],
        GIT_COMMITTER_DATE=date,
    )
    write(path, untracked or {})
    return tree


def of_scenario(path: Path, scenario: Mapping[str, Any]) -> WorkTree:
    """The repository of a conformance vector."""
    given = scenario["repository"]
    return make(
        path,
        scenarios.bodies(given["committed"]),
        untracked=scenarios.bodies(given["untracked"]),
        branch=given["branch"],
        **given["commit"],
    )


def write(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files below a folder; text as UTF-8."""
    for name, body in files.items():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(body.encode() if isinstance(body, str) else body)


def _who(person: str) -> tuple[str, str]:
    name, _, email = person.removesuffix(">").partition(" <")
    return name, email
