"""All orders of everybody's steps, drawn; nothing older than what was owed is served."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.liveness import LIFE_MS
from tests.properties.freshness.house import ROLES, House
from tests.properties.freshness.steps import BOUND_SECONDS
from tests.properties.freshness.stores import InMemory, Store
from tests.properties.freshness.truth import Truth
from tests.properties.freshness.workspace import ACCESS, CONTENT, PLACES, Rows, write

T = TypeVar("T")
WORKERS = ("relay", "relay", "other relay", "heart", "heart", "consumer", "consumer", "consumer")
MOST_AT_ONCE = 4
fates = st.sampled_from(["acknowledges"] * 3 + ["stands", "dies"])
numbers = st.integers(0, 7)
far = st.sampled_from([1, 1, 2, 3, 50])


class Freshness(RuleBasedStateMachine):
    """Over the store in memory, whose clock is ours."""

    loop: ClassVar[asyncio.AbstractEventLoop]
    database: ClassVar[AsyncEngine]
    rows: ClassVar[Rows]
    told: ClassVar[Counter[str]]
    seen: ClassVar[set[int]]
    """The interleavings that there were."""
    life_ms: ClassVar[int] = LIFE_MS
    ends: ClassVar[float] = float("inf")
    """When no more is tried, by the monotonic clock."""

    def __init__(self) -> None:
        super().__init__()
        self.over = time.monotonic() >= self.ends
        self.taken: list[object] = []
        self.tokens: list[str] = []

    def do(self, step: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(asyncio.wait_for(step, 2 * BOUND_SECONDS))

    async def make_store(self) -> Store:
        return InMemory()

    def make_house(self, store: Store, truth: Truth) -> House:
        return House(self.database, store, truth, self.told)

    def took(self, *what: object) -> None:
        self.taken.append(what)
        self.told["steps"] += 1

    @initialize(first=st.permutations(range(len(PLACES))))
    def begin(self, first: list[int]) -> None:
        """Three of the places are asked about."""
        self.places = [PLACES[n] for n in first[:3]]
        if self.over:
            return
        self.took(*first[:3])
        self.do(self._begin())

    async def _begin(self) -> None:
        await write(self.database, self.rows)
        store = await self.make_store()
        truth = Truth(self.database, self.places, self.life_ms)
        self.house = self.make_house(store, truth)
        self.house.pipe.now_ms = store.wall_ms
        await truth.begin()
        await self.house.all_work()

    # -- requests --

    @precondition(lambda self: not self.over)
    @rule(which=st.integers(0, 2), builder=st.integers(0, 1), again=st.booleans())
    def ask(self, which: int, builder: int, again: bool) -> None:
        """Answered at once, unless it waits for another's build; and once more."""
        self.took("ask", which, builder, again)
        for _ in range(1 + again):
            self.do(self._ask(which, builder, freely=True))

    @precondition(lambda self: not self.over and len(self.house.asked) < MOST_AT_ONCE)
    @rule(
        which=st.integers(0, 2), builder=st.integers(0, 1), fresh=st.sampled_from([False] * 5 + [True])
    )
    def arrive(self, which: int, builder: int, fresh: bool) -> None:
        """A request that takes its steps one by one."""
        self.took("arrive", which, builder, fresh)
        self.do(self._ask(which, builder, freely=False, fresh=fresh))

    @precondition(lambda self: not self.over and any(c.tokens for c in self.house.truth.commits))
    @rule(which=st.integers(0, 2), builder=st.integers(0, 1), write=st.integers(0, 3))
    def ask_after(self, which: int, builder: int, write: int) -> None:
        """A request that names one of the last writes."""
        self.took("after", which, builder, write)
        named = [commit for commit in self.house.truth.commits if commit.tokens]
        after = tuple(sorted(named[-1 - write % len(named)].tokens))
        self.do(self._ask(which, builder, freely=True, after=after))

    async def _ask(
        self, which: int, builder: int, *, freely: bool, fresh: bool = False,
        after: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        place = self.places[which]
        await self.house.ask(place, builder, freely=freely, fresh=fresh, after=after)

    @precondition(lambda self: not self.over and (self.house.asked or self.house.writing))
    @rule(which=numbers, far=far)
    def go_on(self, which: int, far: int) -> None:
        """A request or a write takes its next steps."""
        self.took("go on", which, far)
        standing = [*self.house.asked, *self.house.writing]
        actor = standing[which % len(standing)].actor
        for _ in range(far):
            if not actor.task.done():
                self.do(self._go_on(actor))

    async def _go_on(self, actor: Any) -> None:
        actor.go()
        await self.house.settle()

    # -- writers --

    @precondition(lambda self: not self.over and len(self.house.writing) < MOST_AT_ONCE)
    @rule(change=st.sampled_from(sorted(ACCESS)), n=numbers, then=fates)
    def change_access(self, change: str, n: int, then: str) -> None:
        self.took(change, n, then)
        self.do(self.house.write(change, n, then))

    @precondition(lambda self: not self.over and len(self.house.writing) < MOST_AT_ONCE)
    @rule(change=st.sampled_from(sorted(CONTENT)), n=numbers, then=fates)
    def change_content(self, change: str, n: int, then: str) -> None:
        self.took(change, n, then)
        self.do(self.house.write(change, n, then))

    # -- relays, heart, consumer --

    @precondition(lambda self: not self.over)
    @rule(role=st.sampled_from(WORKERS), far=far)
    def work(self, role: str, far: int) -> None:
        self.took("work", role, far)
        self.do(self._work(role, far))

    async def _work(self, role: str, far: int) -> None:
        for step in range(far):
            if step and role not in self.house.working:
                break
            await self.house.work(role)

    @precondition(lambda self: not self.over)
    @rule()
    def all_work(self) -> None:
        self.took("all work")
        self.do(self.house.all_work())

    @precondition(lambda self: not self.over)
    @rule(role=st.sampled_from(sorted(set(WORKERS))))
    def kill(self, role: str) -> None:
        self.took("kill", role)
        self.do(self.house.kill(role))

    @precondition(lambda self: not self.over and self.house.pipe.records)
    @rule(back=st.integers(1, 12))
    def deliver_again(self, back: int) -> None:
        """Partitions come back with an older position."""
        self.took("again", back)
        pipe = self.house.pipe
        for place in list(pipe.committed):
            pipe.committed[place] = max(0, pipe.committed[place] - back)
        pipe.revocations += 1
        self.do(self.house.kill("consumer"))

    # -- accidents --

    @precondition(lambda self: not self.over)
    @rule(name=st.sampled_from(["store", "store", "cut off", "cut", "back", "garbage"]), n=numbers)
    def suffer(self, name: str, n: int) -> None:
        self.took(name, n)
        house = self.house
        match name:
            case "store":
                accidents = house.store.accidents
                self.do(getattr(house.store, accidents[n % len(accidents)])(n))
            case "cut off":
                house.ways[ROLES[n % len(ROLES)]].away = True
            case "cut":
                house.ways[ROLES[n % len(ROLES)]].cut += 1
            case "back":
                for way in house.ways.values():
                    way.away, way.cut = False, 0
            case _:
                self.do(house.garbage("w" if n else None))

    @precondition(lambda self: not self.over)
    @rule(which=numbers)
    def elapse(self, which: int) -> None:
        self.took("elapse", which)
        waits = self.house.store.waits_ms
        self.do(self.house.store.elapse(waits[which % len(waits)]))

    def teardown(self) -> None:
        if self.over or not hasattr(self, "house"):
            return
        self.seen.add(hash(tuple(map(str, self.taken))))
        self.do(self.house.end())
