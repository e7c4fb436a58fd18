"""This module is `sdaqf doctor`: the build folder, the tree and the machine looked over, and told."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from sdaqf_tasks.disk.files import Lock
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Reason, SdaqfError, printable
from sdaqf_tasks.flow import doctor
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.fronts.voice import counted

IN_THE_TREE = {
    "__pycache__": "ignore it: every run of Python changes the tree",
    ".doit.db": "ignore it: every run of doit changes the tree",
    ".sdaqf-": "a killed writer left it: remove it",
}
"""What git would list, and should not: part of a name, and what to do."""


def look_over(project: Project, *, repair: bool = False, wait: float = 60) -> dict[str, Any]:
    """Everything that is not as it should be, and with what the program works here."""
    store, removed = project.store, 0
    defects, git, ignored = [], "", None
    try:
        with project.repository() as repository:
            git = repository.git_version()
            names, ignored = _names(repository, project)
            if repair and not ignored and store.ignore():
                removed, (names, ignored) = 1, _names(repository, project)
            shards = project.settings.shards
            if listed := next((name for name in names if name.startswith(f"{shards}/")), None):
                todo = f"git lists it, and so perhaps the shards: git rm -r --cached {shards}, and remove {shards}/.gitignore"
                defects.append((Reason.OUTPUT_NOT_IGNORED.value, listed, todo))
            defects += [("in-the-tree", name, todo) for part, todo in IN_THE_TREE.items() for name in names if f"/{part}" in f"/{name}"]
    except SdaqfError as error:
        defects.append((error.reason.value, error.where, error.message))
    if ignored is False:
        defects.append((Reason.OUTPUT_NOT_IGNORED.value, project.settings.build, Reason.OUTPUT_NOT_IGNORED.todo))
    lock = store.folder / "lock"
    with Lock(lock, wait) if lock.is_file() and not lock.is_symlink() else contextlib.nullcontext():
        removed += doctor.repair(store) if repair else 0
        found = doctor.examine(store)
    defects += [(defect.code, defect.place, doctor.CODES[defect.code]) for defect in found.defects]
    return {
        "build": {"folder": project.settings.build, "ignored": ignored, "objects": found.objects, "unreachable": found.unreachable},
        "defects": [{"code": code, "place": place, "message": message} for code, place, message in defects],
        "git": git,
        "libyaml": _libyaml(),
        "removed": removed,
        "settings": {name: os.environ[name] for name in ("SDAQF_ALLOW_OWNER", "SDAQF_NOW") if name in os.environ},
    }


def _names(repository: Repository, project: Project) -> tuple[list[str], bool]:
    """What is in the tree, and whether nothing of the build folder is."""
    tree = repository.observe()
    names = sorted({*tree.files, *tree.links})
    return names, not any(name.startswith(f"{project.settings.build}/") for name in names)


def _libyaml() -> str | None:
    try:
        from yaml import _yaml

        return ".".join(map(str, _yaml.get_version()))
    except ImportError:
        return None


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    build, git, libyaml = found["build"], found["git"] or "not found", found["libyaml"] or "not found: install a wheel of PyYAML"
    ignored = {True: "ignored by git", False: "not ignored by git", None: "unknown to git"}[build["ignored"]]
    yield f"git {git} · libyaml {libyaml}" + "".join(f" · {name}={printable(value)}" for name, value in found["settings"].items())
    yield f"{printable(build['folder'])}: {ignored} · {build['objects']} objects, {build['unreachable']} unreachable"
    for defect in found["defects"]:
        yield f"{defect['code']:<18}  {printable(defect['place'])}: {printable(defect['message'])}"
    if found["removed"]:
        yield f"{found['removed']} places cleared. Next: sdaqf build"
    yield counted(len(found["defects"]), "defect") if found["defects"] else "nothing is wrong"
