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
from context_engine.adapters.sql.services import DomainServices
from context_engine.bootstrap import Parts
from context_engine.models import ContextBuildInput
from events.client import ContextClient
from tests.support.bus import make_topics, own_names
from tests.support.spans import Receiver, receiver, seen_here, told
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.supervisor import WORKERS, WorkerProcess

pytestmark = [pytest.mark.timeout(120), pytest.mark.any_broker]

CANARY = "zanzibar"
ANA, WORK, TABLE = f"ana-{CANARY}", f"work-{CANARY}", f"table-{CANARY}"
REQUEST = ContextBuildInput(
    user_id=ANA,
    workspace_id=WORK,
    table_ids=(TABLE,),
    session_id=f"session {CANARY}",
    message=f"Where is {CANARY}?",
)


@dataclass(frozen=True)
class Running:
    parts: Parts
    client: ContextClient
    receiver: Receiver
    here: InMemorySpanExporter
    secrets: list[bytes]


async def furnish(services: DomainServices) -> None:
    """A workspace in which whatever has an id or a name has the canary in it."""
    await services.organizations.create("op", name=CANARY, id=f"org-{CANARY}")
    await services.users.create("op", name=CANARY, email=f"{CANARY}@x.example", id=ANA)
    await services.workspaces.create(
        "op", name=CANARY, maker_id=ANA, organization_id=f"org-{CANARY}", id=WORK
    )
    await services.tables.create(
        ANA, WORK, name=CANARY, id=TABLE, primary_id=f"field-{CANARY}", primary_name=CANARY
    )


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
        await furnish(parts.services)
        await until_live(settings)
        client = await open_.enter_async_context(ContextClient(settings))
        secrets = (settings.database_url, settings.tag_secret)
        known = [secret.get_secret_value().encode() for secret in secrets]
        yield Running(parts, client, collector, here, known)


async def test_a_request_and_a_write_are_one_trace_each(running: Running) -> None:
    """Across processes, each step below the one that led to it; and no span tells whose it was."""
    ready = await running.client.request(REQUEST)
    assert ready.source == "build"
    asked = next(
        told(one) for one in running.here.get_finished_spans() if one.name == "request context"
    )
    sql = [("context-build", f"sql {name}") for name in ("facts", "tables", "snapshot")]
    redis = [("context-build", f"redis {name}") for name in ("look", "fill")]
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

    running.here.clear()
    await running.parts.services.tables.rename(ANA, WORK, TABLE, name=f"Table {CANARY}")
    wrote = next(told(one) for one in running.here.get_finished_spans() if one.name == "write")
    consumer = ("mark change", "apply change", "redis evict")
    steps = [("context-relay", "relay change"), *(("context-invalidate", one) for one in consumer)]
    async with asyncio.timeout(30):
        spans = await running.receiver.until(*steps, trace=wrote.trace)
    of = {one.name: one for one in spans}
    above = {one.span: one for one in spans}
    assert of["relay change"].parent == wrote.span
    for name in ("mark change", "apply change"):
        assert above[above[of[name].parent].parent] == of["relay change"], "by way of its `send`"
    assert of["redis evict"].parent == of["apply change"].span
    _tells_nothing_of_anybody(running)


def _tells_nothing_of_anybody(running: Running) -> None:
    """Over all that any process exported: neither ids nor names nor secrets, and no attribute that
    could have one."""
    written = [one.to_json().encode() for one in running.here.get_finished_spans()]
    for body in (*running.receiver.bodies, *written):
        assert CANARY.encode() not in body
        assert [secret for secret in running.secrets if secret in body] == []
    given = [one.attributes for one in running.receiver.spans]
    assert any(given)
    assert [values for values in given if "string_value" in str(values)] == []
