"""What it costs to be watched: hot throughput with metrics and logs on, and with tracing, against
off.

The same worker with other settings, in turns, since the speed of a machine drifts; scraped every
second. Beside the throughput stands the processor time that a request takes the worker: what being
watched costs, and less at the mercy of who else uses the machine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

import aiohttp

from tests.bench.hot import running
from tests.bench.house import BenchHouse, real_request
from tests.bench.load import Load, ensure_topics
from tests.bench.report import Goal, Measure
from tests.support.spans import receiver
from workers.localstack.part import free_port

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
REQUESTS = int(os.environ.get("BENCH_REQUESTS", "5000"))
WARM_UP = 1_000
SCRAPE_SECONDS = 1.0

OFF = {"CONTEXT_LOG_LEVEL": "error"}
"""No port, so nothing is counted for anyone; no line but of what goes wrong."""

JSON = {"CONTEXT_LOG_FORMAT": "json"}
SAMPLED = {
    "CONTEXT_TRACING": "true",
    "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    "OTEL_TRACES_SAMPLER_ARG": "0.01",
}

WATCHED: Mapping[str, tuple[Mapping[str, str], float]] = {
    "metrics and logs": (JSON, 0.95),
    "traced, 1 % sampled": (JSON | SAMPLED, 0.9),
}
"""What is on, by its settings, and how much of the throughput is to be left: what else is to be
watched is one more entry."""


@dataclass(frozen=True, slots=True)
class Run:
    """One turn: requests a second, and the worker's processor time for one, in milliseconds."""

    per_second: float
    processor_ms: float


async def observed(house: BenchHouse) -> list[Measure]:
    """Throughput and processor time of each, and the ratios to the same worker unwatched."""
    found: dict[str, list[Run]] = {"off": [], **{name: [] for name in WATCHED}}
    async with receiver() as collector:
        to = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
        for number in range(ROUNDS):
            turns = list(found) if number % 2 else list(reversed(found))
            for name in turns:
                settings = {**WATCHED[name][0], **to} if name in WATCHED else None
                found[name].append(await _run(house, settings))
        assert collector.spans
    measures: list[Measure] = []
    for name, (_, least) in WATCHED.items():
        goal = Goal(">=", least)
        rates, costs = attrgetter("per_second"), attrgetter("processor_ms")
        on, off = found[name], found["off"]
        measures += [
            _beside(f"observed, {name}: throughput", "1/s", on, off, rates, goal),
            _beside(f"observed, {name}: processor time", "ms", on, off, costs, None),
        ]
    return measures


def _beside(
    what: str,
    unit: str,
    on: Sequence[Run],
    off: Sequence[Run],
    figure: Callable[[Run], float],
    goal: Goal | None,
) -> Measure:
    ours, other = [figure(one) for one in on], [figure(one) for one in off]
    ratios = tuple(a / b for a, b in zip(ours, other, strict=True))
    return Measure(what, median(ours), unit, median(other), "off", goal, ratios)


async def _run(house: BenchHouse, settings: Mapping[str, str] | None) -> Run:
    """Hits only; watched with `settings`, or not at all."""
    plain, port = house.worker(), free_port()
    watched = {**settings, "CONTEXT_HEALTH_PORT": str(port)} if settings is not None else OFF
    worker = replace(plain, environment={**plain.environment, **watched})
    await ensure_topics(house.settings.kafka_bootstrap, worker.requests_topic, worker.replies_topic)
    with TemporaryFile() as log:
        async with (
            running(worker, stderr=log) as process,
            Load(
                house.settings.kafka_bootstrap, worker.requests_topic, worker.replies_topic
            ) as load,
            _scraped(port if settings is not None else None),
        ):
            await load.flood(WARM_UP, real_request)
            began = _processor_seconds(process.pid)
            flood = await load.flood(REQUESTS, real_request)
            used = _processor_seconds(process.pid) - began
            return Run(flood.per_second, used * 1000 / REQUESTS)


def _processor_seconds(pid: int) -> float:
    """What all threads of a process have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def _scraped(port: int | None) -> AsyncIterator[None]:
    """Scraped all the time, if it serves."""
    if port is None:
        yield
        return

    async def scrape() -> None:
        async with aiohttp.ClientSession() as http:
            while True:
                async with http.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    assert b"context_engine_requests_total" in await answer.read()
                await asyncio.sleep(SCRAPE_SECONDS)

    scraping = asyncio.create_task(scrape())
    try:
        yield
        if scraping.done():
            scraping.result()
    finally:
        scraping.cancel()
        await asyncio.gather(scraping, return_exceptions=True)
