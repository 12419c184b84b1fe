"""What size costs: many records beside few, a large workspace beside a small one."""

from __future__ import annotations

from statistics import median

import asyncpg
from pydantic import JsonValue

from context_engine.adapters.sql import tables as t
from context_engine.engine import Options
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from tests.bench.rules import BUILDS, cmp, fields, people, records, request, timed
from tests.support.world import World

MANY, FEW = 1_000_000, 10_000
MINE = 50
"""Records of either table that the policy shows."""

# -- many records ------------------------------------------------------------------------------

OPERATORS: dict[str, JsonValue] = {
    "eq": cmp("field:{}.owner", "eq", {"user": "id"}),
    "in": cmp("field:{}.owner", "in", {"user": "team_ids"}),
    "has_any": cmp("field:{}.team", "has_any", {"user": "id"}),
    "has_all": cmp("field:{}.team", "has_all", {"literal": ["u", "t"]}),
}
"""Operators that an index answers. Each shows the same few rows of either table."""


FILL = """
INSERT INTO records (id, workspace_id, table_id, cells)
SELECT $1 || n, 'big', $1, jsonb_build_object(
    $1 || '.name', 'Row ' || n,
    $1 || '.owner', CASE n % $3 WHEN 0 THEN 'u' WHEN 1 THEN 'big.a' ELSE 'x' || n % 1000 END,
    $1 || '.team', CASE n % $3 WHEN 0 THEN '["u", "t"]'::jsonb ELSE '["x", "y"]'::jsonb END,
    $1 || '.n', n)
FROM generate_series(1, $2::int) AS n"""


async def million(house: BenchHouse) -> list[Measure]:
    """A table of a million records beside one of ten thousand, a policy on one field."""
    world, engine = house.world, house.parts.engine
    await people(world, "big", "u")
    tables = {"few": FEW, "many": MANY}
    url = house.settings.database_url.get_secret_value()
    for id, count in tables.items():
        await _filled(world, url, id, count)
    found, slowest = [], 0.0
    for op, pred in OPERATORS.items():
        for id in tables:
            await _policy(world, id, pred)
        times: dict[str, list[float]] = {id: [] for id in tables}
        for _ in range(BUILDS // 2):
            for id in tables:
                times[id].append(await timed(engine, request("big", "u", [id])))
        slowest = max(slowest, *times["many"])
        found.append(
            Measure(
                f"1,000,000 records / 10,000, policy by {op}",
                median(times["many"]),
                "ms",
                median(times["few"]),
                "10,000",
                Goal("<=", 3.0),
            )
        )
    await _policy(world, "many", True)
    open_to_all = median([await timed(engine, request("big", "u", ["many"])) for _ in range(10)])
    found.append(Measure("1,000,000 records, all in sight: 10,000+", open_to_all, "ms"))
    found.append(Measure("1,000,000 records: slowest build", slowest, "ms", goal=Goal("<=", 500.0)))
    return found


async def _filled(world: World, url: str, id: str, count: int) -> None:
    of = {"workspace_id": "big", "table_id": id}
    await world.add(t.tables, {"id": id, "name": id, "workspace_id": "big"})
    kinds = {"name": "text", "owner": "user", "team": "multi_select", "n": "number"}
    await world.add(
        t.fields,
        *(
            {"id": f"{id}.{name}", "name": name, "type": kind, "primary": name == "name", **of}
            for name, kind in kinds.items()
        ),
    )
    # By a connection of its own: those of the engine give up long before.
    connection = await asyncpg.connect(url.replace("+asyncpg", ""))
    try:
        await connection.execute(FILL, id, count, count // MINE)
        await connection.execute("VACUUM ANALYZE records")
    finally:
        await connection.close()


async def _policy(world: World, table: str, pred: JsonValue) -> None:
    stored = _spelled(pred, table)
    async with world.database.begin() as connection:
        await connection.execute(t.row_policies.delete().where(t.row_policies.c.table_id == table))
        await connection.execute(
            t.row_policies.insert(),
            {
                "id": f"{table}.policy",
                "workspace_id": "big",
                "table_id": table,
                "subjects": [{"type": "role", "id": "editor"}],
                "pred": stored,
                "mode": "restrictive",
            },
        )


def _spelled(pred: JsonValue, table: str) -> JsonValue:
    """`pred`, with the table's name in its references."""
    match pred:
        case dict():
            return {name: _spelled(one, table) for name, one in pred.items()}
        case str():
            return pred.replace("{}", table)
        case _:
            return pred


# -- a large workspace -------------------------------------------------------------------------

MEMBERS, TEAMS, WIDE, GRANTS = 2_000, 200, 500, 20_000


async def large(house: BenchHouse) -> list[Measure]:
    """One table of a workspace with many members, teams, tables and grants, and of a small one."""
    world, engine = house.world, house.parts.engine
    for workspace in ("small", "large"):
        await people(world, workspace, "u")
        await _simple(world, workspace, 2 if workspace == "small" else WIDE)
    await _crowd(world, "large")
    asked = {name: request(name, "u", [f"{name}.t0"]) for name in ("small", "large")}
    times: dict[str, list[float]] = {name: [] for name in asked}
    for one in asked.values():
        await engine.build(one, Options(fresh=True))
    for _ in range(BUILDS):
        for name, one in asked.items():
            times[name].append(await timed(engine, one))
    return [
        Measure(
            f"{MEMBERS:,} members, {TEAMS} teams, {WIDE} tables, {GRANTS:,} grants / a few",
            median(times["large"]),
            "ms",
            median(times["small"]),
            "a small workspace",
            Goal("<=", 1.5),
            ratios=tuple(a / b for a, b in zip(times["large"], times["small"], strict=True)),
        )
    ]


async def _simple(world: World, workspace: str, tables: int) -> None:
    for n in range(tables):
        id, here = f"{workspace}.t{n}", {"workspace_id": workspace}
        of = {**here, "table_id": id}
        await world.add(t.tables, {"id": id, "name": f"Table {n}", "position": n, **here})
        await world.add(t.fields, *fields(id, of))
        await world.add(t.views, {"id": f"{id}.v", "name": "View", "type": "grid", **of})
        if n == 0:
            await world.add(t.records, *records(id, of))


async def _crowd(world: World, workspace: str) -> None:
    here = {"workspace_id": workspace}
    async with world.database.begin() as connection:
        users = [{"id": f"m{n}", "name": f"Member {n}"} for n in range(MEMBERS)]
        await connection.execute(t.users.insert(), users)
        members = [{"user_id": one["id"], "role": "viewer", **here} for one in users]
        await connection.execute(t.members.insert(), members)
        teams = [{"id": f"crowd{n}", "name": f"Team {n}", **here} for n in range(TEAMS)]
        await connection.execute(t.teams.insert(), teams)
        joined = [
            {"team_id": f"crowd{n % TEAMS}", "user_id": one["id"], **here}
            for n, one in enumerate(users)
        ]
        joined += [{"team_id": f"crowd{n}", "user_id": "u", **here} for n in range(5)]
        await connection.execute(t.team_members.insert(), joined)
        of_teams = [
            ("team", f"crowd{n // WIDE * 50 + n % 50}", n % WIDE) for n in range(GRANTS // 10)
        ]
        of_users = [
            ("user", f"m{n // WIDE * 50 + n % 50}", n % WIDE) for n in range(GRANTS * 9 // 10)
        ]
        grants = [
            {"scope_type": "table", "scope_id": f"{workspace}.t{n}", "subject_type": kind}
            | {"subject_id": who, "role": "editor", **here}
            for kind, who, n in (*of_teams, *of_users)
        ]
        await connection.execute(t.grants.insert(), grants)
