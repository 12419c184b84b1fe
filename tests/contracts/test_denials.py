"""Denials in the cache: answered without the database, and gone with the change that lets in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy import Delete, Insert, Update, delete, insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import changes as c
from context_engine import faults
from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.sql import counts
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.engine import ContextEngine, Options
from context_engine.errors import NotFound
from context_engine.invalidation import tags_touched
from context_engine.keys import scope_of
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import Evicted, Look, SessionWrite, SnapshotRecord
from tests.support.hidden import CASES, HIDDEN, NED, coordinates, grant, hide
from tests.support.world import Statements, World, engine_over

STRICT = Options(strict=True)


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish()
    await hide(made)
    return made


@pytest.fixture
def engine(world: World, cache: RedisCache) -> ContextEngine:
    return engine_over(world.database, cache)


def asked(user: str = "bob", **more: Any) -> ContextBuildInput:
    return ContextBuildInput.model_validate({"userId": user, "workspaceId": "w", **more})


def of(request: ContextBuildInput) -> str:
    """Whose answer it is, as announcements say it."""
    return scope_of(
        request.workspace_id, request.user_id, request.session_id, request.conversation_id
    ).key


async def refused(engine: ContextEngine, request: ContextBuildInput, options: Options) -> str:
    with pytest.raises(NotFound) as error:
        await engine.build(request, options)
    return error.value.message


@pytest.mark.parametrize("case", CASES)
async def test_asked_again_it_is_refused_without_the_database(
    world: World, engine: ContextEngine, case: str
) -> None:
    """In the same words, whatever was denied."""
    request = asked(CASES[case][0], **coordinates(case, HIDDEN))
    first = await refused(engine, request, STRICT)
    async with Statements(world.database) as statements:
        assert await refused(engine, request, STRICT) == first
    assert statements.seen == []


async def test_the_surface_made_on_the_way_serves_the_next_message(
    world: World, engine: ContextEngine
) -> None:
    """A table out of sight: another message is refused without the database too."""
    await refused(engine, asked(tableIds=["hidden-table"], message="One?"), Options())
    async with Statements(world.database) as statements:
        await refused(engine, asked(tableIds=["hidden-table"], message="Two?"), Options())
    assert statements.seen == []


async def test_a_table_out_of_sight_that_was_inherited_is_answered_over_that_surface(
    engine: ContextEngine, cache: RedisCache
) -> None:
    """What is fatal for who asks for it is left out for whose session kept it."""
    session = scope_of("w", "bob", "s", None)
    seen = await cache.look(Look(session, "none", "none", skip_entries=True))
    assert seen.moment is not None
    kept = SessionWrite(session, b'{"table_ids":["hidden-table"]}', "h", 60)
    assert await cache.fill(seen.moment, [], kept)
    await refused(engine, asked(tableIds=["hidden-table"]), Options())
    answer = await engine.build(asked(sessionId="s"))
    assert answer.source == "surface"
    assert AgentContext.model_validate_json(answer.context).unresolved == ()


# -- what lets in ------------------------------------------------------------------------------

Write = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class LetIn:
    """A request that is refused, and the change after which it is answered."""

    request: ContextBuildInput
    write: Write
    change: c.AnyChange
    before: tuple[Write, ...] = ()


def _row(table: Any, **values: Any) -> Write:
    return insert(table).values(workspace_id="w", **values)


def _granted(type: Any, id: str, scope: Any, on: str) -> c.AnyChange:
    return c.GrantChanged(
        workspace_id="w",
        subject=c.Subject(type=type, id=id),
        scope=c.GrantScope(type=scope, id=on),
        op="updated",
    )


def _of(change: type[Any], **more: Any) -> c.AnyChange:
    made: c.AnyChange = change(workspace_id="w", **more)
    return made


TABLE = asked(tableIds=["hidden-table"])
OF_NED = asked(NED, tableIds=["hidden-table"])
DEFERS = update(t.members).where(t.members.c.user_id == NED).values(role="defer")
IN_TEAM = _row(t.team_members, team_id="hidden-team", user_id=NED)
TEAM_MAY = insert(t.grants).values(
    grant("team", "hidden-team", "viewer", scope="table", on="hidden-table")
)
TEAM_MAY_ALL = insert(t.grants).values(
    grant("team", "hidden-team", "viewer", scope="workspace", on="w")
)
PROMOTED = update(t.members).where(t.members.c.user_id == NED).values(role="viewer")
NED_CHANGED = _of(c.MemberChanged, user_id=NED, op="updated")
NED_JOINED = _of(c.TeamMemberChanged, team_id="hidden-team", user_id=NED, op="added")

LET_IN: dict[str, LetIn] = {
    "a grant on the table": LetIn(
        TABLE,
        update(t.grants).where(t.grants.c.scope_id == "hidden-table").values(role="viewer"),
        _granted("user", "bob", "table", "hidden-table"),
    ),
    "the end of a grant of none": LetIn(
        TABLE,
        delete(t.grants).where(t.grants.c.scope_id == "hidden-table"),
        _granted("user", "bob", "table", "hidden-table"),
    ),
    "a grant to a team": LetIn(
        OF_NED, TEAM_MAY, _granted("team", "hidden-team", "table", "hidden-table"), (IN_TEAM,)
    ),
    "a team that has a grant": LetIn(OF_NED, IN_TEAM, NED_JOINED, (TEAM_MAY,)),
    "a role in the workspace": LetIn(OF_NED, PROMOTED, NED_CHANGED),
    "a role in the workspace, for a team": LetIn(
        OF_NED, TEAM_MAY_ALL, _granted("team", "hidden-team", "workspace", "w"), (IN_TEAM, DEFERS)
    ),
    "a role in the workspace, by a team": LetIn(
        OF_NED, IN_TEAM, NED_JOINED, (TEAM_MAY_ALL, DEFERS)
    ),
    "a table that is made": LetIn(
        asked(tableIds=["new"]),
        _row(t.tables, id="new", name="New"),
        _of(c.TableChanged, table_id="new", op="created"),
    ),
    "a table that is restored": LetIn(
        asked("ana", tableIds=["t0"]),
        update(t.tables).where(t.tables.c.id == "t0").values(trashed=False),
        _of(c.TableChanged, table_id="t0", op="restored"),
        (update(t.tables).where(t.tables.c.id == "t0").values(trashed=True),),
    ),
    "an agent that may do more": LetIn(
        asked("ana", tableIds=["hidden-agents"], agentStack=["narrow"]),
        update(t.agents).where(t.agents.c.id == "narrow").values(table_ids=None),
        _of(c.AgentChanged, agent_id="narrow", op="updated"),
    ),
    "an agent that is made": LetIn(
        asked(agentStack=["new"]),
        _row(t.agents, id="new", name="New", max_role="admin"),
        _of(c.AgentChanged, agent_id="new", op="created"),
    ),
    "a role that sees agents": LetIn(
        asked(NED, agentStack=["hidden-agent"]), PROMOTED, NED_CHANGED
    ),
    "an invitation": LetIn(
        asked(conversationId="hidden-conversation"),
        _row(t.participants, conversation_id="hidden-conversation", user_id="bob"),
        _of(
            c.ParticipantsChanged,
            conversation_id="hidden-conversation",
            user_ids=("bob",),
            op="added",
        ),
    ),
    "a view that is shared": LetIn(
        asked(viewId="hidden-view"),
        update(t.views).where(t.views.c.id == "hidden-view").values(ownership="collaborative"),
        _of(c.ViewChanged, table_id="t0", view_id="hidden-view", op="updated"),
    ),
    "a view that is made": LetIn(
        asked(viewId="new"),
        _row(t.views, id="new", name="New", type="grid", table_id="t0"),
        _of(c.ViewChanged, table_id="t0", view_id="new", op="created"),
    ),
    "a project that is joined": LetIn(
        asked(projectId="hidden-project"),
        _row(t.project_members, project_id="hidden-project", user_id="bob"),
        _of(c.ProjectChanged, project_id="hidden-project", op="members"),
    ),
    "a project of a task that is joined": LetIn(
        asked(taskId="hidden-task"),
        _row(t.project_members, project_id="hidden-project", user_id="bob"),
        _of(c.ProjectChanged, project_id="hidden-project", op="members"),
    ),
    "a policy that lets a task's row in": LetIn(
        asked(taskId="hidden-task-of"),
        delete(t.row_policies),
        _of(c.PolicyChanged, table_id="t0", op="updated"),
    ),
    "a team that is joined": LetIn(
        asked(teamId="hidden-team"),
        _row(t.team_members, team_id="hidden-team", user_id="bob"),
        _of(c.TeamMemberChanged, team_id="hidden-team", user_id="bob", op="added"),
    ),
    "an organization that is joined": LetIn(
        asked(organizationId="o"),
        insert(t.organization_members).values(organization_id="o", user_id="bob", role="member"),
        _of(c.OrganizationChanged, organization_id="o", op="updated", user_ids=("bob",)),
    ),
    "a workflow that is made": LetIn(
        asked(workflowId="new"),
        _row(t.workflows, id="new", name="New"),
        _of(c.WorkflowChanged, workflow_id="new", op="created"),
    ),
}


async def written(world: World, *writes: Write) -> None:
    async with world.database.begin() as connection:
        for write in writes:
            await connection.execute(write)


@pytest.mark.parametrize("what", LET_IN)
async def test_a_denial_falls_with_the_change_that_lets_in(
    world: World, engine: ContextEngine, cache: RedisCache, what: str
) -> None:
    """At once, by the marks alone; until then nothing but the cache answers. Nobody is told that it
    falls: what is missing would not."""
    case = LET_IN[what]
    await written(world, *case.before)
    await refused(engine, case.request, STRICT)
    await written(world, case.write)
    await refused(engine, case.request, STRICT)
    touched = tags_touched(case.change)
    await cache.mark("w", touched, create=False)
    assert await cache.evict("w", touched) == Evicted(0, (), False)
    assert (await engine.build(case.request, STRICT)).source == "build"
    assert (await cache.evict("w", touched)).scope_keys == (of(case.request),)


async def test_a_denial_falls_with_the_membership(
    world: World, engine: ContextEngine, cache: RedisCache
) -> None:
    """Who was denied a table and is then removed is denied the workspace."""
    await refused(engine, TABLE, Options())
    gone = update(t.members).where(t.members.c.user_id == "bob").values(active=False)
    await written(world, gone)
    removed = c.MemberChanged(workspace_id="w", user_id="bob", op="removed")
    await cache.mark("w", tags_touched(removed), create=False)
    assert await refused(engine, TABLE, Options()) == "workspace 'w' was not found"


# -- what is not kept --------------------------------------------------------------------------


async def test_a_workspace_out_of_sight_is_never_cached(
    world: World, engine: ContextEngine, redis_url: str
) -> None:
    """For a stranger and for a workspace that is not there: the same steps, and nothing stored."""
    steps = []
    async with Redis.from_url(redis_url) as redis:
        for request in (
            asked("eve", tableIds=["t0"]),
            asked("eve"),
            ContextBuildInput.model_validate({"userId": "bob", "workspaceId": "nowhere"}),
        ):
            for _ in range(2):
                async with Statements(world.database) as statements:
                    await refused(engine, request, Options())
                steps.append([s.split(maxsplit=1)[0] for s in statements.seen])
        assert steps == [["WITH"]] * 6
        assert [key async for key in redis.scan_iter("*")] == [b"ctx:{w}:marks"]


async def test_a_denial_keeps_no_session(engine: ContextEngine, cache: RedisCache) -> None:
    """Neither built nor out of the cache does it change what the session inherits."""
    await engine.build(asked(sessionId="s", tableIds=["t0"]))
    before = await cache.session(scope_of("w", "bob", "s", None))
    for _ in range(2):
        await refused(engine, asked(sessionId="s", tableIds=["hidden-table"]), Options())
    assert await cache.session(scope_of("w", "bob", "s", None)) == before
    assert await cache.session(scope_of("w", "bob", "other", None)) is None


async def test_a_denial_leaves_no_evidence(
    world: World, engine: ContextEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was told, so nothing is kept of it."""

    async def fail(_: SqlSnapshots, record: SnapshotRecord) -> None:
        pytest.fail(f"evidence of {record.context_id}")

    monkeypatch.setattr(SqlSnapshots, "save", fail)
    await refused(engine, TABLE, Options())
    await refused(engine, asked(agentStack=["nobody"]), Options())


async def test_a_denial_lives_no_longer_than_what_it_was_made_of(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that could not be looked up in time is denied for five seconds at most."""
    cache = MemoryCache()
    await cache.mark("w", frozenset(), create=True)

    async def slow(*_: object) -> None:
        raise counts.CannotCount

    monkeypatch.setattr(counts, "_in_time", slow)
    engine = engine_over(world.database, cache)
    await refused(engine, asked("ana", taskId="hidden-task-of"), STRICT)
    kept = [stored.entry for stored in cache.entries.values()]
    assert len(kept) == 2
    assert all(entry.expires_ms - entry.built_ms == 5_000 for entry in kept)


# -- stored garbage ----------------------------------------------------------------------------


async def test_a_rule_that_cannot_be_read_is_told_to_operators_once(
    world: World,
    engine: ContextEngine,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It denies its own table's rows, breaks no other, and the user's answer says nothing of it."""
    monkeypatch.setattr(faults.log, "handlers", [caplog.handler])
    monkeypatch.setattr(faults.log, "propagate", False)
    bad = {"subjects": [{"type": "user", "id": "ana"}], "pred": {"cmp": 1}, "mode": "restrictive"}
    row = {"id": "odd-rule", "table_id": "t0", "workspace_id": "w", **bad}
    await world.add(t.row_policies, row)
    for user, message in (("ana", "1"), ("ana", "2"), ("bob", "1")):
        request = asked(user, tableIds=["t0"], message=message)
        answer = await engine.build(request, Options(fresh=True))
        context = AgentContext.model_validate_json(answer.context)
        assert context.table is not None
        assert context.table.record_count.value == 0
        assert b"odd-rule" not in answer.context
    other = await engine.build(asked("ana", tableIds=["hidden-table"]))
    context = AgentContext.model_validate_json(other.context)
    assert context.table is not None
    assert context.table.record_count.value == 3
    (told,) = caplog.records
    assert told.levelname == "WARNING"
    assert "policy odd-rule of table t0 of workspace w: " in told.getMessage()
    assert "\n" not in told.getMessage()
