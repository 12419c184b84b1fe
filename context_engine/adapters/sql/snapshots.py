"""Evidence in PostgreSQL: what the engine told an agent, kept and cleaned up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, Text, bindparam, cast, delete, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.faults import database_faults
from context_engine.ports import SnapshotRecord

_SAVE = text(
    """
INSERT INTO snapshots (
    context_id, context_hash, workspace_id, user_id, scope_key, source, summary,
    context, compression, operator_trace, generated_at, request_id, trace_id)
VALUES (
    :context_id, :context_hash, :workspace_id, :user_id, :scope_key, :source, :summary,
    CAST(:context AS json), CAST(:compression AS jsonb), CAST(:operator_trace AS jsonb),
    :generated_at, :request_id, :trace_id)
ON CONFLICT DO NOTHING
"""
).bindparams(
    *(
        bindparam(name, type_=Text)
        for name in ("context", "compression", "operator_trace", "request_id", "trace_id")
    )
)

_FIND: Select[Any] = select(
    *(column for column in t.snapshots.c if column.name != "context"),
    cast(t.snapshots.c.context, Text).label("context"),
)
"""The context is JSON already: it goes in and out as text, neither parsed nor written again."""


class SqlSnapshots:
    """`Snapshots` on PostgreSQL. Saving the same context twice keeps the first."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # One statement is its own transaction: no BEGIN and COMMIT to wait for.
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")

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
            "context": record.context.decode(),
            "compression": json.dumps(record.compression),
            "operator_trace": json.dumps(record.operator_trace),
            "generated_at": record.generated_at,
            "request_id": record.request_id,
            "trace_id": record.trace_id,
        }
        async with database_faults(), self._single.connect() as connection:
            await connection.execute(_SAVE, values)

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None. Raises `Unavailable`."""
        statement = _FIND.where(t.snapshots.c.context_id == context_id)
        async with database_faults(), self._single.connect() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return _record(row) if row is not None else None

    async def list(self, workspace_id: str, limit: int = 20) -> Sequence[SnapshotRecord]:
        """The newest snapshots of a workspace, newest first. Raises `Unavailable`."""
        statement = (
            _FIND.where(t.snapshots.c.workspace_id == workspace_id)
            .order_by(t.snapshots.c.generated_at.desc(), t.snapshots.c.context_id)
            .limit(limit)
        )
        async with database_faults(), self._single.connect() as connection:
            return [_record(row) for row in await connection.execute(statement)]

    async def clean(self, before: datetime) -> int:
        """Removes what was generated before; returns how many. Raises `Unavailable`."""
        statement = delete(t.snapshots).where(t.snapshots.c.generated_at < before)
        async with database_faults(), self._engine.begin() as connection:
            return (await connection.execute(statement)).rowcount


def _record(row: Row[Any]) -> SnapshotRecord:
    values = dict(row._mapping)
    return SnapshotRecord(**{**values, "context": values["context"].encode()})
