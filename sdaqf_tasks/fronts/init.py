"""This module is `sdaqf init` for people: what is proposed, in columns; the question; what to do next."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from sdaqf_tasks.flow import init
from sdaqf_tasks.flow.init import LeftOut, Proposal
from sdaqf_tasks.flow.mentions import Looked, ago
from sdaqf_tasks.flow.project import Project, now
from sdaqf_tasks.fronts.voice import Exit, Voice

DEAD_SHOWN = 20
REVIEW = "Nobody has reviewed this yet: the lock will hold what is pinned as it reads now. Read that before you commit the lock."
DODO = ("import sdaqf_tasks", "DOIT_CONFIG = sdaqf_tasks.doit_config()", 'context = sdaqf_tasks.pipeline(prefix="context")')


def run(
    project: Project, voice: Voice, *, agents: list[str], yes: bool, doit: bool, as_json: bool, ask: Callable[[str], bool] | None
) -> int:
    """Propose, show, ask where `ask` is given, write. Without `ask` and `yes` nothing is written, and the exit code is 2."""
    proposal = init.propose(project, agents)
    if not as_json:
        voice.say(*lines(proposal, now()))
        if not yes:
            voice.say("", f"{proposal.manifest}:", *_indented(proposal.files[proposal.manifest].decode()))
    *names, last = map(shown, proposal.files)
    if not yes and ask is None:
        if as_json:
            voice.say_json(value(proposal, ()))
        voice.aside("", "Nothing was written: there is no terminal to ask on.", "Next: sdaqf init --yes")
        return Exit.USAGE
    if not yes and ask and not ask(f"\nWrite {', '.join(names)} and {last}? [Y/n] "):
        voice.say("Nothing was written.")
        return Exit.REFUSED
    written = init.write(project, proposal)
    if as_json:
        voice.say_json(value(proposal, written))
        return Exit.DONE
    voice.say("", f"Wrote {', '.join(map(shown, written))}.")
    for path, text in proposal.there.items():
        voice.say("", f"{shown(path)} is there already and stays as it is{'. It would hold:' if text else '.'}", *_indented(text))
    if any(b"mcp" in proposal.files[path] for path in written):
        voice.say("", "`sdaqf mcp` comes with a later release: settings that name it do nothing until then.")
    if doit:
        voice.say("", "For doit, in dodo.py:", *_indented("\n".join(DODO)))
    voice.say(f"Next: {_next(proposal)}")
    return Exit.DONE


def _next(proposal: Proposal) -> str:
    folder = shlex.quote(str(PurePosixPath(proposal.manifest).parent))
    return f"sdaqf build   then: git add {folder} && git commit"


def ask(question: str) -> bool:
    """The answer of who sits at the terminal; an empty one is yes, no answer is no."""
    print(question, end="", flush=True)
    return sys.stdin.readline().lower() in ("\n", "y\n", "yes\n")


def shown(name: str) -> str:
    """A name of the tree: quoted where it is not plain, so that its end is seen."""
    plain = name.isascii() and name.isprintable() and not set(name) & set(" \"'")
    return name if plain else json.dumps(name)


def _indented(text: str) -> list[str]:
    return [f"  {row}".rstrip() for row in text.splitlines()]


def _columns(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """The rows, all cells of a column but the last being equally wide."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    yield from ("  " + "   ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def lines(proposal: Proposal, moment: str) -> Iterator[str]:
    """The proposal in columns, then what is dead."""
    tree, specification = proposal.tree, proposal.specification
    untracked = f" and {len(tree.untracked):,} untracked" if tree.untracked else ""
    yield from (f"Read {len(tree.files) - len(tree.untracked):,} tracked{untracked} files at {tree.git_head[:7]}.", "")
    section = f" ({' '.join(specification.part)})" if specification.part[0] else ""
    table = [("specification", specification.path + section, "", "always included, the measure of the rest", specification.note)]
    for part in proposal.parts:
        says = ("pinned" if part.pinned else "follows the tree") + (", required" if part.required else "")
        table.append((part.alias, part.pattern, str(part.sources) if part.is_glob else "", says, part.note))
    yield from _columns([(*row[:3], "   ".join(filter(None, row[3:]))) for row in table])
    width = max(len(row[0]) for row in table)
    for position, group in enumerate(proposal.left_out):
        yield f"  {'' if position else 'left out':<{width}}   {_left_out(group)}"
    yield from _mentions(proposal.looked, moment)
    yield from ("", REVIEW)


def _left_out(group: LeftOut) -> str:
    named = ", ".join(map(shown, group.examples[:2])) + (", …" if group.files > 2 else "")
    return f"{named} ({group.why})" if group.files == 1 else f"{group.files:,} files ({group.why}: {named})"


def _mentions(looked: Looked, moment: str) -> Iterator[str]:
    if looked.counts:
        who = f"{shown(next(iter(looked.counts)))} names" if len(looked.counts) == 1 else f"{len(looked.counts)} documents name"
        gone = f" Of these {len(looked.dead):,} {'is' if len(looked.dead) == 1 else 'are'} gone:" if looked.dead else ""
        yield from ("", f"{who} {looked.total:,} place{'s' * (looked.total != 1)} in this repository.{gone}")
    if looked.dead:
        told = [(dead, f", {ago(dead.change.time, moment)}" if dead.change else "") for dead in looked.dead[:DEAD_SHOWN]]
        yield from _columns([(f"{shown(dead.document)}:{dead.line}", shown(dead.place), dead.what + when) for dead, when in told])
    if len(looked.dead) > DEAD_SHOWN:
        yield f"  and {len(looked.dead) - DEAD_SHOWN} more: sdaqf check names them all"
    if looked.unsure:
        yield f"{len(looked.unsure)} mentions name nothing in the tree; the history at hand does not tell whether it ever was there."


def value(proposal: Proposal, written: tuple[str, ...]) -> dict[str, Any]:
    """The proposal as one value; `written` is empty where nothing was."""
    return {
        "dead_mentions": [dead._asdict() | {"change": dead.change._asdict() if dead.change else None} for dead in proposal.looked.dead],
        "left_out": [group._asdict() for group in proposal.left_out],
        "manifest": proposal.manifest,
        "mentions": proposal.looked.total,
        "next": _next(proposal) if written else "sdaqf init --yes",
        "specification": {"path": proposal.specification.path, "part": proposal.specification.part[1], "note": proposal.specification.note},
        "sources": [part._asdict() | {"kind": part.kind.value} for part in proposal.parts],
        "there_already": dict(proposal.there),
        "tree": {"files": len(proposal.tree.files), "git_head": proposal.tree.git_head},
        "written": list(written),
        "yaml": proposal.files[proposal.manifest].decode(),
    }
