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
`@>`, which the index on `cells` serves: one level down, a scalar contains only itself. It is made
as text, since a build makes one for every table and expression trees cost more than the counting.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import assert_never

from pydantic import JsonValue
from sqlalchemy import BindParameter, ColumnElement, and_, bindparam, text, true

from context_engine import policy


@dataclass(slots=True)
class Binds:
    """The bind parameters of one statement; each method adds one and returns its placeholder.

    `named`: as SQLAlchemy's `text` wants them, `:b1`; else as the server does, `$1`.
    """

    named: bool = False
    values: list[object] = field(default_factory=list)

    def text(self, value: str) -> str:
        return self._add(value, "text")

    def texts(self, values: list[str]) -> str:
        return self._add(values, "text[]")

    def number(self, value: float) -> str:
        return self._add(Decimal(str(value)), "numeric")

    def json(self, value: JsonValue) -> str:
        return self._add(json.dumps(value), "jsonb")

    def jsons(self, values: list[JsonValue]) -> str:
        return self._add([json.dumps(value) for value in values], "jsonb[]")

    def _add(self, value: object, type: str) -> str:
        self.values.append(value)
        place = f":b{len(self.values)}" if self.named else f"${len(self.values)}"
        return f"CAST({place} AS {type})"


def compile_predicate(pred: policy.Pred) -> ColumnElement[bool]:
    """`pred` as a condition of an SQLAlchemy statement over `records`; see `predicate_sql`."""
    return as_condition(lambda binds: predicate_sql(pred, binds))


def as_condition(sql: Callable[[Binds], str]) -> ColumnElement[bool]:
    """SQL with its own bind parameters as a part of an SQLAlchemy statement."""
    binds = Binds(named=True)
    condition = text(f"({sql(binds)})")
    named: list[BindParameter[object]] = [
        bindparam(f"b{n}", value, unique=True) for n, value in enumerate(binds.values, 1)
    ]
    return and_(true(), condition.bindparams(*named))


def predicate_sql(pred: policy.Pred, binds: Binds) -> str:
    """`pred`, whose operands are literals, as a condition on `records` that is never NULL.

    Raises `policy.Unresolvable` for what cannot be computed here; access has refused it before.
    """
    match pred:
        case bool():
            return "true" if pred else "false"
        case policy.All(all=parts):
            return _joined(" AND ", "true", [predicate_sql(part, binds) for part in parts])
        case policy.Any_(any=parts):
            return _joined(" OR ", "false", [predicate_sql(part, binds) for part in parts])
        case policy.Not(not_=inner):
            return _not(predicate_sql(inner, binds))
        case policy.Cmp(cmp=comparison):
            return _comparison(comparison, binds)
        case policy.LinkedAny():
            raise policy.Unresolvable("linked_any")
        case _:
            assert_never(pred)


def _comparison(comparison: policy.Comparison, binds: Binds) -> str:
    if not isinstance(comparison.operand, policy.Literal_):
        raise policy.Unresolvable("operand")
    cell, wanted = _value_of(comparison.ref, binds), comparison.operand.literal
    if comparison.op == "empty":
        return cell.empty()
    if comparison.op == "not_empty":
        return _not(cell.empty())
    if wanted is None:
        return "false"
    match comparison.op:
        case "eq":
            return cell.equals_any([wanted])
        case "ne":
            return _not(cell.equals_any([wanted]))
        case "in":
            return cell.equals_any(_listed(wanted))
        case "not_in":
            return _not(cell.equals_any(_listed(wanted)))
        case "has_any":
            return cell.has_any(_listed(wanted))
        case "has_none":
            return _not(cell.has_any(_listed(wanted)))
        case "has_all":
            return cell.has_all(_listed(wanted))
        case "text_contains":
            return _contains(cell, wanted)
        case "lt" | "lte" | "gt" | "gte":
            return _ordered(cell, _SIGNS[comparison.op], wanted)
        case _:
            assert_never(comparison.op)


_SIGNS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


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
    binds: Binds

    def equals_any(self, values: list[JsonValue]) -> str:
        scalars: list[JsonValue] = [{self.field_id: value} for value in values if _scalar(value)]
        parts = [self._cells_hold_any(scalars)] if scalars else []
        whole = [value for value in values if not _scalar(value)]
        if whole:
            parts.append(_true(f"{self._json()} = ANY({self.binds.jsons(whole)})"))
        return _joined(" OR ", "false", parts)

    def has_any(self, values: list[JsonValue]) -> str:
        items: list[JsonValue] = [{self.field_id: [value]} for value in values if _scalar(value)]
        return self._cells_hold_any(items) if items else "false"

    def has_all(self, values: list[JsonValue]) -> str:
        if not values or not all(map(_scalar, values)):
            return "false"
        return f"records.cells @> {self.binds.json({self.field_id: values})}"

    def empty(self) -> str:
        blank = self.binds.jsons([None, "", []])
        return f"coalesce({self._json()} = ANY({blank}), true)"

    def text(self) -> str:
        """The text; NULL for a value of another type."""
        return f"CASE WHEN {self._is('string')} THEN records.cells ->> {self._id()} END"

    def number(self) -> str:
        """The number; NULL for a value of another type, which is never cast."""
        return f"CASE WHEN {self._is('number')} THEN ({self._json()})::numeric END"

    def _cells_hold_any(self, parts: list[JsonValue]) -> str:
        """Whether the cells contain one of `parts`; the same text, however many there are."""
        return f"records.cells @> ANY({self.binds.jsons(parts)})"

    def _is(self, kind: str) -> str:
        return f"jsonb_typeof({self._json()}) = '{kind}'"

    def _json(self) -> str:
        return f"records.cells -> {self._id()}"

    def _id(self) -> str:
        return self.binds.text(self.field_id)


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the record that holds text, or NULL."""

    sql: str
    binds: Binds

    def equals_any(self, values: list[JsonValue]) -> str:
        texts = [value for value in values if isinstance(value, str)]
        if not texts:
            return "false"
        # Not by `coalesce`: an index serves this.
        return f"({self.sql} IS NOT NULL AND {self.sql} = ANY({self.binds.texts(texts)}))"

    def has_any(self, _: list[JsonValue]) -> str:
        return "false"

    def has_all(self, _: list[JsonValue]) -> str:
        return "false"

    def empty(self) -> str:
        return f"coalesce({self.sql} = '', true)"

    def text(self) -> str:
        return self.sql

    def number(self) -> str:
        """Text is no number."""
        return "NULL::numeric"


_COLUMNS = {
    "sys:created_by": "records.created_by",
    "sys:updated_by": "records.updated_by",
    "sys:created_at": "to_char(records.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')",
}


def _value_of(ref: str, binds: Binds) -> _Cell | _Column:
    if ref in _COLUMNS:
        return _Column(_COLUMNS[ref], binds)
    if ref.startswith("field:"):
        return _Cell(ref.removeprefix("field:"), binds)
    raise policy.Unresolvable(ref)


# -- how ---------------------------------------------------------------------------------------


def _joined(by: str, of_none: str, conditions: list[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    return f"({by.join(conditions)})" if conditions else of_none


def _not(condition: str) -> str:
    return f"(NOT {condition})"


def _true(condition: str) -> str:
    """NULL is false: else NOT would drop rows whose value is missing."""
    return f"coalesce({condition}, false)"


def _contains(cell: _Cell | _Column, wanted: JsonValue) -> str:
    if not isinstance(wanted, str):
        return "false"
    return _true(f'strpos(({cell.text()}) COLLATE "C", {cell.binds.text(wanted)}) > 0')


def _ordered(cell: _Cell | _Column, sign: str, wanted: JsonValue) -> str:
    if isinstance(wanted, str):
        return _true(f'({cell.text()}) COLLATE "C" {sign} {cell.binds.text(wanted)}')
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return "false"
    return _true(f"{cell.number()} {sign} {cell.binds.number(wanted)}")
