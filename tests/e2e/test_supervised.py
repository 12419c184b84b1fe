"""`worker … --supervised`: its worker killed, it starts another; told to stop, both are gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import StreamReader
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from workers.supervisor import WorkerProcess

pytestmark = [
    pytest.mark.any_broker,
    pytest.mark.timeout(180),
    pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="asks Linux for the child"),
]


async def says(out: StreamReader, line: str) -> None:
    async with asyncio.timeout(90):
        while (said := await out.readline()).decode().strip() != line:
            assert said, "ended"


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


async def test_a_killed_worker_is_replaced_and_a_told_one_leaves(
    env: dict[str, str], house: dict[str, WorkerProcess]
) -> None:
    """SIGKILL to the worker, then SIGTERM to its supervisor: exit code 0, and no worker left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "workers", "worker", "relay", "--supervised"),
        stdout=PIPE,
        env={**os.environ, **env},
    )
    assert process.stdout is not None
    try:
        await says(process.stdout, "relay ready")
        first = child_of(process.pid)
        os.kill(first, signal.SIGKILL)
        await says(process.stdout, "relay ready")
        second = child_of(process.pid)
        assert second != first
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
        assert not alive(second)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
