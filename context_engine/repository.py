"""The three layers and their jobs: cache for speed, session for continuity, snapshot for evidence.

The cache may be away: then everything is built, and the answer says so. Evidence may not: an
answer whose snapshot cannot be kept is not given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from context_engine import keys
from context_engine.coordinates import Effective, kept
from context_engine.errors import Unavailable
from context_engine.keys import Rendering, Scope
from context_engine.models.input import ContextBuildInput
from context_engine.ports import (
    ContextCache,
    Entry,
    Look,
    NewEntry,
    Seen,
    SessionWrite,
    SnapshotRecord,
    Snapshots,
)

PASSING_TTL = timedelta(seconds=5)
"""Longest life of an answer with a section that is unavailable for a passing reason."""


BYPASSED = "cache bypassed: changes are not proven to be applied"
"""Remark of an answer for which nothing cached was read."""

Unread = Literal["unproven", "other_server"]
"""Why not: liveness is not proven, or another server answered than the one it is proven of."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long each layer keeps what it holds."""

    cache: timedelta = timedelta(seconds=300)
    session: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Names:
    """Where one request's answers lie in the cache."""

    scope: Scope
    whole: str
    surface: str


def names_of(
    scope: Scope, request: ContextBuildInput, effective: Effective, how: Rendering, *, strict: bool
) -> Names:
    """The cache names of a request with these effective coordinates."""
    whole = keys.whole_key(
        scope,
        effective.at,
        how,
        request.message,
        request.metadata,
        inherited=effective.inherited,
        strict=strict,
    )
    surface = keys.surface_key(effective.at, how)
    return Names(
        scope,
        keys.whole_name(scope, whole),
        keys.surface_name(scope.workspace_id, surface),
    )


@dataclass(slots=True)
class Remarks:
    """Passing conditions that an answer's trace must own up to."""

    said: list[str] = field(default_factory=list)
    unread: Unread | None = None
    """Why nothing cached was read."""

    @property
    def bypassed(self) -> bool:
        return self.unread is not None

    def bypass(self, why: Unread = "unproven") -> None:
        if self.unread is None:
            self.unread = why
            self.said.append(BYPASSED)

    def unproven_write(self) -> None:
        self.said.append("built anew: a write that the request names is not proven applied")

    def cache_away(self, doing: str, error: Unavailable) -> None:
        remark = f"cache away while {doing}: {error.part}"
        if remark not in self.said:
            self.said.append(remark)


class ContextRepository:
    """What the engine keeps, over the ports for cache and evidence."""

    def __init__(self, cache: ContextCache, snapshots: Snapshots, lifetimes: Lifetimes) -> None:
        self._cache, self._snapshots, self._lifetimes = cache, snapshots, lifetimes

    async def look(
        self,
        names: Names,
        effective: Effective,
        remarks: Remarks,
        *,
        fresh: bool,
        assumed: bool,
        lead: bool,
    ) -> Seen | None:
        """The clock, the session, and what is cached and proven. None where the cache is away.

        `assumed`: `effective` was made without the session; where that keeps other coordinates,
        only those are read. `lead`: see `Look`.
        """
        look = Look(
            scope=names.scope,
            whole=names.whole,
            surface=names.surface,
            session=kept(effective.at) if names.scope.has_session else None,
            session_seconds=int(self._lifetimes.session.total_seconds()),
            skip_entries=fresh,
            assumed=assumed,
            lead=lead,
        )
        try:
            return await self._cache.look(look)
        except Unavailable as error:
            remarks.cache_away("reading", error)
            return None

    def entry(
        self,
        name: str,
        payload: bytes,
        tags: frozenset[keys.Tag],
        seen: Seen,
        *,
        passing: bool = False,
        until: datetime | None = None,
        context_hash: str = "",
        surface: Entry | NewEntry | None = None,
        quiet: bool = False,
    ) -> NewEntry | None:
        """An entry of this build; one made out of a surface ends with it at the latest. `quiet`:
        it is part of a denial."""
        if seen.moment is None:
            return None
        life = PASSING_TTL if passing else self._lifetimes.cache
        built, clock = seen.now_ms, seen.moment.clock
        expires = built + int(min(life, self._lifetimes.cache).total_seconds() * 1000)
        if until is not None:
            expires = min(expires, int(until.timestamp() * 1000))
        if surface is not None:
            expires, clock = min(expires, surface.expires_ms), min(clock, surface.clock)
            built = min(built, surface.built_ms)
        return NewEntry(
            name=name,
            payload=payload,
            tags=tags,
            clock=clock,
            built_ms=built,
            expires_ms=expires,
            context_hash=context_hash,
            quiet=quiet,
        )

    async def keep(
        self,
        seen: Seen | None,
        entries: list[NewEntry],
        session: SessionWrite | None,
        scope: Scope,
    ) -> None:
        """Stores an answer that was given for good, or does not: neither changes the answer.

        A workspace without marks gets them now, after this build proved a membership; the build
        that found none is not stored, since nothing says what it missed.
        """
        if seen is None:
            return
        try:
            if seen.moment is None:
                await self._cache.found(scope.workspace_id, session)
            else:
                await self._cache.fill(seen.moment, entries, session)
        except Unavailable:
            return

    async def release(self, names: Names) -> None:
        """Gives up the lead on an answer that does not come; one that cannot be lapses."""
        try:
            await self._cache.release(names.whole)
        except Unavailable:
            return

    async def evidence(self, record: SnapshotRecord) -> None:
        """Keeps a snapshot. Raises `Unavailable`: evidence is not optional."""
        await self._snapshots.save(record)

    def session_write(
        self, effective: Effective, scope: Scope, context_hash: str, memory: NewEntry | None
    ) -> SessionWrite | None:
        if not scope.has_session:
            return None
        return SessionWrite(
            scope=scope,
            coordinates=kept(effective.at),
            context_hash=context_hash,
            seconds=int(self._lifetimes.session.total_seconds()),
            memory=memory,
        )
