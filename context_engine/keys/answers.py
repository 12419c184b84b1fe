"""Cache keys: over every input that can change an answer."""

from __future__ import annotations

from dataclasses import dataclass

from context_engine.keys.encoding import digest
from context_engine.keys.scopes import Scope
from context_engine.models.base import JsonObject

BUILD_VERSION = "6"
"""Version of the code that builds: raise it when the same input gives another context, or when
another form of it is cached."""


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
