"""Trust belongs to content: no order of commands launders it (ABSTRACTIONS 3 to 5).

What three shards may hold of one content is searched exhaustively, from nothing and by every command; longer histories of
several contents, sessions and reverts by chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import SdaqfError
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards.records import CORE, Front, Kind, Shard, Trust
from tests.shards.records import PROJECT
from tests.shards.simulator import Bench, distil, joined

OTHER = Shard(kind=Kind.PROJECT, id="other")
SHARDS = (CORE, PROJECT, OTHER)
PERSON, AGENT = Front.CLI, Front.MCP


def said(by: str) -> str:
    return f'statement:"{by}"'


class Step(NamedTuple):
    """A command in one shard, by a person or an agent, and what trust it grants to what it makes."""

    which: Shard
    line: str
    front: Front
    grants: Trust


def merges(into: Shard, concept: str = "retry") -> Iterator[str]:
    for mode in ("adopt", "promote"):
        yield from (f"/merge_abstractions {mode} {each}:{concept}" for each in SHARDS if each != into)


def steps(which: Shard) -> Iterator[Step]:
    yield Step(which, distil(), PERSON, which.trust)
    yield Step(which, distil("retry", "guard", said("agent")), AGENT, Trust.EXPLORATORY)
    yield Step(which, "accept retry", PERSON, which.trust)
    for line in merges(which):
        grants = Trust.PROMOTED if "promote" in line else Trust.EXPLORATORY
        yield Step(which, line, PERSON, grants)
        yield Step(which, line, AGENT, Trust.EXPLORATORY)


STEPS = tuple(step for which in SHARDS for step in steps(which))


class Held(NamedTuple):
    """The trust of the content in each shard, in their order, with who said it; and the most that a person ever granted it."""

    records: tuple[tuple[Trust, str] | None, ...]
    granted: Trust


def reachable(allowed: Sequence[Step]) -> dict[Held, str]:
    """All that can be reached from nothing, with a history that leads there. Each is left by every step once."""
    benches = dict(zip(SHARDS, joined(*map(Bench, SHARDS)), strict=True))
    start = Held((None, None, None), Trust.EXPLORATORY)
    reached = {start: ""}
    heads = {start: tuple(bench.head for bench in benches.values())}
    for held in (todo := [start]):
        for step in allowed:
            for bench, head in zip(benches.values(), heads[held], strict=True):
                bench.head = head
            try:
                benches[step.which].commit(step.line, front=step.front)
            except SdaqfError:
                continue
            found = tuple(bench.desk.live("retry") for bench in benches.values())
            after = Held(tuple((each.trust_class, each.statement) if each else None for each in found), max(held.granted, step.grants))
            if after not in reached:
                reached[after] = f"{reached[held]}; {step.front.value} in {step.which}: {step.line}"
                heads[after] = tuple(bench.head for bench in benches.values())
                todo.append(after)
    return reached


def test_no_order_of_commands_raises_content_above_what_a_person_granted() -> None:
    reached = reachable([step for step in STEPS if "agent" not in step.line])
    for held, history in reached.items():
        for which, record in zip(SHARDS, held.records, strict=True):
            assert record is None or record[0].rank <= held.granted.rank, history
            assert record is None or record[0] is not Trust.CORE or which == CORE, history
    assert {record and record[0] for held in reached for record in held.records[:1]} == {None, *Trust} - {Trust.PROJECT}
    assert {record and record[0] for held in reached for record in held.records[1:]} == {None, *Trust} - {Trust.CORE}


def test_whatever_others_say_the_same_an_agents_record_stays_exploratory() -> None:
    """Until a person accepts it, which nobody does here."""
    reached = reachable([step for step in STEPS if "accept" not in step.line])
    for held, history in reached.items():
        for record in held.records:
            assert record is None or record[1] != "agent" or record[0] is Trust.EXPLORATORY, history
    assert len(reached) > 100


# ---- what an agent stages stays exploratory ---------------------------------------------------------------------------

CONCEPTS = ("retry", "loop")
AGENTS, PERSONS = ("guard", "loop"), ("guard", "lock")
"""The texts that an agent distils and those that a person does: of `guard` both say the same."""


def lines(which: Shard) -> st.SearchStrategy[str]:
    concept = st.sampled_from(CONCEPTS)
    return st.one_of(
        concept.flatmap(
            lambda name: st.sampled_from([*merges(which, name), *(f"{line} as:{CONCEPTS[0]}" for line in merges(which, name))])
        ),
        st.builds("/prune_abstractions {} {}".format, st.sampled_from(["stale", "prunable", "refresh", "protect", "unprotect"]), concept),
        st.just("/prune_abstractions collect gap:0 quality_at_most:1000 confidence_at_most:1000 trust_at_most:core"),
        st.builds("/reuse_abstractions {} core:{}".format, st.sampled_from(["adopt", "reject", "withdraw"]), concept),
        st.builds("/reuse_abstractions promote core:{} local:{}".format, concept, concept),
        st.builds("drop {}".format, concept),
        st.sampled_from(["begin scratch", "commit", "commit", "discard", "snapshot", "revert", "publish", "import"]),
    )


moves = st.one_of(
    *(st.tuples(st.just(which), lines(which), st.sampled_from([PERSON, Front.SHELL, Front.HTTP, AGENT])) for which in SHARDS),
    st.builds(
        lambda which, name, text: (which, distil(name, text, said("agent")), AGENT),
        st.sampled_from(SHARDS),
        st.sampled_from(CONCEPTS),
        st.sampled_from(AGENTS),
    ),
    st.builds(
        lambda which, name, text, front: (which, distil(name, text, said("person")), front),
        st.sampled_from(SHARDS),
        st.sampled_from(CONCEPTS),
        st.sampled_from(PERSONS),
        st.sampled_from([PERSON, Front.SHELL]),
    ),
)


@settings(max_examples=150)
@given(st.lists(moves, min_size=5, max_size=40))
def test_what_an_agent_stages_stays_exploratory_until_a_person_accepts_it(history: list[tuple[Shard, str, Front]]) -> None:
    """No front, option or order of commands gets around that. Nobody accepts here; the statement says who distilled.

    A command that finds no session has one of its own.
    """
    benches = dict(zip(SHARDS, joined(*map(Bench, SHARDS)), strict=True))
    published: dict[str, str] = {}
    for which, line, front in history:
        bench, head = benches[which], benches[which].head
        if line == "publish":
            for name, record in bench.desk.all_live.items():
                published[f"{name}.json"] = canonical.render({"record": msgspec.to_builtins(record)}).decode()
            continue
        spelt = f"/import_abstractions {' '.join(published)}" if line == "import" else line
        try:
            whole = spelt.startswith("/") and bench.desk.state.session is None
            (bench.commit if whole else bench.run)(spelt, front=front, files=published)
        except SdaqfError:
            bench.head = head
            continue
        staged = [bench.desk.staged_record(name) for name in bench.desk.staged.records]
        for each in (*bench.desk.all_live.values(), *staged):
            assert each is not None
            assert each.statement != "agent" or each.trust_class is Trust.EXPLORATORY, (which, line)
            assert each.trust_class.rank <= (Trust.CORE if which == CORE else Trust.PROMOTED).rank


def test_an_agent_that_takes_over_a_trusted_name_does_not_take_over_its_trust() -> None:
    core, project = joined(Bench(CORE), Bench())
    core.commit(distil())
    project.commit(distil())
    project.commit(distil("retry", "guard", said("agent")), front=AGENT)
    assert project.live().trust_class is Trust.EXPLORATORY
    project.commit("/merge_abstractions adopt core:retry")
    assert (project.live().statement, project.live().trust_class) == ("agent", Trust.EXPLORATORY)
    project.commit("accept retry")
    assert project.live().trust_class is Trust.PROJECT
