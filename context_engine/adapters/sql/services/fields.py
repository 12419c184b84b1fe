"""Fields of a table: a BUILDER's. Link fields are made in `links`, and end here as all others."""

from __future__ import annotations

from sqlalchemy import delete, select

from context_engine.access import VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells import FieldSpec, check_options
from context_engine.adapters.sql.services.dependents import tell_field
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import RelationChanged
from context_engine.errors import Conflict, InvalidRequest, NotFound
from context_engine.models.base import JsonObject


class Fields(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        name: str,
        type: str,
        options: JsonObject | None = None,
        id: str | None = None,
    ) -> Written:
        """`options`: `choices` of a select or multi_select, `multiple` of a user field."""
        field_id = self._writer.id_for(id, actor_id, workspace_id, table_id)
        if type == "link":
            raise InvalidRequest("a link field is made by links.create", field="type")
        stored = check_options(type, options or {})
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.on_table(tx, workspace_id, table_id, "builder")
            if id is not None:
                await never_used(tx, table_id, field_id)
            await rows.add(
                tx,
                t.fields,
                id=field_id,
                workspace_id=workspace_id,
                table_id=table_id,
                name=rows.named(name),
                type=type,
                position=await rows.next_position(tx, t.fields, table_id),
                options=stored,
            )
            await tell_field(tx, workspace_id, table_id, field_id, "created")
        return tx.written(field_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        field_id: str,
        *,
        name: str | None = None,
        choices: list[str] | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """Renames a field, or changes a select's choices; cells keep what they hold.

        A field keeps its type: its cells would not be of the new one. Make another field.
        """
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "builder")
            _in_sight(table, field_id)
            spec = (await specs(tx, table_id)).get(field_id)
            if spec is None:
                raise NotFound("field", field_id)
            values = rows.only_given(name=None if name is None else rows.named(name))
            if choices is not None:
                checked = check_options(spec.type, {"choices": [*choices]})
                values["options"] = spec.options | checked
            key = {"table_id": table_id, "id": field_id}
            version = await rows.raise_version(tx, "field", t.fields, key, values, expected_version)
            await tell_field(tx, workspace_id, table_id, field_id, "updated")
        return tx.written(field_id, version)

    async def delete(
        self, actor_id: str, workspace_id: str, table_id: str, field_id: str
    ) -> Written:
        """Removes a field; a link's other side stays as a link of its own.

        A policy that names it denies from then on, a view that filters on it has no count, and
        what is computed from it is nobody's to see.
        """
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, "builder")
            _in_sight(table, field_id)
            f = t.fields
            found = await rows.find(tx, f, f.c.table_id == table_id, f.c.id == field_id)
            if found is None:
                raise NotFound("field", field_id)
            if found.primary:
                raise InvalidRequest(
                    "the primary field names the records and stays; rename it", field="fieldId"
                )
            await tx.connection.execute(delete(f).where(f.c.id == field_id))
            said = t.field_permissions
            await tx.connection.execute(delete(said).where(said.c.field_id == field_id))
            await tx.connection.execute(
                f.update()
                .where(f.c.workspace_id == workspace_id, f.c.linked_field_id == field_id)
                .values(linked_field_id=None, version=f.c.version + 1)
            )
            await tell_field(tx, workspace_id, table_id, field_id, "deleted")
            if found.linked_table_id is not None:
                tx.record(
                    RelationChanged(
                        workspace_id=workspace_id,
                        table_id=table_id,
                        field_id=field_id,
                        linked_table_id=found.linked_table_id,
                        linked_field_id=found.linked_field_id,
                        op="deleted",
                    )
                )
        return tx.written(field_id, found.version)


async def never_used(tx: Transaction, table_id: str, field_id: str) -> None:
    """The cells of a field that was removed stay, and would come back with its id: to people
    whom a permission kept from them, as values of another type."""
    r = t.records.c
    query = select(r.id).where(r.table_id == table_id, r.cells.has_key(field_id)).limit(1)
    if (await tx.connection.execute(query)).first() is not None:
        raise Conflict(f"the id {field_id!r} was another field's here; choose another")


def _in_sight(table: VisibleTable, field_id: str) -> None:
    """A field out of the actor's sight is as one that is missing.

    Not for an ADMIN of the table, who may see it whenever they like, and has to be able to remove
    one that nobody sees, since what it is made of is gone.
    """
    if rights.role_on(table) != "admin" and all(field.id != field_id for field in table.fields):
        raise NotFound("field", field_id)


async def specs(tx: Transaction, table_id: str) -> dict[str, FieldSpec]:
    """The fields of a table by id, links too."""
    f = t.fields.c
    query = select(f.id, f.type, f.options).where(f.table_id == table_id).order_by(f.position, f.id)
    found = await tx.connection.execute(query)
    return {row.id: FieldSpec(row.id, row.type, row.options) for row in found}
