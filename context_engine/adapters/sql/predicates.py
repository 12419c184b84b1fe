"""The one compiler of resolved predicates to SQL over `records`, for counting and listing alike.

What a predicate means, so that SQL and a plain interpreter agree:

- Text compares by code point, without case folding; numbers as numeric. A value of another JSON
  type equals, precedes and contains nothing. A missing field is as null.
- `ne`, `not_in`, `has_none` and `not_empty` are the exact complements of `eq`, `in`, `has_any`
  and `empty`: a row whose field is missing passes them.
- An operand that is null came from something unresolved: every comparison with it is false, the
  complements too. Nulls in a list are left out. One value stands for a list of one.
- An empty list: `in` and `has_any` hold for no row, `not_in` and `has_none` for every row.
  `has_all` of nothing holds for no row: who is in no team must not see all.
- `has_*` look for text, numbers and booleans in a cell that is a list; a cell that is one value
  alone has nothing.
- `empty` is missing, null, "" or [].
- `sys:created_at` is its date in UTC as ISO text.

Every value is a bind parameter, and no condition is ever NULL. Equality and membership compile to
`@>`, which the index on `cells` serves: one level down, a scalar contains only itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, assert_never

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    Numeric,
    Text,
    and_,
    any_,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from context_engine import policy
from context_engine.adapters.sql import tables as t

_CELLS = t.records.c.cells
_Condition = ColumnElement[bool]


def compile_predicate(pred: policy.Pred) -> _Condition:
    """`pred`, whose operands are literals, as a condition on `records` that is never NULL.

    Raises `policy.Unresolvable` for what cannot be computed here; access has refused it before.
    """
    match pred:
        case bool():
            return true() if pred else false()
        case policy.All(all=parts):
            return and_(true(), *map(compile_predicate, parts))
        case policy.Any_(any=parts):
            return or_(false(), *map(compile_predicate, parts))
        case policy.Not(not_=inner):
            return not_(compile_predicate(inner))
        case policy.Cmp(cmp=comparison):
            return _comparison(comparison)
        case policy.LinkedAny():
            raise policy.Unresolvable("linked_any")
        case _:
            assert_never(pred)


def _comparison(comparison: policy.Comparison) -> _Condition:
    if not isinstance(comparison.operand, policy.Literal_):
        raise policy.Unresolvable("operand")
    cell, wanted = _value_of(comparison.ref), comparison.operand.literal
    if comparison.op == "empty":
        return cell.empty()
    if comparison.op == "not_empty":
        return not_(cell.empty())
    if wanted is None:
        return false()
    match comparison.op:
        case "eq":
            return cell.equals_any([wanted])
        case "ne":
            return not_(cell.equals_any([wanted]))
        case "in":
            return cell.equals_any(_listed(wanted))
        case "not_in":
            return not_(cell.equals_any(_listed(wanted)))
        case "has_any":
            return cell.has_any(_listed(wanted))
        case "has_none":
            return not_(cell.has_any(_listed(wanted)))
        case "has_all":
            return cell.has_all(_listed(wanted))
        case "text_contains":
            return _contains(cell.text(), wanted)
        case "lt" | "lte" | "gt" | "gte":
            return _ordered(cell, comparison.op, wanted)
        case _:
            assert_never(comparison.op)


def _listed(wanted: JsonValue) -> list[JsonValue]:
    listed = wanted if isinstance(wanted, list) else [wanted]
    return [value for value in listed if value is not None]


def _scalar(value: JsonValue) -> bool:
    return isinstance(value, str | bool | int | float)


# -- what is compared --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cell:
    """A field's cell: any JSON value, or none."""

    field_id: str

    @property
    def _json(self) -> ColumnElement[Any]:
        return _CELLS[self.field_id]

    def equals_any(self, values: list[JsonValue]) -> _Condition:
        scalars: list[JsonValue] = [{self.field_id: value} for value in values if _scalar(value)]
        whole = (_true(self._json == _json(value)) for value in values if not _scalar(value))
        return or_(_cells_hold_any(scalars), *whole)

    def has_any(self, values: list[JsonValue]) -> _Condition:
        return _cells_hold_any([{self.field_id: [value]} for value in values if _scalar(value)])

    def has_all(self, values: list[JsonValue]) -> _Condition:
        if not values or not all(map(_scalar, values)):
            return false()
        return _CELLS.contains({self.field_id: values})

    def empty(self) -> _Condition:
        blank: tuple[JsonValue, ...] = (None, "", [])
        return or_(self._json.is_(None), *(_true(self._json == _json(one)) for one in blank))

    def text(self) -> ColumnElement[str]:
        """The text; NULL for a value of another type."""
        return case((self._is("string"), _CELLS[self.field_id].astext))

    def number(self) -> ColumnElement[Any]:
        """The number; NULL for a value of another type, which is never cast."""
        return case((self._is("number"), cast(self._json, Numeric)))

    def _is(self, kind: str) -> _Condition:
        return func.jsonb_typeof(self._json) == kind


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the record that holds text, or NULL."""

    value: ColumnElement[Any]

    def equals_any(self, values: list[JsonValue]) -> _Condition:
        texts = [value for value in values if isinstance(value, str)]
        return _true(self.value == any_(literal(texts, ARRAY(Text)))) if texts else false()

    def has_any(self, _: list[JsonValue]) -> _Condition:
        return false()

    def has_all(self, _: list[JsonValue]) -> _Condition:
        return false()

    def empty(self) -> _Condition:
        return or_(self.value.is_(None), _true(self.value == ""))

    def text(self) -> ColumnElement[str]:
        return self.value

    def number(self) -> None:
        """Text is no number."""


def _value_of(ref: str) -> _Cell | _Column:
    match ref:
        case "sys:created_by":
            return _Column(t.records.c.created_by)
        case "sys:updated_by":
            return _Column(t.records.c.updated_by)
        case "sys:created_at":
            in_utc = func.timezone("UTC", t.records.c.created_at)
            return _Column(func.to_char(in_utc, "YYYY-MM-DD"))
        case _ if ref.startswith("field:"):
            return _Cell(ref.removeprefix("field:"))
        case _:
            raise policy.Unresolvable(ref)


# -- how ---------------------------------------------------------------------------------------


def _true(condition: ColumnElement[Any]) -> _Condition:
    """NULL is false: else NOT would drop rows whose value is missing."""
    return func.coalesce(condition, false())


def _json(value: JsonValue) -> ColumnElement[Any]:
    return cast(literal(json.dumps(value), Text), JSONB)


def _cells_hold_any(parts: list[JsonValue]) -> _Condition:
    """Whether the cells contain one of `parts`; one statement, however many there are."""
    if not parts:
        return false()
    return _CELLS.op("@>", is_comparison=True)(any_(literal(parts, ARRAY(JSONB))))


def _contains(text: ColumnElement[str], wanted: JsonValue) -> _Condition:
    if not isinstance(wanted, str):
        return false()
    return _true(func.strpos(text.collate("C"), literal(wanted, Text)) > 0)


def _ordered(cell: _Cell | _Column, op: str, wanted: JsonValue) -> _Condition:
    if isinstance(wanted, str):
        return _true(_compare(op, cell.text().collate("C"), literal(wanted, Text)))
    number = cell.number()
    if number is None or isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return false()
    return _true(_compare(op, number, cast(literal(str(wanted), Text), Numeric)))


def _compare(op: str, left: ColumnElement[Any], right: ColumnElement[Any]) -> _Condition:
    compared = {"lt": left < right, "lte": left <= right, "gt": left > right, "gte": left >= right}
    return compared[op]
