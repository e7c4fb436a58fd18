"""What a document names, and what only looks like it (PIPELINE 3, dead-mention)."""

from __future__ import annotations

import pytest

from sdaqf_tasks.context.mentions import LONGEST, Mention, mentions


def named(text: str, path: str = "AGENTS.md") -> list[str]:
    """Paths with their lines, the one from the top where there are two."""
    return [found.paths[-1] + (f":{found.lines[0]}-{found.lines[1]}" if found.lines else "") for found in mentions(text, path)]


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("`src/a.py`", "src/a.py"),
        ("`./src/a.py`", "src/a.py"),
        ("`src/a.py:12`", "src/a.py:12-12"),
        ("`src/a.py:41-58`", "src/a.py:41-58"),
        ("`src/a.py:12:5`", "src/a.py:12-12"),
        ("`src/a.py#L3-L9`", "src/a.py:3-9"),
        ("`tests/test_a.py::TestA::test_it`", "tests/test_a.py"),
        ("`python scripts/build.py --fast`", "scripts/build.py"),
        ("``a`b/c.py`` and `d/e.py`", "d/e.py"),
        ("`pyproject.toml`", "pyproject.toml"),
        ("`src/acme/`", "src/acme"),
        ("[a](docs/a.md)", "docs/a.md"),
        ("[a](docs/a.md#how)", "docs/a.md"),
        ("[a](./docs/a.md 'title')", "docs/a.md"),
        ("[a](/docs/a.md)", "docs/a.md"),
        ("[a](<docs/Q3 plan.md>)", "docs/Q3 plan.md"),
        ("[a](docs/Q3%20plan.md)", "docs/Q3 plan.md"),
        ("[a](src/a.py#L5)", "src/a.py:5-5"),
        ("![a](docs/a.png)", "docs/a.png"),
        ("[a]: docs/a.md 'title'", "docs/a.md"),
        ("[`code`](src/b.py)", "src/b.py"),
        ("<!-- no --> `src/a.py`", "src/a.py"),
    ],
)
def test_a_path_in_inline_code_or_in_a_relative_link_is_a_mention(written: str, place: str) -> None:
    assert named(written) == [place]


@pytest.mark.parametrize(
    "written",
    [
        "src/a.py",
        "`and`",
        "`os.path.join`",
        "`src/**/*.py`",
        "`src/<name>.py`",
        "`$HOME/a.py`",
        "`{root}/a.py`",
        "`.../a.py`",
        "`--config=a/b.toml`",
        "`-x/y.py`",
        "`~/.config/a.toml`",
        "`/etc/hosts`",
        "`https://example.com/a.py`",
        "`localhost:8000/a`",
        "`@org/package`",
        "`src\\a.py`",
        "`src/a.py",
        "[a](https://example.com/a.md)",
        "[a](mailto:a@example.com)",
        "[a](//example.com/a.md)",
        "[a](#below)",
        "[a](../outside.md)",
        "`[a](docs/a.md)`",
        "<!-- `src/a.py` -->",
        f"`a/{'b' * LONGEST}`",
    ],
)
def test_what_cannot_be_one_file_of_the_tree_is_none(written: str) -> None:
    assert named(written) == []


@pytest.mark.parametrize(
    "text",
    [
        "```\n`src/a.py`\n```\n",
        "~~~~ sh\n`src/a.py`\n~~~\n[a](b.md)\n~~~~\n",
        "- item\n  ```py\n  `src/a.py`\n  ```\n",
        "> ```\n> `src/a.py`\n> ```\n",
        "---\ntitle: `src/a.py`\n---\n",
        "<!-- begins\n`src/a.py`\nends -->\n",
    ],
)
def test_an_example_is_none(text: str) -> None:
    assert named(text + "`b/c.py`\n") == ["b/c.py"]


def test_a_name_is_meant_from_the_folder_of_the_document_or_from_the_top() -> None:
    assert mentions("\n`src/a.py` [b](../b.md)\n", "docs/how/to.md") == [
        Mention(("docs/how/src/a.py", "src/a.py"), None, 2),
        Mention(("docs/b.md",), None, 2),
    ]


def test_a_place_counts_once_a_line() -> None:
    assert [found.line for found in mentions("`a/b.py` [a](a/b.py)\n`a/b.py`\n", "AGENTS.md")] == [1, 2]


@pytest.mark.parametrize("piece", ["`", "` ", "](", "[a", "<!--", "a.", "`a/", "[a](b", "`a:1"])
def test_no_text_takes_long(piece: str) -> None:
    mentions(piece * (262_144 // len(piece)), "AGENTS.md")
