"""This module proposes what of a tree a manifest may take, by names alone: rules, decisions, code, tests, documents (PIPELINE 2).

Names in, parts out; nothing here opens a file. No two globs take one file: a later part excludes what an earlier one takes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from sdaqf_tasks.formats.globs import matches
from sdaqf_tasks.formats.records import Kind, is_path


class Part(NamedTuple):
    """One alias of a manifest: a path or a glob, what it leaves out, whether people review it; then what is found of it:
    how many sources it has, whether no context is built without it, and what a person should know."""

    alias: str
    kind: Kind
    pattern: str
    exclude: tuple[str, ...] = ()
    pinned: bool = True
    sources: int = 0
    required: bool = False
    note: str = ""

    @property
    def is_glob(self) -> bool:
        return "*" in self.pattern

    def takes(self, names: Iterable[str]) -> list[str]:
        """Those of the names that it means, in their order."""
        return [name for name in names if matches(self.pattern, name) and not any(matches(glob, name) for glob in self.exclude)]


DECISIONS = frozenset({"adr", "adrs", "decisions", "decision-records", "architecture-decisions", "rfc", "rfcs"})
TESTS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
DOCUMENTS = frozenset({"doc", "docs", "documentation"})

_ASIDE = "example examples sample samples demo demos bench benchmark benchmarks script scripts tool tools ci build dist out target fixtures"
ASIDE = frozenset(_ASIDE.split())
"""Folders at the top whose programs are not the product."""

SETTLED = (
    *("**/node_modules/**", "**/vendor/**", "**/_vendor/**", "**/third_party/**", "**/generated/**", "**/locale/**"),
    *("**/fixtures/**", "**/testdata/**", "**/__snapshots__/**", "**/*.min.js", "**/*_pb2.py", "**/*.pb.go"),
)
"""What others wrote, what programs wrote, and what tests read."""

_PROGRAMS = (
    "py pyi pyx ts tsx js jsx mjs cjs vue svelte go rs java kt scala groovy c h cc cpp cxx hpp cs fs rb php swift ex exs erl hrl hs ml mli "
    "clj cljs lua r jl dart zig pl pm sh sql tf sol"
)
PROGRAMS = frozenset(_PROGRAMS.split())
PROSE = ("md", "rst", "mdx", "adoc")

BESIDE = ("tests/**/*", "test/**/*", "__tests__/**/*", "test_*", "*_test", "*.test", "*.spec")
"""How tests that lie among the code are called, without their suffix."""

_BUILD = re.compile(
    r"(?:setup|conftest|noxfile|fabfile|tasks|dodo|manage)\.py|[^/]*\.config\.[cm]?[jt]s|(?:gulp|grunt)file\.js", re.IGNORECASE
)
_ORDER = (Kind.REQUIREMENT, Kind.DECISION, Kind.SOURCE, Kind.TEST, Kind.DESIGN)


def proposed(names: Sequence[str], named: Sequence[Part] = (), barred: Sequence[str] = ()) -> list[Part]:
    """The parts `named` and what else may be taken of the regular files `names`: most wanted first, each with a file.

    Those `barred` are excluded where a glob would mean them.
    """
    usable = [name for name in names if is_path(name) and name not in {part.pattern for part in named}]
    ours = [name for name in usable if not any(matches(glob, name) for glob in SETTLED)]
    found, globs = list(named), [*SETTLED, *barred]
    for part in (*_papers(ours), *_programs(ours), *_pages(ours)):
        mine = part.takes(usable)
        wanted = part._replace(exclude=tuple(glob for glob in globs if any(matches(glob, name) for name in mine)))
        if wanted.takes(mine):
            found.append(wanted)
            globs.append(part.pattern)
    used: set[str] = set()
    for position, part in enumerate(sorted(found, key=lambda part: _ORDER.index(part.kind))):
        found[position] = part._replace(alias=_free(part, used))
        used.add(found[position].alias)
    return found


def suffix(name: str) -> str:
    """`py` of `src/a.py`; empty where there is none."""
    return name.rpartition("/")[2][1:].rpartition(".")[2].lower() if "." in name.rpartition("/")[2][1:] else ""


def _top(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _papers(names: Sequence[str]) -> Iterator[Part]:
    """What people agreed on, and review: rules for a part of the tree, and the outermost folders of decisions."""
    if any(name.endswith("/AGENTS.md") for name in names):
        yield Part("rules", Kind.REQUIREMENT, "**/AGENTS.md")
    flat: dict[tuple[str, str], bool] = {}
    for name in names:
        folders = name.split("/")[:-1]
        depth = next((depth for depth, folder in enumerate(folders[:4], 1) if folder.lower() in DECISIONS), 0)
        if depth and suffix(name) in PROSE and folders[0].lower() not in TESTS | ASIDE:
            place = "/".join(folders[:depth]), suffix(name)
            flat[place] = flat.get(place, True) and depth == len(folders)
    for (folder, ending), is_flat in list(flat.items())[:8]:
        yield Part("decisions", Kind.DECISION, f"{folder}/{'' if is_flat else '**/'}*.{ending}")


def _programs(names: Sequence[str]) -> Iterator[Part]:
    """Tests first, so that code leaves them out; of the suffixes that a tenth of the product has."""
    programs = [name for name in names if suffix(name) in PROGRAMS and not name.startswith(".") and not _BUILD.fullmatch(name)]
    product = [name for name in programs if _top(name).lower() not in TESTS | ASIDE | DOCUMENTS] or programs
    for ending, count in Counter(map(suffix, product)).items():
        if 10 * count < len(product):
            continue
        for top in dict.fromkeys(_top(name) for name in programs if suffix(name) == ending and _top(name).lower() in TESTS):
            yield Part("tests", Kind.TEST, f"{top}/**/*.{ending}", pinned=False)
        roots = Counter(_top(name) for name in product if suffix(name) == ending)
        for folder in (f"{root}/**/" if root else "" for root in roots if 20 * roots[root] >= count):
            yield from (Part("tests", Kind.TEST, f"{folder}{beside}.{ending}", pinned=False) for beside in BESIDE)
            yield Part("code", Kind.SOURCE, f"{folder}*.{ending}", pinned=False)


def _pages(names: Sequence[str]) -> Iterator[Part]:
    """Documents for users. They follow the tree: nobody reviews each of them anew."""
    folders = [f"{top}/" for top in dict.fromkeys(map(_top, names)) if top.lower() in DOCUMENTS]
    if not any(suffix(name) in PROGRAMS for name in names):
        folders = [""]
    yield from (Part("documents", Kind.DESIGN, f"{folder}**/*.{ending}", pinned=False) for folder in folders for ending in PROSE)


def _free(part: Part, used: set[str]) -> str:
    """The part's alias, or one that says more where that is taken."""
    more = [*re.findall(r"[a-z0-9]+", part.pattern.lower()), *map(str, range(2, len(used) + 3))]
    return next(alias for alias in [part.alias, *(f"{part.alias}-{word}"[:64] for word in more)] if alias not in used)


def fitted(parts: Sequence[Part], names: Sequence[str], cost: Callable[[str], float], room: float) -> list[Part]:
    """The parts that fit into `room`, of which `cost` is what a file takes.

    Where they do not all fit, each may have nine tenths of what is left; one that has more is narrowed to the largest
    folder that fits, and says so.
    """
    groups = [(part, part.takes(names)) for part in parts]
    if sum(cost(name) for _, group in groups for name in group) <= room:
        return list(parts)
    found = []
    for part, group in groups:
        fits = part if sum(map(cost, group)) <= 0.9 * room else _narrowed(part, group, cost, 0.9 * room)
        if fits:
            found.append(fits)
            room -= sum(map(cost, fits.takes(group)))
    return found


def _narrowed(part: Part, names: Sequence[str], cost: Callable[[str], float], room: float) -> Part | None:
    head, below, rest = part.pattern.partition("**/")
    weight: defaultdict[str, float] = defaultdict(float)
    for name in names if below else ():
        folders = name[len(head) :].split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            weight[head + "/".join(folders[:depth])] += cost(name)
    for folder in sorted((folder for folder in weight if weight[folder] <= room), key=lambda folder: (-weight[folder], folder)):
        narrow = part._replace(pattern=f"{folder}/**/{rest}")
        if taken := len(narrow.takes(names)):
            return narrow._replace(note=f"{taken:,} of {len(names):,} files: the others are too much for one manifest")
    return None
