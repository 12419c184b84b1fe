"""An exported Baserow workspace, read in plain Python: slow, without SQL and without our mapping.

What the importer and the database say is held against this.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

TEXTS = {"text", "long_text", "email", "phone_number", "url"}
Row = dict[str, Any]


class NeedsFormula(Exception):
    """The value stands on a formula."""


def everything(table: int, row: Row) -> bool:
    return True


@dataclass
class PlainFile:
    """The file. `sees` says which rows are in somebody's sight."""

    path: Path
    tables: dict[int, Any] = field(default_factory=dict)
    fields: dict[int, Any] = field(default_factory=dict)
    owner: dict[int, int] = field(default_factory=dict)
    rows: dict[int, dict[int, Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.document = json.loads(self.path.read_text())
        for database in self.document["export"]:
            for table in database["tables"]:
                self.tables[table["id"]] = table
                self.rows[table["id"]] = {row["id"]: row for row in table["rows"]}
                for one in table["fields"]:
                    self.fields[one["id"]] = one
                    self.owner[one["id"]] = table["id"]

    # -- what there is ---------------------------------------------------------------------------

    def views(self) -> Iterable[tuple[int, Any]]:
        return ((id, view) for id, table in self.tables.items() for view in table["views"])

    def links(self) -> set[tuple[int, int, int]]:
        """(field, row, linked row) of every link whose row is there."""
        return {
            (id, row["id"], to)
            for id, one in self.fields.items()
            if one["type"] == "link_row"
            for row in self.rows[self.owner[id]].values()
            for to in row[f"field_{id}"]
            if to in self.rows[one["link_row_table_id"]]
        }

    def primary(self, table: int) -> int:
        (found,) = (one["id"] for one in self.tables[table]["fields"] if one["primary"])
        return int(found)

    def field_order(self, table: int) -> list[int]:
        """The primary field first."""
        fields = self.tables[table]["fields"]
        return [
            one["id"]
            for one in sorted(fields, key=lambda f: (not f["primary"], f["order"], f["id"]))
        ]

    def hidden(self, table: int, view: Any) -> set[int]:
        """A grid shows what it says nothing of; other views do not. A form shows what it asks."""
        said = {option["field_id"]: option for option in view["field_options"]}
        hidden = set()
        for id in self.field_order(table):
            if id not in said:
                if view["type"] != "grid":
                    hidden.add(id)
            elif view["type"] == "form":
                if not said[id]["enabled"]:
                    hidden.add(id)
            elif said[id]["hidden"]:
                hidden.add(id)
        return hidden

    def shown(self, table: int, view: Any) -> list[int]:
        said = {option["field_id"]: option["order"] for option in view["field_options"]}
        last = max(said.values(), default=0) + 1
        order = self.field_order(table)
        order.sort(key=lambda id: (id != self.primary(table), said.get(id, last)))
        return [id for id in order if id not in self.hidden(table, view)]

    # -- values ----------------------------------------------------------------------------------

    def needs_formula(self, id: int) -> bool:
        """Whether a formula stands in the chain; a link goes by its rows, whatever names them."""
        one = self.fields[id]
        if one["type"] in ("lookup", "rollup"):
            return self.needs_formula(one["target_field_id"])
        return bool(one["type"] == "formula")

    def value(self, id: int, row: Row, sees: Callable[[int, Row], bool] = everything) -> Any:
        """Text, Decimal, bool, date, list, or None. A linked row named by a formula goes by
        (table, id)."""
        one, raw = self.fields[id], row.get(f"field_{id}")
        match one["type"]:
            case "link_row":
                return [self._name(one, to, sees) for to in self._linked(id, row, sees)]
            case "count":
                return Decimal(len(self._linked(one["through_field_id"], row, sees)))
            case "lookup":
                return self._items(one, row, sees)
            case "rollup":
                return _rolled(one["rollup_function"], self._items(one, row, sees))
            case "created_on":
                return datetime.fromisoformat(row["created_on"])
            case "last_modified":
                return datetime.fromisoformat(row["updated_on"])
            case "formula":
                raise NeedsFormula
            case type if raw is None:
                return False if type == "boolean" else None
            case "number" | "rating" | "autonumber":
                return Decimal(str(raw))
            case "boolean":
                return raw == "true"
            case "date":
                return date.fromisoformat(raw)
            case "single_select":
                (text,) = (o["value"] for o in one["select_options"] if o["id"] == raw)
                return text
            case type if type in TEXTS:
                return raw
            case _:
                return None

    def _linked(self, id: int, row: Row, sees: Callable[[int, Row], bool]) -> list[Row]:
        table = self.fields[id]["link_row_table_id"]
        found = [self.rows[table][to] for to in row[f"field_{id}"] if to in self.rows[table]]
        return [to for to in found if sees(table, to)]

    def _name(self, link: Any, to: Row, sees: Callable[[int, Row], bool]) -> Any:
        table = link["link_row_table_id"]
        try:
            return self.value(self.primary(table), to, sees)
        except NeedsFormula:
            return table, to["id"]

    def _items(self, one: Any, row: Row, sees: Callable[[int, Row], bool]) -> list[Any]:
        items: list[Any] = []
        for to in self._linked(one["through_field_id"], row, sees):
            value = self.value(one["target_field_id"], to, sees)
            items += value if isinstance(value, list) else [value]
        return items

    # -- filters ---------------------------------------------------------------------------------

    def countable(self, view: Any) -> bool:
        return not any(self.needs_formula(one["field_id"]) for one in view.get("filters", []))

    def passes(
        self, view: Any, row: Row, now: datetime, sees: Callable[[int, Row], bool] = everything
    ) -> bool:
        if not view.get("filters") or view.get("filters_disabled"):
            return True
        return bool(self._group(view, None, view["filter_type"], row, now, sees))

    def _group(
        self,
        view: Any,
        id: int | None,
        type: str,
        row: Row,
        now: datetime,
        sees: Callable[[int, Row], bool],
    ) -> bool | None:
        """None for a group of nothing."""
        parts: list[bool | None] = [
            self._test(one, row, now, sees) for one in view["filters"] if one.get("group") == id
        ]
        parts += [
            self._group(view, group["id"], group["filter_type"], row, now, sees)
            for group in view.get("filter_groups", [])
            if group.get("parent_group") == id
        ]
        said = [part for part in parts if part is not None]
        if not said:
            return None
        return all(said) if type == "AND" else any(said)

    def _test(self, one: Any, row: Row, now: datetime, sees: Callable[[int, Row], bool]) -> bool:
        op, operand = one["type"], one["value"]
        value = self.value(one["field_id"], row, sees)
        match op:
            case "empty" | "not_empty":
                nothing = value is None or value is False or value in ("", [])
                return nothing == (op == "empty")
            case "boolean":
                return bool(value) == (operand in ("1", "true"))
            case "equal" | "not_equal":
                wanted = Decimal(operand) if isinstance(value, Decimal) else operand
                return bool((value == wanted) == (op == "equal"))
            case "single_select_equal" | "single_select_not_equal":
                options = self.fields[one["field_id"]]["select_options"]
                (wanted,) = (o["value"] for o in options if str(o["id"]) == operand)
                return bool((value == wanted) == (op == "single_select_equal"))
            case "higher_than":
                return value is not None and bool(value > Decimal(operand))
            case "higher_than_or_equal":
                return value is not None and bool(value >= Decimal(operand))
            case "lower_than":
                return value is not None and bool(value < Decimal(operand))
            case _:
                return value is not None and _on_day(op, operand, value, now)


def _on_day(op: str, operand: str, value: date, now: datetime) -> bool:
    zone, *rest = operand.split("?")
    today = now.astimezone(ZoneInfo(zone)).date()
    day = value.astimezone(ZoneInfo(zone)).date() if isinstance(value, datetime) else value
    match op:
        case "date_after_today":
            return day > today
        case "date_within_days":
            ends = sorted((today, today + timedelta(days=int(rest[0]))))
            return ends[0] <= day <= ends[1]
    first, last = _span(rest[1], rest[0], today)
    match op:
        case "date_is":
            return first <= day <= last
        case "date_is_before":
            return day < first
        case "date_is_on_or_before":
            return day <= last
        case "date_is_after":
            return day > last
        case "date_is_on_or_after":
            return day >= first
    raise AssertionError(op)


def _span(name: str, amount: str, today: date) -> tuple[date, date]:
    """First and last day."""
    match name:
        case "today":
            return today, today
        case "nr_days_ago":
            day = today - timedelta(days=int(amount))
            return day, day
        case "this_year":
            return date(today.year, 1, 1), date(today.year, 12, 31)
        case "one_year_ago":
            return date(today.year - 1, 1, 1), date(today.year - 1, 12, 31)
    raise AssertionError(name)


def _rolled(function: str, items: list[Any]) -> Any:
    said = [item for item in items if item is not None]
    match function:
        case "sum":
            return sum(said, Decimal(0))
        case "min":
            return min(said, default=None)
        case "max":
            return max(said, default=None)
    raise NeedsFormula  # the others of these files stand on formulas


NOW = datetime(2024, 7, 20, 22, 30, tzinfo=UTC)
"""A moment at which the dates of the files lie on both sides, and it is tomorrow in Brussels."""
