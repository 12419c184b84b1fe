"""A broker in memory, of one partition a topic: what is sent is there at once, and in order."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from events import cloudevents
from events.records import OutgoingRecord, Position, RawMessage

Offsets = dict[tuple[str, int], int]


@dataclass
class Pipe:
    """What relay, heart and consumer need of a broker; one reader has all partitions."""

    changes: frozenset[str]
    """Topics that are read; whatever else is sent is only kept."""
    records: list[RawMessage] = field(default_factory=list)
    positions: Offsets = field(default_factory=lambda: defaultdict(int))
    committed: Offsets = field(default_factory=dict)
    revocations: int = 0
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, record: OutgoingRecord) -> Position:
        offset = sum(one.topic == record.topic for one in self.records)
        at = self.now_ms()
        self.records.append(
            RawMessage(record.topic, 0, offset, at, record.key, record.value, record.headers)
        )
        self._came.set()
        return Position(record.topic, 0, offset)

    async def partitions(self, _: str) -> int:
        return 1

    async def poll(self, seconds: float) -> list[RawMessage]:
        if not (batch := self._unread()):
            self._came.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._came.wait()
            except TimeoutError:
                return []
            batch = self._unread()
        for raw in batch:
            self.positions[raw.topic, raw.partition] = raw.offset + 1
        return batch

    def _unread(self) -> list[RawMessage]:
        return [
            raw
            for raw in self.records
            if raw.topic in self.changes and raw.offset >= self.positions[raw.topic, raw.partition]
        ]

    async def commit(self, offsets: Offsets) -> None:
        self.committed.update(offsets)

    async def rewind(self, since: Mapping[tuple[str, int], int]) -> None:
        for raw in reversed(self.records):
            place = raw.topic, raw.partition
            if place in since and raw.timestamp >= since[place]:
                self.positions[place] = min(self.positions[place], raw.offset)

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.positions[topic, partition] = offset

    def of(self, type: str) -> list[RawMessage]:
        """The messages of a CloudEvents type, such as `domain.table.changed`, in order."""
        return [raw for raw in self.records if cloudevents.decode(raw).type == type]
