"""The outbox as a relay sees it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.outbox import SqlOutbox
from context_engine.adapters.sql.services import DomainServices
from context_engine.changes import domain_change
from context_engine.errors import Unavailable
from context_engine.ports import OutboxSource
from tests.support.services import ANA


@pytest.fixture
async def source(database: AsyncEngine) -> AsyncIterator[OutboxSource]:
    made = SqlOutbox(database)
    yield made
    await made.close()


async def _publish_all(source: OutboxSource) -> int:
    async with source.claim(1000) as batch:
        await batch.published([row.id for row in batch.rows])
        return len(batch.rows)


async def test_rows_are_claimed_in_order_and_published_once(
    services: DomainServices, source: OutboxSource
) -> None:
    """Each row is a change with its kind, workspace and camelCase payload."""
    async with source.claim(2) as batch:
        assert len(batch.rows) == 2
        first = batch.rows[0]
        assert (first.kind, first.workspace_id) == ("membership", "w")
        assert domain_change.validate_json(first.payload).change_id == first.id
        assert "workspaceId" in json.loads(first.payload)
        await batch.published([first.id])
    async with source.claim(1000) as again:
        assert first.id not in {row.id for row in again.rows}
        assert again.rows[0].id == batch.rows[1].id


async def test_two_relays_never_hold_the_same_row(
    services: DomainServices, source: OutboxSource
) -> None:
    """The second skips what the first has locked."""
    async with source.claim(3) as one, source.claim(1000) as two:
        assert not {row.id for row in one.rows} & {row.id for row in two.rows}
        assert one.rows
        assert two.rows


async def test_a_relay_that_fails_leaves_its_rows_unpublished(
    services: DomainServices, source: OutboxSource
) -> None:
    """What was noted as published in a block that raised comes again."""

    async def fails() -> None:
        async with source.claim(5) as batch:
            await batch.published([row.id for row in batch.rows])
            raise ConnectionError("the broker's, not the database's")

    with pytest.raises(ConnectionError):
        await fails()
    async with source.claim(5) as batch:
        assert len(batch.rows) == 5


async def test_a_commit_wakes_the_relay(services: DomainServices, source: OutboxSource) -> None:
    """The first wait returns at once; later ones at a commit, or after their time."""
    assert await source.wait(0.1)
    assert not await source.wait(0.05)
    waiting = asyncio.create_task(source.wait(5))
    await services.records.update(ANA, "w", "tbl", "r1", {"n": 1})
    async with asyncio.timeout(2):
        assert await waiting


async def test_a_lost_listener_is_reported_and_opened_again(
    services: DomainServices, source: OutboxSource, database: AsyncEngine
) -> None:
    """The waiter does not sleep through the loss of its connection."""
    await source.wait(0.1)
    waiting = asyncio.create_task(source.wait(5))
    async with database.begin() as connection:
        await connection.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE query ILIKE 'LISTEN%' AND datname = current_database()"
            )
        )
    async with asyncio.timeout(2):
        with pytest.raises(Unavailable, match="was lost"):
            await waiting
        assert await source.wait(1)


async def test_lag_is_the_age_of_the_oldest_unpublished_row(
    services: DomainServices, source: OutboxSource
) -> None:
    """None once all is published; cleaning removes what was published long enough ago."""
    lag = await source.lag()
    assert lag is not None
    assert lag > timedelta(0)
    count = await _publish_all(source)
    assert await source.lag() is None
    assert await source.clean(timedelta(hours=1)) == 0
    assert await source.clean(timedelta(0)) == count
