"""Writes a workspace in memory into PostgreSQL, past every service, and empties it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, insert, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.sql import tables as t
from tests.support.oracle.model import Conversation, Table, Workspace
from tests.support.oracle.ran import ran_earlier, rights_noted

Row = dict[str, Any]

EMPTIED = "".join(
    (
        "DO $$ BEGIN ",
        *(f"{delete(table)}; " for table in reversed(t.metadata.sorted_tables)),
        "END $$",
    )
)
"""Takes away whatever is there, in one round trip."""


@dataclass(frozen=True)
class Loader:
    """One database that holds one workspace at a time."""

    database: AsyncEngine

    async def load(self, workspace: Workspace) -> None:
        """Replaces whatever is there. Tools have run before under the rights that there were."""
        noted: dict[str, dict[str, str]] = {}
        if ran_earlier(workspace):
            await self._write(workspace.before)
            noted |= await rights_noted(self.database, workspace, earlier=True)
        await self._write(workspace)
        noted |= await rights_noted(self.database, workspace, earlier=False)
        if not noted:
            return
        async with self.database.begin() as connection:
            m = t.messages.c
            by_id = update(t.messages).where(m.id == bindparam("of"))
            rows = [{"of": id, "rights": rights} for id, rights in noted.items()]
            await connection.execute(by_id, rows)

    async def _write(self, workspace: Workspace) -> None:
        """In one transaction."""
        rows: dict[Any, list[Row]] = {}
        for table, row in rows_for(workspace):
            rows.setdefault(table, []).append(row)
        async with self.database.begin() as connection:
            await connection.execute(text(EMPTIED))
            for table in t.metadata.sorted_tables:
                if table in rows:
                    await connection.execute(insert(table), rows[table])


def rows_for(w: Workspace) -> Iterator[tuple[Any, Row]]:
    """The rows that spell the workspace. Rows of one table have the same columns."""
    here = {"workspace_id": w.id}
    yield from _people(w, here)
    for one in w.grants:
        yield t.grants, {**vars(one), **here}
    for agent in w.agents:
        ids = None if agent.table_ids is None else list(agent.table_ids)
        yield t.agents, {**vars(agent), **here, "table_ids": ids}
    for place, table in enumerate(w.tables):
        yield from _table(table, place, here)
    for link in w.links:
        yield (
            t.links,
            {"field_id": link.field_id, "from_record_id": link.from_id,
             "to_record_id": link.to_id, **here},
        )  # fmt: skip
    for project in w.projects:
        row = {k: v for k, v in vars(project).items() if k != "user_ids"}
        yield t.projects, {**row, **here}
        for user in project.user_ids:
            yield t.project_members, {"project_id": project.id, "user_id": user, **here}
    for task in w.tasks:
        yield t.tasks, {**vars(task), **here}
    for workflow in w.workflows:
        yield t.workflows, {**vars(workflow), **here}
    for conversation in w.conversations:
        yield from _conversation(conversation, here)


def _people(w: Workspace, here: Row) -> Iterator[tuple[Any, Row]]:
    for user in w.users:
        yield t.users, dict(vars(user))
    for one in w.organizations:
        yield t.organizations, {"id": one.id, "name": one.name}
        for user_id, role in one.roles:
            row = {"organization_id": one.id, "user_id": user_id, "role": role}
            yield t.organization_members, row
    yield t.workspaces, {"id": w.id, "name": w.name, "organization_id": w.organization_id}
    for member in w.members:
        yield t.members, {**vars(member), **here}
    for team in w.teams:
        yield t.teams, {"id": team.id, "name": team.name, **here}
        for user_id in team.user_ids:
            yield t.team_members, {"team_id": team.id, "user_id": user_id, **here}


def _table(table: Table, place: int, workspace: Row) -> Iterator[tuple[Any, Row]]:
    here = {"table_id": table.id, **workspace}
    yield (
        t.tables,
        {"id": table.id, "name": table.name, "policy_default": table.policy_default,
         "trashed": table.trashed, "position": place, **workspace},
    )  # fmt: skip
    for number, field in enumerate(table.fields):
        row = {k: v for k, v in vars(field).items() if k != "permissions"}
        reads = None if field.reads is None else [list(one) for one in field.reads]
        more = {"options": field.options or {}, "reads": reads, "position": number}
        yield t.fields, {**row, **more, **here}
        for permission in field.permissions:
            yield t.field_permissions, {"field_id": field.id, **vars(permission), **here}
    for number, view in enumerate(table.views):
        lists = {"hidden": list(view.hidden), "field_order": list(view.field_order)}
        yield t.views, {**vars(view), **lists, "position": number, **here}
    for policy in table.policies:
        yield t.row_policies, {**vars(policy), **here}
    for record in table.records:
        row = {k: v for k, v in vars(record).items() if k != "deleted"}
        gone = record.created_at if record.deleted else None
        yield t.records, {**row, "deleted_at": gone, "updated_at": record.created_at, **here}


def _conversation(one: Conversation, here: Row) -> Iterator[tuple[Any, Row]]:
    sizes = [len(message.content) for message in one.messages]
    written = sum(len(message.content) for message in one.messages if message.role != "tool")
    yield (
        t.conversations,
        {"id": one.id, "title": one.title, "message_count": len(sizes),
         "total_chars": written, **here},
    )  # fmt: skip
    for user_id in one.user_ids:
        yield t.participants, {"conversation_id": one.id, "user_id": user_id, **here}
    for number, message in enumerate(one.messages):
        row = {k: v for k, v in vars(message).items() if k not in ("at", "under", "earlier")}
        more = {"position": number + 1, "chars": sizes[number], "created_at": message.at}
        lists = {"tool_calls": list(message.tool_calls), "table_ids": list(message.table_ids)}
        rights = {"rights": {}, "conversation_id": one.id}
        yield t.messages, {**row, **more, **lists, **rights, **here}
