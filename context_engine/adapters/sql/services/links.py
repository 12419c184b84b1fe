"""Links: fields that lead from a table to another, and which records they join.

A field with another side is stored on both, so that each reads alike and both change together.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from sqlalchemy import delete, func, insert, select, update

from context_engine.access import VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.rows import rows_of
from context_engine.adapters.sql.services import fields, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells_in_sight import seen_records, table_to_edit
from context_engine.adapters.sql.services.dependents import tell_field
from context_engine.adapters.sql.services.texts import bounded
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import (
    MAX_IDS,
    LinksChanged,
    RecordsChanged,
    RelationChanged,
)
from context_engine.errors import InvalidRequest, NotPermitted
from context_engine.facts import FieldFacts

MOST = 1_000
"""Most records whose links are set in one call."""
MOST_LINKS = 10_000
"""Most links of one field in one call."""

Targets = Mapping[str, Sequence[str]]
"""For each record, the records that it shall link to."""


class Links(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        name: str,
        linked_table_id: str,
        cardinality: str = "many",
        id: str | None = None,
        back_name: str | None = None,
        back_id: str | None = None,
    ) -> Written:
        """Makes a link field; `back_name` makes the field of the other side too.

        The other table must be in the actor's sight, and so in the same workspace.
        """
        if cardinality not in ("one", "many"):
            raise InvalidRequest("use one or many", field="cardinality")
        field_id = self._writer.id_for(id, actor_id, workspace_id, table_id)
        there = (actor_id, workspace_id, linked_table_id)
        other_id = None if back_name is None else self._writer.id_for(back_id, *there)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.on_table(tx, workspace_id, table_id, "builder")
            await rights.on_table(
                tx, workspace_id, linked_table_id, "viewer" if other_id is None else "builder"
            )
            if id is not None:
                await fields.never_used(tx, table_id, field_id)
            if other_id is not None and back_id is not None:
                await fields.never_used(tx, linked_table_id, other_id)
            near = (table_id, linked_table_id, other_id, cardinality)
            await _add_field(tx, workspace_id, field_id, name, *near)
            if other_id is not None and back_name is not None:
                back = (linked_table_id, table_id, field_id, "many")
                await _add_field(tx, workspace_id, other_id, back_name, *back)
        return tx.written(field_id, 1)

    async def set(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        field_id: str,
        record_id: str,
        linked_ids: Sequence[str],
    ) -> Written:
        """Replaces what one record links to. The answer is the record's."""
        (written,) = await self.set_many(
            actor_id, workspace_id, table_id, field_id, {record_id: linked_ids}
        )
        return written

    async def set_many(
        self, actor_id: str, workspace_id: str, table_id: str, field_id: str, targets: Targets
    ) -> tuple[Written, ...]:
        """Replaces what at most 1,000 records link to; all of them must be in the actor's sight."""
        bounded(targets, "targets", most=MOST)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            table = await table_to_edit(tx, workspace_id, table_id)
            seen = await seen_records(tx, table, targets, lock=True)
            link_field(table, field_id)
            for record in seen.values():
                record.demand((field_id,))
            await write_links(tx, workspace_id, table, field_id, targets)
            versions = await _touch(tx, targets)
            for chunk in chunks(list(targets)):
                tx.record(
                    RecordsChanged(
                        workspace_id=workspace_id,
                        table_id=table_id,
                        record_ids=chunk,
                        op="updated",
                        field_ids=(field_id,),
                    )
                )
        return tuple(tx.written(record_id, versions[record_id]) for record_id in targets)


async def _add_field(
    tx: Transaction,
    workspace_id: str,
    field_id: str,
    name: str,
    table_id: str,
    linked_table_id: str,
    linked_field_id: str | None,
    cardinality: str,
) -> None:
    await rows.add(
        tx,
        t.fields,
        id=field_id,
        workspace_id=workspace_id,
        table_id=table_id,
        name=rows.named(name),
        type="link",
        position=await rows.next_position(tx, t.fields, table_id),
        linked_table_id=linked_table_id,
        linked_field_id=linked_field_id,
        cardinality=cardinality,
    )
    await tell_field(tx, workspace_id, table_id, field_id, "created")
    tx.record(
        RelationChanged(
            workspace_id=workspace_id,
            table_id=table_id,
            field_id=field_id,
            linked_table_id=linked_table_id,
            linked_field_id=linked_field_id,
            op="created",
        )
    )


async def write_links(
    tx: Transaction, workspace_id: str, table: VisibleTable, field_id: str, targets: Targets
) -> None:
    """Replaces the links of the records of `table`, whose cells in the field the caller has shown
    to be the actor's to write.

    Links that lead out of the actor's sight stay, unless the field takes one only.
    """
    field = link_field(table, field_id)
    linked_table_id = cast("str", field.linked_table_id)
    wanted = {record: list(dict.fromkeys(to)) for record, to in targets.items()}
    if sum(map(len, wanted.values())) > MOST_LINKS:
        raise InvalidRequest(
            f"more than {MOST_LINKS:,} links; send several calls", field=f"links.{field_id}"
        )
    if field.cardinality == "one" and any(len(to) > 1 for to in wanted.values()):
        raise InvalidRequest("takes one record; link to one", field=f"links.{field_id}")
    linked = await rights.table_in_sight(tx, workspace_id, linked_table_id)
    if linked is None:  # its id is not told
        raise NotPermitted(f"link field {field_id!r} leads out of the actor's sight")
    joined = dict.fromkeys(to for ids in wanted.values() for to in ids)
    await seen_records(tx, linked, joined)
    back = field.linked_field_id
    await _remove(tx, field_id, back, wanted, None if field.cardinality == "one" else linked)
    pairs = [(record, to) for record, ids in wanted.items() for to in ids]
    values = [_link(workspace_id, field_id, a, b) for a, b in pairs]
    if back is not None:
        values += [_link(workspace_id, back, b, a) for a, b in pairs]
    if values:
        await tx.connection.execute(insert(t.links), values)
    for chunk in chunks([*wanted, *sorted(joined.keys() - wanted.keys())]):
        tx.record(
            LinksChanged(
                workspace_id=workspace_id,
                table_id=table.id,
                field_id=field_id,
                linked_table_id=linked_table_id,
                linked_field_id=back,
                record_ids=chunk,
            )
        )


def _link(workspace_id: str, field_id: str, a: str, b: str) -> dict[str, str]:
    return {
        "field_id": field_id,
        "from_record_id": a,
        "to_record_id": b,
        "workspace_id": workspace_id,
    }


async def _remove(
    tx: Transaction,
    field_id: str,
    back: str | None,
    record_ids: Collection[str],
    within: VisibleTable | None,
) -> None:
    """Removes the links of these records, on both sides; `within`: those to rows in sight alone."""
    links, ids = t.links.c, list(record_ids)
    sides = [(field_id, links.from_record_id, links.to_record_id)]
    if back is not None:
        sides.append((back, links.to_record_id, links.from_record_id))
    for side, near, far in sides:
        gone = delete(t.links).where(links.field_id == side, rows.among(near, ids))
        if within is not None:
            gone = gone.where(far.in_(select(t.records.c.id).where(rows_of(within))))
        await tx.connection.execute(gone)


def link_field(table: VisibleTable, field_id: str) -> FieldFacts:
    """A link field in sight. Raises `InvalidRequest`."""
    for field in table.fields:
        if field.id == field_id and field.linked_table_id is not None:
            return field
    raise InvalidRequest(
        f"table {table.id!r} has no link field {field_id!r}; leave it out", field="links"
    )


async def _touch(tx: Transaction, record_ids: Collection[str]) -> dict[str, int]:
    r = t.records.c
    changed = await tx.connection.execute(
        update(t.records)
        .where(rows.among(r.id, record_ids))
        .values(version=r.version + 1, updated_by=tx.actor_id, updated_at=func.now())
        .returning(r.id, r.version)
    )
    return {row.id: row.version for row in changed}


def chunks(ids: Sequence[str]) -> list[tuple[str, ...]]:
    """Ids in the portions that one change takes; one empty portion for none."""
    return [tuple(ids[start : start + MAX_IDS]) for start in range(0, max(len(ids), 1), MAX_IDS)]
