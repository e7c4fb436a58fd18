"""This module is `sdaqf shard`: its table of commands, one function for all that change a shard, and the lines for people.

What changes a shard is spelt as a control word or sigil command and goes through `Workbench.run`, like everywhere.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdaqf_tasks.errors import Reason, Refused, SdaqfError
from sdaqf_tasks.fronts import commands
from sdaqf_tasks.fronts.commands import Argument, Command, Options
from sdaqf_tasks.fronts.voice import Voice, counted

if TYPE_CHECKING:
    from sdaqf_tasks.flow.shards import Workbench

View = dict[str, Any]
Spelt = Callable[[Options], Sequence[str]]
"""The lines that a shard is told."""

Lines = Callable[[View], Iterable[str]]


def workbench(options: Options, voice: Voice, front: str = "cli") -> Workbench:
    """The mounted shard, for who works at a terminal."""
    from sdaqf_tasks.flow.shards import Workbench, mounted
    from sdaqf_tasks.shards.records import Front

    project = commands.project_here()
    person = sys.stdin is not None and sys.stdin.isatty()
    return Workbench(project, mounted(project, options.shard), Front(front), person=person, wait=options.wait, report=voice.aside)


# ---- what changes a shard -------------------------------------------------------------------------------------------


def _change(spelt: Spelt, options: Options, voice: Voice, files: Mapping[str, str] = {}) -> int:
    from sdaqf_tasks.flow.shards import Expected

    try:
        answers = workbench(options, voice).run(spelt(options), expected=Expected(options.session, options.expect), files=files)
    except SdaqfError as error:
        if options.shard and error.todo.startswith("sdaqf shard "):  # what settles it settles it there
            error.todo = f"{error.todo} --shard {options.shard}"
        raise
    several = len(answers) != 1 or options.program.endswith(" run")
    found = {"status": "ok", "results": answers} if several else answers[0]
    return voice.answer(found, chain.from_iterable(map(told, answers)), as_json=options.json)


def _word(word: str) -> Spelt:
    """A control word, or the first words of a command; once for each concept, where the options name any."""
    return lambda options: [f"{word} {name}" for name in options.concepts] if "concepts" in options else [word]


def _spelt_distil(options: Options) -> Sequence[str]:
    said = [f"statement:{json.dumps(options.statement)}"] if options.statement else []
    return [" ".join(["/commit_abstractions", options.concept, *said, *options.specs])]


def _spelt_revert(options: Options) -> Sequence[str]:
    return [f"revert --to {options.to}" if options.to else "revert"]


def _sigil(name: str) -> Spelt:
    return lambda options: [" ".join([name, *options.words]).replace(" keep-local ", " promote ", 1)]


def _init(options: Options, voice: Voice) -> int:
    answer = workbench(options, voice).create()
    made = f"{_name(answer)} is created (a shard of this work tree, not of git)"
    return voice.answer(answer, [made, "Next: sdaqf shard begin"], as_json=options.json)


def _publish(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.publish import publish

    def before(each: View) -> None:
        if not options.json:
            voice.say(*(f"{each['path']}: {change['field']}: {_change_of(change)}" for change in each["changed"]))

    found = publish(workbench(options, voice), options.concepts, options.to, before=before)
    return voice.answer(found, _published(found), as_json=options.json)


def _import(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.publish import read_records

    files = read_records(options.files)
    return _change(lambda _: [f"/import_abstractions {' '.join(files)}"], options, voice, files)


# ---- what only looks ------------------------------------------------------------------------------------------------


def _look(view: str, asked: Sequence[str], lines: Lines, options: Options, voice: Voice) -> int:
    """Tell what a function of `flow.shard_views` says of the shard, given the options that it asks for."""
    from sdaqf_tasks.flow import shard_views

    found = getattr(shard_views, view)(workbench(options, voice), *(getattr(options, name) for name in asked))
    refused = bool(found.get("defects") or found.get("failure"))
    return voice.answer(found, lines(found), as_json=options.json, refused=refused)


def _lookup(options: Options, voice: Voice) -> int:
    root = workbench(options, voice).project.root
    if not (options.paths or options.token or options.pattern):
        raise commands.Usage(options.program, "name a PATH, a --token or a --pattern that the question is about")
    for path in options.paths:
        if not root.has(path):
            raise Refused(Reason.SOURCE_NOT_FOUND, f"there is no {path[:80]}", todo="A path starts at the top of the work tree.")
    return _look("support", ("paths", "token", "pattern", "hint", "limit"), _lookup_lines, options, voice)


# ---- lines for people -----------------------------------------------------------------------------------------------


def _name(view: View) -> str:
    return "core" if view["shard"]["kind"] == "core" else f"project:{view['shard']['id']}"


def told(answer: View) -> Iterator[str]:
    """A command that was done, in a line or two."""
    for key, lines in _TOLD.items():
        if key in answer:
            yield from lines(answer)
            return
    open_now = f"a session is open in {_name(answer)}" if answer["command"] == "begin scratch" else ""
    yield open_now or f"{answer['command']}: done in {_name(answer)}"


def _committed(answer: View) -> Iterator[str]:
    if not answer["committed"] and not answer.get("decisions"):
        yield f"nothing was staged; the session in {_name(answer)} is closed"
        return
    made = " ".join(f"+{each['concept']} v{each['version']}" for each in answer["committed"])
    decided = f" · {counted(len(answer['decisions']), 'decision')}" if answer["decisions"] else ""
    yield f"committed to {_name(answer)} (the shard, not git), revision {answer['revision']}: {made}{decided}".rstrip(": ")
    if answer["committed"]:
        yield f"Next: sdaqf shard publish {' '.join(each['concept'] for each in answer['committed'])}"
    if exploratory := [each["concept"] for each in answer["committed"] if each["trust"] == "exploratory"]:
        yield f"{len(exploratory)} stay exploratory until somebody accepts them: {', '.join(exploratory)}"


def _distilled(answer: View) -> Iterator[str]:
    record = answer["abstraction"]
    ready = f", ready for {record['tier']}" if record["promotion_ready"] else ""
    agree = f"{record['examples']} of {record['examples']} examples agree{ready}"
    yield f"staged in {_name(answer)}: {record['concept_id']} · {record['tier']} · {record['trust_class']}; {agree}"
    yield "Next: sdaqf shard review"


def _merged(answer: View) -> Iterator[str]:
    ends = answer["abstractionMerge"]
    source, into = ends["source"], ends["destination"]
    how = "merged into" if ends["mergedIntoExisting"] else "staged as"
    yield f"{source['lineage']} v{source['version']} is {how} {into['concept']} · {into['trust']} in {_name(answer)}"


def _pruned(answer: View) -> Iterator[str]:
    told = answer["abstractionPrune"]
    more = f"; {told['remaining']} more are eligible" if told.get("remaining") else ""
    yield f"staged in {_name(answer)}: {told['mode']} {', '.join(told['concepts']) or 'nothing'}{more}"


def _reused(answer: View) -> Iterator[str]:
    told = answer["abstractionReuse"]
    source = told["source"] if isinstance(told["source"], str) else told["source"]["concept_id"]
    word = {"promote": "keep the local record, not"}.get(told["decision"], told["decision"])
    yield f"staged in {_name(answer)}: {word} core:{source}"


def _taken_in(answer: View) -> Iterator[str]:
    told = answer["abstractionImport"]
    yield f"staged in {_name(answer)}: {', '.join(told['imported'])}"
    yield from told["backfilled"]


_TOLD: dict[str, Lines] = {
    "committed": _committed,
    "abstraction": _distilled,
    "abstractionMerge": _merged,
    "abstractionPrune": _pruned,
    "abstractionReuse": _reused,
    "abstractionImport": _taken_in,
    "discarded": lambda answer: [f"discarded in {_name(answer)}: {', '.join(answer['discarded']['records']) or 'nothing was staged'}"],
    "dropped": lambda answer: [f"{answer['dropped']} is no longer staged in {_name(answer)}"],
    "reverted": lambda answer: [f"{_name(answer)} is back at revision {answer['revision']}"],
}


def _status_lines(found: View) -> Iterator[str]:
    saved = "the saved slot is filled" if found["snapshots"]["snapshot"] else "nothing in the saved slot"
    yield f"{_name(found)} · revision {found['revision']} · {counted(found['records'], 'record')} · {saved}"
    staged = [*found["staged"]["records"], *(f"core:{name}" for name in found["staged"]["decisions"])]
    if not found["snapshots"]["scratchActive"]:
        yield "no session is open"
        return
    yield f"a session is open: {len(staged)} staged, {found['exploratory']} exploratory" + (f": {', '.join(staged)}" if staged else "")
    yield f"  session {found['session']}"
    yield "Next: sdaqf shard review"


def _listed(found: View) -> Iterator[str]:
    if not found["shards"]:
        yield "There is no shard. Make one: sdaqf shard init"
        return
    yield f"shards: {', '.join(found['shards'])}; this is {_name(found)}, revision {found['revision']}"
    width = max((len(each["concept_id"]) for each in found["abstractions"]), default=0)
    for each in found["abstractions"]:
        facts = f"v{each['lineage_version']} · {each['tier']} · {each['trust_class']} · {each['decay_state']}"
        yield f"  {each['concept_id']:<{width}}  {facts}   {each['statement'][:80]}".rstrip()
    for name, decision in found["decisions"].items():
        yield f"  core:{name}  {decision['decision']}"


def _log_lines(found: View) -> Iterator[str]:
    yield f"{_name(found)}, newest first"
    for each in found["events"]:
        yield f"  {each['state'][12:24].lower()}  r{each['revision']}  {each['front']:<5}  {each['event'][:100]}"
    if found["more"]:
        yield "There is more: --limit N tells up to 1000"


def _show_lines(found: View) -> Iterator[str]:
    record = found["abstraction"]
    state = "staged" if found["staged"] else "live"
    yield f"{record['concept_id']} v{record['lineage_version']} · {state} in {_name(found)}"
    if record["statement"]:
        yield f'  "{record["statement"]}"'
    below = f" · below {record['parent']}" if record["parent"] else ""
    yield f"  {record['tier']} · {record['category']} · {record['trust_class']} · {record['decay_state']}{below}"
    yield f"  {_readiness(record)}; quality {record['quality_score']}, confidence {record['confidence_score']}"
    yield f"  tokens    {' '.join(record['retained_tokens'])}"
    yield from (f"  pattern   {pattern}" for pattern in record["retained_patterns"])
    for entry in record["provenance"]:
        yield f"  {entry['operation']} v{entry['lineage_version']} by {entry['owner']['id']} · {entry['trust_class']}"
    if "diff" in found:
        yield from found["diff"] or ["  every example stands as it was"]
        return
    drifted = f"   reads differently now: sdaqf shard show {record['concept_id']} --diff"
    for example in found["examples"]:
        yield f"  {example['place']}{drifted if example['text'] is None else ''}"
        yield from (f"    | {line}" for line in (example["text"] or "").splitlines())


def _readiness(record: View) -> str:
    return f"ready for {record['tier']}" if record["promotion_ready"] else "not ready for promotion"


def _review_lines(found: View) -> Iterator[str]:
    count = f"{len(found['staged'])} staged, {found['accepted']} accepted"
    yield f"{_name(found)} · " + (f"a session is open · {count}" if found["snapshots"]["scratchActive"] else "no session is open")
    for number, each in enumerate(found["staged"], 1):
        marked = f" ({each['last']})" if each["same_content"] else ""
        new = "new" if each["replaces"] is None else f"replaces v{each['replaces']}{marked}"
        yield f"{number}  {each['concept']}   {new} · {each['tier']} · {each['trust']} · {each['decay']}"
        untrusted = ", untrusted" if each["trust"] == "exploratory" else ""
        if each["statement"]:
            yield f'   "{each["statement"]}"        (said by: {each["said_by"]}{untrusted})'
        holds = each["agree"] == len(each["examples"])
        then = _readiness(each) if holds else f"the others have drifted: sdaqf shard show {each['concept']} --diff"
        agree = f"{each['agree']} of {len(each['examples'])} examples agree, {then}"
        yield f"   {agree}: {' · '.join(each['examples'])}"
        yield f"   shared lines: {each['patterns'][0]} …      {len(each['patterns'])} patterns, {len(each['tokens'])} tokens"
    for name, decision in found["decisions"].items():
        yield f"   core:{name}: {decision['decision'] if decision else 'withdraw'}"
    if waiting := [each["concept"] for each in found["staged"] if each["trust"] == "exploratory"]:
        yield f"To take them over as they are now: sdaqf shard accept {' '.join(waiting)} --expect {found['state'][12:24].lower()}"
    if found["staged"] or found["decisions"]:
        yield "Next: sdaqf shard commit   (or drop CONCEPT, or discard)"


def _published(found: Sequence[View]) -> Iterator[str]:
    for each in found:
        note = "   commit it: colleagues and CI read this file, not your shard" if each["word"] != "same" else ""
        yield f"{'wrote' if each['word'] == 'written' else each['word']} {each['path']}{note}"


def _change_of(change: View) -> str:
    """From what to what; of lists, how many are gone and new."""
    old, new = change["from"], change["to"]
    if isinstance(old, list) and isinstance(new, list):
        return f"{sum(each not in new for each in old)} gone, {sum(each not in old for each in new)} new"
    return " → ".join(json.dumps(value, ensure_ascii=False)[:80] for value in (old, new))


def _lookup_lines(found: View) -> Iterator[str]:
    count = counted(len(found["references"]), "abstraction")
    yield f"{count} to support this, seen from {_name(found)}; they rank and explain, and authorise nothing"
    for each in found["references"]:
        usable = "usable" if each["usable"] else "not usable"
        facts = (each["tier"], each["trust_class"], each["decay_state"], each["resolution"], f"score {each['score']}")
        yield f"  {each['concept_id']}  {usable} · {' · '.join(facts)}" + (" · drifted" if each["drifted"] else "")


def _fsck_lines(found: View) -> Iterator[str]:
    yield from (f"{defect['place']}  {defect['code']}  {defect['message']}" for defect in found["defects"])
    gc = "" if found["defects"] else ": sdaqf shard gc"
    spare = f"; {found['unreachable']} that nothing leads to{gc}" if found["unreachable"] else ""
    yield f"{_name(found)}: {counted(found['objects'], 'object')}, {counted(len(found['defects']), 'defect')}{spare}"
    yield from (f"  nothing follows {each}" for each in found["tips"])
    yield from (f"  not checked: {each}" for each in found["not_checked"])


def _gc_lines(found: View) -> Iterator[str]:
    yield f"{counted(found['removed'], 'object')} removed, {found['bytes'] / 1_048_576:.1f} MiB"


def _verify_lines(found: View) -> Iterator[str]:
    yield f"{_name(found)}: {found['replayed']} of {found['events']} events replayed, {found['not_replayable']} not replayable"
    if found["failure"]:
        yield f"  differs: {found['failure']}"


# ---- the table ------------------------------------------------------------------------------------------------------

_arg, _flag, _repeated = commands.argument, commands.flag, commands.repeated
_CONCEPTS = _arg("concepts", "CONCEPT", "a concept", nargs="+")
_CONCEPT = _arg("concept", "CONCEPT", "a concept")
_DIFF = _flag("--diff", "how examples read now")
_FOLDER = _arg("--to", "FOLDER", "where (abstractions/)", default="abstractions/")
_PAST = _arg("--to", "STATE", "a state whose event was commit")
_SHARD = (commands.SHARD, commands.WAIT)
_EXPECTED = (
    _arg("--session", "STATE", "refuse unless this session is active"),
    _arg("--expect", "STATE", "refuse unless the shard is in this state"),
)


def _limit(usual: int) -> Argument:
    return _arg("--limit", "N", "at most so many", type=commands.limit, default=usual)


def _changing(name: str, spelt: Spelt, says: str, example: str = "", *arguments: Argument) -> Any:
    return Command(name, functools.partial(_change, spelt), says, example), (*arguments, *_EXPECTED, *_SHARD)


def _looking(name: str, view: str, lines: Lines, says: str, example: str = "", *arguments: Argument) -> Any:
    asked = [name.removeprefix("--") for name, _ in arguments]
    return Command(name, functools.partial(_look, view, asked, lines), says, example), (*arguments, *_SHARD)


_REUSE = _arg("words", "WORD", "adopt|reject|withdraw core:CONCEPT, or keep-local core:CONCEPT local:CONCEPT", nargs="+")
_MERGE = _arg("words", "WORD", "adopt|promote core:CONCEPT or project:ID:CONCEPT, and perhaps as:CONCEPT", nargs="+")
_PRUNE = _arg("words", "WORD", "stale|prunable|refresh|protect|unprotect CONCEPT, or collect gap:N …", nargs="+")


TABLE: Sequence[tuple[Command, Sequence[Argument]]] = (
    (Command("init", _init, "Make the shard."), _SHARD),
    _looking("list", "listing", _listed, "List the shards, and the live records of this one."),
    _looking("status", "status", _status_lines, "Say which shard this is, in which state, and what is staged."),
    _looking("log", "log", _log_lines, "Print the chain of states, newest first.", "--limit 5", _limit(50)),
    _looking("show", "shown", _show_lines, "Show a record with its examples.", "retry_guard", _CONCEPT, _DIFF),
    _changing("begin", _word("begin scratch"), "Begin a scratch session: what is staged belongs to it."),
    _changing(
        "distil",
        _spelt_distil,
        "Stage an abstraction over regions of source text.",
        "retry_guard tier:convention region:src/a.py:3-9 region:src/b.py:8-14",
        _CONCEPT,
        _arg("specs", "SPEC", "region:PATH:FIRST-LAST, node:ID; tier:, category:, parent:", nargs="+"),
        _arg("--statement", "TEXT", "what it says, in a sentence"),
    ),
    _looking("review", "review", _review_lines, "Show what is staged, against what is live."),
    _changing("accept", _word("accept"), "Take an agent's record over; at a terminal.", "retry_guard", _CONCEPTS),
    _changing("drop", _word("drop"), "Take staged records back.", "retry_guard", _CONCEPTS),
    _changing("commit", _word("commit"), "Make all that is staged live, and end the session."),
    _changing("discard", _word("discard"), "Forget all that is staged, and end the session."),
    _changing("snapshot", _word("snapshot"), "Keep the live records in the saved slot."),
    _changing("revert", _spelt_revert, "Bring back the live records of the saved slot, or of a commit.", "", _PAST),
    (Command("publish", _publish, "Write live records as files, for git.", "retry_guard"), (_CONCEPTS, _FOLDER, *_SHARD)),
    (
        Command("import", _import, "Stage published records of other projects.", "../other/abstractions/retry_guard.json"),
        (_arg("files", "FILE", "a published record", nargs="+", type=Path), *_EXPECTED, *_SHARD),
    ),
    _changing("reuse", _sigil("/reuse_abstractions"), "Decide about a record of core.", "adopt core:retry_guard", _REUSE),
    _changing("merge", _sigil("/merge_abstractions"), "Take a record over from another shard.", "adopt core:retry_guard", _MERGE),
    _changing("prune", _sigil("/prune_abstractions"), "Mark records as stale, prunable, fresh or protected.", "stale retry_guard", _PRUNE),
    _changing("refresh", _word("/prune_abstractions refresh"), "Say that records were reviewed and still hold.", "retry_guard", _CONCEPTS),
    (
        Command("lookup", _lookup, "Find the abstractions that support a query.", "src/a.py --token retry"),
        (
            _arg("paths", "PATH", "a file that the question is about", nargs="*"),
            _repeated("--token", "TOKEN", "a token that the record retains"),
            _repeated("--pattern", "PATTERN", "a pattern that the record retains"),
            _arg("--hint", "HINT", "impact, breaks-if or contradicts", choices=["impact", "breaks-if", "contradicts"]),
            _limit(4),
            *_SHARD,
        ),
    ),
    _looking("fsck", "fsck", _fsck_lines, "Name everything in the shard that is damaged."),
    _looking("gc", "collect", _gc_lines, "Remove the objects that nothing leads to."),
    _looking("verify", "verify", _verify_lines, "Recompute every state from its predecessor and its event."),
    _changing(
        "run",
        lambda options: options.commands,
        "Run several commands, all or none.",
        "'begin scratch' '/prune_abstractions stale retry_guard' commit",
        _arg("commands", "COMMAND", "a control word or a sigil command", nargs="+"),
    ),
)
