"""This module holds what the stages of one process share: the project, the tree as it was last seen, what was parsed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sdaqf_tasks.context.staleness import Difference
from sdaqf_tasks.disk.files import Closing, Root
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow.project import ManifestFile, Project, Reading, now
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, parse
from sdaqf_tasks.formats.records import RootScope
from sdaqf_tasks.world import Observed, Tree


class Run(Closing):
    """What the stages of one process share. `locked`: a manifest without a lock is refused."""

    def __init__(
        self, project: Project, *, wait: float = 60, report: Callable[[str], object] = lambda line: None, locked: bool = False
    ) -> None:
        self.project, self.store, self.wait, self.report, self.locked = project, project.store, wait, report, locked
        self.now = now()
        self.owner: Root | None = project.owner()
        try:
            self.repository = project.repository()
        except BaseException:
            if self.owner:
                self.owner.close()
            raise
        self._tree: Tree | None = None
        self._parsed: dict[str, Artifact[Any]] = {}
        self._readings: dict[str, Reading] = {}
        self._looking = threading.Lock()

    def close(self) -> None:
        self.repository.close()
        if self.owner:
            self.owner.close()

    def root_of(self, scope: RootScope) -> Root | None:
        """The folder below which files of a scope lie; None where no owner root is given."""
        return self.project.root if scope is RootScope.REPOSITORY else self.owner

    @property
    def tree(self) -> Tree:
        """The tree as it was last observed."""
        return self._tree or self.observe()

    def observe(self) -> Tree:
        """Look at the tree."""
        with self._looking:
            self._tree = self.repository.observe()
            return self._tree

    @property
    def looks(self) -> Mapping[str, object]:
        """How every entry looked when the tree was last observed: equal looks tell that nothing was written between."""
        return self.repository.looks

    def forget(self) -> None:
        """Read the YAML anew: it may have moved with the tree."""
        self._readings.clear()

    @property
    def excludes(self) -> tuple[str, ...]:
        """What the settings leave out of the tree, ascending."""
        settings = self.project.settings
        return tuple(sorted({*settings.exclude, *(["untracked:"] if settings.exclude_untracked else [])}))

    @property
    def candidate(self) -> str:
        """One line that names the tree: what `refs/candidate` holds."""
        return candidate(self.tree, self.excludes)

    def reading(self, manifest: ManifestFile) -> Reading:
        """What a manifest declares, read once a run."""
        if manifest.name not in self._readings:
            self._readings[manifest.name] = self.project.read(manifest)
        return self._readings[manifest.name]

    def load(self, object_id: str) -> Artifact[Any]:
        """The artifact of that id, held against it. Raises `Unreadable` where the object is missing or damaged."""
        if object_id not in self._parsed:
            self._parsed[object_id] = parse(self.store.get(object_id))
        return self._parsed[object_id]

    def reader(self) -> Reader:
        return Reader(self.repository, self.owner)

    def story(self, found: Difference) -> str:
        """What git knows of a text that is not as reviewed, in a few words."""
        from sdaqf_tasks.flow.stories import Stories

        return Stories(self, [found]).told(found)

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self.store.lock(self.wait, lambda: self.report("waiting for another run")):
            yield


def candidate(tree: Tree, excludes: Sequence[str]) -> str:
    content = {"excludes": list(excludes), "git_head": tree.git_head, "repository_digest": tree.repository_digest}
    return canonical.encode(content).decode("ascii")


class Log:
    """What one job asked of the world outside, and what it was told: enough to do it again without that world."""

    def __init__(self) -> None:
        self.inputs: dict[str, str | None] = {}
        self.reads: dict[tuple[RootScope, str, int], Observed | SdaqfError] = {}
        self.trees: list[Tree] = []
        self.stories: dict[str, str] = {}


class Pass:
    """One stage's look at the world (`world.Sources`). The last look of the stage before serves as its first."""

    def __init__(self, run: Run, log: Log | None = None) -> None:
        self._run, self._reader, self._first, self._log = run, run.reader(), True, log or Log()

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        key = scope, path, limit
        try:
            found = self._log.reads[key] = self._reader.read(*key)
        except SdaqfError as error:
            self._log.reads[key] = error
            raise
        return found

    def tree(self) -> Tree:
        if self._first:
            self._first = False
            return self._run.tree
        self._log.trees.append(self._run.observe())
        return self._log.trees[-1]
