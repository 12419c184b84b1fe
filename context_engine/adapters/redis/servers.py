"""One primary, asked for what concerns it alone, in the client's own forms."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from redis.asyncio.cluster import ClusterNode, RedisCluster


class Server(Protocol):
    """A client of one server is one as it is."""

    def info(self) -> Awaitable[dict[str, Any]]: ...

    def config_get(self, pattern: str, /) -> Awaitable[dict[Any, Any]]: ...

    def scan(self, cursor: int, *, match: str, count: int) -> Awaitable[tuple[int, list[Any]]]: ...


class ClusterPrimary:
    """One of a cluster."""

    def __init__(self, redis: RedisCluster, node: ClusterNode) -> None:
        self._redis, self._node = redis, node

    async def info(self) -> dict[str, Any]:
        found: dict[str, Any] = await self._redis.info(target_nodes=self._node)
        return found

    async def config_get(self, pattern: str, /) -> dict[Any, Any]:
        return await self._redis.config_get(pattern, target_nodes=self._node)

    async def scan(self, cursor: int, *, match: str, count: int) -> tuple[int, list[Any]]:
        # Typed as for one server; of a cluster it gives the cursor of each that was asked.
        cursors: Any
        cursors, names = await self._redis.scan(
            cursor, match=match, count=count, target_nodes=self._node
        )
        return cursors[self._node.name], names
