"""Exported filters of a view as a filter here. What is not understood says so, and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from pydantic import JsonValue, ValidationError

from context_engine import view_filters as f
from context_engine import view_values as v
from context_engine.adapters.baserow.cells import decimal_of
from context_engine.adapters.baserow.fields import value_of
from context_engine.adapters.baserow.model import Field, Schema
from context_engine.adapters.baserow.source import AGAIN, At, distinct
from context_engine.errors import InvalidRequest
from context_engine.zones import zone_of

NUMBER_OPS: Mapping[str, f.NumberOp] = {
    "higher_than": "higher_than",
    "higher_than_or_equal": "higher_than_or_equal",
    "lower_than": "lower_than",
}
TEXT_OPS: Mapping[str, f.TextOp] = {
    "equal": "equal",
    "not_equal": "not_equal",
    "single_select_equal": "equal",
    "single_select_not_equal": "not_equal",
}
DATE_OPS: Mapping[str, f.DateOp] = {
    "date_is": "date_is",
    "date_is_before": "date_is_before",
    "date_is_on_or_before": "date_is_on_or_before",
    "date_is_after": "date_is_after",
    "date_is_on_or_after": "date_is_on_or_after",
}
TRUE = frozenset({"1", "true", "t", "yes", "y", "on", "o"})
FALSE = frozenset({"", "0", "false", "f", "no", "n", "off"})

_UNITS: Mapping[str, str] = {"days": "day", "weeks": "week", "months": "month", "years": "year"}
_FIXED: Mapping[str, tuple[str, int]] = {
    "today": ("day", 0), "yesterday": ("day", -1), "tomorrow": ("day", 1),
    "this_week": ("week", 0), "this_month": ("month", 0), "this_year": ("year", 0),
    "one_week_ago": ("week", -1), "one_month_ago": ("month", -1), "one_year_ago": ("year", -1),
    "next_week": ("week", 1), "next_month": ("month", 1), "next_year": ("year", 1),
}  # fmt: skip

Inner = Mapping[int | None, list[tuple[int, At]]]
"""Groups, each with its id, by the group that they are in."""

MOST_CONDITIONS = 1_000
"""Most conditions of a view's filter that is counted."""
MOST_LEVELS = f.MAX_LEVELS // 2
"""Deepest nesting of groups: each takes two levels of the filter's JSON."""


class _Unreadable(Exception):
    """An operand that says nothing."""


def map_filter(view: At, table: int, schema: Schema) -> JsonValue:
    """The view's filter as stored, None for a view without one. Raises `BrokenFile`."""
    filters = list(view.objects("filters", default=True))
    if not filters or view.flag("filters_disabled"):
        return None
    if len(filters) > MOST_CONDITIONS:
        return _uncomputed(f.TOO_MANY)
    groups = _groups(view)
    children: dict[int | None, list[f.Filter]] = {}
    for at in filters:
        group = at.optional_number("group")
        _known_group(at, "group", group, groups)
        children.setdefault(group, []).append(_condition(at, table, schema))
    inner, levels = _nesting(groups)
    if levels > MOST_LEVELS:
        return _uncomputed(f.NOT_COMPUTED)
    whole = _joined(view, None, inner, children)
    try:
        raw = f.Envelope(where=whole).model_dump(mode="json", exclude_defaults=True)
        f.parse(raw)
    except InvalidRequest:
        return _uncomputed(f.NOT_COMPUTED)
    return raw


def _uncomputed(reason: str) -> JsonValue:
    return f.Envelope(where=f.Uncomputed(unavailable=reason)).model_dump(mode="json")


def _groups(view: At) -> dict[int, At]:
    seen: set[int] = set()
    found = view.objects("filter_groups", default=True)
    return {distinct(seen, at, "filter group"): at for at in found}


def _known_group(at: At, name: str, id: int | None, groups: Mapping[int, At]) -> None:
    if id is not None and id not in groups:
        raise at.broken(name, f"there is no filter group {id}; {AGAIN}")


def _nesting(groups: Mapping[int, At]) -> tuple[Inner, int]:
    """The groups by the one that they are in, and how many levels there are of them. Raises
    `BrokenFile` for groups in a circle, which no way from the view leads to."""
    inner: dict[int | None, list[tuple[int, At]]] = {}
    for id, group in groups.items():
        parent = group.optional_number("parent_group")
        _known_group(group, "parent_group", parent, groups)
        inner.setdefault(parent, []).append((id, group))
    reached: set[int] = set()
    levels, level = 0, inner.get(None, [])
    while level:
        reached.update(id for id, _ in level)
        levels, level = levels + 1, [one for id, _ in level for one in inner.get(id, [])]
    for id, group in groups.items():
        if id not in reached:
            raise group.broken("parent_group", f"the groups form a circle; {AGAIN}")
    return inner, levels


def _joined(
    at: At, id: int | None, inner: Inner, children: Mapping[int | None, list[f.Filter]]
) -> f.Filter:
    """A group with all that is in it; an empty one says nothing and is left out."""
    parts = list(children.get(id, []))
    for one, group in inner.get(id, []):
        made = _joined(group, one, inner, children)
        if made not in (f.Every(every=()), f.Some(some=())):
            parts.append(made)
    match at.text("filter_type", default="AND"):
        case "AND":
            return f.Every(every=tuple(parts))
        case "OR":
            return f.Some(some=tuple(parts))
        case other:
            raise at.broken("filter_type", f"{other!r} is neither AND nor OR; {AGAIN}")


def _condition(at: At, table: int, schema: Schema) -> f.Filter:
    field = schema.fields.get(at.number("field_id"))
    if field is None or field.table != table:
        raise at.broken("field_id", f"the table has no field {at.number('field_id')}; {AGAIN}")
    op, operand = at.text("type"), at.text("value", default="").strip()
    value = value_of(field, schema)
    try:
        tests = _tests(op, operand, value, field)
        if tests is None:
            return f.Uncomputed(unavailable=f.UNKNOWN_OPERATOR)
        made = [f.Condition(field=schema.field(field.id), value=value, test=test) for test in tests]
    except (_Unreadable, ValidationError):
        return f.Uncomputed(unavailable=f.UNREADABLE)
    whole = made[0] if len(made) == 1 else f.Every(every=tuple(made))
    reason = f.unavailable(whole)
    return f.Uncomputed(unavailable=reason) if reason else whole


def _tests(op: str, operand: str, value: v.Value, field: Field) -> list[f.Test] | None:
    """The tests that the operator stands for, all of which must hold; None for one unknown."""
    match op:
        case "empty":
            return [f.Emptiness(op="empty")]
        case "not_empty":
            return [f.Emptiness(op="not_empty")]
        case "boolean":
            if operand.lower() not in TRUE | FALSE:
                raise _Unreadable
            return [f.Is(op="is", to=operand.lower() in TRUE)]
        case "date_after_today":
            tz = _zone(operand.partition("?")[0])
            return [f.InDays(op="date_is_after", days=f.Days(tz=tz))]
        case "date_within_days":
            return _within(operand)
        case _ if op in DATE_OPS:
            return [f.InDays(op=DATE_OPS[op], days=_days(operand))]
        case _ if op in NUMBER_OPS:
            return [f.Compare(op=NUMBER_OPS[op], to=_number(operand))]
        case _ if op in TEXT_OPS:
            return [f.Compare(op=TEXT_OPS[op], to=_operand(op, operand, value, field))]
        case _:
            return None


def _operand(op: str, operand: str, value: v.Value, field: Field) -> str | int | float:
    if op.startswith("single_select"):
        try:
            return field.choices[int(operand)]
        except (ValueError, KeyError):
            raise _Unreadable from None
    if not operand:
        raise _Unreadable
    return _number(operand) if v.kind_of(value) == "number" else operand


def _number(operand: str) -> int | float:
    number = decimal_of(operand)
    if number is None:
        raise _Unreadable
    return int(number) if number == number.to_integral_value() else float(number)


# -- days --------------------------------------------------------------------------------------


def _days(operand: str) -> f.Days:
    """`zone?amount?days`, the amount for `nr_days_ago` and its like only."""
    parts = operand.split("?")
    if len(parts) != 3:
        raise _Unreadable
    tz, amount, name = _zone(parts[0]), parts[1], parts[2]
    if name in _FIXED:
        unit, shift = _FIXED[name]
        return f.Days.model_validate({"tz": tz, "unit": unit, "shift": shift})
    if name == "exact_date":
        try:
            exact = date.fromisoformat(amount[:10])
        except ValueError:
            raise _Unreadable from None
        if exact == date.max:
            raise _Unreadable  # no day comes after it
        return f.Days(tz=tz, exact=exact)
    prefix, _, rest = name.partition("_")
    units, _, way = rest.partition("_")
    if prefix != "nr" or units not in _UNITS or way not in ("ago", "from_now"):
        raise _Unreadable
    shift = _amount(amount) * (-1 if way == "ago" else 1)
    return f.Days.model_validate({"tz": tz, "unit": _UNITS[units], "shift": shift})


def _within(operand: str) -> list[f.Test]:
    """From today to so many days on, or back; both ends included."""
    zone, separator, amount = operand.partition("?")
    if not separator:
        raise _Unreadable
    tz, shift = _zone(zone), _amount(amount)
    first, last = sorted((0, shift))
    return [
        f.InDays(op="date_is_on_or_after", days=f.Days(tz=tz, shift=first)),
        f.InDays(op="date_is_on_or_before", days=f.Days(tz=tz, shift=last)),
    ]


def _amount(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _Unreadable from None


def _zone(name: str) -> str:
    if (zone := zone_of(name or "UTC")) is None:
        raise _Unreadable
    return zone.key
