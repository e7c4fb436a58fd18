"""This module is `sdaqf lock` and `sdaqf check`: what a person reviewed, and the gate (PIPELINE 3)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.flow import blocked, lock, moved, stages
from sdaqf_tasks.flow import check as gate
from sdaqf_tasks.flow.lock import Entry, Relocked, Write
from sdaqf_tasks.flow.project import ManifestFile
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.fronts import findings
from sdaqf_tasks.fronts.commands import Usage, project_here
from sdaqf_tasks.fronts.voice import Exit, Voice, counted

SHOWN_LINES = 20
"""Changed lines of one text that are shown to people; `--json` has them all."""


class _Answer(NamedTuple):
    """What one way of calling `sdaqf lock` would do: lines for people, values for programs, files to write."""

    lines: Sequence[str]
    changes: Sequence[dict[str, Any]]
    writes: Sequence[Write]
    waiting: int = 0


def run_lock(options: argparse.Namespace, voice: Voice) -> int:
    """Show what differs from what was reviewed, then write it into the lock."""
    if sum(map(bool, (options.resolve, options.moved, options.observed))) > 1:
        raise Usage(options.program, "--moved, --observed and --resolve each go alone")
    if options.resolve and options.only:
        raise Usage(options.program, "--resolve looks at every entry of a conflict; --only comes after it")
    with Run(project_here(options.owner_root, to="lock")) as run:
        manifests = [run.project.manifest(name) for name in dict.fromkeys(options.names)] or list(run.project.manifests)
        answer = _resolve(run, manifests) if options.resolve else _relock(run, _at_hand(run, manifests, options, voice), options)
        reviewed = not (options.check or options.dry_run)
        if reviewed:
            lock.write(run, answer.writes)
    _tell(answer, options, voice, written=reviewed)
    return Exit.REFUSED if answer.waiting or (options.check and answer.writes) else Exit.DONE


def _at_hand(run: Run, manifests: Sequence[ManifestFile], options: argparse.Namespace, voice: Voice) -> list[ManifestFile]:
    """The manifests without those whose owner sources are not at hand; one of these that was named is refused."""
    skipped = [manifest for manifest in manifests if stages.is_skipped(run, run.reading(manifest).declaration)]
    for manifest in skipped:
        if manifest.name in options.names:
            raise Refused(Reason.OWNER_SOURCES_SKIPPED, f"{manifest.name} has owner sources and no owner root is given")
        voice.aside(f"{manifest.name}   skipped: it has owner sources and no owner root is given (SDAQF_OWNER_ROOT, --owner-root)")
    return [manifest for manifest in manifests if manifest not in skipped]


def _relock(run: Run, manifests: Sequence[ManifestFile], options: argparse.Namespace) -> _Answer:
    told: list[str] = []
    if options.observed:
        told, found = moved.observe_now(run, manifests, options.only)
    elif options.moved:
        found = moved.follow(run, manifests, options.only)
    else:
        found = lock.relock(run, manifests, options.only)
    changes = [{"change": "observed", "text": sentence} for sentence in told]
    return _Answer([*told, *_entries(found)], [*changes, *map(_value, found.entries)], found.writes)


def _entries(found: Relocked) -> Iterator[str]:
    """One line a text, with the contexts that tell it and those that require it, and its changed lines below."""
    texts: dict[tuple[Any, ...], list[Entry]] = {}
    for entry in found.entries:
        texts.setdefault((entry.pin, entry.word, entry.to, entry.lines), []).append(entry)
    width = max((len(entry.pin.shown) for entry in found.entries), default=0)
    for (pin, word, to, lines), entries in texts.items():
        required = [label for entry in entries for label in entry.told.required]
        contexts = ", ".join(label for entry in entries for label in entry.told.contexts)
        needing = f"; required in {', '.join(required)}" if required else ""
        what = f"is {to.shown} now" if to else _counted(lines) if lines else "" if entries[0].known else "the reviewed text is not at hand"
        yield f"{pin.shown:<{width}}   {word:<8}   {what + '   ' if what else ''}({contexts}{needing})"
        yield from (f"    {line}" for line in lines[:SHOWN_LINES])
        if len(lines) > SHOWN_LINES:
            yield f"    … and {len(lines) - SHOWN_LINES} more"


def _counted(lines: Sequence[str]) -> str:
    return counted(max(sum(line.startswith(sign) for line in lines) for sign in "-+"), "line")


def _value(entry: Entry) -> dict[str, Any]:
    pin = entry.to or entry.pin
    return {
        "change": entry.word,
        "scope": pin.scope,
        "path": pin.path,
        "part": pin.part[1],
        "before": entry.pin.shown,
        "old": entry.old,
        "new": entry.new,
        "lines": list(entry.lines),
        "contexts": list(entry.told.contexts),
        "required": list(entry.told.required),
    }


_WHY = {
    "ours": "the file is ours",
    "theirs": "the file is their version",
    "gone": "no pinned source is this any more",
    "neither": "both sides edited it: read it, then sdaqf lock --only",
}


def _resolve(run: Run, manifests: Sequence[ManifestFile]) -> _Answer:
    found = [(entries, write) for entries, write in (lock.resolve(run, manifest) for manifest in manifests) if write]
    resolved = [entry for entries, _ in found for entry in entries]
    width = max((len(pin.shown) for pin, _ in resolved), default=0)
    lines = [f"{pin.shown:<{width}}   {word:<8}   {_WHY[word]}{' ' + pin.path if word == 'neither' else ''}" for pin, word in resolved]
    changes = [{"change": word, "scope": pin.scope, "path": pin.path, "part": pin.part[1]} for pin, word in resolved]
    waiting = sum(word == "neither" for _, word in resolved)
    return _Answer(lines if found else ["no lock is in conflict"], changes, [write for _, write in found if write], waiting)


def _tell(answer: _Answer, options: argparse.Namespace, voice: Voice, *, written: bool) -> None:
    terminal, names = sys.stdin.isatty(), list(dict.fromkeys(write.shown for write in answer.writes))
    if options.json:
        members = {"changes": list(answer.changes), "files": names, "terminal": terminal, "waiting": answer.waiting}
        voice.say_json({**members, "written": written and bool(names)})
        return
    waiting = f"; {answer.waiting} {'entry waits' if answer.waiting == 1 else 'entries wait'} for you" if answer.waiting else ""
    voice.say(*answer.lines)
    if names:
        voice.say(f"{'wrote' if written else 'would write'} {', '.join(names)}{waiting}")
    elif not options.resolve:
        told = "nothing moved" if options.moved else "no observation has ended" if options.observed else "every lock is as the files are"
        voice.say(told)
    if names and written and not terminal and not options.resolve:
        voice.say("written without a terminal: whoever called this says that the texts were read")


def run_check(options: argparse.Namespace, voice: Voice) -> int:
    """Compare everything; 0 nothing to complain of, 1 findings, 2 a precondition that was asked for is missing."""
    if options.owner_root is not None and not options.owner_root.is_dir():
        raise Usage(options.program, "--owner-root is no folder")
    with Run(project_here(options.owner_root, to="check")) as run:
        fail_on = [] if options.exit_zero else options.fail_on or ["error"]
        checked, refusal = gate.gate(run, options.names, base=options.base, fail_on=fail_on)
        gate.verify_outputs(run, [path for _, path in options.output])
        if refusal:
            blocked.keep(refusal)
    for name, path in options.output:
        files.replace(path, findings.FORMATS[name](checked).encode("utf-8"), mode=0o644)
    voice.say(*findings.FORMATS["json" if options.json else options.format](checked).splitlines())
    if checked.unmet:
        voice.aside(f"sdaqf check: {checked.unmet}")
        return Exit.USAGE
    if refusal and refusal.record:
        voice.aside(refusal.record)
    return Exit.REFUSED if refusal else Exit.DONE
