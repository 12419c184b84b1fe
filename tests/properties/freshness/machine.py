"""All orders of everybody's steps, drawn; nothing older than what was owed is served."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.liveness import LIFE_MS
from tests.properties.freshness.house import ROLES, House
from tests.properties.freshness.steps import BOUND_SECONDS, Actor
from tests.properties.freshness.stores import InMemory, Store
from tests.properties.freshness.truth import Stale, Truth
from tests.properties.freshness.workspace import CHANGES, PLACES, Place, Rows, write

WORKERS = ("relay", "relay", "other relay", "heart", "heart", "consumer", "consumer", "consumer")
ACCIDENTS = (
    "store",
    "store",
    "cut off",
    "cut",
    "back",
    "back",
    "garbage",
    "killed",
    "killed",
    "again",
)
MOST_AT_ONCE = 4
"""Requests, and writes, that stand somewhere: each may hold a connection."""

places, builders, kinds = st.sampled_from([0, 0, 1]), st.integers(0, 1), st.integers(0, 5)
numbers = st.integers(0, 7)
fates = st.sampled_from(["acknowledges"] * 4 + ["stands", "dies"])
Change = tuple[int, int, str]
"""Which of the example's changes, to which of its values, and what becomes of its writer."""

changes = st.tuples(kinds, numbers, fates)
far = st.sampled_from([1, 1, 2, 3, 50])
Accident = tuple[str | None, str | None]
"""What befalls the store before a change, and after it."""

accidents = st.tuples(
    st.sampled_from([None, None, "lose_marks", "replicate"]),
    st.sampled_from([None, None, None, "flush", "lose_marks", "promote"]),
)
seldom = st.sampled_from([False] * 5 + [True])


class Freshness(RuleBasedStateMachine):
    """Over the store in memory, whose clock is ours.

    Rules are always there, and do nothing where there is nothing to do: what is drawn depends on
    nothing but what was drawn before.
    """

    loop: ClassVar[asyncio.AbstractEventLoop]
    database: ClassVar[AsyncEngine]
    rows: ClassVar[Rows]
    told: ClassVar[Counter[str]]
    seen: ClassVar[set[int]]
    """The interleavings that there were."""
    life_ms: ClassVar[int] = LIFE_MS
    ends: ClassVar[float] = float("inf")
    """When no more is tried, by the monotonic clock."""

    house: House

    def __init__(self) -> None:
        super().__init__()
        self.over = time.monotonic() >= self.ends
        self.taken: list[str] = []

    async def make_store(self) -> Store:
        return InMemory()

    def take(self, step: Coroutine[Any, Any, object], *what: object) -> None:
        """A step of the world; whoever reads of a `Stale` reads all that led to it."""
        if self.over:
            step.close()
            return
        self.told["steps"] += 1
        self.taken.append(" ".join(map(str, what)))
        try:
            self.loop.run_until_complete(asyncio.wait_for(step, 2 * BOUND_SECONDS))
        except Stale as stale:
            stale.add_note("\n".join(self.taken))
            raise

    @initialize(
        places=st.lists(st.sampled_from(PLACES), min_size=2, max_size=2, unique=True),
        often=st.lists(st.integers(0, 99), min_size=5, max_size=5),
        any=st.sampled_from(sorted(CHANGES)),
    )
    def begin(self, places: list[Place], often: list[int], any: str) -> None:
        """Some of the places are asked about, and some of all that may happen does: mostly what
        concerns the first of them."""
        concern = places[0].often
        self.places = places
        self.changes = [*(concern[n % len(concern)] for n in often), any]
        self.take(self._begin(), [one.name for one in places], self.changes)

    async def _begin(self) -> None:
        await write(self.database, self.rows)
        store = await self.make_store()
        truth = Truth(self.database, self.places, self.life_ms)
        self.house = House(self.database, store, truth, self.told)
        await truth.begin()
        await self.house.all_work()

    # -- requests --

    @rule(how=st.sampled_from(["once", "twice", "stands", "stands", "names a write"]),
          which=places, builder=builders, n=numbers)  # fmt: skip
    def ask(self, how: str, which: int, builder: int, n: int) -> None:
        """A request is answered at once, unless it waits for another's build; or it takes its
        steps one by one; or it names one of the last writes."""
        match how:
            case "stands":
                request = self._arrive(which, builder, fresh=n == 0)
            case "names a write":
                request = self._ask_after(which, builder, n % 4)
            case _:
                request = self._ask(which, builder, times=1 + (how == "twice"))
        self.take(request, "ask", how, which, builder, n)

    @rule(which=numbers, far=far)
    def go_on(self, which: int, far: int) -> None:
        """A request or a write takes its next steps."""
        self.take(self._go_on(which, far), "go on", which, far)

    async def _ask(self, which: int, builder: int, *, times: int = 1, **more: Any) -> None:
        for _ in range(times):
            await self.house.ask(self.places[which], builder, freely=True, **more)

    async def _arrive(self, which: int, builder: int, fresh: bool = False) -> Actor[Any] | None:
        if len(self.house.asked) >= MOST_AT_ONCE:
            return None
        return await self.house.ask(self.places[which], builder, freely=False, fresh=fresh)

    async def _ask_after(self, which: int, builder: int, back: int) -> None:
        if named := [one for one in self.house.truth.commits if one.tokens]:
            after = tuple(sorted(named[-1 - back % len(named)].tokens))
            await self._ask(which, builder, after=after)

    async def _go_on(self, which: int, far: int) -> None:
        if standing := [*self.house.asked, *self.house.writing]:
            await self._steps(standing[which % len(standing)].actor, far)

    async def _steps(self, actor: Actor[Any], far: int) -> None:
        for _ in range(far):
            if not actor.task.done():
                actor.go()
                await self.house.settle()

    # -- writers --

    @rule(change=kinds, n=numbers, then=fates)
    def change(self, change: int, n: int, then: str) -> None:
        self.take(self._change(change, n, then), "change", change, n, then)

    @rule(which=places, builder=builders, far=st.integers(0, 5), change=changes, accident=accidents)
    def race(self, which: int, builder: int, far: int, change: Change, accident: Accident) -> None:
        """While all are at work something changes somewhere on a build's way, and the store may
        lose it; others ask while the build goes on, and once it is over."""
        self.take(self._all_work(), "all work")
        race = self._race(which, builder, True, far, change, accident)
        self.take(race, "race", which, builder, far, change, accident)

    @rule(which=places, builder=builders, far=st.integers(0, 5), change=changes, accident=accidents)
    def overtake(
        self, which: int, builder: int, far: int, change: Change, accident: Accident
    ) -> None:
        """The same on the way of a request that may be a hit."""
        race = self._race(which, builder, False, far, change, accident)
        self.take(race, "overtake", which, builder, far, change, accident)

    @rule(role=st.sampled_from(WORKERS), far=st.integers(0, 5), which=places, change=kinds,
          n=numbers)  # fmt: skip
    def stand_still(self, role: str, far: int, which: int, change: int, n: int) -> None:
        """A writer dies, and somebody stands still with its change, for longer than a proof
        lives; the others go on."""
        stand_still = self._stand_still(role, far, which, change, n)
        self.take(stand_still, "stand still", role, far, which, change, n)

    async def _change(self, change: int, n: int, then: str) -> None:
        if len(self.house.writing) < MOST_AT_ONCE:
            await self.house.write(self.changes[change], n, then)

    async def _race(
        self,
        which: int,
        builder: int,
        fresh: bool,
        far: int,
        change: Change,
        accident: Accident,
    ) -> None:
        if (slow := await self._arrive(which, builder, fresh)) is None:
            return
        before, after = accident
        await self._steps(slow, far)
        await self._befall(before)
        await self._change(*change)
        await self._befall(after)
        await self._ask(which, builder)
        slow.go(freely=True)
        await self.house.settle()
        await self._ask(which, 1 - builder)

    async def _befall(self, name: str | None) -> None:
        if name is not None:
            await getattr(self.house.store, name)(0)

    async def _stand_still(self, role: str, far: int, which: int, change: int, n: int) -> None:
        await self._ask(which, 0)
        await self._change(change, n, "dies")
        await self._work(role, far)
        for _ in range(4):
            await self.house.store.elapse(self.life_ms // 3 + 1)
            for other in ("heart", "consumer"):
                if other != role:
                    await self._work(other, 12)
        await self._ask(which, 0)

    # -- relays, heart, consumer --

    @rule(role=st.sampled_from(WORKERS), far=far)
    def work(self, role: str, far: int) -> None:
        self.take(self._work(role, far), "work", role, far)

    async def _work(self, role: str, far: int) -> None:
        for step in range(far):
            if step == 0 or role in self.house.working:
                await self.house.work(role)

    @rule()
    def all_work(self) -> None:
        self.take(self._all_work(), "all work")

    async def _all_work(self) -> None:
        await self.house.all_work()

    async def _again(self, back: int) -> None:
        """Partitions come back with an older position."""
        pipe = self.house.pipe
        for place in pipe.committed:
            pipe.committed[place] = max(0, pipe.committed[place] - back)
        pipe.revocations += 1
        await self.house.kill("consumer")

    # -- accidents --

    @rule(name=st.sampled_from(ACCIDENTS), n=numbers)
    def suffer(self, name: str, n: int) -> None:
        self.take(self._suffer(name, n), name, n)

    async def _suffer(self, name: str, n: int) -> None:
        house = self.house
        match name:
            case "store":
                accidents = house.store.accidents
                await getattr(house.store, accidents[n % len(accidents)])(n)
            case "cut off":
                house.ways[ROLES[n % len(ROLES)]].away = True
            case "cut":
                house.ways[ROLES[n % len(ROLES)]].cut += 1
            case "killed":
                await house.kill(WORKERS[n])
            case "again":
                await self._again(1 + n)
            case "back":
                for way in house.ways.values():
                    way.away, way.cut = False, 0
            case _:
                await house.garbage("w" if n else None)

    @rule(which=st.integers(0, 15))
    def elapse(self, which: int) -> None:
        self.take(self._elapse(which), "elapse", which)

    async def _elapse(self, which: int) -> None:
        waits = self.house.store.waits_ms
        await self.house.store.elapse(waits[which % len(waits)])

    @rule(which=places, builder=builders, times=st.integers(1, 4))
    def grow_old(self, which: int, builder: int, times: int) -> None:
        """Time passes while all are at work, and the same is asked for again and again."""
        self.take(self._grow_old(which, builder, times), "grow old", which, builder, times)

    async def _grow_old(self, which: int, builder: int, times: int) -> None:
        for _ in range(times):
            await self.house.store.elapse(self.house.store.age_ms)
            await self.house.all_work()
            await self._ask(which, builder)

    def teardown(self) -> None:
        if hasattr(self, "house"):
            self.take(self.house.end(), "end")
            self.seen.add(hash(tuple(self.taken)))
