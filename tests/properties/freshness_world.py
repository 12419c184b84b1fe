"""The world that the cache is tried in: a database, its events, a store, builders.

A database of three versions, builders that take their steps one by one, events that repeat and
come out of order, and a store that is emptied, loses its marks, or is replaced by a replica that
lags. `Stale` is raised as soon as something older than what was acknowledged is served.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.ports import Entry, Look, Moment, NewEntry, Reign, Seen, SessionWrite
from tests.support.cache import (
    TTL_MS,
    WORKSPACE,
    MemoryStore,
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

UNKNOWN = 1 << 30
"""Of a session that nobody can find any more when a membership ends."""


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
            self.session_of = max(self.session_of, self.removals)
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


class AtItsLimit(Freshness):
    """Whose store lets any key go, in any order."""

    @rule(at=st.integers(0, 100))
    def lose_a_key(self, at: int) -> None:
        if self.do(self.store.lose_any(at)) == keys.sessions_name(WORKSPACE, "ann"):
            self.session_of = UNKNOWN  # whom to unlink: it is never trusted, and ends in a day


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
