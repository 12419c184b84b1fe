"""Whose turn it is to be built: a few builds of each workspace at once, a bounded queue for more.

One workspace that asks for more than can be built would otherwise hold every slot of the worker,
and every other workspace behind it. Hits take no turn. Nothing is kept of a workspace that has
no build: there are never more queues than requests in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from context_engine.errors import RateLimited

LATEST_SHARE = 0.1
"""How much of the mean time of a build the latest one makes out."""


@dataclass(slots=True)
class _Queue:
    free: asyncio.Semaphore
    builds: int = 0
    """Those that run and those that wait."""


class Turns:
    """At most `at_once` builds of a workspace run; others wait in order, up to `most` in all."""

    def __init__(self, at_once: int, most: int) -> None:
        self._at_once, self._most = at_once, max(at_once, most)
        self._queues: dict[str, _Queue] = {}
        self._mean_seconds: float | None = None

    @asynccontextmanager
    async def of(self, workspace_id: str) -> AsyncIterator[None]:
        """A turn of this workspace. Raises `RateLimited`, at once, where its queue is full."""
        queue = self._queues.get(workspace_id)
        if queue is None:
            queue = self._queues[workspace_id] = _Queue(asyncio.Semaphore(self._at_once))
        elif queue.builds >= self._most:
            raise RateLimited(
                f"{queue.builds} builds of this workspace are under way in this worker;"
                " ask again later",
                self._until_done(queue.builds),
            )
        queue.builds += 1
        try:
            async with queue.free:
                began = time.monotonic()
                yield
                self._learn(time.monotonic() - began)
        finally:
            queue.builds -= 1
            if not queue.builds:
                del self._queues[workspace_id]

    def _learn(self, seconds: float) -> None:
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + (seconds - mean) * LATEST_SHARE

    def _until_done(self, builds: int) -> int | None:
        """Milliseconds until `builds` of one workspace are done, as fast as the latest were."""
        if self._mean_seconds is None:
            return None
        return max(1, round(self._mean_seconds * builds / self._at_once * 1_000))
