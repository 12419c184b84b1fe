"""Counts: up to a cap, in one statement; where that takes too long, as many as time allows."""

from __future__ import annotations

import pytest
from pydantic import JsonValue
from sqlalchemy import text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import counts as c
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain, SqlReads
from context_engine.keys import Coordinates
from context_engine.models.sections import Count
from context_engine.ports import Counts
from context_engine.reading import visible
from tests.support.world import Statements, World


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish(tables=2)
    return made


def at(*tables: str, **more: str) -> Coordinates:
    return Coordinates("w", "ana", table_ids=tables, **more)  # type: ignore[arg-type]


async def counted(domain: SqlDomain, where: Coordinates) -> Counts:
    async with domain.snapshot() as reads:
        return await reads.counts(await visible(reads, where))


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        (9, Count(value=9, exact=False)),
        (10, Count(value=10, exact=True)),
        (11, Count(value=10, exact=True)),
    ],
)
async def test_a_count_is_exact_up_to_the_cap(world: World, cap: int, said: Count) -> None:
    """Beyond it there are more, and nobody counted how many."""
    found = await counted(SqlDomain(world.database, count_cap=cap), at("t0"))
    assert found.tables["t0"] == said
    assert not found.passing


async def _slow(world: World) -> None:
    """Whoever reads rows of `t1` waits for each: a rule of the database's own, behind our back."""
    async with world.database.begin() as connection:
        await connection.execute(text("ALTER TABLE records RENAME TO stored_records"))
        await connection.execute(
            text(
                "CREATE VIEW records AS SELECT * FROM stored_records"
                " WHERE table_id <> 't1' OR pg_sleep(0.2) IS NOT NULL"
            )
        )


async def test_what_takes_too_long_is_missing_and_the_rest_is_there(world: World) -> None:
    """Asked for one by one, in the same snapshot and within a time for all; none over its bound."""
    await world.add(t.projects, {"id": "p", "name": "P", "workspace_id": "w"})
    domain = SqlDomain(world.database)
    await _slow(world)
    async with Statements(world.database) as statements:
        found = await counted(domain, at("t0", "t1", project_id="p"))
    assert found.passing
    assert found.tables["t0"] == Count.of(10)
    assert found.tables["t1"] == Count.missing(c.TOO_SLOW)
    assert found.project_tasks == Count.of(0)
    assert len([one for one in statements.seen if "count(*)" in one]) >= 3


async def test_what_is_denied_for_want_of_time_has_no_count(world: World) -> None:
    """What a rule asks of the user is not known then, so neither is a number."""
    attr = {"table": "t1", "keyField": "t1.f0", "valueField": "t1.f1"}
    pred = {"cmp": {"ref": "field:t0.f0", "op": "in", "operand": {"attr": attr}}}
    rule = {"id": "p", "subjects": [{"type": "role", "id": "admin"}], "mode": "restrictive"}
    await world.add(t.row_policies, {**rule, "pred": pred, "workspace_id": "w", "table_id": "t0"})
    domain = SqlDomain(world.database)
    assert (await counted(domain, at("t0"))).tables["t0"] == Count.of(0)
    await _slow(world)
    async with domain.snapshot() as reads:
        scope = await visible(reads, at("t0"))
        found = await reads.counts(scope)
    assert found.tables["t0"] == Count.missing(c.TOO_SLOW)
    assert scope.passing


async def test_the_time_for_all_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With none left, nothing more is asked, and what is not had says so."""
    monkeypatch.setattr(c, "ONE_BY_ONE_MS", 0)
    await _slow(world)
    found = await counted(SqlDomain(world.database), at("t0", "t1"))
    assert found.tables == dict.fromkeys(("t0", "t1"), Count.missing(c.TOO_SLOW))


async def test_a_write_keeps_its_own_time(world: World) -> None:
    """Rights that are read within it do not shorten what follows."""
    async with world.database.connect() as connection:
        before = await connection.scalar(text("SHOW statement_timeout"))
        await visible(SqlReads.within(connection), at("t0"))
        assert await connection.scalar(text("SHOW statement_timeout")) == before


async def _linked(world: World) -> None:
    """Every record of `t0` links to one of `t1`; three of them to one that is deleted."""
    here = {"workspace_id": "w"}
    link = {"id": "l", "name": "L", "type": "link", "table_id": "t0", "linked_table_id": "t1"}
    await world.add(t.fields, {**link, **here})
    ends = [{"from_record_id": f"t0.r{n}", "to_record_id": f"t1.r{n}"} for n in range(10)]
    await world.add(t.links, *({"field_id": "l", **one, **here} for one in ends))
    async with world.database.begin() as connection:
        gone = "UPDATE records SET deleted_at = now() WHERE id IN ('t1.r0', 't1.r1', 't1.r2')"
        await connection.execute(text(gone))


@pytest.mark.parametrize(
    ("cap", "links", "statements"),
    [(100, Count.of(7), 3), (8, Count.of(7), 4), (6, Count.at_least(6), 4)],
)
async def test_links_are_exact_up_to_the_cap_though_their_tables_are_larger(
    world: World, cap: int, links: Count, statements: int
) -> None:
    """Where a table has more rows than are looked at, its links ask row by row: one more
    statement."""
    await _linked(world)
    async with Statements(world.database) as seen:
        found = await counted(SqlDomain(world.database, count_cap=cap), at("t0", "t1"))
    assert found.links["l"] == links
    assert found.tables["t1"] == (Count.of(7) if cap > 6 else Count.at_least(6))
    assert len(seen.reading) == statements


async def test_counts_that_took_long_are_asked_for_in_another_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links row by row first, which is planned in no time; then by all rows that they lead from,
    where they took long twice running. They say the same."""
    await _linked(world)
    pred = {"not": {"linkedAny": {"field": "l", "pred": True}}}
    of = {"workspace_id": "w", "table_id": "t0", "mode": "restrictive"}
    subjects = [{"type": "role", "id": "admin"}]
    await world.add(t.row_policies, {"id": "p", "pred": pred, "subjects": subjects, **of})
    domain, ways = SqlDomain(world.database), []
    for limit in (10_000, -1, 10_000, -1, -1, 10_000, 10_000):
        monkeypatch.setattr(c, "LONG_MS", limit)
        async with Statements(world.database) as seen:
            found = await counted(domain, at("t0"))
        assert found.tables["t0"] == Count.of(3)
        (asked,) = [one for one in seen.seen if "count(*)" in one and "seen_0" in one]
        ways.append("EXISTS (SELECT FROM links" in asked)
    assert ways == [True, True, True, True, True, False, False]


@pytest.mark.parametrize("by_row", [True, False])
async def test_a_filter_along_a_link_counts_by_the_linked_rows_in_sight(
    world: World, monkeypatch: pytest.MonkeyPatch, by_row: bool
) -> None:
    """Those that a restricted view shows, whichever language its filter is written in: of the
    seven linked rows that are there, three."""
    await _linked(world)
    even: dict[str, JsonValue] = {"field": "t1.f1", "value": {"cell": "t1.f1", "kind": "text"}}
    bound = {"where": {**even, "test": {"op": "equal", "to": "even"}}}
    only = {"id": "only", "table_id": "t1", "ownership": "restricted", "filter": bound}
    bob = {"workspace_id": "w", "subject_type": "user", "subject_id": "bob"}
    await world.add(t.views, {"name": "Even", "type": "grid", "workspace_id": "w", **only})
    shut = {"scope_type": "table", "scope_id": "t1", "role": "none"}
    shown = {"scope_type": "view", "scope_id": "only", "role": "viewer"}
    await world.add(t.grants, {**bob, **shut}, {**bob, **shown})
    led: dict[str, JsonValue] = {"linkedAny": {"field": "l", "pred": True}}
    domain = SqlDomain(world.database)
    for filter, number in ((led, 3), ({"not": led}, 7), ({"all": [led, {"not": led}]}, 0)):
        for limit in () if by_row else (-1, -1):  # it took long twice: another way
            monkeypatch.setattr(c, "LONG_MS", limit)
            await counted(domain, Coordinates("w", "bob", table_ids=("t0",), view_id="t0.v0"))
        async with world.database.begin() as connection:
            view = update(t.views).where(t.views.c.id == "t0.v0")
            await connection.execute(view.values(filter=filter))
        found = await counted(domain, Coordinates("w", "bob", table_ids=("t0",), view_id="t0.v0"))
        assert found.view == Count.of(number)
