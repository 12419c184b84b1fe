"""Fixtures for all: the stack, started by the first test that asks for it, and clean stores.

`CONTEXT_TEST_KAFKA` chooses the broker: nothing for the small one, `maven` for Apache Kafka,
`docker` for all three parts in containers, or the `host:port` of a broker that runs. With
pytest-xdist every process has a stack of its own.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest
from redis.asyncio import Redis

from tests.support.cluster import Cluster, cluster_in
from tests.support.stack import Databases, in_containers, kafka_choice, running_stack
from workers.localstack import LocalStack, LocalStackError, kafka_jars

TESTS = Path(__file__).parent

# An example's time says how busy the machine is, not whether the property holds.
hypothesis.settings.register_profile("suite", deadline=None)
hypothesis.settings.load_profile("suite")
MARKERS = ("unit", "contracts", "properties", "e2e", "faults")
LAST = {"properties": 1, "contracts": 2, "unit": 3}
"""The folders with the quicker files; the soak, one test of more than a minute, is before all."""
REDIS_DATABASE_OF_FIXTURE = 1
"""`redis_url` is emptied for each test; workers that outlive a test use the stack's own, 0."""


def pytest_configure() -> None:
    """A shell gives its background jobs an ignored SIGINT, which every child would inherit."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    choice = kafka_choice()
    return f"kafka: {'the small broker' if choice == 'small' else choice}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """Download before the clock of the first test runs."""
    if session.config.option.collectonly:
        return
    try:
        if kafka_choice() == "maven":
            asyncio.run(kafka_jars(on_progress=print))
        if in_containers():
            from tests.support.containers import pull

            pull(print)
    except LocalStackError as error:
        raise pytest.UsageError(error.message) from error


def pytest_sessionfinish() -> None:
    """No container outlives the session."""
    if in_containers():
        from tests.support.containers import remove

        remove()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The folder is the marker. Where files are shared out among processes the slow ones come
    first, so that none is left alone with one of them at the end."""
    for item in items:
        folder = _folder(item)
        if folder in MARKERS:
            item.add_marker(folder)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (item.path.name != "test_soak.py", LAST.get(_folder(item), 0)))


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0]


@pytest.fixture(scope="session")
async def stack() -> AsyncIterator[LocalStack]:
    """Broker, Valkey and PostgreSQL, running. Whoever stops a part starts it again."""
    async with running_stack() as running:
        yield running


@pytest.fixture(scope="session")
def databases(stack: LocalStack) -> Databases:
    """For fixtures of a wider scope than `database_url`: `await databases.create()`."""
    return Databases(stack.database_url)


@pytest.fixture
async def database_url(databases: Databases) -> AsyncIterator[str]:
    """The SQLAlchemy URL of a migrated, empty database of this test's own."""
    url = await databases.create()
    yield url
    await databases.drop(url)


@pytest.fixture
async def redis_url(stack: LocalStack) -> str:
    """The URL of an empty Redis database. The next test that asks for it empties it."""
    url = stack.redis_url.removesuffix("/0") + f"/{REDIS_DATABASE_OF_FIXTURE}"
    async with Redis.from_url(url) as redis:
        await redis.flushdb()
    return url


@pytest.fixture(scope="session")
def kafka_bootstrap(stack: LocalStack) -> str:
    """`host:port` of the broker. Make topics before anything asks for them."""
    return stack.kafka_bootstrap


@pytest.fixture(scope="session")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """Three Valkeys that share the slots. Who takes one away brings it back."""
    if in_containers():
        pytest.skip("nodes of a cluster tell each other addresses that are theirs inside only")
    async with cluster_in(tmp_path_factory.mktemp("cluster")) as made:
        yield made
