"""`DomainReads` on real PostgreSQL: facts, dialogue and counts, each by one statement."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from sqlalchemy import text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.engine import create_engine
from context_engine.adapters.sql.reads import OLDER_CHARS, SqlDomain, SqlReads
from context_engine.errors import Unavailable
from context_engine.facts import DialogueFacts, Facts
from context_engine.keys import Coordinates
from context_engine.models.sections import Count
from context_engine.ports import Counts
from context_engine.reading import read, visible
from context_engine.settings import Settings
from tests.support.world import Statements, World


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    made = World(database)
    await made.furnish(tables=2)
    return made


@pytest.fixture
def domain(database: AsyncEngine) -> SqlDomain:
    return SqlDomain(database)


def at(user: str = "ana", workspace: str = "w", **more: Any) -> Coordinates:
    return Coordinates(workspace, user, **more)


async def facts_of(domain: SqlDomain, where: Coordinates, tail: int = 20) -> Facts:
    async with domain.snapshot() as reads:
        return (await read(reads, where, tail=tail))[0]


async def counted(domain: SqlDomain, where: Coordinates) -> tuple[VisibleScope, Counts]:
    async with domain.snapshot() as reads:
        scope = await visible(reads, where, tail=20)
        return scope, await reads.counts(scope)


async def talked(domain: SqlDomain, tail: int) -> DialogueFacts:
    where = at(conversation_id="c")
    scope = access.resolve(await domain.facts(where, tail=tail), where)
    assert scope.conversation is not None
    return scope.conversation.facts.dialogue


# -- facts -------------------------------------------------------------------------------------


async def test_everything_that_was_asked_for_is_in_the_facts(
    world: World, domain: SqlDomain
) -> None:
    """Every coordinate gives its facts, fields and views in table order, by two statements, and a
    third for what the rules over a task's row may ask."""
    here = {"workspace_id": "w"}
    await world.add(t.projects, {"id": "p", "name": "P", "due_on": date(2026, 5, 1), **here})
    await world.add(t.project_members, {"project_id": "p", "user_id": "ana", **here})
    row = {"table_id": "t1", "record_id": "t1.r0"}
    await world.add(t.tasks, {"id": "k", "title": "K", "project_id": "p", **row, **here})
    await world.add(t.teams, {"id": "m", "name": "M", **here})
    await world.add(
        t.team_members,
        {"team_id": "m", "user_id": "ana", **here},
        {"team_id": "m", "user_id": "bob", **here},
    )
    await world.add(t.workflows, {"id": "f", "name": "F", **here})
    await world.add(
        t.agents,
        {"id": "a1", "name": "A", "max_role": "editor", **here},
        {"id": "a2", "name": "B", "max_role": "viewer", "table_ids": ["t0"], **here},
    )
    await world.conversation("c", "ana", "bob", messages=2)
    asked = at(
        table_ids=("t0",), view_id="t0.v0", project_id="p", task_id="k", team_id="m",
        organization_id="o", workflow_id="f", agent_stack=("a2", "a1"), conversation_id="c",
    )  # fmt: skip
    async with Statements(world.database) as statements:
        facts = await facts_of(domain, asked)
    assert len(statements.seen) == 3
    assert facts.user is not None
    assert facts.user.email_norm == "ana@example.org"
    assert facts.workspace is not None
    assert (facts.workspace.name, facts.workspace.organization_id) == ("Work", "o")
    assert facts.member is not None
    assert facts.member.role == "admin"
    assert facts.team_ids == ("m",)
    assert facts.named == ("t0", "t1")
    assert [table.id for table in facts.tables] == ["t0"], "an agent may not look at t1"
    assert [f.id for f in facts.tables[0].fields] == ["t0.f0", "t0.f1", "t0.f2"]
    assert facts.tables[0].fields[0].primary
    (view,) = facts.tables[0].views
    assert (view.hidden, view.field_order[0]) == (("t0.f1",), "t0.f2")
    assert facts.project is not None
    assert (facts.project.due_on, facts.project.is_member) == ("2026-05-01", True)
    assert facts.project.task_table_ids == ("t1",)
    assert facts.task is not None
    assert facts.task.project == facts.project
    assert facts.team is not None
    assert (facts.team.member_count, facts.team.is_member) == (2, True)
    assert facts.organization is not None
    assert facts.organization.role == "owner"
    assert facts.workflow is not None
    assert [agent.id for agent in facts.agents] == ["a2", "a1"]
    assert facts.agents[0].table_ids == ("t0",)
    assert facts.conversation is not None
    assert facts.conversation.is_participant


async def test_a_workspace_that_is_missing_and_one_that_is_not_ones_own_read_alike(
    world: World, domain: SqlDomain
) -> None:
    """The same statement, and neither names a thing of the workspace that was not given."""
    async with Statements(world.database) as statements:
        stranger = await facts_of(domain, at("eve", table_ids=("t0",)))
        nowhere = await facts_of(domain, at("eve", "gone", table_ids=("t0",)))
    assert statements.seen[0] == statements.seen[1]
    assert stranger.member is None
    assert stranger.workspace is not None
    assert (nowhere.workspace, nowhere.member, nowhere.tables) == (None, None, ())


async def test_what_belongs_to_another_workspace_is_not_there(
    world: World, domain: SqlDomain
) -> None:
    """Every id of one workspace, asked for in another by a member of both, gives nothing."""
    here = {"workspace_id": "w"}
    await world.add(t.projects, {"id": "p", "name": "P", **here})
    await world.add(t.tasks, {"id": "k", "title": "K", "project_id": "p", **here})
    await world.add(t.teams, {"id": "m", "name": "M", **here})
    await world.add(t.team_members, {"team_id": "m", "user_id": "ana", **here})
    await world.add(t.workflows, {"id": "f", "name": "F", **here})
    await world.add(t.agents, {"id": "a", "name": "A", "max_role": "admin", **here})
    await world.add(t.grants, _grant("w", "workspace", "w", "user", "ana", "admin"))
    await world.conversation("c", "ana", messages=1)
    await world.say("c", 2, "", role="tool", tool_call_id="x", table_ids=["t1"])
    await world.add(t.workspaces, {"id": "w2", "name": "Other"})
    await world.add(t.members, {"workspace_id": "w2", "user_id": "ana", "role": "admin"})
    facts = await facts_of(
        domain,
        at(
            workspace="w2", table_ids=("t0",), view_id="t0.v0", project_id="p", task_id="k",
            team_id="m", workflow_id="f", agent_stack=("a",), conversation_id="c",
        ),
    )  # fmt: skip
    assert facts.member is not None
    left = facts.model_dump(exclude={"now", "timeline", "user", "workspace", "member", "grants"})
    assert not any(left.values()), left
    assert not any(one.scope_id for one in facts.grants)


async def test_tables_that_decide_are_read_though_nobody_named_them(
    world: World, domain: SqlDomain
) -> None:
    """The view's, the task's, and those of tools in the tail; a trashed one is not there."""
    await world.table("t2", records=1)
    await world.table("t3", records=1)
    await world.add(
        t.tasks,
        {"id": "k", "title": "K", "workspace_id": "w", "table_id": "t1", "record_id": "t1.r0"},
    )
    await world.conversation("c", "ana", messages=1)
    await world.say("c", 2, "", role="assistant", tool_calls=[{"id": "x"}], table_ids=["t2", "t3"])
    async with world.database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t3").values(trashed=True))
    facts = await facts_of(domain, at(view_id="t0.v0", task_id="k", conversation_id="c"))
    assert {table.id for table in facts.tables} == {"t0", "t1", "t2"}


async def test_grants_of_the_user_and_of_the_users_teams_only(
    world: World, domain: SqlDomain
) -> None:
    """On the workspace and the tables in question; nobody else's."""
    here = {"workspace_id": "w"}
    await world.add(t.teams, {"id": "m", "name": "M", **here}, {"id": "n", "name": "N", **here})
    await world.add(
        t.team_members,
        {"team_id": "m", "user_id": "bob", **here},
        {"team_id": "n", "user_id": "ana", **here},
    )
    await world.add(
        t.grants,
        _grant("w", "table", "t0", "user", "bob", "editor"),
        _grant("w", "table", "t0", "user", "ana", "none"),
        _grant("w", "table", "t0", "team", "m", "builder"),
        _grant("w", "table", "t0", "team", "n", "none"),
        _grant("w", "table", "t1", "user", "bob", "none"),
        _grant("w", "workspace", "w", "team", "m", "viewer"),
    )
    facts = await facts_of(domain, at("bob", table_ids=("t0",)))
    found = {(g.scope_type, g.scope_id, g.subject_type, g.role) for g in facts.grants}
    assert found == {
        ("table", "t0", "user", "editor"),
        ("table", "t0", "team", "builder"),
        ("workspace", "w", "team", "viewer"),
    }


def _grant(workspace: str, *rest: str) -> dict[str, str]:
    names = ("scope_type", "scope_id", "subject_type", "subject_id", "role")
    return {"workspace_id": workspace, **dict(zip(names, rest, strict=True))}


# -- dialogue ----------------------------------------------------------------------------------


async def test_the_tail_and_what_a_summary_takes_from(world: World, domain: SqlDomain) -> None:
    """Oldest first: the tail whole, at most 40 before it, cut; count and size are of all."""
    await world.conversation("c", "ana", messages=0)
    for n in range(1, 101):
        await world.say("c", n, f"{n}:" + "x" * 3_000, author="ana")
    async with world.database.begin() as connection:
        await connection.execute(update(t.conversations).values(message_count=100, total_chars=9))
    async with Statements(world.database) as statements:
        dialogue = await talked(domain, 20)
    assert len(statements.seen) == 1
    assert [m.content.split(":")[0] for m in dialogue.messages] == [str(n) for n in range(41, 101)]
    older, tail = dialogue.messages[:40], dialogue.messages[40:]
    assert {len(m.content) for m in older} == {OLDER_CHARS}
    assert all(m.chars == len(m.content) > 3_000 for m in tail)
    assert all(m.chars > 3_000 for m in older)
    assert (dialogue.message_count, dialogue.total_chars) == (100, 9)


async def test_the_tail_reaches_back_to_the_start_of_a_tool_group(
    world: World, domain: SqlDomain
) -> None:
    """A call stays with its results; what tools said before the tail is never read."""
    await world.conversation("c", "ana", messages=0)
    await world.say("c", 1, "first")
    for start in (2, 5):
        calls = [{"id": f"x{start}"}, {"id": f"y{start}"}]
        await world.say("c", start, "calling", role="assistant", tool_calls=calls)
        for n, call in enumerate(calls, start=1):
            await world.say("c", start + n, "result", role="tool", tool_call_id=call["id"])
    await world.say("c", 8, "last")
    dialogue = await talked(domain, 2)
    assert [m.id for m in dialogue.messages] == [f"c.m{n}" for n in (1, 2, 5, 6, 7, 8)]
    assert dialogue.messages[2].tool_calls == ({"id": "x5"}, {"id": "y5"})


async def test_the_shorter_statement_says_what_the_whole_one_says(
    world: World, domain: SqlDomain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a conversation and an agent, tables of its tools and all that decides on them."""
    await world.conversation("c", "ana", messages=3)
    await world.own_rows("t0", "user", "bob")
    await world.say("c", 9, "found", role="tool", tool_call_id="x", table_ids=["t0", "t1"])
    await world.add(t.agents, {"id": "a", "name": "A", "max_role": "editor", "workspace_id": "w"})
    where = at("ana", conversation_id="c", agent_stack=("a",))
    async with Statements(world.database) as statements:
        shorter = await domain.facts(where, tail=20)
        monkeypatch.setattr("context_engine.adapters.sql.reads._names_more", lambda _: True)
        whole = await domain.facts(where, tail=20)
    assert shorter.model_copy(update={"now": whole.now}) == whole
    assert set(whole.named) == {"t0", "t1"}
    assert len(statements.seen[0]) < len(statements.seen[1])


async def test_a_dialogue_without_messages(world: World, domain: SqlDomain) -> None:
    """It is empty, not missing."""
    await world.conversation("c", "ana", messages=0)
    assert (await talked(domain, 20)).model_dump() == DialogueFacts().model_dump()


# -- counts ------------------------------------------------------------------------------------


async def test_deleted_and_invisible_records_are_not_counted(
    world: World, domain: SqlDomain
) -> None:
    """The table's count and the view's are two numbers, both of visible rows only."""
    await world.own_rows("t0", "role", "viewer")
    async with world.database.begin() as connection:
        gone = update(t.records).where(t.records.c.id == "t0.r0")
        await connection.execute(gone.values(deleted_at=text("now()")))
    asked = {"table_ids": ("t0", "t1"), "view_id": "t0.v0"}
    _, ana = await counted(domain, at("ana", **asked))
    _, bob = await counted(domain, at("bob", **asked))
    assert (ana.tables, ana.view) == ({"t0": Count.of(9), "t1": Count.of(10)}, Count.of(4))
    assert (bob.tables, bob.view) == ({"t0": Count.of(1), "t1": Count.of(10)}, Count.of(0))


async def test_a_filter_that_cannot_be_computed_has_no_count(
    world: World, domain: SqlDomain
) -> None:
    """Never the unfiltered number, and the table's own count stays."""
    async with world.database.begin() as connection:
        await connection.execute(update(t.views).values(filter={"broken": 1}))
    _, counts = await counted(domain, at(table_ids=("t0",), view_id="t0.v0"))
    assert counts.view is not None
    assert (counts.view.value, counts.view.unavailable is None) == (None, False)
    assert counts.tables["t0"] == Count.of(10)


async def test_tasks_count_where_their_rows_are_in_sight(world: World, domain: SqlDomain) -> None:
    """Whatever tables the request names: a task of an unseen row is no task."""
    here = {"workspace_id": "w", "project_id": "p"}
    await world.add(t.projects, {"id": "p", "name": "P", "workspace_id": "w"})
    await world.add(
        t.tasks,
        {"id": "k0", "title": "no row", **here},
        {"id": "k1", "title": "bob's", "table_id": "t0", "record_id": "t0.r0", **here},
        {"id": "k2", "title": "ana's", "table_id": "t0", "record_id": "t0.r1", **here},
        {"id": "k3", "title": "t1", "table_id": "t1", "record_id": "t1.r1", **here},
    )
    async with world.database.begin() as connection:
        done = update(t.tasks).where(t.tasks.c.id == "k1")
        await connection.execute(done.values(status="done"))
    await world.add(t.grants, _grant("w", "table", "t1", "user", "bob", "none"))
    await world.own_rows("t0", "user", "bob")
    for tables in ((), ("t0",)):
        _, ana = await counted(domain, at("ana", table_ids=tables, project_id="p"))
        _, bob = await counted(domain, at("bob", table_ids=tables, project_id="p"))
        assert (ana.project_tasks, ana.project_open_tasks) == (Count.of(4), Count.of(3))
        assert (bob.project_tasks, bob.project_open_tasks) == (Count.of(2), Count.of(1))
    for task, seen in (("k1", True), ("k2", False)):
        scope, counts = await counted(domain, at("bob", task_id=task))
        assert scope.task is not None
        assert counts.task_row_visible is seen


async def test_ids_of_any_kind_make_no_statement_of_their_own(
    world: World, domain: SqlDomain
) -> None:
    """Long ids and ids with quotes, colons and percent signs count, by the same statement."""
    odd = "x" * 190 + "'\":%(1)s"
    await world.table(odd, records=3)
    async with Statements(world.database) as statements:
        _, plain = await counted(domain, at(table_ids=("t0",)))
        _, counts = await counted(domain, at(table_ids=(odd,)))
    assert (plain.tables["t0"], counts.tables[odd]) == (Count.of(10), Count.of(3))
    assert len(set(statements.seen)) == 3


async def test_counts_over_their_time_say_so(world: World, config: Settings) -> None:
    """No error and no number: every count is missing with the reason, which passes."""
    await world.add(t.projects, {"id": "p", "name": "P", "workspace_id": "w"})
    slow = create_engine(config.model_copy(update={"statement_timeout_seconds": 0.2}))
    async with world.database.connect() as holder:
        await holder.execute(text("LOCK TABLE records IN ACCESS EXCLUSIVE MODE"))
        where = at(table_ids=("t0",), view_id="t0.v0", project_id="p")
        _, counts = await counted(SqlDomain(slow), where)
    await slow.dispose()
    assert counts.passing
    assert counts.view is not None
    assert counts.project_tasks is not None
    assert {counts.tables["t0"].value, counts.view.value, counts.project_tasks.value} == {None}
    assert counts.tables["t0"].unavailable == "the database took too long"


# -- the snapshot ------------------------------------------------------------------------------


async def test_one_snapshot_for_all_statements(world: World, domain: SqlDomain) -> None:
    """What is committed between facts and counts is not counted; and nothing can be written."""
    where = at(table_ids=("t0",))
    async with domain.snapshot() as reads:
        scope = await visible(reads, where)
        async with world.database.begin() as connection:
            await connection.execute(update(t.records).values(deleted_at=text("now()")))
        assert (await reads.counts(scope)).tables["t0"] == Count.of(10)
    assert (await counted(domain, where))[1].tables["t0"] == Count.of(0)


async def test_counts_are_planned_for_the_table_they_count(world: World, domain: SqlDomain) -> None:
    """Facts keep one plan; what follows is planned anew, until the snapshot ends."""

    async def mode(connection: AsyncConnection) -> str:
        return str(await connection.scalar(text("SELECT current_setting('plan_cache_mode')")))

    async with world.database.connect() as connection:
        reads = SqlReads.within(connection)
        assert await mode(connection) == "force_generic_plan"
        await visible(reads, at(table_ids=("t0",)))
        assert await mode(connection) == "force_custom_plan"
        await connection.rollback()
        assert await mode(connection) == "force_generic_plan"


async def test_facts_over_their_time_are_unavailable(world: World, config: Settings) -> None:
    """Permission is never decided on half of it."""
    slow = create_engine(config.model_copy(update={"statement_timeout_seconds": 0.2}))
    async with world.database.connect() as holder:
        await holder.execute(text("LOCK TABLE members IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(Unavailable, match="too long") as refused:
            await facts_of(SqlDomain(slow), at())
    await slow.dispose()
    assert refused.value.part == "database"
