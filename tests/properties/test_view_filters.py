"""Filters of views in SQL say of every record what a plain interpreter says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from context_engine import policy
from context_engine import view_filters as f
from context_engine import view_values as v
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.predicates import Binds
from context_engine.adapters.sql.view_filters import view_filter_sql
from tests.support.plain_filters import Record, World
from tests.support.stack import Databases
from tests.support.world import World as Rows

NOW = datetime(2024, 3, 10, 23, 30, tzinfo=UTC)
"""The night before clocks change in New York, and already another day east of London."""
ZONES = ("UTC", "Europe/Brussels", "America/New_York", "Pacific/Kiritimati")
TABLES = ("a", "b", "c")
LINKS = {("a", "b"): "ab", ("b", "c"): "bc", ("a", "a"): "aa", ("c", "a"): "ca"}
"""Link fields by the tables that they lead from and to."""
KINDS: tuple[v.Kind, ...] = ("text", "number", "boolean", "date", "time")

TEXTS = ["", " ", "a", "A", "b", "ä", "中", "1", "%", "2024-03-10"]
NUMBERS: list[int | float] = [0, 1, 1.5, -2, 10, 0.1, 2**60]
DAYS = [(NOW + timedelta(days=n)).date().isoformat() for n in (-400, -40, -8, -1, 0, 1, 2, 31, 300)]
TIMES = [
    (NOW + timedelta(hours=n)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    for n in (-800, -24, -1, 0, 1, 9, 24)
]
CELLS: dict[v.Kind, list[Any]] = {
    "text": [*TEXTS, None, 1, True, []],
    "number": [*NUMBERS, None, "1", False],
    "boolean": [True, False, None, "true", 1],
    "date": [*DAYS, None, "", "1", "2024-02-30", TIMES[3], "Z"],
    "time": [*TIMES, None, DAYS[4], "yesterday", "infinity", "2024-03-10T23:30", "1"],
}
"""What may stand in the cell of a field named after its kind: values of other types too."""


def records() -> dict[str, Record]:
    """Every kind of cell, in three tables, some records deleted."""
    made = {}
    for table in TABLES:
        for n in range(21):
            cells = {
                kind: values[(n * 3 + len(kind)) % len(values)]
                for kind, values in CELLS.items()
                if (n + len(kind)) % 7
            }
            id = f"{table}{n}"
            at = NOW + timedelta(hours=7 * n - 40)
            made[id] = Record(id, table, cells, at, deleted=n == 5)
    return made


def links() -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for (start, end), field in LINKS.items():
        for n in range(21):
            to = [f"{end}{(n * k + k) % 21}" for k in range(1, n % 4 + 1)]
            found[field, f"{start}{n}"] = list(dict.fromkeys(to))
    return found


@dataclass(frozen=True)
class House:
    database: AsyncEngine

    async def passing(self, prepared: f.Prepared) -> set[str]:
        binds = Binds()
        where = view_filter_sql(prepared, binds)
        query = f"SELECT id FROM records WHERE table_id = 'a' AND deleted_at IS NULL AND {where}"
        async with self.database.connect() as connection:
            found = await connection.exec_driver_sql(query, tuple(binds.values))
            return set(found.scalars())


@pytest.fixture(scope="module")
async def house(databases: Databases) -> AsyncIterator[House]:
    url = await databases.create()
    database = create_async_engine(url, connect_args={"server_settings": {"TimeZone": "UTC"}})
    rows = Rows(database)
    await rows.add(t.workspaces, {"id": "w", "name": "W"})
    for table in TABLES:
        await rows.add(t.tables, {"id": table, "workspace_id": "w", "name": table})
    for (start, end), field in LINKS.items():
        await rows.add(
            t.fields,
            {"id": field, "workspace_id": "w", "table_id": start, "name": field, "type": "link",
             "linked_table_id": end},
        )  # fmt: skip
    for one in records().values():
        await rows.add(
            t.records,
            {"id": one.id, "workspace_id": "w", "table_id": one.table, "cells": one.cells,
             "created_at": one.created_at, "deleted_at": NOW if one.deleted else None},
        )  # fmt: skip
    for (field, start), ends in links().items():
        for end in ends:
            await rows.add(
                t.links,
                {"field_id": field, "from_record_id": start, "to_record_id": end,
                 "workspace_id": "w"},
            )  # fmt: skip
    yield House(database)
    await database.dispose()
    await databases.drop(url)


# -- filters of all shapes ---------------------------------------------------------------------


@st.composite
def values(draw: st.DrawFn, table: str = "a", depth: int = 0) -> v.Value:
    """A value of a record of `table`, along links to wherever they lead."""
    shapes = ["stored", "stored", "system", "count", "lookup", "rollup"]
    shape = draw(st.sampled_from(shapes[:3] if depth > 2 else shapes))
    if shape == "stored":
        kind = draw(st.sampled_from(KINDS))
        return v.Stored(cell=kind, kind=kind)
    if shape == "system":
        return draw(st.sampled_from([v.System(system="created_at"), v.RowId(row_id=True)]))
    end, field = draw(st.sampled_from([(b, f) for (a, b), f in LINKS.items() if a == table]))
    step = v.Step(field=field, table=end)
    if shape == "count":
        return v.Count(count=step)
    inner = draw(values(end, depth + 1))
    if shape == "lookup":
        return v.Lookup(lookup=v.Each(step=step, value=inner))
    functions: tuple[v.Function, ...] = ("min", "max", "sum", "avg", "any", "every")
    fitting = [one for one in functions if v.function_fits(one, v.kind_of(inner))]
    return v.Rollup(
        rollup=v.Rolled(step=step, value=inner, function=draw(st.sampled_from(fitting)))
    )


@st.composite
def fitting(draw: st.DrawFn, value: v.Value) -> f.Test:
    """A test that fits the value."""
    emptiness: st.SearchStrategy[f.Test] = st.builds(
        f.Emptiness, op=st.sampled_from(["empty", "not_empty"])
    )
    kind = v.kind_of(value)
    if v.is_list(value) or kind == "id":
        return draw(emptiness)
    if kind == "boolean":
        return draw(emptiness | st.builds(f.Is, op=st.just("is"), to=st.booleans()))
    if kind in ("date", "time"):
        return draw(emptiness | st.builds(f.InDays, op=st.sampled_from(DATE_OPS), days=days()))
    if kind == "text":
        ops = st.sampled_from(["equal", "not_equal"])
        return draw(emptiness | st.builds(f.Compare, op=ops, to=st.sampled_from(TEXTS)))
    ops = st.sampled_from([*NUMBER_OPS, "equal", "not_equal"])
    return draw(emptiness | st.builds(f.Compare, op=ops, to=st.sampled_from([*NUMBERS, 2, 3])))


DATE_OPS: tuple[f.DateOp, ...] = (
    "date_is", "date_is_before", "date_is_on_or_before", "date_is_after", "date_is_on_or_after",
)  # fmt: skip
NUMBER_OPS: tuple[f.NumberOp, ...] = (
    "higher_than", "higher_than_or_equal", "lower_than", "lower_than_or_equal",
)  # fmt: skip


def days() -> st.SearchStrategy[f.Days]:
    return st.builds(
        f.Days,
        tz=st.sampled_from(ZONES),
        exact=st.none() | st.sampled_from(DAYS).map(lambda day: datetime.fromisoformat(day).date()),
        unit=st.sampled_from(["day", "week", "month", "year"]),
        shift=st.integers(-14, 14),
    )


@st.composite
def conditions(draw: st.DrawFn) -> f.Filter:
    value = draw(values())
    return f.Condition(field="any", value=value, test=draw(fitting(value)))


def filters() -> st.SearchStrategy[f.Filter]:
    def groups(inner: st.SearchStrategy[f.Filter]) -> st.SearchStrategy[f.Filter]:
        parts = st.lists(inner, max_size=3).map(tuple)
        return st.builds(f.Every, every=parts) | st.builds(f.Some, some=parts)

    return st.recursive(conditions(), groups, max_leaves=5)


def seen_rows(number: int) -> policy.Pred:
    """Rows that are in sight: all, none, or those whose boolean is true."""
    mine = policy.Comparison(ref="field:boolean", op="eq", operand=policy.Literal_(literal=True))
    return (True, False, policy.Cmp(cmp=mine))[number]


def sees(record: Record, rows: policy.Pred) -> bool:
    return rows if isinstance(rows, bool) else record.cells.get("boolean") is True


@given(filter=filters(), sight=st.tuples(*[st.integers(0, 2)] * 3))
@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_sql_and_the_interpreter_agree(
    house: House, filter: f.Filter, sight: tuple[int, int, int]
) -> None:
    """Every operator, over cells and computed values, in nested groups, whatever is in sight;
    and a filter means the same after it was stored and read again."""
    stored = f.Envelope(where=filter).model_dump(mode="json", exclude_defaults=True)
    assert f.parse(json.loads(json.dumps(stored))) == filter
    assert f.unavailable(filter) is None
    rows = {table: seen_rows(n) for table, n in zip(TABLES, sight, strict=True)}
    world = World(records(), links(), lambda r: sees(r, rows[r.table]), NOW)
    sights = {table: (f.RowSet(pred),) for table, pred in rows.items()}
    prepared = f.Prepared(filter, NOW, sights, frozenset(), None)
    assert await house.passing(prepared) == {
        id
        for id, one in world.records.items()
        if one.table == "a" and not one.deleted and world.passes(filter, one)
    }


@given(days=days(), hours=st.integers(0, 24 * 400))
def test_nothing_turns_before_the_next_midnight(days: f.Days, hours: int) -> None:
    """A span of days is the same at every moment until `next_midnight`; there today is another."""
    now = NOW + timedelta(hours=hours)
    until = f.next_midnight(days.tz, now)
    assert now < until <= now + timedelta(hours=25)
    assert f.span(days, until - timedelta(seconds=1)) == f.span(days, now)
    tomorrow = f.Days(tz=days.tz, shift=1)
    assert f.span(f.Days(tz=days.tz), until) == f.span(tomorrow, now)
