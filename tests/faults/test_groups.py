"""Members that come, go, and stand still; and how long a start and a succession take."""

from __future__ import annotations

import asyncio
import random
import signal
import statistics
import time

import pytest

from tests.faults.run import faults
from tests.faults.scene import Scene
from tests.faults.test_workers import TAKEN_OVER_SECONDS
from tests.support.stack import kafka_choice
from workers.runner import ExitCode

pytestmark = pytest.mark.timeout(600)

COME_AND_GO_SECONDS = 120.0
SESSION_SECONDS = 10.0
FROZEN_SECONDS = 12.0
"""Past the session time-out of either worker."""
START_SECONDS = 5.0
STARTS = 5


async def test_come_and_go(scene: Scene) -> None:
    """Workers join and leave every few seconds, in order or not: nothing is lost, and no
    partition waits for longer than a session lasts."""
    rng = random.Random(7)
    async with faults(scene, "join and leave for two minutes") as run:
        ends = time.monotonic() + COME_AND_GO_SECONDS
        joined = left = 0
        while time.monotonic() < ends:
            name = rng.choice(("build", "build", "invalidate"))
            if len(scene.of(name)) < 3:
                await scene.hire(name)
                joined += 1
            await asyncio.sleep(rng.uniform(1.0, 3.0))
            if len(there := scene.of(name)) > 1:
                code = await scene.dismiss(rng.choice(there))
                run.check(code == ExitCode.OK, f"{name} left with {code}")
                left += 1
        await run.recovers(time.monotonic(), within=TAKEN_OVER_SECONDS)
        run.note(f"{joined} joined, {left} left")
        await run.traffic.stop()
        await run.ledger.settled(60)
        longest = max(one.seconds or 0.0 for one in run.ledger.sent.values())
        run.note(f"longest wait of one id: {longest:.1f} s")
        run.figure(longest <= SESSION_SECONDS, f"one id waited for {longest:.1f} s")


@pytest.mark.parametrize("name", ["build", "invalidate"])
async def test_frozen(scene: Scene, name: str) -> None:
    """A member that stands still past its session is replaced; back, it rejoins or leaves, and
    commits nothing that is no longer its own."""
    if len(scene.of(name)) < 2:
        await scene.hire(name)
    async with faults(scene, f"{name} frozen past its session, then resumed") as run:
        await asyncio.sleep(2)
        frozen = scene.of(name)[0]
        frozen.send(signal.SIGSTOP)
        stopped = time.monotonic()
        await run.recovers(stopped, within=TAKEN_OVER_SECONDS)
        await asyncio.sleep(max(0.0, FROZEN_SECONDS - (time.monotonic() - stopped)))
        frozen.send(signal.SIGCONT)
        await run.recovers(time.monotonic(), within=TAKEN_OVER_SECONDS)
        await asyncio.sleep(3)
        await frozen.up()
        run.note("it left, and was started again" if frozen.left else "it rejoined")


async def test_start_and_succession(scene: Scene) -> None:
    """How long a start takes until ready; how long the partitions of a killed member wait."""
    starts = []
    for _ in range(STARTS):
        began = time.monotonic()
        one = await scene.hire("build")
        starts.append(time.monotonic() - began)
        await scene.dismiss(one)
    async with faults(scene, "one of two build workers killed, not restarted") as run:
        await asyncio.sleep(3)
        taken = []
        for _ in range(3):
            victim = scene.of("build")[0]
            await victim.kill()
            taken.append(await run.recovers(time.monotonic(), within=TAKEN_OVER_SECONDS))
            await scene.dismiss(victim)
            await scene.hire("build")
            await run.recovers(time.monotonic(), within=TAKEN_OVER_SECONDS)
        run.note(f"partitions served again after {', '.join(f'{one:.1f}' for one in taken)} s")
        median = statistics.median(starts)
        run.note(f"start to ready: {', '.join(f'{one:.1f}' for one in starts)} s")
        if kafka_choice() != "small":
            run.figure(median <= START_SECONDS, f"a start takes {median:.1f} s")
