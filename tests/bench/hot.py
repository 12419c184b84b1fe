"""Hot request to reply: each worker alone on the same broker, asked by the same client.

The speed of a shared machine drifts by a factor of two within minutes, more than the goals leave
room for. So the workers take turns for several rounds; a figure is the median of its rounds, a
ratio the median of the ratios within each round, and the spread is reported beside.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import IO

from tests.bench.baselines import store_replies
from tests.bench.load import Load, MakeRequest, Measured, build_request, ensure_topics
from tests.bench.report import Goal, Measure

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
WARM_UP = 1000
FLOOD = 10_000
ONE_AT_A_TIME = 500
ROUNDS = 3
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
    """One round of one worker: throughput with 256 in flight, and latency with one."""

    flood: Measured
    single: Measured


Rounds = Mapping[str, Sequence[Hot]]
"""The rounds of each worker by its name; the same index is the same round."""


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
async def running(
    worker: Worker, *, stderr: IO[bytes] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker as a process, from `ready` on; at the end it is told to stop, then made to.

    `stderr`: where its log goes; this process's, if None.
    """
    process = await asyncio.create_subprocess_exec(
        *worker.command,
        env={**os.environ, **worker.environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
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


async def measure_rounds(
    bootstrap: str,
    redis_url: str,
    *candidates: Worker,
    rounds: int = ROUNDS,
    requests: Mapping[str, MakeRequest] | None = None,
) -> Rounds:
    """Every baseline and every candidate in turn, `rounds` times over.

    `requests` makes the requests of a worker that needs others than the common ones.
    """
    made = requests or {}
    await store_replies(redis_url)
    workers = [*(baseline(name, bootstrap, redis_url) for name in BASELINES), *candidates]
    found: dict[str, list[Hot]] = {worker.name: [] for worker in workers}
    for _ in range(rounds):
        for worker in workers:
            found[worker.name].append(
                await measure(worker, bootstrap, made.get(worker.name, build_request))
            )
    return found


def hot_measures(found: Rounds, name: str) -> list[Measure]:
    """The worker `name` beside its baselines with the goals, then the baselines themselves."""
    return [
        _compared("hot: throughput", "1/s", found, name, "minimal-faust", Goal(">=", 0.85), _rate),
        _compared("hot: throughput", "1/s", found, name, "hand-loop", Goal(">=", 0.35), _rate),
        _compared("hot: p50 one at a time", "ms", found, name, "hand-loop", Goal("<=", 1.6), _p50),
        Measure("hot: p99 one at a time", median(h.single.p99_ms for h in found[name]), "ms"),
        Measure("hot: p99 with 256 in flight", median(h.flood.p99_ms for h in found[name]), "ms"),
        *(
            measured
            for each in BASELINES
            for measured in (
                Measure(f"{each}: throughput", median(map(_rate, found[each])), "1/s"),
                Measure(f"{each}: p50 one at a time", median(map(_p50, found[each])), "ms"),
            )
        ),
    ]


def _compared(
    what: str,
    unit: str,
    found: Rounds,
    name: str,
    against: str,
    goal: Goal,
    figure: Callable[[Hot], float],
) -> Measure:
    own, other = [figure(hot) for hot in found[name]], [figure(hot) for hot in found[against]]
    return Measure(
        f"{what} / {against}",
        median(own),
        unit,
        median(other),
        against,
        goal,
        ratios=tuple(a / b for a, b in zip(own, other, strict=True)),
    )


def _rate(hot: Hot) -> float:
    return hot.flood.per_second


def _p50(hot: Hot) -> float:
    return hot.single.p50_ms


async def _ready(worker: Worker, process: asyncio.subprocess.Process) -> None:
    if process.stdout is None:
        raise RuntimeError("the worker's standard output is not a pipe")
    async for line in process.stdout:
        if line.decode(errors="replace").strip() == worker.ready_line:
            return
    raise RuntimeError(f"{worker.name} left before it was ready: exit code {await process.wait()}")
