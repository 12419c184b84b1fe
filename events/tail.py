"""Reading a whole topic outside any group, for replies and subscriptions: from now on, or from
where one stood before. What is not there any more is told, never passed over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, RecordTooLargeError

from context_engine.errors import Unavailable
from events.away import away, reason
from events.closing import stop_consumer
from events.consumer import FETCH_MAX_WAIT_MS, FRAMING_BYTES, raw_message
from events.header_names import accept_any_header_name
from events.partitions import NEW_PARTITIONS_SECONDS, partitions_of
from events.records import Position, RawMessage

START_SECONDS = 15.0
POLL_MS = 1_000
AWAY_SECONDS = 15.0
"""How long the broker may be silent while it is asked; aiokafka alone would wait for ever."""
CLOSE_SECONDS = 3.0
"""Longest wait for an orderly end: there is no group to leave."""


class Missed(Unavailable):
    """A subscription was away for longer than the topic keeps its messages, or could not read one.
    It goes on from now: take everything that you hold for taken back."""

    code = "missed"

    def __init__(self, what: str) -> None:
        super().__init__("subscription", f"{what}; what you hold may have been taken back")


class Tail:
    """Every partition of some topics: from their ends at the time of `start`, or from `since`.

    `since`: the next message of each partition; those of others are read from their beginning.
    """

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        *,
        max_bytes: int,
        since: Sequence[Position] = (),
    ) -> None:
        accept_any_header_name()
        self._bootstrap, self._topics = bootstrap, tuple(topics)
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=max_bytes + FRAMING_BYTES,
            metadata_max_age_ms=int(NEW_PARTITIONS_SECONDS * 1_000),
        )
        self._since = {TopicPartition(one.topic, one.partition): one.offset for one in since}
        self._partitions: list[TopicPartition] = []
        self._began: dict[TopicPartition, int] = {}
        self._gap: Missed | None = None
        self._last_word: int | None = None
        self._silence = 0.0

    async def start(self) -> None:
        """From here on nothing is missed that is published and kept. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._client.start()
                self._partitions = await partitions_of(self._client, self._topics)
                await self._to_the_ends()
                if self._since:
                    await self._back()
                self._began = {one: await self._client.position(one) for one in self._partitions}
        except BaseException as error:
            await self.stop()
            if not isinstance(error, (KafkaError, TimeoutError, OSError)):
                raise
            raise away(self._bootstrap, f"does not answer ({reason(error)})") from error

    async def _to_the_ends(self) -> None:
        """Behind all that is there now.

        What a broker lists as the end may lie before its last batch's other records (the small
        broker's does); what it says along with a fetch is right.
        """
        client, partitions = self._client, self._partitions
        ends = await client.end_offsets(partitions)
        client.assign(partitions)  # and in the same breath to where they are read from
        for partition, offset in ends.items():
            client.seek(partition, offset)
        while any(client.highwater(partition) is None for partition in partitions):
            await client.getmany(timeout_ms=FETCH_MAX_WAIT_MS)
        for partition in partitions:
            client.seek(partition, client.highwater(partition))

    async def _back(self) -> None:
        """To where it stood before. Where that is not there any more, it stays at the end."""
        starts = await self._client.beginning_offsets(self._partitions)
        for partition, start in starts.items():
            wanted = self._since.get(partition, start)
            if start <= wanted <= await self._client.position(partition):
                self._client.seek(partition, wanted)
            else:
                self._gap = _not_there(partition, wanted)

    @property
    def began(self) -> tuple[Position, ...]:
        """The first message of each partition that it reads, or read since it missed some."""
        return tuple(Position(one.topic, one.partition, at) for one, at in self._began.items())

    async def poll(self) -> list[RawMessage]:
        """What came within a second. Raises `Unavailable`, also for `AWAY_SECONDS` of silence.

        Ask again, and it goes on where it stood. Raises `Missed` where that is not there any more.
        """
        began = time.monotonic()
        if (gap := self._gap) is not None:
            self._gap = None
            raise gap
        if added := self._added():
            await self._read_too(added)
        try:
            found = await self._client.getmany(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            raise await self._on_from_now(error) from error
        except RecordTooLargeError as error:
            raise Missed(f"a message is larger than its topic allows ({reason(error)})") from error
        except KafkaError as error:
            raise Unavailable("broker", reason(error)) from error
        if not found:
            self._listen(time.monotonic() - began)
        return [raw_message(record) for records in found.values() for record in records]

    def _added(self) -> list[TopicPartition]:
        """Partitions of the topics that were not there at the start."""
        known = (
            TopicPartition(topic, number)
            for topic in self._topics
            for number in sorted(self._client.partitions_for_topic(topic) or ())
        )
        return [one for one in known if one not in self._began]

    async def _read_too(self, added: list[TopicPartition]) -> None:
        """From their beginnings: nothing of them was seen."""
        stood = {one: await self._client.position(one) for one in self._partitions}
        self._partitions += added
        self._began |= dict.fromkeys(added, 0)
        self._client.assign(self._partitions)
        for partition in self._partitions:
            self._client.seek(partition, stood.get(partition, 0))

    async def _on_from_now(self, lost: OffsetOutOfRangeError) -> Missed:
        """Raises `Unavailable`, and then says next time what was missed."""
        places: dict[TopicPartition, int] = lost.args[0]
        try:
            async with asyncio.timeout(START_SECONDS):
                for partition, end in (await self._client.end_offsets(list(places))).items():
                    self._client.seek(partition, end)
                    self._began[partition] = end
        except (KafkaError, TimeoutError) as error:
            raise Unavailable("broker", reason(error)) from error
        return _not_there(*next(iter(places.items())))

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


def _not_there(partition: TopicPartition, offset: int) -> Missed:
    place = f"{partition.topic}[{partition.partition}]"
    return Missed(f"messages of {place} from {offset} on are not kept any more")
