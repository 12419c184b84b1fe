"""The build worker's machinery on a real broker: killed, told to stop, and met by a bug."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.bench.load import ensure_topics
from workers.runner import ExitCode

PARTITIONS = 2
REQUESTS = 40
WAIT_SECONDS = 45.0

pytestmark = pytest.mark.timeout(120)


@dataclass
class Bench:
    """A request topic, a reply topic, and workers between them."""

    bootstrap: str
    name: str
    producer: AIOKafkaProducer
    replies: AIOKafkaConsumer
    exits: AsyncExitStack
    asked: int = 0
    replied: Counter[bytes] = field(default_factory=Counter)

    async def worker(self, *, traps: bool = False) -> asyncio.subprocess.Process:
        """Start a worker and wait until it takes requests."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.support.machine_worker",
            env={
                **os.environ,
                "CONTEXT_KAFKA_BOOTSTRAP": self.bootstrap,
                "MACHINE_REQUESTS": f"{self.name}.requests",
                "MACHINE_REPLIES": f"{self.name}.replies",
                "MACHINE_GROUP": self.name,
                **({"MACHINE_TRAPS": "1"} if traps else {}),
            },
            stdout=asyncio.subprocess.PIPE,
        )
        self.exits.push_async_callback(ended, process)
        assert process.stdout is not None
        async with asyncio.timeout(WAIT_SECONDS):
            async for line in process.stdout:
                if line.strip() == b"ready":
                    return process
        raise AssertionError(f"the worker left with {await process.wait()}")

    async def ask(self, values: Iterable[bytes]) -> list[bytes]:
        """Send requests to all partitions in turn; their keys."""
        keys = []
        for number, value in enumerate(values):
            self.asked += 1
            keys.append(b"%d" % self.asked)
            await self.producer.send_and_wait(
                f"{self.name}.requests", value, key=keys[-1], partition=number % PARTITIONS
            )
        return keys

    async def answered(self, keys: Iterable[bytes]) -> None:
        """Wait until each key has been answered."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not self.replied.keys() >= set(keys):
                await self._read()

    async def all_replies(self) -> Counter[bytes]:
        """How often each key was answered so far: everything before a mark in each partition."""
        marks = {b"mark-%d" % number for number in range(PARTITIONS)}
        for number, mark in enumerate(sorted(marks)):
            await self.producer.send_and_wait(
                f"{self.name}.replies", b"", key=mark, partition=number
            )
        await self.answered(marks)
        return Counter({key: n for key, n in self.replied.items() if key not in marks})

    async def _read(self) -> None:
        for records in (await self.replies.getmany(timeout_ms=500)).values():
            self.replied.update(record.key for record in records)


async def ended(process: asyncio.subprocess.Process) -> None:
    """Nothing outlives its test."""
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def exit_code(process: asyncio.subprocess.Process) -> int:
    async with asyncio.timeout(WAIT_SECONDS):
        await process.communicate()
    assert process.returncode is not None
    return process.returncode


@asynccontextmanager
async def clients(bootstrap: str) -> AsyncIterator[tuple[AIOKafkaProducer, AIOKafkaConsumer]]:
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap) as producer,
        AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20
        ) as consumer,
    ):
        yield producer, consumer


@pytest.fixture
async def bench(kafka_bootstrap: str) -> AsyncIterator[Bench]:
    name = f"machine.{secrets.token_hex(4)}"
    topics = [f"{name}.requests", f"{name}.replies"]
    await ensure_topics(kafka_bootstrap, *topics, partitions=PARTITIONS)
    async with AsyncExitStack() as exits:
        producer, replies = await exits.enter_async_context(clients(kafka_bootstrap))
        await producer.partitions_for(topics[1])
        replies.assign([TopicPartition(topics[1], number) for number in range(PARTITIONS)])
        yield Bench(kafka_bootstrap, name, producer, replies, exits)


async def test_a_killed_worker_loses_nothing(bench: Bench) -> None:
    """Behind a head that never finishes others are answered but not committed: a successor of
    the killed worker answers the head, and whatever it finds uncommitted, again.
    """
    first = await bench.worker(traps=True)
    keys = await bench.ask([b"block", *[b"x"] * (REQUESTS - 1)])
    await bench.answered(keys[1:])
    first.send_signal(signal.SIGKILL)
    await exit_code(first)
    await bench.worker()
    await bench.answered(keys)
    assert max((await bench.all_replies()).values()) <= 2


async def test_a_worker_told_to_stop_finishes_and_repeats_nothing(bench: Bench) -> None:
    """SIGTERM: what runs is answered and committed, the exit code is 0, and the next worker
    takes only what the first had not taken.
    """
    first = await bench.worker(traps=True)
    keys = await bench.ask([b"slow"] * PARTITIONS + [b"x"] * (REQUESTS - PARTITIONS))
    await bench.answered(keys[PARTITIONS:])
    first.terminate()
    assert await exit_code(first) == ExitCode.OK
    await bench.answered(keys[:PARTITIONS])
    second = await bench.worker()
    more = await bench.ask([b"x"] * REQUESTS)
    await bench.answered(more)
    second.terminate()
    assert await exit_code(second) == ExitCode.OK
    assert await bench.all_replies() == Counter([*keys, *more])


async def test_a_request_that_meets_a_bug_ends_the_worker_and_is_not_skipped(
    bench: Bench,
) -> None:
    """An unexpected error gives exit code 70; a worker without the bug answers the request."""
    first = await bench.worker(traps=True)
    keys = await bench.ask([b"x", b"x", b"fail", b"x"])
    assert await exit_code(first) == ExitCode.FAILED
    await bench.worker()
    await bench.answered(keys[2:3])


async def test_two_workers_share_and_nothing_is_lost_or_repeated(bench: Bench) -> None:
    """A worker that joins takes partitions over after what ran there is finished and committed."""
    first = await bench.worker()
    keys = await bench.ask([b"x"] * REQUESTS)
    await bench.answered(keys)
    second = await bench.worker()
    more = await bench.ask([b"x"] * REQUESTS)
    await bench.answered(more)
    for worker in (first, second):
        worker.terminate()
        assert await exit_code(worker) == ExitCode.OK
    assert await bench.all_replies() == Counter([*keys, *more])
