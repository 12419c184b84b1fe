"""The way to the store: connections, scripts, bounds, and its errors in our words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from typing import Final, Literal

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)

from context_engine.adapters.redis.batch import Command, Reply
from context_engine.errors import Unavailable

ScriptName = Literal["look", "fill", "mark", "found", "memory"]
SCRIPTS: Final[tuple[ScriptName, ...]] = ("look", "fill", "mark", "found", "memory")

CONNECTIONS = 4
"""Batches use one at a time; the rest is for walks over many keys."""


class Full(Unavailable):
    """The store is at its limit of memory and takes no more."""


@lru_cache(maxsize=1)
def scripts() -> dict[ScriptName, tuple[str, str]]:
    """SHA-1 (the server's name for it) and text of every script."""
    here = files(__package__)
    common = (here / "common.lua").read_text(encoding="utf-8")
    texts: dict[ScriptName, str] = {}
    for name in SCRIPTS:
        first, rest = (here / f"{name}.lua").read_text(encoding="utf-8").split("\n", 1)
        texts[name] = f"{first}\n{common}\n{rest}"
    return {
        name: (sha1(text.encode(), usedforsecurity=False).hexdigest(), text)
        for name, text in texts.items()
    }


def connect(url: str, timeout: float) -> Redis:
    """A client whose every bound is stated; connects when first used.

    `timeout`: seconds for connecting, and for waiting for a connection. Reads and writes have no
    bound of their own: `Link` bounds the round trip as a whole, where the client's would cost a
    task for each. One retry, at once, for a connection that the server had closed: every command
    here may be repeated.
    """
    pool = BlockingConnectionPool.from_url(
        url,
        protocol=2,
        decode_responses=False,
        max_connections=CONNECTIONS,
        timeout=timeout,
        socket_timeout=None,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 1, supported_errors=(ConnectionError,)),
        health_check_interval=0,
    )
    return Redis.from_pool(pool)


@asynccontextmanager
async def bounded(seconds: float) -> AsyncIterator[None]:
    """Ends what is inside after `seconds`, and gives the client's errors as `Unavailable`.

    The client closes a connection whose reply was not awaited, so that nobody reads it later.
    """
    try:
        async with asyncio.timeout(seconds):
            yield
    except RedisError as error:
        raise unavailable(error) from error
    except TimeoutError as error:
        raise Unavailable("redis", f"no answer within {seconds:g} s") from error
    except OSError as error:
        raise Unavailable("redis", f"{type(error).__name__}: {error}") from error


def unavailable(error: RedisError) -> Unavailable:
    kind = Full if isinstance(error, OutOfMemoryError) else Unavailable
    return kind("redis", f"{type(error).__name__}: {error}")


class Link:
    """Sends commands to the store in one round trip, within `timeout` seconds, retry included."""

    def __init__(self, redis: Redis, timeout: float) -> None:
        self.redis = redis
        self.timeout = timeout

    async def send(self, commands: list[Command]) -> list[Reply]:
        """A reply for each command, or the `Unavailable` that stands in its place.

        Raises `Unavailable` for all of them when the store is away, too slow, or no longer
        takes writes: then connections are dropped, so that the next call finds its successor.
        """
        async with bounded(self.timeout):
            replies = await self._pipeline(commands)
            lost = [i for i, r in enumerate(replies) if isinstance(r, NoScriptError)]
            if lost:
                await self._load()
                again = await self._pipeline([commands[i] for i in lost])
                for i, reply in zip(lost, again, strict=True):
                    replies[i] = reply
            if any(_deposed(reply) for reply in replies):
                await self.redis.connection_pool.disconnect(inuse_connections=False)
        return [unavailable(r) if isinstance(r, RedisError) else r for r in replies]

    async def _pipeline(self, commands: list[Command]) -> list[Reply]:
        async with self.redis.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=False)

    async def _load(self) -> None:
        await self._pipeline([("SCRIPT LOAD", text) for _, text in scripts().values()])

    async def close(self) -> None:
        """Closes the connections; the client opens new ones when used again."""
        await self.redis.aclose(close_connection_pool=True)


def _deposed(reply: Reply) -> bool:
    if isinstance(reply, ReadOnlyError | BusyLoadingError):
        return True
    return isinstance(reply, ResponseError) and "NOREPLICAS" in str(reply)
