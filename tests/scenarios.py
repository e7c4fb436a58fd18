"""This module reads the conformance vectors: one scenario a file, each a repository, a Manifest, Queries and steps."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
SCENARIOS = sorted((VECTORS / "pipeline").glob("*.json"))


def body(form: dict[str, Any]) -> bytes:
    if "text" in form:
        return str(form["text"]).encode("utf-8")
    if "base64" in form:
        return base64.b64decode(form["base64"])
    character, times = form["repeat"]
    return str(character * times).encode("utf-8")


def bodies(files: dict[str, Any] | None) -> dict[str, bytes]:
    return {path: body(form) for path, form in (files or {}).items()}


def load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def bytes_of(artifact: dict[str, Any]) -> bytes:
    return json.dumps(artifact).encode()


def file_bytes(scenario: dict[str, Any]) -> dict[str, bytes]:
    """Committed and untracked files together."""
    return bodies(scenario["repository"]["committed"]) | bodies(scenario["repository"]["untracked"])
