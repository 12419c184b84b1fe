"""The client of the benchmarks: one process, plain aiokafka, the same for every worker.

It depends on nothing of the product, so that its own cost is the same whatever answers. A reply
belongs to the request whose id is its key.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

IN_FLIGHT = 256
REPLY_TIMEOUT_SECONDS = 30.0
TOPIC_EXISTS = 36  # Kafka's error code
MAX_REPLY_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it goes on the wire; `id` is the key that its reply will carry."""

    id: str
    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


MakeRequest = Callable[[int], Request]


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of requests took: seconds in all, and seconds of each."""

    seconds: float
    latencies: list[float] = field(repr=False)

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def p50_ms(self) -> float:
        return statistics.median(self.latencies) * 1000

    @property
    def p99_ms(self) -> float:
        return statistics.quantiles(self.latencies, n=100, method="inclusive")[98] * 1000


def build_request(number: int, *, sessions: int = 64) -> Request:
    """A build request of common size, in CloudEvents' binary mode; `sessions` take turns."""
    request_id = str(uuid.uuid4())
    user, session = f"usr_{number % sessions:04d}", f"ses_{number % sessions:04d}"
    data = {
        "requestId": request_id,
        "input": {
            "userId": user,
            "workspaceId": "wsp_0001",
            "sessionId": session,
            "projectId": "prj_0001",
            "tableIds": ["tbl_0001", "tbl_0002"],
            "viewId": "viw_0001",
            "message": "Which of the open deliveries are late, and who is on them?",
            "locale": "en",
            "timezone": "Europe/Berlin",
        },
        "options": {},
    }
    return Request(
        id=request_id,
        key=f"{user}|wsp_0001|{session}".encode(),
        value=json.dumps(data).encode(),
        headers=(
            ("ce_id", request_id.encode()),
            ("ce_source", b"/bench"),
            ("ce_type", b"context.build.requested"),
            ("ce_specversion", b"1.0"),
            ("content-type", b"application/json"),
        ),
    )


async def ensure_topics(bootstrap: str, *names: str, partitions: int = 12) -> None:
    """Create the topics that are not there yet."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        limit = {"max.message.bytes": str(MAX_REPLY_BYTES)}
        wanted = [NewTopic(name, partitions, 1, topic_configs=limit) for name in names]
        answer = await admin.create_topics(wanted)
        for name, code, *_ in answer.topic_errors:
            if code not in (0, TOPIC_EXISTS):
                raise RuntimeError(f"topic {name} could not be made: error {code}")
    finally:
        await admin.close()


class Load:
    """Sends requests and awaits their replies. Use as an async context manager."""

    def __init__(self, bootstrap: str, requests_topic: str, replies_topic: str) -> None:
        self._requests_topic = requests_topic
        self._replies_topic = replies_topic
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=0)
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            fetch_max_wait_ms=20,
            max_partition_fetch_bytes=2 * MAX_REPLY_BYTES,
        )
        self._waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._consumer.start()
        partitions = await self._producer.partitions_for(self._replies_topic)
        self._consumer.assign(
            [TopicPartition(self._replies_topic, number) for number in partitions]
        )
        await self._consumer.seek_to_end()
        self._reader = asyncio.create_task(self._read())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader], timeout=5)
        await self._stop()

    async def ask(self, request: Request) -> bytes:
        """Send one request and return its first reply."""
        key = request.id.encode()
        reply = self._waiting[key] = asyncio.get_running_loop().create_future()
        sent = await self._producer.send(
            self._requests_topic,
            value=request.value,
            key=request.key,
            headers=list(request.headers),
        )
        async with asyncio.timeout(REPLY_TIMEOUT_SECONDS):
            await sent
            answer: bytes = await reply
            return answer

    async def flood(
        self, count: int, make: MakeRequest = build_request, *, in_flight: int = IN_FLIGHT
    ) -> Measured:
        """Ask `count` requests with at most `in_flight` of them unanswered at a time."""
        latencies: list[float] = []
        requests: Iterator[Request] = iter([make(number) for number in range(count)])

        async def lane() -> None:
            for request in requests:
                began = time.perf_counter()
                await self.ask(request)
                latencies.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(lane() for _ in range(in_flight)))
        return Measured(time.perf_counter() - began, latencies)

    async def one_at_a_time(self, count: int, make: MakeRequest = build_request) -> Measured:
        """Ask `count` requests, each after the reply to the one before."""
        return await self.flood(count, make, in_flight=1)

    async def _read(self) -> None:
        while True:
            batches = await self._consumer.getmany(timeout_ms=1000)
            for records in batches.values():
                for record in records:
                    waiting = self._waiting.pop(record.key, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(record.value)

    async def _stop(self) -> None:
        await self._consumer.stop()
        await self._producer.stop()
