"""What predicates compare, as SQL over `records`: a field's cell, or a column of the record.

Every condition here is never NULL, and every value is a bind parameter.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from context_engine import emails, policy
from context_engine.adapters.sql import days
from context_engine.adapters.sql.binds import Binds

LONG = 64
"""Longer lists are looked up by hash, row by row, and no more by an index. So are all where no
index answers: the server would look through its statistics for every value to tell how many rows
have it, which takes longer than the counting."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A field's cell: any JSON value, or none."""

    field_id: str
    binds: Binds
    indexed: bool
    """Whether an index may answer."""

    def equals_any(self, values: list[JsonValue]) -> str:
        if not self.indexed or len(values) > LONG:
            return self._among(values) if values else "false"
        scalars = [value for value in values if _scalar(value)]
        parts = [self._holds_any(scalars)] if scalars else []
        whole = [value for value in values if not _scalar(value)]
        if whole:
            parts.append(self._among(whole))
        return joined(" OR ", "false", parts)

    def has_any(self, values: list[JsonValue]) -> str:
        scalars = [value for value in values if _scalar(value)]
        if len(scalars) > LONG:
            return (
                f"EXISTS (SELECT FROM jsonb_array_elements({self._listed()}) AS item(v)"
                f" WHERE item.v = ANY({self.binds.jsons(scalars)}))"
            )
        items: list[JsonValue] = [[value] for value in scalars]
        return self._holds_any(items) if items else "false"

    def has_address(self, addresses: list[str]) -> str:
        """Whether the cell is a list with a text that is one of `addresses`."""
        item = address_of("item.v #>> '{}'")
        return (
            f"EXISTS (SELECT FROM jsonb_array_elements({self._listed()}) AS item(v)"
            f" WHERE jsonb_typeof(item.v) = 'string'"
            f" AND {item} = ANY({self.binds.texts(addresses)}))"
        )

    def has_all(self, values: list[JsonValue]) -> str:
        if not values or not all(map(_scalar, values)):
            return "false"
        if not self.indexed:
            return true_only(f"{self._json()} @> {self.binds.json(values)}")
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

    def on_day(self, op: days.DayOp, day: policy.OnDay) -> str:
        """No value of another type is spelled as a day or a time."""
        return days.spelled(f"(records.cells ->> {self._id()})", op, day, self.binds)

    def _among(self, values: list[JsonValue]) -> str:
        return true_only(f"{self._json()} = ANY({self.binds.jsons(values)})")

    def _holds_any(self, parts: list[JsonValue]) -> str:
        """Whether the cell contains one of `parts`; the same text, however many there are."""
        if not self.indexed:
            return true_only(f"{self._json()} @> ANY({self.binds.jsons(parts)})")
        return (
            f"records.cells @> ANY({self.binds.jsons([{self.field_id: part} for part in parts])})"
        )

    def _listed(self) -> str:
        return f"CASE WHEN {self._is('array')} THEN {self._json()} ELSE '[]' END"

    def _is(self, kind: str) -> str:
        return f"jsonb_typeof({self._json()}) = '{kind}'"

    def _json(self) -> str:
        return f"records.cells -> {self._id()}"

    def _id(self) -> str:
        return self.binds.text(self.field_id)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the record that holds text, or NULL. `time`: the time that it is the day of."""

    sql: str
    binds: Binds
    time: str | None = None

    def equals_any(self, values: list[JsonValue]) -> str:
        if not (texts := _texts(values)):
            return "false"
        # Not by `coalesce`: an index serves this.
        return f"({self.sql} IS NOT NULL AND {self.sql} = ANY({self.binds.texts(texts)}))"

    def has_any(self, _: list[JsonValue]) -> str:
        return "false"

    def has_address(self, _: list[str]) -> str:
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

    def on_day(self, op: days.DayOp, day: policy.OnDay) -> str:
        return "false" if self.time is None else days.compared(self.time, op, day, self.binds)


@dataclass(frozen=True, slots=True)
class AsAddress:
    """A cell or column whose texts count as e-mail addresses. What it is compared with are
    addresses as `emails.normal` gives them."""

    of: Cell | Column

    @property
    def binds(self) -> Binds:
        return self.of.binds

    def equals_any(self, addresses: list[JsonValue]) -> str:
        return true_only(f"{self.text()} = ANY({self.binds.texts(_texts(addresses))})")

    def has_any(self, addresses: list[JsonValue]) -> str:
        return self.of.has_address(_texts(addresses))

    def has_all(self, addresses: list[JsonValue]) -> str:
        return joined(" AND ", "false", [self.has_any([address]) for address in addresses])

    def text(self) -> str:
        return address_of(self.of.text())

    def number(self) -> str:
        """An address is no number."""
        return "NULL::numeric"


_BLANK = "E'" + "".join(f"\\x{ord(blank):02x}" for blank in emails.BLANK) + "'"


def address_of(text: str) -> str:
    """SQL of a text as `emails.normal` makes it."""
    return f'lower(btrim({text}, {_BLANK}) COLLATE "C")'


def value_of(ref: str, binds: Binds, *, indexed: bool) -> Cell | Column:
    """What a reference of a predicate names. `indexed`: whether an index may answer what is asked
    of it. Raises `policy.Unresolvable`."""
    match ref:
        case "sys:created_by" | "sys:updated_by":
            return Column(f"records.{ref.removeprefix('sys:')}", binds)
        case "sys:created_at":
            day = "to_char(records.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
            return Column(day, binds, time="records.created_at")
        case _ if ref.startswith("field:"):
            return Cell(ref.removeprefix("field:"), binds, indexed)
        case _:
            raise policy.Unresolvable(ref)


SIGNS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def joined(by: str, of_none: str, conditions: list[str]) -> str:
    if len(conditions) == 1:
        return conditions[0]
    return f"({by.join(conditions)})" if conditions else of_none


def true_only(condition: str) -> str:
    """NULL is false: else NOT would drop rows whose value is missing."""
    return f"coalesce({condition}, false)"


def _texts(values: list[JsonValue]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _scalar(value: JsonValue) -> bool:
    return isinstance(value, str | bool | int | float)
