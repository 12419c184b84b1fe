"""The filters of views: presentation, and so a language of its own beside row policies.

    filter    := {"every": [..]} | {"some": [..]} | condition | {"unavailable": reason}
    condition := {"field": f, "value": value, "test": test}
    test      := {"op": "equal" | .., "to": text or number} | {"op": "is", "to": true or false}
               | {"op": "empty" | "not_empty"} | {"op": "date_is" | .., "days": days}
    days      := {"tz": zone, "unit": day|week|month|year, "shift": n} | {"tz": zone, "exact": day}

What a filter cannot compute it says (`unavailable`), and its view has no count: it never passes
for true. The database stores a filter as `{"where": filter}`, which no policy parses.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import Annotated, Literal, assert_never

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from context_engine.errors import InvalidRequest
from context_engine.models.base import Id
from context_engine.models.input import Zone
from context_engine.policy import Node
from context_engine.view_values import Value, is_list, kind_of, missing

TextOp = Literal["equal", "not_equal"]
NumberOp = Literal["higher_than", "higher_than_or_equal", "lower_than", "lower_than_or_equal"]
DateOp = Literal[
    "date_is", "date_is_before", "date_is_on_or_before", "date_is_after", "date_is_on_or_after"
]

NEEDS = {
    "formula": "the filter needs a formula, whose values are not here",
    "file": "the filter needs what is in files",
    "field": "the filter names a field that cannot be computed",
}
UNKNOWN_OPERATOR = "the filter has an operator that is not known here"
UNREADABLE = "the filter has an operand that cannot be read"
TOO_MANY = "the filter has more conditions than are counted here"
NOT_COMPUTED = "the filter cannot be computed"

MAX_LEVELS = 64
"""Deepest nesting of a stored filter, in levels of its JSON."""


class Days(Node):
    """A span of days: one `exact` day, or the day, week, month or year `shift` from today's."""

    tz: Zone = "UTC"
    exact: date | None = None
    unit: Literal["day", "week", "month", "year"] = "day"
    shift: int = Field(0, ge=-100_000, le=100_000)


class Compare(Node):
    op: TextOp | NumberOp
    to: str | int | float


class Is(Node):
    op: Literal["is"]
    to: bool


class Emptiness(Node):
    op: Literal["empty", "not_empty"]


class InDays(Node):
    op: DateOp
    days: Days


Test = Compare | Is | Emptiness | InDays


class Condition(Node):
    """A test of one field's value. `field` is the view's own; `value` says how to come by it."""

    field: Id
    value: Value
    test: Annotated[Test, Field(union_mode="left_to_right")]


class Every(Node):
    every: tuple[Filter, ...]


class Some(Node):
    some: tuple[Filter, ...]


class Uncomputed(Node):
    """What stands for a condition that cannot be computed, and why."""

    unavailable: str


Filter = Every | Some | Condition | Uncomputed


class Envelope(Node):
    """A filter as views keep it."""

    where: Filter


for _model in (Every, Some, Envelope):
    _model.model_rebuild()
_envelope: TypeAdapter[Envelope] = TypeAdapter(Envelope)


def is_stored(raw: JsonValue) -> bool:
    """Whether a view's stored filter is one of these, and not a predicate."""
    return isinstance(raw, dict) and "where" in raw


def parse(raw: JsonValue) -> Filter:
    """The filter that `raw` spells. Raises `InvalidRequest` naming the place."""
    if _too_deep(raw):
        raise InvalidRequest(f"nested deeper than {MAX_LEVELS} levels; flatten it", field="filter")
    try:
        return _envelope.validate_python(raw).where
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in ("filter", *fault["loc"]))
        raise InvalidRequest(f"not a filter ({fault['msg']})", field=place) from error


def _too_deep(raw: JsonValue) -> bool:
    level: list[JsonValue] = [raw]
    for _ in range(MAX_LEVELS):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return False
    return True


def conditions(filter: Filter) -> Iterator[Condition]:
    """Every condition, in order."""
    match filter:
        case Every(every=parts) | Some(some=parts):
            for part in parts:
                yield from conditions(part)
        case Condition():
            yield filter
        case Uncomputed():
            return
        case _:
            assert_never(filter)


def unavailable(filter: Filter) -> str | None:
    """Why the filter cannot be computed, wherever in it the reason stands; None where it can."""
    match filter:
        case Every(every=parts) | Some(some=parts):
            return next((why for part in parts if (why := unavailable(part))), None)
        case Condition():
            return _untestable(filter)
        case Uncomputed(unavailable=reason):
            return reason
        case _:
            assert_never(filter)


def _untestable(condition: Condition) -> str | None:
    lacking = missing(condition.value)
    if lacking is not None:
        return NEEDS[lacking]
    kind, test = kind_of(condition.value), condition.test
    if isinstance(test, Emptiness):
        return None
    if kind == "id":
        return NEEDS["formula"]  # a name that a formula makes
    match test:
        case Compare(op="equal" | "not_equal", to=to):
            fits = kind == ("text" if isinstance(to, str) else "number")
        case Compare(to=to):
            fits = kind == "number" and not isinstance(to, str)
        case Is():
            fits = kind == "boolean"
        case InDays():
            fits = kind in ("date", "time")
        case _:
            assert_never(test)
    return None if fits and not is_list(condition.value) else UNKNOWN_OPERATOR
