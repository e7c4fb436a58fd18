"""This module tells a run of doit in lines for people: one a manifest and query, at the end."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from doit.exceptions import BaseFail, TaskFailed, UnmetDependency
from doit.reporter import ConsoleReporter

from sdaqf_tasks.flow.tasks import META, Place

if TYPE_CHECKING:
    from sdaqf_tasks.flow.run import Run
    from sdaqf_tasks.flow.stages import Outcome

SHOWN = frozenset({"snapshot", "compact", "render", "quality"})
"""Stages whose run is worth a line about their context."""


class Reporter(ConsoleReporter):  # type: ignore[misc]
    """One line a context, at the end; tasks that are not ours are reported as doit does."""

    desc = "one line a context"

    def initialize(self, tasks: Any, selected_tasks: Any) -> None:
        from sdaqf_tasks.flow import actions

        actions.told_by(self)
        self._done: dict[Place, dict[str, Any]] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._order: list[Place] = []
        for task in tasks.values():
            if place := _place(task):
                task.verbosity = 0
                self._order.append(place)

    def execute_task(self, task: Any) -> None:
        if not _place(task):
            super().execute_task(task)

    def skip_uptodate(self, task: Any) -> None:
        if place := _place(task):
            self._done[place] = {}
        else:
            super().skip_uptodate(task)

    def add_success(self, task: Any) -> None:
        if place := _place(task):
            self._done[place] = (task.values or {}).get(META, {})

    def add_failure(self, task: Any, fail: BaseFail) -> None:
        place = _place(task)
        if place is None or not isinstance(fail, TaskFailed | UnmetDependency):
            super().add_failure(task, fail)
            return
        self._blocked.add((place.manifest, place.query))
        if isinstance(fail, TaskFailed):
            self.write(fail.get_msg() + "\n")

    def complete_run(self) -> None:
        super().complete_run()
        if not any(place.stage in SHOWN for place in self._done):
            return
        from sdaqf_tasks.errors import SdaqfError
        from sdaqf_tasks.flow import actions, report

        try:
            self._tell(actions.run_at(self._order[0].top))
        except SdaqfError as error:
            self.write("\n".join(report.refusal(error, "what was built cannot be shown")) + "\n")
        finally:
            actions.forget()

    def _tell(self, run: Run) -> None:
        from sdaqf_tasks.flow import build, report, stages
        from sdaqf_tasks.flow.build import Result
        from sdaqf_tasks.flow.project import Chain

        outcomes: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
        before: dict[tuple[str, str], str | None] = {}
        skipped: set[tuple[str, str]] = set()
        shown: dict[Chain, None] = {}
        for place in (place for place in self._order if place in self._done):
            told, key = self._done[place], (place.manifest, place.query)
            made, notes = told.get("word") == build.MADE, tuple(told.get("notes", ()))
            outcomes[key].append(stages.Outcome(place.stage, told.get("id", ""), made, notes))
            if "before" in told:
                before.setdefault(key, told["before"])
            if told.get("word") == build.SKIPPED:
                skipped.add(key)
            if place.stage in SHOWN and key not in self._blocked:
                shown[Chain(*key)] = None
        width = max((len(chain.label) for chain in shown), default=0) + 2
        for chain in shown:
            common = outcomes.pop((chain.manifest, ""), [])  # what concerns the manifest is told once
            result = build.finished(run, chain, [*common, *outcomes[chain]], before.get(chain))
            self.write("\n".join(report.chain_lines(Result(chain, build.SKIPPED) if chain in skipped else result, width)) + "\n")
        self.write("\n".join([report.tree_line(run.tree, run.repository.modified()), *report.clock_line()]) + "\n")
        if readable := next((chain for chain in shown if run.store.ref(stages.ref_name(chain, "document"))), None):
            self.write(f"Read it: {run.project.settings.build}/out/{readable.label}/context.md\n")


def _place(task: Any) -> Place | None:
    found: Place | None = (task.meta or {}).get(META)
    return found
