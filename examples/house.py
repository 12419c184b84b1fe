"""What both examples need to run by hand: a client, and a router over the domain services."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from context_engine.bootstrap import domain_services
from context_engine.errors import ContextEngineError, Unavailable
from context_engine.settings import DEV_ENV, SettingsError, load
from events.client import ContextClient
from examples.router import ToolRouter, list_records


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[ContextClient, ToolRouter]]:
    """Over a running `context-engine dev`, or the house that the environment names."""
    settings = load(DEV_ENV if DEV_ENV.exists() else None)
    async with domain_services(settings) as services, ContextClient(settings) as client:
        yield client, ToolRouter({"list_records": list_records(services)})


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Runs an example; the engine's own errors end it with one line."""

    async def started() -> None:
        await main()

    try:
        asyncio.run(started())
    except ContextEngineError as error:
        away = isinstance(error, Unavailable | SettingsError)
        hint = "\nIs `context-engine dev` running?" if away else ""
        sys.exit(f"{error.code}: {error.message}{hint}")
