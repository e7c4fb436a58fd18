"""What a query of a manifest means for a Graph: which nodes, which moment, which bounds (PIPELINE 2, Queries)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.context.compile import Compiled, compile
from sdaqf_tasks.context.index import index
from sdaqf_tasks.context.query import query
from sdaqf_tasks.context.select import select
from sdaqf_tasks.errors import Invalid, Reason, Refused, SdaqfError
from sdaqf_tasks.formats.artifacts import Artifact, Budget, Graph, Manifest, Query
from sdaqf_tasks.formats.declaration import Declaration
from sdaqf_tasks.formats.records import EdgeType, RootScope, Sensitivity
from tests.written import FILE, World, declared

COMMITTED = "2026-01-01T00:00:00Z"
KEY = "AKIA" + "A" * 16 + "\n"


class Built(NamedTuple):
    """A manifest with its Manifest and Graph."""

    written: Declaration
    compiled: Compiled
    graph: Artifact[Graph]

    @property
    def manifest(self) -> Artifact[Manifest]:
        return self.compiled.manifest

    def ask(self, name: str = "default", *, committed: str | None = COMMITTED, blind: bool = False) -> Query:
        """The content of a query; `blind`: without the Manifest at hand."""
        return query(self.written, name, self.graph, committed, None if blind else self.manifest).query.content

    def notes(self, name: str = "default", *, blind: bool = False) -> tuple[str, ...]:
        return query(self.written, name, self.graph, COMMITTED, None if blind else self.manifest).notes

    def sources(self, node_ids: tuple[str, ...]) -> set[str]:
        """The source ids of nodes."""
        by_node = {node.node_id: node.source_id for node in self.graph.content.nodes}
        return {by_node[node_id] for node_id in node_ids}

    def paths(self, node_ids: tuple[str, ...]) -> list[str]:
        by_node = {node.node_id: node.locator.path for node in self.graph.content.nodes}
        return sorted(by_node[node_id] for node_id in node_ids)


def built(below: str, world: World | None = None) -> Built:
    world = world or World({"src/a.py": "a\n", "src/b.py": "b\n", "d/a.md": "a\n"})
    written = declared(below)
    compiled = compile(written, world)
    needed = any(source.locator.root_scope is RootScope.OWNER for source in compiled.manifest.content.sources)
    return Built(written, compiled, index(compiled.manifest, world, owner_root=needed))


SOURCES = "sources:\n  code: source src/*.py\n  d: decision d/a.md\n"


class TestWhatIsAbsent:
    def test_a_manifest_without_queries_has_one_that_starts_everywhere(self) -> None:
        whole = built(SOURCES)
        asked = whole.ask()
        assert asked.seed_node_ids == tuple(node.node_id for node in whole.graph.content.nodes)
        assert (asked.required_node_ids, asked.identifiers, asked.terms) == ((), (), ())
        assert asked.allowed_edge_types == tuple(sorted(EdgeType))
        assert asked.clearance is Sensitivity.REPOSITORY_PRIVATE
        assert asked.budget == Budget(
            unit="canonical_utf8_bytes", budget_bytes=262_144, max_nodes=4_096, max_edges=16_384, max_traversal_depth=8
        )
        assert (asked.graph_id, asked.candidate) == (whole.graph.artifact_id, whole.graph.content.candidate)

    def test_a_query_that_says_nothing_starts_nowhere(self) -> None:
        whole = built(SOURCES + "queries: {default: {}}\n")
        assert (whole.ask().seed_node_ids, whole.ask().required_node_ids) == ((), ())
        chosen = select(whole.graph, query(whole.written, "default", whole.graph, COMMITTED).query).content.selected
        assert len(chosen) == 1, "the specification, which is required"

    def test_a_query_that_is_not_there_is_shown_with_the_nearest(self) -> None:
        whole = built(SOURCES + "queries: {identity: {}, fix: {}}\n")
        for name, message in (
            ("identiti", "review has no query 'identiti'; did you mean identity?"),
            ("default", "review has no query 'default'"),
        ):
            with pytest.raises(Refused) as caught:
                whole.ask(name)
            assert (caught.value.reason, caught.value.message) == (Reason.UNKNOWN_NAME, message)
            assert caught.value.todo == "It has: identity, fix"


class TestAliases:
    def test_an_alias_stands_for_all_of_its_members(self) -> None:
        whole = built(SOURCES + "queries: {default: {seeds: [code], require: [d, specification]}}\n")
        asked = whole.ask()
        assert whole.paths(asked.seed_node_ids) == ["src/a.py", "src/b.py"]
        assert whole.paths(asked.required_node_ids) == ["README.md", "d/a.md"]
        assert list(asked.seed_node_ids) == sorted(asked.seed_node_ids)

    def test_one_may_be_seed_and_required(self) -> None:
        whole = built(SOURCES + "queries: {default: {seeds: [code, d], require: [code]}}\n")
        assert set(whole.ask().required_node_ids) < set(whole.ask().seed_node_ids)

    def test_words_and_types_are_sorted(self) -> None:
        asked = built(SOURCES + "queries: {default: {terms: [b, a], identifiers: [D-2, D-1], edges: [verifies, contradicts]}}\n").ask()
        assert (asked.terms, asked.identifiers) == (("a", "b"), ("D-1", "D-2"))
        assert asked.allowed_edge_types == (EdgeType.CONTRADICTS, EdgeType.VERIFIES)

    @pytest.mark.parametrize("clearance", [clearance.value for clearance in Sensitivity])
    def test_more_clearance_is_always_said(self, clearance: str) -> None:
        assert built(SOURCES + f"queries: {{default: {{clearance: {clearance}}}}}\n").ask().clearance.value == clearance


class TestBudgets:
    @pytest.mark.parametrize(
        ("written", "budget"),
        [
            ("1KiB", (1_024, 4_096, 16_384, 8)),
            ("8388608", (8_388_608, 4_096, 16_384, 8)),
            ("{bytes: 64KiB, nodes: 1, edges: 0, depth: 0}", (65_536, 1, 0, 0)),
            ("{nodes: 4096, edges: 16384, depth: 8}", (262_144, 4_096, 16_384, 8)),
        ],
    )
    def test_a_size_or_a_mapping(self, written: str, budget: tuple[int, ...]) -> None:
        found = built(SOURCES + f"queries: {{default: {{budget: {written}}}}}\n").ask().budget
        assert (found.budget_bytes, found.max_nodes, found.max_edges, found.max_traversal_depth) == budget


class TestAsOf:
    WORLD = World({"a.md": "a\n", "b.md": "b\n"})

    def graph(self, *observed: str, asked: str = "") -> Built:
        below = "sources:\n" + "".join(
            f"  {alias}: {{kind: finding, path: {alias}.md, freshness: {{observed: {moment}, for: 30d}}}}\n"
            for alias, moment in zip("ab", observed, strict=False)
        )
        return built((below if observed else "") + asked, self.WORLD)

    def test_it_is_the_commit_time(self) -> None:
        assert self.graph().ask().as_of == COMMITTED
        assert self.graph("2025-12-31T23:59:59Z").ask().as_of == COMMITTED

    def test_or_the_newest_observation_where_that_is_later(self) -> None:
        assert self.graph("2026-01-01T00:00:00.000001Z").ask().as_of == "2026-01-01T00:00:00.000001Z"
        assert self.graph("2026-03-01T00:00:00Z", "2026-02-01T00:00:00Z").ask().as_of == "2026-03-01T00:00:00Z"

    def test_moments_are_compared_and_not_their_spelling(self) -> None:
        assert self.graph("2026-01-01T00:00:00.0Z").ask().as_of == COMMITTED
        both = "2026-03-01T00:00:00Z", "2026-03-01T00:00:00.00Z"
        assert self.graph(*both).ask().as_of == self.graph(*both[::-1]).ask().as_of

    def test_what_is_written_is_taken_as_it_is(self) -> None:
        asked = "queries: {default: {as_of: 2020-01-01T00:00:00.50Z}}\n"
        assert self.graph("2026-03-01T00:00:00Z", asked=asked).ask(committed=None).as_of == "2020-01-01T00:00:00.50Z"

    def test_without_a_commit_it_must_be_written(self) -> None:
        whole = self.graph(asked="queries:\n  default: {seeds: all}\n")
        with pytest.raises(Invalid) as caught:
            whole.ask(committed=None)
        assert (caught.value.where, caught.value.message) == (
            f"{FILE}:4:3",
            "as_of is HEAD's commit time, and there is no repository at hand to ask",
        )
        assert caught.value.todo == "Give the query an as_of, or give --repository-root."


class TestWhatTheGraphExcluded:
    FILES = {"src/a.py": "a\n", "src/b.py": KEY, "d/a.md": KEY}  # noqa: RUF012
    ASKED = "queries:\n  code: {require: [code], seeds: [d]}\n  d: {require: [d]}\n  seeds: {seeds: [code, d]}\n"

    @property
    def whole(self) -> Built:
        return built(SOURCES + self.ASKED, World(self.FILES))

    @pytest.mark.parametrize("blind", [False, True])
    def test_a_named_source_that_is_required_is_refused_with_its_reason(self, blind: bool) -> None:
        with pytest.raises(Refused) as caught:
            self.whole.ask("d", blind=blind)
        assert (caught.value.reason, caught.value.where) == (Reason.SECRET_SHAPED, f"{FILE}:8:17")
        assert caught.value.message == "d is required, and d/a.md was left out of the Graph: secret-shaped"
        assert caught.value.todo == Reason.SECRET_SHAPED.todo
        assert caught.value.excerpt == ("  |   d: {require: [d]}", f"  | {' ' * 16}^")

    def test_so_is_one_member_of_a_glob(self) -> None:
        with pytest.raises(Refused) as caught:
            self.whole.ask("code")
        assert (caught.value.reason, caught.value.where) == (Reason.SECRET_SHAPED, f"{FILE}:7:20")
        assert caught.value.message == "code is required, and src/b.py was left out of the Graph: secret-shaped"

    def test_without_the_manifest_a_member_of_a_glob_is_not_known_and_that_is_said(self) -> None:
        assert self.whole.notes("seeds", blind=True) == (
            "2 sources were left out of the Graph; whether code had one, only its Manifest tells",
            "d is a seed, and d/a.md was left out of the Graph: secret-shaped",
        )
        assert (
            self.whole.notes("code", blind=True)[-1]
            == "2 sources were left out of the Graph; whether code had one, only its Manifest tells"
        )

    def test_a_seed_is_left_out_and_reported(self) -> None:
        whole = self.whole
        assert whole.paths(whole.ask("seeds").seed_node_ids) == ["src/a.py"]
        assert whole.notes("seeds") == (
            "code is a seed, and src/b.py was left out of the Graph: secret-shaped",
            "d is a seed, and d/a.md was left out of the Graph: secret-shaped",
        )

    def test_where_several_reasons_are_possible_none_is_claimed(self) -> None:
        world = World({"src/a.py": "a\n", "d/a.md": KEY, "e.md": "e\n", "f.md": "f\n"})
        written = declared(SOURCES + "  e: design e.md\n  f: design f.md\nqueries: {default: {require: [e]}}\n")
        compiled = compile(written, world)
        world.digest = compiled.manifest.content.candidate.repository_digest
        world.repository["e.md"] = b"changed\n"
        whole = Built(written, compiled, index(compiled.manifest, world))
        with pytest.raises(Refused) as caught:
            whole.ask()
        assert caught.value.reason is Reason.PROVENANCE_INVALID
        with pytest.raises(Refused) as caught:
            whole.ask(blind=True)
        assert (caught.value.reason, caught.value.message) == (
            Reason.REQUIRED_UNAVAILABLE,
            "e is required, and e.md was left out of the Graph: provenance-invalid or secret-shaped",
        )

    @pytest.mark.parametrize("blind", [False, True])
    def test_a_graph_of_another_declaration_does_not_have_it(self, blind: bool) -> None:
        old = built(SOURCES)
        newer = Built(
            declared(SOURCES.replace("d/a.md", "d/b.md") + "queries: {q: {require: [d]}, s: {seeds: [d]}}\n"), old.compiled, old.graph
        )
        with pytest.raises(Refused) as caught:
            newer.ask("q", blind=blind)
        assert (caught.value.reason, caught.value.message) == (
            Reason.REQUIRED_UNKNOWN,
            "d is required, and the Graph has nothing of d/b.md",
        )
        assert newer.notes("s", blind=blind) == ("d is a seed, and the Graph has nothing of d/b.md",)

    @pytest.mark.parametrize("blind", [False, True])
    def test_a_glob_that_took_nothing_cannot_be_required(self, blind: bool) -> None:
        whole = built("sources: {a: design d/*}\nqueries: {q: {require: [a]}}\n", World({"d/b.bin": b"\0"}))
        with pytest.raises(Refused) as caught:
            whole.ask("q", blind=blind)
        assert (caught.value.reason, caught.value.message) == (Reason.REQUIRED_UNKNOWN, "a is required, and the Graph has nothing of d/*")

    def test_the_graph_is_that_of_the_manifest(self) -> None:
        one, other = built(SOURCES), built("")
        with pytest.raises(Refused) as caught:
            query(one.written, "default", one.graph, COMMITTED, other.manifest)
        assert (caught.value.reason, caught.value.where) == (Reason.CHAIN_MISMATCH, "content/manifest_id")


# ---- the law of the resolver ----------------------------------------------------------------------------------------

MARKDOWN = "# One\n\n## Two\n\n# Three\n\nend\n"
PYTHON = "def one(): ...\n\n\nclass Two:\n    def three(self): ...\n"
TREE = {
    f"{folder}/{name}": text for folder in ("d", "d/deep", "e") for name, text in (("a.md", MARKDOWN), ("b.md", MARKDOWN), ("c.py", PYTHON))
}
TREE |= {"d/long.py": "x = 1\n" * 12_000, "d/bin": "\0", "d/not portable": "a\n", "build/out.md": MARKDOWN}
OWNER = {"d/a.md": MARKDOWN, "n.md": MARKDOWN}
NAMED = st.sampled_from([*(path for path in TREE if path.endswith((".md", ".py")) and "long" not in path)])
GLOBS = st.sampled_from(["**", "d/**", "d/*", "**/*.md", "*/a.*", "d/?.md", "**/*.py", "e/*", "d/deep/**", "**/deep/*"])


@st.composite
def entries(draw: st.DrawFn) -> str:
    """One source in the long form."""
    if draw(st.booleans()):
        excluded = draw(st.lists(GLOBS.filter(lambda glob: glob != "**"), max_size=2, unique=True))
        named = [f'"{glob}"' for glob in excluded]
        members = f'glob: "{draw(GLOBS)}"' + (f", exclude: [{', '.join(named)}]" if named else "")
    else:
        path = draw(NAMED)
        parts = ["", "", "lines: 1", "lines: 1-3", "lines: 2-3", "title: T"]
        parts += (
            ["section: One", "section: Two", "section: Three, title: T"] if path.endswith(".md") else ["symbol: one", "symbol: Two.three"]
        )
        members = ", ".join(filter(None, [f"path: {path}", draw(st.sampled_from(parts))]))
        if path.startswith("build/"):
            members += ", ignored: true"
        elif path in OWNER and draw(st.booleans()):
            members += ", root: owner"
    return "{kind: decision, " + members + "}"


@settings(max_examples=300, deadline=None)
@given(st.lists(entries(), min_size=1, max_size=5), st.booleans())
def test_a_query_finds_exactly_the_sources_that_were_compiled_for_an_alias(found: list[str], blind: bool) -> None:
    """The law of the resolver: with and without the Manifest at hand, for whatever can be compiled."""
    aliases = [f"s{number}" for number in range(len(found))]
    below = "sources:\n" + "".join(f"  {alias}: {entry}\n" for alias, entry in zip(aliases, found, strict=True))
    below += "queries:\n" + "".join(f"  {alias}: {{seeds: [{alias}]}}\n" for alias in [*aliases, "specification"])
    try:
        whole = built(below, World(TREE, OWNER))
    except SdaqfError as error:
        assert error.where.startswith(FILE)
        return
    for alias in (*aliases, "specification"):
        assert whole.sources(whole.ask(alias, blind=blind).seed_node_ids) == set(whole.compiled.members[alias])


def test_the_law_is_about_declarations_that_compile() -> None:
    """Chance must not find refusals alone: all of these at once are one manifest."""
    whole: Any = built(
        "sources:\n"
        "  whole: decision d/a.md\n"
        "  title: {kind: decision, path: d/a.md, lines: 1-3, title: d/a.md}\n"
        "  one: {kind: decision, path: d/b.md, section: One}\n"
        "  same: {kind: decision, path: d/b.md, lines: 5-7, title: d/b.md § One}\n"
        "  own: {kind: decision, path: d/a.md, root: owner}\n"
        "  code: {kind: source, glob: d/**/*.py, exclude: d/deep/**}\n"
        "  rest: {kind: decision, glob: '**/*.md', exclude: [README.md]}\n".replace("'", '"')
        + "queries:\n"
        + "".join(f"  {alias}: {{require: [{alias}]}}\n" for alias in ("whole", "title", "one", "same", "own", "code", "rest")),
        World(TREE, OWNER),
    )
    for name in whole.written.queries:
        for blind in (False, True):
            assert whole.sources(whole.ask(name, blind=blind).required_node_ids) == set(whole.compiled.members[name])
    assert [len(whole.compiled.members[name]) for name in ("whole", "title", "one", "same", "own", "code", "rest")] == [1, 1, 1, 1, 1, 3, 4]
