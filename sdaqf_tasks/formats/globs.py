"""This module says which names of the tree a glob means, and in which order (PIPELINE 2, Globs).

`*` and `?` stay inside a component, `**` as a whole component stands for zero or more of them, everything else is
literal: `[…]` and `{…}` too. Case counts; names that begin with a dot are like others.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from sdaqf_tasks.errors import Invalid, Reason


@functools.lru_cache(maxsize=1_024)
def compiled(glob: str, reason: Reason = Reason.MANIFEST_INVALID) -> Callable[[str], bool]:
    """Whether a name, with `/` between its components, is one that `glob` means.

    What stands between two stars is taken where it first fits and never tried elsewhere: no glob takes long. Raises
    `Invalid` with `reason` for an empty component, `.`, `..`, a line feed, and `**` as a part of a component.
    """
    runs = [""]
    for component in glob.split("/"):
        if component in ("", ".", "..") or "\n" in component:
            message = "a glob is relative to the top of the tree, without empty, . or .. components"
            raise Invalid(reason, message, todo="Write it like src/**/*.py.")
        if component == "**":
            runs.append("")
        elif "**" in component:
            raise Invalid(reason, "** stands alone between slashes", todo="Write **/*.py, not **.py.")
        else:
            runs[-1] += _joined(re.escape(component).replace(r"\?", "[^/]").split(r"\*"), "[^/]") + "/"
    expression = re.compile(_joined(runs, "(?:[^/]+/)"))
    return lambda name: expression.fullmatch(name + "/") is not None


def _joined(pieces: list[str], filler: str) -> str:
    """An expression for the pieces with any number of fillers between them: as few as fit, and before the last as many."""
    first, *others = pieces
    return first + "".join(f"(?>{filler}*?{piece})" for piece in others[:-1]) + "".join(f"{filler}*{piece}" for piece in others[-1:])


def matches(glob: str, name: str) -> bool:
    return compiled(glob)(name)


def in_order(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The key by which names are ordered: by component, case folded first (FORMAT 4.3, step 2)."""
    exact = tuple(name.split("/"))
    return tuple(part.casefold() for part in exact), exact
