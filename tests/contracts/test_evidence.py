"""Evidence read again: lists, the operators' trace over a cached surface, dialogues beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlDomain
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.engine import ContextEngine
from context_engine.errors import NotFound
from context_engine.evidence import (
    Held,
    Original,
    compare,
    denied,
    held_by,
    originals,
    surface_of,
    versions_of,
)
from context_engine.keys import BUILD_VERSION, Coordinates
from context_engine.models import ContextBuildInput
from context_engine.ports import SUMMARY_START, SnapshotRecord
from context_engine.reading import visible
from tests.support.world import World, engine_over

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish(tables=2)
    return made


@pytest.fixture
def engine(database: AsyncEngine, cache: RedisCache, world: World) -> ContextEngine:
    return engine_over(database, cache)


def record(id: str, hours: int = 0, **more: Any) -> SnapshotRecord:
    one = SnapshotRecord(
        context_id=id, context_hash="h", workspace_id="w", user_id="ana", scope_key="k",
        source="build", summary="s", context=b"{}", compression={}, operator_trace={},
        generated_at=NOW - timedelta(hours=hours), request_id=f"r-{id}",
    )  # fmt: skip
    return replace(one, **more)


async def test_lists_are_filtered_by_workspace_user_and_time(database: AsyncEngine) -> None:
    """Each alone and together; a summary is only begun, and no rule is read."""
    snapshots = SqlSnapshots(database)
    await snapshots.save(record("a", 0, summary="x" * 5_000))
    await snapshots.save(record("b", 1, user_id="bob"))
    await snapshots.save(record("c", 2, workspace_id="other"))
    await snapshots.save(record("d", 3))

    async def ids(*words: str, **more: Any) -> list[str]:
        return [one.context_id for one in await snapshots.list(*words, **more)]

    assert await ids() == ["a", "b", "c", "d"]
    assert await ids("w") == ["a", "b", "d"]
    assert await ids("w", user_id="ana") == ["a", "d"]
    assert await ids(user_id="ana", since=NOW - timedelta(hours=2)) == ["a", "c"]
    assert await ids("nowhere") == []
    (first,) = await snapshots.list(limit=1)
    assert (first.summary, first.request_id) == ("x" * SUMMARY_START, "r-a")
    assert not hasattr(first, "operator_trace")


async def test_pages_follow_one_another_without_a_gap(database: AsyncEngine) -> None:
    """Where many were made in the same moment too; new ones do not move the pages."""
    snapshots = SqlSnapshots(database)
    for number in range(7):
        await snapshots.save(record(f"c{number}", number // 4))
    await snapshots.save(record("x", workspace_id="other"))
    seen: list[str] = []
    before = None
    while page := await snapshots.list("w", before=before, limit=3):
        await snapshots.save(record(f"new{len(seen)}", -1))
        seen += [one.context_id for one in page]
        before = seen[-1]
    assert seen == ["c3", "c2", "c1", "c0", "c6", "c5", "c4"]
    with pytest.raises(NotFound, match="gone"):
        await snapshots.list("w", before="gone")


# -- what the engine writes down -----------------------------------------------------------------


async def build(engine: ContextEngine, user: str = "bob", **more: Any) -> str:
    asked = {"userId": user, "workspaceId": "w", "sessionId": "s", **more}
    return (await engine.build(ContextBuildInput.model_validate(asked))).context_id


async def forbid(world: World, table: str) -> None:
    await world.add(
        t.grants,
        {
            "workspace_id": "w", "scope_type": "table", "scope_id": table,
            "subject_type": "user", "subject_id": "bob", "role": "none",
        },
    )  # fmt: skip


async def test_a_revoked_table_went_and_the_rule_is_told_to_operators(
    world: World, engine: ContextEngine, cache: RedisCache
) -> None:
    """By a request that inherits its tables. What was told to the agent names no rule."""
    first = await build(engine, tableIds=["t0", "t1"])
    await forbid(world, "t1")
    await cache.mark("w", {keys.access("bob")}, create=False)
    second = await build(engine)
    snapshots = SqlSnapshots(world.database)
    one, other = [await snapshots.get(id) for id in (first, second)]
    assert one is not None
    assert other is not None
    assert versions_of(other)["build"] == BUILD_VERSION
    assert isinstance(versions_of(other)["clock"], int)
    found = compare(
        json.loads(one.context), json.loads(other.context), (denied(one), denied(other))
    )
    (tables,) = [section for section in found.sections if section.name == "tables"]
    assert [(str(c.path[0][1]), c.kind) for c in tables.changes] == [("t1", "went")]
    assert tables.denials == ("table t1 denied now: role none",)
    assert b"role none" not in other.context
    assert b"denials" not in other.context


async def test_a_context_over_a_cached_surface_names_the_build_that_read_it(
    world: World, engine: ContextEngine
) -> None:
    """Its rules are in that build's evidence; nothing of them is in the cache's text."""
    await world.conversation("c", "bob")
    first = await build(engine, tableIds=["t0"], viewId="gone", conversationId="c", message="A?")
    second = await build(engine, conversationId="c", message="B?")
    snapshots = SqlSnapshots(world.database)
    one, other = [await snapshots.get(id) for id in (first, second)]
    assert one is not None
    assert other is not None
    assert (one.source, other.source) == ("build", "surface")
    assert (surface_of(one), surface_of(other)) == (None, first)
    assert denied(other) == ()
    assert [(d.what, d.read_by) for d in denied(other, one)] == [("view gone", first)]


# -- dialogues -------------------------------------------------------------------------------------


async def read(world: World, user: str, limit: int = 40) -> tuple[Original, ...]:
    at = Coordinates("w", user, conversation_id="c")
    async with SqlDomain(world.database).snapshot() as reads:
        scope = await visible(reads, at, tail=limit)
    assert scope.conversation is not None
    return originals(scope.conversation, limit)


async def held(world: World, context_id: str, found: tuple[Original, ...]) -> Held:
    kept = await SqlSnapshots(world.database).get(context_id)
    assert kept is not None
    made = held_by(json.loads(kept.context), found)
    assert made is not None
    return made


async def test_a_dialogue_is_marked_with_what_a_context_held_of_it(
    world: World, engine: ContextEngine
) -> None:
    """Whole and cut turns, the summary's sources, what is only counted, and what came later."""
    await world.conversation("c", "ana", "bob", messages=40)
    await world.say("c", 41, "x" * 9_000, author="ana")
    context_id = await build(engine, conversationId="c")
    await world.say("c", 42, "Too late", author="ana")
    m = t.messages
    async with world.database.begin() as connection:
        await connection.execute(update(m).where(m.c.id == "c.m39").values(content="Other"))
        await connection.execute(delete(m).where(m.c.id == "c.m40"))
    found = await read(world, "bob", 100)
    told = await held(world, context_id, found)
    assert len(found) == 41
    assert told.marks["c.m42"] == "later"
    assert told.marks["c.m41"] == "cut"
    assert told.marks["c.m39"] == "turn"
    assert told.edited == {"c.m39"}
    assert told.gone == ("c.m40",)
    summary = {id for id, mark in told.marks.items() if mark == "summary"}
    assert summary == set(told.section.source_message_ids) != set()
    assert told.marks["c.m1"] == "compressed"
    few = await read(world, "bob", 3)
    assert [one.message.id for one in few] == ["c.m39", "c.m41", "c.m42"]
    assert (await held(world, context_id, few)).gone == ("c.m40",)


async def test_the_originals_are_read_under_the_readers_own_permission(
    world: World, engine: ContextEngine
) -> None:
    """A tool's result that ran for another is withheld, whatever a context once held of it."""
    await world.conversation("c", "ana", "bob", messages=2)
    ran = {"on_behalf_of": "ana", "table_ids": [], "rights": {}}
    await world.say("c", 3, "", role="assistant", tool_calls=[{"id": "k"}], **ran)
    await world.say("c", 4, "Secret", role="tool", tool_call_id="k", **ran)
    context_id = await build(engine, "ana", conversationId="c")
    for user, seen in (("ana", False), ("bob", True)):
        found = await read(world, user)
        assert [one.withheld for one in found] == [False, False, False, seen]
        assert (await held(world, context_id, found)).marks["c.m4"] == "turn"
    with pytest.raises(NotFound):
        await read(world, "eve")
