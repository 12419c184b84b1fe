"""Workers killed, told to stop, and killed with a slow request at the head of a partition."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time

import pytest
from sqlalchemy import text

from tests.faults.run import Run, faults
from tests.faults.scene import Scene
from workers.runner import ExitCode

pytestmark = [pytest.mark.timeout(1800), pytest.mark.short]

SEED = int(os.environ.get("FAULTS_SEED") or int.from_bytes(os.urandom(4)))
KILLS = int(os.environ.get("FAULTS_KILLS") or 50)
TAKEN_OVER_SECONDS = 13.0
"""Until the partitions of a killed worker are served again: a session of 10 s, and 3 s."""
PATIENT = {"CONTEXT_STATEMENT_TIMEOUT_SECONDS": "60", "CONTEXT_BUILD_TIMEOUT_SECONDS": "60"}
"""Of a worker whose request stands until the worker is killed, however slow the machine is."""
LEAVE_SECONDS = 20.0
"""CONTEXT_SHUTDOWN_SECONDS."""


async def test_killed(scene: Scene, long: bool) -> None:
    """SIGKILL of build worker, consumer or relay at random moments loses nothing."""
    rng = random.Random(SEED)
    kills = KILLS if long else 2
    if long:
        await scene.hire("invalidate")
        await scene.hire("relay")
    async with faults(scene, f"SIGKILL x{kills} of workers at random under load") as run:
        run.note(f"FAULTS_SEED={SEED} draws the same")
        for _ in range(kills):
            await asyncio.sleep(rng.uniform(0.2, 3.0 if long else 0.5))
            victim = rng.choice(scene.of())
            await victim.up()
            victim.send(signal.SIGKILL)
        last = time.monotonic()
        for one in scene.of():
            await one.up()
        await run.recovers(last, within=TAKEN_OVER_SECONDS)


async def test_told_to_stop(scene: Scene, long: bool) -> None:
    """SIGTERM under load: what runs is finished and committed, the group left; nothing is handled a
    second time, and the code is 0 within the bound."""
    rounds, names = (4, ("build", "invalidate", "relay")) if long else (1, ("build", "invalidate"))
    async with faults(scene, "SIGTERM under load") as run:
        longest = 0.0
        for _ in range(rounds):
            for name in names:
                await asyncio.sleep(0.5)
                one = scene.of(name)[0]
                began = time.monotonic()
                code = await scene.dismiss(one)
                longest = max(longest, time.monotonic() - began)
                run.check(code == ExitCode.OK, f"{name} left with {code}")
                await scene.hire(name)
            await run.recovers(time.monotonic(), within=10)
        run.figure(longest <= LEAVE_SECONDS, f"left after {longest:.1f} s")
        run.note(f"longest until it had left: {longest:.1f} s")
        await run.traffic.stop()
        await run.ledger.settled(30)
        twice = run.ledger.duplicates
        run.check(not twice, f"handled again after a clean stop: {twice}")


async def test_slow_head(scene: Scene) -> None:
    """The first request of a partition stands in the database, those behind it are answered,
    the worker is killed: the first is answered after the restart."""
    for one in scene.of("build"):
        await scene.dismiss(one)
    builder = await scene.hire("build", PATIENT)
    async with faults(scene, "slow head, then SIGKILL", requests=0, changes=0, writes=0) as run:
        sessions = [f"head-{n}" for n in range(10)]
        for session in sessions:  # cached from here on
            await run.traffic.request(session=session, partition=3)
        await run.ledger.settled(60)
        async with scene.parts.database.connect() as holder:
            await holder.execute(text("LOCK TABLE users IN ACCESS EXCLUSIVE MODE"))
            head = await run.traffic.request(session="head", partition=3, fresh=True)
            stuck = text(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"
            )
            async with asyncio.timeout(30):
                while not (await holder.execute(stuck)).scalar_one():
                    pass
            await _hot(run, sessions)
            builder.send(signal.SIGKILL)
            await builder.worker.ended()
            await holder.rollback()
        run.check(head.id in run.ledger.open, "the head was answered before the kill")
        began = time.monotonic()
        await run.ledger.settled(90)
        run.row.recovered = round(time.monotonic() - began, 1)
        run.check(head.has("answered"), "the head is not answered after the restart")
    await scene.dismiss(builder)


async def _hot(run: Run, sessions: list[str]) -> None:
    """Requests behind the head, answered while it stands: from the cache, or not at all."""
    behind = []
    for number in range(30):
        sent = await run.traffic.request(
            session=sessions[number % len(sessions)], partition=3, fresh=False
        )
        behind.append(sent)
    await run.ledger.until(lambda: any(one.has("answered") for one in behind), 20.0)
    answered = sum(one.has("answered") for one in behind)
    run.note(f"{answered} answered behind the head before the kill")
    run.check(answered > 0, "nothing behind the head was answered")
