"""What users make: tables, fields, views, records, links."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from context_engine.adapters.sql.tables.columns import (
    created,
    id_,
    json_,
    metadata,
    of,
    text_list,
    version,
)

tables = Table(
    "tables",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("name", Text, nullable=False),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("policy_default", Text, nullable=False, server_default="show_all"),
    Column("trashed", Boolean, nullable=False, server_default=text("false")),
    version(),
    CheckConstraint("policy_default IN ('show_all', 'deny_all')", name="policy_default"),
    Index("ix_tables_workspace_id", "workspace_id"),
)
fields = Table(
    "fields",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("table_id", "tables"),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("primary", Boolean, nullable=False, server_default=text("false")),
    Column("position", Integer, nullable=False, server_default="0"),
    json_("options", "{}"),
    Column("linked_table_id", Text),
    Column("linked_field_id", Text),
    Column("cardinality", Text, nullable=False, server_default="many"),
    Column("reads", JSONB(none_as_null=True), server_default=text("'[]'::jsonb")),
    version(),
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

views = Table(
    "views",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("table_id", "tables"),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("ownership", Text, nullable=False, server_default="collaborative"),
    Column("owner_id", Text),
    Column("position", Integer, nullable=False, server_default="0"),
    Column("filter", JSONB(none_as_null=True)),
    text_list("hidden"),
    text_list("field_order"),
    json_("sorts", "[]"),
    json_("options", "{}"),
    version(),
    CheckConstraint("ownership IN ('collaborative', 'personal', 'restricted')", name="ownership"),
    Index("ix_views_table_id", "table_id"),
)
records = Table(
    "records",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("table_id", "tables"),
    json_("cells", "{}"),
    Column("created_by", Text),
    Column("updated_by", Text),
    created(),
    Column("updated_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("deleted_at", DateTime(timezone=True)),
    version(),
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
    of("field_id", "fields", primary=True),
    Column("from_record_id", Text, ForeignKey("records.id", ondelete="CASCADE"), primary_key=True),
    Column("to_record_id", Text, ForeignKey("records.id", ondelete="CASCADE"), primary_key=True),
    of("workspace_id", "workspaces"),
    Index("ix_links_from_record_id", "from_record_id"),
    Index("ix_links_to_record_id", "to_record_id"),
)
