"""A request that waited for longer than it is worth is answered, and not built."""

from __future__ import annotations

import asyncio
import os
import signal
from secrets import token_hex

import pytest

from context_engine.errors import Expired
from context_engine.models import ContextBuildInput
from events.client import ContextClient
from events.messages import BuildOptions
from workers.supervisor import WorkerProcess

WHERE = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))


async def test_what_waits_in_the_topic_for_too_long_expires(
    client: ContextClient, house: dict[str, WorkerProcess]
) -> None:
    """The worker is frozen for a while: of two requests the one with patience is built."""
    await client.request(WHERE, options=BuildOptions(ttl_ms=60_000))
    pid = house["build"].pid

    def ask(ttl_ms: int) -> asyncio.Task[object]:
        options = BuildOptions(fresh=True, ttl_ms=ttl_ms)
        where = WHERE.model_copy(update={"message": token_hex(4)})
        return asyncio.create_task(client.request(where, options=options, timeout=30))

    os.kill(pid, signal.SIGSTOP)
    try:
        late, patient = ask(200), ask(60_000)
        await asyncio.sleep(0.5)  # what is measured is time
    finally:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(Expired, match="ttlMs"):
        await late
    await patient
