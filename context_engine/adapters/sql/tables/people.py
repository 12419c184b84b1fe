"""People and places: organizations, users, workspaces, members, teams."""

from __future__ import annotations

from sqlalchemy import Boolean, CheckConstraint, Column, ForeignKey, Index, Table, Text, text

from context_engine.adapters.sql.tables.columns import ROLES, id_, metadata, of, version

organizations = Table(
    "organizations", metadata, id_(), Column("name", Text, nullable=False), version()
)
users = Table(
    "users",
    metadata,
    id_(),
    Column("name", Text, nullable=False),
    Column("email", Text),
    Column("email_norm", Text, unique=True),
    Column("locale", Text),
    Column("timezone", Text),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    version(),
)
organization_members = Table(
    "organization_members",
    metadata,
    of("organization_id", "organizations", primary=True),
    of("user_id", "users", primary=True),
    Column("role", Text, nullable=False),
    version(),
)
workspaces = Table(
    "workspaces",
    metadata,
    id_(),
    Column("organization_id", Text, ForeignKey("organizations.id", ondelete="SET NULL")),
    Column("name", Text, nullable=False),
    version(),
)
members = Table(
    "members",
    metadata,
    of("workspace_id", "workspaces", primary=True),
    of("user_id", "users", primary=True),
    Column("role", Text, nullable=False),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    version(),
    CheckConstraint(f"role = 'defer' OR role IN {ROLES}", name="role"),
    Index("ix_members_user_id", "user_id"),
)
teams = Table(
    "teams",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    version(),
    Index("ix_teams_workspace_id", "workspace_id"),
)
team_members = Table(
    "team_members",
    metadata,
    of("team_id", "teams", primary=True),
    of("user_id", "users", primary=True),
    of("workspace_id", "workspaces"),
    Index("ix_team_members_user_id_workspace_id", "user_id", "workspace_id"),
)
