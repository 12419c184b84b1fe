"""What the build worker is measured against: `python -m tests.bench.baselines NAME`.

- `echo`: bare aiokafka, the ceiling of client and broker.
- `hand-loop`: the plain aiokafka worker that a good engineer would write in an hour.
- `minimal-faust`: a faust worker that does the same, and nothing that a product needs beside.

The last two decode the request with pydantic, read the stored reply of 4 KB with one GET, send
it, and commit every half second. Each prints `ready` when partitions are assigned, and stops on
SIGTERM. Environment: CONTEXT_KAFKA_BOOTSTRAP, CONTEXT_REDIS_URL, BENCH_REQUESTS_TOPIC,
BENCH_REPLIES_TOPIC.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from pydantic import BaseModel, ConfigDict
from redis.asyncio import BlockingConnectionPool, Redis

from context_engine.models.input import ContextBuildInput

COMMIT_INTERVAL_SECONDS = 0.5
IN_FLIGHT = 256
STORED_REPLY_BYTES = 4096


class BenchRequest(BaseModel):
    """The part of a build request that an answer from a cache needs."""

    model_config = ConfigDict(frozen=True)

    requestId: str
    input: ContextBuildInput


def reply_key(request: BenchRequest) -> str:
    """Where the stored reply of a request lies."""
    asked = request.input
    return f"bench:reply:{asked.user_id}:{asked.workspace_id}:{asked.session_id}"


async def store_replies(redis_url: str, *, sessions: int = 64) -> None:
    """Store the reply of each session that `load.build_request` asks for."""
    redis = Redis.from_url(redis_url)
    try:
        for number in range(sessions):
            key = f"bench:reply:usr_{number:04d}:wsp_0001:ses_{number:04d}"
            await redis.set(key, b"x" * STORED_REPLY_BYTES)
    finally:
        await redis.aclose()


class _Assigned(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready

    def on_partitions_revoked(self, revoked: object) -> None:
        """Nothing to do: the load runs one worker."""

    def on_partitions_assigned(self, assigned: object) -> None:
        self._ready()


@asynccontextmanager
async def _clients(group: str) -> AsyncIterator[tuple[AIOKafkaConsumer, AIOKafkaProducer]]:
    bootstrap = os.environ["CONTEXT_KAFKA_BOOTSTRAP"]
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=20,
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    await producer.start()
    await consumer.start()
    consumer.subscribe([os.environ["BENCH_REQUESTS_TOPIC"]], listener=_Assigned(say_ready))
    try:
        yield consumer, producer
    finally:
        await consumer.stop()
        await producer.stop()


async def _loop(
    group: str, answer: Callable[[AIOKafkaProducer, ConsumerRecord[Any, Any]], Awaitable[None]]
) -> None:
    stop = stop_signal()
    async with _clients(group) as (consumer, producer):
        done: dict[TopicPartition, int] = {}
        committed_at = time.monotonic()
        while not stop.is_set():
            batches = await consumer.getmany(timeout_ms=100)
            await asyncio.gather(
                *(answer(producer, record) for records in batches.values() for record in records)
            )
            done.update({tp: records[-1].offset + 1 for tp, records in batches.items()})
            if done and time.monotonic() - committed_at >= COMMIT_INTERVAL_SECONDS:
                await consumer.commit(done)
                done, committed_at = {}, time.monotonic()
        if done:
            await consumer.commit(done)


async def echo() -> None:
    """Send back what comes, under the id in its headers."""
    topic = os.environ["BENCH_REPLIES_TOPIC"]

    async def answer(producer: AIOKafkaProducer, record: ConsumerRecord[Any, Any]) -> None:
        await producer.send_and_wait(topic, record.value, key=record.headers[0][1])

    await _loop("bench-echo", answer)


async def hand_loop() -> None:
    """Decode, one GET, send."""
    topic = os.environ["BENCH_REPLIES_TOPIC"]
    redis = _redis()

    async def answer(producer: AIOKafkaProducer, record: ConsumerRecord[Any, Any]) -> None:
        request = BenchRequest.model_validate_json(record.value)
        reply = await redis.get(reply_key(request))
        await producer.send_and_wait(topic, reply, key=request.requestId.encode())

    try:
        await _loop("bench-hand-loop", answer)
    finally:
        await redis.aclose()


async def minimal_faust() -> None:
    """The same as `hand_loop` by faust: a producer of its own, acks of the contiguous prefix."""
    import faust
    from faust.transport.drivers import aiokafka as driver

    topic = os.environ["BENCH_REPLIES_TOPIC"]
    bootstrap = os.environ["CONTEXT_KAFKA_BOOTSTRAP"]
    create_consumer = driver.AIOKafkaConsumerThread._create_worker_consumer

    def with_short_poll(thread: Any, transport: Any) -> Any:
        consumer = create_consumer(thread, transport)
        consumer._fetch_max_wait_ms = 20  # the small broker holds a fetch to its end
        return consumer

    driver.AIOKafkaConsumerThread._create_worker_consumer = with_short_poll  # type: ignore[method-assign,assignment]
    app = faust.App(
        "bench-minimal-faust",
        broker=f"kafka://{bootstrap}",
        store="memory://",
        autodiscover=False,
        web_enabled=False,
        key_serializer="raw",
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        reply_create_topic=False,
        table_standby_replicas=0,
        consumer_auto_offset_reset="earliest",
        broker_commit_interval=COMMIT_INTERVAL_SECONDS,
        broker_rebalance_timeout=6.0,
        broker_session_timeout=6.0,
        stream_wait_empty=False,
        datadir=os.environ.get("BENCH_DATADIR", ".context-engine/bench-faust"),
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
    redis = _redis()
    slots = asyncio.Semaphore(IN_FLIGHT)
    running: dict[Any, deque[list[Any]]] = {}
    tasks: set[asyncio.Task[None]] = set()

    async def answer(event: Any, entry: list[Any], waiting: deque[list[Any]]) -> None:
        request = BenchRequest.model_validate_json(event.value)
        reply = await redis.get(reply_key(request))
        await producer.send_and_wait(topic, reply, key=request.requestId.encode())
        entry[1] = True
        while waiting and waiting[0][1]:
            waiting.popleft()[0].ack()
        slots.release()

    async def agent(stream: Any) -> None:
        async for event in stream.noack().events():
            await slots.acquire()
            waiting = running.setdefault(event.message.tp, deque())
            waiting.append(entry := [event, False])
            task = asyncio.create_task(answer(event, entry, waiting))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    app.agent(app.topic(os.environ["BENCH_REQUESTS_TOPIC"], value_type=bytes))(agent)
    stop = stop_signal()
    await producer.start()
    await app.start()
    say_ready()
    await stop.wait()
    await app.stop()
    await producer.stop()
    await redis.aclose()


def _redis() -> Redis:
    pool = BlockingConnectionPool.from_url(
        os.environ["CONTEXT_REDIS_URL"], max_connections=IN_FLIGHT
    )
    return Redis(connection_pool=pool)


def say_ready() -> None:
    print("ready", flush=True)


def stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


BASELINES: dict[str, Callable[[], Awaitable[None]]] = {
    "echo": echo,
    "hand-loop": hand_loop,
    "minimal-faust": minimal_faust,
}


def main(name: str) -> None:
    """Run one baseline until SIGTERM, on uvloop as the product runs."""
    import uvloop

    async def run() -> None:
        await BASELINES[name]()

    factory = None if os.environ.get("BENCH_PLAIN_LOOP") else uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(run())


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in BASELINES:
        sys.exit(f"usage: python -m tests.bench.baselines {'|'.join(BASELINES)}")
    main(sys.argv[1])
