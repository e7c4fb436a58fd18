"""This module gives the tests of reliability a project of their own, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flow.workshop import Workshop
from tests.fronts.run import Ran, in_process


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project that nobody has built yet."""
    return Workshop(tmp_path / "project")


@pytest.fixture
def sdaqf(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The command line, in this process."""

    def run(*arguments: str | Path) -> Ran:
        return in_process(*arguments, capsys=capsys)

    return run
