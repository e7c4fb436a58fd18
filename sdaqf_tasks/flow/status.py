"""This module says what is current and what is not, without changing anything (PIPELINE 1 and 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sdaqf_tasks.context.findings import LEVELS, Checked
from sdaqf_tasks.errors import Finding, SdaqfError, Severity
from sdaqf_tasks.flow import stages
from sdaqf_tasks.flow.build import asked, clock_notes, content
from sdaqf_tasks.flow.check import check
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import Run
from sdaqf_tasks.flow.stages import STAGES, Job, judge
from sdaqf_tasks.formats.declaration import DEFAULT


def status(run: Run, names: Sequence[str] = ()) -> dict[str, Any]:
    """Per manifest and query: current, or the first stage that is not and why; and what the tree leaves out.

    Raises `SdaqfError` for what concerns the whole project.
    """
    wanted = asked(run, names)
    checked = check(run, [manifest.name for manifest in wanted])
    tree, settings = run.observe(), run.project.settings
    return {
        "clock": {"now": run.now, "fixed": run.fixed_clock},
        "contexts": [entry for manifest, queries in wanted.items() for entry in _manifest(run, manifest, queries, checked)],
        "excluded": [*settings.exclude, *(["untracked:"] if settings.exclude_untracked else [])],
        "manifests": len(checked.manifests),
        "review": _review(checked),
        "other_files": list(run.project.strangers),
        "tree": {"git_head": tree.git_head, "repository_digest": tree.repository_digest},
        "untracked": sorted(tree.untracked),
        "untracked_ignored_by_you": list(run.repository.ignored_by_user()) if tree.untracked else [],
    }


NOT_AS_REVIEWED = frozenset({Finding.CHANGED, Finding.MISSING, Finding.RENAMED, Finding.MOVED, Finding.PHANTOM})
"""Findings that say of a pinned source that it is another one now."""

REFUSING = NOT_AS_REVIEWED | {Finding.REFUSED, Finding.LOCK_OUT_OF_DATE, Finding.LINE_ENDINGS, Finding.LFS_POINTER}
"""Findings with which a manifest is not built; so it is with one that has ended, or hides a contradiction, and is required."""


def _first(checked: Checked, manifest: ManifestFile) -> str:
    """The command that comes before a build of the manifest: where a finding refuses that, what shows the finding."""
    for each in checked.findings:
        required = bool(each.required) if each.code is Finding.EXPIRED else each.severity is Severity.ERROR
        refusing = each.code in REFUSING or (each.code in (Finding.EXPIRED, Finding.CONTRADICTION_HIDDEN) and required)
        if refusing and manifest.name in {label.partition(".")[0] for label in each.contexts}:
            return f"sdaqf check {manifest.name}"
    return ""


def _review(checked: Checked) -> dict[str, Any]:
    """What `check` would say, in numbers; by name what changed, and what cannot be compared at all."""
    found = checked.findings
    return {
        "pinned": checked.pinned,
        "as_reviewed": checked.as_reviewed,
        "following": checked.following,
        "changed": list(dict.fromkeys(each.path for each in found if each.code in NOT_AS_REVIEWED)),
        "refused": [f"{each.path}:{each.line}  {each.message}. {each.settle}" for each in found if each.code is Finding.REFUSED],
        "findings": {level.value: sum(each.severity is level for each in found) for level in LEVELS},
    }


def _manifest(run: Run, manifest: ManifestFile, queries: frozenset[str], checked: Checked) -> list[dict[str, Any]]:
    try:
        declaration = run.reading(manifest).declaration
    except SdaqfError as error:
        return [_entry(Chain(manifest.name, DEFAULT), "blocked", str(error), f"sdaqf check {manifest.name}")]
    chains = [Chain(manifest.name, query) for query in declaration.queries if not queries or query in queries]
    if stages.is_skipped(run, declaration):
        why = "it has owner sources and no owner root is given"
        return [_entry(chain, "skipped", why, f"sdaqf build {chain.label} --owner-root ROOT") for chain in chains]
    first = _first(checked, manifest)
    return [_chain(run, chain, first or f"sdaqf build {chain.label}") for chain in chains]


def _chain(run: Run, chain: Chain, todo: str) -> dict[str, Any]:
    for stage in STAGES:
        job = Job(run, stage, chain)
        try:
            why = judge(job, job.inputs())
        except SdaqfError as error:
            why = error.message
        if why is not None:
            return _entry(chain, "not current", f"{stage.name}: {why}", todo)
    return _entry(chain, "current", content=content(run, chain), notes=[*clock_notes(run, chain)])


def _entry(
    chain: Chain, state: str, why: str = "", todo: str = "", content: str | None = None, notes: Sequence[str] = ()
) -> dict[str, Any]:
    return {"context": chain.label, "state": state, "why": why, "next": todo, "content": content, "notes": [*notes]}
