"""This module is the grammar of the command line, and one function a command (DESIGN, The command line).

A command takes the parsed options and a voice, and returns the exit code. It imports what it needs when it runs.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

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
    """What was asked for is a text about the program itself."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(self.prog, message)

    def print_help(self, file: object = None) -> NoReturn:
        raise Answered(self.format_help())


class _Version(argparse.Action):
    def __call__(self, *_: object) -> NoReturn:
        from sdaqf_tasks import __version__

        raise Answered(f"sdaqf {__version__}")


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line, with `run` and `program`. Raises `Usage`, or `Answered` where help is asked for."""
    options, rest = parser().parse_known_args(arguments)
    if rest:
        raise Usage(options.program, f"there is no place for {' '.join(rest)}")
    return options


# ---- the grammar ----------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="sdaqf",
        description="The lock file for what coding agents are told: exact, content-addressed context from a git repository.",
        epilog="Every day: build, status. Plumbing: context, schema, gc. `sdaqf COMMAND --help` teaches each. Example: sdaqf build",
    )
    top.add_argument("--version", nargs=0, action=_Version, help="show the version and exit")
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    command = _command(commands, "build", _build, "Build every context of the project, or those named.", "sdaqf build context")
    command.add_argument("names", nargs="*", metavar="NAME[.QUERY]", help="a manifest, or one of its queries; all where none is named")
    command.add_argument("--until", choices=STAGE_NAMES, metavar="STAGE", help="stop after this stage: " + ", ".join(STAGE_NAMES))
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")
    command.add_argument("--wait", type=_seconds, default=60, metavar="SECONDS", help="how long to wait for another run (60)")
    command.add_argument("-v", "--verbose", action="store_true", help="show every stage with its artifact id")
    command.add_argument("--locked", action="store_true", help="refuse what no lock says was reviewed, and what is skipped")
    command.add_argument("--allow-skipped", action="store_true", help="with --locked: a skipped manifest is no failure")

    command = _command(commands, "check", _check, "Compare everything with what was reviewed; the gate for CI.", "sdaqf check --base main")
    command.add_argument("names", nargs="*", metavar="NAME", help="manifests; all where none is named")
    command.add_argument("--base", metavar="REF", help="also say what this change reviewed, since its merge base with REF")
    command.add_argument(
        "--fail-on", type=_fail_on, action="append", metavar="LEVEL|CODE", help="error (default), warning, notice, or a code"
    )
    command.add_argument("--exit-zero", action="store_true", help="findings do not fail")
    command.add_argument("--format", default="human", choices=FORMAT_NAMES, metavar="FORMAT", help=", ".join(FORMAT_NAMES))
    command.add_argument("--output", type=_output, action="append", default=[], metavar="FORMAT=PATH", help="also write a file")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(
        commands, "lock", _lock, "Say that the pinned texts were read: write their digests into the lock.", "sdaqf lock --only docs/a.md"
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="manifests; all where none is named")
    command.add_argument("--only", action="append", default=[], metavar="PATH|ALIAS", help="this source alone; may be repeated")
    command.add_argument("--moved", action="store_true", help="follow renamed files and moved lines, in the YAML and in the lock")
    command.add_argument("--observed", choices=["now"], help="with --only: the observation was made again")
    command.add_argument("--resolve", action="store_true", help="settle a merge conflict, entry by entry")
    command.add_argument("--check", action="store_true", help="write nothing; exit 1 where something would be written")
    command.add_argument("--dry-run", action="store_true", help="write nothing")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(
        commands, "status", _status, "Say of every context whether it is current, and if not, why and what to do.", "sdaqf status"
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="manifests; all where none is named")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(
        commands,
        "render",
        _render_context,
        "Print a context as it was built, or keep a block of links to it in a file that agents read.",
        "sdaqf render context --into AGENTS.md",
    )
    command.add_argument("name", metavar="NAME[.QUERY]", help="a manifest, or one of its queries")
    command.add_argument(
        "--clearance", default=CLEARANCES[1], choices=CLEARANCES, metavar="S", help=f"{', '.join(CLEARANCES)}: who reads it"
    )
    command.add_argument("--max-bytes", type=_size, metavar="SIZE", help="leave out whole extracts, the last by rank first")
    command.add_argument("--into", type=Path, metavar="FILE", help="keep a marked block in this Markdown file; nothing else in it changes")
    command.add_argument("--max-file", type=_size, metavar="SIZE", help="with --into: what the file may have (32KiB)")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(
        commands, "explain", _explain, "Say why sources are in a context or out of it, and what would let one in.", "sdaqf explain context"
    )
    command.add_argument("name", metavar="NAME[.QUERY]", help="a manifest, or one of its queries")
    command.add_argument("source", nargs="?", metavar="SOURCE", help="an alias, a path, or the id of a node or source; all where absent")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(commands, "diff", _diff, "Say what one context tells and another does not.", "sdaqf diff --since HEAD~5 context")
    command.add_argument("names", nargs="*", metavar="A B", help="two Snapshots: files, ids, or NAME[.QUERY]; with --since, contexts")
    command.add_argument("--since", metavar="REF", help="compare with the context as it was at that commit")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(commands, "rule", _rule, "Explain a finding or a reason.", "sdaqf rule byte-budget")
    command.add_argument("code", nargs="?", metavar="CODE", help="a finding or a reason; all where absent")

    command = _command(commands, "doctor", _doctor, "Name what is damaged, left over or in the way.", "sdaqf doctor --repair")
    command.add_argument("--repair", action="store_true", help="remove it from the build folder; the next build makes it again")
    command.add_argument("--wait", type=_seconds, default=60, metavar="SECONDS", help="how long to wait for another run (60)")

    command = _command(commands, "gc", _gc, "Remove the objects that nothing points to any more.", "sdaqf gc")
    command.add_argument("--wait", type=_seconds, default=60, metavar="SECONDS", help="how long to wait for another run (60)")

    command = _command(commands, "schema", _schema, "Print a JSON Schema.", "sdaqf schema manifest-yaml")
    command.add_argument("name", nargs="?", metavar="NAME", help="manifest-yaml, or an artifact type; all names where absent")

    command = _command(commands, "init", _init, "Propose a first manifest for this repository, and write it.", "sdaqf init --agents claude")
    command.add_argument("--agents", type=_agents, default=[], metavar="TOOLS", help="also the settings of claude, codex, or claude,codex")
    command.add_argument("--doit", action="store_true", help="show the two lines for a dodo.py")
    command.add_argument("--yes", action="store_true", help="write without asking")

    stages = commands.add_parser(
        "context",
        help="The stages on explicit files; no settings, no clock.",
        description="The stages on explicit files. They read no settings and no clock; each writes one new file.",
        epilog="In this order: manifest, index, query, select, snapshot, compact, render; quality and compare look at what was made. "
        "Example: sdaqf context validate snap.json",
    ).add_subparsers(metavar="STAGE", required=True)
    for stage in STAGES:
        _stage(stages, stage)
    return top


def _command(commands: Any, name: str, run: Callable[[Options, Voice], int], says: str, example: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=says, description=says, epilog=f"Example: {example}")
    command.add_argument("--json", action="store_true", help="one JSON document on stdout")
    command.set_defaults(run=run, program=command.prog)
    return command


class Stage(NamedTuple):
    """A command on explicit files: its positionals by name and example, whether it looks at a tree, the example of its output."""

    name: str
    says: str
    takes: dict[str, str]
    run: Callable[[Options], Any]
    world: bool = False
    output: str = ""
    options: tuple[tuple[str, dict[str, Any]], ...] = ()


def _stage(stages: Any, stage: Stage) -> None:
    def run(options: Options, voice: Voice) -> int:
        return _told(stage.run(options), options, voice)

    example = ["sdaqf context", stage.name, *stage.takes.values()]
    example += ["--repository-root ."] if stage.world else []
    example += [f"--output {stage.output}"] if stage.output else []
    command = _command(stages, stage.name, run, stage.says, " ".join(example))
    for name, file in stage.takes.items():
        command.add_argument(name, type=Path, metavar=name.upper(), help=f"a file, such as {file}")
    if stage.world:
        command.add_argument("--repository-root", type=Path, required=True, metavar="ROOT", help="the top of the work tree")
        command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie; given exactly where there are some")
        command.add_argument(
            "--exclude", action="append", default=[], metavar="GLOB", help="leave paths out of the tree; `untracked:` all untracked"
        )
        command.add_argument("--limit", type=_limit, action="append", default=[], metavar="NAME=N", help=", ".join(LIMIT_NAMES))
    if stage.output:
        command.add_argument("--output", type=Path, required=True, metavar="FILE", help="a new file; nothing is overwritten")
    for name, option in stage.options:
        command.add_argument(name, **option)


def _output(text: str) -> tuple[str, Path]:
    from sdaqf_tasks.fronts.findings import parse_output

    return parse_output(text)


def _fail_on(text: str) -> str:
    from sdaqf_tasks.fronts.findings import parse_fail_on

    return parse_fail_on(text)


def _check(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts.review import run_check

    return run_check(options, voice)


def _lock(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts.review import run_lock

    return run_lock(options, voice)


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


def _limit(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in LIMIT_NAMES or not (number.isascii() and number.isdecimal() and len(number) <= 18):
        raise argparse.ArgumentTypeError(f"write NAME=N, where NAME is one of {', '.join(LIMIT_NAMES)}")
    return name, int(number)


# ---- the stages on explicit files -----------------------------------------------------------------------------------


def _calls() -> Any:
    from sdaqf_tasks.fronts import calls

    return calls


def _places(options: Options) -> Any:
    return _calls().Places(options.repository_root, options.owner_root, exclude=options.exclude, limits=dict(options.limit))


def _query(options: Options) -> Any:
    return _calls().query(options.yaml, options.graph, options.output, name=options.query, repository_root=options.repository_root)


def _compact(options: Options) -> Any:
    return _calls().compact(
        options.snapshot,
        _places(options),
        options.output,
        proposal=options.host_summary_proposal,
        graph=options.graph,
        selection=options.selection,
    )


def _render(options: Options) -> Any:
    from sdaqf_tasks.formats.records import Sensitivity

    known = {sensitivity.value: sensitivity for sensitivity in Sensitivity}
    if options.clearance is not None and options.clearance not in known:
        raise Usage(options.program, f"argument --clearance: write one of {', '.join(known)}")
    clearance = known[options.clearance] if options.clearance else None
    return _calls().render_document(options.snapshot, options.compaction, options.output, clearance=clearance)


def _told(told: Any, options: Options, voice: Voice) -> int:
    """Tell a result, which may come with notes."""
    from sdaqf_tasks.flow import report

    result, notes = told if isinstance(told, tuple) else (told, ())
    voice.aside(*notes)
    if options.json:
        voice.say_json(result)
    else:
        voice.say(*report.key_values(result))
    return Exit.DONE


STAGES = (
    Stage(
        "validate",
        "Check an artifact under every rule of its type.",
        {"artifact": "snap.json"},
        lambda o: _calls().validate(o.artifact),
    ),
    Stage(
        "candidate",
        "Print the identity of the present tree.",
        {},
        lambda o: _calls().candidate(_places(o), o.specification),
        world=True,
        options=(("--specification", {"metavar": "PATH", "help": "also the digest of this file of the tree"}),),
    ),
    Stage(
        "manifest",
        "Compile a YAML manifest.",
        {"yaml": "manifests/context.yaml"},
        lambda o: _calls().manifest(o.yaml, _places(o), o.output),
        world=True,
        output="m.json",
    ),
    Stage(
        "index",
        "Read every source of a Manifest into a Graph.",
        {"manifest": "m.json"},
        lambda o: _calls().index(o.manifest, _places(o), o.output),
        world=True,
        output="g.json",
    ),
    Stage(
        "query",
        "Compile a query of a YAML manifest for a Graph.",
        {"yaml": "manifests/context.yaml", "graph": "g.json"},
        _query,
        output="q.json",
        options=(
            ("--query", {"default": "default", "metavar": "NAME", "help": "which query (default)"}),
            (
                "--repository-root",
                {"type": Path, "metavar": "ROOT", "help": "the top of the work tree (the one around the YAML)"},
            ),
        ),
    ),
    Stage(
        "select",
        "Select what a Query takes of a Graph.",
        {"graph": "g.json", "query": "q.json"},
        lambda o: _calls().select(o.graph, o.query, o.output),
        output="sel.json",
    ),
    Stage(
        "snapshot",
        "Observe a Selection again, exactly.",
        {"graph": "g.json", "selection": "sel.json"},
        lambda o: _calls().snapshot(o.graph, o.selection, _places(o), o.output),
        world=True,
        output="snap.json",
    ),
    Stage(
        "compact",
        "Reduce a Snapshot to its extracts.",
        {"snapshot": "snap.json"},
        _compact,
        world=True,
        output="c.json",
        options=(
            ("--host-summary-proposal", {"type": Path, "metavar": "PROPOSAL", "help": "bind an untrusted proposal to it"}),
            ("--graph", {"type": Path, "metavar": "GRAPH", "help": "with --selection: demand the whole chain"}),
            ("--selection", {"type": Path, "metavar": "SELECTION", "help": "with --graph: demand the whole chain"}),
        ),
    ),
    Stage(
        "render",
        "Write a Compaction as a Markdown document.",
        {"snapshot": "snap.json", "compaction": "c.json"},
        _render,
        output="context.md",
        options=(("--clearance", {"metavar": "S", "help": "public, repository-private or owner-private: leave out what is above"}),),
    ),
    Stage(
        "quality",
        "Count what a Snapshot holds; the whole chain is demanded.",
        {"graph": "g.json", "selection": "sel.json", "snapshot": "snap.json"},
        lambda o: _calls().quality(o.graph, o.selection, o.snapshot, o.output),
        output="report.json",
    ),
    Stage(
        "compare",
        "Say what came and went between two Snapshots.",
        {"base_snapshot": "old.json", "current_snapshot": "new.json"},
        lambda o: _calls().compare(o.base_snapshot, o.current_snapshot),
    ),
)


# ---- commands on a project ------------------------------------------------------------------------------------------


def _project(owner_root: Path | None = None) -> Any:
    from sdaqf_tasks.flow.project import Project

    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise Refused(Reason.NOT_A_REPOSITORY, "the working directory is gone", todo="Change to a folder that is there.") from None
    return Project.find(here, owner_root=owner_root)


def _build(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow import build, report
    from sdaqf_tasks.flow.run import Run

    began = time.monotonic()
    project = _project(options.owner_root)
    _need_manifests(project)
    run = Run(project, wait=options.wait, report=voice.aside, locked=options.locked)
    try:
        width = max(len(manifest.name) for manifest in project.manifests) + 8

        def done(result: build.Result) -> None:
            if not options.json:
                voice.say(*report.chain_lines(result, width), *(report.stage_lines(result) if options.verbose else ()))

        results = build.build(run, options.names, until=options.until, done=done)
        if options.json:
            voice.say_json(report.build_object(results, run.tree))
        else:
            seconds = f"{time.monotonic() - began:.1f} s"
            voice.say(
                f"{report.totals(results)} · {report.tree_line(run.tree, run.repository.modified())} · {seconds}",
                *report.clock_line(),
                *_next(project, results),
            )
    finally:
        run.close()
    skipped = [result.chain.label for result in results if result.word == build.SKIPPED]
    if skipped and options.locked and not options.allow_skipped:
        voice.aside(f"{', '.join(skipped)}: skipped, and --locked refuses that: give --owner-root, or --allow-skipped")
        return Exit.REFUSED
    return Exit.REFUSED if any(result.word == build.BLOCKED for result in results) else Exit.DONE


def _next(project: Any, results: Sequence[Any]) -> list[str]:
    """The one line that a person needs next."""
    if blocked := next((result for result in results if result.error), None):
        return [f"Next: {blocked.error.todo}"]
    first = next((result for result in results if result.summary), None)
    return [f"Read it: {project.settings.build}/out/{first.chain.label}/context.md"] if first else []


def _status(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow import report, status
    from sdaqf_tasks.flow.run import Run

    project = _project(options.owner_root)
    _need_manifests(project)
    run = Run(project)
    try:
        found = status.status(run, options.names)
        if options.json:
            voice.say_json(found)
        else:
            voice.say(*report.status_lines(found, run.tree, run.repository.modified()))
    finally:
        run.close()
    return Exit.DONE


def _render_context(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import rendering

    if options.into and options.max_bytes:
        raise Usage(options.program, "--max-bytes is for what is printed; a block has at most 4 KiB")
    if options.max_file and not options.into:
        raise Usage(options.program, "--max-file goes with --into")
    return rendering.run(_project(options.owner_root), options, voice)


def _explain(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.run import Run
    from sdaqf_tasks.fronts import answers, questions

    run = Run(_project(options.owner_root))
    try:
        found = questions.explain(run, options.name, options.source)
    finally:
        run.close()
    voice.say_json(found) if options.json else voice.say(*answers.explanation(found))
    return Exit.DONE


def _diff(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.flow.run import Run
    from sdaqf_tasks.fronts import answers, comparison

    if options.since is None and len(options.names) != 2:
        raise Usage(options.program, "give two of files, ids and NAME[.QUERY]; or --since REF")
    run = None
    try:
        run = Run(_project(options.owner_root))
    except Refused as error:
        if error.reason is not Reason.NOT_A_REPOSITORY or options.since is not None:
            raise
    try:
        commit = run.repository.resolve(options.since) if run and options.since is not None else None
        if options.since is not None and commit is None:
            raise Usage(options.program, f"this clone has no commit {options.since[:80]!a}; where it is shallow: git fetch --deepen 50")
        found = comparison.since(run, commit, options.names) if run and commit else comparison.diff(run, *options.names)
    finally:
        if run:
            run.close()
    voice.say_json(found) if options.json else voice.say(*answers.differences(found))
    return Exit.REFUSED if any(entry["error"] for entry in found["contexts"]) else Exit.DONE


def _rule(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import answers, questions

    found = questions.rule(options.code)
    voice.say_json(found) if options.json else voice.say(*answers.rules(found, briefly=options.code is None))
    return Exit.DONE


def _doctor(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import doctor

    found = doctor.look_over(_project(), repair=options.repair, wait=options.wait)
    voice.say_json(found) if options.json else voice.say(*doctor.lines(found))
    return Exit.REFUSED if found["defects"] else Exit.DONE


def _gc(options: Options, voice: Voice) -> int:
    store = _project().store
    removed = size = 0
    if store.folder.is_dir():
        with store.lock(options.wait, lambda: voice.aside("waiting for another run")):
            removed, size = store.collect()
    if options.json:
        voice.say_json({"removed": removed, "bytes": size})
    else:
        voice.say(f"{removed} objects removed, {size / 1_048_576:.1f} MiB")
    return Exit.DONE


def _schema(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.formats.schemas import schemas

    found = {name.removesuffix(".schema.json"): data for name, data in schemas().items()}
    if options.name is not None and options.name not in found:
        raise Usage(options.program, f"there is no schema {options.name!r}; there are: {', '.join(sorted(found))}")
    if options.name is not None:
        voice.say(*found[options.name].decode("ascii").splitlines())
    elif options.json:
        voice.say_json(sorted(found))
    else:
        voice.say(*sorted(found))
    return Exit.DONE


def _init(options: Options, voice: Voice) -> int:
    from sdaqf_tasks.fronts import init

    ask = init.ask if not options.json and sys.stdin.isatty() and sys.stdout.isatty() else None
    return init.run(_project(), voice, agents=options.agents, yes=options.yes, doit=options.doit, as_json=options.json, ask=ask)


def _need_manifests(project: Any) -> None:
    if not project.manifests:
        folders = ", ".join(project.settings.manifests)
        message = f"there is no manifest in {folders}"
        todo = "Write manifests/context.yaml with two lines:  sdaqf: 1  and  specification: README.md"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=todo)
