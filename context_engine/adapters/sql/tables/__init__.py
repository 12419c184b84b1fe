"""The reference domain's tables: SQLAlchemy Core, one `MetaData`.

Ids are text, chosen by the domain. What belongs to a workspace says so. What changes has a
`version` that every write raises.
"""

from __future__ import annotations

from context_engine.adapters.sql.tables.columns import (
    metadata,
)
from context_engine.adapters.sql.tables.content import (
    fields,
    links,
    records,
    tables,
    views,
)
from context_engine.adapters.sql.tables.dialogue import (
    conversations,
    messages,
    participants,
)
from context_engine.adapters.sql.tables.evidence import (
    outbox,
    snapshots,
)
from context_engine.adapters.sql.tables.people import (
    members,
    organization_members,
    organizations,
    team_members,
    teams,
    users,
    workspaces,
)
from context_engine.adapters.sql.tables.rights import (
    agents,
    field_permissions,
    grants,
    row_policies,
)
from context_engine.adapters.sql.tables.work import (
    project_members,
    projects,
    tasks,
    workflows,
)

__all__ = [
    "agents",
    "conversations",
    "field_permissions",
    "fields",
    "grants",
    "links",
    "members",
    "messages",
    "metadata",
    "organization_members",
    "organizations",
    "outbox",
    "participants",
    "project_members",
    "projects",
    "records",
    "row_policies",
    "snapshots",
    "tables",
    "tasks",
    "team_members",
    "teams",
    "users",
    "views",
    "workflows",
    "workspaces",
]
