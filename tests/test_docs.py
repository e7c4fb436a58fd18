"""The pages say what the program does: everything is named, links lead somewhere, samples print what they show."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scripts import pages
from sdaqf_tasks.disk.repository import Limits
from sdaqf_tasks.errors import Finding, Reason
from sdaqf_tasks.flow.project import Settings
from sdaqf_tasks.flow.stages import STAGES
from sdaqf_tasks.formats.artifacts import PREFIXES, TYPES, Artifact
from sdaqf_tasks.formats.manifest_yaml import BudgetEntry, Defaults, Expiry, ManifestFile, QueryEntry, RelationshipEntry, SourceEntry
from sdaqf_tasks.formats.records import Authority, EdgeType, FreshnessKind, Kind, RootScope, Sensitivity
from sdaqf_tasks.fronts import commands

TOP = pages.TOP
PAGES = sorted([TOP / "README.md", *(TOP / "docs").rglob("*.md"), *(TOP / "examples").rglob("README.md")])
INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]' && .venv/bin/doit "


def read(name: str) -> str:
    return (TOP / name).read_text("utf-8")


def shown(path: Path) -> str:
    return path.relative_to(TOP).as_posix()


def is_named(word: str, page: str) -> bool:
    return re.search(rf"`(?:[^`\n]*[ ,])?{re.escape(word)}(?:[ ,=:][^`\n]*)?`", page) is not None


# ---- what is shown is what is printed


@pytest.mark.parametrize("name", [pages.ERRORS, *pages.SAMPLED])
def test_a_page_reads_as_it_would_be_written(name: str) -> None:
    page = read(name)
    wanted = pages.errors_page() if name == pages.ERRORS else pages.refreshed(page)
    assert pages.masked(page) == pages.masked(wanted), "run `doit docs` and read the difference"


def test_no_sample_shows_a_defect() -> None:
    assert [name for name in pages.SAMPLED if "Traceback" in read(name)] == []


def test_masks_hide_what_may_differ_and_nothing_else() -> None:
    one = "tree 4c1d9e2+ content 1f32706358a2 " + 64 * "A" + " as of 2026-11-05T12:00:00Z · 0.8 s · 11 of 256 KiB"
    other = "tree 0000001+ content aaaaaaaaaaa1 " + 64 * "0" + " as of 2027-01-01T00:00:00.5Z · 12.3 s · 11 of 256 KiB"
    assert pages.masked(one) == pages.masked(other) == "tree #+ content # # as of TIME · SECONDS · 11 of 256 KiB"
    assert pages.masked("made 3 of 10") != pages.masked("made 4 of 10")


# ---- everything is named


def _parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _parsers(inner)


def test_every_command_and_option_is_in_the_page_of_commands() -> None:
    page = read("docs/commands.md")
    missing = []
    for parser in _parsers(commands.parser()):
        if parser.prog not in page:
            missing.append(parser.prog)
        for action in parser._actions:
            if (
                action.option_strings
                and "--help" not in action.option_strings
                and not any(is_named(o, page) for o in action.option_strings)
            ):
                missing.append(f"{parser.prog} {action.option_strings[-1]}")
    assert missing == []


def test_every_reason_and_finding_is_in_the_page_of_errors() -> None:
    page = read("docs/errors.md")
    assert [reason.value for reason in Reason if f"| `{reason.value}` |" not in page] == []
    assert [finding.value for finding in Finding if f"| `{finding.value}` | {finding.severity.value} |" not in page] == []


def test_every_schema_is_in_the_page_of_formats() -> None:
    page = read("docs/formats.md")
    names = [path.name.removesuffix(".schema.json") for path in (TOP / "schemas").glob("*.json")]
    assert sorted(name for name in names if not is_named(name, page)) == []
    assert len(names) >= len(TYPES)


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/specification.md"])
def test_every_stage_is_explained(page: str) -> None:
    text = read(page)
    assert [stage.name for stage in STAGES if not re.search(rf"(?:^|[`*│├─ ]){stage.name}[`* ]", text, re.MULTILINE)] == []


def _members(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The members of a record and of every record inside it."""
    found = msgspec.inspect.multi_type_info([kind])[0]
    todo = [found]
    while todo:
        each = todo.pop()
        for name in ("item_type", "key_type", "value_type", "type"):
            if isinstance(inner := getattr(each, name, None), msgspec.inspect.Type):
                todo.append(inner)
        todo += [*getattr(each, "types", ()), *getattr(each, "item_types", ())]
        if isinstance(each, msgspec.inspect.StructType) and each.cls not in seen:
            seen.add(each.cls)
            yield from (field.encode_name for field in each.fields)
            todo += [field.type for field in each.fields]


def test_every_member_of_every_artifact_is_in_the_page_of_formats() -> None:
    page, seen = read("docs/formats.md"), set[Any]()
    names = {name for content in TYPES.values() for name in _members(content, seen)} | set(Artifact.__struct_fields__)
    assert sorted(name for name in names if f"| `{name}` |" not in page) == []
    assert [prefix for prefix in PREFIXES.values() if f"`{prefix}`" not in page] == []


@pytest.mark.parametrize("enumeration", [Authority, Sensitivity, RootScope, Kind, EdgeType, FreshnessKind])
def test_every_word_is_in_the_page_of_formats(enumeration: Any) -> None:
    page = read("docs/formats.md")
    assert [member.value for member in enumeration if f"`{member.value}`" not in page] == []


@pytest.mark.parametrize("shape", [ManifestFile, SourceEntry, Defaults, Expiry, RelationshipEntry, QueryEntry, BudgetEntry])
def test_every_key_of_the_yaml_is_in_the_guide(shape: type[msgspec.Struct]) -> None:
    page = read("docs/manifests.md")
    assert [field.encode_name for field in msgspec.structs.fields(shape) if not is_named(field.encode_name, page)] == []


def test_every_setting_is_in_the_guide() -> None:
    page = read("docs/manifests.md")
    names = [name for name in Settings.__struct_fields__ if name != "limits"] + [f"limits.{n}" for n in Limits.__struct_fields__]
    assert [name for name in names if f"| `{name}` |" not in page] == []


# ---- links, and what a page never says


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_links_lead_somewhere(path: Path) -> None:
    page = path.read_text("utf-8")
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        other = (path.parent / name).resolve() if name else path
        if not other.exists() or (anchor and anchor not in anchors(other.read_text("utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("path", PAGES, ids=shown)
def test_a_page_knows_no_machine(path: Path) -> None:
    assert re.findall(r"/(?:home|root|work|Users|tmp)/\S*", path.read_text("utf-8")) == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [TOP / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
            other = (page.parent / target).resolve()
            todo += sorted(other.glob("*.md")) if other.is_dir() else [other] if other.suffix == ".md" and other.is_file() else []
    assert [shown(path) for path in PAGES if path not in reached and path.parent.name != "payments"] == []


# ---- the README's promises


@pytest.mark.parametrize("task", ["snapshot", "test"])
def test_one_line_installs_and_runs(task: str) -> None:
    assert read("README.md").count(f"\n{INSTALL}{task}\n") == 1


def test_ci_runs_the_line_of_the_readme() -> None:
    pattern = re.search(r'grep -E "(.*)" README.md', read(".ci/run"))
    assert pattern
    assert [line for line in read("README.md").splitlines() if re.search(pattern[1], line)] == [INSTALL + "test"]


def test_the_readme_ends_with_three_sentences() -> None:
    last = read("README.md").rstrip().split("\n\n")[-3:]
    assert [paragraph.split(" ")[0] for paragraph in last] == ["**The", "**The", "**as_of**"]


def test_the_check_says_which_page_is_stale(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/errors.md").write_text("old\n")
    monkeypatch.setattr(pages, "TOP", tmp_path)
    monkeypatch.setattr(pages, "SAMPLED", ())
    monkeypatch.setattr(sys, "argv", ["pages", "--check"])
    assert pages.main() == 1
    assert capsys.readouterr().out == "docs/errors.md is not as it would be written: run `doit docs`\n"
    assert (tmp_path / "docs/errors.md").read_text() == "old\n"


# ---- what people are given to build


def test_the_example_has_what_it_promises(tmp_path: Path) -> None:
    work = pages.scratch(tmp_path, "payments")
    printed = pages.bash("sdaqf build --owner-root ../payments-owner 2>&1; echo $?", work)
    assert printed.endswith("\n0\n")
    out = work / ".sdaqf/build/out"

    def content(name: str) -> Any:
        return msgspec.json.decode((out / name).read_bytes())["content"]

    assert [excluded["reason"] for excluded in content("payments/graph.json")["excluded_sources"]] == ["invalid-json"]
    assert len(content("payments/snapshot.json")["unresolved_contradiction_ids"]) == 1
    assert [excluded["reason"] for excluded in content("payments.next-year/selection.json")["excluded"]] == ["stale"]
    assert content("release/snapshot.json")["sensitivity"] == "owner-private"
    built = {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    pages.bash("rm -rf .sdaqf; SDAQF_OWNER_ROOT=../payments-owner doit snapshot", work)
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()} == built


def test_this_repository_describes_itself(tmp_path: Path) -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=TOP, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git checkout")
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (TOP / name).is_file():
            (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "project" / name).write_bytes((TOP / name).read_bytes())
    work = tmp_path / "project"
    pages.bash("git init -q -b main && git add . && git commit -qm It", work)
    printed = msgspec.json.decode(pages.bash("sdaqf build --json", work))
    assert {entry["context"]: entry["result"] for entry in printed["contexts"]} == dict.fromkeys(
        ("context", "context.formats", "context.yaml", "context.review"), "made"
    )
    assert all(entry["summary"]["taken"] > 5 for entry in printed["contexts"])
    assert printed["contexts"][0]["summary"]["sources"] <= 300
