"""Whatever stands still between a commit and its marks: caches are bypassed, and come back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import insert, select, update

from context_engine.adapters.sql import tables as t
from context_engine.bootstrap import Parts
from context_engine.changes import TableChanged
from context_engine.liveness import LIFE_MS
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events.client import ContextClient
from events.messages import BuildOptions
from tests.support.world import World
from workers.house import until_live
from workers.supervisor import WorkerProcess

BACK_SECONDS = 20.0
"""For a process to start and its proof to come: far more than it takes."""

REQUEST = ContextBuildInput.model_validate(
    {"userId": "ana", "workspaceId": "w", "tableIds": ["t0"], "message": "live?"}
)


async def source(client: ContextClient) -> str:
    return (await client.request(REQUEST)).source


async def until(client: ContextClient, wanted: Callable[[str], bool], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not wanted(await source(client)):  # noqa: ASYNC110 - its answers are the only sign
            await asyncio.sleep(0.05)


def bypassed(found: str) -> bool:
    return found == "build"


def cached(found: str) -> bool:
    return found == "cache"


@pytest.mark.parametrize("name", ["relay", "invalidate"])
async def test_who_is_killed_takes_the_proof_along_and_brings_it_back(
    name: str, house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """Within a proof's life nothing is a hit any more, all is answered, and nobody has to reset
    anything once the process is back."""
    await until(client, cached, BACK_SECONDS)
    await house[name].kill()
    await until(client, bypassed, LIFE_MS / 1000 + 2.0)
    assert [await source(client) for _ in range(5)] == ["build"] * 5
    await house[name].start()
    await until(client, cached, BACK_SECONDS)


@pytest.mark.parametrize("name", ["relay", "invalidate"])
async def test_who_stands_still_proves_nothing(
    name: str, house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """A process that is frozen looks alive to its group and to its database; not to a reader.
    What it had in its hands when it goes on is too old to prove anything."""
    await until(client, cached, BACK_SECONDS)
    os.kill(house[name].pid, signal.SIGSTOP)
    try:
        await until(client, bypassed, LIFE_MS / 1000 + 2.0)
        assert await source(client) == "build"
    finally:
        os.kill(house[name].pid, signal.SIGCONT)
    await until(client, cached, BACK_SECONDS)


async def test_a_row_that_a_relay_holds_holds_back_the_proof_of_all(
    house: dict[str, WorkerProcess], client: ContextClient, parts: Parts, world: World
) -> None:
    """Committed, locked by a relay that stands still, and skipped by the one that runs: whoever
    wrote it may have died before its mark, so nothing cached is proven."""
    change = TableChanged(workspace_id="w", table_id="t0", op="renamed")
    row = {
        "id": change.change_id,
        "aggregatetype": "schema-change",
        "aggregateid": "w",
        "type": change.type,
        "payload": change.model_dump(mode="json", exclude_none=True),
    }
    held = select(t.outbox.c.id).where(t.outbox.c.id == change.change_id).with_for_update()
    await until(client, cached, BACK_SECONDS)
    async with parts.database.connect() as stalled:
        # As one statement for the relay: the row is there, and locked, from its commit on.
        await stalled.execute(insert(t.outbox).values(row))
        await stalled.execute(update(t.tables).where(t.tables.c.id == "t0").values(name="Renamed"))
        relay = house["relay"]
        os.kill(relay.pid, signal.SIGSTOP)
        try:
            await stalled.commit()
            assert (await stalled.execute(held)).first() is not None
        finally:
            os.kill(relay.pid, signal.SIGCONT)
        await until(client, bypassed, LIFE_MS / 1000 + 2.0)
        context = (await client.request(REQUEST)).context
        assert context.table is not None
        assert context.table.name == "Renamed"
        await stalled.rollback()
    await until(client, cached, BACK_SECONDS)
    context = (await client.request(REQUEST)).context
    assert context.table is not None
    assert context.table.name == "Renamed"
    assert context.source == "cache"
    await parts.services.tables.rename("ana", "w", "t0", name="Table t0")  # as others know it


async def test_a_token_of_an_emitted_change_is_proven_by_its_consumer(
    house: dict[str, WorkerProcess], client: ContextClient, settings: Settings, world: World
) -> None:
    """Once the position beyond it is proven, the request that names it is a hit; one that names
    a record which is not there yet never is."""
    await until_live(settings)
    nothing = TableChanged(workspace_id="w", table_id="none", op="renamed")
    at = await client.emit(nothing)
    options = BuildOptions(after=(at.token,))
    async with asyncio.timeout(BACK_SECONDS):
        while (await client.request(REQUEST, options=options)).source != "cache":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    later = BuildOptions(after=(replace(at, offset=at.offset + 10**6).token,))
    assert (await client.request(REQUEST, options=later)).source == "build"
    assert (await client.request(REQUEST, options=options)).source == "cache"
