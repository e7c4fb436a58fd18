"""Exact, content-addressed context for coding agents. In a project's `dodo.py`:

import sdaqf_tasks

DOIT_CONFIG = sdaqf_tasks.doit_config()
context = sdaqf_tasks.pipeline(prefix="context")

Nothing is imported here: under `python -m` the working directory still comes first.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from sdaqf_tasks.flow.tasks import Pipeline

__version__ = "0.1.0"


def pipeline(prefix: "str | None" = None) -> "Pipeline":
    """The tasks of every manifest, for doit. With a prefix the visible ones are `PREFIX:NAME`, and all else is private."""
    from sdaqf_tasks.flow.tasks import Pipeline

    return Pipeline(prefix)


def doit_config() -> "dict[str, Any]":
    """What `DOIT_CONFIG` may hold: one line a context, and doit's database in the build folder."""
    from sdaqf_tasks.flow.tasks import doit_config

    return doit_config()
