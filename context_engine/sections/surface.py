"""The surface: every section that no session, conversation or message can change.

It is cached as one piece, so that the next turn of a dialogue reads the dialogue only.
"""

from __future__ import annotations

from context_engine import access
from context_engine.access import VisibleScope
from context_engine.keys import Coordinates
from context_engine.models.base import Contract
from context_engine.models.context import TraceSection, Unresolved
from context_engine.models.sections import (
    Agent,
    OrganizationSection,
    ProjectSection,
    Relation,
    TableSection,
    TaskSection,
    TeamSection,
    UserSection,
    ViewSection,
    WorkflowSection,
    WorkspaceSection,
)
from context_engine.ports import Counts
from context_engine.sections.base import Section
from context_engine.sections.people import (
    build_organization,
    build_team,
    build_user,
    build_workspace,
)
from context_engine.sections.tables import build_relations, build_tables
from context_engine.sections.view import build_view
from context_engine.sections.work import (
    build_agents,
    build_project,
    build_task,
    build_workflow,
)


class Surface(Contract):
    """The sections of the surface, what became of each, and the coordinates out of sight."""

    user: UserSection
    workspace: WorkspaceSection
    organization: OrganizationSection | None
    team: TeamSection | None
    project: ProjectSection | None
    task: TaskSection | None
    tables: tuple[TableSection, ...]
    relations: tuple[Relation, ...]
    view: ViewSection | None
    workflow: WorkflowSection | None
    agent_stack: tuple[Agent, ...]
    trace: dict[str, TraceSection]
    absent: tuple[Unresolved, ...]


def build_surface(scope: VisibleScope, counts: Counts, at: Coordinates) -> Surface:
    """Every section of the surface, out of what access made visible and what was counted."""
    sections: dict[str, Section[object]] = {
        "user": build_user(scope),
        "workspace": build_workspace(scope),
        "organization": build_organization(scope, at.organization_id),
        "team": build_team(scope, at.team_id),
        "project": build_project(scope, counts, at.project_id),
        "task": build_task(scope, counts, at.task_id),
        "tables": build_tables(scope, counts),
        "relations": build_relations(scope, counts),
        "view": build_view(scope, counts, at.view_id),
        "workflow": build_workflow(scope, at.workflow_id),
        "agent_stack": build_agents(scope),
    }
    return Surface.model_validate(
        {
            **{name: section.content for name, section in sections.items()},
            "trace": {wire_name(name): section.traced() for name, section in sections.items()},
            "absent": _absent(scope, counts, at),
        }
    )


def _absent(scope: VisibleScope, counts: Counts, at: Coordinates) -> tuple[Unresolved, ...]:
    """What access found out of sight, and the task whose row the count found out of sight."""
    if scope.task is None or counts.task_row_visible or at.task_id is None:
        return scope.absent
    return access.in_order((*scope.absent, Unresolved(coordinate="taskId", id=at.task_id)))


def wire_name(name: str) -> str:
    """A field's name on the wire, as the trace uses it."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
