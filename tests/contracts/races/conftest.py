"""The houses of the races."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import liveness as redis_liveness
from context_engine.settings import Settings
from tests.support.pair import Pair, pair_over
from tests.support.races import Race, race_over
from tests.support.stack import valkey_part
from workers import heartbeat
from workers.localstack import Valkey


@pytest.fixture
async def race(
    kept_workspace: None, database: AsyncEngine, redis_url: str, config: Settings
) -> AsyncIterator[Race]:
    async with race_over(database, redis_url, config, furnished=True) as made:
        yield made


@pytest.fixture
async def short(
    kept_workspace: None, database: AsyncEngine, redis_url: str, config: Settings
) -> AsyncIterator[Race]:
    """With a life of entries that a test can wait for."""
    life = timedelta(seconds=1)
    async with race_over(database, redis_url, config, furnished=True, ttl=life) as made:
        yield made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof lives shorter, so that tests need not wait for three seconds."""
    monkeypatch.setattr(redis_liveness, "LIFE_MS", 1_500)
    monkeypatch.setattr(heartbeat, "LIFE_MS", 1_500)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.2)


@pytest.fixture(scope="module")
async def servers(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[Valkey, Valkey]]:
    made = [valkey_part(tmp_path_factory.mktemp(name)) for name in "ab"]
    for server in made:
        await server.start()
    yield made[0], made[1]
    for server in made:
        await server.stop()


@pytest.fixture
async def pair(
    servers: tuple[Valkey, Valkey],
    database: AsyncEngine,
    config: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Pair]:
    monkeypatch.setattr(redis_liveness, "COUNTED_MS", 0)
    async with pair_over(servers, database, config) as made:
        yield made
