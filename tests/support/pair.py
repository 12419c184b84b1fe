"""Two Valkeys, one of which follows the other until a test has it otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from redis.asyncio import Redis
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.engine import ContextEngine
from context_engine.settings import Settings
from tests.support.races import Race, race_over
from tests.support.stack import address_between_parts
from workers.localstack import Valkey

BOUND_SECONDS = 20.0
LAG_SECONDS = 0.05
"""As good as none: who is deposed is cut off by the tests, not by its lag."""


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

    def b_after(self, seconds: float) -> RedisCache:
        """`b`, for a process that takes it for settled so long after its promotion was seen."""
        settings = self.race.settings.model_copy(update={"redis_max_lag_seconds": seconds})
        return RedisCache(self.servers[1].url, settings)

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
    async def entries(who: Redis) -> list[str]:
        return sorted(map(str, await who.keys("*whole:*")))


@asynccontextmanager
async def pair_over(
    servers: tuple[Valkey, Valkey], database: AsyncEngine, config: Settings
) -> AsyncIterator[Pair]:
    """`a` serves, `b` follows it, and both have bob's context."""
    a, b = (Redis.from_url(server.url) for server in servers)
    for one in (a, b):
        await one.replicaof("NO", "ONE")
        await one.flushall()
        await one.config_set("masterauth", "secret")
        await one.config_set("repl-diskless-sync-delay", 0)
    config = config.model_copy(update={"redis_max_lag_seconds": LAG_SECONDS})
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
