"""The stages beyond FORMAT's own six, on real files: `candidate`, `manifest`, `query`, `render`, `quality`; and `schema`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.artifacts import TYPES
from tests.disk.worktree import WorkTree, digest, everything_below, file
from tests.fronts.project import FILES, Made
from tests.fronts.run import Ran
from tests.repositories import make, write

Sdaqf = Callable[..., Ran]
SCHEMAS = Path(__file__).parents[2] / "schemas"


def at(tree: WorkTree) -> tuple[str, Path]:
    return "--repository-root", tree.path


class TestSchema:
    def test_the_names_are_those_of_the_files(self, sdaqf: Sdaqf) -> None:
        names = sorted(place.name.removesuffix(".schema.json") for place in SCHEMAS.iterdir())
        assert sdaqf("schema") == Ran(0, "".join(f"{name}\n" for name in names), "")
        assert sdaqf("schema", "--json").value == names
        assert {*TYPES} < {*names}

    @pytest.mark.parametrize("place", sorted(SCHEMAS.iterdir()), ids=lambda place: place.name.partition(".")[0])
    def test_it_is_the_file(self, place: Path, sdaqf: Sdaqf) -> None:
        assert sdaqf("schema", place.name.removesuffix(".schema.json")) == Ran(0, place.read_text(), "")


class TestCandidate:
    """FORMAT 17.11: the observed CandidateIdentity, as authors of Manifests need it."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> WorkTree:
        return make(tmp_path / "repository", {"a": "a\n", "b/c": "cc\n"}, untracked={"new": "new\n"})

    def test_without_a_specification_its_digest_is_null(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        whole = digest(file("a", b"a\n"), file("b/c", b"cc\n"), file("new", b"new\n"))
        assert sdaqf("context", "candidate", *at(tree)).out == (
            f"source_spec_sha256: None\ngit_head: {tree.head()}\nrepository_digest: {whole}\n"
        )
        assert sdaqf("context", "candidate", *at(tree), "--json").value == {
            "source_spec_sha256": None,
            "git_head": tree.head(),
            "repository_digest": whole,
        }

    def test_with_one_it_is_that_of_the_file(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        found = sdaqf("context", "candidate", *at(tree), "--spec", "b/c", "--json").value
        assert found["source_spec_sha256"] == canonical.digest(b"cc\n")

    @pytest.mark.parametrize("path", ["", "gone", "/etc/passwd", "../x", "b", ".git/HEAD", "b//c", "b c"])
    def test_a_specification_that_is_none(self, path: str, tree: WorkTree, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "candidate", *at(tree), f"--specification={path}", "--json")
        assert (ran.code, ran.value["reason"] in ("contract-invalid", "missing-or-unreadable")) == (1, True)

    def test_what_is_excluded_is_said_in_the_digest(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        for patterns, entries in (
            (["b/*"], [file("a", b"a\n"), file("new", b"new\n")]),
            (["untracked:"], [file("a", b"a\n"), file("b/c", b"cc\n")]),
            (["untracked:", "b/*"], [file("a", b"a\n")]),
            (["nothing"], [file("a", b"a\n"), file("b/c", b"cc\n"), file("new", b"new\n")]),
        ):
            joined = "\n".join(sorted(patterns)).encode()
            given = [word for pattern in patterns for word in ("--exclude", pattern)]
            found = sdaqf("context", "candidate", *at(tree), *given, "--json").value
            assert found["repository_digest"] == digest(("", f"exclude:{len(joined)}", joined), *entries)

    def test_a_pattern_that_is_none(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "candidate", *at(tree), "--exclude", "/a", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "settings-invalid")

    @pytest.mark.parametrize(("name", "good"), [("files", 3), ("file_bytes", 4), ("total_bytes", 9)])
    def test_the_last_good_limit_and_the_first_bad(self, name: str, good: int, tree: WorkTree, sdaqf: Sdaqf) -> None:
        assert sdaqf("context", "candidate", *at(tree), "--limit", f"{name}={good}").code == 0
        ran = sdaqf("context", "candidate", *at(tree), "--limit", f"{name}={good - 1}", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "tree-limit")
        assert f"limits.{name} is {good - 1}" in ran.value["message"]

    def test_git_that_has_no_time(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        ran = sdaqf("context", "candidate", *at(tree), "--limit", "git_seconds=0", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "git-failed")

    def test_the_root_is_the_top(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "candidate", "--repository-root", tree.path / "b", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "not-a-repository")
        (tmp_path / "link").symlink_to(tree.path)
        ran = sdaqf("context", "candidate", "--repository-root", tmp_path / "link", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "root-is-a-link")

    def test_nothing_changes(self, tree: WorkTree, sdaqf: Sdaqf) -> None:
        before = everything_below(tree.path)
        sdaqf("context", "candidate", *at(tree), "--spec", "a")
        assert everything_below(tree.path) == before


class TestManifest:
    """An include is relative to the YAML, or with a leading `/` to the top; a YAML outside the tree is on its own."""

    @pytest.fixture
    def tree(self, tmp_path: Path) -> WorkTree:
        return make(tmp_path / "repository", FILES)

    def sources(self, path: Path) -> list[str]:
        return sorted(source["locator"]["path"] for source in json.loads(path.read_bytes())["content"]["sources"])

    def compile(self, sdaqf: Sdaqf, yaml: Path, tree: WorkTree, out: Path, *options: str) -> Ran:
        return sdaqf("context", "manifest", yaml, *at(tree), "--output", out, "--json", *options)

    @pytest.mark.parametrize("include", ["_shared.yaml", "./_shared.yaml", "../manifests/_shared.yaml", "/manifests/_shared.yaml"])
    @pytest.mark.parametrize("through", ["repository", "link/repository"])
    def test_an_include_in_the_tree(self, include: str, through: str, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "link").symlink_to(tmp_path)
        write(tree.path, {"manifests/x.yaml": f"sdaqf: 1\nspecification: SPEC.md\ninclude: [{include}]\n"})
        assert self.compile(sdaqf, tmp_path / through / "manifests" / "x.yaml", tree, tmp_path / "m.json").code == 0
        assert self.sources(tmp_path / "m.json") == ["SPEC.md", "docs/aside.md"]

    @pytest.mark.parametrize("include", ["more/_shared.yaml", "/more/_shared.yaml"])
    def test_an_include_outside(self, include: str, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        write(
            tmp_path / "outside",
            {
                "x.yaml": f"sdaqf: 1\nspecification: SPEC.md\ninclude: [{include}]\n",
                "more/_shared.yaml": "sdaqf: 1\nsources:\n  one: design docs/one.md\n",
            },
        )
        assert self.compile(sdaqf, tmp_path / "outside" / "x.yaml", tree, tmp_path / "m.json").code == 0
        assert self.sources(tmp_path / "m.json") == ["SPEC.md", "docs/one.md"]

    @pytest.mark.parametrize("include", ["../repository/manifests/_shared.yaml", "gone.yaml", ".git/config", "x.yaml", "link.yaml"])
    def test_an_include_that_leads_elsewhere(self, include: str, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        write(tmp_path / "outside", {"x.yaml": f"sdaqf: 1\nspecification: SPEC.md\ninclude: [{include}]\n", ".git/config": "sdaqf: 1\n"})
        (tmp_path / "outside" / "link.yaml").symlink_to(tree.path / "manifests" / "_shared.yaml")
        ran = self.compile(sdaqf, tmp_path / "outside" / "x.yaml", tree, tmp_path / "m.json")
        assert (ran.code, ran.value["where"], (tmp_path / "m.json").exists()) == (1, "x.yaml:3:11", False)
        assert str(tmp_path) not in ran.out

    def test_a_yaml_that_is_a_link(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "x.yaml").symlink_to(tree.path / "manifests" / "context.yaml")
        ran = self.compile(sdaqf, tmp_path / "x.yaml", tree, tmp_path / "m.json")
        assert (ran.code, ran.value["reason"], ran.value["where"]) == (1, "missing-or-unreadable", "x.yaml")

    def test_folders_that_link_to_each_other(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        for line in ("manifest {loop} --repository-root {root}", "query {loop} {graph}", "manifest {yaml} --repository-root {loop}"):
            words = line.format(loop=tmp_path / "a" / "x.yaml", root=tree.path, yaml=tree.path / "manifests/context.yaml", graph="g.json")
            ran = sdaqf("context", *words.split(), "--output", tmp_path / "m.json", "--json")
            assert ran.code == 1

    def test_the_last_good_size_and_the_first_bad(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        yaml = "sdaqf: 1\nspecification: SPEC.md\n#"
        for size, code in ((1_048_576, 0), (1_048_577, 1), (1_048_578, 1), (3_000_000, 1)):
            write(tmp_path, {"x.yaml": yaml + "x" * (size - len(yaml) - 1) + "\n"})
            ran = self.compile(sdaqf, tmp_path / "x.yaml", tree, tmp_path / f"{size}.json")
            assert ran.code == code
            assert code == 0 or (ran.value["reason"], ran.value["where"].partition(":")[0]) == ("too-large", "x.yaml")

    def test_excluded_paths_are_no_sources(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        yaml = tree.path / "manifests" / "context.yaml"
        ran = self.compile(sdaqf, yaml, tree, tmp_path / "m.json", "--exclude", "docs/one.md")
        assert (ran.code, ran.value["where"]) == (1, "manifests/context.yaml:5:8")

    def test_what_a_reduced_tree_gives_only_a_reduced_tree_takes(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        yaml, manifest = tree.path / "manifests" / "context.yaml", tmp_path / "m.json"
        assert self.compile(sdaqf, yaml, tree, manifest, "--exclude", ".gitignore").code == 0
        ran = sdaqf("context", "index", manifest, *at(tree), "--output", tmp_path / "g.json", "--json")
        assert (ran.code, ran.value["reason"]) == (1, "candidate-mismatch")
        assert sdaqf("context", "index", manifest, *at(tree), "--exclude", ".gitignore", "--output", tmp_path / "g.json").code == 0

    def test_notes_are_told_apart_from_the_result(self, tree: WorkTree, sdaqf: Sdaqf, tmp_path: Path) -> None:
        write(
            tree.path,
            {"docs/image.md": b"\xff\xfe", "manifests/x.yaml": "sdaqf: 1\nspecification: SPEC.md\nsources:\n  d: design docs/*.md\n"},
        )
        ran = self.compile(sdaqf, tree.path / "manifests" / "x.yaml", tree, tmp_path / "m.json")
        assert (ran.code, ran.value["output"]) == (0, "m.json")
        assert "docs/image.md" in ran.err


class TestQuery:
    """`as_of` is what is written, else HEAD's commit time: never the clock."""

    def as_of(self, place: Path) -> Any:
        return json.loads(place.read_bytes())["content"]["as_of"]

    def test_each_query_by_its_name(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        for options, moment in ((), "2026-01-02T00:00:00Z"), (("--query", "head"), "2026-01-01T00:00:00Z"):
            out = tmp_path / f"{len(options)}.json"
            assert sdaqf("context", "query", project.yaml, project["graph"], *options, "--output", out).code == 0
            assert self.as_of(out) == moment

    def test_a_yaml_outside_takes_the_root_that_is_given(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        write(tmp_path, {"x.yaml": "sdaqf: 1\nspecification: SPEC.md\n"})
        command = ("context", "query", tmp_path / "x.yaml", project["graph"], "--output", tmp_path / "q.json")
        assert sdaqf(*command, *at(project.tree)).code == 0
        assert self.as_of(tmp_path / "q.json") == "2026-01-01T00:00:00Z"

    def test_a_yaml_outside_without_a_root_has_no_moment(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        write(tmp_path, {"x.yaml": "sdaqf: 1\nspecification: SPEC.md\n"})
        ran = sdaqf("context", "query", tmp_path / "x.yaml", project["graph"], "--output", tmp_path / "q.json", "--json")
        assert (ran.code, (tmp_path / "q.json").exists()) == (1, False)
        assert "as_of" in ran.value["message"]

    def test_a_name_that_is_none(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf("context", "query", project.yaml, project["graph"], "--query", "\x1b[2J", "--output", tmp_path / "q.json")
        assert (ran.code, "unknown-name" in ran.err, "\x1b" in ran.err) == (1, True, False)

    def test_a_graph_of_another_repository(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        tree = make(tmp_path / "other", FILES, message="another")
        yaml = tree.path / "manifests" / "context.yaml"
        ran = sdaqf("context", "query", yaml, project["graph"], "--query", "head", "--output", tmp_path / "q.json", "--json")
        assert (ran.code, (tmp_path / "q.json").exists(), "/" in ran.value["message"]) == (1, False, False)


class TestQuality:
    def test_the_chain_is_demanded(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf(
            *("context", "quality", project["graph"], project["selection-all"], project["snapshot-default"]),
            *("--output", tmp_path / "r.json", "--json"),
        )
        assert (ran.code, ran.value["reason"], (tmp_path / "r.json").exists()) == (1, "chain-mismatch", False)

    def test_what_it_counts(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        out = tmp_path / "r.json"
        taken = (project["graph"], project["selection-all"], project["snapshot-all"])
        assert sdaqf("context", "quality", *taken, "--output", out, "--json").value["artifact_type"] == "context-quality-report"
        content = json.loads(out.read_bytes())["content"]
        assert (content["selected_node_count"], content["unresolved_contradiction_count"]) == (4, 1)
        assert sdaqf("context", "validate", out).code == 0


class TestCompact:
    """`--graph` and `--selection` demand the whole chain: a Snapshot with its contradiction removed does not pass (FORMAT 16.6)."""

    def compact(self, sdaqf: Sdaqf, project: Made, out: Path, *options: str | Path) -> Ran:
        return sdaqf("context", "compact", project["snapshot-all"], *at(project.tree), "--output", out, "--json", *options)

    def test_the_whole_chain(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        chain = ("--graph", project["graph"], "--selection", project["selection-all"])
        assert self.compact(sdaqf, project, tmp_path / "c.json", *chain).code == 0
        assert (tmp_path / "c.json").read_bytes() == project["compaction-all"].read_bytes()

    @pytest.mark.parametrize("given", [("--graph",), ("--selection",), ("--graph", "--selection")])
    def test_another_chain_or_half_of_it(self, given: tuple[str, ...], project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        files = {"--graph": project["graph"], "--selection": project["selection-default"]}
        ran = self.compact(sdaqf, project, tmp_path / "c.json", *(word for name in given for word in (name, files[name])))
        assert (ran.code, ran.value["reason"], (tmp_path / "c.json").exists()) == (1, "chain-mismatch", False)


class TestOwner:
    """An owner root is given exactly where there are owner sources; what comes of them is for who is cleared."""

    YAML = (
        "sdaqf: 1\nspecification: SPEC.md\n"
        "sources:\n  note: {path: note.md, root: owner, kind: decision}\n"
        "queries:\n  default: {seeds: all, clearance: owner-private}\n"
    )

    @pytest.fixture
    def chain(self, sdaqf: Sdaqf, tmp_path: Path) -> Path:
        """The folder of a chain with one owner source, `repository` and `owner` beside it."""
        tree = make(tmp_path / "repository", FILES)
        write(tmp_path, {"owner/note.md": "Between us.\n", "x.yaml": self.YAML})
        folder = tmp_path / "made"
        folder.mkdir()
        world = (*at(tree), "--owner-root", tmp_path / "owner")
        for stage, takes, more, makes in (
            ("manifest", [tmp_path / "x.yaml"], world, "m.json"),
            ("index", [folder / "m.json"], world, "g.json"),
            ("query", [tmp_path / "x.yaml", folder / "g.json"], at(tree), "q.json"),
            ("select", [folder / "g.json", folder / "q.json"], (), "sel.json"),
            ("snapshot", [folder / "g.json", folder / "sel.json"], world, "snap.json"),
            ("compact", [folder / "snap.json"], world, "c.json"),
        ):
            assert sdaqf("context", stage, *takes, *more, "--output", folder / makes).code == 0
        return folder

    def test_without_the_root(self, chain: Path, sdaqf: Sdaqf) -> None:
        root = ("--repository-root", chain.parent / "repository")
        for line in (("index", chain / "m.json"), ("snapshot", chain / "g.json", chain / "sel.json"), ("compact", chain / "snap.json")):
            ran = sdaqf("context", *line, *root, "--output", chain / "new.json", "--json")
            assert (ran.code, ran.value["reason"], (chain / "new.json").exists()) == (1, "owner-root", False)

    def test_with_a_root_that_nothing_needs(self, project: Made, sdaqf: Sdaqf, tmp_path: Path) -> None:
        ran = sdaqf(
            *("context", "index", project["manifest"], *at(project.tree), "--owner-root", tmp_path),
            *("--output", tmp_path / "g.json", "--json"),
        )
        assert (ran.code, ran.value["reason"]) == (1, "owner-root")

    def test_a_document_is_cleared_for_the_repository_unless_said(self, chain: Path, sdaqf: Sdaqf) -> None:
        command = ("context", "render", chain / "snap.json", chain / "c.json", "--output", chain / "c.md", "--json")
        ran = sdaqf(*command)
        assert (ran.code, ran.value["reason"], (chain / "c.md").exists()) == (1, "above-clearance", False)
        assert sdaqf(*command, "--clearance", "owner-private").code == 0
        assert "Between us." in (chain / "c.md").read_text()

    def test_a_partial_document_leaves_out_what_is_above(self, chain: Path, sdaqf: Sdaqf) -> None:
        command = ("context", "render", chain / "snap.json", chain / "c.json", "--output", chain / "c.md")
        assert sdaqf(*command, "--clearance", "repository-private").code == 0
        text = (chain / "c.md").read_text()
        assert "Between us." not in text and "It MUST do FR-1." in text
        assert "1 of 2 extracts" in text
