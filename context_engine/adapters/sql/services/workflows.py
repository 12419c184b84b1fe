"""Workflows of a workspace: a BUILDER's to write."""

from __future__ import annotations

from sqlalchemy import delete

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.writing import Written
from context_engine.changes import WorkflowChanged


class Workflows(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        name: str,
        status: str = "active",
        id: str | None = None,
    ) -> Written:
        workflow_id = self._writer.id_for(id, actor_id, workspace_id)
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder")
            await rows.add(
                tx,
                t.workflows,
                id=workflow_id,
                workspace_id=workspace_id,
                name=rows.named(name),
                status=rows.named(status, "status"),
            )
            tx.record(
                WorkflowChanged(workspace_id=workspace_id, workflow_id=workflow_id, op="created")
            )
        return tx.written(workflow_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        workflow_id: str,
        *,
        name: str | None = None,
        status: str | None = None,
        expected_version: int | None = None,
    ) -> Written:
        values = rows.only_given(
            name=None if name is None else rows.named(name),
            status=None if status is None else rows.named(status, "status"),
        )
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder", workflow_id=workflow_id)
            version = await rows.raise_version(
                tx,
                "workflow",
                t.workflows,
                {"workspace_id": workspace_id, "id": workflow_id},
                values,
                expected_version,
            )
            tx.record(
                WorkflowChanged(workspace_id=workspace_id, workflow_id=workflow_id, op="updated")
            )
        return tx.written(workflow_id, version)

    async def delete(self, actor_id: str, workspace_id: str, workflow_id: str) -> Written:
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder", workflow_id=workflow_id)
            gone = await tx.connection.execute(
                delete(t.workflows)
                .where(t.workflows.c.id == workflow_id)
                .returning(t.workflows.c.version)
            )
            version = gone.scalar_one()
            tx.record(
                WorkflowChanged(workspace_id=workspace_id, workflow_id=workflow_id, op="deleted")
            )
        return tx.written(workflow_id, version)
