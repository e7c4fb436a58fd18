"""This module refuses again what was refused, in the world of its record alone (ABSTRACTIONS 8).

    replay(data, outside)   the class of a record, first that holds, and the refusal of the re-run
    why(record, run)        what is different now, and whether the stage would pass

The record is data from anywhere: it is held against its own id, and every part against its digest, before anything runs.
What runs is the stage itself, the same function as in a build, with a world in place of the disk that only answers what
was recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from sdaqf_tasks import errors
from sdaqf_tasks.context.staleness import Difference
from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.store import PROGRAM, Store
from sdaqf_tasks.disk.store import identity as artifact_identity
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable, reason_of
from sdaqf_tasks.flow import blocked, stages
from sdaqf_tasks.flow.blocked import Envelope, Failure, Read, Record
from sdaqf_tasks.flow.project import Chain, ManifestFile, Reading, read_declaration
from sdaqf_tasks.flow.run import Run, candidate
from sdaqf_tasks.flow.stages import BY_NAME, Job
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, parse
from sdaqf_tasks.formats.declaration import DEFAULT
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import Observed, Tree

FULLY, OBSERVATIONAL, INSUFFICIENT = "fully_replayable", "observational_only", "insufficient_replay_state"
EMBEDDED, EXTERNAL = "embedded", "external_exact"

Outside = Callable[[Record, str], bytes | None]
"""Bytes by digest or object id, where the files outside still have them; None where there is nothing. Raises `Unreadable`."""


class Verdict(NamedTuple):
    """The class of a record; where its bytes came from; why it is of no better class; the refusal that the re-run gave."""

    cls: str
    source: str | None
    reason: str | None
    detail: str
    record: Record | None = None
    refusal: Failure | None = None


class _Strayed(Exception):
    """The stage asked for what the record does not hold."""


def read(data: bytes) -> Record | None:
    """The record, where it is one, whole, of the id that it names, and every part of the digest that names it."""
    try:
        envelope = msgspec.json.decode(data, type=Envelope)
        record = envelope.record
        intact = envelope.replay_id == blocked.identity(record) and canonical.encode(envelope, bounded=False) + b"\n" == data
    except (msgspec.MsgspecError, SdaqfError):
        return None
    blobs = all(blob is None or canonical.digest(blob) == digest for digest, blob in record.blobs.items())
    objects = all(blob is None or artifact_identity(blob) == object_id for object_id, blob in record.objects.items())
    return record if intact and blobs and objects and record.stage in BY_NAME else None


def replay(data: bytes, outside: Outside = lambda record, name: None) -> Verdict:
    record = read(data)
    if record is None:
        return Verdict(INSUFFICIENT, None, None, "the record is damaged or was edited")
    if record.program != PROGRAM:
        return Verdict(OBSERVATIONAL, None, "version", f"made by version {record.program[:20]} of the stages, not {PROGRAM}", record)
    found: dict[str, bytes] = {}
    for name, blob in {**record.blobs, **record.objects}.items():
        if blob is not None:
            found[name] = blob
            continue
        reason, data_outside = _outside(record, name, outside)
        if data_outside is None:
            return Verdict(OBSERVATIONAL, None, reason, f"{_named(record, name)}: {_REASONS[reason]}", record)
        found[name] = data_outside
    source = EMBEDDED if None not in (*record.blobs.values(), *record.objects.values()) else EXTERNAL
    try:
        refusal = _again(record, found)
    except _Strayed as error:
        return Verdict(INSUFFICIENT, None, None, f"the stage asks for what the record does not hold: {error}", record)
    told = refusal and blocked.withheld(record, refusal)
    if told != record.refusal:
        return Verdict(INSUFFICIENT, None, None, "the re-run is not refused alike", record, told)
    alike = "byte for byte" if told == refusal else "as far as the record may tell it"
    return Verdict(FULLY, source, None, f"same refusal, {alike}", record, told)


_REASONS = {
    "missing": "its bytes are not in the record, and not at hand",
    "truncated": "its bytes were over the bound of the record, and are not at hand",
    "hash_mismatch": "it is another one by now",
    "unreadable": "it cannot be read here",
}


def _outside(record: Record, name: str, outside: Outside) -> tuple[str, bytes | None]:
    try:
        data = outside(record, name)
    except Unreadable:
        return "unreadable", None
    if data is None:
        return ("truncated" if record.left_out.get(name) == "bound" else "missing"), None
    same = (artifact_identity(data) if name in record.objects else canonical.digest(data)) == name
    return ("", data) if same else ("hash_mismatch", None)


def _named(record: Record, name: str) -> str:
    """What people call the bytes of that digest."""
    each = record.read_of(name)
    return f"{each.scope.value}:{each.path}" if each else name[:24]


def _again(record: Record, found: dict[str, bytes]) -> Failure | None:
    """The refusal of the stage in the recorded world, or None where it is not refused."""
    try:
        run = cast(Run, _World(record, found))
        job = Job(run, BY_NAME[record.stage], Chain(record.manifest, record.query))
        stages.execute(job, job.inputs())
    except SdaqfError as error:
        return blocked.failure(error)
    return None


def _error(failure: Failure) -> SdaqfError:
    kind = getattr(errors, failure.kind, None)
    reason = reason_of(failure.reason)
    if not (isinstance(kind, type) and issubclass(kind, SdaqfError)) or reason is None:
        raise _Strayed(f"a failure of a kind that is not known here: {failure.kind[:40]}")
    return kind(reason, failure.message, at=failure.where, todo=failure.todo, excerpt=failure.excerpt)


# ---- the recorded world ---------------------------------------------------------------------------------------------


class _Folder:
    """A root, of which only what was read is there (`disk.files.Root`)."""

    def __init__(self, reads: Sequence[Read], found: dict[str, bytes]) -> None:
        self._reads, self._found = {each.path: each for each in reads}, found

    def has(self, path: str) -> bool:
        each = self._reads.get(path)
        return each is not None and (each.sha256 is not None or each.failure is not None)

    def read(self, path: str, limit: int) -> bytes:
        if path not in self._reads:
            raise _Strayed(path)
        return _told(self._reads[path], self._found)


def _told(each: Read, found: dict[str, bytes]) -> bytes:
    if each.sha256 is not None:
        if each.sha256 not in found:
            raise _Strayed(each.path)
        return found[each.sha256]
    if each.failure is not None:
        raise _error(each.failure)
    raise Unreadable(Reason.MISSING_OR_UNREADABLE, "the file is missing, a link, not regular, or closed to us", at=each.path)


class _Store:
    """The refs and objects that the stage took (`disk.store.Store`)."""

    def __init__(self, record: Record, found: dict[str, bytes]) -> None:
        self._refs = {stages.ref_name(Chain(record.manifest, record.query), name): held for name, held in record.inputs.items()}
        self._found = found

    def ref(self, name: str) -> str | None:
        if name not in self._refs:
            raise _Strayed(name)
        return self._refs[name]

    def get(self, object_id: str) -> bytes:
        if object_id not in self._found:
            raise _Strayed(object_id)
        return self._found[object_id]


class _World:
    """A `Run` without a machine: every answer is one that was recorded."""

    def __init__(self, record: Record, found: dict[str, bytes]) -> None:
        world = record.world
        self._record, self._found, self._looks = record, found, iter(world.trees[1:])
        self.now, self.locked, self.excludes = world.clock, world.locked, world.excludes
        self.project = self
        here, private = (_Folder([each for each in world.declared if each.scope is scope], found) for scope in RootScope)
        self.root, self.owner = here, private if world.owner else None
        self.store = _Store(record, found)
        self._first = world.trees[0].tree if world.trees and world.trees[0] else None
        self._tree = self._first

    def manifest(self, name: str) -> ManifestFile:
        return ManifestFile(name, self._record.path)

    def reading(self, manifest: ManifestFile) -> Reading:
        return self._reading

    @cached_property
    def _reading(self) -> Reading:
        return read_declaration(self.root.read, self._record.path, self._record.manifest)

    def load(self, object_id: str) -> Artifact[Any]:
        return parse(self.store.get(object_id))

    @property
    def tree(self) -> Tree:
        if self._tree is None:
            raise _Strayed("the tree")
        return self._tree

    def observe(self) -> Tree:
        look = next(self._looks, None)
        self._tree = look.tree if look else self._first
        return self.tree

    @property
    def candidate(self) -> str:
        return candidate(self.tree, self.excludes)

    def reader(self) -> _World:
        return self

    @cached_property
    def _reads(self) -> dict[tuple[RootScope, str, int], Read]:
        return {(each.scope, each.path, each.limit): each for each in self._record.world.reads}

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        each = self._reads.get((scope, path, limit))
        if each is None:
            raise _Strayed(path)
        return Observed(_told(each, self._found), each.sha256 or "")

    def story(self, found: Difference) -> str:
        if found.pin.place not in self._record.world.stories:
            raise _Strayed(found.pin.place)
        return self._record.world.stories[found.pin.place]


# ---- the present ----------------------------------------------------------------------------------------------------


def at_hand(run: Run) -> Outside:
    """The files and objects of a project, for what a record left out."""

    def outside(record: Record, name: str) -> bytes | None:
        if name in record.objects:
            return run.store.get(name)
        each = record.read_of(name)
        root = run.root_of(each.scope) if each else None
        return root.read(each.path, each.limit) if each and root else None

    return outside


class Since(NamedTuple):
    """What is different now: facts in sentences, and how the stage would end; None where it would pass."""

    changes: tuple[str, ...]
    refusal: SdaqfError | None


def why(record: Record, run: Run) -> Since:
    """Compare the record with the present, and run the stage again in memory; nothing is written."""
    return Since(tuple(_changes(record, run)), rehearse(run, Chain(record.manifest, record.query), record.stage))


def _changes(record: Record, run: Run) -> Iterator[str]:
    world = record.world
    yield f"clock: {world.clock} then, {run.now} now"
    then, tree = next((look for look in world.trees if look), None), None
    with suppress(SdaqfError):
        tree = run.tree
    if then and tree:
        same = then.repository_digest == tree.repository_digest
        now = f"then, {tree.git_head[:7]} now" if then.git_head != tree.git_head else "the same now" if same else "with other files now"
        yield f"tree: {then.git_head[:7]} {now}"
    first: dict[tuple[RootScope, str], Read] = {}
    for each in (*world.declared, *world.reads):
        first.setdefault((each.scope, each.path), each)
    for each in first.values():
        root, digest = run.root_of(each.scope), None
        with suppress(SdaqfError):
            digest = canonical.digest(root.read(each.path, each.limit)) if root else None
        if root and digest != each.sha256:
            word = "is there now" if each.sha256 is None else "is gone, or cannot be read" if digest is None else "reads differently now"
            yield f"{each.path} {word}"


class _Scratch:
    """A store that holds only what a rehearsal makes; where it lies is where the real one does."""

    def __init__(self, store: Store) -> None:
        self._store, self.refs = store, dict[str, str]()
        self.objects: dict[str, bytes] = {}

    def ref(self, name: str) -> str | None:
        return self.refs.get(name)

    def get(self, object_id: str) -> bytes:
        return self.objects[object_id]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def rehearse(run: Run, chain: Chain, last: str, *, keep: bool = False) -> SdaqfError | None:
    """Do the stages of a chain in memory, as far as `last`: the refusal, if any. With `keep` it leaves its record."""
    kept, scratch = run.store, _Scratch(run.store)
    run.store = cast(Any, scratch)
    job: object = None
    try:
        _ = run.tree
        for stage in stages.up_to(BY_NAME[last]):
            job = Job(run, stage, chain)
            made = stages.execute(job, job.inputs())
            scratch.refs[stages.ref_name(chain, stage.makes)] = made.object_id
            scratch.objects[made.object_id] = made.data
    except SdaqfError as error:
        error.origin = job
        if keep:
            blocked.keep(error)
        return error
    finally:
        run.store = kept
    return None


def keep_of_gate(run: Run, names: Iterable[str]) -> list[str]:
    """Leave the records of what a build would refuse where the gate failed, of manifests by name; the lines that name them."""
    found = []
    for name in names:
        try:
            queries = list(run.reading(run.project.manifest(name)).declaration.queries)
        except SdaqfError:
            queries = [DEFAULT]
        for query in queries:
            error = rehearse(run, Chain(name, query), "snapshot", keep=True)
            if error and error.record:
                found.append(error.record)
            if error and not (isinstance(error.origin, Job) and error.origin.stage.per_query):
                break  # the other queries are refused for the same
    return found


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
    named = known[:1] if name == "latest" else [path for path in known if len(name) > 9 and path.name.startswith(name.upper()[:71])]
    if name == "latest" and store is None:
        raise Refused(Reason.UNKNOWN_NAME, "there is no project here, and so no latest record", todo="Name the file.")
    if not named:
        raise Refused(Reason.UNKNOWN_NAME, f"there is no record {name[:80]!r}", todo="Name a file, latest, or REPLAY- and six digits.")
    return files.read_file(named[0], blocked.RECORD_BYTES)
