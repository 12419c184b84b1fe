"""Told to stop, a worker leaves with code 0 at any moment of its life, the first ones too."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from workers.runner import ExitCode
from workers.supervisor import WORKERS

pytestmark = pytest.mark.timeout(120)

NOWHERE = "127.0.0.1:1"
AWAY = {
    "build": {"CONTEXT_DATABASE_URL": f"postgresql+asyncpg://u@{NOWHERE}/d"},
    "invalidate": {"CONTEXT_REDIS_URL": f"redis://{NOWHERE}/0"},
    "relay": {"CONTEXT_DATABASE_URL": f"postgresql+asyncpg://u@{NOWHERE}/d"},
}
CAUGHT = 1 << (signal.SIGTERM - 1)


@asynccontextmanager
async def started(name: str, env: Mapping[str, str]) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers", "worker", name,
        stdout=PIPE, stderr=PIPE, env={**os.environ, **env},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def left(process: Process, number: signal.Signals) -> int | None:
    """Its exit code after that signal, within what a supervisor waits."""
    process.send_signal(number)
    async with asyncio.timeout(40):
        await process.communicate()
    return process.returncode


def catches(process: Process) -> bool:
    """Whether Python is up in that process and the worker's handling of SIGTERM stands."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) & CAUGHT)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what is caught")
@pytest.mark.parametrize("later", [0.0, 0.3, 0.8, 1.5, 3.0])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_in_its_first_seconds_ends_it_in_order(
    env: dict[str, str], later: float, number: signal.Signals
) -> None:
    """While it imports, reaches its parts, or joins its group.

    Asked to, asyncio refuses a call into another thread's loop, which otherwise crashes uvloop
    once in some hundred stops.
    """
    async with started("build", env | {"PYTHONASYNCIODEBUG": "1"}) as process:
        async with asyncio.timeout(40):
            # Nothing announces it.
            while not catches(process):  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        await asyncio.sleep(later)
        assert await left(process, number) == ExitCode.OK


@pytest.mark.any_broker
@pytest.mark.parametrize("name", WORKERS)
async def test_a_signal_while_a_part_is_waited_for_ends_it_in_order(
    env: dict[str, str], name: str
) -> None:
    """Nothing was taken: it neither waits out its patience nor reports a part that is away."""
    async with started(name, env | AWAY[name]) as process:
        assert process.stderr is not None
        async with asyncio.timeout(40):
            while b"waiting for a part" not in await process.stderr.readline():
                pass
        assert await left(process, signal.SIGTERM) == ExitCode.OK


async def test_a_signal_while_the_broker_is_waited_for_ends_it_in_order(
    env: dict[str, str],
) -> None:
    nowhere = env | {"CONTEXT_KAFKA_BOOTSTRAP": NOWHERE}
    async with started("invalidate", nowhere) as process:
        assert process.stderr is not None
        async with asyncio.timeout(40):
            while b"connect" not in (await process.stderr.readline()).lower():
                pass
        assert await left(process, signal.SIGTERM) == ExitCode.OK
