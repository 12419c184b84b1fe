"""What the injector writes into: the tool router's request and the state its tools share."""

from __future__ import annotations

from pydantic import Field, JsonValue

from context_engine.models.base import Contract, Id, JsonObject
from context_engine.models.context import AgentContext
from context_engine.models.sections import Agent, WorkflowSection


class Coordinates(Contract):
    """The thirteen fields that carry a context into tool execution."""

    session_id: Id | None = None
    workspace_id: Id | None = None
    table_ids: tuple[Id, ...] = ()
    conversation_id: Id | None = None
    project_id: Id | None = None
    view_id: Id | None = None
    task_id: Id | None = None
    team_id: Id | None = None
    organization_id: Id | None = None
    workflow: WorkflowSection | None = None
    agent_stack: tuple[Agent, ...] = ()
    context_summary: str | None = None
    context_snapshot: AgentContext | None = None


class ToolRouterRequest(Coordinates):
    """One request to the tool router. The snapshot says where the agent is, never what it may."""

    tool: str | None = None
    arguments: JsonObject = Field(default_factory=dict)
    message: str | None = None
    user_id: Id | None = None
    variables: dict[str, JsonValue] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()


class ToolContextState(Coordinates):
    """State that router, adapters and skills share while one request runs."""

    variables: dict[str, JsonValue] = Field(default_factory=dict)
    notes: tuple[str, ...] = ()
