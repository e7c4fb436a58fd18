"""This module is the command line: it parses, calls, prints, and gives the exit code (DESIGN, The command line).

Exit codes: 0 done, 1 refused or findings, 2 usage or a precondition that was asked for, 3 defect, 4 done but the report
could not be written, 130 interrupted. Results go to stdout, everything else to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from sdaqf_tasks.errors import Reason, Refused, SdaqfError

DONE, REFUSED, USAGE, DEFECT, UNREPORTED, INTERRUPTED = 0, 1, 2, 3, 4, 130

STAGE_NAMES = ("manifest", "index", "query", "select", "snapshot", "compact", "render", "quality")


class _Usage(Exception):
    """The command line itself was wrong."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _Usage(f"{self.prog}: {message}\nTry: {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    try:
        options = parser().parse_args(given)
        code = options.run(options)
        sys.stdout.flush()
    except _Usage as error:
        return _told(
            USAGE, as_json, {"error": "usage", "operation": "", "reason": "usage", "where": "", "message": str(error)}, [str(error)]
        )
    except SdaqfError as error:
        from sdaqf_tasks.flow import report

        operation = " ".join(word for word in given[:2] if not word.startswith("-"))
        return _told(
            REFUSED,
            as_json,
            report.error_object(error, _operation(given)),
            report.refusal(error, f"sdaqf {report.plain(operation)}: refused"),
        )
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        return _unreported(error)
    except Exception:  # a defect keeps its traceback, and its own exit code
        traceback.print_exc()
        return DEFECT
    return int(code)


def _operation(given: Sequence[str]) -> str:
    words = [word for word in given if not word.startswith("-")]
    return words[1] if words[:1] == ["context"] and len(words) > 1 else words[0] if words else ""


def _told(code: int, as_json: bool, value: dict[str, Any], lines: Iterable[str]) -> int:
    try:
        if as_json:
            print_json(value)
        else:
            for line in lines:
                print(line, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError as error:
        _unreported(error)
    return code


def _unreported(error: OSError) -> int:
    """What was asked is done; only the telling failed. The streams go to nowhere, so that the interpreter's end is quiet."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    if isinstance(error, BrokenPipeError | ValueError) or error.filename is None:
        return UNREPORTED
    traceback.print_exception(error)
    return DEFECT


def print_json(value: Any) -> None:
    """One JSON document on stdout: sorted keys, two spaces, non-ASCII escaped, one final newline."""
    print(json.dumps(value, indent=2, sort_keys=True))


# ---- the grammar ----------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="sdaqf",
        description="The lock file for what coding agents are told: exact, content-addressed context from a git repository.",
        epilog="Every day: build, status. Plumbing: context, schema, gc. `sdaqf COMMAND --help` teaches each.",
    )
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    command = _command(commands, "build", _build, "Build every context of the project, or those named.", "sdaqf build context")
    command.add_argument("names", nargs="*", metavar="NAME[.QUERY]", help="a manifest, or one of its queries; all where none is named")
    command.add_argument("--until", choices=STAGE_NAMES, metavar="STAGE", help="stop after this stage: " + ", ".join(STAGE_NAMES))
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")
    command.add_argument("--wait", type=float, default=60, metavar="SECONDS", help="how long to wait for another run (60)")
    command.add_argument("-v", "--verbose", action="store_true", help="show every stage with its artifact id")

    command = _command(
        commands, "status", _status, "Say of every context whether it is current, and if not, why and what to do.", "sdaqf status"
    )
    command.add_argument("names", nargs="*", metavar="NAME", help="manifests; all where none is named")
    command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie (else SDAQF_OWNER_ROOT)")

    command = _command(commands, "gc", _gc, "Remove the objects that nothing points to any more.", "sdaqf gc")
    command.add_argument("--wait", type=float, default=60, metavar="SECONDS", help="how long to wait for another run (60)")

    command = _command(commands, "schema", _schema, "Print a JSON Schema.", "sdaqf schema manifest-yaml")
    command.add_argument("name", nargs="?", help="manifest-yaml, or an artifact type; all names where absent")

    _context(commands.add_parser("context", help="The stages on explicit files; no settings, no clock."))
    return top


def _command(commands: Any, name: str, run: Callable[[argparse.Namespace], int], says: str, example: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(name, help=says, description=says, epilog=f"Example: {example}")
    command.add_argument("--json", action="store_true", help="one JSON document on stdout")
    command.set_defaults(run=run)
    return command


def _context(context: argparse.ArgumentParser) -> None:
    context.description = "The stages on explicit files. They read no settings and no clock; each writes one new file."
    stages = context.add_subparsers(metavar="STAGE", required=True)

    def stage(
        name: str, says: str, positionals: str, run: Callable[[argparse.Namespace], Any], *, world: bool = False, output: str = ""
    ) -> Any:
        usage = (
            f"sdaqf context {name} {positionals.upper()}"
            + (" --repository-root ." if world else "")
            + (f" --output {output}" if output else "")
        )
        command = _command(stages, name, lambda options: _tell(run(options), options), says, usage)
        for positional in positionals.split():
            command.add_argument(positional, type=Path, metavar=positional.upper())
        if world:
            command.add_argument("--repository-root", type=Path, required=True, metavar="ROOT", help="the top of the work tree")
            command.add_argument("--owner-root", type=Path, metavar="ROOT", help="where owner files lie, exactly where there are some")
            command.add_argument(
                "--exclude", action="append", default=[], metavar="GLOB", help="leave paths out of the tree; `untracked:` all untracked"
            )
            command.add_argument(
                "--limit", action="append", default=[], metavar="NAME=N", help="files, file_bytes, total_bytes or git_seconds"
            )
        if output:
            command.add_argument("--output", type=Path, required=True, metavar="FILE", help="a new file; nothing is overwritten")
        return command

    stage("validate", "Check an artifact under every rule of its type.", "artifact", lambda o: _calls().validate(o.artifact))
    stage(
        "manifest",
        "Compile a YAML manifest.",
        "yaml",
        lambda o: _calls().manifest(o.yaml, _places(o), o.output),
        world=True,
        output="m.json",
    )
    stage(
        "index",
        "Read every source of a Manifest into a Graph.",
        "manifest",
        lambda o: _calls().index(o.manifest, _places(o), o.output),
        world=True,
        output="g.json",
    )
    command = stage("query", "Compile a query of a YAML manifest for a Graph.", "yaml graph", _query, output="q.json")
    command.add_argument("--query", default="default", metavar="NAME", help="which query (default)")
    command.add_argument(
        "--repository-root", type=Path, metavar="ROOT", help="whose commit time as_of is; the work tree around the YAML where absent"
    )
    stage(
        "select",
        "Select what a Query takes of a Graph.",
        "graph query",
        lambda o: _calls().select(o.graph, o.query, o.output),
        output="sel.json",
    )
    stage(
        "snapshot",
        "Observe a Selection again, exactly.",
        "graph selection",
        lambda o: _calls().snapshot(o.graph, o.selection, _places(o), o.output),
        world=True,
        output="snap.json",
    )
    stage(
        "compare",
        "Say what came and went between two Snapshots.",
        "base_snapshot current_snapshot",
        lambda o: _calls().compare(o.base_snapshot, o.current_snapshot),
    )
    command = stage("compact", "Reduce a Snapshot to its extracts.", "snapshot", _compact, world=True, output="c.json")
    command.add_argument("--host-summary-proposal", type=Path, metavar="PROPOSAL", help="bind an untrusted proposal to it")
    command.add_argument("--graph", type=Path, metavar="GRAPH", help="with --selection: demand the whole chain")
    command.add_argument("--selection", type=Path, metavar="SELECTION", help="with --graph: demand the whole chain")
    stage(
        "quality",
        "Count what a Snapshot holds; the whole chain is demanded.",
        "graph selection snapshot",
        lambda o: _calls().quality(o.graph, o.selection, o.snapshot, o.output),
        output="report.json",
    )
    command = stage("render", "Write a Compaction as a Markdown document.", "snapshot compaction", _render, output="context.md")
    command.add_argument("--clearance", metavar="S", help="public, repository-private or owner-private: leave out what is above")
    command = stage(
        "candidate", "Print the identity of the present tree.", "", lambda o: _calls().candidate(_places(o), o.specification), world=True
    )
    command.add_argument("--specification", metavar="PATH", help="also the digest of this file")


def _calls() -> Any:
    from sdaqf_tasks.fronts import calls

    return calls


def _places(options: argparse.Namespace) -> Any:
    limits: dict[str, float] = {}
    for given in options.limit:
        name, _, number = given.partition("=")
        if name not in ("files", "file_bytes", "total_bytes", "git_seconds") or not number.isdecimal():
            raise _Usage(f"--limit {given}: write files=N, file_bytes=N, total_bytes=N or git_seconds=N")
        limits[name] = int(number)
    return _calls().Places(options.repository_root, options.owner_root, exclude=options.exclude, limits=limits)


def _query(options: argparse.Namespace) -> Any:
    return _calls().query(options.yaml, options.graph, options.output, name=options.query, repository_root=options.repository_root)


def _compact(options: argparse.Namespace) -> Any:
    return _calls().compact(
        options.snapshot,
        _places(options),
        options.output,
        proposal=options.host_summary_proposal,
        graph=options.graph,
        selection=options.selection,
    )


def _render(options: argparse.Namespace) -> Any:
    from sdaqf_tasks.formats.records import Sensitivity

    known = {sensitivity.value: sensitivity for sensitivity in Sensitivity}
    if options.clearance is not None and options.clearance not in known:
        raise _Usage(f"--clearance {options.clearance}: write one of {', '.join(known)}")
    clearance = known[options.clearance] if options.clearance else None
    return _calls().render_document(options.snapshot, options.compaction, options.output, clearance=clearance)


def _tell(told: Any, options: argparse.Namespace) -> int:
    from sdaqf_tasks.flow import report

    result, notes = told if isinstance(told, tuple) else (told, ())
    for note in notes:
        print(report.plain(note), file=sys.stderr)
    if options.json:
        print_json(result)
    else:
        for line in report.key_values(result):
            print(line)
    return DONE


# ---- commands on a project ------------------------------------------------------------------------------------------


def _build(options: argparse.Namespace) -> int:
    from sdaqf_tasks.flow import build, report
    from sdaqf_tasks.flow.project import Project
    from sdaqf_tasks.flow.stages import Run

    began = time.monotonic()
    project = Project.find(Path.cwd(), owner_root=options.owner_root)
    _need_manifests(project)
    run = Run(project, wait=options.wait, report=lambda line: print(line, file=sys.stderr))
    try:
        width = max(len(manifest.name) for manifest in project.manifests) + 8
        shown: list[str] = []

        def done(result: build.Result) -> None:
            lines = [*report.chain_lines(result, width), *(report.stage_lines(result) if options.verbose else ())]
            if not options.json:
                print("\n".join(lines), flush=True)
            shown.extend(lines)

        results = build.build(run, options.names, until=options.until, done=done)
        blocked = [result for result in results if result.word == build.BLOCKED]
        if options.json:
            print_json(report.build_object(results, run.tree))
        else:
            seconds = f"{time.monotonic() - began:.1f} s"
            print(f"{report.totals(results)} · {report.tree_line(run.tree, run.repository.modified())} · {seconds}")
            print("\n".join([*report.clock_line(), *_next(project, results)]))
    finally:
        run.close()
    return REFUSED if blocked else DONE


def _next(project: Any, results: Sequence[Any]) -> list[str]:
    """The one line that a person needs next."""
    if blocked := next((result for result in results if result.error), None):
        return [f"Next: {blocked.error.todo}"]
    first = next((result for result in results if result.summary), None)
    return [f"Read it: {project.settings.build}/out/{first.chain.label}/context.md"] if first else []


def _status(options: argparse.Namespace) -> int:
    from sdaqf_tasks.flow import report, status
    from sdaqf_tasks.flow.project import Project
    from sdaqf_tasks.flow.stages import Run

    project = Project.find(Path.cwd(), owner_root=options.owner_root)
    _need_manifests(project)
    run = Run(project)
    try:
        found = status.status(run, options.names)
        if options.json:
            print_json(found)
        else:
            print("\n".join(report.status_lines(found, run.tree, run.repository.modified())))
    finally:
        run.close()
    return DONE


def _gc(options: argparse.Namespace) -> int:
    from sdaqf_tasks.flow.project import Project

    store = Project.find(Path.cwd()).store
    removed = size = 0
    if store.folder.is_dir():
        with store.lock(options.wait, lambda: print("waiting for another run", file=sys.stderr)):
            removed, size = store.collect()
    if options.json:
        print_json({"removed": removed, "bytes": size})
    else:
        print(f"{removed} objects removed, {size / 1_048_576:.1f} MiB")
    return DONE


def _schema(options: argparse.Namespace) -> int:
    from sdaqf_tasks.formats.schemas import schemas

    found = {name.removesuffix(".schema.json"): data for name, data in schemas().items()}
    if options.name is None:
        print_json(sorted(found)) if options.json else print("\n".join(sorted(found)))
        return DONE
    if options.name not in found:
        raise _Usage(f"sdaqf schema: there is no schema {options.name!r}; there are: {', '.join(sorted(found))}")
    sys.stdout.write(found[options.name].decode("ascii"))
    return DONE


def _need_manifests(project: Any) -> None:
    if not project.manifests:
        folders = ", ".join(project.settings.manifests)
        message = f"there is no manifest in {folders}"
        todo = "Write manifests/context.yaml with two lines:  sdaqf: 1  and  specification: README.md"
        raise Refused(Reason.UNKNOWN_NAME, message, todo=todo)
