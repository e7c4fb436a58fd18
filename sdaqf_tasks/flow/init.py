"""This module is the way in: it proposes a first manifest for a repository that has none, and writes it (JOURNEYS, The first five minutes).

    propose(project) -> Proposal       reads the tree; what is proposed was compiled and indexed already
    write(project, proposal) -> paths  all of its files, or none

Nothing is ever overwritten. What a file is, is told by its name and place; what it says is read only to see that it fits.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.context import draft, excerpts, layout
from sdaqf_tasks.context.compile import Compiled
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.draft import Specification
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.layout import Part, suffix
from sdaqf_tasks.disk.files import components, make_folder, publish
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError
from sdaqf_tasks.flow.mentions import ALWAYS, Looked, look
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.formats import canonical, declaration, lockfile, plain_yaml
from sdaqf_tasks.formats.globs import matches
from sdaqf_tasks.formats.records import SECRET, TEXT_CHARACTERS, Kind, RootScope, is_path
from sdaqf_tasks.formats.schemas import schemas
from sdaqf_tasks.world import SOURCE_BYTES, Tree, decode, lines

NAME = "context"

SOURCES, BYTES = 800, 7_340_032
"""Sources and bytes that are proposed: less than what a manifest can take, so that a project can grow."""

REQUIRED, RECORD = 114_688, 1_536
"""Bytes of a query's budget that the specification may take, and as many that what is required may; and those of a record."""

RULES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md", ".cursorrules")
SPECIFICATIONS = (
    *("docs/specification.md", "docs/spec.md", "specification.md", "spec.md", "readme.md", "readme.markdown", "readme.mdx", "readme.rst"),
    *("readme.adoc", "readme.txt", "readme", "docs/readme.md", "docs/index.md", "docs/index.rst", "doc/index.rst"),
)

_HOOK = {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": f"sdaqf render {NAME} --max-bytes 48KiB"}]}]}}
_SERVER = {"command": "uvx", "args": ["--from", "sdaqf-tasks[mcp]", "sdaqf", "mcp"]}
AGENTS: Mapping[str, Mapping[str, str]] = {
    "claude": {
        ".claude/settings.json": json.dumps(_HOOK, indent=2) + "\n",
        ".mcp.json": json.dumps({"mcpServers": {NAME: _SERVER}}, indent=2) + "\n",
    },
    "codex": {".codex/config.toml": f'[mcp_servers.{NAME}]\ncommand = "uvx"\nargs = {json.dumps(_SERVER["args"])}\n'},
}
"""What makes a tool start with the context, by tool and path."""


class LeftOut(NamedTuple):
    """Files that are left out for one reason: how many, and three of them."""

    why: str
    files: int
    examples: tuple[str, ...]


class Proposal(NamedTuple):
    """What would be written, by path, and what a person should know before saying yes.

    `there` holds files that are there already, with the text that somebody may want to add to them.
    """

    tree: Tree
    specification: Specification
    parts: tuple[Part, ...]
    left_out: tuple[LeftOut, ...]
    looked: Looked
    manifest: str
    files: Mapping[str, bytes]
    there: Mapping[str, str]


def propose(project: Project, agents: Sequence[str] = ()) -> Proposal:
    """A manifest for the present tree, with its lock, its schema and the settings of `agents`.

    Raises `Conflict` with OUTPUT_EXISTS where the project has a manifest or a lock of that name; `Refused` where there is no
    document at all, and whatever observing the tree raises.
    """
    folder = _folder(project)
    manifest = f"{folder}/{NAME}.yaml"
    with project.repository() as repository:
        look_at = _Look(repository)
        tree = look_at.tree
        specification = _specification(look_at)
        rules, understood = _rules(look_at, specification.path)
        named = {specification.path, *(part.pattern for part in rules)}
        wanted = layout.proposed(tree.files, rules, [name for name in RULES if name in tree.files and name not in named])
        parts, data, compiled = _that_fits(manifest, specification, wanted, look_at)
        pinned = [path for path in dict.fromkeys([*ALWAYS, *(held.pin.path for held in compiled.held)]) if path in tree.files]
        texts = {path: look_at.text(path) or "" for path in pinned if suffix(path) in ("md", "markdown")}
        looked = look(texts, tree, lambda asked: History(repository, asked), look_at.text)
        taken = {source.locator.path for source in compiled.manifest.content.sources}
        left_out = tuple(_left_out(look_at, taken | understood, wanted))
    lock = lockfile.render({held.pin: held.digest for held in compiled.held})
    settings = {path: text for agent in agents for path, text in AGENTS[agent].items()}
    files = {manifest: data, f"{folder}/{NAME}.lock": lock, f"{folder}/.schema.json": schemas()["manifest-yaml.schema.json"]}
    files |= {path: text.encode("ascii") for path, text in settings.items()}
    there = {path: settings.get(path, "") for path in files if project.root.has(path)}
    files = {path: data for path, data in files.items() if path not in there}
    return Proposal(tree, specification, tuple(parts), left_out, looked, manifest, files, there)


def write(project: Project, proposal: Proposal) -> tuple[str, ...]:
    """Write what was proposed, all of it or nothing; the paths that are new. Raises `Conflict`."""
    with contextlib.ExitStack() as undo:
        for path, data in proposal.files.items():
            place = project.top / path
            for folder in reversed([folder for folder in place.parents if not folder.exists()]):
                undo.callback(_remove_folder, folder)
            make_folder(place.parent, within=project.top, mode=0o755)
            publish(place, data, mode=0o644)
            undo.callback(place.unlink, missing_ok=True)
        undo.pop_all()
    return tuple(proposal.files)


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _folder(project: Project) -> str:
    """The folder that the manifest goes into. Raises `Conflict` where there is one."""
    folder = next((folder for folder in project.settings.manifests if not set(folder) & set("*?")), "manifests").strip("/")
    taken = [found.path for found in project.manifests if found.name == NAME]
    taken += [path for ending in ("yaml", "yml", "lock") if project.root.has(path := f"{folder}/{NAME}.{ending}")]
    if taken:
        todo = "Edit it; `sdaqf init` is for projects without one, and overwrites nothing."
        raise Conflict(Reason.OUTPUT_EXISTS, f"{taken[0]} is there already; nothing was written", todo=todo)
    return folder


class _Look:
    """The tree, and what may be asked of its files."""

    def __init__(self, repository: Repository) -> None:
        self.root, self.reader = repository.root, Reader(repository)
        self.tree = self.reader.tree()

    def text(self, path: str) -> str | None:
        with contextlib.suppress(SdaqfError):
            return decode(self.reader.read(RootScope.REPOSITORY, path, SOURCE_BYTES).data)
        return None

    def size(self, path: str) -> int:
        with contextlib.suppress(OSError):
            return (self.root.path / path).lstat().st_size
        return 0

    def cost(self, path: str) -> float:
        """How much of what is proposed at most a file takes: of the sources, or of the bytes, whole and once a source."""
        size = self.size(path)
        pieces = 1 + size // TEXT_CHARACTERS
        return 0 if size > SOURCE_BYTES else max(pieces / SOURCES, pieces * size / BYTES)

    def target(self, link: str) -> str:
        with self.root.walk() as walk:
            return walk.readlink(components(link)).decode("utf-8", "replace")


# ---- documents that are named ---------------------------------------------------------------------------------------


def _fits(text: str) -> bool:
    """Whether a text can be a source, and required."""
    return len(text) <= TEXT_CHARACTERS and len(canonical.encode(text)) <= REQUIRED and not SECRET.search(text)


def _specification(look_at: _Look) -> Specification:
    """The document that says what the project must do, or the part of it that fits; an empty one only where all are."""
    files = [name for name in look_at.tree.files if is_path(name)]
    usual = sorted((name for name in files if name.lower() in SPECIFICATIONS), key=lambda name: SPECIFICATIONS.index(name.lower()))
    other = sorted((name for name in files if suffix(name) in (*layout.PROSE, "txt")), key=lambda name: (name.count("/"), name))
    texts = {path: text for path in [*usual, *other][:60] if (text := look_at.text(path)) is not None}
    for path, text in texts.items():
        if text.strip() and _fits(text):
            return Specification(path)
        if part := _part(text, path):
            return Specification(path, part, f"the whole has {len(text):,} characters; a source has at most {TEXT_CHARACTERS:,}")
    if texts:
        return Specification(next(iter(texts)), note="it is empty: say there what this project must do")
    todo = "Write a README.md that says what this project must do, then run `sdaqf init` again."
    raise Refused(Reason.CANONICAL_INVALID, "there is no document that could be the specification", todo=todo)


def _part(text: str, path: str) -> tuple[str, str] | None:
    """The section that says most, where sections are; else the lines from the top."""
    rows = lines(text)
    heads = excerpts.headings(text) if suffix(path) in ("md", "markdown") else []
    names = Counter(head.text for head in heads if head.text.isprintable() and len(head.text) <= 200)
    fitting = [
        (re.search("requirement|specification|overview|introduction", head.text, re.IGNORECASE) is None, -len(body), head.text)
        for head in heads
        if head.text and names[head.text] == 1
        if (body := "".join(rows[head.span.first - 1 : head.span.last])).strip() and _fits(body)
    ]
    if fitting:
        return "section", min(fitting)[2]
    sizes = itertools.accumulate(len(canonical.encode(row)) for row in rows)
    last = sum(size <= TEXT_CHARACTERS for size in sizes)
    top = "".join(rows[:last])
    return ("lines", f"1-{last}") if top.strip() and _fits(top) else None


def _rules(look_at: _Look, specification: str) -> tuple[list[Part], set[str]]:
    """What agents are told to do, each file once; and those that only lead to another, which is said with that one."""
    texts = {name: text for name in RULES if name in look_at.tree.files and name != specification and (text := look_at.text(name))}
    leads: dict[str, tuple[str, str]] = {}
    for name in RULES:
        body = re.sub(r"<!--(?s:.*?)(?:-->|\Z)|^#.*$", "", texts.get(name, ""), flags=re.MULTILINE).strip()
        if name in look_at.tree.links:
            leads[name] = look_at.target(name).removeprefix("./"), "is a link to"
        elif other := next((other for other in texts if len(body) <= 200 and other not in (name, *leads) and other in body), None):
            leads[name] = other, "only imports" if re.search(rf"@(?:\./)?{re.escape(other)}", body) else "only links to"
    notes = {name: " · ".join(f"{each} {how} it" for each, (to, how) in leads.items() if to == name) for name in texts}
    parts = [Part("rules", Kind.REQUIREMENT, name, note=notes[name]) for name, text in texts.items() if name not in leads and _fits(text)]
    return parts, {name for name in leads if any(leads[name][0] == part.pattern for part in parts)}


# ---- what fits ------------------------------------------------------------------------------------------------------


def _that_fits(manifest: str, specification: Specification, wanted: Sequence[Part], look_at: _Look) -> tuple[list[Part], bytes, Compiled]:
    """The parts, the manifest that says them, and what it compiles to: as much as a manifest and a graph take."""
    names = [name for name in look_at.tree.files if is_path(name)]
    for room in (1.0, 0.7, 0.4):
        with contextlib.suppress(SdaqfError):
            return _compiled(manifest, specification, layout.fitted(wanted, names, look_at.cost, room), look_at)
    return _compiled(manifest, specification, layout.fitted(wanted, names, look_at.cost, 0.1), look_at)


def _compiled(manifest: str, specification: Specification, parts: Sequence[Part], look_at: _Look) -> tuple[list[Part], bytes, Compiled]:
    """The same, of these parts; one that gives no source is left out. Raises `SdaqfError` where it is too much."""
    parts = _required(parts, look_at)
    data = draft.manifest(specification, parts)
    compiled = compile_manifest(declaration.read(NAME, plain_yaml.load(data, manifest)), look_at.reader)
    counted = [part._replace(sources=len(compiled.members[part.alias])) for part in parts]
    if not all(part.sources for part in counted):
        return _compiled(manifest, specification, [part for part in counted if part.sources], look_at)
    index(compiled.manifest, look_at.reader)
    return counted, data, compiled


def _required(parts: Sequence[Part], look_at: _Look) -> list[Part]:
    """The parts, of which the pinned ones are required, in their order, as long as they fit beside the specification."""
    room, found = REQUIRED, []
    for part in parts:
        texts = [look_at.text(name) or "" for name in part.takes(look_at.tree.files)] if part.pinned else []
        cost = sum(len(canonical.encode(text)) + RECORD for text in texts)
        required = part.pinned and cost <= room and not any(map(SECRET.search, texts))
        room -= cost if required else 0
        found.append(part._replace(required=required))
    return found


# ---- what is left out -----------------------------------------------------------------------------------------------

_BINARY = "png jpg jpeg gif ico webp bmp tif tiff ttf otf woff woff2 eot zip gz bz2 xz tar whl jar pdf mo so exe bin sqlite db"
_LARGE = "more than 256 KiB"


def _left_out(look_at: _Look, taken: Collection[str], wanted: Sequence[Part]) -> Iterator[LeftOut]:
    """Every file that is no source, by reason; the fewest first, since those are what a person may miss."""
    meant = {name for part in wanted for name in part.takes(look_at.tree.files)} | {*RULES}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    groups["a link"] = [name for name in look_at.tree.links if name not in taken]
    groups["another repository"] = list(look_at.tree.submodules)
    for name in look_at.tree.files:
        if name not in taken:
            groups[_why(name, look_at, name in meant)].append(name)
    for why, names in sorted(groups.items(), key=lambda item: len(item[1])):
        if names:
            exact = f"{look_at.size(names[0]) // 1_024:,} KiB, at most 256" if why == _LARGE and len(names) == 1 else why
            yield LeftOut(exact, len(names), tuple(names[:3]))


def _why(name: str, look_at: _Look, meant: bool) -> str:
    if any(matches(glob, name) for glob in layout.SETTLED):
        return "not written here, or test data"
    if not is_path(name):
        return "space in its name" if " " in name else "name is not portable"
    if suffix(name) in _BINARY.split():
        return "binary"
    if look_at.size(name) > SOURCE_BYTES:
        return _LARGE
    if not meant:
        return "neither rules, decisions, code, tests nor documents"
    text = look_at.text(name)
    if not text:
        return "not UTF-8 text" if text is None else "empty"
    return "looks like a key or a token" if SECRET.search(text) else "too much for one manifest"
