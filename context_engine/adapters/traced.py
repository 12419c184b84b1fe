"""The same ports with a span around each call: what a request waited for, in its trace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from context_engine import tracing
from context_engine.keys import Coordinates, Scope, Tag
from context_engine.ports import (
    ContextCache,
    Counts,
    Domain,
    DomainReads,
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
    SnapshotRecord,
    Snapshots,
)

if TYPE_CHECKING:  # who marks needs nothing of access
    from context_engine.access import Attributes, VisibleScope
    from context_engine.facts import Facts, TableFacts, UserFacts
    from context_engine.policy import AttrLookup


class TracedDomain:
    """`Domain`, each statement of which is a span."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        with tracing.span("sql facts", "client"):
            return await self._domain.facts(at, tail=tail)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[DomainReads]:
        async with self._domain.snapshot() as reads:
            yield _TracedReads(reads)


class _TracedReads:
    def __init__(self, reads: DomainReads) -> None:
        self._reads = reads

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        with tracing.span("sql facts", "client"):
            return await self._reads.facts(at, tail=tail)

    async def tables(
        self, at: Coordinates, facts: Facts, ids: Sequence[str], /
    ) -> Sequence[TableFacts]:
        with tracing.span("sql tables", "client") as span:
            span.say("context_engine.tables", len(ids))
            return await self._reads.tables(at, facts, ids)

    async def attributes(
        self, at: Coordinates, user: UserFacts, lookups: Collection[AttrLookup], /
    ) -> Attributes:
        with tracing.span("sql attributes", "client"):
            return await self._reads.attributes(at, user, lookups)

    async def counts(self, scope: VisibleScope) -> Counts:
        with tracing.span("sql counts", "client"):
            return await self._reads.counts(scope)


class TracedSnapshots:
    """`Snapshots`, likewise."""

    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots

    async def save(self, record: SnapshotRecord) -> None:
        with tracing.span("sql snapshot", "client"):
            await self._snapshots.save(record)

    async def get(self, context_id: str) -> SnapshotRecord | None:
        with tracing.span("sql snapshot", "client"):
            return await self._snapshots.get(context_id)


class TracedCache:
    """`ContextCache`, likewise: each call is one round trip, shared with others at times."""

    def __init__(self, cache: ContextCache) -> None:
        self._cache = cache

    async def look(self, look: Look) -> Seen:
        with tracing.span("redis look", "client") as span:
            seen = await self._cache.look(look)
            span.say("context_engine.hit", seen.whole is not None)
            return seen

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        with tracing.span("redis fill", "client") as span:
            stored = await self._cache.fill(moment, entries, session)
            span.say("context_engine.stored", stored)
            return stored

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        with tracing.span("redis evict", "client") as span:
            evicted = await self._cache.evict(workspace_id, tags)
            span.say("context_engine.evicted", evicted.count)
            return evicted

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        with tracing.span("redis mark", "client"):
            return await self._cache.mark(workspace_id, tags, create=create, timeline=timeline)

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        with tracing.span("redis mark", "client"):
            return await self._cache.mark_many(changes)

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        with tracing.span("redis end sessions", "client"):
            return await self._cache.end_sessions(workspace_id, user_id)

    async def session(self, scope: Scope) -> SessionRecord | None:
        with tracing.span("redis session", "client"):
            return await self._cache.session(scope)

    async def memory(self, scope: Scope) -> str | None:
        with tracing.span("redis memory", "client"):
            return await self._cache.memory(scope)

    async def release(self, whole: str) -> None:
        with tracing.span("redis release", "client"):
            await self._cache.release(whole)

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        with tracing.span("redis found", "client"):
            await self._cache.found(workspace_id, session)

    async def forget(self, workspace_id: str) -> None:
        with tracing.span("redis forget", "client"):
            await self._cache.forget(workspace_id)

    async def forget_everything(self) -> frozenset[Reign]:
        with tracing.span("redis forget everything", "client"):
            return await self._cache.forget_everything()

    async def ping(self) -> None:
        await self._cache.ping()
