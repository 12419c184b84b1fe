"""The engine over PostgreSQL says what the rules say, section by section, and nothing else.

`AREA=access` in the environment asks for the long run, with `ACCESS_SEED` for one seen before.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, note, seed, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql.engine import create_engine
from context_engine.settings import Settings
from tests.support.oracle import Loader, Workspace, canaries_in, coordinates, requests, workspaces
from tests.support.oracle.house import House
from tests.support.stack import Databases
from tests.support.world import SECRET

LONG = os.environ.get("AREA") == "access"
EXAMPLES = int(os.environ.get("ACCESS_EXAMPLES") or (10_000 if LONG else 200))
SEED = int(os.environ.get("ACCESS_SEED") or (int.from_bytes(os.urandom(4)) if LONG else 0))
if LONG:
    print(f"seed {SEED}: ACCESS_SEED={SEED} repeats this run")
REQUESTS = 3
"""Of every user, in every workspace."""


@pytest.fixture(scope="module")
async def database(databases: Databases) -> AsyncIterator[AsyncEngine]:
    url = await databases.create()
    made = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    yield made
    await made.dispose()
    await databases.drop(url)


@pytest.mark.timeout(6 * 3600 if LONG else 300)
@seed(SEED)
@given(workspace=workspaces(), data=st.data())
@settings(
    max_examples=EXAMPLES,
    database=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
async def test_the_engine_says_what_the_rules_say(
    database: AsyncEngine, workspace: Workspace, data: st.DataObject
) -> None:
    """For every user and several requests, in sessions and out of them, built and out of the
    cache; no canary but those that the rules let out."""
    await Loader(database).load(workspace)
    house = await House.over(database, workspace)
    for user in workspace.users:
        if data.draw(st.booleans()):
            await house.remember("s", data.draw(coordinates(workspace, user.id, in_sight=False)))
        for _ in range(REQUESTS):
            request = data.draw(requests(workspace, user.id))
            note(f"seed {SEED}: {request}")
            async for found, said, wanted in house.asked(request):
                for section in sorted({*wanted, *found}):
                    assert found.get(section) == wanted.get(section), section
                assert set(canaries_in(said)) <= set(canaries_in(repr(wanted)))
