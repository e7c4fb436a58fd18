"""This module holds what the stages of one process share: the project, the tree as it was last seen, what was parsed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from sdaqf_tasks.context.staleness import Difference
from sdaqf_tasks.disk.files import Closing, Root
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import Finding, SdaqfError, Unreadable
from sdaqf_tasks.flow.project import ManifestFile, Project, Reading, now, read_declaration
from sdaqf_tasks.flow.tape import Heard, Known, Witness
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, parse
from sdaqf_tasks.formats.lockfile import Pin
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.shards.records import Abstraction, Shard
from sdaqf_tasks.world import REFERENCE_BYTES, Observed, Tree

if TYPE_CHECKING:
    from sdaqf_tasks.disk.shard_store import ShardStore


MARKDOWN = (".md", ".markdown", ".mdc")


class Run(Closing):
    """What the stages of one process share. `locked`: a manifest without a lock is refused.

    It asks everything of the disk through a `Witness`; `told` gives who answers instead, by the names of
    `QUESTIONS`, and `clock` the moment to judge by.
    """

    def __init__(
        self,
        project: Project,
        *,
        wait: float = 60,
        report: Callable[[str], object] = lambda line: None,
        locked: bool = False,
        clock: str = "",
        told: Mapping[str, Any] | None = None,
    ) -> None:
        self.project, self.wait, self.report, self.locked = project, wait, report, locked
        self.now, self.fixed_clock = clock or now(), bool(os.environ.get("SDAQF_NOW"))
        self._known, self._looking = Known(), threading.Lock()
        self.answering = told or self._here()
        witnesses: dict[str, Any] = {who: real and Witness(who, real) for who, real in self.answering.items()}
        self.root: Root = witnesses["project"]
        self.owner: Root | None = witnesses["owner"]
        self.repository: Repository = witnesses["git"]
        self.repository.root = witnesses["repository"]
        self.store: Store = witnesses["store"]
        self.past: Past = witnesses["past"]
        self.documents: Documents = witnesses["documents"]
        self.shards: Shards = witnesses["shards"]

    def _here(self) -> Mapping[str, Any]:
        project, owner = self.project, self.project.owner()
        try:
            git = project.repository()
        except BaseException:
            if owner:
                owner.close()
            raise
        return {
            "project": project.root,
            "repository": git.root,
            "owner": owner,
            "git": git,
            "store": project.store,
            "past": Past(self),
            "documents": Documents(self),
            "shards": Shards(project),
        }

    def close(self) -> None:
        self.repository.close()
        if self.owner:
            self.owner.close()

    @property
    def tree(self) -> Tree:
        """The tree as it was last observed."""
        with self._looking:
            return self._known.get("tree", self.repository.observe)

    def observe(self) -> Tree:
        """Look at the tree."""
        with self._looking:
            return self._known.put("tree", self.repository.observe)

    def forget(self) -> None:
        """Read the YAML anew: it may have moved with the tree."""
        self._known.forget(ManifestFile)

    @property
    def excludes(self) -> tuple[str, ...]:
        """What the settings leave out of the tree, ascending."""
        settings = self.project.settings
        return tuple(sorted({*settings.exclude, *(["untracked:"] if settings.exclude_untracked else [])}))

    @property
    def candidate(self) -> str:
        """One line that names the tree: what `refs/candidate` holds."""
        tree = self.tree
        content = {"excludes": list(self.excludes), "git_head": tree.git_head, "repository_digest": tree.repository_digest}
        return canonical.encode(content).decode("ascii")

    def reading(self, manifest: ManifestFile) -> Reading:
        """What a manifest declares, read once a run."""
        return self._known.get(manifest, lambda: read_declaration(self.root.read, manifest.path, manifest.name))

    def load(self, object_id: str) -> Artifact[Any]:
        """The artifact of that id, held against it. Raises `Unreadable` where the object is missing or damaged."""
        return self._known.get(object_id, lambda: parse(self.store.get(object_id)))

    def reader(self) -> Reader:
        return Reader(self.repository, self.owner)

    def lock(self) -> AbstractContextManager[None]:
        """Hold the project. Raises as `files.Lock`."""
        return self.store.lock(self.wait, lambda: self.report("waiting for another run"))


class Origin(NamedTuple):
    """Where a refusal came from: a stage of a chain, the look at the tree, or the gate as it was called; and what it had asked.

    `error` is what it was refused with, where people are told more.
    """

    run: Run
    stage: str
    heard: Heard
    manifest: str = ""
    query: str = ""
    names: tuple[str, ...] = ()
    base: str | None = None
    fail_on: tuple[str, ...] = ()
    error: SdaqfError | None = None


class Pass:
    """One stage's look at the world (`world.Sources`). The last look of the stage before serves as its first."""

    def __init__(self, run: Run) -> None:
        self._run, self._reader, self._first = run, run.reader(), True

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        return self._reader.read(scope, path, limit)

    def tree(self) -> Tree:
        if self._first:
            self._first = False
            return self._run.tree
        return self._run.observe()


class Past:
    """What git knows of a text that is not as reviewed."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def tell(self, pin: Pin, old: str) -> str:
        """In a few words, of the text whose reviewed digest was `old`."""
        from sdaqf_tasks.flow.stories import Stories

        stories = Stories(self._run, [Difference(Finding.CHANGED, pin, "", old=old)])
        return stories.told(pin, old)


class Documents:
    """The Markdown files of the tree."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def marked(self) -> dict[str, bytes]:
        """Those that hold the marker of a block, or what looks like one; none that is larger than such a file may be."""
        found = {}
        for name in self._run.tree.files:
            if name.endswith(MARKDOWN):
                with suppress(Unreadable):
                    data = self._run.repository.root.read(name, REFERENCE_BYTES)
                    if b"sdaqf:" in data:
                        found[name] = data
        return found


class Shards:
    """The live records of a project's shards."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def has(self, which: Shard) -> bool:
        """Whether the shard is at hand."""
        return self._store(which).is_there

    def live(self, which: Shard, concept: str) -> tuple[str, Abstraction | None]:
        """The id of the shard's present state, and the live record of the concept in it."""
        desk = self._store(which).desk()
        return desk.state_id, desk.live(concept)

    def _store(self, which: Shard) -> ShardStore:
        from sdaqf_tasks.flow.shards import store_of

        return store_of(self._project, which)
