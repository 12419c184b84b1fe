"""Equal requests in several processes: one builds, the others wait for what it stores, for a while.

Each engine here has a cache, connections and flights of its own, as a process has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.settings import Settings
from tests.contracts.test_engine_flights import Gate, asked, name_in
from tests.support.stack import valkey_part
from tests.support.world import World, engine_over
from workers.localstack import Valkey


@dataclass
class Process:
    """A worker, as far as its engine goes."""

    cache: RedisCache
    engine: ContextEngine
    gate: Gate


async def process(database: AsyncEngine, url: str, config: Settings) -> Process:
    cache = RedisCache(url, config.model_copy(update={"redis_timeout_seconds": 5.0}))
    engine = engine_over(database, cache)
    gate = Gate(engine._domain)
    engine._domain = gate
    return Process(cache, engine, gate)


@asynccontextmanager
async def processes(
    database: AsyncEngine, redis_url: str, config: Settings
) -> AsyncIterator[tuple[Process, Process]]:
    """Two of them over one workspace."""
    await World(database).furnish()
    made = [await process(database, redis_url, config) for _ in range(2)]
    await made[0].cache.mark("w", frozenset(), create=True)
    yield made[0], made[1]
    for one in made:
        await one.cache.close()


@pytest.fixture
async def two(
    database: AsyncEngine, redis_url: str, config: Settings
) -> AsyncIterator[tuple[Process, Process]]:
    async with processes(database, redis_url, config) as made:
        yield made


async def test_many_in_both_are_one_build(two: tuple[Process, Process]) -> None:
    """Whoever is first; the others have what it stored, validated after they arrived."""
    one, other = two
    one.gate.free.set()
    other.gate.free.set()
    builds = (process.engine.build(asked()) for process in two for _ in range(200))
    answers = await asyncio.gather(*builds)
    assert one.gate.opened + other.gate.opened == 1
    assert len({answer.context_id for answer in answers}) == 1
    assert {answer.source for answer in answers} == {"build", "cache"}


async def test_who_waits_is_served_by_what_the_leader_stores(
    two: tuple[Process, Process],
) -> None:
    leader, follower = two
    first = asyncio.create_task(leader.engine.build(asked()))
    await leader.gate.reached.wait()
    second = asyncio.create_task(follower.engine.build(asked()))
    done, _ = await asyncio.wait((second,), timeout=0.2)
    assert not done
    late = asyncio.create_task(follower.engine.build(asked()))
    leader.gate.free.set()
    assert (await first).source == "build"
    assert ((await second).source, (await late).source) == ("cache", "cache")
    assert follower.gate.opened == 0


async def test_who_waits_is_not_given_what_the_leader_read_before_a_change(
    two: tuple[Process, Process], database: AsyncEngine
) -> None:
    """The leader's fill is refused, its lead ends with that, and the one that waited builds."""
    leader, follower = two
    first = asyncio.create_task(leader.engine.build(asked()))
    await leader.gate.reached.wait()
    async with database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t0").values(name="New"))
    await follower.cache.mark("w", frozenset({keys.schema("t0")}), create=True)
    second = asyncio.create_task(follower.engine.build(asked()))
    done, _ = await asyncio.wait((second,), timeout=0.1)
    assert not done
    follower.gate.free.set()
    leader.gate.free.set()
    assert name_in(await first) == "Table t0"
    assert (name_in(await second), follower.gate.opened) == ("New", 1)


async def test_the_lead_of_a_dead_leader_lapses(two: tuple[Process, Process]) -> None:
    """It neither stores nor gives up: whoever waits builds within seconds."""
    leader, follower = two
    dead = asyncio.create_task(leader.engine.build(asked()))
    await leader.gate.reached.wait()
    follower.gate.free.set()
    began = time.monotonic()
    assert (await follower.engine.build(asked())).source == "build"
    assert 0.5 < time.monotonic() - began < 4.0
    leader.gate.free.set()
    await dead


async def test_a_leader_that_gives_up_or_is_refused_holds_nobody_up(
    two: tuple[Process, Process],
) -> None:
    """Cancelled, and refused without anything to store: nobody waits for a lead to lapse."""
    leader, follower = two
    gone = asyncio.create_task(leader.engine.build(asked()))
    await leader.gate.reached.wait()
    gone.cancel()
    await asyncio.wait((gone,))
    follower.gate.free.set()
    leader.gate.free.set()
    began = time.monotonic()
    assert (await follower.engine.build(asked())).source == "build"
    for process in (*two, *two):
        with pytest.raises(NotFound):
            await process.engine.build(asked("stranger"))
    assert time.monotonic() - began < 1.5


async def test_other_demands_neither_lead_nor_wait(two: tuple[Process, Process]) -> None:
    """What is stored may not do for them."""
    leader, follower = two
    first = asyncio.create_task(leader.engine.build(asked()))
    await leader.gate.reached.wait()
    follower.gate.free.set()
    began = time.monotonic()
    for demand in (Options(fresh=True), Options(max_age_ms=0)):
        assert (await follower.engine.build(asked(), demand)).source == "build"
    assert time.monotonic() - began < 1.5
    leader.gate.free.set()
    await first


async def test_without_a_store_everybody_builds_at_once(
    database: AsyncEngine, config: Settings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Redis away means no lead; so does a full one, which takes no answer."""
    valkey: Valkey = valkey_part(tmp_path_factory.mktemp("valkey"))
    await valkey.start()
    await World(database).furnish()
    two = [await process(database, valkey.url, config) for _ in range(2)]
    for one in two:
        one.gate.free.set()
    await two[0].cache.mark("w", frozenset(), create=True)
    redis = two[0].cache._link.redis
    await redis.config_set("maxmemory", 1)
    began = time.monotonic()
    for one in (*two, *two):
        assert (await one.engine.build(asked())).source == "build"
    assert time.monotonic() - began < 1.5
    await valkey.kill()
    began = time.monotonic()
    answers = await asyncio.gather(*(one.engine.build(asked()) for one in two))
    assert [answer.source for answer in answers] == ["build", "build"]
    assert time.monotonic() - began < 1.5
    for one in two:
        await one.cache.close()
