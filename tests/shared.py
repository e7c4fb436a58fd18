"""This module finds the public suites, which may not be copied: they lie in a folder beside the checkout."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"


def shared(*parts: str) -> Path:
    """The file or folder `parts` of the shared folder. Skips the test, saying so, where it is not there."""
    found = SHARED.joinpath(*parts)
    if not found.exists():
        pytest.skip(f"shared/{'/'.join(parts)} is not beside this checkout: the public suites are not part of it")
    return found
