"""The database itself: its schema, who may connect to it and how that fails, and the evidence."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, make_url, select, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from context_engine.adapters.sql import migrate
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.adapters.sql.tables import metadata
from context_engine.errors import Unavailable
from context_engine.ports import SnapshotRecord
from context_engine.settings import Settings
from tests.support.stack import Databases, postgres_part, stand_by
from tests.support.world import SECRET, Statements
from workers.localstack import LocalStack

CATALOG = """
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'column', table_name, column_name, concat_ws(' ', udt_name, is_nullable,
    column_default, identity_generation) FROM information_schema.columns
    WHERE table_schema = 'public'
"""


def settings(url: str, **more: Any) -> Settings:
    return Settings.model_validate({"database_url": url, "tag_secret": SECRET, **more})


@pytest.fixture
async def bare_url(stack: LocalStack, databases: Databases) -> AsyncIterator[str]:
    """A database without any table."""
    server = create_async_engine(
        stack.database_url, poolclass=NullPool, isolation_level="AUTOCOMMIT"
    )
    async with server.connect() as connection:
        await connection.execute(text("CREATE DATABASE bare"))
    yield databases.url("bare")
    await databases.drop(databases.url("bare"))
    await server.dispose()


# -- the schema --------------------------------------------------------------------------------


async def test_the_migrations_make_what_the_tables_say(
    database: AsyncEngine, bare_url: str
) -> None:
    """No difference to alembic, nor in any constraint, index, column or default."""

    def compared(connection: Connection) -> list[Any]:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return list(compare_metadata(context, metadata))

    bare = create_async_engine(bare_url, poolclass=NullPool)
    async with bare.begin() as connection:
        await connection.run_sync(metadata.create_all)
        wanted = {tuple(row) for row in await connection.execute(text(CATALOG))}
    async with database.connect() as connection:
        assert await connection.run_sync(compared) == []
        found = {tuple(row) for row in await connection.execute(text(CATALOG))}
    assert {row for row in found if row[1] != "alembic_version"} == wanted


async def test_a_conversations_size_is_counted_again_without_results(bare_url: str) -> None:
    """Once it counted what tools found too; an upgrade leaves what was written."""
    bare = create_async_engine(bare_url, poolclass=NullPool)
    config = Config()
    config.set_main_option("script_location", str(migrate.MIGRATIONS))

    def to(connection: Connection, revision: str) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    sizes = (("user", 5), ("tool", 900), ("assistant", 7))
    async with bare.begin() as connection:
        await connection.run_sync(to, "0004")
        await connection.execute(insert(t.workspaces), {"id": "w", "name": "W"})
        talks = [{"id": id, "workspace_id": "w", "title": "t", "total_chars": 912} for id in "ab"]
        await connection.execute(insert(t.conversations), talks)
        for number, (role, chars) in enumerate(sizes):
            said = {"id": f"m{number}", "role": role, "content": "x" * chars, "chars": chars}
            here = {"workspace_id": "w", "conversation_id": "a", "position": number}
            await connection.execute(insert(t.messages), {**said, **here})
        await connection.run_sync(to, "head")
        query = select(t.conversations.c.total_chars).order_by(t.conversations.c.id)
        assert (await connection.execute(query)).scalars().all() == [12, 0]


async def test_two_who_migrate_at_once_take_turns(bare_url: str) -> None:
    """Both return, the schema stands, and no connection is left."""
    await asyncio.gather(*(migrate.upgrade(bare_url) for _ in range(3)))
    await migrate.upgrade(bare_url)
    bare = create_async_engine(bare_url, poolclass=NullPool)
    async with bare.connect() as connection:
        assert (await connection.execute(text("SELECT count(*) FROM records"))).scalar_one() == 0
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bare'"
        assert (await connection.execute(text(others))).scalar_one() == 1


async def test_a_database_without_the_schema_says_what_to_do(bare_url: str) -> None:
    """Not a stack trace: which command to run."""
    bare = create_engine(settings(bare_url))
    with pytest.raises(Unavailable, match="context-engine migrate"):
        await SqlSnapshots(bare).get("x")
    await bare.dispose()


# -- connections -------------------------------------------------------------------------------


async def refusal(url: str, **more: Any) -> str:
    database = create_engine(settings(url, **more))
    try:
        with pytest.raises(Unavailable) as refused:
            await SqlSnapshots(database).get("x")
    finally:
        await database.dispose()
    return refused.value.message


async def test_who_does_not_get_in_learns_where_and_why(stack: LocalStack) -> None:
    """Host and port, the server's reason or what to do; never the password."""
    url = make_url(stack.database_url)
    assert url.password is not None
    address = f"{url.host}:{url.port}"
    wrong = url.set(password="not-the-password").render_as_string(hide_password=False)
    nowhere = url.set(database="nowhere").render_as_string(hide_password=False)
    closed = url.set(port=1).render_as_string(hide_password=False)
    said = [await refusal(wrong), await refusal(nowhere), await refusal(closed)]
    assert address in said[0]
    assert "authentication failed" in said[0]
    assert address in said[1]
    assert "nowhere" in said[1]
    assert f"{url.host}:1/" in said[2]
    assert "CONTEXT_DATABASE_URL" in said[2]
    assert not any(secret in one for one in said for secret in (url.password, "not-the-password"))


async def test_a_pool_that_is_used_up_is_refused_in_time(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded, and it names the setting."""
    monkeypatch.setattr("context_engine.adapters.sql.engine.CONNECT_SECONDS", 0.2)
    database = create_engine(settings(database_url, database_pool_size=1))
    async with database.connect():
        with pytest.raises(Unavailable, match="CONTEXT_DATABASE_POOL_SIZE"):
            await SqlSnapshots(database).get("x")
    await database.dispose()


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Who runs as root has PostgreSQL run as another user, who must get in."""
    with tempfile.TemporaryDirectory(prefix="context-replica-") as made:
        directory = Path(made)
        directory.chmod(0o755)
        yield directory


async def test_a_replica_is_refused(open_directory: Path) -> None:
    """What it lags behind would be served as fresh."""
    server = postgres_part(open_directory)
    await server.start()
    try:
        stand_by(server)
        await server.stop()
        await server.start()
        assert "replica" in await refusal(server.url)
    finally:
        await server.stop()


async def test_sessions_do_not_depend_on_the_server(database: AsyncEngine) -> None:
    """UTC, and a bound for statements and for idle transactions."""
    async with database.connect() as connection:
        found = await connection.execute(
            text(
                "SELECT current_setting('TimeZone'), current_setting('statement_timeout'),"
                " current_setting('idle_in_transaction_session_timeout')"
            )
        )
    assert tuple(found.one()) == ("UTC", "5s", "20s")


# -- evidence ----------------------------------------------------------------------------------


def record(id: str, *, workspace: str = "w", age: int = 0) -> SnapshotRecord:
    return SnapshotRecord(
        context_id=id,
        context_hash="h",
        workspace_id=workspace,
        user_id="ana",
        scope_key="k",
        source="build",
        summary="名前",
        context=b'{"b": 1,  "a": "\\u0000 \xe5\x90\x8d"}',
        compression={"strategy": "s"},
        operator_trace={"denials": [{"what": "table t", "rule": "role none"}]},
        generated_at=datetime(2026, 5, 1, tzinfo=UTC) - timedelta(days=age),
        request_id="r",
    )


async def test_evidence_is_kept_as_it_was(database: AsyncEngine) -> None:
    """Byte for byte, by one statement; a second one under the same id changes nothing."""
    snapshots = SqlSnapshots(database)
    async with Statements(database) as statements:
        await snapshots.save(record("c1"))
    assert len(statements.seen) == 1
    await snapshots.save(record("c1", workspace="other"))
    assert await snapshots.get("c1") == record("c1")
    assert await snapshots.get("c2") is None


async def test_evidence_is_listed_by_workspace_and_cleaned_by_age(database: AsyncEngine) -> None:
    """The newest first, within the limit; what is older goes, the oldest first, and is counted."""
    snapshots = SqlSnapshots(database)
    for days in range(5):
        await snapshots.save(record(f"c{days}", age=days))
    await snapshots.save(record("x", workspace="other"))
    assert [r.context_id for r in await snapshots.list("w", limit=3)] == ["c0", "c1", "c2"]
    before = datetime(2026, 5, 1, tzinfo=UTC) - timedelta(days=2)
    assert await snapshots.clean(before, limit=1) == 1
    assert [r.context_id for r in await snapshots.list("w")] == ["c0", "c1", "c2", "c3"]
    assert await snapshots.clean(before) == 1
    assert await snapshots.clean(before) == 0
    assert [r.context_id for r in await snapshots.list("w")] == ["c0", "c1", "c2"]
    assert len(await snapshots.list("other")) == 1
