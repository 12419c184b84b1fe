"""The invalidation consumer: what domain changes make untrue is marked, evicted and announced.

Marks come first, batch after batch, and wait for nothing. Behind them, for all batches that are
marked by then: evictions; then announcements and dead letters that the broker has acknowledged;
then the commit. Killed in between, the next member applies them again, which is harmless: marks
only rise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Protocol

import structlog

from context_engine import bootstrap
from context_engine.adapters.counted import CountedCache
from context_engine.errors import Unavailable
from context_engine.invalidation import Invalidator
from context_engine.settings import Settings
from events.consumer import BATCH, Consumer
from events.producer import Producer
from events.records import RawMessage
from events.topics import Topics, look_for
from workers.backoff import Patience, reach, unless
from workers.beside import beside
from workers.change_applier import ChangeApplier, MarkedBatch
from workers.health import served
from workers.heartbeat import Heart
from workers.metrics import counts
from workers.metrics.around import counted
from workers.process import ExitCode
from workers.proving import Prover, proven
from workers.watchdog import PartitionWatch, Stalled, Watch, Watchdog, Watches

__all__ = ["ChangeApplier", "Consumption", "next_offsets", "run", "watched"]

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.1
"""How long a poll waits where nothing comes: a stop waits for it, with caches bypassed."""

MOST_AHEAD = 10_000
"""Records that are marked, or about to be, while those before them are still being finished."""

MOST_BYTES_AHEAD = 64 * 2**20
"""Their values, which are kept until then: one alone may have 1 MiB."""

FINISHED_AT_ONCE = 1_000
"""Records, or one batch, after which the position moves: where all is slow, that is what the
watchdog sees move, what a stop waits for, and what is done again after a kill."""

SEND_SECONDS = 8.0
"""How long one batch waits for the broker: a stop waits for it too."""

START_SECONDS = 10.0
"""How long a part may be away at the start."""

LEAVE_SECONDS = 9.0
"""How long a batch may still take once the worker is told to stop: as long as its sends may."""

PATIENCE = 0.75
"""How long one may be away later, as a share of the time after which a worker is stalled."""


class Source(Protocol):
    """What is needed of a consumer."""

    async def poll(self, seconds: float) -> list[RawMessage]: ...

    async def commit(self, offsets: dict[tuple[str, int], int]) -> None: ...


class Consumption:
    """Applies what a source gives, batch by batch. The watchdog looks at its progress.

    A batch is marked as soon as it is there; what is left of those before it is done beside, so
    that neither unlinking nor a broker that is slow delays a mark. The position moves only after
    all of a batch is done; what failed is done again.
    """

    buffered = 0

    def __init__(self, source: Source, applier: ChangeApplier, patience: Patience) -> None:
        self._source, self._applier = source, applier
        self._patience, self._later = patience, patience.twin()
        self._marked: list[MarkedBatch] = []
        self._finishing: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._bytes = 0
        self.in_flight = 0
        self.finished_total = 0
        self.keeps_up = True
        """Whether the last look found less than it could take: nothing that came waits unread."""

    async def run(self, stop: asyncio.Event) -> ExitCode:
        """Until `stop`. A part that stays away ends it with `UNAVAILABLE`."""
        try:
            while not stop.is_set():
                batch = await self._source.poll(POLL_SECONDS)
                self.keeps_up = len(batch) < BATCH
                if batch and not await self._mark(batch, stop):
                    break
                await self._go_on(stop)
            if self._finishing is not None:
                await self._finishing
        except Unavailable as away:
            log.error("changes cannot be applied; leaving", part=away.part, reason=away.message)
            return ExitCode.UNAVAILABLE
        finally:
            if self._finishing is not None:
                self._finishing.cancel()
                await asyncio.gather(self._finishing, return_exceptions=True)
        return ExitCode.OK

    async def _mark(self, batch: Sequence[RawMessage], stop: asyncio.Event) -> bool:
        """Whether it stands; told to stop while a part is away, leaves it to the next member."""
        self.in_flight += len(batch)
        self._bytes += _bytes_of(batch)
        while True:
            try:
                self._marked.append(await self._applier.mark(batch))
            except Unavailable as away:
                if not await self._patience.wait(away, stop):
                    raise
                if stop.is_set():
                    return False
            else:
                self._patience.reset()
                return True

    async def _go_on(self, stop: asyncio.Event) -> None:
        """Sees to it that what is marked is finished; waits for room where too much is not."""
        while True:
            if self._finishing is not None and self._finishing.done():
                self._finishing.result()
                self._finishing = None
            if self._finishing is None and self._marked:
                self._finishing = asyncio.create_task(self._finish(stop))
            if self._finishing is None or not self._too_far_ahead:
                return
            self._moved.clear()
            await self._moved.wait()
            if stop.is_set():
                return

    @property
    def _too_far_ahead(self) -> bool:
        return self.in_flight > MOST_AHEAD or self._bytes > MOST_BYTES_AHEAD

    async def _finish(self, stop: asyncio.Event) -> None:
        """Evicts, tells and commits what is marked, some batches at a time, until nothing is left;
        told to stop, it leaves the others to the next member."""
        try:
            while self._marked and await self._finished(_first(self._marked), stop):
                self._moved.set()
                if stop.is_set():
                    return
        finally:
            self._moved.set()

    async def _finished(self, batches: Sequence[MarkedBatch], stop: asyncio.Event) -> bool:
        """Whether these, the first, are; told to stop while a part is away, leaves them."""
        while True:
            try:
                await self._applier.finish(batches)
                await self._source.commit(next_offsets(raw for one in batches for raw in one.raw))
            except Unavailable as away:
                if not await self._later.wait(away, stop):
                    raise
                if stop.is_set():
                    return False
            else:
                self._later.reset()
                del self._marked[: len(batches)]
                done = sum(len(one.raw) for one in batches)
                self._bytes -= sum(_bytes_of(one.raw) for one in batches)
                self.in_flight -= done
                self.finished_total += done
                return True


def _bytes_of(batch: Sequence[RawMessage]) -> int:
    return sum(len(raw.value or b"") for raw in batch)


def _first(marked: Sequence[MarkedBatch]) -> Sequence[MarkedBatch]:
    """The first of them, and the next as long as together they are few."""
    count, end = len(marked[0].raw), 1
    while end < len(marked) and (count := count + len(marked[end].raw)) <= FINISHED_AT_ONCE:
        end += 1
    return marked[:end]


def next_offsets(records: Iterable[RawMessage]) -> dict[tuple[str, int], int]:
    """The position after these records, for each of their partitions: beyond the last that was
    read, which is not the highest where a partition was read again."""
    return {(raw.topic, raw.partition): raw.offset + 1 for raw in records}


async def watched(consumption: Consumption, watchdog: Watch, stop: asyncio.Event) -> ExitCode:
    """Runs until `stop`, or until changes wait at the broker and are not read.

    Told to stop, it waits only so long for a part that keeps a batch: the next member has it.
    """
    work = asyncio.create_task(consumption.run(stop))
    watch = asyncio.create_task(watchdog.watch())
    overdue = asyncio.create_task(_overdue(stop))
    try:
        await asyncio.wait({work, watch, overdue}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if overdue.done():
            log.error("a batch did not end in time; leaving, the next member applies it again")
            return ExitCode.UNAVAILABLE
        watch.result()
        raise AssertionError("a watchdog never returns")
    except Stalled as standing:
        log.error("changes are not applied; leaving", reason=str(standing))
        return ExitCode.STALLED
    finally:
        for task in (work, watch, overdue):
            task.cancel()
        await asyncio.gather(work, watch, overdue, return_exceptions=True)


async def _overdue(stop: asyncio.Event) -> None:
    await stop.wait()
    await asyncio.sleep(LEAVE_SECONDS)


async def run(settings: Settings, *, ready: Callable[[], None], stop: asyncio.Event) -> int:
    """Runs the invalidation consumer until `stop`; the exit code."""
    topics = Topics.of(settings)
    producer = Producer(
        settings.kafka_bootstrap,
        client_id="context-invalidation",
        max_record_bytes={t.name: t.max_message_bytes for t in topics.all()},
        timeout=SEND_SECONDS,
    )
    consumer = Consumer(
        settings.kafka_bootstrap,
        [topic.name for topic in topics.changes()],
        settings.invalidation_group,
        max_bytes=max(topic.max_message_bytes for topic in topics.changes()),
        session_ms=int(settings.invalidation_session_seconds * 1_000),
    )
    async with served(settings, "invalidate") as health, bootstrap.marking(settings) as parts:
        liveness = bootstrap.liveness_of(settings, parts.liveness)
        health.needs("redis", parts.cache.ping)
        health.needs("partitions", consumer.check)
        health.notes("liveness", lambda: proven(liveness))
        lag = counts.ChangeLag(settings, parts.liveness)

        async def start() -> None:
            # Nothing here reads the database: a revocation must not wait for it.
            await reach(lambda: bootstrap.check_cache(parts), Patience(START_SECONDS))
            await producer.start()
            changes = topics.changes()
            told = (topics.evictions, *(topic.dead_letters for topic in changes))
            await look_for(settings.kafka_bootstrap, (*changes, *told))
            await consumer.start()

        try:
            if not await unless(stop, start()):
                return ExitCode.OK
            life = timedelta(seconds=settings.cache_ttl_seconds)
            prover = Prover(parts.liveness, consumer, life)
            cache, sender = CountedCache(parts.cache), counted(producer, health.metrics)
            applier = ChangeApplier(Invalidator(cache), prover, sender, topics, settings)
            patience = Patience(settings.stall_seconds * PATIENCE)
            consumption = Consumption(consumer, applier, patience)
            watchdog = Watchdog(consumption, consumer.behind, stall_seconds=settings.stall_seconds)
            health.moves("changes", watchdog.fault)
            counts.changes(health.metrics, consumption, watchdog, cache.counts)
            health.metrics.asks(lag)
            health.started()
            ready()
            partitions = PartitionWatch(
                consumption, consumer.places, stall_seconds=settings.stall_seconds
            )
            work = watched(consumption, Watches(watchdog, partitions), stop)
            if settings.heartbeats == "relay":
                return await work
            heart = Heart(parts.liveness, parts.cache, None, producer, topics)
            return await beside(work, heart.run(stop))
        finally:
            health.leaving()
            await lag.close()
            await consumer.stop()
            await producer.stop()
