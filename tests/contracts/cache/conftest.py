"""One suite for the cache, in memory and in Valkey: each test has an empty store of either kind."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from context_engine.ports import Entry
from tests.support.cache import ANN, MemoryStore, RedisStore, Store, entry, whole_name


@pytest.fixture(params=["memory", "valkey"])
def url(request: pytest.FixtureRequest) -> str | None:
    """Of the Valkey that is asked; None for memory, which starts nothing."""
    return None if request.param == "memory" else str(request.getfixturevalue("redis_url"))


@pytest.fixture
async def store(url: str | None) -> AsyncIterator[Store]:
    if url is None:
        yield MemoryStore()
        return
    valkey = RedisStore(url)
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
