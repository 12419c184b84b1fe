"""Changes of who may see and do what."""

from __future__ import annotations

from typing import Literal

from context_engine.changes.base import Change, GrantScope, Op, Subject
from context_engine.models.base import Id


class GrantChanged(Change):
    """A role was given, changed or taken on a workspace, a table or a view."""

    type: Literal["grant.changed"] = "grant.changed"
    subject: Subject
    scope: GrantScope
    op: Op


class FieldPermissionChanged(Change):
    """Who may read or write a field changed."""

    type: Literal["field-permission.changed"] = "field-permission.changed"
    table_id: Id
    field_id: Id
    subject: Subject
    op: Op


class PolicyChanged(Change):
    """A row policy of a table, or its default, changed."""

    type: Literal["policy.changed"] = "policy.changed"
    table_id: Id
    op: Op


class AgentChanged(Change):
    """An agent's name, highest role or tables changed."""

    type: Literal["agent.changed"] = "agent.changed"
    agent_id: Id
    op: Op
