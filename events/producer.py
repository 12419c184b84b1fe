"""A producer whose every wait has a bound and whose refusals have a type."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from context_engine import tracing
from context_engine.errors import Rejected, Unavailable
from events.away import away, reason
from events.closing import stop_producer
from events.records import OutgoingRecord, Position, carrier_of, headers_of

MIB = 1024 * 1024
DEFAULT_MAX_RECORD_BYTES = 4 * MIB
RECORD_OVERHEAD_BYTES = 64 * 1024  # batch framing: what the client adds around one record
RETRY_SECONDS = 0.5
MISSING_SECONDS = 5.0
"""How long the broker may not know a topic before its records are refused: one that was made
just now does not show at once."""
GONE_SECONDS = 1.0
"""The same, once an acknowledgement was waited for in vain."""
LOOK_SECONDS = 0.1


class RecordRefused(Rejected):
    """The topic cannot take this record, now or later."""

    code: ClassVar[str] = "record_refused"


class RecordTooLarge(RecordRefused):
    """Key, value and headers together are larger than the topic takes."""

    code: ClassVar[str] = "record_too_large"


class UnknownPartition(RecordRefused):
    """The record names a topic or partition that does not exist or may not be written."""

    code: ClassVar[str] = "unknown_partition"


def record_bytes(record: OutgoingRecord) -> int:
    """Size of key, value and headers in bytes, without the broker's framing."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


class Producer:
    """Publishes records and waits for the broker's acknowledgement of each.

    acks=all and no linger. Not idempotent, on purpose: aiokafka keeps one batch of a partition
    in flight, so order holds without it; an idempotent producer retries without end while the
    broker is away; and delivery is at least once here in any case.

    `max_record_bytes` names the limit of each topic, since not every broker holds its own.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str,
        max_record_bytes: Mapping[str, int] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self._limits = dict(max_record_bytes or {})
        self._timeout = timeout
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._client: AIOKafkaProducer | None = None

    async def start(self, *, patience: float = 10.0) -> None:
        """Connect, trying again for `patience` seconds. Raises Unavailable after that."""
        deadline = asyncio.get_running_loop().time() + patience
        while self._client is None:
            try:
                self._client = await self._connect(deadline)
            except (KafkaError, TimeoutError, OSError) as error:
                if asyncio.get_running_loop().time() + RETRY_SECONDS >= deadline:
                    raise away(self._bootstrap, f"does not answer ({reason(error)})") from error
                await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self, deadline: float) -> AIOKafkaProducer:
        largest = max([DEFAULT_MAX_RECORD_BYTES, *self._limits.values()])
        client = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            client_id=self._client_id,
            acks="all",
            linger_ms=0,
            enable_idempotence=False,
            max_request_size=largest + RECORD_OVERHEAD_BYTES,
            request_timeout_ms=int(self._timeout * 1000),
        )
        try:
            async with asyncio.timeout_at(deadline):
                await client.start()
        except BaseException:
            await stop_producer(client, self._timeout)
            raise
        return client

    async def stop(self, *, patience: float | None = None) -> None:
        """Send what waits and disconnect; gives up after `patience` seconds, or the time-out.

        What was given up is counted in the log, and its `send` raises Unavailable.
        """
        client, self._client = self._client, None
        if client is not None:
            await stop_producer(client, self._timeout if patience is None else patience)

    async def send(self, record: OutgoingRecord) -> Position:
        """Publish `record` and return its place once the broker has acknowledged it.

        Raises RecordRefused (or its kinds) when the topic cannot take it, Unavailable when no
        acknowledgement came in time: it may have been written all the same.
        """
        client = self._client
        if client is None:
            raise RuntimeError("the producer is not started: call start() first")
        self._check_size(record)
        with tracing.span(f"send {record.topic}", "producer"):
            return await self._send(client, self._traced(record))

    async def _send(self, client: AIOKafkaProducer, record: OutgoingRecord) -> Position:
        try:
            async with asyncio.timeout(self._timeout):
                await self._refuse_missing(client, record.topic, MISSING_SECONDS)
                if record.partition is not None:
                    await self._check_partition(client, record)
                acknowledged = await client.send(
                    record.topic,
                    value=record.value,
                    key=record.key,
                    partition=record.partition,
                    headers=list(record.headers),
                )
                metadata = await acknowledged
        except (MessageSizeTooLargeError, RecordListTooLargeError) as error:
            raise RecordTooLarge(
                f"the record of {record_bytes(record)} bytes is more than {record.topic} takes"
            ) from error
        except (UnknownTopicOrPartitionError, TopicAuthorizationFailedError) as error:
            raise UnknownPartition(
                f"topic {record.topic} cannot be written ({reason(error)})"
            ) from error
        except (KafkaError, TimeoutError, OSError) as error:
            await self._refuse_missing(client, record.topic, GONE_SECONDS)
            raise Unavailable(
                "broker", f"no acknowledgement from {record.topic} ({reason(error)})"
            ) from error
        return Position(record.topic, metadata.partition, metadata.offset)

    async def partitions(self, topic: str) -> int:
        """How many partitions `topic` has now: asked of the broker, since a producer that is told
        of a new one only minutes later would prove all but that one. Raises `Unavailable`."""
        if self._client is None:
            raise RuntimeError("the producer is not started: call start() first")
        try:
            async with asyncio.timeout(self._timeout):
                if not await self._client.client.force_metadata_update():
                    raise Unavailable("broker", f"{self._bootstrap} does not tell its partitions")
                return len(await self._client.partitions_for(topic))
        except (KafkaError, TimeoutError, OSError) as error:
            raise Unavailable("broker", f"{self._bootstrap} ({reason(error)})") from error

    async def check(self) -> None:
        """Asks the broker for its metadata. Raises `Unavailable`, also before `start`."""
        if self._client is None:
            raise Unavailable("broker", f"not connected to {self._bootstrap} yet")
        try:
            async with asyncio.timeout(self._timeout):
                await self._client.client.fetch_all_metadata()
        except (KafkaError, TimeoutError, OSError) as error:
            raise Unavailable("broker", f"{self._bootstrap} ({reason(error)})") from error

    def _traced(self, record: OutgoingRecord) -> OutgoingRecord:
        """`record`, which names the trace that it belongs to: unless it names one, as a dead letter
        may, or has no room for it."""
        carrier = tracing.carrier()
        if not carrier or carrier_of(record.headers):
            return record
        traced = replace(record, headers=(*record.headers, *headers_of(carrier)))
        limit = self._limits.get(record.topic)
        return record if limit is not None and record_bytes(traced) > limit else traced

    def _check_size(self, record: OutgoingRecord) -> None:
        limit = self._limits.get(record.topic)
        if limit is not None and (size := record_bytes(record)) > limit:
            raise RecordTooLarge(
                f"the record has {size} bytes, {record.topic} takes at most {limit}: send less"
            )

    async def _refuse_missing(self, client: AIOKafkaProducer, topic: str, seconds: float) -> None:
        """Raises `UnknownPartition` where the broker says for `seconds` that there is no `topic`.

        aiokafka's own look takes the whole time-out, and so ends as a broker that is away does.
        Where the broker says nothing, this says nothing either.
        """
        kafka, told = client.client, False
        try:
            async with asyncio.timeout(min(seconds, self._timeout / 2)):
                while kafka.cluster.partitions_for_topic(topic) is None:
                    if told:
                        await asyncio.sleep(LOOK_SECONDS)  # nothing announces a topic
                    kafka.add_topic(topic)
                    told = await kafka.force_metadata_update() or told
        except TimeoutError:
            if told:
                raise UnknownPartition(
                    f"topic {topic} is not there: make it, or name one that is"
                ) from None

    async def _check_partition(self, client: AIOKafkaProducer, record: OutgoingRecord) -> None:
        partitions = await client.partitions_for(record.topic)
        if record.partition not in partitions:
            raise UnknownPartition(
                f"{record.topic} has {len(partitions)} partitions and no {record.partition}: "
                "name one that exists, or none"
            )
