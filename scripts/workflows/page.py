"""This module keeps the summary in `docs/workflows.md`, between two comments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scripts.workflows import reports

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workflows.md"
BEGIN, END = "<!-- summary -->\n", "<!-- end of summary -->\n"


def refreshed(text: str, found: dict[str, Any]) -> str:
    """The page with the summary of a report."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{reports.summary(found)}{END}{rest.partition(END)[2]}"
