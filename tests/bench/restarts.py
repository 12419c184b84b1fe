"""How long caches are bypassed when a relay or a consumer goes and comes back.

Real processes. One request that is cached is asked again and again; whatever is not answered out
of the cache was bypassed. A figure is the longest of its rounds. Each round tells of its parts: how
long the process took to go, to be ready again, and how busy the machine was.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from context_engine.errors import Unavailable
from context_engine.liveness import LIFE_MS
from context_engine.models import ContextBuildInput
from events.client import ContextClient
from tests.bench.builds import request
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from workers.supervisor import WorkerProcess

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ALL_SECONDS = 240.0
"""No round begins later: what was not done by then is said."""

ASK_SECONDS = 0.02
STEADY_SECONDS = 2.0
SETTLE_SECONDS = 45.0
"""A round that takes longer counts as so long."""

SOON, LIFE = 5.0, LIFE_MS / 1000

Workers = dict[str, WorkerProcess]


@dataclass(slots=True)
class Acted:
    """What happened to a worker: when it was told to go, was gone, and was ready again."""

    told: float
    gone: float
    ready: float | None = None
    counts: float | None = None
    """From when the bypass counts, where not from `told`."""

    @property
    def since(self) -> float:
        return self.told if self.counts is None else self.counts

    def __str__(self) -> str:
        again = "" if self.ready is None else f", ready again {self.ready - self.gone:.1f} s later"
        return f"gone after {self.gone - self.told:.1f} s{again}"


Act = Callable[[Workers], Awaitable[Acted]]
Go = Callable[[WorkerProcess], Awaitable[object]]


@dataclass(slots=True)
class Watch:
    """What was answered, and when."""

    client: ContextClient
    bypasses: list[tuple[float, float]] = field(default_factory=list)
    """When each was asked and answered."""
    cached_since: float | None = None
    changed: float = field(default_factory=time.monotonic)
    """When a worker came or went last."""

    async def run(self) -> None:
        asked = request(sessionId="watched")
        while True:
            at = time.monotonic()
            if await self._cached(asked):
                self.cached_since = self.cached_since or at
            else:
                self.cached_since = None
                self.bypasses.append((at, time.monotonic()))
            await asyncio.sleep(ASK_SECONDS)

    async def _cached(self, asked: ContextBuildInput) -> bool:
        try:
            return (await self.client.request(asked, timeout=10.0)).source == "cache"
        except Unavailable:
            return False

    async def steady(self) -> None:
        """Until all that was asked for a while is cached, and a proof from before has ended."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while not self._steady():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    def _steady(self) -> bool:
        now, cached = time.monotonic(), self.cached_since
        old = now - self.changed > LIFE + STEADY_SECONDS
        return old and cached is not None and now - cached > STEADY_SECONDS

    def seconds(self, since: float) -> float:
        """From the first bypass, or from `since` where that is later, to the end of the last."""
        ends = [answered for _, answered in self.bypasses if answered > since]
        first = min((at for at, answered in self.bypasses if answered > since), default=since)
        return max(ends) - max(first, since) if ends else 0.0


async def restarts(house: BenchHouse) -> list[Measure]:
    """Each way to go in turn, a few times over, for as long as there is time."""
    session = house.settings.invalidation_session_seconds
    ways: dict[str, tuple[Act, float]] = {
        "SIGTERM of the relay, started again": (_restarted("relay"), SOON),
        "SIGTERM of the consumer, started again": (_restarted("invalidate"), SOON),
        "SIGKILL of the consumer, started again": (_killed_and_started, session + LIFE),
        "SIGKILL of the relay, from when it is back": (_back, SOON),
        "SIGTERM of one of two consumers": (_gone("invalidate", WorkerProcess.stop), SOON),
        "SIGKILL of one of two consumers": (
            _gone("invalidate", WorkerProcess.kill),
            session + LIFE,
        ),
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    ends = time.monotonic() + ALL_SECONDS
    async with house.workers() as workers, _watching(house) as watch:
        for way in [way for _ in range(ROUNDS) for way in ways]:
            if time.monotonic() < ends:
                took[way].append(await _round(house, watch, workers, way, ways[way][0]))
    for way, rounds in took.items():
        if len(rounds) < ROUNDS:
            print(f"restarts: {way}: {len(rounds)} of {ROUNDS} rounds within {ALL_SECONDS:g} s")
    return [
        Measure(f"bypass: {way}", max(rounds), "s", goal=Goal("<=", ways[way][1]))
        for way, rounds in took.items()
        if rounds
    ]


async def _round(house: BenchHouse, watch: Watch, workers: Workers, way: str, act: Act) -> float:
    """Seconds of bypass; `SETTLE_SECONDS` where it did not end."""
    acted: Acted | None = None
    async with _standing_by(house, watch, "of two" in way):
        try:
            await watch.steady()
            watch.bypasses.clear()
            acted = await act(workers)
            watch.changed = time.monotonic()
            await watch.steady()
            took = watch.seconds(acted.since)
        except (TimeoutError, Unavailable) as error:
            print(f"restarts: {way}: {error or 'no proof in time'}")
            took = SETTLE_SECONDS
    await _all_there(watch, workers)
    print(f"{way}: {took:.1f} s; {acted or 'nothing was done'}; load {os.getloadavg()[0]:.1f}")
    return took


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
async def _standing_by(house: BenchHouse, watch: Watch, wanted: bool) -> AsyncIterator[None]:
    """Another consumer, which takes over what the first leaves."""
    if not wanted:
        yield
        return
    other = WorkerProcess("invalidate", house.proven_env, Path(os.devnull))
    await other.start()
    watch.changed = time.monotonic()
    try:
        yield
    finally:
        await other.stop()
        watch.changed = time.monotonic()


async def _all_there(watch: Watch, workers: Workers) -> None:
    for worker in workers.values():
        if worker.process is None or worker.process.returncode is not None:
            await worker.start()
            watch.changed = time.monotonic()


async def _acted(worker: WorkerProcess, go: Go, *, again: bool) -> Acted:
    told = time.monotonic()
    await go(worker)
    acted = Acted(told, time.monotonic())
    if again:
        await worker.start()
        acted.ready = time.monotonic()
    return acted


def _restarted(name: str) -> Act:
    return lambda workers: _acted(workers[name], WorkerProcess.stop, again=True)


def _gone(name: str, go: Go) -> Act:
    return lambda workers: _acted(workers[name], go, again=False)


async def _killed_and_started(workers: Workers) -> Acted:
    return await _acted(workers["invalidate"], WorkerProcess.kill, again=True)


async def _back(workers: Workers) -> Acted:
    acted = await _acted(workers["relay"], WorkerProcess.kill, again=False)
    await asyncio.sleep(LIFE)  # its last proof has ended
    began = time.monotonic()
    await workers["relay"].start()
    now = time.monotonic()
    return Acted(began - (acted.gone - acted.told), began, now, counts=now)
