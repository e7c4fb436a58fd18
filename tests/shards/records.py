"""This module builds abstraction records that say only what matters to a test and hold whatever the rules ask of them.

    record()                                               # of project:default, two examples, fully resonant
    record("a", tokens=("retry",), parent="b", tier=Tier.LOGIC)
    record("a", owner=CORE)                                # trust and lineage follow the owner
    record("a", sources=("src/a.py", source("src/b.py", 7, 9)))

What is derived follows from the rest, so that `verify` finds nothing: scores, counts, threshold, consensus, the first
entry of the provenance. A record that disagrees with itself is made by `msgspec.structs.replace` afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from sdaqf_tasks.formats import canonical
from sdaqf_tasks.shards.records import (
    WHOLE,
    Abstraction,
    Category,
    Choice,
    Decay,
    Decision,
    Kind,
    Operation,
    Shard,
    Source,
    Tier,
    consensus,
    entry,
    scored,
    threshold,
)

PROJECT = Shard(kind=Kind.PROJECT, id="default")
NORMALISER = "1"


def source(path: str = "src/a.py", first: int = 1, last: int = 3, text: str = "") -> Source:
    """An example in a file. Its digests are those of `text`, or of a text that only this place has."""
    digest = canonical.digest((text or f"{path}:{first}-{last}\n").encode())
    spec = f"region:{path}:{first}-{last}"
    return Source(spec=spec, path=path, line_start=first, line_end=last, sha256=digest, text_sha256=digest)


def record(
    concept: str = "retry",
    *,
    tokens: Sequence[str] = ("if", "retry"),
    patterns: Sequence[str] = ("if retry :",),
    sources: Sequence[Source | str] = ("src/a.py", "src/b.py"),
    owner: Shard = PROJECT,
    **other: Any,
) -> Abstraction:
    """A live record of `owner`: tier pattern, category structural, active, no parent, version 1, revision 1. `other` are fields."""
    evidence = tuple(source(item) if isinstance(item, str) else item for item in sources)
    fields: dict[str, Any] = {
        "concept_id": concept,
        "statement": "",
        "tier": Tier.PATTERN,
        "category": Category.STRUCTURAL,
        "parent": None,
        "examples": len(evidence),
        "threshold": threshold(len(evidence)),
        "average_resonance": WHOLE,
        "min_resonance": WHOLE,
        "quality_score": 0,
        "confidence_score": 0,
        "reuse_score": 0,
        "support_score": 0,
        "promotion_ready": False,
        "normaliser": NORMALISER,
        "lineage_id": f"{owner.kind.value}:{owner.id}:{concept}",
        "lineage_version": 1,
        "trust_class": owner.trust,
        "decay_state": Decay.ACTIVE,
        "first_revision": 1,
        "last_revision": 1,
        "last_review_revision": 0,
        "owner": owner,
        "sources": evidence,
        "retained_tokens": tuple(tokens),
        "retained_patterns": tuple(patterns),
        "provenance": (),
        "provenance_dropped": 0,
        **other,
    }
    fields.setdefault("consensus_hash", consensus(fields["normaliser"], patterns, tokens))
    made = scored(Abstraction(**fields))
    return made if made.provenance else msgspec.structs.replace(made, provenance=(entry(made, Operation.DISTILLED, owner),))


def decision(choice: Choice, of: Abstraction, local: Abstraction | None = None) -> Decision:
    """A decision about core's record `of` as it is now; for `promote`, in favour of `local` as it is now."""
    return Decision(decision=choice, source=of.pin, local=local.pin if local else None)


def catalog(*records: Abstraction) -> dict[str, Abstraction]:
    """The live records, by concept."""
    return {made.concept_id: made for made in records}
