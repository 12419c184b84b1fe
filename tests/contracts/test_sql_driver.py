"""Connections that the driver is asked on: which go back to the pool, and which are given up."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from context_engine.adapters.sql.driver import driver_of
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.errors import Unavailable
from context_engine.facts import Facts
from context_engine.keys import Coordinates
from context_engine.settings import Settings
from tests.support.world import World


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    return made


async def facts_of(domain: SqlDomain) -> Facts:
    """One read in a transaction of its own."""
    async with domain.snapshot() as reads:
        return await reads.facts(Coordinates("w", "ana", table_ids=("t0",)), tail=20)


async def test_dropped_connections_cost_one_attempt(world: World, database: AsyncEngine) -> None:
    """After the server ended every session, one try may say `Unavailable`, the next is answered."""
    domain = SqlDomain(database)
    await facts_of(domain)
    async with create_async_engine(database.url, poolclass=NullPool).begin() as admin:
        await admin.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        )
        with contextlib.suppress(Unavailable):
            await facts_of(domain)
        assert (await facts_of(domain)).member is not None


@pytest.mark.parametrize("how", ["refused by the server", "cut once it stood"])
async def test_a_transaction_that_does_not_begin_in_order_costs_its_own_read_only(
    world: World, config: Settings, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The driver would take the next for nested in it, or a write would meet a read-only one."""
    alone = create_engine(config.model_copy(update={"database_pool_size": 1}))
    domain = SqlDomain(alone)
    await facts_of(domain)
    execute, met = asyncpg.Connection.execute, []

    async def once(self: Any, query: str, *values: Any, **more: Any) -> Any:
        if not query.startswith("BEGIN") or met:
            return await execute(self, query, *values, **more)
        met.append(query)
        if how == "refused by the server":
            query = "DO $$ BEGIN RAISE EXCEPTION 'cancelled' USING ERRCODE = '57014'; END $$"
            return await execute(self, query)
        await execute(self, query)
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncpg.Connection, "execute", once)
    with pytest.raises((Unavailable, asyncio.CancelledError)):
        await facts_of(domain)
    for _ in range(3):
        async with driver_of(alone) as driver:
            await driver.execute("UPDATE users SET name = name WHERE id = 'ana'")
        await facts_of(domain)
    await alone.dispose()
