"""This module leaves a record of everything that was refused: a stage, the look at the tree, the gate (ABSTRACTIONS 8, PIPELINE 4).

A record holds what was asked of the world, the answers, the settings, the clock, and the refusal: enough to be refused
again elsewhere. Answers are kept once, by digest, to 8 MiB. What is the owner's is left out unless `SDAQF_EMBED_OWNER=1`:
then only its digest is there, and the refusal says what may quote nothing. The id is the digest of the canonical record:

    build/blocked/YYYYMMDDThhmmssZ-PID/REPLAY-<hex>.json        mode 0600; the newest fifty stay
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.store import PROGRAM, Store
from sdaqf_tasks.errors import Conflict, SdaqfError, reason_of
from sdaqf_tasks.flow import tape
from sdaqf_tasks.flow.project import ManifestFile, Settings, now
from sdaqf_tasks.flow.run import Origin
from sdaqf_tasks.formats import canonical, globs
from sdaqf_tasks.formats.artifacts import parse
from sdaqf_tasks.formats.records import END, Sensitivity

EMBEDDED = 8_388_608
"""Bytes of answers that a record holds."""

KEPT = 50
RECORD_BYTES = 134_217_728
REPLAY = "REPLAY-"
WITHHELD = "what it says is not in the record: it may quote the owner's text"

Hash = Annotated[str, Meta(pattern=f"^[0-9A-F]{{64}}{END}")]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A closed part of a record. What has a default is written all the same: a record that lacks a member is not that of its id."""


class Failure(_Part, frozen=True, kw_only=True):
    """How something failed: the class of the error, and all that it says."""

    kind: str
    reason: str
    message: str
    where: str
    todo: str
    excerpt: tuple[str, ...]


class Answer(_Part, frozen=True, kw_only=True):
    """One question by `tape.QUESTIONS`, what it was about (`tape.words`), and the digest of its answer, or how it failed."""

    who: str
    what: str
    about: str
    sha256: Hash | None = None
    failure: Failure | None = None


class World(_Part, frozen=True, kw_only=True):
    """What was outside: the moment, how the project was opened and set up, and the answers in their order."""

    clock: str
    fixed_clock: bool
    locked: bool
    owner: bool
    settings: Settings
    manifests: tuple[ManifestFile, ...]
    answers: tuple[Answer, ...]


class Record(_Part, frozen=True, kw_only=True):
    """One refusal. `blobs` holds answers by digest, null for what was left out, and `left_out` says why: `owner` or `bound`.

    `manifest` and `query` are those of a stage; `names`, `base` and `fail_on` what the gate was called with; `shard` is the id
    of the state of a shard that was asked, and `references` the concepts that it was asked for.
    """

    program: str
    stage: str
    manifest: str = ""
    query: str = ""
    names: tuple[str, ...] = ()
    base: str | None = None
    fail_on: tuple[str, ...] = ()
    world: World
    blobs: dict[Hash, bytes | None] = {}
    left_out: dict[Hash, str] = {}
    shard: str | None = None
    references: tuple[str, ...] = ()
    refusal: Failure
    sensitivity: Sensitivity = Sensitivity.REPOSITORY_PRIVATE


class Envelope(_Part, frozen=True, kw_only=True):
    replay_id: str
    record: Record


def failure(error: SdaqfError) -> Failure:
    said = {name: getattr(error, name) for name in ("message", "where", "todo", "excerpt")}
    return Failure(kind=type(error).__name__, reason=error.reason.value, **said)


def withheld(record: Record, refusal: Failure) -> Failure:
    """A refusal as the record may hold it: where the owner's text was left out, in words that quote nothing."""
    if "owner" not in record.left_out.values() or not (reason := reason_of(refusal.reason)):
        return refusal
    return replace(refusal, message=WITHHELD, todo=reason.todo, excerpt=())


def identity(record: Record) -> str:
    return REPLAY + canonical.digest(canonical.encode(record, bounded=False))


# ---- making a record ------------------------------------------------------------------------------------------------


def _record_of(origin: Origin, error: SdaqfError) -> Record:
    run, private = origin.run, _Private(origin, embed=os.environ.get("SDAQF_EMBED_OWNER") == "1")
    blobs, left_out, room = dict[str, bytes | None](), dict[str, str](), EMBEDDED
    answers = []
    for asked in origin.heard.asked:
        question = Answer(who=asked.who, what=asked.what, about=tape.words(asked.about))
        if isinstance(asked.answer, SdaqfError):
            answers.append(replace(question, failure=failure(asked.answer)))
            continue
        data = None if isinstance(asked.answer, tape.Digest) else tape.encode(asked.answer)
        digest = asked.answer if data is None else canonical.digest(data)
        answers.append(replace(question, sha256=digest))
        why = "owner" if private(asked) else "bound" if data is None or len(data) > room else ""
        if why == "owner" or digest not in blobs:
            room -= 0 if why else len(data or b"")
            blobs[digest] = None if why else data
            if why:
                left_out[digest] = why
    live = [
        (asked.answer[0], asked.about[1])
        for asked in origin.heard.asked
        if asked[:2] == ("shards", "live") and isinstance(asked.answer, tuple)
    ]
    record = Record(
        program=PROGRAM,
        **{name: getattr(origin, name) for name in ("stage", "manifest", "query", "names", "base", "fail_on")},
        world=World(
            clock=run.now,
            fixed_clock=run.fixed_clock,
            locked=run.locked,
            owner=run.owner is not None,
            settings=run.project.settings,
            manifests=run.project.manifests,
            answers=tuple(answers),
        ),
        blobs=blobs,
        left_out=left_out,
        shard=live[0][0] if live else None,
        references=tuple(dict.fromkeys(concept for _, concept in live)),
        refusal=failure(origin.error or error),
        sensitivity=private.highest,
    )
    return replace(record, refusal=withheld(record, record.refusal))


class _Private:
    """What of a world is the owner's, and how sensitive the whole is: the files of the owner root, and what a manifest says is
    owner-private. Where a YAML cannot say what is whose, everything that was read may be."""

    def __init__(self, origin: Origin, embed: bool) -> None:
        self._embed, self._unknown = embed, False
        self._patterns: list[tuple[bool, str]] = []
        self.highest = Sensitivity.REPOSITORY_PRIVATE
        run = origin.run
        for name in [origin.manifest] if origin.manifest else origin.names or [each.name for each in run.project.manifests]:
            try:
                sources = run.reading(run.project.manifest(name)).declaration.sources
            except SdaqfError:
                self._unknown = self._unknown or not _is_plain(origin.heard)
                continue
            for each in sources:
                self.highest = max(self.highest, each.sensitivity)
                if each.sensitivity is Sensitivity.OWNER_PRIVATE:
                    self._patterns.append((each.is_glob, each.pattern))

    def __call__(self, asked: tape.Asked) -> bool:
        """Whether an answer stays out of the record."""
        if not self._is_owners(asked):
            return False
        self.highest = Sensitivity.OWNER_PRIVATE
        return not self._embed

    def _is_owners(self, asked: tape.Asked) -> bool:
        match asked:
            case tape.Asked("owner", "read"):
                return True
            case tape.Asked("project", "read", (str(path), *_)):
                return self._is_named(path)
            case tape.Asked("repository", "read", (str(path), *_)):
                return self._unknown or self._is_named(path)
            case tape.Asked("git", "blobs", (names, *_)):  # by COMMIT:PATH, or by an id that does not say of what file it is
                return self._unknown or any(self._is_named(path) if (path := name.partition(":")[2]) else self._patterns for name in names)
            case tape.Asked("store", "get", _, bytes(data)):
                return self._is_artifact_of_owner(data)
            case tape.Asked("store", "get") | tape.Asked("shards", "live"):
                return self._unknown or bool(self._patterns)
        return False

    def _is_named(self, path: str) -> bool:
        return any(globs.matches(pattern, path) if is_glob else pattern == path for is_glob, pattern in self._patterns)

    def _is_artifact_of_owner(self, data: bytes) -> bool:
        try:
            sensitivity: Sensitivity = getattr(parse(data).content, "sensitivity", Sensitivity.PUBLIC)
        except SdaqfError:
            return self._unknown or bool(self._patterns)
        self.highest = max(self.highest, sensitivity)
        return sensitivity is Sensitivity.OWNER_PRIVATE


def _is_plain(heard: tape.Heard) -> bool:
    """Whether no YAML that was read, whole or broken, can say that anything is the owner's: the word is not in it, nor an
    escape that could hide the word."""
    read = [each for each in heard.asked if (each.who, each.what) == ("project", "read") and not each.about[0].endswith(".lock")]
    texts = [each.answer for each in read if isinstance(each.answer, bytes)]
    is_held = not any(isinstance(each.answer, tape.Digest) for each in read)
    return is_held and not any(word in text for text in texts for word in (b"owner", b"\\", b"\0"))


# ---- keeping it -----------------------------------------------------------------------------------------------------


def keep(error: SdaqfError) -> None:
    """Leave the record of a refusal, and name it in the error. Where it cannot be written, the refusal stands alone.

    What only this moment refuses (a lock that is held, a disk that is full) leaves none. A folder that is somebody else's is
    not written to.
    """
    origin: Any = error.origin
    if error.record or isinstance(error, Conflict) or not isinstance(origin, Origin):
        return
    store = origin.run.project.store
    if store.folder.exists() and not store.is_there:
        return
    with suppress(SdaqfError, OSError):
        record = _record_of(origin, error)
        replay_id = identity(record)
        data = canonical.encode(Envelope(replay_id=replay_id, record=record), bounded=False) + b"\n"
        store.create()
        moment = now()[:19].replace("-", "").replace(":", "")
        folder = store.folder / "blocked" / f"{moment}Z-{os.getpid()}"
        files.make_folder(folder, within=store.top)
        with suppress(Conflict):  # the same was refused alike, in the same second
            files.publish(folder / f"{replay_id}.json", data)
        error.record = f"Record {replay_id[:13]} ({len(data) / 1024:.0f} KB, {record.sensitivity.value}): sdaqf replay {replay_id[:13]}"
        _prune(store)


def records(store: Store) -> list[Path]:
    """The records of a build folder, newest first; none that a link leads to."""
    place = store.folder / "blocked"
    folders = [each for each in place.iterdir() if each.is_dir() and not store.is_led_to(each)] if place.is_dir() else []
    found = [path for each in folders for path in each.glob(f"{REPLAY}*.json") if path.is_file() and not path.is_symlink()]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def _prune(store: Store) -> None:
    for path in records(store)[KEPT:]:
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()
