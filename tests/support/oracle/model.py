"""A whole workspace in memory: what the oracle judges and what `load` writes. No rule is in here.

Values are as they are stored: what a policy, a filter or a cell holds need not make sense.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime
from typing import Any

CANARY_LENGTH = 15
"""`cny` and 12 hexadecimal digits."""


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
    rights: dict[str, str] | None = None


@dataclass(frozen=True)
class Conversation:
    id: str
    title: str
    user_ids: tuple[str, ...] = ()
    messages: tuple[Message, ...] = ()


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


Path = tuple[str | int, ...]


def canaries(workspace: Workspace) -> dict[str, frozenset[Path]]:
    """Where in the workspace each canary stands; who may see those places the rules say."""
    found: dict[str, set[Path]] = {}
    for path, text in _texts(workspace, ()):
        for canary in canaries_in(text):
            found.setdefault(canary, set()).add(path)
    return {canary: frozenset(places) for canary, places in found.items()}


def canaries_in(text: str) -> Iterator[str]:
    """Every canary that a text holds."""
    at = text.find("cny")
    while at >= 0:
        one = text[at : at + CANARY_LENGTH]
        if len(one) == CANARY_LENGTH and all(c in "0123456789abcdef" for c in one[3:]):
            yield one
        at = text.find("cny", at + 3)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Every text of a value, and the attributes, keys and places that lead to it."""
    if isinstance(value, str):
        yield path, value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _texts(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(key, (*path, key, "key"))
            yield from _texts(item, (*path, key))
    elif isinstance(value, tuple | list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))
