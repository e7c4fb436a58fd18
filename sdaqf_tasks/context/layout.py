"""This module proposes what of a tree a manifest may take, by names alone: decisions, design, code, tests, documents (PIPELINE 2).

Names in, rows out; nothing here opens a file. No two rows take one file: a later row excludes what an earlier one takes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sdaqf_tasks.context.globs import matches
from sdaqf_tasks.formats.records import Kind, is_path


class Row(NamedTuple):
    """One alias of a manifest: a path or, where `glob`, a pattern; what it leaves out; whether people review it."""

    alias: str
    kind: Kind
    pattern: str
    glob: bool = True
    exclude: tuple[str, ...] = ()
    pinned: bool = True

    def takes(self, names: Iterable[str]) -> list[str]:
        """Those of the names that it means, in their order."""
        if not self.glob:
            return [name for name in names if name == self.pattern]
        return [name for name in names if matches(self.pattern, name) and not any(matches(glob, name) for glob in self.exclude)]


DECISIONS = frozenset({"adr", "adrs", "decisions", "decision-records", "architecture-decisions", "rfc", "rfcs"})
DESIGNS = frozenset({"design", "designs", "architecture", "specs"})
TESTS = frozenset({"test", "tests", "spec", "specs", "__tests__", "testing", "e2e"})
DOCUMENTS = frozenset({"doc", "docs", "documentation"})
ASIDE = frozenset(
    {"example", "examples", "sample", "samples", "demo", "demos", "bench", "benchmark", "benchmarks", "script", "scripts"}
    | {"tool", "tools", "ci", "build", "dist", "out", "target", "fixtures"}
)
"""Folders at the top whose programs are not the product."""

SETTLED = (
    *("**/node_modules/**", "**/vendor/**", "**/_vendor/**", "**/third_party/**", "**/generated/**", "**/locale/**"),
    *("**/fixtures/**", "**/testdata/**", "**/__snapshots__/**", "**/*.min.js", "**/*_pb2.py", "**/*.pb.go"),
)
"""What others wrote, what programs wrote, and what tests read."""

FAMILIES = tuple(
    family.split()
    for family in (
        *("py pyi pyx", "ts tsx js jsx mjs cjs vue svelte", "go", "rs", "java kt scala groovy", "c h cc cpp cxx hpp", "cs fs", "rb", "php"),
        *("swift", "ex exs", "erl hrl", "hs", "ml mli", "clj cljs", "lua", "r", "jl", "dart", "zig", "pl pm", "sh", "sql", "tf", "sol"),
    )
)
PROSE = ("md", "rst", "mdx", "adoc")

_BUILD = re.compile(
    r"(?:setup|conftest|noxfile|fabfile|tasks|dodo|manage)\.py|[^/]*\.config\.[cm]?[jt]s|(?:gulp|grunt)file\.js", re.IGNORECASE
)


def rows(names: Sequence[str], taken: Iterable[str] = (), barred: Sequence[str] = ()) -> list[Row]:
    """What may be taken of the regular files `names`: most wanted first, each with a file.

    Those `taken` by path already count as taken; those `barred` are excluded where a glob would mean them.
    """
    named = frozenset(taken)
    usable = [name for name in names if is_path(name) and name not in named]
    ours = [name for name in usable if not any(matches(glob, name) for glob in SETTLED)]
    found: list[Row] = []
    globs = list(barred)
    for row in (*_papers(ours), *_programs(ours), *_pages(ours)):
        mine = row.takes(usable)
        others = [glob for glob in (*SETTLED, *globs) if any(matches(glob, name) for name in mine)]
        wanted = row._replace(alias=_free(row, [other.alias for other in found]), exclude=(*row.exclude, *others))
        if mine := wanted.takes(mine):
            found.append(wanted)
            globs += [row.pattern] if row.glob else []
            usable = usable if row.glob else [name for name in usable if name not in mine]
    return sorted(found, key=lambda row: _ORDER.index(row.kind))


_ORDER = (Kind.REQUIREMENT, Kind.DECISION, Kind.SOURCE, Kind.TEST, Kind.DESIGN)


def suffix(name: str) -> str:
    """`py` of `src/a.py`; empty where there is none."""
    return name.rpartition("/")[2].rpartition(".")[2].lower() if "." in name.rpartition("/")[2][1:] else ""


def _papers(names: Sequence[str]) -> Iterator[Row]:
    """Decisions, designs and what contributors must know: what people agreed on, and review."""
    prose = [name for name in names if suffix(name) in PROSE]
    if any(name.endswith("/AGENTS.md") for name in prose):
        yield Row("rules-below", Kind.REQUIREMENT, "**/AGENTS.md")
    for alias, kind, known in (("decisions", Kind.DECISION, DECISIONS), ("design", Kind.DESIGN, DESIGNS)):
        for folder in _folders(prose, known):
            inside = [name for name in prose if name.startswith(folder + "/")]
            ending = Counter(map(suffix, inside)).most_common(1)[0][0]
            flat = all("/" not in name[len(folder) + 1 :] for name in inside)
            yield Row(alias, kind, f"{folder}/{'' if flat else '**/'}*.{ending}")
    for name in prose:
        folder, _, file = name.rpartition("/")
        stem = file.partition(".")[0].lower()
        if folder.lower() in ("", *DOCUMENTS) and stem in ("architecture", "design"):
            yield Row(stem, Kind.DESIGN, name, glob=False)
        elif folder in ("", ".github") and stem == "contributing":
            yield Row(stem, Kind.REQUIREMENT, name, glob=False)


def _folders(names: Sequence[str], known: frozenset[str]) -> list[str]:
    """The outermost folders that are called so, at most four levels down and eight of them."""
    found: dict[str, None] = {}
    for name in names:
        parts = name.split("/")[:-1]
        depth = next((depth for depth, part in enumerate(parts[:4], 1) if part.lower() in known), 0)
        if depth and not _is_aside(parts[0], TESTS):
            found["/".join(parts[:depth])] = None
    return list(found)[:8]


def _programs(names: Sequence[str]) -> Iterator[Row]:
    """Tests first, so that code leaves them out; of the languages that make up the project."""
    endings = [ending for family in FAMILIES for ending in family]
    programs = [
        name for name in names if suffix(name) in endings and not name.startswith(".") and not ("/" not in name and _BUILD.fullmatch(name))
    ]
    product = [name for name in programs if not _is_aside(_top(name), DOCUMENTS | TESTS)] or programs
    weight = Counter(map(suffix, product))
    heaviest = sorted(FAMILIES, key=lambda family: -sum(weight[ending] for ending in family))[:2]
    main = [family for family in heaviest if 5 * sum(weight[ending] for ending in family) >= len(product) > 0]
    for ending in (ending for family in main for ending in family if 20 * weight[ending] >= len(product)):
        tops = Counter(_top(name) for name in programs if suffix(name) == ending)
        yield from (Row("tests", Kind.TEST, f"{top}/**/*.{ending}", pinned=False) for top in tops if top.lower() in TESTS)
        usual = [top for top in tops if not _is_aside(top, DOCUMENTS | TESTS)] or [top for top in tops if top.lower() not in TESTS]
        roots = [top for top in usual if 20 * tops[top] >= sum(tops[other] for other in usual)]
        for root in filter(None, roots):
            yield from (Row("tests", Kind.TEST, f"{root}/**/{pattern}", pinned=False) for pattern in _test_names(ending))
        for root in roots:
            pattern, exclude = (f"{root}/**/*.{ending}", ()) if root else (f"*.{ending}", _builds(names))
            yield Row("code", Kind.SOURCE, pattern, exclude=exclude, pinned=False)


def _builds(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if "/" not in name and _BUILD.fullmatch(name) and is_path(name))


def _is_aside(top: str, others: frozenset[str]) -> bool:
    """Whether what lies in a folder at the top is beside the product: `typing-examples` is, too."""
    return top.lower() in others or re.split("[-_]", top.lower())[-1] in ASIDE


def _top(name: str) -> str:
    return name.partition("/")[0] if "/" in name else ""


def _test_names(ending: str) -> tuple[str, ...]:
    """How tests beside the code are called."""
    if ending == "py":
        return "tests/**/*.py", "test_*.py", "*_test.py"
    if ending == "go":
        return ("*_test.go",)
    folders = tuple(f"{folder}/**/*.{ending}" for folder in ("__tests__", "tests", "test"))
    return (*folders, f"*.test.{ending}", f"*.spec.{ending}", f"*_test.{ending}")


def _pages(names: Sequence[str]) -> Iterator[Row]:
    """Documents for users. They follow the tree: nobody reviews each of them anew."""
    below = [name for name in names if _top(name).lower() in DOCUMENTS]
    if not below and not any(suffix(name) in family for name in names for family in FAMILIES):
        yield from (Row("documents", Kind.DESIGN, f"**/*.{ending}", pinned=False) for ending in PROSE)
    for top in dict.fromkeys(map(_top, below)):
        weight = Counter(suffix(name) for name in below if _top(name) == top)
        prose = sum(weight[ending] for ending in PROSE)
        for ending in (*PROSE, *(["txt"] if weight["txt"] > prose else [])):
            if 20 * weight[ending] >= max(prose, weight["txt"] if weight["txt"] > prose else 0):
                yield Row("documents", Kind.DESIGN, f"{top}/**/*.{ending}", pinned=False)


def _free(row: Row, used: Sequence[str]) -> str:
    """The row's alias, or one that says more where that is taken."""
    words = [word for word in re.split(r"[^a-z0-9]+", row.pattern.lower()) if word]
    more = [row.alias, f"{row.alias}-{words[-1]}", f"{row.alias}-{words[0]}", f"{row.alias}-{'-'.join(words)}"[:80].strip("-")]
    return next(alias for alias in [*more, *(f"{row.alias}-{number}" for number in range(2, len(used) + 3))] if alias not in used)
