"""The one compiler of resolved predicates to SQL over records, for counting and listing alike.

Semantics, so that SQL and a plain interpreter agree: text by code point and without case folding,
numbers as numeric, a value of another JSON type makes a comparison false, missing is as null.
Every value is a bind parameter.
"""

from __future__ import annotations

import json
from typing import Any, assert_never

from pydantic import JsonValue
from sqlalchemy import (
    ColumnElement,
    Numeric,
    Text,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB

from context_engine import policy
from context_engine.adapters.sql import tables as t

_RECORDS = t.records.c
_SYSTEM = {"sys:created_by": _RECORDS.created_by, "sys:updated_by": _RECORDS.updated_by}


def compile_predicate(pred: policy.Pred) -> ColumnElement[bool]:
    """`pred`, whose operands are literals, over `records`.

    Raises `policy.Unresolvable` for what this version cannot compute; access denies before.
    """
    match pred:
        case bool():
            return true() if pred else false()
        case policy.All(all=parts):
            return and_(true(), *map(compile_predicate, parts))
        case policy.Any_(any=parts):
            return or_(false(), *map(compile_predicate, parts))
        case policy.Not(not_=inner):
            return not_(_sure(compile_predicate(inner)))
        case policy.Cmp(cmp=comparison):
            return _comparison(comparison)
        case policy.LinkedAny():
            raise policy.Unresolvable("linked_any")
        case _:
            assert_never(pred)


def _sure(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """NULL is false: else NOT would drop rows whose value is missing."""
    return func.coalesce(condition, false())


def _comparison(comparison: policy.Comparison) -> ColumnElement[bool]:
    if not isinstance(comparison.operand, policy.Literal_):
        raise policy.Unresolvable("operand")
    cell, wanted = _cell(comparison.ref), comparison.operand.literal
    match comparison.op:
        case "eq":
            return _sure(_equals(cell, wanted))
        case "ne":
            return not_(_sure(_equals(cell, wanted)))
        case "in":
            return _in(cell, wanted)
        case "not_in":
            return not_(_in(cell, wanted))
        case "has_any":
            return _has_any(cell, wanted)
        case "has_none":
            return not_(_has_any(cell, wanted))
        case "has_all":
            return _has_all(cell, wanted)
        case "empty":
            return _empty(cell)
        case "not_empty":
            return not_(_empty(cell))
        case "text_contains":
            return _contains(cell, wanted)
        case "lt" | "lte" | "gt" | "gte":
            return _ordered(cell, comparison.op, wanted)
        case _:
            assert_never(comparison.op)


def _cell(ref: str) -> ColumnElement[Any]:
    """The value as JSONB; NULL where it is missing."""
    if ref in _SYSTEM:
        return func.to_jsonb(_SYSTEM[ref])
    if ref.startswith("sys:"):
        raise policy.Unresolvable(ref)
    return _RECORDS.cells[ref.removeprefix("field:")]


def _json(value: JsonValue) -> ColumnElement[Any]:
    return cast(literal(json.dumps(value, ensure_ascii=False), Text), JSONB)


def _equals(cell: ColumnElement[Any], wanted: JsonValue) -> ColumnElement[bool]:
    """JSONB's own equality: type and value. Nothing equals null."""
    return false() if wanted is None else cell == _json(wanted)


def _values(wanted: JsonValue) -> list[JsonValue]:
    """The operand as a list, without nulls."""
    listed = wanted if isinstance(wanted, list) else [wanted]
    return [value for value in listed if value is not None]


def _in(cell: ColumnElement[Any], wanted: JsonValue) -> ColumnElement[bool]:
    return _sure(or_(false(), *(cell == _json(value) for value in _values(wanted))))


def _has_any(cell: ColumnElement[Any], wanted: JsonValue) -> ColumnElement[bool]:
    contained = (cell.op("@>")(_json([value])) for value in _values(wanted))
    return _of_type(cell, "array", or_(false(), *contained))


def _has_all(cell: ColumnElement[Any], wanted: JsonValue) -> ColumnElement[bool]:
    return _of_type(cell, "array", cell.op("@>")(_json(_values(wanted))))


def _empty(cell: ColumnElement[Any]) -> ColumnElement[bool]:
    blank = (_json(None), _json(""), _json([]))
    return or_(cell.is_(None), *(_sure(cell == value) for value in blank))


def _contains(cell: ColumnElement[Any], wanted: JsonValue) -> ColumnElement[bool]:
    if not isinstance(wanted, str):
        return false()
    return _of_type(cell, "string", func.strpos(_text(cell), wanted) > 0)


def _ordered(cell: ColumnElement[Any], op: str, wanted: JsonValue) -> ColumnElement[bool]:
    if isinstance(wanted, bool) or not isinstance(wanted, int | float | str):
        return false()
    if isinstance(wanted, str):
        left, right = _text(cell).collate("C"), cast(literal(wanted, Text), Text).collate("C")
        return _of_type(cell, "string", _compare(op, left, right))
    number = cast(literal(str(wanted), Text), Numeric)
    return _of_type(cell, "number", _compare(op, cast(_text(cell), Numeric), number))


def _compare(op: str, left: ColumnElement[Any], right: ColumnElement[Any]) -> ColumnElement[bool]:
    compared = {"lt": left < right, "lte": left <= right, "gt": left > right, "gte": left >= right}
    return compared[op]


def _text(cell: ColumnElement[Any]) -> ColumnElement[str]:
    """The text of a JSON string or number."""
    return cast(cell.op("#>>")(literal("{}", Text).op("::")(Text)), Text)


def _of_type(
    cell: ColumnElement[Any], kind: str, condition: ColumnElement[bool]
) -> ColumnElement[bool]:
    """`condition`, evaluated only where the cell has the JSON type; false elsewhere."""
    return case((func.jsonb_typeof(cell) == kind, condition), else_=false())
