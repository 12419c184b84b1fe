"""An empty cluster, and a cache on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.cache import RedisStore
from tests.support.cluster import Cluster, cluster_in


@pytest.fixture
async def store(cluster: Cluster) -> AsyncIterator[RedisStore]:
    await cluster.empty()
    store = RedisStore(cluster.url, redis_cluster=True)
    yield store
    await store.close()


@pytest.fixture(scope="module")
async def replicated(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Cluster]:
    """Another one, whose second primary has a replica, the fourth node."""
    async with cluster_in(tmp_path_factory.mktemp("replicated")) as made:
        await made.replicate(await made.add(), 1)
        await made.agreed()
        yield made
