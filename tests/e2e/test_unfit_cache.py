"""A cache that cannot keep the promise is refused at the start, by each worker that uses it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from redis.asyncio import Redis

from context_engine.errors import Unavailable
from workers.localstack import LocalStack
from workers.localstack.valkey import Valkey
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

pytestmark = [pytest.mark.any_broker, pytest.mark.timeout(120)]


async def test_a_replica_is_refused_with_what_to_do(stack: LocalStack, tmp_path: Path) -> None:
    """It answers every command that only asks, and would be noticed at the first write."""
    replica = Valkey(tmp_path / "valkey", "secret")
    await replica.start()

    async def left(name: str) -> str:
        log = tmp_path / f"{name}.log"
        worker = WorkerProcess(name, stack.env() | {"CONTEXT_REDIS_URL": replica.url}, log)
        with pytest.raises(Unavailable, match=f"exit code {int(ExitCode.UNAVAILABLE)}"):
            await worker.start(timeout=100.0)
        return await asyncio.to_thread(log.read_text)

    try:
        async with Redis.from_url(replica.url) as redis:
            await redis.replicaof("127.0.0.1", 1)
        said = await asyncio.gather(left("build"), left("invalidate"))
    finally:
        await replica.stop()
    for words in said:
        assert "cannot start: redis: this is a replica; give the address of the primary" in words
