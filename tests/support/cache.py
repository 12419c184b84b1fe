"""A cache under test: the port, and the accidents that can befall its store."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.cluster import RedisCluster

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.redis import RedisCache
from context_engine.keys import Scope, Tag
from context_engine.ports import (
    ContextCache,
    LivenessStore,
    Look,
    Moment,
    NewEntry,
    Reign,
    Seen,
    SessionWrite,
)
from context_engine.settings import Settings

WORKSPACE = "w/1"
TTL_MS = 300_000
TABLE = keys.schema("t1")
OTHER_TABLE = keys.schema("t2")


def settings(**more: Any) -> Settings:
    """With a bound that a machine at its limit does not reach."""
    given = {"tag_secret": "a secret for the tests only", "redis_timeout_seconds": 5.0, **more}
    return Settings.model_validate(given)


def scope(user: str = "u1", session: str | None = "s1", workspace: str = WORKSPACE) -> Scope:
    return keys.scope_of(workspace, user, session, None)


ANN, BOB = scope("ann"), scope("bob")


def whole_name(who: Scope, answer: str = "a") -> str:
    return keys.whole_name(who, keys.digest("whole", answer))


def surface_name(who: Scope, answer: str = "a") -> str:
    return keys.surface_name(who.workspace_id, keys.digest("surface", who.user_id, answer))


def entry(
    name: str,
    moment: Moment,
    *tags: Tag,
    payload: bytes = b"payload",
    life_ms: int = TTL_MS,
    quiet: bool = False,
) -> NewEntry:
    """An entry of a build that began at `moment`."""
    return NewEntry(
        name=name,
        payload=payload,
        tags=frozenset(tags or (TABLE,)),
        clock=moment.clock,
        built_ms=moment.now_ms,
        expires_ms=moment.now_ms + life_ms,
        context_hash="hash of " + payload.decode(errors="replace"),
        quiet=quiet,
    )


class Store(ABC):
    """One backend. Each test has an empty one."""

    cache: ContextCache
    liveness: LivenessStore

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[ContextCache]:
        """The cache as another process has it."""
        yield self.cache

    async def look(self, who: Scope, answer: str = "a", session: bytes | None = None) -> Seen:
        look = Look(who, whole_name(who, answer), surface_name(who, answer), session=session)
        return await self.cache.look(look)

    async def moment(self, who: Scope) -> Moment:
        """The clock that a build begins with; makes the marks where there are none."""
        await self.cache.found(who.workspace_id)
        moment = (await self.look(who, "nothing")).moment
        assert moment is not None
        return moment

    async def write_session(
        self, who: Scope, moment: Moment, coordinates: bytes = b"{}", memory: NewEntry | None = None
    ) -> bool:
        return await self.cache.fill(
            moment, (), SessionWrite(who, coordinates, "a hash", 3600, memory)
        )

    @abstractmethod
    async def flush(self) -> None:
        """Everything is lost."""

    @abstractmethod
    async def lose_marks(self, workspace_id: str) -> None:
        """The marks are lost and the entries stay."""

    @abstractmethod
    async def lose_any(self, number: int) -> str | None:
        """One key is lost, whichever it is, as a store at its limit may have it; its name."""

    @abstractmethod
    async def put_under_another_reign(self, name: str) -> None:
        """The entry was filled on another server."""

    @abstractmethod
    async def put_in_place_of(self, name: str, other: str) -> None:
        """What is stored under `name` comes to lie under `other` as well."""

    @abstractmethod
    async def has(self, name: str) -> bool:
        """Whether something lies under `name`, valid or not."""

    @abstractmethod
    async def elapse(self, milliseconds: int) -> None:
        """Time passes, by the store's own clock."""


class MemoryStore(Store):
    def __init__(self, max_lag_ms: int = 0) -> None:
        self.now_ms = 1_700_000_000_000
        self.cache: MemoryCache = MemoryCache(max_lag_ms=max_lag_ms, now=lambda: self.now_ms)
        self.liveness = self.cache.liveness

    async def flush(self) -> None:
        self.cache.flush()

    async def lose_marks(self, workspace_id: str) -> None:
        del self.cache.marks[workspace_id]

    async def lose_any(self, number: int) -> str | None:
        held: list[dict[str, Any]] = [self.cache.marks, self.cache.entries, self.cache.sessions]
        held += [self.cache._indexes, self.cache._leads]
        names = sorted((name, i) for i, kept in enumerate(held) for name in kept)
        if not names:
            return None
        name, i = names[number % len(names)]
        del held[i][name]
        return name

    async def put_under_another_reign(self, name: str) -> None:
        self.cache.entries[name].reign = Reign("another server")

    async def put_in_place_of(self, name: str, other: str) -> None:
        if name in self.cache.entries:
            self.cache.entries[other] = replace(self.cache.entries[name])
        else:
            self.cache.sessions[other] = replace(self.cache.sessions[name])

    async def has(self, name: str) -> bool:
        return name in self.cache.entries or name in self.cache.sessions

    async def elapse(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


class RedisStore(Store):
    redis: Any

    def __init__(self, url: str, **more: Any) -> None:
        self.url = url
        client = RedisCluster if more.get("redis_cluster") else Redis
        self.redis = client.from_url(url, protocol=2)
        self._settings = settings(**more)
        self.cache: RedisCache = RedisCache(url, self._settings)
        self.liveness = self.cache.liveness

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[ContextCache]:
        async with RedisCache(self.url, self._settings) as cache:
            yield cache

    async def close(self) -> None:
        await self.cache.close()
        await self.redis.aclose()

    async def flush(self) -> None:
        await self.redis.flushdb()  # of a cluster: of every primary

    async def lose_marks(self, workspace_id: str) -> None:
        assert await self.redis.delete(keys.marks_name(workspace_id)) == 1

    async def lose_any(self, number: int) -> str | None:
        names = sorted([name async for name in self.redis.scan_iter()])
        if not names:
            return None
        await self.redis.delete(name := names[number % len(names)])
        return str(name.decode())

    async def put_under_another_reign(self, name: str) -> None:
        assert await self.redis.hset(name, "r", "another server") == 0

    async def put_in_place_of(self, name: str, other: str) -> None:
        assert await self.redis.copy(name, other, replace=True)

    async def has(self, name: str) -> bool:
        return bool(await self.redis.exists(name))

    async def elapse(self, milliseconds: int) -> None:
        # The store's own time is what passes here: nothing announces it.
        await asyncio.sleep(milliseconds / 1000)
