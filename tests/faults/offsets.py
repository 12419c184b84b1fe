"""What the groups have committed, sampled beside the traffic, against what was handled by then."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from events.topics import Topic
from tests.faults.sent import Sent

SAMPLE_SECONDS = 0.5
ASK_SECONDS = 5.0


class Offsets:
    """Commits of some groups, by name with what they read, and the time each was seen."""

    def __init__(self, bootstrap: str, groups: Mapping[str, Sequence[Topic]]) -> None:
        self._bootstrap = bootstrap
        self._groups = {
            group: [TopicPartition(one.name, n) for one in topics for n in range(one.partitions)]
            for group, topics in groups.items()
        }
        self._seen: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        """Milliseconds since 1970 and offset, where it changed."""
        self.looks = 0

    async def watch(self) -> None:
        """Samples until it is cancelled; while the broker is away it waits."""
        while True:
            with suppress(KafkaError, OSError, TimeoutError):
                await self._watch()
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _watch(self) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap, request_timeout_ms=5_000)
        try:
            async with asyncio.timeout(ASK_SECONDS):
                await admin.start()
            while True:
                for group, places in self._groups.items():
                    async with asyncio.timeout(ASK_SECONDS):
                        found = await admin.list_consumer_group_offsets(group, partitions=places)
                    self._note({place: one.offset for place, one in found.items()})
                self.looks += 1
                await asyncio.sleep(SAMPLE_SECONDS)
        finally:
            with suppress(KafkaError, OSError, TimeoutError):
                async with asyncio.timeout(ASK_SECONDS):
                    await admin.close()

    def _note(self, committed: dict[TopicPartition, int]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for place, offset in committed.items():
            seen = self._seen[place]
            if offset >= 0 and (not seen or seen[-1][1] != offset):
                seen.append((now_ms, offset))

    def ahead(self, sent: Iterable[Sent]) -> list[str]:
        """Ids that were committed before anything had come of them."""
        return [one.id for one in sent if self._too_early(one)]

    def _too_early(self, sent: Sent) -> bool:
        if sent.place is None:
            return False
        place = TopicPartition(sent.place.topic, sent.place.partition)
        past = (at for at, offset in self._seen[place] if offset > sent.place.offset)
        if (committed_ms := next(past, None)) is None:
            return False
        return not any(one.at_ms <= committed_ms for one in sent.outcomes)

    def backwards(self, topic: str) -> list[str]:
        """Where a commit went back: somebody committed what was no longer theirs."""
        return [
            f"{place.topic}[{place.partition}]: {before} then {after}"
            for place, seen in self._seen.items()
            if place.topic == topic
            for (_, before), (_, after) in pairwise(seen)
            if after < before
        ]
