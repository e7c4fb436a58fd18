"""This module gives tests a project of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flow.workshop import Workshop


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """A project that nobody has built yet."""
    return Workshop(tmp_path / "project")
