"""The engine over real PostgreSQL and Valkey: what is built, cached, taken back and refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.changes import GrantChanged, GrantScope, MemberChanged, RecordsChanged, Subject
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound, Unavailable
from context_engine.invalidation import tags_touched
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.settings import Settings
from tests.support.world import Statements, World, engine_over


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    return made


@pytest.fixture
def engine(database: AsyncEngine, cache: RedisCache, world: World) -> ContextEngine:
    return engine_over(database, cache)


def asked(user: str = "ana", **more: Any) -> ContextBuildInput:
    return ContextBuildInput.model_validate(
        {"userId": user, "workspaceId": "w", "tableIds": ["t0"], **more}
    )


async def ask(
    engine: ContextEngine, user: str = "ana", options: Options | None = None, **more: Any
) -> AgentContext:
    answer = await engine.build(asked(user, **more), options or Options())
    context = AgentContext.model_validate_json(answer.context)
    assert (context.source, context.context_id) == (answer.source, answer.context_id)
    assert context.context_hash == answer.context_hash
    return context


async def test_built_then_cached_with_the_same_content(engine: ContextEngine) -> None:
    """A repeated request is a hit with the same id and hash; `fresh` builds the same content."""
    first, second = await ask(engine), await ask(engine)
    assert (first.source, second.source) == ("build", "cache")
    assert (first.context_id, first.context_hash) == (second.context_id, second.context_hash)
    again = await ask(engine, options=Options(fresh=True))
    assert again.source == "build"
    assert again.context_hash == first.context_hash
    assert again.context_id != first.context_id


async def test_sections_come_from_the_domain(engine: ContextEngine) -> None:
    """Names, samples and counts are read, not echoed; the view is sampled first."""
    context = await ask(engine, viewId="t0.v0", organizationId="o")
    assert context.table is not None
    assert context.table.permission == "admin"
    assert [f.id for f in context.table.fields] == ["t0.f0", "t0.f2", "t0.f1"]
    assert context.table.record_count.value == 10
    assert context.view is not None
    assert context.view.record_count.value == 5
    assert context.organization is not None
    assert context.organization.role == "owner"
    assert "Table t0" in context.context_summary
    assert context.trace.sections["project"].status == "absent"


async def test_own_rows_are_counted_in_sql(world: World, engine: ContextEngine) -> None:
    """A VIEWER under an "own rows" policy counts the rows created by them, in table and view."""
    await world.own_rows("t0", "role", "viewer")
    bob = await ask(engine, "bob", viewId="t0.v0")
    assert bob.table is not None
    assert bob.table.record_count.value == 2
    assert bob.view is not None
    assert bob.view.record_count.value == 1
    ana = await ask(engine)
    assert ana.table is not None
    assert ana.table.record_count.value == 10


async def test_the_next_turn_finds_the_surface(world: World, engine: ContextEngine) -> None:
    """Another message of the same dialogue reads the dialogue only, and is kept as evidence."""
    await world.conversation("c", "ana")
    first = await ask(engine, conversationId="c", sessionId="s", message="Hello?")
    async with Statements(world.database) as statements:
        second = await ask(engine, conversationId="c", sessionId="s", message="And now?")
    assert (first.source, second.source) == ("build", "surface")
    assert len(statements.reading) == 1
    assert second.conversation is not None
    assert second.conversation.recent_turns[-1].content == "And now?"
    assert second.session is not None
    assert second.session.last_context_hash == first.context_hash
    kept = await SqlSnapshots(world.database).get(second.context_id)
    assert kept is not None
    assert kept.source == "surface"
    assert AgentContext.model_validate_json(kept.context) == second


async def test_a_hit_writes_no_snapshot(world: World, engine: ContextEngine) -> None:
    """Evidence is kept for builds, once."""
    await ask(engine)
    async with Statements(world.database) as statements:
        assert (await ask(engine)).source == "cache"
    assert statements.seen == []


async def test_the_session_inherits_and_says_so(engine: ContextEngine) -> None:
    """What is left out comes from the session of this user only."""
    await ask(engine, sessionId="s", viewId="t0.v0")
    bare = {"userId": "ana", "workspaceId": "w", "sessionId": "s"}
    answer = await engine.build(ContextBuildInput.model_validate(bare))
    context = AgentContext.model_validate_json(answer.context)
    assert context.view is not None
    assert context.trace.inherited == ("tableIds", "viewId")
    other = await engine.build(ContextBuildInput.model_validate({**bare, "userId": "bob"}))
    assert AgentContext.model_validate_json(other.context).tables == ()


@pytest.mark.parametrize(("tables", "fields"), [(1, 3), (5, 20), (17, 40)])
async def test_a_cold_build_reads_in_at_most_five_statements(
    database: AsyncEngine, cache: RedisCache, tables: int, fields: int
) -> None:
    """However many tables, fields and views; the rest is BEGIN, COMMIT and the snapshot."""
    world = World(database)
    await world.furnish(tables=tables, records=3, fields=fields)
    await world.conversation("c", "ana")
    engine = engine_over(database, cache)
    ids = [f"t{n}" for n in range(tables)]
    async with Statements(database) as statements:
        context = await ask(engine, tableIds=ids, conversationId="c", viewId="t0.v0")
    assert len(context.tables) == tables
    assert len(statements.reading) <= 5
    assert [s.split()[0] for s in statements.seen if s not in statements.reading] == ["INSERT"]


async def test_missing_and_denied_are_the_same(world: World, engine: ContextEngine) -> None:
    """A workspace, table or conversation: the same words, but for the id that was asked for."""
    await world.add(
        t.grants,
        {
            "workspace_id": "w",
            "scope_type": "table",
            "scope_id": "t0",
            "subject_type": "user",
            "subject_id": "bob",
            "role": "none",
        },
    )
    await world.conversation("c", "ana", messages=1)
    said = []
    for user, more in (
        ("bob", {}),
        ("ana", {"tableIds": ["gone"]}),
        ("ana", {"conversationId": "gone"}),
        ("bob", {"tableIds": [], "conversationId": "c"}),
    ):
        with pytest.raises(NotFound) as refused:
            await ask(engine, user, **more)
        said.append(str(refused.value))
    assert said[0].replace("'t0'", "'gone'") == said[1]
    assert said[3].replace("'c'", "'gone'") == said[2]
    with pytest.raises(NotFound) as stranger:
        await ask(engine, "eve")
    nowhere = ContextBuildInput.model_validate({"userId": "ana", "workspaceId": "nowhere"})
    with pytest.raises(NotFound) as missing:
        await engine.build(nowhere)
    assert str(stranger.value).replace("'w'", "'nowhere'") == str(missing.value)


async def test_absent_coordinates_are_listed_or_fatal(engine: ContextEngine) -> None:
    """`strict` turns an unresolved coordinate into an error, on a cached surface too."""
    context = await ask(engine, projectId="gone")
    assert [(u.coordinate, u.id) for u in context.unresolved] == [("projectId", "gone")]
    with pytest.raises(NotFound, match="project"):
        await ask(engine, options=Options(strict=True), projectId="gone")


async def test_a_revoked_right_is_never_served_from_the_cache(
    world: World, engine: ContextEngine, cache: RedisCache
) -> None:
    """After the mark, with nothing deleted, the next request is refused."""
    await ask(engine, "bob")
    assert (await ask(engine, "bob")).source == "cache"
    async with world.database.begin() as connection:
        await connection.execute(
            update(t.members).where(t.members.c.user_id == "bob").values(active=False)
        )
    change = MemberChanged(workspace_id="w", user_id="bob", op="removed")
    await cache.mark("w", tags_touched(change), create=False)
    with pytest.raises(NotFound):
        await ask(engine, "bob")
    assert (await ask(engine, "ana")).source == "build"


async def test_a_change_takes_back_what_depends_on_it_and_no_more(
    engine: ContextEngine, cache: RedisCache
) -> None:
    """A grant to one user leaves the other's context; a new record takes both back."""
    await ask(engine, "ana")
    await ask(engine, "bob")
    grant = GrantChanged(
        workspace_id="w",
        subject=Subject(type="user", id="bob"),
        scope=GrantScope(type="table", id="t0"),
        op="created",
    )
    await cache.mark("w", tags_touched(grant), create=False)
    assert (await ask(engine, "ana")).source == "cache"
    assert (await ask(engine, "bob")).source == "build"
    record = RecordsChanged(workspace_id="w", table_id="t0", op="created")
    await cache.mark("w", tags_touched(record), create=False)
    assert (await ask(engine, "ana")).source == "build"
    assert (await ask(engine, "bob")).source == "build"


async def test_an_edit_that_nobody_reads_leaves_contexts_alone(
    engine: ContextEngine, cache: RedisCache
) -> None:
    """An update of a field that no policy or current filter reads evicts nothing."""
    await ask(engine, viewId="t0.v0")
    await ask(engine)
    elsewhere = RecordsChanged(workspace_id="w", table_id="t0", op="updated", field_ids=("t0.f2",))
    await cache.mark("w", tags_touched(elsewhere), create=False)
    assert (await ask(engine, viewId="t0.v0")).source == "cache"
    filtered = RecordsChanged(workspace_id="w", table_id="t0", op="updated", field_ids=("t0.f1",))
    await cache.mark("w", tags_touched(filtered), create=False)
    assert (await ask(engine, viewId="t0.v0")).source == "build"
    assert (await ask(engine)).source == "cache"


async def test_redis_away_is_built_and_said(world: World, config: Settings) -> None:
    """The answer comes, unstored, and its trace owns up to it."""
    away = config.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    cache = RedisCache(away.redis_url, away)
    try:
        engine = engine_over(world.database, cache)
        context = await ask(engine, sessionId="s")
    finally:
        await cache.close()
    assert context.source == "build"
    assert any("cache away" in remark for remark in context.trace.remarks)


async def test_the_database_away_is_unavailable_within_the_bound(
    config: Settings, cache: RedisCache
) -> None:
    """Retried in place, then refused as retryable, never hung."""
    away = config.model_copy(
        update={"database_url": type(config.database_url)("postgresql+asyncpg://x@127.0.0.1:1/x")}
    )
    database = create_engine(away)
    engine = engine_over(database, cache, build_timeout=0.3)
    with pytest.raises(Unavailable) as refused:
        await ask(engine)
    assert refused.value.retryable
    await database.dispose()


async def test_without_evidence_no_answer(
    world: World, cache: RedisCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that cannot be kept fails the build, and nothing is cached."""

    async def fail(*_: object) -> None:
        raise Unavailable("database", "the disk is full")

    monkeypatch.setattr(SqlSnapshots, "save", fail)
    engine = engine_over(world.database, cache, build_timeout=0.3)
    with pytest.raises(Unavailable, match="disk"):
        await ask(engine)
    monkeypatch.undo()
    assert (await ask(engine_over(world.database, cache))).source == "build"


async def test_a_workspace_without_marks_is_answered_and_then_cached(
    world: World, engine: ContextEngine, cache: RedisCache
) -> None:
    """The build that finds no marks makes them and is not stored; a stranger makes none."""
    await cache.forget("w")
    with pytest.raises(NotFound):
        await ask(engine, "eve")
    assert (await ask(engine)).source == "build"
    assert (await ask(engine)).source == "build"
    assert (await ask(engine)).source == "cache"


async def test_many_at_once_keep_their_own_answers(engine: ContextEngine) -> None:
    """Two users and several messages in flight together: every answer is its asker's."""
    users = ["ana", "bob"] * 20
    answers = await asyncio.gather(
        *(ask(engine, user, message=f"m{n % 5}", sessionId="s") for n, user in enumerate(users))
    )
    assert [context.user.id for context in answers] == users


async def test_a_damaged_surface_is_a_miss(
    world: World, engine: ContextEngine, cache: RedisCache
) -> None:
    """What lies under its name is not what was stored: it is built, and stored again."""
    await world.conversation("c", "ana")
    await ask(engine, conversationId="c", message="One?")
    redis = cache._link.redis
    (name,) = await redis.keys("*surface:*")
    for damage in (b"", b"{}", b"\xff\xfe", b"[1]\n2"):
        await redis.hset(name, "p", damage)
        assert (await ask(engine, conversationId="c", message=repr(damage))).source == "build"
    assert (await ask(engine, conversationId="c", message="And now?")).source == "surface"


async def test_a_task_whose_row_is_hidden_reads_as_one_that_is_missing(
    world: World, engine: ContextEngine
) -> None:
    """The same bytes but for ids, beside another coordinate out of sight; with `strict` as well."""
    await world.own_rows("t0", "user", "bob")
    here = {"workspace_id": "w"}
    row = {"table_id": "t0", "record_id": "t0.r1"}
    await world.add(t.teams, {"id": "g", "name": "G", **here})
    await world.add(t.tasks, {"id": "hidden-task", "title": "K", **row, **here})
    shown = {}
    for task in ("hidden-task", "absent-task"):
        where = {"taskId": task, "teamId": "g", "tableIds": []}
        found = await ask(engine, "bob", **where)
        assert [one.coordinate for one in found.unresolved] == ["taskId", "teamId"]
        said = found.model_dump(mode="json", exclude={"context_id", "generated_at", "context_hash"})
        assert said["trace"]["sections"]["task"]["status"] == "absent"
        shown[task] = str(said | {"tags": len(said["tags"])}).replace(task, "it")
        with pytest.raises(NotFound, match=f"task '{task}'"):
            await ask(engine, "bob", Options(strict=True), **where)
    assert shown["hidden-task"] == shown["absent-task"]
