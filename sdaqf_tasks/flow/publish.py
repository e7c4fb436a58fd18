"""This module carries records between a shard and files: `publish` into git, and the reading of what is imported (ABSTRACTIONS 1.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict, Malformed, Reason, Refused, SdaqfError
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import is_path
from sdaqf_tasks.shards.operations import IMPORT_BYTES
from sdaqf_tasks.shards.records import Abstraction, Published, verify

Answer = dict[str, Any]


def publish(bench: Workbench, names: Sequence[str], to: str, *, before: Callable[[Answer], object] = lambda answer: None) -> list[Answer]:
    """Write live records as files of the tree, all or, where one is refused, none. One answer a record, with what changed.

    `before` is told each answer before anything of it is written.

    A file that is there is replaced only by its own lineage. Raises `Refused`: ABSTRACTION_NOT_FOUND; `Conflict`: OUTPUT_EXISTS.
    """
    folder, desk = to.rstrip("/"), bench.desk()
    ours = any(f"{folder}/".startswith(f"{each}/") for each in (bench.project.settings.build, bench.project.settings.shards))
    if not is_path(folder) or ours or {".git", ".sdaqf"} & {*folder.lower().split("/")}:
        raise Conflict(Reason.OUTPUT_INVALID, "name a folder of the work tree, by its path from the top", at=files.shown(folder)[:80])
    wanted = []
    for name in dict.fromkeys(names):
        record = desk.live(name)
        if record is None:
            raise Refused(Reason.ABSTRACTION_NOT_FOUND, f"{desk.shard} has no live {name}", todo="Only what is committed is published.")
        path = f"{folder}/{name}.json"
        if not is_path(path):  # a device of Windows, or too long
            raise Conflict(Reason.OUTPUT_INVALID, "not a portable path", at=files.shown(path), todo="Distil it under another name.")
        verify(record)
        new = Published(record=record, shard=desk.shard, state=desk.state_id)
        old = _there(bench, path)
        if old and old.record.lineage_id != record.lineage_id:
            message = f"holds a record of another lineage, {old.record.lineage_id}"
            raise Conflict(Reason.OUTPUT_EXISTS, message, at=path, todo="Choose another folder: --to")
        wanted.append((path, old, new))
    answers: list[Answer] = []
    for path, old, new in wanted:
        same = old is not None and (old.record, old.shard) == (new.record, new.shard)
        word = "same" if same else "replaced" if old else "written"
        answers.append({"path": path, "word": word, "changed": _differences(old.record, new.record) if old and not same else []})
        before(answers[-1])
        if not same:
            files.make_folder(bench.project.top / folder, within=bench.project.top, mode=0o755)
            write = files.replace if old else files.publish
            write(bench.project.top / path, canonical.render(new), mode=0o644)
    return answers


def _there(bench: Workbench, path: str) -> Published | None:
    """The published file that is there. Raises `Conflict` where it is something else."""
    if not bench.project.root.has(path):
        return None
    try:
        return msgspec.convert(canonical.load(bench.project.root.read(path, IMPORT_BYTES)), Published)
    except (SdaqfError, msgspec.ValidationError):
        raise Conflict(Reason.OUTPUT_EXISTS, "is there, and is no published record", at=path, todo="Move it away.") from None


def _differences(old: Abstraction, new: Abstraction) -> list[dict[str, Any]]:
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    return [{"field": name, "from": before[name], "to": after[name]} for name in after if before[name] != after[name]]


def read_records(paths: Sequence[Path]) -> dict[str, str]:
    """The texts of files to import, by the names that the event will know them by: never where they lie.

    Raises `Unreadable` or `Malformed` with the file's name.
    """
    found: dict[str, str] = {}
    for number, path in enumerate(paths, 1):
        names = (path.name, *(f"record-{free}.json" for free in range(number, number + len(paths))))
        name = next(each for each in names if is_path(each) and each not in found)
        data = files.read_file(path, IMPORT_BYTES)
        try:
            found[name] = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(Reason.NOT_UTF8, f"byte {error.start} is not UTF-8", at=name) from None
    return found
