"""Reads topics from their beginning to where they end now, outside any group, in bounded memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from context_engine.errors import Unavailable
from events.away import away, reason
from events.closing import CLOSE_SECONDS, start_consumer, stop_consumer
from events.consumer import FETCH_MAX_WAIT_MS, FRAMING_BYTES, raw_message
from events.header_names import accept_any_header_name
from events.partitions import partitions_of
from events.records import RawMessage
from events.topics import Topic

ASK_SECONDS = 15.0
SILENT_SECONDS = 15.0
"""How long nothing may come while there is something to come."""
BATCH = 200
FETCH_BYTES = 8 * 1024 * 1024
"""What one answer of the broker holds at most, or one message where that is larger."""

Progress = Callable[[int, int], None]
"""Told how many records were read, and of how many."""


class Letterbox:
    """Some topics, to be read whole."""

    def __init__(self, bootstrap: str, topics: Sequence[Topic]) -> None:
        accept_any_header_name()
        self._bootstrap, self._topics = bootstrap, [topic.name for topic in topics]
        largest = max(topic.max_message_bytes for topic in topics)
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="earliest",  # what is removed while it is read is passed over
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            fetch_max_bytes=max(FETCH_BYTES, largest + FRAMING_BYTES),
            max_partition_fetch_bytes=largest + FRAMING_BYTES,
        )

    async def __aenter__(self) -> Self:
        """Connects. Raises `Unavailable`."""
        await start_consumer(self._client, self._bootstrap, ASK_SECONDS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await stop_consumer(self._client, CLOSE_SECONDS)

    async def read(
        self, *, since_ms: int | None = None, progress: Progress = lambda _read, _of: None
    ) -> AsyncIterator[RawMessage]:
        """What is there now, in order within each partition; from that time on, if one is given.

        What comes meanwhile is left out. Raises `Unavailable`, also for a topic that is not there.
        """
        try:
            async with asyncio.timeout(ASK_SECONDS):
                partitions = await partitions_of(self._client, self._topics)
                ends = await self._ends(partitions)
                starts = await self._starts(partitions, since_ms, ends)
        except (KafkaError, TimeoutError, OSError) as error:
            raise away(self._bootstrap, f"does not answer ({reason(error)})") from error
        for partition, offset in starts.items():
            self._client.seek(partition, offset)
        left = {one: end for one, end in ends.items() if starts[one] < end}
        total, read = sum(end - starts[one] for one, end in left.items()), 0
        while left:
            for raw in await self._some(left):
                if raw.offset < ends[TopicPartition(raw.topic, raw.partition)]:
                    read += 1
                    yield raw
            progress(min(read, total), total)
            left = await self._unread(left)

    async def read_on(self, topic: str, offset: int) -> AsyncIterator[RawMessage]:
        """From where `read` left a topic of one partition to that record, which is there."""
        last = {TopicPartition(topic, 0): offset + 1}
        self._client.resume(*last)
        while last:
            for raw in await self._some(last):
                yield raw
            last = await self._unread(last)

    async def one(self, topic: str, partition: int, offset: int) -> RawMessage | None:
        """That record; None where there is none, or none any more. Raises `Unavailable`."""
        place = TopicPartition(topic, partition)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                if place not in await partitions_of(self._client, [topic]):
                    return None
                ends = await self._ends([place])
                starts = await self._client.beginning_offsets([place])
        except (KafkaError, TimeoutError, OSError) as error:
            raise away(self._bootstrap, f"does not answer ({reason(error)})") from error
        if not starts[place] <= offset < ends[place]:
            return None
        self._client.seek(place, offset)
        first = next(iter(await self._some({place: offset + 1}, most=1)), None)
        return first if first is not None and first.offset == offset else None

    async def _ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """As told along with a fetch: the small broker lists the last batch's beginning."""
        client = self._client
        client.assign(list(partitions))
        for partition, offset in (await client.end_offsets(list(partitions))).items():
            client.seek(partition, offset)
        while any(client.highwater(partition) is None for partition in partitions):
            await client.getmany(timeout_ms=FETCH_MAX_WAIT_MS)
        return {partition: client.highwater(partition) for partition in partitions}

    async def _starts(
        self,
        partitions: Sequence[TopicPartition],
        since_ms: int | None,
        ends: dict[TopicPartition, int],
    ) -> dict[TopicPartition, int]:
        starts: dict[TopicPartition, int] = await self._client.beginning_offsets(list(partitions))
        if since_ms is None:
            return starts
        found = await self._client.offsets_for_times(dict.fromkeys(partitions, since_ms))
        return {
            one: max(starts[one], found[one].offset if found.get(one) else ends[one])
            for one in partitions
        }

    async def _some(self, wanted: dict[TopicPartition, int], most: int = BATCH) -> list[RawMessage]:
        """The next records of these partitions. Raises `Unavailable` after a silence."""
        try:
            found = await self._client.getmany(
                *wanted, timeout_ms=int(SILENT_SECONDS * 1_000), max_records=most
            )
        except (KafkaError, OSError) as error:
            raise away(self._bootstrap, f"cannot be read ({reason(error)})") from error
        if not found:
            raise Unavailable(
                "broker", f"{self._bootstrap} sent nothing for {SILENT_SECONDS:g} s; try again"
            )
        return [raw_message(record) for records in found.values() for record in records]

    async def _unread(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Those that were not read to their end; the others are not asked for any more."""
        left = {one: end for one, end in wanted.items() if await self._client.position(one) < end}
        if done := wanted.keys() - left.keys():
            self._client.pause(*done)
        return left
