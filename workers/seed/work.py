"""Teams, projects, tasks, a workflow and agents of the demo workspace."""

from __future__ import annotations

from context_engine.adapters.sql.services import DomainServices
from workers.seed import rows, shape

TASK_TABLE = "tbl-tasks"
DELIVERY, SUPPORT = "team-delivery", "team-support"
TEAMS = {
    DELIVERY: ("Delivery", (shape.BEN.id, shape.DAN.id)),
    SUPPORT: ("Support", (shape.CHLOE.id, shape.EVA.id)),
}
ATLAS, ORCHID = "prj-atlas", "prj-orchid"
TRIAGE = "wfl-triage"
PLANNER, READER = "agt-planner", "agt-reader"

_TASKS: tuple[tuple[str, str, str, str, int | None], ...] = (
    ("tsk-freeze", "Freeze release 2.3", "open", shape.BEN.id, 1),
    ("tsk-export", "Weekly export for Porto", "open", shape.BEN.id, 2),
    ("tsk-kiosk", "Gate kiosk in Gdansk", "open", shape.EVA.id, 3),
    ("tsk-index", "Index for the container search", "done", shape.BEN.id, 4),
    ("tsk-audit", "Review the audit log", "open", shape.DAN.id, 5),
    ("tsk-budget", "Budget check for Q4", "open", shape.ANA.id, None),
    ("tsk-notes", "Release notes", "open", shape.CHLOE.id, None),
    ("tsk-train", "Train the support desk", "done", shape.EVA.id, None),
)
"""Id, title, status, assignee, and the number of the row in the tasks table."""


async def fill(services: DomainServices) -> None:
    """Writes all of them, as Ana."""
    ana, workspace = shape.ANA.id, shape.WORKSPACE
    await services.projects.create(
        ana, workspace, name="Atlas", due_on="2026-12-14", status="running", id=ATLAS
    )
    await services.projects.create(
        ana, workspace, name="Orchid", private=True, member_ids=(shape.BEN.id,), id=ORCHID
    )
    for task_id, title, status, assignee_id, row in _TASKS:
        await services.tasks.create(
            ana,
            workspace,
            title=title,
            project_id=ATLAS,
            status=status,
            assignee_id=assignee_id,
            due_on="2026-12-10",
            table_id=None if row is None else TASK_TABLE,
            record_id=None if row is None else rows.record_id(TASK_TABLE, row),
            id=task_id,
        )
    await services.tasks.create(
        ana, workspace, title="Name the price", project_id=ORCHID, id="tsk-price"
    )
    await services.workflows.create(ana, workspace, name="Triage of incidents", id=TRIAGE)
    await services.agents.create(ana, workspace, name="Planner", max_role="editor", id=PLANNER)
    await services.agents.create(
        ana,
        workspace,
        name="Reader",
        max_role="viewer",
        table_ids=(TASK_TABLE, "tbl-projects"),
        id=READER,
    )
