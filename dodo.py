"""This repository's own tasks: its contexts, its generated files, its tests.

`doit snapshot` builds what agents are told about this repository; `doit test` passes the tests.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import sdaqf_tasks

DOIT_CONFIG = sdaqf_tasks.doit_config() | {"default_tasks": ["snapshot"]}

context = sdaqf_tasks.pipeline()


def task_schemas() -> dict[str, Any]:
    """Write schemas/ from the records."""
    return {"actions": [write_schemas], "verbosity": 2, "uptodate": [False]}


def write_schemas() -> None:
    from sdaqf_tasks.fronts.findings import all_schemas

    for name, data in all_schemas().items():
        path = Path("schemas") / name
        if not path.exists() or path.read_bytes() != data:
            path.write_bytes(data)
            print(f"wrote {path}")


def task_test() -> dict[str, Any]:
    """Run the tests: `doit test`; the long ones with `pytest -m long`."""
    return {"actions": [f"{sys.executable} -m pytest -n auto"], "verbosity": 2, "uptodate": [False]}


def task_lint() -> dict[str, Any]:
    """Run ruff and mypy."""
    commands = ("ruff check .", "ruff format --check .", "mypy")
    return {"actions": [f"{sys.executable} -m {command}" for command in commands], "verbosity": 2, "uptodate": [False]}


def task_workflows() -> dict[str, Any]:
    """Run the workflow suite; the reports are in build/workflows/."""
    return {"actions": [f"{sys.executable} -m scripts.workflows"], "verbosity": 2, "uptodate": [False]}


def task_docs() -> dict[str, Any]:
    """Write docs/errors.md, and what the console samples of the pages print."""
    return {"actions": [f"{sys.executable} -m scripts.pages"], "verbosity": 2, "uptodate": [False]}


def task_validate() -> dict[str, Any]:
    """Make the public example again, and attack it: M5-CONTEXT-INTEGRITY."""
    gate = "scripts/run_local_gate.py script scripts/validate_m5_context.py"
    return {"actions": [f"{sys.executable} {gate}"], "verbosity": 2, "uptodate": [False]}
