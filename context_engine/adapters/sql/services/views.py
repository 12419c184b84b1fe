"""Views of a table: a BUILDER's; restricted ones are an ADMIN's, for they draw a boundary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import JsonValue
from pydantic.alias_generators import to_camel
from sqlalchemy import delete

from context_engine import policy
from context_engine.access import VisibleTable, VisibleView
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import grants, rights, rows, rules
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.filters import needed
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import Op, PolicyChanged, ViewChanged
from context_engine.errors import InvalidRequest, NotFound

OWNERSHIPS = ("collaborative", "personal", "restricted")
NO_FILTER = True
"""In an update: the view shows all rows."""


class Views(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        *,
        name: str,
        type: str = "grid",
        ownership: str = "collaborative",
        filter: JsonValue = None,
        hidden: Sequence[str] = (),
        field_order: Sequence[str] = (),
        id: str | None = None,
    ) -> Written:
        """`filter` is a predicate of the policy grammar, None for all rows.

        A personal view is its maker's alone. A restricted one is seen by ADMINs and by whom a
        grant on it lets in.
        """
        view_id = self._writer.id_for(id, actor_id, workspace_id, table_id)
        if ownership not in OWNERSHIPS:
            raise InvalidRequest(f"use one of {', '.join(OWNERSHIPS)}", field="ownership")
        exclusive = ownership == "restricted"  # it draws a boundary: a change of access
        async with self._writer.transaction(actor_id, workspace_id, exclusive=exclusive) as tx:
            table = await rights.on_table(tx, workspace_id, table_id, needed(ownership))
            await rows.add(
                tx,
                t.views,
                id=view_id,
                workspace_id=workspace_id,
                table_id=table_id,
                name=rows.named(name),
                type=rows.named(type, "type"),
                ownership=ownership,
                owner_id=actor_id,
                position=await rows.next_position(tx, t.views, table_id),
                filter=await check_filter(tx, workspace_id, table, filter),
                hidden=_of_table(table, hidden, "hidden"),
                field_order=_of_table(table, field_order, "fieldOrder"),
            )
            _tell(tx, workspace_id, table_id, view_id, "created", ownership)
        return tx.written(view_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        view_id: str,
        *,
        name: str | None = None,
        type: str | None = None,
        filter: JsonValue = None,
        hidden: Sequence[str] | None = None,
        field_order: Sequence[str] | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """None stays; the filter `true` (NO_FILTER) lifts the one that was there.

        Fields out of the actor's sight stay hidden, and in order after those given.
        """
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            table, view = await _seen(tx, workspace_id, table_id, view_id)
            values = rows.only_given(
                name=None if name is None else rows.named(name),
                type=None if type is None else rows.named(type, "type"),
            )
            for column, given, stored in (
                ("hidden", hidden, view.facts.hidden),
                ("field_order", field_order, view.facts.field_order),
            ):
                if given is not None:
                    values[column] = [
                        *_of_table(table, given, to_camel(column)), *_unseen(table, stored)
                    ]  # fmt: skip
            if filter is not None:
                checked = None if filter is True else filter
                values["filter"] = await check_filter(tx, workspace_id, table, checked)
            key = {"table_id": table_id, "id": view_id}
            version = await rows.raise_version(tx, "view", t.views, key, values, expected_version)
            _tell(tx, workspace_id, table_id, view_id, "updated", view.facts.ownership)
        return tx.written(view_id, version)

    async def delete(
        self, actor_id: str, workspace_id: str, table_id: str, view_id: str
    ) -> Written:
        """Removes a view with the grants on it."""
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            _, view = await _seen(tx, workspace_id, table_id, view_id)
            await grants.forget(tx, workspace_id, "view", view_id)
            gone = await tx.connection.execute(
                delete(t.views).where(t.views.c.id == view_id).returning(t.views.c.version)
            )
            _tell(tx, workspace_id, table_id, view_id, "deleted", view.facts.ownership)
            version = gone.scalar_one()
        return tx.written(view_id, version)


async def check_filter(
    tx: Transaction, workspace_id: str, table: VisibleTable, raw: JsonValue
) -> JsonValue:
    """The filter as stored. Raises `InvalidRequest` for what could not be computed, and for what
    the actor does not see, as if it were missing."""
    if raw is None:
        return None
    try:
        pred = policy.parse(raw)
    except InvalidRequest as fault:
        raise InvalidRequest(fault.message, field="filter") from fault
    seen = await rules.seen_fields(tx, workspace_id, table, [pred])
    return policy.dump(policy.check_predicate(pred, table.id, seen.get, "filter"))


def _of_table(table: VisibleTable, field_ids: Iterable[str], place: str) -> list[str]:
    known = {field.id for field in table.fields}
    listed = list(dict.fromkeys(field_ids))
    for field_id in listed:
        if field_id not in known:
            raise InvalidRequest(
                f"table {table.id!r} has no field {field_id!r}; leave it out", field=place
            )
    return listed


def _unseen(table: VisibleTable, field_ids: Iterable[str]) -> list[str]:
    """Those of a view's fields that the actor cannot name, and so can neither show nor move."""
    seen = {field.id for field in table.fields}
    return [field_id for field_id in field_ids if field_id not in seen]


async def _seen(
    tx: Transaction, workspace_id: str, table_id: str, view_id: str
) -> tuple[VisibleTable, VisibleView]:
    table = await rights.on_table(tx, workspace_id, table_id, "viewer")
    for view in table.views:
        if view.facts.id == view_id:
            rights.demand(
                rights.role_on(table), needed(view.facts.ownership), f"table {table_id!r}"
            )
            return table, view
    raise NotFound("view", view_id)


def _tell(
    tx: Transaction, workspace_id: str, table_id: str, view_id: str, op: Op, ownership: str
) -> None:
    tx.record(ViewChanged(workspace_id=workspace_id, table_id=table_id, view_id=view_id, op=op))
    if ownership == "restricted":  # what it shows is a boundary, so this is a change of access
        tx.record(PolicyChanged(workspace_id=workspace_id, table_id=table_id, op=op))
