"""This module holds the values that artifacts are made of (FORMAT 3): enumerations, text rules, shared records.

A record is written once here; decoding, encoding and the JSON Schema follow from it.
"""

from __future__ import annotations

import enum


class RootScope(enum.Enum):
    REPOSITORY = "repository"
    OWNER = "owner"
