"""The model of `tests/properties/model` is one of this code: both give the same at every step.

Random walks over what the scripts do, on the model's tuples and on the stores; a difference is a
fault of one of the two.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from context_engine import keys
from context_engine.ports import Beat, Moment, NewEntry, Place, Pulse, Reign
from tests.properties.model import store as model
from tests.properties.model.state import FIRST, UNTOLD, Entry, State
from tests.properties.model.state import Moment as ModelMoment
from tests.properties.model.world import World, start
from tests.support.cache import WORKSPACE, MemoryStore, RedisStore, Store, scope, whole_name

SECOND_MS = 1_000
TTL, LIFE, LAG = 5, 3, 2
"""Of an entry and of a proof, and how long a reign is waited out, in seconds: a moment of the
model."""
WORLD = World("in code", partitions=1, ttl=TTL, life=LIFE, lag=LAG)
WHO, TAG, OTHER = scope("ann"), keys.rows("t1"), keys.rows("t2")
NAME, PLACE = whole_name(WHO), Place("changes", 0)
STEPS = 60

Began = tuple[Moment | None, ModelMoment | tuple[()]]
"""What a build read of the clock, in the code and in the model."""


class Walk:
    """One store and one state of the model, which take every step together."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.state: State = start(WORLD)
        self.began: list[Began] = []
        self.version = 0

    async def begin(self) -> None:
        await self.store.flush()
        await self.look()

    async def step(self, kind: str) -> None:
        await getattr(self, kind)()
        await self.look()

    async def look(self) -> None:
        seen = await self.store.look(WHO)
        server = self.state.servers[0]
        at = model.moment(WORLD, self.state, 0)
        assert (seen.moment is None) == (not at)
        if seen.moment is not None and at:
            assert seen.moment.clock == at.clock
        found, entry = None, server.store.entry
        if entry and model.valid(WORLD, server, entry, self.state.now):
            found, self.state = entry.version, model.hit(WORLD, self.state, 0, entry, 0)
        assert (int(seen.whole.payload) if seen.whole is not None else None) == found
        self.began = [*self.began, (seen.moment, at)][-4:]

    async def fill(self) -> None:
        moment, at = self.chance.choice(self.began)
        self.version += 1
        if moment is None or not at:
            await self.store.cache.found(WORKSPACE)
            self.state = model.founded(WORLD, self.state, 0)
            return
        timeline, told = self.timeline()
        moment = replace(moment, timeline=told)
        expires = moment.now_ms + TTL * SECOND_MS
        new = NewEntry(
            NAME, str(self.version).encode(), frozenset({TAG}), moment.clock, moment.now_ms, expires
        )
        stored = await self.store.cache.fill(moment, [new], None)
        self.state, _ = model.filled(WORLD, self.state, 0, at, self.version, timeline)
        entry = self.state.servers[0].store.entry
        assert stored == bool(entry and entry.version == self.version)

    async def mark(self) -> None:
        create = self.chance.random() < 0.5
        timeline, told = self.timeline()
        tags = frozenset({TAG})
        done = await self.store.cache.mark(WORKSPACE, tags, create=create, timeline=told)
        self.state = model.marked(WORLD, self.state, 0, create=create, timeline=timeline)
        if create:
            self.pulsed()
        assert (done.wait_ms == 0) == (not create or model.settled(WORLD, self.state, 0))
        held = self.state.servers[0].store.hash
        assert done.clock == (held.clock if held else None)

    async def mark_another(self) -> None:
        await self.store.cache.mark(WORKSPACE, frozenset({OTHER}), create=False)
        self.state = model.raised(WORLD, self.state, 0)

    async def lose_marks(self) -> None:
        if self.state.servers[0].store.hash:
            await self.store.lose_marks(WORKSPACE)
            self._put(hash=())

    async def evict(self) -> None:
        await self.store.cache.evict(WORKSPACE, frozenset({TAG}))
        self._put(entry=())

    async def flush(self) -> None:
        await self.store.flush()
        self._put(hash=(), entry=(), live=((),), applied=((),), seen=(), timeline=UNTOLD)

    def pulsed(self) -> None:
        self.state = model.pulsed(WORLD, self.state, 0)

    async def pulse(self) -> Pulse:
        """What is noted of the reign is the same."""
        pulse = await self.store.liveness.pulse()
        self.pulsed()
        settled = model.settled(WORLD, self.state, 0)
        assert (pulse.at_ms >= pulse.settled_ms) == settled
        assert (pulse.settled_ms == 0) == (self.state.servers[0].reign == FIRST)
        assert pulse.timeline == _named(self.state.servers[0].store.timeline)
        return pulse

    async def begin_anew(self) -> None:
        """By a heartbeat that names one of the database's timelines."""
        timeline, told = self.timeline()
        if told is not None:
            reigns = await self.store.liveness.begin(told)
            self.state = model.begun(self.state, 0, timeline)
            assert reigns == (await self.pulse()).reigns

    async def prove(self) -> None:
        pulse = await self.pulse()
        await self.store.liveness.renew([Beat(PLACE, pulse, 1, 5)], "1")
        reign = self.state.servers[0].reign
        self.state = model.renewed(WORLD, self.state, 0, 0, self.state.now, reign, 5)
        await self.proven()

    async def proven(self) -> None:
        found = await self.store.liveness.proofs([PLACE])
        proof, live = found.each[0], self.state.servers[0].store.live[0]
        lives = bool(live) and live[0] > self.state.now and live[1] == self.state.servers[0].reign
        assert (proof is not None and proof.left_ms > 0 and proof.reigns == found.reigns) == lives

    async def pass_time(self) -> None:
        await self.store.elapse(SECOND_MS)
        self.state = self.state._replace(now=self.state.now + 1)
        await self.proven()

    async def promote(self) -> None:
        """The same content under another reign."""
        assert isinstance(self.store, MemoryStore)
        number = self.state.promotions + 1
        self.store.cache.reign = Reign(f"reign {number}")
        first = self.state.servers[0]._replace(reign=(0, number))
        self.state = self.state._replace(servers=(first, self.state.servers[1]), promotions=number)
        await self.proven()

    def timeline(self) -> tuple[int, str | None]:
        """One of the database's, or none, in the model and in the code."""
        timeline = self.chance.choice((UNTOLD, 0, 0, 0, 0, 1))
        return timeline, _named(timeline)

    def _put(self, **changed: Entry | tuple[object, ...] | int) -> None:
        store = self.state.servers[0].store._replace(**changed)
        self.state = model.put(self.state, 0, store)


def _named(timeline: int) -> str | None:
    return None if timeline == UNTOLD else f"timeline {timeline}"


ANYWHERE = (
    "look",
    "fill",
    "fill",
    "mark",
    "mark_another",
    "lose_marks",
    "evict",
    "flush",
    "prove",
    "pulse",
    "begin_anew",
)


@pytest.mark.parametrize("seed", range(200))
async def test_the_cache_in_memory_does_what_the_model_does(seed: int) -> None:
    """Time and reigns included."""
    chance = random.Random(seed)
    walk = Walk(MemoryStore(max_lag_ms=LAG * SECOND_MS), chance)
    await walk.begin()
    await walk.look()
    for _ in range(STEPS):
        await walk.step(chance.choice((*ANYWHERE, "pass_time", "promote")))


async def test_the_scripts_do_what_the_model_does(redis_url: str) -> None:
    """On Valkey, within the life of an entry and of a proof."""
    store = RedisStore(redis_url)
    try:
        for seed in range(60):
            chance = random.Random(seed)
            walk = Walk(store, chance)
            await walk.begin()
            for _ in range(STEPS):
                await walk.step(chance.choice(ANYWHERE))
    finally:
        await store.close()
