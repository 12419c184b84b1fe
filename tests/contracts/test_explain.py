"""What operators are told of one question: each rule, what it does, and why."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.access import Question, Step
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.explain import explain
from tests.support.hidden import NED, grant, hide
from tests.support.world import Statements, World

HERE = {"workspace_id": "w", "table_id": "t0"}


@pytest.fixture
async def world(database: AsyncEngine) -> World:
    """With what `hide` adds: for `bob` an own-rows policy on `t0`, and a table with none."""
    made = World(database)
    await made.furnish()
    await hide(made)
    return made


async def why(world: World, user: str = "bob", table: str = "t0", **more: Any) -> dict[str, str]:
    """`outcome: because` of each step, with the rule that it quotes."""
    question = Question(user_id=user, workspace_id="w", table_id=table, **more)
    steps = await explain(world.database, question)
    told = {one.step: " ".join((f"{one.outcome}: {one.because}", *_rule(one))) for one in steps}
    assert len(told) == len(steps), "each step is told once"
    return told


def _rule(one: Step) -> tuple[str, ...]:
    return (json.dumps(one.rule),) if one.rule is not None else ()


@pytest.mark.parametrize(
    ("user", "workspace", "said"),
    [
        ("nobody", "w", "there is no user 'nobody'"),
        ("bob", "nowhere", "there is no workspace 'nowhere'"),
        ("eve", "w", "'eve' is no member of 'w'"),
        ("gone", "w", "the user 'gone' is not active"),
        ("left", "w", "the membership of 'left' is not active"),
    ],
)
async def test_who_is_no_member_is_told_so_and_no_more(
    world: World, user: str, workspace: str, said: str
) -> None:
    """Two steps: the rule and the verdict."""
    for id, active in (("gone", False), ("left", True)):
        await world.add(t.users, {"id": id, "name": id, "active": active})
        member = {"user_id": id, "workspace_id": "w", "role": "viewer", "active": not active}
        await world.add(t.members, member)
    question = Question(user_id=user, workspace_id=workspace, table_id="t0", record_id="t0.r0")
    steps = await explain(world.database, question)
    assert [(one.step, one.outcome, one.because) for one in steps] == [
        ("membership", "shuts out", said),
        ("verdict: table t0", "shuts out", said),
    ]


async def test_missing_things_are_said_to_be_missing(world: World) -> None:
    """Not there, trashed, elsewhere: each in its own words, unlike in any answer."""
    await world.add(t.workspaces, {"id": "other", "name": "Other"})
    await world.add(
        t.tables,
        {"id": "afar", "name": "Afar", "workspace_id": "other"},
        {"id": "old", "name": "Old", "workspace_id": "w", "trashed": True},
    )
    assert (await why(world, table="gone"))["table"] == "shuts out: there is no table 'gone'"
    assert (await why(world, table="afar"))[
        "table"
    ] == "shuts out: 'afar' is in the workspace 'other'"
    assert (await why(world, table="old"))["table"] == "shuts out: 'old' is trashed"
    await world.add(t.records, {"id": "lost", **HERE})
    async with world.database.begin() as connection:
        lost = t.records.c.id == "lost"
        await connection.execute(update(t.records).where(lost).values(deleted_at=datetime.now(UTC)))
    more = {"view_id": "none", "field_id": "none"}
    told = await why(world, record_id="none", **more)
    assert told["view"] == "shuts out: there is no view 'none' of this table"
    assert told["verdict: view none"] == "shuts out: it is not among the table's views"
    assert told["verdict: field none"] == "shuts out: there is no field 'none' of this table"
    assert told["verdict: cell none, none"] == "shuts out: there is no record 'none'"
    assert "deleted" in (await why(world, record_id="lost"))["verdict: record lost"]
    there = {"view_id": "hidden-table.v0", "field_id": "hidden-table.f0"}
    told = await why(world, record_id="hidden-table.r0", **there)
    assert "one of table 'hidden-table'" in told["view"]
    assert "not among" in told["verdict: view hidden-table.v0"]
    assert "one of table 'hidden-table'" in told["verdict: field hidden-table.f0"]
    assert "table 'hidden-table'" in told["verdict: cell hidden-table.r0, hidden-table.f0"]


async def test_the_grant_that_decides_is_told_beside_those_that_do_not(world: World) -> None:
    """One's own over the teams', the higher of the teams', the table over the workspace."""
    here = {"workspace_id": "w"}
    for team, role in (("a", "viewer"), ("b", "editor")):
        await world.add(t.teams, {"id": team, "name": team, **here})
        await world.add(t.team_members, {"team_id": team, "user_id": NED, **here})
        await world.add(t.grants, grant("team", team, role, scope="table", on="hidden-agents"))
    told = await why(world, NED, "hidden-agents")
    assert told["role on the workspace"] == "shuts out: none: the member's own"
    assert told["grant on the table hidden-agents to team a"].startswith("no effect: viewer: ")
    assert told["grant on the table hidden-agents to team b"] == "lets in: editor"
    assert told["role on the table"].startswith("lets in: editor")
    assert told["verdict: table hidden-agents"] == "lets in: by the table's own way"
    await world.add(t.grants, grant("user", NED, "none", scope="table", on="hidden-agents"))
    told = await why(world, NED, "hidden-agents")
    assert told["grant on the table hidden-agents to user ned"] == "shuts out: none"
    assert "the user's own" in told["grant on the table hidden-agents to team b"]
    assert told["verdict: table hidden-agents"] == "shuts out: no way leads into it"


async def test_agents_narrow_and_are_told_of(world: World) -> None:
    """What one may do, which tables, and that it must be there."""
    told = await why(world, "ana", "hidden-agents", agent_stack=("narrow",))
    assert told["agent narrow"] == "narrows: to admin at most, on t0"
    assert told["agents on the table"] == "shuts out: not a table of narrow"
    assert told["verdict: table hidden-agents"].startswith("shuts out")
    told = await why(world, "ana", agent_stack=("nobody",))
    assert told["agent nobody"] == "shuts out: there is no such agent in the workspace"
    assert told["verdict: table t0"] == told["agent nobody"]
    told = await why(world, NED, agent_stack=("narrow",))
    assert told["agent narrow"].startswith("shuts out: agents are for VIEWERs")


async def test_the_policy_that_closes_a_record_is_told(world: World) -> None:
    """Whom it names, what it demands, and whether the record fulfils it."""
    mine, others = await why(world, record_id="t0.r0"), await why(world, record_id="t0.r1")
    step = "policy 1 of 1 for the table's own way"
    assert mine[step].startswith("lets in: restrictive, names user bob; ")
    assert others[step].startswith("shuts out: restrictive, names user bob; ")
    assert '"sys:created_by"' in others[step]
    assert mine["verdict: record t0.r0"] == "lets in: held by the table's own way"
    assert others["verdict: record t0.r1"] == "shuts out: held by no way"
    assert (await why(world))[step].startswith("narrows: ")
    assert (await why(world, "ana"))[step].startswith("no effect: names only user bob")


async def test_stored_garbage_is_told_as_what_it_is(world: World) -> None:
    """It closes the table to everyone, and other rules are told as ever."""
    bad = {"id": "bad", "subjects": [{"type": "role", "id": "viewer"}], "mode": "restrictive"}
    await world.add(t.row_policies, {**bad, "pred": {"cmp": "?"}, **HERE})
    told = await why(world, record_id="t0.r0")
    bad_one, good_one = (f"policy {n} of 2 for the table's own way" for n in (1, 2))
    assert told[bad_one].startswith("shuts out: cannot be used")
    assert "stored as bad" in told[bad_one]
    assert "\n" not in told[bad_one]
    assert told[good_one].startswith("lets in")
    assert told["verdict: table t0"].startswith("lets in")
    assert told["verdict: record t0.r0"].startswith("shuts out")


async def test_an_attribute_of_the_user_is_looked_up(world: World) -> None:
    """In the table that it names, as for a request."""
    lookup = {
        "table": "hidden-table",
        "keyField": "hidden-table.f0",
        "valueField": "hidden-table.f1",
    }
    pred = {"cmp": {"ref": "field:t0.f1", "op": "in", "operand": {"attr": lookup}}}
    named = {"subjects": [{"type": "user", "id": "bob"}], "mode": "restrictive"}
    await world.add(t.row_policies, {"id": "q", "pred": pred, **named, **HERE})
    row = {"hidden-table.f0": "bob", "hidden-table.f1": "even"}
    await world.add(
        t.records, {"id": "x", "workspace_id": "w", "table_id": "hidden-table", "cells": row}
    )
    assert (await why(world, record_id="t0.r0"))["verdict: record t0.r0"].startswith("lets in")
    assert (await why(world, record_id="t0.r5"))["verdict: record t0.r5"].startswith("shuts out")


async def test_a_field_is_told_by_the_permission_that_decides(world: World) -> None:
    """The user's own over the role's; a computed one by its sources."""
    permissions = {"field_id": "t0.f1", **HERE}
    role = {"subject_type": "role", "subject_id": "viewer", "level": "none", **permissions}
    await world.add(t.field_permissions, role)
    made = {"id": "t0.made", "name": "Made", "type": "formula", "reads": [["t0", "t0.f1"]]}
    await world.add(t.fields, {**made, **HERE})
    told = await why(world, field_id="t0.f1")
    assert told["permission on t0.f1 to role viewer for the table's own way"] == "shuts out: none"
    assert told["verdict: field t0.f1"] == "shuts out: shown by no way"
    told = await why(world, field_id="t0.made")
    assert "t0.f1 of t0 is out of sight" in told["source t0.f1 of t0.made by the table's own way"]
    every = (await why(world))["fields of the table's own way"]
    assert "t0.f1 (field permission none)" in every
    assert "t0.made (made of what is out of sight)" in every
    own = {"subject_type": "user", "subject_id": "bob", "level": "read", **permissions}
    await world.add(t.field_permissions, own)
    told = await why(world, field_id="t0.f1")
    assert told["permission on t0.f1 to user bob for the table's own way"] == "narrows: read"
    of_role = told["permission on t0.f1 to role viewer for the table's own way"]
    assert of_role == "no effect: none: another permission goes before it"
    assert told["verdict: field t0.f1"].startswith("lets in")


async def test_a_restricted_view_is_a_way_of_its_own(world: World) -> None:
    """Its grant, its boundary, what it hides, and that it is hidden from others."""
    told = await why(world, view_id="hidden-view")
    assert told["view hidden-view"].startswith("shuts out: restricted: for who has a grant")
    await world.add(t.grants, grant("user", "bob", "viewer", scope="view", on="hidden-view"))
    boundary = {"cmp": {"ref": "field:t0.f1", "op": "eq", "operand": {"literal": "odd"}}}
    async with world.database.begin() as connection:
        await connection.execute(
            update(t.views)
            .where(t.views.c.id == "hidden-view")
            .values(filter=boundary, hidden=["t0.f0"])
        )
        await connection.execute(t.row_policies.delete())
        await connection.execute(
            update(t.grants)
            .where(t.grants.c.subject_id == "bob", t.grants.c.scope_type == "table")
            .values(scope_id="t0")
        )
    told = await why(world, view_id="hidden-view", record_id="t0.r1")
    assert told["grant on the view hidden-view to user bob"] == "lets in: viewer"
    assert told["way by view hidden-view"] == "lets in: a restricted view, held as viewer"
    assert told["boundary of the way by view hidden-view"].startswith(
        "lets in: its filter; it holds"
    )
    assert told["verdict: table t0"] == "lets in: by the way by view hidden-view"
    assert told["verdict: view hidden-view"].startswith("lets in")
    assert told["verdict: record t0.r1"] == "lets in: held by hidden-view"
    told = await why(world, field_id="t0.f0", record_id="t0.r1")
    assert told["verdict: cell t0.r1, t0.f0"] == "shuts out: held by no way"
    told = await why(world, view_id="hidden-view", record_id="t0.r2")
    assert told["boundary of the way by view hidden-view"].startswith("shuts out")


async def test_a_views_filter_is_told_as_presentation(world: World) -> None:
    """It takes no record out of sight."""
    told = await why(world, "ana", view_id="t0.v0", record_id="t0.r1")
    assert told["filter of view t0.v0"].startswith("narrows: presentation only; ")
    assert told["verdict: record t0.r1"].startswith("lets in")


async def test_a_record_costs_one_statement_more(world: World) -> None:
    """Whatever the number of policies."""
    for n in range(20):
        named = {"subjects": [{"type": "user", "id": "bob"}], "mode": "restrictive"}
        await world.add(t.row_policies, {"id": f"p{n}", "pred": True, **named, **HERE})
    counts = []
    for record in (None, "t0.r0"):
        async with Statements(world.database) as statements:
            await why(world, record_id=record)
        counts.append(len(statements.reading))
    assert counts[1] - counts[0] == 1
