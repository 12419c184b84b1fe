"""One trace from a client to its answer, and one from a write to the last eviction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from context_engine import bootstrap
from context_engine.bootstrap import Parts
from context_engine.models import ContextBuildInput
from events.client import ContextClient
from tests.support.bus import make_topics, own_names
from tests.support.spans import Receiver, receiver, seen_here, told
from tests.support.world import World
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.supervisor import WORKERS, WorkerProcess

pytestmark = [pytest.mark.timeout(120), pytest.mark.any_broker]

CANARY = "zanzibar"
REQUEST = ContextBuildInput(
    user_id="ana",
    workspace_id="w",
    table_ids=("t0",),
    session_id=f"session {CANARY}",
    message=f"Where is {CANARY}?",
)


@dataclass(frozen=True)
class Running:
    parts: Parts
    client: ContextClient
    receiver: Receiver
    here: InMemorySpanExporter


@pytest.fixture
async def running(
    stack: LocalStack, database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Running]:
    """A product that looks at spans, and the three workers, which export theirs."""
    name = token_hex(4)
    async with AsyncExitStack() as open_:
        collector = await open_.enter_async_context(receiver())
        own = {
            **stack.env(), **own_names(), "CONTEXT_DATABASE_URL": database_url,
            "CONTEXT_REDIS_URL": redis_url, "CONTEXT_BUILD_GROUP": f"t{name}",
            "CONTEXT_TOPIC_BUILD_REQUESTS": f"t{name}.asked", "CONTEXT_TRACING": "true",
            "CONTEXT_TOPIC_READY": f"t{name}.ready", "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint,
        }  # fmt: skip
        settings = settings_of(own)
        await make_topics(settings)
        made = [WorkerProcess(one, own, tmp_path / f"{one}.log") for one in WORKERS]
        open_.push_async_callback(lambda: asyncio.gather(*(worker.stop() for worker in made)))
        await asyncio.gather(*(worker.start() for worker in made))
        here = open_.enter_context(seen_here())
        parts = await open_.enter_async_context(bootstrap.parts(settings))
        world = World(parts.database)
        await world.furnish()
        await until_live(settings)
        client = await open_.enter_async_context(ContextClient(settings))
        yield Running(parts, client, collector, here)


async def test_a_request_and_a_write_are_one_trace_each(running: Running) -> None:
    """Across processes, each step below the one that led to it; and no span tells whose it was."""
    ready = await running.client.request(REQUEST)
    assert ready.source == "build"
    asked = next(
        told(one) for one in running.here.get_finished_spans() if one.name == "request context"
    )
    sql = [("context-build", f"sql {name}") for name in ("facts", "tables", "snapshot")]
    redis = [("context-build", f"redis {name}") for name in ("look", "found")]
    ends = [("context-build", "answer request"), ("context-build", "build")]
    reply = ("context-build", f"send {running.client._topics.ready.name}")
    async with asyncio.timeout(30):
        spans = await running.receiver.until(*sql, *redis, *ends, reply, trace=asked.trace)
    below = {one.span: one for one in spans}
    answered = next(one for one in spans if one.name == "answer request")
    sent = {told(one).span: told(one) for one in running.here.get_finished_spans()}
    assert sent[answered.parent].parent == asked.span
    assert all(one.parent in below for one in spans if one is not answered)
    kept = await running.parts.snapshots.get(ready.context_id)
    assert kept is not None
    assert kept.trace_id == asked.trace

    await running.parts.services.tables.rename("ana", "w", "t0", name=f"Table {CANARY}")
    wrote = next(told(one) for one in running.here.get_finished_spans() if one.name == "write")
    consumer = ("mark change", "apply change", "redis evict")
    steps = [("context-relay", "relay change"), *(("context-invalidate", one) for one in consumer)]
    async with asyncio.timeout(30):
        await running.receiver.until(*steps, trace=wrote.trace)
    assert not any(CANARY.encode() in body for body in running.receiver.bodies)
    assert not any(CANARY in one.to_json() for one in running.here.get_finished_spans())
