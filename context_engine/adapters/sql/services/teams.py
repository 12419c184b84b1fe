"""Teams of a workspace: an ADMIN's to make, name, fill and remove."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import delete, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import field_permissions, grants, rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import MAX_IDS, TeamChanged, TeamMemberChanged
from context_engine.errors import Conflict, NotFound


class Teams(Service):
    async def create(
        self, actor_id: str, workspace_id: str, *, name: str, id: str | None = None
    ) -> Written:
        team_id = self._writer.id_for(id, actor_id, workspace_id)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            await rows.add(
                tx, t.teams, id=team_id, workspace_id=workspace_id, name=rows.named(name)
            )
            _tell(tx, workspace_id, team_id, "created", [])
        return tx.written(team_id, 1)

    async def rename(
        self,
        actor_id: str,
        workspace_id: str,
        team_id: str,
        *,
        name: str,
        expected_version: int | None = None,
    ) -> Written:
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            version = await _raise(tx, workspace_id, team_id, expected_version, rows.named(name))
            _tell(tx, workspace_id, team_id, "updated", await _member_ids(tx, team_id))
        return tx.written(team_id, version)

    async def delete(self, actor_id: str, workspace_id: str, team_id: str) -> Written:
        """Removes a team with its grants and field permissions.

        Policies that name it name nobody from then on.
        """
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            version = await _raise(tx, workspace_id, team_id, None)
            _tell(tx, workspace_id, team_id, "deleted", await _member_ids(tx, team_id))
            await grants.forget(tx, workspace_id, "team", team_id)
            await field_permissions.forget(tx, workspace_id, "team", team_id)
            await tx.connection.execute(delete(t.teams).where(t.teams.c.id == team_id))
        return tx.written(team_id, version)

    async def add_member(
        self, actor_id: str, workspace_id: str, team_id: str, user_id: str
    ) -> Written:
        """Puts an active member of the workspace into the team."""
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            await rows.active_members(tx, workspace_id, (user_id,), "userId")
            version = await _raise(tx, workspace_id, team_id, None)
            tm = t.team_members
            if await rows.find(tx, tm, tm.c.team_id == team_id, tm.c.user_id == user_id):
                raise Conflict(f"user {user_id!r} is in the team already")
            await rows.add(tx, tm, team_id=team_id, user_id=user_id, workspace_id=workspace_id)
            tx.record(
                TeamMemberChanged(
                    workspace_id=workspace_id, team_id=team_id, user_id=user_id, op="added"
                )
            )
        return tx.written(team_id, version)

    async def remove_member(
        self, actor_id: str, workspace_id: str, team_id: str, user_id: str
    ) -> Written:
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            version = await _raise(tx, workspace_id, team_id, None)
            tm = t.team_members
            gone = await tx.connection.execute(
                delete(tm).where(tm.c.team_id == team_id, tm.c.user_id == user_id)
            )
            if not gone.rowcount:
                raise NotFound("member", user_id)
            tx.record(
                TeamMemberChanged(
                    workspace_id=workspace_id, team_id=team_id, user_id=user_id, op="removed"
                )
            )
        return tx.written(team_id, version)


async def _raise(
    tx: Transaction,
    workspace_id: str,
    team_id: str,
    expected_version: int | None,
    name: str | None = None,
) -> int:
    return await rows.raise_version(
        tx,
        "team",
        t.teams,
        {"workspace_id": workspace_id, "id": team_id},
        rows.only_given(name=name),
        expected_version,
    )


async def _member_ids(tx: Transaction, team_id: str) -> list[str]:
    query = select(t.team_members.c.user_id).where(t.team_members.c.team_id == team_id)
    return list((await tx.connection.execute(query)).scalars())


def _tell(
    tx: Transaction,
    workspace_id: str,
    team_id: str,
    op: Literal["created", "updated", "deleted"],
    user_ids: list[str],
) -> None:
    """Names every member, in as many changes as that takes."""
    for start in range(0, max(len(user_ids), 1), MAX_IDS):
        tx.record(
            TeamChanged(
                workspace_id=workspace_id,
                team_id=team_id,
                op=op,
                member_ids=tuple(user_ids[start : start + MAX_IDS]),
            )
        )
