"""`fsck` names every damage of a shard with its place and code, all at once; `gc` removes only what nothing leads to (SH-9)."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from sdaqf_tasks.errors import Reason, SdaqfError
from sdaqf_tasks.flow import shard_views
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards.desk import Desk
from sdaqf_tasks.shards.records import (
    CORE,
    PARENTS,
    Abstraction,
    Bucket,
    Catalog,
    Choice,
    Event,
    Front,
    Staged,
    State,
    Text,
    bucket_of,
    sealed,
)
from tests.fronts.run import in_process
from tests.reliability.shards import ShardProject, distil
from tests.shards.records import PROJECT, decision, record

SEED = 5
SAMPLED = 40


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every type of object: live, saved and staged records, decisions."""
    made = ShardProject(tmp_path_factory.mktemp("model") / "project")
    made.of(CORE).create().commit("z")
    made.create().commit("a", "b").run("snapshot")
    made.run("begin scratch", "/reuse_abstractions adopt core:z", distil("a", "tier:logic", third=True), "commit")
    made.run("begin scratch", distil("c", "parent:a"))
    return made.path


@pytest.fixture
def made(model: Path, tmp_path: Path) -> ShardProject:
    return ShardProject(Path(shutil.copytree(model, tmp_path / "project", symlinks=True)))


@pytest.fixture
def empty(tmp_path: Path) -> ShardProject:
    return ShardProject(tmp_path / "project").create()


def refusal(action: Callable[[], object]) -> SdaqfError:
    with pytest.raises(SdaqfError) as caught:
        action()
    return caught.value


def places(made: ShardProject) -> list[tuple[str, str]]:
    """Code and place of every defect."""
    return [(code, place) for code, place, _ in made.fsck()]


TAMPERED, MISSING = Reason.OBJECT_DAMAGED.value, Reason.OBJECT_MISSING.value


class TestDamage:
    """Damaged files: each is named, and nothing else."""

    def test_of_a_healthy_shard_nothing_is_said(self, made: ShardProject) -> None:
        for each in (made, made.of(CORE)):
            found = shard_views.fsck(each.bench())
            assert (found["defects"], found["unreachable"], found["tips"]) == ([], 0, [])
            assert found["objects"] == len(each.objects())

    def test_it_says_what_it_does_not_check(
        self, made: ShardProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(made.path)
        ended = in_process("shard", "fsck", capsys=capsys)
        assert ended.code == 0
        assert "not checked: resonances" in ended.out and "HEAD was moved back" in ended.out

    @pytest.mark.parametrize("kind", ["STATE", "CATALOG", "BUCKET", "STAGED", "EVENT", "TEXT", "RECORD", "DECISION"])
    def test_a_turned_bit_is_named(self, kind: str, made: ShardProject) -> None:
        self.check_bits(made, [path for path in made.objects() if f"-{kind}-" in path.name], SAMPLED)

    @pytest.mark.long
    def test_every_turned_bit_of_every_byte_is_named(self, made: ShardProject) -> None:
        assert self.check_bits(made, made.objects(), None) > 5_000

    def check_bits(self, made: ShardProject, paths: Iterable[Path], count: int | None) -> int:
        """Turn one bit in bytes of the objects; all bytes where `count` is None."""
        chance, turned = random.Random(SEED), 0
        for path in paths:
            whole = path.read_bytes()
            if count is None and len(whole) > 4_096:
                continue
            for at in range(len(whole)) if count is None else [chance.randrange(len(whole)) for _ in range(max(1, count // 20))]:
                data = bytearray(whole)
                data[at] ^= 1 << chance.randrange(8)
                path.write_bytes(data)
                assert places(made) == [(TAMPERED, path.stem)], (path.name, at)
                turned += 1
            path.write_bytes(whole)
        assert made.fsck() == []
        return turned

    @pytest.mark.parametrize("damage", ["missing", "cut", "empty", "longer", "a link", "a copy of another", "exchanged"])
    def test_every_object_is_named_whatever_became_of_it(self, damage: str, made: ShardProject) -> None:
        for index, path in enumerate(paths := made.objects()):
            whole, other = path.read_bytes(), paths[index - 1]
            theirs = other.read_bytes()
            wanted = {(MISSING if damage in ("missing", "a link") else TAMPERED, path.stem)}
            if damage in ("missing", "a link"):
                path.unlink()
            if damage == "a link":
                path.symlink_to(other)
            elif damage != "missing":
                path.write_bytes({"cut": whole[:-1], "empty": b"", "longer": whole + b" "}.get(damage, theirs))
            if damage == "exchanged":
                other.write_bytes(whole)
                wanted.add((TAMPERED, other.stem))
            assert {*places(made)} == wanted
            path.unlink(missing_ok=True)
            path.write_bytes(whole)
            other.write_bytes(theirs)
        assert made.fsck() == []

    def test_what_does_not_belong_there_is_named(self, made: ShardProject) -> None:
        folder = made.folder / "objects"
        (folder / "notes.txt").write_bytes(b"mine")
        (folder / made.objects()[0].stem).write_bytes(b"no suffix")
        (folder / f"SHARD-TEXT-{'0' * 64}.json").write_bytes(b"{}")
        (folder / "SHARD-TEXT-0.json").write_bytes(b"{}")
        (folder / "folder.json").mkdir()
        strange = [made.objects()[0].name, "SHARD-TEXT-0.json", "folder.json", "notes.txt"]
        assert {*places(made)} == {(TAMPERED, name) for name in strange} | {(TAMPERED, f"SHARD-TEXT-{'0' * 64}")}

    def test_an_intact_object_that_nothing_leads_to_is_no_damage(self, made: ShardProject) -> None:
        made.forge(Text(text="nobody asks for this"))
        found = shard_views.fsck(made.bench())
        assert (found["defects"], found["unreachable"]) == ([], 1)

    def test_everything_at_once(self, made: ShardProject) -> None:
        one, two, three, four = random.Random(SEED).sample(made.objects(), 4)
        one.unlink()
        two.write_bytes(b"")
        three.write_bytes(b"{}")
        os.truncate(four, 5)
        found = {place for _, place in places(made)}
        reachable = {path.stem for path in (one, two, three, four)}
        assert found == reachable

    def test_a_damaged_text_hides_no_wrong_record(self, made: ShardProject) -> None:
        """What is wrong in one place does not keep from looking at the others."""
        desk = made.desk()
        text = desk.event.inputs[0].id
        wrong = lie(made, records={**live(made), "b": replace(live(made)["b"], quality_score=1)})
        made.place(text).unlink()
        assert {*places(made)} >= {(MISSING, text), ("inconsistent", bucket(made, wrong, "b"))}


# ---- objects that agree with their names and with nothing else ------------------------------------------------------


def live(made: ShardProject) -> dict[str, Abstraction]:
    return dict(made.desk().all_live)


def buckets(records: dict[str, Abstraction], where: Callable[[str], str] = bucket_of) -> dict[str, Bucket]:
    found: dict[str, dict[str, Abstraction]] = {}
    for name, each in records.items():
        found.setdefault(where(name), {})[name] = each
    return dict(found)


def lie(
    made: ShardProject,
    *,
    records: dict[str, Abstraction] | None = None,
    where: Callable[[str], str] = bucket_of,
    saved: bool = False,
    staged: Staged | None = None,
    catalog: dict[str, Any] | None = None,
    **state: Any,
) -> str:
    """Point HEAD at a state that no program made, all of whose objects agree with their names. Its id."""
    desk = made.desk()
    fields: dict[str, Any] = {}
    if records is not None:
        held = {digits: made.forge(each) for digits, each in buckets(records, where).items()}
        fields = {"records": held, "lineages": {each.lineage_id: each.lineage_version for each in records.values()}}
    new = made.forge(replace(desk.catalog, **{**fields, **(catalog or {})}))
    changes: dict[str, Any] = {"saved" if saved else "live": new, **state}
    if staged is not None:
        changes["staged"] = made.forge(staged)
    after = made.forge(replace(desk.state, previous=desk.state_id, **changes))
    made.point(after)
    return after


def bucket(made: ShardProject, state_id: str, concept: str) -> str:
    found: str = Desk(state_id, made.store).catalog.records[bucket_of(concept)]
    return found


def said(made: ShardProject) -> list[tuple[str, str]]:
    """Place and message of what is inconsistent; there is nothing else."""
    assert {code for code, _, _ in made.fsck()} <= {"inconsistent"}
    return [(place, message) for _, place, message in made.fsck()]


class TestForgeries:
    """Objects that are what their names say, and contradict one another or themselves."""

    @pytest.mark.parametrize("field", ["support_score", "reuse_score", "quality_score", "confidence_score", "promotion_ready"])
    def test_a_wrong_derived_score(self, field: str, made: ShardProject) -> None:
        right = live(made)["b"]
        wrong = replace(right, **{field: not right.promotion_ready if field == "promotion_ready" else 0})
        state = lie(made, records={**live(made), "b": wrong})
        assert said(made) == [(bucket(made, state, "b"), f"b: {field}: is not what the record gives: {getattr(right, field)}")]

    def test_a_wrong_staged_record(self, made: ShardProject) -> None:
        held = made.desk().staged_record("c")
        assert held
        staged = made.forge(replace(held, examples=3))
        lie(made, staged=Staged(records={"c": staged}))
        [(place, message)] = said(made)
        assert (place, "support_score" in message) == (staged, True)

    def test_a_wrong_bucket(self, made: ShardProject) -> None:
        state = lie(made, records=live(made), where=lambda name: "00")
        held = Desk(state, made.store).catalog.records["00"]
        orphan = (state, "a, the parent of c, is neither live nor staged")  # so would every command say
        assert said(made) == [(held, "a is in bucket 00"), (held, "b is in bucket 00"), orphan]

    def test_a_record_under_anothers_name(self, made: ShardProject) -> None:
        state = lie(made, records={**live(made), "d": live(made)["b"]})
        found = said(made)
        assert (bucket(made, state, "d"), "d: is the record of b") in found

    @pytest.mark.parametrize("version", [0, 1, 3])
    def test_a_version_that_is_not_its_lineages_highest(self, version: int, made: ShardProject) -> None:
        lineages = {"project:default:a": version, "project:default:b": 1} if version else {"project:default:b": 1}
        state = lie(made, catalog={"lineages": lineages})
        found = said(made)
        assert (Desk(state, made.store).state.live, "a: its version is not its lineage's highest") in found

    def test_a_lineage_without_a_record(self, made: ShardProject) -> None:
        state = lie(made, catalog={"lineages": {**made.desk().catalog.lineages, "core:core:x": 1}})
        assert said(made) == [(Desk(state, made.store).state.live, "core:core:x is the lineage of no record")]

    @pytest.mark.parametrize("what", ["staged without a session", "a session without staged work"])
    def test_work_is_staged_exactly_with_a_session(self, what: str, made: ShardProject) -> None:
        state = made.forge(replace(made.desk().state, **{"session" if what.startswith("staged") else "staged": None}))
        made.point(state)
        assert said(made) == [(state, "has staged work without a session, or a session without any")]

    def test_a_parent_that_is_missing(self, made: ShardProject) -> None:
        orphan = record("o", parent="nobody")
        state = lie(made, records={**live(made), "o": orphan})
        assert said(made) == [(state, "nobody, the parent of o, is neither live nor staged")]

    def test_parents_that_lead_back_and_every_one_of_them(self, made: ShardProject) -> None:
        state = lie(made, records={**live(made), "x": record("x", parent="y"), "y": record("y", parent="x")})
        assert said(made) == [
            (state, "the parents of x lead back: x → y → x"),
            (state, "the parents of y lead back: y → x → y"),
        ]

    def test_parents_that_are_too_many(self, made: ShardProject) -> None:
        chain = [record(f"p{number}", parent=f"p{number - 1}" if number else None) for number in range(PARENTS + 2)]
        state = lie(made, records={**live(made), **{each.concept_id: each for each in chain}})
        [(place, message)] = said(made)
        assert (place, message.endswith("more than 4 levels")) == (state, True)

    def test_a_decision_whose_local_record_is_gone(self, made: ShardProject) -> None:
        of = made.of(CORE).desk().live("z")
        assert of
        held = made.forge(decision(Choice.PROMOTE, of, record("gone")))
        lie(made, catalog={"decisions": {"z": held}})
        assert said(made) == [(held, "the decision about core:z pins gone, which is not there")]

    def test_a_decision_under_anothers_name(self, made: ShardProject) -> None:
        held = made.desk().catalog.decisions["z"]
        lie(made, catalog={"decisions": {"y": held}})
        assert said(made) == [(held, "is kept as the decision about core:y, and is about z")]

    def test_a_staged_record_that_is_not_the_next_version(self, made: ShardProject) -> None:
        held = made.desk().staged_record("c")
        assert held
        state = lie(made, staged=Staged(records={"c": made.forge(replace(held, lineage_version=2))}))
        place = Desk(state, made.store).state.staged
        assert said(made) == [(place, "c: its version is not the next one of its lineage")]

    def test_a_staged_record_under_anothers_name(self, made: ShardProject) -> None:
        held = made.desk().staged.records["c"]
        state = lie(made, staged=Staged(records={"d": held}))
        assert said(made) == [(Desk(state, made.store).state.staged, "d: is the record of c")]

    def test_a_state_of_another_shard(self, made: ShardProject) -> None:
        state = lie(made, shard=CORE)
        assert said(made) == [(state, "is a state of core")]

    def test_the_saved_slot_is_looked_at_too(self, made: ShardProject) -> None:
        state = lie(made, records={**live(made), "b": replace(live(made)["b"], lineage_version=7)}, catalog={"lineages": {}}, saved=True)
        place = Desk(state, made.store).state.saved
        assert said(made) == [(place, f"{name}: its version is not its lineage's highest") for name in "ab"]

    def test_an_object_in_another_form_is_damaged(self, made: ShardProject) -> None:
        """Its digest is right, and yet nobody of ours wrote it."""
        data = b'{"text": "spaced"}'
        object_id = f"SHARD-TEXT-{canonical.digest(data)}"
        made.place(object_id).write_bytes(data)
        assert places(made) == [(TAMPERED, object_id)]

    def test_all_of_it_at_once(self, made: ShardProject) -> None:
        records = {**live(made), "o": record("o", parent="nobody"), "b": replace(live(made)["b"], reuse_score=0)}
        state = lie(made, records=records, catalog={"lineages": {}, "decisions": {"y": made.desk().catalog.decisions["z"]}})
        catalog = Desk(state, made.store)
        assert {place for place, _ in said(made)} == {state, catalog.state.live, bucket(made, state, "b"), catalog.catalog.decisions["y"]}

    def test_every_command_that_looks_says_refused_where_fsck_finds_something(
        self, made: ShardProject, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(made.path)
        lie(made, shard=CORE)
        assert in_process("shard", "fsck", capsys=capsys).code == 1


class TestCollecting:
    """`gc` removes only what nothing leads to, and nothing of a damaged shard."""

    def spare(self, made: ShardProject) -> list[Path]:
        """What a commit that was killed before its last step left."""
        before, head = {*made.objects()}, made.state()
        made.run("commit")
        made.point(head)
        return sorted({*made.objects()} - before)

    def test_only_the_unreachable_goes(self, made: ShardProject) -> None:
        before, spare = made.objects(), self.spare(made)
        size = sum(path.stat().st_size for path in spare)
        assert shard_views.collect(made.bench()) == {"removed": len(spare), "bytes": size}
        assert (made.objects(), made.fsck()) == (before, [])
        assert shard_views.collect(made.bench()) == {"removed": 0, "bytes": 0}
        assert shard_views.verify(made.bench())["failure"] == ""

    def test_history_and_the_saved_slot_stay(self, made: ShardProject) -> None:
        made.run("discard")
        first = [each.state_id for each in made.desk().chain() if each.event.word == "commit"][-1]
        shard_views.collect(made.bench())
        made.run("revert")
        made.run(f"revert --to {first}")
        assert (shard_views.verify(made.bench())["failure"], made.fsck()) == ("", [])

    @pytest.mark.parametrize("damage", ["missing", "damaged"])
    def test_nothing_is_removed_from_a_damaged_shard(self, damage: str, made: ShardProject) -> None:
        self.spare(made)
        victim = made.place(made.desk().event.inputs[0].id)
        victim.unlink() if damage == "missing" else victim.write_bytes(b"{}")
        before = made.everything()
        error = refusal(lambda: shard_views.collect(made.bench()))
        assert (error.reason, error.todo) == (Reason.OBJECT_DAMAGED, "sdaqf shard fsck")
        assert {name: held for name, held in made.everything().items() if "objects/" in name} == {
            name: held for name, held in before.items() if "objects/" in name
        }

    def test_a_damaged_object_that_nothing_leads_to_goes(self, made: ShardProject) -> None:
        [spare, *_] = self.spare(made)
        spare.write_bytes(b"cut")
        shard_views.collect(made.bench())
        assert (made.fsck(), spare.exists()) == ([], False)

    def test_what_is_no_object_stays(self, made: ShardProject) -> None:
        for name in ("notes.txt", "SHARD-TEXT-0.json", "SHARD-NOTES.md"):
            (made.folder / "objects" / name).write_bytes(b"mine")
        assert shard_views.collect(made.bench())["removed"] == 0
        assert len(made.fsck()) == 3

    def test_a_process_that_goes_on_believes_the_disk(self, made: ShardProject) -> None:
        """What a long-lived process remembers hides no damage."""
        bench = made.bench()
        shard_views.records(bench)
        path = made.place(made.desk().state.live)
        path.write_bytes(b"{}")
        assert [defect["place"] for defect in shard_views.fsck(bench)["defects"]] == [path.stem]
        assert refusal(lambda: shard_views.collect(bench)).reason is Reason.OBJECT_DAMAGED
        assert refusal(lambda: shard_views.verify(bench)).reason is Reason.OBJECT_DAMAGED


def test_a_root_alone_is_a_healthy_shard(empty: ShardProject) -> None:
    assert empty.fsck() == []
    assert shard_views.verify(empty.bench())["events"] == 1
    event = Event(word="init", inputs=(), program="1", front=Front.CLI)
    wrong = State(
        shard=PROJECT,
        previous=None,
        event=empty.forge(event),
        revision=0,
        live=empty.forge(Catalog(records={}, decisions={}, lineages={"project:default:a": 1})),
        saved=None,
        committed=False,
        session=None,
        staged=None,
    )
    empty.point(empty.forge(wrong))
    assert said(empty) == [(wrong.live, "project:default:a is the lineage of no record")]
    assert sealed(wrong)[0] == empty.state()
