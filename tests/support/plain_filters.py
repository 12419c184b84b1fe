"""Filters of views in plain Python, over records in memory: what the SQL is held against."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from context_engine import view_filters as f
from context_engine import view_values as v

DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


@dataclass(frozen=True)
class Record:
    id: str
    table: str
    cells: Mapping[str, Any]
    created_at: datetime
    deleted: bool = False


@dataclass(frozen=True)
class World:
    """`links`: by field and record, the records that it leads to."""

    records: Mapping[str, Record]
    links: Mapping[tuple[str, str], list[str]]
    sees: Callable[[Record], bool]
    now: datetime

    def passes(self, filter: f.Filter, record: Record) -> bool:
        match filter:
            case f.Every(every=parts):
                return all(self.passes(part, record) for part in parts)
            case f.Some(some=parts):
                return any(self.passes(part, record) for part in parts)
            case f.Condition(value=value, test=test):
                return self._test(self.value(value, record), test)
        raise AssertionError(filter)

    def value(self, value: v.Value, record: Record) -> Any:
        match value:
            case v.Stored(cell=field, kind=kind):
                return _of_kind(record.cells.get(field), kind)
            case v.System():
                return record.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            case v.RowId():
                return record.id
            case v.Count(count=step):
                return Decimal(len(self._linked(step, record)))
            case v.Lookup(lookup=each):
                return self._items(each.step, each.value, record)
            case v.Rollup(rollup=rolled):
                items = self._items(rolled.step, rolled.value, record)
                return _rolled(rolled.function, [item for item in items if item is not None])
        raise AssertionError(value)

    def _linked(self, step: v.Step, record: Record) -> list[Record]:
        found = [self.records[id] for id in self.links.get((step.field, record.id), [])]
        return [r for r in found if r.table == step.table and not r.deleted and self.sees(r)]

    def _items(self, step: v.Step, value: v.Value, record: Record) -> list[Any]:
        items: list[Any] = []
        for linked in self._linked(step, record):
            one = self.value(value, linked)
            items += one if isinstance(one, list) else [one]
        return items

    def _test(self, found: Any, test: f.Test) -> bool:
        match test:
            case f.Emptiness(op=op):
                nothing = found is None or found is False or found == "" or found == []
                return nothing == (op == "empty")
            case f.Is(to=to):
                return bool(found) is to
            case f.Compare(op="equal" | "not_equal", to=to):
                wanted = to if isinstance(to, str) else Decimal(str(to))
                return bool((found == wanted) == (test.op == "equal"))
            case f.Compare(op=op, to=to):
                if found is None:
                    return False
                wanted = Decimal(str(to))
                return bool(
                    {
                        "higher_than": found > wanted,
                        "higher_than_or_equal": found >= wanted,
                        "lower_than": found < wanted,
                        "lower_than_or_equal": found <= wanted,
                    }[op]
                )
            case f.InDays(op=op, days=days):
                day = _day(found, days.tz)
                if day is None:
                    return False
                first, after = f.span(days, self.now)
                return {
                    "date_is": first <= day < after,
                    "date_is_before": day < first,
                    "date_is_on_or_before": day < after,
                    "date_is_after": day >= after,
                    "date_is_on_or_after": day >= first,
                }[op]
        raise AssertionError(test)


def _of_kind(cell: Any, kind: v.Kind) -> Any:
    """The cell, if it is of its kind."""
    if kind == "number":
        number = isinstance(cell, int | float) and not isinstance(cell, bool)
        return Decimal(str(cell)) if number else None
    if kind == "boolean":
        return cell if isinstance(cell, bool) else None
    return cell if isinstance(cell, str) else None


def _day(found: Any, tz: str) -> date | None:
    """None for a text that is no date and no time: what is stored need not make sense."""
    if found is None:
        return None
    try:
        if DATE.fullmatch(found):
            return date.fromisoformat(found)
        if TIME.fullmatch(found):
            return datetime.fromisoformat(found).astimezone(ZoneInfo(tz)).date()
    except ValueError:
        pass
    return None


def _rolled(function: v.Function, items: list[Any]) -> Any:
    match function:
        case "min":
            return min(items, default=None)
        case "max":
            return max(items, default=None)
        case "sum":
            return sum(items, Decimal(0))
        case "avg":
            return sum(items, Decimal(0)) / len(items) if items else None
        case "any":
            return any(items)
        case "every":
            return all(items)
