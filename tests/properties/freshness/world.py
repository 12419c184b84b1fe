"""A world in which anything may happen to anybody: who works, what befalls them, and time."""

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
from tests.properties.freshness.changes import CHANGES
from tests.properties.freshness.house import ROLES, House
from tests.properties.freshness.steps import BOUND_SECONDS
from tests.properties.freshness.stores import InMemory, Store
from tests.properties.freshness.truth import Stale, Truth
from tests.properties.freshness.workspace import PLACES, Place, Rows, write

WORKERS = ("relay", "relay", "other relay", "heart", "heart", "consumer", "consumer", "consumer")
ACCIDENTS = (
    *("store", "store", "cut off", "cut", "back", "back", "garbage", "killed", "killed", "again"),
    *("builder killed", "dismissed"),
)
numbers = st.integers(0, 7)
far = st.sampled_from([1, 1, 2, 3, 50])


class World(RuleBasedStateMachine):
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
            case "builder killed":
                await house.kill_builder(n % 2)
            case "dismissed":
                await house.dismiss()
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

    def teardown(self) -> None:
        if hasattr(self, "house"):
            self.take(self.house.end(), "end")
            self.seen.add(hash(tuple(self.taken)))
