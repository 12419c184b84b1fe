"""The broker stopped, killed, frozen, and gone between a build and its reply."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import text

from tests.faults.run import faults
from tests.faults.scene import Scene
from tests.support.stack import kafka_choice
from workers.localstack import Part

pytestmark = pytest.mark.timeout(900)

KEEPS = pytest.mark.skipif(
    kafka_choice() == "small", reason="the small broker forgets all when it stops"
)
BACK_SECONDS = 30.0


async def _stop(kafka: Part) -> None:
    await kafka.stop()


async def _kill(kafka: Part) -> None:
    await kafka.kill()


async def _freeze(kafka: Part) -> None:
    assert kafka.pid is not None
    os.kill(kafka.pid, signal.SIGSTOP)


async def _back(kafka: Part) -> None:
    if kafka.running and kafka.pid is not None:
        os.kill(kafka.pid, signal.SIGCONT)
    await kafka.start()


@pytest.mark.parametrize(
    ("words", "hurt", "seconds"),
    [
        pytest.param("stopped for a minute", _stop, 60.0, marks=KEEPS, id="stopped"),
        pytest.param("killed, back after 5 s", _kill, 5.0, marks=KEEPS, id="killed"),
        pytest.param("frozen for 40 s", _freeze, 40.0, id="frozen"),
    ],
)
async def test_broker(
    scene: Scene, words: str, hurt: Callable[[Part], Awaitable[None]], seconds: float
) -> None:
    """All recover by themselves, or leave with a clear message and are started again."""
    async with faults(scene, f"broker {words}") as run:
        await asyncio.sleep(3)
        kafka = scene.stack.kafka
        try:
            await hurt(kafka)
            await asyncio.sleep(seconds)
        finally:
            await _back(kafka)
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        for one in scene.of():
            await one.up()


@KEEPS
async def test_broker_gone_between_handling_and_reply(scene: Scene) -> None:
    """Requests stand in the database when the broker goes; built, their replies have nowhere to
    go. Whoever leaves is started again, and each is answered."""
    async with faults(
        scene, "broker gone between handling and reply", requests=0, changes=0, writes=0
    ) as run:
        kafka = scene.stack.kafka
        async with scene.parts.database.connect() as holder:
            await holder.execute(text("LOCK TABLE users IN ACCESS EXCLUSIVE MODE"))
            for _ in range(40):
                await run.traffic.request(fresh=True)
            stuck = text(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"
            )
            async with asyncio.timeout(10):
                while (await holder.execute(stuck)).scalar_one() < 10:
                    pass
            await kafka.kill()
            await holder.rollback()
        await asyncio.sleep(20)
        await kafka.start()
        began = time.monotonic()
        for one in scene.of():
            await one.up()
        await run.ledger.settled(90)
        run.row.recovered = round(time.monotonic() - began, 1)
