"""The workflow suite passes; every kind of expectation can fail, and the report says so; what goes wrong is counted."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from scripts import pages
from scripts.workflows import __main__ as command
from scripts.workflows import cases, page, reports, running
from scripts.workflows.cases import Bucket, Case, Record, Step
from scripts.workflows.running import Outcome, Replayed

CASES = cases.read()
BY_ID = {case.id: case for case in CASES}
SUBJECTS = ("lifecycle", "staleness", "contradiction", "sensitivity", "shards", "discard", "commit", "snapshot", "revert", "conflict")
STALE = ("changed", "missing", "renamed", "moved", "lock", "phantom", "line-endings", "lfs-pointer", "expired", "stale", "dead-mention")
ABSTRACTION_COMMANDS = (" distil ", " reuse ", " merge ", " prune ", " lookup ", " publish ", " import ", " review", " drop ", " accept ")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_case_passes(case: Case, tmp_path: Path) -> None:
    outcome = running.run(case, tmp_path / "case")
    assert (outcome.unmet, outcome.error, outcome.observed) == ((), None, case.expect)
    assert (outcome.passed, outcome.supported) == (True, True)
    assert outcome.replayable is all(record.cls == "fully_replayable" for record in case.records)


def test_the_suite_goes_over_the_whole_product() -> None:
    tags = {tag for case in CASES for tag in case.tags}
    lines = "".join(f" {step.run or step.say} " for case in CASES for step in case.steps)
    assert len(CASES) >= 30
    assert sorted({*SUBJECTS, *STALE, "refused", "granted", "tampered", "re-pinned", "drift"} - tags) == []
    assert [each for each in ABSTRACTION_COMMANDS if each not in lines] == []
    assert {case.expect for case in CASES} == set(Bucket)
    assert [case.id for case in CASES if case.requires] != []
    assert [case.id for case in CASES if "blocked" in case.tags and not case.records] == []


# ---- every kind of expectation can fail


def small(*steps: Step, **more: Any) -> Case:
    files = {"docs/spec.md": "# Shop\n", "manifests/context.yaml": "sdaqf: 1\nspecification: docs/spec.md\n"}
    given: dict[str, Any] = {"expect": Bucket.SUCCESS, "files": files, **more}
    return Case(id="small", tags=("small",), steps=steps, **given)


BUILD = Step(run="build", words={"context": "made"}, at={"/contexts/0/summary/taken": 1})
CHECK = Step(run="check --exit-zero", findings=("no-lock manifests/context.yaml",))
READ = Step(read=".sdaqf/build/out/context/context.md", holds=("# Shop",), lacks=("# Ship",))
REFUSED = Step(run="build --locked", exit=1, reason="no-lock")
LEFT = Record(stage="manifest", reason="no-lock")
PASSING = small(BUILD, CHECK, READ)
BLOCKED = small(REFUSED, expect=Bucket.REFUSED, records=(LEFT,))


def with_step(case: Case, number: int, **changed: Any) -> Case:
    steps = list(case.steps)
    steps[number] = replace(steps[number], **changed)
    return replace(case, steps=tuple(steps))


FLIPPED = {
    "exit": (with_step(PASSING, 0, exit=1), "step 1, run: exit 0, not 1: "),
    "words": (with_step(PASSING, 0, words={"context": "same"}), "step 1, run: the words are {'context': 'made'}, not {'context': 'same'}"),
    "value": (with_step(PASSING, 0, at={"/contexts/0/summary/taken": 2}), "step 1, run: /contexts/0/summary/taken is 1, not 2"),
    "no value": (with_step(PASSING, 0, at={"/contexts/7": 2}), "step 1, run: /contexts/7 is not there, not 2"),
    "findings": (
        with_step(PASSING, 1, findings=()),
        "step 2, run: the findings are ['no-lock manifests/context.yaml'], not []",
    ),
    "holds": (with_step(PASSING, 2, holds=("# Ship",)), "step 3, read: lacks '# Ship'"),
    "lacks": (with_step(PASSING, 2, lacks=("# Shop",)), "step 3, read: holds '# Shop'"),
    "file": (with_step(PASSING, 2, read="no.md", holds=()), "step 3, read: exit 1, not 0: "),
    "bucket": (replace(PASSING, expect=Bucket.REFUSED), "expected correct_unresolved_or_refused, observed supported_success"),
    "requires": (replace(PASSING, requires=("guard",)), "required and not offered: guard"),
    "a record": (replace(PASSING, records=(LEFT,)), "0 records where 1 were expected"),
    "no record": (replace(BLOCKED, records=()), "1 records where 0 were expected"),
    "reason": (with_step(BLOCKED, 0, reason="changed"), "step 1, run: refused for no-lock, not changed"),
    "stage": (replace(BLOCKED, records=(replace(LEFT, stage="index"),)), "record 1: stage is 'manifest', not 'index'"),
    "sensitivity": (
        replace(BLOCKED, records=(replace(LEFT, sensitivity="public"),)),
        "record 1: sensitivity is 'repository-private', not 'public'",
    ),
    "class": (
        replace(BLOCKED, records=(replace(LEFT, cls="observational_only"),)),
        "record 1: class is 'fully_replayable', not 'observational_only'",
    ),
    "source": (
        replace(BLOCKED, records=(replace(LEFT, source="external_exact"),)),
        "record 1: source is 'embedded', not 'external_exact'",
    ),
    "left out": (replace(BLOCKED, records=(replace(LEFT, left_out=("owner",)),)), "record 1: left_out is (), not ('owner',)"),
    "alone": (
        replace(BLOCKED, records=(replace(LEFT, alone="observational_only"),)),
        "record 1: alone is 'fully_replayable', not 'observational_only'",
    ),
    "private": (replace(BLOCKED, private=("# Shop",)), "a record holds what is the owner's: # Shop"),
    "cleared": (
        replace(BLOCKED, private=("# Shop",), env={"SDAQF_EMBED_OWNER": "1"}),
        "a record that was cleared for the owner's text lacks it, or does not say what it holds",
    ),
    "place": (
        replace(BLOCKED, files={**BLOCKED.files, "docs/spec.md": "# $HERE\n"}),
        "a record holds a path of the machine",
    ),
}


@pytest.mark.parametrize(("case", "fault"), FLIPPED.values(), ids=FLIPPED.keys())
def test_an_expectation_that_is_not_met_fails_its_case_and_is_told(case: Case, fault: str, tmp_path: Path) -> None:
    here = str(tmp_path / "case")
    case = replace(case, files={name: text.replace("$HERE", here) for name, text in case.files.items()})
    outcome = running.run(case, tmp_path / "case")
    found = reports.report([outcome])
    assert (outcome.unmet, outcome.passed) == ((fault,), False)
    assert found["cases_passed"]["numerator"] == 0
    assert f"  - {fault}" in reports.markdown(found)


@pytest.mark.parametrize("case", [PASSING, BLOCKED], ids=["passing", "blocked"])
def test_the_small_cases_pass_as_they_are(case: Case, tmp_path: Path) -> None:
    assert running.run(case, tmp_path / "case").passed


# ---- counting


RECORD = Replayed("manifest", "no-lock", "fully_replayable", "embedded", "fully_replayable", "repository-private", 1, 0.25, 0.125)


def test_a_case_that_breaks_counts_as_failed_and_in_every_denominator(tmp_path: Path) -> None:
    broken = replace(BLOCKED, steps=(*BLOCKED.steps, Step(remove=("no.md",))), requires=("guard",))
    outcome = running.run(broken, tmp_path / "case")
    assert (outcome.observed, outcome.error) == (Bucket.FAILED, "LookupError: no.md is 0 files")
    found = reports.report([outcome, Outcome(BLOCKED, Bucket.REFUSED, records=(RECORD,))])
    assert found["replay_coverage"] == {"numerator": 1, "denominator": 2, "rate": 0.5}
    assert found["support_completeness"] == {"numerator": 0, "denominator": 1, "rate": 0.0}
    assert found["drift"] == [{"id": "small", "expected": "correct_unresolved_or_refused", "observed": "failed_verification_or_runtime"}]
    assert found["errors"] == 1


@pytest.mark.parametrize(
    ("record", "fully"),
    [
        (RECORD, True),
        (RECORD._replace(source="external_exact", alone="observational_only"), True),
        (RECORD._replace(alone="observational_only"), False),
        (RECORD._replace(cls="observational_only", source=None, alone="observational_only"), False),
    ],
)
def test_what_claims_to_need_no_repository_is_replayed_without_one(record: Replayed, fully: bool) -> None:
    assert Outcome(BLOCKED, Bucket.REFUSED, records=(record,)).replayable is fully


def test_a_case_that_left_too_few_records_is_not_replayable() -> None:
    assert not Outcome(BLOCKED, Bucket.REFUSED).replayable


def as_expected() -> list[Outcome]:
    left = {case.id: tuple(RECORD._replace(cls=each.cls) for each in case.records) for case in CASES}
    return [Outcome(case, case.expect, records=left[case.id], offered=frozenset(case.requires)) for case in CASES]


def test_buckets_sum_up_and_there_is_no_score_over_all() -> None:
    found = reports.report(as_expected())
    assert [sum(bucket[key] for bucket in found["buckets"].values()) for key in ("expected", "observed")] == [len(CASES)] * 2
    assert "score" not in json.dumps(found).lower()
    assert reports.report([])["cases_passed"] == {"numerator": 0, "denominator": 0, "rate": None}


# ---- the command and its page


def test_the_page_shows_what_the_command_counts() -> None:
    text = page.PAGE.read_text("utf-8")
    wanted = page.refreshed(text, reports.report(as_expected()))
    assert pages.masked(text) == pages.masked(wanted), "run `python -m scripts.workflows --page`"


def run(monkeypatch: pytest.MonkeyPatch, folder: Path, *found: Case) -> int:
    monkeypatch.setattr(cases, "read", lambda: found)
    monkeypatch.setattr(sys, "argv", ["workflows", "--output", str(folder)])
    return command.main()


def test_the_command_writes_both_reports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, PASSING) == 0
    assert json.loads((tmp_path / "report.json").read_text())["cases_passed"] == {"numerator": 1, "denominator": 1, "rate": 1.0}
    assert "| cases passed | 1 of 1 | 100.0 % |" in (tmp_path / "report.md").read_text()


def test_the_command_ends_with_1_where_a_case_does_not_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run(monkeypatch, tmp_path, replace(PASSING, expect=Bucket.FAILED)) == 1
    assert "- **small**" in (tmp_path / "report.md").read_text()


# ---- reading cases


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("cases: [{id: a, tags: [], expect: supported_success, steps: [{run: build, say: build}]}]", "a step has one of"),
        ("cases: [{id: a, tags: [], expect: supported_success, steps: [{runs: build}]}]", "unknown field `runs`"),
        ("cases: [{id: a, tags: [], expect: well, steps: []}]", "Invalid enum value 'well'"),
        ("cases: [{id: a, tags: [], expect: supported_success, project: none, steps: []}]", "there is no project none"),
        ("cases: [" + 2 * "{id: a, tags: [], expect: supported_success, steps: []}," + "]", "two cases are called a"),
    ],
)
def test_a_page_that_cannot_be_meant_is_refused(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ValueError, match=fault):
        cases.read(tmp_path)
