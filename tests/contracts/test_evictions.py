"""`subscribe_evictions` on a real broker: at least once, and what is missed is told."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, replace

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import OffsetResetStrategy
from aiokafka.errors import OffsetOutOfRangeError

from events import cloudevents, messages, tail
from events.client import ContextClient
from events.messages import ContextEvicted
from events.producer import Producer
from events.records import OutgoingRecord
from events.subscription import Subscription
from events.tail import Missed
from events.topics import Topics, ensure
from tests.support.echo import agent_context, settings_for


def evicted(
    change_id: str, workspace_id: str | None = "w", tags: tuple[str, ...] = ()
) -> ContextEvicted:
    return ContextEvicted(
        workspace_id=workspace_id,
        change_id=change_id,
        change_type="member.changed",
        topic="t",
        partition=0,
        offset=0,
        tags=tags,
        clock=1,
        count=0,
    )


@dataclass
class Bus:
    """The eviction topic of a test's own."""

    topic: str
    client: ContextClient
    producer: Producer

    async def tell(self, one: ContextEvicted) -> None:
        await self.put(one.workspace_id, one.model_dump_json().encode())

    async def put(self, workspace_id: str | None, value: bytes | None) -> None:
        key = workspace_id.encode() if workspace_id is not None else None
        headers, _ = cloudevents.encode(type=messages.EVICTED, source="x", id="i", data=b"")
        await self.producer.send(OutgoingRecord(self.topic, key, value, headers))


@pytest.fixture
async def bus(kafka_bootstrap: str) -> AsyncIterator[Bus]:
    settings = settings_for(kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await ensure(kafka_bootstrap, Topics.of(settings))
    producer = Producer(kafka_bootstrap, client_id="test")
    await producer.start()
    try:
        async with ContextClient(settings) as client:
            yield Bus(settings.topic_evictions, client, producer)
    finally:
        await producer.stop()


async def following(seen: Subscription[ContextEvicted], count: int) -> list[str]:
    """The changes of the next announcements."""
    async with asyncio.timeout(30):
        return [(await anext(seen)).change_id for _ in range(count)]


async def nothing(seen: Subscription[ContextEvicted]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await anext(seen)


async def test_they_are_seen_by_their_workspace(bus: Bus) -> None:
    """Others' evictions are passed over, whatever they hold."""
    async with bus.client.subscribe_evictions("w") as seen:
        await bus.tell(evicted("c0", "other"))
        await bus.put("other", b"{")
        await bus.tell(evicted("c1"))
        assert await following(seen, 1) == ["c1"]


async def test_what_may_be_anybodys_is_seen_by_all(bus: Bus) -> None:
    """A change that nobody could attribute ended everything."""
    async with bus.client.subscribe_evictions("w") as seen, asyncio.timeout(30):
        await bus.tell(evicted("c1", None))
        told = await anext(seen)
    assert told.workspace_id is None
    assert told.concerns(agent_context())


@pytest.mark.parametrize("value", [b"{", None], ids=["garbled", "empty"])
async def test_one_that_cannot_be_read_is_told(bus: Bus, value: bytes | None) -> None:
    """Something was taken back, and nobody can say what; then it goes on."""
    async with bus.client.subscribe_evictions("w") as seen, asyncio.timeout(30):
        await bus.put("w", value)
        await bus.tell(evicted("c1"))
        with pytest.raises(Missed, match="cannot be read; what you hold may have been taken back"):
            await anext(seen)
        assert await following(seen, 1) == ["c1"]


async def test_another_subscription_goes_on_from_the_positions_of_one(bus: Bus) -> None:
    """What was fetched and not given yet comes again; what was given does not."""
    async with bus.client.subscribe_evictions("w") as seen:
        for number in range(3):
            await bus.tell(evicted(f"c{number}"))
        assert await following(seen, 1) == ["c0"]
        positions = seen.positions
    assert len(positions) == 3
    await bus.tell(evicted("c3"))
    async with bus.client.subscribe_evictions("w", since=positions) as again:
        assert await following(again, 3) == ["c1", "c2", "c3"]
        assert sum(one.offset for one in again.positions) == 3 + sum(
            one.offset for one in positions
        )
        await nothing(again)


async def test_before_it_starts_it_stands_nowhere(bus: Bus) -> None:
    seen = bus.client.subscribe_evictions("w")
    assert seen.positions == ()
    await seen.aclose()


async def test_a_partition_that_was_not_there_is_read_from_its_beginning(bus: Bus) -> None:
    """The topic has grown meanwhile: nothing of it was seen."""
    async with bus.client.subscribe_evictions() as seen:
        old = seen.positions
    for number in range(12):
        await bus.tell(evicted("c", f"w{number}"))
    async with bus.client.subscribe_evictions(since=old[:1]) as again:
        assert await following(again, 12) == ["c"] * 12


async def test_a_partition_that_is_added_is_read_too(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic grows while it is read: the announcements of some workspaces go elsewhere then."""
    seen = bus.client.subscribe_evictions()

    async def first(_: AIOKafkaConsumer, topics: Iterable[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in topics]

    with monkeypatch.context() as before:
        before.setattr(tail, "partitions_of", first)
        await seen.start()
    async with seen:
        for number in range(12):
            await bus.tell(evicted(f"c{number}", f"w{number}"))
        given = await following(seen, 12)
        assert sorted(given) == sorted(f"c{number}" for number in range(12))
        assert [place.offset > 0 for place in seen.positions] == [True] * 3
        await nothing(seen)


async def test_positions_that_are_not_kept_any_more_are_told_once(bus: Bus) -> None:
    """The topic was made anew, or its retention passed by: then it goes on from now."""
    async with bus.client.subscribe_evictions("w") as seen:
        beyond = [replace(one, offset=one.offset + 1_000) for one in seen.positions]
    async with bus.client.subscribe_evictions("w", since=beyond) as again:
        async with asyncio.timeout(30):
            with pytest.raises(Missed, match="not kept any more"):
                await anext(again)
        assert again.positions == seen.positions
        await bus.tell(evicted("c1"))
        assert await following(again, 1) == ["c1"]


async def test_a_slow_reader_whose_place_is_gone_is_told(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that refuses the position of a running subscription, as Apache Kafka does once
    the retention passed by; the small one never does. It goes on from now."""
    async with bus.client.subscribe_evictions("w") as seen, asyncio.timeout(30):
        client, partitions = seen._tail._client, seen._tail._partitions
        assert client._fetcher._default_reset_strategy == OffsetResetStrategy.NONE
        with monkeypatch.context() as patch:
            patch.setattr(client, "getmany", refusing(dict.fromkeys(partitions, 0)))
            with pytest.raises(Missed, match="from 0 on are not kept any more"):
                await anext(seen)
        await bus.tell(evicted("c1"))
        assert await following(seen, 1) == ["c1"]


def refusing(places: dict[TopicPartition, int]) -> Callable[..., Awaitable[None]]:
    async def getmany(**_: object) -> None:
        raise OffsetOutOfRangeError(places)

    return getmany


def test_a_context_is_concerned_by_a_tag_in_common() -> None:
    held = agent_context().model_copy(update={"tags": ("a", "b")})
    assert evicted("c", tags=("b", "c")).concerns(held)
    assert not evicted("c", tags=("c",)).concerns(held)
    assert not evicted("c").concerns(held)
