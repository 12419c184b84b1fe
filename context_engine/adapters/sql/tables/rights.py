"""Rights: grants, agents, field permissions, row policies."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, Column, Index, Table, Text

from context_engine.adapters.sql.tables.columns import (
    ROLES,
    id_,
    json_,
    metadata,
    of,
    text_list,
    version,
)

grants = Table(
    "grants",
    metadata,
    of("workspace_id", "workspaces", primary=True),
    Column("scope_type", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("subject_type", Text, primary_key=True),
    Column("subject_id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    version(),
    CheckConstraint("scope_type IN ('workspace', 'table', 'view')", name="scope_type"),
    CheckConstraint("subject_type IN ('user', 'team')", name="subject_type"),
    CheckConstraint(f"role IN {ROLES}", name="role"),
    Index("ix_grants_subject_id", "workspace_id", "subject_type", "subject_id"),
)
agents = Table(
    "agents",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("max_role", Text, nullable=False),
    text_list("table_ids", null=True),
    version(),
    CheckConstraint(f"max_role IN {ROLES}", name="max_role"),
    Index("ix_agents_workspace_id", "workspace_id"),
)
field_permissions = Table(
    "field_permissions",
    metadata,
    of("workspace_id", "workspaces"),
    of("table_id", "tables"),
    Column("field_id", Text, primary_key=True),
    Column("subject_type", Text, primary_key=True),
    Column("subject_id", Text, primary_key=True),
    Column("level", Text, nullable=False),
    version(),
    CheckConstraint("subject_type IN ('user', 'team', 'role')", name="subject_type"),
    CheckConstraint("level IN ('none', 'read', 'write')", name="level"),
    Index("ix_field_permissions_table_id", "table_id", "subject_type", "subject_id"),
    Index("ix_field_permissions_subject_id", "workspace_id", "subject_type", "subject_id"),
)
"""They outlive a field that an import no longer has: it must not come back without them."""

row_policies = Table(
    "row_policies",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("table_id", "tables"),
    json_("subjects", "[]"),
    json_("pred", "false"),
    Column("mode", Text, nullable=False),
    version(),
    CheckConstraint("mode IN ('permissive', 'restrictive')", name="mode"),
    Index("ix_row_policies_table_id", "table_id"),
)
