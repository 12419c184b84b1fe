"""From a change on its topic to an entry that cannot be served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from statistics import median
from uuid import uuid4

from redis.asyncio import Redis

from context_engine import keys
from context_engine.changes import RecordsChanged
from context_engine.invalidation import Invalidator
from context_engine.ports import Look, NewEntry
from events.client import ContextClient
from events.consumer import Consumer
from events.producer import Producer
from events.topics import Topics
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from workers.backoff import Patience
from workers.change_applier import ChangeApplier
from workers.consumption import Consumption
from workers.proving import Prover

CHANGES = 100
KEY = "bench:{w}:one"


async def evictions(house: BenchHouse) -> list[Measure]:
    """Each change: emit, then look until the entry is no longer served. The baseline: a bare
    consumer that deletes one key, looked at in the same way."""
    async with ContextClient(house.settings) as client:
        async with _bare_consumer(house):
            bare = await _to_gone(client, _put_key(house), _key_there(house))
        async with _real_consumer(house):
            real = await _to_gone(client, _put_entry(house), _entry_served(house))
    return [
        Measure(
            "change to unservable: p50 / bare consumer",
            median(real),
            "ms",
            median(bare),
            "bare consumer",
            Goal("<=", 2.0),
        )
    ]


Step = Callable[[], Awaitable[None]]
Probe = Callable[[], Awaitable[bool]]


async def _to_gone(client: ContextClient, put: Step, there: Probe) -> list[float]:
    took = []
    for _ in range(CHANGES):
        await put()
        started = time.perf_counter()
        await client.emit(RecordsChanged(workspace_id="w", table_id="t0", op="created"))
        async with asyncio.timeout(30):
            while await there():  # noqa: ASYNC110 - looking is what is measured
                await asyncio.sleep(0)
        took.append((time.perf_counter() - started) * 1000)
    return took


@asynccontextmanager
async def _bare_consumer(house: BenchHouse) -> AsyncIterator[None]:
    topics = [topic.name for topic in Topics.of(house.settings).changes()]
    consumer = Consumer(
        house.settings.kafka_bootstrap, topics, f"bench-bare-{uuid4().hex}", max_bytes=1_048_576
    )
    redis = Redis.from_url(house.settings.redis_url)
    await consumer.start()

    async def loop() -> None:
        while True:
            for _ in await consumer.poll(0.5):
                await redis.delete(KEY)

    task = asyncio.create_task(loop())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        await consumer.stop()
        await redis.aclose()


@asynccontextmanager
async def _real_consumer(house: BenchHouse) -> AsyncIterator[None]:
    topics = Topics.of(house.settings)
    producer = Producer(house.settings.kafka_bootstrap, client_id="bench")
    consumer = Consumer(
        house.settings.kafka_bootstrap,
        [topic.name for topic in topics.changes()],
        f"bench-real-{uuid4().hex}",
        max_bytes=1_048_576,
    )
    prover = Prover(house.parts.liveness, consumer, timedelta(seconds=300))
    applier = ChangeApplier(
        Invalidator(house.parts.cache), prover, producer, topics, house.settings
    )
    await producer.start()
    await consumer.start()
    stop = asyncio.Event()
    task = asyncio.create_task(Consumption(consumer, applier, Patience(10)).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task
        await consumer.stop()
        await producer.stop()


def _put_key(house: BenchHouse) -> Step:
    redis = Redis.from_url(house.settings.redis_url)

    async def put() -> None:
        await redis.set(KEY, b"x")

    return put


def _key_there(house: BenchHouse) -> Probe:
    redis = Redis.from_url(house.settings.redis_url)

    async def there() -> bool:
        return bool(await redis.exists(KEY))

    return there


def _look() -> Look:
    scope = keys.scope_of("w", "ana", "bench", None)
    return Look(scope, keys.whole_name(scope, "0" * 64), keys.surface_name("w", "0" * 64))


def _put_entry(house: BenchHouse) -> Step:
    async def put() -> None:
        await _fill(house, [_look().whole], keys.rows("t0"))

    return put


def _entry_served(house: BenchHouse) -> Probe:
    async def there() -> bool:
        return (await house.parts.cache.look(_look())).whole is not None

    return there


async def _fill(house: BenchHouse, names: list[str], tag: keys.Tag) -> None:
    """Stores entries; again where a change of an earlier round was applied in between."""
    stored = False
    while not stored:
        seen = await house.parts.cache.look(_look())
        assert seen.moment is not None
        entries = [
            NewEntry(
                name=name,
                payload=b"id\n{}",
                tags=frozenset({tag, keys.EVERYTHING}),
                clock=seen.moment.clock,
                built_ms=seen.now_ms,
                expires_ms=seen.now_ms + 300_000,
            )
            for name in names
        ]
        stored = await house.parts.cache.fill(seen.moment, entries, None)
