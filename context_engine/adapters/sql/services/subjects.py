"""Whom a right names, and whether an actor may give it: the same for roles and for fields."""

from __future__ import annotations

from typing import Literal

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.texts import clean_id
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.changes import Subject
from context_engine.errors import InvalidRequest, NotFound
from context_engine.models.sections import Role

SubjectType = Literal["user", "team", "role"]
HELD: tuple[Role, ...] = tuple(role for role in rows.ROLES if role != "none")
"""Roles that somebody can be let in by, and so be named by."""


def named(type: str, id: str, allowed: tuple[SubjectType, ...]) -> Subject:
    """The subject that a caller names. Raises `InvalidRequest` for a type it may not be of."""
    if type not in allowed:
        *others, last = allowed
        raise InvalidRequest(f"use {', '.join(others)} or {last}", field="subjectType")
    if type == "role" and id not in HELD:
        raise InvalidRequest(f"use one of {', '.join(HELD)}", field="subjectId")
    return Subject(type=type, id=clean_id(id, "subjectId"))


async def check(tx: Transaction, workspace_id: str, subject: Subject) -> None:
    """It is of this workspace: a right that leaves it could never be taken back."""
    match subject.type:
        case "user":
            await rows.active_members(tx, workspace_id, (subject.id,), "subjectId")
        case "team":
            team = t.teams.c
            here = (team.id == subject.id, team.workspace_id == workspace_id)
            if await rows.find(tx, t.teams, *here) is None:
                raise NotFound("team", subject.id)
        case "role":
            return


async def demand_admin(tx: Transaction, workspace_id: str, table_id: str | None) -> Role:
    """ADMIN of the workspace, or of the table where one is named; the role held is returned.

    An ADMIN of the workspace need not see the table: whoever is shut out of something by mistake
    can be let in again. Raises `NotFound` for a table out of sight of who is none, and
    `NotPermitted`.
    """
    held = (await rights.scope(tx, workspace_id)).role
    if held != "admin" and table_id is not None:
        held = rights.role_on(await rights.seen_table(tx, workspace_id, table_id))
    where = "the workspace" if table_id is None else "the table"
    rights.demand(held, "admin", where)
    return held


async def live_table(tx: Transaction, workspace_id: str, table_id: str) -> None:
    """Raises `NotFound` for a table that is missing, trashed or another workspace's."""
    table = t.tables.c
    here = (table.id == table_id, table.workspace_id == workspace_id, table.trashed.is_(False))
    if await rows.find(tx, t.tables, *here) is None:
        raise NotFound("table", table_id)
