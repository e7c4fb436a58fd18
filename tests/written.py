"""This module holds a manifest as text and the repository in memory that it is about.

    world = World({"docs/a.md": "one\\n"})
    compiled = made("sources:\\n  a: design docs/a.md\\n", world)        # below `sdaqf: 1` and `specification: README.md`
    refused(TEXT, "3:6", "the message", "what to write")               # and the line of that place with a caret under it

Line 3 is the first of what a test writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from sdaqf_tasks.context.compile import Compiled, compile
from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.formats import declaration, plain_yaml
from sdaqf_tasks.formats.declaration import Declaration
from sdaqf_tasks.formats.plain_yaml import Document
from sdaqf_tasks.formats.records import Source
from sdaqf_tasks.world import Tree
from tests import simulator

TOP = "sdaqf: 1\nspecification: README.md\n"
README = "# What it must do\n"
NAME = "review"
FILE = f"manifests/{NAME}.yaml"


class World(simulator.World):
    """Files by name, with a README.md; what lies under `build/` is ignored by git. The tree may hold other entries too."""

    def __init__(self, files: Mapping[str, str | bytes] | None = None, owner: Mapping[str, str | bytes] | None = None) -> None:
        super().__init__(_bytes({"README.md": README} | dict(files or {})), _bytes(owner or {}))
        self.links: tuple[str, ...] = ()
        self.submodules: tuple[str, ...] = ()
        self.absent: tuple[str, ...] = ()
        self.unlisted: frozenset[str] = frozenset()
        self.backwards = False

    def tree(self) -> Tree:
        tree = super().tree()
        files = [name for name in tree.files if name not in self.unlisted]
        return tree._replace(
            files=tuple(reversed(files) if self.backwards else files), links=self.links, submodules=self.submodules, absent=self.absent
        )


def _bytes(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {path: data if isinstance(data, bytes) else data.encode() for path, data in files.items()}


def document(text: str, file: str = FILE) -> Document:
    return plain_yaml.load(text.encode(), file)


def declared(below: str, *included: str, top: str = TOP, name: str = NAME) -> Declaration:
    """The declaration in `top` and `below`; what it includes is written out whole, and called manifests/_1.yaml and so on."""
    others = [document(text, f"manifests/_{number}.yaml") for number, text in enumerate(included, 1)]
    return declaration.read(name, document(top + below, f"manifests/{name}.yaml"), others)


def made(below: str, world: simulator.World | None = None, *included: str, top: str = TOP, name: str = NAME) -> Compiled:
    return compile(declared(below, *included, top=top, name=name), world or World())


def source_of(compiled: Compiled, alias: str) -> Source:
    """The only source of an alias."""
    (source,) = sources_of(compiled, alias)
    return source


def sources_of(compiled: Compiled, alias: str) -> list[Source]:
    """The sources of an alias by path and line."""
    found = [source for source in compiled.manifest.content.sources if source.source_id in compiled.members[alias]]
    return sorted(found, key=lambda source: (source.locator.path, source.locator.line_start))


def paths(sources: Iterable[Source]) -> list[str]:
    return [source.locator.path for source in sources]


def refused(
    below: str,
    place: str,
    message: str,
    todo: str | None = None,
    *,
    world: simulator.World | None = None,
    included: Sequence[str] = (),
    reason: Reason = Reason.MANIFEST_INVALID,
    top: str = TOP,
) -> SdaqfError:
    """The refusal of a manifest: at `LINE:COLUMN` of it, or at `FILE:LINE:COLUMN` of an include, which its excerpt shows."""
    with pytest.raises(SdaqfError) as caught:
        made(below, world, *included, top=top)
    error = caught.value
    where = place if place.count(":") == 2 else f"{FILE}:{place}"
    assert (error.where, error.message) == (where, message), (error.where, error.message)
    assert error.reason is reason, error.reason
    assert todo is None or error.todo == todo, error.todo
    texts = {FILE: top + below} | {f"manifests/_{number}.yaml": text for number, text in enumerate(included, 1)}
    file, line, column = where.split(":")
    shown, caret = texts[file].splitlines()[int(line) - 1], " " * (int(column) - 1) + "^"
    assert len(shown) > 100 or error.excerpt == (f"  | {shown}", f"  | {caret}"), error.excerpt
    return error
