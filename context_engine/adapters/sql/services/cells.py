"""Cells: which values a field takes, and the one form in which each is stored.

Stored is JSON. Ids are text always, so that 1 and "1" are one person to a policy; dates are ISO
text; an empty cell is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime

from pydantic import JsonValue

from context_engine.adapters.sql.services.texts import (
    clean_id,
    clean_ids,
    clean_line,
    clean_text,
    items_of,
)
from context_engine.errors import InvalidRequest
from context_engine.models.base import JsonObject
from context_engine.nearest import among

FIELD_TYPES = (
    "text", "long_text", "email", "url", "phone", "number", "rating", "boolean", "date", "datetime",
    "select", "multi_select", "user", "link",
)  # fmt: skip
"""Types that a field can be made with. Imported ones may have others, whose cells are computed,
or kept by the product: those are read, and not written."""

CHOICE_CHARS = 500
"""Longest choice of a select, in characters."""


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """What decides on a field's cells."""

    id: str
    type: str
    options: JsonObject


def check_options(type: str, options: JsonObject) -> JsonObject:
    """The options of a field, as stored. Raises `InvalidRequest` naming what is wrong.

    `select` and `multi_select` want `choices`, a list of texts; `user` takes `multiple`.
    """
    if type not in FIELD_TYPES:
        raise InvalidRequest(
            f"{type!r} is no type of field here; use one of {', '.join(FIELD_TYPES)}", field="type"
        )
    allowed = {"select": {"choices"}, "multi_select": {"choices"}, "user": {"multiple"}}
    unknown = set(options) - allowed.get(type, set())
    if unknown:
        raise InvalidRequest(
            f"a {type} field has no option {sorted(unknown)[0]!r}; leave it out", field="options"
        )
    if type in ("select", "multi_select"):
        choices = items_of(options.get("choices"), "options.choices")
        return {
            "choices": [clean_line(one, "options.choices", chars=CHOICE_CHARS) for one in choices]
        }
    if type == "user":
        multiple = options.get("multiple", False)
        if not isinstance(multiple, bool):
            raise InvalidRequest("true or false", field="options.multiple")
        return {"multiple": multiple}
    return {}


def check_cells(
    fields: Mapping[str, FieldSpec], cells: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The cells as stored, None for one that is emptied.

    Raises `InvalidRequest` naming the field for a value of another type, and for a field that
    the table does not have. Links are not among `fields`: they are written apart.
    """
    stored: dict[str, JsonValue] = {}
    for field_id, value in cells.items():
        spec = fields.get(field_id)
        place = f"cells.{field_id}"
        if spec is None:
            raise InvalidRequest(
                f"the table has no such field to write; {among(field_id, fields)}", field=place
            )
        stored[field_id] = None if value in (None, []) else _CHECKS[spec.type](spec, value, place)
    return stored


def users_in(fields: Mapping[str, FieldSpec], stored: Mapping[str, JsonValue]) -> frozenset[str]:
    """The users that cells name: whoever writes them checks that they are members."""
    named: set[str] = set()
    for field_id, value in stored.items():
        if fields[field_id].type == "user":
            items: Iterable[JsonValue] = value if isinstance(value, list) else [value]
            named.update(item for item in items if isinstance(item, str))
    return frozenset(named)


# -- by type -----------------------------------------------------------------------------------


def _text(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    return clean_text(value, place)


def _number(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InvalidRequest("write a finite number", field=place)
    if abs(value) >= 1e100:
        raise InvalidRequest("write a number of at most 100 digits", field=place)
    return value


def _boolean(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    if not isinstance(value, bool):
        raise InvalidRequest("write true or false", field=place)
    return value


def _date(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    try:
        return date.fromisoformat(clean_text(value, place, chars=10)).isoformat()
    except ValueError as error:
        raise InvalidRequest("write a date as YYYY-MM-DD", field=place) from error


def _datetime(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    try:
        at = datetime.fromisoformat(clean_text(value, place, chars=40))
    except ValueError as error:
        raise InvalidRequest("write a time as YYYY-MM-DDTHH:MM:SS+00:00", field=place) from error
    if at.tzinfo is None:
        raise InvalidRequest("write a time with its zone, such as +00:00", field=place)
    return stored_time(at)


def stored_time(at: datetime) -> str:
    """One text for one point in time, whose order is that of time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _rating(_: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 100:
        raise InvalidRequest("write a whole number from 0 to 100", field=place)
    return value


def _select(spec: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    choices = spec.options.get("choices")
    if not isinstance(choices, list) or value not in choices:
        known = [str(choice) for choice in choices] if isinstance(choices, list) else []
        raise InvalidRequest(
            f"write one of the field's choices; {among(value, known)}", field=place
        )
    return value


def _multi_select(spec: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    chosen: list[JsonValue] = []
    for item in items_of(value, place):
        if (one := _select(spec, item, place)) not in chosen:
            chosen.append(one)
    return chosen


def _user(spec: FieldSpec, value: JsonValue, place: str) -> JsonValue:
    if spec.options.get("multiple") is True:
        return [*clean_ids(value, place)]
    return clean_id(value, place)


_CHECKS: dict[str, Callable[[FieldSpec, JsonValue, str], JsonValue]] = {
    **dict.fromkeys(("text", "long_text", "email", "url", "phone"), _text),
    "number": _number,
    "rating": _rating,
    "boolean": _boolean,
    "date": _date,
    "datetime": _datetime,
    "select": _select,
    "multi_select": _multi_select,
    "user": _user,
}

WRITTEN = frozenset(_CHECKS)
"""Types of fields whose cells are written as values."""
