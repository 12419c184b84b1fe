"""The driver's own connection, out of SQLAlchemy's pool: for the few statements of every build.

SQLAlchemy's layers cost a build more than the database does. They keep the pool, the schema and
everything that is written; what is fixed text is handed to the driver as it is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from sqlalchemy import PoolProxiedConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.util import greenlet_spawn

from context_engine.errors import Rejected

TIMELINE = "left(pg_walfile_name('0/1'), 8)"
"""The timeline that the server writes: a standby that is promoted begins another, at once, where
`pg_control_checkpoint()` tells of it only after the next checkpoint."""


class Reader(Protocol):
    """What runs a statement with the driver's places for values, `$1` and so on."""

    async def fetchrow(self, query: str, /, *values: object) -> Any:
        """The first row, or None."""

    async def execute(self, query: str, /) -> object:
        """Statements that give nothing and take no values, in one round trip."""


class Driver(Protocol):
    """As much as is used here of `asyncpg.Connection`, which comes without types."""

    async def fetchrow(self, query: str, /, *values: object) -> Any: ...

    async def execute(self, query: str, /, *values: object) -> str: ...

    def is_closed(self) -> bool: ...

    def is_in_transaction(self) -> bool: ...


class InTransaction:
    """`Reader` inside a transaction that SQLAlchemy began: it sees what that has written."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def fetchrow(self, query: str, /, *values: object) -> Any:
        return (await self._connection.exec_driver_sql(query, values)).first()

    async def execute(self, query: str, /) -> None:
        for statement in query.split(";"):
            await self._connection.exec_driver_sql(statement)


@asynccontextmanager
async def driver_of(engine: AsyncEngine) -> AsyncIterator[Driver]:
    """A connection of the pool as the driver has it, outside any transaction.

    One that the server has closed is replaced. One goes back to the pool only from work that
    ended in order, or in a refusal of ours: after anything else, a cancelled wait above all, the
    driver may hold it to be in a transaction, or out of one, where the server does not.
    """
    lent = await _lent(engine)
    driver, broken = _driver(lent), False
    try:
        yield driver
    except Rejected:
        raise
    except BaseException:
        broken = True
        raise
    finally:
        if broken or driver.is_closed() or driver.is_in_transaction():
            await greenlet_spawn(lent.invalidate)
        await greenlet_spawn(lent.close)


async def _lent(engine: AsyncEngine) -> PoolProxiedConnection:
    while True:
        lent = await engine.raw_connection()
        if not _driver(lent).is_closed():
            return lent
        await greenlet_spawn(lent.invalidate)
        await greenlet_spawn(lent.close)


def _driver(lent: PoolProxiedConnection) -> Driver:
    return cast("Driver", lent.driver_connection)
