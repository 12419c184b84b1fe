"""The whole house: topics, a migrated database, a workspace, and the three worker processes.

It is taken down after the last of these tests: at rest it takes a sixth of a core.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from context_engine import bootstrap
from context_engine.adapters.sql.engine import create_engine
from context_engine.bootstrap import Parts
from context_engine.settings import Settings
from events.client import ContextClient
from events.topics import Topics, ensure
from tests.support.line import Line, line_of
from tests.support.stack import Databases
from tests.support.world import World
from workers.house import settings_of, until_live
from workers.localstack import LocalStack
from workers.supervisor import WorkerProcess, workers


@pytest.fixture(scope="package")
async def env(stack: LocalStack, databases: Databases) -> AsyncIterator[dict[str, str]]:
    """Settings of the house as environment variables: a database of its own, topics made."""
    url = await databases.create()
    made = stack.env() | {"CONTEXT_DATABASE_URL": url}
    settings = settings_of(made)
    await ensure(settings.kafka_bootstrap, Topics.of(settings))
    yield made
    await databases.drop(url)


@pytest.fixture(scope="package")
def settings(env: dict[str, str]) -> Settings:
    return settings_of(env)


@pytest.fixture(scope="package")
async def world(settings: Settings) -> AsyncIterator[World]:
    """Workspace `w` with ADMIN `ana`, VIEWER `bob`, tables `t0` and `t1`, conversation `c`."""
    database = create_engine(settings)
    made = World(database)
    await made.furnish(tables=2)
    await made.conversation("c", "ana", "bob")
    yield made
    await database.dispose()


@pytest.fixture(scope="package")
async def parts(settings: Settings, world: World) -> AsyncIterator[Parts]:
    """The domain services and the cache, in this process: what a product does."""
    async with bootstrap.parts(settings) as wired:
        yield wired


@pytest.fixture(scope="package")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the workers' logs are."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="package")
async def house(
    env: dict[str, str], world: World, logs: Path
) -> AsyncIterator[dict[str, WorkerProcess]]:
    """The three workers as processes, live. Whoever kills one starts it again."""
    async with workers(env=env, logs=logs) as running:
        await until_live(settings_of(env))
        yield running


@pytest.fixture
async def client(
    settings: Settings, house: dict[str, WorkerProcess]
) -> AsyncIterator[ContextClient]:
    """A client of the running house."""
    async with ContextClient(settings) as made:
        yield made


@pytest.fixture
async def line(stack: LocalStack, redis_url: str) -> AsyncIterator[Line]:
    """Topics, a group and a cache of this test's own; no worker runs yet."""
    async with line_of(stack.env() | {"CONTEXT_REDIS_URL": redis_url}) as made:
        yield made
