"""A bare consumer of changes, as a process: `python -m tests.bench.bare`.

It raises one counter in Redis for each change, in one pipeline for what a fetch brought, and
commits. Environment: CONTEXT_KAFKA_BOOTSTRAP, CONTEXT_REDIS_URL, BENCH_TOPIC, BENCH_GROUP.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer
from redis.asyncio import Redis

from events.closing import stop_consumer
from tests.bench.baselines import say_ready, stop_signal


def counter(workspace: str) -> str:
    """Where its changes are counted."""
    return f"bench:flow:{workspace}"


async def _consume() -> None:
    """One pipeline for what a fetch brought, and a commit; until SIGTERM."""
    stop = stop_signal()
    async with _clients() as (consumer, redis):
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=100)
            pipeline = redis.pipeline(transaction=False)
            for record in (one for records in batches.values() for one in records):
                if record.key is not None:  # a heartbeat has none
                    pipeline.incr(counter(record.key.decode()))
            await pipeline.execute()
            if batches:
                await consumer.commit()


@asynccontextmanager
async def _clients() -> AsyncIterator[tuple[AIOKafkaConsumer, Redis]]:
    consumer = AIOKafkaConsumer(
        os.environ["BENCH_TOPIC"],
        bootstrap_servers=os.environ["CONTEXT_KAFKA_BOOTSTRAP"],
        group_id=os.environ["BENCH_GROUP"],
        enable_auto_commit=False,
        auto_offset_reset="latest",
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    while not consumer.assignment():
        await consumer.getmany(timeout_ms=50)
    say_ready()
    try:
        async with Redis.from_url(os.environ["CONTEXT_REDIS_URL"]) as redis:
            yield consumer, redis
    finally:
        await stop_consumer(consumer)


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_consume())
