"""A whole workspace in memory: what the oracle judges and what `load` writes. No rule is in here.

Values are as they are stored: what a policy, a filter or a cell holds need not make sense.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any


@dataclass(frozen=True)
class User:
    id: str
    name: str
    email: str | None = None
    email_norm: str | None = None
    locale: str | None = None
    timezone: str | None = None
    active: bool = True


@dataclass(frozen=True)
class Member:
    user_id: str
    role: str
    """A role, or `defer`."""
    active: bool = True


@dataclass(frozen=True)
class Team:
    id: str
    name: str
    user_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Grant:
    scope_type: str
    scope_id: str
    subject_type: str
    subject_id: str
    role: str


@dataclass(frozen=True)
class Agent:
    id: str
    name: str
    max_role: str
    table_ids: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FieldPermission:
    subject_type: str
    subject_id: str
    level: str


@dataclass(frozen=True)
class Field:
    """`reads`: what a computed field is made of at first hand; None where nobody knows."""

    id: str
    name: str
    type: str
    primary: bool = False
    options: dict[str, Any] | None = None
    linked_table_id: str | None = None
    linked_field_id: str | None = None
    cardinality: str = "many"
    reads: tuple[tuple[str, str], ...] | None = ()
    permissions: tuple[FieldPermission, ...] = ()


@dataclass(frozen=True)
class View:
    id: str
    name: str
    type: str = "grid"
    ownership: str = "collaborative"
    owner_id: str | None = None
    filter: Any = None
    hidden: tuple[str, ...] = ()
    field_order: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    id: str
    subjects: Any
    pred: Any
    mode: str


@dataclass(frozen=True)
class Record:
    id: str
    cells: dict[str, Any]
    created_at: datetime
    created_by: str | None = None
    updated_by: str | None = None
    deleted: bool = False


@dataclass(frozen=True)
class Table:
    """Fields and views in table order."""

    id: str
    name: str
    policy_default: str = "show_all"
    trashed: bool = False
    fields: tuple[Field, ...] = ()
    views: tuple[View, ...] = ()
    policies: tuple[Policy, ...] = ()
    records: tuple[Record, ...] = ()


@dataclass(frozen=True)
class Link:
    """A field with another side is stored on both: two of these."""

    field_id: str
    from_id: str
    to_id: str


@dataclass(frozen=True)
class Project:
    id: str
    name: str
    status: str = "open"
    due_on: date | None = None
    private: bool = False
    user_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Task:
    id: str
    title: str
    status: str = "open"
    project_id: str | None = None
    table_id: str | None = None
    record_id: str | None = None
    assignee_id: str | None = None
    due_on: date | None = None


@dataclass(frozen=True)
class Workflow:
    id: str
    name: str
    status: str = "active"


@dataclass(frozen=True)
class Organization:
    id: str
    name: str
    roles: tuple[tuple[str, str], ...] = ()
    """(user, role in it)."""


@dataclass(frozen=True)
class Message:
    id: str
    role: str
    content: str
    at: datetime
    author_id: str | None = None
    on_behalf_of: str | None = None
    tool_calls: tuple[dict[str, Any], ...] = ()
    tool_call_id: str | None = None
    table_ids: tuple[str, ...] = ()
    under: tuple[str, ...] | None = None
    """The agents under which a tool ran; None where nobody noted under which rights it did."""
    earlier: bool = False
    """It ran while the workspace was as `Workspace.earlier` says."""


@dataclass(frozen=True)
class Conversation:
    id: str
    title: str
    user_ids: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True)
class Earlier:
    """Rights as they once were."""

    grants: tuple[Grant, ...]
    team_users: tuple[tuple[str, ...], ...]
    """Of each team."""
    defaults: tuple[str, ...]
    """The policy default of each table."""
    roles: tuple[str, ...]
    """Of each member."""


@dataclass(frozen=True)
class Bounds:
    """Settings of the engine: how far it counts, and the messages of a dialogue's tail."""

    count: int = 10_000
    messages: int = 20


@dataclass(frozen=True)
class Workspace:
    """`organization_id` is one of `organizations`; users need not be members."""

    id: str
    name: str
    organization_id: str | None = None
    organizations: tuple[Organization, ...] = ()
    users: tuple[User, ...] = ()
    members: tuple[Member, ...] = ()
    teams: tuple[Team, ...] = ()
    grants: tuple[Grant, ...] = ()
    agents: tuple[Agent, ...] = ()
    tables: tuple[Table, ...] = ()
    links: tuple[Link, ...] = ()
    projects: tuple[Project, ...] = ()
    tasks: tuple[Task, ...] = ()
    workflows: tuple[Workflow, ...] = ()
    conversations: tuple[Conversation, ...] = ()
    earlier: Earlier | None = None
    bounds: Bounds = Bounds()

    @property
    def before(self) -> Workspace:
        """As it was when the tools ran whose messages are `earlier`."""
        if self.earlier is None:
            return self
        was = self.earlier
        teams = zip(self.teams, was.team_users, strict=True)
        tables = zip(self.tables, was.defaults, strict=True)
        members = zip(self.members, was.roles, strict=True)
        return replace(
            self,
            grants=was.grants,
            members=tuple(replace(member, role=role) for member, role in members),
            teams=tuple(replace(team, user_ids=ids) for team, ids in teams),
            tables=tuple(replace(table, policy_default=default) for table, default in tables),
            earlier=None,
        )
