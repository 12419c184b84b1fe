"""What time tells of a table out of sight: cold and cached denials of hidden and missing tables."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import Table, insert, text

from context_engine.adapters.sql import tables as t
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound
from context_engine.models import ContextBuildInput
from tests.bench.house import BenchHouse
from tests.bench.report import Goal, Measure
from tests.support.world import OWN_ROWS, World

EACH = 1_000
"""Tables that are there and out of sight, and as many that are nowhere."""

OF_ONE = 20
"""Hidden tables that one user asks for: whoever has many grants waits for them, hidden or not."""

WARM_UP = 200
FIELDS, VIEWS, POLICIES, RECORDS = 16, 3, 3, 20
"""What each of the hidden tables has."""

MOST = 0.55
"""Share of tables that a single look at the clock may tell apart; 0.5 is a coin's."""

Timed = dict[str, float]
"""Milliseconds by table id."""


async def denied(house: BenchHouse) -> list[Measure]:
    """Asked for once each, in one shuffled row, and then again out of the cache."""
    ways = {
        "by a grant of none": await _hide(house.world, "viewer", grants=True),
        "without any grant": await _hide(house.world, "none", grants=False),
    }
    found = []
    for way, hidden in ways.items():
        missing = {_id(): user for user in hidden.values()}
        warm = {_id(): user for user in islice(hidden.values(), WARM_UP)}
        await _timed(house.parts.engine, warm)
        for when in ("cold", "cached"):
            times = await _timed(house.parts.engine, hidden | missing)
            found += _measures(
                f"denied, {when}, {way}",
                [times[id] for id in hidden],
                [times[id] for id in missing],
            )
    return found


def _measures(name: str, hidden: Sequence[float], missing: Sequence[float]) -> list[Measure]:
    middle = len(hidden) // 2
    return [
        Measure(
            f"{name}: told apart by time",
            told_apart(hidden, missing),
            "of tables",
            goal=Goal("<=", MOST),
        ),
        Measure(
            f"{name}: p50 of hidden / missing",
            sorted(hidden)[middle],
            "ms",
            sorted(missing)[middle],
            "missing",
        ),
    ]


def told_apart(first: Sequence[float], second: Sequence[float]) -> float:
    """Share of two samples that the best threshold sorts right, whichever side is whose.

    0.5 tells nothing; samples of one distribution come out a little higher: about 0.52 for a
    thousand each.
    """
    marked = sorted([(x, 1 / len(first)) for x in first] + [(x, -1 / len(second)) for x in second])
    farthest = ahead = 0.0
    for place, (value, weight) in enumerate(marked, start=1):
        ahead += weight
        if place == len(marked) or marked[place][0] != value:
            farthest = max(farthest, abs(ahead))
    return 0.5 + farthest / 2


async def _timed(engine: ContextEngine, tables: Mapping[str, str]) -> Timed:
    """Milliseconds of each refusal, one at a time, in an order that tells nothing.

    `tables`: the user who asks, by table id.
    """
    order, times = list(tables), {}
    random.shuffle(order)
    for table in order:
        asked = ContextBuildInput(user_id=tables[table], workspace_id="w", table_ids=(table,))
        await asyncio.sleep(0)  # what the last request left to do is not this one's time
        started = time.perf_counter_ns()
        try:
            await engine.build(asked)
        except NotFound:
            times[table] = (time.perf_counter_ns() - started) / 1e6
    if len(times) != len(tables):
        raise RuntimeError(f"{len(tables) - len(times)} tables were in sight")
    return times


def _id() -> str:
    """Of a table that is there or of one that is not: who guesses ids guesses such as there are."""
    return f"h{random.randbytes(8).hex()}"


async def _hide(world: World, role: str, *, grants: bool) -> Mapping[str, str]:
    """Tables with fields, views, policies and rows, each with a user who does not see it.

    The users have `role` in the workspace and, with `grants`, one of none on each of their tables.
    """
    here = {"workspace_id": "w"}
    users = [f"u{random.randbytes(8).hex()}" for _ in range(EACH // OF_ONE)]
    ids = [_id() for _ in range(EACH)]
    theirs = {id: users[n % len(users)] for n, id in enumerate(ids)}
    async with world.database.begin() as connection:
        await connection.execute(insert(t.users), [{"id": id, "name": id} for id in users])
        await connection.execute(
            insert(t.members), [{"user_id": id, "role": role, **here} for id in users]
        )
        await connection.execute(
            insert(t.tables), [{"id": id, "name": f"Hidden {id}", **here} for id in ids]
        )
        if grants:
            none = {"scope_type": "table", "subject_type": "user", "role": "none", **here}
            await connection.execute(
                insert(t.grants),
                [{"scope_id": id, "subject_id": user, **none} for id, user in theirs.items()],
            )
        for start in range(0, EACH, 100):
            for table, rows in _inside(ids[start : start + 100]):
                await connection.execute(insert(table), [row | here for row in rows])
        await connection.execute(text("ANALYZE"))
    return theirs


def _inside(ids: Sequence[str]) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    yield t.fields, [
        {"id": f"{id}f{n}", "table_id": id, "name": f"Field {n}", "type": "text",
         "primary": n == 0, "position": n}
        for id in ids for n in range(FIELDS)
    ]  # fmt: skip
    yield t.views, [
        {"id": f"{id}v{n}", "table_id": id, "name": f"View {n}", "type": "grid",
         "field_order": [f"{id}f{n}" for n in range(FIELDS)]}
        for id in ids for n in range(VIEWS)
    ]  # fmt: skip
    yield t.row_policies, [
        {"id": f"{id}p{n}", "table_id": id, "subjects": [{"type": "role", "id": "viewer"}],
         "pred": OWN_ROWS, "mode": "restrictive"}
        for id in ids for n in range(POLICIES)
    ]  # fmt: skip
    yield t.records, [
        {"id": f"{id}r{n}", "table_id": id, "cells": {f"{id}f0": str(n)}, "created_by": "ana"}
        for id in ids for n in range(RECORDS)
    ]  # fmt: skip
