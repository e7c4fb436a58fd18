"""This module holds the members of `manifests/NAME.yaml` as a person writes them (PIPELINE 2).

They type the YAML and give `schemas/manifest-yaml.schema.json`; nobody else knows the list. Patterns are for editors:
what they cannot say, and the words of the errors, are `formats.declaration`'s and `context.compile`'s.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sdaqf_tasks.formats import records
from sdaqf_tasks.formats.records import END, Adoptable, Authority, Category, EdgeType, Kind, RootScope, Sensitivity, Tier, Trust

_ALIAS = "[a-z0-9][a-z0-9-]*"
_KINDS = "|".join(kind.value for kind in Kind)
_TYPES = "|".join(kind.value for kind in EdgeType)


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mapping of the YAML with its members and no others."""


def _says(description: str) -> Meta:
    return Meta(description=description)


def _like(pattern: str) -> Meta:
    """What an editor checks of a text."""
    return Meta(extra_json_schema={"pattern": pattern})


Word = Annotated[str, Meta(min_length=1, max_length=500)]
Name = Annotated[str, Meta(min_length=1, max_length=100)]
Alias = Annotated[str, _like(f"^{_ALIAS}{END}")]
Glob = Annotated[str, Meta(min_length=1, max_length=500)]
File = Annotated[str, _like(records.PATH_PATTERN)]
Files = Annotated[list[File], Meta(max_length=63)]
Time = Annotated[str, _like(records.TIME_PATTERN)]
Duration = Annotated[str, _like(f"^[1-9][0-9]{{0,5}}[mhdw]{END}")]
Digest = Annotated[str, _like(f"^[0-9A-Fa-f]{{64}}{END}")]
Edges = Annotated[list[EdgeType], Meta(min_length=1)]
Immutable = Literal["immutable"]
Size = Annotated[str, _like(f"^[1-9][0-9]{{0,8}}(B|KiB|MiB){END}")] | int
Lines = Annotated[str, _like(f"^[1-9][0-9]{{0,6}}(-[1-9][0-9]{{0,6}})?{END}")] | Annotated[int, Meta(ge=1, le=1_000_000)]


class Expiry(Shape, frozen=True, kw_only=True):
    """When something was observed, and how long it holds."""

    observed: Annotated[Time, _says("When it was observed: YYYY-MM-DDThh:mm:ssZ.")]
    holds: Annotated[Duration | UnsetType, _says("How long it holds: N with m, h, d or w.")] = msgspec.field(name="for", default=UNSET)
    expires: Annotated[Time | UnsetType, _says("Until when it holds, in place of `for`.")] = UNSET


class Described(Shape, frozen=True, kw_only=True):
    """What may be said of the specification and of any other source."""

    section: Annotated[Word | UnsetType, _says("A Markdown heading; from it to the next of its level.")] = UNSET
    symbol: Annotated[Word | UnsetType, _says("A Python definition: name, or Class.method.")] = UNSET
    lines: Annotated[Lines | UnsetType, _says("Lines, such as 1-40 or 7.")] = UNSET
    title: Annotated[Word | UnsetType, _says("The path, and section or symbol, where absent.")] = UNSET
    identifiers: Annotated[Annotated[list[Word], Meta(max_length=128)] | UnsetType, _says("What it is known by, such as D-1.")] = UNSET
    labels: Annotated[Annotated[list[Word], Meta(max_length=64)] | UnsetType, _says("Words to find it by.")] = UNSET
    provenance: Annotated[Files, _says("Files that bear it out, beside itself.")] = []
    producer: Annotated[Name | UnsetType, _says("Who produced it; as in defaults where absent.")] = UNSET
    recorded_by: Annotated[Name | UnsetType, _says("Who recorded it; as in defaults where absent.")] = UNSET
    sensitivity: Annotated[Adoptable | UnsetType, _says("Who may see it; as in defaults where absent.")] = UNSET
    freshness: Annotated[Immutable | Expiry | UnsetType, _says("immutable, or when it was observed and how long it holds.")] = UNSET
    pin: Annotated[bool | UnsetType, _says("Whether the lock holds what was reviewed; by kind where absent.")] = UNSET
    sha256: Annotated[Digest | UnsetType, _says("The digest of the whole file, pinned here.")] = UNSET


class SpecificationEntry(Described, frozen=True, kw_only=True):
    """The one document that everything else is measured against."""

    path: Annotated[File, _says("The document, from the top of the work tree.")]


class Filter(Shape, frozen=True, kw_only=True):
    """Which published abstractions are taken; all where nothing is said."""

    tier: Annotated[Tier, _says("At least this tier.")] = Tier.PATTERN
    trust: Annotated[Trust, _says("At least this trust.")] = Trust.EXPLORATORY
    category: Annotated[Category | UnsetType, _says("Of this category.")] = UNSET
    concepts: Annotated[list[Word] | UnsetType, _says("These concepts.")] = UNSET


class SourceEntry(Described, frozen=True, kw_only=True):
    """A source or, with `glob`, many."""

    kind: Annotated[Kind, _says("What it is; always given.")]
    path: Annotated[File | UnsetType, _says("A file, from the top of the work tree or the owner root.")] = UNSET
    glob: Annotated[Glob | UnsetType, _says("Files of the tree, in place of `path`; quote it where it begins with a star.")] = UNSET
    abstractions: Annotated[
        Filter | UnsetType, _says("Published abstractions of these; glob is abstractions/*.json, kind finding, pin true where absent.")
    ] = UNSET
    exclude: Annotated[Glob | list[Glob] | UnsetType, _says("Globs that `glob` leaves out.")] = UNSET
    authority: Annotated[Authority | UnsetType, _says("Who vouches for it; repository-record where absent.")] = UNSET
    required: Annotated[bool, _says("In every query of this manifest, or nothing is built.")] = False
    ignored: Annotated[bool, _says("Git ignores it, and that is meant.")] = False
    root: Annotated[RootScope, _says("owner: the file lies under the owner root.")] = RootScope.REPOSITORY


class Defaults(Shape, frozen=True, kw_only=True):
    """What holds for the sources and relationships of this file that do not say it themselves."""

    sensitivity: Annotated[Adoptable | UnsetType, _says("repository-private where absent; owner files are owner-private.")] = UNSET
    producer: Annotated[Name, _says("Who produced the sources.")] = "repository"
    recorded_by: Annotated[Name | UnsetType, _says("Who recorded them; the manifest's name where absent.")] = UNSET


class RelationshipEntry(Shape, frozen=True, kw_only=True):
    """How two sources are related; an alias with several members stands for each."""

    start: Annotated[Alias, _says("The alias that the relation begins at.")] = msgspec.field(name="from")
    type: Annotated[EdgeType, _says("Followed from left to right; contradicts holds both ways.")]
    to: Annotated[Alias, _says("The alias that it leads to.")]
    provenance: Annotated[Files, _says("Files that bear it out; that of `from`, else of `to`, where absent.")] = []


class BudgetEntry(Shape, frozen=True, kw_only=True):
    """How much a query may take; what exceeds nodes, edges or depth refuses the query."""

    bytes: Annotated[Size | UnsetType, _says("A size such as 64KiB; 256KiB where absent.")] = UNSET
    nodes: Annotated[int, Meta(ge=1, le=4_096)] = 4_096
    edges: Annotated[int, Meta(ge=0, le=16_384)] = 16_384
    depth: Annotated[int, Meta(ge=0, le=8)] = 8


class QueryEntry(Shape, frozen=True, kw_only=True):
    """What is asked of the sources."""

    terms: Annotated[list[Word], Meta(max_length=128, description="Words that lead to sources.")] = []
    identifiers: Annotated[list[Word], Meta(max_length=128, description="Identifiers that lead to sources.")] = []
    require: Annotated[list[Alias], _says("Aliases that are in, or the query is refused.")] = []
    seeds: Annotated[Literal["all"] | list[Alias], _says("Aliases to start from, or all.")] = []
    edges: Annotated[Edges | UnsetType, _says("Relations to follow; all seven where absent.")] = UNSET
    clearance: Annotated[Sensitivity, _says("The most sensitive that its reader may see.")] = Sensitivity.REPOSITORY_PRIVATE
    as_of: Annotated[Time | UnsetType, _says("The moment at which expiry is judged.")] = UNSET
    budget: Annotated[Size | BudgetEntry | UnsetType, _says("A size such as 64KiB; 256KiB where absent.")] = UNSET


Short = Annotated[str, _like(f"^({_KINDS}) +[^ ].*{END}")]
Sentence = Annotated[str, _like(f"^{_ALIAS} +({_TYPES}) +{_ALIAS}{END}")]


def _by(names: str) -> Meta:
    return Meta(extra_json_schema={"propertyNames": {"pattern": names}})


class ManifestFile(Shape, frozen=True, kw_only=True):
    """What an agent is told: sources, how they are related, and what is asked of them."""

    sdaqf: Annotated[Literal[1], _says("The version of this file's form.")]
    title: Annotated[str, _says("For people; in no artifact.")] = ""
    include: Annotated[
        list[str], _says("Files whose defaults, sources and relationships are taken too; from this file, or from the top with a leading /.")
    ] = []
    specification: Annotated[
        File | SpecificationEntry | UnsetType,
        _says("The one document that says what this project must do: always included; when two sources disagree a reader goes by it."),
    ] = UNSET
    defaults: Annotated[Defaults, _says("For the sources and relationships of this file.")] = Defaults()
    sources: Annotated[
        dict[str, Short | SourceEntry], _by(f"^(?!specification$){_ALIAS}{END}"), _says("By alias: KIND PATH-OR-GLOB, or a mapping.")
    ] = {}
    relationships: Annotated[list[Sentence | RelationshipEntry], _says("A TYPE B, or a mapping; followed from left to right.")] = []
    queries: Annotated[dict[str, QueryEntry], _by(f"^{_ALIAS}{END}"), _says("By name; one, default, with seeds: all, where absent.")] = {}
