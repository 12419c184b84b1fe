"""The producer's bounds and refusals, without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import (
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    UnknownTopicOrPartitionError,
)

from context_engine.errors import Unavailable
from events.producer import Producer, RecordTooLarge, UnknownPartition
from events.records import OutgoingRecord, Position

pytestmark = pytest.mark.unit

RECORD = OutgoingRecord("ready", b"k", b"v" * 100)


class Client:
    """Stands in for aiokafka's producer; `outcome` is what the broker answers, or nothing."""

    outcome: Any = None

    def __init__(self, **_: object) -> None:
        pass

    async def start(self) -> None:
        if isinstance(self.outcome, OSError):
            raise self.outcome

    async def stop(self) -> None:
        pass

    async def partitions_for(self, topic: str) -> set[int]:
        return {0, 1, 2}

    async def send(self, topic: str, **_: object) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if isinstance(self.outcome, Exception):
            future.set_exception(self.outcome)
        elif self.outcome is not None:
            future.set_result(self.outcome)
        return future


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    made = type("MadeClient", (Client,), {})
    monkeypatch.setattr("events.producer.AIOKafkaProducer", made)
    return made


async def send(record: OutgoingRecord = RECORD, **options: Any) -> Position:
    producer = Producer("nowhere:1", client_id="test", timeout=0.1, **options)
    await producer.start()
    try:
        return await producer.send(record)
    finally:
        await producer.stop()


async def test_a_sent_record_has_its_place(client: type[Client]) -> None:
    """`send` returns where the broker put the record."""
    client.outcome = SimpleNamespace(partition=2, offset=7)
    assert await send() == Position("ready", 2, 7)


async def test_a_silent_broker_is_unavailable_in_time(client: type[Client]) -> None:
    """Where no acknowledgement ever comes, the wait ends with Unavailable."""
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="no acknowledgement"):
            await send()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (MessageSizeTooLargeError(), RecordTooLarge),
        (UnknownTopicOrPartitionError(), UnknownPartition),
        (KafkaTimeoutError(), Unavailable),
    ],
)
async def test_what_the_broker_refuses_has_a_type(
    client: type[Client], answer: Exception, expected: type[Exception]
) -> None:
    """The broker's answers become the errors that callers handle."""
    client.outcome = answer
    with pytest.raises(expected):
        await send()


async def test_a_broker_that_is_away_at_the_start_is_unavailable(client: type[Client]) -> None:
    """`start` tries for its patience, then says which address did not answer."""
    client.outcome = ConnectionError("gone")
    producer = Producer("nowhere:1", client_id="test", timeout=0.1)
    with pytest.raises(Unavailable, match="nowhere:1 does not answer"):
        await producer.start(patience=0.1)


async def test_a_limit_counts_key_value_and_headers(client: type[Client]) -> None:
    """A record at its topic's limit goes, one byte more is refused before it is sent."""
    client.outcome = SimpleNamespace(partition=0, offset=0)
    record = OutgoingRecord("ready", b"k", b"v" * 90, (("name", b"value"),))
    await send(record, max_record_bytes={"ready": 100})
    with pytest.raises(RecordTooLarge, match="at most 99"):
        await send(record, max_record_bytes={"ready": 99})


async def test_a_partition_that_does_not_exist_is_refused(client: type[Client]) -> None:
    """Naming a partition that the topic does not have is refused before it is sent."""
    client.outcome = SimpleNamespace(partition=2, offset=0)
    await send(OutgoingRecord("ready", b"k", b"v", partition=2))
    with pytest.raises(UnknownPartition, match="no 3"):
        await send(OutgoingRecord("ready", b"k", b"v", partition=3))
