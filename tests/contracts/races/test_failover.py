"""Race 5: the store's primary is replaced, and comes back. Two servers of these tests' own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.engine import ContextEngine
from context_engine.settings import Settings
from tests.support.barriers import Barriers
from tests.support.races import Race, race_over
from tests.support.stack import address_between_parts, valkey_part
from workers.localstack import Valkey

BOUND_SECONDS = 20.0


@dataclass
class Pair:
    """Servers `a` and `b`: who serves is decided by the test."""

    race: Race
    a: Redis
    b: Redis
    servers: tuple[Valkey, Valkey]
    b_cache: RedisCache

    @property
    def on_b(self) -> ContextEngine:
        return self.race.engine_over(self.b_cache, self.race.barriers)

    async def follow(self, who: Redis, whom: Valkey) -> None:
        """Becomes a replica, and has all that the other has."""
        await who.replicaof(*address_between_parts(whom))
        async with asyncio.timeout(BOUND_SECONDS):
            while (await who.info("replication"))["master_link_status"] != "up":  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    @staticmethod
    async def promote(who: Redis) -> None:
        await who.replicaof("NO", "ONE")

    @staticmethod
    async def entries(who: Redis) -> list[bytes]:
        return sorted(await who.keys("*whole:*"))


@pytest.fixture(scope="module")
async def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Valkey, Valkey]]:
    made = [valkey_part(tmp_path_factory.mktemp(name)) for name in "ab"]
    for server in made:
        await server.start()
    yield made[0], made[1]
    for server in made:
        await server.stop()


@pytest.fixture
async def pair(
    servers: tuple[Valkey, Valkey], database: AsyncEngine, config: Settings
) -> AsyncIterator[Pair]:
    """`a` serves, `b` follows it, and both have bob's context."""
    a, b = (Redis.from_url(server.url) for server in servers)
    for one in (a, b):
        await one.replicaof("NO", "ONE")
        await one.flushall()
        await one.config_set("masterauth", "secret")
        await one.config_set("repl-diskless-sync-delay", 0)
    bound = config.model_copy(update={"redis_timeout_seconds": 5.0})
    async with (
        race_over(database, servers[0].url, config) as race,
        RedisCache(servers[1].url, bound) as b_cache,
    ):
        made = Pair(race, a, b, servers, b_cache)
        await race.kept()
        await made.follow(b, servers[0])
        assert await made.entries(b) == await made.entries(a) != []
        yield made
    for one in (a, b):
        await one.replicaof("NO", "ONE")
        await one.aclose()


async def lose_a_mark(pair: Pair) -> None:
    """`b` is promoted; `a`, not yet demoted, acknowledges a change whose mark `b` never gets."""
    await pair.promote(pair.b)
    await pair.race.writes(pair.race.rename("New"))


async def test_5_a_replica_that_lacks_the_mark_serves_nothing_from_before(pair: Pair) -> None:
    """5: the entry is there and its marks do not speak against it; the reign does."""
    await lose_a_mark(pair)
    before = await pair.entries(pair.b)
    assert before
    assert await pair.race.said(pair.on_b) == ("New", "build")
    assert await pair.race.said(pair.on_b) == ("New", "cache")
    assert await pair.entries(pair.b) == before


async def test_5_who_is_promoted_again_without_the_mark_serves_nothing_from_before(
    pair: Pair,
) -> None:
    """5, and failed back: the same process with the same `run_id`, which lost its own mark when
    it followed the other; its replication history is another."""
    process = (await pair.a.info("server"))["run_id"]
    await lose_a_mark(pair)
    await pair.follow(pair.a, pair.servers[1])
    await pair.promote(pair.a)
    assert (await pair.a.info("server"))["run_id"] == process
    assert await pair.entries(pair.a)
    assert await pair.race.said() == ("New", "build")


async def test_5_a_fill_of_before_is_refused_by_the_promoted(pair: Pair) -> None:
    """5, for a build that read the clock of one and comes to its fill when the same address leads
    to the other: here the same server, promoted again."""
    race = pair.race
    barrier = race.barriers.close("before the fill")
    slow = asyncio.create_task(race.name(message="slow"))
    await barrier.reached()
    await lose_a_mark(pair)
    await pair.follow(pair.a, pair.servers[1])
    await pair.promote(pair.a)
    race.cache.taken.clear()
    barrier.open()
    assert await slow == "Orders"
    assert race.cache.taken == [False]
    assert await race.said(message="slow") == ("New", "build")


async def test_5_a_mark_lost_with_its_server_is_set_again_before_anything_is_a_hit(
    pair: Pair,
) -> None:
    """5, the half that a reign does not see: a build began on the promoted, the deposed took the
    mark, the build filled. Until the consumer has read back under the new reign nothing is live;
    then the entry is ended."""
    race, barriers = pair.race, Barriers()
    await pair.promote(pair.b)
    reader = race.engine_over(pair.b_cache, Barriers(), liveness=race.lookout_over(pair.b_cache))
    slow_engine = race.engine_over(pair.b_cache, barriers)
    barrier = barriers.close("after the database read")
    slow = asyncio.create_task(race.name(slow_engine, message="slow"))
    await barrier.reached()
    await race.writes(race.rename("New"))  # acknowledged by a
    await race.relays()
    await race.consumes()  # applied on a
    barrier.open()
    assert await slow == "Orders"
    assert await race.said(slow_engine, message="slow") == ("Orders", "cache"), "b cannot know"
    assert await race.said(reader, message="slow") == ("New", "build")
    race.consumer = race.consumer_over(pair.b_cache)
    assert await until_cached(pair, reader) == "New"


async def until_cached(pair: Pair, reader: ContextEngine) -> str:
    """Heart and consumer take turns until a request is a hit."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            name, source = await pair.race.said(reader, message="slow")
            if source == "cache":
                return name
            await pair.race.heart_over(pair.b_cache).beat()
            await pair.race.consumes()
