"""Builds that wait for their turn: refused when there are too many, expired when it comes late."""

from __future__ import annotations

import asyncio
import time

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.engine import ContextEngine, Options
from context_engine.errors import Expired, RateLimited
from context_engine.turns import Turns
from tests.contracts.test_engine_flights import Gate, asked
from tests.support.world import World, engine_over


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish(tables=2)
    return made


@pytest.fixture
def engine(database: AsyncEngine, cache: RedisCache, world: World) -> ContextEngine:
    return engine_over(database, cache, turns=Turns(at_once=1, most=2))


@pytest.fixture
def gate(engine: ContextEngine, monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate(engine._domain)
    monkeypatch.setattr(engine, "_domain", made)
    return made


async def _waiting(engine: ContextEngine, builds: int) -> None:
    """Until so many builds of the workspace run or wait."""
    assert engine._turns is not None
    async with asyncio.timeout(10):
        while (queue := engine._turns._queues.get("w")) is None or len(queue.builds) < builds:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_hits_are_answered_while_builds_are_refused(
    engine: ContextEngine, gate: Gate
) -> None:
    """The queue is full: what is cached is given all the same, and a build is refused at once."""
    gate.free.set()
    await engine.build(asked())
    gate.free.clear()
    fresh = Options(fresh=True)
    builds = [asyncio.create_task(engine.build(asked("bob"), fresh))]
    await _waiting(engine, 1)
    builds.append(asyncio.create_task(engine.build(asked("bob", tableIds=["t1"]), fresh)))
    await _waiting(engine, 2)
    assert (await engine.build(asked())).source == "cache"
    with pytest.raises(RateLimited):
        await engine.build(asked(), fresh)
    gate.free.set()
    await asyncio.gather(*builds)


async def test_what_waited_for_too_long_is_not_built(engine: ContextEngine, gate: Gate) -> None:
    """Its turn comes after it has expired; nothing of it is read."""
    first = asyncio.create_task(engine.build(asked()))
    await _waiting(engine, 1)
    late = asyncio.create_task(engine.build(asked("bob"), until=time.monotonic() + 0.05))
    await _waiting(engine, 2)
    await asyncio.sleep(0.06)
    gate.free.set()
    await first
    with pytest.raises(Expired):
        await late
    assert gate.opened == 1
    assert (await engine.build(asked("bob"))).source == "build"


async def test_a_build_that_somebody_waits_for_longer_is_built(
    engine: ContextEngine, gate: Gate
) -> None:
    """One of two equal requests expires while they wait: the other is answered, and so both."""
    first = asyncio.create_task(engine.build(asked()))
    await _waiting(engine, 1)
    both = [
        asyncio.create_task(engine.build(asked("bob"), until=time.monotonic() + seconds))
        for seconds in (0.05, 60.0)
    ]
    await _waiting(engine, 2)
    await asyncio.sleep(0.06)
    gate.free.set()
    await first
    answers = await asyncio.gather(*both)
    assert len({answer.context_id for answer in answers}) == 1


async def test_a_begun_build_is_not_given_up(engine: ContextEngine, gate: Gate) -> None:
    """What expires while it is read is answered: it is nearly there."""
    begun = asyncio.create_task(engine.build(asked(), until=time.monotonic() + 5.0))
    await gate.reached.wait()
    engine._flights._flying[next(iter(engine._flights._flying))].until = 0.0
    gate.free.set()
    assert (await begun).source == "build"


async def test_who_joins_a_build_that_waits_needs_a_seat(
    engine: ContextEngine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal requests share one build, and where many builds are under way are no way past the
    limit."""
    monkeypatch.setattr("context_engine.turns.HERD_BUILDS", 1)
    builds = [asyncio.create_task(engine.build(asked()))]
    await _waiting(engine, 1)
    builds.append(asyncio.create_task(engine.build(asked("bob"))))
    await _waiting(engine, 2)
    with pytest.raises(RateLimited):
        await engine.build(asked("bob"))
    gate.free.set()
    await asyncio.gather(*builds)
    assert gate.opened == 2
