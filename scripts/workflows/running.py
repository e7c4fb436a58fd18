"""This module runs one case and compares: what happened, which bucket that is, and every expectation that was not met."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from scripts.workflows.cases import Bucket, Case, Record, Step
from scripts.workflows.folder import NOTHING, Answer, Folder
from sdaqf_tasks.flow.replay import EXTERNAL, FULLY

BROKEN = frozenset({"tampered", "object-missing", "identity-mismatch"})
"""Reasons and findings that say: something is not what its name says."""


class Replayed(NamedTuple):
    """A record as it was replayed by a new process without any repository; `cls` is its class beside the repository."""

    stage: str
    reason: str
    cls: str
    source: str | None
    alone: str
    sensitivity: str
    bytes: int
    seconds: float
    processor: float

    @property
    def fully(self) -> bool:
        """Fully replayable; and still so without the repository, where it claims to need none."""
        return self.cls == FULLY and (self.source == EXTERNAL or self.alone == FULLY)


class Outcome(NamedTuple):
    """How a case went. `error`: it could not be run to its end. `offered`: the abstractions that a lookup offered as usable."""

    case: Case
    observed: Bucket
    unmet: tuple[str, ...] = ()
    error: str | None = None
    records: tuple[Replayed, ...] = ()
    offered: frozenset[str] = frozenset()

    @property
    def passed(self) -> bool:
        return not self.unmet and self.error is None and self.observed is self.case.expect

    @property
    def supported(self) -> bool:
        return self.offered.issuperset(self.case.requires)

    @property
    def replayable(self) -> bool:
        """Whether it left every record that was expected, each fully replayable."""
        return len(self.records) == len(self.case.records) and all(record.fully for record in self.records)


def run(case: Case, path: Path) -> Outcome:
    """Run a case in a new folder at `path`. A case that breaks is an outcome, too."""
    seen = _Seen(case)
    try:
        folder = Folder(path, case)
        for number, step in enumerate(case.steps, 1):
            seen.unmet += [f"step {number}, {step.verb}: {fault}" for fault in seen.take(folder, step)]
        seen.unmet += seen.replay(folder)
        if not seen.offered.issuperset(case.requires):
            seen.unmet.append(f"required and not offered: {', '.join(sorted(set(case.requires) - seen.offered))}")
    except Exception as error:  # whatever it is, the other cases run, and this one counts
        seen.error = f"{type(error).__name__}: {error}"
    worst = Bucket.FAILED if seen.error else max(seen.buckets, key=list(Bucket).index)
    if worst is not case.expect:
        seen.unmet.append(f"expected {case.expect.value}, observed {worst.value}")
    return Outcome(case, worst, tuple(seen.unmet), seen.error, tuple(seen.records), frozenset(seen.offered))


class _Seen:
    """What a case has shown so far."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.unmet: list[str] = []
        self.error: str | None = None
        self.buckets = [Bucket.SUCCESS]
        self.records: list[Replayed] = []
        self.offered = set[str]()
        self._kept: dict[str, Any] = {}

    def take(self, folder: Folder, step: Step) -> Iterator[str]:
        """Do a step; what it should have come to and did not."""
        answer = self._do(folder, step)
        if answer is None:
            return
        self.buckets.append(_bucket(step, answer))
        if isinstance(answer.value, dict):
            self.offered |= {each["concept_id"] for each in answer.value.get("references", ()) if each["usable"]}
        yield from _faults(step, answer, self._kept)
        for name, pointer in step.keep.items():
            self._kept[name] = _at(answer.value, pointer)
            if self._kept[name] is NOTHING:
                raise LookupError(f"there is nothing at {pointer} to keep")

    def _do(self, folder: Folder, step: Step) -> Answer | None:
        match step.verb:
            case "run" | "say":
                line = f"{self._filled(step.run)} --json" if step.run else self._filled(step.say)
                return folder.program("sdaqf_tasks", line, step.env) if step.apart else folder.sdaqf(line, step.env, step.stdin)
            case "doit":
                return folder.program("doit", step.doit, step.env)
            case "read":
                return folder.read(step.read)
            case "write":
                folder.write(folder.repository, {name: self._filled(text) for name, text in step.write.items()})
            case "edit":
                for name, texts in step.edit.items():
                    folder.edit(name, {old: self._filled(new) for old, new in texts.items()})
            case "commit":
                folder.commit(step.commit)
            case "remove":
                for name in step.remove:
                    folder.one(name).unlink()
            case "rename" | "copy":
                for old, new in {**step.rename, **step.copy}.items():
                    folder.write(folder.repository, {new: folder.one(old).read_text("utf-8")})
                    if step.rename:
                        folder.one(old).unlink()
        return None

    def _filled(self, text: str) -> str:
        return _filled(text, self._kept)

    # ---- records

    def replay(self, folder: Folder) -> Iterator[str]:
        """Replay what the case left: beside the repository, then without any; what it should have come to and did not."""
        records = folder.records()
        if len(records) != len(self.case.records):
            yield f"{len(records)} records where {len(self.case.records)} were expected"
        beside = [folder.sdaqf(f"replay {path} --json", {}).value for path in records]
        before = [path.read_bytes() for path in records]
        leaks = [leak for data in before for leak in _leaks(data, self.case, folder)]
        for number, (path, first) in enumerate(zip(folder.carry(records), beside, strict=True)):
            answer = folder.replay(path)
            alone = answer.value if answer.value is not NOTHING else {"class": answer.aside.strip()}
            told = first["record"] or {"stage": "", "refusal": {"reason": ""}, "sensitivity": "", "left_out": []}
            found = Replayed(
                told["stage"],
                told["refusal"]["reason"],
                first["class"],
                first["source"],
                alone["class"],
                told["sensitivity"],
                path.stat().st_size,
                answer.seconds,
                answer.processor,
            )
            self.records.append(found)
            if number < len(self.case.records):
                yield from _differences(f"record {number + 1}", self.case.records[number], found, tuple(told["left_out"]))
            if found.alone == FULLY and alone != first:
                yield f"record {number + 1}: without the repository it is replayed in another way"
            if path.read_bytes() != before[number]:
                yield f"record {number + 1}: its bytes changed"
        yield from leaks


def _differences(what: str, wanted: Record, found: Replayed, left_out: tuple[str, ...]) -> Iterator[str]:
    for name in wanted.__struct_fields__:
        value = left_out if name == "left_out" else getattr(found, name)
        if value != getattr(wanted, name):
            yield f"{what}: {name.replace('cls', 'class')} is {value!r}, not {getattr(wanted, name)!r}"


def _leaks(data: bytes, case: Case, folder: Folder) -> Iterator[str]:
    """What a record tells of the machine or the owner, in its own bytes or in those that it embeds."""
    record = json.loads(data)["record"]
    blobs = [msgspec.convert(blob, bytes) for blob in record["blobs"].values() if blob]
    whole = b"\n".join([data, *blobs])
    if str(folder.path).encode() in whole:
        yield "a record holds a path of the machine"
    told = [text for text in case.private if text.encode() in whole]
    cleared = case.env.get("SDAQF_EMBED_OWNER") == "1"
    if cleared and case.private and (len(told) < len(case.private) or record["sensitivity"] != "owner-private"):
        yield "a record that was cleared for the owner's text lacks it, or does not say what it holds"
    if told and not cleared:
        yield f"a record holds what is the owner's: {told[0]}"


# ---- what an answer comes to ----------------------------------------------------------------------------------------


def _bucket(step: Step, answer: Answer) -> Bucket:
    """The bucket of one answer, by the answer alone."""
    value = answer.value
    if step.verb == "read":
        unresolved = isinstance(value, dict) and value.get("content", {}).get("unresolved_contradiction_ids")
        return Bucket.REFUSED if unresolved else Bucket.SUCCESS
    if answer.exit not in (0, 1, 2) or (step.run and value is NOTHING):
        return Bucket.FAILED
    told = value if isinstance(value, dict) else {}
    codes = {*_reasons(told), *(line.split()[0] for line in _findings(told))}
    if BROKEN & codes or told.get("defects") or told.get("failure") or told.get("class", FULLY) != FULLY:
        return Bucket.FAILED
    return Bucket.REFUSED if answer.exit != 0 or "skipped" in _words(told).values() else Bucket.SUCCESS


def _faults(step: Step, answer: Answer, kept: Mapping[str, Any]) -> Iterator[str]:
    value = answer.value
    told = value if isinstance(value, dict) else {}
    if answer.exit != step.exit:
        yield f"exit {answer.exit}, not {step.exit}: {' '.join(_reasons(told) + _findings(told)) or answer.aside.strip()[-300:]}"
    if step.reason is not None and set(_reasons(told)) != {step.reason}:
        yield f"refused for {', '.join(sorted(set(_reasons(told)))) or 'nothing'}, not {step.reason}"
    if step.words is not None and _words(told) != step.words:
        yield f"the words are {_words(told)}, not {step.words}"
    if step.findings is not None and _findings(told) != (expected := sorted(_filled(each, kept) for each in step.findings)):
        yield f"the findings are {_findings(told)}, not {expected}"
    for pointer, written in step.at.items():
        found, wanted = _at(value, pointer), _meant(written, kept)
        if found != wanted:
            yield f"{pointer} is {'not there' if found is NOTHING else repr(found)}, not {wanted!r}"
    yield from (f"lacks {text!r}" for text in step.holds if text not in answer.text)
    yield from (f"holds {text!r}" for text in step.lacks if text in answer.text)


def _filled(text: str, kept: Mapping[str, Any]) -> str:
    for name in sorted(kept, key=len, reverse=True):
        text = text.replace(f"${name}", str(kept[name]))
    return text


def _meant(wanted: Any, kept: Mapping[str, Any]) -> Any:
    return kept.get(wanted[1:], NOTHING) if isinstance(wanted, str) and wanted.startswith("$") else wanted


def _reasons(told: Mapping[str, Any]) -> list[str]:
    """Why a command, or each context of it, was refused."""
    errors = [told, *(entry.get("error") or {} for entry in _contexts(told))]
    return [error["reason"] for error in errors if "error" in error and "reason" in error]


def _words(told: Mapping[str, Any]) -> dict[str, str]:
    return {entry["context"]: entry.get("result") or entry.get("state") for entry in _contexts(told)}


def _contexts(told: Mapping[str, Any]) -> Sequence[Any]:
    contexts = told.get("contexts", ())
    return [entry for entry in contexts if isinstance(entry, dict)] if isinstance(contexts, list) else ()


def _findings(told: Mapping[str, Any]) -> list[str]:
    found = [*told.get("findings", ()), *told.get("defects", ())]
    return sorted(f"{each['code']} {each.get('path', each.get('place'))}" for each in found)


def _at(value: Any, pointer: str) -> Any:
    """What stands at a JSON pointer; `NOTHING` where nothing does."""
    for written in filter(None, pointer.split("/")):
        step = written.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return NOTHING
    return value
