"""`watch`: changes, evictions and contexts as they happen."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Annotated, Optional

import typer
from rich.text import Text

from context_engine.changes import AnyChange
from events.messages import ContextEvicted, ContextReady
from workers.cli.shared import JsonFlag, config, console, run, stderr

Seen = AnyChange | ContextEvicted | ContextReady


def watch(
    workspace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this at run time
        typer.Option(help="Only this workspace."),
    ] = None,
    count: Annotated[int, typer.Option(help="Stop after so many; 0 for never.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Shows domain changes, evictions and ready contexts from now on, until Ctrl-C.

    Example: context-engine watch --workspace ws-delivery
    """
    run(_watch(workspace, count, as_json))


async def _watch(workspace: str | None, count: int, as_json: bool) -> None:
    from events.client import ContextClient

    seen: asyncio.Queue[Seen] = asyncio.Queue(maxsize=1_000)

    async def forward(source: AsyncIterator[Seen]) -> None:
        async for one in source:
            await seen.put(one)

    async with (
        ContextClient(config()) as client,
        client.subscribe_changes(workspace) as changes,
        client.subscribe_evictions(workspace) as evictions,
        client.subscribe_ready(workspace) as ready,
        asyncio.TaskGroup() as reading,
    ):
        sources: tuple[AsyncIterator[Seen], ...] = (changes, evictions, ready)
        tasks = [reading.create_task(forward(source)) for source in sources]
        stderr.print("watching; Ctrl-C ends it", style="dim")
        shown = 0
        while not count or shown < count:
            one = await seen.get()
            shown += 1
            if as_json:
                typer.echo(json.dumps(_fields(one), ensure_ascii=False))
            else:
                console.print(_line(one))
        for task in tasks:
            task.cancel()


def _fields(one: Seen) -> dict[str, object]:
    match one:
        case ContextReady():
            return {
                "seen": "ready",
                "requestId": one.request_id,
                "source": one.source,
                "userId": one.context.user.id,
                "contextHash": one.context_hash,
            }
        case ContextEvicted():
            return {"seen": "evicted", **one.model_dump(mode="json")}
        case _:
            return {"seen": "change", **one.model_dump(mode="json", exclude_none=True)}


def _line(one: Seen) -> Text:
    at = datetime.now().astimezone().strftime("%H:%M:%S ")
    match one:
        case ContextReady():
            detail = f"{one.source:<8} user {one.context.user.id}  {one.context_hash[:12]}"
            return Text.assemble((at, "dim"), ("ready    ", "green"), detail)
        case ContextEvicted():
            detail = f"{one.count} by {one.change_type}, clock {one.clock}"
            return Text.assemble((at, "dim"), ("evicted  ", "red"), detail)
        case _:
            named = one.model_dump(mode="json", exclude_none=True, exclude={"change_id", "at"})
            detail = " ".join(f"{k}={v}" for k, v in named.items() if k != "type")
            return Text.assemble((at, "dim"), ("change   ", "yellow"), one.type, " ", detail)
