"""The build worker: what it needs, in the order in which it starts and stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from context_engine import bootstrap
from context_engine.bootstrap import Answering
from context_engine.settings import Settings
from events.producer import Producer
from events.topics import Topics, look_for
from workers.app import BuildWorkerConfig
from workers.backoff import Patience, reach, unless
from workers.beside import beside
from workers.build_handler import BuildHandler
from workers.health import served
from workers.metrics import counts
from workers.metrics.around import counted, measured
from workers.proving import proven
from workers.runner import ExitCode, Limits, serve
from workers.tallying import Teller

START_SECONDS = 10.0
"""How long a part may be away at the start."""

NO_SNAPSHOT = "none"
"""Asked for to see that the database answers; no snapshot has this id."""


async def run(
    settings: Settings,
    *,
    ready: Callable[[], None],
    stop: asyncio.Event,
    over: AbstractAsyncContextManager[Answering] | None = None,
) -> int:
    """Runs the build worker until `stop` or a reason to leave; the exit code.

    `over` wires what answers, such as `bootstrap.over(domain, snapshots)` for a product with a
    database of its own; without it that is the reference domain.
    """
    topics = Topics.of(settings)
    producer = Producer(
        settings.kafka_bootstrap,
        client_id="context-build",
        max_record_bytes={t.name: t.max_message_bytes for t in topics.all()},
    )
    async with served(settings, "build") as health, over or bootstrap.parts(settings) as parts:
        health.needs("database", lambda: parts.snapshots.get(NO_SNAPSHOT))
        health.needs("redis", parts.cache.ping)
        health.notes("liveness", lambda: proven(parts.engine.liveness))

        async def start() -> None:
            await reach(lambda: bootstrap.check(parts), Patience(START_SECONDS))
            await producer.start()
            await look_for(
                settings.kafka_bootstrap,
                (topics.build_requests, topics.ready, topics.build_requests.dead_letters),
            )

        try:
            if not await unless(stop, start()):
                return ExitCode.OK
            handler = BuildHandler(parts.engine, topics, settings)
            counts.answers(health.metrics, parts.engine, parts.counts)
            config = BuildWorkerConfig(
                bootstrap=settings.kafka_bootstrap,
                topic=topics.build_requests.name,
                group=settings.build_group,
                max_message_bytes=topics.build_requests.max_message_bytes,
            )
            answering = serve(
                config,
                measured(handler, health.metrics),
                counted(producer, health.metrics),
                stop=stop,
                max_in_flight=settings.max_in_flight,
                on_refused=handler.substitute,
                on_ready=ready,
                limits=Limits(stop=settings.shutdown_seconds - 2, stall=settings.stall_seconds),
                health=health,
            )
            return await beside(answering, Teller(parts.engine, parts.liveness).run(stop))
        finally:
            await producer.stop()
