"""A chat's backend: coordinates from the request, context over the bus, then the tool call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from context_engine.injector import inject
from context_engine.models import ContextBuildInput, ToolRouterRequest
from events.client import ContextClient
from examples.router import ToolRouter


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the chat answers, and from which context."""

    text: str
    context_id: str
    source: str
    tool_result: JsonValue


class Chat:
    """One entry point. `user_id` is what the product's own authentication found."""

    def __init__(self, client: ContextClient, router: ToolRouter) -> None:
        self._client, self._router = client, router

    async def post(
        self, headers: Mapping[str, str], body: Mapping[str, JsonValue], *, user_id: str
    ) -> ChatReply:
        """Handles one message. Raises the engine's typed errors (`NotFound` and so on)."""
        where = ContextBuildInput.from_http(headers, body, user_id=user_id)
        ready = await self._client.request(where)
        call = inject(
            ready.context,
            ToolRouterRequest(tool="list_records", arguments={"limit": 3}, message=where.message),
        )
        result = await self._router.run(call)
        # A model would reason here, over call.notes and call.variables, before it answers.
        return ChatReply(call.notes[-1], ready.context_id, ready.source, result)
