"""Project, task, workflow and agents: what is being worked on, and by whom."""

from __future__ import annotations

from context_engine.access import VisibleScope
from context_engine.models.sections import (
    Agent,
    ProjectSection,
    TaskSection,
    WorkflowSection,
)
from context_engine.ports import Counts
from context_engine.sections.base import (
    NOT_ASKED,
    Section,
    absent,
    counted,
    included,
    unavailable,
)


def build_project(
    scope: VisibleScope, counts: Counts, asked: str | None
) -> Section[ProjectSection] | Section[None]:
    """The project, with the number of its tasks that are in the user's sight."""
    project = scope.project
    if project is None:
        return absent(asked)
    section = ProjectSection(
        id=project.id,
        name=project.name,
        status=project.status,
        due_on=project.due_on,
        open_tasks=counted(counts.project_open_tasks, scope.tasks_uncountable),
        tasks=counted(counts.project_tasks, scope.tasks_uncountable),
    )
    reason = section.tasks.unavailable
    return unavailable(section, f"tasks: {reason}") if reason else included(section)


def build_task(
    scope: VisibleScope, counts: Counts, asked: str | None
) -> Section[TaskSection] | Section[None]:
    """The task, where its row is in sight; its title only where the primary field is."""
    if scope.task is None or not counts.task_row_visible:
        return absent(asked)
    task = scope.task.facts
    return included(
        TaskSection(
            id=task.id,
            title=task.title if counts.task_title_visible else None,
            status=task.status,
            project_id=task.project.id if task.project is not None else None,
            table_id=task.table_id,
            record_id=task.record_id,
            assignee_id=task.assignee_id,
            due_on=task.due_on,
        )
    )


def build_workflow(
    scope: VisibleScope, asked: str | None
) -> Section[WorkflowSection] | Section[None]:
    workflow = scope.workflow
    if workflow is None:
        return absent(asked)
    return included(WorkflowSection(id=workflow.id, name=workflow.name, status=workflow.status))


def build_agents(scope: VisibleScope) -> Section[tuple[Agent, ...]]:
    """The agent stack, outermost first; of an agent's tables those of the context."""
    here = [table.id for table in scope.tables]
    agents = tuple(
        Agent(
            id=a.id,
            name=a.name,
            max_role=a.max_role,
            table_ids=tuple(here) if a.table_ids is not None else None,
        )
        for a in scope.agents
    )
    return included(agents) if agents else Section(agents, "absent", NOT_ASKED)
