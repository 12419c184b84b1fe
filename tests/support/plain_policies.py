"""Row policies as plain Python: what the compiler and the resolver are compared with.

It takes predicates as they are written, operands and all. Numbers of cells are `Decimal`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from context_engine import policy as p


class Unresolved(Exception):
    """The user has no such thing."""


@dataclass(frozen=True)
class Row:
    id: str
    table: str
    cells: Mapping[str, Any]
    created_by: str | None
    updated_by: str | None
    created_at: datetime
    deleted: bool = False


@dataclass(frozen=True)
class Person:
    """Who asks, and when."""

    id: str
    email: str | None = None
    teams: tuple[str, ...] = ()
    zone: str | None = "UTC"
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class World:
    """`links`: by field and row, the rows that it leads to; `leads`: by field, the table."""

    rows: Mapping[str, Row]
    links: Mapping[tuple[str, str], list[str]] = field(default_factory=dict)
    leads: Mapping[str, str] = field(default_factory=dict)
    times: Collection[str] = ("sys:created_at",)
    """References to what holds times."""

    def passing(self, pred: p.Pred, table: str, who: Person) -> set[str] | None:
        """The rows of a table for which `pred` holds; None where it cannot be told."""
        try:
            every = {id: self.holds(pred, row, who) for id, row in self.rows.items()
                     if row.table == table}  # fmt: skip
        except Unresolved:
            return None
        return {id for id, holds in every.items() if holds}

    def holds(self, pred: p.Pred, row: Row, who: Person) -> bool:
        match pred:
            case bool():
                return pred
            case p.All(all=parts):
                return all(self._each(parts, row, who))
            case p.Any_(any=parts):
                return any(self._each(parts, row, who))
            case p.Not(not_=inner):
                return not self.holds(inner, row, who)
            case p.LinkedAny(linked_any=linked):
                self.holds(linked.pred, row, who)  # what cannot be told cannot, wherever links lead
                found = [self.rows[id] for id in self.links.get((linked.field, row.id), [])]
                return any(
                    self.holds(linked.pred, one, who)
                    for one in found
                    if one.table == self.leads.get(linked.field) and not one.deleted
                )
            case p.Cmp(cmp=c):
                return self._compared(c, row, who)
        raise AssertionError(pred)

    def _each(self, parts: tuple[p.Pred, ...], row: Row, who: Person) -> list[bool]:
        """All of them: what cannot be told cannot, whatever the others say."""
        return [self.holds(part, row, who) for part in parts]

    def _compared(self, c: p.Comparison, row: Row, who: Person) -> bool:
        if c.op in ("empty", "not_empty"):
            return blank(value_of(c.ref, row)) == (c.op == "empty")
        if isinstance(c.operand, p.OfNow):
            if (name := c.operand.now.tz or who.zone) is None:
                raise Unresolved
            zone = ZoneInfo(name)
            day = who.now.astimezone(zone).date()
            if c.operand.now.unit == "week":
                day -= timedelta(days=day.weekday())
            return with_day(moment_of(c.ref, row), c.op, day, zone)
        value, operand = value_of(c.ref, row), self._operand(c.operand, who)
        if operand is None and c.op not in ("empty", "not_empty"):
            raise Unresolved  # false of every row, and its opposite would be true of every row
        if isinstance(c.operand, p.OfUser) and c.operand.user == "email_norm":
            return compared(addresses(value), c.op, operand)
        if (
            c.op in DATED
            and c.ref in self.times
            and isinstance(operand, str)
            and DAY.match(operand)
        ):
            with suppress(ValueError):
                day, zone = date.fromisoformat(operand), ZoneInfo(who.zone or "UTC")
                return with_day(moment_of(c.ref, row), c.op, day, zone)
        return compared(value, c.op, operand)

    def _operand(self, operand: p.Operand, who: Person) -> Any:
        match operand:
            case p.Literal_(literal=value):
                return value
            case p.OfUser(user="id"):
                return who.id
            case p.OfUser(user="email_norm"):
                if who.email is None:
                    raise Unresolved
                return who.email
            case p.OfUser(user="team_ids"):
                return list(who.teams)
            case p.OfAttr(attr=lookup):
                return self.values(lookup, who)
        raise AssertionError(operand)

    def values(self, lookup: p.AttrLookup, who: Person) -> list[Any]:
        """What rows that name the user say of them: each value once, in the order of their JSON."""
        said = [
            row.cells.get(lookup.value_field)
            for row in self.rows.values()
            if row.table == lookup.table and not row.deleted
            and any(names(key, who) for key in listed(row.cells.get(lookup.key_field)))
        ]  # fmt: skip
        items = (item for value in said for item in listed(value) if item is not None)
        distinct = {spelled(item): item for item in items}
        return [distinct[text] for text in sorted(distinct)]


def names(key: Any, who: Person) -> bool:
    return key == who.id or (key is not None and addresses(key) == who.email)


def addresses(value: Any) -> Any:
    """A text as an address: no white space around it and no capitals, both as ASCII has them."""
    if isinstance(value, list):
        return [addresses(item) for item in value if not isinstance(item, list)]
    if not isinstance(value, str):
        return value
    return "".join(c.lower() if c.isascii() else c for c in value.strip(" \t\n\v\f\r"))


def spelled(value: Any) -> str:
    """As JSON; numbers with the digits that they were written with."""
    match value:
        case bool() | str() | None:
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(spelled, value))}]"
        case dict():
            return f"{{{', '.join(f'{spelled(k)}: {spelled(v)}' for k, v in value.items())}}}"
        case _:
            return str(value)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def value_of(ref: str, row: Row) -> Any:
    if ref == "sys:created_at":
        return row.created_at.astimezone(UTC).date().isoformat()
    if ref.startswith("sys:"):
        return getattr(row, ref.removeprefix("sys:"))
    return row.cells.get(ref.removeprefix("field:"))


def moment_of(ref: str, row: Row) -> Any:
    return row.created_at.isoformat() if ref == "sys:created_at" else value_of(ref, row)


# -- days --------------------------------------------------------------------------------------

DAY = re.compile(r"\d{4}-\d\d-\d\d\Z", re.ASCII)
DATED = ("eq", "ne", "lt", "lte", "gt", "gte")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](0\d|1[0-5]):\d\d)", re.ASCII)


def local_day(value: Any, zone: ZoneInfo) -> date | None:
    """The day of a date, or on which a time falls; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        if DAY.match(value):
            return date.fromisoformat(value)
        if TIME.fullmatch(value):
            return datetime.fromisoformat(value).astimezone(zone).date()
    except OverflowError:
        return date.min if value.startswith("0001") else date.max
    except ValueError:
        pass
    return None


def with_day(value: Any, op: str, day: date, zone: ZoneInfo) -> bool:
    found = local_day(value, zone)
    if op == "ne":
        return found != day
    return found is not None and ORDER[op](found, day)


# -- literals ----------------------------------------------------------------------------------

ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: bool(a == b),
    "lt": lambda a, b: bool(a < b),
    "lte": lambda a, b: bool(a <= b),
    "gt": lambda a, b: bool(a > b),
    "gte": lambda a, b: bool(a >= b),
}


def blank(value: Any) -> bool:
    return value is None or value == "" or value == []


def compared(value: Any, op: str, operand: Any) -> bool:
    if operand is None:
        return False
    opposite = {"ne": "eq", "not_in": "in", "has_none": "has_any"}.get(op)
    if opposite is not None:
        return not compared(value, opposite, operand)
    wanted = [one for one in listed(operand) if one is not None]
    match op:
        case "eq":
            return same(value, operand)
        case "in":
            return any(same(value, one) for one in wanted)
        case "has_any" | "has_all":
            if not isinstance(value, list) or not wanted:
                return False
            hits = [scalar(one) and any(same(item, one) for item in value) for one in wanted]
            return any(hits) if op == "has_any" else all(hits)
        case "text_contains":
            return isinstance(value, str) and isinstance(operand, str) and operand in value
        case _:
            return ordered(value, op, operand)


def ordered(value: Any, op: str, operand: Any) -> bool:
    if isinstance(value, str) and isinstance(operand, str):
        return ORDER[op]([ord(c) for c in value], [ord(c) for c in operand])
    if number(value) and number(operand):
        return ORDER[op](exact(value), exact(operand))
    return False


def number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def exact(value: Any) -> Decimal:
    return Decimal(str(value))


def scalar(value: Any) -> bool:
    return isinstance(value, str | bool) or number(value)


def same(left: Any, right: Any) -> bool:
    """Equal as JSON: `true` is not 1, null is not itself."""
    return left is not None and right is not None and _equal(left, right)


def _equal(left: Any, right: Any) -> bool:
    if number(left) and number(right):
        return exact(left) == exact(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    return type(left) is type(right) and bool(left == right)
