"""Single flight: equal requests that come at once are built once, and none gets what is too old.

Plain joining is stale: whoever arrives while a build runs would be given what that build read
before the arrival. Here an answer is given to a request only if its build read the clock *after*
the request arrived. The others go into the next flight, which starts when the first has ended. It
looks into the cache first: what the first stored is then validated after their arrival. One build
at a time, and each request waits for at most two.

Caches that joined without such a rule: ben-manes/caffeine#193, google/guava#1881.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Answer = TypeVar("Answer")


@dataclass(slots=True, eq=False)
class Flight(Generic[Answer]):
    """A build under way, for as long as anybody waits for it."""

    read_at: float
    """Just before its clock was read, by this process's monotonic clock."""
    task: asyncio.Task[Answer]
    waiting: int = 0

    def serves(self, arrived: float) -> bool:
        """Whether its answer may be given to a request that arrived then."""
        return self.read_at >= arrived

    async def ended(self) -> None:
        """Until it has ended, whatever came of it. The last who stops waiting ends it."""
        self.waiting += 1
        try:
            await asyncio.wait((self.task,))
        except asyncio.CancelledError:
            if self.waiting == 1:
                self.task.cancel()
                await asyncio.wait((self.task,))  # its connections are given back first
            raise
        finally:
            self.waiting -= 1

    def answer(self) -> Answer:
        """What came of it, once it has ended. Raises what it raised."""
        return self.task.result()


class Flights(Generic[Answer]):
    """The builds under way in this process, by what requests must share to share an answer."""

    def __init__(self) -> None:
        self._flying: dict[Hashable, Flight[Answer]] = {}

    def under_way(self, name: Hashable) -> Flight[Answer] | None:
        """The flight of that name, unless nobody waits for it any more."""
        flight = self._flying.get(name)
        return None if flight is None or flight.task.cancelling() else flight

    def begin(
        self, name: Hashable, read_at: float, build: Coroutine[Any, Any, Answer]
    ) -> Flight[Answer]:
        """A new flight; the caller waits for it."""
        flight = Flight(read_at, asyncio.create_task(build, name="build"))
        self._flying[name] = flight

        def landed(task: asyncio.Task[Answer]) -> None:
            if self._flying.get(name) is flight:
                del self._flying[name]
            if not task.cancelled():
                task.exception()  # whoever began it may have stopped waiting for its fault

        flight.task.add_done_callback(landed)
        return flight
