"""This module gives the tests of the command line a project to work on, and the command line itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fronts.project import Made, made
from tests.fronts.run import Ran, in_process


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """One project for all tests of a process, which leave it as it is."""
    return made(tmp_path_factory.mktemp("project"))


@pytest.fixture
def sdaqf(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """The command line, in this process."""

    def run(*arguments: str | Path) -> Ran:
        return in_process(*arguments, capsys=capsys)

    return run
