"""The reference domain's tables: SQLAlchemy Core, one `MetaData`.

Ids are text, chosen by the domain. What belongs to a workspace says so. What changes has a
`version` that every write raises.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSON, JSONB

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

ROLES = "('none', 'viewer', 'commenter', 'editor', 'builder', 'admin')"


def _id() -> Column[str]:
    return Column("id", Text, primary_key=True)


def _of(name: str, target: str, *, primary: bool = False, null: bool = False) -> Column[str]:
    """A reference that goes away with what it refers to."""
    return Column(
        name,
        Text,
        ForeignKey(f"{target}.id", ondelete="CASCADE"),
        primary_key=primary,
        nullable=null,
    )


def _version() -> Column[int]:
    return Column("version", BigInteger, nullable=False, server_default="1")


def _created() -> Column[object]:
    return Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now())


def _text_list(name: str, *, null: bool = False) -> Column[list[str]]:
    default = None if null else text("'{}'::text[]")
    return Column(name, ARRAY(Text), nullable=null, server_default=default)


def _json(name: str, default: str) -> Column[object]:
    return Column(name, JSONB, nullable=False, server_default=text(f"'{default}'::jsonb"))


# -- people and places -------------------------------------------------------------------------

organizations = Table(
    "organizations", metadata, _id(), Column("name", Text, nullable=False), _version()
)
users = Table(
    "users",
    metadata,
    _id(),
    Column("name", Text, nullable=False),
    Column("email", Text),
    Column("email_norm", Text, unique=True),
    Column("locale", Text),
    Column("timezone", Text),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    _version(),
)
organization_members = Table(
    "organization_members",
    metadata,
    _of("organization_id", "organizations", primary=True),
    _of("user_id", "users", primary=True),
    Column("role", Text, nullable=False),
    _version(),
)
workspaces = Table(
    "workspaces",
    metadata,
    _id(),
    Column("organization_id", Text, ForeignKey("organizations.id", ondelete="SET NULL")),
    Column("name", Text, nullable=False),
    _version(),
)
members = Table(
    "members",
    metadata,
    _of("workspace_id", "workspaces", primary=True),
    _of("user_id", "users", primary=True),
    Column("role", Text, nullable=False),
    Column("active", Boolean, nullable=False, server_default=text("true")),
    _version(),
    CheckConstraint(f"role = 'defer' OR role IN {ROLES}", name="role"),
    Index("ix_members_user_id", "user_id"),
)
teams = Table(
    "teams",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    _version(),
    Index("ix_teams_workspace_id", "workspace_id"),
)
team_members = Table(
    "team_members",
    metadata,
    _of("team_id", "teams", primary=True),
    _of("user_id", "users", primary=True),
    _of("workspace_id", "workspaces"),
    Index("ix_team_members_user_id_workspace_id", "user_id", "workspace_id"),
)

# -- rights ------------------------------------------------------------------------------------

grants = Table(
    "grants",
    metadata,
    _of("workspace_id", "workspaces", primary=True),
    Column("scope_type", Text, primary_key=True),
    Column("scope_id", Text, primary_key=True),
    Column("subject_type", Text, primary_key=True),
    Column("subject_id", Text, primary_key=True),
    Column("role", Text, nullable=False),
    _version(),
    CheckConstraint("scope_type IN ('workspace', 'table', 'view')", name="scope_type"),
    CheckConstraint("subject_type IN ('user', 'team')", name="subject_type"),
    CheckConstraint(f"role IN {ROLES}", name="role"),
    Index("ix_grants_subject_id", "workspace_id", "subject_type", "subject_id"),
)
agents = Table(
    "agents",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("max_role", Text, nullable=False),
    _text_list("table_ids", null=True),
    _version(),
    CheckConstraint(f"max_role IN {ROLES}", name="max_role"),
    Index("ix_agents_workspace_id", "workspace_id"),
)

# -- tables ------------------------------------------------------------------------------------

tables = Table(
    "tables",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("policy_default", Text, nullable=False, server_default="show_all"),
    Column("trashed", Boolean, nullable=False, server_default=text("false")),
    _version(),
    CheckConstraint("policy_default IN ('show_all', 'deny_all')", name="policy_default"),
    Index("ix_tables_workspace_id", "workspace_id"),
)
fields = Table(
    "fields",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("table_id", "tables"),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("primary", Boolean, nullable=False, server_default=text("false")),
    Column("position", Integer, nullable=False, server_default="0"),
    _json("options", "{}"),
    Column("linked_table_id", Text),
    Column("linked_field_id", Text),
    Column("cardinality", Text, nullable=False, server_default="many"),
    Column("reads", JSONB(none_as_null=True), server_default=text("'[]'::jsonb")),
    _version(),
    CheckConstraint("cardinality IN ('one', 'many')", name="cardinality"),
    CheckConstraint("jsonb_typeof(reads) = 'array'", name="reads"),
    Index("ix_fields_table_id", "table_id"),
    Index("ix_fields_linked_table_id", "linked_table_id"),
    Index(
        "uq_fields_primary",
        "table_id",
        unique=True,
        postgresql_where=text('"primary"'),
    ),
)
"""`reads`: `[[table id, field id], ..]`, the fields that a computed one is made of at first hand;
NULL where nobody knows, and then nobody sees it."""

field_permissions = Table(
    "field_permissions",
    metadata,
    _of("workspace_id", "workspaces"),
    _of("table_id", "tables"),
    _of("field_id", "fields", primary=True),
    Column("subject_type", Text, primary_key=True),
    Column("subject_id", Text, primary_key=True),
    Column("level", Text, nullable=False),
    _version(),
    CheckConstraint("subject_type IN ('user', 'team', 'role')", name="subject_type"),
    CheckConstraint("level IN ('none', 'read', 'write')", name="level"),
    Index("ix_field_permissions_table_id", "table_id", "subject_type", "subject_id"),
    Index("ix_field_permissions_subject_id", "workspace_id", "subject_type", "subject_id"),
)
views = Table(
    "views",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("table_id", "tables"),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("ownership", Text, nullable=False, server_default="collaborative"),
    Column("owner_id", Text),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("filter", JSONB(none_as_null=True)),
    _text_list("hidden"),
    _text_list("field_order"),
    _json("sorts", "[]"),
    _json("options", "{}"),
    _version(),
    CheckConstraint("ownership IN ('collaborative', 'personal', 'restricted')", name="ownership"),
    Index("ix_views_table_id", "table_id"),
)
row_policies = Table(
    "row_policies",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("table_id", "tables"),
    _json("subjects", "[]"),
    _json("pred", "false"),
    Column("mode", Text, nullable=False),
    _version(),
    CheckConstraint("mode IN ('permissive', 'restrictive')", name="mode"),
    Index("ix_row_policies_table_id", "table_id"),
)
records = Table(
    "records",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("table_id", "tables"),
    _json("cells", "{}"),
    Column("created_by", Text),
    Column("updated_by", Text),
    _created(),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("deleted_at", DateTime(timezone=True)),
    _version(),
    # With the column that "own rows" asks for, so that such a count reads its own rows only.
    Index("ix_records_live", "table_id", "created_by", postgresql_where=text("deleted_at IS NULL")),
    Index(
        "ix_records_cells",
        "cells",
        postgresql_using="gin",
        postgresql_ops={"cells": "jsonb_path_ops"},
    ),
)
links = Table(
    "links",
    metadata,
    _of("field_id", "fields", primary=True),
    Column("from_record_id", Text, ForeignKey("records.id", ondelete="CASCADE"), primary_key=True),
    Column("to_record_id", Text, ForeignKey("records.id", ondelete="CASCADE"), primary_key=True),
    _of("workspace_id", "workspaces"),
    Index("ix_links_from_record_id", "from_record_id"),
    Index("ix_links_to_record_id", "to_record_id"),
)

# -- work --------------------------------------------------------------------------------------

projects = Table(
    "projects",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="open"),
    Column("due_on", Date),
    Column("private", Boolean, nullable=False, server_default=text("false")),
    _version(),
    Index("ix_projects_workspace_id", "workspace_id"),
)
project_members = Table(
    "project_members",
    metadata,
    _of("project_id", "projects", primary=True),
    _of("user_id", "users", primary=True),
    _of("workspace_id", "workspaces"),
)
tasks = Table(
    "tasks",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("project_id", "projects", null=True),
    _of("table_id", "tables", null=True),
    _of("record_id", "records", null=True),
    Column("title", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="open"),
    Column("assignee_id", Text),
    Column("due_on", Date),
    _version(),
    CheckConstraint("(table_id IS NULL) = (record_id IS NULL)", name="row"),
    Index("ix_tasks_project_id", "project_id"),
    Index("ix_tasks_record_id", "record_id"),
)
workflows = Table(
    "workflows",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("status", Text, nullable=False, server_default="active"),
    _version(),
    Index("ix_workflows_workspace_id", "workspace_id"),
)

# -- dialogue ----------------------------------------------------------------------------------

conversations = Table(
    "conversations",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    Column("title", Text, nullable=False),
    Column("message_count", Integer, nullable=False, server_default="0"),
    Column("total_chars", BigInteger, nullable=False, server_default="0"),
    _version(),
    Index("ix_conversations_workspace_id", "workspace_id"),
)
participants = Table(
    "participants",
    metadata,
    _of("conversation_id", "conversations", primary=True),
    _of("user_id", "users", primary=True),
    _of("workspace_id", "workspaces"),
)
messages = Table(
    "messages",
    metadata,
    _id(),
    _of("workspace_id", "workspaces"),
    _of("conversation_id", "conversations"),
    Column("position", BigInteger, nullable=False),
    Column("role", Text, nullable=False),
    Column("author_id", Text),
    Column("content", Text, nullable=False),
    Column("chars", Integer, nullable=False),
    _json("tool_calls", "[]"),
    Column("tool_call_id", Text),
    Column("on_behalf_of", Text),
    _text_list("table_ids"),
    _json("rights", "{}"),
    _created(),
    _version(),
    CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name="role"),
    CheckConstraint("jsonb_typeof(tool_calls) = 'array'", name="tool_calls"),
    CheckConstraint("jsonb_typeof(rights) = 'object'", name="rights"),
    UniqueConstraint("conversation_id", "position"),
)

# -- what leaves, and what is kept -------------------------------------------------------------

outbox = Table(
    "outbox",
    metadata,
    Column("id", Uuid(as_uuid=False), primary_key=True),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    Column("aggregatetype", Text, nullable=False),
    Column("aggregateid", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", JSONB, nullable=False),
    _created(),
    Column("published_at", DateTime(timezone=True)),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("retry_at", DateTime(timezone=True)),
    Index("ix_outbox_unpublished", "seq", postgresql_where=text("published_at IS NULL")),
    Index(
        "ix_outbox_published_at", "published_at", postgresql_where=text("published_at IS NOT NULL")
    ),
)
"""Debezium's outbox columns, with `seq` for a stable order of reading and `published_at`; a row
that its topic refused is put off until `retry_at`."""

snapshots = Table(
    "snapshots",
    metadata,
    Column("context_id", Text, primary_key=True),
    Column("context_hash", Text, nullable=False),
    Column("workspace_id", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("scope_key", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("summary", Text, nullable=False),
    Column("context", JSON, nullable=False),
    _json("compression", "{}"),
    _json("operator_trace", "{}"),
    Column("generated_at", DateTime(timezone=True), nullable=False),
    Column("request_id", Text),
    Column("trace_id", Text),
    Index("ix_snapshots_workspace_id_generated_at", "workspace_id", "generated_at"),
    Index("ix_snapshots_generated_at", "generated_at"),
)
"""Evidence. It refers to nothing, so that it outlives what it speaks of; `context` is JSON, which
keeps the text as it was."""
