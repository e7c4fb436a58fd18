"""This module holds texts that look like keys, in parts: the tests' own files must not look like one."""

from __future__ import annotations

KEY = "AKIA" + "0123456789ABCDEF"
TOKEN = "ghp" + "_abcdefghijklmnopqrstuvwxyz"
BEGIN = "-----" + "BEGIN"
