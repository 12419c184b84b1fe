"""What a build worker tells of its answers: how many there were, how many past the cache.

Told in the background, all at once and at most once a second: no request waits for it.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from context_engine.errors import Unavailable
from context_engine.ports import LivenessStore, Tally
from workers.backoff import pause

TELL_SECONDS = 1.0


class Counting(Protocol):
    """What is needed of an engine."""

    @property
    def tally(self) -> Tally: ...


class Teller:
    """Tells a store what an engine answered."""

    def __init__(self, engine: Counting, store: LivenessStore) -> None:
        self._engine, self._store = engine, store
        self._told = Tally()

    async def run(self, stop: asyncio.Event) -> None:
        """Until `stop`, and then what is left."""
        while not stop.is_set():
            await pause(TELL_SECONDS, stop)
            await self.tell()

    async def tell(self) -> None:
        """What came since it was last told; where the store is away, it is told with the next."""
        now = self._engine.tally
        if now == self._told:
            return
        try:
            await self._store.count(now - self._told)
        except Unavailable:
            return
        self._told = now
