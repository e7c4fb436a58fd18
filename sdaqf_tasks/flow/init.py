"""This module is the way in: it proposes a first manifest for a repository that has none, and writes it (JOURNEYS, The first five minutes).

    propose(project) -> Proposal       reads the tree; what is proposed was compiled and indexed already
    write(project, proposal) -> paths  all of its files, or none

Nothing is ever overwritten. What a file is, is told by its name and place; what it says is read only to see that it fits.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.context import draft, excerpts, layout
from sdaqf_tasks.context.compile import Compiled
from sdaqf_tasks.context.compile import compile as compile_manifest
from sdaqf_tasks.context.draft import Part, Specification, fitted
from sdaqf_tasks.context.globs import matches
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.layout import Row, suffix
from sdaqf_tasks.disk.files import components, make_folder, publish
from sdaqf_tasks.disk.history import History
from sdaqf_tasks.disk.reader import Reader
from sdaqf_tasks.disk.repository import Repository
from sdaqf_tasks.errors import Conflict, Reason, Refused, SdaqfError
from sdaqf_tasks.flow.mentions import ALWAYS, Looked, look
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.formats import canonical, declaration, lockfile, plain_yaml
from sdaqf_tasks.formats.records import SECRET, TEXT_CHARACTERS, Kind, RootScope, is_path
from sdaqf_tasks.formats.schemas import schemas
from sdaqf_tasks.world import SOURCE_BYTES, Tree, decode, lines

NAME = "context"

SOURCES, BYTES = 800, 7_340_032
"""Sources and bytes that are proposed: less than what a manifest can take, so that a project can grow."""

REQUIRED, RECORD = 114_688, 1_536
"""Bytes of a query's budget that the specification may take, and as many that what is pinned may; and those of a record."""

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
    """Files that are left out for one reason: what they are, why, how many, and three of them."""

    what: str
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
        specification = _specification(tree, look_at)
        rules = list(_rules(tree, look_at, specification.path))
        named = [specification.path, *(part.row.pattern for part in rules if not part.row.glob)]
        rows = layout.rows(tree.files, named, [name for name in RULES if name in tree.files and name not in named])
        parts, data, compiled = _that_fits(manifest, specification, rules, rows, look_at)
        pinned = {source_id for part in parts if part.row.pinned for source_id in compiled.members[part.row.alias]}
        paths = {source.locator.path: source.source_id in pinned for source in compiled.manifest.content.sources}
        wanted = [*ALWAYS, specification.path, *(path for path in paths if paths[path])]
        documents = {
            path: text
            for path in dict.fromkeys(wanted)
            if suffix(path) in ("md", "markdown") and path in tree.files and (text := look_at.text(path))
        }
        looked = look(documents, tree, lambda asked: History(repository, asked), look_at.text)
        understood = {name for name in RULES for part in rules if f"{name} " in part.note}
        left_out = tuple(_left_out(tree, look_at, paths.keys() | understood, rows))
    lock = lockfile.render({held.pin: held.digest for held in compiled.held})
    files = {manifest: data, f"{folder}/{NAME}.lock": lock, f"{folder}/.schema.json": schemas()["manifest-yaml.schema.json"]}
    settings = {path: text for agent in agents for path, text in AGENTS[agent].items()}
    files |= {path: text.encode("ascii") for path, text in settings.items()}
    there = {path: settings.get(path, "") for path in files if _exists(project, path)}
    files = {path: data for path, data in files.items() if path not in there}
    return Proposal(tree, specification, tuple(parts), left_out, looked, manifest, files, there)


def write(project: Project, proposal: Proposal) -> tuple[str, ...]:
    """Write what was proposed, all of it or nothing; the paths that are new. Raises `Conflict`."""
    made: list[Path] = []
    folders: list[Path] = []
    try:
        for path, data in proposal.files.items():
            place = project.top / path
            missing = [folder for folder in place.parents if folder.is_relative_to(project.top) and not folder.exists()]
            make_folder(place.parent, within=project.top, mode=0o755)
            folders += reversed(missing)
            publish(place, data, mode=0o644)
            made.append(place)
    except BaseException:
        for place in made:
            place.unlink(missing_ok=True)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise
    return tuple(proposal.files)


def _exists(project: Project, path: str) -> bool:
    place = project.top / path
    return place.exists() or place.is_symlink()


def _folder(project: Project) -> str:
    """The folder that the manifest goes into. Raises `Conflict` where there is one."""
    folder = next((folder for folder in project.settings.manifests if not set(folder) & set("*?")), "manifests").strip("/")
    taken = [found.path for found in project.manifests if found.name == NAME]
    taken += [path for ending in ("yaml", "yml", "lock") if _exists(project, path := f"{folder}/{NAME}.{ending}")]
    if taken:
        todo = "Edit it; `sdaqf init` is for projects without one, and overwrites nothing."
        raise Conflict(Reason.OUTPUT_EXISTS, f"{taken[0]} is there already; nothing was written", todo=todo)
    return folder


class _Look:
    """The tree, and what may be asked of the tree's files: texts, sizes and where links lead."""

    def __init__(self, repository: Repository) -> None:
        self.repository, self.reader = repository, Reader(repository)
        self.tree = self.reader.tree()

    def text(self, path: str) -> str | None:
        try:
            return decode(self.reader.read(RootScope.REPOSITORY, path, SOURCE_BYTES).data)
        except SdaqfError:
            return None

    def size(self, path: str) -> int:
        try:
            return (self.repository.root.path / path).lstat().st_size
        except OSError:
            return 0

    def cost(self, path: str) -> float:
        """How much of what is proposed at most a file takes: of the sources, or of the bytes, whole and once a source."""
        size = self.size(path)
        pieces = 1 + size // TEXT_CHARACTERS
        return 0 if size > SOURCE_BYTES else max(pieces / SOURCES, pieces * size / BYTES)

    def target(self, path: str) -> str:
        with self.repository.root.walk() as walk:
            return walk.readlink(components(path)).decode("utf-8", "replace")


# ---- documents that are named ---------------------------------------------------------------------------------------


def _fits(text: str, limit: int = REQUIRED) -> bool:
    """Whether a text can be a source, and required."""
    return len(text) <= TEXT_CHARACTERS and len(canonical.encode(text)) <= limit and not SECRET.search(text)


def _specification(tree: Tree, look_at: _Look) -> Specification:
    """The document that says what the project must do, or the part of it that fits; an empty one only where all are."""
    rank = {name: place for place, name in enumerate(SPECIFICATIONS)}
    usual = sorted((name for name in tree.files if name.lower() in rank), key=lambda name: rank[name.lower()])
    other = sorted((name for name in tree.files if suffix(name) in ("md", "rst", "txt", "adoc")), key=lambda name: (name.count("/"), name))
    empty = None
    for path in [name for name in dict.fromkeys([*usual, *other]) if is_path(name)][:60]:
        text = look_at.text(path)
        if text is None:
            continue
        if not text.strip():
            empty = empty or Specification(path, note="it is empty: say there what this project must do")
        elif _fits(text):
            return Specification(path)
        elif part := _part(text, path):
            return Specification(path, part, f"the whole has {len(text):,} characters; a source has at most {TEXT_CHARACTERS:,}")
    if empty:
        return empty
    todo = "Write a README.md that says what this project must do, then run `sdaqf init` again."
    raise Refused(Reason.CANONICAL_INVALID, "there is no document that could be the specification", todo=todo)


def _part(text: str, path: str) -> tuple[str, str] | None:
    """The section that says most, where sections are; else the lines from the top."""
    rows = lines(text)
    if suffix(path) in ("md", "markdown"):
        heads = excerpts.headings(text)
        names = [head.text for head in heads]
        fitting = [
            (re.search("requirement|specification|overview|introduction", head.text, re.IGNORECASE) is None, -len(body), head.text)
            for head in heads
            if names.count(head.text) == 1 and head.text.isprintable() and len(head.text) <= 200
            if (body := "".join(rows[head.span.first - 1 : head.span.last])).strip() and head.text and _fits(body)
        ]
        if fitting:
            return "section", min(fitting)[2]
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _fits("".join(rows[:middle])) else (low, middle - 1)
    return ("lines", f"1-{low}") if "".join(rows[:low]).strip() else None


def _rules(tree: Tree, look_at: _Look, specification: str) -> Iterator[Part]:
    """What agents are told to do, each file once: one that only leads to another is understood, and said."""
    texts = {name: text for name in RULES if name in tree.files and name != specification and (text := look_at.text(name))}
    led: defaultdict[str, list[str]] = defaultdict(list)
    for name in [name for name in RULES if name in tree.links]:
        target = look_at.target(name)
        led[target.removeprefix("./")].append(f"{name} is a link to it")
    for name, text in list(texts.items()):
        body = re.sub(r"<!--(?s:.*?)-->|^#.*$", "", text, flags=re.MULTILINE).strip()
        other = next((other for other in texts if other != name and other in body), None)
        if other and len(body) <= 200:
            led[other].append(f"{name} only {'imports' if f'@{other}' in body.replace('@./', '@') else 'links to'} it")
            del texts[name]
    for name, text in texts.items():
        alias = (
            "rules"
            if name == next(iter(texts))
            else re.sub(r"[^a-z]+", "-", f"rules-{name.rpartition('/')[2].lower()}").removesuffix("-md")
        )
        if not SECRET.search(text):
            yield Part(Row(alias, Kind.REQUIREMENT, name, glob=len(text) > TEXT_CHARACTERS), 1, note=" · ".join(led[name]))


# ---- what fits ------------------------------------------------------------------------------------------------------


def _that_fits(
    manifest: str, specification: Specification, rules: Sequence[Part], rows: Sequence[Row], look_at: _Look
) -> tuple[list[Part], bytes, Compiled]:
    """The parts, the manifest that says them, and what it compiles to: as much as a manifest and a graph take."""
    failure: SdaqfError | None = None
    for room in (1.0, 0.7, 0.4, 0.1):
        parts = fitted([*rules, *map(Part, rows)], look_at.tree.files, look_at.cost, room)
        try:
            return _compiled(manifest, specification, _required(parts, look_at), look_at)
        except SdaqfError as error:
            failure = error
    assert failure is not None
    raise failure


def _compiled(manifest: str, specification: Specification, parts: Sequence[Part], look_at: _Look) -> tuple[list[Part], bytes, Compiled]:
    """The same, of these parts; one that gives no source is left out. Raises `SdaqfError` where it is too much."""
    names = {name for part in parts for name in part.row.takes(look_at.tree.files)}
    data = draft.manifest(specification, parts, roomy=sum(look_at.size(name) + RECORD for name in names) <= REQUIRED)
    compiled = compile_manifest(declaration.read(NAME, plain_yaml.load(data, manifest)), look_at.reader)
    counted = [part._replace(sources=len(compiled.members[part.row.alias])) for part in parts]
    if not all(part.sources for part in counted):
        return _compiled(manifest, specification, [part for part in counted if part.sources], look_at)
    index(compiled.manifest, look_at.reader)
    return counted, data, compiled


def _required(parts: Sequence[Part], look_at: _Look) -> list[Part]:
    """The parts, of which the pinned ones are required, in their order, as long as they fit beside the specification."""
    left, found = REQUIRED, []
    for part in parts:
        required = False
        if part.row.pinned:
            texts = [look_at.text(name) or "" for name in part.row.takes(look_at.tree.files)]
            cost = sum(len(canonical.encode(text)) + RECORD for text in texts)
            required = cost <= left and not any(SECRET.search(text) for text in texts)
            left -= cost if required else 0
        found.append(part._replace(required=required))
    return found


# ---- what is left out -----------------------------------------------------------------------------------------------

_KINDS = {
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "ico", "webp", "bmp", "tif", "tiff"), "images"),
    **dict.fromkeys(("ttf", "otf", "woff", "woff2", "eot"), "fonts"),
    **dict.fromkeys(
        ("zip", "gz", "bz2", "xz", "tar", "whl", "jar", "pdf", "mo", "so", "exe", "bin", "sqlite", "db"), "archives and the like"
    ),
    **dict.fromkeys(layout.PROSE, "documents"),
    **{ending: "programs" for family in layout.FAMILIES for ending in family},
}
_SPACE, _NAME, _LARGE, _TEXT, _ROOM = (
    "space in its name",
    "name is not portable",
    "more than 256 KiB",
    "not UTF-8 text",
    "too much for one manifest",
)
_ASIDE, _ELSEWHERE, _SETTLED, _BINARY, _OTHER = (
    "beside the product",
    "elsewhere",
    "not written here, or test data",
    "binary",
    "settings, data and the like",
)
_SECRET = "looks like a key or a token"
_WHYS = (_SPACE, _NAME, _SECRET, _LARGE, _TEXT, _ROOM, "link", "another repository", _ASIDE, _ELSEWHERE, _SETTLED, _BINARY, _OTHER)


def _left_out(tree: Tree, look_at: _Look, taken: Collection[str], rows: Sequence[Row]) -> Iterator[LeftOut]:
    """Every file that is no source, by reason: those that a person may miss first."""
    meant = {name for row in rows for name in row.takes(tree.files)}
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    groups["link", "links"] = [name for name in tree.links if name not in taken]
    groups["another repository", "submodules"] = list(tree.submodules)
    for name in tree.files:
        if name not in taken:
            groups[_why(name, look_at, name in meant)].append(name)
    for (why, what), names in sorted(groups.items(), key=lambda item: _WHYS.index(item[0][0])):
        if names:
            exact = f"{look_at.size(names[0]) // 1_024} KiB, at most 256" if why == _LARGE and len(names) == 1 else why
            yield LeftOut(what, exact, len(names), tuple(names[:3]))


def _why(name: str, look_at: _Look, meant: bool) -> tuple[str, str]:
    """Why a file is no source, and what it is."""
    what = _KINDS.get(suffix(name), "other files")
    if any(matches(glob, name) for glob in layout.SETTLED):
        return _SETTLED, "files"
    if not is_path(name):
        return _SPACE if " " in name else _NAME, "files"
    if look_at.size(name) > SOURCE_BYTES and what in ("programs", "documents"):
        return _LARGE, what
    if name in RULES:
        return (_TEXT if look_at.text(name) is None else _SECRET), what
    if meant:
        return (_TEXT if look_at.text(name) is None else _ROOM), what
    if what in ("programs", "documents"):
        return (_ASIDE if what == "programs" else _ELSEWHERE), what
    return (_OTHER if what == "other files" else _BINARY), what
