"""Whose turn it is to be built: a few builds of each workspace at once, and bounded seats for who
waits.

One workspace that asks for more than can be built would otherwise hold every slot of the worker,
and every other workspace behind it. Hits take no turn. Nothing is kept of a workspace that has
no build: there are never more queues than requests in flight.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from context_engine.errors import RateLimited

LATEST_SHARE = 0.1
"""How much of the mean time of a build the latest one makes out."""


class Awaited(Protocol):
    """A build with those who wait for it: equal requests share one."""

    @property
    def waiting(self) -> int: ...


@dataclass(slots=True)
class _Queue:
    free: asyncio.Semaphore
    builds: set[Awaited] = field(default_factory=set)
    """Those that run and those that wait for their turn."""

    @property
    def seats(self) -> int:
        """Requests that wait for one of them."""
        return sum(build.waiting for build in self.builds)


class Turns:
    """At most `at_once` builds of a workspace run; the others wait in order, for `most` requests
    in all. However many wait for builds that run, as long as none waits for its turn, is fine:
    that ends soon."""

    def __init__(self, at_once: int, most: int) -> None:
        self._at_once, self._most = at_once, max(at_once, most)
        self._queues: dict[str, _Queue] = {}
        self._mean_seconds: float | None = None

    @asynccontextmanager
    async def of(self, workspace_id: str, build: Awaited) -> AsyncIterator[None]:
        """A turn of this workspace. Raises `RateLimited`, at once, where too many wait."""
        queue = self._queues.get(workspace_id)
        if queue is None:
            queue = self._queues[workspace_id] = _Queue(asyncio.Semaphore(self._at_once))
        elif len(queue.builds) >= self._at_once:
            self._check(queue)
        queue.builds.add(build)
        try:
            async with queue.free:
                began = time.monotonic()
                yield
                self._learn(time.monotonic() - began)
        finally:
            queue.builds.remove(build)
            if not queue.builds:
                del self._queues[workspace_id]

    def board(self, workspace_id: str, build: Awaited) -> None:
        """One more request is to wait for `build`. Raises `RateLimited` where too many wait."""
        queue = self._queues.get(workspace_id)
        if queue is not None and build in queue.builds and len(queue.builds) > self._at_once:
            self._check(queue)

    def _check(self, queue: _Queue) -> None:
        if (seats := queue.seats) >= self._most:
            raise RateLimited(
                f"{seats} requests wait for builds of this workspace in this worker;"
                " ask again later",
                self._until_done(len(queue.builds)),
            )

    def _learn(self, seconds: float) -> None:
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + (seconds - mean) * LATEST_SHARE

    def _until_done(self, builds: int) -> int | None:
        """Milliseconds until `builds` of one workspace are done, as fast as the latest were."""
        if self._mean_seconds is None:
            return None
        return max(1, round(self._mean_seconds * builds / self._at_once * 1_000))
