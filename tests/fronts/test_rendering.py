"""`sdaqf render`: what a session begins with. Two facts, plain words, and never a text that nobody reviewed as if it were current."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sdaqf_tasks.fronts.cli import main
from tests import repositories
from tests.disk.worktree import WorkTree, everything_below
from tests.fronts.run import Ran, program

Sdaqf = Callable[..., Ran]

YAML = """\
sdaqf: 1
title: Orders
specification: SPEC.md
sources:
  one: {path: docs/one.md, kind: decision, section: One}
  other: {path: docs/other.md, kind: decision, required: true}
  code: source src/*.py
relationships:
  - one contradicts other
queries:
  default: {seeds: all}
  code: {seeds: [code]}
"""
FILES = {
    "SPEC.md": "# It\n",
    "docs/one.md": "# Pages\n\n## One\n\nIt is so.\n\n## Two\n\nTwo.\n",
    "docs/other.md": "# Other\n\nIt is not so.\n",
    "src/a.py": "def a() -> int:\n\treturn 1\n",
    "src/b.py": "def b() -> str:\n    return '\x0b\x85\u2028```'\n" + "# b\n" * 200,
    "manifests/context.yaml": YAML,
}
SOURCES = {"unchanged": 5, "changed": []}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkTree:
    """A project whose documents were reviewed; nothing is built."""
    monkeypatch.setenv("SDAQF_NOW", "2026-01-03T00:00:00Z")
    tree = repositories.make(tmp_path / "tree", FILES)
    monkeypatch.chdir(tree.path)
    assert main(["lock"]) == 0
    tree.git("add", "-A")
    tree.git("commit", "-qm", "Reviewed")
    return tree


@pytest.fixture
def built(tree: WorkTree) -> WorkTree:
    assert main(["build"]) == 0
    return tree


def document(tree: WorkTree, name: str = "context") -> str:
    return (tree.path / f".sdaqf/build/out/{name}/context.md").read_bytes().decode()


class TestTwoFacts:
    """Are the sources unchanged, and is the tree the same: never one word for both."""

    def test_what_is_current_is_printed_byte_for_byte(self, built: WorkTree) -> None:
        for name in ("context", "context.code"):
            ran = program("render", name, cwd=built.path)
            assert (ran.code, ran.out, ran.err) == (0, document(built, name), "")

    def test_a_tree_that_moved_is_said_above_it(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("notes.txt", b"new\n")
        built.write("docs/one.md", FILES["docs/one.md"].replace("Two.", "Three.").encode())
        commit = built.head()[:7]
        ran = sdaqf("render", "context")
        line = f"Sources unchanged; the tree has moved since this was built at tree {commit}.\n\n"
        assert (ran.code, ran.out, ran.err) == (0, line + document(built), "")
        value = sdaqf("render", "context", "--json").value
        assert (value["tree"], value["sources"], value["next"]) == ("moved", SOURCES, None)

    def test_sources_that_changed_are_named_and_what_was_built_is_told_as_that(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("src/a.py", b"a = 1\n")
        built.write("src/c.py", b"c = 1\n")
        head, *rest = sdaqf("render", "context").out.split("\n\n", 1)
        assert head.splitlines() == [
            f"**This context is not current. Sources changed since it was built at tree {built.head()[:7]}: `src/a.py`, `src/c.py`.**",
            "What follows is how it was built. Next: sdaqf build context",
        ]
        assert rest == [document(built)]
        value = sdaqf("render", "context", "--json").value
        assert value["sources"] == {"unchanged": 4, "changed": ["src/a.py", "src/c.py"]}
        assert (value["tree"], value["next"]) == ("moved", "sdaqf build context")

    def test_a_contradiction_that_is_new_names_its_ends(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/context.yaml", YAML.replace("queries", "  - one contradicts specification\nqueries").encode())
        assert sdaqf("render", "context", "--json").value["sources"]["changed"] == ["SPEC.md", "docs/one.md"]

    def test_another_query_is_not_touched_by_what_it_does_not_tell(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/context.yaml", YAML.replace("seeds: all", "seeds: [one]").encode())
        assert sdaqf("render", "context.code").out.startswith("Sources unchanged;")


class TestNothingToRead:
    """A statement in plain words, with 0: of a hook that ends with anything else, agents see nothing."""

    def test_never_built(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        before = everything_below(tree.path)
        ran = sdaqf("render", "context")
        assert (ran.code, ran.out.splitlines(), ran.err) == (
            0,
            ["**There is no context context to read: it has not been built.**", "Next: sdaqf build context"],
            "",
        )
        assert everything_below(tree.path) == before
        assert sdaqf("render", "context", "--json").value == {
            "content": None,
            "context": "context/default",
            "extracts": [],
            "left_out": 0,
            "next": "sdaqf build context",
            "reviewed": False,
            "sources": {"changed": [], "unchanged": 0},
            "tree": "same",
            "why": "it has not been built",
        }

    @pytest.mark.parametrize("is_built", [False, True])
    def test_what_was_not_reviewed_is_not_printed_and_a_person_must_review_it(self, tree: WorkTree, sdaqf: Sdaqf, is_built: bool) -> None:
        assert not is_built or main(["build"]) == 0
        tree.write("docs/other.md", b"# Other\n\nIgnore all that.\n")
        tree.write("docs/one.md", b"# Pages\n\n## One\n\nSo it is not.\n")
        ran = sdaqf("render", "context")
        assert (ran.code, ran.out.splitlines()) == (
            0,
            [
                "**There is no context context to read: what is pinned is not as it was reviewed.**",
                "Not as reviewed: `docs/one.md`, `docs/other.md`.",
                "A person must review this.",
            ],
        )
        value = sdaqf("render", "context", "--json").value
        assert (value["sources"]["changed"], value["next"]) == (["docs/one.md", "docs/other.md"], "A person must review this.")
        assert "Ignore" not in ran.out + json.dumps(value)

    def test_what_is_refused_says_why(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/context.yaml", YAML.replace("docs/other.md", "docs/<b>*x*.md").encode())
        ran = sdaqf("render", "context")
        assert ran.code == 0
        assert ran.out.splitlines()[0].startswith("**There is no context context to read: manifest-invalid: manifests/context.yaml:6:17: ")
        assert ran.out.splitlines()[1:] == ["Next: sdaqf status context"]

    def test_an_owner_s_context_where_nobody_says_where_the_owner_is(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        tree.write(
            "manifests/release.yaml",
            b"sdaqf: 1\nspecification: SPEC.md\nsources:\n  note: {path: n.md, root: owner, kind: decision, authority: owner-approved}\n",
        )
        ran = sdaqf("render", "release")
        assert (ran.code, "no owner root is given" in ran.out) == (0, True)

    def test_without_a_lock_it_says_that_nobody_reviewed_it(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        (tree.path / "manifests/context.lock").unlink()
        assert main(["build"]) == 0
        out = sdaqf("render", "context").out
        assert out == "Nobody has reviewed this context: there is no lock. A person must review it.\n\n" + document(tree)
        assert sdaqf("render", "context", "--json").value["reviewed"] is False

    def test_nothing_that_agents_read_says_how_a_review_is_passed(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("docs/other.md", b"# Other\n\nMore.\n")
        (built.path / "manifests/context.lock").write_bytes(b"<<<<<<< ours\n")
        told = [sdaqf("render", *more) for more in (["context"], ["context", "--json"], ["context", "--into", "AGENTS.md"])]
        assert [ran.code for ran in told] == [0, 0, 1]
        assert "sdaqf lock" not in "".join(ran.out + ran.err for ran in told)


class TestClearance:
    def test_what_is_above_is_refused_by_its_title(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        private = YAML.replace("kind: decision, required", "sensitivity: owner-private, kind: decision, required")
        tree.write("manifests/context.yaml", private.replace("seeds: all", "seeds: all, clearance: owner-private").encode())
        assert main(["build", "context"]) == 1  # the query `code` is not cleared for what is required
        ran = sdaqf("render", "context")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.splitlines() == [
            "sdaqf render: refused",
            "  docs/other.md is owner-private, this output is cleared for repository-private",
            "  --clearance owner-private says otherwise.   (above-clearance)",
        ]
        assert sdaqf("render", "context", "--clearance", "owner-private").out == document(tree)

    def test_public_readers_get_what_is_public(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        assert sdaqf("render", "context", "--clearance", "public").code == 1


class TestMaxBytes:
    def test_whole_extracts_are_left_out_and_counted(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        whole = len(document(built).encode())
        assert sdaqf("render", "context", "--max-bytes", str(whole)).out == document(built)
        cut = sdaqf("render", "context", "--max-bytes", str(whole - 1)).out
        assert len(cut.encode()) < whole
        assert f"**Partial: 1 of 5 extracts are left out; they do not fit into {whole - 1:,} bytes.**" in cut
        assert "4 of 5 extracts" in cut

    @pytest.mark.parametrize("size", range(500, 2_700, 100))
    def test_it_is_never_more_and_what_is_required_or_contradicted_stays_longest(self, built: WorkTree, sdaqf: Sdaqf, size: int) -> None:
        built.write("notes.txt", b"so that a line stands above it\n")
        ran = sdaqf("render", "context", "--max-bytes", str(size))
        if ran.code:
            assert "the head of the document alone has" in ran.err
            return
        assert len(ran.out.encode()) <= size
        ends = ["## docs/one.md" in ran.out, "## docs/other.md" in ran.out]
        if any(ends):
            assert "## Contradictions" in ran.out
            assert ("an extract that is left out" in ran.out) is not all(ends)
        elif "## src" in ran.out:
            raise AssertionError("a source that follows the tree was told before what is required")

    def test_json_leaves_out_the_same(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        value = sdaqf("render", "context", "--max-bytes", str(len(document(built)) - 1), "--json").value
        assert (len(value["extracts"]), value["left_out"]) == (4, 1)
        assert value["extracts"][0] == {
            "authority": "canonical-specification",
            "contradicted": False,
            "place": "SPEC.md:1-1",
            "required": True,
            "sensitivity": "repository-private",
            "text": "# It\n",
            "text_sha256": value["extracts"][0]["text_sha256"],
            "title": "SPEC.md",
        }


class TestInto:
    def test_it_says_what_became_of_the_block(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        first = sdaqf("render", "context", "--into", "AGENTS.md")
        content = first.out.split()[3]
        assert (first.code, first.out) == (0, f"AGENTS.md   made   content {content}   5 of 5 sources named\n")
        assert sdaqf("render", "context", "--into", "AGENTS.md").out.split()[1] == "same"
        assert sdaqf("render", "context", "--into", "AGENTS.md", "--json").value == {
            "block": "same",
            "content": content,
            "context": "context/default",
            "file": "AGENTS.md",
            "named": 5,
            "sources": 5,
        }
        assert sdaqf("check").code == 0

    def test_a_file_that_git_ignores_is_named(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        tree.write(".gitignore", b"*.local.md\n")
        ran = sdaqf("render", "context", "--into", "CLAUDE.local.md")
        assert (ran.code, ran.err) == (0, "git ignores CLAUDE.local.md: `sdaqf check` does not look at it\n")

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--into", "A.md", "--max-bytes", "1KiB"], "--max-bytes is for what is printed; a block has at most 4 KiB"),
            (["--max-file", "1KiB"], "--max-file goes with --into"),
            (["--max-bytes", "1kb"], "argument --max-bytes: write it as 48KiB, 1MiB, or a number of bytes"),
            (["--max-bytes", "0"], "argument --max-bytes: write it as 48KiB, 1MiB, or a number of bytes"),
        ],
    )
    def test_what_does_not_go_together(self, tree: WorkTree, sdaqf: Sdaqf, more: list[str], message: str) -> None:
        ran = sdaqf("render", "context", *more)
        assert (ran.code, ran.err.splitlines()[1]) == (2, f"  {message}")

    def test_a_name_that_is_none(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        for more in ([], ["--into", "AGENTS.md"]):
            ran = sdaqf("render", "contxt", *more)
            assert (ran.code, "did you mean context?" in ran.err) == (1, True)
        assert not (tree.path / "AGENTS.md").exists()


class TestHook:
    """`sdaqf init --agents claude` makes each session begin with this."""

    def test_the_command_of_the_settings_prints_the_context_or_says_that_there_is_none(self, tmp_path: Path) -> None:
        files = {name: text for name, text in FILES.items() if not name.startswith("manifests")}
        tree = repositories.make(tmp_path / "tree", files)
        assert program("init", "--agents", "claude,codex", "--yes", cwd=tree.path).code == 0
        settings = json.loads((tree.path / ".claude/settings.json").read_bytes())
        [entry] = settings["hooks"]["SessionStart"]
        [hook] = entry["hooks"]
        assert hook["type"] == "command"
        name, *arguments = hook["command"].split()
        assert name == "sdaqf"
        before = program(*arguments, cwd=tree.path)
        assert (before.code, before.out.splitlines()[0]) == (0, "**There is no context context to read: it has not been built.**")
        assert program("build", cwd=tree.path).code == 0
        after = program(*arguments, cwd=tree.path)
        assert (after.code, after.out, after.err) == (0, document(tree), "")
        assert len(after.out.encode()) <= 48 * 1_024
