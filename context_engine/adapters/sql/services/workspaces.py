"""Workspaces: new ones are the operator's, the rest is their ADMINs'."""

from __future__ import annotations

from sqlalchemy import delete, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import given_or_new
from context_engine.adapters.sql.services.writing import Transaction, Written, lock_workspace
from context_engine.changes import MemberChanged, WorkspaceChanged
from context_engine.errors import NotFound


class Workspaces(Service):
    async def create(
        self,
        actor_id: str,
        *,
        name: str,
        maker_id: str,
        organization_id: str | None = None,
        id: str | None = None,
    ) -> Written:
        """The actor is the operator. `maker_id` becomes a member with the role ADMIN."""
        workspace_id = given_or_new(id)
        async with self._writer.transaction(actor_id) as tx:
            user = select(t.users.c.id).where(t.users.c.id == maker_id).with_for_update(read=True)
            if (await tx.connection.execute(user)).first() is None:
                raise NotFound("user", maker_id)
            await _share_organization(tx, organization_id)
            await rows.add(
                tx,
                t.workspaces,
                id=workspace_id,
                name=rows.named(name),
                organization_id=organization_id,
            )
            await rows.add(tx, t.members, workspace_id=workspace_id, user_id=maker_id, role="admin")
            tx.record(MemberChanged(workspace_id=workspace_id, user_id=maker_id, op="added"))
        return tx.written(workspace_id, 1)

    async def rename(
        self, actor_id: str, workspace_id: str, *, name: str, expected_version: int | None = None
    ) -> Written:
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            version = await rows.raise_version(
                tx,
                "workspace",
                t.workspaces,
                {"id": workspace_id},
                {"name": rows.named(name)},
                expected_version,
            )
            tx.record(WorkspaceChanged(workspace_id=workspace_id, op="updated"))
        return tx.written(workspace_id, version)

    async def attach(
        self, actor_id: str, workspace_id: str, *, organization_id: str | None
    ) -> Written:
        """Puts a workspace into an organization, or out of one. The actor is the operator."""
        async with self._writer.transaction(actor_id) as tx:
            await _share_organization(tx, organization_id)
            await lock_workspace(tx.connection, workspace_id, exclusive=True)
            version = await rows.raise_version(
                tx,
                "workspace",
                t.workspaces,
                {"id": workspace_id},
                {"organization_id": organization_id},
            )
            tx.record(WorkspaceChanged(workspace_id=workspace_id, op="updated"))
        return tx.written(workspace_id, version)

    async def delete(self, actor_id: str, workspace_id: str) -> Written:
        """Removes a workspace with all that is in it."""
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            gone = await tx.connection.execute(
                delete(t.workspaces)
                .where(t.workspaces.c.id == workspace_id)
                .returning(t.workspaces.c.version)
            )
            tx.record(WorkspaceChanged(workspace_id=workspace_id, op="deleted"))
            version = gone.scalar_one()
        return tx.written(workspace_id, version)


async def _share_organization(tx: Transaction, organization_id: str | None) -> None:
    """Locks it FOR SHARE: whoever changes it lists this workspace, or waits."""
    if organization_id is None:
        return
    row = select(t.organizations.c.id).where(t.organizations.c.id == organization_id)
    if (await tx.connection.execute(row.with_for_update(read=True))).first() is None:
        raise NotFound("organization", organization_id)
