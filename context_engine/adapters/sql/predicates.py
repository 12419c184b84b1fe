"""The one compiler of resolved predicates to SQL over `records`, for counting and listing alike.

What a predicate means, so that SQL and a plain interpreter agree:

- Text compares by code point, without case folding, but beside the user's address as addresses
  are (`emails.normal`), the texts of a list too; numbers as numeric. A value of another JSON
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
- `sys:created_at` is its date in UTC as ISO text, but beside a day.
- A day, which `now` became, or a literal beside a time: a date in a cell compares as its text, a
  time, which `sys:created_at` is then, by the local date on which it falls in the day's zone.
  Anything else is false, but `ne` is the complement of `eq` here too.
- `linkedAny` holds where the link field leads to one live row, in the table that the field says,
  that passes: no policy of that table is asked, unless it is told which rows are `Seen`. Under it,
  references are to the linked row.

Every value is a bind parameter, and no condition is ever NULL. Equality and membership compile to
`@>`, which the index on `cells` serves: one level down, a scalar contains only itself. It is made
as text, since a build makes one for every table and expression trees cost more than the counting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, assert_never

from pydantic import JsonValue
from sqlalchemy import ColumnElement

from context_engine import policy
from context_engine.adapters.sql.binds import Binds, as_condition
from context_engine.adapters.sql.cells import (
    SIGNS,
    AsAddress,
    Cell,
    Column,
    joined,
    true_only,
    value_of,
)

Value = Cell | Column | AsAddress

__all__ = ["Binds", "Seen", "as_condition", "compile_predicate", "predicate_sql"]


class Seen(Protocol):
    """Which rows of a table count where a link leads to them, as a condition on `records`."""

    def __call__(self, table_id: str, *, indexed: bool) -> str: ...


def every(table_id: str, *, indexed: bool) -> str:  # noqa: ARG001 - as `Seen` asks
    """Rules look at all rows that are there, whoever sees them."""
    return "true"


def compile_predicate(pred: policy.Pred) -> ColumnElement[bool]:
    """`pred` as a condition of an SQLAlchemy statement over `records`; see `predicate_sql`."""
    return as_condition(lambda binds: predicate_sql(pred, binds))


def predicate_sql(
    pred: policy.Pred, binds: Binds, *, indexed: bool = True, seen: Seen = every
) -> str:
    """`pred`, whose operands are literals or days, as a condition on `records` that is never NULL.

    `indexed`: whether an index may answer it where it stands, as `answered` tells of an OR.
    `seen`: the linked rows that count. Raises `policy.Unresolvable` for what cannot be computed
    here; access has refused it before.
    """
    match pred:
        case bool():
            return "true" if pred else "false"
        case policy.All(all=parts):
            return joined(" AND ", "true", _each(parts, binds, indexed=indexed, seen=seen))
        case policy.Any_(any=parts):
            indexed = indexed and all(map(answered, parts))
            return joined(" OR ", "false", _each(parts, binds, indexed=indexed, seen=seen))
        case policy.Not(not_=inner):
            return _not(predicate_sql(inner, binds, indexed=False, seen=seen))
        case policy.Cmp(cmp=comparison):
            return _comparison(comparison, binds, indexed=indexed)
        case policy.LinkedAny(linked_any=linked):
            return _linked(linked, binds, indexed=indexed, seen=seen)
        case _:
            assert_never(pred)


def _each(parts: Iterable[policy.Pred], binds: Binds, *, indexed: bool, seen: Seen) -> list[str]:
    return [predicate_sql(one, binds, indexed=indexed, seen=seen) for one in cheapest_first(parts)]


def answered(pred: policy.Pred) -> bool:
    """Whether an index finds the rows for which `pred` holds. It finds those of an OR only where
    it does for every part, and those of an AND where it does for one."""
    match pred:
        case policy.Cmp(cmp=comparison):
            return comparison.op in _INDEXED and isinstance(comparison.operand, policy.Literal_)
        case policy.All(all=parts):
            return any(map(answered, parts))
        case policy.Any_(any=parts):
            return all(map(answered, parts))
        case bool() | policy.Not() | policy.LinkedAny():
            return False
        case _:
            assert_never(pred)


_INDEXED = frozenset({"eq", "in", "has_any", "has_all"})


def cheapest_first(preds: Iterable[policy.Pred]) -> list[policy.Pred]:
    """The server asks the parts of an AND or OR in the order in which they are written, and no
    further than it must. None of them fails, so that they may come in any."""
    return sorted(preds, key=_cost)


def _cost(pred: policy.Pred) -> int:
    match pred:
        case bool():
            return 0
        case policy.Cmp(cmp=comparison):
            if isinstance(comparison.operand, policy.OnDay):
                return 3
            return 2 if comparison.ref.startswith("field:") else 1
        case policy.All(all=parts) | policy.Any_(any=parts):
            return sum(map(_cost, parts))
        case policy.Not(not_=inner):
            return _cost(inner)
        case policy.LinkedAny():
            return 10  # looks into other rows
        case _:
            assert_never(pred)


def _linked(linked: policy.Linked, binds: Binds, *, indexed: bool, seen: Seen) -> str:
    """Inside, `records` is the linked row.

    Nothing in there asks for the one at hand, so that the server may start from the linked rows
    that pass, or look through them once: unless it is to ask row by row.
    """
    field = binds.text(linked.field)
    by_row = binds.by_row and not indexed
    if isinstance(linked, policy.LinkedIn):
        table, in_sight = binds.text(linked.table), seen(linked.table, indexed=not by_row)
    else:
        in_sight = "true" if seen is every else "false"  # of no table is anything known
        table = (
            "(SELECT tables.id FROM fields JOIN tables ON tables.id = fields.linked_table_id"  # noqa: S608 - bound
            f" AND NOT tables.trashed WHERE fields.id = {field})"
        )
    inner = predicate_sql(linked.pred, binds, indexed=not by_row)
    passes = f"records.table_id = {table} AND records.deleted_at IS NULL AND {inner}"
    if in_sight != "true":
        passes = f"{passes} AND {in_sight}"
    if by_row:
        return (
            f"EXISTS (SELECT FROM links WHERE links.field_id = {field}"  # noqa: S608 - bound
            f" AND links.from_record_id = records.id AND (SELECT {passes}"
            " FROM records WHERE records.id = links.to_record_id) OFFSET 0)"
        )
    return (
        "(records.id IN (SELECT links.from_record_id FROM links"  # noqa: S608 - bound
        f" JOIN records ON records.id = links.to_record_id AND {passes}"
        f" WHERE links.field_id = {field}))"
    )


def _comparison(comparison: policy.Comparison, binds: Binds, *, indexed: bool) -> str:
    op = comparison.op
    cell = value_of(comparison.ref, binds, indexed=indexed)
    if op == "empty":
        return cell.empty()
    if op == "not_empty":
        return _not(cell.empty())
    match comparison.operand:
        case policy.Literal_(literal=wanted):
            return "false" if wanted is None else _with_literal(cell, op, wanted)
        case policy.Address(address=address):
            return _with_literal(AsAddress(cell), op, address)
        case policy.OnDay() as day:
            return _with_day(cell, op, day)
        case _:
            raise policy.Unresolvable("operand")


def _with_literal(cell: Value, op: policy.Op, wanted: JsonValue) -> str:
    match op:
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
            return _ordered(cell, SIGNS[op], wanted)
        case "empty" | "not_empty":
            raise AssertionError(op)  # compares with nothing
        case _:
            assert_never(op)


def _with_day(cell: Cell | Column, op: policy.Op, day: policy.OnDay) -> str:
    match op:
        case "ne":
            return _not(cell.on_day("eq", day))
        case "eq" | "lt" | "lte" | "gt" | "gte":
            return cell.on_day(op, day)
        case _:
            raise policy.Unresolvable(f"{op} with a day")


def _listed(wanted: JsonValue) -> list[JsonValue]:
    listed = wanted if isinstance(wanted, list) else [wanted]
    return [value for value in listed if value is not None]


def _not(condition: str) -> str:
    return f"(NOT {condition})"


def _contains(cell: Value, wanted: JsonValue) -> str:
    if not isinstance(wanted, str):
        return "false"
    return true_only(f'strpos(({cell.text()}) COLLATE "C", {cell.binds.text(wanted)}) > 0')


def _ordered(cell: Value, sign: str, wanted: JsonValue) -> str:
    if isinstance(wanted, str):
        return true_only(f'({cell.text()}) COLLATE "C" {sign} {cell.binds.text(wanted)}')
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        return "false"
    return true_only(f"{cell.number()} {sign} {cell.binds.number(wanted)}")
