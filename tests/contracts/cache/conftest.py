"""One suite for the cache, in memory, in Valkey and in a cluster of Valkeys: each test has an empty
store of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from context_engine.ports import Entry
from tests.support.cache import ANN, MemoryStore, RedisStore, Store, entry, whole_name
from tests.support.cluster import Cluster


@dataclass(frozen=True)
class Place:
    """Where a store is, and what it is part of."""

    url: str
    cluster: Cluster | None = None


@pytest.fixture(params=["memory", "valkey", "cluster"])
def place(request: pytest.FixtureRequest) -> Place | None:
    """None for memory, which starts nothing."""
    if request.param == "memory":
        return None
    if request.param == "cluster":
        cluster: Cluster = request.getfixturevalue("cluster")
        return Place(cluster.url, cluster)
    return Place(request.getfixturevalue("redis_url"))


@pytest.fixture
async def store(place: Place | None) -> AsyncIterator[Store]:
    if place is None:
        yield MemoryStore()
        return
    if place.cluster is not None:
        await place.cluster.empty()
    valkey = RedisStore(place.url, redis_cluster=place.cluster is not None)
    yield valkey
    await valkey.close()


@pytest.fixture
async def kept(store: Store) -> Entry:
    """Ann's whole context, filled and read once."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    seen = await store.look(ANN)
    assert seen.whole is not None
    return seen.whole
