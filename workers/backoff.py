"""Waiting for a part that is away: longer each time, bounded as a whole, cut short by a stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine

import structlog

from context_engine.errors import Unavailable

log = structlog.get_logger(__name__)

FIRST_SECONDS = 0.1
LONGEST_SECONDS = 5.0


class Patience:
    """How long to go on while a part is away: `seconds` in all since it last answered."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def twin(self) -> Patience:
        """As much again, for work beside."""
        return Patience(self._seconds)

    def reset(self) -> None:
        """The part answered."""
        self._pause = FIRST_SECONDS
        self._since: float | None = None

    async def wait(self, away: Unavailable, stop: asyncio.Event) -> bool:
        """Pauses before the next attempt; False once patience is at its end."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
            log.warning("waiting for a part that is away", part=away.part, reason=away.message)
        if now - self._since >= self._seconds:
            return False
        await pause(self._pause, stop)
        self._pause = min(self._pause * 2, LONGEST_SECONDS)
        return True


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """For so long, or until `stop`."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def reach(ask: Callable[[], Awaitable[object]], patience: Patience) -> None:
    """Asks a part until it answers. Raises `Unavailable` at the end of patience."""
    never = asyncio.Event()
    while True:
        try:
            await ask()
            return
        except Unavailable as away:
            if not await patience.wait(away, never):
                raise


async def unless(stop: asyncio.Event, start: Coroutine[object, object, None]) -> bool:
    """Whether `start` came to its end before `stop` was set; if not, it is given up.

    For what a worker does before it has taken anything: told to stop there, it just leaves.
    """
    starting = asyncio.ensure_future(start)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            return False
        starting.result()
        return True
    finally:
        for task in (starting, stopped):
            task.cancel()
        await asyncio.gather(starting, stopped, return_exceptions=True)
