"""This module finds the abstractions that support a query, and says of each how far it may be used (ABSTRACTIONS 4 and 7).

Local records and core's are joined by the table of section 4; no other shard is ever given, so none is searched. Values
come in and references go out: nothing here changes a shard, and only `drifted` may look at a file.

A *hit* matches the query itself. The parents of a usable hit are *reached* through it, level by level, in its own
catalog; what is reached and no hit itself is mode `promoted`. "Hits" and "children" of a parent are the distinct hits
through which it was reached, at whatever depth.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from sdaqf_tasks.formats.records import Category, Tier
from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.records import Abstraction, Choice, Concept, Decay, Decision, Number, Object, Outline, Shard, Source

MOST_SCORE = 1_000
CONTRACT_HITS = 2
"""Hits through which a contract must be reached to be kept."""

Hint = Literal["impact", "breaks-if", "contradicts"]
HINTS: Mapping[Hint, Category] = {"impact": Category.RELATIONAL, "breaks-if": Category.PROCEDURAL, "contradicts": Category.INVARIANT}


class Resolution(enum.Enum):
    """How a record stands where a project and core are seen together."""

    LOCAL = "local"
    IMPORTED = "imported"
    ADOPTED = "adopted"
    LOCAL_OVERRIDE = "local_override"
    REJECTED = "rejected"
    CONFLICT_REFUSED = "conflict_refused"


class Conflict(enum.Enum):
    NONE = "none"
    INCOMPATIBLE = "incompatible"
    EXPLICIT_REJECT = "explicit_reject"


class Mode(enum.Enum):
    """Whether a record matched the query itself, or was reached through its children."""

    DIRECT = "direct"
    PROMOTED = "promoted"


class Query(NamedTuple):
    """What support is sought for. `paths` are whole and equal those of sources; what is there twice counts once."""

    paths: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    hint: Hint | None = None
    limit: int = 4


class Other(Object, frozen=True, kw_only=True):
    """The record with which there is a conflict."""

    owner: Shard
    concept_id: Concept


class Counts(Object, frozen=True, kw_only=True):
    """What a score counts: items of the query that the record retains, its sources in queried paths, those of it and of
    the hits through which it was reached, and how many levels above the nearest of these it is (0: a hit itself)."""

    tokens: Number
    patterns: Number
    direct: Number
    lineage: Number
    depth: Number


class Reference(Outline, frozen=True, kw_only=True):
    """A support reference. Its JSON members are the fields under these names; absent things are null, never left out.

    The outline is the record's, with `consensus_hash` beside the version because a version may come back.
    `conflict_with` is null without an incompatible record. `decision` is the reuse decision about core's record, told by
    that; also by the local record that a `promote` names, and by a compatible local one, in whose place core's is not
    returned. `source` is the record's first source in a queried path, or null. `score` is 0 to 1,000. `drifted`: the
    text of some source stands nowhere in its file any more; a warning, which takes no part in the order or in `usable`.
    """

    resolution: Resolution
    conflict: Conflict
    conflict_with: Other | None
    decision: Choice | None
    decision_lapsed: bool
    mode: Mode
    source: Source | None
    score: Number
    counts: Counts
    usable: bool
    drifted: bool


# ---- how local records and core's stand to one another --------------------------------------------------------------


class Standing(NamedTuple):
    """How one record is shown; `decision` is the one that it tells of, whether it counts or has lapsed."""

    resolution: Resolution
    conflict: Conflict = Conflict.NONE
    against: Abstraction | None = None
    decision: Choice | None = None
    lapsed: bool = False


class Resolved(NamedTuple):
    """How the local record and core's of one concept are shown; None: there is no such one, or it is not returned."""

    local: Standing | None
    core: Standing | None


_CHOICES: tuple[Choice | None, ...] = (None, *Choice)
_REFUSED = Standing(Resolution.CONFLICT_REFUSED, Conflict.INCOMPATIBLE)
_TABLE: Mapping[tuple[bool | None, Choice | None], Resolved] = {
    (None, None): Resolved(None, Standing(Resolution.IMPORTED)),
    (None, Choice.ADOPT): Resolved(None, Standing(Resolution.ADOPTED)),
    (None, Choice.REJECT): Resolved(None, Standing(Resolution.REJECTED, Conflict.EXPLICIT_REJECT)),
    (None, Choice.PROMOTE): Resolved(None, _REFUSED),
    **{(True, choice): Resolved(Standing(Resolution.LOCAL), None) for choice in _CHOICES},
    **{(False, choice): Resolved(Standing(Resolution.LOCAL_OVERRIDE, Conflict.INCOMPATIBLE), _REFUSED) for choice in _CHOICES},
}
"""Section 4: whether the local record of that concept is compatible (None: there is none) and the decision that counts →
how the local record and core's are shown. With which decision the local one is shown, `_told` says."""

_UNUSABLE = frozenset({Resolution.REJECTED, Resolution.CONFLICT_REFUSED})
_PINNED = ("consensus_hash", "lineage_id", "trust_class")


def lapsed(decision: Decision, source: Abstraction | None, local: Abstraction | None) -> bool:
    """Whether what was decided about is no more what it was: `source` in core and, for `promote`, the pinned `local` one.

    A record that is gone (None), or of another consensus, lineage or trust, has changed; one of a higher version has not.
    """
    pins = [(decision.source, source), (decision.local, local)][: 2 if decision.decision is Choice.PROMOTE else 1]
    return any(now is None or any(getattr(pin, name, None) != getattr(now, name) for name in _PINNED) for pin, now in pins)


def resolve(record: Abstraction, local: Mapping[str, Abstraction], decisions: Mapping[str, Decision]) -> Resolved:
    """How core's live `record` is shown to a project with these live records and decisions (section 4, the table).

    A lapsed `adopt` or `promote` counts as none; a lapsed `reject` still counts, until it is reviewed. The local record
    that a `promote` names under another id is `local` with that decision, which `lookup` adds.
    """
    own, decision = local.get(record.concept_id), decisions.get(record.concept_id)
    kept = _preferred(decision, local)
    choice = decision.decision if decision else None
    gone = decision is not None and lapsed(decision, record, kept)
    counted = None if gone and choice is not Choice.REJECT else choice
    compatible = own.compatible(record) if own else None
    ours, cores = _TABLE[compatible, counted]
    told = kept is own if choice is Choice.PROMOTE else compatible
    shown = ours and _told(_against(ours, record), choice if told else None, gone)
    return Resolved(shown, cores and _told(_against(cores, own or kept), choice, gone))


def _preferred(decision: Decision | None, local: Mapping[str, Abstraction]) -> Abstraction | None:
    """The local record that a `promote` names, as it is now."""
    named = decision.local if decision and decision.decision is Choice.PROMOTE else None
    return local.get(named.concept_id) if named else None


def _against(standing: Standing, other: Abstraction | None) -> Standing:
    return standing._replace(against=other) if standing.conflict is Conflict.INCOMPATIBLE else standing


def _told(standing: Standing, choice: Choice | None, gone: bool) -> Standing:
    return standing._replace(decision=choice, lapsed=gone and choice is not None)


def _standings(
    local: Mapping[str, Abstraction], decisions: Mapping[str, Decision], core: Mapping[str, Abstraction]
) -> tuple[Mapping[str, Standing], Mapping[str, Standing]]:
    """How each local record and each of core's that is returned is shown."""
    resolved = {concept: resolve(record, local, decisions) for concept, record in core.items()}
    ours = {concept: Standing(Resolution.LOCAL) for concept in local}
    ours |= {concept: both.local for concept, both in resolved.items() if both.local}
    # A promote may name a record of another id. Of several decisions one that has not lapsed is told.
    for concept, decision in decisions.items():
        if kept := _preferred(decision, local):
            shown, gone = ours[kept.concept_id], lapsed(decision, core.get(concept), kept)
            if shown.decision is None or (shown.lapsed and not gone):
                ours[kept.concept_id] = _told(shown, Choice.PROMOTE, gone)
    return ours, {concept: both.core for concept, both in resolved.items() if both.core}


# ---- what supports a query ------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    record: Abstraction
    standing: Standing
    counts: Counts
    usable: bool
    score: int


def lookup(
    query: Query,
    local: Mapping[str, Abstraction],
    decisions: Mapping[str, Decision],
    core: Mapping[str, Abstraction] | None,
    drifted: Callable[[Source], bool],
) -> tuple[Reference, ...]:
    """The references that support `query`, best first, at most `query.limit` with the promoted ones among them.

    `local` is the live catalog of the mounted shard by concept, and `core` that of core: None where core is what is
    mounted, and then decisions play no part. Best is: usable; decay in its own order; higher trust, score, tier, direct
    count, lineage count; owner kind (`core`, `project`) and concept id ascending. Records that are prunable, or whose
    derived scores are not what the record gives, are never usable; scores are computed anew and never believed.
    `drifted` is asked only about records that are returned. Not checked: that a record verifies otherwise.
    """
    ours, cores = _standings(local, decisions, core) if core is not None else _standings(local, {}, {})
    found = sorted([*_found(query, local, ours), *_found(query, core or {}, cores)], key=_order)
    return tuple(_reference(query, one, drifted) for one in found[: max(0, query.limit)])


def _found(query: Query, catalog: Mapping[str, Abstraction], standings: Mapping[str, Standing]) -> Iterator[_Found]:
    """The hits of one catalog and the parents that are kept, in any order. What has no standing is not returned."""
    counts = {concept: _counts(query, catalog[concept]) for concept in standings}
    hits = [concept for concept, count in counts.items() if count.tokens or count.patterns or count.direct]
    usable = {concept: _usable(catalog[concept], standings[concept]) for concept in hits}
    ways: dict[str, dict[str, int]] = defaultdict(dict)
    for hit, good in usable.items():
        # What may not be used lends its parents no weight either.
        for depth, concept in enumerate(_chain(hit, catalog) if good else [hit]):
            ways[concept][hit] = depth
    for concept, depths in ways.items():
        record, depth = records.scored(catalog[concept]), min(depths.values())
        if concept in standings and (depth == 0 or _promotable(record, len(depths))):
            count = msgspec.structs.replace(counts[concept], lineage=sum(counts[hit].direct for hit in depths), depth=depth)
            good = _usable(catalog[concept], standings[concept])
            yield _Found(record, standings[concept], count, good, _score(query, record, count))


def _counts(query: Query, record: Abstraction) -> Counts:
    return Counts(
        tokens=len({*query.tokens}.intersection(record.retained_tokens)),
        patterns=len({*query.patterns}.intersection(record.retained_patterns)),
        direct=sum(source.path in query.paths for source in record.sources),
        lineage=0,
        depth=0,
    )


def _usable(record: Abstraction, standing: Standing) -> bool:
    valid = record == records.scored(record)
    return valid and record.decay_state is not Decay.PRUNABLE and standing.resolution not in _UNUSABLE


def _chain(concept: str, catalog: Mapping[str, Abstraction]) -> Sequence[str]:
    """The concept and its parents, nearest first: at most four, none twice, as far as they exist."""
    chain = [concept]
    while len(chain) <= records.PARENTS and (parent := catalog[chain[-1]].parent) in catalog and parent is not None and parent not in chain:
        chain.append(parent)
    return chain


def _promotable(record: Abstraction, hits: int) -> bool:
    return record.promotion_ready and (record.tier is not Tier.CONTRACT or hits >= CONTRACT_HITS)


def _score(query: Query, record: Abstraction, counts: Counts) -> int:
    """Never below 0: half of the least quality, 350, is more than what four levels take."""
    own = record.quality_score // 2 + record.confidence_score // 3 + record.reuse_score // 3 + 60 * record.tier.rank
    found = 120 * counts.direct + 80 * counts.lineage + 60 * counts.tokens + 95 * counts.patterns
    hinted = 50 if query.hint is not None and HINTS[query.hint] is record.category else 0
    return min(MOST_SCORE, own + found + hinted - 25 * counts.depth)


def _order(found: _Found) -> tuple[Any, ...]:
    record, counts = found.record, found.counts
    standing = (not found.usable, record.decay_state.rank, -record.trust_class.rank, -found.score, -record.tier.rank)
    return (*standing, -counts.direct, -counts.lineage, record.owner.kind.value, record.concept_id)


def _reference(query: Query, found: _Found, drifted: Callable[[Source], bool]) -> Reference:
    record, standing = found.record, found.standing
    other = standing.against
    return Reference(
        **{name: getattr(record, name) for name in Outline.__struct_fields__},
        resolution=standing.resolution,
        conflict=standing.conflict,
        conflict_with=Other(owner=other.owner, concept_id=other.concept_id) if other else None,
        decision=standing.decision,
        decision_lapsed=standing.lapsed,
        mode=Mode.PROMOTED if found.counts.depth else Mode.DIRECT,
        source=next((source for source in record.sources if source.path in query.paths), None),
        score=found.score,
        counts=found.counts,
        usable=found.usable,
        drifted=any(drifted(source) for source in record.sources),
    )
