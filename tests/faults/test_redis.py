"""The cache away, slow, and answering those who have given up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.ports import Look, NewEntry
from tests.faults.run import faults
from tests.faults.scene import Scene
from tests.support.wire import Wire, wire_to
from workers.house import until_live

pytestmark = pytest.mark.timeout(600)

BACK_SECONDS = 40.0
"""As for a database, and a dead primary's `CONTEXT_REDIS_MAX_LAG_SECONDS` more."""
SLOW_SECONDS = 5.0
PASSING = {"unavailable", "rate_limited"}
CANCELLED = 200


def through(wire: Wire, url: str) -> str:
    """The address of the wire, with the password of what is behind it."""
    return url.replace(f":{wire.target[1]}/", f":{wire.port}/")


@pytest.fixture
async def wire(scene: Scene) -> AsyncIterator[Wire]:
    host, _, port = scene.stack.valkey.address.rpartition(":")
    async with wire_to(host, int(port)) as made:
        yield made


async def _behind(scene: Scene, wire: Wire) -> None:
    """All workers reach the cache through the wire from here on."""
    env = {"CONTEXT_REDIS_URL": through(wire, scene.settings.redis_url)}
    for one in scene.of():
        await scene.dismiss(one)
    for name in ("build", "build", "invalidate", "relay"):
        await scene.hire(name, env)
    await until_live(scene.settings, within=60)


async def _apart(scene: Scene) -> None:
    """None reaches it through the wire any more: it is about to go."""
    for one in scene.of():
        await scene.dismiss(one)


async def test_redis_away(scene: Scene) -> None:
    """Killed, away for twenty seconds, back empty: answered from the database, or late."""
    async with faults(scene, "Redis killed, 20 s away", writes=0) as run:
        await asyncio.sleep(2)
        await scene.stack.valkey.kill()
        await asyncio.sleep(20)
        await scene.stack.valkey.start()
        await run.recovers(time.monotonic(), within=BACK_SECONDS)
        run.check(run.ledger.refusals.keys() <= PASSING, f"{run.ledger.refusals}")


async def test_redis_slow(scene: Scene, wire: Wire) -> None:
    """Every reply of the cache takes five seconds, for half a minute: nobody waits for it, and
    no answer that comes too late is taken for another's."""
    await _behind(scene, wire)
    try:
        async with faults(scene, "Redis 5 s slow for 30 s", fresh=20) as run:
            await asyncio.sleep(3)
            wire.delay = SLOW_SECONDS
            await asyncio.sleep(30)
            wire.delay = 0.0
            await run.recovers(time.monotonic(), within=BACK_SECONDS)
            run.check(
                set(run.ledger.refusals) <= {"unavailable", "rate_limited"},
                f"{run.ledger.refusals}",
            )
    finally:
        await _apart(scene)


async def test_redis_answers_after_the_callers_gave_up(scene: Scene, wire: Wire) -> None:
    """Two hundred at once, all cancelled while their answers are under way: who asks on the same
    connections next gets their own, and so do the workers' clients."""
    settings = scene.settings.model_copy(
        update={"redis_url": through(wire, scene.settings.redis_url), "redis_timeout_seconds": 3.0}
    )
    names = [f"user-{number}" for number in range(CANCELLED)]
    async with (
        faults(scene, "Redis answers 200 cancelled callers") as run,
        RedisCache(settings.redis_url, settings) as cache,
    ):
        await _keep(cache, names)
        for lap in range(5):
            wire.delay = 0.4
            asked = [asyncio.create_task(cache.look(_look(name))) for name in names]
            await asyncio.sleep(0.1 + lap / 20)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
            wire.delay = 0.0
            found = await asyncio.gather(*(cache.look(_look(name)) for name in names))
            told = [seen.whole.payload.decode() if seen.whole else None for seen in found]
            others = [(name, got) for name, got in zip(names, told, strict=True) if got != name]
            run.check(not others, f"lap {lap}: another's or nothing: {others[:3]}")
        run.note(f"5 x {CANCELLED} cancelled; each got its own afterwards")


def _look(name: str) -> Look:
    who = keys.scope_of("cancelled", name, "s", None)
    surface = keys.surface_name("cancelled", keys.digest("none"))
    return Look(who, keys.whole_name(who, keys.digest("one")), surface)


async def _keep(cache: RedisCache, names: list[str]) -> None:
    """An entry for each, with the name as its content."""
    await cache.found("cancelled")
    for name in names:
        look = _look(name)
        moment = (await cache.look(look)).moment
        assert moment is not None
        tags = frozenset({keys.EVERYTHING, keys.access(name)})
        life = moment.now_ms + 300_000
        entry = NewEntry(look.whole, name.encode(), tags, moment.clock, moment.now_ms, life)
        assert await cache.fill(moment, [entry], None)
