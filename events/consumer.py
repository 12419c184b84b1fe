"""A consumer of the change topics: batches in, positions committed by hand, every wait bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from context_engine.errors import Unavailable
from events.away import away, reason
from events.closing import stop_consumer
from events.header_names import accept_any_header_name
from events.partitions import NEW_PARTITIONS_SECONDS
from events.records import RawMessage

log = logging.getLogger(__name__)

FETCH_MAX_WAIT_MS = 50
"""Some brokers answer a fetch only at the end of its wait; it delays every change by as much."""

FRAMING_BYTES = 256 * 1024
START_SECONDS = 30.0
BATCH = 500


class Consumer:
    """One member of a group over some topics. Nothing is committed but by `commit`."""

    def __init__(
        self,
        bootstrap: str,
        topics: Sequence[str],
        group: str,
        *,
        max_bytes: int,
        session_ms: int = 3_000,
    ) -> None:
        accept_any_header_name()
        self._bootstrap, self._topics = bootstrap, list(topics)
        self._moves = _Counting()
        self._client = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            max_partition_fetch_bytes=max_bytes + FRAMING_BYTES,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 4,
            metadata_max_age_ms=int(NEW_PARTITIONS_SECONDS * 1_000),
        )
        self._client.subscribe(self._topics, listener=self._moves)

    @property
    def revocations(self) -> int:
        """How often partitions were taken away: what is known of any may be out of date then."""
        return self._moves.revocations

    async def start(self) -> None:
        """Joins the group and waits for partitions. Raises `Unavailable`."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._client.start()
                while not self._client.assignment():
                    await self._client.getmany(timeout_ms=50, max_records=1)
                    await self._rewind()
        except BaseException as error:
            await self.stop()
            if not isinstance(error, (KafkaError, TimeoutError, OSError)):
                raise
            raise away(self._bootstrap, f"gave no partitions ({reason(error)})") from error

    async def _rewind(self) -> None:
        """Back to what is committed: what was fetched while joining is read again."""
        for partition in self._client.assignment():
            committed = await self._client.committed(partition)
            if committed is None:
                await self._client.seek_to_beginning(partition)
            else:
                self._client.seek(partition, committed)

    async def stop(self) -> None:
        """Leaves the group; gives up after its bound."""
        await stop_consumer(self._client)

    async def poll(self, seconds: float) -> list[RawMessage]:
        """What came within `seconds`, in order within each partition. Raises `Unavailable`."""
        try:
            found = await self._client.getmany(timeout_ms=int(seconds * 1000), max_records=BATCH)
        except KafkaError as error:
            raise Unavailable("broker", reason(error)) from error
        return [raw_message(record) for records in found.values() for record in records]

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commits the next offset of each partition.

        A partition that is no longer this member's is left out: its new owner applies again.
        Raises `Unavailable`.
        """
        mine = self._client.assignment()
        moved = {TopicPartition(t, p): offset for (t, p), offset in offsets.items()}
        kept = {partition: offset for partition, offset in moved.items() if partition in mine}
        if not kept:
            return
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._client.commit(kept)
        except (CommitFailedError, IllegalStateError):
            log.warning("partitions moved before their commit; their new owner applies them again")
        except (KafkaError, TimeoutError) as error:
            raise Unavailable("broker", reason(error)) from error

    async def behind(self) -> int:
        """How many records of its partitions, at the broker, were not polled. Raises `Unavailable`.

        Asks the broker: what the client knows of the ends is as old as its last fetch.
        """
        return sum(max(0, end - place) for place, end in (await self.places()).values())

    async def places(self) -> dict[str, tuple[int, int]]:
        """For each of its partitions, by name, the next offset that is polled and the end.

        Raises `Unavailable`.
        """
        mine = self._client.assignment()
        try:
            async with asyncio.timeout(START_SECONDS):
                ends = await self._client.end_offsets(mine) if mine else {}
                return {
                    f"{one.topic}[{one.partition}]": (await self._client.position(one), end)
                    for one, end in ends.items()
                }
        except (KafkaError, TimeoutError) as error:
            raise Unavailable("broker", reason(error)) from error

    async def check(self) -> None:
        """Has partitions, and the broker answers for them. Raises `Unavailable`."""
        if not self._client.assignment():
            raise Unavailable("broker", f"no partitions of {self._topics[0]} are assigned yet")
        await self.behind()

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Reads that partition from `offset` on.

        Raises `Unavailable` where the partition is not this member's, or no longer.
        """
        try:
            self._client.seek(TopicPartition(topic, partition), offset)
        except IllegalStateError as error:
            raise Unavailable(
                "broker", f"{topic}[{partition}] is not this member's; its owner reads it"
            ) from error

    async def rewind(self, since: Mapping[tuple[str, int], int]) -> None:
        """Reads each partition again from its first record appended at or after that time, in
        milliseconds since 1970; one that was not read beyond that stays where it is.

        A partition that is no longer this member's is left out. Raises `Unavailable`.
        """
        times = {TopicPartition(t, p): at for (t, p), at in since.items()}
        try:
            async with asyncio.timeout(START_SECONDS):
                found = await self._client.offsets_for_times(times)
                for partition, start in found.items():
                    if start is None or partition not in self._client.assignment():
                        continue
                    if start.offset < await self._client.position(partition):
                        self._client.seek(partition, start.offset)
        except IllegalStateError:
            log.warning("partitions moved before they were read again; their new owner does it")
        except (KafkaError, TimeoutError) as error:
            raise Unavailable("broker", reason(error)) from error


class _Counting(ConsumerRebalanceListener):  # type: ignore[misc]
    """Counts how often partitions were taken away."""

    def __init__(self) -> None:
        self.revocations = 0

    def on_partitions_revoked(self, _: object) -> None:
        self.revocations += 1

    def on_partitions_assigned(self, _: object) -> None:
        """What comes is read on from what is committed."""


def raw_message(record: object) -> RawMessage:
    """One of aiokafka's records as it came."""
    return RawMessage(
        topic=record.topic,  # type: ignore[attr-defined]
        partition=record.partition,  # type: ignore[attr-defined]
        offset=record.offset,  # type: ignore[attr-defined]
        timestamp=record.timestamp,  # type: ignore[attr-defined]
        key=record.key,  # type: ignore[attr-defined]
        value=record.value,  # type: ignore[attr-defined]
        headers=tuple(record.headers),  # type: ignore[attr-defined]
    )
