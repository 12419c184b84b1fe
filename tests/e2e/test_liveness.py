"""Whatever stands still between a commit and its marks: caches are bypassed, and come back."""

from __future__ import annotations

import asyncio
import os
import signal
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

BACK_SECONDS = 30.0
"""For a process to start and its proof to come: far more than it takes."""

GONE_SECONDS = LIFE_MS / 1000 + 5.0
"""For a proof to end, and some requests to be answered without it."""

IN_A_ROW = 5
"""Answers past the cache that no change explains, which is built for once: the proof has ended."""

REQUEST = ContextBuildInput.model_validate(
    {"userId": "ana", "workspaceId": "w", "tableIds": ["t0"], "message": "live?"}
)


NO_OPTIONS = BuildOptions()


async def source(client: ContextClient, options: BuildOptions = NO_OPTIONS) -> str:
    return (await client.request(REQUEST, options=options)).source


async def until_cached(client: ContextClient, options: BuildOptions = NO_OPTIONS) -> None:
    """One answer out of the cache. The next may be a build again: others' changes travel."""
    async with asyncio.timeout(BACK_SECONDS):
        while await source(client, options) != "cache":  # noqa: ASYNC110 - the only sign
            await asyncio.sleep(0.05)


async def until_bypassed(client: ContextClient) -> None:
    """No answer out of the cache any more."""
    async with asyncio.timeout(GONE_SECONDS):
        built = 0
        while built < IN_A_ROW:
            built = built + 1 if await source(client) == "build" else 0
            await asyncio.sleep(0.02)


async def told_until_cached(client: ContextClient, name: str) -> None:
    """Every answer tells the table by that name, up to one out of the cache."""
    async with asyncio.timeout(BACK_SECONDS):
        while True:
            context = (await client.request(REQUEST)).context
            assert context.table is not None
            assert context.table.name == name
            if context.source == "cache":
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("name", ["relay", "invalidate"])
async def test_who_is_killed_takes_the_proof_along_and_brings_it_back(
    name: str, house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """Within a proof's life nothing is a hit any more, all is answered, and nobody has to reset
    anything once the process is back."""
    await until_cached(client)
    await house[name].kill()
    await until_bypassed(client)
    assert await source(client) == "build"
    await house[name].start()
    await until_cached(client)


@pytest.mark.parametrize("name", ["relay", "invalidate"])
async def test_who_stands_still_proves_nothing(
    name: str, house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """A process that is frozen looks alive to its group and to its database; not to a reader.
    What it had in its hands when it goes on is too old to prove anything."""
    await until_cached(client)
    os.kill(house[name].pid, signal.SIGSTOP)
    try:
        await until_bypassed(client)
        assert await source(client) == "build"
    finally:
        os.kill(house[name].pid, signal.SIGCONT)
    await until_cached(client)


async def test_a_row_that_a_relay_holds_holds_back_the_proof_of_all(
    house: dict[str, WorkerProcess], client: ContextClient, parts: Parts, world: World
) -> None:
    """Committed, locked by a relay that stands still, and skipped by the one that runs: whoever
    wrote it may have died before its mark, so nothing cached is proven. Whatever is answered from
    then on tells of it, out of the cache too."""
    change = TableChanged(workspace_id="w", table_id="t0", op="renamed")
    row = {
        "id": change.change_id,
        "aggregatetype": "schema-change",
        "aggregateid": "w",
        "type": change.type,
        "payload": change.model_dump(mode="json", exclude_none=True),
    }
    held = select(t.outbox.c.id).where(t.outbox.c.id == change.change_id).with_for_update()
    await until_cached(client)
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
        await until_bypassed(client)
        context = (await client.request(REQUEST)).context
        assert context.table is not None
        assert context.table.name == "Renamed"
        await stalled.rollback()
    await told_until_cached(client, "Renamed")
    await parts.services.tables.rename("ana", "w", "t0", name="Table t0")  # as others know it


async def test_a_token_of_an_emitted_change_is_proven_by_its_consumer(
    house: dict[str, WorkerProcess], client: ContextClient, settings: Settings, world: World
) -> None:
    """Once the position beyond it is proven, the request that names it is a hit; one that names
    a record which is not there yet never is."""
    await until_live(settings)
    nothing = TableChanged(workspace_id="w", table_id="none", op="renamed")
    at = await client.emit(nothing)
    named = BuildOptions(after=(at.token,))
    await until_cached(client, named)
    later = BuildOptions(after=(replace(at, offset=at.offset + 10**6).token,))
    assert await source(client, later) == "build"
    await until_cached(client, named)
