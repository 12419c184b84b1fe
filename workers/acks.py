"""Which requests of a partition may be acknowledged: those before the first unfinished one."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Taken(Generic[T]):
    """One request of a partition, from its arrival until everything before it is finished."""

    __slots__ = ("finished", "item", "prefix")

    def __init__(self, prefix: FinishedPrefix[T], item: T) -> None:
        self.prefix = prefix
        self.item = item
        self.finished = False

    def finish(self) -> list[T]:
        """Mark as finished; the items that this makes acknowledgeable, in the order taken."""
        self.finished = True
        return self.prefix.release()


class FinishedPrefix(Generic[T]):
    """The requests of one partition in the order taken, finished in any order.

    A committed offset speaks for everything before it, so a request that is done waits here
    for the slower ones at its front. Offsets may have holes; only the order counts.
    """

    __slots__ = ("_abandoned", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[Taken[T]] = deque()
        self._abandoned = False

    def take(self, item: T) -> Taken[T]:
        """Note that work on `item` begins."""
        taken = Taken(self, item)
        self._waiting.append(taken)
        return taken

    def release(self) -> list[T]:
        """Remove and return the finished items at the front; none once abandoned."""
        released: list[T] = []
        waiting = self._waiting
        while waiting and waiting[0].finished:
            released.append(waiting.popleft().item)
        return [] if self._abandoned else released

    def abandon(self) -> None:
        """Acknowledge nothing from now on: the partition may belong to someone else."""
        self._abandoned = True

    @property
    def unreleased(self) -> int:
        """How many were taken and are not acknowledgeable yet."""
        return len(self._waiting)
