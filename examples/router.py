"""A small tool router: tools act at the injected coordinates, and read records themselves.

It stands for whatever runs tools in a product. Two things matter: a tool never reads "the current
table" from anywhere but the injected request, and it asks the domain under the user's own rights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from pydantic import JsonValue

from context_engine.adapters.sql.services import DomainServices
from context_engine.models import ToolRouterRequest

Tool = Callable[[ToolRouterRequest], Awaitable[JsonValue]]


class ToolRouter:
    """Runs a named tool with the request that the injector completed."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools

    async def run(self, request: ToolRouterRequest) -> JsonValue:
        """The tool's result. Raises `KeyError` for a tool that is not there."""
        return await self._tools[request.tool or ""](request)


def list_records(services: DomainServices) -> Tool:
    """A tool that lists the first records of the current table, as the user sees them."""

    async def run(request: ToolRouterRequest) -> JsonValue:
        if request.user_id is None or request.workspace_id is None or not request.table_ids:
            return {"error": "no table is in view"}
        limit = request.arguments.get("limit", 5)
        found = await services.records.list(
            request.user_id,
            request.workspace_id,
            request.table_ids[0],
            limit=limit if isinstance(limit, int) else 5,
        )
        return {"table": request.table_ids[0], "records": [record.id for record in found]}

    return run
