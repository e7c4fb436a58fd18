"""This module makes examples of regions and a consensus of examples (ABSTRACTIONS 3).

    parse_region    region:PATH:FIRST-LAST   → where an example stands
    merged          regions                  → those that overlap or touch as one
    cut             bytes of a file          → one example with its digests
    consensus_of    examples                 → the features that enough of them share

A feature is one token or one pattern (`normalise`), and counts once an example. Two examples are distinct when they
stand at different places, whatever they say: regions were merged, so no line counts twice. Nothing here opens a file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sdaqf_tasks.errors import Reason, Refused, Unreadable, shown
from sdaqf_tasks.formats import canonical
from sdaqf_tasks.formats.records import is_path, is_secret_shaped
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.normalise import VERSION, language, normalise
from sdaqf_tasks.world import decode, lines

LAST_LINE = 1_000_000
"""The largest number that a line may have."""

_REGION = re.compile(r"region:([^:]+):([1-9][0-9]{0,6})-([1-9][0-9]{0,6})")


class Region(NamedTuple):
    """Lines of a file, 1-based and inclusive."""

    path: str
    first: int
    last: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first}-{self.last}"


class Example(NamedTuple):
    """One example: where it stands, and its text."""

    source: records.Source
    text: str


class Consensus(NamedTuple):
    """What examples share, and how well the weakest and the average of them fit it (0 to 1024)."""

    normaliser: str
    tokens: tuple[str, ...]
    patterns: tuple[str, ...]
    minimum: int
    average: int
    hash: str


def parse_region(text: str) -> Region:
    """The region that `region:PATH:FIRST-LAST` names; numbers have no leading zero. Raises `Refused`: INVALID_REGION."""
    found = _REGION.fullmatch(text)
    if found and is_path(found[1]) and int(found[2]) <= int(found[3]) <= LAST_LINE:
        return Region(found[1], int(found[2]), int(found[3]))
    if found and not is_path(found[1]):
        raise Refused(Reason.INVALID_REGION, "its path is not portable: some system cannot have a file of that name", at=shown(text))
    raise Refused(Reason.INVALID_REGION, f"not region:PATH:FIRST-LAST with 1 ≤ FIRST ≤ LAST ≤ {LAST_LINE}", at=shown(text))


def merged(regions: Iterable[Region]) -> tuple[Region, ...]:
    """The same lines, ascending by path and first line, no two regions of a file overlapping or touching."""
    found: list[Region] = []
    for region in sorted(regions):
        if found and found[-1].path == region.path and region.first <= found[-1].last + 1:
            found[-1] = found[-1]._replace(last=max(found[-1].last, region.last))
        else:
            found.append(region)
    return tuple(found)


def cut(spec: str, region: Region, data: bytes, sha256: str) -> Example:
    """The region of a file with those bytes and that digest; the text unaltered, with its line ends.

    Neither the digest nor the length of `spec` is checked. Raises `Refused`, in this order: SOURCE_NOT_UTF8 (U+0000 is
    no text either), REGION_OUT_OF_RANGE, REGION_TOO_LARGE (lines, then UTF-8 bytes), SECRET_SHAPED_TEXT.
    """
    try:
        found = lines(decode(data))
    except Unreadable as error:
        raise Refused(Reason.SOURCE_NOT_UTF8, error.message, at=region.path) from None
    if not 1 <= region.first <= region.last <= min(len(found), LAST_LINE):
        raise Refused(Reason.REGION_OUT_OF_RANGE, f"the file has {len(found)} lines", at=region.place)
    text = "".join(found[region.first - 1 : region.last])
    selected, count = text.encode("utf-8"), region.last - region.first + 1
    for size, bound, unit in ((count, records.REGION_LINES, "lines"), (len(selected), records.REGION_BYTES, "bytes")):
        if size > bound:
            raise Refused(Reason.REGION_TOO_LARGE, f"{size} {unit}, at most {bound}", at=region.place)
    if is_secret_shaped(text):
        raise Refused(Reason.SECRET_SHAPED_TEXT, "the lines look like a key or a token", at=region.place)
    digest = canonical.digest(selected)
    path, first, last = region
    return Example(records.Source(spec=spec, path=path, line_start=first, line_end=last, sha256=sha256, text_sha256=digest), text)


def consensus_of(examples: Sequence[Example]) -> Consensus:
    """The tokens and patterns that at least `records.threshold` of the examples hold, the most frequent first.

    Examples of one place are one; their order plays no part. Raises `Refused`: NOT_ENOUGH_EXAMPLES, TOO_MANY_EXAMPLES;
    NO_CONSENSUS without one pattern and two features; BELOW_THRESHOLD at the first example that does not resonate.
    """
    distinct = list({example.source.place: example for example in examples}.values())
    if len(distinct) < 2:
        raise Refused(Reason.NOT_ENOUGH_EXAMPLES, f"distinct examples: {len(distinct)}, at least 2")
    if len(distinct) > records.EXAMPLES:
        raise Refused(Reason.TOO_MANY_EXAMPLES, f"{len(distinct)} examples, at most {records.EXAMPLES}")
    features = [_features(example) for example in distinct]
    tokens = _shared([each.tokens for each in features], records.TOKENS)
    patterns = _shared([each.patterns for each in features], records.PATTERNS)
    if not patterns or len(tokens) + len(patterns) < 2:
        held = f"{len(patterns)} patterns and {len(tokens)} tokens stand in {records.threshold(len(distinct))} of {len(distinct)} examples"
        raise Refused(Reason.NO_CONSENSUS, f"{held}; at least one pattern and two features must")
    resonances = [_resonance(each, tokens, patterns) for each in features]
    for example, resonance in zip(distinct, resonances, strict=True):
        if resonance < records.RESONANT:
            message = f"resonates with {resonance} of {records.WHOLE}, at least {records.RESONANT}"
            raise Refused(Reason.BELOW_THRESHOLD, message, at=example.source.place)
    average = sum(resonances) // len(resonances)
    return Consensus(VERSION, tokens, patterns, min(resonances), average, records.consensus(VERSION, patterns, tokens))


class _Features(NamedTuple):
    tokens: frozenset[str]
    patterns: frozenset[str]


def _features(example: Example) -> _Features:
    found = [line for line in normalise(example.text, language(example.source.path)) if line.tokens]
    return _Features(_fit(token for line in found for token in line.tokens), _fit(line.pattern for line in found))


def _fit(features: Iterable[str]) -> frozenset[str]:
    """Those that a record can hold: spaces make lines longer, and lower case makes secrets of what is none."""
    return frozenset(feature for feature in features if len(feature) <= records.REGION_BYTES and not is_secret_shaped(feature))


def _shared(features: Sequence[frozenset[str]], bound: int) -> tuple[str, ...]:
    """By count descending, then bytes ascending: code points have the order of their UTF-8."""
    counts = Counter(feature for each in features for feature in each)
    enough = [feature for feature, count in counts.items() if count >= records.threshold(len(features))]
    return tuple(sorted(enough, key=lambda feature: (-counts[feature], feature))[:bound])


def _resonance(features: _Features, tokens: Sequence[str], patterns: Sequence[str]) -> int:
    contained = len(features.tokens.intersection(tokens)) + len(features.patterns.intersection(patterns))
    return records.WHOLE * contained // (len(tokens) + len(patterns))
