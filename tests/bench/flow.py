"""At 500 changes a second: from a change on its topic to all that it ends being unservable.

The invalidation consumer as a process, and in turn a bare aiokafka consumer that raises one
counter in Redis for each change: `tests.bench.bare`. Both are watched in the same way,
from outside: how far the workspace's clock, or the counter, has come. The relay's heartbeats go
through the topics all the while.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from redis.asyncio import Redis

from context_engine import keys
from context_engine.changes import RecordsChanged
from events import cloudevents, messages
from events.closing import stop_producer
from events.topics import Topics
from tests.bench.bare import counter
from tests.bench.hot import Worker, running
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from workers.house import settings_of, until_live

RATE = 500
SECONDS = int(os.environ.get("BENCH_SECONDS", "6"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WORKSPACES = tuple(f"flow{number}" for number in range(8))
LOOK_SECONDS = 0.001
QUIET_SECONDS = 1.0

Read = Callable[[], Awaitable[list[int]]]
"""How many changes of each workspace were applied, ever."""


async def flow(house: BenchHouse) -> list[Measure]:
    """They take turns; a ratio is the median of the rounds'."""
    redis = Redis.from_url(house.settings.redis_url)
    candidates: dict[str, tuple[Worker, Read]] = {
        "ours": (_ours(house), partial(_clocks, redis)),
        "bare": (_bare(house), partial(_counters, redis)),
    }
    found: dict[str, list[list[float]]] = {name: [] for name in candidates}
    async with redis, running(_relay(house)):
        for _ in range(ROUNDS):
            for name, (worker, read) in candidates.items():
                async with running(worker):
                    if name == "ours":  # what it reads again at its start is behind it then
                        await until_live(settings_of(house.proven_env))
                        # Afterwards: the first heartbeat, which tells of a database, ends all.
                        for workspace in WORKSPACES:
                            await house.parts.cache.mark(workspace, frozenset(), create=True)
                    found[name].append(await _round(house, read))
    return [
        _compared(what, found["ours"], found["bare"], figure, goal)
        for what, figure, goal in (("p99", _p99, Goal("<=", 2.0)), ("p50", statistics.median, None))
    ]


def _compared(
    what: str,
    ours: Sequence[Sequence[float]],
    bare: Sequence[Sequence[float]],
    figure: Callable[[Sequence[float]], float],
    goal: Goal | None,
) -> Measure:
    a, b = [figure(one) for one in ours], [figure(one) for one in bare]
    return Measure(
        f"change to unservable at {RATE}/s: {what} / bare consumer",
        statistics.median(a),
        "ms",
        statistics.median(b),
        "bare consumer",
        goal,
        ratios=tuple(x / y for x, y in zip(a, b, strict=True)),
    )


def _p99(times: Sequence[float]) -> float:
    return statistics.quantiles(times, n=100, method="inclusive")[98]


async def _round(house: BenchHouse, read: Read) -> list[float]:
    """Milliseconds of each change, from its acknowledgement by the broker to its being applied."""
    await _quiet(read)
    watch = _Watch(read, await read())
    watching = asyncio.create_task(watch.run())
    try:
        acknowledged = await _paced(house)
        async with asyncio.timeout(30):
            await watch.until([len(times) for times in acknowledged])
    finally:
        watch.going = False  # a cancellation may be lost in the client
        await watching
    return [
        max(0.0, (applied - sent) * 1000)
        for sent_all, applied_all in zip(acknowledged, watch.applied, strict=True)
        for sent, applied in zip(sent_all, applied_all, strict=True)
    ]


async def _quiet(read: Read) -> None:
    """Until what waited from before is applied."""
    before, since = await read(), time.monotonic()
    while time.monotonic() - since < QUIET_SECONDS:
        await asyncio.sleep(0.05)
        now = await read()
        if now != before:
            before, since = now, time.monotonic()


@dataclass(slots=True)
class _Watch:
    """Notes when each change of a workspace was seen to be applied: they keep their order."""

    read: Read
    base: list[int]
    going: bool = True
    applied: list[list[float]] = field(default_factory=lambda: [[] for _ in WORKSPACES])

    async def run(self) -> None:
        while self.going:
            counts, now = await self.read(), time.perf_counter()
            for times, count, base in zip(self.applied, counts, self.base, strict=True):
                times += [now] * (count - base - len(times))
            await asyncio.sleep(LOOK_SECONDS)

    async def until(self, counts: Sequence[int]) -> None:
        while any(len(t) < n for t, n in zip(self.applied, counts, strict=True)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def _paced(house: BenchHouse) -> list[list[float]]:
    """Sends the changes; when each was acknowledged, by workspace."""
    topic = Topics.of(house.settings).topic_for(_change(WORKSPACES[0])).name
    producer = AIOKafkaProducer(
        bootstrap_servers=house.settings.kafka_bootstrap, acks="all", linger_ms=0
    )
    each = RATE * SECONDS // len(WORKSPACES)
    sent, futures = [[0.0] * each for _ in WORKSPACES], list[asyncio.Future[object]]()

    def note(place: int, number: int, _: object) -> None:
        sent[place][number] = time.perf_counter()

    await producer.start()
    try:
        encoded = [_encoded(workspace) for workspace in WORKSPACES]
        started = time.perf_counter()
        for number in range(each * len(WORKSPACES)):
            due = started + number / RATE - time.perf_counter()
            if due > 0:
                await asyncio.sleep(due)
            place = number % len(WORKSPACES)
            headers, value = encoded[place]
            key = WORKSPACES[place].encode()
            futures.append(await producer.send(topic, value, key=key, headers=list(headers)))
            futures[-1].add_done_callback(partial(note, place, number // len(WORKSPACES)))
        async with asyncio.timeout(30):
            await asyncio.gather(*futures)
    finally:
        await stop_producer(producer, 5.0)
    return sent


def _change(workspace: str) -> RecordsChanged:
    return RecordsChanged(workspace_id=workspace, table_id="t", op="created")


def _encoded(workspace: str) -> tuple[Sequence[tuple[str, bytes | None]], bytes | None]:
    change = _change(workspace)
    return cloudevents.encode(
        type=messages.change_type(change),
        source="/bench",
        id=change.change_id,
        data=change.model_dump_json().encode(),
    )


async def _clocks(redis: Redis) -> list[int]:
    pipeline = redis.pipeline(transaction=False)
    for workspace in WORKSPACES:
        pipeline.hget(keys.marks_name(workspace), "#clock")
    return [int(clock) for clock in await pipeline.execute()]


async def _counters(redis: Redis) -> list[int]:
    return [int(count or 0) for count in await redis.mget(map(counter, WORKSPACES))]


def _ours(house: BenchHouse) -> Worker:
    return _worker(house, "invalidate")


def _relay(house: BenchHouse) -> Worker:
    return _worker(house, "relay")


def _worker(house: BenchHouse, name: str) -> Worker:
    return Worker(
        name=name,
        command=[sys.executable, "-m", "workers", "worker", name],
        requests_topic="",
        replies_topic="",
        environment=house.proven_env,
        ready_line=f"{name} ready",
    )


def _bare(house: BenchHouse) -> Worker:
    return Worker(
        name="bare",
        command=[sys.executable, "-m", "tests.bench.bare"],
        requests_topic="",
        replies_topic="",
        environment={
            "CONTEXT_KAFKA_BOOTSTRAP": house.settings.kafka_bootstrap,
            "CONTEXT_REDIS_URL": house.settings.redis_url,
            "BENCH_TOPIC": Topics.of(house.settings).topic_for(_change("w")).name,
            "BENCH_GROUP": f"bench-flow-{uuid4().hex}",
        },
    )
