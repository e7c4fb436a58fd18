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
from sdaqf_tasks.flow.run import Origin, Run
from sdaqf_tasks.formats import canonical, globs, plain_yaml
from sdaqf_tasks.formats.artifacts import parse
from sdaqf_tasks.formats.records import END, RootScope, Sensitivity

EMBEDDED = 8_388_608
"""Bytes of answers that a record holds."""

SMALL = 4_096
"""Bytes of an answer that is held whatever the others take."""

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
    """One question by `tape.QUESTIONS`, what it was about (`tape.words`, or the SHA-256 of that where it may quote the owner),
    and the digest of its answer, or how it failed; where that may quote the owner, the digest of this."""

    who: str
    what: str
    about: str
    sha256: Hash | None = None
    failure: Failure | None = None


class World(_Part, frozen=True, kw_only=True):
    """What was outside: the moment, how the project was opened and set up, its manifests (`tape.encode`), the answers in their order."""

    clock: str
    fixed_clock: bool
    locked: bool
    owner: bool
    settings: Settings
    manifests: str
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
    said = {name: _encodable(getattr(error, name)) for name in ("message", "where", "todo")}
    return Failure(kind=type(error).__name__, reason=error.reason.value, excerpt=tuple(map(_encodable, error.excerpt)), **said)


def _encodable(text: str) -> str:
    """The text, with an escape for what of a name is not UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
    answers, live = list[Answer](), list[tuple[str, str]]()
    for asked in origin.heard.asked:
        about, is_private = tape.words(asked.about), private(asked)
        hidden = is_private and asked.who != "owner" and asked.what != "get"  # what was asked about may quote the owner, too
        question = Answer(who=asked.who, what=asked.what, about=canonical.digest(about.encode("utf-8")) if hidden else about)
        if isinstance(asked.answer, SdaqfError):
            failed = failure(asked.answer)
            digest = canonical.digest(canonical.encode(failed))
            answers.append(replace(question, sha256=digest) if hidden else replace(question, failure=failed))
            if hidden:
                blobs[digest], left_out[digest] = None, "owner"
            continue
        if asked.what == "live" and isinstance(asked.answer, tuple) and not hidden:
            live.append((asked.answer[0], asked.about[1]))
        cut = asked.answer if isinstance(asked.answer, tape.Digest) else None
        data = None if cut else tape.encode(asked.answer)
        digest = cut.sha256 if cut else canonical.digest(data or b"")
        answers.append(replace(question, sha256=digest))
        why = "owner" if is_private else "bound" if data is None or len(data) > max(room, SMALL) else ""
        if why == "owner" or digest not in blobs:
            room -= 0 if why else len(data or b"")
            blobs[digest] = None if why else data
            if why:
                left_out[digest] = why
    record = Record(
        program=PROGRAM,
        **{name: getattr(origin, name) for name in ("stage", "manifest", "query", "names", "base", "fail_on")},
        world=World(
            clock=run.now,
            fixed_clock=run.fixed_clock,
            locked=run.locked,
            owner=run.owner is not None,
            settings=run.project.settings,
            manifests=tape.encode(run.project.manifests).decode("utf-8"),
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
    """What of a world is the owner's, and how sensitive the whole is.

    The owner's are the files of the owner root, and what any manifest of the project says is owner-private. Where that lies in
    the repository, or a YAML cannot say, its text may stand anywhere: in another file, in history, in what a document names.
    Then no text is kept at all, whosever it is; but that of a YAML which cannot be read, without which nothing is refused again.
    """

    def __init__(self, origin: Origin, embed: bool) -> None:
        self._embed, self._anywhere, self._here = embed, False, False
        self._patterns: list[tuple[bool, str]] = []
        self.highest = Sensitivity.REPOSITORY_PRIVATE
        run, about = origin.run, {origin.manifest} if origin.manifest else set(origin.names)
        for manifest in run.project.manifests:
            try:
                sources = run.reading(manifest).declaration.sources
            except SdaqfError:
                self._anywhere = self._anywhere or not _is_plain(run, manifest, origin.heard)
                continue
            for each in sources:
                if manifest.name in about or not about:
                    self.highest = max(self.highest, each.sensitivity)
                if each.sensitivity is Sensitivity.OWNER_PRIVATE:
                    self._patterns.append((each.is_glob, each.pattern))
                    self._here = self._here or each.entry.root is RootScope.REPOSITORY
        self._anywhere = self._anywhere or self._here

    def __call__(self, asked: tape.Asked) -> bool:
        """Whether an answer stays out of the record."""
        if not self._is_owners(asked):
            return False
        self.highest = Sensitivity.OWNER_PRIVATE
        return not self._embed

    def _is_owners(self, asked: tape.Asked) -> bool:
        match asked.who, asked.what:
            case "owner", "read":
                return True
            case "project", "read":
                return self._here or any(
                    globs.matches(pattern, asked.about[0]) if is_glob else pattern == asked.about[0] for is_glob, pattern in self._patterns
                )
            case ("repository", "read") | ("git", "blobs" | "history") | ("past" | "documents" | "shards", _):
                return self._anywhere
            case "store", "get":
                return self._anywhere or self._is_artifact_of_owner(asked.answer)
        return False

    def _is_artifact_of_owner(self, data: object) -> bool:
        try:
            sensitivity: Sensitivity = getattr(parse(data if isinstance(data, bytes) else b"").content, "sensitivity", Sensitivity.PUBLIC)
        except SdaqfError:
            return bool(self._patterns)
        self.highest = max(self.highest, sensitivity)
        return sensitivity is Sensitivity.OWNER_PRIVATE


def _is_plain(run: Run, manifest: ManifestFile, heard: tape.Heard) -> bool:
    """Whether a YAML that cannot be read says nothing of an owner, nor did when it was read: it is there, the word is not in it,
    nor an escape that could hide the word, nor an include."""
    texts = [asked.answer for asked in heard.asked if (asked.who, asked.what, *asked.about[:1]) == ("project", "read", manifest.path)]
    with suppress(SdaqfError):
        texts.append(run.root.read(manifest.path, plain_yaml.BYTES))
    hiding = (b"owner", b"include", b"\\", b"\0")
    return bool(texts) and all(isinstance(text, bytes) and not any(word in text for word in hiding) for text in texts)


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
    with suppress(SdaqfError, OSError):
        record = _record_of(origin, error)
        replay_id = identity(record)
        data = canonical.encode(Envelope(replay_id=replay_id, record=record), bounded=False) + b"\n"
        if store.is_foreign:
            return
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
