"""A JSON Schema in a few words: what a value of it may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]  # a JSON Schema: any JSON


def values(schema: Schema, known: Mapping[str, Schema] = {}) -> str:
    """Such as `text`, `list of text`, `"a" or "b"`, or an object's fields."""
    if "$ref" in schema:
        return _referred(schema["$ref"], known)
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(one)}`" for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(values(one, known) for one in schema["anyOf"])
    match schema.get("type"):
        case "array":
            return f"list of {values(schema.get('items', {}), known)}"
        case "string":
            return "ISO 8601 time" if schema.get("format") == "date-time" else "text"
        case "null":
            return "`null`"
        case str(other):
            return {"integer": "whole number", "boolean": "`true` or `false`"}.get(other, other)
        case _:
            return "any JSON"


def _referred(ref: str, known: Mapping[str, Schema]) -> str:
    name = ref.rpartition("/")[2]
    if name not in known:
        return name
    fields = known[name].get("properties", {})
    inside = ", ".join(f"`{field}`: {values(of, known)}" for field, of in fields.items())
    return f"object ({inside})"
