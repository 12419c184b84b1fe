"""Kinds of cells: which operators can be true of each, and which operands fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, assert_never

from pydantic import JsonValue

from context_engine.errors import InvalidRequest
from context_engine.facts import FieldFacts
from context_engine.nearest import among
from context_engine.policy.days import day_of_text

Kind = Literal["text", "user", "number", "boolean", "date", "list", "users"]
"""What a cell holds: one text, user, number, boolean or day, or a list of texts or users."""

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("text", "long_text", "email", "url", "phone", "select"), "text"),
    **dict.fromkeys(("number", "rating"), "number"),
    **dict.fromkeys(("date", "datetime"), "date"),
    "boolean": "boolean",
    "multi_select": "list",
    "user": "user",
}
COLUMNS: Mapping[str, Kind] = {"created_by": "user", "updated_by": "user", "created_at": "date"}

EMPTY = ("empty", "not_empty")
SAME = ("eq", "ne")
AMONG = ("in", "not_in")
ORDER = ("lt", "lte", "gt", "gte")
HAS = ("has_any", "has_all", "has_none")
OPS: Mapping[Kind, tuple[str, ...]] = {
    "text": (*SAME, *AMONG, *ORDER, "text_contains", *EMPTY),
    "user": (*SAME, *AMONG, *ORDER, "text_contains", *EMPTY),
    "number": (*SAME, *AMONG, *ORDER, *EMPTY),
    "boolean": (*SAME, *EMPTY),
    "date": (*SAME, *ORDER, *EMPTY),
    "list": (*HAS, *EMPTY),
    "users": (*HAS, *EMPTY),
}
"""The operators that can be true of a kind."""
WANTED: Mapping[Kind, str] = {
    "text": "a text", "user": "the id of a user", "number": "a number",
    "boolean": "true or false", "date": "a day as YYYY-MM-DD, or now", "list": "a text",
    "users": "the id of a user",
}  # fmt: skip


class ChoiceField(FieldFacts):
    """A field whose cells hold nothing but its choices."""

    choices: tuple[str, ...]


ITEM: Mapping[Kind, str] = {
    "text": "text", "user": "text", "list": "text", "users": "text",
    "number": "number", "boolean": "boolean", "date": "date",
}  # fmt: skip
"""The type of a cell's value, or of each value in it."""


def kind_of(field: FieldFacts) -> Kind | None:
    """What the field's cells hold; None for links, and for what is computed."""
    kind = _KINDS.get(field.type)
    return "users" if kind == "user" and field.cardinality == "many" else kind


def of_user(what: str, kind: Kind, op: str, place: str) -> None:
    if ITEM[kind] != "text":
        raise InvalidRequest(f"user.{what} is text; use {WANTED[kind]}", field=place)
    if what == "team_ids" and op not in (*AMONG, *HAS):
        raise InvalidRequest(f"{op} compares with one value, and teams are many", field=place)
    if what != "team_ids" and op in AMONG:
        one = "eq" if op == "in" else "ne"
        raise InvalidRequest(f"{op} wants a list, and this is one; use {one}", field=place)


def chosen(field: FieldFacts, op: str, value: JsonValue, place: str) -> None:
    """Refuses what no cell of a field of choices can be equal to, or have."""
    if not isinstance(field, ChoiceField) or op not in (*SAME, *AMONG, *HAS):
        return
    listed = isinstance(value, list)
    for number, item in enumerate(value if isinstance(value, list) else [value]):
        if item not in field.choices:
            raise InvalidRequest(
                f"the field has no such choice; {among(str(item), field.choices)}",
                field=f"{place}.{number}" if listed else place,
            )


def literal(value: JsonValue, kind: Kind, op: str, place: str) -> JsonValue:
    if op in EMPTY:
        if value is not None:
            raise InvalidRequest(f"{op} compares with nothing; leave it out", field=place)
        return None
    if op in AMONG and not isinstance(value, list):
        raise InvalidRequest(f"{op} wants a list; write one", field=place)
    if op in (*AMONG, *HAS) and isinstance(value, list):
        return [_one(item, kind, f"{place}.{n}") for n, item in enumerate(value)]
    return _one(value, kind, place)


def _one(value: JsonValue, kind: Kind, place: str) -> JsonValue:
    match kind:
        case "text" | "list":
            fits = isinstance(value, str)
        case "user" | "users":
            if isinstance(value, int) and not isinstance(value, bool):
                value = str(value)
            fits = isinstance(value, str)
        case "number":
            fits = isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            fits = isinstance(value, bool)
        case "date":
            fits = isinstance(value, str) and day_of_text(value) is not None
        case _:
            assert_never(kind)
    if not fits:
        nothing = " (nothing equals null; use empty or not_empty)" if value is None else ""
        raise InvalidRequest(f"write {WANTED[kind]}{nothing}", field=place)
    return value
