"""Tasks: an EDITOR's, where the project and the row are in sight."""

from __future__ import annotations

from sqlalchemy import delete

from context_engine.access import VisibleScope
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells_in_sight import seen_records
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import Op, TaskChanged
from context_engine.errors import InvalidRequest, NotFound, NotPermitted


class Tasks(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        title: str,
        project_id: str | None = None,
        status: str = "open",
        assignee_id: str | None = None,
        due_on: str | None = None,
        table_id: str | None = None,
        record_id: str | None = None,
        id: str | None = None,
    ) -> Written:
        """`table_id` and `record_id` tie the task to a row. Status `done` closes it."""
        task_id = self._writer.id_for(id, actor_id, workspace_id)
        if (table_id is None) != (record_id is None):
            raise InvalidRequest("give tableId and recordId, or neither", field="recordId")
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            await rights.in_workspace(tx, workspace_id, "editor", project_id=project_id)
            if table_id is not None and record_id is not None:
                table = await rights.seen_table(tx, workspace_id, table_id)
                await seen_records(tx, table, (record_id,))
            await _check_assignee(tx, workspace_id, assignee_id)
            await rows.add(
                tx,
                t.tasks,
                id=task_id,
                workspace_id=workspace_id,
                project_id=project_id,
                table_id=table_id,
                record_id=record_id,
                title=rows.named(title, "title"),
                status=rows.named(status, "status"),
                assignee_id=assignee_id,
                due_on=rows.iso_date(due_on, "dueOn"),
            )
            _tell(tx, workspace_id, task_id, "created", project_id)
        return tx.written(task_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        task_id: str,
        *,
        title: str | None = None,
        project_id: str | None = None,
        status: str | None = None,
        assignee_id: str | None = None,
        due_on: str | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """None stays. A task may move to another project in sight.

        Who may not see the primary field of its row does not see its title, nor write it.
        """
        values = rows.only_given(
            title=None if title is None else rows.named(title, "title"),
            project_id=project_id,
            status=None if status is None else rows.named(status, "status"),
            assignee_id=assignee_id,
            due_on=rows.iso_date(due_on, "dueOn"),
        )
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            seen, titled = await _seen(tx, workspace_id, task_id, project_id)
            if title is not None and not titled:
                raise NotPermitted(
                    "the title is out of the actor's sight, as the row's primary field is;"
                    " ask an admin of the table"
                )
            await _check_assignee(tx, workspace_id, assignee_id)
            version = await rows.raise_version(
                tx, "task", t.tasks, {"id": task_id}, values, expected_version
            )
            _tell(tx, workspace_id, task_id, "updated", _project_of(seen), project_id)
        return tx.written(task_id, version)

    async def delete(self, actor_id: str, workspace_id: str, task_id: str) -> Written:
        async with self._writer.transaction(actor_id, workspace_id) as tx:
            seen, _ = await _seen(tx, workspace_id, task_id, None)
            gone = await tx.connection.execute(
                delete(t.tasks).where(t.tasks.c.id == task_id).returning(t.tasks.c.version)
            )
            _tell(tx, workspace_id, task_id, "deleted", _project_of(seen))
            version = gone.scalar_one()
        return tx.written(task_id, version)


async def _seen(
    tx: Transaction, workspace_id: str, task_id: str, project_id: str | None
) -> tuple[VisibleScope, bool]:
    """The scope of a task whose project and row the actor sees, locked against other writers; and
    whether its title is in sight, as the primary field of its row is."""
    here = (t.tasks.c.workspace_id == workspace_id, t.tasks.c.id == task_id)
    await rows.find(tx, t.tasks, *here, lock=True)
    try:
        seen = await rights.in_workspace(
            tx, workspace_id, "editor", task_id=task_id, project_id=project_id
        )
    except NotFound as fault:
        if fault.kind == "task":  # takes the statements of one whose row is out of sight
            await rows.find(tx, t.records, t.records.c.id == task_id)
        raise
    task = seen.task
    assert task is not None, "access raises where the task is out of sight"
    if task.row_in is None or task.facts.record_id is None:
        return seen, True
    try:
        (row,) = (await seen_records(tx, task.row_in, (task.facts.record_id,))).values()
    except NotFound as fault:
        raise NotFound("task", task_id) from fault
    return seen, any(field.primary and field.id in row.field_ids for field in task.row_in.fields)


def _project_of(scope: VisibleScope) -> str | None:
    project = scope.task.facts.project if scope.task else None
    return project.id if project else None


async def _check_assignee(tx: Transaction, workspace_id: str, user_id: str | None) -> None:
    if user_id is not None:
        await rows.active_members(tx, workspace_id, (user_id,), "assigneeId")


def _tell(
    tx: Transaction, workspace_id: str, task_id: str, op: Op, *project_ids: str | None
) -> None:
    """Names the projects it was in before and is in after."""
    projects = tuple(dict.fromkeys(p for p in project_ids if p is not None))
    tx.record(TaskChanged(workspace_id=workspace_id, task_id=task_id, project_ids=projects, op=op))
