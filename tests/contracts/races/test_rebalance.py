"""Race 12: partitions move while a member of the consumer's group has records in its hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from context_engine.changes import AnyChange, MemberChanged
from context_engine.invalidation import Invalidator
from events.consumer import Consumer
from tests.support.barriers import Barriers, HeldCache, Point
from tests.support.line import Line, line_of, scope
from workers.backoff import Patience
from workers.change_applier import ChangeApplier
from workers.consumption import Consumption
from workers.localstack import LocalStack
from workers.proving import Prover

pytestmark = pytest.mark.timeout(120)

WORKSPACES = 24
"""Enough that every partition of a topic has some."""

SESSION_MS = 6_000


@pytest.fixture
async def line(stack: LocalStack, redis_url: str) -> AsyncIterator[Line]:
    async with line_of(stack.env() | {"CONTEXT_REDIS_URL": redis_url}) as made:
        yield made


@dataclass
class Member:
    """One of the group, at work in a task of its own."""

    consumer: Consumer
    barriers: Barriers
    work: asyncio.Task[object]

    async def dies(self) -> None:
        self.work.cancel()
        with suppress(asyncio.CancelledError):
            await self.work


@asynccontextmanager
async def member(line: Line, barriers: Barriers) -> AsyncIterator[Member]:
    settings, stop = line.settings, asyncio.Event()
    consumer = Consumer(
        settings.kafka_bootstrap,
        [topic.name for topic in line.topics.changes()],
        settings.invalidation_group,
        max_bytes=1_000_000,
        session_ms=SESSION_MS,
    )
    async with AsyncExitStack() as stack:
        bound = settings.model_copy(update={"redis_timeout_seconds": 5.0})
        cache = await stack.enter_async_context(HeldCache.over(settings.redis_url, bound, barriers))
        await consumer.start()
        stack.push_async_callback(consumer.stop)
        prover = Prover(cache.liveness, consumer, timedelta(seconds=300))
        applier = ChangeApplier(Invalidator(cache), prover, line.producer, line.topics, settings)
        work = asyncio.create_task(Consumption(consumer, applier, Patience(20.0)).run(stop))
        try:
            yield Member(consumer, barriers, work)
        finally:
            stop.set()
            await asyncio.wait({work}, timeout=20)


@pytest.mark.parametrize("fate", ["goes on", "dies"])
@pytest.mark.parametrize("point", ["before its marks", "after its marks"])
async def test_12_no_change_is_lost_when_partitions_move(
    line: Line, point: Point, fate: str
) -> None:
    """12: one has fetched and stands in the middle of a batch, another joins and takes a part of
    its partitions, and more changes come; then the first goes on, or dies. Each change is applied
    once at least, and the positions are where they end."""
    workspaces = [f"w{n}" for n in range(WORKSPACES)]
    for workspace in workspaces:
        for user in ("u", "x"):
            await line.keep(scope(user, workspace))

    async def removed(user: str) -> list[AnyChange]:
        changes: list[AnyChange] = [
            MemberChanged(workspace_id=w, user_id=user, op="removed") for w in workspaces
        ]
        for change in changes:
            await line.client.emit(change)
        return changes

    barriers = Barriers()
    barrier = barriers.close(point)
    async with member(line, barriers) as first:
        changes = await removed("u")
        await barrier.reached()
        changes += await removed("x")
        before = first.consumer.revocations
        async with member(line, Barriers()):
            assert first.consumer.revocations > before, "partitions moved"
            if fate == "goes on":
                barrier.open()
            else:
                await first.dies()
                await first.consumer.stop()
            await line.announced(*changes)
            async with asyncio.timeout(30):
                while await line.behind():  # noqa: ASYNC110 - the broker tells nobody
                    await asyncio.sleep(0.2)
    for workspace in workspaces:
        for user in ("u", "x"):
            assert not await line.serves(scope(user, workspace))


async def test_a_member_that_stops_is_gone_at_once(line: Line) -> None:
    """The first of its group, too: some brokers count generations from 0, which the client takes
    for not having joined. The next would wait for the session time-out."""
    group, topics = "leaves-at-once", [topic.name for topic in line.topics.changes()]
    consumer = Consumer(line.settings.kafka_bootstrap, topics, group, max_bytes=1_000_000)
    await consumer.start()
    await consumer.stop()
    admin = AIOKafkaAdminClient(bootstrap_servers=line.settings.kafka_bootstrap)
    await admin.start()
    try:
        (found,) = await admin.describe_consumer_groups([group])
    finally:
        await admin.close()
    assert [(state, members) for _, _, state, _, _, members, *_ in found.groups] == [("Empty", [])]
