"""`ContextBuildInput`: the coordinates of a request. The model is told, it does not guess."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Self

from babel import Locale, UnknownLocaleError
from pydantic import AfterValidator, Field, JsonValue, ValidationError

from context_engine.errors import InvalidRequest
from context_engine.models.base import Contract, Id, JsonObject
from context_engine.zones import UNKNOWN, ZONE_CHARS, zone_of

MAX_TABLES = 50
MAX_AGENTS = 16
MESSAGE_CHARS = 200_000
METADATA_CHARS = 65_536
METADATA_DEPTH = 8
FAULT_CHARS = 500
"""What is said of a fault at most: parts of it are the input's."""


@lru_cache(maxsize=512)
def _known_locale(value: str) -> str:
    try:
        Locale.parse(tag := value.replace("_", "-"), sep="-")
    except (UnknownLocaleError, ValueError) as unknown:
        raise ValueError("unknown locale; use a BCP 47 tag such as 'en' or 'zh-CN'") from unknown
    return tag


@lru_cache(maxsize=1024)
def _known_zone(value: str) -> str:
    if zone_of(value) is None:
        raise ValueError(UNKNOWN)
    return value


def _distinct(ids: tuple[str, ...]) -> tuple[str, ...]:
    """Repeated ids fall together; the order stays, since the first table is the one asked for."""
    return tuple(dict.fromkeys(ids))


def _depth(value: JsonValue) -> int:
    """Nesting depth, without recursion: the input chooses it."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        item, level = todo.pop()
        deepest = max(deepest, level)
        children = item.values() if isinstance(item, dict) else item
        if isinstance(item, dict | list):
            todo.extend((child, level + 1) for child in children)  # type: ignore[union-attr]
    return deepest


def _bounded(metadata: JsonObject) -> JsonObject:
    if not metadata:
        return metadata
    if _depth(metadata) > METADATA_DEPTH:
        raise ValueError(f"nested deeper than {METADATA_DEPTH} levels; flatten it")
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValueError(
            "holds a number that is not finite; send a finite one or a text"
        ) from error
    if len(text) > METADATA_CHARS:
        raise ValueError(f"longer than {METADATA_CHARS} characters as JSON; send less")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds a lone surrogate, which is no text; remove it")
    return metadata


Locale_ = Annotated[str, Field(max_length=35), AfterValidator(_known_locale)]
Zone = Annotated[str, Field(max_length=ZONE_CHARS), AfterValidator(_known_zone)]

HEADERS = {
    "x-workspace-id": "workspaceId",
    "x-session-id": "sessionId",
    "x-conversation-id": "conversationId",
    "x-project-id": "projectId",
    "x-table-ids": "tableIds",
    "x-view-id": "viewId",
    "x-task-id": "taskId",
    "x-team-id": "teamId",
    "x-organization-id": "organizationId",
    "x-workflow-id": "workflowId",
    "x-agent-stack": "agentStack",
    "x-locale": "locale",
    "x-timezone": "timezone",
}
"""HTTP headers that `from_http` reads. There is none for the user: that is the caller's answer."""

_LISTS = frozenset({"tableIds", "agentStack"})


class ContextBuildInput(Contract):
    """Coordinates in, never prose.

    A coordinate that is left out inherits from the session; `null` or `[]` says "none" and
    clears it (`model_fields_set` tells the two apart). `table_ids[0]` is the table asked for.
    """

    user_id: Id
    workspace_id: Id
    session_id: Id | None = None
    conversation_id: Id | None = None
    project_id: Id | None = None
    table_ids: Annotated[tuple[Id, ...] | None, Field(max_length=MAX_TABLES)] = None
    view_id: Id | None = None
    task_id: Id | None = None
    team_id: Id | None = None
    organization_id: Id | None = None
    workflow_id: Id | None = None
    agent_stack: Annotated[tuple[Id, ...], Field(max_length=MAX_AGENTS)] = ()
    """Ids of the agents that act, outermost first. Never inherited."""
    message: Annotated[str, Field(max_length=MESSAGE_CHARS)] | None = None
    locale: Locale_ | None = None
    timezone: Zone | None = None
    metadata: Annotated[JsonObject, AfterValidator(_bounded)] = Field(default_factory=dict)

    def model_post_init(self, _: object, /) -> None:
        if self.table_ids is not None and len(self.table_ids) > 1:
            object.__setattr__(self, "table_ids", _distinct(self.table_ids))

    @classmethod
    def from_http(
        cls, headers: Mapping[str, str], body: Mapping[str, JsonValue], *, user_id: str
    ) -> Self:
        """Coordinates of an HTTP request: the body's, else the headers'.

        `user_id` is what the caller's authentication found; a user id in body or headers is
        never read. Lists in headers are separated by commas.

        Raises `InvalidRequest`, which names the first field that is wrong.
        """
        fields: dict[str, JsonValue] = {}
        for name, value in headers.items():
            if (field := HEADERS.get(name.lower())) is not None:
                parts: list[JsonValue] = [part.strip() for part in value.split(",") if part.strip()]
                fields[field] = parts if field in _LISTS else value
        fields.update({key: value for key, value in body.items() if key in _ACCEPTED})
        fields["userId"] = user_id
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise invalid(error) from error


_ACCEPTED = frozenset(
    {field.alias or name for name, field in ContextBuildInput.model_fields.items()}
) - {"userId"}


def invalid(error: ValidationError) -> InvalidRequest:
    """The first fault of a `ValidationError`, naming field and remedy but never the value."""
    fault = error.errors(include_url=False, include_input=False, include_context=False)[0]
    field = ".".join(str(part) for part in fault["loc"]) or None
    message = fault["msg"].removeprefix("Value error, ")
    return InvalidRequest(message[:FAULT_CHARS], field=field[:FAULT_CHARS] if field else None)
