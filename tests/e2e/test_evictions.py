"""An agent in the middle of its work is told what it may no longer hold, by the running house."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.changes import TableChanged
from context_engine.models import AgentContext, ContextBuildInput
from events.client import ContextClient
from events.messages import ContextEvicted
from events.subscription import Subscription
from tests.support.world import World
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(90)


async def context(client: ContextClient, table_id: str) -> AgentContext:
    where = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=(table_id,))
    return (await client.request(where)).context


async def told(seen: Subscription[ContextEvicted], change: TableChanged) -> ContextEvicted:
    """The announcement of that change; others' may come in between."""
    async with asyncio.timeout(30):
        async for one in seen:
            if one.change_id == change.change_id:
                return one
    raise AssertionError("a subscription never ends")


async def test_the_contexts_own_tags_say_whether_it_is_concerned(
    house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """Of two that an agent holds, the one over the table that changed."""
    async with client.subscribe_evictions("w") as seen:
        concerned, other = await context(client, "t1"), await context(client, "t0")
        change = TableChanged(workspace_id="w", table_id="t1", op="renamed")
        await client.emit(change)
        evicted = await told(seen, change)
    assert evicted.concerns(concerned)
    assert not evicted.concerns(other)


async def test_what_happened_while_nobody_listened_is_told_later(
    house: dict[str, WorkerProcess], client: ContextClient, world: World
) -> None:
    """Though the consumer that announces it was killed in between."""
    async with client.subscribe_evictions("w") as seen:
        held = await context(client, "t1")
        stood = seen.positions
    change = TableChanged(workspace_id="w", table_id="t1", op="renamed")
    await house["invalidate"].kill()
    await client.emit(change)
    await house["invalidate"].start()
    async with client.subscribe_evictions("w", since=stood) as seen:
        assert (await told(seen, change)).concerns(held)
