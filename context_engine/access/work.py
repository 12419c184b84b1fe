"""The coordinates beside tables: projects, tasks, teams, the organization, workflows."""

from __future__ import annotations

from context_engine import keys
from context_engine.access.coming import may_look, shows
from context_engine.access.roles import RANK
from context_engine.access.run import Run
from context_engine.access.tables import Tables
from context_engine.access.visible import MAKER, VisibleTable, VisibleTask
from context_engine.facts import (
    OrganizationFacts,
    ProjectFacts,
    TaskFacts,
    TeamFacts,
    WorkflowFacts,
    WorkspaceFacts,
)
from context_engine.keys import Tag
from context_engine.models.sections import Role


def project_in_sight(run: Run, role: Role) -> ProjectFacts | None:
    """`role` is that on the workspace, narrowed by the agents; so it is in the others."""
    if run.at.project_id is None:
        return None
    run.tell({keys.project(run.at.project_id), keys.tasks_of(run.at.project_id)})
    if run.facts.project is not None and shows(run.facts, run.facts.project, role):
        return run.facts.project
    run.absent("project", run.at.project_id)
    return None


def project_tables(run: Run, tables: Tables, role: Role) -> tuple[VisibleTable, ...]:
    """Tables in sight that rows of the requested project's tasks are in."""
    project = run.facts.project
    if project is None or project.id != run.at.project_id or not shows(run.facts, project, role):
        return ()
    found = []
    for table_id in project.task_table_ids:
        if (table := tables.one(table_id)) is not None:
            tables.tell_of(table)
            found.append(table)
    return tuple(found)


def task_in_sight(run: Run, tables: Tables, role: Role) -> VisibleTask | None:
    """Its project and the table of its row are in sight; without either, the role decides."""
    if run.at.task_id is None:
        return None
    run.tell({keys.task(run.at.task_id)})
    task = run.facts.task
    if task is not None:
        row_in, in_sight = _row_in(tables, task)
        if task.project is not None:
            run.tags.add(keys.project(task.project.id))
            in_sight = in_sight and shows(run.facts, task.project, role)
        elif task.table_id is None:
            in_sight = RANK[role] >= RANK["viewer"]
        if in_sight:
            return VisibleTask(
                maker=MAKER, facts=task, row_in=row_in, told=_told(tables, task, row_in)
            )
    run.absent("task", run.at.task_id)
    return None


def _row_in(tables: Tables, task: TaskFacts) -> tuple[VisibleTable | None, bool]:
    """The table that a task's row is in, and whether it leaves the task in sight."""
    if task.table_id is None:
        return None, True
    table = tables.one(task.table_id)
    return table, table is not None


def _told(tables: Tables, task: TaskFacts, row_in: VisibleTable | None) -> frozenset[Tag]:
    tags = tables.told_of(row_in) if row_in is not None else set()
    return frozenset(tags | ({keys.project(task.project.id)} if task.project else set()))


def team_in_sight(run: Run, role: Role) -> TeamFacts | None:
    if run.at.team_id is None:
        return None
    run.tell({keys.team(run.at.team_id)})
    team = run.facts.team
    if team is not None and (team.is_member or role == "admin") and may_look(run.facts):
        return team
    run.absent("team", run.at.team_id)
    return None


def organization_in_sight(run: Run, workspace: WorkspaceFacts) -> OrganizationFacts | None:
    """Only the workspace's own, and for its members."""
    if run.at.organization_id is None:
        return None
    run.tell({keys.organization(run.at.organization_id)})
    organization = run.facts.organization
    if (
        organization is not None
        and organization.role is not None
        and organization.id == workspace.organization_id
        and may_look(run.facts)
    ):
        return organization
    run.absent("organization", run.at.organization_id)
    return None


def workflow_in_sight(run: Run, role: Role) -> WorkflowFacts | None:
    if run.at.workflow_id is None:
        return None
    run.tell({keys.workflow(run.at.workflow_id)})
    if run.facts.workflow is not None and RANK[role] >= RANK["viewer"]:
        return run.facts.workflow
    run.absent("workflow", run.at.workflow_id)
    return None
