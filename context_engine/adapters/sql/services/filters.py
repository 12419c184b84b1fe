"""What filters a view: told to whoever may change it, where all that it names is in their sight."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from pydantic import JsonValue

from context_engine import policy, view_filters
from context_engine.access import RANK, VisibleTable, VisibleView
from context_engine.adapters.sql.services import rights
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.errors import InvalidRequest
from context_engine.models.sections import Role
from context_engine.view_values import refs_read, tables_read

Reads = frozenset[tuple[str, str | None]]
"""Every (table, field or system column) that a filter reads; (table, None) where rows decide."""

COLUMNS = frozenset({"created_by", "updated_by", "created_at", "updated_at"})
"""What every record has, in sight with its table."""


def needed(ownership: str) -> Role:
    """The role on the table that it takes to change a view."""
    return "admin" if ownership == "restricted" else "builder"


async def told(tx: Transaction, workspace_id: str, table: VisibleTable) -> Mapping[str, JsonValue]:
    """By view, the filters of a table that may be told to the actor, as they are stored.

    One that cannot be read is not among them: `explain` tells operators of it.
    """
    mine = [view for view in table.views if _may_change(table, view)]
    reads = {view.facts.id: found for view in mine if (found := _reads(view, table)) is not None}
    others = {other for found in reads.values() for other, _ in found} - {table.id}
    seen = [table, *(await rights.tables_of(tx, workspace_id, sorted(others)) if others else ())]
    sight = {one.id: COLUMNS.union(field.id for field in one.fields) for one in seen}
    return {
        view.facts.id: deepcopy(view.facts.filter)  # a plain one, for the reader to change
        for view in mine
        if view.facts.id in reads and all(_seen(ref, sight) for ref in reads[view.facts.id])
    }


def _seen(ref: tuple[str, str | None], sight: Mapping[str, frozenset[str]]) -> bool:
    table, name = ref
    return table in sight and (name is None or name in sight[table])


def _may_change(table: VisibleTable, view: VisibleView) -> bool:
    return RANK[rights.role_on(table)] >= RANK[needed(view.facts.ownership)]


def _reads(view: VisibleView, table: VisibleTable) -> Reads | None:
    """None without a filter, and for one that cannot be read by who sees what this actor does."""
    raw = view.facts.filter
    leads = {field.id: field.linked_table_id for field in table.fields}
    try:
        if raw is None:
            return None
        if not view_filters.is_stored(raw):
            return policy.reads(policy.parse(raw), table.id, leads.get)
        found = tuple(view_filters.conditions(view_filters.parse(raw)))
    except (InvalidRequest, policy.Unresolvable):
        return None
    return frozenset(
        ref
        for one in found
        for ref in (
            (table.id, one.field),
            *refs_read(one.value, table.id),
            *((other, None) for other in tables_read(one.value)),
        )
    )
