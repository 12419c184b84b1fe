"""Dialogue: conversations, who takes part, messages."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
)

from context_engine.adapters.sql.tables.columns import (
    created,
    id_,
    json_,
    metadata,
    of,
    text_list,
    version,
)

conversations = Table(
    "conversations",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    Column("title", Text, nullable=False),
    Column("message_count", Integer, nullable=False, server_default="0"),
    Column("total_chars", BigInteger, nullable=False, server_default="0"),
    version(),
    Index("ix_conversations_workspace_id", "workspace_id"),
)
participants = Table(
    "participants",
    metadata,
    of("conversation_id", "conversations", primary=True),
    of("user_id", "users", primary=True),
    of("workspace_id", "workspaces"),
)
messages = Table(
    "messages",
    metadata,
    id_(),
    of("workspace_id", "workspaces"),
    of("conversation_id", "conversations"),
    Column("position", BigInteger, nullable=False),
    Column("role", Text, nullable=False),
    Column("author_id", Text),
    Column("content", Text, nullable=False),
    Column("chars", Integer, nullable=False),
    json_("tool_calls", "[]"),
    Column("tool_call_id", Text),
    Column("on_behalf_of", Text),
    text_list("table_ids"),
    json_("rights", "{}"),
    created(),
    version(),
    CheckConstraint("role IN ('user', 'assistant', 'system', 'tool')", name="role"),
    CheckConstraint("jsonb_typeof(tool_calls) = 'array'", name="tool_calls"),
    CheckConstraint("jsonb_typeof(rights) = 'object'", name="rights"),
    UniqueConstraint("conversation_id", "position"),
)
