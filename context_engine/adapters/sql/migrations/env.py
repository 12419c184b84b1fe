"""Alembic's entry: runs on the connection that `migrate.upgrade` opened."""

from __future__ import annotations

from alembic import context

from context_engine.adapters.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    compare_type=True,
)
context.run_migrations()
