"""This module lists everything that reads bytes which somebody else may have written, each as one function of the bytes.

A reader may refuse with an `SdaqfError`; whatever else it raises is a defect. The list serves the tests, `benchmarks.inputs`
and `scripts.fuzz`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.context import block, excerpts, mentions
from sdaqf_tasks.disk import git
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.disk.store import Store
from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.flow import init
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.formats import artifacts, canonical, declaration, lockfile, plain_yaml
from sdaqf_tasks.world import decode
from tests import examples
from tests.disk.worktree import committed

YAML = b"""\
sdaqf: 1
title: "A \\u0041 title"
specification: {path: docs/a.md, section: One}
include: [_shared.yaml]
defaults: {sensitivity: public}
sources:
  one: decision docs/one.md
  core: {glob: src/**/*.py, exclude: [src/x/**], kind: source, labels: [a, b]}
  run:
    path: build/lint.txt
    kind: tool-observation
    ignored: true
    freshness: {observed: 2026-11-01T00:00:00Z, for: 30d}
relationships:
  - core implements specification
  - {from: core, type: implements, to: one, provenance: [docs/index.md]}
queries:
  default: {seeds: all}
  other: {terms: [identity], require: [one], edges: [implements], budget: {bytes: 64KiB, depth: 3}}
"""
TOML = b"""\
manifests = ["manifests", "docs/*"]
build = "out"
exclude = ["a/**"]
soon = "7d"
[limits]
files = 10
git_seconds = 1.5
[policy]
changed = "warning"
"""
LOCK = lockfile.render(
    {lockfile.Pin("repository", "docs/a.md", ("section", "One")): "0" * 64, lockfile.Pin("repository", "docs/b.md"): "1" * 64}
)
CONFLICT = b'{\n<<<<<<< ours\n  "sdaqf-lock": 1,\n=======\n  "sdaqf-lock": 1,\n>>>>>>> theirs\n  "sources": []\n}\n'
MARKDOWN = b"# One\n\nSee `src/a.py:1-3` and [b](b.md).\n\nTwo\n---\n```\n# none\n```\n<!-- -->\n"
PYTHON = b"@a\ndef one(): ...\n\nclass Two:\n    def one(self): ...\n"
BLOCK = (
    b"# Agents\n\n<!-- sdaqf:begin context content=0123456789ab (generated) -->\n- a\n<!-- sdaqf:end -->\n~~~\n<!-- sdaqf:end -->\n~~~\n"
)
RECEIPT = canonical.render({"inputs": {"graph": "CTX-GRAPH-" + "0" * 64}, "output": "x", "program": "1", "until": "2026-11-01T00:00:00Z"})


class Reader(NamedTuple):
    """`seeds` are bytes that it takes; `slow` ones start a program."""

    read: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    slow: bool = False


_folder = tempfile.TemporaryDirectory(prefix="readers-")


def _scratch() -> Path:
    return Path(_folder.name)


def _settings(data: bytes) -> object:
    (_scratch() / "sdaqf.toml").write_bytes(data)
    return Project(_scratch()).settings


def _receipt(data: bytes) -> object:
    store = Store(_scratch(), "store")
    store.create()
    for name in ("refs/x", "refs/x.made"):
        (store.folder / name).write_bytes(data)
    return store.ref("x"), store.receipt("x")


def _manifest(data: bytes) -> object:
    return declaration.read("x", plain_yaml.load(data, "x.yaml"), [plain_yaml.load(b"sdaqf: 1\n", "_shared.yaml")])


def _lock(data: bytes) -> object:
    return lockfile.parse(data, "x.lock")


def _conflict(data: bytes) -> object:
    return lockfile.sides(data, "x.lock")


def _section(data: bytes) -> object:
    return excerpts.section(decode(data), "One")


def _readme(data: bytes) -> object:
    return init._part(decode(data), "README.md")


def _symbol(data: bytes) -> object:
    return excerpts.symbol(decode(data), "one")


def _mentions(data: bytes) -> object:
    return mentions.mentions(decode(data), "docs/a.md")


def _blocks(data: bytes) -> object:
    return block.blocks(data, "AGENTS.md")


def _tree(name: str) -> Callable[[bytes], object]:
    """A repository of which one file of the git directory holds the bytes, observed."""

    def read(data: bytes) -> object:
        top = _scratch() / f"tree-{name.replace('/', '-')}"
        if not top.exists():
            committed(top, a=b"a\n", **{"d/b": b"b\n"})
        place = top / ".git" / name
        kept = place.read_bytes() if place.exists() else None
        try:
            place.write_bytes(data)
            with Repository(top) as repository:
                return repository.observe()
        finally:
            place.unlink()
            if kept is not None:
                place.write_bytes(kept)

    return read


def _head(name: str) -> Callable[[bytes], object]:
    """HEAD as our own code finds it, where one file of the git directory holds the bytes."""

    def read(data: bytes) -> object:
        top = _scratch() / "head"
        if not top.exists():
            committed(top, a=b"a\n")
            (top / ".git" / "refs" / "heads" / "main").unlink()
        place = top / ".git" / name
        kept = place.read_bytes() if place.exists() else None
        try:
            place.write_bytes(data)
            return git._follow(git._layout(top), b"HEAD")
        finally:
            place.unlink()
            if kept is not None:
                place.write_bytes(kept)

    return read


def _index() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return (committed(Path(folder) / "t", a=b"a\n", **{"d/b": b"b\n"}).path / ".git" / "index").read_bytes()


COMMIT = b"0" * 39 + b"1"
READERS: Mapping[str, Reader] = {
    "json": Reader(canonical.load, (b'{"a": [1, -2, null, true, "\\u00e9"]}', b"[]")),
    "artifact": Reader(artifacts.parse, tuple(artifacts.render(each) for each in examples.ARTIFACTS[:9])),
    "manifest": Reader(_manifest, (YAML, b"sdaqf: 1\nspecification: a.md\n")),
    "lock": Reader(_lock, (LOCK, CONFLICT)),
    "conflict": Reader(_conflict, (CONFLICT,)),
    "settings": Reader(_settings, (TOML, b"")),
    "receipt": Reader(_receipt, (RECEIPT, b"CTX-GRAPH-" + b"0" * 64 + b"\n")),
    "section": Reader(_section, (MARKDOWN,)),
    "README": Reader(_readme, (MARKDOWN,)),
    "symbol": Reader(_symbol, (PYTHON,)),
    "mentions": Reader(_mentions, (MARKDOWN,)),
    "blocks": Reader(_blocks, (BLOCK,)),
    "git HEAD": Reader(_head("HEAD"), (b"ref: refs/heads/main\n", COMMIT + b"\n")),
    "git packed-refs": Reader(
        _head("packed-refs"), (b"# pack-refs with: peeled fully-peeled sorted \n" + COMMIT + b" refs/heads/main\n^" + COMMIT + b"\n",)
    ),
    "git index": Reader(_tree("index"), (_index(),), slow=True),
    "git config": Reader(
        _tree("config"), (b"[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tnoop = true\n",), slow=True
    ),
    "git info/exclude": Reader(_tree("info/exclude"), (b"*.o\n!a\n/d/\n",), slow=True),
}


def tried(name: str, data: bytes) -> bool:
    """Whether the reader took the bytes; false where it refused them. Anything else is raised."""
    try:
        READERS[name].read(data)
    except SdaqfError:
        return False
    return True
