"""A manifest takes published abstractions, and of them those that it asks for (ABSTRACTIONS 1.4)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sdaqf_tasks.context.listing import unfit
from sdaqf_tasks.formats.manifest_yaml import Filter
from sdaqf_tasks.formats.records import Category, Tier, Trust
from tests.flow.workshop import DEFAULT, Workshop


def published(concept: str = "guard", tier: str = "convention", trust: str = "project", category: str = "structural") -> str:
    record = {"concept_id": concept, "tier": tier, "trust_class": trust, "category": category}
    return json.dumps({"record": record, "shard": {"id": "default", "kind": "project"}, "state": "S"})


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Filter(), ""),
        (Filter(tier=Tier.CONVENTION, trust=Trust.PROJECT, category=Category.STRUCTURAL, concepts=["guard", "other"]), ""),
        (Filter(tier=Tier.LOGIC), "its tier is convention, below logic"),
        (Filter(trust=Trust.PROMOTED), "its trust is project, below promoted"),
        (Filter(category=Category.STATE), "its category is not state"),
        (Filter(concepts=["other"]), "its concept is not among those wanted"),
    ],
)
def test_each_filter_to_its_bound(wanted: Filter, why: str) -> None:
    assert unfit(published(), wanted) == why


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"record": 1}', '{"record": {"tier": "no"}}', published(tier="idiom"), published(trust="")]
)
def test_what_is_no_published_abstraction(text: str) -> None:
    assert unfit(text, Filter()) == "it is no published abstraction"


YAML = "sdaqf: 1\nspecification: docs/spec.md\nsources:\n  memory:\n    abstractions: {tier: convention}\n"


def test_those_that_are_wanted_are_sources_and_the_others_are_named(shop: Workshop) -> None:
    shop.write("abstractions/guard.json", published())
    shop.write("abstractions/weak.json", published("weak", "pattern"))
    shop.manifest(YAML)
    results = shop.build()
    [result] = results
    assert "abstractions/weak.json left out: its tier is pattern, below convention" in result.notes
    sources = {source.locator.path: source.kind.value for source in shop.artifact("manifest", DEFAULT).content.sources}
    assert sources == {"docs/spec.md": "specification", "abstractions/guard.json": "finding"}


def test_they_are_pinned_where_nothing_else_is_said(shop: Workshop) -> None:
    shop.write("abstractions/guard.json", published())
    shop.manifest(YAML)
    assert shop.command("lock").returncode == 0
    assert "abstractions/guard.json" in Path(shop.path / "manifests/context.lock").read_text()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{abstractions: {tier: low}}", "'low' is not one of the words for tier"),
        ("{abstractions: {no: 1}}", "'no' is not known here"),
        ("{path: a.json, abstractions: {}}", "abstractions goes with a glob, not with a path"),
    ],
)
def test_what_cannot_be_meant(entry: str, message: str, shop: Workshop) -> None:
    shop.manifest(f"sdaqf: 1\nspecification: docs/spec.md\nsources:\n  memory: {entry}\n")
    error = shop.refusal()
    assert error.message.startswith(message)
    assert error.where.startswith("manifests/context.yaml:4:")
