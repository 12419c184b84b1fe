"""Members of a workspace: an ADMIN's to add, change and remove. The last ADMIN stays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, delete, func, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import field_permissions, grants, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.writing import Transaction, Written, lock_workspace
from context_engine.changes import MemberChanged, ProjectChanged, TeamMemberChanged
from context_engine.errors import Conflict, NotFound

DEFER = "defer"
"""The sentinel in place of a role: that of the member's teams."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a workspace, as every member sees the others."""

    user_id: str
    name: str
    role: str
    """A role, or `defer`."""
    active: bool
    version: int


class Members(Service):
    async def list(self, actor_id: str, workspace_id: str) -> Sequence[Member]:
        """The members of a workspace, by id. Raises `NotFound` for who is none of them."""
        m, u = t.members.c, t.users.c
        query = (
            select(m.user_id, u.name, m.role, and_(m.active, u.active).label("active"), m.version)
            .select_from(t.members.join(t.users, u.id == m.user_id))
            .where(m.workspace_id == workspace_id)
            .order_by(m.user_id)
        )
        async with self._writer.transaction(actor_id) as tx:
            await rights.scope(tx, workspace_id)
            found = await tx.connection.execute(query)
        return [Member(*row) for row in found]

    async def add(self, actor_id: str, workspace_id: str, user_id: str, *, role: str) -> Written:
        """Adds a user with a role, or `defer`. Raises `Conflict` for who is a member already."""
        rows.role(role, also=(DEFER,))
        async with self._writer.transaction(actor_id) as tx:
            # The user before the workspace, as whoever changes a user locks them.
            user = select(t.users.c.id).where(t.users.c.id == user_id).with_for_update(read=True)
            known = (await tx.connection.execute(user)).first() is not None
            await lock_workspace(tx.connection, workspace_id, exclusive=True)
            await rights.in_workspace(tx, workspace_id, "admin")
            if not known:
                raise NotFound("user", user_id)
            if await _member(tx, workspace_id, user_id) is not None:
                raise Conflict(f"user {user_id!r} is a member already; set their role instead")
            await rows.add(tx, t.members, workspace_id=workspace_id, user_id=user_id, role=role)
            tx.record(MemberChanged(workspace_id=workspace_id, user_id=user_id, op="added"))
        return tx.written(user_id, 1)

    async def set(
        self,
        actor_id: str,
        workspace_id: str,
        user_id: str,
        *,
        role: str | None = None,
        active: bool | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """Changes a member's role, or whether the membership is active. None stays."""
        if role is not None:
            rows.role(role, also=(DEFER,))
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            key = {"workspace_id": workspace_id, "user_id": user_id}
            values = rows.only_given(role=role, active=active)
            version = await rows.raise_version(
                tx, "member", t.members, key, values, expected_version
            )
            await keep_an_admin(tx, workspace_id)
            tx.record(MemberChanged(workspace_id=workspace_id, user_id=user_id, op="updated"))
        return tx.written(user_id, version)

    async def remove(self, actor_id: str, workspace_id: str, user_id: str) -> Written:
        """Ends a membership, with all that is said of the user in this workspace: grants, field
        permissions, teams and projects.

        They do not come back with a later membership. Conversations do: they were read.
        """
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            member = await _member(tx, workspace_id, user_id)
            if member is None:
                raise NotFound("member", user_id)
            await detach(tx, workspace_id, user_id)
            await keep_an_admin(tx, workspace_id)
            tx.record(MemberChanged(workspace_id=workspace_id, user_id=user_id, op="removed"))
        return tx.written(user_id, member.version)


async def _member(tx: Transaction, workspace_id: str, user_id: str) -> Row[Any] | None:
    m = t.members.c
    return await rows.find(tx, t.members, m.workspace_id == workspace_id, m.user_id == user_id)


async def detach(tx: Transaction, workspace_id: str, user_id: str) -> None:
    """Removes a user's membership and whatever hung on it, telling of teams and projects."""
    tm, pm, m = t.team_members, t.project_members, t.members
    teams = await tx.connection.execute(
        delete(tm)
        .where(tm.c.workspace_id == workspace_id, tm.c.user_id == user_id)
        .returning(tm.c.team_id)
    )
    for team_id in teams.scalars():
        tx.record(
            TeamMemberChanged(
                workspace_id=workspace_id, team_id=team_id, user_id=user_id, op="removed"
            )
        )
    projects = await tx.connection.execute(
        delete(pm)
        .where(pm.c.workspace_id == workspace_id, pm.c.user_id == user_id)
        .returning(pm.c.project_id)
    )
    for project_id in projects.scalars():
        tx.record(ProjectChanged(workspace_id=workspace_id, project_id=project_id, op="members"))
    await grants.forget(tx, workspace_id, "user", user_id)
    await field_permissions.forget(tx, workspace_id, "user", user_id)
    await tx.connection.execute(
        delete(m).where(m.c.workspace_id == workspace_id, m.c.user_id == user_id)
    )


async def keep_an_admin(tx: Transaction, workspace_id: str, *, without: str | None = None) -> None:
    """Raises `Conflict` when no active member with the role ADMIN of their own is left.

    `without` leaves one user out of the count: who is about to go. The caller holds the
    workspace's exclusive lock. Teams do not count: their grants may go at any time.
    """
    m, u = t.members.c, t.users.c
    query = (
        select(func.count())
        .select_from(t.members.join(t.users, u.id == m.user_id))
        .where(m.workspace_id == workspace_id, m.role == "admin", m.active, u.active)
    )
    if without is not None:
        query = query.where(m.user_id != without)
    if not (await tx.connection.execute(query)).scalar_one():
        raise Conflict(
            f"this would leave workspace {workspace_id!r} without an admin; make another first"
        )
