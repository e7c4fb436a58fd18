"""This module keeps the pages true: it runs what they show, and writes what is generated.

    python -m scripts.pages            write what has changed
    python -m scripts.pages --check    say what would be written, and end with 1

A comment such as `<!-- scratch: payments -->` begins a scratch repository: a copy of `examples/payments`, committed, or
`empty`. Below it, a fence such as ```` ```yaml file=manifests/context.yaml ```` writes that file, and the lines of a
`console` fence that begin with `$ ` are run, in order, by one bash; `> ` continues a command. Dates and names are fixed,
so that ids repeat. Where a page differs in nothing but ids, digests, times and commits, it is left as it is.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sdaqf_tasks.errors import Finding, Reason

TOP = Path(__file__).resolve().parents[1]
ERRORS = "docs/errors.md"
SAMPLED = ("README.md", "docs/manifests.md", "docs/commands.md", "docs/lock.md", "docs/shards.md")
EMPTY = "empty"

_PART = re.compile(r"<!-- scratch: (?P<scratch>[a-z-]+) -->\n|^```(?P<info>[^`\n]*)\n(?P<body>.*?)^```\n", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"\bfile=(\S+)")
_ENDS = "--- the end of what command {} printed ---"
_MASKED = (
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{7,64}\b"), "#"),
    (re.compile(r"\b[0-9A-F]{64}\b|(?<=REPLAY-)[0-9A-F]{6}\b"), "#"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d+\.\d s\b"), "SECONDS"),
)


def pages() -> dict[str, str]:
    """Every page that is generated or holds samples, as it should read now, by its path from the top."""
    found = {ERRORS: errors_page()}
    for name in SAMPLED:
        found[name] = refreshed((TOP / name).read_text("utf-8"))
    return found


def stale() -> dict[str, str]:
    """The pages that say something else than they should."""
    found = {}
    for name, wanted in pages().items():
        path = TOP / name
        if not path.exists() or masked(path.read_text("utf-8")) != masked(wanted):
            found[name] = wanted
    return found


def masked(text: str) -> str:
    """`text` without ids, digests, commits, times and durations."""
    for pattern, mask in _MASKED:
        text = pattern.sub(mask, text)
    return text


# ---- errors.md ------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """The page of all reasons and findings, from the tables in `errors.py`."""
    reasons = [f"| `{reason.value}` | {_cell(reason.when)} | {_cell(reason.todo)} | {reason.status} |" for reason in Reason]
    found = [f"| `{each.value}` | {each.severity.value} | {_cell(each.means)} | {_cell(each.settles)} |" for each in Finding]
    return "\n".join([_ERRORS_HEAD, *reasons, _FINDINGS_HEAD, *found, ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_ERRORS_HEAD = """\
# Every way to be refused, and every finding

This page is generated from the tables in `sdaqf_tasks/errors.py`: `doit docs` writes it.

A refusal has a *reason* from the table below, a *place* (a member such as `content/sources/3/locator/path`, or
`file:line:column`) and a sentence. People read three lines: what was refused, why, what to do. With `--json` it is one object:

```json
{"error": "context-contract-invalid", "operation": "index", "reason": "digest-mismatch", "where": "content/sources/3", "message": "…"}
```

The same identifiers stand in artifacts as the reasons of exclusions. A refusal ends the program with 1. Wrong usage ends it
with 2 and the reason `usage`; a defect of the program with 3 and a traceback; a result that could not be reported with 4; an
interruption with 130. The status is what a front that speaks HTTP answers with.

`sdaqf rule CODE` explains one of them.

| Reason | When | What to do | Status |
|---|---|---|---|"""

_FINDINGS_HEAD = """
## Findings

`sdaqf check` compares a project with what was reviewed, and reports findings. The severity is the usual one; `[policy]` in the
settings changes it. Findings of severity `error` end the program with 1.

| Finding | Severity | Means | Settled by |
|---|---|---|---|"""


# ---- samples --------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A scratch marker or a fence of a page, and where it stands."""

    scratch: str | None
    info: str
    body: str
    start: int
    end: int


def parts(page: str) -> Iterator[Part]:
    for found in _PART.finditer(page):
        yield Part(found["scratch"], found["info"] or "", found["body"] or "", found.start("body"), found.end("body"))


def refreshed(page: str) -> str:
    """The page with what its commands print now; a fence in which nothing but ids and times differs stays as it is."""
    pieces, done = [], 0
    for group in _sessions(page):
        for part, printed in _run(group).items():
            pieces += [page[done : part.start], part.body if masked(part.body) == masked(printed) else printed]
            done = part.end
    return "".join([*pieces, page[done:]])


def commands(body: str) -> Iterator[str]:
    """The commands of a `console` fence."""
    lines: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            if lines:
                yield "\n".join(lines)
            lines = [line[2:]]
        elif lines and line.startswith("> "):
            lines.append(line[2:])
        elif lines:
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _sessions(page: str) -> Iterator[list[Part]]:
    """The parts of a page from one scratch marker to the next. What stands before the first is not run."""
    session: list[Part] = []
    for part in parts(page):
        if part.scratch:
            if session:
                yield session
            session = [part]
        elif session and (part.info == "console" or _FILE.search(part.info)):
            session.append(part)
    if session:
        yield session


def _run(session: list[Part]) -> dict[Part, str]:
    """What each `console` part of a session would read, run in a new scratch repository."""
    script: list[str] = []
    shown: list[tuple[Part, str]] = []
    for part in session[1:]:
        if name := _FILE.search(part.info):
            script += [f'mkdir -p "$(dirname {name[1]})" && printf %s {shlex.quote(part.body)} > {name[1]}']
            continue
        for command in commands(part.body):
            script += [command, f"printf '\\n%s\\n' {shlex.quote(_ENDS.format(len(shown)))}"]
            shown.append((part, command))
    with tempfile.TemporaryDirectory(prefix="sdaqf-pages-") as folder:
        work = scratch(Path(folder).resolve(), str(session[0].scratch))
        answer = bash("exec 2>&1\n" + "\n".join(script), work)
    printed = dict.fromkeys((part for part in session if part.info == "console"), "")
    for number, (part, command) in enumerate(shown):
        output, _, answer = answer.partition(f"\n{_ENDS.format(number)}\n")
        printed[part] += "$ " + command.replace("\n", "\n> ") + "\n" + (output.rstrip("\n") + "\n" if output.strip() else "")
    return printed


def scratch(folder: Path, kind: str) -> Path:
    """A new repository in `folder`: empty, or a copy of the example `kind`, committed."""
    work = folder / ("project" if kind == EMPTY else kind)
    begin = "git init -q -b main"
    if kind == EMPTY:
        work.mkdir()
    else:
        for example in (TOP / "examples").glob(f"{kind}*"):
            _copy(example, folder / example.name)
        begin += " && git add . && git commit -q -m Payments"
    bash(begin, work)
    return work


def _copy(folder: Path, target: Path) -> None:
    """The files of an example that git would have; nothing that was built in it."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not {".sdaqf", "__pycache__", ".git"} & set(path.relative_to(folder).parts):
            (target / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(folder)).write_bytes(path.read_bytes())


def bash(script: str, work: Path) -> str:
    """What a script prints in the folder `work`, with fixed dates, names and locale, and a home of its own beside it."""
    home = work.parent / "home"
    home.mkdir(exist_ok=True)
    when = "2026-11-05T12:00:00Z"
    environment = {
        "PATH": os.pathsep.join([os.fspath(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "HOME": os.fspath(home),
        "COLUMNS": "120",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in _IDENTITY | {("DATE", when)}},
    }
    shell = ["bash", "-c", script]
    done = subprocess.run(shell, cwd=work, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120, check=False)
    return done.stdout.decode("utf-8")


_IDENTITY = {("NAME", "Example"), ("EMAIL", "example@example.org")}


def main() -> int:
    found = stale()
    for name, wanted in found.items():
        if "--check" in sys.argv[1:]:
            print(f"{name} is not as it would be written: run `doit docs`")
        else:
            (TOP / name).write_text(wanted, "utf-8")
            print(f"wrote {name}")
    return 1 if found and "--check" in sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
