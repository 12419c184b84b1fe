"""Drawn workspaces in PostgreSQL: what is stored is what was drawn."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.settings import Settings
from tests.support.oracle import Loader, Workspace, canaries, canaries_in, workspaces
from tests.support.oracle.load import rows_for
from tests.support.stack import Databases
from tests.support.world import SECRET


@pytest.fixture(scope="module")
async def house(databases: Databases) -> AsyncIterator[AsyncEngine]:
    url = await databases.create()
    made = create_engine(Settings.model_validate({"database_url": url, "tag_secret": SECRET}))
    yield made
    await made.dispose()
    await databases.drop(url)


async def stored(database: AsyncEngine, table: object) -> int:
    async with database.connect() as connection:
        found = await connection.execute(select(func.count()).select_from(table))
        return int(found.scalar_one())


@given(workspace=workspaces())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
async def test_a_workspace_replaces_the_one_before(
    house: AsyncEngine, workspace: Workspace
) -> None:
    """Every row of the one drawn and none of another, the cells as they were drawn."""
    await Loader(house).load(workspace)
    wanted: dict[object, int] = {}
    for table, _ in rows_for(workspace):
        wanted[table] = wanted.get(table, 0) + 1
    for table in t.metadata.sorted_tables:
        assert await stored(house, table) == wanted.get(table, 0), table.name
    async with house.connect() as connection:
        found = await connection.execute(select(t.records.c.id, t.records.c.cells))
        cells = {row.id: row.cells for row in found}
    assert cells == {r.id: r.cells for table in workspace.tables for r in table.records}


@given(workspace=workspaces(), data=st.data())
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_a_name_has_a_canary_of_its_own(workspace: Workspace, data: st.DataObject) -> None:
    """So that a canary tells which place it came from, names apart from values."""
    known = canaries(workspace)
    named = [*workspace.users, *workspace.tables, *(f for t in workspace.tables for f in t.fields)]
    one = data.draw(st.sampled_from(named))
    (canary,) = canaries_in(one.name)
    assert len(known[canary]) == 1
    assert list(canaries_in(f"cny {one.name} cnyxyz")) == [canary]
