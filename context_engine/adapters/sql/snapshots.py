"""Evidence in PostgreSQL: what the engine told an agent, kept and cleaned up."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.faults import database_faults
from context_engine.ports import SnapshotRecord


class SqlSnapshots:
    """`Snapshots` on PostgreSQL. Saving the same context twice keeps the first."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def save(self, record: SnapshotRecord) -> None:
        """One INSERT. Raises `Unavailable`."""
        values = {
            "context_id": record.context_id,
            "context_hash": record.context_hash,
            "workspace_id": record.workspace_id,
            "user_id": record.user_id,
            "scope_key": record.scope_key,
            "source": record.source,
            "summary": record.summary,
            "context": json.loads(record.context),
            "compression": record.compression,
            "operator_trace": record.operator_trace,
            "generated_at": record.generated_at,
            "request_id": record.request_id,
            "trace_id": record.trace_id,
        }
        statement = insert(t.snapshots).on_conflict_do_nothing()
        async with database_faults(), self._engine.begin() as connection:
            await connection.execute(statement, values)

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None. Raises `Unavailable`."""
        statement = select(t.snapshots).where(t.snapshots.c.context_id == context_id)
        async with database_faults(), self._engine.connect() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return _record(row) if row is not None else None

    async def latest(self, workspace_id: str, limit: int = 20) -> list[SnapshotRecord]:
        """The newest snapshots of a workspace, newest first. Raises `Unavailable`."""
        statement = (
            select(t.snapshots)
            .where(t.snapshots.c.workspace_id == workspace_id)
            .order_by(t.snapshots.c.generated_at.desc())
            .limit(limit)
        )
        async with database_faults(), self._engine.connect() as connection:
            return [_record(row) for row in await connection.execute(statement)]

    async def clean(self, before: datetime) -> int:
        """Removes what was generated before; returns how many. Raises `Unavailable`."""
        statement = delete(t.snapshots).where(t.snapshots.c.generated_at < before)
        async with database_faults(), self._engine.begin() as connection:
            return (await connection.execute(statement)).rowcount


def _record(row: Row[Any]) -> SnapshotRecord:
    values = dict(row._mapping)
    values["context"] = json.dumps(values["context"], ensure_ascii=False).encode()
    return SnapshotRecord(**values)
