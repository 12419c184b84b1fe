"""What decides permission is looked up by keys: others' rights and other tables are not read."""

from __future__ import annotations

import json

from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.driver import Driver, driver_of
from context_engine.adapters.sql.reads import SqlReads
from context_engine.keys import Coordinates
from tests.support.world import World

READ = """
SELECT json_object_agg(relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::text
FROM pg_stat_xact_user_tables
"""
HERE = {"workspace_id": "w"}
ASKED = Coordinates("w", "bob", table_ids=("t0",), view_id="t0.v0", project_id="p", task_id="k")

MEMBERS, TEAMS, TABLES = 400, 50, 60


async def rows_read(driver: Driver) -> dict[str, int]:
    """Rows of each table that the statements read, which tell what decides for `ASKED`."""
    await driver.execute("BEGIN")
    before = await counters(driver)  # with what is not yet reported of transactions before
    reads = SqlReads(driver)
    facts = await reads.facts(ASKED, tail=20)
    await reads.tables(ASKED, facts, ASKED.table_ids)
    after = await counters(driver)
    await driver.execute("ROLLBACK")
    return {table: number - before[table] for table, number in after.items()}


async def counters(driver: Driver) -> dict[str, int]:
    found: dict[str, int] = json.loads((await driver.fetchrow(READ))[0])
    return found


async def crowd(world: World) -> None:
    """Members, teams, tables with fields and views, and each member's and team's rights."""
    tables = [f"c{n}" for n in range(TABLES)]
    teams, users = [f"x{n}" for n in range(TEAMS)], [f"m{n}" for n in range(MEMBERS)]
    who = [("user", id) for id in users] + [("team", id) for id in teams]
    some = [("t0", "table"), ("t0.v0", "view"), *((id, "table") for id in tables[:5])]
    grants = [
        {"subject_type": kind, "subject_id": id, "scope_type": type, "scope_id": scope, **HERE}
        | {"role": "viewer"}
        for kind, id in who
        for scope, type in some
    ]
    of = {"table_id": "t0", **HERE}
    rows = {
        t.users: [{"id": id, "name": id} for id in users],
        t.members: [{"user_id": id, "role": "viewer", **HERE} for id in users],
        t.teams: [{"id": id, "name": id, **HERE} for id in teams],
        t.team_members: [{"team_id": teams[0], "user_id": id, **HERE} for id in users],
        t.tables: [{"id": id, "name": id, **HERE} for id in tables],
        t.fields: [
            {"id": f"{id}.{n}", "table_id": id, "name": f"F{n}", "type": "text", **HERE}
            for id in tables
            for n in range(10)
        ],
        t.views: [
            {"id": f"{id}.v", "table_id": id, "name": "V", "type": "grid", **HERE} for id in tables
        ],
        t.field_permissions: [
            {"field_id": "t0.f1", "subject_type": kind, "subject_id": id, "level": "none", **of}
            for kind, id in who
        ],
        t.grants: grants,
    }
    async with world.database.begin() as connection:
        for table, added in rows.items():
            await connection.execute(insert(table), added)


async def test_what_is_read_does_not_grow_with_the_workspace(database: AsyncEngine) -> None:
    """Not a row more, by plans that were made when the database was empty and nothing known."""
    world = World(database)
    async with driver_of(database) as driver:
        await rows_read(driver)
        await world.furnish(tables=2)
        await world.add(t.teams, {"id": "a", "name": "A", **HERE})
        await world.add(t.team_members, {"team_id": "a", "user_id": "bob", **HERE})
        await world.add(t.projects, {"id": "p", "name": "P", **HERE})
        await world.add(t.tasks, {"id": "k", "title": "K", "project_id": "p", **HERE})
        few = await rows_read(driver)
        await crowd(world)
        many = await rows_read(driver)
    assert many == few
    assert few["members"] == 1
    assert few["fields"] > 0
