"""Brings a database to this version's schema, by alembic, over the application's own driver."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from context_engine.adapters.sql.engine import CONNECT_SECONDS, on_primary
from context_engine.adapters.sql.faults import database_faults
from context_engine.errors import Unavailable

MIGRATIONS = Path(__file__).parent / "migrations"

LOCK = 4_021_776_001
"""Advisory lock that lets one process migrate at a time; any number, always this one."""

WAIT_SECONDS = 60
"""Longest wait for another process that migrates."""


async def upgrade(url: str) -> None:
    """Runs the migrations that are missing; two processes at once take turns.

    Every connection is closed on return. Raises `Unavailable` when the database is away, when
    another process migrates for longer than `WAIT_SECONDS`, or where a later version has migrated.
    """
    bounds = {"timeout": CONNECT_SECONDS, "server_settings": {"lock_timeout": f"{WAIT_SECONDS}s"}}
    engine = on_primary(create_async_engine(url, poolclass=NullPool, connect_args=bounds))
    try:
        async with database_faults(), engine.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
            await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    _refuse_later(connection, ScriptDirectory.from_config(config))
    command.upgrade(config, "head")


def _refuse_later(connection: Connection, ours: ScriptDirectory) -> None:
    known = {script.revision for script in ours.walk_revisions()}
    for revision in MigrationContext.configure(connection).get_current_heads():
        if revision not in known:
            raise Unavailable(
                "database",
                f"its schema, {revision}, is of a later version than this one; install that",
            )
