"""`user.attr` on real PostgreSQL: rows that name the user, and what they say of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import emails
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.attributes import LONGEST, MOST, attributes
from context_engine.adapters.sql.driver import InTransaction, driver_of
from context_engine.facts import UserFacts
from context_engine.policy import AttrLookup
from tests.support.world import Statements, World

LOOKUP = AttrLookup(table="staff", key_field="key", value_field="said")
HERE = {"workspace_id": "w", "table_id": "staff"}


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.add(t.workspaces, {"id": "w", "name": "W"}, {"id": "w2", "name": "W2"})
    for id, workspace, trashed in (("staff", "w", False), ("far", "w2", False), ("bin", "w", True)):
        await made.add(
            t.tables, {"id": id, "workspace_id": workspace, "name": id, "trashed": trashed}
        )
        for field in ("key", "said"):
            name = field if id == "staff" else f"{id}.{field}"
            await made.add(
                t.fields,
                {"id": name, "workspace_id": workspace, "table_id": id, "name": name,
                 "type": "text"},
            )  # fmt: skip
    return made


async def rows(world: World, *cells: dict[str, Any], **more: Any) -> None:
    start = len(world.rows)
    made = [{"id": f"r{start + n}", "cells": one, **HERE, **more} for n, one in enumerate(cells, 1)]
    world.rows.extend((t.records, one) for one in made)
    await world.add(t.records, *made)


async def said(world: World, *lookups: AttrLookup, email: str | None = None) -> Any:
    user = UserFacts(id="u1", name="U", email_norm=email, locale=None, timezone=None, active=True)
    async with driver_of(world.database) as driver:
        found = await attributes(driver, "w", user, lookups or (LOOKUP,))
    async with world.database.connect() as connection:
        assert found == await attributes(InTransaction(connection), "w", user, lookups or (LOOKUP,))
    return found


async def test_rows_that_name_the_user_by_id(world: World) -> None:
    """Alone or in a list, and not as a part of another id, a number, or in a deleted row."""
    for n, key in enumerate(["u1", ["u1"], ["u2", "u1"], "u12", ["u12"], " u1", "U1", [["u1"]], 1]):
        await rows(world, {"key": key, "said": n})
    await rows(world, {"key": "u1", "said": 99}, deleted_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert sorted((await said(world))[LOOKUP]) == [0, 1, 2]


@pytest.mark.parametrize(
    ("email", "same", "other"),
    [
        ("a@x.ex", ["a@x.ex", " A@X.ex\t", ["b@x", "A@x.EX"]], ["ba@x.ex"]),
        ("A@x.ex ", ["a@X.EX"], ["a@x"]),
        (
            "straße@x",
            ["Straße@X", "\t\n\v\f\rstraße@x "],
            ["STRASSE@x", "STRAẞE@x", "\xa0straße@x", "straße@x\u2003", "\x1cstraße@x"],
        ),
        ("kim@x", ["KIM@X"], ["\u212aim@x", "kım@x", "Kİm@x", "ſkim@x", ["\u212a", "\u212aIM@x"]]),
        ("é@x", ["é@X"], ["É@x", "e\u0301@x"]),
        ("nobody", ["NOBODY", " nobody "], ["nobody@x"]),
        (
            'q"\\U\x01\b\x7f/\v\u2028@x',
            ['Q"\\u\x01\b\x7f/\v\u2028@X', [' q"\\u\x01\b\x7f/\v\u2028@x']],
            ['q"\x01\b\x7f/\v\u2028@x', {'q"\\u\x01\b\x7f/\v\u2028@x': 1}],
        ),
    ],
)  # fmt: skip
async def test_rows_that_name_the_user_by_address(
    world: World, email: str, same: list[Any], other: list[Any]
) -> None:
    """Trimmed and lowered as ASCII has it: other letters and blanks are what they are."""
    assert all(emails.normal(key) == emails.normal(email) for key in same if isinstance(key, str))
    assert all(emails.normal(key) != emails.normal(email) for key in other if isinstance(key, str))
    await rows(world, *({"key": key, "said": n} for n, key in enumerate([*same, *other])))
    assert sorted((await said(world, email=email))[LOOKUP]) == list(range(len(same)))


@pytest.mark.parametrize("email", [None, ""])
async def test_without_an_address_empty_cells_name_nobody(world: World, email: str | None) -> None:
    """No row does, and that is known."""
    await rows(world, *({"key": key, "said": 1} for key in ("", " ", None, [""], [])), {"said": 1})
    assert await said(world, email=email) == {LOOKUP: ()}


async def test_values_come_in_one_order(world: World) -> None:
    """Whatever the server's plan: what a tool may show is told by a digest over them."""
    for said_ in (["b", 10, "a"], 9, "c", ["a", "d"]):
        await rows(world, {"key": "u1", "said": said_})
    assert (await said(world))[LOOKUP] == ("a", "b", "c", "d", 10, 9)


async def test_values_are_distinct_items_without_nulls(world: World) -> None:
    """A list gives its items; nothing gives nothing; numbers stay what they are."""
    given = ["a", ["a", "b", None], None, [], 1, 2**60, 0.1, True, {"x": [1]}, ["b"], [["c"]]]
    await rows(world, *({"key": "u1", "said": one} for one in given), {"key": "u1"})
    found = (await said(world))[LOOKUP]
    wanted = ["a", "b", 1, 2**60, 0.1, True, {"x": [1]}, ["c"]]
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


async def test_what_is_not_there_is_left_out(world: World) -> None:
    """A table of another workspace, a trashed one, a missing one; a missing field, or one of
    another table: whoever asks for them denies."""
    gone = [
        AttrLookup(table="far", key_field="far.key", value_field="far.said"),
        AttrLookup(table="bin", key_field="bin.key", value_field="bin.said"),
        AttrLookup(table="gone", key_field="key", value_field="said"),
        AttrLookup(table="staff", key_field="gone", value_field="said"),
        AttrLookup(table="staff", key_field="key", value_field="far.said"),
    ]
    assert await said(world, *gone, LOOKUP) == {LOOKUP: ()}


async def test_too_many_values_are_left_out(world: World, database: AsyncEngine) -> None:
    """Up to ten thousand are had; one more denies, and that lookup alone."""
    many = AttrLookup(table="staff", key_field="key", value_field="key")
    await rows(world, {"key": "u1", "said": [f"v{n}" for n in range(MOST)]}, {"key": "u1"})
    found = await said(world, LOOKUP, many)
    assert (len(found[LOOKUP]), found[many]) == (MOST, ("u1",))
    await rows(world, {"key": ["u1"], "said": ["more", "v1"]})
    assert await said(world, LOOKUP, many) == {many: ("u1",)}


async def test_a_value_that_is_too_long_is_left_out(world: World) -> None:
    """All of a lookup are held in memory, for every user who asks: a cell may be a book."""
    many = AttrLookup(table="staff", key_field="key", value_field="key")
    await rows(world, {"key": "u1", "said": "x" * (LONGEST - 2)})  # with its quotes
    assert [len(str(one)) for one in (await said(world))[LOOKUP]] == [LONGEST - 2]
    await rows(world, {"key": ["u1"], "said": "x" * (LONGEST - 1)})
    assert await said(world, LOOKUP, many) == {many: ("u1",)}


@pytest.mark.parametrize("number", ["1e4000", "0.10000000000000000000000001", "1e-5000"])
async def test_a_value_that_is_not_exact_here_denies(
    world: World, database: AsyncEngine, number: str
) -> None:
    """Rounded, it could equal what it does not."""
    async with database.begin() as connection:
        await connection.exec_driver_sql(
            "INSERT INTO records (id, workspace_id, table_id, cells) VALUES"
            " ('x', 'w', 'staff', jsonb_build_object('key', 'u1', 'said', CAST($1 AS jsonb)))",
            (number,),
        )
    assert await said(world) == {}


async def test_all_lookups_are_one_statement(world: World, database: AsyncEngine) -> None:
    """And none at all none."""
    user = UserFacts(id="u1", name="U", email_norm="a", locale=None, timezone=None, active=True)
    back = AttrLookup(table="staff", key_field="said", value_field="key")
    async with Statements(database) as seen, database.connect() as connection:
        assert await attributes(InTransaction(connection), "w", user, []) == {}
        found = await attributes(InTransaction(connection), "w", user, [LOOKUP, back, LOOKUP])
    assert set(found) == {LOOKUP, back}
    # None at all too: whether a hidden row's table has any rule that asks must not be told.
    assert len([one for one in seen.reading if "jsonb_array_elements" in one]) == 2
