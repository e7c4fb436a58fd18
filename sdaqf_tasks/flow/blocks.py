"""This module keeps the blocks that contexts have in files which agents read, and says which are not as they should be (PIPELINE 6).

A block tells the present tree: the stages run in memory, write nothing, and refuse whatever `build` would. That its marker
names a context is all that declares where a context is rendered into; `check` looks through every Markdown file of the tree.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sdaqf_tasks.context import block, excerpts
from sdaqf_tasks.context.block import Block, Line, Written
from sdaqf_tasks.context.document import UNTRUSTED, content_digest, contradictions, inline, passages, verify_clearance
from sdaqf_tasks.context.findings import Found
from sdaqf_tasks.context.query import Origins
from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict, Finding, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import lock, stages
from sdaqf_tasks.flow.project import Chain, ManifestFile
from sdaqf_tasks.flow.run import MARKDOWN, Pass, Run
from sdaqf_tasks.flow.stages import BY_NAME, Job, Stage
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import Artifact, parse
from sdaqf_tasks.formats.declaration import DEFAULT, Declared
from sdaqf_tasks.formats.records import Node, RootScope, Sensitivity, is_path
from sdaqf_tasks.world import REFERENCE_BYTES, Observed

FILE_BYTES = 32_768
"""What a file with a block may have: some agents read no further, and do not say so."""

REVIEW = "A person must review this."


class Present(NamedTuple):
    """What a chain holds on the present tree, whatever was built."""

    snapshot: Artifact[Any]
    compaction: Artifact[Any]

    @property
    def content(self) -> str:
        return content_digest(self.snapshot, self.compaction)


class _InMemory(Job):
    """A stage's job whose artifacts are at hand, and of no store."""

    def __init__(self, run: Run, stage: Stage, chain: Chain, made: dict[str, Artifact[Any]], into: str) -> None:
        super().__init__(run, stage, chain)
        self._made, self.sources = made, _Marked(run, into, chain.label)

    def __getitem__(self, name: str) -> Artifact[Any]:
        return self._made[name]


class _Marked(Pass):
    """The world in which one file has its marker already, so that it is no source the first time either."""

    def __init__(self, run: Run, path: str, label: str) -> None:
        super().__init__(run)
        self._path, self._mark = path, f"\n<!-- sdaqf:begin {label} -->\n<!-- sdaqf:end -->\n".encode()

    def read(self, scope: RootScope, path: str, limit: int) -> Observed:
        observed = super().read(scope, path, limit)
        if (scope, path) != (RootScope.REPOSITORY, self._path):
            return observed
        return Observed(observed.data + self._mark, canonical.digest(observed.data + self._mark))


def present(run: Run, chain: Chain, into: str = "") -> Present:
    """Run the stages of a chain in memory, as if the file `into` had its block. Raises `SdaqfError` as the stages do.

    What lacks a review is not told how to be passed, but that a person must review it: agents read this.
    """
    made: dict[str, Artifact[Any]] = {}
    if stages.is_skipped(run, run.reading(run.project.manifest(chain.manifest)).declaration):
        raise Refused(Reason.OWNER_SOURCES_SKIPPED, f"{chain.label} has owner sources and no owner root is given")
    try:
        for stage in stages.up_to(BY_NAME["compact"]):
            made[stage.makes] = parse(stage.run(_InMemory(run, stage, chain, made, into)).data)
    except SdaqfError as error:
        if "sdaqf lock" in error.todo:
            raise Refused(error.reason, error.message, at=error.where, todo=REVIEW) from None
        raise
    return Present(made["snapshot"], made["compaction"])


def written(run: Run, chain: Chain, now: Present, file: str) -> Written:
    """The block of a chain for `file`."""
    manifest = run.project.manifest(chain.manifest)
    origins = Origins(run.reading(manifest).declaration)
    shown = [(passage.node, origins.of(passage.node)) for passage in passages(now.snapshot, now.compaction)]
    places = {node.node_id: _place(node, source) for node, source in shown}
    against: defaultdict[str, set[str]] = defaultdict(set)
    for edge in contradictions(now.snapshot):
        against[edge.source_node_id].add(places[edge.target_node_id])
        against[edge.target_node_id].add(places[edge.source_node_id])
    lines = [
        Line(
            places[node.node_id],
            _title(node, source),
            pinned=source is not None and source.pinned,
            required=node.required,
            authority=node.authority.rank,
            untrusted=node.authority in UNTRUSTED,
            contradicts=tuple(sorted(against[node.node_id])),
        )
        for node, source in shown
    ]
    return block.write(chain.label, now.content, manifest.path, file, lines)


def _place(node: Node, declared: Declared | None) -> str:
    path = f"{'owner:' if node.locator.root_scope is RootScope.OWNER else ''}{node.locator.path}"
    name, part = declared.part if declared else ("", "")
    return f"{path}:{part}" if name == "lines" else f"{path} § {part if name == 'symbol' else inline(part)}" if part else path


def _title(node: Node, declared: Declared | None) -> str:
    """What a person called it, else what the document calls itself; an untrusted one has no say."""
    if declared is None or declared.entry.title:
        return str(declared.entry.title) if declared else ""
    if node.authority in UNTRUSTED or not node.locator.path.endswith(MARKDOWN) or declared.part[1]:
        return ""
    return next((heading.text for heading in excerpts.headings(node.text)), "")


# ---- keeping a block ------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What became of a block: made, updated or same; its content digest; and what it names."""

    file: str
    word: str
    content: str
    block: Written
    listed: bool


def target(top: Path, given: Path) -> str:
    """The path from the top of a file that was named from the working directory. Raises `Conflict` with OUTPUT_INVALID."""
    path = PurePosixPath(os.path.relpath(Path.cwd() / given, top)).as_posix()
    if not is_path(path) or not path.endswith(MARKDOWN) or ".git" in path.lower().split("/"):
        message = f"{given.name[:80]!a} is no Markdown file of this work tree"
        raise Conflict(Reason.OUTPUT_INVALID, message, todo=f"Name one that ends in {', '.join(MARKDOWN)}, with a portable path.")
    return path


def keep(run: Run, chain: Chain, file: str, *, clearance: Sensitivity, most: int = FILE_BYTES) -> Kept:
    """Put the block of a chain into `file`, unless it is there as it should be.

    Nothing else in the file changes, and at every moment it is the old one or the new one, whole. Raises `SdaqfError`:
    as the stages do; ABOVE_CLEARANCE; RENDER_TARGET where the file is a source; OUTPUT_INVALID for a link or a broken
    marker; TOO_LARGE over `most` bytes.
    """
    if clearance not in (Sensitivity.PUBLIC, Sensitivity.REPOSITORY_PRIVATE):
        message = f"{file} belongs to the repository: everybody who has that reads it"
        raise Refused(Reason.ABOVE_CLEARANCE, message, todo="Leave --clearance out, or print the document instead.")
    run.observe()
    try:
        now = present(run, chain, file)
    except SdaqfError as error:
        pins = lock.read(run, run.project.manifest(chain.manifest)).pins
        if error.reason is Reason.LOCK_OUT_OF_DATE and any((pin.scope, pin.path) == (RootScope.REPOSITORY.value, file) for pin in pins):
            message = f"{file} is a pinned source of {chain.manifest}, by a glob"
            raise Refused(Reason.RENDER_TARGET, message, todo=f"Exclude it there, or render into another file. {REVIEW}") from None
        raise
    verify_clearance(now.compaction, now.snapshot, clearance)
    wanted = written(run, chain, now, file)
    with run.lock():
        place, mode = run.project.top / file, 0o644
        files.make_folder(place.parent, within=run.project.top, mode=0o755)
        data = b""
        if os.path.lexists(place):
            if place.is_symlink():
                message = "the file is a link, and links are not written through"
                raise Conflict(Reason.OUTPUT_INVALID, message, at=file, todo="Name its target.")
            data, mode = run.project.root.read(file, REFERENCE_BYTES), stat.S_IMODE(place.stat().st_mode)
        there = any(each.label == chain.label for each in block.blocks(data, file))
        new = block.put(data, wanted, chain.label, file)
        if len(new) > most:
            message = f"the file would have {len(new):,} bytes, at most {most:,}: some agents cut there, and do not say so"
            raise Conflict(Reason.TOO_LARGE, message, at=file, todo="Shorten it, or allow more: --max-file SIZE")
        if new != data:
            files.replace(place, new, mode=mode)
    word = "same" if new == data else "updated" if there else "made"
    return Kept(file, word, now.content, wanted, file in run.observe().files)


# ---- the gate -------------------------------------------------------------------------------------------------------


def blocks(run: Run, manifests: Sequence[ManifestFile]) -> Iterator[Found]:
    """Every block of these manifests, or of one that is no more, that `render --into` would write otherwise; by file."""
    others = {manifest.name for manifest in run.project.manifests} - {manifest.name for manifest in manifests}
    answers: dict[str, Present | SdaqfError] = {}
    for file, data in run.documents.marked().items():
        try:
            found = block.blocks(data, file)
        except SdaqfError as error:
            code, line = Finding.BLOCK_EDITED, int(error.where.rpartition(":")[2])
            yield Found(code, code.severity, file, line, error.message, "Repair the marker, then: sdaqf render NAME --into FILE")
            continue
        for each in found:
            chain = Chain(each.label.partition(".")[0], each.label.partition(".")[2] or DEFAULT)
            if chain.manifest in others:
                continue
            if each.label not in answers:
                answers[each.label] = _answer(run, chain)
            now = answers[each.label]
            if not isinstance(now, Present) or block.put(data, written(run, chain, now, file), each.label, file) != data:
                code, message, settle = _judged(each, now, file)
                yield Found(code, code.severity, file, each.line, message, settle, contexts=(each.label,))


def _answer(run: Run, chain: Chain) -> Present | SdaqfError:
    try:
        if chain.query not in run.reading(run.project.manifest(chain.manifest)).declaration.queries:
            return Refused(Reason.UNKNOWN_NAME, "no such query")
        return present(run, chain)
    except SdaqfError as error:
        return error


def _judged(found: Block, now: Present | SdaqfError, file: str) -> tuple[Finding, str, str]:
    """Code, message and what settles it, of a block that is not what `now` gives."""
    settle = f"sdaqf render {found.label} --into {shlex.quote(file)}"
    if isinstance(now, SdaqfError):
        if now.reason is Reason.UNKNOWN_NAME:
            return Finding.BLOCK_OUT_OF_DATE, f"there is no context {found.label} any more", "Remove the block"
        return Finding.NOT_CHECKED, f"the block of {found.label} cannot be compared: {now.message}", "Settle that first"
    if found.content and not now.content.startswith(found.content):
        message = f"the block has content {found.content}, the context {now.content[: len(found.content)]}"
        return Finding.BLOCK_OUT_OF_DATE, message, settle
    message = "the block is not what its context gives, though that is the same: it was edited, or a title in the YAML was"
    return Finding.BLOCK_EDITED, message, settle
