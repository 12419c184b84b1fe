"""A consumer that looks alive and fetches nothing: of all its partitions, or of one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.run import faults
from tests.faults.scene import START_SECONDS, Scene
from workers.runner import ExitCode

pytestmark = pytest.mark.timeout(600)

STALL_SECONDS = 8.0
NOTICED_SECONDS = 3 * STALL_SECONDS
SERVED_SECONDS = 20.0


@asynccontextmanager
async def deaf(scene: Scene, name: str, file: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """The worker, ready; killed at the end where it has not left."""
    log = (scene.logs / f"deaf-{name}.log").open("ab")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.deaf_worker", name, str(file)),
        stdout=PIPE,
        stderr=log,
        env={**os.environ, **scene.env, "CONTEXT_STALL_SECONDS": str(STALL_SECONDS)},
    )
    log.close()
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("partitions", ["all", "0 1 2"])
@pytest.mark.parametrize("name", ["build", "invalidate"])
async def test_watchdog(scene: Scene, tmp_path: Path, name: str, partitions: str) -> None:
    """It leaves loudly within a bound, and what waited is handled by the next."""
    file = tmp_path / "deaf"
    for one in scene.of(name):
        await scene.dismiss(one)
    words = f"{name} fetches nothing of partitions {partitions}"
    async with faults(scene, words) as run:
        async with deaf(scene, name, file) as process:
            # What it has fetched already it still answers, and that is progress.
            await run.recovers(time.monotonic(), within=SERVED_SECONDS)
            file.write_text(partitions)
            began = time.monotonic()
            try:
                async with asyncio.timeout(3 * NOTICED_SECONDS):
                    code: int | None = await process.wait()
            except TimeoutError:
                code = None
            took = time.monotonic() - began
        run.check(code == ExitCode.STALLED, f"after {took:.0f} s its exit code was {code}")
        run.figure(took <= NOTICED_SECONDS, f"left after {took:.0f} s")
        run.note(f"left with {code} after {took:.1f} s; it stalls at {STALL_SECONDS:g} s")
        log = (scene.logs / f"deaf-{name}.log").read_text()
        run.check("leav" in log, "it does not say why it leaves")
        back = time.monotonic()
        await scene.hire(name)
        await run.recovers(back, within=SERVED_SECONDS)
