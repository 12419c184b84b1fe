"""Records of a table: an EDITOR's, and of those only what is in the editor's own sight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue
from sqlalchemy import Row, select

from context_engine.access import VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.rows import rows_of
from context_engine.adapters.sql.services import cells_in_sight, fields, record_rows, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells import WRITTEN, FieldSpec, check_cells, users_in
from context_engine.adapters.sql.services.cells_in_sight import own_way
from context_engine.adapters.sql.services.links import write_links
from context_engine.adapters.sql.services.texts import bounded
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.errors import InvalidRequest

MOST = 1_000
"""Most records in one call, written or listed."""

Cells = Mapping[str, JsonValue]
"""Values by field id; in an update, None empties the cell."""


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be. `links`: the records that it links to, by link field."""

    cells: Cells
    links: Mapping[str, Sequence[str]] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record that the actor sees."""

    id: str
    version: int
    cells: dict[str, JsonValue]
    """Those in sight: a way in that holds the record shows their fields."""
    created_by: str | None


class Records(Service):
    async def list(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        limit: int = 20,
        after: str | None = None,
    ) -> Sequence[Record]:
        """At most `limit` records in the actor's sight, by id, `after` one of them."""
        if not 1 <= limit <= MOST:
            raise InvalidRequest(f"write a number from 1 to {MOST:,}", field="limit")
        r = t.records.c
        async with self._writer.transaction(actor_id) as tx:
            table = await rights.seen_table(tx, workspace_id, table_id)
            query = (
                select(t.records, *cells_in_sight.columns(table))
                .where(rows_of(table))
                .order_by(r.id)
                .limit(limit)
            )
            found = await tx.connection.execute(
                query if after is None else query.where(r.id > after)
            )
        return [_record(table, row) for row in found]

    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        cells: Cells,
        *,
        links: Mapping[str, Sequence[str]] | None = None,
        id: str | None = None,
    ) -> Written:
        new = NewRecord(cells, links or {}, id)
        (written,) = await self.create_many(actor_id, workspace_id, table_id, [new])
        return written

    async def create_many(
        self, actor_id: str, workspace_id: str, table_id: str, records: Sequence[NewRecord]
    ) -> tuple[Written, ...]:
        """Makes at most 1,000 records, all or none. The actor is who created them."""
        bounded(records, "records", most=MOST)
        here = (actor_id, workspace_id, table_id)
        ids = [self._writer.id_for(record.id, *here) for record in records]
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "editor")
            known = await _values(tx, table)
            checked = [record_rows.full(check_cells(known, record.cells)) for record in records]
            named = {id for record in records for id in (*record.cells, *record.links)}
            seen = {field.id for field in table.fields}
            cells_in_sight.demand_fields(own_way(table).writable, sorted(named & seen))
            await _check_users(tx, workspace_id, known, checked)
            new = zip(ids, checked, strict=True)
            await record_rows.insert_all(tx, workspace_id, table_id, new)
            for field_id, targets in _links_of(ids, records).items():
                await write_links(tx, workspace_id, table, field_id, targets)
            record_rows.tell(tx, workspace_id, table_id, ids, "created")
        return tuple(tx.written(id, 1) for id in ids)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        record_id: str,
        cells: Cells,
        *,
        expected_version: int | None = None,
    ) -> Written:
        """Writes the cells given, and leaves the others. None empties a cell."""
        expected = {} if expected_version is None else {record_id: expected_version}
        (written,) = await self.update_many(
            actor_id, workspace_id, table_id, {record_id: cells}, expected_versions=expected
        )
        return written

    async def update_many(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        changes: Mapping[str, Cells],
        *,
        expected_versions: Mapping[str, int] | None = None,
    ) -> tuple[Written, ...]:
        """Updates at most 1,000 records, all or none."""
        bounded(changes, "changes", most=MOST)
        expecting = expected_versions or {}
        if unchanged := expecting.keys() - changes.keys():
            raise InvalidRequest(
                f"{min(unchanged)!r} is not among the changes; leave it out",
                field="expectedVersions",
            )
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await cells_in_sight.table_to_edit(tx, workspace_id, table_id)
            seen = await cells_in_sight.seen_records(tx, table, changes, lock=True)
            for record_id, record in seen.items():
                rows.expect("record", record_id, record.version, expecting.get(record_id))
            known = await _values(tx, table)
            checked = {id: check_cells(known, cells) for id, cells in changes.items()}
            for id, cells in checked.items():
                seen[id].demand(sorted(cells))
            await _check_users(tx, workspace_id, known, list(checked.values()))
            if checked:
                await record_rows.write(tx, checked)
            written = sorted({field_id for cells in checked.values() for field_id in cells})
            record_rows.tell(tx, workspace_id, table_id, list(changes), "updated", tuple(written))
        return tuple(tx.written(id, seen[id].version + 1) for id in changes)

    async def delete(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        record_ids: Sequence[str],
        *,
        expected_version: int | None = None,
    ) -> tuple[Written, ...]:
        """Takes records out of sight; `restore` brings them back with their cells and links."""
        bounded(record_ids, "recordIds", most=MOST)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "editor")
            seen = await cells_in_sight.own_records(tx, table, record_ids)
            for record_id in record_ids:
                rows.expect("record", record_id, seen[record_id].version, expected_version)
            await record_rows.set_deleted(tx, record_ids, deleted=True)
            record_rows.tell(tx, workspace_id, table_id, list(record_ids), "deleted")
        return tuple(tx.written(id, seen[id].version + 1) for id in record_ids)

    async def restore(
        self, actor_id: str, workspace_id: str, table_id: str, record_ids: Sequence[str]
    ) -> tuple[Written, ...]:
        """Brings deleted records back that the actor's role on the table would show."""
        bounded(record_ids, "recordIds", most=MOST)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "editor")
            versions = await record_rows.deleted(tx, table, record_ids)
            await record_rows.set_deleted(tx, record_ids, deleted=False)
            record_rows.tell(tx, workspace_id, table_id, list(record_ids), "restored")
        return tuple(tx.written(id, versions[id] + 1) for id in record_ids)


def _record(table: VisibleTable, row: Row[Any]) -> Record:
    ways = cells_in_sight.ways_of(table, row)
    seen = frozenset[str]().union(*(way.field_ids for way in ways))
    cells = {id: value for id, value in row.cells.items() if id in seen}
    return Record(row.id, row.version, cells, row.created_by)


async def _values(tx: Transaction, table: VisibleTable) -> dict[str, FieldSpec]:
    """The fields in sight whose cells are values; links are written apart."""
    seen = {one.id for one in table.fields}
    known = await fields.specs(tx, table.id)
    return {id: spec for id, spec in known.items() if id in seen and spec.type in WRITTEN}


async def _check_users(
    tx: Transaction,
    workspace_id: str,
    known: Mapping[str, FieldSpec],
    batch: Sequence[Mapping[str, JsonValue]],
) -> None:
    named = frozenset[str]().union(*(users_in(known, cells) for cells in batch))
    await rows.active_members(tx, workspace_id, named, "cells")


def _links_of(
    ids: Sequence[str], records: Sequence[NewRecord]
) -> dict[str, dict[str, Sequence[str]]]:
    """By field, then by record: so each field's links are checked and written at once."""
    by_field: dict[str, dict[str, Sequence[str]]] = {}
    for id, record in zip(ids, records, strict=True):
        for field_id, targets in record.links.items():
            by_field.setdefault(field_id, {})[id] = targets
    return by_field
