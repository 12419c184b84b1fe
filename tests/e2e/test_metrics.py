"""What the workers export after a request of each kind, a change, and what nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import pytest

from context_engine import bootstrap
from context_engine.bootstrap import Parts
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events.client import ContextClient
from events.messages import BuildOptions
from events.producer import Producer
from events.records import OutgoingRecord
from events.topics import Topics
from tests.support.bus import make_topics, own_names
from tests.support.scraped import Scraped, scrape
from tests.support.world import World
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.localstack.part import free_port
from workers.metrics import FAMILIES
from workers.supervisor import WORKERS, WorkerProcess

pytestmark = pytest.mark.timeout(120)

WAIT_SECONDS = 40.0
REQUEST = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",), session_id="seen")


@dataclass(frozen=True)
class Running:
    """The three workers over topics and a cache of their own, and where each is scraped."""

    settings: Settings
    topics: Topics
    parts: Parts
    client: ContextClient
    producer: Producer
    ports: dict[str, int]

    async def until(self, name: str, holds: Callable[[Scraped], bool]) -> Scraped:
        """A scrape of this worker of which that holds."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not holds(found := await scrape(self.ports[name])):  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # as Prometheus asks again: nothing tells when
        return found


@pytest.fixture
async def running(
    stack: LocalStack, database_url: str, redis_url: str, tmp_path: Path
) -> AsyncIterator[Running]:
    name = token_hex(4)
    own = {
        **stack.env(), **own_names(), "CONTEXT_DATABASE_URL": database_url,
        "CONTEXT_REDIS_URL": redis_url, "CONTEXT_BUILD_GROUP": f"t{name}",
        "CONTEXT_TOPIC_BUILD_REQUESTS": f"t{name}.asked", "CONTEXT_TOPIC_READY": f"t{name}.ready",
    }  # fmt: skip
    settings = settings_of(own)
    topics = await make_topics(settings)
    ports = {one: free_port() for one in WORKERS}
    made = [
        WorkerProcess(one, own | {"CONTEXT_HEALTH_PORT": str(port)}, tmp_path / f"{one}.log")
        for one, port in ports.items()
    ]
    async with AsyncExitStack() as open_:
        open_.push_async_callback(lambda: asyncio.gather(*(worker.stop() for worker in made)))
        producer = Producer(settings.kafka_bootstrap, client_id="test")
        open_.push_async_callback(producer.stop)
        await asyncio.gather(producer.start(), *(worker.start() for worker in made))
        parts = await open_.enter_async_context(bootstrap.parts(settings))
        await World(parts.database).furnish()
        await until_live(settings)
        client = await open_.enter_async_context(ContextClient(settings))
        yield Running(settings, topics, parts, client, producer, ports)


async def test_everything_that_is_declared_is_exported_by_whom_it_says(running: Running) -> None:
    """By name, kind and labels; requests by outcome, the layers, dead letters, what was evicted,
    lag and proof of each partition; and nobody's id."""
    client, topics = running.client, running.topics
    await running.parts.cache.mark("w", frozenset(), create=True)
    for _ in range(2):
        await client.request(REQUEST)
    with pytest.raises(NotFound):
        await client.request(REQUEST.model_copy(update={"table_ids": ("dark",)}))
    await client.request(REQUEST, options=BuildOptions(fresh=True))
    await running.producer.send(OutgoingRecord(topics.build_requests.name, b"k", b"not JSON"))
    build = await running.until("build", lambda one: one.has("context_engine_dead_letters_total"))
    await running.parts.services.tables.rename("ana", "w", "t0", name="Deliveries")
    await running.producer.send(OutgoingRecord(topics.change("schema-change").name, b"w", b"x"))
    invalidate = await running.until(
        "invalidate",
        lambda one: (
            one.value("context_engine_evictions_total") > 0
            and one.has("context_engine_dead_letters_total")
        ),
    )
    schema = topics.change("schema-change").name
    relay = await running.until(
        "relay", lambda one: one.value("context_engine_records_sent_total", topic=schema) > 0
    )
    found = {"build": build, "invalidate": invalidate, "relay": relay}
    _as_declared(found)
    _build(build, topics)
    _invalidate(invalidate, topics)
    assert relay.value("context_engine_outbox_oldest_seconds") < WAIT_SECONDS
    for one in found.values():
        assert one.value("context_engine_without_progress_seconds") < WAIT_SECONDS
        assert one.value("process_resident_memory_bytes") > 0
        for id in ("ana", "t0", "dark", "seen"):
            assert f'"{id}"' not in one.text


def _as_declared(found: dict[str, Scraped]) -> None:
    sometimes = {"context_engine_records_refused_total"}
    for name, one in found.items():
        declared = {family.name: family for family in FAMILIES if name in family.of}
        ours = {n: kind for n, kind in one.kinds.items() if n.startswith("context_engine_")}
        assert ours.keys() | sometimes == declared.keys() | sometimes
        assert ours == {n: declared[n].kind for n in ours}
        labels = {n: set(given) - {"le"} for n, given, _ in one.samples}
        for n, family in declared.items():
            sample = f"{n}_count" if family.kind == "histogram" else n
            assert labels.get(sample, set(family.labels)) == set(family.labels), n


def _build(one: Scraped, topics: Topics) -> None:
    requests = {
        outcome: one.value("context_engine_requests_total", outcome=outcome)
        for outcome in ("cache", "surface", "build", "not_found", "unanswered")
    }
    assert requests == {"cache": 1, "surface": 0, "build": 2, "not_found": 1, "unanswered": 1}
    assert one.value("context_engine_request_seconds_count") == sum(requests.values())
    assert one.value("context_engine_cache_reads_total", layer="whole", result="hit") == 1
    assert one.value("context_engine_cache_reads_total", layer="session", result="hit") >= 2
    assert one.value("context_engine_bypasses_total", reason="asked") == 1
    asked, ready = topics.build_requests, topics.ready.name
    assert one.value("context_engine_records_sent_total", topic=ready) == 4
    dead = {"topic": asked.name, "reason": "InvalidRequest"}
    assert one.value("context_engine_dead_letters_total", **dead) == 1
    checks = ("worker", "partitions", "redis", "database", "liveness")
    assert [one.value("context_engine_ready", check=name) for name in checks] == [1] * len(checks)
    assert one.value("context_engine_requests_in_flight") == 0


def _invalidate(one: Scraped, topics: Topics) -> None:
    for topic in topics.changes():
        places = [{"topic": topic.name, "partition": str(n)} for n in range(topic.partitions)]
        for place in places:
            assert one.value("context_engine_changes_proven", **place) == 1
            assert one.has("context_engine_change_lag_records", **place)
            assert one.value("context_engine_change_oldest_seconds", **place) < WAIT_SECONDS
    assert one.value("context_engine_change_records_total") > 0
    dead = {"topic": topics.change("schema-change").name, "reason": "InvalidRequest"}
    assert one.value("context_engine_dead_letters_total", **dead) == 1
    assert one.value("context_engine_records_sent_total", topic=topics.evictions.name) >= 2
