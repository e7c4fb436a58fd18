"""This module says which names a glob means (PIPELINE 2, Globs). Nothing here opens a file.

`*` and `?` stay inside a component, `**` as a whole component matches any number of them, `[…]` and `{…}` are literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sdaqf_tasks.errors import Invalid, Reason


def glob(pattern: str) -> Callable[[str], bool]:
    """Whether a name, with `/` between its components, is one that the pattern means.

    What stands between two stars is taken where it first fits, and never tried elsewhere: no pattern takes long.
    Raises `Invalid` with SETTINGS_INVALID for an empty component, `.`, `..`, and `**` as a part of one.
    """
    runs = [""]
    for component in pattern.split("/"):
        if component == "**":
            runs.append("")
        elif component in ("", ".", "..") or "**" in component or "\n" in component:
            raise Invalid(Reason.SETTINGS_INVALID, f"a glob has no empty component, and `**` only as a whole one: {pattern[:80]!a}")
        else:
            runs[-1] += _component(component)
    first, *others = runs
    rest = "".join(f"(?>(?:[^/]+/)*?{run})" for run in others[:-1]) + "".join(f"(?:[^/]+/)*{run}" for run in others[-1:])
    expression = re.compile(first + rest)
    return lambda name: expression.fullmatch(name + "/") is not None


def _component(component: str) -> str:
    first, *others = (re.escape(piece).replace(r"\?", "[^/]") for piece in component.split("*"))
    return first + "".join(f"(?>[^/]*?{piece})" for piece in others[:-1]) + "".join(f"[^/]*{piece}" for piece in others[-1:]) + "/"
