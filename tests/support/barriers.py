"""Barriers between two steps: who comes to one says so, and waits there until it is opened.

Put in as small wrappers around the ports. A point that nobody closed holds nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal

from context_engine.adapters.redis import RedisCache
from context_engine.keys import Tag
from context_engine.ports import (
    Domain,
    DomainReads,
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    OutboxBatch,
    OutboxSource,
    Seen,
    SessionWrite,
)

BOUND_SECONDS = 20.0

Point = Literal[
    "after the clock",
    "after the database read",
    "before the fill",
    "before the reply",
    "after the commit",
    "before the acknowledgement",
    "after the claim",
    "after the sends",
    "before its marks",
    "after its marks",
    "after its evictions",
]
"""Of a build, of a writer, of a relay, of the consumer, each in its order."""

BUILD: tuple[Point, ...] = ("after the clock", "after the database read", "before the fill")


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


class Barrier:
    """Holds the next one who comes to it, or kills it."""

    def __init__(self, *, kills: bool = False) -> None:
        self._reached, self._free, self._kills = asyncio.Event(), asyncio.Event(), kills

    async def reached(self) -> None:
        """Until somebody stands here."""
        async with asyncio.timeout(BOUND_SECONDS):
            await self._reached.wait()

    def open(self) -> None:
        self._free.set()

    async def hold(self) -> None:
        self._reached.set()
        if self._kills:
            raise Killed
        async with asyncio.timeout(BOUND_SECONDS):
            await self._free.wait()


class Barriers:
    """The points that are closed."""

    def __init__(self) -> None:
        self._closed: dict[Point, Barrier] = {}

    def close(self, point: Point, *, kills: bool = False) -> Barrier:
        """For the next one who comes there, and for nobody after."""
        made = self._closed[point] = Barrier(kills=kills)
        return made

    async def at(self, point: Point) -> None:
        if (closed := self._closed.pop(point, None)) is not None:
            await closed.hold()


class HeldCache(RedisCache):
    """A cache whose callers stop at barriers. Remembers whether each fill was taken."""

    barriers: Barriers
    taken: list[bool]

    @classmethod
    def over(cls, url: str, settings: Any, barriers: Barriers) -> HeldCache:
        made = cls(url, settings)
        made.barriers, made.taken = barriers, []
        return made

    async def look(self, look: Look) -> Seen:
        seen = await super().look(look)
        await self.barriers.at("after the clock")
        return seen

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        await self.barriers.at("before the fill")
        self.taken.append(await super().fill(moment, entries, session))
        await self.barriers.at("before the reply")
        return self.taken[-1]

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        if not create:
            return await super().mark(workspace_id, tags, create=False)
        await self.barriers.at("after the commit")
        marked = await super().mark(workspace_id, tags, create=True, timeline=timeline)
        await self.barriers.at("before the acknowledgement")
        return marked

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        if changes:
            await self.barriers.at("before its marks")
        marks = await super().mark_many(changes)
        if changes:
            await self.barriers.at("after its marks")
        return marks

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        evicted = await super().evict(workspace_id, tags)
        await self.barriers.at("after its evictions")
        return evicted


class HeldDomain:
    """A domain whose builds stop once they have read everything."""

    def __init__(self, domain: Domain, barriers: Barriers) -> None:
        self._domain, self._barriers = domain, barriers
        self.facts = domain.facts

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        return self._snapshot()

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[DomainReads]:
        async with self._domain.snapshot() as reads:
            yield _HeldReads(reads, self._barriers)


class _HeldReads:
    def __init__(self, reads: DomainReads, barriers: Barriers) -> None:
        self._reads, self._barriers = reads, barriers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reads, name)

    async def counts(self, *args: Any) -> Any:
        """The last that a build reads."""
        counts = await self._reads.counts(*args)
        await self._barriers.at("after the database read")
        return counts


class HeldOutbox:
    """An outbox whose relay stops with the rows in its hands. All else is the outbox's own."""

    def __init__(self, outbox: OutboxSource, barriers: Barriers) -> None:
        self._outbox, self._barriers = outbox, barriers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._outbox, name)

    @asynccontextmanager
    async def claim(self, limit: int) -> AsyncIterator[OutboxBatch]:
        async with self._outbox.claim(limit) as batch:
            if batch.rows:
                await self._barriers.at("after the claim")
            yield batch
            if batch.rows:
                await self._barriers.at("after the sends")
