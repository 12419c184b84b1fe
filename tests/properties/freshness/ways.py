"""The ports as one process has them: with stops in them, and a way to the store that may fail."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from context_engine.adapters.sql.services import Token
from context_engine.adapters.sql.services.marking import Marking
from context_engine.errors import Unavailable
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    Beat,
    ContextCache,
    Domain,
    DomainReads,
    Evicted,
    LivenessStore,
    Look,
    Marked,
    Moment,
    NewEntry,
    OutboxBatch,
    OutboxSource,
    Place,
    Proofs,
    Pulse,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
    Unpublished,
)
from tests.properties.freshness.steps import stop

T = TypeVar("T")


class Clock:
    """In place of the engine's `time`: under the store's clock, and never twice the same."""

    def __init__(self) -> None:
        self.begin(time.monotonic)

    def begin(self, under: Callable[[], float]) -> None:
        self._under, self._last = under, 0.0

    def monotonic(self) -> float:
        self._last = max(math.nextafter(self._last, math.inf), self._under())
        return self._last


CLOCK = Clock()


@dataclass
class Way:
    """From one process to a part."""

    away: bool = False
    """Nothing gets through."""
    cut: int = 0
    """So many calls are done, and their replies lost."""

    async def take(self, call: Callable[[], Awaitable[T]]) -> T:
        if self.away:
            raise Unavailable("redis", "away")
        result = await call()
        if self.cut:
            self.cut -= 1
            raise Unavailable("redis", "cut in the middle of a reply")
        return result


class Cache:
    """`ContextCache` over a way."""

    def __init__(self, inner: ContextCache, way: Way) -> None:
        self.inner, self.way = inner, way

    async def session(self, scope: Scope) -> SessionRecord | None:
        return await self.way.take(lambda: self.inner.session(scope))

    async def memory(self, scope: Scope) -> str | None:
        return await self.way.take(lambda: self.inner.memory(scope))

    async def look(self, look: Look) -> Seen:
        await stop("before the clock")
        seen = await self.way.take(lambda: self.inner.look(look))
        await stop("after the clock")
        if seen.led:
            await stop("while another leads", polls=True)
        return seen

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        await stop("before the fill")
        taken = await self.way.take(lambda: self.inner.fill(moment, entries, session))
        await stop("before the reply")
        return taken

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        await stop("before the fill")
        await self.way.take(lambda: self.inner.found(workspace_id, session))
        await stop("before the reply")

    async def release(self, whole: str) -> None:
        await self.way.take(lambda: self.inner.release(whole))

    async def mark(self, workspace_id: str, tags: frozenset[Tag], **how: Any) -> Marked:
        return await self.way.take(lambda: self.inner.mark(workspace_id, tags, **how))

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        if not changes:
            return ()
        await stop("before its marks")
        marks = await self.way.take(lambda: self.inner.mark_many(changes))
        await stop("after its marks")
        return marks

    async def forget(self, workspace_id: str) -> None:
        await self.way.take(lambda: self.inner.forget(workspace_id))

    async def forget_everything(self) -> frozenset[Reign]:
        await stop("before its marks")
        return await self.way.take(self.inner.forget_everything)

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        evicted = await self.way.take(lambda: self.inner.evict(workspace_id, tags))
        await stop("after its evictions")
        return evicted

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        return await self.way.take(lambda: self.inner.end_sessions(workspace_id, user_id))

    async def ping(self) -> None:
        await self.way.take(self.inner.ping)


async def done(self: Marking, *of: Any) -> tuple[Token, ...]:
    """In place of `Marking.done`: a writer that stands there has not begun to mark, which has a
    bound in time."""
    await stop("after the commit")
    tokens = await DONE(self, *of)
    await stop("before the acknowledgement")
    return tokens


DONE = Marking.done


class Proving:
    """`LivenessStore` over a way, for a heart or a consumer. Who only looks does not stop."""

    def __init__(self, inner: LivenessStore, way: Way) -> None:
        self._inner, self._way = inner, way
        self.count, self.counted = inner.count, inner.counted

    async def pulse(self) -> Pulse:
        pulse = await self._way.take(self._inner.pulse)
        await stop("after the pulse")
        return pulse

    async def renew(self, beats: Sequence[Beat], vocabulary: str) -> None:
        await stop("before the proof")
        await self._way.take(lambda: self._inner.renew(beats, vocabulary))

    async def begin(self, timeline: str) -> frozenset[Reign]:
        return await self._way.take(lambda: self._inner.begin(timeline))

    async def proofs(self, places: Sequence[Place]) -> Proofs:
        return await self._way.take(lambda: self._inner.proofs(places))


class Rows:
    """`Domain` whose readers stop between their statements."""

    def __init__(self, inner: Domain) -> None:
        self._inner = inner

    async def facts(self, *args: Any, **more: Any) -> Any:
        facts = await self._inner.facts(*args, **more)
        await stop("after the dialogue")
        return facts

    def snapshot(self) -> AbstractAsyncContextManager[DomainReads]:
        return self._snapshot()

    @asynccontextmanager
    async def _snapshot(self) -> AsyncIterator[Any]:
        async with self._inner.snapshot() as reads:
            yield _Reads(reads)


class _Reads:
    def __init__(self, inner: DomainReads) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def facts(self, *args: Any, **more: Any) -> Any:
        facts = await self._inner.facts(*args, **more)
        await stop("after the facts")
        return facts

    async def counts(self, *args: Any) -> Any:
        counts = await self._inner.counts(*args)
        await stop("after the counts")
        return counts


class Outbox:
    """`OutboxSource` whose relays stop with rows in their hands, and whose heart does not wait by
    a clock."""

    def __init__(self, inner: OutboxSource) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @asynccontextmanager
    async def claim(self, limit: int) -> AsyncIterator[OutboxBatch]:
        async with self._inner.claim(limit) as batch:
            if batch.rows:
                await stop("after the claim")
            yield batch
            if batch.rows:
                await stop("after the sends")

    async def unpublished(self, limit: int) -> Unpublished | None:
        found = await self._inner.unpublished(limit)
        await stop("after the look at the outbox")
        return found

    async def all_published(self, ids: Collection[str]) -> bool:
        published = await self._inner.all_published(ids)
        if not published:
            await stop("while rows wait")
        return published
