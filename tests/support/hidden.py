"""One thing of every kind that is there and out of a user's sight, beside what is not there."""

from __future__ import annotations

from typing import Any

from sqlalchemy import update

from context_engine.adapters.sql import tables as t
from tests.support.world import World

HIDDEN, MISSING = "hidden", "nobody"
"""Beginnings of ids, of equal length: those of what is there, and of what is not."""

NED = "ned"
"""A member with role none, who sees the table `t0` by a grant; `bob` is a VIEWER."""

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "table": ("bob", {"tableIds": ["?-table"]}),
    "table of an agent's others": ("ana", {"tableIds": ["?-agents"], "agentStack": ["narrow"]}),
    "view": ("bob", {"viewId": "?-view"}),
    "view without its table": ("bob", {"viewId": "?-view", "tableIds": []}),
    "view of a table": ("bob", {"viewId": "?-table.v0", "tableIds": []}),
    "project": ("bob", {"projectId": "?-project"}),
    "task of a project": ("bob", {"taskId": "?-task"}),
    "task in a table": ("bob", {"taskId": "?-task-in"}),
    "task of a row": ("bob", {"taskId": "?-task-of"}),
    "task of a row, alone": ("bob", {"taskId": "?-task-of", "tableIds": []}),
    "task of a row and a project, alone": ("bob", {"taskId": "?-task-both", "tableIds": []}),
    "task of a row that a lookup hides, alone": ("bob", {"taskId": "?-task-asks", "tableIds": []}),
    "project of rows, alone": ("bob", {"projectId": "?-project", "tableIds": []}),
    "team": ("bob", {"teamId": "?-team"}),
    "organization": ("bob", {"organizationId": "?-organization"}),
    "workflow": (NED, {"workflowId": "?-workflow"}),
    "agent": (NED, {"agentStack": ["?-agent"]}),
    "conversation": ("bob", {"conversationId": "?-conversation"}),
    "conversation alone": ("bob", {"conversationId": "?-conversation", "tableIds": []}),
    "conversation of tools alone": ("bob", {"conversationId": "?-tools", "tableIds": []}),
    "conversation of tools and of what asks": (
        "bob",
        {"conversationId": "?-tools", "taskId": "?-task-asks", "tableIds": []},
    ),
}
"""Who asks for what; `?` stands for the beginning of the id."""


def coordinates(case: str, which: str) -> dict[str, Any]:
    """The coordinates of a case for what is `HIDDEN` or `MISSING`, beside the table `t0`."""
    return {"tableIds": ["t0"]} | {
        name: [one.replace("?", which) for one in value]
        if isinstance(value, list)
        else value.replace("?", which)
        for name, value in CASES[case][1].items()
    }


def grant(subject: str, id: str, role: str, *, scope: str, on: str) -> dict[str, Any]:
    return {
        "workspace_id": "w", "scope_type": scope, "scope_id": on, "subject_type": subject,
        "subject_id": id, "role": role,
    }  # fmt: skip


async def hide(world: World) -> None:
    """Adds to a furnished world all that `CASES` names as hidden."""
    here = {"workspace_id": "w"}
    await world.add(t.users, {"id": NED, "name": "Ned", "email_norm": "ned@example.org"})
    await world.add(t.members, {"user_id": NED, "role": "none", **here})
    for table in ("table", "agents"):
        await world.table(f"{HIDDEN}-{table}", records=3)
    await world.own_rows("t0", "user", "bob")
    await world.add(
        t.grants,
        grant("user", "bob", "none", scope="table", on=f"{HIDDEN}-table"),
        grant("user", NED, "viewer", scope="table", on="t0"),
    )
    view = {"id": f"{HIDDEN}-view", "name": "V", "type": "grid", "ownership": "restricted"}
    await world.add(t.views, {**view, "table_id": "t0", **here})
    await world.add(
        t.agents,
        {"id": "narrow", "name": "N", "max_role": "admin", "table_ids": ["t0"], **here},
        {"id": f"{HIDDEN}-agent", "name": "A", "max_role": "admin", **here},
    )
    await world.add(t.projects, {"id": f"{HIDDEN}-project", "name": "P", "private": True, **here})
    await _hide_tasks(world)
    await world.add(t.teams, {"id": f"{HIDDEN}-team", "name": "T", **here})
    await world.add(t.organizations, {"id": f"{HIDDEN}-organization", "name": "O"})
    await world.add(t.workflows, {"id": f"{HIDDEN}-workflow", "name": "F", **here})
    await world.conversation(f"{HIDDEN}-conversation", "ana", messages=3)
    await world.conversation(f"{HIDDEN}-tools", "ana", messages=3)
    async with world.database.begin() as connection:
        ran = update(t.messages).where(t.messages.c.conversation_id == f"{HIDDEN}-tools")
        await connection.execute(ran.values(table_ids=["t0", "asks"]))


async def _hide_tasks(world: World) -> None:
    """By their project, by their table, by their row."""
    barred = f"{HIDDEN}-table"
    await world.table("asks", records=3)
    attr = {"table": "t0", "keyField": "t0.f1", "valueField": "t0.f0"}
    asking = {"cmp": {"ref": "field:asks.f0", "op": "in", "operand": {"attr": attr}}}
    await world.add(
        t.row_policies,
        {
            "id": "asking", "workspace_id": "w", "table_id": "asks", "pred": asking,
            "subjects": [{"type": "user", "id": "bob"}], "mode": "restrictive",
        },
    )  # fmt: skip
    for task in (
        {"id": f"{HIDDEN}-task", "project_id": f"{HIDDEN}-project"},
        {"id": f"{HIDDEN}-task-in", "table_id": barred, "record_id": f"{barred}.r1"},
        {"id": f"{HIDDEN}-task-of", "table_id": "t0", "record_id": "t0.r1"},
        {"id": f"{HIDDEN}-task-asks", "table_id": "asks", "record_id": "asks.r1"},
        {
            "id": f"{HIDDEN}-task-both",
            "project_id": f"{HIDDEN}-project",
            "table_id": "t0",
            "record_id": "t0.r0",
        },
    ):
        await world.add(t.tasks, {"title": "K", "workspace_id": "w", **task})
