"""Changes of records, links, projects, tasks and workflows."""

from __future__ import annotations

from typing import Literal

from context_engine.changes.base import Change, Ids, Op
from context_engine.models.base import Id


class RecordsChanged(Change):
    """Records came, went, came back or were edited. Links that are made with them are told by
    `LinksChanged` beside it."""

    type: Literal["records.changed"] = "records.changed"
    table_id: Id
    record_ids: Ids = ()
    op: Literal["created", "updated", "deleted", "restored"]
    field_ids: Ids | None = None
    """Fields an update wrote; None where the writer does not know, which means all."""


class LinksChanged(Change):
    """Links between records were made or removed."""

    type: Literal["links.changed"] = "links.changed"
    table_id: Id
    field_id: Id
    linked_table_id: Id
    linked_field_id: Id | None = None
    record_ids: Ids = ()


class ProjectChanged(Change):
    """A project changed, or who is a member of a private one (`members`)."""

    type: Literal["project.changed"] = "project.changed"
    project_id: Id
    op: Literal["created", "updated", "deleted", "members"]


class TaskChanged(Change):
    """A task was made, changed, moved or deleted."""

    type: Literal["task.changed"] = "task.changed"
    task_id: Id
    project_ids: Ids | None = None
    """The projects the task was in before and is in after; None where the writer does not know,
    which means any."""
    op: Op


class WorkflowChanged(Change):
    """A workflow was made, changed or deleted."""

    type: Literal["workflow.changed"] = "workflow.changed"
    workflow_id: Id
    op: Op
