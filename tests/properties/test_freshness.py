"""Builds against changes in any interleaving: nothing older than what was acknowledged is served.

A database of three versions, builders that take their steps one by one, events that repeat and
come out of order, and a store that is emptied, loses its marks, or is replaced by a replica that
lags. Then the same with faults planted, each of which must be found: an explorer that finds
nothing has to show that it can.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.memory.cache import Marks
from context_engine.keys import Tag
from context_engine.ports import (
    Entry,
    Epoch,
    Look,
    Marked,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionWrite,
)
from tests.support.cache import (
    TTL_MS,
    WORKSPACE,
    MemoryStore,
    RedisStore,
    Store,
    scope,
    surface_name,
    whole_name,
)

T = TypeVar("T")

WHO = scope("ann")
TAGS = {"rows": keys.rows("t1"), "schema": keys.schema("t1"), "talk": keys.conversation("c1")}
"""What the answer depends on; the surface on all but the talk."""

SURFACE = ("rows", "schema")
ACCESS = keys.access("ann")

parts = st.sampled_from(sorted(TAGS))
builders = st.integers(0, 1)
turns = st.sampled_from(["turn 1", "turn 2"])
"""Two messages of one dialogue: two whole contexts over one surface."""

ACCIDENTS = ("understand_nothing", "flush", "lose_marks")


class Stale(AssertionError):
    """Something was served that was known to be true no more."""


@dataclass(slots=True)
class Build:
    """One build between its steps: clock, database, fill."""

    moment: Moment | None
    surface: Entry | None
    turn: str
    removals: int
    """How often the user had been removed when it began."""
    read: dict[str, int] | None = None
    """Versions that it read, and since when the oldest of them is known."""


class Freshness(RuleBasedStateMachine):
    """The world: a database, its events, a store, builders."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make_store()
        self.database = dict.fromkeys(TAGS, 0)
        self.acknowledged = dict.fromkeys(TAGS, 0)
        self.events: list[str] = []
        self.builds: dict[int, Build] = {}
        self.removals = 0
        self.session_of = 0
        """Removals that had come when the newest build that may keep a session began."""

    def make_store(self) -> Store:
        return MemoryStore()

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        """In memory nothing is ever awaited: a step is a step."""
        try:
            step.send(None)
        except StopIteration as done:
            result: T = done.value
            return result
        raise RuntimeError("the cache in memory awaited something")

    # -- the writer, the relay and the consumer --

    @rule(part=parts, marks=st.booleans())
    def commit(self, part: str, marks: bool) -> None:
        """A change; its service marks and acknowledges, or dies before it could."""
        self.database[part] += 1
        self.events.append(part)
        if marks:
            self.mark(part, create=True)

    @precondition(lambda self: self.events)
    @rule(at=st.integers(0, 20), unlinks=st.booleans())
    def deliver(self, at: int, unlinks: bool) -> None:
        """Any event, again or for the first time; its deletes may be lost."""
        part = self.events[at % len(self.events)]
        self.mark(part, create=False)
        if unlinks:
            self.do(self.store.cache.evict(WORKSPACE, frozenset({TAGS[part]})))

    def mark(self, part: str, *, create: bool) -> None:
        self.do(self.store.cache.mark(WORKSPACE, frozenset({TAGS[part]}), create=create))
        self.acknowledged[part] = self.database[part]

    @rule()
    def remove_the_user(self) -> None:
        """A membership ends; sessions go with it."""
        self.do(self.store.cache.mark(WORKSPACE, frozenset({ACCESS}), create=True))
        self.do(self.store.cache.end_sessions(WORKSPACE, "ann"))
        self.removals += 1

    # -- accidents --

    @rule(name=st.sampled_from(ACCIDENTS))
    def suffer(self, name: str) -> None:
        """One rule for all, so that the rest of the world has its say between them."""
        getattr(self, name)()

    def understand_nothing(self) -> None:
        """A message that cannot be parsed takes the workspace's marks with it."""
        self.do(self.store.cache.forget(WORKSPACE))
        self.acknowledged = dict(self.database)

    def flush(self) -> None:
        self.do(self.store.flush())

    def lose_marks(self) -> None:
        if self.do(self.look("turn 1")).moment is not None:
            self.do(self.store.lose_marks(WORKSPACE))

    # -- readers and builders --

    async def look(self, turn: str, session: bytes | None = None, fresh: bool = False) -> Seen:
        names = whole_name(WHO, turn), surface_name(WHO)
        return await self.store.cache.look(Look(WHO, *names, session=session, skip_entries=fresh))

    @rule(builder=builders, turn=turns, fresh=st.booleans())
    def go_on(self, builder: int, turn: str, fresh: bool) -> None:
        """The next step of one build; `fresh` ones begin although an answer is there."""
        if builder not in self.builds:
            self.begin(builder, turn, fresh)
        elif self.builds[builder].read is None:
            self.read(self.builds[builder])
        else:
            self.fill(self.builds.pop(builder))

    @rule(turn=turns, fresh=st.booleans())
    def build(self, turn: str, fresh: bool) -> None:
        """A build that nothing comes between."""
        self.begin(-1, turn, fresh)
        if (build := self.builds.pop(-1, None)) is not None:
            self.read(build)
            self.fill(build)

    def begin(self, builder: int, turn: str, fresh: bool) -> None:
        """One read: an answer, or the clock that a build begins with."""
        seen = self.do(self.look(turn, b"c", fresh))
        for entry, named in ((seen.whole, tuple(TAGS)), (seen.surface, SURFACE)):
            if entry is not None:
                self.judge(json.loads(entry.payload), named, seen.now_ms)
        if seen.whole is not None:
            self.session_of = self.removals
        else:
            self.builds[builder] = Build(seen.moment, seen.surface, turn, self.removals)

    def read(self, build: Build) -> None:
        """The database, in one snapshot; what the surface holds is taken from there."""
        build.read = {**self.database, "since": build.moment.now_ms if build.moment else 0}
        if build.surface is not None:
            build.read |= json.loads(build.surface.payload)

    def fill(self, build: Build) -> None:
        assert build.read is not None
        if (moment := self.moment_of(build)) is None:
            self.do(self.store.cache.found(WORKSPACE))
            return
        memory = self.new_entry(keys.memory_name(WHO), build.read, moment, ("talk",))
        session = SessionWrite(WHO, b"c", "h", 3_600, memory)
        self.do(self.store.cache.fill(moment, self.entries(build, build.read, moment), session))
        self.session_of = max(self.session_of, build.removals)

    def moment_of(self, build: Build) -> Moment | None:
        return build.moment

    def entries(self, build: Build, read: dict[str, int], moment: Moment) -> list[NewEntry]:
        whole = self.new_entry(whole_name(WHO, build.turn), read, moment, tuple(TAGS))
        if build.surface is None:
            return [whole, self.new_entry(surface_name(WHO), read, moment, SURFACE)]
        return [self.made_of(build.surface, whole)]

    def made_of(self, surface: Entry, whole: NewEntry) -> NewEntry:
        """All its tags, the lower clock, the earlier expiry."""
        return replace(
            whole,
            tags=whole.tags | surface.tags,
            clock=min(whole.clock, surface.clock),
            expires_ms=min(whole.expires_ms, surface.expires_ms),
        )

    def new_entry(
        self, name: str, read: dict[str, int], moment: Moment, named: Sequence[str]
    ) -> NewEntry:
        return NewEntry(
            name=name,
            payload=json.dumps({k: read[k] for k in (*named, "since")}).encode(),
            tags=frozenset(TAGS[part] for part in named) | {ACCESS},
            clock=moment.clock,
            built_ms=moment.now_ms,
            expires_ms=moment.now_ms + TTL_MS,
        )

    @rule()
    def serve(self) -> None:
        """Everything that a reader may be given. Who kept the session is judged first: a hit
        keeps it anew."""
        if self.do(self.store.cache.session(WHO)) is not None and self.session_of < self.removals:
            raise Stale("the session of a removed user came back")
        if (text := self.do(self.store.cache.memory(WHO))) is not None:
            self.judge(json.loads(text), ("talk",), 0)
        for turn in ("turn 1", "turn 2"):
            self.begin(-1, turn, False)
            self.builds.pop(-1, None)

    def judge(self, served: dict[str, int], named: Sequence[str], now_ms: int) -> None:
        for part in named:
            if served[part] < self.acknowledged[part]:
                raise Stale(f"{part} at {served[part]}, acknowledged {self.acknowledged[part]}")
        if now_ms and now_ms - served["since"] >= TTL_MS:
            raise Stale("older than the longest life")


class InMemory(Freshness):
    """What only a store with a clock and a replica of ours can be made to do."""

    store: MemoryStore

    def __init__(self) -> None:
        super().__init__()
        self.reigns = itertools.count()
        self.replicate()

    def make_store(self) -> MemoryStore:
        store = MemoryStore()
        store.cache = self.make_cache(store)
        return store

    def make_cache(self, store: MemoryStore) -> MemoryCache:
        return MemoryCache(now=lambda: store.now_ms)

    @rule(seconds=st.sampled_from([1, 100, 200, 299, 601]))
    def elapse(self, seconds: int) -> None:
        self.do(self.store.elapse(seconds * 1000))

    @rule(name=st.sampled_from([*ACCIDENTS, "replicate", "replicate", "promote", "promote"]))
    def suffer(self, name: str) -> None:
        getattr(self, name)()

    def replicate(self) -> None:
        """The replica catches up."""
        cache = self.store.cache
        self.replica = copy.deepcopy((cache.marks, cache.entries))

    def promote(self) -> None:
        """A replica that lacks the last writes takes over, under a reign of its own."""
        cache = self.store.cache
        cache.marks, cache.entries = copy.deepcopy(self.replica)
        cache.reign = Reign(f"reign {next(self.reigns)}")
        cache.sessions.clear()


EXPLORE = settings(
    max_examples=1_000,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_nothing_stale_is_served_from_memory() -> None:
    run_state_machine_as_test(InMemory, settings=EXPLORE)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """For steps taken one by one from code that does not await."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_nothing_stale_is_served_from_valkey(
    redis_url: str, loop: asyncio.AbstractEventLoop
) -> None:
    store = RedisStore(redis_url)

    class InValkey(Freshness):
        def make_store(self) -> Store:
            loop.run_until_complete(store.flush())
            return store

        def do(self, step: Coroutine[Any, Any, T]) -> T:
            return loop.run_until_complete(asyncio.wait_for(step, 10))

    try:
        run_state_machine_as_test(InValkey, settings=settings(EXPLORE, max_examples=60))
    finally:
        loop.run_until_complete(store.close())


# -- planted faults ----------------------------------------------------------------------------


class Faulty(InMemory):
    """A world whose cache is `kind`."""

    kind: type[MemoryCache]

    def make_cache(self, store: MemoryStore) -> MemoryCache:
        return self.kind(now=lambda: store.now_ms)


class StampsAtFill(Faulty):
    """Entries bear the clock at their fill, not at their build's beginning."""

    class kind(MemoryCache):
        async def fill(
            self, moment: Moment, entries: Sequence[NewEntry], session: SessionWrite | None
        ) -> bool:
            if (marks := self.marks.get(WORKSPACE)) is not None:
                entries = [replace(entry, clock=marks.clock) for entry in entries]
            return await super().fill(moment, entries, session)


class DeletesInPlaceOfMarking(Faulty):
    class kind(MemoryCache):
        async def mark(self, workspace_id: str, tags: frozenset[Tag], *, create: bool) -> Marked:
            await self.evict(workspace_id, tags)
            return await super().mark(workspace_id, frozenset(), create=create)


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
            marks = self.marks.get(WORKSPACE)
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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: type[InMemory]) -> None:
    """By the same steps, always in the same order, within a bound with room to spare."""
    search = settings(
        EXPLORE,
        max_examples=10_000,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    with pytest.raises(Stale):
        run_state_machine_as_test(fault, settings=search)
