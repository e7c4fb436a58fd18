"""This module counts: what passed, what was supported, what can be replayed, what drifted. There is no score over all.

Whatever goes wrong stays in the denominators: a case that breaks counts as one that was not replayed and not supported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from scripts.workflows.cases import Bucket
from scripts.workflows.running import Outcome, Replayed

COMMAND = "doit workflows"
_TIMES = ("seconds", "processor")


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The whole report as one value. A rate is null where there is nothing to count."""
    supported = [outcome.supported and outcome.error is None for outcome in outcomes if outcome.case.requires]
    replayed = [outcome.replayable and outcome.error is None for outcome in outcomes if outcome.case.records]
    records = [record for outcome in outcomes for record in outcome.records]
    return {
        "command": COMMAND,
        "cases": [_entry(outcome) for outcome in outcomes],
        "cases_passed": _rate([outcome.passed for outcome in outcomes]),
        "support_completeness": _rate(supported),
        "replay_coverage": _rate(replayed),
        "buckets": {
            bucket.value: {
                "expected": sum(outcome.case.expect is bucket for outcome in outcomes),
                "observed": sum(outcome.observed is bucket for outcome in outcomes),
            }
            for bucket in Bucket
        },
        "drift": [
            {"id": outcome.case.id, "expected": outcome.case.expect.value, "observed": outcome.observed.value}
            for outcome in outcomes
            if outcome.observed is not outcome.case.expect
        ],
        "errors": sum(outcome.error is not None for outcome in outcomes),
        "records": len(records),
        "slowest_replay": {name: round(max((getattr(each, name) for each in records), default=0.0), 3) for name in _TIMES},
    }


def _rate(facts: Sequence[bool]) -> dict[str, Any]:
    return {"numerator": sum(facts), "denominator": len(facts), "rate": sum(facts) / len(facts) if facts else None}


def _entry(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "id": case.id,
        "tags": list(case.tags),
        "expected": case.expect.value,
        "observed": outcome.observed.value,
        "passed": outcome.passed,
        "unmet": list(outcome.unmet),
        "error": outcome.error,
        "requires": list(case.requires),
        "offered": sorted(outcome.offered),
        "records_expected": len(case.records),
        "records": [_record(record) for record in outcome.records],
    }


def _record(record: Replayed) -> dict[str, Any]:
    told = record._asdict()
    return {"class": told.pop("cls"), **told, "seconds": round(record.seconds, 3), "processor": round(record.processor, 3)}


# ---- for people -----------------------------------------------------------------------------------------------------


def markdown(found: dict[str, Any]) -> str:
    """The report as a page: the summary, then what went wrong, then every case."""
    return "\n".join(["# Workflows", "", summary(found), *_wrong(found), "## Cases", "", *_cases(found), ""])


def summary(found: dict[str, Any]) -> str:
    """The counts, as `docs/workflows.md` shows them."""
    rates = (("cases passed", "cases_passed"), ("support completeness", "support_completeness"), ("replay coverage", "replay_coverage"))
    drifted = ", ".join(each["id"] for each in found["drift"]) or "none"
    lines = ["| What | Of | Rate |", "|---|---|---|"]
    lines += [f"| {name} | {_of(found[key])} | {_percent(found[key])} |" for name, key in rates]
    lines += ["", "| Bucket | Expected | Observed |", "|---|---|---|"]
    lines += [f"| `{name}` | {counts['expected']} | {counts['observed']} |" for name, counts in sorted(found["buckets"].items())]
    slow = found["slowest_replay"]
    slowest = (
        f"{found['records']} records were replayed, each in at most {slow['seconds']:.1f} s, {slow['processor']:.1f} s of the processor."
    )
    return "\n".join([*lines, "", f"Drift: {drifted}. Errors: {found['errors']}. {slowest}", ""])


def _of(rate: dict[str, Any]) -> str:
    return f"{rate['numerator']} of {rate['denominator']}"


def _percent(rate: dict[str, Any]) -> str:
    return "–" if rate["rate"] is None else f"{100 * rate['rate']:.1f} %"


def _wrong(found: dict[str, Any]) -> Iterator[str]:
    failed = [case for case in found["cases"] if not case["passed"]]
    if failed:
        yield from ("## Not passed", "")
    for case in failed:
        yield f"- **{case['id']}**"
        yield from (f"  - {fault}" for fault in ([case["error"]] if case["error"] else []) + case["unmet"])
    if failed:
        yield ""


def _cases(found: dict[str, Any]) -> Iterator[str]:
    yield from ("| Case | Passed | Bucket | Records | Tags |", "|---|---|---|---|---|")
    for case in found["cases"]:
        records = ", ".join(f"{record['reason']}: {record['class']}" for record in case["records"])
        yield f"| {case['id']} | {'yes' if case['passed'] else 'no'} | `{case['observed']}` | {records} | {', '.join(case['tags'])} |"
