"""This module is the shape of what `check` found: values that every output format shows (PIPELINE 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from sdaqf_tasks.errors import Finding, Severity

LEVELS = (Severity.ERROR, Severity.WARNING, Severity.NOTICE)
"""The severities that are shown, heaviest first."""


class Change(NamedTuple):
    """The commit that changed or removed something: its id, when (TIME), and its subject."""

    commit: str
    time: str
    subject: str


class Found(NamedTuple):
    """One finding about one text, with every context that tells it.

    `path` is from the top of the work tree and `line` 1-based; both say where a person looks. `lines` are changed lines
    with `-` or `+` before each. `contexts` are labels, NAME or NAME.QUERY, ascending; `required` are those that require it.
    `old` and `new` are text digests in lowercase. `part` is the section, symbol or lines, or the mention, as written, or empty.
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


class Findings:
    """Findings by text, so that several manifests tell one together."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], Found] = {}

    def add(self, code: Finding, path: str, line: int, message: str, contexts: Iterable[str], **more: Any) -> None:
        """Keep a finding; of one that is there already, the heavier severity, and the contexts of both."""
        more = {"settle": code.settles, "severity": code.severity, "required": (), **more}
        key = (path, more.get("part", ""), code.value, more.get("old", ""))
        found = self._found.get(key) or Found(code=code, path=path, line=line, message=message, **more)
        heavier = min(found.severity, more["severity"], key=lambda severity: severity.rank)
        contexts, required = sorted({*found.contexts, *contexts}), sorted({*found.required, *more["required"]})
        self._found[key] = found._replace(severity=heavier, contexts=tuple(contexts), required=tuple(required))

    def keep(self, found: Found) -> None:
        """Keep one that is about a line, not about a text."""
        self._found[found.path, str(found.line), found.message, found.code.value] = found

    def judged(self, policy: Mapping[str, str]) -> tuple[Found, ...]:
        """By path, line and code, with the severities of a policy; without those that it turns off."""
        every = (found._replace(severity=Severity(policy.get(found.code.value, found.severity.value))) for found in self._found.values())
        shown = [found for found in every if found.severity is not Severity.OFF]
        return tuple(sorted(shown, key=lambda found: (found.path, found.line, found.code.value, found.part, found.message)))


def worst(checked: Checked, fail_on: Iterable[str] = ("error",)) -> bool:
    """Whether any finding is of a code, or at or above a level, that `fail_on` names."""
    named = set(fail_on)
    limit = max((level.rank for level in LEVELS if level.value in named), default=-1)
    return any(found.severity.rank <= limit or found.code.value in named for found in checked.findings if found.severity in LEVELS)
