"""How far a consumer group is: what waits in each partition, and since when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from context_engine.ports import Place
from events.away import away, reason
from events.closing import CLOSE_SECONDS, start_consumer, stop_consumer
from events.consumer import FETCH_MAX_WAIT_MS, FRAMING_BYTES
from events.header_names import accept_any_header_name
from events.partitions import partitions_of

ASK_SECONDS = 15.0
"""How long a broker may take for one look."""
READ_SECONDS = 2.0
"""How long reading the oldest records may take; then their age stays unknown."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a group has not applied of one partition."""

    place: Place
    committed: int | None
    """The next offset that it reads; None where it never committed one."""
    records: int
    """From there to the end, heartbeats included."""
    oldest_ms: int | None
    """Age of the first of them, by its time at the broker and this machine's clock. None where
    none waits, or it could not be read in time."""


class Backlog:
    """Looks at a group without joining it.

    ```python
    async with Backlog("127.0.0.1:9092", "context-invalidation", topics, max_bytes=MIB) as backlog:
        for waiting in await backlog.look(): ...
    ```
    """

    def __init__(
        self, bootstrap: str, group: str, topics: Sequence[str], *, max_bytes: int
    ) -> None:
        accept_any_header_name()
        self._bootstrap, self._topics = bootstrap, tuple(topics)
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=max_bytes + FRAMING_BYTES,
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

    async def look(self) -> list[Waiting]:
        """Every partition of the topics, in order. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(ASK_SECONDS):
                partitions = await partitions_of(self._client, self._topics)
                starts = await self._client.beginning_offsets(partitions)
                committed = {one: await self._client.committed(one) for one in partitions}
                # Last: of what is committed nothing lies beyond it.
                ends = await self._client.end_offsets(partitions)
                at = {one: max(committed[one] or 0, starts[one]) for one in partitions}
                behind = {one: at[one] for one in partitions if at[one] < ends[one]}
                ages = await self._ages(behind) if behind else {}
        except (KafkaError, TimeoutError, OSError) as error:
            raise away(self._bootstrap, f"does not answer ({reason(error)})") from error
        return [
            Waiting(
                Place(one.topic, one.partition),
                committed[one],
                max(0, ends[one] - at[one]),
                ages.get(one),
            )
            for one in partitions
        ]

    async def _ages(self, behind: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The age in milliseconds of the record at each offset, as far as they come in time."""
        client = self._client
        client.assign(list(behind))
        for partition, offset in behind.items():
            client.seek(partition, offset)
        ages: dict[TopicPartition, int] = {}
        try:
            async with asyncio.timeout(READ_SECONDS):
                while wanted := [one for one in behind if one not in ages]:
                    first = await client.getone(*wanted)
                    now = time.time_ns() // 1_000_000
                    place = TopicPartition(first.topic, first.partition)
                    ages[place] = max(0, now - first.timestamp)
        except TimeoutError:
            pass
        finally:
            client.unsubscribe()
        return ages
