"""Projects, tasks, teams, organizations and workflows."""

from __future__ import annotations

from dataclasses import asdict

from tests.support.oracle.model import Task
from tests.support.oracle.request import Request
from tests.support.oracle.rules import Access
from tests.support.oracle.shape import Told, count


class Work:
    """What stands at the coordinates beside tables, for one user."""

    def __init__(self, a: Access, request: Request) -> None:
        self.a, self.request, self.w = a, request, a.index.workspace

    def told(self) -> dict[str, Told | None]:
        return {
            "project": self.project(),
            "task": self.task(),
            "team": self.team(),
            "organization": self.organization(),
            "workflow": self.workflow(),
        }

    def shows_project(self, id: str | None) -> bool:
        one = next((one for one in self.w.projects if one.id == id), None)
        if one is None or self.a.barred:
            return False
        return self.a.user.id in one.user_ids if one.private else self.a.role != "none"

    def shows_task(self, task: Task) -> bool:
        if task.project_id is not None and not self.shows_project(task.project_id):
            return False
        if task.record_id is None:
            return task.project_id is not None or self.a.role != "none"
        table, record = self.a.index.records[task.record_id]
        return self.a.sees(table.id, record)

    def project(self) -> Told | None:
        one = next((one for one in self.w.projects if one.id == self.request.project_id), None)
        if one is None or not self.shows_project(one.id):
            return None
        tasks = [task for task in self.w.tasks if task.project_id == one.id]
        tables = {task.table_id for task in tasks if task.table_id is not None}
        known = all(self.a.countable(id) for id in tables)
        cap = self.w.bounds.count if known else None
        seen = [task for task in tasks if self.shows_task(task)]
        return {
            "id": one.id,
            "name": one.name,
            "status": one.status,
            "due_on": one.due_on.isoformat() if one.due_on else None,
            "tasks": count(len(seen), cap),
            "open_tasks": count(sum(task.status != "done" for task in seen), cap),
        }

    def task(self) -> Told | None:
        one = next((one for one in self.w.tasks if one.id == self.request.task_id), None)
        if one is None or not self.shows_task(one):
            return None
        return {
            "id": one.id,
            "title": one.title if self.titled(one) else None,
            "status": one.status,
            "project_id": one.project_id,
            "table_id": one.table_id,
            "record_id": one.record_id,
            "assignee_id": one.assignee_id,
            "due_on": one.due_on.isoformat() if one.due_on else None,
        }

    def titled(self, task: Task) -> bool:
        """A title is the primary field's cell: one way must hold both."""
        if task.table_id is None:
            return True
        return any(
            task.record_id in way.rows and any(f.primary for f in self.a.fields_of(way))
            for way in self.a.ways[task.table_id]
        )

    def team(self) -> Told | None:
        one = next((one for one in self.w.teams if one.id == self.request.team_id), None)
        if one is None or self.a.barred:
            return None
        if not (one.id in self.a.team_ids or self.a.role == "admin"):
            return None
        return {"id": one.id, "name": one.name, "members": len(one.user_ids)}

    def organization(self) -> Told | None:
        for one in self.w.organizations:
            role = dict(one.roles).get(self.a.user.id)
            here = one.id == self.request.organization_id == self.w.organization_id
            if here and role and not self.a.barred:
                return {"id": one.id, "name": one.name, "role": role}
        return None

    def workflow(self) -> Told | None:
        if self.a.role == "none":
            return None
        for one in self.w.workflows:
            if one.id == self.request.workflow_id:
                return asdict(one)
        return None
