"""This module is `sdaqf shell`: a prompt that takes the same words and commands as every front (ABSTRACTIONS 9).

The history is the shard's own chain, so nothing is written beside it. Without a terminal, lines come from standard input;
then nobody accepts a record, and the first refusal ends it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from sdaqf_tasks.errors import Malformed, Reason, Refused, SdaqfError
from sdaqf_tasks.flow import report, shard_views
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.fronts import commands, shards
from sdaqf_tasks.fronts.commands import Options
from sdaqf_tasks.fronts.voice import Exit, Voice
from sdaqf_tasks.shards.commands import MARKS, SIGILS, WORDS

LOOKING = ("status", "list", "review", "show", "log", "lookup", "verify", "fsck")
"""Words that `sdaqf shard` has and a shard is not told."""

HISTORY = 200


def run(options: Options, voice: Voice) -> int:
    bench = shards.workbench(options, voice, "shell")
    voice.say(*greeting(bench))
    for line in _typed(bench) if bench.person else _piped():
        if line.strip() in ("exit", "quit"):
            break
        if line.strip() and not obey(bench, line.strip(), voice) and not bench.person:
            return Exit.REFUSED
    return Exit.DONE


def _piped() -> Iterator[str]:
    try:
        yield from sys.stdin
    except UnicodeDecodeError:
        raise Malformed(Reason.NOT_UTF8, "a line of standard input is not UTF-8", todo="Write the commands in UTF-8.") from None


def greeting(bench: Workbench) -> Iterator[str]:
    found = shard_views.status(bench)
    yield f"{bench.shard}, revision {found['revision']}. `help` lists what it takes, `exit` ends."
    if found["snapshots"]["scratchActive"]:
        count = len(found["staged"]["records"]) + len(found["staged"]["decisions"])
        yield f"A session was left active, with {count} staged: review, then commit or discard."


def obey(bench: Workbench, line: str, voice: Voice) -> bool:
    """Do one line, and tell. Whether it was done."""
    try:
        if line == "help":
            voice.say(f"looking   {', '.join(LOOKING)}", f"words     {', '.join(WORDS)}", f"commands  {', '.join(SIGILS)}")
        elif line.split()[0] in LOOKING:
            return _look(bench, line, voice)
        else:
            voice.say(*(told for answer in bench.run([line]) for told in shards.told(answer)))
    except SdaqfError as error:
        voice.aside(*report.refusal(error, "refused"))
        return False
    return True


def _look(bench: Workbench, line: str, voice: Voice) -> bool:
    try:
        options = commands.parse(["shard", *shlex.split(line), "--shard", str(bench.shard)])
    except (commands.Usage, commands.Answered, ValueError) as error:
        raise Refused(Reason.INVALID_COMMAND, str(error).strip()) from None
    code: int = options.run(options, voice)
    return code == Exit.DONE


# ---- at a terminal --------------------------------------------------------------------------------------------------


def _typed(bench: Workbench) -> Iterator[str]:
    """The lines that a person types. Ctrl-C forgets a line, Ctrl-D ends."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import InMemoryHistory
    except ImportError:
        message = "the shell needs prompt_toolkit, which is not installed"
        raise Refused(Reason.EXTRA_MISSING, message, todo="pip install 'sdaqf-tasks[shell]'") from None
    history = InMemoryHistory(list(past(bench)))
    prompt: Any = PromptSession(history=history, completer=_completer(bench), bottom_toolbar=lambda: status_line(bench))
    while True:
        try:
            yield prompt.prompt(f"{bench.shard}> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def past(bench: Workbench) -> Iterable[str]:
    """What the shard was told so far, oldest first."""
    told = [each.event.told for each in islice(bench.desk().chain(), HISTORY)]
    return [line for line in reversed(told) if line != "init"]


def status_line(bench: Workbench) -> str:
    """Shard, session and staged count, as they are now."""
    try:
        found = shard_views.status(bench)
    except SdaqfError as error:
        return f" {bench.shard} · {error.message}"
    session = f"session · {len(found['staged']['records'])} staged" if found["snapshots"]["scratchActive"] else "no session"
    return f" {bench.shard} · revision {found['revision']} · {session}"


def completions(bench: Workbench, before: str) -> list[str]:
    """What the last word of a line may become: commands first, concepts after them."""
    *words, last = before.split(" ")
    known: Iterable[str] = (*WORDS, *SIGILS, *LOOKING, "help", "exit")
    if words:
        known = ()
        with suppress(SdaqfError):  # of a damaged shard the next command tells
            desk = bench.desk()
            known = (*desk.all_live, *desk.staged.records, *(MARKS if words[0] == "/prune_abstractions" and len(words) == 1 else ()))
    return sorted({word for word in known if word.startswith(last)})


def _completer(bench: Workbench) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Words(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Completion]:
            before = document.text_before_cursor
            yield from (Completion(word, -len(before.rpartition(" ")[2])) for word in completions(bench, before))

    return Words()
