"""This module leaves a record of every refused stage, from which it can be refused again elsewhere (ABSTRACTIONS 8, PIPELINE 4).

A record holds the world as the stage saw it: what it took, what it read, the tree, the clock, what git told, and the
refusal. Bytes are kept once, by digest, to 8 MiB. What is the owner's is left out unless `SDAQF_EMBED_OWNER=1`: then only
its digest is there, and the refusal says what may quote nothing. The id is the digest of the canonical record, and the file has its name:

    build/blocked/YYYYMMDDThhmmssZ-PID/REPLAY-<hex>.json        mode 0600; the newest fifty stay
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Self

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.disk.store import PROGRAM, Store
from sdaqf_tasks.errors import Conflict, SdaqfError, Unreadable, reason_of
from sdaqf_tasks.flow import lock
from sdaqf_tasks.flow.project import now, read_declaration
from sdaqf_tasks.flow.stages import Job
from sdaqf_tasks.formats import canonical, globs, plain_yaml
from sdaqf_tasks.formats.lockfile import LOCK_BYTES
from sdaqf_tasks.formats.records import END, RootScope, Sensitivity
from sdaqf_tasks.world import REFERENCE_BYTES, SOURCE_BYTES, Observed, Tree

EMBEDDED = 8_388_608
"""Bytes of files that a record holds."""

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


class Look(_Part, frozen=True, kw_only=True):
    """A tree as it was observed; names are git's bytes, with NUL between them."""

    git_head: str
    repository_digest: str
    committed: str
    files: bytes
    links: bytes
    submodules: bytes
    absent: bytes
    untracked: bytes
    excluded: bytes

    @classmethod
    def of(cls, tree: Tree) -> Self:
        told: dict[str, Any] = {name: fact if isinstance(fact, str) else _joined(fact) for name, fact in tree._asdict().items()}
        return cls(**told)

    @property
    def tree(self) -> Tree:
        told: dict[str, Any] = {name: _parted(held) if isinstance(held := getattr(self, name), bytes) else held for name in Tree._fields}
        return Tree(**told | {name: frozenset(told[name]) for name in ("untracked", "excluded")})


class Read(_Part, frozen=True, kw_only=True):
    """A file that was read: its digest, or how the reading failed; neither where nothing was there."""

    scope: RootScope
    path: str
    limit: Annotated[int, Meta(ge=0, le=max(plain_yaml.BYTES, LOCK_BYTES, SOURCE_BYTES, REFERENCE_BYTES))]
    sha256: Hash | None = None
    failure: Failure | None = None


class World(_Part, frozen=True, kw_only=True):
    """What was outside. `trees`: the tree at the beginning, and each later look, null where it was the same. Without a job
    there are no trees, reads and stories: such a record is only looked at."""

    clock: str
    locked: bool
    owner: bool
    excludes: tuple[str, ...]
    trees: tuple[Look | None, ...] = ()
    reads: tuple[Read, ...] = ()
    declared: tuple[Read, ...] = ()
    stories: dict[str, str] = {}


class Record(_Part, frozen=True, kw_only=True):
    """One refused stage. `inputs` are ids by what they are, null where there was none; `objects` and `blobs` hold bytes by
    id and digest, null for what was left out, and `left_out` says why: `owner`, `bound` or `gone`."""

    program: str
    stage: str
    manifest: str = ""
    path: str = ""
    query: str = ""
    world: World
    inputs: dict[str, str | None] = {}
    objects: dict[str, bytes | None] = {}
    blobs: dict[Hash, bytes | None] = {}
    left_out: dict[str, str] = {}
    shard: str | None = None
    references: tuple[str, ...] = ()
    refusal: Failure
    sensitivity: Sensitivity = Sensitivity.REPOSITORY_PRIVATE

    def read_of(self, sha256: str) -> Read | None:
        """Where the bytes of that digest were read."""
        return next((each for each in (*self.world.reads, *self.world.declared) if each.sha256 == sha256), None)


class Envelope(_Part, frozen=True, kw_only=True):
    replay_id: str
    record: Record


def _joined(names: tuple[str, ...] | frozenset[str]) -> bytes:
    ordered = sorted(names) if isinstance(names, frozenset) else names
    return b"\0".join(name.encode("utf-8", "surrogateescape") for name in ordered)


def _parted(joined: bytes) -> tuple[str, ...]:
    return tuple(name.decode("utf-8", "surrogateescape") for name in joined.split(b"\0")) if joined else ()


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


class _Bytes:
    """The bytes of one record, to its bound."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes | None] = {}
        self.left_out: dict[str, str] = {}
        self._room = EMBEDDED

    def keep(self, digest: str, data: bytes | None, *, private: bool) -> str:
        why = "owner" if private else "gone" if data is None else "bound" if len(data) > self._room else ""
        if digest not in self.blobs:
            self.blobs[digest] = None if why else data
            if why:
                self.left_out[digest] = why
            else:
                self._room -= len(data or b"")
        return digest


def _record_of(job: Job, error: SdaqfError) -> Record:
    run, refusal = job.run, failure(error)
    kept, private = _Bytes(), _Private(job, embed=os.environ.get("SDAQF_EMBED_OWNER") == "1")
    reads, declared = tuple(_reads(job, kept, private)), tuple(_declared(job, kept, private))
    first, later = job.first_tree, job.log.trees
    world = World(
        clock=run.now,
        locked=run.locked,
        owner=run.owner is not None,
        excludes=run.excludes,
        trees=(Look.of(first), *(None if tree == first else Look.of(tree) for tree in later)),
        reads=reads,
        declared=declared,
        stories=job.log.stories,
    )
    record = Record(
        program=PROGRAM,
        stage=job.stage.name,
        manifest=job.chain.manifest,
        path=job.manifest_file.path,
        query=job.chain.query,
        world=world,
        inputs=dict(job.log.inputs),
        objects=_objects(job, kept, private),
        blobs=kept.blobs,
        left_out=kept.left_out,
        refusal=refusal,
        sensitivity=private.highest,
    )
    return replace(record, refusal=withheld(record, refusal))


class _Private:
    """What of a job's world is the owner's, and how sensitive the whole is. `unknown`: the YAML does not say."""

    def __init__(self, job: Job, embed: bool) -> None:
        self.embed, self.unknown = embed, True
        self._patterns: list[tuple[bool, str]] = []
        self.highest = Sensitivity.REPOSITORY_PRIVATE
        with suppress(SdaqfError):
            for each in job.declaration.sources:
                self.highest = max(self.highest, each.sensitivity)
                if each.sensitivity is Sensitivity.OWNER_PRIVATE:
                    self._patterns.append((each.is_glob, each.pattern))
            self.unknown = False

    def __call__(self, scope: RootScope, path: str) -> bool:
        """Whether the bytes of a file stay out of the record."""
        named = any(globs.matches(pattern, path) if is_glob else pattern == path for is_glob, pattern in self._patterns)
        if scope is RootScope.OWNER or named:
            self.highest = max(self.highest, Sensitivity.OWNER_PRIVATE)
            return not self.embed
        return False


def _reads(job: Job, kept: _Bytes, private: _Private) -> Iterator[Read]:
    for (scope, path, limit), found in job.log.reads.items():
        is_private = private(scope, path) or (private.unknown and not private.embed)
        if isinstance(found, Observed):
            digest = kept.keep(found.sha256, found.data, private=is_private)
            yield Read(scope=scope, path=path, limit=limit, sha256=digest)
        else:
            yield Read(scope=scope, path=path, limit=limit, failure=failure(found))


def _declared(job: Job, kept: _Bytes, private: _Private) -> Iterator[Read]:
    """The YAML with its includes, and the locks, as they are read an instant later; where one is another by then, it is gone."""
    here, digests = job.run.project.root, dict[str, str]()
    with suppress(SdaqfError):
        digests = job.run.reading(job.manifest_file).digests
    places: list[tuple[RootScope, Root, str, int]] = []

    def read(path: str, limit: int) -> bytes:
        places.append((RootScope.REPOSITORY, here, path, limit))
        return here.read(path, limit)

    with suppress(SdaqfError):
        read_declaration(read, job.manifest_file.path, job.manifest_file.name)
    places.append((RootScope.REPOSITORY, here, lock.lock_path(job.manifest_file), LOCK_BYTES))
    if job.run.owner:
        places.append((RootScope.OWNER, job.run.owner, lock.owner_path(job.manifest_file), LOCK_BYTES))
    for scope, root, path, limit in places:
        try:
            data = root.read(path, limit)
        except Unreadable as error:
            yield Read(scope=scope, path=path, limit=limit, failure=failure(error) if root.has(path) else None)
            continue
        digest = canonical.digest(data)
        expected = digests.get(path, digest) if scope is RootScope.REPOSITORY else digest
        kept.keep(expected, data if expected == digest else None, private=private(scope, path))
        yield Read(scope=scope, path=path, limit=limit, sha256=expected)


def _objects(job: Job, kept: _Bytes, private: _Private) -> dict[str, bytes | None]:
    """What the stage took, whole, unless it holds the owner's text."""
    found: dict[str, bytes | None] = {}
    for object_id in filter(None, job.log.inputs.values()):
        found[object_id] = None
        try:
            data = job.run.store.get(object_id)
            sensitivity = getattr(job.run.load(object_id).content, "sensitivity", Sensitivity.PUBLIC)
        except SdaqfError:
            kept.left_out[object_id] = "gone"
            continue
        private.highest = max(private.highest, sensitivity)
        if sensitivity is Sensitivity.OWNER_PRIVATE and not private.embed:
            kept.left_out[object_id] = "owner"
        else:
            found[object_id] = data
    return found


# ---- keeping it -----------------------------------------------------------------------------------------------------


def keep(error: SdaqfError) -> None:
    """Leave the record of a refused stage, and name it in the error. Where it cannot be written, the refusal stands alone.

    What only this moment refuses (a lock that is held, a disk that is full) leaves none, nor does a tree that could not be
    observed: no stage ran, and nothing was told that could be told again. A folder that is somebody else's is not written to.
    """
    job = error.origin
    if error.record or isinstance(error, Conflict) or not isinstance(job, Job):
        return
    store = job.run.store
    if store.folder.exists() and not store.is_there:
        return
    with suppress(SdaqfError, OSError):
        record = _record_of(job, error)
        replay_id = identity(record)
        data = canonical.encode(Envelope(replay_id=replay_id, record=record), bounded=False) + b"\n"
        store.create()
        moment = now()[:19].replace("-", "").replace(":", "")
        folder = store.folder / "blocked" / f"{moment}Z-{os.getpid()}"
        files.make_folder(folder, within=store.top)
        with suppress(Conflict):  # the same stage was refused alike, in the same second
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
