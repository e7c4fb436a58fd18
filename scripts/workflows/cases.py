"""This module reads the cases: what each begins with, what is done, and what exactly comes of it."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

FOLDER = Path(__file__).resolve().parents[2] / "evals" / "workflows"
VERBS = ("run", "say", "doit", "read", "write", "remove", "rename", "copy", "edit", "commit")


class Bucket(enum.Enum):
    """How a case ends, by what the product answered: the worst of its answers counts."""

    SUCCESS = "supported_success"
    REFUSED = "correct_unresolved_or_refused"
    FAILED = "failed_verification_or_runtime"


class _Closed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of a case. A word that is not known is an error."""


class Step(_Closed, frozen=True, kw_only=True):
    """One thing that is done, by one verb, and what comes of it. `$name` stands for what an earlier step kept."""

    run: str = ""
    """A command of sdaqf, which is asked for `--json`."""
    say: str = ""
    """The same as people call it."""
    doit: str = ""
    """A task of doit, in a process of its own."""
    read: str = ""
    """A file, by its path or a pattern that only it matches."""
    write: dict[str, str] = {}
    remove: tuple[str, ...] = ()
    rename: dict[str, str] = {}
    copy: dict[str, str] = {}
    edit: dict[str, dict[str, str]] = {}
    """Texts that are replaced in files, as `read` names them."""
    commit: str = ""
    """Everything, to git, with this message."""

    env: dict[str, str] = {}
    stdin: str = ""
    apart: bool = False
    """In a process of its own, which remembers nothing."""

    exit: int = 0
    reason: str | None = None
    """The one reason of all that the answer refuses."""
    words: dict[str, str] | None = None
    """What became of every context of a build, or its state in `status`."""
    findings: tuple[str, ...] | None = None
    """Every finding of `check` or defect of `doctor` and `fsck`: its code and where."""
    at: dict[str, Any] = {}
    """The value at each JSON pointer."""
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    keep: dict[str, str] = {}
    """Names for what stands at JSON pointers."""

    def __post_init__(self) -> None:
        if sum(bool(getattr(self, verb)) for verb in VERBS) != 1:
            raise ValueError(f"a step has one of {', '.join(VERBS)}")

    @property
    def verb(self) -> str:
        return next(verb for verb in VERBS if getattr(self, verb))


class Record(_Closed, frozen=True, kw_only=True):
    """A replay record that a case leaves: what was refused, and of which class it is, beside the repository and `alone`."""

    stage: str
    reason: str
    sensitivity: str = "repository-private"
    cls: str = msgspec.field(default="fully_replayable", name="class")
    source: str | None = "embedded"
    left_out: tuple[str, ...] = ()
    alone: str = "fully_replayable"


class Case(_Closed, frozen=True, kw_only=True):
    """One story. `files` are committed before it begins, over those of its `project`; `owner` lies in an owner root beside it."""

    id: str
    tags: tuple[str, ...]
    expect: Bucket
    steps: tuple[Step, ...]
    project: str = ""
    files: dict[str, str] = {}
    owner: dict[str, str] = {}
    env: dict[str, str] = {}
    requires: tuple[str, ...] = ()
    """Abstractions that a lookup of this case must offer as usable."""
    records: tuple[Record, ...] = ()
    """Every replay record that it leaves, oldest first."""
    private: tuple[str, ...] = ()
    """Texts that no record holds, unless SDAQF_EMBED_OWNER=1: then one of them does."""


class _Page(_Closed, frozen=True, kw_only=True):
    projects: dict[str, dict[str, str]] = {}
    cases: tuple[Case, ...] = ()


def read(folder: Path = FOLDER) -> tuple[Case, ...]:
    """Every case, by file and in the order of the file. Raises `ValueError` at what cannot be meant."""
    pages = [_page(path) for path in sorted(folder.glob("*.yaml"))]
    projects = {name: files for page in pages for name, files in page.projects.items()}
    cases = tuple(case for page in pages for case in page.cases)
    ids = [case.id for case in cases]
    if taken := {each for each in ids if ids.count(each) > 1}:
        raise ValueError(f"two cases are called {', '.join(sorted(taken))}")
    if lost := {case.project for case in cases} - {"", *projects}:
        raise ValueError(f"there is no project {', '.join(sorted(lost))}")
    return tuple(replace(case, files={**projects.get(case.project, {}), **case.files}) for case in cases)


def _page(path: Path) -> _Page:
    try:
        return msgspec.convert(yaml.safe_load(path.read_text("utf-8")), _Page)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path.name}: {error}") from error
