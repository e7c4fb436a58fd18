"""This module scores how well a node's words fit a query's terms (FORMAT 7.6)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sdaqf_tasks.formats.records import Node

_TOKEN = re.compile(r"[A-Za-z0-9]+|[^\x00-\x7F]")


def tokens(text: str) -> set[str]:
    """Runs of ASCII letters and digits in lower case; every other character beyond ASCII is a token, as it stands."""
    return {token.lower() if token.isascii() else token for token in set(_TOKEN.findall(text))}


def query_tokens(terms: Iterable[str]) -> set[str]:
    return {token for term in terms for token in tokens(term)}


WEIGHTS = {"title": 16, "labels": 8, "path": 4, "text": 1}
"""What a wanted token counts for in each field; repetition adds nothing."""


def fields(node: Node) -> dict[str, set[str]]:
    """The tokens of a node by field."""
    labels = {token for label in node.labels for token in tokens(label)}
    return {"title": tokens(node.title), "labels": labels, "path": tokens(node.locator.path), "text": tokens(node.text)}


def score(node: Node, wanted: set[str]) -> int:
    return sum(WEIGHTS[name] * len(wanted & found) for name, found in fields(node).items()) if wanted else 0
