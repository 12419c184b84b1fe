"""Which partitions topics have."""

from __future__ import annotations

from collections.abc import Iterable

from aiokafka import AIOKafkaConsumer, TopicPartition

from context_engine.errors import Unavailable

NEW_PARTITIONS_SECONDS = 30.0
"""How soon a partition that was added to a topic is read as well."""


async def partitions_of(client: AIOKafkaConsumer, topics: Iterable[str]) -> list[TopicPartition]:
    """Every partition of `topics`, in order, as the broker tells them now.

    For clients that belong to no group, from their own connection: its public way knows a topic
    only once it is subscribed to.
    Raises `Unavailable` for a topic that is not there, and what the client raises.
    """
    known = await client._client.fetch_all_metadata()
    found: list[TopicPartition] = []
    for topic in topics:
        numbers = known.partitions_for_topic(topic)
        if not numbers:
            raise Unavailable(
                "broker", f"topic {topic} does not exist; `context-engine topics` makes it"
            )
        found += [TopicPartition(topic, number) for number in sorted(numbers)]
    return found
