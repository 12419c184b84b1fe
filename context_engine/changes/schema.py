"""Changes of tables, fields, views and links between tables."""

from __future__ import annotations

from typing import Literal

from context_engine.changes.base import Change, Ids, Op
from context_engine.models.base import Id


class TableChanged(Change):
    """A table was made, renamed, trashed or restored."""

    type: Literal["table.changed"] = "table.changed"
    table_id: Id
    op: Literal["created", "renamed", "trashed", "restored"]


class FieldChanged(Change):
    """A field was made, changed or deleted: its name, type, options or place."""

    type: Literal["field.changed"] = "field.changed"
    table_id: Id
    field_id: Id
    op: Op
    retyped: bool = False
    dependent_table_ids: Ids = ()
    """Tables whose fields are computed from this one."""


class ViewChanged(Change):
    """A view was made, changed or deleted: its name, filter, fields, order or ownership."""

    type: Literal["view.changed"] = "view.changed"
    table_id: Id
    view_id: Id
    op: Op
    filters_changed: bool = True


class RelationChanged(Change):
    """A link field between two tables was made, changed or deleted."""

    type: Literal["relation.changed"] = "relation.changed"
    table_id: Id
    field_id: Id
    linked_table_id: Id
    linked_field_id: Id | None = None
    op: Op
