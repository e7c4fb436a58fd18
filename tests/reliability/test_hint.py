"""`sdaqf status` names the untracked files that count, and of these, as a hint, what the user's own git would ignore."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.workshop import Workshop
from tests.fronts.run import Ran

Sdaqf = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of the user, who has a configuration of git's there."""
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def status(shop: Workshop, sdaqf: Sdaqf, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    shop.build()
    for name in ("notes.swp", "src/b.swp", "new.py"):
        shop.write(name, name)
    monkeypatch.chdir(shop.path)
    return lambda *options: sdaqf("status", *options)


def test_the_usual_place_of_excludes(home: Path, status: Callable[..., Ran]) -> None:
    (home / ".config" / "git" / "ignore").write_text("*.swp\nmanifests/\n")
    value = status("--json").value
    assert value["untracked"] == ["new.py", "notes.swp", "src/b.swp"]
    assert value["untracked_ignored_by_you"] == ["notes.swp", "src/b.swp"]
    assert "2 of them your own git would ignore, and others' would not: notes.swp, src/b.swp\n" in status().out


@pytest.mark.parametrize("config", [".gitconfig", ".config/git/config"])
def test_a_place_that_the_users_configuration_names(config: str, home: Path, status: Callable[..., Ran]) -> None:
    (home / config).write_text("[core]\n\texcludesFile = ~/mine\n[alias]\n\tx = !touch /nowhere\n")
    (home / "mine").write_text("/src/*.swp\n")
    assert status("--json").value["untracked_ignored_by_you"] == ["src/b.swp"]


def test_it_changes_no_digest(home: Path, status: Callable[..., Ran]) -> None:
    before = status("--json").value["tree"]
    (home / ".config" / "git" / "ignore").write_text("*\n")
    assert status("--json").value["tree"] == before


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.write_bytes(b"[core\n"), lambda path: path.symlink_to(path)])
def test_a_configuration_that_cannot_be_read_gives_no_hint(make: Callable[[Path], object], home: Path, status: Callable[..., Ran]) -> None:
    make(home / ".gitconfig")
    ran = status("--json")
    assert (ran.code, ran.value["untracked_ignored_by_you"]) == (0, [])


def test_the_configuration_of_the_repository_gives_none(home: Path, shop: Workshop, status: Callable[..., Ran]) -> None:
    (home / "theirs").write_text("*\n")
    shop.tree.git("config", "core.excludesFile", str(home / "theirs"))
    assert status("--json").value["untracked_ignored_by_you"] == []
