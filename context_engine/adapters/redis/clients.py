"""Clients of a store, with every bound stated."""

from __future__ import annotations

from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError

CONNECTIONS: Final = 4
"""Batches hold one; the rest is for walks over many keys."""


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


def connect_cluster(url: str, timeout: float) -> RedisCluster:
    """A client of the cluster to which the node at `url` belongs; connects when first used.

    Bounds as of `connect`. A slot without an owner makes its own keys unavailable, no others.
    """
    return RedisCluster.from_url(
        url,
        protocol=2,
        decode_responses=False,
        socket_timeout=None,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=0,
        require_full_coverage=False,
    )
