"""This module builds real work trees with the real git, which finds no configuration but the repository's own."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from sdaqf_tasks.disk.files import Mark

DATE = "2026-01-01T00:00:00Z"


def environment(**more: str) -> dict[str, str]:
    who = {"NAME": "a", "EMAIL": "a@example.invalid", "DATE": DATE}
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        **{f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()},
        **more,
    }


class WorkTree:
    """A work tree at `path`. Names are text, or bytes where they are no text."""

    def __init__(self, path: Path, *, init: tuple[str, ...] = ("-b", "main")) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        if not (path / ".git").exists():
            self.git("init", "-q", *init)

    def git(self, *arguments: str | bytes, check: bool = True, stdin: bytes = b"", **environ: str) -> bytes:
        asked = subprocess.run(
            ["git", *arguments], cwd=self.path, env=environment(**environ), input=stdin, capture_output=True, check=False, timeout=60
        )
        if check and asked.returncode:
            raise AssertionError(asked.stderr.decode(errors="replace"))
        return asked.stdout

    def place(self, name: str | bytes) -> Path:
        return self.path / os.fsdecode(name)

    def write(self, name: str | bytes, data: bytes = b"") -> Path:
        place = self.place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        return place

    def link(self, name: str | bytes, target: str | bytes) -> Path:
        place = self.place(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.fsdecode(target))
        return place

    def commit(self, *names: str | bytes, message: str = "one") -> str:
        self.git("add", "-f", "--", *(names or (b".",)))
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").decode().strip()

    def gitlink(self, name: str, commit: str = "c" * 40) -> None:
        self.git("update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")


def committed(path: Path, **files: bytes) -> WorkTree:
    """A work tree with one commit of these files (`a` where none is given)."""
    tree = WorkTree(path)
    for name, data in (files or {"a": b"a\n"}).items():
        tree.write(name, data)
    tree.commit()
    return tree


def digest(*entries: tuple[str | bytes, str, bytes]) -> str:
    """The formula once more, from FORMAT 4.3 and PIPELINE 5: (name, form, bytes) in the order of the digest."""
    running = hashlib.sha256()
    for name, form, data in entries:
        running.update(os.fsencode(name) + b"\0" + form.encode() + b"\0" + data + b"\0")
    return running.hexdigest().upper()


def file(name: str | bytes, data: bytes) -> tuple[str | bytes, str, bytes]:
    return name, str(len(data)), data


def link(name: str | bytes, target: bytes) -> tuple[str | bytes, str, bytes]:
    return name, f"link:{len(target)}", target


def everything_below(folder: Path) -> dict[str, tuple[object, ...]]:
    """Every entry below a folder, with its bytes and what a write would change."""
    found: dict[str, tuple[object, ...]] = {}
    for place in sorted(folder.rglob("*")):
        status = place.lstat()
        held = place.readlink() if place.is_symlink() else place.read_bytes() if place.is_file() else ""
        found[str(place.relative_to(folder))] = (held, Mark.of(status))
    return found
