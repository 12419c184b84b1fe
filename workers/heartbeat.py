"""Heartbeats: from the relay, behind the changes, through every partition of their topics.

The order is the proof. The store's time is read first, then what is committed and unpublished;
only when all of that is published does the heartbeat go out. So a relay that stands still with
rows locked, which others skip, holds it back, whoever sends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol
from uuid import uuid4

import structlog

from context_engine import keys
from context_engine.errors import Unavailable
from context_engine.liveness import LIFE_MS
from context_engine.ports import ContextCache, LivenessStore, OutboxSource, Pulse, Unpublished
from events import cloudevents, messages
from events.messages import Heartbeat
from events.producer import RecordRefused
from events.records import OutgoingRecord, Position
from events.topics import Topics
from workers.backoff import pause

log = structlog.get_logger(__name__)

SOURCE = "context-engine/relay"
BEAT_SECONDS = 1.0
"""From one heartbeat to the next: three of them fit into the life of a proof."""

LOOK_SECONDS = 0.05
"""How often it is looked whether the rows are published, which another relay may do."""

MOST_WAITING = 5_000
"""Rows that a heartbeat waits for. With more, nobody could say in time that all are published."""


class Sender(Protocol):
    """What is needed of a producer."""

    async def send(self, record: OutgoingRecord) -> Position: ...

    async def partitions(self, topic: str) -> int: ...


class Heart:
    """Beats for as long as it runs; what keeps it from beating shows as caches bypassed.

    Without an outbox it vouches for no more than what is on the topics.
    """

    def __init__(
        self,
        store: LivenessStore,
        cache: ContextCache,
        outbox: OutboxSource | None,
        sender: Sender,
        topics: Topics,
    ) -> None:
        self._store, self._cache, self._outbox = store, cache, outbox
        self._sender, self._topics = sender, topics
        self._still: str | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(LIFE_MS / 1000):
                    self._tell(None if await self.beat() else "changes wait to be published")
            except (Unavailable, RecordRefused) as away:
                self._tell(away.message)
            except TimeoutError:
                self._tell("changes are not published in time")
            await pause(BEAT_SECONDS, stop)

    async def beat(self) -> bool:
        """One heartbeat; False where more waits than it can wait for. Raises `Unavailable`."""
        pulse = await self._store.pulse()
        timeline = None
        if self._outbox is not None:
            waiting = await self._outbox.unpublished(MOST_WAITING)
            if waiting is None or not await self._nothing_waits(self._outbox, waiting, pulse):
                return False
            timeline = waiting.timeline
        pulse = replace(pulse, timeline=timeline)
        await asyncio.gather(*(self._through(t.name, pulse) for t in self._topics.changes()))
        return True

    async def _nothing_waits(
        self, outbox: OutboxSource, waiting: Unpublished, pulse: Pulse
    ) -> bool:
        """Once all is published that was committed; looked for, since no relay says when."""
        if not await self._ended(waiting.put_off, pulse):
            return False
        while waiting.ids and not await outbox.all_published(waiting.ids):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        return True

    async def _ended(self, workspaces: Collection[str], pulse: Pulse) -> bool:
        """Ends all contexts of workspaces with a change that cannot be published: that stands
        in for applying it, for as long as it waits. False where another reign took the marks."""
        unknown = frozenset({keys.EVERYTHING})
        marked = await self._cache.mark_many([(one, unknown) for one in sorted(workspaces)])
        return all(mark.reign in pulse.reigns for mark in marked)

    async def _through(self, topic: str, pulse: Pulse) -> None:
        count = await self._sender.partitions(topic)
        records = (_heartbeat(topic, number, count, pulse) for number in range(count))
        await asyncio.gather(*map(self._sender.send, records))

    def _tell(self, reason: str | None) -> None:
        """Once when it stops beating, for each reason, and once when it beats again."""
        if reason == self._still:
            return
        self._still = reason
        if reason is None:
            log.info("heartbeats go out")
        else:
            log.warning("no heartbeats; caches are bypassed", reason=reason)


def _heartbeat(topic: str, partition: int, partitions: int, pulse: Pulse) -> OutgoingRecord:
    said = Heartbeat(
        at_ms=pulse.at_ms,
        reigns=tuple(sorted(pulse.reigns)),
        partitions=partitions,
        timeline=pulse.timeline,
    )
    headers, value = cloudevents.encode(
        type=messages.HEARTBEAT,
        source=SOURCE,
        id=uuid4().hex,
        data=said.model_dump_json().encode(),
    )
    return OutgoingRecord(topic=topic, key=None, value=value, headers=headers, partition=partition)
