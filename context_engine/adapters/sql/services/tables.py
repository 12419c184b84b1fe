"""Tables of a workspace: a BUILDER's to make, name, trash and restore."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import JsonValue
from sqlalchemy import func, select, update

from context_engine.access import RANK, VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import fields, filters, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells import FieldSpec
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import TableChanged
from context_engine.errors import NotFound

Op = Literal["created", "renamed", "trashed", "restored"]


@dataclass(frozen=True, slots=True)
class TableShape:
    """A table as the actor sees it, and what decides on the cells of each field in sight."""

    table: VisibleTable
    fields: tuple[FieldSpec, ...]
    filters: Mapping[str, JsonValue]
    """The filters of its views that the actor may change and sees every word of, by view."""

    @property
    def names(self) -> dict[str, str]:
        """The names of the fields, by id."""
        return {field.id: field.name for field in self.table.fields}


class Tables(Service):
    async def list(self, actor_id: str, workspace_id: str) -> Sequence[VisibleTable]:
        """The tables in the actor's sight, in table order."""
        async with self._writer.transaction(actor_id) as tx:
            return await rights.tables_in_sight(tx, workspace_id)

    async def show(self, actor_id: str, workspace_id: str, table_id: str) -> TableShape:
        """What the actor sees of a table: fields with types and options, views. No records."""
        async with self._writer.transaction(actor_id) as tx:
            (table,) = (await rights.scope(tx, workspace_id, table_ids=(table_id,))).tables
            known = await fields.specs(tx, table_id)
            told = await filters.told(tx, workspace_id, table)
        return TableShape(table, tuple(_shown(known[field.id]) for field in table.fields), told)

    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        name: str,
        id: str | None = None,
        primary_id: str | None = None,
        primary_name: str = "Name",
    ) -> Written:
        """Makes a table with its primary field, a text that names each record."""
        table_id = self._writer.id_for(id, actor_id, workspace_id)
        field_id = self._writer.id_for(primary_id, actor_id, workspace_id, table_id)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder")
            count = select(func.count()).where(t.tables.c.workspace_id == workspace_id)
            await rows.add(
                tx,
                t.tables,
                id=table_id,
                workspace_id=workspace_id,
                name=rows.named(name),
                position=(await tx.connection.execute(count)).scalar_one(),
            )
            await rows.add(
                tx,
                t.fields,
                id=field_id,
                workspace_id=workspace_id,
                table_id=table_id,
                name=rows.named(primary_name, "primaryName"),
                type="text",
                primary=True,
            )
            _tell(tx, workspace_id, table_id, "created")
        return tx.written(table_id, 1)

    async def rename(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        name: str,
        expected_version: int | None = None,
    ) -> Written:
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.on_table(tx, workspace_id, table_id, "builder")
            version = await self._raise(
                tx, workspace_id, table_id, {"name": rows.named(name)}, expected_version
            )
            _tell(tx, workspace_id, table_id, "renamed")
        return tx.written(table_id, version)

    async def trash(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        expected_version: int | None = None,
    ) -> Written:
        """Takes a table out of everyone's sight; `restore` brings it back with its grants."""
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.on_table(tx, workspace_id, table_id, "builder")
            version = await self._raise(
                tx, workspace_id, table_id, {"trashed": True}, expected_version
            )
            _tell(tx, workspace_id, table_id, "trashed")
        return tx.written(table_id, version)

    async def restore(self, actor_id: str, workspace_id: str, table_id: str) -> Written:
        """Takes the rights that the actor will have on the table once it is back.

        For who has them not, a trashed table is as one that is missing.
        """
        table = t.tables
        here = (table.c.workspace_id == workspace_id, table.c.id == table_id)
        back = update(table).where(*here).values(trashed=False, version=table.c.version + 1)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            before = await rows.find(tx, table, *here, lock=True)
            await tx.connection.execute(back)  # grants on it are told of only once it is live
            await rights.scope(tx, workspace_id)
            held = await rights.own_role(tx, workspace_id, table_id)
            if (
                before is None
                or held == "none"
                or (before.trashed and RANK[held] < RANK["builder"])
            ):
                raise NotFound("table", table_id)
            rights.demand(held, "builder", f"table {table_id!r}")
            _tell(tx, workspace_id, table_id, "restored")
        return tx.written(table_id, before.version + 1)

    @staticmethod
    async def _raise(
        tx: Transaction,
        workspace_id: str,
        table_id: str,
        values: Mapping[str, object],
        expected_version: int | None,
    ) -> int:
        key = {"workspace_id": workspace_id, "id": table_id}
        return await rows.raise_version(tx, "table", t.tables, key, values, expected_version)


SHOWN = ("choices", "multiple")
"""Options that say which values a field takes. Others, kept of a file, may name other fields."""


def _shown(spec: FieldSpec) -> FieldSpec:
    return FieldSpec(spec.id, spec.type, {n: v for n, v in spec.options.items() if n in SHOWN})


def _tell(tx: Transaction, workspace_id: str, table_id: str, op: Op) -> None:
    tx.record(TableChanged(workspace_id=workspace_id, table_id=table_id, op=op))
