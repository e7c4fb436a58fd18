"""This module tells what happened: results on stdout, everything else on stderr, and the exit code.

Every line passes through here, and nothing that a terminal would obey passes with it.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import sys
from collections.abc import Iterable
from typing import Any, TextIO

from sdaqf_tasks.errors import printable


class Exit(enum.IntEnum):
    """How a run ended."""

    DONE = 0
    REFUSED = 1
    """Refused, or findings."""
    USAGE = 2
    """The command line is not one, or a precondition that was asked for is missing."""
    DEFECT = 3
    UNREPORTED = 4
    """Done, and stdout did not take the report."""
    INTERRUPTED = 130


class Voice:
    """The two streams of one run. Failing to tell stops nothing: the work goes on, and `heard` says that nobody knows."""

    def __init__(self) -> None:
        self.heard = True

    def say(self, *lines: str) -> None:
        """Lines of the result."""
        if lines and not _write(sys.stdout, lines):
            self.heard = False

    def say_json(self, value: Any) -> None:
        """The result as one JSON document: sorted keys, two spaces, non-ASCII escaped, one final newline (FORMAT 12.2)."""
        self.say(*json.dumps(value, indent=2, sort_keys=True).split("\n"))

    def answer(self, value: Any, lines: Iterable[str], *, as_json: bool, refused: bool = False) -> Exit:
        """The result, for programs as one JSON document, else for people in lines; and the exit code."""
        self.say_json(value) if as_json else self.say(*lines)
        return Exit.REFUSED if refused else Exit.DONE

    def say_document(self, text: str) -> None:
        """A document in UTF-8, exactly as it is; before a person's terminal, escaped like all else."""
        if sys.stdout is None or sys.stdout.isatty():
            self.say(*text.expandtabs().removesuffix("\n").split("\n"))
            return
        try:
            sys.stdout.flush()
            sys.stdout.buffer.write(text.encode("utf-8"))
            sys.stdout.flush()
        except OSError:
            self.heard = False
            _silence(sys.stdout)

    def aside(self, *lines: str) -> None:
        """Lines for who watches. Where they cannot be told, they are not missed."""
        if lines:
            _write(sys.stderr, lines)


def counted(count: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _write(stream: TextIO | None, lines: tuple[str, ...]) -> bool:
    if stream is None:  # closed when the program began
        return False
    try:
        stream.write("".join(f"{printable(line)}\n" for line in lines))
        stream.flush()
    except OSError:  # full, or a pipe that nobody reads
        _silence(stream)
        return False
    return True


def _silence(stream: TextIO) -> None:
    """Let what the stream still holds go nowhere, so that the interpreter does not try once more at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
