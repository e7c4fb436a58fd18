"""This module describes the records to other programs: one JSON Schema a file, self-contained (FORMAT 3.15).

    schemas()               file name → published bytes of the eight artifact schemas, and of a manifest's YAML
    describe(name, record)  the published bytes of any other record's schema

The fields come from the records. What a schema cannot say (order, identities, sums, what relates two members) is the
runtime's alone: a schema accepts whatever `parse` accepts, loose ids apart, and more.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from sdaqf_tasks.formats.artifacts import PREFIXES, SCHEMA_VERSION, TYPES
from sdaqf_tasks.formats.manifest_yaml import ManifestFile
from sdaqf_tasks.formats.records import Record, id_pattern

DIALECT = "https://json-schema.org/draft/2020-12/schema"

KEYWORDS = (
    *("$schema", "$id", "$ref", "title", "description", "type", "const", "enum", "default", "pattern", "minLength", "maxLength"),
    *("minimum", "maximum", "minItems", "maxItems", "uniqueItems", "contains", "items", "anyOf"),
    *("properties", "required", "propertyNames", "additionalProperties", "if", "then", "else", "$defs"),
)
"""The order in which a schema is written; keywords that are not here follow by name."""


def schemas() -> dict[str, bytes]:
    """File name → bytes of the schemas of the eight artifacts and of a manifest's YAML.

    Draft 2020-12, indented by two, one final line feed.
    """
    found = {name: _published(name, _envelope(name, content)) for name, content in TYPES.items()}
    return {f"{name}.schema.json": data for name, data in (found | {"manifest-yaml": describe("manifest-yaml", ManifestFile)}).items()}


def describe(name: str, record: type[msgspec.Struct]) -> bytes:
    """The published schema of a record that has no envelope; `name` makes its `$id`."""
    definitions = _definitions(record)
    return _published(name, {**definitions.pop(record.__name__), "$defs": definitions})


def _envelope(name: str, content: type[Record]) -> dict[str, Any]:
    members = {
        "schema_version": {"const": SCHEMA_VERSION},
        "artifact_type": {"const": name},
        "artifact_id": {"type": "string", "pattern": id_pattern(PREFIXES[content])},
        "content": {"$ref": f"#/$defs/{content.__name__}"},
    }
    closed = {"type": "object", "required": list(members), "additionalProperties": False}
    return {"title": name, **closed, "properties": members, "$defs": _definitions(content)}


def _definitions(root: type[msgspec.Struct]) -> dict[str, Any]:
    """The schemas of `root` and of all that it holds, by class name: enumerations in the order of their declaration."""
    _, found = msgspec.json.schema_components([root], ref_template="#/$defs/{name}")
    for kind in _kinds(root):
        if issubclass(kind, enum.Enum):
            found[kind.__name__]["enum"] = [member.value for member in kind]
        elif issubclass(kind, Record):
            found[kind.__name__].update(kind.schema)
    return dict(sorted(found.items()))


def _kinds(root: type[msgspec.Struct]) -> Iterable[type]:
    """Every record and enumeration that `root` is made of, itself included."""
    found: dict[type, None] = {}

    def visit(info: Any) -> None:
        kind = getattr(info, "cls", None)
        if kind in found:
            return
        if kind is not None:
            found[kind] = None
        for name in info.__struct_fields__:
            below = getattr(info, name)
            for part in below if isinstance(below, tuple) else (below,):
                if isinstance(part, msgspec.inspect.Type | msgspec.inspect.Field):
                    visit(part)

    visit(msgspec.inspect.type_info(root))
    return found


def _published(name: str, schema: dict[str, Any]) -> bytes:
    whole = {"$schema": DIALECT, "$id": f"urn:sdaqf-tasks:{name}:{SCHEMA_VERSION}", **schema}
    return json.dumps(_ordered(whole), indent=2).encode("ascii") + b"\n"


def _ordered(schema: Any) -> Any:
    """The same schema with its keywords in the order above. Member names are not keywords: they keep theirs."""
    if isinstance(schema, list):
        return [_ordered(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rank = {keyword: place for place, keyword in enumerate(KEYWORDS)}
    return {
        keyword: {name: _ordered(part) for name, part in schema[keyword].items()}
        if keyword in ("properties", "$defs")
        else _ordered(schema[keyword])
        for keyword in sorted(schema, key=lambda keyword: (rank.get(keyword, len(rank)), keyword))
    }
