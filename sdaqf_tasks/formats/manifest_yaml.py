"""This module holds the members of `manifests/NAME.yaml` as a person writes them (PIPELINE 2).

They type the YAML and give `schemas/manifest-yaml.schema.json`; nobody else knows the list.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sdaqf_tasks.formats.records import Authority, EdgeType, Kind, RootScope, Sensitivity


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML with its members and no others."""


def _says(description: str, **schema: Any) -> Meta:
    return Meta(description=description, extra_json_schema=schema or None)


Word = Annotated[str, Meta(min_length=1, max_length=500)]
Words = Annotated[list[Word], Meta(max_length=128)]


class Expiry(Shape, frozen=True, kw_only=True):
    observed: Annotated[str, _says("When it was observed: YYYY-MM-DDThh:mm:ssZ.")]
    holds: Annotated[str | UnsetType, _says("How long it holds: N with m, h, d or w.")] = msgspec.field(name="for", default=UNSET)
    expires: Annotated[str | UnsetType, _says("Until when it holds, in place of `for`.")] = UNSET


class SourceEntry(Shape, frozen=True, kw_only=True):
    """A source or, with `glob`, many."""

    kind: Annotated[Kind, _says("What it is; always given.")]
    path: Annotated[str | UnsetType, _says("A file, from the top of the work tree or the owner root.")] = UNSET
    glob: Annotated[str | UnsetType, _says("Files of the tree, in place of `path`; quote it where it begins with a star.")] = UNSET
    exclude: Annotated[str | list[str] | UnsetType, _says("Globs that `glob` leaves out.")] = UNSET
    authority: Annotated[Authority | UnsetType, _says("Who vouches for it; repository-record where absent.")] = UNSET
    section: Annotated[str | UnsetType, _says("A Markdown heading; from it to the next of its level.")] = UNSET
    symbol: Annotated[str | UnsetType, _says("A Python definition: name, or Class.method.")] = UNSET
    lines: Annotated[str | int | UnsetType, _says("Lines, such as 1-40 or 7.")] = UNSET
    title: Annotated[str | UnsetType, _says("The path, and section or symbol, where absent.")] = UNSET
    identifiers: Words | UnsetType = UNSET
    labels: Words | UnsetType = UNSET
    required: Annotated[bool, _says("In every query of this manifest, or nothing is built.")] = False
    provenance: Annotated[list[str], _says("Files that bear it out, beside itself.")] = []
    producer: Word | UnsetType = UNSET
    recorded_by: Word | UnsetType = UNSET
    sensitivity: Sensitivity | UnsetType = UNSET
    freshness: Annotated[Literal["immutable"] | Expiry | UnsetType, _says("immutable, or when it was observed and how long it holds.")] = (
        UNSET
    )
    ignored: Annotated[bool, _says("Git ignores it, and that is meant.")] = False
    root: Annotated[RootScope, _says("owner: the file lies under the owner root.")] = RootScope.REPOSITORY
    pin: Annotated[bool | UnsetType, _says("Whether the lock holds what was reviewed; by kind where absent.")] = UNSET
    sha256: Annotated[str | UnsetType, _says("The digest of the whole file, pinned here.")] = UNSET


class SpecificationEntry(Shape, frozen=True, kw_only=True):
    """The one document that everything else is measured against."""

    path: str
    section: str | UnsetType = UNSET
    lines: str | int | UnsetType = UNSET
    title: str | UnsetType = UNSET
    identifiers: Words | UnsetType = UNSET
    labels: Words | UnsetType = UNSET
    provenance: list[str] = []
    producer: Word | UnsetType = UNSET
    recorded_by: Word | UnsetType = UNSET
    sensitivity: Sensitivity | UnsetType = UNSET
    pin: bool | UnsetType = UNSET
    sha256: str | UnsetType = UNSET


class Defaults(Shape, frozen=True, kw_only=True):
    sensitivity: Annotated[Sensitivity | UnsetType, _says("repository-private where absent; owner files are owner-private.")] = UNSET
    producer: Annotated[Word, _says("Who produced the sources.")] = "repository"
    recorded_by: Annotated[Word | UnsetType, _says("Who recorded them; the manifest's name where absent.")] = UNSET


class RelationshipEntry(Shape, frozen=True, kw_only=True):
    start: str = msgspec.field(name="from")
    type: EdgeType
    to: str
    provenance: list[str] = []


class BudgetEntry(Shape, frozen=True, kw_only=True):
    bytes: str | int | UnsetType = UNSET
    nodes: Annotated[int, Meta(ge=1, le=4_096)] = 4_096
    edges: Annotated[int, Meta(ge=0, le=16_384)] = 16_384
    depth: Annotated[int, Meta(ge=0, le=8)] = 8


class QueryEntry(Shape, frozen=True, kw_only=True):
    terms: Annotated[Words, _says("Words that lead to sources.")] = []
    identifiers: Annotated[Words, _says("Identifiers that lead to sources.")] = []
    require: Annotated[list[str], _says("Aliases that are in, or the query is refused.")] = []
    seeds: Annotated[Literal["all"] | list[str], _says("Aliases to start from, or all.")] = []
    edges: Annotated[list[EdgeType] | UnsetType, _says("Relations to follow; all seven where absent.")] = UNSET
    clearance: Sensitivity = Sensitivity.REPOSITORY_PRIVATE
    as_of: Annotated[str | UnsetType, _says("The moment at which expiry is judged.")] = UNSET
    budget: Annotated[str | int | BudgetEntry | UnsetType, _says("A size such as 64KiB; 256KiB where absent.")] = UNSET


_ALIAS_KEYS = {"propertyNames": {"pattern": r"^[a-z0-9][a-z0-9-]*$(?!\n)"}}


class ManifestFile(Shape, frozen=True, kw_only=True):
    """What an agent is told: sources, how they are related, and what is asked of them."""

    sdaqf: Annotated[Literal[1], _says("The version of this file's form.")]
    title: Annotated[str, _says("For people; in no artifact.")] = ""
    include: Annotated[
        list[str], _says("Files whose defaults, sources and relationships are taken too; from this file, or from the top with a leading /.")
    ] = []
    specification: Annotated[
        str | SpecificationEntry | UnsetType,
        _says("The one document that says what this project must do: always included; when two sources disagree a reader goes by it."),
    ] = UNSET
    defaults: Defaults = Defaults()
    sources: Annotated[dict[str, str | SourceEntry], _says("By alias: KIND PATH-OR-GLOB, or a mapping.", **_ALIAS_KEYS)] = {}
    relationships: Annotated[list[str | RelationshipEntry], _says("A TYPE B, or a mapping; followed from left to right.")] = []
    queries: Annotated[dict[str, QueryEntry], _says("By name; one, default, with seeds: all, where absent.", **_ALIAS_KEYS)] = {}
