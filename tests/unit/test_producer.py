"""The producer's bounds and refusals, without a broker."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar

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
    known: ClassVar[set[str]] = {"ready"}
    answers: ClassVar[bool] = True

    def __init__(self, **_: object) -> None:
        self.client = self
        self.cluster = self
        self.looks = 0

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return {0, 1, 2} if topic in self.known else None

    def add_topic(self, topic: str) -> None:
        pass

    async def force_metadata_update(self) -> bool:
        self.looks += 1
        if not self.answers:
            await asyncio.get_running_loop().create_future()
        return True

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


async def test_a_topic_that_is_not_there_is_refused(client: type[Client]) -> None:
    """Not as a broker that is away: whoever meets the record again would meet it for ever."""
    client.known = set()
    async with asyncio.timeout(5):
        with pytest.raises(UnknownPartition, match="ready is not there"):
            await send()


async def test_a_topic_that_goes_while_it_is_written_is_refused(client: type[Client]) -> None:
    """The acknowledgement never comes, and by then the broker does not know it any more."""

    class Goes(asyncio.Future[Any]):
        def cancel(self, msg: Any = None) -> bool:
            client.known = set()
            return super().cancel(msg)

    async def written(self: Client, topic: str, **_: object) -> asyncio.Future[Any]:
        return Goes()

    client.send = written  # type: ignore[method-assign]
    with pytest.raises(UnknownPartition, match="ready is not there"):
        await send()


async def test_a_topic_that_shows_late_is_written(client: type[Client]) -> None:
    """One that was made just now: it takes the broker's word until it is known."""

    async def shows(self: Client) -> bool:
        client.known = {"ready"}
        return True

    client.known, client.outcome = set(), SimpleNamespace(partition=2, offset=7)
    client.force_metadata_update = shows  # type: ignore[method-assign]
    assert await send() == Position("ready", 2, 7)


async def test_a_broker_that_says_nothing_of_a_topic_is_unavailable(client: type[Client]) -> None:
    """Its silence is no word that the topic is not there."""
    client.known, client.answers = set(), False
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="no acknowledgement"):
            await send()


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
