"""The store below, and what can befall it: in memory under a clock of ours, or a Valkey."""

from __future__ import annotations

import asyncio
import copy
import itertools
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from redis.asyncio import Redis

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.redis import RedisCache
from context_engine.flights import LEAD_MS
from context_engine.ports import ContextCache, LivenessStore, Reign
from tests.support.cache import settings

WORKSPACE = "w"


class Store(ABC):
    """One server, which may be followed by its replica."""

    accidents: tuple[str, ...] = ("flush", "lose_marks", "evict", "replicate", "promote")
    waits_ms: tuple[int, ...]
    """How long it may be that nothing happens."""
    lead_ms: int
    """How long a lead lasts."""
    age_ms: int
    """A part of an entry's life that can be waited for."""

    @abstractmethod
    def cache(self) -> ContextCache:
        """A client for a process of its own."""

    @abstractmethod
    def liveness(self, cache: ContextCache) -> LivenessStore:
        """Of that client."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds, as the processes measure them."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the broker measures them."""

    @abstractmethod
    async def now_ms(self) -> int:
        """By the store's own clock."""

    @abstractmethod
    async def elapse(self, milliseconds: int) -> None: ...

    @abstractmethod
    async def flush(self, _: int) -> None: ...

    @abstractmethod
    async def lose_marks(self, _: int) -> None: ...

    @abstractmethod
    async def evict(self, which: int) -> None:
        """Any key."""

    @abstractmethod
    async def lose_answers(self, _: int) -> None:
        """All of them, and what they are made of; the marks stay."""

    @abstractmethod
    async def replicate(self, _: int) -> None:
        """The replica catches up."""

    @abstractmethod
    async def promote(self, _: int) -> None:
        """The replica, without what it lacks, under a reign of its own."""


class InMemory(Store):
    lead_ms = LEAD_MS
    age_ms = 140_000
    waits_ms = (100, 100, 100, 300, 300, 300, 1_000, 1_000, 2_900, 3_100, 100_000, 299_000, 601_000)

    def __init__(self, make: Callable[..., MemoryCache] = MemoryCache) -> None:
        self._now_ms = 1_700_000_000_000
        self._reigns = itertools.count()
        self._cache = make(now=lambda: self._now_ms)
        self._cache.reign = Reign("the first")
        self._replica = copy.deepcopy((self._cache.marks, self._cache.entries))

    def cache(self) -> MemoryCache:
        return self._cache

    def liveness(self, cache: ContextCache) -> LivenessStore:
        return self._cache.liveness

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def wall_ms(self) -> int:
        return self._now_ms

    async def now_ms(self) -> int:
        return self._now_ms

    async def elapse(self, milliseconds: int) -> None:
        self._now_ms += milliseconds

    async def flush(self, _: int) -> None:
        self._cache.flush()

    async def lose_marks(self, _: int) -> None:
        self._cache.marks.pop(WORKSPACE, None)

    async def evict(self, which: int) -> None:
        if names := sorted({*self._cache.entries, *self._cache.sessions}):
            name = names[which % len(names)]
            self._cache.entries.pop(name, None)
            self._cache.sessions.pop(name, None)

    async def lose_answers(self, _: int) -> None:
        self._cache.entries.clear()

    async def replicate(self, _: int) -> None:
        self._replica = copy.deepcopy((self._cache.marks, self._cache.entries))

    async def promote(self, _: int) -> None:
        self._cache.marks, self._cache.entries = copy.deepcopy(self._replica)
        self._cache.sessions.clear()
        self._cache.reign = Reign(f"reign {next(self._reigns)}")


class InValkey(Store):
    """A server of this test's own: it is filled up, emptied, and made to begin another history.

    The replica is another database of it, into which everything is copied, life included.
    """

    accidents = (*Store.accidents, "fill_up", "make_room", "close_connections")
    lead_ms = 200
    age_ms = 50
    waits_ms = (1, 10, 50, 200, 450)

    def __init__(self, url: str) -> None:
        self._url = url
        self._redis = Redis.from_url(url)
        self._replica = Redis.from_url(url.removesuffix("/0") + "/2")
        self._caches: list[RedisCache] = []
        self._given = 0

    async def begin(self) -> None:
        """Empty, as it was at first; its clients are given once more."""
        self._given = 0
        await self.make_room(0)
        await self._redis.flushall()

    async def close(self) -> None:
        for cache in self._caches:
            await cache.close()
        await self._redis.aclose()
        await self._replica.aclose()

    def cache(self) -> RedisCache:
        if self._given == len(self._caches):
            self._caches.append(RedisCache(self._url, settings()))
        self._given += 1
        return self._caches[self._given - 1]

    def liveness(self, cache: ContextCache) -> LivenessStore:
        assert isinstance(cache, RedisCache)
        return cache.liveness

    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return int(time.time() * 1000)

    async def now_ms(self) -> int:
        seconds, micros = await self._redis.time()
        return int(seconds) * 1000 + int(micros) // 1000

    async def elapse(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)  # time itself is what passes here

    async def flush(self, _: int) -> None:
        await self._redis.flushdb()

    async def lose_marks(self, _: int) -> None:
        await self._redis.delete(keys.marks_name(WORKSPACE))

    async def evict(self, which: int) -> None:
        if names := sorted(await self._redis.keys()):
            await self._redis.unlink(names[which % len(names)])

    async def lose_answers(self, _: int) -> None:
        found = [await self._redis.keys(f"*}}:{kind}:*") for kind in ("whole", "surface")]
        if names := [name for some in found for name in some]:
            await self._redis.unlink(*names)

    async def replicate(self, _: int) -> None:
        await self._replica.flushdb()
        await self._copy(self._redis, 2)

    async def promote(self, _: int) -> None:
        await self._redis.flushdb()
        await self._copy(self._replica, 0)
        await self._redis.replicaof("127.0.0.1", "1")
        await self._redis.replicaof("NO", "ONE")

    async def _copy(self, source: Redis, database: int) -> None:
        """Another server has room of its own."""
        limit = (await self._redis.config_get("maxmemory"))["maxmemory"]
        await self.make_room(0)
        for name in await source.keys():
            await source.copy(name, name, destination_db=database, replace=True)
        await self._redis.config_set("maxmemory", limit)

    async def fill_up(self, _: int) -> None:
        """Nothing more is written, but what is allowed to."""
        await self._redis.config_set("maxmemory", 1)

    async def make_room(self, _: int) -> None:
        await self._redis.config_set("maxmemory", 0)

    async def close_connections(self, _: int) -> None:
        await self._redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await self._replica.connection_pool.disconnect()
