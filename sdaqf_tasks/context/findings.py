"""This module is the shape of what `check` found: values that every output format shows (PIPELINE 3)."""

from __future__ import annotations

from typing import NamedTuple

from sdaqf_tasks.errors import Finding, Severity


class Change(NamedTuple):
    """The commit that changed or removed something: its id, when (TIME), and its subject."""

    commit: str
    time: str
    subject: str


class Found(NamedTuple):
    """One finding about one text, with every context that tells it.

    `path` is from the top of the work tree and `line` 1-based; both say where a person looks. `lines` are changed lines
    with `-` or `+` before each. `contexts` are labels, NAME or NAME.QUERY, ascending; `required` are those that require it.
    `old` and `new` are text digests in lowercase. `part` is a section, symbol or lines as written, or empty.
    """

    code: Finding
    severity: Severity
    path: str
    line: int
    message: str
    settle: str
    part: str = ""
    lines: tuple[str, ...] = ()
    contexts: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    old: str = ""
    new: str = ""
    change: Change | None = None


class Checked(NamedTuple):
    """The result of a check: findings by path, line and code; and how much was compared.

    `pinned` texts were compared, `as_reviewed` of them without a finding; `following` follow the tree and are not checked;
    `mentions` were looked up. `now` is the moment it judged by, `fixed_clock` whether SDAQF_NOW set it. `base` is the
    merge base it compared with, or empty. `unmet` says which asked-for precondition is missing, and ends in exit 2.
    """

    findings: tuple[Found, ...]
    pinned: int
    as_reviewed: int
    following: int
    mentions: int
    manifests: tuple[str, ...]
    git_head: str
    now: str
    fixed_clock: bool = False
    base: str = ""
    unmet: str = ""
