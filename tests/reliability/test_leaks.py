"""What the program writes tells nobody where it ran, who ran it, or what is in the environment.

Every byte of a set of commands is searched: artifacts, refs, receipts, copies, locks, doit's state, both streams, refusals.
"""

from __future__ import annotations

import getpass
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.flow.workshop import FILES, Workshop
from tests.fronts.run import SDAQF

TOKEN = "ghp_" + "0Zq7" * 9
USER, HOST = "wilhelmina", "machine-under-the-desk"

DODO = "import sdaqf_tasks\nDOIT_CONFIG = sdaqf_tasks.doit_config()\ncontext = sdaqf_tasks.pipeline()\n"

COMMANDS = (
    "build",
    "build -v --json",
    "status",
    "status --json",
    "lock",
    "check",
    "check --format sarif --output junit=report.xml",
    "build --locked",
    "explain context",
    "explain context docs/spec.md --json",
    "diff context context.review",
    "gc",
    "doctor",
    "doctor --json",
    "render context",
    "render context --into AGENTS.md",
    "context candidate --repository-root .",
    "context candidate --repository-root {top}",
    "context manifest {top}/manifests/context.yaml --repository-root {top} --output {out}/m.json",
    "context index {out}/m.json --repository-root . --output {out}/g.json",
    "context query {top}/manifests/context.yaml {out}/g.json --output {out}/q.json",
    "context select {out}/g.json {out}/q.json --output {out}/s.json --json",
    "context snapshot {out}/g.json {out}/s.json --repository-root . --output {out}/n.json",
    "context compact {out}/n.json --repository-root . --output {out}/c.json",
    "context render {out}/n.json {out}/c.json --output {out}/c.md",
    # refusals
    "build nothing",
    "context select {out}/g.json {out}/q.json --output {out}/s.json",
    "context validate {out}/none.json --json",
    "context validate {top}/docs/spec.md",
    "context index {out}/m.json --repository-root {top}/docs --output {out}/x.json",
    "context index {out}/m.json --repository-root {out}/none --output {out}/x.json --json",
    "context index {out}/m.json --repository-root {top} --output {out}/none/x.json",
    "context query {out}/m.json {out}/g.json --output {out}/q2.json",
    "build {top}/x",
    "diff --since {top}/x context",
    "--unknown={top}",
    "context select {top}",
    "init",
    "init --yes --json",
)


def everything(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(".git/"):
            yield name, path.read_bytes()


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Mapping[str, bytes], list[str], Workshop]:
    """All that was written, the words that must not be in it, and the project."""
    tmp_path = tmp_path_factory.mktemp("leaks")
    top, home, scratch, out = (tmp_path / USER / name for name in ("project-of-hers", "home-of-hers", "scratch-of-hers", "out-of-hers"))
    for folder in (home, scratch, out):
        folder.mkdir(parents=True)
    shop = Workshop(top, {**FILES, "dodo.py": DODO, "AGENTS.md": "# Agents\n"})
    shop.write(".git/info/exclude", "report.xml\n__pycache__\n")
    environment = shop.environment(
        HOME=str(home),
        TMPDIR=str(scratch),
        USER=USER,
        LOGNAME=USER,
        HOSTNAME=HOST,
        GITHUB_TOKEN=TOKEN,
        SDAQF_TOKEN=TOKEN,
        EMAIL=f"{USER}@{HOST}",
    )
    found: dict[str, bytes] = {}
    for command in COMMANDS:
        words = [word.format(top=top, out=out) for word in command.split()]
        ended = subprocess.run([SDAQF, *words], cwd=top, env=environment, capture_output=True, check=False, timeout=60)
        assert ended.returncode in (0, 1, 2), (command, ended)
        found |= {f"stdout of {command}": ended.stdout, f"stderr of {command}": ended.stderr}
    for words in (["list"], ["snapshot"], ["snapshot"], ["nothing"]):
        ended = subprocess.run(
            [sys.executable, "-m", "doit", *words], cwd=top, env=environment, capture_output=True, check=False, timeout=60
        )
        found |= {f"stdout of doit {words}": ended.stdout, f"stderr of doit {words}": ended.stderr}
    shop.manifest("sdaqf: 1\nspecification: docs/spec.md\nsources: {x: }\n")
    shop.write("sdaqf.toml", "build = 3\n")
    for number, words in enumerate((["build"], ["check"], ["status"], ["doctor"], ["gc"])):
        if number == 3:
            (top / "sdaqf.toml").unlink()
        ended = subprocess.run([SDAQF, *words], cwd=top, env=environment, capture_output=True, check=False, timeout=60)
        found |= {f"stdout of {words} (broken)": ended.stdout, f"stderr of {words} (broken)": ended.stderr}
    found |= dict(everything(top)) | {f"out/{name}": data for name, data in everything(out)}
    places = [str(path) for path in (tmp_path.parent.parent, tmp_path, top, home, scratch, out, Path.home(), Path(sys.executable).parent)]
    words = [*places, USER, HOST, TOKEN, socket.gethostname(), "project-of-hers", "home-of-hers", "scratch-of-hers", "out-of-hers"]
    return found, [word for word in words if word not in ("/", "")], shop


def test_no_place_no_name_and_no_token(told: tuple[Mapping[str, bytes], list[str], Workshop]) -> None:
    found, words, shop = told
    assert {".sdaqf/build/doit.json", "manifests/context.lock", "report.xml", "out/c.md", "AGENTS.md"} <= found.keys()
    assert sum(map(len, found.values())) > 50_000
    leaks = [(name, word) for name, data in found.items() for word in words if word.encode() in data]
    assert leaks == []
    inode = str((shop.path / "docs" / "spec.md").stat().st_ino).encode()
    assert [name for name, data in found.items() if re.search(rb"\b%b\b" % inode, data)] == []


def test_the_user_who_runs_the_tests_is_not_named(told: tuple[Mapping[str, bytes], list[str], Workshop]) -> None:
    user = getpass.getuser().encode()
    named = [name for name, data in told[0].items() if re.search(rb"\b%b\b" % re.escape(user), data)]
    assert [name for name in named if user not in (b"root", b"user", b"runner")] == [], "the name of a person"


def test_a_temporary_folder_that_cannot_be_used_is_not_named(shop: Workshop) -> None:
    """Python's own message lists the folders that it tried."""
    code = (
        "import tempfile, sys\n"
        "def none(*_): raise FileNotFoundError(2, 'No usable temporary directory found in /home/wilhelmina')\n"
        "tempfile.gettempdir = none\n"
        "from sdaqf_tasks.__main__ import main\n"
        "sys.argv = ['sdaqf', 'build']\n"
        "sys.exit(main())\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=shop.path, env=shop.environment(), capture_output=True, check=False, timeout=60
    )
    assert (ended.returncode, b"Traceback" in ended.stderr, b"wilhelmina" in ended.stderr) == (1, False, False), ended
