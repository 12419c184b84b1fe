"""The way to a cluster: each command to the primary that has its slot.

Slots, their owners and the reading of the topology are the client's. A workspace lies in one slot,
so each operation is one command to one primary. Batches are made for each primary by itself, so
that one that is away holds up nobody at the others.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    MovedError,
    NoScriptError,
    RedisError,
    SlotNotCoveredError,
    TimeoutError,
    TryAgainError,
)

from context_engine.adapters.redis.batch import Batcher, Command, Reply
from context_engine.adapters.redis.link import (
    bounded,
    deposed,
    exchange,
    loading,
    unavailable,
    walk,
)
from context_engine.adapters.redis.servers import ClusterPrimary, Server

TOPOLOGY_SECONDS: Final = 5.0
"""How old the list of primaries may be when all of them are asked."""

REDIRECTIONS: Final = 5
"""How often one command is sent on while its slot moves."""

MOVING_SECONDS: Final = 0.02
"""How long a command waits that found its keys on two sides of a move."""


class ClusterLink:
    """Sends commands to the primaries, within `timeout` seconds, redirections included."""

    walks = 2
    """Through all keys to see each: one may move from a primary that was not yet looked at to one
    that was."""

    def __init__(self, redis: RedisCluster, timeout: float) -> None:
        self.redis = redis
        self.timeout = timeout
        self._batchers: dict[str, Batcher] = {}
        self._read_at = float("-inf")
        """When the topology was read, by this process's monotonic clock."""
        self._doubted: set[str] = set()
        """Nodes that did not answer: another may have their slots by now."""

    def batcher(self, name: str) -> Batcher:
        """The batches of the primary that has `name`, as far as it is known by now."""
        try:
            node = self._node(name).name
        except SlotNotCoveredError:
            node = ""
        found = self._batchers.get(node)
        if found is None:
            found = self._batchers[node] = Batcher(self.send)
        return found

    async def send(self, commands: Sequence[Command]) -> list[Reply]:
        """A reply for each command, or the `Unavailable` that stands in its place.

        Raises `Unavailable` for all of them when no node answers, or one does too slowly.
        """
        async with bounded(self.timeout):
            await self.redis.initialize()
            replies = await self._once(commands)
            lost = [i for i, reply in enumerate(replies) if _lost(reply)]
            if lost:
                again = await self._once([commands[i] for i in lost])
                for i, reply in zip(lost, again, strict=True):
                    replies[i] = reply
            pairs = zip(commands, replies, strict=True)
            replies = list(await asyncio.gather(*(self._followed(*pair) for pair in pairs)))
        return [unavailable(r) if isinstance(r, RedisError) else r for r in replies]

    async def beside(self, command: Command) -> list[Reply]:
        """The reply of every primary to a command without keys, in place of one with a key.

        Raises `Unavailable` where one is away. The primaries are those that a node named within
        `TOPOLOGY_SECONDS`.
        """
        async with bounded(self.timeout):
            replies = await self._everywhere(command)
            if any(map(_lost, replies)):
                replies = await self._everywhere(command)
        for reply in replies:
            if isinstance(reply, RedisError):
                raise unavailable(reply)
        return replies

    async def walked(self, step: Callable[[str], Command]) -> list[Reply]:
        """As `Link.walked`, of every primary."""
        async with bounded(self.timeout):
            await self._fresh_topology()
        replies: list[Reply] = []
        for node in self.redis.get_primaries():

            async def ask(command: Command, node: ClusterNode = node) -> Reply:
                async with bounded(self.timeout):
                    reply = await self._loaded(node, command)
                return unavailable(reply) if isinstance(reply, RedisError) else reply

            replies += await walk(ask, step)
        return replies

    async def _everywhere(self, command: Command) -> list[Reply]:
        await self._fresh_topology()
        nodes = self.redis.get_primaries()
        return await asyncio.gather(*(self._loaded(node, command) for node in nodes))

    async def ping(self) -> None:
        """Raises `Unavailable` where a primary does not answer."""
        await self.beside(("PING",))

    async def servers(self) -> Sequence[Server]:
        """Every primary."""
        async with bounded(self.timeout):
            await self._fresh_topology()
        return [ClusterPrimary(self.redis, node) for node in self.redis.get_primaries()]

    async def close(self) -> None:
        """Closes the connections; the client opens new ones when used again."""
        await self.redis.aclose()

    def _node(self, name: str) -> ClusterNode:
        """The primary that has `name`. Raises `SlotNotCoveredError` where none is known."""
        node = self.redis.get_node_from_key(name)
        if node is None:
            raise SlotNotCoveredError(f"no primary has the slot of {name}")
        return node

    async def _once(self, commands: Sequence[Command]) -> list[Reply]:
        """One round trip to each node that is concerned; its error in place of its replies."""
        places, replies = self._places(commands)
        if doubted := {node.name for node in places} & self._doubted:
            await self._read_topology(doubted.pop())
            places, replies = self._places(commands)
        found = await asyncio.gather(
            *(self._at(node, [commands[i] for i in at]) for node, at in places.items())
        )
        for at, answered in zip(places.values(), found, strict=True):
            for i, reply in zip(at, answered, strict=True):
                replies[i] = reply
        return replies

    def _places(
        self, commands: Sequence[Command]
    ) -> tuple[dict[ClusterNode, list[int]], list[Reply]]:
        """Which commands go to which node; and replies, of those that go to none for now."""
        places: dict[ClusterNode, list[int]] = defaultdict(list)
        replies: list[Reply] = [None] * len(commands)
        for i, command in enumerate(commands):
            try:
                places[self._node(key_of(command))].append(i)
            except SlotNotCoveredError as error:
                replies[i] = ClusterDownError(str(error))
        return places, replies

    async def _at(self, node: ClusterNode, commands: Sequence[Command]) -> list[Reply]:
        """One round trip to a node; the error for each where it is away.

        Whoever waits for it no longer has found it too slow.
        """
        try:
            connection = node.acquire_connection()
            try:
                replies = await exchange(connection, commands)
            finally:
                if self.redis.get_node(node_name=node.name) is not node:
                    # It has left the cluster meanwhile: nobody else would close this.
                    await connection.disconnect(nowait=True)
                node.release(connection)
        except asyncio.CancelledError:
            self._doubted.add(node.name)
            raise
        except (RedisError, OSError) as error:
            lost = error if isinstance(error, RedisError) else ConnectionError(str(error))
            replies = [lost] * len(commands)
        if any(_lost(reply) or deposed(reply) for reply in replies):
            self._doubted.add(node.name)
        return replies

    async def _loaded(self, node: ClusterNode, command: Command) -> Reply:
        """The reply of a node, which gets the scripts if it has none."""
        [reply] = await self._at(node, [command])
        if isinstance(reply, NoScriptError):
            await self._at(node, loading())
            [reply] = await self._at(node, [command])
        return reply

    async def _followed(self, command: Command, reply: Reply) -> Reply:
        """The reply from where the cluster says that a command is to go.

        In the midst of a move a script finds its keys on both sides for as long as that takes:
        then it is answered as from a store that is away. A mark has one key, and never is.
        """
        for _ in range(REDIRECTIONS):
            match reply:
                case NoScriptError():
                    node = self._node(key_of(command))
                case MovedError():
                    await self.redis.nodes_manager.move_slot(reply)
                    node = self._node(key_of(command))
                case AskError():
                    reply = await self._asking(reply, command)
                    continue
                case TryAgainError():
                    await asyncio.sleep(MOVING_SECONDS)
                    node = self._node(key_of(command))
                case _:
                    return reply
            reply = await self._loaded(node, command)
        return reply

    async def _asking(self, told: AskError, command: Command) -> Reply:
        """On one connection: the leave to ask is for the next command on it."""
        node = self.redis.get_node(told.host, told.port)
        if node is None:
            await self._read_topology()
            node = self.redis.get_node(told.host, told.port)
        if node is None:
            return told
        _, reply = await self._at(node, [("ASKING",), command])
        if isinstance(reply, NoScriptError):
            *_, reply = await self._at(node, [*loading(), ("ASKING",), command])
        return reply

    async def _fresh_topology(self) -> None:
        await self.redis.initialize()
        if self._doubted or time.monotonic() - self._read_at >= TOPOLOGY_SECONDS:
            await self._read_topology(next(iter(self._doubted), None))

    async def _read_topology(self, doubted: str | None = None) -> None:
        """From any node, `doubted` last."""
        self._doubted.clear()
        await self.redis.nodes_manager.initialize(last_failed_node_name=doubted)
        self._read_at = time.monotonic()


def key_of(command: Command) -> str:
    """A key of the command; all of them are in one slot."""
    return str(command[3] if command[0] == "EVALSHA" else command[1])


def _lost(reply: Reply) -> bool:
    """Whether its node did not answer, or says that the slot is nobody's."""
    return isinstance(reply, ConnectionError | TimeoutError | ClusterDownError)
