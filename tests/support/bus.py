"""Topics of a test's own, and everything that is on them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaConsumer, TopicPartition

from context_engine.settings import Settings
from events import cloudevents
from events.consumer import raw_message
from events.records import RawMessage
from events.topics import Topics, ensure


def own_names() -> dict[str, str]:
    """Settings, by their names in the environment, that share no topic and no group."""
    name = secrets.token_hex(4)
    return {
        "CONTEXT_TOPIC_DOMAIN_PREFIX": f"t{name}.",
        "CONTEXT_TOPIC_EVICTIONS": f"t{name}.evictions",
        "CONTEXT_INVALIDATION_GROUP": f"t{name}",
    }


async def make_topics(settings: Settings) -> Topics:
    topics = Topics.of(settings)
    await ensure(settings.kafka_bootstrap, topics)
    return topics


class Reader:
    """Reads some topics from their beginnings, and keeps what it read."""

    def __init__(self, client: AIOKafkaConsumer) -> None:
        self._client = client
        self.seen: list[RawMessage] = []

    async def until(self, enough: Callable[[list[RawMessage]], bool]) -> list[RawMessage]:
        """All that was read, once it is `enough`."""
        async with asyncio.timeout(30):
            while not enough(self.seen):
                await self._read()
        return self.seen

    async def everything(self) -> list[RawMessage]:
        """All that is on the topics now."""
        ends = await self._client.end_offsets(self._client.assignment())
        async with asyncio.timeout(30):
            while any([await self._client.position(p) < end for p, end in ends.items()]):
                await self._read()
        return self.seen

    async def _read(self) -> None:
        found = await self._client.getmany(timeout_ms=500)
        self.seen += [raw_message(record) for records in found.values() for record in records]


@asynccontextmanager
async def reader(bootstrap: str, *topics: str) -> AsyncIterator[Reader]:
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=20
    ) as client:
        known = await client._client.fetch_all_metadata()
        places = [TopicPartition(t, p) for t in topics for p in known.partitions_for_topic(t)]
        client.assign(places)
        await client.seek_to_beginning(*places)
        yield Reader(client)


def event_ids(messages: list[RawMessage]) -> list[str]:
    """The CloudEvents id of each message."""
    return [cloudevents.decode(raw).id for raw in messages]
