"""This module is the grammar of the command line, and one function a command (DESIGN, The command line).

A command takes the parsed options and a voice, and returns the exit code. It imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from sdaqf_tasks import __version__
from sdaqf_tasks.errors import Reason, Refused
from sdaqf_tasks.fronts.voice import Exit, Voice

STAGE_NAMES = ("manifest", "index", "query", "select", "snapshot", "compact", "render", "quality")
FORMAT_NAMES = ("human", "concise", "json", "jsonl", "github", "sarif", "junit", "markdown")
CLEARANCES = ("public", "repository-private", "owner-private")
LIMIT_NAMES = ("files", "file_bytes", "total_bytes", "git_seconds")

Options = argparse.Namespace


class Usage(Exception):
    """The command line itself was wrong. `program` is the part of it that was understood, such as `sdaqf context index`."""

    def __init__(self, program: str, message: str) -> None:
        super().__init__(message)
        self.program, self.message = program, message


class Answered(Exception):
    """What was asked for is a text about the program itself, which is the one argument."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(self.prog, message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            from sdaqf_tasks.formats.plain_yaml import nearest

            known = list(map(str, action.choices))
            close = nearest(str(value), known)
            message = f"{value!r} is none; " + (f"did you mean {close}?" if close else f"there are: {', '.join(known)}")
            raise argparse.ArgumentError(action, message)

    def _print_message(self, message: str, file: object = None) -> NoReturn:
        raise Answered(message)


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line, with `run` and `program`. Raises `Usage`, or `Answered` where help is asked for."""
    if lost := [word for word in arguments if word.startswith("--") and word.endswith("=--")]:
        raise Usage("sdaqf", f"{lost[0]} gives no value")
    options, rest = parser().parse_known_args(arguments)
    if rest:
        raise Usage(options.program, f"there is no place for {' '.join(rest)}")
    return options


# ---- commands on a project ------------------------------------------------------------------------------------------


def project_here(owner_root: Path | None = None, *, to: str = "") -> Any:
    """The project of the working directory; `to` do what with its manifests, where it has to have any."""
    from sdaqf_tasks.flow.project import Project

    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise Refused(Reason.NOT_A_REPOSITORY, "the working directory is gone", todo="Change to a folder that is there.") from None
    project = Project.find(here, owner_root=owner_root)
    if to:
        project.verify_any(to)
    return project


def _later(module: str, name: str) -> Callable[..., Any]:
    """The function `name` of one of the fronts, which is imported when it is called."""

    def call(*given: Any) -> Any:
        return getattr(importlib.import_module(f"sdaqf_tasks.fronts.{module}"), name)(*given)

    return call


def _init(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import init

    ask = init.ask if not options.json and sys.stdin.isatty() and sys.stdout.isatty() else None
    return init.run(project_here(), voice, agents=options.agents, yes=options.yes, doit=options.doit, as_json=options.json, ask=ask)


def _build(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow import build, report
    from sdaqf_tasks.flow.run import Run

    began = time.monotonic()
    project = project_here(options.owner_root, to="build")
    width = max(len(manifest.name) for manifest in project.manifests) + 8

    def done(result: build.Result) -> None:
        if not options.json:
            voice.say(*report.chain_lines(result, width), *(report.stage_lines(result) if options.verbose else ()))

    with Run(project, wait=options.wait, report=voice.aside, locked=options.locked) as run:
        results = build.build(run, options.names, until=options.until, done=done)
        if options.json:
            voice.say_json(report.build_object(results, run.tree))
        else:
            tree, seconds = report.tree_line(run.tree, run.repository.modified()), time.monotonic() - began
            voice.say(f"{report.totals(results)} · {tree} · {seconds:.1f} s", *report.clock_line(), *_next(project, results))
    skipped = [result.chain.label for result in results if result.word == build.SKIPPED]
    if skipped and options.locked and not options.allow_skipped:
        voice.aside(f"{', '.join(skipped)}: skipped, and --locked refuses that: give --owner-root, or --allow-skipped")
        return Exit.REFUSED
    return Exit.REFUSED if any(result.word == build.BLOCKED for result in results) else Exit.DONE


def _next(project: Any, results: Sequence[Any]) -> list[str]:
    """The one line that a person needs next."""
    if blocked := next((result for result in results if result.error), None):
        if blocked.error.origin and blocked.error.origin.stage != "manifest":
            return []  # the gate compares with the lock, and runs no query
        return [f"Next: sdaqf check {blocked.chain.label.partition('.')[0]}"]
    first = next((result for result in results if result.summary), None)
    return [f"Read it: {project.settings.build}/out/{first.chain.label}/context.md"] if first else []


def _status(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow import report, status
    from sdaqf_tasks.flow.run import Run

    with Run(project_here(options.owner_root, to="look at")) as run:
        found = status.status(run, options.names)
        voice.say_json(found) if options.json else voice.say(*report.status_lines(found, run.tree, run.repository.modified()))
    return Exit.DONE


_render = _later("rendering", "run")


def _explain(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.run import Run
    from sdaqf_tasks.fronts import answers, questions

    with Run(project_here(options.owner_root)) as run:
        found = questions.explain(run, options.name or run.project.only, options.source)
    return voice.answer(found, answers.explanation(found), as_json=options.json)


def _diff(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.run import Run
    from sdaqf_tasks.fronts import answers, comparison

    if options.since is None and len(options.names) != 2:
        raise Usage(options.program, "give two of files, ids and NAME[.QUERY]; or --since REF")
    with ExitStack() as stack:
        run = None
        try:
            run = stack.enter_context(Run(project_here(options.owner_root)))
        except Refused as error:
            if error.reason is not Reason.NOT_A_REPOSITORY or options.since is not None:
                raise
        if run is None or options.since is None:
            found = comparison.diff(run, *options.names)
        elif commit := run.repository.resolve(options.since):
            found = comparison.since(run, commit, options.names)
        else:
            raise Usage(options.program, f"this clone has no commit {options.since[:80]!a}; where it is shallow: git fetch --deepen 50")
    refused = any(entry["error"] for entry in found["contexts"])
    return voice.answer(found, answers.differences(found), as_json=options.json, refused=refused)


def _rule(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import answers, questions

    found = questions.rule(options.code)
    return voice.answer(found, answers.rules(found, briefly=options.code is None), as_json=options.json)


def _doctor(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import doctor

    found = doctor.look_over(project_here(), repair=options.repair, wait=options.wait)
    return voice.answer(found, doctor.lines(found), as_json=options.json, refused=bool(found["defects"]))


def _gc(options: Options, voice: Voice) -> int:
    store = project_here().store
    removed = size = 0
    if store.folder.is_dir():
        with store.lock(options.wait, lambda: voice.aside("waiting for another run")):
            removed, size = store.collect()
    line = f"{removed} objects removed, {size / 1_048_576:.1f} MiB"
    return voice.answer({"removed": removed, "bytes": size}, [line], as_json=options.json)


def _serve(options: Options, voice: Voice) -> int:
    if missing := [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]:
        message = f"sdaqf serve needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise Refused(Reason.EXTRA_MISSING, message, todo="pip install 'sdaqf-tasks[serve]'")
    return int(_later("web", "run")(options, voice))


def _schema(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts.findings import all_schemas

    found = {name.removesuffix(".schema.json"): data for name, data in all_schemas().items()}
    if options.name is None:
        return voice.answer(sorted(found), sorted(found), as_json=options.json)
    if options.name not in found:
        raise Usage(options.program, f"there is no schema {options.name!r}; there are: {', '.join(sorted(found))}")
    voice.say(*found[options.name].decode("ascii").splitlines())
    return Exit.DONE


# ---- what an option may say -----------------------------------------------------------------------------------------


def _agents(text: str) -> list[str]:
    tools = text.split(",")
    if not set(tools) <= {"claude", "codex"}:
        raise argparse.ArgumentTypeError("write claude, codex, or claude,codex")
    return tools


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise argparse.ArgumentTypeError("not a number of seconds")
    return seconds


def _size(text: str) -> int:
    """`48KiB` or a number, as bytes."""
    found = re.fullmatch(r"([1-9][0-9]{0,8})(B|KiB|MiB)?", text)
    if not found:
        raise argparse.ArgumentTypeError("write it as 48KiB, 1MiB, or a number of bytes")
    return int(found[1]) * {"KiB": 1_024, "MiB": 1_048_576}.get(found[2], 1)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 65_535):
        raise argparse.ArgumentTypeError("write a number up to 65535")
    return int(text)


LIMIT = re.compile("[1-9][0-9]{0,2}|1000")
"""How many of something are told at most."""


def limit(text: str) -> int:
    if not LIMIT.fullmatch(text):
        raise argparse.ArgumentTypeError("write a number from 1 to 1000")
    return int(text)


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in LIMIT_NAMES or not (number.isascii() and number.isdecimal() and len(number) <= 18):
        raise argparse.ArgumentTypeError(f"write NAME=N, where NAME is one of {', '.join(LIMIT_NAMES)}")
    return name, int(number)


# ---- the table of commands ------------------------------------------------------------------------------------------

Argument = tuple[str, Mapping[str, Any]]
"""The name of an argument, and what else argparse's `add_argument` is given."""


class Command(NamedTuple):
    """A command: what it does, in words; and an example, without the words that call it."""

    name: str
    run: Callable[[Options, Voice], int]
    says: str
    example: str = ""


def argument(name: str, metavar: str, help: str, **how: Any) -> Argument:
    return name, {"metavar": metavar, "help": help, **how}


def path(name: str, metavar: str, help: str, **how: Any) -> Argument:
    return argument(name, metavar, help, type=Path, **how)


def repeated(name: str, metavar: str, help: str, **how: Any) -> Argument:
    return argument(name, metavar, help, action="append", default=[], **how)


def flag(name: str, help: str) -> Argument:
    return name, {"action": "store_true", "help": help}


EVERY_DAY = (
    Command("init", _init, "Propose a first manifest for this repository, and write it.", "--agents claude"),
    Command("build", _build, "Build every context of the project, or those named.", "context"),
    Command("check", _later("review", "run_check"), "Compare everything with what was reviewed; the gate for CI.", "--base main"),
    Command("lock", _later("review", "run_lock"), "Say that the pinned texts were read: write their digests into the lock.", "--only a.md"),
    Command("status", _status, "Say of every context whether it is current, and if not, why and what to do."),
    Command("explain", _explain, "Say why sources are in a context or out of it, and what would let one in.", "context"),
    Command("render", _render, "Print a context, or keep a block of links to it in a file that agents read.", "context --into AGENTS.md"),
)
WHEN_NEEDED = (
    Command("diff", _diff, "Say what one context tells and another does not.", "--since HEAD~5 context"),
    Command("rule", _rule, "Explain a finding or a reason.", "byte-budget"),
    Command("doctor", _doctor, "Name what is damaged, left over or in the way.", "--repair"),
    Command("gc", _gc, "Remove the objects that nothing points to any more."),
    Command("replay", _later("replaying", "run"), "Refuse again, from its record, what was refused.", "latest --why"),
    Command("shell", _later("shell", "run"), "Type commands to a shard, with history and completion."),
    Command("serve", _serve, "Serve a shard over HTTP to programs of this machine.", "--port 0"),
    Command("schema", _schema, "Print a JSON Schema.", "manifest-yaml"),
)

_OWNER_ROOT = path("--owner-root", "ROOT", "where owner files lie (else SDAQF_OWNER_ROOT)")
WAIT = argument("--wait", "SECONDS", "how long to wait for another run (60)", type=_seconds, default=60)
_MANIFESTS = argument("names", "NAME", "manifests; all where none is named", nargs="*")
SHARD = argument("--shard", "SHARD", "core, or project:ID (else SDAQF_SHARD, the settings' one, project:default)")
_SOURCE = argument("source", "SOURCE", "an alias, a path, or the id of a node or source; all where absent", nargs="?")
_CONTEXT = argument("name", "NAME[.QUERY]", "a manifest, or one of its queries; not needed where there is only one", nargs="?")

ARGUMENTS: Mapping[str, Sequence[Argument]] = {
    "init": (
        argument("--agents", "TOOLS", "also the settings of claude, codex, or claude,codex", type=_agents, default=[]),
        flag("--doit", "show the two lines for a dodo.py"),
        flag("--yes", "write without asking"),
    ),
    "build": (
        argument("names", "NAME[.QUERY]", "a manifest, or one of its queries; all where none is named", nargs="*"),
        argument("--until", "STAGE", f"stop after this stage: {', '.join(STAGE_NAMES)}", choices=STAGE_NAMES),
        _OWNER_ROOT,
        WAIT,
        flag("-v --verbose", "show every stage with its artifact id"),
        flag("--locked", "refuse what no lock says was reviewed, and what is skipped"),
        flag("--allow-skipped", "with --locked: a skipped manifest is no failure"),
    ),
    "check": (
        _MANIFESTS,
        argument("--base", "REF", "also say what this change reviewed, since its merge base with REF"),
        repeated("--fail-on", "LEVEL|CODE", "error (default), warning, notice, or a code", type=_later("findings", "parse_fail_on")),
        flag("--exit-zero", "findings do not fail"),
        argument("--format", "FORMAT", ", ".join(FORMAT_NAMES), choices=FORMAT_NAMES, default="human"),
        repeated("--output", "FORMAT=PATH", "also write a file", type=_later("findings", "parse_output")),
        _OWNER_ROOT,
    ),
    "lock": (
        _MANIFESTS,
        repeated("--only", "PATH|ALIAS", "this source alone; may be repeated"),
        flag("--moved", "follow renamed files and moved lines, in the YAML and in the lock"),
        argument("--observed", "now", "with --only: the observation was made again", choices=["now"]),
        flag("--resolve", "settle a merge conflict, entry by entry"),
        flag("--check", "write nothing; exit 1 where something would be written"),
        flag("--dry-run", "write nothing"),
        _OWNER_ROOT,
    ),
    "status": (_MANIFESTS, _OWNER_ROOT),
    "explain": (_CONTEXT, _SOURCE, _OWNER_ROOT),
    "render": (
        _CONTEXT,
        argument("--clearance", "S", f"{', '.join(CLEARANCES)}: who reads it", choices=CLEARANCES, default=CLEARANCES[1]),
        argument("--max-bytes", "SIZE", "leave out whole extracts, the last by rank first", type=_size),
        path("--into", "FILE", "keep a marked block in this Markdown file; nothing else in it changes"),
        argument("--max-file", "SIZE", "with --into: what the file may have (32KiB)", type=_size),
        _OWNER_ROOT,
    ),
    "diff": (
        argument("names", "A B", "two Snapshots: files, ids, or NAME[.QUERY]; with --since, contexts", nargs="*"),
        argument("--since", "REF", "compare with the context as it was at that commit"),
        _OWNER_ROOT,
    ),
    "rule": (argument("code", "CODE", "a finding or a reason; all where absent", nargs="?"),),
    "doctor": (flag("--repair", "remove it from the build folder; the next build makes it again"), WAIT),
    "gc": (WAIT,),
    "replay": (
        argument("record", "RECORD", "a file, REPLAY- and its first digits, or latest, as where absent", nargs="?", default="latest"),
        flag("--why", "say what is different now, and whether it would pass"),
        _OWNER_ROOT,
    ),
    "shell": (SHARD, WAIT),
    "serve": (SHARD, argument("--port", "N", "a port of 127.0.0.1, 0 for a free one (7323)", type=_port, default=7_323)),
    "schema": (argument("name", "NAME", "manifest-yaml, check, or an artifact type; all names where absent", nargs="?"),),
}


# ---- the stages on explicit files -----------------------------------------------------------------------------------


class Stage(NamedTuple):
    """A command on explicit files: the files that it takes and the one that it makes, by example; whether it looks at a tree."""

    name: str
    says: str
    takes: Mapping[str, str]
    output: str = ""
    world: bool = False


_CHAIN = {"graph": "g.json", "selection": "sel.json", "snapshot": "snap.json"}

STAGES = (
    Stage("validate", "Check an artifact under every rule of its type.", {"artifact": "snap.json"}),
    Stage("candidate", "Print the identity of the present tree.", {}, world=True),
    Stage("manifest", "Compile a YAML manifest.", {"yaml": "context.yaml"}, "m.json", world=True),
    Stage("index", "Read every source of a Manifest into a Graph.", {"manifest": "m.json"}, "g.json", world=True),
    Stage("query", "Compile a query of a YAML manifest for a Graph.", {"yaml": "context.yaml", "graph": "g.json"}, "q.json"),
    Stage("select", "Select what a Query takes of a Graph.", {"graph": "g.json", "query": "q.json"}, "sel.json"),
    Stage("snapshot", "Observe a Selection again, exactly.", {"graph": "g.json", "selection": "sel.json"}, "snap.json", world=True),
    Stage("compact", "Reduce a Snapshot to its extracts.", {"snapshot": "snap.json"}, "c.json", world=True),
    Stage("render", "Write a Compaction as a Markdown document.", {"snapshot": "snap.json", "compaction": "c.json"}, "context.md"),
    Stage("quality", "Count what a Snapshot of the whole chain holds.", _CHAIN, "report.json"),
    Stage("compare", "Say what came and went between two Snapshots.", {"base_snapshot": "old.json", "current_snapshot": "new.json"}),
)

STAGE_OPTIONS: Mapping[str, Sequence[Argument]] = {
    "candidate": (argument("--specification", "PATH", "also the digest of this file of the tree"),),
    "query": (
        argument("--query", "NAME", "which query (default)", default="default", dest="name"),
        path("--repository-root", "ROOT", "the top of the work tree (the one around the YAML)", dest="repository_root"),
    ),
    "compact": (
        path("--host-summary-proposal", "PROPOSAL", "bind an untrusted proposal to it", dest="proposal"),
        path("--graph", "GRAPH", "with --selection: demand the whole chain"),
        path("--selection", "SELECTION", "with --graph: demand the whole chain"),
    ),
    "render": (argument("--clearance", "S", f"{', '.join(CLEARANCES)}: leave out what is above", choices=CLEARANCES),),
}
"""Options of one stage, which its function in `fronts.calls` is given by name."""

_OUTPUT = path("--output", "FILE", "a new file; nothing is overwritten", required=True)
_WORLD = (
    path("--repository-root", "ROOT", "the top of the work tree", required=True),
    path("--owner-root", "ROOT", "where owner files lie; given exactly where there are some"),
    repeated("--exclude", "GLOB", "leave paths out of the tree; `untracked:` all untracked"),
    repeated("--limit", "NAME=N", ", ".join(LIMIT_NAMES), type=_limit),
)


def _run_stage(stage: Stage, options: Options, voice: Voice) -> int:
    """Call what does the stage in `fronts.calls`, and tell its result, which may come with notes."""
    from sdaqf_tasks.flow import report
    from sdaqf_tasks.fronts import calls

    given = [getattr(options, name) for name in stage.takes]
    if stage.world:
        given.append(calls.Places(options.repository_root, options.owner_root, exclude=options.exclude, limits=dict(options.limit)))
    if stage.output:
        given.append(options.output)
    names = [how.get("dest") or name.lstrip("-") for name, how in STAGE_OPTIONS.get(stage.name, ())]
    function = calls.render_document if stage.name == "render" else getattr(calls, stage.name)
    told = function(*given, **{name: getattr(options, name) for name in names})
    result, notes = told if isinstance(told, tuple) else (told, ())
    voice.aside(*notes)
    return voice.answer(result, report.key_values(result), as_json=options.json)


# ---- the grammar ----------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """The whole grammar; the help lists commands in the order of their tables."""
    every_day, when_needed = (", ".join(command.name for command in commands) for commands in (EVERY_DAY, WHEN_NEEDED))
    top = _Parser(
        prog="sdaqf",
        description="The lock file for what coding agents are told: exact, content-addressed context from a git repository.",
        epilog=f"Every day: {every_day}. When needed: {when_needed}. Memory: shard. Plumbing: context. "
        "`sdaqf COMMAND --help` teaches each. Example: sdaqf build",
    )
    top.add_argument("--version", action="version", version=f"sdaqf {__version__}", help="show the version and exit")
    commands = top.add_subparsers(metavar="COMMAND", required=True)
    for command in (*EVERY_DAY, *WHEN_NEEDED):
        _add(commands, command, ARGUMENTS[command.name])
    plumbing = commands.add_parser(
        "context",
        help="The stages on explicit files; no settings, no clock.",
        description="The stages on explicit files. They read no settings and no clock; each writes one new file.",
        epilog="In this order: manifest, index, query, select, snapshot, compact, render; quality and compare look at what was made. "
        "Example: sdaqf context validate snap.json",
    )
    stages = plumbing.add_subparsers(metavar="STAGE", required=True)
    for stage in STAGES:
        example = " ".join(stage.takes.values()) + " --repository-root ." * stage.world + f" --output {stage.output}" * bool(stage.output)
        taken = [path(name, name.upper(), f"a file, such as {file}") for name, file in stage.takes.items()]
        arguments = [*taken, *(_WORLD if stage.world else ()), *((_OUTPUT,) if stage.output else ()), *STAGE_OPTIONS.get(stage.name, ())]
        _add(stages, Command(stage.name, functools.partial(_run_stage, stage), stage.says, example.strip()), arguments)
    from sdaqf_tasks.fronts import shards

    memory = commands.add_parser(
        "shard",
        help="Explicit abstractions, with provenance and trust: an agent's reviewed memory.",
        description="A shard keeps abstractions over source text. Nothing in it is learned in the background: you stage, review, commit.",
        epilog="Begin with: init, begin, distil, review, commit, publish. Example: sdaqf shard status",
    )
    parts = memory.add_subparsers(metavar="COMMAND", required=True)
    for command, its_own in shards.TABLE:
        _add(parts, command, its_own)
    return top


def _add(parsers: Any, command: Command, arguments: Iterable[Argument]) -> None:
    parser = parsers.add_parser(command.name, help=command.says, description=command.says)
    parser.epilog = f"Example: {parser.prog} {command.example}".rstrip()
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout")
    parser.set_defaults(run=command.run, program=parser.prog)
    for name, how in arguments:
        parser.add_argument(*name.split(), **how)
