"""What one context tells and another does not: exact values, and that nothing differs from itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.context.compact import compact
from sdaqf_tasks.context.difference import LINES, WIDTH, Side, difference, is_same
from sdaqf_tasks.context.document import content_digest
from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, Sensitivity
from tests.builders import Repository, expires

CONTRADICTS = EdgeType.CONTRADICTS
UNKNOWN = [
    "the queries: a Selection is not at hand",
    "sources that are out: a Graph is not at hand",
    "content digests: a Compaction is not at hand",
]


def side(repository: Repository, **asked: Any) -> Side:
    chain = repository.chain(**asked)
    compaction = compact(chain.snapshot, repository.world)
    return Side(chain.snapshot, chain.selection, chain.graph, repository.manifest(), compaction)


def of(*files: tuple[str, str], **fields: Any) -> tuple[Repository, list[Any]]:
    repository = Repository()
    return repository, [repository.add(path, text, **fields) for path, text in files]


def differing(base: Side, current: Side) -> dict[str, Any]:
    """The members that say something, tree and moment apart."""
    found = difference(base, current)
    return {name: value for name, value in found.items() if name not in ("content", "tree", "as_of") and value not in ([], NONE)}


NONE: dict[str, Any] = {"came": [], "went": []}


def test_nothing_differs_from_itself() -> None:
    repository, (a,) = of(("docs/a.md", "a\n"))
    told = side(repository, seeds=[a])
    found = difference(told, told)
    assert found == {
        "content": {"before": (digest := content_digest(told.snapshot, told.compaction)), "after": digest},  # type: ignore[arg-type]
        "as_of": {"before": "2026-07-31T00:00:00Z", "after": "2026-07-31T00:00:00Z"},
        "tree": {"before": "b" * 40, "after": "b" * 40},
        "added": [],
        "removed": [],
        "moved_in": [],
        "moved_out": [],
        "changed": [],
        "marked": [],
        "contradictions": {"came": [], "went": []},
        "query": [],
        "not_compared": [],
    }
    assert is_same(found)


def test_a_text_that_changed_is_shown_by_its_lines() -> None:
    old, (a,) = of(("docs/a.md", "one\ntwo\nthree\nfour\n"))
    new, (b,) = of(("docs/a.md", "one\n2\nthree\nfour\n"))
    base, current = side(old, seeds=[a]), side(new, seeds=[b])
    assert differing(base, current) == {
        "changed": [{"source": "docs/a.md:1-4", "lines": ["@@ -1,3 +1,3 @@", " one", "-two", "+2", " three"], "lines_left_out": 0}]
    }
    found = difference(base, current)
    assert found["content"]["before"] != found["content"]["after"]
    assert not is_same(found)


def test_what_is_shown_of_a_text_is_bounded() -> None:
    old, (a,) = of(("docs/a.md", "x\n"))
    new, (b,) = of(("docs/a.md", "".join(f"{number}{'y' * 300}\n" for number in range(LINES + 10))))
    (changed,) = differing(side(old, seeds=[a]), side(new, seeds=[b]))["changed"]
    assert (len(changed["lines"]), changed["lines_left_out"]) == (LINES, 12)
    assert max(map(len, changed["lines"])) == WIDTH + 1


def test_sources_come_and_go() -> None:
    old, (a, gone) = of(("docs/a.md", "a\n"), ("docs/gone.md", "gone\n"))
    new, (b, came, _) = of(("docs/a.md", "a\n"), ("docs/came.md", "1\n2\n"), ("docs/out.md", "out\n"))
    assert differing(side(old, seeds=[a, gone]), side(new, seeds=[b, came])) == {
        "added": [
            {"source": "docs/came.md:1-2", "reason": None, "lines": 2, "required": False},
            {"source": "docs/out.md:1-1", "reason": "not-retrieved", "lines": 1, "required": False},
        ],
        "removed": [{"source": "docs/gone.md:1-1", "reason": None, "lines": 1, "required": False}],
        "query": [
            {"what": "seeds", "before": ["docs/a.md:1-1", "docs/gone.md:1-1"], "after": ["docs/a.md:1-1", "docs/came.md:1-2"]},
        ],
    }


def test_sources_move_in_and_out_with_the_reason_and_the_rule() -> None:
    repository, (a, b, old) = of(("docs/a.md", "a\n"), ("docs/b.md", "b\n"), ("docs/old.md", "old\n"))
    repository.add("docs/seen.md", "seen\n", freshness=expires())
    seen = repository.sources[-1]
    base = side(repository, seeds=[a, old, seen])
    current = side(repository, seeds=[b, old, seen], as_of="2027-01-01T00:00:00Z", terms=("none",), budget_bytes=9_000)
    found = differing(base, current)
    assert found["moved_in"] == [{"source": "docs/b.md:1-1", "reason": "not-retrieved"}]
    assert found["moved_out"] == [
        {"source": "docs/a.md:1-1", "reason": "not-retrieved"},
        {"source": "docs/seen.md:1-1", "reason": "stale"},
    ]
    assert found["query"] == [
        {"what": "terms", "before": [], "after": ["none"]},
        {
            "what": "seeds",
            "before": ["docs/a.md:1-1", "docs/old.md:1-1", "docs/seen.md:1-1"],
            "after": ["docs/b.md:1-1", "docs/old.md:1-1", "docs/seen.md:1-1"],
        },
        {"what": "budget.bytes", "before": 8_388_608, "after": 9_000},
    ]
    assert difference(base, current)["as_of"] == {"before": "2026-07-31T00:00:00Z", "after": "2027-01-01T00:00:00Z"}


def test_every_rule_of_a_query_is_compared() -> None:
    repository, (a,) = of(("docs/a.md", "a\n"))
    base = side(repository)
    current = side(
        repository,
        required=[a],
        seeds=repository.sources,
        identifiers=("D-1",),
        terms=("a",),
        clearance=Sensitivity.PUBLIC,
        allowed_edge_types=(CONTRADICTS,),
        budget_bytes=4_000,
        max_nodes=3,
        max_edges=2,
        max_traversal_depth=1,
    )
    every = sorted(edge_type.value for edge_type in EdgeType)
    assert {one["what"]: (one["before"], one["after"]) for one in difference(base, current)["query"]} == {
        "terms": ([], ["a"]),
        "identifiers": ([], ["D-1"]),
        "require": ([], ["docs/a.md:1-1"]),
        "seeds": ([], "all"),
        "edges": (every, ["contradicts"]),
        "clearance": ("owner-private", "public"),
        "budget.bytes": (8_388_608, 4_000),
        "budget.nodes": (4_096, 3),
        "budget.edges": (16_384, 2),
        "budget.depth": (8, 1),
    }


def test_what_is_said_about_a_text_is_compared() -> None:
    old, (a,) = of(("docs/a.md", "a\n"))
    new = Repository()
    b = new.add(
        "docs/a.md",
        "a\n",
        kind=Kind.DECISION,
        authority=Authority.ACCEPTED_PUBLIC_CONTRACT,
        sensitivity=Sensitivity.REPOSITORY_PRIVATE,
        required=True,
        title="A",
    )
    found = differing(side(old, seeds=[a]), side(new, seeds=[b]))
    assert found == {
        "marked": [
            {"source": "docs/a.md:1-1", "what": "authority", "before": "repository-record", "after": "accepted-public-contract"},
            {"source": "docs/a.md:1-1", "what": "sensitivity", "before": "public", "after": "repository-private"},
            {"source": "docs/a.md:1-1", "what": "required", "before": False, "after": True},
            {"source": "docs/a.md:1-1", "what": "kind", "before": "design", "after": "decision"},
            {"source": "docs/a.md:1-1", "what": "title", "before": "docs/a.md", "after": "A"},
        ]
    }


def test_a_span_that_moved_in_its_file_says_so_and_one_that_grew_does_not() -> None:
    old, new, grown = Repository(), Repository(), Repository()
    a = old.add("docs/a.md", "one\ntwo\n", lines=(1, 1), title="one")
    b = new.add("docs/a.md", "zero\none\ntwo\n", lines=(2, 2), title="one")
    c = grown.add("docs/a.md", "one\ntwo\n", lines=(1, 2), title="one")
    assert differing(side(old, seeds=[a]), side(new, seeds=[b])) == {
        "marked": [{"source": "docs/a.md:2-2", "what": "lines", "before": "1-1", "after": "2-2"}]
    }
    assert set(differing(side(old, seeds=[a]), side(grown, seeds=[c]))) == {"changed"}


def test_a_file_that_was_renamed_is_one_source() -> None:
    old, (a,) = of(("docs/a.md", "the same text\n"))
    new, (b,) = of(("docs/b.md", "the same text\n"))
    assert differing(side(old, seeds=[a]), side(new, seeds=[b])) == {
        "marked": [
            {"source": "docs/b.md:1-1", "what": "title", "before": "docs/a.md", "after": "docs/b.md"},
            {"source": "docs/b.md:1-1", "what": "path", "before": "docs/a.md", "after": "docs/b.md"},
        ]
    }


def test_parts_of_a_file_are_told_apart_by_their_titles() -> None:
    old, new = Repository(), Repository()
    text = "one\ntwo\nthree\n"
    first = [old.add("docs/a.md", text, lines=(n, n), title=f"part {n}") for n in (1, 2)]
    second = [new.add("docs/a.md", text, lines=(n, n), title=f"part {n}") for n in (2, 3)]
    found = differing(side(old, seeds=first), side(new, seeds=second))
    # What is left over on each side is taken for one that changed: it is the same file.
    assert [one["source"] for one in found["changed"]] == ["docs/a.md:3-3"]
    assert [(one["what"], one["before"], one["after"]) for one in found["marked"]] == [
        ("title", "part 1", "part 3"),
        ("lines", "1-1", "3-3"),
    ]


def test_contradictions_come_and_go_by_name() -> None:
    def three(*pairs: tuple[int, int], text: str = "c\n") -> Side:
        repository, members = of(("docs/a.md", "a\n"), ("docs/b.md", "b\n"), ("docs/c.md", text))
        for one, other in pairs:
            repository.relate(CONTRADICTS, members[one], members[other])
        return side(repository, seeds=members)

    assert differing(three((0, 1)), three((1, 2))) == {
        "contradictions": {"came": [["docs/b.md:1-1", "docs/c.md:1-1"]], "went": [["docs/a.md:1-1", "docs/b.md:1-1"]]}
    }
    # One whose end reads differently now is the same contradiction.
    assert "contradictions" not in differing(three((1, 2)), three((1, 2), text="d\n"))


def test_a_source_that_left_the_graph_is_out_with_that_reason() -> None:
    repository, (a,) = of(("docs/a.md", "a\n"))
    base = side(repository, seeds=[a])
    manifest = repository.manifest()
    repository.world.repository["docs/a.md"] = b"b\n"
    current = side(repository)._replace(manifest=manifest)
    assert differing(base, current)["moved_out"] == [{"source": "docs/a.md:1-1", "reason": "provenance-invalid"}]


def test_snapshots_alone_are_compared_by_what_they_hold() -> None:
    repository, (a, b) = of(("docs/a.md", "a\n"), ("docs/b.md", "b\n"))
    base, current = (Side(repository.chain(seeds=[seed]).snapshot) for seed in (a, b))
    found = differing(base, current)
    # Each knows the ids that it left out, and the other what they are.
    assert found == {
        "moved_in": [{"source": "docs/b.md:1-1", "reason": "not-retrieved"}],
        "moved_out": [{"source": "docs/a.md:1-1", "reason": "not-retrieved"}],
        "not_compared": UNKNOWN,
    }
    assert difference(base, current)["content"] == {"before": None, "after": None}


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("x\n", "y\n", ""))), max_size=6, unique_by=lambda pair: pair[0]), st.data()
)
def test_turned_around_what_came_went(files: list[tuple[str, str]], data: st.DataObject) -> None:
    sides = []
    for _ in range(2):
        repository, members = of(*((f"docs/{name}.md", text) for name, text in files if data.draw(st.booleans())))
        sides.append(side(repository, seeds=[member for member in members if data.draw(st.booleans())]))
    there, back = difference(*sides), difference(*reversed(sides))
    assert [one["source"] for one in there["added"]] == [one["source"] for one in back["removed"]]
    assert [one["reason"] for one in there["moved_in"]] == [one["reason"] for one in back["moved_out"]]
    assert len(there["changed"]) == len(back["changed"])
    assert is_same(there) == is_same(back)
    if not there["query"]:
        assert is_same(there) == (there["content"]["before"] == there["content"]["after"] and not there["added"] + there["removed"])
