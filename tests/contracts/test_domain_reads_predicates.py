"""The compiler of predicates on real PostgreSQL, against a plain interpreter of the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from context_engine import policy
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.predicates import Binds, compile_predicate, predicate_sql
from tests.support import plain_policies as plain
from tests.support.stack import Databases
from tests.support.world import World

MISSING = object()
VALUES: list[Any] = [
    MISSING, None, "", " ", "a", "A", "aa", "b", "u1", "u12", "1", "é", "Z", "z", "中", "%", "a%b",
    0, 1, 1.0, 1.5, -2, 10, 2**70, True, False, [], ["u1"], ["u12"], ["u1", "u2"], ["u1", "u1"],
    [None], [1], ["1"], [True], [["u1"]], [{"u1": 1}], {}, {"u1": "u1"}, "2026-01-01",
]  # fmt: skip
"""One record for each, in field `f`."""
OPERANDS: list[Any] = [
    None, "", "a", "A", "u1", "u12", "1", "é", "Z", "中", "%", "_", 0, 1, 1.5, 10, 2**70, True,
    False, [], [None], ["u1"], ["u1", "u2"], ["u1", None], ["u1", 1], [1], [True], ["a", "b", "Z"],
    [["u1"]], [[]], {}, {"u1": "u1"}, "2026-01-01",
]  # fmt: skip
DAY = policy.OnDay(day=date(2026, 1, 1), tz="UTC")
OPS: tuple[policy.Op, ...] = (
    "eq", "ne", "in", "not_in", "has_any", "has_all", "has_none", "empty", "not_empty",
    "lt", "lte", "gt", "gte", "text_contains",
)  # fmt: skip


@dataclass(frozen=True)
class Rows:
    database: AsyncEngine
    all: dict[str, plain.Row]
    """Every record by id."""

    async def where(self, pred: policy.Pred) -> set[str]:
        """The records that PostgreSQL finds, and that it does not lose under NOT."""
        found = await self._ids(pred)
        rest = await self._ids(policy.Not(not_=pred))
        assert (found | rest, found & rest) == (set(self.all), set())
        return found

    async def _ids(self, pred: policy.Pred) -> set[str]:
        async with self.database.connect() as connection:
            return set((await connection.exec_driver_sql(*query_of(pred))).scalars())


def query_of(pred: policy.Pred) -> tuple[str, tuple[object, ...]]:
    binds = Binds()
    return f"SELECT id FROM records WHERE {predicate_sql(pred, binds)}", tuple(binds.values)


@pytest.fixture(scope="module")
async def rows(databases: Databases) -> AsyncIterator[Rows]:
    url = await databases.create()
    database = create_async_engine(url)
    world = World(database)
    await world.add(t.workspaces, {"id": "w", "name": "Work"})
    await world.add(t.tables, {"id": "t", "workspace_id": "w", "name": "T"})
    authors = [None, "u1", "u12", ""]
    days = [datetime(2026, 1, 1, 23, 59, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)]
    written = {
        f"r{n}": {
            "cells": {} if value is MISSING else {"f": value, "other": "u1"},
            "created_by": authors[n % 4],
            "updated_by": authors[n // 4 % 4],
            "created_at": days[n % 2],
        }
        for n, value in enumerate(VALUES)
    }
    await world.add(
        t.records,
        *({"id": id, "workspace_id": "w", "table_id": "t", **row} for id, row in written.items()),
    )
    yield Rows(database, {id: plain.Row(id, "t", **row) for id, row in written.items()})
    await database.dispose()
    await databases.drop(url)


def cmp(ref: str, op: policy.Op, operand: Any) -> policy.Pred:
    return policy.Cmp(
        cmp=policy.Comparison(ref=ref, op=op, operand=policy.Literal_(literal=operand))
    )


def expected(pred: policy.Pred, rows: Rows) -> set[str]:
    """What the plain interpreter says; nothing for what it cannot tell, which access denies."""
    return plain.World(rows.all).passing(pred, "t", plain.Person("u1")) or set()


# -- both --------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS)
async def test_fields_compare_as_the_interpreter_says(rows: Rows, op: policy.Op) -> None:
    """Every operator, over nulls, missing fields, mixed types, lists and scalars in lists."""
    for operand in OPERANDS:
        pred = cmp("field:f", op, operand)
        assert await rows.where(pred) == expected(pred, rows), operand


@pytest.mark.parametrize("op", OPS)
async def test_system_columns_compare_as_the_interpreter_says(rows: Rows, op: policy.Op) -> None:
    """`created_by`, `updated_by` and the date of creation, NULL in some."""
    for ref in ("sys:created_by", "sys:updated_by", "sys:created_at"):
        for operand in (None, "", "u1", "u12", [], ["u1", None], "2026-01-01", ["2026-01-02"], 1):
            pred = cmp(ref, op, operand)
            assert await rows.where(pred) == expected(pred, rows), (ref, operand)


@pytest.mark.parametrize(
    "raw",
    [
        {"all": []},
        {"any": []},
        {"not": {"any": []}},
        {"any": [{"cmp": {"ref": "field:f", "op": "eq", "operand": {"literal": "u1"}}}, False]},
        {
            "all": [
                {"not": {"cmp": {"ref": "field:f", "op": "gt", "operand": {"literal": "a"}}}},
                {"cmp": {"ref": "sys:created_by", "op": "ne", "operand": {"literal": "u1"}}},
            ]
        },
        {"not": {"not": {"cmp": {"ref": "field:nowhere", "op": "ne", "operand": {"literal": 1}}}}},
    ],
)
async def test_combinations_agree(rows: Rows, raw: Any) -> None:
    """`all`, `any` and `not`, empty and nested; an unknown field is a missing one."""
    pred = policy.parse(raw)
    assert await rows.where(pred) == expected(pred, rows)


async def test_what_has_no_rows_and_what_has_all(rows: Rows) -> None:
    """The pitfalls by name: NULL under NOT, empty lists, `u1` within `u12`, 1 and "1"."""
    everything = set(rows.all)
    missing = f"r{VALUES.index(MISSING)}"
    assert missing in await rows.where(cmp("field:f", "ne", "u1"))
    assert await rows.where(cmp("field:f", "in", [])) == set()
    assert await rows.where(cmp("field:f", "not_in", [])) == everything
    assert await rows.where(cmp("field:f", "has_all", [])) == set()
    assert await rows.where(cmp("field:f", "ne", None)) == set()
    u12 = {f"r{VALUES.index(['u12'])}"}
    assert not u12 & await rows.where(cmp("field:f", "has_any", ["u1"]))
    assert await rows.where(cmp("field:f", "eq", "1")) == {f"r{VALUES.index('1')}"}


async def test_the_same_condition_in_a_statement_of_sqlalchemy(rows: Rows) -> None:
    """Twice in one statement, beside others: no name of a parameter meets another."""
    one, other = cmp("field:f", "has_any", ["u1"]), cmp("sys:created_by", "in", ["u1", "u12"])
    both = select(t.records.c.id).where(
        t.records.c.table_id == "t", compile_predicate(one), compile_predicate(other)
    )
    async with rows.database.connect() as connection:
        found = set((await connection.execute(both)).scalars())
    assert found == expected(policy.All(all=(one, other)), rows)
    assert found


async def test_values_are_bound_and_shapes_are_few(rows: Rows) -> None:
    """No value stands in the statement, and the length of a list does not change it."""
    hostile = "x' OR true --"
    assert await rows.where(cmp("field:f", "eq", hostile)) == set()
    texts = {
        query_of(cmp(ref, "in", values))[0]
        for values in ([hostile], ["a", "b", "c"])
        for ref in ("field:f", f"field:{hostile}")
    }
    assert len(texts) == 1
    assert hostile not in texts.pop()


@pytest.mark.parametrize(
    ("op", "operand"), [("eq", "u1"), ("in", ["u1", "u2"]), ("has_any", "u1"), ("has_all", ["u1"])]
)
async def test_membership_can_use_the_index_on_cells(
    rows: Rows, op: policy.Op, operand: Any
) -> None:
    """ "Own rows" by an assignee need not read every record."""
    query, values = query_of(cmp("field:f", op, operand))
    async with rows.database.connect() as connection:
        await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = (await connection.exec_driver_sql(f"EXPLAIN {query}", values)).scalars().all()
    assert any("ix_records_cells" in line for line in plan), plan


async def test_own_rows_by_author_can_use_the_index_on_live_records(rows: Rows) -> None:
    """Such a count reads the user's own rows only."""
    query, values = query_of(cmp("sys:created_by", "eq", "u1"))
    live = f"{query} AND table_id = 't' AND deleted_at IS NULL"
    async with rows.database.connect() as connection:
        await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
        plan = (await connection.exec_driver_sql(f"EXPLAIN {live}", values)).scalars().all()
    assert any("created_by = ANY" in line for line in plan if "Index Cond" in line), plan


@pytest.mark.parametrize(
    "pred",
    [
        *(
            policy.parse({"cmp": {"ref": "field:f", "op": "eq", "operand": operand}})
            for operand in (
                {"user": "id"},
                {"now": {"unit": "today"}},
                {"attr": {"table": "t", "keyField": "k", "valueField": "v"}},
            )
        ),
        policy.Cmp(cmp=policy.Comparison(ref="field:f", op="in", operand=DAY)),
    ],
)
def test_what_is_not_resolved_is_refused(pred: policy.Pred) -> None:
    """Access has resolved or denied these; compiled to anything, they could open rows."""
    with pytest.raises(policy.Unresolvable):
        compile_predicate(pred)
