"""More than one worker can take: of everything for two minutes, and of one workspace."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from context_engine.errors import UnsupportedOption
from context_engine.settings import Settings
from events.messages import BuildOptions, check_supported
from tests.faults.run import Run, faults
from tests.faults.scene import Kept, Scene
from tests.faults.sent import Sent
from tests.support.wire import Wire, wire_to

pytestmark = [
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux for its memory"),
]

TIMES = 10
OVERLOAD_SECONDS = 120.0
CAPACITY_SECONDS = 10.0
DATABASE_DELAY = 0.05
"""Of each reply, so that a worker takes little enough for one client to send ten times that."""
MOST_MIB = 600.0
TTL_MS = 20_000


def supports_ttl() -> bool:
    try:
        check_supported(BuildOptions(ttl_ms=TTL_MS))
    except UnsupportedOption:
        return False
    return True


def memory_mib(one: Kept) -> float:
    """Resident memory of the worker, MiB."""
    lines = Path(f"/proc/{one.worker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@pytest.fixture
async def wire(scene: Scene) -> AsyncIterator[Wire]:
    host, _, port = scene.stack.postgres.address.rpartition(":")
    async with wire_to(host, int(port)) as made:
        yield made


async def _alone(scene: Scene, wire: Wire) -> Kept:
    """One build worker, which reaches the database through the wire."""
    url = urlsplit(scene.env["CONTEXT_DATABASE_URL"])
    place = url.netloc.replace(f":{url.port}", f":{wire.port}")
    slow = {"CONTEXT_DATABASE_URL": url._replace(netloc=place).geturl()}
    for one in scene.of("build"):
        await scene.dismiss(one)
    return await scene.hire("build", slow)


async def _capacity(run: Run, *, fresh: bool = True) -> float:
    """Requests a second that the worker answers, with always enough before it, and not so many
    that it turns some away: cold ones, or hot."""
    asked: list[Sent] = []
    began = time.monotonic()
    while time.monotonic() - began < CAPACITY_SECONDS:
        if len(run.ledger.open) < 96:
            asked += await asyncio.gather(*(run.traffic.request(fresh=fresh) for _ in range(32)))
        await asyncio.sleep(0.005)
    done = sum(one.has("answered") for one in asked)
    await run.ledger.settled(60)
    return done / CAPACITY_SECONDS


async def test_ten_times_the_load(scene: Scene, wire: Wire) -> None:
    """Memory stays bounded, the backlog is drained after; with a `ttlMs` what is older is
    refused as expired, and not built for nobody."""
    one = await _alone(scene, wire)
    wire.delay = DATABASE_DELAY
    ttl = {"ttlMs": TTL_MS} if supports_ttl() else {}
    async with faults(
        scene, "10 x the load of a worker for two minutes", requests=0, changes=0, writes=0,
        settle=600,
    ) as run:  # fmt: skip
        run.final_refusals = None
        capacity = await _capacity(run)
        run.note(f"takes {capacity:.0f} cold requests/s; its database answers 50 ms late")
        before, most = memory_mib(one), 0.0
        loops = asyncio.create_task(_flood(run, TIMES * capacity, ttl))
        ends = time.monotonic() + OVERLOAD_SECONDS
        while time.monotonic() < ends:
            most = max(most, memory_mib(one))
            await asyncio.sleep(0.5)
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)
        waiting = len(run.ledger.open)
        wire.delay = 0.0
        began = time.monotonic()
        while run.ledger.open and time.monotonic() - began < 600:
            most = max(most, memory_mib(one))
            await asyncio.sleep(0.5)
        run.row.recovered = round(time.monotonic() - began, 1)
        run.note(f"memory {before:.0f} MiB before, {most:.0f} MiB at most; {waiting:,} waited")
        run.check(most < MOST_MIB, f"memory grew to {most:.0f} MiB")
        run.check(not one.left, "the worker left")
        codes = set(run.ledger.refusals)
        run.check(codes <= {"unavailable", "expired", "rate_limited"}, f"refused with {codes}")
        if ttl:
            run.check("expired" in codes, "nothing was refused as expired")
        else:
            run.note("`ttlMs` is not supported: nothing expires")
    await scene.dismiss(one)


async def _flood(run: Run, rate: float, options: dict[str, int]) -> None:
    began, done = time.monotonic(), 0
    async with asyncio.TaskGroup() as sending:
        while True:
            due = int((time.monotonic() - began) * rate)
            for _ in range(min(due - done, 500)):
                sending.create_task(_ask(run, options))
            done = due
            await asyncio.sleep(0.05)


async def _ask(run: Run, options: dict[str, int]) -> None:
    await run.traffic.request(fresh=True, **options)


async def test_one_workspace_at_twice_the_rate(scene: Scene) -> None:
    """Above its limit it is refused at once, to be tried again; the others hardly notice."""
    for one in scene.of("build"):
        await scene.dismiss(one)
    builds = Settings.model_fields["workspace_builds"].default
    one = await scene.hire("build", {"CONTEXT_WORKSPACE_BUILDS": str(builds)})
    async with faults(
        scene, "one workspace offers twice what a worker builds", requests=0, changes=0, writes=0
    ) as run:
        capacity, hot = await _capacity(run), await _capacity(run, fresh=False)
        rate = min(2 * capacity, hot / 2)
        run.note(f"takes {capacity:.0f} cold requests/s, {hot:.0f} hot; offered {rate:.0f}")
        alone = await _others(run, 20.0)
        flood = asyncio.create_task(_flood(run, rate, {}))
        await asyncio.sleep(3)
        beside = await _others(run, 30.0)
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)
        await run.ledger.settled(60)
        run.note(f"p99 of the others {_p99(alone):.0f} ms alone, {_p99(beside):.0f} ms beside it")
        run.check(_p99(beside) <= 3 * _p99(alone), "the others' p99 is more than 3 x theirs alone")
        run.check("rate_limited" in run.ledger.refusals, "nothing was rate_limited")
    await scene.dismiss(one)


async def _others(run: Run, seconds: float) -> list[Sent]:
    """Hot and cold requests of another workspace, one after the other."""
    asked: list[Sent] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        asked.append(await run.traffic.request(workspace="v", fresh=len(asked) % 4 == 0))
        await asyncio.sleep(0.05)
    await run.ledger.settled(30)
    return asked


def _p99(sent: Sequence[Sent]) -> float:
    """Milliseconds."""
    times = [1_000 * one.seconds for one in sent if one.seconds is not None]
    return statistics.quantiles(times, n=100, method="inclusive")[98]
