"""Whose turn it is to be built: a few builds of each workspace at once, and bounded seats for who
waits.

One workspace that asks for more than can be built would otherwise hold every slot of the worker,
and every other workspace behind it; and a single build of it at a time, one after the other, still
takes whatever time the worker has. So while others ask too, a workspace that asks for much is
built for one at a time, and *rests* after each build, the longer the more of its seats are taken.
Hits take no turn. Nothing is kept of a workspace that has no build: there are never more queues
than requests in flight.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from context_engine.errors import RateLimited

LATEST_SHARE = 0.1
"""How much of the mean time of a turn the latest one makes out."""
HERD_BUILDS = 16
"""As long as no more builds than these are under way, any number of requests may wait for them:
that ends soon, and refusing a herd of equal requests would save nothing."""
MUCH = 0.1
"""How much of its seats a workspace takes that asks for much."""
REST = 8.0
"""The longest rest, in times of what the thread computed during the build before it. `make bench`
(noisy) shows what it does."""
RESTS_SECONDS = 3.0
"""The longest rests of all builds of a queue together: who was let in is built for in time."""
COMPANY_SECONDS = 1.0
"""For how long a workspace that asked counts as one that asks."""


class Awaited(Protocol):
    """A build with those who wait for it: equal requests share one."""

    @property
    def waiting(self) -> int: ...


@dataclass(slots=True)
class _Queue:
    free: asyncio.Semaphore
    pace: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    builds: set[Awaited] = field(default_factory=set)
    """Those that run and those that wait for their turn."""

    @property
    def seats(self) -> int:
        """Requests that wait for one of them."""
        return sum(build.waiting for build in self.builds)


class _Company:
    """The two workspaces that asked last: whichever of them one is, the other is its company."""

    def __init__(self) -> None:
        self._latest = self._other = ""
        self._other_asked = -math.inf
        self._latest_asked = -math.inf

    def asked(self, workspace_id: str) -> None:
        if workspace_id != self._latest:
            self._other, self._other_asked = self._latest, self._latest_asked
            self._latest = workspace_id
        self._latest_asked = time.monotonic()

    def of(self, workspace_id: str) -> bool:
        """Whether another one asked lately."""
        at = self._other_asked if workspace_id == self._latest else self._latest_asked
        return time.monotonic() - at < COMPANY_SECONDS


class Turns:
    """At most `at_once` builds of a workspace run; the others wait in order, for `most` requests
    in all."""

    def __init__(self, at_once: int, most: int) -> None:
        self._at_once, self._most = at_once, max(at_once, most)
        self._queues: dict[str, _Queue] = {}
        self._company = _Company()
        self._mean_seconds: float | None = None

    def asked(self, workspace_id: str) -> None:
        """A request of this workspace is here, whether it will need a turn or not."""
        self._company.asked(workspace_id)

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
            async with queue.free, self._paced(workspace_id, queue):
                yield
        finally:
            queue.builds.remove(build)
            if not queue.builds:
                del self._queues[workspace_id]

    def board(self, workspace_id: str, build: Awaited) -> None:
        """One more request is to wait for `build`. Raises `RateLimited` where too many wait."""
        queue = self._queues.get(workspace_id)
        if queue is not None and build in queue.builds and len(queue.builds) > HERD_BUILDS:
            self._check(queue)

    def _check(self, queue: _Queue) -> None:
        if (seats := queue.seats) >= self._most:
            raise RateLimited(
                f"{seats} requests wait for builds of this workspace in this worker;"
                " ask again later",
                self._until_done(len(queue.builds)),
            )

    @asynccontextmanager
    async def _paced(self, workspace_id: str, queue: _Queue) -> AsyncIterator[None]:
        """One at a time and with rests, where this workspace asks for much and others ask too.

        A rest goes by what this thread computed, for whomever, while the build ran: of a thread
        that mostly waits nobody needs a larger share.
        """
        began = time.monotonic()
        if self._taken(queue) < MUCH or not self._company.of(workspace_id):
            yield
            self._learn(time.monotonic() - began)
            return
        await queue.pace.acquire()
        began, computed = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            rest = (time.thread_time() - computed) * REST * self._taken(queue)
            rest = min(rest, RESTS_SECONDS / len(queue.builds))
            asyncio.get_running_loop().call_later(rest, queue.pace.release)
        self._learn((time.monotonic() - began + rest) * self._at_once)

    def _taken(self, queue: _Queue) -> float:
        """How much of its seats, 0 to 1."""
        return min(1.0, queue.seats / self._most)

    def _learn(self, seconds: float) -> None:
        mean = self._mean_seconds
        self._mean_seconds = seconds if mean is None else mean + (seconds - mean) * LATEST_SHARE

    def _until_done(self, builds: int) -> int | None:
        """Milliseconds until `builds` of one workspace are done, as fast as the latest were."""
        if self._mean_seconds is None:
            return None
        return max(1, round(self._mean_seconds * builds / self._at_once * 1_000))
