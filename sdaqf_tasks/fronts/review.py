"""This module is `sdaqf lock` and `sdaqf check`: what a person reviewed, and the gate (PIPELINE 3)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.flow import check as gate
from sdaqf_tasks.flow import lock
from sdaqf_tasks.flow.project import ManifestFile, Project
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.fronts import findings
from sdaqf_tasks.fronts.voice import Exit, Voice


def run_lock(options: argparse.Namespace, voice: Voice) -> int:
    """Show what differs from what was reviewed, then write it into the lock."""
    with Run(Project.find(Path.cwd(), owner_root=options.owner_root)) as run:
        project, wanted = run.project, list(run.project.manifests)
        if options.names:
            wanted = [project.manifest(name) for name in options.names]
        if options.resolve:
            return _resolve(run, wanted, options, voice)
        writes: list[tuple[Path, bytes]] = []
        told: list[str] = []
        if options.moved:
            for manifest in wanted:
                sentences, more = lock.follow(run, manifest)
                told, writes = [*told, *sentences], [*writes, *more]
            return _write(run, writes, told, options, voice)
        if options.observed:
            if not options.only:
                raise Refused(
                    Reason.UNKNOWN_NAME, "which observation was made again is not said", todo="Name it: --only ALIAS --observed now"
                )
            for manifest in wanted:
                sentences, more = lock.observed_now(run, manifest, options.only)
                told, writes = [*told, *sentences], [*writes, *more]
            return _write(run, writes, told, options, voice)
        relocked = lock.relock(run, wanted, options.only)
        return _write(run, list(relocked.writes), _entries(relocked), options, voice)


def _entries(relocked: lock.Relocked) -> list[str]:
    """One line a text, with the manifests that pin it, and its changed lines below."""
    texts: dict[tuple[Any, str], list[lock.Pinned]] = {}
    for entry in relocked.entries:
        texts.setdefault((entry.pin, entry.word), []).append(entry)
    width = max((len(pin.shown) for pin, _ in texts), default=0)
    told = []
    for (pin, word), entries in texts.items():
        first = entries[0]
        known = "" if first.known else "   the reviewed text is not in the history at hand"
        told.append(f"{pin.shown:<{width}}   {word:<8}   ({', '.join(entry.manifest for entry in entries)}){known}")
        told += [f"    {line}" for line in first.lines]
    return told


def _write(run: Run, writes: list[tuple[Path, bytes]], told: Sequence[str], options: argparse.Namespace, voice: Voice) -> int:
    names = [lock.shown_place(run, path) for path, _ in writes]
    if not (options.check or options.dry_run):
        lock.write(run, writes)
    if options.json:
        voice.say_json({"changes": list(told), "files": names, "written": not (options.check or options.dry_run)})
    else:
        voice.say(*told)
        word = "would write" if options.check or options.dry_run else "wrote"
        voice.say(f"{word} {', '.join(names)}" if names else "every lock is as the files are")
        if names and word == "wrote" and not sys.stdin.isatty():
            voice.say("written without a terminal: whoever called this says that the texts were read")
    return Exit.REFUSED if options.check and writes else Exit.DONE


def _resolve(run: Run, wanted: Sequence[ManifestFile], options: argparse.Namespace, voice: Voice) -> int:
    waiting, told, writes = 0, [], []
    why = {
        "ours": "the file is ours",
        "theirs": "the file is their version",
        "neither": "both sides edited it: read it, then sdaqf lock --only",
    }
    for manifest in wanted:
        entries, data = lock.resolve(run, manifest)
        if data is None:
            continue
        writes.append((run.project.top / lock.lock_path(manifest), data))
        told += [f"{pin.shown}   {word:<8}   {why[word]}{' ' + pin.path if word == 'neither' else ''}" for pin, word in entries]
        waiting += sum(word == "neither" for _, word in entries)
    code = _write(run, writes, told or ["no lock is in conflict"], options, voice)
    if waiting and not options.json:
        voice.say(f"{waiting} {'entry waits' if waiting == 1 else 'entries wait'} for you")
    return Exit.REFUSED if waiting else code


def run_check(options: argparse.Namespace, voice: Voice) -> int:
    """Compare everything; 0 nothing to complain of, 1 findings, 2 a precondition that was asked for is missing."""
    with Run(Project.find(Path.cwd(), owner_root=options.owner_root)) as run:
        if not run.project.manifests:
            raise Refused(Reason.UNKNOWN_NAME, "there is no manifest to check", todo="Run: sdaqf init")
        checked = gate.check(run, options.names, base=options.base)
    for name, path in options.output:
        files.replace(path, findings.FORMATS[name](checked).encode("utf-8"), mode=0o644)
    voice.say(*findings.FORMATS["json" if options.json else options.format](checked).splitlines())
    if checked.unmet:
        voice.aside(f"sdaqf check: {checked.unmet}")
        return Exit.USAGE
    failed = findings.worst(checked, options.fail_on or ("error",))
    return Exit.REFUSED if failed and not options.exit_zero else Exit.DONE
