"""The invalidation consumer: what domain changes make untrue is marked, evicted and announced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from context_engine import bootstrap
from context_engine.adapters.counted import CountedCache
from context_engine.invalidation import Invalidator
from context_engine.settings import Settings
from events.consumer import Consumer
from events.producer import Producer
from events.topics import Topics, look_for
from workers.backoff import Patience, reach, unless
from workers.beside import beside
from workers.change_applier import ChangeApplier
from workers.consumption import Consumption
from workers.health import served
from workers.heartbeat import Heart
from workers.metrics import counts
from workers.metrics.around import counted
from workers.process import ExitCode
from workers.proving import Prover, proven
from workers.watchdog import PartitionWatch, Stalled, Watch, Watchdog, Watches

log = structlog.get_logger(__name__)

SEND_SECONDS = 8.0
"""How long one batch waits for the broker: a stop waits for it too."""

START_SECONDS = 10.0
"""How long a part may be away at the start."""

LEAVE_SECONDS = 9.0
"""How long a batch may still take once the worker is told to stop: as long as its sends may."""

PATIENCE = 0.75
"""How long one may be away later, as a share of the time after which a worker is stalled."""


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
            cache = CountedCache(bootstrap.seen(parts.cache))
            sender = counted(producer, health.metrics)
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
