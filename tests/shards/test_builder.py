"""What tests are built of keeps the rules itself."""

from __future__ import annotations

from typing import Any

import pytest

from sdaqf_tasks.shards import records
from sdaqf_tasks.shards.records import CORE, Category, Decay, Tier, Trust
from tests.shards.records import record, source


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"owner": CORE},
        {"tokens": ()},
        {"parent": "other", "tier": Tier.CONTRACT, "category": Category.STATE, "decay_state": Decay.STALE},
        {"sources": [source("src/a.py", n, n) for n in range(1, 13)], "trust_class": Trust.EXPLORATORY},
        {"min_resonance": 560, "average_resonance": 700},
    ],
)
def test_a_built_record_verifies_and_is_what_its_bytes_say(said: dict[str, Any]) -> None:
    made = record(**said)
    records.verify(made)
    assert records.decode(*records.sealed(made)) == made
