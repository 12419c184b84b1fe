"""Our cache, cashews and aiocache behind one face, for `tests.bench.peers`.

Each as it comes, from this process. aiocache knows no tags: an entry has one namespace there,
whose end is a walk over all keys of the server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol
from urllib.parse import urlsplit

from aiocache import RedisCache as AioCache
from aiocache import cached_stampede
from aiocache.serializers import PickleSerializer
from cashews import Cache as Cashews

from context_engine import keys
from context_engine.ports import Look, Moment, NewEntry
from tests.bench.builds import request
from tests.bench.house import BenchHouse

PAYLOAD = b"x" * 4096
TTL = 300
AT_ONCE = 1_000
OURS = "ours"
Build = Callable[[], Awaitable[bytes]]


class Peer(Protocol):
    """A cache with entries by number, each under eight tags, one of them named here."""

    name: str

    async def get(self, number: int) -> bytes | None: ...

    async def begin(self) -> object:
        """What a build has to do before it reads: handed to its `put`."""

    async def put(self, number: int, tag: str, begun: object, payload: bytes = PAYLOAD) -> None: ...

    async def end(self, tag: str) -> None:
        """Nothing under this tag is served any more."""

    async def tidy(self, tag: str) -> None:
        """Its memory is given back; for whom `end` leaves that."""

    def at_once(self, number: int, build: Build) -> Callable[[], Awaitable[object]]:
        """One of many equal requests: answered out of the cache, or by a build."""


def _tags(tag: str, number: int) -> list[str]:
    """As a context's: what is everybody's, what is its user's, and what its tables are."""
    who = number % 20
    return [tag, "all", "workspace", f"user:{who}", f"access:{who}", "schema", "views", "rows"]


def _scope(number: int) -> keys.Scope:
    return keys.scope_of("peers", f"u{number % 20}", "s", None)


def _name(number: int) -> str:
    """The same for all of them: a name says all that can change the answer, so it is long."""
    return keys.whole_name(_scope(number), f"{number:064d}")


class Ours(Peer):
    name = OURS

    def __init__(self, house: BenchHouse) -> None:
        self._house, self._cache = house, house.parts.cache

    def _look(self, number: int) -> Look:
        return Look(_scope(number), _name(number), keys.surface_name("peers", "0" * 64))

    async def get(self, number: int) -> bytes | None:
        found = (await self._cache.look(self._look(number))).whole
        return found.payload if found is not None else None

    async def begin(self) -> Moment:
        seen = await self._cache.look(self._look(0))
        if seen.moment is None:
            await self._cache.mark("peers", frozenset(), create=True)
            return await self.begin()
        return seen.moment

    async def put(self, number: int, tag: str, begun: object, payload: bytes = PAYLOAD) -> None:
        assert isinstance(begun, Moment)
        tags = frozenset(map(keys.schema, _tags(tag, number)))
        entry = NewEntry(
            _name(number),
            payload,
            tags,
            begun.clock,
            begun.now_ms,
            begun.now_ms + TTL * 1000,
            context_hash="0" * 64,
        )
        await self._cache.fill(begun, [entry], None)

    async def end(self, tag: str) -> None:
        await self._cache.mark("peers", frozenset({keys.schema(tag)}), create=True)

    async def tidy(self, tag: str) -> None:
        await self._cache.evict("peers", frozenset({keys.schema(tag)}))

    def at_once(self, number: int, build: Build) -> Callable[[], Awaitable[object]]:
        return partial(self._house.parts.engine.build, request(sessionId=f"at-once-{number}"))


class OfCashews(Peer):
    name = "cashews"

    def __init__(self, url: str) -> None:
        self._cache = Cashews()
        self._cache.setup(url)

    async def get(self, number: int) -> bytes | None:
        found: bytes | None = await self._cache.get(f"cashews:{_name(number)}")
        return found

    async def begin(self) -> object:
        return None

    async def put(self, number: int, tag: str, begun: object, payload: bytes = PAYLOAD) -> None:
        await self._cache.set(
            f"cashews:{_name(number)}", payload, expire=TTL, tags=_tags(tag, number)
        )

    async def end(self, tag: str) -> None:
        await self._cache.delete_tags(tag)

    def at_once(self, number: int, build: Build) -> Callable[[], Awaitable[object]]:
        @self._cache(ttl=TTL, key=f"at-once:{number}", lock=True)
        async def answered() -> bytes:
            return await build()

        return answered


class OfAiocache(Peer):
    name = "aiocache"

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._more: dict[str, Any] = {
            "endpoint": place.hostname,
            "port": place.port,
            "password": place.password,
            "serializer": PickleSerializer(),
            # With as many connections as there are requests at once, and time for all of them:
            # it gives up on what has to wait for one, and builds instead.
            "pool_max_size": 2 * AT_ONCE,
            "timeout": 30,
        }
        self._cache = AioCache(**self._more)
        self._namespaces: dict[int, str] = {}

    def _in(self, number: int) -> str:
        return f"{self._namespaces.get(number, 'none')}:aiocache:{_name(number)}"

    async def get(self, number: int) -> bytes | None:
        found: bytes | None = await self._cache.get(self._in(number))
        return found

    async def begin(self) -> object:
        return None

    async def put(self, number: int, tag: str, begun: object, payload: bytes = PAYLOAD) -> None:
        self._namespaces[number] = tag
        await self._cache.set(self._in(number), payload, ttl=TTL)

    async def end(self, tag: str) -> None:
        await self._cache.clear(namespace=tag)

    def at_once(self, number: int, build: Build) -> Callable[[], Awaitable[object]]:
        @cached_stampede(
            lease=10, ttl=TTL, key=f"aio-at-once:{number}", cache=AioCache, **self._more
        )
        async def answered() -> bytes:
            return await build()

        return answered
