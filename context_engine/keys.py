"""Every key in one place: scopes, cache keys, tags, and their names in Redis.

Two rules hold everywhere. The tenant is always in. And parts are joined so that no two
different lists of parts give the same text: digests are taken over JSON (which tells `null`
from `""` and `["a,b"]` from `["a", "b"]`), names in Redis over percent-encoded parts.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Literal, NewType
from urllib.parse import quote, unquote

from context_engine.models.base import JsonObject

BUILD_VERSION = "1"
"""Version of the code that builds: raise it when the same input gives another context."""

VOCABULARY = "1"
"""Version of the tags: raise it when a tag is added that older consumers would not mark."""

Tag = NewType("Tag", str)
"""A thing of one workspace that an answer depends on. Never leaves the engine in clear."""

SessionKind = Literal["session", "conversation", "anonymous"]


def digest(*parts: object) -> str:
    """SHA-256 over the JSON of `parts`, 64 hex digits; equal only for equal parts."""
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"), sort_keys=True)
    return sha256(text.encode()).hexdigest()


# -- scope -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose context it is: a user, in a workspace, within a session.

    Without a session id the conversation bounds it, without that it is `anonymous`, which has
    no session of its own. Two users with the same session id never share.
    """

    workspace_id: str
    user_id: str
    kind: SessionKind
    session_id: str | None

    @property
    def key(self) -> str:
        """The scope key: 64 hex digits."""
        return _scope_key(self.workspace_id, self.user_id, self.kind, self.session_id)

    @property
    def has_session(self) -> bool:
        return self.kind != "anonymous"


def scope_of(
    workspace_id: str, user_id: str, session_id: str | None, conversation_id: str | None
) -> Scope:
    """The scope of a request: its session, else its conversation, else anonymous."""
    if session_id is not None:
        return Scope(workspace_id, user_id, "session", session_id)
    if conversation_id is not None:
        return Scope(workspace_id, user_id, "conversation", conversation_id)
    return Scope(workspace_id, user_id, "anonymous", None)


@lru_cache(maxsize=4096)
def _scope_key(*parts: str | None) -> str:
    return digest("scope", *parts)


# -- cache keys --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Coordinates:
    """The effective coordinates: the request's, else its session's. Ids only."""

    workspace_id: str
    user_id: str
    session_id: str | None = None
    conversation_id: str | None = None
    project_id: str | None = None
    table_ids: tuple[str, ...] = ()
    view_id: str | None = None
    task_id: str | None = None
    team_id: str | None = None
    organization_id: str | None = None
    workflow_id: str | None = None
    agent_stack: tuple[str, ...] = ()

    def surface_parts(self) -> tuple[object, ...]:
        """Everything but session and conversation."""
        return (
            self.workspace_id,
            self.user_id,
            self.project_id,
            self.table_ids,
            self.view_id,
            self.task_id,
            self.team_id,
            self.organization_id,
            self.workflow_id,
            self.agent_stack,
        )


@dataclass(frozen=True, slots=True)
class Rendering:
    """Inputs beside the coordinates that change the answer's words or size."""

    locale: str | None
    timezone: str | None
    conversation_messages: int
    compression_chars: int


def surface_key(at: Coordinates, how: Rendering) -> str:
    """Key of the surface: every section that no session, conversation or message can change.

    Which coordinates were inherited is not in: a surface holds all that are absent, and each
    request settles what follows from that (`access.settle`).
    """
    return digest("surface", BUILD_VERSION, at.surface_parts(), how.locale, how.timezone)


def whole_key(
    scope: Scope,
    at: Coordinates,
    how: Rendering,
    message: str | None,
    metadata: JsonObject,
    *,
    inherited: tuple[str, ...] = (),
    strict: bool = False,
) -> str:
    """Key of the whole context, over everything that can change the answer.

    `inherited` names the coordinates that came from the session: it decides what is listed as
    unresolved. So does `strict`, which makes the same an error.
    """
    return digest(
        "whole",
        BUILD_VERSION,
        (scope.kind, scope.session_id),
        at.surface_parts(),
        (at.session_id, at.conversation_id),
        (how.locale, how.timezone, how.conversation_messages, how.compression_chars),
        message,
        metadata,
        inherited,
        strict,
    )


# -- tags --------------------------------------------------------------------------------------


def _part(value: str) -> str:
    return quote(value, safe="-_.~")


def _tag(kind: str, *ids: str) -> Tag:
    return Tag(":".join((kind, *map(_part, ids))))


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
    key = secret.encode()
    # No id holds a control character, so a NUL joins without ambiguity.
    texts = (f"{workspace_id}\0{tag}".encode() for tag in tags)
    return tuple(sorted(hmac.digest(key, text, "sha256").hex()[:32] for text in texts))


# -- names in Redis ----------------------------------------------------------------------------
# One workspace, one slot: the part in braces decides it, and no id can close the brace.


@lru_cache(maxsize=4096)
def _slot(workspace_id: str) -> str:
    return "ctx:{" + _part(workspace_id) + "}:"


def marks_name(workspace_id: str) -> str:
    """The hash of epoch, clock and marks."""
    return _slot(workspace_id) + "marks"


def whole_name(scope: Scope, key: str) -> str:
    """A whole context. The scope key is in the name, so that an eviction can say whose it was."""
    return f"{_slot(scope.workspace_id)}whole:{scope.key}:{key}"


def surface_name(workspace_id: str, key: str) -> str:
    return f"{_slot(workspace_id)}surface:{key}"


def session_name(scope: Scope) -> str:
    """A session's coordinates: kept a day, never trusted."""
    return f"{_slot(scope.workspace_id)}session:{scope.key}"


def memory_name(scope: Scope) -> str:
    """A session's derived text: true only while its tags are unmarked."""
    return f"{_slot(scope.workspace_id)}memory:{scope.key}"


def index_name(workspace_id: str, tag: Tag) -> str:
    """The set of entries that carry `tag`: whom to unlink, never what is true."""
    return f"{_slot(workspace_id)}index:{tag}"


def sessions_name(workspace_id: str, user_id: str) -> str:
    """The set of a user's sessions in a workspace."""
    return f"{_slot(workspace_id)}sessions:{_part(user_id)}"


def workspace_in(name: str) -> str:
    """The workspace whose slot `name` lies in. Raises `ValueError` for a name not made here."""
    start, end = name.find("{"), name.find("}:")
    if start < 0 or end < start:
        raise ValueError(f"{name[:80]!r} is not a name in Redis; make names in keys.py only")
    return unquote(name[start + 1 : end])


def scope_key_in(name: str) -> str | None:
    """The scope key inside the name of a whole context, session or memory; None elsewhere."""
    parts = name.rsplit("}:", 1)[-1].split(":")
    return parts[1] if parts[0] in {"whole", "session", "memory"} and len(parts) > 1 else None
