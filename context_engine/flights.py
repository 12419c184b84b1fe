"""Single flight: equal requests that come at once are built once, and none gets what is too old.

Plain joining is stale: whoever arrives while a build runs would be given what that build read
before the arrival. Here an answer is given to a request only if its flight read the clock *after*
the request arrived: what it then built knows of every change before that, what it found in the
cache was validated there. Until then requests board, without a look of their own. The others go
into the next flight, which starts when the first has ended, and looks into the cache first: what
that stored is validated after their arrival. One build at a time, and each request waits for at
most two.

Across processes a *lead* does the same: the look that finds nothing takes it, in the same call;
who finds it taken looks again until the leader has stored an answer, or gave up its lead, or the
lead has lapsed. It only ever saves work: any look may be the one that hits, and whoever has waited
for as long as a lead lasts builds all the same.

Caches that joined without such a rule: ben-manes/caffeine#193, google/guava#1881.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

LEAD_MS: Final = 2_000
"""How long a lead lasts, and how long anybody waits for another's: a dead leader's lapses."""

Answer = TypeVar("Answer")

WOKEN_AT_ONCE = 8
"""Requests that go on in one turn of the loop when their flight has landed."""


def pauses() -> Iterator[float]:
    """Seconds between looks while another process leads."""
    seconds = 0.005
    while True:
        yield seconds
        seconds = min(seconds * 1.5, 0.1)


class Flight(Generic[Answer]):
    """An answer on its way, for as long as anybody waits for it."""

    __slots__ = ("_waiters", "_waiting", "past", "read_at", "task", "until")

    task: asyncio.Task[Answer]

    def __init__(self) -> None:
        self.read_at: float | None = None
        """Just before the clock was last read, by this process's monotonic clock; None: not yet."""
        self.past: str | None = None
        """Why its answer came past the cache; None where it did not."""
        self.until = -math.inf
        """When the last of those who board it stops waiting, by this process's monotonic clock."""
        self._waiting = 0
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        """How many requests wait for it."""
        return self._waiting

    def serves(self, arrived: float) -> bool:
        """Whether its answer may be given to a request that arrived then. One that was given up
        has none: who found it and was not waiting yet must not be ended with it."""
        if self.task.cancelled():
            return False
        return self.read_at is None or self.read_at >= arrived

    async def ended(self) -> None:
        """Until it has ended, whatever came of it. The last who stops waiting ends it."""
        if self.task.done():
            return
        # One for each: whoever is cancelled cancels what it waits for.
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._waiting += 1
        try:
            await waiter
        except asyncio.CancelledError:
            self._waiting -= 1
            if not self._waiting:
                self.task.cancel()
                await asyncio.wait((self.task,))  # its connections are given back first
            raise

    def landed(self) -> None:
        """Wakes those who wait, a few in each turn of the loop: what each does next takes time,
        and a herd that woke at once would hold up everybody else for the sum of it."""
        here, self._waiters = self._waiters[:WOKEN_AT_ONCE], self._waiters[WOKEN_AT_ONCE:]
        for waiter in here:
            if not waiter.done():
                waiter.set_result(None)
        if self._waiters:
            asyncio.get_running_loop().call_soon(self.landed)

    def answer(self) -> Answer:
        """What came of it, once it has ended. Raises what it raised."""
        return self.task.result()


class Flights(Generic[Answer]):
    """The answers on their way in this process, by what requests must share to share one."""

    def __init__(self) -> None:
        self._flying: dict[Hashable, Flight[Answer]] = {}

    def under_way(self, name: Hashable) -> Flight[Answer] | None:
        """The flight of that name, unless it has ended, or nobody waits for it any more."""
        flight = self._flying.get(name)
        if flight is None or flight.task.done() or flight.task.cancelling():
            return None
        return flight

    def begin(
        self, name: Hashable, fly: Callable[[Flight[Answer]], Coroutine[Any, Any, Answer]]
    ) -> Flight[Answer]:
        """A new flight; the caller waits for it. Who comes in this turn of the loop boards it."""
        flight = Flight[Answer]()
        flight.task = asyncio.create_task(fly(flight), name="build")
        self._flying[name] = flight

        def landed(task: asyncio.Task[Answer]) -> None:
            if self._flying.get(name) is flight:
                del self._flying[name]
            if not task.cancelled():
                task.exception()  # whoever began it may have stopped waiting for its fault
            flight.landed()

        flight.task.add_done_callback(landed)
        return flight
