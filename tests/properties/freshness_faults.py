"""Faults planted in the cache or its users: an explorer that finds nothing has to show it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.memory.cache import Marks
from context_engine.keys import Tag
from context_engine.ports import Entry, Epoch, Marked, Moment, NewEntry, SessionWrite
from tests.properties.freshness_world import ACCESS, TAGS, Build, InMemory, parts
from tests.support.cache import TTL_MS, MemoryStore


class Faulty(InMemory):
    """A world whose cache is `kind`."""

    kind: type[MemoryCache]

    def make_cache(self, store: MemoryStore) -> MemoryCache:
        return self.kind(now=lambda: store.now_ms)


def _marks(cache: MemoryCache, entries: Sequence[NewEntry]) -> Marks | None:
    return cache.marks.get(keys.workspace_in(entries[0].name)) if entries else None


class StampsAtFill(Faulty):
    """Entries bear the clock at their fill, not at their build's beginning."""

    class kind(MemoryCache):
        async def fill(
            self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
        ) -> bool:
            if (marks := _marks(self, entries)) is not None:
                entries = [replace(entry, clock=marks.clock) for entry in entries]
            return await super().fill(moment, entries, session)


class DeletesInPlaceOfMarking(Faulty):
    class kind(MemoryCache):
        async def mark(self, workspace_id: str, tags: frozenset[Tag], **how: Any) -> Marked:
            await self.evict(workspace_id, tags)
            return await super().mark(workspace_id, frozenset(), **how)


class HasNoEpoch(Faulty):
    class kind(MemoryCache):
        def _made(self, workspace_id: str) -> Marks:
            made = super()._made(workspace_id)
            made.epoch = Epoch("always the same")
            return made


class HasNoReign(Faulty):
    class kind(MemoryCache):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, "always the same" if name == "reign" else value)


class SlidesItsExpiry(Faulty):
    class kind(MemoryCache):
        def _proven(self, marks: Marks, name: str, *, tags: bool = False) -> Entry | None:
            found = super()._proven(marks, name, tags=tags)
            if found is not None:
                stored = self.entries[name]
                stored.entry = replace(stored.entry, expires_ms=self._now() + TTL_MS)
            return found


class StampsWithoutLooking(Faulty):
    """A hit is stamped with the present clock whatever was marked."""

    class kind(MemoryCache):
        def _proven(self, marks: Marks, name: str, *, tags: bool = False) -> Entry | None:
            if (stored := self.entries.get(name)) is not None and stored.epoch == marks.epoch:
                stored.clock = marks.clock
            return super()._proven(marks, name, tags=tags)


class KeepsEverySession(Faulty):
    """Coordinates are written whatever happened to the user's access."""

    class kind(MemoryCache):
        def _keep_after(self, marks: Marks, session: SessionWrite, moment: Moment) -> None:
            super()._keep_after(marks, session, replace(moment, clock=marks.clock))


class KeepsEveryMemory(Faulty):
    """Derived text is written without the fill's check, and read without proof."""

    class kind(MemoryCache):
        async def fill(
            self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
        ) -> bool:
            marks = _marks(self, entries)
            if session is not None and session.memory is not None and marks is not None:
                memory = replace(session.memory, clock=marks.clock)
                session = replace(session, memory=memory)
            return await super().fill(moment, entries, session)


class ReadsTheClockAfterTheDatabase(InMemory):
    def moment_of(self, build: Build) -> Moment | None:
        return self.do(self.look("turn 1")).moment if build.moment is not None else None


class MarksBeforeTheCommitOnly(InMemory):
    @rule(part=parts, marks=st.booleans())
    def commit(self, part: str, marks: bool) -> None:
        self.mark(part, create=True)
        self.build("turn 1", fresh=marks)
        self.database[part] += 1
        self.acknowledged[part] = self.database[part]


class ForgetsTheTagsOfItsSurface(InMemory):
    def entries(self, build: Build, read: dict[str, int], moment: Moment) -> list[NewEntry]:
        made = super().entries(build, read, moment)
        if build.surface is not None:
            made = [replace(entry, tags=frozenset({TAGS["talk"], ACCESS})) for entry in made]
        return made


class OutlivesItsSurface(InMemory):
    def made_of(self, surface: Entry, whole: NewEntry) -> NewEntry:
        return replace(whole, tags=whole.tags | surface.tags)


FAULTS: tuple[type[InMemory], ...] = (
    StampsAtFill,
    DeletesInPlaceOfMarking,
    HasNoEpoch,
    HasNoReign,
    SlidesItsExpiry,
    StampsWithoutLooking,
    KeepsEverySession,
    KeepsEveryMemory,
    ReadsTheClockAfterTheDatabase,
    MarksBeforeTheCommitOnly,
    ForgetsTheTagsOfItsSurface,
    OutlivesItsSurface,
)
