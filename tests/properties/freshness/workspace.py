"""The workspace that is asked about: where users ask, and what concerns each place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices as Services
from tests.properties.freshness.changes import BY_LAND, CAT, DAN
from tests.support.kept import ANA, BELGIUM, BOB, furnish
from tests.support.oracle.load import EMPTIED

Rows = list[tuple[Any, list[dict[str, Any]]]]


OF_MEMBERS = (
    "role of a member",
    "a member comes or goes",
    "a member sleeps",
    "a user",
    "workspace",
)
OF_TABLES = (
    "grant on a table", "grant taken back", "grant of a team on the workspace", "field permission",
    "field permission of a role", "policy by attribute", "no policy", "table's name",
    "table trashed", "table restored", "a field", "a record", "a record deleted",
    "a record restored", "role of a member",
)  # fmt: skip
OF_VIEWS = ("a view", "a view deleted", "cell of a filter", "field permission", "grant on a table")
OF_LINKS = (
    "a link", "grant on the linked table", "field permission of a link", "a record deleted",
    "table trashed", "table restored",
)  # fmt: skip
OF_AGENTS = ("an agent", *OF_LINKS)
OF_RULES = (
    "policy by link", "policy by attribute", "cell of an attribute", "key of an attribute",
    "cell behind a link", "a link", "cell of a filter", "a field deleted", "role of the editor",
)  # fmt: skip
OF_TALKS = ("a message", "a message edited", "conversation", "a participant", *OF_VIEWS)
OF_WORK = (
    "a project", "a task", "a task moves", "a team's member", "a team", "organization",
    "organization's member", "the workspace's organization", "a record deleted",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Place:
    """What a user asks, and what an earlier turn of the session had asked where it leaves out."""

    name: str
    given: dict[str, Any]
    often: tuple[str, ...]
    """Changes that concern it."""
    kept: dict[str, Any] | None = None

    @property
    def request(self) -> dict[str, Any]:
        return {"userId": BOB, "workspaceId": "w", "message": "?", **self.given}


TALK = {"conversationId": "c", "sessionId": "s", "tableIds": ["t"], "viewId": "belgium"}
PLACES = (
    Place("table", {"tableIds": ["t"]}, OF_TABLES),
    Place("view", {"tableIds": ["t"], "viewId": "belgium"}, OF_VIEWS),
    Place("tables", {"tableIds": ["staff", "t"]}, OF_LINKS),
    Place(
        "hidden table", {"tableIds": ["x"]},
        ("grant on another table", "grant of a team", "grant on a view", "a team's member",
         "grant taken back", "table trashed", "table restored"),
    ),
    Place("own rows", {"userId": CAT, "tableIds": ["t"]}, OF_RULES),
    Place("work", {"projectId": "p", "taskId": "k", "teamId": "m", "organizationId": "o"}, OF_WORK),
    Place(
        "private", {"projectId": "q", "taskId": "l", "workflowId": "f"},
        ("a project's member", "a workflow", "a task", "a task moves"),
    ),
    Place("talk", TALK, OF_TALKS),
    Place("next turn", TALK | {"message": "and now?"}, OF_TALKS),
    Place("inherits", {"sessionId": "s", "message": "and then?"}, OF_TALKS, TALK),
    Place("agent", {"userId": ANA, "agentStack": ["a"], "tableIds": ["t"]}, OF_AGENTS),
    Place("stranger", {"userId": DAN}, ("a member comes or goes", *OF_MEMBERS)),
    Place("editor", {"userId": CAT, "projectId": "p", "tableIds": ["staff"]}, OF_WORK + OF_RULES),
)  # fmt: skip


async def furnished(database: AsyncEngine) -> Rows:
    """All rows of the workspace, to be written again as they are."""
    s = Services(database, MemoryCache(), ids_as_given=True)
    await furnish(s)
    for user in (CAT, DAN):
        await s.users.create("op", name=user.title(), email=f"{user}@x.example", id=user)
    await s.members.add(ANA, "w", CAT, role="editor")
    await s.organizations.create("op", name="Org", id="o")
    await s.organizations.set_member("op", "o", BOB, role="member")
    await s.workspaces.attach(ANA, "w", organization_id="o")
    await s.teams.create(ANA, "w", name="Team", id="m")
    await s.teams.add_member(ANA, "w", "m", BOB)
    await _tables(s)
    await _work(s)
    return [
        (table, found)
        for table in t.metadata.sorted_tables
        if table is not t.outbox and (found := await _all(database, table))
    ]


async def _tables(s: Services) -> None:
    for id in ("staff", "x"):
        await s.tables.create(ANA, "w", name=id.title(), id=id, primary_id=f"{id}.name")
    for field in ("who", "land", "level"):
        await s.fields.create(ANA, "w", "staff", name=field.title(), type="text", id=field)
    for n, who in enumerate((BOB, CAT, "nobody")):
        cells: dict[str, JsonValue] = {"who": who, "land": "Belgium", "level": "iron"}
        await s.records.create(ANA, "w", "staff", cells, id=f"s{n}")
    await s.fields.create(ANA, "w", "t", name="Note", type="text", id="note")
    await s.links.create(ANA, "w", "t", id="by", name="By", linked_table_id="staff")
    await s.links.set(ANA, "w", "t", "by", "r0", ["s0"])
    await s.grants.set(ANA, "w", subject_type="user", subject_id=BOB, scope_id="x", role="none")
    await s.views.create(ANA, "w", "t", id="belgium", name="By country", filter=BELGIUM)
    await s.views.create(
        ANA, "w", "x", id="shown", name="Shown", ownership="restricted", filter=None
    )
    restricted: JsonValue = {
        "subjects": [{"type": "user", "id": CAT}], "mode": "restrictive", "pred": BY_LAND,
    }  # fmt: skip
    await s.policies.set(ANA, "w", "t", {"default": "show_all", "policies": [restricted]})


async def _work(s: Services) -> None:
    await s.projects.create(ANA, "w", name="Plan", id="p")
    await s.projects.create(ANA, "w", name="Quiet", id="q", private=True, member_ids=[ANA, CAT])
    await s.tasks.create(ANA, "w", title="K", project_id="p", table_id="t", record_id="r0", id="k")
    await s.tasks.create(ANA, "w", title="L", project_id="q", id="l")
    await s.workflows.create(ANA, "w", name="Flow", id="f")
    await s.agents.create(ANA, "w", name="Agent", max_role="editor", id="a")
    await s.conversations.open(ANA, "w", title="Talk", participant_ids=[BOB], id="c")
    for n in range(30):
        await s.messages.add(ANA, "w", "c", f"Message number {n} of the dialogue.", id=f"c{n}")


async def _all(database: AsyncEngine, table: Any) -> list[dict[str, Any]]:
    stored = [column for column in table.columns if column.computed is None]
    async with database.connect() as connection:
        return [dict(row._mapping) for row in await connection.execute(select(*stored))]


async def write(database: AsyncEngine, rows: Rows) -> None:
    """In place of whatever is there."""
    async with database.begin() as connection:
        await connection.execute(text(EMPTIED))
        for table, found in rows:
            await connection.execute(insert(table), found)
