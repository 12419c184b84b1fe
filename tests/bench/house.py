"""The house under the benchmarks: stack, schema, topics and one workspace, without workers."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from context_engine import bootstrap
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.migrate import upgrade
from context_engine.bootstrap import Parts
from context_engine.settings import Settings
from events.topics import Topics, ensure
from tests.bench.hot import Worker
from tests.bench.load import Request, build_request
from tests.support.world import World
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.supervisor import WorkerProcess, workers

TABLES = ("t0", "t1")


@dataclass(frozen=True, slots=True)
class BenchHouse:
    """A workspace `w` with two tables and a thousand records, and all that reaches it."""

    settings: Settings
    env: dict[str, str]
    parts: Parts
    world: World

    def worker(self) -> Worker:
        """The real build worker, as a process of its own."""
        topics = Topics.of(self.settings)
        return Worker(
            name="context-engine",
            command=[sys.executable, "-m", "workers", "worker", "build"],
            requests_topic=topics.build_requests.name,
            replies_topic=topics.ready.name,
            environment=self.env,
            ready_line="build ready",
        )

    @asynccontextmanager
    async def workers(self) -> AsyncIterator[dict[str, WorkerProcess]]:
        """All workers as processes, which read their cache only while it is proven fresh."""
        with TemporaryDirectory(prefix="bench-logs-") as logs:
            async with workers(env=self.proven_env, logs=Path(logs)) as running:
                await until_live(settings_of(self.proven_env))
                yield running

    @property
    def proven_env(self) -> dict[str, str]:
        return self.env | {"CONTEXT_LIVENESS": "proven"}


@asynccontextmanager
async def bench_house(kafka: str) -> AsyncIterator[BenchHouse]:
    """Everything but the workers; gone at the end of the block."""
    async with LocalStack.start(kafka=kafka, on_progress=lambda _: None) as stack:
        # No relay runs beside what is measured: it would take its share of the machine.
        env = stack.env() | {"CONTEXT_LIVENESS": "assumed"}
        settings = settings_of(env)
        await upgrade(settings.database_url.get_secret_value())
        await ensure(settings.kafka_bootstrap, Topics.of(settings))
        database = create_engine(settings)
        world = World(database)
        await world.furnish(tables=len(TABLES), records=1_000, fields=16)
        await world.conversation("c", "ana", messages=30)
        async with bootstrap.parts(settings) as parts:
            await parts.cache.mark("w", frozenset(), create=True)
            yield BenchHouse(settings, env, parts, world)
        await database.dispose()


def real_request(number: int) -> Request:
    """The same request as the baselines get, over what is there; 64 sessions take turns."""
    plain = build_request(number)
    data = json.loads(plain.value)
    data["input"] |= {
        "userId": "ana",
        "workspaceId": "w",
        "projectId": None,
        "tableIds": list(TABLES),
        "viewId": "t0.v0",
    }
    return Request(plain.id, plain.key, json.dumps(data).encode(), plain.headers)
