"""Reading a whole topic from now on, outside any group: for replies and subscriptions."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Self, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from context_engine.errors import Unavailable
from events.away import away, reason
from events.closing import stop_consumer
from events.consumer import FETCH_MAX_WAIT_MS, FRAMING_BYTES, raw_message
from events.header_names import accept_any_header_name
from events.records import RawMessage

T = TypeVar("T")

START_SECONDS = 15.0
POLL_MS = 1_000
AWAY_SECONDS = 15.0
"""How long the broker may be silent while it is asked; aiokafka alone would wait for ever."""
CLOSE_SECONDS = 3.0
"""Longest wait for an orderly end: there is no group to leave."""


class Tail:
    """Every partition of some topics, from their ends at the time of `start`."""

    def __init__(self, bootstrap: str, topics: Sequence[str], *, max_bytes: int) -> None:
        accept_any_header_name()
        self._bootstrap, self._topics = bootstrap, tuple(topics)
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=max_bytes + FRAMING_BYTES,
        )
        self._partitions: list[TopicPartition] = []
        self._last_word: int | None = None
        self._silence = 0.0

    async def start(self) -> None:
        """From here on nothing that is published is missed. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._client.start()
                self._partitions = [
                    TopicPartition(topic, number)
                    for topic in self._topics
                    for number in sorted(await self._numbers(topic))
                ]
                self._client.assign(self._partitions)
                await self._seek_to_ends()
        except BaseException as error:
            await self.stop()
            if not isinstance(error, (KafkaError, TimeoutError, OSError)):
                raise
            raise away(self._bootstrap, f"does not answer ({reason(error)})") from error

    async def _seek_to_ends(self) -> None:
        """Behind all that is there now.

        What a broker lists as the end may lie before its last batch's other records (the small
        broker's does); what it says along with a fetch is right.
        """
        client, partitions = self._client, self._partitions
        for partition, offset in (await client.end_offsets(partitions)).items():
            client.seek(partition, offset)
        while any(client.highwater(partition) is None for partition in partitions):
            await client.getmany(timeout_ms=FETCH_MAX_WAIT_MS)
        for partition in partitions:
            client.seek(partition, client.highwater(partition))

    async def _numbers(self, topic: str) -> set[int]:
        known = await self._client._client.fetch_all_metadata()
        found = known.partitions_for_topic(topic)
        if not found:
            raise Unavailable(
                "broker", f"topic {topic} does not exist; `context-engine topics` makes it"
            )
        return set(found)

    async def poll(self) -> list[RawMessage]:
        """What came within a second. Raises `Unavailable`, also for `AWAY_SECONDS` of silence."""
        began = time.monotonic()
        try:
            found = await self._client.getmany(timeout_ms=POLL_MS)
        except KafkaError as error:
            raise Unavailable("broker", reason(error)) from error
        if not found:
            self._listen(time.monotonic() - began)
        return [raw_message(record) for records in found.values() for record in records]

    def _listen(self, waited: float) -> None:
        """Counts how long nothing was heard: only while polled, a slow reader is no silence."""
        word = max((self._client.last_poll_timestamp(p) or 0 for p in self._partitions), default=0)
        self._silence = self._silence + waited if word == self._last_word else 0.0
        self._last_word = word
        if self._silence >= AWAY_SECONDS:
            raise away(self._bootstrap, f"did not answer for {AWAY_SECONDS:g} s")

    async def messages(self) -> AsyncIterator[RawMessage]:
        """One by one, for ever."""
        while True:
            for message in await self.poll():
                yield message

    @property
    def connected(self) -> bool:
        """Whether a connection to the broker stands, as far as this side knows."""
        connections = self._client._client._conns.values()
        return any(connection.connected() for connection in connections)

    async def stop(self) -> None:
        """Disconnects; gives up after its bound."""
        await stop_consumer(self._client, CLOSE_SECONDS)


class Subscription(Generic[T]):
    """Messages of some topics from now on, as an async iterator.

    "Now" is when it starts: at the first `anext`, or earlier by `await start()` or `async with`,
    for whoever must not miss what happens in between. Nothing is buffered beyond one fetch, so a
    slow reader holds back its own subscription only.
    """

    def __init__(self, tail: Tail, read: Callable[[RawMessage], T | None]) -> None:
        self._tail, self._read = tail, read
        self._ready: deque[T] = deque()
        self._started = False

    async def start(self) -> Self:
        """From here on nothing is missed. Raises `Unavailable`."""
        if not self._started:
            await self._tail.start()
            self._started = True
        return self

    async def aclose(self) -> None:
        """Ends the subscription."""
        await self._tail.stop()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next message. Raises `Unavailable` when the broker is away."""
        await self.start()
        while not self._ready:
            read = map(self._read, await self._tail.poll())
            self._ready.extend(one for one in read if one is not None)
        return self._ready.popleft()
