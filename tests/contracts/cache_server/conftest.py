"""A Valkey of each module's own, emptied for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.cache import (
    RedisStore,
)
from tests.support.stack import valkey_part
from workers.localstack import Valkey


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Valkey]:
    valkey = valkey_part(tmp_path_factory.mktemp("valkey"))
    await valkey.start()
    yield valkey
    await valkey.stop()


@pytest.fixture
async def store(server: Valkey) -> AsyncIterator[RedisStore]:
    await server.start()
    store = RedisStore(server.url)
    await store.redis.flushall()
    await store.redis.script_flush()
    yield store
    await store.close()
