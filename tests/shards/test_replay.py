"""A shard is its history: replay gives every id again, and finds whatever does not follow (ABSTRACTIONS 8)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdaqf_tasks.errors import Invalid, Reason, SdaqfError, Unreadable
from sdaqf_tasks.shards import normalise, replay, session
from sdaqf_tasks.shards.records import CORE, Event, Front, Input, Kind, Shard, Text, Trust
from sdaqf_tasks.shards.replay import Replayed
from tests.shards.records import PROJECT, record
from tests.shards.simulator import Bench, changed, distil, joined

OTHER = Shard(kind=Kind.PROJECT, id="other")


def history() -> Bench:
    """Every kind of event, last of all a distillation."""
    core, bench = joined(Bench(CORE), Bench())
    core.commit(distil(), distil("base", "lock"))
    bench.commit(distil("mine", "loop", 'statement:"two  words"'), distil("child", "guard", "parent:mine"))
    bench.commit("/reuse_abstractions promote core:retry local:mine", "/merge_abstractions adopt core:base")
    bench.run("begin scratch", distil("agents"), front=Front.MCP)
    bench.run("accept agents", "/prune_abstractions stale mine", "drop mine", "commit")
    commit = bench.head
    bench.run("snapshot")
    bench.commit(
        "/prune_abstractions collect gap:0 quality_at_most:1000 confidence_at_most:1000", "/reuse_abstractions withdraw core:retry"
    )
    bench.run("revert", "begin scratch", "discard", f"revert --to {commit}")
    bench.run("begin scratch", distil("last", "lock", examples=3))
    return bench


def rewritten(bench: Bench, **fields: Any) -> Replayed:
    """What replay says where the last state was written again with other fields, or another event, and ids that fit."""
    kept = {name: bench.objects.keep(value) if isinstance(value, Event) else value for name, value in fields.items()}
    bench.head = bench.objects.keep(changed(bench.desk.state, **kept))
    return replay.replay(bench.desk)


def test_replay_gives_every_id_again() -> None:
    bench = history()
    count = sum(1 for _ in bench.desk.chain())
    assert replay.replay(bench.desk) == Replayed(count, count, 0)
    assert replay.audit(bench.head, PROJECT, bench.objects) == []


def test_replay_reads_nothing_but_the_shard() -> None:
    bench = history()
    bench.others = {}
    assert replay.replay(bench.desk).failure == ""


LINES = st.one_of(
    st.sampled_from(["begin scratch", "commit", "commit", "discard", "snapshot", "revert", "drop a", "accept b", "revert --to"]),
    st.builds(distil, st.sampled_from("abc"), st.sampled_from(["guard", "loop"])),
    st.builds("/prune_abstractions {} {}".format, st.sampled_from(["stale", "protect", "unprotect", "refresh"]), st.sampled_from("abc")),
    st.builds("/merge_abstractions {} core:{}".format, st.sampled_from(["adopt", "promote"]), st.sampled_from("abc")),
    st.builds("/reuse_abstractions {} core:{}".format, st.sampled_from(["adopt", "reject", "withdraw"]), st.sampled_from("abc")),
    st.builds("/reuse_abstractions promote core:{} local:{}".format, st.sampled_from("abc"), st.sampled_from("abc")),
    st.just("/prune_abstractions collect gap:0 quality_at_most:1000 confidence_at_most:1000"),
)


@settings(max_examples=60)
@given(st.lists(st.tuples(LINES, st.sampled_from(Front)), min_size=10, max_size=40))
def test_random_histories_give_all_their_ids_again(lines: list[tuple[str, Front]]) -> None:
    core, bench = joined(Bench(CORE), Bench())
    core.commit(distil("a"), distil("b", "loop"))
    done = 1
    for line, front in lines:
        if bench.desk.state.session is None and line.startswith("/"):
            bench.run("begin scratch", front=front)
            done += 1
        try:
            bench.run(f"{line} {bench.head}" if line == "revert --to" else line, front=front)
        except SdaqfError:
            continue
        done += 1
    assert replay.replay(bench.desk) == Replayed(done, done, 0)
    assert replay.audit(bench.head, PROJECT, bench.objects) == []


# ---- what does not follow is found ------------------------------------------------------------------------------------

STATES: list[dict[str, Any]] = [
    {"shard": OTHER},
    {"shard": CORE},
    {"revision": 0},
    {"revision": 77},
    {"committed": False},
    {"saved": None},
    {"session": None},
    {"staged": None},
    {"session": "SHARD-STATE-" + "0" * 64},
    {"live": "root"},
    {"saved": "root"},
    {"staged": "before"},
    {"event": "before"},
    {"previous": "before"},
]


@pytest.mark.parametrize("fields", STATES, ids=str)
def test_any_other_field_of_a_state_is_found(fields: dict[str, Any]) -> None:
    bench = history()
    chain = [*bench.desk.chain()]
    others = {"root": chain[-1].state, "before": chain[1].state}
    spelt = {name: getattr(others[value], name) if value in ("root", "before") else value for name, value in fields.items()}
    assert rewritten(bench, **spelt).failure


ROLE = "example region:lock/1.py:1-2 lock/1.py 1 2 " + "0" * 64


def events(event: Event, bench: Bench) -> dict[str, Event]:
    inputs, text = event.inputs, Input(role=ROLE, id=bench.objects.keep(Text(text="with Else:\n    yield Other\n")))
    foreign = Input(role=f"record core {bench.head}", id=bench.objects.keep(record()))
    return {
        "another command": changed(event, command=str(event.command).replace("last", "less")),
        "no command": changed(event, command=None),
        "nonsense": changed(event, command="/commit_abstractions"),
        "unknown": changed(event, command="/apply_abstractions all"),
        "another spelling": changed(event, command=f"{event.command} "),
        "a word": changed(event, word="commit", command=None),
        "a word beside it": changed(event, word="commit"),
        "the word of a root": changed(event, word="init", command=None),
        "another front": changed(event, front=Front.SHELL),
        "an agent": changed(event, front=Front.MCP),
        "no inputs": changed(event, inputs=()),
        "an input less": changed(event, inputs=inputs[1:]),
        "an input more": changed(event, inputs=(*inputs, text)),
        "another order": changed(event, inputs=inputs[::-1]),
        "another text": changed(event, inputs=(text, *inputs[1:])),
        "a record for a text": changed(event, inputs=(Input(role=inputs[0].role, id=foreign.id), *inputs[1:])),
        "a text for a record": changed(event, inputs=(Input(role=foreign.role, id=text.id), *inputs)),
        **{
            f"the role {role[:24]}": changed(event, inputs=(Input(role=role, id=text.id), *inputs[1:]))
            for role in ("x", "example", "record", "file", ROLE.replace(" 1 2", " a b"), ROLE.replace(" 1 2", " 2 1"), ROLE + " x")
        },
    }


@pytest.mark.parametrize("name", events(history().desk.event, history()))
def test_any_other_event_is_found(name: str) -> None:
    bench = history()
    assert rewritten(bench, event=events(bench.desk.event, bench)[name]).failure


@pytest.mark.parametrize(
    ("line", "role"),
    [
        ("/merge_abstractions adopt core:base as:more", f"record project:other {'x' * 9}"),
        ("/reuse_abstractions reject core:retry", f"record project:other {'x' * 9}"),
        ("/reuse_abstractions reject core:retry", f"record nonsense {'x' * 9}"),
    ],
)
def test_a_foreign_record_is_of_the_shard_that_the_command_names(line: str, role: str) -> None:
    bench = history()
    bench.run(line)
    event = bench.desk.event
    assert rewritten(bench, event=changed(event, inputs=(Input(role=role, id=event.inputs[0].id),))).failure


def test_a_foreign_record_is_the_one_that_the_command_names() -> None:
    bench = history()
    bench.run("/merge_abstractions adopt core:base as:more")
    event = bench.desk.event
    other = bench.objects.keep(record("other", owner=CORE))
    assert "has no live base" in rewritten(bench, event=changed(event, inputs=(Input(role=event.inputs[0].role, id=other),))).failure


def test_an_imported_file_is_the_text_that_was_kept() -> None:
    bench = history()
    for text in ("not JSON", "{}", "[" * 99_999):
        event = Event(
            command="/import_abstractions a.json",
            inputs=(Input(role="file a.json", id=bench.objects.keep(Text(text=text))),),
            program=session.PROGRAM,
            front=Front.CLI,
        )
        assert "its event is refused" in rewritten(bench, event=event).failure


def test_a_damaged_or_missing_object_is_an_error_that_names_it() -> None:
    bench = history()
    for object_id, data in dict(bench.objects.held).items():
        bench.objects.held[object_id] = data.replace(b"1", b"2", 1) if b"1" in data else data + b" "
        found = replay.audit(bench.head, PROJECT, bench.objects)
        known, _ = replay.reachable(bench.head, bench.objects)
        assert (object_id in known) == any(defect.place == object_id and defect.code == Reason.OBJECT_DAMAGED.value for defect in found)
        if object_id.startswith("SHARD-STATE-"):
            with pytest.raises(Invalid) as caught:
                replay.replay(bench.desk)
            assert caught.value.reason is Reason.OBJECT_DAMAGED
        del bench.objects.held[object_id]
        if object_id.startswith("SHARD-STATE-"):
            with pytest.raises(Unreadable):
                replay.replay(bench.desk)
        bench.objects.held[object_id] = data


# ---- what cannot be replayed is counted, and neither failed nor passed --------------------------------------------------


def test_another_version_of_the_program_is_not_replayable(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = history()
    count = sum(1 for _ in bench.desk.chain())
    monkeypatch.setattr(session, "PROGRAM", "2")
    assert replay.replay(bench.desk) == Replayed(count, 0, count)
    bench.run("commit")
    assert replay.replay(bench.desk) == Replayed(count + 1, 1, count)


def test_another_version_of_the_normaliser_leaves_out_what_was_distilled(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.commit(distil(), "/prune_abstractions stale retry")
    monkeypatch.setattr(normalise, "VERSION", "0")
    monkeypatch.setattr("sdaqf_tasks.shards.distill.VERSION", "0")
    assert replay.replay(bench.desk) == Replayed(5, 4, 1)
    bench.commit("/prune_abstractions refresh retry", distil("new", "loop"))
    assert replay.replay(bench.desk) == Replayed(9, 8, 1)


def test_a_planted_state_is_counted_and_what_follows_is_replayed() -> None:
    bench = Bench().plant(record(trust_class=Trust.PROMOTED))
    bench.commit("/prune_abstractions stale retry")
    assert replay.replay(bench.desk) == Replayed(5, 4, 1)
