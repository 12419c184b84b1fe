"""Carries a context into tool execution: thirteen fields, variables, one note.

The context's coordinates win over what the request held: a tool acts where the engine says the
agent is. It says where, never what may be written: that is the domain service's answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import JsonValue

from context_engine.models.context import AgentContext
from context_engine.models.tools import Coordinates, ToolContextState, ToolRouterRequest
from context_engine.sections.summary import highlights

T = TypeVar("T", bound=Coordinates)

NOTE = "Context: "
"""Start of the note that the injector writes; injecting again replaces it."""


def inject(context: AgentContext, request: ToolRouterRequest) -> ToolRouterRequest:
    """`request` with the context's coordinates, variables and note; injecting twice is the same."""
    return request.model_copy(
        update={
            **coordinates_of(context),
            "user_id": context.user.id,
            "variables": {**request.variables, **variables_of(context)},
            "notes": _noted(request.notes, context),
        }
    )


def inject_state(context: AgentContext, state: ToolContextState) -> ToolContextState:
    """`state` with the context's coordinates, variables and note; injecting twice is the same."""
    return state.model_copy(
        update={
            **coordinates_of(context),
            "variables": {**state.variables, **variables_of(context)},
            "notes": _noted(state.notes, context),
        }
    )


def coordinates_of(context: AgentContext) -> dict[str, Any]:
    """The thirteen fields, by their Python names. What is out of sight is None, never kept."""
    named_session = context.session is not None and (
        context.conversation is None or context.session.id != context.conversation.id
    )
    return {
        "session_id": context.session.id if context.session and named_session else None,
        "workspace_id": context.workspace.id,
        "table_ids": tuple(table.id for table in context.tables),
        "conversation_id": _id(context.conversation),
        "project_id": _id(context.project),
        "view_id": _id(context.view),
        "task_id": _id(context.task),
        "team_id": _id(context.team),
        "organization_id": _id(context.organization),
        "workflow": context.workflow,
        "agent_stack": context.agent_stack,
        "context_summary": context.context_summary,
        "context_snapshot": context,
    }


def _id(section: Any) -> str | None:
    return section.id if section is not None else None


def variables_of(context: AgentContext) -> Mapping[str, JsonValue]:
    """Scope, summary highlights and window, for templates and tools."""
    return {
        "contextScope": {
            "scopeKey": context.scope_key,
            "userId": context.user.id,
            "workspaceId": context.workspace.id,
            "contextId": context.context_id,
            "contextHash": context.context_hash,
        },
        "contextHighlights": dict(highlights(context)),
        "contextWindow": context.context_window.model_dump(mode="json"),
    }


def _noted(notes: tuple[str, ...], context: AgentContext) -> tuple[str, ...]:
    """The notes with the compact summary at the end: stable parts first, the volatile last."""
    others = tuple(note for note in notes if not note.startswith(NOTE))
    return (*others, NOTE + context.context_summary)
