"""Told to stop while the broker hangs or is gone: out within the bound, with 69, and by name."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from events.topics import Topics, ensure
from tests.bench.load import ensure_topics
from workers.house import settings_of
from workers.localstack import LocalStack, SmallKafka
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

pytestmark = [pytest.mark.any_broker, pytest.mark.timeout(120)]

BOUND_SECONDS = 20.0
"""CONTEXT_SHUTDOWN_SECONDS, after which an orchestrator would kill it."""
SOON_SECONDS = 10.0


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SmallKafka]:
    """One of this test's own, which may be hurt."""
    made = SmallKafka(tmp_path / "kafka")
    await made.start()
    yield made
    await made.kill()


@asynccontextmanager
async def machine(broker: SmallKafka) -> AsyncIterator[asyncio.subprocess.Process]:
    """The build worker's machinery, ready."""
    await ensure_topics(broker.address, "in", "out", partitions=2)
    env = {
        "CONTEXT_KAFKA_BOOTSTRAP": broker.address,
        "MACHINE_REQUESTS": "in",
        "MACHINE_REPLIES": "out",
        "MACHINE_GROUP": "g",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.machine_worker"),
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(40):
            await process.stdout.readline()
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("hurt", [signal.SIGSTOP, signal.SIGKILL])
async def test_a_build_worker_leaves_without_its_broker(
    broker: SmallKafka, hurt: signal.Signals
) -> None:
    """What it did not commit is answered again: there is nothing to wait for."""
    async with machine(broker) as process:
        assert broker.pid is not None
        os.kill(broker.pid, hurt)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND_SECONDS):
            logged, told = await process.communicate()
        assert process.returncode == ExitCode.UNAVAILABLE
        assert b"leaves without its broker" in logged
        assert b"Traceback" not in told
        assert time.monotonic() - began < SOON_SECONDS


@pytest.mark.parametrize("name", ["invalidate", "relay"])
@pytest.mark.parametrize("hurt", [signal.SIGSTOP, signal.SIGKILL])
async def test_the_others_leave_without_their_broker(
    broker: SmallKafka, stack: LocalStack, database_url: str, name: str, hurt: signal.Signals
) -> None:
    """Within the bound of a worker, whatever it waits for."""
    env = stack.env() | {
        "CONTEXT_KAFKA_BOOTSTRAP": broker.address,
        "CONTEXT_DATABASE_URL": database_url,
    }
    await ensure(broker.address, Topics.of(settings_of(env)))
    worker = WorkerProcess(name, env)
    try:
        await worker.start()
        assert broker.pid is not None
        os.kill(broker.pid, hurt)
        assert worker.process is not None
        worker.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(BOUND_SECONDS):
            code = await worker.process.wait()
        assert code in (ExitCode.OK, ExitCode.UNAVAILABLE)
    finally:
        await worker.kill()
