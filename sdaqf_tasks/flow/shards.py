"""This module joins a shard with the world around it: the repository's files, the other shards, the lock (ABSTRACTIONS 1 and 3 to 6).

Every front changes a shard through `Workbench.run` and in no other way: so they refuse alike, and alike they hold the lock
from the reading of HEAD to its replacing.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import msgspec

from sdaqf_tasks.disk.shard_store import ShardStore
from sdaqf_tasks.errors import Reason, Refused, SdaqfError, Unreadable, shown
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import Node, RootScope
from sdaqf_tasks.shards import session
from sdaqf_tasks.shards.commands import Command, Distil, Import, Merge, Reuse, Word
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.distill import Example, Region, cut, merged, parse_region
from sdaqf_tasks.shards.operations import Foreign, Given
from sdaqf_tasks.shards.records import CORE, EXAMPLES, SOURCE_FILE_BYTES, Front, Shard, decode, shard

Report = Callable[[str], object]
"""Who is told that another run is waited for."""


def mounted(project: Project, named: str | None) -> Shard:
    """The shard that a command runs with (SH-3): the one named, else `SDAQF_SHARD`, else the settings' one."""
    return shard(named or os.environ.get("SDAQF_SHARD") or project.settings.shard)


def store_of(project: Project, which: Shard) -> ShardStore:
    """A shard of the project as it is on the disk, whatever this process remembers of it."""
    return ShardStore(project.top, project.settings.shards, which)


class Expected(NamedTuple):
    """What whoever sends a command believes: the active session, the present state (SH-8)."""

    session: str | None = None
    state: str | None = None


class _Pending:
    """The objects of a shard with those that are about to be written."""

    def __init__(self, store: ShardStore) -> None:
        self._store = store
        self.new: dict[str, bytes] = {}

    def get(self, object_id: str) -> Any:
        return decode(object_id, self.new[object_id]) if object_id in self.new else self._store.get(object_id)

    def size(self, object_id: str) -> int:
        return len(self.new[object_id]) if object_id in self.new else self._store.size(object_id)


class Workbench:
    """One mounted shard of a project, as one front uses it. `person`: somebody sits at a terminal, and may accept records."""

    def __init__(
        self, project: Project, which: Shard, front: Front, *, person: bool = False, wait: float = 60, report: Report = lambda line: None
    ) -> None:
        self.project, self.shard, self.front, self.person, self._wait, self._report = project, which, front, person, wait, report
        self.store = store_of(project, which)

    def create(self) -> dict[str, Any]:
        """Make the shard (SH-5). Raises `Conflict`: SHARD_EXISTS; `Refused`: OUTPUT_NOT_IGNORED."""
        self.verify_untracked()
        move = session.born(self.shard, self.front)
        self.store.create(move.state_id, move.objects)
        return {"status": "ok", "command": "init", **where(self.desk())}

    def verify_untracked(self) -> None:
        """Raise `Refused`: OUTPUT_NOT_IGNORED where git tracks something among the shards, and would go on to."""
        folder = self.project.settings.shards
        with self.project.repository() as repository:
            if tracked := repository.tracked(folder):
                message = f"{shown(tracked[0])} lies in {folder}, and git tracks it"
                raise Refused(Reason.OUTPUT_NOT_IGNORED, message, todo=f"Run `git rm -r --cached {shlex.quote(folder)}`.")

    def desk(self) -> Desk:
        """The present state, to look at."""
        return self.store.desk()

    def hold(self) -> AbstractContextManager[None]:
        """The lock of the shard, for as long as it is waited for here. Raises as `files.Lock`."""
        return self.store.lock(self._wait, lambda: self._report("waiting for another run"))

    def run(self, lines: Sequence[str], *, expected: Expected = Expected(), files: Mapping[str, str] = {}) -> list[dict[str, Any]]:  # noqa: B008
        """Run commands and control words, all or none, while the shard is held (SH-6, SH-8).

        One answer a line: what every front tells of a command that was done (section 9).

        `files` are the texts that an import names. Raises `SdaqfError`; then the shard is as it was.
        """
        with self.hold():
            pending, answers = _Pending(self.store), []
            desk = Desk(self.store.head(), pending)
            _verify_expected(desk, expected)
            for line in lines:
                command = session.admit(desk.state, line, self.front)
                if isinstance(command, Word) and command.word == "accept" and not self.person:
                    raise Refused(Reason.NEEDS_A_PERSON, "only a person at a terminal accepts a record")
                move = session.advance(desk, command, self.front, self._given(command, files))
                pending.new.update(move.objects)
                desk = Desk(move.state_id, pending)
                answers.append({"status": "ok", "command": str(command), **move.answer, **where(desk)})
            if answers:
                self.store.advance(desk.state_id, pending.new)
            return answers

    # ---- what comes from outside

    def _given(self, command: Command, files: Mapping[str, str]) -> Given:
        if isinstance(command, Distil):
            return Given(examples=self._examples(command.specs))
        if isinstance(command, Reuse) and command.choice is not None:
            return Given(foreign=self.foreign(CORE, command.source))
        if isinstance(command, Merge) and command.shard != self.shard:
            return Given(foreign=self.foreign(command.shard, command.source))
        if isinstance(command, Import):
            return Given(files={name: files[name] for name in command.names if name in files})
        return Given()

    def foreign(self, which: Shard, name: str) -> Foreign | None:
        """A live record of another shard; its objects never change, so its lock is not needed."""
        try:
            desk = store_of(self.project, which).desk()
        except Refused:
            return None
        return Foreign(which, desk.state_id, desk.live(name))

    def _examples(self, specs: Sequence[str]) -> tuple[Example, ...]:
        """The examples that the specs name, in the order of their files and lines; regions that touch are one (section 3)."""
        named = [(spec, region) for spec in specs for region in self._regions(spec)]
        whole = merged(region for _, region in named)
        if len(whole) > EXAMPLES:
            raise Refused(Reason.TOO_MANY_EXAMPLES, f"the sources give {len(whole)} examples; a record has at most {EXAMPLES}")
        data = {region.path: self.source(region.path) for region in whole}
        digests = {path: canonical.digest(found) for path, found in data.items()}
        said = [next(spec for spec, part in named if part.path == each.path and each.first <= part.first <= each.last) for each in whole]
        return tuple(cut(spec, each, data[each.path], digests[each.path]) for spec, each in zip(said, whole, strict=True))

    def source(self, path: str) -> bytes:
        """A file of the repository, confined to it, never through a link."""
        try:
            return self.project.root.read(path, SOURCE_FILE_BYTES)
        except Unreadable as error:
            closed = isinstance(error.__cause__, PermissionError)
            reason = Reason.SOURCE_FILE_TOO_LARGE if error.reason is Reason.SOURCE_BYTE_LIMIT else Reason.SOURCE_UNREADABLE
            if not closed and not os.path.lexists(self.project.top / path):
                reason = Reason.SOURCE_NOT_FOUND
            raise Refused(reason, error.message, at=path, todo="See to its permissions." if closed else None) from None

    def _regions(self, spec: str) -> tuple[Region, ...]:
        if spec.startswith("intel:last_result"):
            raise Refused(Reason.INTEL_RESULT_MISSING, "there is no last result of code intelligence")
        if spec.startswith("node:"):
            return (self._node(spec.removeprefix("node:")),)
        return (parse_region(spec),)

    def _node(self, node_id: str) -> Region:
        """Where the node of a built Snapshot stands, if its file is still the one that was observed."""
        from sdaqf_tasks.formats.artifacts import parse

        store = self.project.store
        for held in sorted({held for held in store.references() if held.startswith("CTX-SNAPSHOT-")}):
            try:
                nodes: Sequence[Node] = parse(store.get(held)).content.nodes
            except SdaqfError:
                continue
            for node in nodes:
                if node.node_id == node_id and node.locator.root_scope is RootScope.REPOSITORY:
                    if canonical.digest(self.source(node.locator.path)) != node.locator.sha256:
                        raise Refused(Reason.SOURCE_UNREADABLE, f"{node.locator.path} is not the file that the node was read from")
                    return Region(node.locator.path, node.locator.line_start, node.locator.line_end)
        raise Refused(Reason.SOURCE_NOT_FOUND, "no built Snapshot has that node", todo="sdaqf build")


def where(desk: Desk) -> dict[str, Any]:
    """Which shard, in which state."""
    state = desk.state
    snapshots = {"scratchActive": state.session is not None, "committed": state.committed, "snapshot": state.saved is not None}
    named = msgspec.to_builtins(state.shard)
    return {"shard": named, "state": desk.state_id, "session": state.session, "revision": state.revision, "snapshots": snapshots}


def _verify_expected(desk: Desk, expected: Expected) -> None:
    wanted = (expected.state or "").upper().removeprefix("SHARD-STATE-")
    if expected.state is not None and (len(wanted) < session.PREFIX or not desk.state_id.removeprefix("SHARD-STATE-").startswith(wanted)):
        raise Refused(Reason.STATE_CHANGED, f"{desk.shard} is in another state than the one that was named")
    if expected.session is not None and expected.session != desk.state.session:
        raise Refused(Reason.SESSION_CHANGED, f"{desk.shard} has another session than the one that was named, or none")
