"""Hot request to reply: each worker alone on the same broker, asked by the same client."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.bench.baselines import store_replies
from tests.bench.load import Load, MakeRequest, Measured, build_request, ensure_topics
from tests.bench.report import Goal, Measure

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
WARM_UP = 1000
FLOOD = 10_000
ONE_AT_A_TIME = 500
BASELINES = ("echo", "hand-loop", "minimal-faust")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process: prints `ready_line` once it takes requests, and stops on SIGTERM."""

    name: str
    command: Sequence[str]
    requests_topic: str
    replies_topic: str
    environment: Mapping[str, str]
    ready_line: str = "ready"


@dataclass(frozen=True, slots=True)
class Hot:
    """Throughput with 256 in flight, and latency with one."""

    flood: Measured
    single: Measured


def baseline(name: str, bootstrap: str, redis_url: str) -> Worker:
    """One of `tests.bench.baselines`, with topics of its own."""
    requests, replies = f"bench.{name}.requests", f"bench.{name}.replies"
    return Worker(
        name=name,
        command=[sys.executable, "-m", "tests.bench.baselines", name],
        requests_topic=requests,
        replies_topic=replies,
        environment={
            "CONTEXT_KAFKA_BOOTSTRAP": bootstrap,
            "CONTEXT_REDIS_URL": redis_url,
            "BENCH_REQUESTS_TOPIC": requests,
            "BENCH_REPLIES_TOPIC": replies,
        },
    )


@asynccontextmanager
async def running(worker: Worker) -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker as a process, from `ready` on; at the end it is told to stop, then made to."""
    process = await asyncio.create_subprocess_exec(
        *worker.command,
        env={**os.environ, **worker.environment},
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(READY_SECONDS):
            await _ready(worker, process)
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.communicate()
            except TimeoutError:
                process.kill()
                await process.communicate()


async def measure(worker: Worker, bootstrap: str, make: MakeRequest = build_request) -> Hot:
    """Run one worker alone and measure it; its topics are made if they are not there."""
    await ensure_topics(bootstrap, worker.requests_topic, worker.replies_topic)
    async with (
        running(worker),
        Load(bootstrap, worker.requests_topic, worker.replies_topic) as load,
    ):
        await load.flood(WARM_UP, make)
        return Hot(
            flood=await load.flood(FLOOD, make),
            single=await load.one_at_a_time(ONE_AT_A_TIME, make),
        )


async def measure_baselines(bootstrap: str, redis_url: str) -> dict[str, Hot]:
    """Every baseline, one after the other."""
    await store_replies(redis_url)
    return {
        name: await measure(baseline(name, bootstrap, redis_url), bootstrap) for name in BASELINES
    }


def baseline_measures(found: Mapping[str, Hot]) -> list[Measure]:
    """The baselines' own figures, which have no goal."""
    return [
        measured
        for name, hot in found.items()
        for measured in (
            Measure(f"{name}: throughput", hot.flood.per_second, "1/s"),
            Measure(f"{name}: p50 one at a time", hot.single.p50_ms, "ms"),
        )
    ]


def hot_measures(worker: Hot, found: Mapping[str, Hot]) -> list[Measure]:
    """The build worker beside its baselines, with the goals."""
    faust, hand = found["minimal-faust"], found["hand-loop"]
    rate = worker.flood.per_second
    return [
        Measure(
            "hot: throughput (faust)",
            rate,
            "1/s",
            faust.flood.per_second,
            "minimal faust",
            Goal(">=", 0.85),
        ),
        Measure(
            "hot: throughput (hand loop)",
            rate,
            "1/s",
            hand.flood.per_second,
            "hand loop",
            Goal(">=", 0.35),
        ),
        Measure(
            "hot: p50 one at a time",
            worker.single.p50_ms,
            "ms",
            hand.single.p50_ms,
            "hand loop",
            Goal("<=", 1.6),
        ),
        Measure("hot: p99 one at a time", worker.single.p99_ms, "ms"),
        Measure("hot: p99 with 256 in flight", worker.flood.p99_ms, "ms"),
    ]


async def _ready(worker: Worker, process: asyncio.subprocess.Process) -> None:
    if process.stdout is None:
        raise RuntimeError("the worker's standard output is not a pipe")
    async for line in process.stdout:
        if line.decode(errors="replace").strip() == worker.ready_line:
            return
    raise RuntimeError(f"{worker.name} left before it was ready: exit code {await process.wait()}")
