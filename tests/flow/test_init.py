"""The first five minutes: what is proposed for repositories of several shapes builds without editing (issue: init)."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from sdaqf_tasks.context.layout import fitted
from sdaqf_tasks.context.layout import proposed as parts_of
from sdaqf_tasks.disk import files
from sdaqf_tasks.errors import Conflict, Reason, SdaqfError
from sdaqf_tasks.flow import init
from sdaqf_tasks.flow.init import Proposal, propose, write
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.formats.records import Kind
from sdaqf_tasks.fronts.init import lines, run, shown
from sdaqf_tasks.fronts.voice import Exit, Voice
from tests.disk.worktree import WorkTree, everything_below
from tests.fronts.run import Ran, in_process
from tests.repositories import make

NOW = "2026-04-05T00:00:00Z"
README = "# Acme\n\nAcme does what it must.\n"
CODE = "x = 1\n"


def proposed(path: Path, files: dict[str, str | bytes]) -> Proposal:
    make(path, files)
    return propose(Project(path))


def named(proposal: Proposal) -> dict[str, tuple[str, int]]:
    return {part.alias: (part.pattern, part.sources) for part in proposal.parts}


def document(proposal: Proposal) -> Any:
    return yaml.safe_load(proposal.files[proposal.manifest])


def built(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    """What `sdaqf init --yes` wrote, built as it is."""
    monkeypatch.chdir(path)
    assert in_process("init", "--yes", capsys=capsys).code == Exit.DONE
    return in_process("build", "--json", capsys=capsys)


LAYOUTS: dict[str, tuple[dict[str, str | bytes], str, dict[str, tuple[str, int]]]] = {
    "src": (
        {"README.md": README, "src/acme/a.py": CODE, "src/acme/b.py": CODE + "y = 2\n", "tests/test_a.py": CODE, "setup.py": CODE},
        "README.md",
        {"code": ("src/**/*.py", 2), "tests": ("tests/**/*.py", 1)},
    ),
    "flat": (
        {"README.rst": README, "acme/a.py": CODE, "acme/tests/test_a.py": CODE, "docs/index.rst": "Acme\n====\n", "docs/conf.py": CODE},
        "README.rst",
        {"code": ("acme/**/*.py", 1), "tests": ("acme/**/tests/**/*.py", 1), "documents": ("docs/**/*.rst", 1)},
    ),
    "one module": (
        {"README.md": README, "acme.py": CODE, "setup.py": CODE, "test_acme.py": CODE},
        "README.md",
        {"code": ("*.py", 2), "tests": ("test_*.py", 1)},
    ),
    "monorepo": (
        {
            "README.md": README,
            "AGENTS.md": "Be calm.\n",
            "services/billing/AGENTS.md": "Be exact.\n",
            "services/billing/app/main.go": "package main\n",
            "services/billing/app/main_test.go": "package main\n",
            "packages/web/src/a.ts": "export {}\n",
            "packages/web/src/a.test.ts": "export {}\n",
            "packages/web/node_modules/x/index.ts": "export {}\n",
        },
        "README.md",
        {
            "rules": ("AGENTS.md", 1),
            "rules-agents": ("**/AGENTS.md", 1),
            "code": ("packages/**/*.ts", 1),
            "code-services": ("services/**/*.go", 1),
            "tests": ("packages/**/*.test.ts", 1),
            "tests-services": ("services/**/*_test.go", 1),
        },
    ),
    "JavaScript": (
        {"readme.md": README, "package.json": "{}\n", "lib/index.js": CODE, "test/index.js": CODE, "webpack.config.js": CODE},
        "readme.md",
        {"code": ("lib/**/*.js", 1), "tests": ("test/**/*.js", 1)},
    ),
    "documents alone": (
        {"README.md": README, "guide/one.md": "# One\n", "guide/two.md": "# Two\n"},
        "README.md",
        {"documents": ("**/*.md", 2)},
    ),
    "decisions": (
        {
            "docs/specification.md": README,
            "README.md": README + "more\n",
            "docs/adr/0001-a.md": "# A\n",
            "docs/adr/old/0000-z.md": "# Z\n",
            "docs/rfcs/1.md": "# 1\n",
            "docs/architecture.md": "# Layers\n",
            "docs/guide.md": "# Guide\n",
            "CONTRIBUTING.md": "# How\n",
        },
        "docs/specification.md",
        {
            "decisions": ("docs/adr/**/*.md", 2),
            "decisions-docs": ("docs/rfcs/*.md", 1),
            "documents": ("**/*.md", 4),
        },
    ),
    "an empty README": ({"README.md": b"", "a.py": CODE}, "README.md", {"code": ("*.py", 1)}),
    "no README": ({"docs/how.txt": "How.\n", "a.py": CODE}, "docs/how.txt", {"code": ("*.py", 1)}),
    "odd names": (
        {
            "README.md": README,
            "src/true.py": CODE,
            "src/a b.py": CODE,
            "src/ä.py": CODE,
            "docs/adr/#1.md": "# 1\n",
            "1.5/x.py": CODE,
            "null/x.py": CODE,
        },
        "README.md",
        {"code": ("1.5/**/*.py", 1), "code-null": ("null/**/*.py", 1), "code-src": ("src/**/*.py", 1)},
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_proposed_builds_without_editing(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given, specification, sources = LAYOUTS[layout]
    proposal = proposed(tmp_path / "r", given)
    assert proposal.specification.path == specification
    assert named(proposal) == sources
    jsonschema.validate(document(proposal), json.loads(proposal.files["manifests/.schema.json"]))
    ran = built(tmp_path / "r", monkeypatch, capsys)
    assert (ran.code, [context["result"] for context in ran.value["contexts"]]) == (0, ["made"])


def test_every_file_is_either_a_source_or_named_as_left_out(tmp_path: Path) -> None:
    proposal = proposed(
        tmp_path / "r",
        {
            "README.md": README,
            "src/a.py": CODE,
            "src/binary.py": b"\0",
            "src/_vendor/v.py": CODE,
            "docs/Q3 plan.md": "# Q3\n",
            "docs/[a].md": "# a\n",
            "CHANGELOG.md": "c\n" * 200_000,
            "HISTORY.md": "# H\n",
            "scripts/s.py": CODE,
            "a.png": b"\x89PNG\0",
            "pyproject.toml": "",
        },
    )
    assert {name: group.why for group in proposal.left_out for name in group.examples} == {
        "src/binary.py": "not UTF-8 text",
        "src/_vendor/v.py": "not written here, or test data",
        "docs/Q3 plan.md": "space in its name",
        "docs/[a].md": "name is not portable",
        "CHANGELOG.md": "390 KiB, at most 256",
        "HISTORY.md": "neither rules, decisions, code, tests nor documents",
        "scripts/s.py": "neither rules, decisions, code, tests nor documents",
        "a.png": "binary",
        "pyproject.toml": "neither rules, decisions, code, tests nor documents",
    }
    assert sum(group.files for group in proposal.left_out) + sum(part.sources for part in proposal.parts) + 1 == len(proposal.tree.files)


# ---- specification and rules


def test_of_a_readme_that_is_too_long_a_section_that_fits_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "word " * 9_000
    text = f"# Acme\n\n## Häufige Fragen 🎉\n\n{long}\n\n## Overview\n\nShort.\n\n## Again\n\n{long}\n\n## Again\n\nx\n"
    proposal = proposed(tmp_path / "r", {"README.md": text, "a.py": CODE})
    assert document(proposal)["specification"] == {"path": "README.md", "section": "Overview"}
    assert proposal.specification.note == f"the whole has {len(text):,} characters; a source has at most 65,536"
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


def test_without_sections_the_first_lines_that_fit_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = proposed(tmp_path / "r", {"README.rst": ("x" * 99 + "\n") * 1_000})
    assert document(proposal)["specification"] == {"path": "README.rst", "lines": "1-636"}
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


@pytest.mark.parametrize("text", ["日本語の説明。" * 8_000 + "\n# 概要\n\n短い。\n", "# 概要\n\n短い。\n\n# Key\n\nAKIA" + "A" * 16 + "\n"])
def test_a_readme_that_would_fill_the_budget_or_holds_a_key_is_taken_in_part(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = proposed(tmp_path / "r", {"README.md": text})
    assert document(proposal)["specification"] == {"path": "README.md", "section": "概要"}
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


def test_an_empty_readme_gives_way_to_another_document_and_says_so_where_there_is_none(tmp_path: Path) -> None:
    assert proposed(tmp_path / "a", {"README.md": "\n", "docs/index.md": README}).specification.path == "docs/index.md"
    assert proposed(tmp_path / "b", {"README.md": "\n"}).specification.note == "it is empty: say there what this project must do"


def test_without_any_document_nothing_is_proposed(tmp_path: Path) -> None:
    make(tmp_path / "r", {"a.py": CODE})
    with pytest.raises(SdaqfError) as caught:
        propose(Project(tmp_path / "r"))
    assert caught.value.reason is Reason.CANONICAL_INVALID and "README.md" in caught.value.todo


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("@AGENTS.md\n", "CLAUDE.md only imports it"),
        ("# Claude\n\n<!-- generated -->\n@./AGENTS.md\n", "CLAUDE.md only imports it"),
        ("Read [AGENTS.md](AGENTS.md).\n", "CLAUDE.md only links to it"),
        (None, "CLAUDE.md is a link to it"),
    ],
)
def test_rules_that_only_lead_to_others_are_understood(text: str | None, note: str, tmp_path: Path) -> None:
    tree = make(tmp_path / "r", {"README.md": README, "AGENTS.md": "Be calm.\n", **({} if text is None else {"CLAUDE.md": text})})
    if text is None:
        tree.link("CLAUDE.md", "AGENTS.md")
        tree.commit("CLAUDE.md")
    proposal = propose(Project(tree.path))
    assert [(part.alias, part.pattern, part.note) for part in proposal.parts] == [("rules", "AGENTS.md", note)]
    assert proposal.left_out == ()


def test_a_comment_that_never_ends_goes_on_to_the_end(tmp_path: Path) -> None:
    """Each of very many begins in the first: the rest is looked through once."""
    found = proposed(tmp_path / "r", {"README.md": README, "AGENTS.md": "Be calm.\n", "CLAUDE.md": "@AGENTS.md\n" + "<!--" * 60_000})
    assert named(found) == {"rules": ("AGENTS.md", 1)}
    assert found.parts[0].note == "CLAUDE.md only imports it"


def test_rules_that_say_more_are_sources_of_their_own(tmp_path: Path) -> None:
    found = proposed(tmp_path / "r", {"README.md": README, "AGENTS.md": "Be calm.\n", "CLAUDE.md": "@AGENTS.md\n" + "Be exact. " * 40})
    assert named(found) == {"rules": ("AGENTS.md", 1), "rules-claude": ("CLAUDE.md", 1)}
    assert document(found)["queries"]["default"]["require"] == ["rules", "rules-claude"]


def test_rules_that_are_too_long_or_hold_a_key_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "AKIA" + "A" * 16 + "\n"
    proposal = proposed(tmp_path / "r", {"README.md": README, "AGENTS.md": "Be calm.\n" * 8_000, "CLAUDE.md": key})
    assert named(proposal) == {}
    assert {name: group.why for group in proposal.left_out for name in group.examples} == {
        "AGENTS.md": "too much for one manifest",
        "CLAUDE.md": "looks like a key or a token",
    }
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


# ---- ceilings


def test_a_large_tree_is_narrowed_to_what_a_manifest_takes_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, str | bytes] = {"README.md": README}
    given |= {f"src/{folder}/{number}.py": f"x = {folder}, {number}\n" for folder in "ab" for number in range(150)}
    given |= {f"src/c/{folder}/{number}.py": f"y = {folder}, {number}\n" for folder in "de" for number in range(300)}
    given |= {f"tests/{number}.py": f"z = {number}\n" for number in range(100)}
    proposal = proposed(tmp_path / "r", given)
    code = next(part for part in proposal.parts if part.alias == "code")
    assert (code.pattern, code.sources) == ("src/c/**/*.py", 600)
    assert code.note == "600 of 900 files: the others are too much for one manifest"
    assert named(proposal)["tests"] == ("tests/**/*.py", 100)
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


def test_large_files_count_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: dict[str, str | bytes] = {"README.md": README}
    given |= {
        f"src/{folder}/{number}.py": f"# {folder} {number}\n" + "x = 1  # ä\n" * 20_000 for folder in "abcdefg" for number in range(5)
    }
    proposal = proposed(tmp_path / "r", given)
    assert named(proposal) == {"code": ("src/a/**/*.py", 20)}
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


def test_a_glob_that_is_too_much_is_narrowed_to_the_largest_folder_that_fits() -> None:
    names = ["src/a.py", *(f"src/big/{folder}/{n}.py" for folder in "xy" for n in range(6)), *(f"src/small/{n}.py" for n in range(2))]
    parts = parts_of(names)
    for room, pattern in ((15, "src/**/*.py"), (14.9, "src/big/**/*.py"), (13.3, "src/big/x/**/*.py"), (6.6, "src/small/**/*.py")):
        assert [part.pattern for part in fitted(parts, names, lambda name: 1, room)] == [pattern]
    assert fitted(parts, names, lambda name: 1, 2) == []


def test_what_lies_flat_in_one_folder_is_taken_whole_or_not_at_all() -> None:
    names = [f"docs/adr/{number}.md" for number in range(5)]
    assert fitted(parts_of(names)[:1], names, lambda name: 1, 4) == []


def test_no_two_parts_take_one_file() -> None:
    names = [
        f"{folder}/{name}"
        for folder in ("src", "src/tests", "tests", "docs", "docs/adr", "lib/test")
        for name in ("a.py", "b.md", "c.ts", "d.test.ts")
    ]
    found = parts_of(names)
    taken = [name for part in found for name in part.takes(names)]
    assert len(taken) == len(set(taken)) > 12
    assert len({part.alias for part in found}) == len(found)


def test_pinned_kinds_come_first() -> None:
    found = parts_of(["src/a.py", "tests/b.py", "docs/adr/1.md", "docs/c.md", "src/AGENTS.md"])
    assert [part.kind for part in found] == [Kind.REQUIREMENT, Kind.DECISION, Kind.SOURCE, Kind.TEST, Kind.DESIGN]
    assert [part.pinned for part in found] == [True, True, False, False, False]


# ---- writing


def test_an_existing_manifest_or_lock_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    for number, name in enumerate(("manifests/context.yaml", "manifests/context.yml", "manifests/context.lock")):
        tree = make(tmp_path / str(number), {"README.md": README, name: "sdaqf: 1\n"})
        before = everything_below(tree.path)
        with pytest.raises(Conflict) as caught:
            propose(Project(tree.path))
        assert (caught.value.reason, caught.value.message) == (Reason.OUTPUT_EXISTS, f"{name} is there already; nothing was written")
        assert everything_below(tree.path) == before


def test_what_cannot_be_written_whole_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make(tmp_path / "r", {"README.md": README, ".claude": "a file\n"})
    project = Project(tree.path)
    proposal = propose(project, ["codex", "claude"])
    before = everything_below(tree.path)
    with pytest.raises(Conflict) as caught:
        write(project, proposal)
    assert caught.value.reason is Reason.OUTPUT_INVALID
    assert everything_below(tree.path).keys() == before.keys()


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    tree = make(tmp_path / "r", {"README.md": README})
    project = Project(tree.path)
    proposal = propose(project)
    tree.write("manifests/context.lock", b"theirs\n")
    with pytest.raises(Conflict) as caught:
        write(project, proposal)
    assert caught.value.reason is Reason.OUTPUT_EXISTS
    assert [place.name for place in (tree.path / "manifests").iterdir()] == ["context.lock"]
    assert tree.place("manifests/context.lock").read_bytes() == b"theirs\n"


def test_an_interruption_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make(tmp_path / "r", {"README.md": README})
    project = Project(tree.path)
    proposal = propose(project)

    def interrupted(path: Path, data: bytes, mode: int) -> None:
        if path.suffix == ".lock":
            raise KeyboardInterrupt
        files.publish(path, data, mode)

    monkeypatch.setattr(init, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(project, proposal)
    assert not (tree.path / "manifests").exists()


def test_the_lock_pins_what_is_reviewed_and_build_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given: dict[str, str | bytes] = {
        "README.md": README,
        "AGENTS.md": "Be calm.\n",
        "docs/adr/1.md": "# 1\n",
        "docs/a.md": "a\n",
        "a.py": CODE,
    }
    lock = json.loads(proposed(tmp_path / "r", given).files["manifests/context.lock"])
    assert [entry["path"] for entry in lock["sources"]] == ["AGENTS.md", "README.md", "docs/adr/1.md"]
    assert built(tmp_path / "r", monkeypatch, capsys).code == 0


def test_the_settings_say_where_manifests_are_and_what_is_excluded(tmp_path: Path) -> None:
    settings = 'manifests = ["services/*/context", "context"]\nexclude = ["large/**"]\n'
    proposal = proposed(tmp_path / "r", {"README.md": README, "large/a.py": CODE, "src/a.py": CODE, "sdaqf.toml": settings})
    assert list(proposal.files) == ["context/context.yaml", "context/context.lock", "context/.schema.json"]
    assert named(proposal) == {"code": ("src/**/*.py", 1)}


def test_agents_get_their_settings_and_files_that_are_there_stay(tmp_path: Path) -> None:
    tree = make(tmp_path / "r", {"README.md": README, ".mcp.json": "{}\n"})
    project = Project(tree.path)
    proposal = propose(project, ["claude", "codex"])
    assert write(project, proposal)[3:] == (".claude/settings.json", ".codex/config.toml")
    hook = json.loads(tree.place(".claude/settings.json").read_bytes())["hooks"]["SessionStart"][0]["hooks"][0]
    assert hook == {"type": "command", "command": "sdaqf render context --max-bytes 48KiB"}
    server = tomllib.loads(tree.place(".codex/config.toml").read_text())["mcp_servers"]["context"]
    assert server == json.loads(proposal.there[".mcp.json"])["mcpServers"]["context"]
    assert tree.place(".mcp.json").read_bytes() == b"{}\n"


# ---- what people see


@pytest.fixture
def acme(tmp_path: Path) -> WorkTree:
    """The repository of the journey, smaller."""
    body = b"".join(b"line %d of what was moved\n" % number for number in range(37))
    tree = make(
        tmp_path / "acme",
        {
            "README.md": README,
            "AGENTS.md": "# Rules\n\nSee `src/acme/session_pool.py`.\n`src/acme/retry.py:41-58` [adr](docs/adr/1.md)\n",
            "CLAUDE.md": "@AGENTS.md\n",
            "docs/adr/1.md": "# 1\n",
            "docs/notes/Q3 plan.md": "# Q3\n",
            "src/acme/session_pool.py": body,
            "src/acme/retry.py": body.replace(b"line", b"row"),
            "tests/test_a.py": CODE,
        },
    )
    tree.git("mv", "src/acme/session_pool.py", "src/acme/pool.py")
    tree.commit()
    return tree


def test_the_journey(acme: WorkTree) -> None:
    commit = acme.head()[:7]
    assert list(lines(propose(Project(acme.path)), NOW)) == [
        f"Read 8 tracked files at {commit}.",
        "",
        "  specification   README.md           always included, the measure of the rest",
        "  rules           AGENTS.md           pinned, required   CLAUDE.md only imports it",
        "  decisions       docs/adr/*.md   1   pinned, required",
        "  code            src/**/*.py     2   follows the tree",
        "  tests           tests/**/*.py   1   follows the tree",
        '  left out        "docs/notes/Q3 plan.md" (space in its name)',
        "",
        "AGENTS.md names 3 places in this repository. Of these 2 are gone:",
        f"  AGENTS.md:3   src/acme/session_pool.py   renamed to src/acme/pool.py by {commit}, 3 months ago",
        "  AGENTS.md:4   src/acme/retry.py:41-58    the file has 37 lines",
        "",
        "Nobody has reviewed this yet: the lock will hold what is pinned as it reads now. Read that before you commit the lock.",
    ]


def test_without_a_terminal_it_shows_and_writes_nothing(
    acme: WorkTree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(acme.place("src"))
    before = everything_below(acme.path)
    ran = in_process("init", capsys=capsys)
    assert (ran.code, ran.err) == (2, "\nNothing was written: there is no terminal to ask on.\nNext: sdaqf init --yes\n")
    assert "  specification: README.md\n" in ran.out
    assert in_process("init", "--json", capsys=capsys).value["written"] == []
    assert everything_below(acme.path) == before


@pytest.mark.parametrize(("answer", "code"), [(True, Exit.DONE), (False, Exit.REFUSED)])
def test_on_a_terminal_it_asks(answer: bool, code: Exit, acme: WorkTree, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def ask(question: str) -> bool:
        asked.append(question)
        return answer

    assert run(Project(acme.path), Voice(), agents=[], yes=False, doit=True, as_json=False, ask=ask) == code
    assert asked == ["\nWrite manifests/context.yaml, manifests/context.lock and manifests/.schema.json? [Y/n] "]
    assert acme.place("manifests").exists() == answer
    ending = (
        'pipeline(prefix="context")\nNext: sdaqf build   then: git add manifests && git commit\n' if answer else "Nothing was written.\n"
    )
    assert capsys.readouterr().out.endswith(ending)
    assert not acme.place("dodo.py").exists()


def test_as_json_it_is_one_document(acme: WorkTree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(acme.path)
    told = in_process("init", "--json", "--yes", capsys=capsys).value
    assert told["written"] == ["manifests/context.yaml", "manifests/context.lock", "manifests/.schema.json"]
    assert [source["alias"] for source in told["sources"]] == ["rules", "decisions", "code", "tests"]
    assert [dead["place"] for dead in told["dead_mentions"]] == ["src/acme/session_pool.py", "src/acme/retry.py:41-58"]
    assert told["yaml"] == acme.place("manifests/context.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "seen"),
    [("docs/a.md", "docs/a.md"), ("Q3 plan.md", '"Q3 plan.md"'), ("a\x1b[2J.md", '"a\\u001b[2J.md"'), (os.fsdecode(b"\xff"), '"\\udcff"')],
)
def test_names_are_shown_so_that_a_terminal_obeys_none(name: str, seen: str) -> None:
    assert shown(name) == seen


def test_an_unknown_tool_is_a_usage_error(acme: WorkTree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(acme.path)
    assert in_process("init", "--agents", "claude,nobody", capsys=capsys).code == Exit.USAGE
