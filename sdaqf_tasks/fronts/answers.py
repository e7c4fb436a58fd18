"""This module writes the answers of `explain`, `diff` and `rule` in lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sdaqf_tasks.context.difference import is_same
from sdaqf_tasks.context.explain import PHASES
from sdaqf_tasks.context.select import CUT
from sdaqf_tasks.flow.report import kib
from sdaqf_tasks.fronts.voice import counted

Answer = dict[str, Any]


def explanation(found: Answer) -> Iterator[str]:
    """The list of a context, or all about one source."""
    if found["state"] != "current":
        yield f"{found['context']} is {found['state']}: {found['why']}; this is about what was built last"
    if found["detail"]:
        yield from _one(found, found["detail"])
        return
    entries = found["sources"]
    taken = sum(entry["state"] == "in" for entry in entries)
    measure = f"{kib(found['budget']['used'])} of {kib(found['budget']['bytes'])} KiB"
    bounds = f"{measure} · cleared for {found['clearance']} · as of {found['as_of']}"
    yield f"{found['context']} · {taken} in, {len(entries) - taken} out · {bounds}"
    width, cut = max(len(entry["source"]) for entry in entries), False
    for entry in entries:
        if not cut and entry["reason"] in CUT:
            cut = True
            yield f"      ---- the budget cuts from here: {measure} ----"
        size = f"{entry['bytes']:,}" if entry["bytes"] is not None else "-"
        place = f"{entry['position']:>4}  {entry['state']:<3}  {entry['phase'] or '-':<10}  {size:>9}"
        yield f"{place}  {entry['source']:<{width}}  {entry['reason'] or ''}".rstrip()


def _one(found: Answer, one: Answer) -> Iterator[str]:
    alias = f"{one['alias']}: " if one["alias"] else ""
    yield f"{one['source']} is {'in' if one['state'] == 'in' else 'out of'} {found['context']}   ({alias}{one['kind']}, {one['title']})"
    for reason in one["reasons"]:
        yield f"  why          {reason['reason']}: {reason['means']}"
    if one["exclusion"]:
        yield f"  why          {one['exclusion']['reason']}: {one['exclusion']['means']}"
        yield from (f"               {detail}" for detail in one["exclusion"]["details"])
    if one["misses"]:
        yield "  misses       " + ", ".join(f"{count:,} {what}" for what, count in one["misses"].items())
    if one["cost"]:
        yield f"  costs        {sum(one['cost'].values()):,} bytes: text {one['cost']['text']:,}, record {one['cost']['record']:,}"
    if one["rank"]:
        yield f"  rank         {_rank(one['rank'])}"
    for other in one["component"]:
        yield f"  contradicts  {other['source']} ({other['reason'] or 'in'}), itself or by way of others"
    for what, origin in one["origin"].items():
        yield f"  {what:<11}  {origin['value']}: {origin['from']}"
    if one["state"] == "in":
        return
    if not one["ways"]:
        yield "  Nothing in the query lets it in."
    for number, way in enumerate(one["ways"]):
        yield f"  {'To let it in:' if number == 0 else 'or:':<13} " + "; ".join(step["words"] for step in way)
    named = any(step["change"] in ("require", "seeds") for way in one["ways"] for step in way)
    if named and one["alias_members"] > 1:
        yield f"  {one['alias']} stands for {one['alias_members']} sources: to name this one alone, give it an alias of its own."


def _rank(rank: Answer) -> str:
    phase = f"{PHASES[rank['phase']]} (phase {rank['phase']})" if rank["phase"] is not None else "nothing leads to it"
    distance = "not reached" if rank["distance"] is None else f"distance {rank['distance']}"
    words = ": " + ", ".join(f"{where} {' '.join(held)}" for where, held in rank["found"].items()) if rank["found"] else ""
    return (
        f"{rank['position']}. {phase} · {rank['authority']} ({rank['authority_rank']}) · {distance} · score {rank['score']}{words} · "
        f"{rank['sensitivity']} ({rank['sensitivity_rank']})"
    )


def differences(found: Answer) -> Iterator[str]:
    """What agents are told since, one context after the other."""
    for entry in found["contexts"]:
        yield f"{entry['base'][:12] if found['since'] else entry['base']} → {entry['current']}"
        if entry["error"]:
            yield "  refused: " + ": ".join(filter(None, (entry["error"]["where"], entry["error"]["message"])))
            yield f"  {entry['error']['todo']}   ({entry['error']['reason']})"
        else:
            yield from (f"  {line}" for line in _difference(entry))
    if found["skipped"]:
        yield f"skipped, since no owner root is given: {', '.join(found['skipped'])}"


def _difference(entry: Answer) -> Iterator[str]:
    yield from entry["notes"]
    content = [(digest or "unknown")[:12] for digest in entry["content"].values()]
    tree = [commit[:7] for commit in entry["tree"].values()]
    head = {"content": content, "tree": tree, "as of": [*entry["as_of"].values()]}
    yield " · ".join(f"{what} {' → '.join(dict.fromkeys(values))}" for what, values in head.items())
    for what, one in [("added", one) for one in entry["added"]] + [("removed", one) for one in entry["removed"]]:
        yield f"{what:<9}  {one['source']}   " + (f"out: {one['reason']}" if one["reason"] else counted(one["lines"], "line"))
    yield from (f"moved in   {one['source']}   was out: {one['reason']}" for one in entry["moved_in"])
    yield from (f"moved out  {one['source']}   {one['reason']}" for one in entry["moved_out"])
    for one in entry["changed"]:
        yield f"changed    {one['source']}"
        yield from (f"    {line}" for line in one["lines"])
        if one["lines_left_out"]:
            yield f"    … {one['lines_left_out']} lines more"
    yield from (f"{one['what']:<9}  {one['source']}   {_value(one['before'])} → {_value(one['after'])}" for one in entry["marked"])
    for what, ends in entry["contradictions"].items():
        yield from (f"contradiction {what}: {' and '.join(pair)}" for pair in ends)
    yield from (f"query      {one['what']}: {_value(one['before'])} → {_value(one['after'])}" for one in entry["query"])
    if is_same(entry):
        yield "agents are told the same"
    yield from (f"not compared: {what}" for what in entry["not_compared"])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value[:8]) + (f", … {len(value) - 8} more" if len(value) > 8 else "") or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def rules(found: list[Answer], *, briefly: bool) -> Iterator[str]:
    """A line each, or all about those of one code."""
    for one in found:
        kind = f"finding, {one['severity']}" if one["severity"] else "reason"
        if briefly:
            yield f"{one['code']:<34}  {kind:<16}  {one['means']}"
            continue
        yield f"{one['code']}   {kind}"
        yield f"  {one['means']}"
        yield f"  To do: {one['todo']}"
