"""A cache whose use is counted, for who watches it: plain numbers, read at any time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from context_engine.errors import Unavailable
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    ContextCache,
    Evicted,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionRecord,
    SessionWrite,
)


@dataclass(slots=True)
class Layer:
    """How often one layer held what was looked for. A look that did not read it counts nowhere."""

    hits: int = 0
    misses: int = 0

    def note(self, found: bool) -> None:
        if found:
            self.hits += 1
        else:
            self.misses += 1


@dataclass(slots=True)
class CacheCounts:
    """Since the process began."""

    whole: Layer = field(default_factory=Layer)
    surface: Layer = field(default_factory=Layer)
    """Looked for where the whole context is not there."""
    session: Layer = field(default_factory=Layer)
    away: int = 0
    """Looks that the store did not answer."""
    evicted: int = 0
    """Entries that were unlinked since a change made them untrue."""
    sessions_ended: int = 0

    def looked(self, look: Look, seen: Seen) -> None:
        """Notes what one look found; who waits for another's build will look again."""
        if look.assumed and look.session is not None:
            self.session.note(seen.session is not None)
        session = seen.session.coordinates if seen.session is not None else look.session
        mistaken = look.assumed and session != look.session
        if look.skip_entries or mistaken or seen.led:
            return
        self.whole.note(seen.whole is not None)
        if seen.whole is None:
            self.surface.note(seen.surface is not None)


class CountedCache:
    """The same cache. Unanswered looks are counted, and raised as they come."""

    def __init__(self, cache: ContextCache) -> None:
        self._cache = cache
        self.counts = CacheCounts()

    async def look(self, look: Look) -> Seen:
        try:
            seen = await self._cache.look(look)
        except Unavailable:
            self.counts.away += 1
            raise
        self.counts.looked(look, seen)
        return seen

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        evicted = await self._cache.evict(workspace_id, tags)
        self.counts.evicted += evicted.count
        return evicted

    async def end_sessions(self, workspace_id: str, user_id: str | None = None) -> Evicted:
        ended = await self._cache.end_sessions(workspace_id, user_id)
        self.counts.sessions_ended += ended.count
        return ended

    # -- the rest is passed on ------------------------------------------------------------------

    async def session(self, scope: Scope) -> SessionRecord | None:
        return await self._cache.session(scope)

    async def memory(self, scope: Scope) -> str | None:
        return await self._cache.memory(scope)

    async def fill(
        self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
    ) -> bool:
        return await self._cache.fill(moment, entries, session)

    async def release(self, whole: str) -> None:
        await self._cache.release(whole)

    async def found(self, workspace_id: str, session: SessionWrite | None = None) -> None:
        await self._cache.found(workspace_id, session)

    async def mark(
        self,
        workspace_id: str,
        tags: frozenset[Tag],
        *,
        create: bool,
        timeline: str | None = None,
    ) -> Marked:
        return await self._cache.mark(workspace_id, tags, create=create, timeline=timeline)

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        return await self._cache.mark_many(changes)

    async def forget(self, workspace_id: str) -> None:
        await self._cache.forget(workspace_id)

    async def forget_everything(self) -> frozenset[Reign]:
        return await self._cache.forget_everything()

    async def ping(self) -> None:
        await self._cache.ping()
