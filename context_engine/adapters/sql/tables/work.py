"""Work: projects, tasks, workflows."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, Date, Index, Table, Text, text

from context_engine.adapters.sql.tables.columns import id_, metadata, of, version

projects = Table(
    "projects",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="open"),
    Column("due_on", Date),
    Column("private", Boolean, nullable=False, server_default=text("false")),
    version(),
    Index("ix_projects_workspace_id", "workspace_id"),
)
project_members = Table(
    "project_members",
    metadata,
    of("project_id", "projects", primary=True),
    of("user_id", "users", primary=True),
    of("workspace_id", "workspaces"),
)
tasks = Table(
    "tasks",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("project_id", "projects", null=True),
    of("table_id", "tables", null=True),
    of("record_id", "records", null=True),
    Column("title", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="open"),
    Column("assignee_id", Text),
    Column("due_on", Date),
    version(),
    CheckConstraint("(table_id IS NULL) = (record_id IS NULL)", name="row"),
    Index("ix_tasks_project_id", "project_id"),
    Index("ix_tasks_record_id", "record_id"),
)
workflows = Table(
    "workflows",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="active"),
    version(),
    Index("ix_workflows_workspace_id", "workspace_id"),
)
