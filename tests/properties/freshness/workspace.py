"""The workspace that is asked about and changed: where users ask, and all that may happen to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from sqlalchemy import insert, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices as Services
from tests.support.kept import ANA, BELGIUM, BOB, furnish
from tests.support.oracle.load import EMPTIED

CAT, DAN = "cat", "dan"
OWN_LAND: JsonValue = {"attr": {"table": "staff", "keyField": "who", "valueField": "land"}}
BY_LAND: JsonValue = {"cmp": {"ref": "field:country", "op": "in", "operand": OWN_LAND}}
BY_STAFF: JsonValue = {
    "linkedAny": {
        "field": "by",
        "pred": {"cmp": {"ref": "field:level", "op": "eq", "operand": {"literal": "gold"}}},
    }
}
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
    Place("agent", {"userId": ANA, "agentStack": ["a"], "tableIds": ["t"]}, ("an agent", *OF_LINKS)),
    Place("stranger", {"userId": DAN}, ("a member comes or goes", *OF_MEMBERS)),
    Place("editor", {"userId": CAT, "projectId": "p", "tableIds": ["staff"]}, (*OF_WORK, *OF_RULES)),
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


# -- what changes --------------------------------------------------------------------------------

Change = Callable[[Services, int], Awaitable[Any]]
ROLES = ("viewer", "none", "editor", "commenter")
LEVELS = ("none", "read", "write")
LANDS = ("Belgium", "France", "Spain")


def _one(n: int, choices: tuple[str, ...]) -> str:
    return choices[n % len(choices)]


def _grant(subject: str, id: str, scope: str, on: str) -> Change:
    return lambda s, n: s.grants.set(
        ANA, "w", subject_type=subject, subject_id=id, scope_type=scope, scope_id=on,
        role=_one(n, ROLES),
    )  # fmt: skip


def _ungrant(subject: str, id: str, scope: str, on: str) -> Change:
    return lambda s, n: s.grants.remove(
        ANA, "w", subject_type=subject, subject_id=id, scope_type=scope, scope_id=on
    )


def _permit(field: str, subject: str, id: str) -> Change:
    return lambda s, n: s.field_permissions.set(
        ANA, "w", "t", field, subject_type=subject, subject_id=id, level=_one(n, LEVELS)
    )


def _rule(pred: JsonValue, who: str) -> Change:
    one: JsonValue = {
        "subjects": [{"type": "user", "id": who}],
        "mode": "restrictive",
        "pred": pred,
    }
    return lambda s, n: s.policies.set(ANA, "w", "t", {"default": "show_all", "policies": [one]})


def _edit(table: str, field: str, values: tuple[str, ...]) -> Change:
    prefix = "r" if table == "t" else "s"
    return lambda s, n: s.records.update(
        ANA, "w", table, f"{prefix}{n % 3}", {field: f"{_one(n, values)}"}
    )


def _toggle(first: Change, second: Change) -> Change:
    return lambda s, n: (first if n % 2 else second)(s, n)


ACCESS: dict[str, Change] = {
    "grant on a table": _grant("user", BOB, "table", "t"),
    "grant on another table": _grant("user", BOB, "table", "x"),
    "grant on the linked table": _grant("user", BOB, "table", "staff"),
    "grant taken back": _toggle(
        _ungrant("user", BOB, "table", "t"), _ungrant("user", BOB, "table", "x")
    ),
    "grant of a team": _grant("team", "m", "table", "x"),
    "grant of a team on the workspace": _grant("team", "m", "workspace", "w"),
    "grant on a view": _grant("user", BOB, "view", "shown"),
    "role of a member": lambda s, n: s.members.set(
        ANA, "w", BOB, role=_one(n, ("viewer", "editor", "admin"))
    ),
    "role of the editor": lambda s, n: s.members.set(ANA, "w", CAT, role=_one(n, ROLES[::2])),
    "a member comes or goes": _toggle(
        lambda s, n: s.members.add(ANA, "w", _one(n, (BOB, DAN)), role="viewer"),
        lambda s, n: s.members.remove(ANA, "w", _one(n // 2, (BOB, DAN))),
    ),
    "a member sleeps": lambda s, n: s.members.set(ANA, "w", BOB, active=n % 2 == 0),
    "a team's member": _toggle(
        lambda s, n: s.teams.add_member(ANA, "w", "m", _one(n, (BOB, CAT))),
        lambda s, n: s.teams.remove_member(ANA, "w", "m", BOB),
    ),
    "a team": lambda s, n: s.teams.rename(ANA, "w", "m", name=f"Team {n}"),
    "field permission": _permit("country", "user", BOB),
    "field permission of a role": _permit("name", "role", "viewer"),
    "field permission of a link": _permit("by", "user", BOB),
    "policy by attribute": _rule(BY_LAND, BOB),
    "policy by link": _rule(BY_STAFF, CAT),
    "no policy": lambda s, n: s.policies.set(
        ANA, "w", "t", {"default": "show_all", "policies": []}
    ),
    "an agent": lambda s, n: s.agents.update(
        ANA, "w", "a", max_role=_one(n, ("viewer", "editor")), table_ids=[["t"], ["x"]][n % 2]
    ),
    "a user": lambda s, n: s.users.update("op", BOB, name=f"Bob {n}", active=n % 4 != 3),
    "organization": lambda s, n: s.organizations.rename("op", "o", name=f"Org {n}"),
    "organization's member": _toggle(
        lambda s, n: s.organizations.set_member("op", "o", BOB, role=f"role {n}"),
        lambda s, n: s.organizations.remove_member("op", "o", BOB),
    ),
    "the workspace's organization": lambda s, n: s.workspaces.attach(
        ANA, "w", organization_id="o" if n % 2 else None
    ),
    "a project's member": _toggle(
        lambda s, n: s.projects.add_member(ANA, "w", "q", BOB),
        lambda s, n: s.projects.remove_member(ANA, "w", "q", BOB),
    ),
    "a participant": _toggle(
        lambda s, n: s.conversations.add_participant(ANA, "w", "c", BOB),
        lambda s, n: s.conversations.remove_participant(ANA, "w", "c", BOB),
    ),
}
CONTENT: dict[str, Change] = {
    "table's name": lambda s, n: s.tables.rename(ANA, "w", _one(n, ("t", "x", "staff")), name=f"{n}"),
    "table trashed": lambda s, n: s.tables.trash(ANA, "w", _one(n, ("t", "staff", "x"))),
    "table restored": lambda s, n: s.tables.restore(ANA, "w", _one(n, ("t", "staff", "x"))),
    "a field": lambda s, n: s.fields.update(
        ANA, "w", "t", _one(n, ("country", "by", "name")), name=f"Field {n}"
    ),
    "a field deleted": lambda s, n: s.fields.delete(ANA, "w", *(("t", "note"), ("staff", "level"))[n % 2]),
    "a view": lambda s, n: s.views.update(
        ANA, "w", "t", "belgium", name=f"View {n}", hidden=["country"] if n % 2 else []
    ),
    "a view deleted": lambda s, n: s.views.delete(ANA, "w", "t", "belgium"),
    "cell of a filter": _edit("t", "country", LANDS),
    "cell of nothing": _edit("t", "note", LANDS),
    "cell of an attribute": _edit("staff", "land", LANDS),
    "key of an attribute": _edit("staff", "who", (BOB, CAT, "nobody")),
    "cell behind a link": _edit("staff", "level", ("gold", "iron")),
    "a record": lambda s, n: s.records.create(
        ANA, "w", _one(n, ("t", "staff", "x")), {}, links=None
    ),
    "a record deleted": lambda s, n: s.records.delete(
        ANA, "w", *(("t", [f"r{n % 3}"]), ("staff", [f"s{n % 3}"]))[n % 2]
    ),
    "a record restored": lambda s, n: s.records.restore(
        ANA, "w", *(("t", [f"r{n % 3}"]), ("staff", [f"s{n % 3}"]))[n % 2]
    ),
    "a link": lambda s, n: s.links.set(
        ANA, "w", "t", "by", f"r{n % 3}", [f"s{i}" for i in range(n % 4)][:3]
    ),
    "a project": lambda s, n: s.projects.update(ANA, "w", "p", name=f"Plan {n}", private=n % 4 == 3),
    "a task": lambda s, n: s.tasks.update(
        ANA, "w", _one(n, ("k", "l")), status=_one(n, ("open", "done")), title=f"Task {n}"
    ),
    "a task moves": lambda s, n: s.tasks.update(ANA, "w", "k", project_id=_one(n, ("p", "q"))),
    "a workflow": lambda s, n: s.workflows.update(ANA, "w", "f", name=f"Flow {n}"),
    "a message": lambda s, n: s.messages.add(_one(n, (ANA, BOB)), "w", "c", f"Said {n}."),
    "a message edited": lambda s, n: s.messages.edit(ANA, "w", "c", f"c{n}", f"Edited {n}."),
    "conversation": lambda s, n: s.conversations.rename(ANA, "w", "c", title=f"Talk {n}"),
    "workspace": lambda s, n: s.workspaces.rename(ANA, "w", name=f"Work {n}"),
}  # fmt: skip
CHANGES = ACCESS | CONTENT
