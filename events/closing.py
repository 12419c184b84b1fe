"""Stopping aiokafka's consumers within a bound, and whole, whatever the broker does."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer

log = logging.getLogger(__name__)

STOP_SECONDS = 8.0
ABANDON_SECONDS = 2.0


async def stop_consumer(client: AIOKafkaConsumer) -> None:
    """Leaves the group and disconnects; gives up after its bound.

    aiokafka's own `stop` may raise `CancelledError` when the broker is away: it awaits fetches
    that it cancelled, and leaves its connections open. A task of its own tells that from a
    cancellation of ours.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        done, _ = await asyncio.wait({stopping}, timeout=STOP_SECONDS)
    finally:
        stopping.cancel()
    if done and not stopping.cancelled() and stopping.exception() is None:
        return
    error = stopping.exception() if done and not stopping.cancelled() else None
    log.warning("consumer did not stop in order: %s", error or "its fetches were in the way")
    await _abandon(client)


async def _abandon(client: AIOKafkaConsumer) -> None:
    """Ends what `stop` left: fetches and connections. It remembers having stopped."""
    fetcher = client._fetcher
    tasks: set[asyncio.Future[Any]] = set()
    if fetcher is not None:
        tasks = {fetcher._fetch_task, *fetcher._pending_tasks}
    for task in tasks:
        task.cancel()
    tasks.add(asyncio.ensure_future(client._client.close()))
    await asyncio.wait(tasks, timeout=ABANDON_SECONDS)
