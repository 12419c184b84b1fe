"""The outbox relay: what the domain committed is published, at least once.

Rows are held while they are published and noted as published in the same transaction: a relay
that dies in between leaves them to the next, which publishes them again. Several relays skip
each other's rows. Beside it the relay sends heartbeats, and removes evidence that is past its days.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import islice
from typing import Protocol

import structlog

from context_engine import bootstrap, tracing
from context_engine.errors import Unavailable
from context_engine.ports import OutboxRow, OutboxSource
from context_engine.settings import Settings
from events import cloudevents, messages
from events.producer import Producer, RecordRefused
from events.records import OutgoingRecord, Position, headers_of
from events.topics import Topics, look_for
from workers.backoff import Patience, reach, unless
from workers.beside import beside
from workers.health import Pulse, served
from workers.heartbeat import Heart
from workers.metrics import counts
from workers.metrics.around import counted
from workers.process import ExitCode
from workers.retention import retain

log = structlog.get_logger(__name__)

SOURCE = "context-engine/relay"
BATCH = 200
POLL_SECONDS = 1.0
"""How long a relay waits for a wake-up before it looks by itself."""

SEND_SECONDS = 8.0
"""How long one batch waits for the broker: a stop waits for it too."""

START_SECONDS = 10.0
"""How long the database may be away at the start."""

TOLD = 5
"""How many refused rows of a batch the log names."""

KEEP_PUBLISHED = timedelta(hours=24)
CLEAN_SECONDS = 600.0
LATE = timedelta(seconds=10)
"""An unpublished row older than this is worth a warning."""


class Sender(Protocol):
    """What is needed of a producer."""

    async def send(self, record: OutgoingRecord) -> Position: ...


class Relay:
    """Publishes what an outbox holds."""

    def __init__(self, outbox: OutboxSource, producer: Sender, topics: Topics) -> None:
        self._outbox, self._producer, self._topics = outbox, producer, topics

    async def publish(self) -> int:
        """Publishes one batch; how many rows were due. Raises `Unavailable`: nothing is lost.

        A row that its topic refuses stays, is put off, and does not hold up the others.
        """
        async with self._outbox.claim(BATCH) as batch:
            rows = list(batch.rows)
            reasons = await asyncio.gather(*map(self._refusal, rows))
            refused = {row.id: why for row, why in zip(rows, reasons, strict=True) if why}
            done = [row.id for row in rows if row.id not in refused]
            if done:
                await batch.published(done)
            if refused:
                await batch.refused(list(refused))
        if refused:
            _tell(refused)
        return len(rows)

    async def _refusal(self, row: OutboxRow) -> str | None:
        """Publishes one row; None once the broker has it, else why its topic does not take it."""
        headers, value = cloudevents.encode(
            type=messages.type_of(row.type),
            source=SOURCE,
            id=row.id,
            data=row.payload,
            time=row.written_at,
        )
        if not tracing.on() and row.trace:  # whoever looks at spans goes on with it
            headers += headers_of(row.trace)
        record = OutgoingRecord(
            topic=self._topics.change(row.kind).name,
            key=row.workspace_id.encode(),
            value=value,
            headers=headers,
        )
        try:
            with tracing.span("relay change", "internal", row.trace):
                await self._producer.send(record)
        except RecordRefused as refused:
            return refused.message
        return None

    async def tidy(self) -> None:
        """Forgets what was published long ago, and says when what was not is old."""
        removed = await self._outbox.clean(KEEP_PUBLISHED)
        if removed:
            log.info("outbox cleaned", rows=removed)
        await self.lag()

    async def lag(self) -> timedelta | None:
        """Age of the oldest unpublished row; a warning where that is old."""
        lag = await self._outbox.lag()
        if lag is not None and lag > LATE:
            log.warning("outbox lags", seconds=round(lag.total_seconds(), 1))
        return lag


def _tell(refused: Mapping[str, str]) -> None:
    """One line for a batch, however many of it were refused."""
    shown = dict(islice(refused.items(), TOLD))
    log.error("changes cannot be published; put off", changes=len(refused), first=shown)


async def relay(
    relaying: Relay,
    outbox: OutboxSource,
    stop: asyncio.Event,
    patience: Patience,
    turned: Callable[[], None] = lambda: None,
) -> ExitCode:
    """Publishes until `stop`; leaves with `UNAVAILABLE` when a part stays away.

    `turned` is called at every turn, also while a part is away.
    """
    tidied = float("-inf")
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        turned()
        try:
            if await relaying.publish() < BATCH:
                if clock() - tidied > CLEAN_SECONDS:
                    await relaying.tidy()
                    tidied = clock()
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
        timeout=SEND_SECONDS,
    )
    async with served(settings, "relay") as health, bootstrap.publishing(settings) as parts:
        health.needs("database", parts.outbox.lag)
        health.needs("broker", producer.check)
        relaying = Relay(parts.outbox, counted(producer, health.metrics, buries=False), topics)

        async def start() -> None:
            # Nothing here needs the cache: changes must get out without it.
            await reach(relaying.lag, Patience(START_SECONDS))
            await producer.start()
            await look_for(settings.kafka_bootstrap, topics.changes())

        try:
            if not await unless(stop, start()):
                return ExitCode.OK
            pulse = Pulse(settings.stall_seconds)
            health.moves("outbox", pulse.fault)
            counts.outbox(health.metrics, parts.outbox, pulse)
            health.started()
            ready()
            patience = Patience(settings.stall_seconds)
            heart = Heart(parts.liveness, parts.cache, parts.outbox, producer, topics)
            return await beside(
                relay(relaying, parts.outbox, stop, patience, pulse.beat),
                heart.run(stop),
                retain(parts.snapshots, settings.snapshot_retention_days, stop),
            )
        finally:
            health.leaving()
            await parts.outbox.close()
            await producer.stop()
