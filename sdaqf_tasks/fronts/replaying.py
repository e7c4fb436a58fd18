"""This module is `sdaqf replay`: it refuses again what was refused, and says what is different now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import msgspec

from sdaqf_tasks.errors import Reason, Refused, SdaqfError
from sdaqf_tasks.flow import replay, report
from sdaqf_tasks.flow.blocked import Record
from sdaqf_tasks.flow.check import GATE
from sdaqf_tasks.flow.project import Chain
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.fronts import commands
from sdaqf_tasks.fronts.commands import Options
from sdaqf_tasks.fronts.voice import Voice


def run(options: Options, voice: Voice) -> int:
    """Exit 0 where the record is fully replayable, else 1. Without a project, or beside a broken one, a file that holds everything is
    replayed all the same; whatever else needs the project says what is wrong with it."""
    with ExitStack() as stack:
        here = fault = None
        try:
            here = stack.enter_context(Run(commands.project_here(options.owner_root)))
        except SdaqfError as error:
            fault = error if error.reason is not Reason.NOT_A_REPOSITORY else None
        try:
            data = replay.found(here.store if here else None, options.record)
        except Refused as error:
            raise fault or error from None
        if fault and options.why:
            raise fault
        verdict = replay.replay(data, replay.at_hand(here)) if here else replay.replay(data)
        since = replay.why(verdict.record, here) if options.why and here and verdict.record else None
    found, refused = told(verdict, since, options.why), verdict.cls != replay.FULLY
    return voice.answer(found, lines(verdict, since, options.why), as_json=options.json, refused=refused)


def told(verdict: replay.Verdict, since: replay.Since | None, why: bool) -> dict[str, Any]:
    facts = {name: getattr(verdict, name) for name in ("source", "reason", "detail")}
    found: dict[str, Any] = {"class": verdict.cls, **facts, "record": None}
    if record := verdict.record:
        found["record"] = {
            "stage": record.stage,
            "context": record.manifest or ", ".join(record.names),
            "query": record.query,
            "clock": record.world.clock,
            "refusal": msgspec.to_builtins(record.refusal),
            "sensitivity": record.sensitivity.value,
            "left_out": sorted(set(record.left_out.values())),
        }
    if why:
        refusal = report.error_object(since.refusal, "replay") if since and since.refusal else None
        found["why"] = {"changes": since.changes, "refusal": refusal} if since else None
    return found


def lines(verdict: replay.Verdict, since: replay.Since | None, why: bool) -> Iterator[str]:
    record = verdict.record
    source = {replay.EMBEDDED: "no repository needed", replay.EXTERNAL: "with files that are at hand"}.get(verdict.source or "", "")
    yield " · ".join(filter(None, (verdict.detail, verdict.cls.replace("_", " "), source)))
    if record is None:
        return
    label = Chain(record.manifest, record.query).label if record.manifest else ", ".join(record.names)
    yield f"{record.stage}{label and f' of {label}'}, at {record.world.clock}"
    where = f"{record.refusal.where}: " if record.refusal.where else ""
    yield f"  {where}{record.refusal.message}"
    yield f"  {record.refusal.todo}   ({record.refusal.reason})"
    yield from _findings(record) if record.stage == GATE else ()
    if verdict.refusal and verdict.refusal != record.refusal:
        yield f"  the re-run says: {verdict.refusal.message}   ({verdict.refusal.reason})"
    if since:
        yield "since then"
        yield from (f"  {change}" for change in since.changes)
        yield f"  refused now: {since.refusal}" if since.refusal else "  this would pass now"
    elif why:
        yield "There is no project here to compare it with."


class _Finding(msgspec.Struct):
    """What is shown of a finding of a gate."""

    path: str
    line: int
    severity: str
    code: str
    message: str


def _findings(record: Record) -> Iterator[str]:
    for line in record.refusal.excerpt:
        with suppress(msgspec.MsgspecError):  # a record may be anybody's
            found = msgspec.json.decode(line, type=_Finding)
            yield f"  {found.path}:{found.line}  {found.severity}  {found.code}  {found.message}"
