"""The database's connections: asyncpg, bounded in number and in time, on the primary only."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from context_engine.errors import Unavailable
from context_engine.settings import Settings

CONNECT_SECONDS = 5.0
"""Longest wait for a connection, to the server or out of the pool."""


def create_engine(settings: Settings) -> AsyncEngine:
    """An engine for `settings.database_url`; connects to nothing yet.

    Statements are bounded by the server. A connection to a replica is refused: what it lags
    behind would be served as fresh.
    """
    timeout_ms = int(settings.statement_timeout_seconds * 1000)
    engine = create_async_engine(
        settings.database_url.get_secret_value(),
        pool_size=settings.database_pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_use_lifo=True,
        connect_args={
            "timeout": CONNECT_SECONDS,
            "command_timeout": settings.statement_timeout_seconds + 2.0,
            "server_settings": {
                "application_name": "context-engine",
                "statement_timeout": str(timeout_ms),
                "idle_in_transaction_session_timeout": str(timeout_ms * 4),
                "jit": "off",
            },
        },
    )
    event.listen(engine.sync_engine, "connect", _refuse_replica)
    return engine


def _refuse_replica(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute("SELECT pg_is_in_recovery()")
        (in_recovery,) = cursor.fetchone()
    finally:
        cursor.close()
    if in_recovery:
        raise Unavailable(
            "database", "CONTEXT_DATABASE_URL leads to a replica; give the primary's address"
        )
