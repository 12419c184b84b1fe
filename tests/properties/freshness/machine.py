"""All orders of everybody's steps, drawn; nothing older than what was owed is served."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.properties.freshness.steps import Actor
from tests.properties.freshness.world import WORKERS, World, far, numbers

MOST_AT_ONCE = 4
"""Requests, and writes, that stand somewhere: each may hold a connection."""

Change = tuple[int, int, str]
"""Which of the example's changes, to which of its values, and what becomes of its writer."""
Accident = tuple[str | None, str | None]
"""What befalls the store before a change, and after it."""

places, builders, kinds = st.sampled_from([0, 0, 1]), st.integers(0, 1), st.integers(0, 5)
fates = st.sampled_from(["acknowledges"] * 4 + ["stands", "dies"])
ends = st.sampled_from(["goes on", "goes on", "dies", "stands still"])
changes = st.tuples(kinds, numbers, fates)
accidents = st.tuples(
    st.sampled_from([None, None, "lose_marks", "replicate"]),
    st.sampled_from([None, None, None, "flush", "lose_marks", "promote"]),
)


class Freshness(World):
    """Requests and writes in that world, and the races between them."""

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

    @rule(relay=st.integers(0, 2), consumer=st.integers(0, 4), which=places, change=kinds,
          n=numbers)  # fmt: skip
    def fall(self, relay: int, consumer: int, which: int, change: int, n: int) -> None:
        """A writer dies, then so many steps on the way of its change a relay, and a consumer; the
        next in their places go on, for longer than a proof lives."""
        self.take(self._all_work(), "all work")
        fall = self._fall(relay, consumer, which, change, n)
        self.take(fall, "fall", relay, consumer, which, change, n)

    @rule(which=places, builder=builders, far=st.integers(1, 4), change=changes, end=ends)
    def lead(self, which: int, builder: int, far: int, change: Change, end: str) -> None:
        """The answers are gone: one process builds, and the other is led by it, before a change
        and after it. The leader goes on, or dies, or stands still for longer than its lead."""
        self.take(self._all_work(), "all work")
        lead = self._lead(which, builder, far, change, end)
        self.take(lead, "lead", which, builder, far, change, end)

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

    async def _lead(self, which: int, builder: int, far: int, change: Change, end: str) -> None:
        await self._ask(which, builder)  # which makes the marks where there are none
        await self.house.store.lose_answers(0)
        if (leader := await self._arrive(which, builder)) is None:
            return
        await self._steps(leader, far)
        await self._ask(which, 1 - builder)
        await self._change(*change)
        await self._ask(which, 1 - builder)
        if end == "dies":
            await self.house.kill_builder(builder)
        if end != "goes on":
            await self.house.store.elapse(self.house.store.lead_ms)
        leader.go(freely=True)
        await self.house.settle()
        for one in (1 - builder, builder):
            await self._ask(which, one)

    async def _fall(self, relay: int, consumer: int, which: int, change: int, n: int) -> None:
        await self._ask(which, 0, times=2)  # the first may have to make the marks
        await self._change(change, n, "dies")
        for role, steps in (("relay", relay), ("consumer", consumer)):
            await self._work(role, steps)
            await self.house.kill(role)
            await self._work("relay", 12)
        for _ in range(4):
            await self.house.store.elapse(self.life_ms // 3 + 1)
            for role in ("heart", "consumer"):
                await self._work(role, 12)
        await self._ask(which, 0)

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

    @rule(which=places, builder=builders, times=st.integers(1, 4))
    def grow_old(self, which: int, builder: int, times: int) -> None:
        """Time passes while all are at work, and the same is asked for again and again."""
        self.take(self._grow_old(which, builder, times), "grow old", which, builder, times)

    async def _grow_old(self, which: int, builder: int, times: int) -> None:
        for _ in range(times):
            await self.house.store.elapse(self.house.store.age_ms)
            await self.house.all_work()
            await self._ask(which, builder)
