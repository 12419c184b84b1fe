"""Evidence in PostgreSQL: what the engine told an agent, kept and cleaned up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, Text, cast, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.driver import driver_of
from context_engine.adapters.sql.faults import database_faults
from context_engine.errors import NotFound
from context_engine.ports import SUMMARY_START, SnapshotLine, SnapshotRecord

_SAVE = """
INSERT INTO snapshots (
    context_id, context_hash, workspace_id, user_id, scope_key, source, summary,
    context, compression, operator_trace, generated_at, request_id, trace_id)
VALUES (
    $1, $2, $3, $4, $5, $6, $7,
    $8::text::json, $9::text::jsonb, $10::text::jsonb, $11, $12, $13)
ON CONFLICT DO NOTHING
"""

_FIND: Select[Any] = select(
    *(column for column in t.snapshots.c if column.name != "context"),
    cast(t.snapshots.c.context, Text).label("context"),
)
"""The context is JSON already: it goes in and out as text, neither parsed nor written again."""

_LINES: Select[Any] = select(
    *(t.snapshots.c[one.name] for one in fields(SnapshotLine) if one.name != "summary"),
    func.left(t.snapshots.c.summary, SUMMARY_START).label("summary"),
)


class SqlSnapshots:
    """`Snapshots` on PostgreSQL. Saving the same context twice keeps the first."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        # One statement is its own transaction: no BEGIN and COMMIT to wait for.
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")

    async def save(self, record: SnapshotRecord) -> None:
        """One INSERT. Raises `Unavailable`."""
        values = (
            record.context_id,
            record.context_hash,
            record.workspace_id,
            record.user_id,
            record.scope_key,
            record.source,
            record.summary,
            record.context.decode(),
            json.dumps(record.compression),
            json.dumps(record.operator_trace),
            record.generated_at,
            record.request_id,
            record.trace_id,
        )
        async with database_faults(), driver_of(self._engine) as driver:
            await driver.execute(_SAVE, *values)

    async def get(self, context_id: str) -> SnapshotRecord | None:
        """One snapshot, or None. Raises `Unavailable`."""
        statement = _FIND.where(t.snapshots.c.context_id == context_id)
        async with database_faults(), self._single.connect() as connection:
            row = (await connection.execute(statement)).one_or_none()
        return _record(row) if row is not None else None

    async def list(
        self,
        workspace_id: str | None = None,
        *,
        user_id: str | None = None,
        since: datetime | None = None,
        before: str | None = None,
        limit: int = 20,
    ) -> Sequence[SnapshotLine]:
        """The newest snapshots, newest first, of one workspace and user or of all.

        `before` is a context id: the page goes on with what is older than it. Raises `NotFound`
        where there is no such snapshot (any more), `Unavailable`.
        """
        c = t.snapshots.c
        place = tuple_(c.generated_at, c.context_id)
        statement = _LINES.order_by(c.generated_at.desc(), c.context_id.desc()).limit(limit)
        for column, wanted in ((c.workspace_id, workspace_id), (c.user_id, user_id)):
            if wanted is not None:
                statement = statement.where(column == wanted)
        if since is not None:
            statement = statement.where(c.generated_at >= since)
        async with database_faults(), self._single.connect() as connection:
            if before is not None:
                at = select(c.generated_at).where(c.context_id == before)
                if (moment := (await connection.execute(at)).scalar_one_or_none()) is None:
                    raise NotFound("context", before)
                statement = statement.where(place < tuple_(moment, before))
            return [SnapshotLine(**row._mapping) for row in await connection.execute(statement)]

    async def clean(self, before: datetime, *, limit: int = 500) -> int:
        """Removes the oldest that were generated before, at most `limit`; how many.

        Two that clean at once do not wait for each other. Raises `Unavailable`.
        """
        oldest = (
            select(t.snapshots.c.context_id)
            .where(t.snapshots.c.generated_at < before)
            .order_by(t.snapshots.c.generated_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        statement = delete(t.snapshots).where(t.snapshots.c.context_id.in_(oldest))
        async with database_faults(), self._engine.begin() as connection:
            return (await connection.execute(statement)).rowcount


def _record(row: Row[Any]) -> SnapshotRecord:
    values = dict(row._mapping)
    return SnapshotRecord(**{**values, "context": values["context"].encode()})
