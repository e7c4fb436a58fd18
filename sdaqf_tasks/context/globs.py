"""This module says which names of the tree a glob means (PIPELINE 2, Globs).

`*` and `?` stay inside a component, `**` as a whole component stands for zero or more of them, everything else is
literal: `[…]` and `{…}` too. Case counts; names that begin with a dot are like others.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from sdaqf_tasks.errors import Invalid, Reason


@functools.lru_cache(maxsize=1_024)
def compiled(glob: str) -> Callable[[str], bool]:
    """Whether a name, with `/` between its components, is one that `glob` means.

    What stands between two stars is taken where it first fits and never tried elsewhere: no glob takes long. Raises
    `Invalid` with MANIFEST_INVALID for an empty component, `.`, `..`, and `**` as a part of one.
    """
    runs = [""]
    for component in glob.split("/"):
        if component in ("", ".", ".."):
            message = "a glob is relative to the top of the tree, without empty, . or .. components"
            raise Invalid(Reason.MANIFEST_INVALID, message, todo="Write it like src/**/*.py.")
        if component == "**":
            runs.append("")
        elif "**" in component:
            raise Invalid(Reason.MANIFEST_INVALID, "** stands alone between slashes", todo="Write **/*.py, not **.py.")
        else:
            runs[-1] += _component(component)
    first, *others = runs
    inner = "".join(f"(?>(?:[^/]+/)*?{run})" for run in others[:-1])
    last = "".join(f"(?:[^/]+/)*{run}" for run in others[-1:])
    expression = re.compile(first + inner + last)
    return lambda name: expression.fullmatch(name + "/") is not None


def matches(glob: str, name: str) -> bool:
    return compiled(glob)(name)


def _component(component: str) -> str:
    first, *others = (re.escape(piece).replace(r"\?", "[^/]") for piece in component.split("*"))
    inner = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1])
    last = "".join(f"[^/]*{piece}" for piece in others[-1:])
    return f"{first}{inner}{last}/"
