"""Row policies in plain Python: what a predicate, as it is stored, says of one record.

Nothing here knows SQL or the engine's parser. `Unresolvable` is raised for whatever cannot be
read or resolved; who asks then denies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.oracle.model import Field, Record, Table, User, Workspace

Passing = Callable[[Record], bool]
Sees = Callable[[str, Record], bool]
"""Whether a live record of a table is in the user's sight."""

DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
"""Dates and times as cells hold them."""

COLUMNS = ("created_by", "updated_by", "created_at")
EQUAL = {"eq", "ne"}
ORDER = {"lt", "lte", "gt", "gte"}
LISTS = {"in", "not_in", "has_any", "has_all", "has_none"}
BARE = {"empty", "not_empty"}


OPERATORS = EQUAL | ORDER | LISTS | BARE | {"text_contains"}


def readable(raw: Any) -> bool:
    """Whether `raw` is a predicate of the grammar at all; what it says may still be unknowable."""
    match raw:
        case bool():
            return True
        case {"all": list(parts)} | {"any": list(parts)} if len(raw) == 1:
            return all(map(readable, parts))
        case {"not": part} if len(raw) == 1:
            return readable(part)
        case {"linkedAny": {"field": str(), "pred": part, **more}} if len(raw) == 1 and not more:
            return readable(part)
        case {"cmp": {"ref": str(ref), "op": str(op), **more}} if len(raw) == 1:
            kind, _, name = ref.partition(":")
            known = (kind == "field" and name) or (kind == "sys" and name in COLUMNS)
            return (
                bool(known)
                and op in OPERATORS
                and not set(more) - {"operand"}
                and ("operand" not in more or _readable_operand(more["operand"]))
            )
    return False


def constant(raw: Any) -> bool | None:
    """What a predicate says of every record, whatever is in it; None where that depends."""
    match raw:
        case bool():
            return raw
        case {"not": part}:
            said = constant(part)
            return None if said is None else not said
        case {"all": parts} | {"any": parts}:
            stops = "any" in raw
            said_all = [constant(part) for part in parts]
            if stops in said_all:
                return stops
            return None if None in said_all else not stops
    return None


def links_in(raw: Any) -> Iterator[str]:
    """The link fields that a predicate looks along."""
    match raw:
        case {"all": parts} | {"any": parts}:
            for part in parts:
                yield from links_in(part)
        case {"not": part}:
            yield from links_in(part)
        case {"linkedAny": {"field": id}}:
            yield id


def _readable_operand(raw: Any) -> bool:
    match raw:
        case {"literal": _} | {"user": "id" | "email_norm" | "team_ids"}:
            return len(raw) == 1
        case {"attr": {"table": str(), "keyField": str(), "valueField": str()}}:
            return len(raw) == 1
        case {"now": {"unit": "today" | "week", **more}}:
            return not set(more) - {"tz"} and (
                more.get("tz") is None or isinstance(more["tz"], str)
            )
    return False


class Unresolvable(Exception):
    """What the predicate says cannot be known."""


@dataclass(frozen=True)
class Day:
    """A resolved `now`, or a literal beside a time: a local date, and the zone by which times
    become dates."""

    day: date
    zone: ZoneInfo


@dataclass(frozen=True)
class Address:
    """The user's own; what is compared with it is taken for an address."""

    text: str


class Index:
    """A workspace by id."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.tables: Mapping[str, Table] = {one.id: one for one in workspace.tables}
        self.records = {r.id: (table, r) for table in workspace.tables for r in table.records}
        self.links: dict[tuple[str, str], list[str]] = {}
        for link in workspace.links:
            self.links.setdefault((link.field_id, link.from_id), []).append(link.to_id)

    def table(self, id: str | None) -> Table | None:
        """A live table."""
        found = self.tables.get(id or "")
        return None if found is None or found.trashed else found

    def linked(self, field: Field, record: Record) -> Iterator[Record]:
        """The live records that a link field of a record leads to."""
        for id in self.links.get((field.id, record.id), ()):
            table, other = self.records[id]
            if table.id == field.linked_table_id and not table.trashed and not other.deleted:
                yield other


@dataclass(frozen=True)
class Judge:
    """Reads predicates for one user at one time."""

    index: Index
    user: User
    team_ids: frozenset[str]
    now: datetime

    def test(
        self, raw: Any, table: Table, *, sees: Sees | None = None, hop: bool = False
    ) -> Passing:
        """What `raw` says of records of `table`. `sees`: for presentation, which linked records
        there are; without it all of them. Raises `Unresolvable`."""
        match raw:
            case bool():
                return lambda _: raw
            case {"all": list(parts)} if len(raw) == 1:
                tests = [self.test(one, table, sees=sees, hop=hop) for one in parts]
                return lambda r: all(test(r) for test in tests)
            case {"any": list(parts)} if len(raw) == 1:
                tests = [self.test(one, table, sees=sees, hop=hop) for one in parts]
                return lambda r: any(test(r) for test in tests)
            case {"not": part} if len(raw) == 1:
                test = self.test(part, table, sees=sees, hop=hop)
                return lambda r: not test(r)
            case {"cmp": {"ref": str(ref), "op": str(op), **more}} if len(raw) == 1:
                if set(more) - {"operand"}:
                    raise Unresolvable
                return self._compare(ref, op, more, table)
            case {"linkedAny": {"field": str(id), "pred": part}} if len(raw) == 1:
                return self._linked(id, part, table, sees, hop)
        raise Unresolvable

    def _linked(self, id: str, raw: Any, table: Table, sees: Sees | None, hop: bool) -> Passing:
        field = _field(table, id)
        if hop or field.type != "link":
            raise Unresolvable
        there = self.index.tables.get(field.linked_table_id or "")
        if sees is None and (there is None or there.trashed):
            raise Unresolvable
        if there is None or there.trashed:
            if not readable(raw):  # nobody can say what it asks, whoever there is to be asked
                raise Unresolvable
            return lambda _: False
        inner = self.test(raw, there, sees=sees, hop=True)
        return lambda r: any(
            inner(one) for one in self.index.linked(field, r) if sees is None or sees(there.id, one)
        )

    def _compare(self, ref: str, op: str, more: Any, table: Table) -> Passing:
        kind, _, name = ref.partition(":")
        timed = ref == "sys:created_at"
        if kind == "field":
            timed = _field(table, name).type == "datetime"
        elif kind != "sys" or name not in COLUMNS:
            raise Unresolvable
        # One that is not needed has to be known all the same: what cannot be resolved denies.
        operand = self._operand(more.get("operand", {"literal": None}))
        if op in BARE:
            return lambda r: _empty(_value(kind, name, r)) == (op == "empty")
        if operand is None:
            raise Unresolvable  # false of every row, and its opposite would be true of every row
        if timed and op in EQUAL | ORDER and isinstance(operand, str):
            operand = self._literal_day(operand)
        if isinstance(operand, Address):
            return self._compare_addresses(kind, name, op, operand)
        if op in LISTS and not isinstance(operand, list | Day):
            operand = [operand]
        if op not in EQUAL | ORDER | LISTS and op != "text_contains":
            raise Unresolvable
        if isinstance(operand, Day) and op not in EQUAL | ORDER:
            raise Unresolvable
        if ref == "sys:created_at" and not isinstance(operand, Day):
            return lambda r: _holds(op, r.created_at.astimezone(UTC).date().isoformat(), operand)
        return lambda r: _holds(op, _value(kind, name, r), operand)

    def _compare_addresses(self, kind: str, name: str, op: str, own: Address) -> Passing:
        wanted = [own.text] if op in LISTS else own.text
        return lambda r: _holds(op, _as_addresses(_value(kind, name, r)), wanted)

    def _literal_day(self, text: str) -> Any:
        """The day that `text` spells, in the user's zone, else in UTC; or else `text`."""
        try:
            day = date.fromisoformat(text) if DATE.fullmatch(text) else None
        except ValueError:
            day = None
        zone = "UTC" if self.user.timezone is None else self.user.timezone
        return text if day is None else Day(day, _zone(zone))

    def _operand(self, raw: Any) -> Any:
        match raw:
            case {"literal": value} if len(raw) == 1:
                return value
            case {"user": "id"} if len(raw) == 1:
                return self.user.id
            case {"user": "email_norm"} if len(raw) == 1:
                if not self.user.email_norm:
                    raise Unresolvable
                return Address(_address(self.user.email_norm))
            case {"user": "team_ids"} if len(raw) == 1:
                return sorted(self.team_ids)
            case {"attr": {"table": str(t), "keyField": str(k), "valueField": str(v)}}:
                return self._attribute(t, k, v)
            case {"now": {"unit": "today" | "week" as unit, **more}} if not set(more) - {"tz"}:
                return self._day(unit, more.get("tz"))
        raise Unresolvable

    def _attribute(self, table_id: str, key: str, value: str) -> list[Any]:
        table = self.index.table(table_id)
        if table is None:
            raise Unresolvable
        _field(table, key), _field(table, value)
        found: list[Any] = []
        for record in table.records:
            if not record.deleted and any(map(self._names_user, _items(record.cells.get(key)))):
                found += _items(record.cells.get(value))
        return [one for n, one in enumerate(found) if one is not None and one not in found[:n]]

    def _names_user(self, item: Any) -> bool:
        if not isinstance(item, str):
            return False
        return item == self.user.id or _address(item) == self.user.email_norm

    def _day(self, unit: str, tz: Any) -> Day:
        zone = _zone(tz if tz is not None else self.user.timezone)
        today = self.now.astimezone(zone).date()
        return Day(today - timedelta(days=today.weekday() if unit == "week" else 0), zone)


def _zone(name: Any) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, TypeError, OSError) as unknown:
        raise Unresolvable from unknown


def _address(text: str) -> str:
    """As ASCII has white space and capitals; no other letter has a small one here."""
    kept = text.strip(" \t\n\r\x0b\x0c")
    return re.sub("[A-Z]", lambda capital: capital[0].lower(), kept)


def _as_addresses(value: Any) -> Any:
    if isinstance(value, list):
        return [_address(one) if isinstance(one, str) else one for one in value]
    return _address(value) if isinstance(value, str) else value


def _field(table: Table, id: str) -> Field:
    found = next((one for one in table.fields if one.id == id), None)
    if found is None:
        raise Unresolvable
    return found


def _items(cell: Any) -> list[Any]:
    return cell if isinstance(cell, list) else [cell]


def _value(kind: str, name: str, record: Record) -> Any:
    if kind == "field":
        return record.cells.get(name)
    found = getattr(record, name)
    return found.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if isinstance(found, datetime) else found


def _empty(value: Any) -> bool:
    return value is None or value == "" or value == []


def _holds(op: str, value: Any, operand: Any) -> bool:
    """Each negative operator is the exact complement of its positive one."""
    match op:
        case "eq":
            return _equal(value, operand)
        case "ne":
            return not _equal(value, operand)
        case "in":
            return any(_equal(value, one) for one in operand if one is not None)
        case "not_in":
            return not _holds("in", value, operand)
        case "has_any":
            return isinstance(value, list) and any(_has(value, one) for one in operand)
        case "has_all":
            wanted = [one for one in operand if one is not None]
            # All of nothing is asked of nobody: an empty list, such as of teams, opens no row.
            return isinstance(value, list) and wanted != [] and all(_has(value, o) for o in wanted)
        case "has_none":
            return not _holds("has_any", value, operand)
        case "text_contains":
            return isinstance(value, str) and isinstance(operand, str) and operand in value
        case "lt" | "lte" | "gt" | "gte":
            return _ordered(op, value, operand)
    raise AssertionError(op)


def _has(items: list[Any], one: Any) -> bool:
    return one is not None and any(_equal(item, one) for item in items)


def _equal(value: Any, other: Any) -> bool:
    """Equality of JSON: numbers by their value, nothing equals a value of another type."""
    if isinstance(other, Day):
        return _local(value, other) == other.day
    if _number(value) is not None or _number(other) is not None:
        return _number(value) is not None and _number(value) == _number(other)
    if type(value) is not type(other):
        return False
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_equal, value, other))
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(_equal(value[k], other[k]) for k in value)
    return bool(value == other)


def _ordered(op: str, value: Any, operand: Any) -> bool:
    left: Any
    right: Any
    if isinstance(operand, Day):
        left, right = _local(value, operand), operand.day
    elif isinstance(value, str) and isinstance(operand, str):
        left, right = value, operand  # Python compares texts by code point
    else:
        left, right = _number(value), _number(operand)
    if left is None or right is None:
        return False
    return bool(
        {"lt": left < right, "lte": left <= right, "gt": left > right, "gte": left >= right}[op]
    )


def _number(value: Any) -> Decimal | None:
    return Decimal(str(value)) if type(value) in (int, float) else None


def _local(value: Any, day: Day) -> date | None:
    """The date that a cell stands for: a date itself, a time's in the zone."""
    if not isinstance(value, str):
        return None
    try:
        if DATE.fullmatch(value):
            return date.fromisoformat(value)
        if TIME.fullmatch(value):
            return datetime.fromisoformat(value).astimezone(day.zone).date()
    except ValueError:
        pass
    return None
