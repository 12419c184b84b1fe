"""The whole house over PostgreSQL, in any order of everybody's steps: each answer is what a build
from scratch says in a state that has every change which the request was owed.

`AREA=freshness` asks for the long run: `FRESHNESS_MINUTES` (30), by `FRESHNESS_SEED`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import flights
from context_engine.adapters.sql.engine import create_engine
from context_engine.settings import Settings
from tests.properties.freshness.machine import Freshness
from tests.properties.freshness.steps import Watched
from tests.properties.freshness.workspace import Rows, furnished
from tests.support.stack import Databases
from tests.support.world import SECRET
from workers import heartbeat

EXPLORE = settings(
    max_examples=25,
    stateful_step_count=40,
    deadline=None,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
async def url(databases: Databases) -> AsyncIterator[str]:
    made = await databases.create()
    yield made
    await databases.drop(made)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """For steps taken one by one from code that does not await."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(scope="module")
def database(url: str, loop: asyncio.AbstractEventLoop) -> Iterator[AsyncEngine]:
    made = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    yield made
    loop.run_until_complete(made.dispose())


@pytest.fixture(scope="module")
def rows(database: AsyncEngine, loop: asyncio.AbstractEventLoop) -> Rows:
    return loop.run_until_complete(furnished(database))


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits by a clock for another's step."""
    monkeypatch.setattr(flights, "Flight", Watched)
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0)


def machine(base: type[Freshness], loop, database, rows) -> type[Freshness]:  # type: ignore[no-untyped-def]
    class Made(base):  # type: ignore[misc,valid-type]
        pass

    Made.loop, Made.database, Made.rows = loop, database, rows
    Made.told, Made.seen = Counter(), set()
    return Made


def test_nothing_older_than_what_was_owed_is_served(
    loop: asyncio.AbstractEventLoop, database: AsyncEngine, rows: Rows
) -> None:
    made = machine(Freshness, loop, database, rows)
    began = time.monotonic()
    try:
        run_state_machine_as_test(made, settings=EXPLORE)
    finally:
        print(made.told, len(made.seen), time.monotonic() - began)
