"""Real PostgreSQL, and the services over it in a workspace with a member of each role."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services import DomainServices
from context_engine.settings import Settings
from tests.support.commands import Cli
from tests.support.services import RecordingMarker, furnish
from tests.support.world import SECRET
from workers.seed import seed


@pytest.fixture
def config(database_url: str) -> Settings:
    return Settings.model_validate({"database_url": database_url, "tag_secret": SECRET})


@pytest.fixture
async def database(config: Settings) -> AsyncIterator[AsyncEngine]:
    """The migrated, empty database of this test's own."""
    made = create_engine(config)
    yield made
    await made.dispose()


@pytest.fixture
async def cache(redis_url: str, config: Settings) -> AsyncIterator[RedisCache]:
    """An empty cache in which workspace `w` has its marks."""
    made = RedisCache(redis_url, config)
    await made.mark("w", frozenset(), create=True)
    yield made
    await made.close()


@pytest.fixture
def marker(database: AsyncEngine) -> RecordingMarker:
    return RecordingMarker(database)


@pytest.fixture
async def services(database: AsyncEngine, marker: RecordingMarker) -> DomainServices:
    made = DomainServices(database, marker, enforce_seconds=0.3, ids_as_given=True)
    await furnish(made)
    return made


@pytest.fixture
async def cli(
    database: AsyncEngine, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Over the demo workspace."""
    await seed(DomainServices(database, RecordingMarker(database), ids_as_given=True))
    monkeypatch.setenv("CONTEXT_DATABASE_URL", database_url)
    monkeypatch.setenv("CONTEXT_REDIS_URL", redis_url)
    monkeypatch.setenv("CONTEXT_TAG_SECRET", "a secret of the tests only")
    return Cli(monkeypatch)
