"""This module matches globs against names of the tree (PIPELINE 2).

`*` and `?` stay inside a component, `**` as a whole component stands for zero or more of them, everything else is
literal: `[…]` and `{…}` too. Case counts; names that begin with a dot match like others.
"""

from __future__ import annotations

import functools
import re

from sdaqf_tasks.errors import Invalid, Reason


@functools.lru_cache(maxsize=1_024)
def compiled(glob: str) -> re.Pattern[str]:
    """The expression that full matches what `glob` means. Raises `Invalid` where it is no relative glob."""
    components = glob.split("/")
    if not glob or any(component in ("", ".", "..") for component in components):
        raise Invalid(Reason.MANIFEST_INVALID, "a glob is relative to the top, without empty, . or .. components")
    expression = ""
    for position, component in enumerate(components):
        last = position == len(components) - 1
        if component == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
            continue
        if "**" in component:
            raise Invalid(Reason.MANIFEST_INVALID, "** stands alone between slashes", todo="Write **/*.py, not **.py.")
        parts = {"*": "[^/]*", "?": "[^/]"}
        expression += "".join(parts.get(character, re.escape(character)) for character in component) + ("" if last else "/")
    return re.compile(expression, re.DOTALL)


def matches(glob: str, name: str) -> bool:
    return compiled(glob).fullmatch(name) is not None
