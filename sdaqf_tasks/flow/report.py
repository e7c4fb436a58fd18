"""This module says what happened, in lines for people: calm, one a manifest and query, and what to do next (PIPELINE 6).

Content digests are shown, not artifact ids; the tree is the short commit, with `+` where the work tree differs from it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sdaqf_tasks.errors import SdaqfError, printable
from sdaqf_tasks.flow import build
from sdaqf_tasks.flow.build import Result, Summary
from sdaqf_tasks.world import Tree

KIB = 1_024


def refusal(error: SdaqfError, what: str) -> Iterator[str]:
    """What, why, what to do: one line each, and the lines that show the place between them."""
    yield printable(what) if what else "refused"
    yield f"  {printable(error.where)}: {printable(error.message)}" if error.where else f"  {printable(error.message)}"
    yield from (printable(line) for line in error.excerpt)
    yield f"  {printable(error.todo)}   ({error.reason.value})"
    if error.record:
        yield f"  {error.record}"


def error_object(error: SdaqfError, operation: str) -> dict[str, Any]:
    """The one object that every front gives for a refusal."""
    return {"error": error.error, "operation": operation, "reason": error.reason.value, "where": error.where, "message": error.message}


def chain_lines(result: Result, width: int) -> Iterator[str]:
    """The lines of one chain: what became of it, and what a person should know."""
    head = f"{result.chain.label:<{width}}  {result.word:<10}"
    if result.error:
        lines = list(refusal(result.error, ""))[1:]
        yield f"{head}  {lines[0].strip()}"
        yield from (f"{'':<{width}}  {line}" for line in lines[1:])
        return
    if result.word == build.SKIPPED:
        yield f"{head}  it has owner sources and no owner root is given (SDAQF_OWNER_ROOT, --owner-root)"
        return
    yield f"{head}  {measures(result.summary)}" if result.summary else head.rstrip()
    yield from (f"{'':<{width}}  {printable(note)}" for note in result.notes)


def measures(summary: Summary) -> str:
    """Sources in and out, the budget split into its parts, about how many tokens, and the content digest."""
    used = summary.text_bytes + summary.record_bytes + summary.relation_bytes
    out = summary.sources - summary.taken
    private = f" · {summary.sensitivity}" if summary.sensitivity == "owner-private" else ""
    return (
        f"{summary.taken} source{'s' * (summary.taken != 1)} in, {out} out · {kib(used)} of {kib(summary.budget_bytes)} KiB: "
        f"text {kib(summary.text_bytes)}, records {kib(summary.record_bytes)}, relations {kib(summary.relation_bytes)} · "
        f"about {tokens(summary.text_bytes)} tokens · content {summary.content[:12]}{private}"
    )


def tokens(text_bytes: int) -> str:
    """About how many tokens: a quarter of the bytes."""
    count = text_bytes // 4
    return f"{count / 1000:.0f}k" if count >= 10_000 else f"{count:,}"


def kib(count: int) -> str:
    return f"{count / KIB:.0f}" if count >= 10 * KIB or count % KIB == 0 else f"{count / KIB:.1f}"


def stage_lines(result: Result) -> Iterator[str]:
    """One line a stage: what it made, or that it was current."""
    for outcome in result.outcomes:
        yield f"    {outcome.stage:<9} {'made' if outcome.made else 'current':<8} {outcome.object_id}"


def tree_line(tree: Tree, modified: Sequence[str]) -> str:
    """`tree 4c1d9e2+`, and what the `+` stands for."""
    line = f"tree {tree.git_head[:7]}{'+' if modified else ''}"
    if not modified:
        return line
    untracked = [name for name in modified if name in tree.untracked]
    counts = [f"{len(untracked)} untracked"] if untracked else []
    if len(modified) > len(untracked):
        counts.append(f"{len(modified) - len(untracked)} changed")
    return f"{line}   (+: {' and '.join(counts)}: {_some(modified, 3)})"


def _some(names: Sequence[str], most: int = 8) -> str:
    """The first of the names, so that a terminal obeys none."""
    return ", ".join(printable(ascii(name)[1:-1]) for name in names[:most]) + (", …" if len(names) > most else "")


def totals(results: Sequence[Result]) -> str:
    """`10 made, 1 same, 1 blocked`."""
    words, order = [result.word for result in results], (build.MADE, build.SAME, build.CURRENT, build.SKIPPED, build.BLOCKED)
    return ", ".join(f"{words.count(word)} {word}" for word in order if word in words)


def clock_line() -> list[str]:
    return [f"SDAQF_NOW fixes the clock at {printable(fixed)}"] if (fixed := os.environ.get("SDAQF_NOW")) else []


def build_object(results: Sequence[Result], tree: Tree) -> dict[str, Any]:
    """The report of a build as one value."""
    return {
        "contexts": [
            {
                "context": result.chain.label,
                "result": result.word,
                "stages": [{"stage": o.stage, "id": o.object_id, "made": o.made} for o in result.outcomes],
                "summary": result.summary._asdict() if result.summary else None,
                "notes": result.notes,
                "error": error_object(result.error, "build") if result.error else None,
            }
            for result in results
        ],
        "tree": {"git_head": tree.git_head, "repository_digest": tree.repository_digest},
    } | ({"clock": fixed} if (fixed := os.environ.get("SDAQF_NOW")) else {})


def key_values(values: Mapping[str, Any]) -> Iterator[str]:
    """One `key: value` line a member (FORMAT 12.2)."""
    for key, value in values.items():
        yield f"{key}: {printable(value) if isinstance(value, str) else value}"


def review_lines(manifests: int, review: Mapping[str, Any]) -> Iterator[str]:
    """What is pinned and what follows the tree, what is not as reviewed, and how much `check` would find."""
    pinned, same = review["pinned"], review["as_reviewed"]
    told = f"{pinned:,} pinned, all as reviewed" if same == pinned else f"{same:,} of {pinned:,} pinned as reviewed"
    told = told if pinned else "nothing is pinned"
    levels = [f"{count:,} {level}{'' if count == 1 else 's'}" for level, count in review["findings"].items() if count]
    parts = [f"{manifests:,} manifest{'' if manifests == 1 else 's'}", told, f"{review['following']:,} follow the tree"]
    yield " · ".join([*parts, ", ".join(levels) or "nothing found"])
    if changed := review["changed"]:
        yield f"changed since reviewed: {printable(', '.join(changed[:8]))}{', …' if len(changed) > 8 else ''}"
    yield from (printable(line) for line in review["refused"])


def status_lines(found: Mapping[str, Any], tree: Tree, modified: Sequence[str]) -> Iterator[str]:
    """The dashboard: one line a context, then the tree and what bounds it, then the next command."""
    entries = found["contexts"]
    width = max((len(entry["context"]) for entry in entries), default=0)
    for entry in entries:
        told = f"content {entry['content'][:12]}" if entry["content"] else entry["why"]
        yield f"{entry['context']:<{width}}  {entry['state']:<11}  {printable(told)}"
        yield from (f"{'':<{width}}  {printable(note)}" for note in entry["notes"])
    yield from review_lines(found["manifests"], found["review"])
    yield tree_line(tree, modified)
    if found["excluded"]:
        yield f"excluded from the tree: {printable(', '.join(found['excluded']))}"
    if found["untracked"]:
        yield f"untracked, and part of the tree: {_some(found['untracked'])}"
    if hidden := found["untracked_ignored_by_you"]:
        yield f"{len(hidden)} of them your own git would ignore, and others' would not: {_some(hidden)}"
    if found["other_files"]:
        yield f"other YAML beside the manifests, left alone: {printable(', '.join(found['other_files'][:8]))}"
    yield from clock_line()
    todo = dict.fromkeys(entry["next"] for entry in entries if entry["next"])
    checks = [each for each in todo if each.startswith("sdaqf check")]
    if found["review"]["findings"]["error"]:
        yield f"Next: {checks[0] if len(checks) == 1 else 'sdaqf check'}"
    elif todo:
        yield f"Next: {printable(next(iter(todo)))}"
