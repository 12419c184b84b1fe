"""Which tables have fields that are computed from a field, and the telling of its change."""

from __future__ import annotations

from sqlalchemy import Text, and_, func, literal, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.changes import MAX_IDS, FieldChanged, Op


async def tell_field(
    tx: Transaction, workspace_id: str, table_id: str, field_id: str, op: Op
) -> None:
    """Records the change of a field, which names all tables that depend on it, in as many changes
    as that takes. A new field may be one that others were made of before it was deleted."""
    others = await dependent_tables(tx, workspace_id, table_id, field_id)
    for start in range(0, max(len(others), 1), MAX_IDS):
        tx.record(
            FieldChanged(
                workspace_id=workspace_id,
                table_id=table_id,
                field_id=field_id,
                op=op,
                dependent_table_ids=tuple(others[start : start + MAX_IDS]),
            )
        )


async def dependent_tables(
    tx: Transaction, workspace_id: str, table_id: str, field_id: str
) -> list[str]:
    """Other tables with fields that are made of this one, at first hand or through others."""
    # A match may be too wide, never too narrow: containment does not ask for the order in a pair.
    start = (literal(table_id, Text).label("table_id"), literal(field_id, Text).label("field_id"))
    reached = select(*start).cte("reached", recursive=True)
    f = t.fields.c
    pair = func.jsonb_build_array(func.jsonb_build_array(reached.c.table_id, reached.c.field_id))
    made_of = and_(f.workspace_id == workspace_id, f.reads.op("@>")(pair))
    every = reached.union(select(f.table_id, f.id).join_from(reached, t.fields, made_of))
    query = select(every.c.table_id).distinct().where(every.c.table_id != table_id)
    return sorted((await tx.connection.execute(query)).scalars())
