"""Which names a glob means (PIPELINE 2, Globs)."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdaqf_tasks.disk.globs import glob
from sdaqf_tasks.errors import Invalid, Reason

MEANT = (
    ("a", "a", True),
    ("a", "A", False),
    ("a", "b/a", False),
    ("*", "a", True),
    ("*", ".a", True),
    ("*", "a/b", False),
    ("*.md", ".md", True),
    ("a*c*e", "abcde", True),
    ("a*c*e", "acec", False),
    ("*a*", "bab", True),
    ("*ab", "aab", True),
    ("?", "é", True),
    ("?", "ab", False),
    ("?", "\n", True),
    ("*", "\udcff\n", True),
    ("a/*", "a/b", True),
    ("a/*", "a", False),
    ("a/**", "a/b/c", True),
    ("a/**", "a", True),
    ("a/**", "ab", False),
    ("**", "a/b", True),
    ("**/a", "a", True),
    ("**/a", "b/c/a", True),
    ("**/a", "ba", False),
    ("**/a/**", "b/a/c", True),
    ("**/a/*/b", "a/a/x/b", True),
    ("a/**/b/**/c", "a/x/b/y/c", True),
    ("a/**/b/**/c", "a/b/c", True),
    ("a/**/b/**/c", "a/c/b", False),
    ("**/**/a", "a", True),
    ("[ab]", "a", False),
    ("[ab]{c}.+", "[ab]{c}.+", True),
)


@pytest.mark.parametrize(("pattern", "name", "meant"), MEANT)
def test_a_glob_means_whole_names(pattern: str, name: str, meant: bool) -> None:
    assert glob(pattern)(name) is meant


@pytest.mark.parametrize("pattern", ["", "/a", "a/", "a//b", "./a", "../a", "a/..", "a**", "**b", "***", "a\nb"])
def test_what_is_no_glob_is_refused(pattern: str) -> None:
    with pytest.raises(Invalid) as refused:
        glob(pattern)
    assert refused.value.reason is Reason.SETTINGS_INVALID


def slowly(pattern: list[str], name: list[str]) -> bool:
    """The same by trying everything."""
    if not pattern:
        return not name
    if pattern[0] == "**":
        return any(slowly(pattern[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and within(pattern[0], name[0]) and slowly(pattern[1:], name[1:])


def within(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return any(within(pattern[1:], name[taken:]) for taken in range(len(name) + 1))
    return bool(name) and pattern[0] in ("?", name[0]) and within(pattern[1:], name[1:])


COMPONENT = st.text("ab*?", min_size=1, max_size=5).filter(lambda part: "**" not in part)


@given(st.lists(st.just("**") | COMPONENT, min_size=1, max_size=5), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=5))
def test_no_shortcut_changes_the_meaning(pattern: list[str], name: list[str]) -> None:
    assert glob("/".join(pattern))("/".join(name)) is slowly(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("*a" * 60 + "b", "a" * 255),
        ("**/*a/" * 60 + "b", "/".join(["a"] * 200)),
        ("**/a/" * 60 + "b", "/".join(["a"] * 2000)),
        ("*?" * 100, "a" * 99),
    ],
)
def test_no_glob_takes_long(pattern: str, name: str) -> None:
    began = time.monotonic()
    assert not glob(pattern)(name)
    assert time.monotonic() - began < 1
