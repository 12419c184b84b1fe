"""Effective coordinates: the request's, else those of the session.

A field left out inherits; null or [] means none and clears it. A view is inherited only with
its table, a task only with its project. The agent stack is never inherited.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.keys import Coordinates
from context_engine.models.input import ContextBuildInput

_INHERITED = (
    "conversation_id",
    "project_id",
    "table_ids",
    "view_id",
    "task_id",
    "team_id",
    "organization_id",
    "workflow_id",
)
"""What a session keeps; a view and a task come after what they belong to."""

_BELONGS_TO = {"view_id": "table_ids", "task_id": "project_id"}


@dataclass(frozen=True, slots=True)
class Effective:
    """Coordinates after inheritance, and the names of those that came from the session."""

    at: Coordinates
    inherited: tuple[str, ...] = ()


def effective(request: ContextBuildInput, session: bytes | None) -> Effective:
    """Resolves `request` against the coordinates that `session` kept (JSON, or None).

    A session that holds something else keeps nothing: it is never trusted.
    """
    kept = _read(session)
    given = request.model_fields_set
    found: dict[str, str | tuple[str, ...] | None] = {}
    inherited: list[str] = []
    for name in _INHERITED:
        owner = _BELONGS_TO.get(name)
        if name in given or (owner is not None and found[owner] != _value(owner, kept)):
            found[name] = _of_request(request, name)
            continue
        found[name] = _value(name, kept)
        if found[name]:
            inherited.append(name)
    at = Coordinates(
        workspace_id=request.workspace_id,
        user_id=request.user_id,
        session_id=request.session_id,
        agent_stack=request.agent_stack,
        **found,  # type: ignore[arg-type]
    )
    return Effective(at, tuple(inherited))


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def kept(at: Coordinates) -> bytes:
    """What a session keeps of `at`: canonical JSON, so that equal coordinates are equal bytes."""
    values = {name: getattr(at, name) for name in _INHERITED if getattr(at, name)}
    return _ENCODER.encode(values).encode()


def _read(session: bytes | None) -> dict[str, JsonValue]:
    try:
        found = json.loads(session) if session is not None else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _value(name: str, kept: dict[str, JsonValue]) -> str | tuple[str, ...] | None:
    value = kept.get(name)
    if name == "table_ids":
        return tuple(id for id in value if isinstance(id, str)) if isinstance(value, list) else ()
    return value if isinstance(value, str) else None


def _of_request(request: ContextBuildInput, name: str) -> str | tuple[str, ...] | None:
    value = getattr(request, name)
    if name == "table_ids":
        return tuple(value or ())
    return value if isinstance(value, str) else None
