"""PostgreSQL restarted, its connections cut, its tables locked, its pool used up."""

from __future__ import annotations

import asyncio
import time

import pytest
from sqlalchemy import text

from tests.faults.run import Run, faults
from tests.faults.scene import Scene

pytestmark = pytest.mark.timeout(600)

BACK_SECONDS = 30.0
"""Until all is answered again, once nothing is broken any more."""
LOCKED_SECONDS = 60.0
RETRYABLE = {"unavailable", "rate_limited"}


def _judge(run: Run) -> None:
    """What was refused meanwhile may be asked again."""
    codes = set(run.ledger.refusals)
    run.check(codes <= RETRYABLE, f"refused with {codes}")


async def test_database_restarted(scene: Scene) -> None:
    """Away for some seconds: refused as `unavailable`, or late; then as before."""
    async with faults(scene, "database restarted, 10 s away") as run:
        await asyncio.sleep(2)
        await scene.stack.postgres.stop()
        await asyncio.sleep(10)
        await scene.stack.postgres.start()
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        _judge(run)


async def test_database_connections_terminated(scene: Scene) -> None:
    """Every connection cut every half second, for twenty seconds."""
    cut = text(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with faults(scene, "database connections terminated, 20 s") as run:
        total = 0
        async with scene.parts.database.connect() as own:
            ends = time.monotonic() + 20
            while time.monotonic() < ends:
                total += (await own.execute(cut)).scalar_one()
                await own.rollback()
                await asyncio.sleep(0.5)
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        run.note(f"{total} connections terminated")
        _judge(run)


async def test_database_locked(scene: Scene) -> None:
    """A lock held for a minute: every build waits at it, so that the pool is used up as well."""
    async with faults(scene, "a lock held for a minute, pool used up", fresh=1) as run:
        await asyncio.sleep(2)
        async with scene.parts.database.connect() as holder:
            await holder.execute(text("LOCK TABLE users IN ACCESS EXCLUSIVE MODE"))
            waiting = text(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"
            )
            most = 0
            ends = time.monotonic() + LOCKED_SECONDS
            while time.monotonic() < ends:
                most = max(most, (await holder.execute(waiting)).scalar_one())
                await asyncio.sleep(0.5)
            await holder.rollback()
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        pool = scene.settings.database_pool_size
        run.note(f"{most} builds stood at the lock at once; a worker's pool has {pool}")
        run.check(most >= pool, "the pool was not used up")
        _judge(run)
