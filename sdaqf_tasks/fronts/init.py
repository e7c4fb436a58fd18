"""This module is `sdaqf init` for people: what is proposed, in columns; the question; what to do next."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from sdaqf_tasks.context.draft import Part
from sdaqf_tasks.flow import init
from sdaqf_tasks.flow.init import LeftOut, Proposal
from sdaqf_tasks.flow.mentions import ago
from sdaqf_tasks.flow.project import Project, now
from sdaqf_tasks.fronts.voice import Exit, Voice

WIDTH = 110
DEAD_SHOWN = 20
NEXT = "sdaqf build"
DODO = ("import sdaqf_tasks", 'context = sdaqf_tasks.pipeline(prefix="context")')

_WORDS = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def run(
    project: Project, voice: Voice, *, agents: list[str], yes: bool, doit: bool, as_json: bool, ask: Callable[[str], bool] | None
) -> int:
    """Propose, show, ask where `ask` is given, write. Without `ask` and `yes` nothing is written, and the exit code is 2."""
    proposal = init.propose(project, agents)
    if not as_json:
        voice.say(*lines(proposal, now()))
        if not yes:
            voice.say(
                "", f"{proposal.manifest}:", *(f"  {row}".rstrip() for row in proposal.files[proposal.manifest].decode().splitlines())
            )
    names = [shown(path) for path in proposal.files]
    question = f"Write {', '.join(names[:-1])} and {names[-1]}?" if names[1:] else f"Write {names[0]}?"
    if not yes and ask is None:
        if as_json:
            voice.say_json(value(proposal, ()))
        voice.aside("", "Nothing was written: there is no terminal to ask on.", "Next: sdaqf init --yes")
        return Exit.USAGE
    if not yes and ask is not None and not ask(f"\n{question} [Y/n] "):
        voice.say("Nothing was written.")
        return Exit.REFUSED
    written = init.write(project, proposal)
    if as_json:
        voice.say_json(value(proposal, written))
        return Exit.DONE
    voice.say("", f"Wrote {', '.join(map(shown, written))}.")
    for path, text in proposal.there.items():
        voice.say("", f"{shown(path)} is there already and stays as it is{'. It would hold:' if text else '.'}")
        voice.say(*(f"  {row}" for row in text.splitlines()))
    if doit:
        voice.say("", "For doit, two lines in dodo.py:", *(f"  {row}" for row in DODO))
    voice.say(f"Next: {NEXT}")
    return Exit.DONE


def ask(question: str) -> bool:
    """The answer of who sits at the terminal; an empty one is yes, no answer is no."""
    print(question, end="", flush=True)
    answer = sys.stdin.readline()
    return answer.strip().lower() in ("", "y", "yes") and answer != ""


def shown(name: str) -> str:
    """A name of the tree: quoted where it is not plain, so that its end is seen."""
    plain = all(character.isascii() and character.isprintable() and character not in " \"'" for character in name)
    return name if plain else json.dumps(name, ensure_ascii=True)


def lines(proposal: Proposal, moment: str) -> Iterator[str]:
    """The proposal in columns, then what is dead."""
    tree = proposal.tree
    tracked = [name for name in tree.files if name not in tree.untracked]
    untracked = f" and {len(tree.files) - len(tracked):,} untracked" if len(tracked) < len(tree.files) else ""
    yield f"Read {len(tracked):,} tracked{untracked} files at {tree.git_head[:7]}."
    yield ""
    specification = proposal.specification
    where = f"{specification.path}{f' § {specification.part[1]}' if specification.part[0] == 'section' else ''}"
    where += f":{specification.part[1]}" if specification.part[0] == "lines" else ""
    table = [("specification", where, "", "always included, the measure of the rest")]
    table += [(part.row.alias, part.row.pattern, str(part.sources) if part.row.glob else "", _says(part)) for part in proposal.parts]
    widths = [max(len(row[column]) for row in table) for column in range(3)]
    for row, note in zip(table, (specification.note, *(part.note for part in proposal.parts)), strict=True):
        head = f"  {row[0]:<{widths[0]}}   {row[1]:<{widths[1]}}   {row[2]:>{widths[2]}}   {row[3]}"
        yield f"{head}   {note}" if note and len(head) + len(note) < WIDTH else head
        if note and len(head) + len(note) >= WIDTH:
            yield f"  {'':<{widths[0]}}   {note}"
    left_out = " · ".join(map(_left_out, proposal.left_out))
    if left_out:
        first, rest = f"  {'left out':<{widths[0]}}   ", " " * (widths[0] + 5)
        yield from textwrap.wrap(
            left_out, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
        )
    yield from _mentions(proposal, moment)


def _says(part: Part) -> str:
    return ("pinned" if part.row.pinned else "follows the tree") + (", required" if part.required else "")


def _left_out(group: LeftOut) -> str:
    if group.files == 1:
        return f"{shown(group.examples[0])} ({group.why})"
    named = ", ".join(map(shown, group.examples[:2])) + (", …" if group.files > 2 else "")
    return f"{group.files:,} {group.what} ({group.why}: {named})"


def _mentions(proposal: Proposal, moment: str) -> Iterator[str]:
    looked = proposal.looked
    if looked.counts:
        who = f"{shown(next(iter(looked.counts)))} names" if len(looked.counts) == 1 else f"{len(looked.counts)} documents name"
        dead = len(looked.dead)
        many = _WORDS[dead] if dead < len(_WORDS) else f"{dead:,}"
        places = f"{looked.total:,} place{'s' * (looked.total != 1)}"
        yield from ("", f"{who} {places} in this repository." + (f" {many} {'is' if dead == 1 else 'are'} gone:" if dead else ""))
    rows = [
        (
            f"{shown(dead.document)}:{dead.line}",
            shown(dead.place),
            dead.what + (f", {ago(dead.change.time, moment)}" if dead.change else ""),
        )
        for dead in looked.dead[:DEAD_SHOWN]
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(2)]
    yield from (f"  {where:<{widths[0]}}  {place:<{widths[1]}}   {what}" for where, place, what in rows)
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
        "next": NEXT if written else "sdaqf init --yes",
        "specification": {"path": proposal.specification.path, "part": proposal.specification.part[1], "note": proposal.specification.note},
        "sources": [
            {
                "alias": part.row.alias,
                "exclude": part.row.exclude,
                "kind": part.row.kind.value,
                "note": part.note,
                "pattern": part.row.pattern,
                "pinned": part.row.pinned,
                "required": part.required,
                "sources": part.sources,
            }
            for part in proposal.parts
        ],
        "there_already": dict(proposal.there),
        "tree": {"files": len(proposal.tree.files), "git_head": proposal.tree.git_head},
        "written": list(written),
        "yaml": proposal.files[proposal.manifest].decode(),
    }
