"""This module refuses again what was refused, from its record alone, and says what is different now (ABSTRACTIONS 8).

    replay(data, at_hand)   the class of a record, first that holds, and the refusal of the re-run
    why(record, run)        the record against the present
    found(store, name)      the bytes of a record, by what a person calls it

What is done again is what was done: the stage, the look or the gate of the program, over a `Run` that is told the recorded
answers. A question that is not in the record makes it insufficient; only an answer that was left out is asked of who is at hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks import errors
from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.store import PROGRAM, Store
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable, reason_of
from sdaqf_tasks.flow import blocked, check, stages, tape
from sdaqf_tasks.flow.blocked import REPLAY, Answer, Envelope, Failure, Record
from sdaqf_tasks.flow.check import GATE
from sdaqf_tasks.flow.mentions import ago, change_of
from sdaqf_tasks.flow.project import Chain, ManifestFile, Project, Settings
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import BY_NAME, OBSERVE, Job
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.lockfile import LOCK_BYTES
from sdaqf_tasks.formats.records import instant
from sdaqf_tasks.world import Tree

FULLY, OBSERVATIONAL, INSUFFICIENT = "fully_replayable", "observational_only", "insufficient_replay_state"
EMBEDDED, EXTERNAL = "embedded", "external_exact"

AtHand = Callable[[str, str, tuple[Any, ...]], bytes | None]
"""The answer that a question has now, as bytes; None where nobody can be asked. Raises as whoever is asked."""


class Verdict(NamedTuple):
    """The class of a record; where its bytes came from; why it is of no better class; the refusal that the re-run gave."""

    cls: str
    source: str | None
    reason: str | None
    detail: str
    record: Record | None = None
    refusal: Failure | None = None


class _Strayed(Exception):
    """What is done again asked for what the record does not hold."""


def read(data: bytes) -> Record | None:
    """The record, where it is one, whole, of the id that it names, and every part of the digest that names it."""
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
        record = envelope.record
        intact = envelope.replay_id == blocked.identity(record) and canonical.encode(envelope, bounded=False) + b"\n" == data
    except (msgspec.MsgspecError, SdaqfError):
        return None
    blobs = all(blob is None or canonical.digest(blob) == digest for digest, blob in record.blobs.items())
    return record if intact and blobs and record.stage in (GATE, OBSERVE, *BY_NAME) else None


class _Lacking(Exception):
    """An answer was left out of the record, and cannot be had: `missing`, `truncated`, `hash_mismatch` or `unreadable`, and which."""


def replay(data: bytes, at_hand: AtHand = lambda who, what, about: None) -> Verdict:
    record = read(data)
    if record is None:
        return Verdict(INSUFFICIENT, None, None, "the record is damaged or was edited")
    if record.program != PROGRAM:
        return Verdict(OBSERVATIONAL, None, "version", f"made by version {record.program[:20]} of the stages, not {PROGRAM}", record)
    world = _World(record, at_hand)
    try:
        refusal = _again(world)
    except _Lacking as lacking:
        reason, named = lacking.args
        return Verdict(OBSERVATIONAL, None, reason, f"{named}: {_REASONS[reason]}", record)
    except _Strayed as error:
        return Verdict(INSUFFICIENT, None, None, f"it cannot be done again from the record: {error}", record)
    told = refusal and blocked.withheld(record, refusal)
    if told != record.refusal:
        return Verdict(INSUFFICIENT, None, None, "the re-run is not refused alike", record, told)
    alike = "byte for byte" if told == refusal else "as far as the record may tell it"
    return Verdict(FULLY, world.source, None, f"same refusal, {alike}", record, told)


_REASONS = {
    "missing": "its bytes are not in the record, and not at hand",
    "truncated": "its bytes were over the bound of the record, and are not at hand",
    "hash_mismatch": "it is another one by now",
    "unreadable": "it cannot be read here",
}


def _again(world: _World) -> Failure | None:
    """The refusal of the same in the recorded world, or None where it is not refused."""
    try:
        _do(world.run(), world.record)
    except SdaqfError as error:
        return blocked.failure(error)
    except (_Lacking, _Strayed):
        raise
    except Exception as error:  # a record may be forged: answers that no disk would give together lead anywhere
        raise _Strayed(f"its answers do not go together ({type(error).__name__})") from None
    return None


def _do(run: Run, record: Record) -> None:
    """What was refused, over a run. Raises `SdaqfError` where it is refused."""
    if record.stage == GATE:
        if refusal := check.failed(check.check(run, record.names, base=record.base), record.fail_on):
            raise refusal
    elif record.stage == OBSERVE:
        stages.look(run)
    else:
        job = Job(run, BY_NAME[record.stage], Chain(record.manifest, record.query))
        stages.execute(job, job.inputs())


# ---- the recorded world ---------------------------------------------------------------------------------------------


class _World:
    """A world without a machine: every answer is one that was recorded, and to a question put more than once the next of them.

    What was left out is asked of whoever is at hand: only what the program itself asks, and only where that does no more than look.
    """

    def __init__(self, record: Record, at_hand: AtHand) -> None:
        self.record, self.source, self._at_hand = record, EMBEDDED, at_hand
        self._answers: defaultdict[tuple[str, str, str], list[Answer]] = defaultdict(list)
        for answer in reversed(record.world.answers):
            self._answers[answer.who, answer.what, answer.about].append(answer)

    def run(self) -> Run:
        world, told = self.record.world, {who: tape.Told(who, self._find) for who in tape.QUESTIONS}
        project = Project(Path())
        project.settings = world.settings
        project.manifests = tape.decode(world.manifests.encode("utf-8"), tuple[ManifestFile, ...])
        run = Run(project, locked=world.locked, clock=world.clock, told=told if world.owner else {**told, "owner": None})
        run.fixed_clock = world.fixed_clock
        return run

    def _find(self, who: str, what: str, about: tuple[Any, ...]) -> Any:
        words, named = tape.words(about), f"{who}:{about[0]}" if what == "read" else f"{who} {what}"
        known = self._answers.get((who, what, words)) or self._answers.get((who, what, canonical.digest(words.encode("utf-8"))))
        if not known:
            raise _Strayed(f"{named[:200]} is not in it")
        answer = known.pop() if len(known) > 1 else known[0]
        if answer.failure:
            raise _error(answer.failure)
        digest = answer.sha256 or ""
        if digest not in self.record.blobs:
            raise _Strayed(f"{named[:200]} has no answer")
        if (data := self.record.blobs[digest]) is None:
            data, self.source = self._ask(who, what, about, digest, named[:200]), EXTERNAL
        try:
            return tape.decode(data, tape.QUESTIONS[who][what])
        except ValueError:
            raise _Strayed(f"{named[:200]} has no answer of its kind") from None

    def _ask(self, who: str, what: str, about: tuple[Any, ...], digest: str, named: str) -> bytes:
        """What was left out, from who answers with those very bytes now."""
        try:
            data = self._at_hand(who, what, about) if what in _ASKED_AGAIN else None
        except (SdaqfError, OSError, ValueError) as error:
            if isinstance(error, SdaqfError) and canonical.digest(canonical.encode(blocked.failure(error))) == digest:
                raise  # just so it failed then
            raise _Lacking("unreadable", named) from None
        if data is None:
            raise _Lacking("truncated" if self.record.left_out.get(digest) == "bound" else "missing", named)
        if canonical.digest(data) != digest:
            raise _Lacking("hash_mismatch", named)
        return data


_ASKED_AGAIN = frozenset(("read", "has", "get", "blobs", "history", "observe", "modified", "tell", "marked", "live"))
"""The questions that are put to a real project while a record, which may be anybody's, is replayed: they only look."""


def _error(failure: Failure) -> SdaqfError:
    kind = getattr(errors, failure.kind, None)
    reason = reason_of(failure.reason)
    if not (isinstance(kind, type) and issubclass(kind, SdaqfError)) or reason is None:
        raise _Strayed(f"a failure of a kind that is not known here: {failure.kind[:40]}")
    return kind(reason, failure.message, at=failure.where, todo=failure.todo, excerpt=failure.excerpt)


# ---- the present ----------------------------------------------------------------------------------------------------


def at_hand(run: Run) -> AtHand:
    """The answers of a project as it is now, for what a record left out."""

    def ask(who: str, what: str, about: tuple[Any, ...]) -> bytes | None:
        real = run.answering.get(who)
        _ = run.tree  # of the past git tells as of the last look
        return None if real is None else tape.encode(getattr(real, what)(*about))

    return ask


class Since(NamedTuple):
    """What is different now: facts in sentences, and how the same would end; None where it would pass."""

    changes: tuple[str, ...]
    refusal: SdaqfError | None


def why(record: Record, run: Run) -> Since:
    """Compare the record with the present, and do the same again in memory; nothing is written."""
    return Since(tuple(_changes(record, run)), _rehearse(run, record))


def _changes(record: Record, run: Run) -> Iterator[str]:
    world = record.world
    yield f"clock: {world.clock} then, {run.now} now"
    for name in Settings.__struct_fields__:
        if (then := getattr(world.settings, name)) != (now := getattr(run.project.settings, name)):
            yield f"settings: {name} was {then!r}, is {now!r}"[:400]
    looks = [answer for answer in world.answers if answer.what == "observe"]
    yield from _moved(record, looks[0], run) if looks else ()
    words: dict[tuple[str, str], str] = {}
    for answer in world.answers:
        with suppress(ValueError):  # what is of no use to the program, or hidden
            path, limit = tape.decode(answer.about.encode("utf-8"), tuple[str, int])
            if answer.what == "read" and 0 <= limit <= LOCK_BYTES and (real := run.answering.get(answer.who)):
                words.setdefault(("owner:" if answer.who == "owner" else "", path), _reads(real, answer, path, limit))
    history = History(run.repository, [path for whose, path in words if not whose])
    for (whose, path), word in words.items():
        if word:
            yield f"{whose}{path} {word}{'' if whose else _by(history, path, world.clock, run.now)}"


def _reads(root: Root, answer: Answer, path: str, limit: int) -> str:
    """How a file is now, in words; nothing where it is as it was."""
    digest = None
    with suppress(SdaqfError):
        digest = canonical.digest(root.read(path, limit))
    if digest == answer.sha256:
        return ""
    return "is there now" if answer.sha256 is None else "is gone, or cannot be read" if digest is None else "reads differently now"


def _by(history: History, path: str, since: str, now: str) -> str:
    """The last commit that changed a file, where that came since the record was made."""
    with suppress(SdaqfError):
        for change in map(change_of, history.versions(path)[:1]):
            if instant(change.time) > instant(since):
                return f' (changed by {change.commit[:7]}, {ago(change.time, now)}: "{change.subject[:80]}")'
    return ""


def _moved(record: Record, answer: Answer, run: Run) -> Iterator[str]:
    with suppress(SdaqfError, ValueError):
        then, now = tape.decode(record.blobs.get(answer.sha256 or "") or b"", Tree), run.tree
        same = "the same now" if then.repository_digest == now.repository_digest else "with other files now"
        moved = same if then.git_head == now.git_head else f"then, {now.git_head[:7]} of {now.committed} now"
        yield f"tree: {then.git_head[:7]} of {then.committed} {moved}"


def _rehearse(run: Run, record: Record) -> SdaqfError | None:
    """Do the same in memory, a stage with those before it: the refusal, if any."""
    kept, refs, objects = run.store, dict[str, str](), dict[str, bytes]()
    run.locked = record.world.locked
    if record.stage != GATE:
        # A store that holds only what is made here, and writes nothing.
        scratch: Any = SimpleNamespace(ref=refs.get, get=objects.__getitem__, is_there=kept.is_there, create=lambda: None)
        run.store = scratch
    try:
        if record.stage not in BY_NAME:
            _do(run, record)
            return None
        _ = run.tree
        chain = Chain(record.manifest, record.query)
        if stages.is_skipped(run, run.reading(run.project.manifest(chain.manifest)).declaration):
            return None
        for stage in stages.up_to(BY_NAME[record.stage]):
            job = Job(run, stage, chain)
            made = stages.execute(job, job.inputs())
            refs[stages.ref_name(chain, stage.makes)] = made.object_id
            objects[made.object_id] = made.data
    except SdaqfError as error:
        return error
    finally:
        run.store = kept
    return None


def found(store: Store | None, name: str) -> bytes:
    """The bytes of a record: a file by its path, the newest (`latest`), or one of the build folder by the beginning of its id.

    Raises `Refused`: UNKNOWN_NAME; `Unreadable` for what is there and is no file that can be read.
    """
    try:
        if name not in ("", "latest"):
            return files.read_file(Path(name), blocked.RECORD_BYTES)
    except Unreadable as error:
        if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            raise
    known = blocked.records(store) if store else []
    if name == "latest" and not known:
        raise Refused(Reason.UNKNOWN_NAME, "nothing that was refused here has left a record", todo="Name a file.")
    begins = name.upper()[:71] if len(name) > len(REPLAY) else "no record"
    named = known if name == "latest" else [path for path in known if path.name.startswith(begins)]
    if not named:
        todo = f"Name a file, latest, or {REPLAY} and its first digits."
        raise Refused(Reason.UNKNOWN_NAME, f"there is no record {name[:80]!r}", todo=todo)
    return files.read_file(named[0], blocked.RECORD_BYTES)
