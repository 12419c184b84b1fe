"""The statements by which records are written, and the telling of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import JsonValue
from sqlalchemy import Text, and_, bindparam, func, insert, select, update
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from context_engine.access import VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.rows import held_by
from context_engine.adapters.sql.services import rows
from context_engine.adapters.sql.services.cells_in_sight import own_way
from context_engine.adapters.sql.services.links import chunks
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.changes import RecordsChanged
from context_engine.errors import NotFound

Op = Literal["created", "updated", "deleted", "restored"]


async def insert_all(
    tx: Transaction,
    workspace_id: str,
    table_id: str,
    records: Iterable[tuple[str, Mapping[str, JsonValue]]],
) -> None:
    """Makes records, each an id with cells. The actor is who created them."""
    new = [
        {
            "id": id,
            "workspace_id": workspace_id,
            "table_id": table_id,
            "cells": its,
            "created_by": tx.actor_id,
            "updated_by": tx.actor_id,
        }
        for id, its in records
    ]
    if new:
        await tx.connection.execute(insert(t.records), new)


async def write(tx: Transaction, checked: Mapping[str, Mapping[str, JsonValue]]) -> None:
    """Writes the cells given, by record; None empties one."""
    r = t.records.c
    merged = r.cells.op("||")(bindparam("full", type_=JSONB))
    statement = (
        update(t.records)
        .where(r.id == bindparam("record"))
        .values(
            cells=merged.op("-")(bindparam("emptied", type_=ARRAY(Text))),
            version=r.version + 1,
            updated_by=tx.actor_id,
            updated_at=func.now(),
        )
    )
    batch = [
        {
            "record": id,
            "full": full(cells),
            "emptied": [name for name, value in cells.items() if value is None],
        }
        for id, cells in checked.items()
    ]
    await tx.connection.execute(statement, batch)


def full(cells: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The cells that hold something: an empty one is not stored."""
    return {id: value for id, value in cells.items() if value is not None}


async def deleted(
    tx: Transaction, table: VisibleTable, record_ids: Sequence[str]
) -> dict[str, int]:
    """The versions of these deleted records, locked, that the role on the table would show.

    Raises `NotFound` for the first that is none.
    """
    r = t.records.c
    gone = and_(r.table_id == table.id, r.deleted_at.is_not(None), held_by(own_way(table)))
    query = select(r.id, r.version).where(rows.among(r.id, record_ids), gone).order_by(r.id)
    found = await tx.connection.execute(query.with_for_update())
    versions: dict[str, int] = {row.id: row.version for row in found}
    for record_id in record_ids:
        if record_id not in versions:
            raise NotFound("record", record_id)
    return versions


async def set_deleted(tx: Transaction, record_ids: Sequence[str], *, deleted: bool) -> None:
    r = t.records.c
    await tx.connection.execute(
        update(t.records)
        .where(rows.among(r.id, record_ids))
        .values(
            deleted_at=func.now() if deleted else None,
            version=r.version + 1,
            updated_by=tx.actor_id,
            updated_at=func.now(),
        )
    )


def tell(
    tx: Transaction,
    workspace_id: str,
    table_id: str,
    record_ids: Sequence[str],
    op: Op,
    field_ids: tuple[str, ...] | None = None,
) -> None:
    for chunk in chunks(record_ids) if record_ids else ():
        tx.record(
            RecordsChanged(
                workspace_id=workspace_id,
                table_id=table_id,
                record_ids=chunk,
                op=op,
                field_ids=field_ids,
            )
        )
