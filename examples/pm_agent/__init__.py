"""A project-management agent: more coordinates, an agent stack, and state for its workflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.injector import inject, inject_state
from context_engine.models import ContextBuildInput, ToolContextState, ToolRouterRequest
from events.client import ContextClient
from events.messages import BuildOptions
from examples.router import ToolRouter


@dataclass(frozen=True, slots=True)
class Plan:
    """What the agent found, and the state that its workflow goes on with."""

    project: str | None
    open_tasks: int | None
    state: ToolContextState
    tool_result: JsonValue


class PmAgent:
    """Acts for a user, never wider than the user: its own id goes into the agent stack."""

    def __init__(self, client: ContextClient, router: ToolRouter, agent_id: str) -> None:
        self._client, self._router, self._agent_id = client, router, agent_id

    async def review(
        self, headers: Mapping[str, str], body: Mapping[str, JsonValue], *, user_id: str
    ) -> Plan:
        """Looks at the project that the request names; every coordinate must be in sight."""
        where = ContextBuildInput.from_http(
            headers, {**body, "agentStack": [self._agent_id]}, user_id=user_id
        )
        ready = await self._client.request(where, options=BuildOptions(strict=True))
        state = inject_state(ready.context, ToolContextState())
        call = inject(ready.context, ToolRouterRequest(tool="list_records"))
        project = ready.context.project
        return Plan(
            project=project.name if project is not None else None,
            open_tasks=project.open_tasks.value if project is not None else None,
            state=state,
            tool_result=await self._router.run(call),
        )
