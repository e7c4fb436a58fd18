"""This module holds the operations on explicit files, once: what `sdaqf context …` does, and other fronts may (FORMAT 12).

They read no settings and no clock. Each returns its result as plain values in the order in which people read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from sdaqf_tasks.context import chain, rules
from sdaqf_tasks.context.chain import compare as compare_snapshots
from sdaqf_tasks.context.compact import compact as compact_snapshot
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.document import document, verify_clearance
from sdaqf_tasks.context.index import index as index_manifest
from sdaqf_tasks.context.quality import quality as count_quality
from sdaqf_tasks.context.query import query as ask
from sdaqf_tasks.context.select import select as select_nodes
from sdaqf_tasks.context.snapshot import snapshot as make_snapshot
from sdaqf_tasks.disk import files
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.disk.repository import Limits, Repository, find_top
from sdaqf_tasks.errors import Conflict, Invalid, Malformed, Reason, Refused, SdaqfError, Unreadable, printable
from sdaqf_tasks.flow.project import Reading, read_declaration
from sdaqf_tasks.formats import artifacts, canonical
from sdaqf_tasks.formats.artifacts import Artifact, C, Graph, Manifest, Query, Selection, Snapshot, parse, render
from sdaqf_tasks.formats.declaration import DEFAULT
from sdaqf_tasks.formats.records import RootScope, Sensitivity, is_path
from sdaqf_tasks.world import SOURCE_BYTES

Result = dict[str, Any]


class Places(NamedTuple):
    """Where an operation looks: the top of a work tree, perhaps an owner root, and how the tree is bounded."""

    repository_root: Path
    owner_root: Path | None = None
    exclude: Sequence[str] = ()
    limits: Mapping[str, float] | None = None

    @contextmanager
    def open(self) -> Iterator[Reader]:
        top, owner, untracked = self.repository_root, self.owner_root, "untracked:" in self.exclude
        globs, apart = [glob for glob in self.exclude if glob != "untracked:"], (owner,) if owner else ()
        limits = Limits(**(self.limits or {}))  # type: ignore[arg-type]
        with (
            Repository(top, exclude=globs, exclude_untracked=untracked, limits=limits, apart=apart) as repository,
            Root(owner) if owner else nullcontext() as opened,
        ):
            yield Reader(repository, opened)


def load(path: Path, wanted: type[C] | None = None) -> Artifact[C]:
    """The artifact in a file (FORMAT 12.1). Its errors name the file by its last component."""
    if path.suffix.lower() != ".json":
        raise Invalid(Reason.CONTRACT_INVALID, "an artifact is a .json file", at=printable(path.name))
    try:
        data = files.read_file(path, canonical.ARTIFACT_BYTES)
    except Unreadable as error:
        if error.reason is Reason.SOURCE_BYTE_LIMIT:
            raise Malformed(Reason.TOO_LARGE, "an artifact has at most 16,777,216 bytes", at=error.where) from None
        raise Unreadable(error.reason, error.message, at=error.where, todo="Give a regular file that is no link.") from None
    try:
        return parse(data, wanted)
    except SdaqfError as error:
        where = ":".join(filter(None, (printable(path.name), error.where)))
        raise type(error)(error.reason, error.message, at=where, todo=error.todo) from None


def publish(artifact: Artifact[Any], output: Path) -> Result:
    """Write a new artifact file (FORMAT 14)."""
    write(render(artifact), output, ".json")
    return {"artifact_type": artifact.artifact_type, "artifact_id": artifact.artifact_id, "output": output.name}


def write(data: bytes, output: Path, suffix: str) -> None:
    if output.suffix.lower() != suffix:
        message, todo = f"the output is a {suffix} file", f"Name it something{suffix}."
        raise Conflict(Reason.OUTPUT_INVALID, message, at=printable(output.name), todo=todo)
    files.publish(output, data)


def validate(artifact: Path) -> Result:
    found: Artifact[Any] = load(artifact)
    return {"artifact_type": found.artifact_type, "artifact_id": found.artifact_id, "valid": True}


def manifest(yaml: Path, places: Places, output: Path) -> tuple[Result, tuple[str, ...]]:
    with places.open() as reader:
        compiled = compile_manifest(_declaration(yaml, places.repository_root).declaration, reader)
    return publish(compiled.manifest, output), compiled.notes


def index(artifact: Path, places: Places, output: Path) -> Result:
    wanted = load(artifact, Manifest)
    with places.open() as reader:
        made = index_manifest(wanted, reader, owner_root=places.owner_root is not None)
    return publish(made, output)


def query(
    yaml: Path, graph: Path, output: Path, *, name: str = DEFAULT, repository_root: Path | None = None
) -> tuple[Result, tuple[str, ...]]:
    wanted = load(graph, Graph)
    committed = None
    with ExitStack() as stack:
        repository = stack.enter_context(Repository(repository_root)) if repository_root else None
        top = repository_root or _enclosing(yaml)
        declaration = _declaration(yaml, top).declaration
        asked = declaration.queries.get(name)
        if top is not None and asked is not None and not isinstance(asked.entry.as_of, str):
            repository = repository or stack.enter_context(Repository(top))
            committed = repository.committed(wanted.content.candidate.git_head)
    made = ask(declaration, name, wanted, committed)
    return publish(made.query, output), made.notes


def select(graph: Path, query: Path, output: Path) -> Result:
    return publish(select_nodes(load(graph, Graph), load(query, Query)), output)


def snapshot(graph: Path, selection: Path, places: Places, output: Path) -> Result:
    taken = load(graph, Graph), load(selection, Selection)
    with places.open() as reader:
        made = make_snapshot(*taken, reader, owner_root=places.owner_root is not None)
    return publish(made, output)


def compare(base: Path, current: Path) -> Result:
    return compare_snapshots(load(base, Snapshot), load(current, Snapshot))


def compact(
    snapshot: Path, places: Places, output: Path, *, proposal: Path | None = None, graph: Path | None = None, selection: Path | None = None
) -> Result:
    wanted = load(snapshot, Snapshot)
    said = load(proposal, artifacts.HostSummaryProposal) if proposal else None
    if (graph is None) != (selection is None):
        raise Refused(Reason.CHAIN_MISMATCH, "the whole chain is a graph and a selection", todo="Give --graph and --selection, or neither.")
    if graph and selection:
        chain.verify(load(graph, Graph), load(selection, Selection), wanted)
    with places.open() as reader:
        made = compact_snapshot(wanted, reader, proposal=said, owner_root=places.owner_root is not None)
        # A third time, against what is about to be written (FORMAT 10.8).
        rules.verify_candidate(reader, made.content.candidate)
        return publish(made, output)


def quality(graph: Path, selection: Path, snapshot: Path, output: Path) -> Result:
    taken = load(graph, Graph), load(selection, Selection), load(snapshot, Snapshot)
    chain.verify(*taken)
    return publish(count_quality(*taken), output)


def render_document(snapshot: Path, compaction: Path, output: Path, *, clearance: str | None = None) -> Result:
    """Without a clearance the document is for `repository-private` and refused above it; with one, it is partial."""
    whole, extracts = load(snapshot, Snapshot), load(compaction, artifacts.Compaction)
    if clearance is None:
        verify_clearance(extracts, whole, Sensitivity.REPOSITORY_PRIVATE)
    write(document(whole, extracts, clearance=Sensitivity(clearance) if clearance else None).encode("utf-8"), output, ".md")
    return {"artifact_type": "context-document", "artifact_id": extracts.artifact_id, "output": output.name}


def candidate(places: Places, specification: str | None = None) -> Result:
    """The CandidateIdentity of the present tree; `source_spec_sha256` is None without a specification."""
    with places.open() as reader:
        tree = reader.tree()
        if specification is not None and not is_path(specification):
            raise Invalid(Reason.CONTRACT_INVALID, "the specification is not a portable path", at="specification")
        sha256 = reader.read(RootScope.REPOSITORY, specification, SOURCE_BYTES).sha256 if specification else None
    return {"source_spec_sha256": sha256, "git_head": tree.git_head, "repository_digest": tree.repository_digest}


def _declaration(yaml: Path, top: Path | None) -> Reading:
    """The declaration in an explicit file: below `top` its includes are those of the tree, elsewhere of its own folder."""
    try:
        path = yaml.absolute().parent.resolve(strict=True) / yaml.name
        base = top.resolve(strict=True) if top is not None else path.parent
    except (OSError, RuntimeError, ValueError) as error:
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "its folder cannot be read", at=printable(yaml.name)) from error
    if not path.is_relative_to(base):
        base = path.parent
    with Root(base) as opened:
        return read_declaration(opened.read, path.relative_to(base).as_posix(), yaml.stem)


def _enclosing(path: Path) -> Path | None:
    try:
        return find_top(path.absolute().parent.resolve())
    except (SdaqfError, OSError, RuntimeError):
        return None
