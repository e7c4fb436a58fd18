"""This module writes what `check` found, in the formats of `--format` and `--output` (PIPELINE 3).

    FORMATS                          name → a whole document, ending in one newline
    schema()                         the published JSON Schema of the document `json`
    parse_output, parse_fail_on      what argparse makes of `--output` and `--fail-on`

Paths, messages and lines come from a repository that nobody vouches for. Where people read, whatever is not seen is
escaped (controls, bidirectional marks, characters without width), and nothing in any document can pass for a command to a
CI runner: `::` at the start of a line, `##[…]` and `##vso[…]` anywhere. `json` and `jsonl` hold the texts exactly.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, get_type_hints
from urllib.parse import quote

from sdaqf_tasks.context.findings import LEVELS, Change, Checked, Found
from sdaqf_tasks.errors import Finding, Severity, printable
from sdaqf_tasks.fronts.voice import counted

SHOWN_LINES = 20
"""Changed lines that a finding shows to people; `json` has them all."""

LINE_LIMIT = 400
"""Characters of a changed line that are shown to people."""

PAGE_BYTES = 65_000
"""What the Markdown page has at most: it fits a comment (65,536 characters), so it fits a step's summary (1 MiB)."""

CELL_LIMIT = 160
PAGE_LINES = 6

PROJECT = "project"
"""Where a finding is that belongs to no file, or to no manifest."""


# ---- what may be shown ----------------------------------------------------------------------------------------------

_IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters that Unicode calls printable and nobody sees."""

_COMMAND = re.compile(r"#(?=#\w*\[)")


def visible(text: str) -> str:
    """One line in which everything is seen, and that no CI runner reads as a command of its own."""
    seen = _IGNORABLE.sub(lambda match: match[0].encode("ascii", "backslashreplace").decode(), printable(text))
    return _COMMAND.sub(r"\\x23", seen)


def _cut(text: str, limit: int) -> str:
    seen = visible(text[: limit + 1])
    return seen if len(seen) <= limit else seen[: limit - 1] + "…"


def _inert(text: str) -> str:
    """The text, with no line that begins with `::`."""
    return re.sub(r"^( *):(?=:)", r"\1\\x3a", text, flags=re.MULTILINE)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{_inert(line)}\n" for line in lines)


def _counts(checked: Checked) -> dict[str, int]:
    """How many findings there are of each severity, the heaviest first."""
    severities = [found.severity for found in checked.findings]
    return {level.value: severities.count(level) for level in LEVELS}


def _summary(checked: Checked) -> str:
    """One line: what was found, what is as reviewed, and what was not compared at all."""
    some = checked.as_reviewed != checked.pinned
    dead = sum(found.code is Finding.DEAD_MENTION for found in checked.findings)
    pinned = f"{checked.as_reviewed:,} of {checked.pinned:,} pinned as reviewed" if some else f"{checked.pinned:,} pinned, all as reviewed"
    parts = [
        ", ".join(counted(count, level) for level, count in _counts(checked).items() if count),
        pinned if checked.pinned else "nothing is pinned",
        f"{checked.following:,} follow the tree",
        counted(checked.mentions, "mention") + (f", {dead:,} dead" if dead else "") if checked.mentions else "",
        f"base {visible(checked.base[:7])}" if checked.base else "",
    ]
    return " · ".join(filter(None, parts))


def _notes(checked: Checked) -> list[str]:
    """What a reader must know about the check itself: what it could not do, and whose clock it used."""
    clock = [f"SDAQF_NOW fixes the clock at {visible(checked.now)}"] if checked.fixed_clock else []
    return [*([f"not checked: {visible(checked.unmet)}"] if checked.unmet else []), *clock]


def _place(found: Found) -> str:
    return f"{visible(found.path)}:{found.line}" if found.path else PROJECT


def _part(found: Found) -> str:
    """The part of the file that it is about, unless the message begins with that."""
    return "" if found.message.startswith(found.part) else f"§ {visible(found.part)}"


def _told_to(found: Found) -> str:
    return f"in: {visible(', '.join(found.contexts))}" if found.contexts else ""


def _details(found: Found) -> Iterator[str]:
    """What changed, from which text to which, in which commit, and what settles it."""
    yield from (f"{sign} {_cut(text, LINE_LIMIT)}" for sign, text in _signed(found.lines[:SHOWN_LINES]))
    if len(found.lines) > SHOWN_LINES:
        yield f"… and {counted(len(found.lines) - SHOWN_LINES, 'more line')}"
    if found.old and found.new:
        yield f"{visible(found.old[:12])} → {visible(found.new[:12])}"
    if found.change:
        yield f"changed by {_commit(found.change)}"
    if found.settle:
        yield visible(found.settle)


def _signed(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(line[0], line[1:].removeprefix(" ")) if line[:1] in ("-", "+") else (" ", line) for line in lines]


def _commit(change: Change) -> str:
    return f'{visible(change.commit[:7])}, {visible(change.time[:10])}: "{visible(change.subject)}"'


def _body(found: Found) -> str:
    """The message and its details as lines of one text, for formats that have a place for them."""
    part, told = _part(found), _told_to(found)
    head = f"{part + ': ' if part else ''}{visible(found.message)}{f' ({told})' if told else ''}"
    return _inert("\n".join([head, *_details(found)]))


def _heaviest_first(checked: Checked) -> list[Found]:
    return sorted(checked.findings, key=lambda found: found.severity.rank)


# ---- for people -----------------------------------------------------------------------------------------------------


def _human(checked: Checked) -> str:
    def told(found: Found) -> Iterator[str]:
        note = " ".join(filter(None, (_part(found), _told_to(found))))
        head = f"{_place(found)}  {found.severity.value}  {found.code.value}  {visible(found.message)}"
        return itertools.chain([f"{head}   ({note})" if note else head], (f"    {line}" for line in _details(found)))

    return _lines([*itertools.chain.from_iterable(map(told, checked.findings)), *_notes(checked), _summary(checked)])


def _concise(checked: Checked) -> str:
    found = (f"{_place(f)}: {f.severity.value}: {f.code.value}: {visible(f.message)}" for f in checked.findings)
    return _lines([*found, *_notes(checked), _summary(checked)])


# ---- for programs ---------------------------------------------------------------------------------------------------


def schema() -> bytes:
    """The published bytes of `check.schema.json`: draft 2020-12, closed, every member required."""
    import msgspec

    from sdaqf_tasks.formats.schemas import describe

    def closed(name: str, text: str | None, members: Mapping[str, Any]) -> Any:
        return msgspec.defstruct(name, list(members.items()), kw_only=True, forbid_unknown_fields=True, namespace={"__doc__": text})

    change = closed("Change", Change.__doc__, get_type_hints(Change))
    found_more = {"severity": Literal["error", "warning", "notice"], "change": change | None}
    found = closed("Found", Found.__doc__, get_type_hints(Found) | found_more)
    counted = closed("Counts", "How many findings there are of each severity.", {level.value: int for level in LEVELS})
    more = {"version": Literal[1], "counts": counted, "findings": GenericAlias(tuple, (found, ...))}
    return describe("check", closed("Checked", Checked.__doc__, get_type_hints(Checked) | more))


def all_schemas() -> dict[str, bytes]:
    """Every schema of the program, by file name: artifacts, the YAML, and what `check` says as JSON."""
    from sdaqf_tasks.formats.schemas import schemas

    return schemas() | {"check.schema.json": schema()}


def _members(checked: Checked) -> dict[str, Any]:
    """All but the findings, of which only the counts: the last object of `jsonl`."""
    members = checked._asdict() | {"version": 1, "counts": _counts(checked)}
    del members["findings"]
    return members


def _plain(value: Any) -> Any:
    """What JSON can carry. A lone surrogate, which it cannot, becomes the text of its escape."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Found | Change):
        value = value._asdict()
    if isinstance(value, dict):
        return {name: _plain(member) for name, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def _dump(value: Any, indent: int | None = None) -> str:
    return _COMMAND.sub(r"\\u0023", json.dumps(_plain(value), indent=indent, sort_keys=True)) + "\n"


def _json(checked: Checked) -> str:
    return _dump(_members(checked) | {"findings": checked.findings}, 2)


def _jsonl(checked: Checked) -> str:
    return "".join(_dump(value) for value in (*checked.findings, _members(checked)))


# ---- for CI ---------------------------------------------------------------------------------------------------------


def _github(checked: Checked) -> str:
    """Workflow commands, heaviest first: GitHub shows ten of a severity for each step. The counts stand in the log."""

    def command(level: str, place: str, title: str, text: str) -> str:
        return f"::{level} {place}title={title}::{_escaped(text, '%', chr(13), chr(10))}\n"

    def place(found: Found) -> str:
        return f"file={_escaped(visible(found.path), '%', ':', ',')},line={found.line}," if found.path else ""

    notes = [command("error" if note.startswith("not checked") else "notice", "", "sdaqf check", note) for note in _notes(checked)]
    found = [command(each.severity.value, place(each), f"sdaqf {each.code.value}", _body(each)) for each in _heaviest_first(checked)]
    return "".join([*notes, *found, f"{_summary(checked)}\n"])


def _escaped(text: str, *characters: str) -> str:
    """The text with these characters as GitHub's commands want them; the percent sign first."""
    for character in characters:
        text = text.replace(character, f"%{ord(character):02X}")
    return text


SARIF_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
SARIF_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTICE: "note"}


def _sarif(checked: Checked) -> str:
    """SARIF 2.1.0. A fingerprint depends on no line number; equal ones are counted, as they stand."""
    seen: Counter[str] = Counter()

    def fingerprint(found: Found) -> str:
        digest = hashlib.sha256(json.dumps([found.code.value, found.path, found.part, found.old]).encode("ascii")).hexdigest()
        seen[digest] += 1
        return f"{digest}:{seen[digest]}"

    def result(found: Found) -> dict[str, Any]:
        uri = quote(found.path.encode("utf-8", "surrogatepass").lstrip(b"/"), safe="/")
        place = {"artifactLocation": {"uri": uri, "uriBaseId": "%SRCROOT%"}, "region": {"startLine": found.line}}
        return {
            "ruleId": found.code.value,
            "ruleIndex": list(Finding).index(found.code),
            "level": SARIF_LEVELS[found.severity],
            "message": {"text": _unlinked(_body(found))},
            "locations": [{"physicalLocation": place}] if uri else [],
            "partialFingerprints": {"sdaqf/v1": fingerprint(found)},
            "properties": {"contexts": found.contexts, "required": found.required, "old": found.old, "new": found.new},
        }

    notes = [{"level": "error" if checked.unmet else "note", "message": {"text": _unlinked(note)}} for note in _notes(checked)]
    run = {
        "tool": {"driver": {"name": "sdaqf", "rules": [_rule(code) for code in Finding]}},
        "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The top of the work tree."}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not checked.unmet, "toolExecutionNotifications": notes}],
        "results": [result(found) for found in checked.findings],
        "properties": _members(checked),
    }
    return _dump({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: Finding) -> dict[str, Any]:
    return {
        "id": code.value,
        "shortDescription": {"text": code.means},
        "fullDescription": {"text": code.means},
        "help": {"text": f"{code.means} What settles it: {code.settles}"},
        "defaultConfiguration": {"level": SARIF_LEVELS[code.severity]},
    }


def _unlinked(text: str) -> str:
    """A SARIF message in which `[text](place)` is no link and `{0}` no placeholder (SARIF 2.1.0, 3.11.5 and 3.11.6)."""
    return re.sub(r"\{(\d+)\}", r"{{\1}}", text).replace("](", r"\](")


def _junit(checked: Checked) -> str:
    """One suite a manifest, one case a finding. An error fails; less is skipped with its message, never shown as a pass."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    root = Element("testsuites", name="sdaqf check")

    def case(suite: Element, name: str, kind: str = "", code: str = "", message: str = "", text: str = "") -> None:
        element = SubElement(suite, "testcase", classname=suite.get("name", ""), name=name)
        if kind:
            SubElement(element, kind, type=code, message=message).text = text

    told: dict[str, list[Found]] = {name: [] for name in checked.manifests}
    for found in checked.findings:
        for name in dict.fromkeys(label.partition(".")[0] for label in found.contexts or (PROJECT,)):
            told.setdefault(name, []).append(found)
    for name, findings in (told or {PROJECT: []}).items():
        suite = SubElement(root, "testsuite", name=visible(name))
        if checked.fixed_clock:
            SubElement(SubElement(suite, "properties"), "property", name="SDAQF_NOW", value=visible(checked.now))
        for found in findings:
            kind = "failure" if found.severity is Severity.ERROR else "skipped"
            message = f"{found.severity.value}: {visible(found.message)}"
            case(suite, f"{_place(found)} {found.code.value}", kind, found.code.value, message, _body(found))
        if not findings and not checked.unmet:
            case(suite, "as reviewed")
    if checked.unmet:
        case(SubElement(root, "testsuite", name="sdaqf check"), "precondition", "error", "not-checked", visible(checked.unmet))

    for suite in root:
        for total, path in (("tests", ""), ("failures", "/failure"), ("errors", "/error"), ("skipped", "/skipped")):
            suite.set(total, str(len(suite.findall(f"testcase{path}"))))
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, encoding="unicode")}\n'


# ---- the page for a pull request ------------------------------------------------------------------------------------

_MARKED = re.compile(r"[&<>|\\`*_~\[\]#!@$^{}]|:(?=[/\w])|(?<=www)\.", re.IGNORECASE)
"""What Markdown, HTML, or GitHub afterwards could take for more than a character."""


def _markdown(checked: Checked) -> str:
    """A table of what changed, heaviest first, cut to what a comment may hold; then what was re-pinned, and the counts."""
    rows = [_row(found) for found in _heaviest_first(checked)]
    head = ["### Context changes in this pull request" if checked.base else "### Context check"]
    head += ["| Document | Finding | Change | Told to | Required |", "|---|---|---|---|---|"] if rows else []
    again = sum(found.code is Finding.RE_PINNED for found in checked.findings)
    said = [f"Re-pinned by this change: {again:,}."] if again or checked.base else []
    if again == len(rows) and not checked.unmet:
        said.append("Everything else is as reviewed." if again else "Everything is as reviewed.")
    tail = ["", " ".join([*said, *(f"{_marked(note)}." for note in _notes(checked))]), "", _marked(_summary(checked))]

    room = PAGE_BYTES - len("\n".join([*head, *tail]).encode()) - 80
    fitting = sum(size <= room for size in itertools.accumulate(len(row.encode()) + 1 for row in rows))
    more = [f"| and {len(rows) - fitting:,} more: `sdaqf check` | | | | |"] if fitting < len(rows) else []
    return _lines([*head, *rows[:fitting], *more, *tail])


def _row(found: Found) -> str:
    change = _changed_lines(found)
    if not change or found.code not in (Finding.CHANGED, Finding.RE_PINNED):
        change.insert(0, _marked(_cut(found.message, CELL_LIMIT)))
    if found.change:
        change.append(f"by {_code(_commit(found.change))}")
    if found.settle and found.severity is not Severity.NOTICE:
        change.append(_code(found.settle))
    part = f" § {_code(found.part)}" if _part(found) else ""
    document = f"{_code(found.path)}:{found.line}{part}" if found.path else PROJECT
    needing = "no" if not found.required else "yes" if set(found.required) >= set(found.contexts) else f"yes in {_named(found.required)}"
    return f"| {document} | {found.severity.value}: {found.code.value} | {'<br>'.join(change)} | {_named(found.contexts)} | {needing} |"


def _changed_lines(found: Found) -> list[str]:
    """`1 line: three → five`, or how many lines and the first of them."""
    signed = _signed(found.lines)
    old, new = ([text for sign, text in signed if sign == which] for which in "-+")
    count = counted(max(len(old), len(new), 1), "line")
    if len(old) == len(new) == 1:
        return [f"{count}: {' → '.join(_code(words) for words in _differing(old[0], new[0]))}"]
    more = [f"and {len(signed) - PAGE_LINES:,} more"] if len(signed) > PAGE_LINES else []
    return [count, *(f"{sign} {_code(text)}" for sign, text in signed[:PAGE_LINES]), *more] if signed else []


def _differing(old: str, new: str) -> tuple[str, str]:
    """The words that differ, without those that both lines begin and end with."""
    before, after = old.split(" "), new.split(" ")
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    return " ".join(before), " ".join(after)


def _named(labels: Sequence[str]) -> str:
    """`context/default, api/review`."""
    pairs = [label.partition(".") for label in labels[:PAGE_LINES]]
    more = f", and {len(labels) - PAGE_LINES:,} more" if len(labels) > PAGE_LINES else ""
    return ", ".join(_marked(_cut(f"{name}/{query or 'default'}", CELL_LIMIT)) for name, _, query in pairs) + more


def _marked(text: str) -> str:
    """Text that reads the same in Markdown. The comment parts an `@` from what would be a name or an address."""
    return _MARKED.sub(lambda match: f"&#{ord(match[0])};" + "<!-- -->" * (match[0] == "@"), text)


def _code(text: str) -> str:
    """Repository text in a cell: GitHub looks for no mention, issue, link or emoji in `<code>`."""
    return f"<code>{_marked(_cut(text, CELL_LIMIT))}</code>" if text else "(nothing)"


# ---- what the command line asks for ---------------------------------------------------------------------------------


def _document(render: Callable[[Checked], str]) -> Callable[[Checked], str]:
    """Findings that the policy turns off are in no document, and a place is always a line of a file."""

    def whole(checked: Checked) -> str:
        shown = (found._replace(line=max(1, found.line)) for found in checked.findings if found.severity in LEVELS)
        return render(checked._replace(findings=tuple(shown)))

    return whole


_RENDERED = (_human, _concise, _json, _jsonl, _github, _sarif, _junit, _markdown)
FORMATS: Mapping[str, Callable[[Checked], str]] = {render.__name__.strip("_"): _document(render) for render in _RENDERED}


def parse_output(option: str) -> tuple[str, Path]:
    """The format and the file of `--output FORMAT=PATH`. Raises what argparse takes for a usage error."""
    name, _, path = option.partition("=")
    if name not in FORMATS or not path:
        raise argparse.ArgumentTypeError(f"{option!r}: write FORMAT=PATH, with a format of {', '.join(FORMATS)}")
    return name, Path(path)


def parse_fail_on(option: str) -> str:
    """A level or a finding's code, as `--fail-on` takes it. Raises what argparse takes for a usage error."""
    if option not in {item.value for item in (*LEVELS, *Finding)}:
        levels = ", ".join(level.value for level in LEVELS)
        raise argparse.ArgumentTypeError(f"{option!r}: write {levels}, or a finding's code: {', '.join(code.value for code in Finding)}")
    return option
