"""The outbox relay: what the domain committed is published, at least once.

Rows are held while they are published and noted as published in the same transaction: a relay
that dies in between leaves them to the next, which publishes them again. Several relays skip
each other's rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from context_engine import bootstrap
from context_engine.changes import domain_change
from context_engine.errors import Unavailable
from context_engine.ports import OutboxRow, OutboxSource
from context_engine.settings import Settings
from events import cloudevents, messages
from events.producer import Producer
from events.records import OutgoingRecord
from events.topics import Topics
from workers.backoff import Patience
from workers.runner import ExitCode

log = structlog.get_logger(__name__)

SOURCE = "context-engine/relay"
BATCH = 200
POLL_SECONDS = 1.0
"""How long a relay waits for a wake-up before it looks by itself."""

KEEP_PUBLISHED = timedelta(hours=24)
CLEAN_SECONDS = 600.0


class Relay:
    """Publishes what an outbox holds."""

    def __init__(self, outbox: OutboxSource, producer: Producer, topics: Topics) -> None:
        self._outbox, self._producer, self._topics = outbox, producer, topics

    async def publish(self) -> int:
        """Publishes one batch; how many rows. Raises `Unavailable`: nothing of it is lost."""
        async with self._outbox.claim(BATCH) as batch:
            rows = list(batch.rows)
            if rows:
                await asyncio.gather(*(self._send(row) for row in rows))
                await batch.published([row.id for row in rows])
        return len(rows)

    async def _send(self, row: OutboxRow) -> None:
        change = domain_change.validate_json(row.payload)
        headers, value = cloudevents.encode(
            type=messages.change_type(change),
            source=SOURCE,
            id=change.change_id,
            data=row.payload,
        )
        await self._producer.send(
            OutgoingRecord(
                topic=self._topics.change(row.kind).name,
                key=row.workspace_id.encode(),
                value=value,
                headers=headers,
            )
        )

    async def clean(self) -> None:
        """Forgets what was published long ago."""
        removed = await self._outbox.clean(KEEP_PUBLISHED)
        if removed:
            log.info("outbox cleaned", rows=removed)


async def relay(relaying: Relay, outbox: OutboxSource, stop: asyncio.Event) -> int:
    """Publishes until `stop`; leaves with `UNAVAILABLE` when a part stays away."""
    patience, cleaned = Patience(60.0), float("-inf")
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        try:
            if await relaying.publish() < BATCH:
                if clock() - cleaned > CLEAN_SECONDS:
                    await relaying.clean()
                    cleaned = clock()
                await _wait(outbox, stop)
        except Unavailable as away:
            if not await patience.wait(away, stop):
                log.error("changes cannot be published; leaving", reason=away.message)
                return ExitCode.UNAVAILABLE
            continue
        patience.reset()
    return ExitCode.OK


async def _wait(outbox: OutboxSource, stop: asyncio.Event) -> None:
    """Until rows may have been committed, or it is time to look anyway, or to stop."""
    woken = asyncio.ensure_future(outbox.wait(POLL_SECONDS))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({woken, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if woken.done():
            woken.result()
    finally:
        for task in (woken, stopped):
            task.cancel()
        await asyncio.gather(woken, stopped, return_exceptions=True)


async def run(settings: Settings, *, ready: Callable[[], None], stop: asyncio.Event) -> int:
    """Runs the relay until `stop`; the exit code."""
    topics = Topics.of(settings)
    producer = Producer(
        settings.kafka_bootstrap,
        client_id="context-relay",
        max_record_bytes={t.name: t.max_message_bytes for t in topics.all()},
    )
    async with bootstrap.parts(settings) as parts:
        await bootstrap.check(parts)
        await producer.start()
        try:
            ready()
            return await relay(Relay(parts.outbox, producer, topics), parts.outbox, stop)
        finally:
            await parts.outbox.close()
            await producer.stop()
