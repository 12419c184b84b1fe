"""Real PostgreSQL, and the services over it in a workspace with a member of each role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.services import DomainServices
from context_engine.settings import Settings
from tests.support import kept
from tests.support import services as small
from tests.support.commands import Cli
from tests.support.services import RecordingMarker
from tests.support.stack import Databases
from tests.support.world import SECRET
from workers.seed import seed


@asynccontextmanager
async def services_over(url: str) -> AsyncIterator[DomainServices]:
    database = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    yield DomainServices(database, RecordingMarker(database), ids_as_given=True)
    await database.dispose()


FURNISHED: dict[str, Callable[[DomainServices], Awaitable[object]]] = {
    "small_workspace": small.furnish,
    "kept_workspace": kept.furnish,
    "demo_workspace": seed,
}
"""What a test may find in its database, by the fixture that it asks for."""


@pytest.fixture
def small_workspace() -> None:
    """Who asks for it finds the workspace of `tests.support.services`."""


@pytest.fixture
def kept_workspace() -> None:
    """Who asks for it finds the workspace of `tests.support.kept`."""


@pytest.fixture
def demo_workspace() -> None:
    """Who asks for it finds the demo workspace."""


@pytest.fixture
async def database_url(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[str]:
    """Of a database of this test's own, empty unless it asks for a furnished one: what services
    write one statement after the other is written once, and copied."""

    async def furnish(url: str) -> None:
        async with services_over(url) as made:
            await FURNISHED[name](made)

    name = next((one for one in FURNISHED if one in request.fixturenames), "")
    url = await (databases.furnished(name, furnish) if name else databases.create())
    yield url
    await databases.drop(url)


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
def services(
    small_workspace: None, database: AsyncEngine, marker: RecordingMarker
) -> DomainServices:
    return DomainServices(database, marker, enforce_seconds=5.0, ids_as_given=True)


@pytest.fixture
def cli(
    demo_workspace: None, database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> Cli:
    """Over the demo workspace."""
    monkeypatch.setenv("CONTEXT_DATABASE_URL", database_url)
    monkeypatch.setenv("CONTEXT_REDIS_URL", redis_url)
    monkeypatch.setenv("CONTEXT_TAG_SECRET", "a secret of the tests only")
    return Cli(monkeypatch)
