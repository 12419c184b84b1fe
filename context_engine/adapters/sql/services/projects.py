"""Projects of a workspace: a BUILDER's. A private one is seen by its members alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from sqlalchemy import delete, insert, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import bounded
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import ProjectChanged, TaskChanged
from context_engine.errors import Conflict, NotFound

Op = Literal["created", "updated", "deleted", "members"]


class Projects(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        name: str,
        status: str = "open",
        due_on: str | None = None,
        private: bool = False,
        member_ids: Sequence[str] = (),
        id: str | None = None,
    ) -> Written:
        """`due_on` is an ISO date. The maker of a project is its first member."""
        project_id = self._writer.id_for(id, actor_id, workspace_id)
        bounded(member_ids, "memberIds")
        member_ids = list(dict.fromkeys((actor_id, *member_ids)))
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder")
            await rows.active_members(tx, workspace_id, member_ids, "memberIds")
            await rows.add(
                tx,
                t.projects,
                id=project_id,
                workspace_id=workspace_id,
                name=rows.named(name),
                status=rows.named(status, "status"),
                due_on=rows.iso_date(due_on, "dueOn"),
                private=private,
            )
            members = [
                {"project_id": project_id, "user_id": user, "workspace_id": workspace_id}
                for user in member_ids
            ]
            await tx.connection.execute(insert(t.project_members), members)
            _tell(tx, workspace_id, project_id, "created")
        return tx.written(project_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        project_id: str,
        *,
        name: str | None = None,
        status: str | None = None,
        due_on: str | None = None,
        private: bool | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """None stays."""
        values = rows.only_given(
            name=None if name is None else rows.named(name),
            status=None if status is None else rows.named(status, "status"),
            due_on=rows.iso_date(due_on, "dueOn"),
            private=private,
        )
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder", project_id=project_id)
            version = await _raise(tx, project_id, values, expected_version)
            _tell(tx, workspace_id, project_id, "updated")
        return tx.written(project_id, version)

    async def delete(self, actor_id: str, workspace_id: str, project_id: str) -> Written:
        """Removes a project with its tasks."""
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder", project_id=project_id)
            version = await _raise(tx, project_id, {}, None)  # locks out who adds a task
            tasks = select(t.tasks.c.id).where(t.tasks.c.project_id == project_id)
            for task_id in (await tx.connection.execute(tasks)).scalars().all():
                tx.record(
                    TaskChanged(
                        workspace_id=workspace_id,
                        task_id=task_id,
                        project_ids=(project_id,),
                        op="deleted",
                    )
                )
            await tx.connection.execute(delete(t.projects).where(t.projects.c.id == project_id))
            _tell(tx, workspace_id, project_id, "deleted")
        return tx.written(project_id, version)

    async def add_member(
        self, actor_id: str, workspace_id: str, project_id: str, user_id: str
    ) -> Written:
        pm = t.project_members
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "builder", project_id=project_id)
            await rows.active_members(tx, workspace_id, (user_id,), "userId")
            version = await _raise(tx, project_id, {}, None)
            if await rows.find(tx, pm, pm.c.project_id == project_id, pm.c.user_id == user_id):
                raise Conflict(f"user {user_id!r} is a member of the project already")
            await rows.add(
                tx, pm, project_id=project_id, user_id=user_id, workspace_id=workspace_id
            )
            _tell(tx, workspace_id, project_id, "members")
        return tx.written(project_id, version)

    async def remove_member(
        self, actor_id: str, workspace_id: str, project_id: str, user_id: str
    ) -> Written:
        """The last member of a private project stays: nobody else would ever see it."""
        pm = t.project_members
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            seen = await rights.in_workspace(tx, workspace_id, "builder", project_id=project_id)
            version = await _raise(tx, project_id, {}, None)
            gone = await tx.connection.execute(
                delete(pm).where(pm.c.project_id == project_id, pm.c.user_id == user_id)
            )
            if not gone.rowcount:
                raise NotFound("member", user_id)
            left = await rows.find(tx, pm, pm.c.project_id == project_id)
            if left is None and seen.project is not None and seen.project.private:
                raise Conflict("the last member of a private project stays; add another first")
            _tell(tx, workspace_id, project_id, "members")
        return tx.written(project_id, version)


async def _raise(
    tx: Transaction, project_id: str, values: dict[str, object], expected_version: int | None
) -> int:
    return await rows.raise_version(
        tx, "project", t.projects, {"id": project_id}, values, expected_version
    )


def _tell(tx: Transaction, workspace_id: str, project_id: str, op: Op) -> None:
    tx.record(ProjectChanged(workspace_id=workspace_id, project_id=project_id, op=op))
