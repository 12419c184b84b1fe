"""The way to the store: connections, scripts, bounds, and its errors in our words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from hashlib import sha1
from importlib.resources import files
from types import TracebackType
from typing import Final, Literal, get_args

import hiredis
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)

from context_engine.adapters.redis.batch import Batcher, Command, Reply
from context_engine.adapters.redis.servers import Server
from context_engine.errors import Unavailable

ScriptName = Literal[
    "look",
    "fill",
    "mark",
    "found",
    "drop",
    "forget",
    "begin",
    "memory",
    "pulse",
    "sight",
    "renew",
    "proofs",
    "tally",
]
SCRIPTS: Final[tuple[ScriptName, ...]] = get_args(ScriptName)


class Full(Unavailable):
    """The store is at its limit of memory and takes no more."""


class Foreign(Unavailable):
    """Something of another kind lies under a name of ours."""


class Moving(Unavailable):
    """Keys of one command are on both sides of a move, or some are nowhere; one alone never is."""


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


def loading() -> list[Command]:
    """The commands that give a server every script."""
    return [("SCRIPT", "LOAD", text) for _, text in scripts().values()]


class bounded:
    """Ends what is inside after `seconds`, and gives the client's errors as `Unavailable`.

    A class, since a generator would cost each round trip 5 us more.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds, self._timeout = seconds, asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError as late:
            raise Unavailable("redis", f"no answer within {self._seconds:g} s") from late
        if isinstance(error, RedisError | RedisClusterException):
            raise unavailable(error) from error
        if isinstance(error, OSError):
            raise Unavailable("redis", f"{type(error).__name__}: {error}") from error


def unavailable(error: RedisError | RedisClusterException) -> Unavailable:
    kind = Unavailable
    if "Cluster mode is not enabled" in str(error):
        return Unavailable(
            "redis",
            "not a node of a cluster, or its user may not ask for CLUSTER SLOTS; without a"
            " cluster leave CONTEXT_REDIS_CLUSTER out",
        )
    if isinstance(error, OutOfMemoryError):
        kind = Full
    elif isinstance(error, TryAgainError):
        kind = Moving
    elif str(error).startswith("WRONGTYPE"):
        kind = Foreign
    return kind("redis", f"{type(error).__name__}: {error}")


async def exchange(connection: AbstractConnection, commands: Sequence[Command]) -> list[Reply]:
    """One round trip; the server's errors stand in their places.

    A connection whose replies were not all read is closed, so that nobody reads them later.
    """
    try:
        # By hiredis: the client packs in Python, in ten times as long. Its stub knows commands of
        # one word only.
        packed = [hiredis.pack_command(one) for one in commands]  # type: ignore[arg-type]
        await connection.send_packed_command(packed, check_health=False)
        return [await _reply(connection) for _ in commands]
    except BaseException:
        await connection.disconnect(nowait=True)
        raise


async def walk(
    ask: Callable[[Command], Awaitable[Reply]], step: Callable[[str], Command]
) -> list[Reply]:
    """The replies of one server, as `Link.walked`."""
    replies: list[Reply] = []
    cursor = "0"
    while cursor != "0" or not replies:
        reply = await ask(step(cursor))
        if isinstance(reply, Unavailable):
            raise reply
        replies.append(reply)
        cursor = reply[1].decode()
    return replies


class Link:
    """Sends commands to the store in one round trip, within `timeout` seconds, retry included."""

    walks = 1
    """Through all keys to see each."""

    def __init__(self, redis: Redis, timeout: float) -> None:
        self.redis = redis
        self.timeout = timeout
        self._held: AbstractConnection | None = None
        self._batcher = Batcher(self.send)

    def batcher(self, _name: str) -> Batcher:
        """The batches of the primary that has this key: of the only one."""
        return self._batcher

    async def beside(self, _command: Command) -> list[Reply]:
        """The reply of every other primary: there is none."""
        return []

    async def walked(self, step: Callable[[str], Command]) -> list[Reply]:
        """The replies to a command with a cursor, from "0" on until the server gives that back
        as its second. Raises `Unavailable`."""

        async def ask(command: Command) -> Reply:
            [reply] = await self.send([command])
            return reply

        return await walk(ask, step)

    async def servers(self) -> Sequence[Server]:
        """Every primary."""
        return [self.redis]

    async def ping(self) -> None:
        """Raises `Unavailable` where the store does not answer."""
        [reply] = await self.send([("PING",)])
        if isinstance(reply, Unavailable):
            raise reply

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
            if any(deposed(reply) for reply in replies):
                await self.redis.connection_pool.disconnect()
        return [unavailable(r) if isinstance(r, RedisError) else r for r in replies]

    async def _pipeline(self, commands: list[Command]) -> list[Reply]:
        """One retry, at once: the server may have closed a connection that lay idle."""
        try:
            return await self._exchange(commands)
        except ConnectionError:
            return await self._exchange(commands)

    async def _exchange(self, commands: list[Command]) -> list[Reply]:
        """On a connection that is held: the client's own pipeline takes 120 us more each time."""
        connection = await self._take()
        try:
            return await exchange(connection, commands)
        finally:
            await self._give_back(connection)

    async def _take(self) -> AbstractConnection:
        held, self._held = self._held, None
        if held is None:
            held = await self.redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
        return held

    async def _give_back(self, connection: AbstractConnection) -> None:
        """Held for the next batch; a closed one is opened again by the client when it is used."""
        if self._held is None:
            self._held = connection
        else:
            await self.redis.connection_pool.release(connection)

    async def _load(self) -> None:
        await self._pipeline(loading())

    async def close(self) -> None:
        """Closes the connections; the client opens new ones when used again."""
        await self.redis.aclose(close_connection_pool=True)


async def _reply(connection: AbstractConnection) -> Reply:
    """The next reply, or the server's error in its place."""
    try:
        return await connection.read_response()
    except ResponseError as error:
        return error


def deposed(reply: Reply) -> bool:
    """Whether the server takes no writes any more: its place may be another's by now."""
    if isinstance(reply, ReadOnlyError | BusyLoadingError):
        return True
    return isinstance(reply, ResponseError) and "NOREPLICAS" in str(reply)
