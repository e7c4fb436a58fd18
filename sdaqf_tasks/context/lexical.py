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


def score(node: Node, wanted: set[str]) -> int:
    """16 for each wanted token in the title, 8 in the labels, 4 in the path, 1 in the text; repetition adds nothing."""
    if not wanted:
        return 0
    labels = {token for label in node.labels for token in tokens(label)}
    fields = ((16, tokens(node.title)), (8, labels), (4, tokens(node.locator.path)), (1, tokens(node.text)))
    return sum(weight * len(wanted & found) for weight, found in fields)
