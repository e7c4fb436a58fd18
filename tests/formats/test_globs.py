"""Which names of the tree a glob means (PIPELINE 2, Globs)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.errors import Invalid, Reason
from sdaqf_tasks.formats.globs import compiled, in_order, matches

MEANT = (
    ("a.md", "a.md", True),
    ("a.md", "aXmd", False),
    ("a.md", "A.md", False),
    ("a.md", "docs/a.md", False),
    ("*", "a", True),
    ("*", ".a", True),
    ("*", "a/b", False),
    ("*.md", ".md", True),
    ("*.md", "a.md.txt", False),
    ("a*c*e", "abcde", True),
    ("a*c*e", "acec", False),
    ("?", "é", True),
    ("?", "", False),
    ("?", "ab", False),
    ("?", "/", False),
    ("a?b", "a/b", False),
    ("docs/*.md", "docs/a.md", True),
    ("docs/*.md", "docs/b/a.md", False),
    ("docs/*", "docs", False),
    ("**", "a/b/c", True),
    ("**/a", "a", True),
    ("**/a", "b/c/a", True),
    ("**/a", "ba", False),
    ("**/*.py", ".hidden/.a.py", True),
    ("a/**", "a/b/c", True),
    ("a/**", "a", True),
    ("a/**", "ab", False),
    ("src/**/generated/**", "src/generated/a.py", True),
    ("src/**/generated/**", "src/a/b/generated/c/d.py", True),
    ("src/**/generated/**", "src/generatedx/a.py", False),
    ("a/**/b/**/c", "a/x/b/y/c", True),
    ("a/**/b/**/c", "a/c/b", False),
    ("**/**/a", "a", True),
    ("[ab]", "a", False),
    ("[ab].{c,d}", "[ab].{c,d}", True),
    ("a+(b)|^$\\", "a+(b)|^$\\", True),
    ("*", "a\nb", True),
    ("*", "\udcff", True),
    ("a", "a", True),
    ("a", "A", False),
    ("a", "b/a", False),
    ("*a*", "bab", True),
    ("*ab", "aab", True),
    ("?", "\n", True),
    ("*", "\udcff\n", True),
    ("a/*", "a/b", True),
    ("a/*", "a", False),
    ("**", "a/b", True),
    ("**/a/**", "b/a/c", True),
    ("**/a/*/b", "a/a/x/b", True),
    ("a/**/b/**/c", "a/b/c", True),
    ("[ab]{c}.+", "[ab]{c}.+", True),
)


@pytest.mark.parametrize(("glob", "name", "meant"), MEANT)
def test_a_glob_means_whole_names(glob: str, name: str, meant: bool) -> None:
    assert matches(glob, name) is meant
    assert compiled(glob)(name) is meant


@pytest.mark.parametrize("glob", ["", "/a", "a/", "a//b", ".", "./a", "../a", "a/../b", "a/..", "a\nb"])
def test_a_glob_is_relative_and_has_whole_components(glob: str) -> None:
    with pytest.raises(Invalid) as refused:
        compiled(glob)
    assert refused.value.reason is Reason.MANIFEST_INVALID
    assert refused.value.message == "a glob is relative to the top of the tree, without empty, . or .. components"


@pytest.mark.parametrize("glob", ["**.py", "a**", "**b", "src/**b/c", "***", "a/***/b"])
def test_two_stars_stand_alone_between_slashes(glob: str) -> None:
    with pytest.raises(Invalid) as refused:
        compiled(glob)
    assert (refused.value.message, refused.value.todo) == ("** stands alone between slashes", "Write **/*.py, not **.py.")


@pytest.mark.parametrize("glob", ["a//b", "a\nb", "**b"])
def test_a_glob_of_the_settings_is_refused_as_one(glob: str) -> None:
    with pytest.raises(Invalid) as refused:
        compiled(glob, Reason.SETTINGS_INVALID)
    assert refused.value.reason is Reason.SETTINGS_INVALID


def test_names_are_ordered_by_component_whatever_their_case() -> None:
    assert sorted(["b", "B", "a.b", "a/b", "A/c", "a-b"], key=in_order) == ["a/b", "A/c", "a-b", "a.b", "B", "b"]


def slowly(glob: list[str], name: list[str]) -> bool:
    """The same by trying everything."""
    if not glob:
        return not name
    if glob[0] == "**":
        return any(slowly(glob[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and within(glob[0], name[0]) and slowly(glob[1:], name[1:])


def within(glob: str, name: str) -> bool:
    if not glob:
        return not name
    if glob[0] == "*":
        return any(within(glob[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and glob[0] in ("?", name[0]) and within(glob[1:], name[1:])


COMPONENT = st.text("ab*?", min_size=1, max_size=5).filter(lambda part: "**" not in part)


@given(st.lists(st.just("**") | COMPONENT, min_size=1, max_size=5), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5))
def test_no_shortcut_changes_the_meaning(glob: list[str], name: list[str]) -> None:
    assert matches("/".join(glob), "/".join(name)) is slowly(glob, name)


@pytest.mark.parametrize(
    ("glob", "name"),
    [
        ("*a" * 60 + "b", "a" * 255),
        ("**/*a/" * 60 + "b", "/".join(["a"] * 200)),
        ("**/a/" * 60 + "b", "/".join(["a"] * 2000)),
        ("*?" * 100, "a" * 99),
    ],
)
def test_no_glob_takes_long(glob: str, name: str) -> None:
    began = time.monotonic()
    assert not matches(glob, name)
    assert time.monotonic() - began < 1
