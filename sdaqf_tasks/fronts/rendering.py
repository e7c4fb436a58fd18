"""This module is `sdaqf render`: what agents are given to read, or a plain statement that there is nothing (PIPELINE 6).

A session begins with it, so what it says of a context goes to stdout and ends with 0, whatever it says: with another code,
tools show their agent nothing. Two facts are told apart: whether the sources read as they did, and whether the tree moved.
What would be refused if it were built now is not printed. No sentence here says how a review is passed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from sdaqf_tasks.context.compile import held as held_now
from sdaqf_tasks.context.document import SHOWN_DIGITS, Passage, cite, content_digest, fitting, inline, passages, told, verify_clearance
from sdaqf_tasks.context.staleness import differences
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow import lock
from sdaqf_tasks.flow.blocks import FILE_BYTES, REVIEW, keep, present, target
from sdaqf_tasks.flow.build import held
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.flow.run import Pass, Run
from sdaqf_tasks.formats.artifacts import Artifact, Compaction, Snapshot
from sdaqf_tasks.formats.records import Sensitivity
from sdaqf_tasks.fronts.commands import Options, Usage, project_here
from sdaqf_tasks.fronts.questions import chain_of
from sdaqf_tasks.fronts.voice import Exit, Voice

SHOWN_NAMES = 20
"""Changed sources that are named in a line of text; JSON names all."""


class Standing(NamedTuple):
    """How what was built stands to the present tree.

    `built` is missing where nothing was, or where it would be refused now; `why` says so. `changed` names sources, ascending.
    """

    chain: Chain
    built: tuple[Artifact[Snapshot], Artifact[Compaction]] | None = None
    why: str = ""
    changed: tuple[str, ...] = ()
    moved: bool = False
    locked: bool = True
    next: str | None = None


def run(options: Options, voice: Voice) -> int:
    """Print a context, or keep its block in a file."""
    if options.into and options.max_bytes:
        raise Usage(options.program, "--max-bytes is for what is printed; a block has at most 4 KiB")
    if options.max_file and not options.into:
        raise Usage(options.program, "--max-file goes with --into")
    clearance = Sensitivity(options.clearance)
    with Run(project_here(options.owner_root), report=voice.aside, locked=options.into is not None) as running:
        options.name = options.name or running.project.only
        if options.into is not None:
            return _into(running, options, clearance, voice)
        found = standing(running, options.name)
        if found.built is not None:
            verify_clearance(found.built[1], found.built[0], clearance)
        head = "".join(f"{line}\n" for line in lines(found))
        document, shown = "", list[Passage]()
        if found.built is not None:
            declaration = running.reading(running.project.manifest(found.chain.manifest)).declaration
            most = options.max_bytes - len(head.encode()) if options.max_bytes else None
            document, shown = fitting(*found.built, title=declaration.title or found.chain.label, most=most)
    if options.json:
        voice.say_json(value(found, shown))
    else:
        voice.say_document(head + document)
    return Exit.DONE


def _into(running: Run, options: Options, clearance: Sensitivity, voice: Voice) -> int:
    file = target(running.project.top, options.into)
    chain, _ = chain_of(running, options.name)
    kept = keep(running, chain, file, clearance=clearance, most=options.max_file or FILE_BYTES)
    facts = {"block": kept.word, "content": kept.content[:SHOWN_DIGITS], "named": kept.block.named, "sources": kept.block.total}
    line = "{}   {block}   content {content}   {named} of {sources} sources named".format(file, **facts)
    voice.answer(facts | {"context": f"{chain.manifest}/{chain.query}", "file": file}, [line], as_json=options.json)
    if not kept.listed:
        voice.aside(f"git ignores {file}: `sdaqf check` does not look at it")
    return Exit.DONE


# ---- how it stands --------------------------------------------------------------------------------------------------


def standing(running: Run, label: str) -> Standing:
    """How the context `label` stands. Nothing is built. Raises `Refused` with UNKNOWN_NAME."""
    chain, state = chain_of(running, label)
    built, label = None, shlex.quote(label)
    with suppress(SdaqfError):
        built = held(running, chain, "snapshot"), held(running, chain, "compaction")
        passages(*built)
    manifest = running.project.manifest(chain.manifest)
    try:
        now = None if state["state"] == "current" else present(running, chain)
        locked = lock.read(running, manifest).repository is not None
    except SdaqfError as error:
        unreviewed = _unreviewed(running, chain) if error.todo == REVIEW else ()
        why = "what is pinned is not as it was reviewed" if unreviewed else f"{error.reason.value}: {inline(str(error).partition(' (')[0])}"
        return Standing(chain, why=why, changed=unreviewed, next=REVIEW if error.todo == REVIEW else f"sdaqf status {label}")
    if built is None:
        return Standing(chain, why="it has not been built", next=f"sdaqf build {label}")
    if now is None:
        return Standing(chain, built, locked=locked)
    was, tree = built[0].content.candidate, running.tree
    changed = tuple(sorted({path for path, *_ in told(*built) ^ told(now.snapshot, now.compaction)}))
    moved = (was.git_head, was.repository_digest) != (tree.git_head, tree.repository_digest)
    return Standing(chain, built, "", changed, moved, locked, f"sdaqf build {label}" if changed else None)


def _unreviewed(running: Run, chain: Chain) -> tuple[str, ...]:
    """The paths of pinned texts that are not as the lock says."""
    manifest = running.project.manifest(chain.manifest)
    with suppress(SdaqfError):
        now = held_now(running.reading(manifest).declaration, Pass(running))
        return tuple(dict.fromkeys(each.pin.path for each in differences(now, lock.read(running, manifest).pins)))
    return ()


# ---- how it is said -------------------------------------------------------------------------------------------------


def lines(found: Standing) -> Iterator[str]:
    """What stands before the document, in plain words; nothing where there is nothing to say."""
    label, names = found.chain.label, ", ".join(f"`{name}`" for name in found.changed[:SHOWN_NAMES])
    names += f" and {len(found.changed) - SHOWN_NAMES} more" if found.changed[SHOWN_NAMES:] else ""
    if found.built is None:
        yield f"**There is no context {label} to read: {found.why}.**"
        if names:
            yield f"Not as reviewed: {names}."
        if found.next:
            yield found.next if found.next == REVIEW else f"Next: {found.next}"
        return
    built = f"tree {found.built[0].content.candidate.git_head[:7]}"
    if found.changed:
        yield f"**This context is not current. Sources changed since it was built at {built}: {names}.**"
        yield f"What follows is how it was built. Next: {found.next}"
    elif found.moved:
        yield f"Sources unchanged; the tree has moved since this was built at {built}."
    if not found.locked:
        yield "Nobody has reviewed this context: there is no lock. A person must review it."
    if found.changed or found.moved or not found.locked:
        yield ""


def value(found: Standing, shown: list[Passage]) -> dict[str, Any]:
    """The same as one value, with every extract that is shown."""
    snapshot, compaction = found.built or (None, None)
    everything = passages(snapshot, compaction) if snapshot and compaction else []
    return {
        "content": content_digest(snapshot, compaction)[:SHOWN_DIGITS] if snapshot and compaction else None,
        "context": f"{found.chain.manifest}/{found.chain.query}",
        "extracts": [
            {
                "authority": extract.authority.value,
                "contradicted": bool(extract.contradiction_ids),
                "place": cite(node),
                "required": extract.required,
                "sensitivity": extract.sensitivity.value,
                "text": extract.text,
                "text_sha256": extract.text_sha256.lower(),
                "title": node.title,
            }
            for node, extract in shown
        ],
        "left_out": len(everything) - len(shown),
        "next": found.next,
        "reviewed": found.built is not None and found.locked,
        "sources": {"changed": [*found.changed], "unchanged": sum(p.node.locator.path not in found.changed for p in everything)},
        "tree": "moved" if found.moved else "same",
        "why": found.why or None,
    }
