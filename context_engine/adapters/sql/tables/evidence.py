"""What leaves, and what is kept: the outbox and the snapshots."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Identity,
    Index,
    Integer,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

from context_engine.adapters.sql.tables.columns import created, json_, metadata

outbox = Table(
    "outbox",
    metadata,
    Column("id", Uuid(as_uuid=False), primary_key=True),
    Column("seq", BigInteger, Identity(always=True), nullable=False),
    Column("aggregatetype", Text, nullable=False),
    Column("aggregateid", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("payload", JSONB, nullable=False),
    created(),
    Column("published_at", DateTime(timezone=True)),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("retry_at", DateTime(timezone=True)),
    Column("trace", JSONB(none_as_null=True)),
    Index("ix_outbox_unpublished", "seq", postgresql_where=text("published_at IS NULL")),
    Index(
        "ix_outbox_published_at", "published_at", postgresql_where=text("published_at IS NOT NULL")
    ),
)
"""Debezium's outbox columns, with `seq` for a stable order of reading and `published_at`; a row
that its topic refused is put off until `retry_at`. `trace` has the W3C headers of who wrote it."""

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
    json_("compression", "{}"),
    json_("operator_trace", "{}"),
    Column("generated_at", DateTime(timezone=True), nullable=False),
    Column("request_id", Text),
    Column("trace_id", Text),
    Index("ix_snapshots_workspace_id_generated_at", "workspace_id", "generated_at"),
    Index("ix_snapshots_generated_at", "generated_at"),
)
"""Evidence. It refers to nothing, so that it outlives what it speaks of; `context` is JSON, which
keeps the text as it was."""
