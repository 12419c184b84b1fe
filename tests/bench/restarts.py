"""How long caches are bypassed when a relay or a consumer goes and comes back.

Real processes. One request that is cached is asked again and again; whatever is not answered out
of the cache was bypassed. A figure is the longest of its rounds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.liveness import LIFE_MS
from events.client import ContextClient
from tests.bench.builds import request
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from workers.supervisor import WorkerProcess

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ASK_SECONDS = 0.02
STEADY_SECONDS = 2.0
SETTLE_SECONDS = 60.0
SOON, LIFE = 5.0, LIFE_MS / 1000

Workers = dict[str, WorkerProcess]
Act = Callable[[Workers], Awaitable[float]]
"""Something happens to the workers; the time from which the bypass counts."""


@dataclass(slots=True)
class Watch:
    """What was answered, and when."""

    client: ContextClient
    bypasses: list[tuple[float, float]] = field(default_factory=list)
    """When each was asked and answered."""
    cached_since: float | None = None

    async def run(self) -> None:
        asked = request(sessionId="watched")
        while True:
            at = time.monotonic()
            source = (await self.client.request(asked, timeout=30.0)).source
            if source == "cache":
                self.cached_since = self.cached_since or at
            else:
                self.cached_since = None
                self.bypasses.append((at, time.monotonic()))
            await asyncio.sleep(ASK_SECONDS)

    async def steady(self, since: float) -> None:
        """Until all that was asked for a while is cached, and a proof from before has ended."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while not self._steady(since):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    def _steady(self, since: float) -> bool:
        now, cached = time.monotonic(), self.cached_since
        old = now - since > LIFE + STEADY_SECONDS
        return old and cached is not None and now - cached > STEADY_SECONDS

    def seconds(self, since: float) -> float:
        """From the first bypass, or from `since` where that is later, to the end of the last."""
        ends = [answered for _, answered in self.bypasses if answered > since]
        first = min((at for at, answered in self.bypasses if answered > since), default=since)
        return max(ends) - max(first, since) if ends else 0.0


async def restarts(house: BenchHouse) -> list[Measure]:
    """Each way to go, a few times over."""
    session = house.settings.invalidation_session_seconds
    ways: dict[str, tuple[Act, float]] = {
        "SIGTERM of the relay, started again": (_restarted("relay"), SOON),
        "SIGTERM of the consumer, started again": (_restarted("invalidate"), SOON),
        "SIGTERM of one of two consumers": (_stopped("invalidate"), SOON),
        "SIGKILL of one of two consumers": (_killed("invalidate"), session + LIFE),
        "SIGKILL of the consumer, started again": (_killed_and_started, session + LIFE),
        "SIGKILL of the relay, from when it is back": (_back, SOON),
    }
    found = []
    async with house.workers() as workers, _watching(house) as watch:
        for way, (act, bound) in ways.items():
            took = []
            for _ in range(ROUNDS):
                async with _standing_by(house, "of two" in way):
                    await watch.steady(time.monotonic())
                    watch.bypasses.clear()
                    since = await act(workers)
                    await watch.steady(time.monotonic())
                    took.append(watch.seconds(since))
                await _all_there(workers)
            found.append(Measure(f"bypass: {way}", max(took), "s", goal=Goal("<=", bound)))
    return found


@asynccontextmanager
async def _watching(house: BenchHouse) -> AsyncIterator[Watch]:
    async with ContextClient(house.settings) as client:
        watch = Watch(client)
        task = asyncio.create_task(watch.run())
        try:
            yield watch
        finally:
            task.cancel()
            await asyncio.wait([task])


@asynccontextmanager
async def _standing_by(house: BenchHouse, wanted: bool) -> AsyncIterator[None]:
    """Another consumer, which takes over what the first leaves."""
    other = WorkerProcess("invalidate", house.proven_env, Path(os.devnull))
    if wanted:
        await other.start()
    try:
        yield
    finally:
        await other.stop()


async def _all_there(workers: Workers) -> None:
    for worker in workers.values():
        if worker.process is None or worker.process.returncode is not None:
            await worker.start()


def _restarted(name: str) -> Act:
    async def act(workers: Workers) -> float:
        told = time.monotonic()
        await workers[name].stop()
        await workers[name].start()
        return told

    return act


def _stopped(name: str) -> Act:
    async def act(workers: Workers) -> float:
        told = time.monotonic()
        await workers[name].stop()
        return told

    return act


def _killed(name: str) -> Act:
    async def act(workers: Workers) -> float:
        told = time.monotonic()
        await workers[name].kill()
        return told

    return act


async def _killed_and_started(workers: Workers) -> float:
    told = time.monotonic()
    await workers["invalidate"].kill()
    await workers["invalidate"].start()
    return told


async def _back(workers: Workers) -> float:
    await workers["relay"].kill()
    await asyncio.sleep(LIFE)  # its last proof has ended
    await workers["relay"].start()
    return time.monotonic()
