"""Imports point down, and only some places may touch the machine (docs/architecture.md)."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

import sdaqf_tasks

PACKAGE = Path(sdaqf_tasks.__file__).parent
LAYERS = ("errors", "formats", "world", "context", "shards", "intel", "patches", "disk", "flow", "fronts")
PURE = frozenset({"context", "shards", "intel", "patches"})
TOUCHING = frozenset({"os", "pathlib", "subprocess", "tempfile", "time", "socket"})
MAY_TOUCH = frozenset({"disk", "flow", "fronts", "__main__"})
PRODUCT_LINES = 14_100
"""A bound that goes down and never up; the aim is 8,000 (docs/adr/0011-the-size-and-its-bound.md)."""

MODULES = sorted(PACKAGE.rglob("*.py"))
FORBIDDEN_SAMPLES = {
    "errors.py": "from sdaqf_tasks.formats import canonical",
    "formats/records.py": "import sdaqf_tasks.context.rules",
    "context/select.py": "from sdaqf_tasks.shards import records",
    "world.py": "def f():\n    from sdaqf_tasks import disk",
    "context/rules.py": "import os.path",
    "formats/canonical.py": "from pathlib import Path",
}


def layer(name: str) -> str:
    """`disk` of `disk/git.py`; the module's own name at the top of the package."""
    return PurePosixPath(name).parts[0].removesuffix(".py")


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


def imports(source: str) -> Iterator[str]:
    """Every module that is imported anywhere in `source`, in functions too; not what only types name."""
    for node in _running(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING"):
            yield from _running(child)


def code_lines(source: str) -> int:
    """Lines that hold code: blank lines, comments and docstrings do not count."""
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in silent:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)


def faults(name: str, source: str) -> list[str]:
    """What the module `name` imports and may not."""
    own, found = layer(name), []
    for imported in imports(source):
        first, *rest = imported.split(".")
        if first in TOUCHING and own not in MAY_TOUCH:
            found.append(f"{name} imports {imported}: only disk, flow and fronts touch the machine")
        if first != "sdaqf_tasks" or own.startswith("__"):
            continue
        other = rest[0]
        if other == "__version__":
            continue
        if other not in LAYERS:
            found.append(f"{name} imports {imported}, which is in no layer")
        elif LAYERS.index(other) > LAYERS.index(own):
            found.append(f"{name} imports {imported}: an arrow that points up")
        elif {own, other} <= PURE and own != other:
            found.append(f"{name} imports {imported}: the pure packages do not know each other")
    return found


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_arrows_point_down_and_the_core_touches_nothing(module: Path) -> None:
    assert faults(name_of(module), module.read_text("utf-8")) == []


@pytest.mark.parametrize(("name", "source"), FORBIDDEN_SAMPLES.items())
def test_the_test_sees_what_it_forbids(name: str, source: str) -> None:
    assert len(faults(name, source)) == 1


def test_every_module_is_in_a_layer() -> None:
    assert {layer(name_of(module)) for module in MODULES} <= {*LAYERS, "__init__", "__main__"}


def test_only_one_module_starts_programs() -> None:
    assert [name_of(module) for module in MODULES if "subprocess" in module.read_text("utf-8")] == ["disk/git.py"]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_a_module_says_what_it_is(module: Path) -> None:
    source = module.read_text("utf-8")
    assert not source.strip() or ast.get_docstring(ast.parse(source))


def test_what_counts_as_code() -> None:
    assert code_lines('"""Says so.\n\nTwice."""\n\n# why\nX = """a\nb"""  # how\n\n\ndef f() -> None:\n    """Says."""\n') == 3


def test_the_product_does_not_grow() -> None:
    lines = {name_of(module): code_lines(module.read_text("utf-8")) for module in MODULES}
    assert sum(lines.values()) < PRODUCT_LINES, sorted(lines.items(), key=lambda item: -item[1])[:10]
