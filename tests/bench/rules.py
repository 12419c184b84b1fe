"""What rights cost: every kind of rule in force, beside none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from pydantic import JsonValue
from sqlalchemy import text

from context_engine.access.kept import DECISIONS
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.stored import TOLD
from context_engine.engine import ContextEngine, Options
from context_engine.models import ContextBuildInput
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from tests.support.world import Statements, World

BUILDS = 60
TABLES = 17
RECORDS = 100
Row = dict[str, Any]


async def rules(house: BenchHouse) -> list[Measure]:
    """Seventeen linked tables, with every kind of rule in force on each and with none."""
    for workspace in ("plain", "ruled"):
        await _seventeen(house.world, workspace)
    await _rule(house.world, "ruled")
    engine = house.parts.engine
    asked = {name: request(name, "u", _ids(name)) for name in ("plain", "ruled")}
    times = await _side_by_side(engine, asked)
    anew = await _side_by_side(engine, asked, _forget)
    statements = {name: await _reading(house, one) for name, one in asked.items()}
    fewer = await _reading(house, request("ruled", "u", _ids("ruled")[:1]))
    return [
        Measure(
            "every kind of rule, 17 tables / none",
            median(times["ruled"]),
            "ms",
            median(times["plain"]),
            "without rules",
            Goal("<=", 1.3),
            ratios=tuple(a / b for a, b in zip(times["ruled"], times["plain"], strict=True)),
        ),
        Measure(
            "the same, where the worker decides on these facts for the first time",
            median(anew["ruled"]),
            "ms",
            median(anew["plain"]),
            "without rules",
            ratios=tuple(a / b for a, b in zip(anew["ruled"], anew["plain"], strict=True)),
        ),
        Measure(
            "reading statements, every rule, 17 tables",
            statements["ruled"],
            "count",
            goal=Goal("<=", 6),
        ),
        Measure(
            "the same / of one table", statements["ruled"], "count", fewer, "1 table", Goal("<=", 1)
        ),
    ]


async def _side_by_side(
    engine: ContextEngine,
    asked: dict[str, ContextBuildInput],
    before: Callable[[], None] = lambda: None,
) -> dict[str, list[float]]:
    """Milliseconds of each, by turns, `before` each of which something is done."""
    for one in asked.values():
        await engine.build(one, Options(fresh=True))
    times: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(BUILDS):
        for name, one in asked.items():
            before()
            times[name].append(await timed(engine, one))
    return times


def _forget() -> None:
    """What this worker has read and decided before."""
    TOLD.forget()
    DECISIONS.forget()


def _ids(workspace: str) -> list[str]:
    return [f"{workspace}.t{n}" for n in range(TABLES)]


def request(workspace: str, user: str, tables: list[str], **more: Any) -> ContextBuildInput:
    return ContextBuildInput.model_validate(
        {"userId": user, "workspaceId": workspace, "tableIds": tables, **more}
    )


async def timed(engine: ContextEngine, one: ContextBuildInput) -> float:
    started = time.perf_counter()
    await engine.build(one, Options(fresh=True))
    return (time.perf_counter() - started) * 1000


async def _reading(house: BenchHouse, one: ContextBuildInput) -> int:
    async with Statements(house.parts.database) as statements:
        await house.parts.engine.build(one, Options(fresh=True))
    return len(statements.reading)


async def _seventeen(world: World, workspace: str) -> None:
    """Tables in a ring of links, with fields, views and records; `u` is an EDITOR in two teams."""
    await people(world, workspace, "u")
    here = {"workspace_id": workspace}
    ids = _ids(workspace)
    for n, id in enumerate(ids):
        after = ids[(n + 1) % TABLES]
        of = {**here, "table_id": id}
        await world.add(t.tables, {"id": id, "name": f"Table {n}", "position": n, **here})
        link = {"id": f"{id}.l", "name": "Next", "type": "link", "linked_table_id": after}
        await world.add(t.fields, *fields(id, of), {**link, "position": 20, **of})
        await world.add(
            t.views,
            *({"id": f"{id}.v{k}", "name": f"View {k}", "type": "grid", **of} for k in range(4)),
        )
        await world.add(t.records, *records(id, of))
    links = [
        {"field_id": f"{id}.l", "from_record_id": f"{id}.r{k}", "to_record_id": f"{to}.r{k}"}
        for id, to in zip(ids, (*ids[1:], ids[0]), strict=True)
        for k in range(RECORDS)
    ]
    await world.add(t.links, *({**one, **here} for one in links))
    await world.add(t.agents, {"id": f"{workspace}.a", "name": "A", "max_role": "editor", **here})


async def people(world: World, workspace: str, user: str) -> None:
    here = {"workspace_id": workspace}
    async with world.database.begin() as connection:
        known = text("SELECT 1 FROM users WHERE id = :id")
        if (await connection.execute(known, {"id": user})).first() is None:
            await connection.execute(t.users.insert(), {"id": user, "name": "U", "timezone": "UTC"})
    await world.add(t.workspaces, {"id": workspace, "name": workspace})
    await world.add(t.members, {"user_id": user, "role": "editor", **here})
    for team in ("a", "b"):
        await world.add(t.teams, {"id": f"{workspace}.{team}", "name": team, **here})
        await world.add(t.team_members, {"team_id": f"{workspace}.{team}", "user_id": user, **here})


def fields(id: str, of: Row) -> Iterator[Row]:
    for k in range(12):
        kind = ("text", "number", "date", "user")[k % 4]
        yield {"id": f"{id}.f{k}", "name": f"Field {k}", "type": kind, "position": k, **of} | {
            "primary": k == 0
        }


def records(id: str, of: Row) -> Iterator[Row]:
    for k in range(RECORDS):
        cells = {
            f"{id}.f0": f"Row {k}",
            f"{id}.f1": k,
            f"{id}.f2": f"2026-11-{k % 28 + 1:02}",
            f"{id}.f3": "u" if k % 2 else "x",
        }
        yield {"id": f"{id}.r{k}", "cells": cells, "created_by": "u" if k % 3 else "x", **of}


def cmp(ref: str, op: str, operand: JsonValue) -> JsonValue:
    return {"cmp": {"ref": ref, "op": op, "operand": operand}}


async def _rule(world: World, workspace: str) -> None:
    """On every table: policies of each kind, field permissions, and a granted restricted view."""
    here = {"workspace_id": workspace}
    ids = _ids(workspace)
    async with world.database.begin() as connection:
        await connection.execute(
            text("UPDATE tables SET policy_default = 'deny_all' WHERE workspace_id = :w"),
            {"w": workspace},
        )
    for n, id in enumerate(ids):
        after, of = ids[(n + 1) % TABLES], {**here, "table_id": id}
        attr: JsonValue = {
            "attr": {"table": ids[0], "keyField": f"{ids[0]}.f3", "valueField": f"{ids[0]}.f0"}
        }
        preds = {
            "own": cmp("sys:created_by", "eq", {"user": "id"}),
            "dated": cmp(f"field:{id}.f2", "lte", {"now": {"unit": "today"}}),
            "linked": {
                "linkedAny": {
                    "field": f"{id}.l",
                    "pred": cmp(f"field:{after}.f3", "eq", {"user": "id"}),
                }
            },
            "listed": cmp(f"field:{id}.f0", "in", attr),
        }
        subjects = {
            "own": {"type": "role", "id": "editor"},
            "dated": {"type": "team", "id": f"{workspace}.a"},
            "linked": {"type": "user", "id": "u"},
            "listed": {"type": "team", "id": f"{workspace}.b"},
        }
        await world.add(
            t.row_policies,
            *(
                {"id": f"{id}.{name}", "subjects": [subjects[name]], "pred": pred, **of}
                | {"mode": "restrictive" if name == "own" else "permissive"}
                for name, pred in preds.items()
            ),
        )
        await world.add(
            t.field_permissions,
            *(
                {"field_id": f"{id}.f{k}", "subject_type": kind, "subject_id": who, **of}
                | {"level": level}
                for k, (kind, who, level) in enumerate(
                    (
                        ("user", "u", "write"),
                        ("team", f"{workspace}.a", "read"),
                        ("role", "editor", "none"),
                    )
                )
            ),
        )
        view = {"id": f"{id}.r", "name": "Narrow", "type": "grid", "ownership": "restricted", **of}
        boundary = cmp(f"field:{id}.f1", "lt", {"literal": 50})
        await world.add(t.views, {**view, "filter": boundary, "hidden": [f"{id}.f5"]})
        grant = {"scope_id": f"{id}.r", "subject_type": "team", "subject_id": f"{workspace}.a"}
        await world.add(t.grants, {"scope_type": "view", "role": "viewer", **grant, **here})
