"""The outbox: written in the transaction of the change, read by relays that skip each other's rows.

Order is not promised, and not needed: a later number can commit first, and marks commute.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Row,
    any_,
    delete,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine import tracing
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.driver import TIMELINE
from context_engine.adapters.sql.faults import database_faults
from context_engine.changes import AnyChange, kind_of
from context_engine.errors import Unavailable
from context_engine.ports import OutboxRow, Unpublished

CHANNEL = "context_outbox"
"""PostgreSQL's channel that says: rows may have been committed."""

FIRST_RETRY_SECONDS = 5.0
LONGEST_RETRY_SECONDS = 600.0
"""How long a row that its topic refused is put off: twice as long each time."""
DOUBLINGS = 10
"""Enough to pass the longest; more would only be larger numbers."""
SECOND: ColumnElement[timedelta] = literal_column("interval '1 second'")


async def put(connection: AsyncConnection, changes: Sequence[AnyChange]) -> str | None:
    """Writes `changes` in the caller's transaction, and wakes relays when it commits.

    The timeline of the database that they were written to; None without any.
    """
    if not changes:
        return None
    await connection.execute(insert(t.outbox), [_values(change) for change in changes])
    wake = text(f"SELECT {TIMELINE}, pg_notify(:channel, '')")
    found = (await connection.execute(wake, {"channel": CHANNEL})).one()
    return str(found[0])


def _values(change: AnyChange) -> Mapping[str, object]:
    return {
        "id": change.change_id,
        "aggregatetype": kind_of(change),
        "aggregateid": change.workspace_id,
        "type": change.type,
        "payload": json.loads(change.model_dump_json(exclude_none=True)),
        "trace": dict(tracing.carrier()) or None,
    }


@dataclass(frozen=True, slots=True)
class _Batch:
    rows: Sequence[OutboxRow]
    connection: AsyncConnection

    async def published(self, ids: Sequence[str]) -> None:
        done = update(t.outbox).where(t.outbox.c.id.in_(ids)).values(published_at=func.now())
        async with database_faults():
            await self.connection.execute(done)

    async def refused(self, ids: Sequence[str]) -> None:
        o = t.outbox.c
        pause = FIRST_RETRY_SECONDS * func.power(2.0, func.least(o.attempts, DOUBLINGS))
        due = func.clock_timestamp() + func.least(pause, LONGEST_RETRY_SECONDS) * SECOND
        later = update(t.outbox).where(o.id.in_(ids)).values(attempts=o.attempts + 1, retry_at=due)
        async with database_faults():
            await self.connection.execute(later)


class SqlOutbox:
    """`OutboxSource` on PostgreSQL."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database
        self._listener: AsyncConnection | None = None
        self._woken = asyncio.Event()
        self._lost = False

    @asynccontextmanager
    async def claim(self, limit: int) -> AsyncIterator[_Batch]:
        due = or_(t.outbox.c.retry_at.is_(None), t.outbox.c.retry_at <= func.clock_timestamp())
        query = (
            select(t.outbox)
            .where(t.outbox.c.published_at.is_(None), due)
            .order_by(t.outbox.c.seq)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        # Only the database's own errors are the database's: the block may meet a broker's.
        async with database_faults():
            connection = await self._database.connect()
        try:
            async with database_faults():
                found = (await connection.execute(query)).all()
            yield _Batch([_row(row) for row in found], connection)
            async with database_faults():
                await connection.commit()
        finally:
            await connection.close()

    async def wait(self, timeout: float) -> bool:
        async with database_faults():
            if self._listener is None:
                await self._listen()
                return True  # what was committed before we listened woke nobody
        try:
            async with asyncio.timeout(timeout):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        if self._lost:
            await self.close()  # the next wait opens another
            raise Unavailable("database", "the connection that listens for changes was lost")
        return True

    async def unpublished(self, limit: int) -> Unpublished | None:
        """Without a lock: `SKIP LOCKED` sees nothing of what a relay that stands still holds."""
        o = t.outbox.c
        query = select(o.id, o.aggregateid, o.attempts).where(o.published_at.is_(None))
        async with database_faults(), self._database.connect() as connection:
            rows = (await connection.execute(query.limit(limit + 1))).all()
            timeline = (await connection.execute(text(f"SELECT {TIMELINE}"))).scalar_one()
        if len(rows) > limit:
            return None
        return Unpublished(
            ids=frozenset(str(row.id) for row in rows if not row.attempts),
            put_off=frozenset(row.aggregateid for row in rows if row.attempts),
            timeline=str(timeline),
        )

    async def all_published(self, ids: Collection[str]) -> bool:
        o = t.outbox.c
        wanted = o.id == any_(literal(list(ids), ARRAY(o.id.type)))
        query = select(o.id).where(wanted, o.published_at.is_(None)).limit(1)
        async with database_faults(), self._database.connect() as connection:
            return (await connection.execute(query)).first() is None

    async def clean(self, older_than: timedelta) -> int:
        old = t.outbox.c.published_at < func.now() - older_than
        async with database_faults(), self._database.begin() as connection:
            return (await connection.execute(delete(t.outbox).where(old))).rowcount

    async def lag(self) -> timedelta | None:
        age = func.clock_timestamp() - func.min(t.outbox.c.created_at)
        query = select(age).where(t.outbox.c.published_at.is_(None))
        async with database_faults(), self._database.connect() as connection:
            return cast("timedelta | None", (await connection.execute(query)).scalar_one())

    async def close(self) -> None:
        if (listener := self._listener) is not None:
            self._listener = None
            await listener.invalidate()  # a pooled connection must not go on listening
            await listener.close()

    async def _listen(self) -> None:
        connection = await self._database.connect()
        try:
            driver: Any = (await connection.get_raw_connection()).driver_connection  # asyncpg's own
            driver.add_termination_listener(self._end)
            await driver.add_listener(CHANNEL, self._wake)
        except BaseException:
            await connection.invalidate()
            await connection.close()
            raise
        self._listener, self._lost = connection, False

    def _wake(self, *_: object) -> None:
        self._woken.set()

    def _end(self, *_: object) -> None:
        """The connection is lost: whoever waits must not sleep through it."""
        self._lost = True
        self._woken.set()


def _row(row: Row[Any]) -> OutboxRow:
    payload = json.dumps(row.payload, ensure_ascii=False, separators=(",", ":"))
    return OutboxRow(
        id=str(row.id),
        workspace_id=row.aggregateid,
        kind=row.aggregatetype,
        type=row.type,
        payload=payload.encode(),
        written_at=row.created_at,
        trace=row.trace,
    )
