"""The validator M5-CONTEXT-INTEGRITY passes on what is published, and on nothing else (FORMAT 13)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts import run_local_gate, validate_m5_context
from scripts.validate_m5_context import FOLDER, PASS, REGRESSIONS, RESULT, SCENARIOS, SUITE
from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.quality import quality
from sdaqf_tasks.context.select import select
from sdaqf_tasks.context.snapshot import snapshot
from sdaqf_tasks.disk.files import Root
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import TYPES, Query, parse, render, seal
from sdaqf_tasks.formats.records import Sensitivity
from tests.builders import REMOVED, changed, resealed

TOP = run_local_gate.TOP
SCRIPT = "scripts/validate_m5_context.py"
REPORT = f"{FOLDER}/context-quality-report.json"
CASES = range(7)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the validator reads, copied; the working directory of the test."""
    for name in (FOLDER, "evals", "schemas"):
        shutil.copytree(TOP / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failure(capsys: pytest.CaptureFixture[str]) -> str:
    """What a run on the tree says that fails: one line, and no other."""
    assert validate_m5_context.main() == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    (line,) = printed.err.splitlines()
    return line.removeprefix("FAIL: M5-CONTEXT-INTEGRITY: ")


def rewrite(file: str, path: str, new: Any) -> None:
    """Replace a member of a JSON file, and write it as it is published."""
    at = Path(file)
    at.write_bytes(canonical.render(changed(json.loads(at.read_bytes()), path, new)))


# ---- it passes


@pytest.mark.parametrize("environment", [{}, {"PATH": "/nowhere"}], ids=["as it is", "without git"])
def test_the_gate_prints_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    command = [sys.executable, str(TOP / "scripts/run_local_gate.py"), "script", SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, PASS + "\n", "")


def test_doit_runs_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "doit", "--db-file", str(tmp_path / "db"), "validate"]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert PASS in done.stdout.splitlines()


def test_a_copy_passes_and_stays_as_it_is(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert validate_m5_context.main() == 0
    assert capsys.readouterr() == (PASS + "\n", "")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_what_the_line_counts_is_executed() -> None:
    assert (len(TYPES), len(SCENARIOS), len(REGRESSIONS)) == (8, 7, 12)


# ---- the suite and its results


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("file", "member", "new"),
    [
        (SUITE, "expected", "something-else"),
        (SUITE, "expected", ""),
        (SUITE, "expected", None),
        (SUITE, "case_id", "M5-CTX-OTHER"),
        (RESULT, "observed", "something-else"),
        (RESULT, "observed", 100),
        (RESULT, "passed", False),
        (RESULT, "passed", 1),
        (RESULT, "passed", "true"),
        (RESULT, "case_id", "M5-CTX-OTHER"),
        *(
            (file, member, REMOVED)
            for file, members in ((SUITE, "case_id expected"), (RESULT, "case_id observed passed"))
            for member in members.split()
        ),
    ],
)
@pytest.mark.usefixtures("tree")
def test_a_flipped_member_of_a_case_fails(case: int, file: str, member: str, new: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(file, f"cases/{case}/{member}", new)
    assert file in failure(capsys)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("tree")
def test_what_suite_and_result_agree_on_is_no_evidence(case: int, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(SUITE, f"cases/{case}/expected", "something-else")
    rewrite(RESULT, f"cases/{case}/observed", "something-else")
    named, happened = list(SCENARIOS)[case], json.loads((TOP / SUITE).read_bytes())["cases"][case]["expected"]
    assert failure(capsys) == f"step 8, scenarios: {SUITE} has something-else at {named}, where {happened} was made"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("file", [SUITE, RESULT])
@pytest.mark.usefixtures("tree")
def test_a_missing_case_fails(case: int, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(file, f"cases/{case}", REMOVED)
    assert failure(capsys).startswith(f"step 8, scenarios: {file} has nothing at {list(SCENARIOS)[case]}")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("tree")
def test_a_case_that_is_missing_on_both_sides_fails(case: int, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (SUITE, RESULT):
        rewrite(file, f"cases/{case}", REMOVED)
    assert failure(capsys).startswith(f"step 8, scenarios: {SUITE} has nothing at {list(SCENARIOS)[case]}")


@pytest.mark.parametrize(
    ("file", "case", "says"),
    [
        (SUITE, {"case_id": "M5-CTX-MORE", "expected": "complete"}, "complete at M5-CTX-MORE, where nothing was made"),
        (SUITE, {"case_id": "M5-CTX-MORE", "expected": "nothing"}, "nothing at M5-CTX-MORE, where nothing was made"),
        (SUITE, {"case_id": "M5-CTX-PROVENANCE", "expected": "complete"}, "the case M5-CTX-PROVENANCE twice"),
        (RESULT, {"case_id": "M5-CTX-MORE", "observed": "complete", "passed": True}, "complete at M5-CTX-MORE, where nothing was made"),
        (RESULT, {"case_id": "M5-CTX-MORE", "observed": "complete", "passed": False}, "8 cases, not seven"),
        (RESULT, {"case_id": "M5-CTX-PROVENANCE", "observed": "complete", "passed": True}, "the case M5-CTX-PROVENANCE twice"),
    ],
)
@pytest.mark.usefixtures("tree")
def test_an_extra_case_fails(file: str, case: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(file, "cases", [*json.loads(Path(file).read_bytes())["cases"], case])
    assert failure(capsys) == f"step 8, scenarios: {file} has {says}"


@pytest.mark.usefixtures("tree")
def test_the_order_of_the_cases_plays_no_part(capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(RESULT, "cases", json.loads(Path(RESULT).read_bytes())["cases"][::-1])
    assert validate_m5_context.main() == 0
    assert capsys.readouterr().out == PASS + "\n"


@pytest.mark.parametrize(
    ("file", "path", "new"),
    [
        *((file, "suite_id", new) for file in (SUITE, RESULT) for new in ("M5-CONTEXT-PUBLIC-2", None, REMOVED)),
        *((file, "schema_version", new) for file in (SUITE, RESULT) for new in ("2.0", 1, REMOVED)),
        *((file, "cases", new) for file in (SUITE, RESULT) for new in ([], {}, REMOVED)),
        (SUITE, "description", REMOVED),
        (SUITE, "more", "x"),
        (RESULT, "more", "x"),
        (RESULT, "quality_report", REMOVED),
        (RESULT, "quality_report/path", "evals/context-suite.json"),
        (RESULT, "quality_report/path", "examples/m5-context/context-graph.json"),
        (RESULT, "quality_report/sha256", "0" * 64),
        (RESULT, "quality_report/sha256", canonical.digest((TOP / REPORT).read_bytes()).lower()),
        (RESULT, "quality_report/sha256", canonical.digest(b"")),
    ],
)
@pytest.mark.usefixtures("tree")
def test_another_member_of_suite_or_result_fails(file: str, path: str, new: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(file, path, new)
    assert file in failure(capsys)


@pytest.mark.usefixtures("tree")
def test_two_suite_ids_that_agree_on_another_suite_fail(capsys: pytest.CaptureFixture[str]) -> None:
    for file in (SUITE, RESULT):
        rewrite(file, "suite_id", "OTHER")
    assert failure(capsys) == f"step 7, suite and results: {SUITE} is of the suite OTHER, not M5-CONTEXT-PUBLIC-1"


@pytest.mark.parametrize("key", ["aggregate", "Aggregate_Score", "theAGGREGATE"])
@pytest.mark.parametrize("path", ["{}", "cases/0/{}"])
@pytest.mark.parametrize("file", [SUITE, RESULT])
@pytest.mark.usefixtures("tree")
def test_an_aggregate_fails(file: str, path: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(file, path.format(key), 1)
    assert failure(capsys) == f"step 7, suite and results: {file}: the key {key!r} promises an aggregate"


def test_an_aggregate_of_the_report_fails() -> None:
    with pytest.raises(validate_m5_context.Differs, match="'quality_aggregate'"):
        validate_m5_context.refuse_aggregate({"content": [{"quality_aggregate": 1}]})


@pytest.mark.parametrize("file", [SUITE, RESULT])
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xef\xbb\xbf{}", b"\xff", b'{"cases": [], "cases": []}', b"[" * 100_000])
@pytest.mark.usefixtures("tree")
def test_a_file_of_the_evaluation_that_cannot_be_read_fails(file: str, data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_bytes(data)
    assert failure(capsys).startswith(f"step 7, suite and results: {file}: ")
    Path(file).unlink()
    assert failure(capsys).startswith(f"step 7, suite and results: {file}: ")


# ---- the eight artifacts


def _edited(data: bytes) -> bytes:
    """A digit of the identity."""
    at = data.index(b'"artifact_id"') + 60
    return data[:at] + (b"0" if data[at : at + 1] != b"0" else b"1") + data[at + 1 :]


def _more(data: bytes) -> bytes:
    return canonical.render(json.loads(data) | {"more": 1})


def _less(data: bytes) -> bytes:
    value = json.loads(data)
    value["content"].pop(min(value["content"]))
    return canonical.render(value)


def _of_another_candidate(data: bytes) -> bytes:
    return data.replace(b"b" * 40, b"c" * 40)


def _of_another_id(data: bytes) -> bytes:
    """The first id that the content names, or of a Manifest the candidate, is another; the artifact's own id fits again."""
    value = json.loads(data)
    names = [name for name in value["content"] if name.endswith("_id")] or ["candidate"]
    new = value["content"][names[0]]
    value["content"][names[0]] = (new | {"git_head": "c" * 40}) if isinstance(new, dict) else new[:-1] + ("0" if new[-1] != "0" else "1")
    return canonical.render(resealed(value))


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda data: b"",
    "no final line feed": lambda data: data.removesuffix(b"\n"),
    "two final line feeds": lambda data: data + b"\n",
    "carriage returns": lambda data: data.replace(b"\n", b"\r\n"),
    "a byte-order mark": lambda data: b"\xef\xbb\xbf" + data,
    "half of it": lambda data: data[: len(data) // 2],
    "no white space": lambda data: canonical.encode(json.loads(data)),
    "another indent": lambda data: json.dumps(json.loads(data), indent=4, sort_keys=True).encode() + b"\n",
    "another order": lambda data: json.dumps(dict(reversed(json.loads(data).items())), indent=2).encode() + b"\n",
    "an escape": lambda data: data.replace(b'"context-', b'"\\u0063ontext-'),
    "no UTF-8": lambda data: data.replace(b"schema_version", b"schema_version\xff"),
    "another id": _edited,
    "another version": lambda data: data.replace(b'"schema_version": "1.0"', b'"schema_version": "1.1"'),
    "a number as a float": lambda data: data.replace(b": 1,", b": 1.0,").replace(b": 0,", b": 0.0,").replace(b'"1.0"', b"1.0"),
    "a member more": _more,
    "a member less": _less,
    "another candidate": _of_another_candidate,
    "another id in it, resealed": _of_another_id,
    "the other artifact": lambda data: (
        TOP / FOLDER / ("context-query.json" if b"CTX-QUERY" not in data[:60] else "context-graph.json")
    ).read_bytes(),
}


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("how", BYTES)
@pytest.mark.usefixtures("tree")
def test_an_artifact_of_other_bytes_fails(name: str, how: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(FOLDER) / f"{name}.json"
    before = file.read_bytes()
    file.write_bytes(BYTES[how](before))
    if file.read_bytes() == before:
        assert how == "another candidate" and name == "context-host-summary-proposal", "the one artifact without a candidate"
        return
    assert failure(capsys)


@pytest.mark.parametrize("name", TYPES)
def test_an_artifact_that_is_missing_or_a_link_fails(tree: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tree / FOLDER / f"{name}.json"
    file.rename(tree / "elsewhere.json")
    assert failure(capsys).startswith(f"step 1, artifacts and schemas: {FOLDER}/{name}.json: ")
    file.symlink_to(tree / "elsewhere.json")
    assert failure(capsys).startswith(f"step 1, artifacts and schemas: {FOLDER}/{name}.json: ")


@pytest.mark.parametrize(
    ("name", "path", "new", "says"),
    [
        ("manifest", "content/relationships", [], "step 2, index: "),
        ("graph", "content/excluded_sources", [{"source_id": "CTX-SOURCE-" + "0" * 64, "reason": "x", "details": []}], "step 2, index: "),
        ("query", "content/terms", ["context"], "step 3, select twice: "),
        ("selection", "content/traversal_truncated", True, "step 3, select twice: "),
        ("snapshot", "content/excluded", [{"node_id": "CTX-NODE-" + "0" * 64, "reason": "x", "details": []}], "step 4, snapshot: "),
        ("compaction", "content/sensitivity", "owner-private", "step 5, compact: "),
        ("host-summary-proposal", "content/claims/0/claim", "Another.", "step 5, compact: "),
        ("quality-report", "content/required_reference_recall", 99, "step 6, quality: "),
    ],
)
@pytest.mark.usefixtures("tree")
def test_an_artifact_that_was_edited_and_resealed_fails_at_its_step(
    name: str, path: str, new: Any, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path(FOLDER) / f"context-{name}.json"
    file.write_bytes(canonical.render(resealed(changed(json.loads(file.read_bytes()), path, new))))
    assert failure(capsys).startswith(says)


@pytest.mark.usefixtures("tree")
def test_another_chain_fails_even_where_every_member_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for fewer words, everything made again, and the results told of it."""
    with Root(Path()) as root:
        old = validate_m5_context.load(root)
        query = seal(replace(old.query.content, terms=("context",)))
        selection = select(old.graph, query)
        shown = snapshot(old.graph, selection, old.world)
        proposal = seal(replace(old.proposal.content, snapshot_id=shown.artifact_id))
        report = quality(old.graph, selection, shown)
        for artifact in (query, selection, shown, proposal, compact(shown, old.world, proposal=proposal), report):
            Path(FOLDER, f"{artifact.artifact_type}.json").write_bytes(render(artifact))
    rewrite(RESULT, "quality_report/sha256", canonical.digest(Path(REPORT).read_bytes()))
    assert parse(Path(FOLDER, "context-query.json").read_bytes(), Query) == query
    assert failure(capsys).startswith(f"the published files: {FOLDER}/context-query.json has the SHA-256 ")


@pytest.mark.parametrize("name", ["specification.md", "accepted-contract.md", "verified-evidence.txt"])
@pytest.mark.parametrize(
    "change", [lambda data: data + b"More.\n", lambda data: data.replace(b"\n", b"\r\n"), lambda data: data[:-1], None]
)
def test_another_source_fails(tree: Path, name: str, change: Callable[[bytes], bytes] | None, capsys: pytest.CaptureFixture[str]) -> None:
    file = tree / FOLDER / "sources" / name
    if change:
        file.write_bytes(change(file.read_bytes()))
    else:
        file.unlink()
    assert failure(capsys).startswith("step 2, index: ")


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("data", [b"{}\n", b"false\n", b"{", None])
def test_another_schema_fails(tree: Path, name: str, data: bytes | None, capsys: pytest.CaptureFixture[str]) -> None:
    file = tree / "schemas" / f"{name}.schema.json"
    if data is None:
        file.unlink()
    else:
        file.write_bytes(data)
    assert f"{name}.schema.json" in failure(capsys)


# ---- what the product does is what is looked at

VALIDATOR, RULES = "scripts.validate_m5_context", "sdaqf_tasks.context.rules"
CARELESS: dict[str, tuple[str, Callable[..., Any]]] = {
    "step 2, index: ": (f"{VALIDATOR}.index", lambda manifest, sources: seal(replace(index(manifest, sources).content, edges=()))),
    "step 3, select twice: ": (
        f"{VALIDATOR}.select",
        lambda graph, query: seal(replace(select(graph, query).content, traversal_truncated=True)),
    ),
    "step 8, scenarios: M5-CTX-SENSITIVITY: ": (
        f"{VALIDATOR}.compact",
        lambda shown, sources, proposal=None: seal(
            replace(compact(shown, sources, proposal=proposal).content, sensitivity=Sensitivity.PUBLIC)
        ),
    ),
    "step 10, regressions: (1) fabricated immutable node: ": (f"{RULES}.verify_node", lambda sources, node, as_of: None),
    "step 10, regressions: (10) title of astral characters: ": (f"{VALIDATOR}.breach_of", lambda root, kind, envelope: None),
    "step 10, regressions: (12) candidate moved before publication: ": (f"{RULES}.verify_candidate", lambda sources, candidate: None),
}


@pytest.mark.parametrize("says", CARELESS)
@pytest.mark.usefixtures("tree")
def test_a_product_that_does_something_else_fails(says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(*CARELESS[says])
    assert failure(capsys).startswith(says)


# ---- the gate


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another repository for the gate."""
    monkeypatch.setattr(run_local_gate, "TOP", tmp_path)
    return tmp_path


@pytest.mark.parametrize("status", [0, 1, 7])
def test_the_gate_returns_the_status_and_passes_the_output(top: Path, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    (top / "it.py").write_text(f"import os, sys\nprint(os.getcwd(), sys.executable)\nprint('no', file=sys.stderr)\nsys.exit({status})\n")
    assert run_local_gate.main(["script", "it.py"]) == status
    assert capfd.readouterr() == (f"{top} {sys.executable}\n", "no\n")


def test_the_gate_tells_a_signal_as_a_shell_does(top: Path) -> None:
    (top / "it.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    assert run_local_gate.main(["script", "it.py"]) == 137


@pytest.mark.parametrize("arguments", [[], ["script"], ["module", "it.py"], ["it.py"], ["script", "it.py", "more"]])
def test_the_gate_says_how_it_is_used(top: Path, arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    (top / "it.py").write_text("print('ran')\n")
    assert run_local_gate.main(arguments) == 2
    assert capfd.readouterr() == ("", run_local_gate.USAGE + "\n")


@pytest.mark.parametrize("name", ["none.py", "scripts", "it.txt", ""])
def test_the_gate_names_a_script_that_is_not_there(top: Path, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    (top / "it.txt").write_text("")
    assert run_local_gate.main(["script", name]) == 2
    last = f"there is no such Python file below the top of the repository: {name}"
    assert capfd.readouterr() == ("", f"{run_local_gate.USAGE}\n{last}\n")
