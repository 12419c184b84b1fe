"""Rows in sight as counts use them: found once for all counts of a statement, or row by row.

A table's rules are the dear part of a count. Its own number, every link that starts or ends there
and the tasks on its rows ask for the same rows, so a statement finds them once (`SharedRows`), as
many as are counted. Where there are more, who looks into them asks row by row (`RowsAlone`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from context_engine.access import Way
from context_engine.adapters.sql.predicates import Binds
from context_engine.adapters.sql.rows import live_rows


class Rows(Protocol):
    """One statement's view of the rows in sight."""

    binds: Binds

    def number(self, table_id: str, ways: Sequence[Way]) -> str:
        """How many live rows of a table these ways hold, up to one more than the cap."""

    def hold(self, table_id: str, ways: Sequence[Way], record: str) -> str:
        """Whether one of these ways holds the live row whose id is the column `record`."""


def limited(table: str, condition: str, cap: int) -> str:
    """The number of rows for which `condition` holds, up to one more than `cap`."""
    return (
        f"(SELECT count(*) FROM (SELECT FROM {table} WHERE {condition}"  # noqa: S608 - values are bound
        f" LIMIT {cap + 1}) AS counted)"
    )


def row_is_seen(table_id: str, ways: Sequence[Way], record: str, binds: Binds) -> str:
    """Whether one of these ways holds the live row with the id `record`, an expression."""
    rows = live_rows(table_id, [way.rows for way in ways], binds)
    return f"EXISTS (SELECT FROM records WHERE records.id = {record} AND {rows})"


class RowsAlone:
    """Each asked for by itself."""

    def __init__(self, cap: int) -> None:
        self.binds = Binds()
        self._cap = cap

    def number(self, table_id: str, ways: Sequence[Way]) -> str:
        rows = live_rows(table_id, [way.rows for way in ways], self.binds)
        return limited("records", rows, self._cap)

    def hold(self, table_id: str, ways: Sequence[Way], record: str) -> str:
        return row_is_seen(table_id, ways, record, self.binds)

    def statement(self, queries: Iterable[str]) -> str:
        return f"SELECT {', '.join(queries)}"


class SharedRows:
    """The rows of each table and ways as a common table expression, cut off after the cap."""

    def __init__(self, cap: int, *, by_row: bool) -> None:
        self.binds = Binds(by_row=by_row)
        self._cap = cap
        self._names: dict[tuple[str, tuple[str | None, ...]], str] = {}
        self._found: list[str] = []

    def number(self, table_id: str, ways: Sequence[Way]) -> str:
        return _size(self._name(table_id, ways))

    def hold(self, table_id: str, ways: Sequence[Way], record: str) -> str:
        if not ways:
            return "false"
        return f"{record} IN (SELECT id FROM {self._name(table_id, ways)} AS s)"  # noqa: S608

    def _name(self, table_id: str, ways: Sequence[Way]) -> str:
        key = (table_id, tuple(way.view_id for way in ways))
        if key not in self._names:
            self._names[key] = name = f"seen_{len(self._names)}"
            rows = live_rows(table_id, [way.rows for way in ways], self.binds)
            query = f"SELECT records.id FROM records WHERE {rows}"  # noqa: S608 - values are bound
            self._found.append(f"{name} AS MATERIALIZED ({query} LIMIT {self._cap + 1})")
        return self._names[key]

    def sizes(self) -> dict[str, str]:
        """For each set the query of how many rows it has, as `number` gives it."""
        return {name: _size(name) for name in self._names.values()}

    def statement(self, queries: Iterable[str]) -> str:
        found = f"WITH {', '.join(self._found)} " if self._found else ""
        return f"{found}SELECT {', '.join(queries)}"

    def used_by(self, query: str) -> set[str]:
        """The sets that a query looks into, beyond counting them."""
        return {name for name in self._names.values() if f"FROM {name} AS s)" in query}


def _size(name: str) -> str:
    return f"(SELECT count(*) FROM {name})"  # noqa: S608 - a name of ours
