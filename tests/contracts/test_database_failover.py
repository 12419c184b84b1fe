"""A standby that lags takes the primary's place: what only the lost commits made is not served.

Two PostgreSQL servers of this module's own. The old primary is stopped before the standby is
promoted, as docs/freshness.md assumes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql.driver import TIMELINE
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.outbox import SqlOutbox
from context_engine.adapters.sql.services import DomainServices
from context_engine.keys import Coordinates
from context_engine.settings import Settings
from tests.support.barriers import Barriers
from tests.support.kept import ANA
from tests.support.races import Race, race_over
from tests.support.stack import Databases, in_containers
from tests.support.standby import Standby
from workers.localstack import Postgres
from workers.localstack.stack import stack_home

PASSWORD = "secret"

pytestmark = pytest.mark.skipif(in_containers(), reason="no copy of another container's cluster")


@dataclass
class Servers:
    primary: Postgres
    standby: Standby
    settings: Settings

    def engine(self, database: str, server: Postgres) -> AsyncEngine:
        url = Databases(server.url).url(database)
        return create_engine(self.settings.model_copy(update={"database_url": _secret(url)}))


def _secret(url: str) -> object:
    return Settings.model_validate({"database_url": url, "tag_secret": "x" * 16}).database_url


@pytest.fixture
async def servers(config: Settings) -> AsyncIterator[Servers]:
    with stack_home(None) as home:  # PostgreSQL, as another user than root, must reach it
        primary = Postgres(home / "primary", PASSWORD)
        standby = Standby(home / "standby", PASSWORD, primary)
        await primary.start()
        yield Servers(primary, standby, config)
        await primary.stop()
        await standby.stop()


async def timeline(database: AsyncEngine) -> str:
    async with database.connect() as connection:
        return str((await connection.execute(text(f"SELECT {TIMELINE}"))).scalar_one())


async def fail_over(servers: Servers) -> None:
    """The primary is fenced first."""
    await servers.primary.stop()
    await servers.standby.start()
    await servers.standby.promote()


async def said(race: Race, cache: MemoryCache | RedisCache, locale: str = "en") -> tuple[str, str]:
    engine = race.engine_over(cache, Barriers())  # type: ignore[arg-type]
    return await race.said(engine, locale=locale)


@pytest.mark.timeout(180)
async def test_what_lost_commits_made_ends_with_the_failover(
    servers: Servers, redis_url: str, config: Settings
) -> None:
    """By the first mark of a writer, by the first fill of a build, and everywhere by the first
    heartbeat, whichever comes first in a workspace: each in a store of its own."""
    by_mark, by_fill = MemoryCache(), MemoryCache()
    name = (await Databases(servers.primary.url).create()).rpartition("/")[2]
    before = servers.engine(name, servers.primary)
    async with race_over(before, redis_url, config) as race:
        stores = (race.cache, by_mark, by_fill)
        await servers.standby.copy()
        assert (await race.services.tables.rename(ANA, "w", "t", name="Lost")).marked
        for cache in stores:
            for _ in range(2):  # the first may have to make the marks
                await said(race, cache)
            assert await said(race, cache) == ("Lost", "cache")
        first = await timeline(before)
        await before.dispose()
        await fail_over(servers)
        after = servers.engine(name, servers.standby)
        try:
            race = Race(race.settings, after, Barriers(), race.cache, race.other_cache)
            assert await timeline(after) != first
            for cache in stores:
                assert await said(race, cache) == ("Lost", "cache"), "it cannot know yet"
            await _mark(race, by_mark)
            assert await said(race, by_mark) == ("Orders", "build")
            assert await said(race, by_fill, "zh-CN") == ("Orders", "build")
            assert await said(race, by_fill) == ("Orders", "build")
            await _beat(race)
            assert await said(race, race.cache) == ("Orders", "build")
            assert await said(race, race.cache) == ("Orders", "build")  # the first made the marks
            assert await said(race, race.cache) == ("Orders", "cache")
        finally:
            await after.dispose()


async def _mark(race: Race, cache: MemoryCache) -> None:
    """Of what the answer does not depend on."""
    services = DomainServices(race.database, cache, ids_as_given=True)
    await services.tables.create(ANA, "w", name="Another", id="another")


async def _beat(race: Race) -> None:
    """Through all topics, until the consumer has been sent back and proves."""
    for _ in range(3):
        await race.relays()
        await race.heart_over(race.cache).beat()
        await race.consumes()


async def test_a_build_and_a_heart_read_the_timeline_that_is_written(
    database: AsyncEngine,
) -> None:
    """The same word for all who read it."""
    from context_engine.adapters.sql.reads import SqlDomain

    found = await timeline(database)
    facts = await SqlDomain(database).facts(Coordinates("nowhere", "nobody"), tail=0)
    waiting = await SqlOutbox(database).unpublished(10)
    assert waiting is not None
    assert facts.timeline == waiting.timeline == found == f"{int(found, 16):08X}"
