"""This module finds the mentions that are dead: a document names what git had and the tree has no more (PIPELINE 3).

`init` and `check` both ask it. A path that git never had is no finding: examples and things to come look just like that.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from sdaqf_tasks.context.findings import Change, Found
from sdaqf_tasks.context.mentions import Mention, mentions
from sdaqf_tasks.disk.history import History, Version
from sdaqf_tasks.disk.repository import moment
from sdaqf_tasks.errors import Finding, SdaqfError
from sdaqf_tasks.formats.records import instant
from sdaqf_tasks.world import Tree, lines

ALWAYS = ("AGENTS.md", "CLAUDE.md", "README.md")
"""What is looked through in every project, beside the pinned Markdown sources."""

ASKED = 1_000
"""Paths that history is asked about in one listing."""


class Dead(NamedTuple):
    """One dead mention: the document and its line, the place it names, what became of that, and in which commit."""

    document: str
    line: int
    place: str
    what: str
    change: Change | None = None


class Looked(NamedTuple):
    """`counts` says how many mentions of each document name a place of this repository, dead ones among them; documents
    without any are not in it. Of `unsure` ones (document, line) history does not tell."""

    counts: Mapping[str, int]
    dead: tuple[Dead, ...] = ()
    unsure: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def look(
    documents: Mapping[str, str], tree: Tree, history: Callable[[Collection[str]], History], read: Callable[[str], str | None]
) -> Looked:
    """Look up what Markdown documents (path → text) name, in the order of the documents and their lines.

    `history` is called at most once, with the paths of all mentions that name nothing in the tree, and not at all where
    there are none; `read` gives the text of a file in the tree, None where it is no text.
    """

    @functools.cache
    def length(path: str) -> int | None:
        text = read(path)
        return None if text is None else len(lines(text))

    there = _There(tree)
    gone, dead = [], []
    counts: Counter[str] = Counter()
    for document, text in documents.items():
        for mention in mentions(text, document):
            path = next(filter(there.has, mention.paths), None)
            if path is None:
                gone.append((document, mention))
                continue
            counts[document] += 1
            had = length(path) if mention.lines and path in there.files else None
            if had is not None and mention.lines and mention.lines[1] > had:
                dead.append(Dead(document, mention.line, _place(path, mention), f"the file has {had} line{'s' * (had != 1)}"))
    removed, unsure = _removed(gone, there, history) if gone else ([], [])
    counts.update(found.document for found in removed)
    order = {document: position for position, document in enumerate(documents)}
    dead = sorted([*dead, *removed], key=lambda found: (order[found.document], found.line))
    return Looked({document: counts[document] for document in documents if counts[document]}, tuple(dead), tuple(unsure))


def findings(looked: Looked) -> list[Found]:
    """What was found, for `check`: DEAD_MENTION each, and one NOT_CHECKED where the history was cut off."""
    code, doubt = Finding.DEAD_MENTION, Finding.NOT_CHECKED
    found = [
        Found(code, code.severity, document, line, f"{place}   {what}", code.settles, part=place, change=change)
        for document, line, place, what, change in looked.dead
    ]
    if looked.unsure:
        document, line = looked.unsure[0]
        many = "1 mention names" if len(looked.unsure) == 1 else f"{len(looked.unsure)} mentions name"
        message = f"{many} nothing in the tree, and the history at hand does not tell whether it ever was there"
        found.append(Found(doubt, doubt.severity, document, line, message, "Fetch the whole history: git fetch --unshallow"))
    return found


def ago(time: str, now: str) -> str:
    """How long before `now` a TIME was, in the largest unit that fits: `3 months ago`."""
    days = (instant(now) - instant(time)).days
    for unit, length in (("year", 365), ("month", 30), ("week", 7), ("day", 1)):
        if days >= length:
            return f"{days // length} {unit}{'s' * (days >= 2 * length)} ago"
    return "today"


def change_of(version: Version) -> Change:
    """The commit of a version, with its time as a TIME."""
    return Change(version.commit, moment(version.time), version.subject)


class _There:
    """What is in the tree: files, folders, links, and whatever lies behind a link or in a submodule, which nobody looks into."""

    def __init__(self, tree: Tree) -> None:
        self.files = frozenset(tree.files)
        self._closed = frozenset((*tree.links, *tree.submodules, *tree.absent))
        self._folders = {parent for name in (*tree.files, *self._closed) for parent in _parents(name)}

    def has(self, path: str) -> bool:
        return path in self.files or path in self._folders or not self._closed.isdisjoint((path, *_parents(path)))


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _removed(
    gone: list[tuple[str, Mention]], there: _There, history: Callable[[Collection[str]], History]
) -> tuple[list[Dead], list[tuple[str, int]]]:
    """Of the mentions that name nothing in the tree: those that git had, and those of which it cannot be told."""
    asked = set(list(dict.fromkeys(path for _, mention in gone for path in mention.paths))[:ASKED])
    dead, unsure = [], []
    try:
        past = history(asked)
        was = {path: last for path in asked if (last := past.removed(path))}
        open_ended = {path for path in asked if path not in was and past.is_cut(path)}
    except SdaqfError:  # too long ago, or too much of it
        return [], [(document, mention.line) for document, mention in gone]
    for document, mention in gone:
        path = next((path for path in mention.paths if path in was), None)
        if path is not None:
            what, commit = past.renamed(path), was[path].commit[:7]
            became = f"renamed to {what} by {commit}{'' if there.has(what) else '; that is gone too'}" if what else f"removed by {commit}"
            dead.append(Dead(document, mention.line, _place(path, mention), became, change_of(was[path])))
        elif not asked.issuperset(mention.paths) or not open_ended.isdisjoint(mention.paths):
            unsure.append((document, mention.line))
    return dead, unsure


def _place(path: str, mention: Mention) -> str:
    if mention.lines is None:
        return path
    first, last = mention.lines
    return f"{path}:{first}-{last}" if last > first else f"{path}:{first}"
