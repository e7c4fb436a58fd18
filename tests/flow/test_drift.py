"""A published abstraction names its evidence; where that reads differently, the gate says so (ABSTRACTIONS 1.4)."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sdaqf_tasks.flow import drift
from sdaqf_tasks.flow.drift import Search
from sdaqf_tasks.flow.project import Project
from sdaqf_tasks.flow.publish import publish
from sdaqf_tasks.flow.shards import Workbench
from sdaqf_tasks.shards.records import Front, Published, Source, shard
from sdaqf_tasks.world import SOURCE_BYTES
from tests.flow.reviewing import FILES, MANIFEST, Team
from tests.shards import records
from tests.shards.records import source

A, B = "src/a.py", "src/b.py"
TEXTS = {A: "def a() -> int:\n    return 1\n", B: "# b\ndef b() -> int:\n    return 2\n"}


def record(texts: Mapping[str, str] = TEXTS) -> str:
    def example(path: str, first: int, last: int) -> Source:
        return source(path, first, last, "".join(texts[path].splitlines(keepends=True)[first - 1 : last]))

    return published(example(A, 1, 2), example(B, 2, 3))


def published(*examples: Source) -> str:
    made = Published(record=records.record("guard", sources=examples), shard=records.PROJECT, state="SHARD-STATE-" + "0" * 64)
    return json.dumps(msgspec.to_builtins(made))


MEMORY = MANIFEST + "  memory: {glob: abstractions/*.json, kind: finding, pin: true}\n"


@pytest.fixture
def team(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
    return Team(tmp_path, capsys, {**FILES, **TEXTS, "abstractions/guard.json": record(), "manifests/context.yaml": MEMORY})


def drifted(team: Team) -> list[tuple[str, str, str]]:
    return [(found["path"], found["severity"], found["message"]) for found in team.check()["findings"] if found["code"] == "drifted"]


def test_an_example_that_stands_anywhere_in_its_file_has_not_drifted(team: Team) -> None:
    assert drifted(team) == []
    team.write(A, "import os\n\n" + TEXTS[A])
    assert drifted(team) == []


def test_an_example_that_reads_differently_is_told_with_its_commit_and_with_how_many_still_agree(team: Team) -> None:
    team.write(B, TEXTS[B].replace("2", "3"))
    commit = team.commit("b is three")
    message = f"src/b.py:2-3 reads differently since {commit[:7]}; 1 of 2 examples still agree (2 needed)"
    assert drifted(team) == [("abstractions/guard.json", "warning", message)]


def test_a_file_that_is_gone_has_drifted(team: Team) -> None:
    (team.path / B).unlink()
    assert [message for _, _, message in drifted(team)] == [
        "src/b.py:2-3 is gone, or cannot be read; 1 of 2 examples still agree (2 needed)"
    ]


def test_what_settles_it_leaves_nothing_to_find(team: Team) -> None:
    team.write(B, TEXTS[B].replace("2", "3"))
    assert len(drifted(team)) == 1
    team.write("abstractions/guard.json", record(TEXTS | {B: TEXTS[B].replace("2", "3")}))
    team.lock()
    assert drifted(team) == []


def spoilt(change: Callable[[dict[str, Any]], object]) -> str:
    value = json.loads(record())
    change(value["record"])
    return json.dumps(value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (spoilt(lambda record: record["sources"][0].update(path="src/client.py\0")), "sources/0/path: not a portable path"),
        (spoilt(lambda record: record["sources"][0].update(path="../a.py")), "sources/0/path: not a portable path"),
        (spoilt(lambda record: record.update(sources=record["sources"] * 20)), "Expected `array` of length <= 12"),
        (spoilt(lambda record: record.update(threshold=10**15)), "Expected `int` <= 12"),
        (
            '{"record":{"sources":[{"path":"src/client.py\\u0000","line_start":1,"line_end":1,"text_sha256":"A"}]}}',
            "Expected `array` of length >= 2",
        ),
    ],
)
def test_a_file_that_only_says_it_is_a_record_is_not_checked_and_that_is_said(team: Team, text: str, why: str) -> None:
    team.write("abstractions/guard.json", text)
    team.lock()
    [found] = [each for each in team.check()["findings"] if each["code"] == "not-checked"]
    assert found["path"] == "abstractions/guard.json"
    assert why in found["message"]


@pytest.mark.parametrize("text", ['{"record": {}}', '{"record": 3}', "[]", '{"sources": []}'])
def test_json_of_somebody_else_is_none_of_ours(team: Team, text: str) -> None:
    team.write("abstractions/guard.json", text)
    team.lock()
    assert [each["code"] for each in team.check()["findings"] if each["code"] in ("drifted", "not-checked")] == []


def test_what_is_too_much_to_look_through_is_not_checked_and_takes_no_time(team: Team) -> None:
    team.write(A, b"\n" * SOURCE_BYTES)
    team.commit("Line feeds")
    team.write("abstractions/guard.json", published(*(source(A, 1 + 100 * each, 85 + 101 * each) for each in range(12))))
    team.lock()
    began = time.process_time()
    found = [each for each in team.check()["findings"] if each["path"].startswith("abstractions/")]
    assert time.process_time() - began < 5  # it took two minutes
    assert {each["code"] for each in found} >= {"not-checked"}
    assert "whether src/a.py:1101-1196 still stands in its file: there is too much to look through" in [each["message"] for each in found]


class TestSearch:
    """A text is looked for where it is said to be, then anywhere; a file is hashed once a length, all of them at most so far."""

    ROWS = "a\nb\nc\nd\n"

    def test_a_text_that_stands_where_it_is_said_to_costs_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(drift, "LOOKED", 0)
        search, data = Search(), self.ROWS.encode()
        assert search.stands(data, source(A, 2, 3, "b\nc\n")) is True
        assert search.stands(data, source(A, 1, 2, "b\nc\n")) is None

    def test_one_length_of_one_file_is_paid_for_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = self.ROWS.encode()
        monkeypatch.setattr(drift, "LOOKED", 2 * len(data) + 4 * drift.START)
        search = Search()
        assert search.stands(data, source(A, 1, 2, "c\nd\n")) is True
        assert search.stands(data, source(A, 1, 2, "d\ne\n")) is False
        assert search.stands(data, source(A, 1, 1, "d\n")) is None

    def test_an_example_in_a_file_of_two_mebibytes_takes_less_than_a_second(self) -> None:
        search, data, began = Search(), b"\n" * 2_097_152, time.process_time()
        assert [search.stands(data, source(A, 1, 1 + each, "x")) for each in range(12)] == [None] * 12
        assert time.process_time() - began < 1


class TestAgainstTheShard:
    """Where the shard is at hand, a published record that is not the live one is told; where it is not, that is said."""

    @pytest.fixture
    def published(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Team:
        team = Team(tmp_path, capsys, {**FILES, A: TEXTS[A], B: "def b() -> int:\n    return 2\n", "manifests/context.yaml": MANIFEST})
        bench = Workbench(Project.find(team.path), shard("project:default"), Front.CLI)
        bench.create()
        bench.run(["begin scratch", f"/commit_abstractions guard region:{A}:1-2 region:{B}:1-2", "commit"])
        publish(bench, ["guard"], "abstractions")
        team.write("manifests/context.yaml", MEMORY)
        team.lock()
        return team

    def found(self, team: Team, code: str) -> list[str]:
        findings = team.check()["findings"]
        return [each["message"] for each in findings if each["code"] == code and each["path"].startswith("abstractions/")]

    def test_the_live_record_is_no_finding(self, published: Team) -> None:
        assert self.found(published, "drifted") == self.found(published, "not-checked") == []

    def test_another_live_record(self, published: Team) -> None:
        bench = Workbench(Project.find(published.path), shard("project:default"), Front.CLI)
        bench.run(["begin scratch", "/prune_abstractions stale guard", "commit"])
        assert self.found(published, "drifted") == ["guard was published at v1, and v2 is live in project:default"]
        publish(bench, ["guard"], "abstractions")
        published.lock()
        assert self.found(published, "drifted") == []

    def test_a_record_that_this_shard_does_not_have(self, published: Team) -> None:
        shutil.rmtree(published.path / ".sdaqf/shards")
        Workbench(Project.find(published.path), shard("project:default"), Front.CLI).create()
        [found] = [each for each in published.check()["findings"] if each["code"] == "drifted"]
        assert (found["message"], found["settle"]) == (
            "guard is not live in project:default",
            "sdaqf shard begin   then: sdaqf shard import abstractions/guard.json",
        )

    def test_a_file_that_was_edited_by_hand(self, published: Team) -> None:
        value = json.loads(published.read("abstractions/guard.json"))
        value["record"]["statement"] = "Another."
        published.write("abstractions/guard.json", json.dumps(value))
        published.lock()
        assert self.found(published, "drifted") == ["guard is not what was published at v1"]

    def test_the_command_that_distils_it_again_works_when_it_is_pasted(self, published: Team) -> None:
        published.write(B, "def b() -> int:\n    return 3\n")
        [found] = [each for each in published.check()["findings"] if each["code"] == "drifted"]
        command = found["settle"].partition("   or, ")[0]
        distil = f"sdaqf shard distil guard tier:pattern category:structural region:{A}:1-2 region:{B}:1-2"
        assert command == f"sdaqf shard begin   then: {distil}"
        for each in command.split("   then: "):
            assert published.sdaqf(*shlex.split(each)[1:]).code == 0
        published.sdaqf("shard", "commit")
        published.sdaqf("shard", "publish", "guard")
        published.lock()
        assert self.found(published, "drifted") == []

    def test_a_record_that_was_refreshed_since_is_a_notice(self, published: Team) -> None:
        published.write(B, "def b() -> int:\n    return 3\n")
        published.sdaqf("shard", "run", "begin scratch", "/prune_abstractions refresh guard", "commit")
        published.sdaqf("shard", "publish", "guard")
        published.lock()
        [found] = [each for each in published.check()["findings"] if each["code"] == "drifted"]
        assert found["severity"] == "notice"
        assert found["message"].endswith("; 1 of 2 examples still agree (2 needed); reviewed since")

    def test_no_shard_at_hand(self, published: Team) -> None:
        shutil.rmtree(published.path / ".sdaqf/shards")
        assert self.found(published, "not-checked") == ["whether guard is the live record: project:default is not at hand"]
