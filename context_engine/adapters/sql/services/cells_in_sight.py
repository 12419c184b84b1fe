"""Cells that the actor sees or may write: where one way into the table has both row and field."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, case, false, select, true

from context_engine.access import RANK, VisibleTable, Way
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.rows import rows_of, way_rows
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.errors import NotFound, NotPermitted


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A live record in sight, and the ways that hold it."""

    id: str
    version: int
    ways: tuple[Way, ...]

    @property
    def field_ids(self) -> frozenset[str]:
        """Fields whose cells of this record are in sight."""
        return frozenset[str]().union(*(way.field_ids for way in self.ways))

    def demand(self, field_ids: Iterable[str]) -> None:
        """Raises `NotPermitted` unless an EDITOR's way holds the record, and one of those every
        field of `field_ids` to be written."""
        if not any(edits(way) for way in self.ways):
            raise NotPermitted(
                f"record {self.id!r} is in sight, but not as an editor's; ask an admin of the table"
            )
        writable = frozenset[str]().union(*(way.writable for way in self.ways))
        demand_fields(writable, field_ids)


def edits(way: Way) -> bool:
    return RANK[way.role] >= RANK["editor"]


def demand_fields(writable: Collection[str], field_ids: Iterable[str]) -> None:
    """Raises `NotPermitted` for the first of `field_ids`, all in sight, that is not writable."""
    for field_id in field_ids:
        if field_id not in writable:
            raise NotPermitted(
                f"field {field_id!r} is not the actor's to write here; ask an admin of the table"
            )


async def table_to_edit(tx: Transaction, workspace_id: str, table_id: str) -> VisibleTable:
    """The table as the actor sees it, for whom some way into it is an EDITOR's.

    Raises `NotFound` where it is out of sight, `NotPermitted` without such a way.
    """
    table = await rights.seen_table(tx, workspace_id, table_id)
    highest = max((way.role for way in table.ways), key=lambda role: RANK[role])
    rights.demand(highest, "editor", f"table {table_id!r}")
    return table


def own_way(table: VisibleTable) -> Way:
    """The way by the role on the table, which the caller has shown to be there."""
    way = table.own_way
    assert way is not None, "a role on the table"
    return way


# -- rows --------------------------------------------------------------------------------------


def columns(table: VisibleTable) -> list[ColumnElement[bool]]:
    """For each way, whether it holds a record: beside the other columns of a query."""
    if len(table.ways) == 1:
        return []  # a record in sight is held by it
    return [
        case((way_rows(table, way), true()), else_=false()).label(f"way_{n}")
        for n, way in enumerate(table.ways)
    ]


def ways_of(table: VisibleTable, row: Row[Any]) -> tuple[Way, ...]:
    """The ways that hold the record of `row`, which has `columns`."""
    if len(table.ways) == 1:
        return table.ways
    return tuple(way for n, way in enumerate(table.ways) if row._mapping[f"way_{n}"])


async def seen_records(
    tx: Transaction, table: VisibleTable, record_ids: Collection[str], *, lock: bool = False
) -> dict[str, SeenRecord]:
    """These live records. Raises `NotFound` for the first out of sight.

    Locked in the order of their ids, so that two batches do not wait for each other.
    """
    if not record_ids:
        return {}
    r = t.records.c
    query = (
        select(r.id, r.version, *columns(table))
        .where(rows.among(r.id, set(record_ids)), rows_of(table))
        .order_by(r.id)
    )
    found = await tx.connection.execute(query.with_for_update() if lock else query)
    seen = {row.id: SeenRecord(row.id, row.version, ways_of(table, row)) for row in found}
    for record_id in record_ids:
        if record_id not in seen:
            raise NotFound("record", record_id)
    return seen


async def own_records(
    tx: Transaction, table: VisibleTable, record_ids: Collection[str]
) -> dict[str, SeenRecord]:
    """These live records, locked, that the role on the table holds, and not a view alone."""
    seen = await seen_records(tx, table, record_ids, lock=True)
    for record in seen.values():
        if own_way(table) not in record.ways:
            raise NotPermitted(
                f"record {record.id!r} is in sight by a view alone; ask an admin of the table"
            )
    return seen
