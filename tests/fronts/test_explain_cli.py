"""`sdaqf explain`, `diff` and `rule` on a real repository: what people and programs read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.errors import Finding, Reason
from sdaqf_tasks.fronts.cli import main
from tests import repositories
from tests.disk.worktree import WorkTree, everything_below
from tests.fronts.project import Made
from tests.fronts.run import Ran

Sdaqf = Callable[..., Ran]

YAML = """\
sdaqf: 1
specification: SPEC.md
defaults:
  sensitivity: public
sources:
  retries:
    path: docs/retries.md
    kind: decision
    authority: accepted-public-contract
  private: {path: docs/private.md, kind: design, sensitivity: owner-private}
  rest: design docs/rest/*.md
  seen:
    path: seen.txt
    kind: tool-observation
    freshness: {observed: 2020-01-01T00:00:00Z, for: 30d}
relationships:
  - retries contradicts private
queries:
  default: {seeds: all}
  rest: {seeds: [rest], as_of: 2026-01-02T00:00:00Z, budget: 2KiB}
"""
FILES = {
    "SPEC.md": "# It\n",
    "docs/retries.md": "three times\n",
    "docs/private.md": "never\n",
    "docs/rest/a.md": "a" * 300 + "\n",
    "docs/rest/b.md": "b" * 300 + "\n",
    "docs/rest/c.md": "c" * 300 + "\n",
    "seen.txt": "seen\n",
    "manifests/context.yaml": YAML,
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorkTree:
    monkeypatch.setenv("SDAQF_NOW", "2026-01-03T00:00:00Z")
    tree = repositories.make(tmp_path / "tree", FILES)
    monkeypatch.chdir(tree.path)
    return tree


@pytest.fixture
def built(tree: WorkTree, capsys: pytest.CaptureFixture[str]) -> WorkTree:
    assert main(["build"]) == 0
    return tree


def commit(tree: WorkTree) -> str:
    """Commit all that git does not ignore."""
    tree.git("add", "-A")
    tree.git("commit", "-q", "-m", "two")
    return tree.head()


def rest_of(tree: WorkTree) -> list[str]:
    """The three files of the glob, in the order in which they rank: by id, since all else is equal."""
    found = json.loads((tree.path / ".sdaqf/build/out/context/graph.json").read_bytes())["content"]["nodes"]
    paths = {node["node_id"]: node["locator"]["path"] for node in found}
    return [paths[node_id] for node_id in sorted(paths) if "/rest/" in paths[node_id]]


class TestExplain:
    def test_the_list_is_in_order_of_rank_with_the_line_where_the_budget_cuts(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        first, second, third = rest_of(built)
        ran = sdaqf("explain", "context.rest")
        assert (ran.code, ran.err) == (0, "")
        head, *lines = ran.out.splitlines()
        used = json.loads((built.path / ".sdaqf/build/out/context.rest/selection.json").read_bytes())["content"]["used_bytes"]
        assert head.startswith(
            f"context.rest · 2 in, 5 out · {used / 1024:.1f} of 2 KiB · cleared for repository-private · as of 2026-01-02T"
        )
        assert [" ".join(line.split()) for line in lines[2:4]] == [
            f"---- the budget cuts from here: {used / 1024:.1f} of 2 KiB ----",
            f"3 out graph {lines[3].split()[3]} {second}:1-1 byte-budget",
        ]
        assert [line.split()[-1 if line.split()[1] == "in" else -2] for line in lines if "----" not in line] == [
            "SPEC.md:1-1",
            f"{first}:1-1",
            f"{second}:1-1",
            f"{third}:1-1",
            "docs/private.md:1-1",
            "docs/retries.md:1-1",
            "seen.txt:1-1",
        ]

    def test_one_that_is_out_says_what_it_misses_and_what_would_let_it_in(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        _, second, _ = rest_of(built)
        found = sdaqf("explain", "context.rest", second, "--json").value["detail"]
        needed = 2_048 + found["misses"]["bytes"]
        assert (found["state"], found["reason"], found["alias"], found["alias_members"]) == ("out", "byte-budget", "rest", 3)
        assert [[step["change"] for step in way] for way in found["ways"]] == [["budget.bytes"], ["require"]]
        assert found["ways"][0][0]["to"] == needed
        assert sdaqf("explain", "context.rest", second).out.splitlines() == [
            f"{second}:1-1 is out of context.rest   (rest: design, {second})",
            "  why          byte-budget: The budget's bytes are used up.",
            f"  misses       {found['misses']['bytes']:,} bytes",
            f"  costs        {found['bytes']:,} bytes: text 304, record {found['bytes'] - 304:,}",
            "  rank         3. graph (phase 1) · repository-record (4) · distance 0 · score 0 · public (0)",
            "  authority    repository-record: the default",
            "  sensitivity  public: manifests/context.yaml:4:16",
            f"  To let it in: raise budget.bytes to {needed:,}",
            "  or:           name it in require",
            "  rest stands for 3 sources: to name this one alone, give it an alias of its own.",
        ]

    def test_the_budget_that_is_advised_lets_it_in(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        _, second, third = rest_of(built)
        needed = sdaqf("explain", "context.rest", second, "--json").value["detail"]["ways"][0][0]["to"]
        for budget, state in ((needed - 1, "out"), (needed, "in")):
            built.write("manifests/context.yaml", YAML.replace("2KiB", str(budget)).encode())
            assert sdaqf("build", "context.rest").code == 0
            assert sdaqf("explain", "context.rest", second, "--json").value["sources"][0]["state"] == state
        assert sdaqf("explain", "context.rest", third, "--json").value["sources"][0]["state"] == "out"

    @pytest.mark.parametrize("named", ["retries", "docs/retries.md", "docs/retries.md:1-1", "node_id", "source_id", "start"])
    def test_a_source_goes_by_alias_path_lines_and_ids(self, named: str, built: WorkTree, sdaqf: Sdaqf) -> None:
        entry = next(one for one in sdaqf("explain", "context", "--json").value["sources"] if one["alias"] == "retries")
        given = {"node_id": entry["node_id"], "source_id": entry["source_id"], "start": entry["node_id"][:17]}.get(named, named)
        found = sdaqf("explain", "context", given, "--json").value
        assert found["sources"] == [entry]
        assert found["detail"]["exclusion"] == {
            "reason": "contradiction-closure-unavailable",
            "means": "The node contradicts another one that cannot be taken.",
            "details": ["docs/private.md:1-1"],
        }
        assert [[step["change"] for step in way] for way in found["detail"]["ways"]] == [["clearance"], ["settle"]]
        assert found["detail"]["component"] == [{"source": "docs/private.md:1-1", "reason": "sensitivity-clearance"}]
        assert found["detail"]["origin"] == {
            "authority": {"value": "accepted-public-contract", "from": "manifests/context.yaml:9:16"},
            "sensitivity": {"value": "public", "from": "manifests/context.yaml:4:16"},
        }

    @pytest.mark.parametrize(
        ("alias", "authority", "sensitivity"),
        [
            ("specification", "manifests/context.yaml:2:16", "manifests/context.yaml:4:16"),
            ("private", "the default", "manifests/context.yaml:10:63"),
            ("seen", "the default", "manifests/context.yaml:4:16"),
        ],
    )
    def test_authority_and_sensitivity_say_where_they_come_from(
        self, alias: str, authority: str, sensitivity: str, built: WorkTree, sdaqf: Sdaqf
    ) -> None:
        origin = sdaqf("explain", "context", alias, "--json").value["detail"]["origin"]
        assert (origin["authority"]["from"], origin["sensitivity"]["from"]) == (authority, sensitivity)

    def test_without_a_line_the_default_is_named(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/context.yaml", YAML.replace("defaults:\n  sensitivity: public\n", "").encode())
        origin = sdaqf("explain", "context", "retries", "--json").value["detail"]["origin"]
        assert origin["sensitivity"] == {"value": "public", "from": "the YAML, which has changed since"}
        assert sdaqf("build", "context").code == 0
        origin = sdaqf("explain", "context", "retries", "--json").value["detail"]["origin"]
        assert origin["sensitivity"] == {"value": "repository-private", "from": "the default"}

    def test_an_alias_of_many_is_a_list(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        found = sdaqf("explain", "context", "rest", "--json").value
        assert ([one["source"] for one in found["sources"]], found["detail"]) == ([f"{path}:1-1" for path in rest_of(built)], None)

    def test_what_is_not_current_says_so(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("docs/retries.md", b"five times\n")
        first = sdaqf("explain", "context").out.splitlines()[0]
        assert first == "context is not current: manifest: changed: the tree; this is about what was built last"
        found = sdaqf("explain", "context", "--json").value
        assert (found["state"], found["why"]) == ("not current", "manifest: changed: the tree")

    def test_what_is_stale_would_be_in_if_observed_again(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        ways = sdaqf("explain", "context", "seen", "--json").value["detail"]["ways"]
        assert [[step["change"] for step in way] for way in ways] == [["observe"]]
        written = YAML.replace("{observed: 2020-01-01T00:00:00Z, for: 30d}", "{observed: 2025-12-31T00:00:00Z, for: 30d}")
        built.write("manifests/context.yaml", written.encode())
        assert sdaqf("build", "context").code == 0
        assert sdaqf("explain", "context", "seen", "--json").value["detail"]["state"] == "in"

    @pytest.mark.parametrize("command", ["explain", "render"])
    def test_the_only_manifest_need_not_be_named(self, command: str, built: WorkTree, sdaqf: Sdaqf) -> None:
        assert (sdaqf(command).code, sdaqf(command).out) == (0, sdaqf(command, "context").out)
        built.write("manifests/other.yaml", YAML.encode())
        ran = sdaqf(command, "--json")
        assert (ran.code, ran.value["reason"], ran.value["message"]) == (1, "unknown-name", "no manifest is named")

    def test_nothing_is_written(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        before = everything_below(built.path)
        for line in ("explain context", "explain context rest", "diff context context.rest", "diff --since HEAD", "rule"):
            assert sdaqf(*line.split()).code == 0
        assert everything_below(built.path) == before

    def test_text_of_a_source_does_not_move_the_terminal(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        written = YAML.replace("kind: decision", 'kind: decision\n    title: "a\\e[31m\\u202e\\nb"')
        tree.write("manifests/context.yaml", written.encode())
        tree.write("docs/rest/a.md", b"\x1b[31m\xe2\x80\xae\x07\n")
        commit(tree)
        assert sdaqf("build").code == 0
        tree.write("docs/rest/a.md", b"\x1b]0;title\x07\n")
        assert sdaqf("build").code == 0
        printed = sdaqf("explain", "context", "retries").out + sdaqf("diff", "--since", "HEAD").out
        assert r"a\x1b[31m\u202e\nb" in printed
        assert r"-\x1b[31m\u202e\x07" in printed
        assert all(character.isprintable() for line in printed.splitlines() for character in line)


class TestDiff:
    def test_since_a_commit(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        base = built.head()
        built.write("docs/rest/a.md", b"changed\n")
        built.write("docs/rest/d.md", b"new\n")
        built.write("manifests/context.yaml", YAML.replace("{seeds: all}", "{seeds: all, budget: 8KiB}").encode())
        commit(built)
        assert sdaqf("build").code == 0
        found = sdaqf("diff", "--since", "HEAD~1", "--json")
        entry: dict[str, Any] = found.value["contexts"][0]
        assert (found.code, found.value["since"], found.value["skipped"]) == (0, base, [])
        assert (entry["base"], entry["current"], entry["error"], entry["notes"], entry["not_compared"]) == (base, "context", None, [], [])
        assert [(one["source"], one["reason"]) for one in entry["added"]] == [("docs/rest/d.md:1-1", None)]
        assert [one["lines"] for one in entry["changed"]] == [["@@ -1 +1 @@", "-" + "a" * 199 + "…", "+changed"]]
        assert entry["query"] == [{"what": "budget.bytes", "before": 262_144, "after": 8_192}]
        assert entry["tree"] == {"before": base, "after": built.head()}
        told = sdaqf("diff", "--since", base[:8]).out.splitlines()
        digests = [entry["content"][when][:12] for when in ("before", "after")]
        assert told[:3] == [
            f"{base[:12]} → context",
            f"  content {digests[0]} → {digests[1]} · tree {base[:7]} → {built.head()[:7]} · as of 2026-01-01T00:00:00Z",
            "  added      docs/rest/d.md:1-1   1 line",
        ]

    def test_the_past_is_what_was_built_then(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        found = sdaqf("diff", "--since", "HEAD", "--json").value["contexts"]
        assert [entry["current"] for entry in found] == ["context", "context.rest"]
        for entry in found:
            assert entry["content"]["before"] == entry["content"]["after"]
            assert [name for name in ("added", "removed", "moved_in", "moved_out", "changed", "marked", "query") if entry[name]] == []
        assert sdaqf("diff", "--since", "HEAD", "context.rest").out.splitlines()[2] == "  agents are told the same"

    def test_what_is_built_is_compared_by_name_by_id_and_by_file(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        out = built.path / ".sdaqf/build/out"
        ids = [json.loads((out / name / "snapshot.json").read_bytes())["artifact_id"] for name in ("context", "context.rest")]
        compactions = [out / name / "compaction.json" for name in ("context", "context.rest")]
        by_name = sdaqf("diff", "context", "context.rest", "--json").value["contexts"][0]
        assert {one["what"] for one in by_name["query"]} == {"seeds", "budget.bytes"}
        assert {one["reason"] for one in by_name["moved_out"]} == {"byte-budget"}
        for sides in (ids, [out / name / "snapshot.json" for name in ("context", "context.rest")], compactions):
            entry = sdaqf("diff", *sides, "--json").value["contexts"][0]
            assert entry | {"base": "", "current": ""} == by_name | {"base": "", "current": ""}

    def test_files_are_compared_without_a_repository(
        self, project: Made, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        found = sdaqf("diff", project["snapshot-default"], project["snapshot-all"], "--json").value["contexts"][0]
        assert found["moved_in"] == [{"source": "docs/aside.md:1-1", "reason": "not-retrieved"}]
        assert len(found["not_compared"]) == 3
        assert (found["base"], found["current"]) == ("snapshot-default.json", "snapshot-all.json")

    def test_what_was_built_last_is_compared_and_said_not_to_be_current(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("docs/retries.md", b"five times\n")
        assert sdaqf("diff", "context", "context.rest", "--json").value["contexts"][0]["notes"] == [
            f"{name} is not current: manifest: changed: the tree; this is about what was built last" for name in ("context", "context.rest")
        ]

    def test_files_that_git_converts_and_links_are_said_not_to_be_compared(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write(".gitattributes", b"docs/rest/a.md text eol=crlf\n")
        built.place("docs/rest/b.md").unlink()
        built.link("docs/rest/b.md", "a.md")
        commit(built)
        built.place("docs/rest/a.md").unlink()
        built.git("checkout", "--", "docs/rest/a.md")
        assert sdaqf("build").code == 0
        entry = sdaqf("diff", "--since", "HEAD~1", "context", "--json").value["contexts"][0]
        assert entry["changed"] == []
        assert entry["not_compared"] == [
            "docs/rest/a.md: git writes it otherwise than it keeps it",
            "docs/rest/b.md: a link on one of the two sides",
        ]

    def test_a_manifest_that_was_not_there_or_cannot_be_made_then_is_told(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/other.yaml", b"sdaqf: 1\nspecification: NEW.md\n")
        built.write("NEW.md", b"new\n")
        assert sdaqf("build").code == 0
        ran = sdaqf("diff", "--since", "HEAD", "other")
        assert (ran.code, ran.out.splitlines()[1:]) == (
            1,
            [
                f"  refused: manifests/other.yaml was not there at {built.head()[:12]}",
                "  Everything in it is new since.   (unknown-name)",
            ],
        )
        built.commit("manifests/other.yaml")
        entry = sdaqf("diff", "--since", "HEAD", "other", "--json").value["contexts"][0]
        assert (entry["error"]["reason"], entry["error"]["where"]) == ("missing-or-unreadable", "manifests/other.yaml:2:16")

    def test_sources_that_no_commit_holds_have_no_past(self, built: WorkTree, sdaqf: Sdaqf) -> None:
        built.write("manifests/private.yaml", b"sdaqf: 1\nspecification: SPEC.md\nsources:\n  n: {path: n.md, root: owner, kind: design}\n")
        commit(built)
        assert sdaqf("diff", "--since", "HEAD", "--json").value["skipped"] == ["private"]
        owner = built.path.parent / "owner"
        owner.mkdir()
        (owner / "n.md").write_bytes(b"n\n")
        assert sdaqf("build", "private", "--owner-root", owner).code == 0
        entry = sdaqf("diff", "--since", "HEAD", "private", "--owner-root", owner, "--json").value["contexts"][0]
        assert entry["error"]["message"] == "private has sources that no commit holds: n.md"


class TestRule:
    def test_a_code_of_both_kinds_is_explained_as_both(self, sdaqf: Sdaqf) -> None:
        assert sdaqf("rule", "tampered").out.splitlines() == [
            "tampered   finding, error",
            "  A stored object is not what its name says.",
            "  To do: sdaqf build",
            "tampered   reason",
            "  A stored object is not what its name says.",
            "  To do: Run `sdaqf build`: it is made again.",
        ]
        assert sdaqf("rule", "dead-mention", "--json").value == [
            {
                "code": "dead-mention",
                "kind": "finding",
                "severity": "warning",
                "means": Finding.DEAD_MENTION.means,
                "todo": Finding.DEAD_MENTION.settles,
            }
        ]

    def test_without_a_code_all_are_listed(self, sdaqf: Sdaqf) -> None:
        found = sdaqf("rule", "--json").value
        assert [one["code"] for one in found] == sorted([one.value for one in Finding] + [one.value for one in Reason])
        assert len(sdaqf("rule").out.splitlines()) == len(found)


REFUSALS = {
    "an unknown manifest": ("explain contxt", 1, "unknown-name", "there is no manifest 'contxt'; did you mean context?"),
    "an unknown query": ("explain context.rset", 1, "unknown-name", "there is no context 'context.rset'; did you mean context.rest?"),
    "an unknown source": (
        "explain context docs/retry.md",
        1,
        "unknown-name",
        "context has no source 'docs/retry.md'; did you mean docs/retries.md?",
    ),
    "an id of nothing": (f"explain context CTX-NODE-{'0' * 64}", 1, "unknown-name", None),
    "one side": ("diff context", 2, "usage", "give two of files, ids and NAME[.QUERY]; or --since REF"),
    "no side": ("diff", 2, "usage", None),
    "no such commit": ("diff --since nope", 2, "usage", "this clone has no commit 'nope'; where it is shallow: git fetch --deepen 50"),
    "an option for a commit": ("diff --since=--output=x", 2, "usage", None),
    "an unknown context since": ("diff --since HEAD nothing", 1, "unknown-name", None),
    "no such file": ("diff context no.json", 1, "missing-or-unreadable", None),
    "no such object": (f"diff context CTX-SNAPSHOT-{'0' * 64}", 1, "object-missing", None),
    "another artifact": (
        "diff context .sdaqf/build/out/context/graph.json",
        1,
        "artifact-type",
        "a context-graph, where a context-snapshot belongs",
    ),
    "an unknown rule": ("rule chnged", 1, "unknown-name", "there is no rule 'chnged'; did you mean changed?"),
    "the start of a rule": ("rule byte", 1, "unknown-name", "there is no rule 'byte'; did you mean byte-budget?"),
    "no rule at all": ("rule \x1b[31m", 1, "unknown-name", "there is no rule '\\x1b[31m'"),
}


@pytest.mark.parametrize(("line", "code", "reason", "message"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_is_one_json_document(line: str, code: int, reason: str, message: str | None, built: WorkTree, sdaqf: Sdaqf) -> None:
    ran = sdaqf(*line.split(" "), "--json")
    assert (ran.code, ran.value["reason"], ran.err) == (code, reason, "")
    assert sorted(ran.value) == ["error", "message", "operation", "reason", "where"]
    assert message is None or ran.value["message"] == message
    assert str(built.path) not in ran.out
    ran = sdaqf(*line.split(" "))
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 3)


@pytest.mark.parametrize("line", ["explain context", "diff context context.rest", "diff --since HEAD"])
def test_before_anything_is_built_they_say_so(line: str, tree: WorkTree, sdaqf: Sdaqf) -> None:
    ran = sdaqf(*line.split(), "--json")
    reasons = {entry["error"]["reason"] for entry in ran.value["contexts"]} if "contexts" in ran.value else {ran.value["reason"]}
    assert (ran.code, reasons) == (1, {"not-built"})


@pytest.mark.parametrize("line", ["explain context", "diff context context", "diff --since HEAD"])
def test_outside_a_repository_they_say_so(line: str, sdaqf: Sdaqf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = sdaqf(*line.split(), "--json")
    assert (ran.code, ran.value["reason"]) == (1, "not-a-repository")
