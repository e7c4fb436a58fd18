"""What the page about distilling shows is what the code gives."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.normalise import TABLES, VERSION, Language, normalise

PAGE = (Path(__file__).parents[2] / "docs/distillation.md").read_text("utf-8")
FENCE = re.compile(r"^```(python|pycon)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_samples_print_what_they_show() -> None:
    fences = FENCE.findall(PAGE)
    files = {name: text.encode("utf-8") for kind, name, text in fences if kind == "python"}
    session = "".join(text for kind, _, text in fences if kind == "pycon")
    sample = doctest.DocTestParser().get_doctest(session, {"files": files}, "distillation", None, 0)
    printed: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(sample, out=printed.append)
    assert (result.failed, sorted(files), result.attempted > 10) == (0, ["src/charge.py", "src/mail.py"], True), "".join(printed)


def rows() -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]


def code(cell: str) -> list[str]:
    """The code spans of a cell."""
    return [span for _, span in re.findall(r"(`+) ?(.+?) ?\1(?!`)", cell)]


def patterns(text: str, table: Language) -> list[str]:
    return [line.pattern for line in normalise(text, table)]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_each_table_has_its_row(table: Language) -> None:
    _, suffixes, comments, one_line, over_lines, keywords, operators = next(cells for cells in rows() if cells[0] == table.name)
    assert suffixes == (" ".join(f"`.{suffix}`" for suffix in table.suffixes) or "everything else")
    assert (int(keywords), int(operators)) == (len(table.keywords), len(table.operators))
    assert len(code(comments)) == len(table.comments) + len(table.blocks)
    for comment in code(comments):
        opens, _, closes = comment.partition(" ")
        assert patterns(f"A {opens} B {closes} C", table) == ["a c" if closes else "a"]
    for opens in code(one_line):
        assert patterns(f"{opens}\\x Y\nB", table) == ["str", "b"]
    for opens in code(over_lines):
        assert patterns(f"{opens}\\x Y\nB", table) == ["str", ""]
    for quote in table.quotes:
        assert any(re.match(quote.opens, opens + "\\x") for opens in code(over_lines if quote.spans else one_line))


def test_the_page_states_the_version_and_the_thresholds() -> None:
    assert f"All tables have one version, now `{VERSION}`" in PAGE
    counts = next(cells for cells in rows() if cells[0] == "must agree")
    assert [int(cell) for cell in counts[1:]] == [records.threshold(count) for count in range(2, records.EXAMPLES + 1)]
