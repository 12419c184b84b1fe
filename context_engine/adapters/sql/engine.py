"""The database's connections: asyncpg, bounded in number and in time, on the primary only."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import event
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from context_engine.errors import Unavailable
from context_engine.settings import Settings

CONNECT_SECONDS = 5.0
"""Longest wait for a connection, to the server or out of the pool."""

SERVER_SETTINGS = {
    "application_name": "context-engine",
    "TimeZone": "UTC",  # times are read as JSON text, which must not depend on the server
    "jit": "off",  # compiling takes longer than any statement here
    "plan_cache_mode": "force_generic_plan",  # by keys; undone by `table_facts.TABLES`
}


STATEMENTS = {"statement_cache_size": 50, "max_cacheable_statement_size": 32 * 1024}
"""What the driver keeps prepared on each connection. By default it keeps 100 of at most 15 kB: the
counts of many tables under rules are longer, and reading their text again takes as long as a
statement."""


def create_engine(settings: Settings) -> AsyncEngine:
    """An engine for `settings.database_url`; connects to nothing yet.

    Statements are bounded by the server. A connection to a replica is refused: what it lags
    behind would be served as fresh. Who gets no connection gets `Unavailable`, naming host and
    port.
    """
    timeout_ms = int(settings.statement_timeout_seconds * 1000)
    engine = create_async_engine(
        settings.database_url.get_secret_value(),
        hide_parameters=True,  # its errors reach the logs, where nobody's data belongs
        pool_size=settings.database_pool_size,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_use_lifo=True,
        connect_args={
            **STATEMENTS,
            "timeout": CONNECT_SECONDS,
            "command_timeout": settings.statement_timeout_seconds + 2.0,
            "server_settings": {
                **SERVER_SETTINGS,
                "statement_timeout": str(timeout_ms),
                "idle_in_transaction_session_timeout": str(timeout_ms * 4),
            },
        },
    )
    return on_primary(engine)


def on_primary(engine: AsyncEngine) -> AsyncEngine:
    """`engine`, whose connections fail clearly, and never lead to a replica."""
    event.listen(engine.sync_engine, "do_connect", _connect)
    return engine


def _connect(
    dialect: Dialect, _record: object, arguments: Any, options: dict[str, Any]
) -> DBAPIConnection:
    where = (
        f"{options.get('host') or 'localhost'}:{options.get('port') or 5432}"
        f"/{options.get('database') or ''}"
    )
    try:
        connection: Any = dialect.connect(*arguments, **options)
    except TimeoutError as error:
        raise Unavailable("database", f"{where} did not answer in time") from error
    except OSError as error:
        raise Unavailable(
            "database",
            f"nobody answers at {where}; start PostgreSQL, or set CONTEXT_DATABASE_URL",
        ) from error
    except dialect.loaded_dbapi.Error as error:
        raise Unavailable("database", f"{where} refuses: {error}") from error
    try:
        in_recovery = connection.run_async(lambda raw: raw.fetchval("SELECT pg_is_in_recovery()"))
    except BaseException:
        connection.terminate()  # not in the pool yet: nobody else would close it
        raise
    if in_recovery:
        connection.terminate()
        raise Unavailable(
            "database",
            f"{where} is a replica; set CONTEXT_DATABASE_URL to the primary's address",
        )
    return cast("DBAPIConnection", connection)
