"""This module runs one command and gives the exit code; the only place where errors become exit codes (FORMAT 17.5).

A refusal is three lines on stderr, what, why and what to do; under `--json` it is one object on stdout.
A defect keeps its traceback on stderr.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from sdaqf_tasks.disk.files import shown
from sdaqf_tasks.errors import MESSAGE_LIMIT, Reason, SdaqfError, Unreadable
from sdaqf_tasks.fronts import commands
from sdaqf_tasks.fronts.voice import Exit, Voice


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    voice, as_json, program = Voice(), _wants_json(given), "sdaqf"
    try:
        options = commands.parse(given)
        program = options.program
        code = _run(options, voice)
    except commands.Answered as answer:
        voice.say(*str(answer).splitlines())
        code = Exit.DONE
    except commands.Usage as error:
        message = " ".join(_placeless(error.message, given).split())[:MESSAGE_LIMIT]
        if as_json:
            voice.say_json(_object("usage", error.program, message))
        else:
            voice.aside(f"{error.program}: not understood", f"  {message}", f"  Try: {error.program} --help")
        code = Exit.USAGE
    except SdaqfError as error:
        from sdaqf_tasks.flow import report

        error.message, error.where, error.todo = (_placeless(told, given) for told in (error.message, error.where, error.todo))
        if as_json:
            voice.say_json(report.error_object(error, _operation(program)))
        else:
            voice.aside(*report.refusal(error, f"{program}: refused"))
        code = Exit.REFUSED
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    except Exception:
        if as_json:
            voice.say_json(_object("defect", program, "a defect of this program; its traceback is on stderr"))
        voice.aside(*traceback.format_exc().splitlines())
        code = Exit.DEFECT
    return Exit.UNREPORTED if code == Exit.DONE and not voice.heard else code


def _run(options: commands.Options, voice: Voice) -> int:
    """The command; what the system closes to us on the way is named by its path from the top, or the folder that shuts it in."""
    try:
        code: int = options.run(options, voice)
    except PermissionError as error:
        from sdaqf_tasks.disk.repository import find_top

        path, top = Path(str(error.filename or ".")).absolute(), find_top(Path.cwd())
        inside = [each for each in (*reversed(path.parents), path) if each != top and each.is_relative_to(top)]
        shut = next((each for each in inside if not os.access(each, os.X_OK)), path)
        at = shut.relative_to(top).as_posix() if inside else path.name
        raise Unreadable(Reason.MISSING_OR_UNREADABLE, "closed to us", at=shown(at), todo="See to its permissions.") from error
    return code


def _wants_json(given: Sequence[str]) -> bool:
    """Whether an answer is wanted as JSON, also where the rest of the command line cannot be parsed."""
    options = given[: given.index("--")] if "--" in given else given
    return any(len(option) > 2 and "--json".startswith(option) for option in options)


_ABSOLUTE = re.compile(r"(?:^(?:-[^/]*)?|[:=])(/(?![a-z]+_[a-z]*(?:\s|$)).*)", re.DOTALL)
"""What of a word is an absolute path: the word, unless it is a command of shards, or what follows an option, or a prefix
such as `region:`."""


def _placeless(message: str, given: Sequence[str]) -> str:
    """The message, in which no word of the command line is an absolute path any more, also where it was cut."""
    for word in sorted((*given, *" ".join(given).split()), key=len, reverse=True):
        path = found[1] if (found := _ABSOLUTE.search(word)) else ""
        while len(path) > 1 and path.startswith("/") and (start := message.find(path[:6])) >= 0:
            shown = os.path.commonprefix([message[start:], path])  # noqa: RUF071 (the cut may be inside a name)
            message = message.replace(shown, PurePosixPath(path).name, 1)
    return message


def _object(error: str, program: str, message: str) -> dict[str, str]:
    return {"error": error, "operation": _operation(program), "reason": error, "where": "", "message": message}


def _operation(program: str) -> str:
    """`validate` of `sdaqf context validate`; empty where no command was named."""
    return program.removeprefix("sdaqf").rpartition(" ")[2]
