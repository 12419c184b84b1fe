"""Tags: the things of one workspace that an answer depends on, and how they leave the engine."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from functools import lru_cache
from typing import NewType

from context_engine.keys.encoding import part

VOCABULARY = "1"
"""Version of the tags: raise it when a tag is added that older consumers would not mark."""

Tag = NewType("Tag", str)
"""A thing of one workspace that an answer depends on. Never leaves the engine in clear."""


def _tag(kind: str, *ids: str) -> Tag:
    return Tag(":".join((kind, *map(part, ids))))


EVERYTHING = Tag("everything")
"""On every entry: marked when a change cannot be understood."""

WORKSPACE = Tag("workspace")
"""The workspace itself: its name, its organization, its end."""

ANY_VIEW = Tag("views-any")
"""Views that come and go, wherever: a view asked for without its table depends on it."""


def schema(table_id: str) -> Tag:
    """A table's name, existence and fields."""
    return _tag("schema", table_id)


def views(table_id: str) -> Tag:
    """A table's views: which there are, their names, kinds, filters and fields."""
    return _tag("views", table_id)


def rows(table_id: str) -> Tag:
    """Which rows a table has: records that come and go, and policies over them."""
    return _tag("rows", table_id)


def value(table_id: str, field_id: str) -> Tag:
    """The cells of one field, where a policy, filter or title reads them."""
    return _tag("value", table_id, field_id)


def any_value(table_id: str) -> Tag:
    """Every field's cells: marked alone by edits whose fields nobody knows."""
    return _tag("value-any", table_id)


def links_to(table_id: str) -> Tag:
    """Link fields that lead to a table."""
    return _tag("links-to", table_id)


def access(user_id: str) -> Tag:
    """Everything that decides what one user may see, absences included."""
    return _tag("access", user_id)


def teams_of(user_id: str) -> Tag:
    """Which teams a user is in."""
    return _tag("teams-of", user_id)


def team(team_id: str) -> Tag:
    """A team: its name, members and grants."""
    return _tag("team", team_id)


def user(user_id: str) -> Tag:
    """A user's profile: name, e-mail, zone, state."""
    return _tag("user", user_id)


def organization(organization_id: str) -> Tag:
    return _tag("organization", organization_id)


def project(project_id: str) -> Tag:
    """A project and its members."""
    return _tag("project", project_id)


def tasks_of(project_id: str) -> Tag:
    """Which tasks a project has, and how they stand."""
    return _tag("tasks-of", project_id)


def task(task_id: str) -> Tag:
    return _tag("task", task_id)


def workflow(workflow_id: str) -> Tag:
    return _tag("workflow", workflow_id)


def agent(agent_id: str) -> Tag:
    return _tag("agent", agent_id)


def conversation(conversation_id: str) -> Tag:
    """A conversation: participants, messages, title."""
    return _tag("conversation", conversation_id)


def seal(secret: str, workspace_id: str, tags: Iterable[Tag]) -> tuple[str, ...]:
    """Tags as they leave the engine: HMAC-SHA-256 over workspace and tag, 32 hex digits, sorted.

    They can be compared with one another, and tell nothing about names or ids.
    """
    return _sealed(secret, workspace_id, frozenset(tags))


@lru_cache(maxsize=128)
def _sealed(secret: str, workspace_id: str, tags: frozenset[Tag]) -> tuple[str, ...]:
    """What a user's next context tells is most often what the last one told."""
    key = secret.encode()
    # No id holds a control character, so a NUL joins without ambiguity.
    texts = (f"{workspace_id}\0{tag}".encode() for tag in tags)
    return tuple(sorted(hmac.digest(key, text, "sha256").hex()[:32] for text in texts))
