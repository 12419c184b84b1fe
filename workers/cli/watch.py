"""`watch`: changes, evictions, contexts and bypasses as they happen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.text import Text

from workers.cli.shared import JsonFlag, config, console, run, stderr
from workers.cli.terminal import json_text, plural

if TYPE_CHECKING:
    from context_engine.changes import AnyChange
    from events.messages import ContextEvicted, ContextReady
    from events.tail import Missed

    Seen = AnyChange | ContextEvicted | ContextReady | Missed

FEW = 5
"""Most ids of one list on a line."""


def watch(
    workspace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this at run time
        typer.Option(help="Only this workspace."),
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many; 0 for never.")] = 0,
    as_json: JsonFlag = False,
) -> None:
    """Shows domain changes, evictions and ready contexts from now on, until Ctrl-C.

    A `bypass` is a context that was built past the cache, because changes were not proven to be
    applied; `context-engine freshness` says where that hangs. `missed` is what could not be read.
    Requests that were refused are not among them: only who asked is told. Ends with a failure
    when the broker stays away.

    Example: context-engine watch --workspace ws-delivery
    """
    run(_watch(workspace, count, as_json))


async def _watch(workspace: str | None, count: int, as_json: bool) -> None:
    """Raises `Unavailable` when the broker goes away."""
    from events.client import ContextClient

    show = _as_json if as_json else _as_line
    async with (
        ContextClient(config()) as client,
        client.subscribe_changes(workspace) as changes,
        client.subscribe_evictions(workspace) as evictions,
        client.subscribe_ready(workspace) as ready,
        aclosing(_merged(changes, evictions, ready)) as seen,
    ):
        stderr.print("watching; Ctrl-C ends it", style="dim")
        shown = 0
        async for one in seen:
            show(one)
            shown += 1
            if shown == count:
                return


async def _merged(*sources: AsyncIterator[Seen]) -> AsyncGenerator[Seen, None]:
    """What any of `sources` gives, as it comes. Raises what the first of them raises."""
    waiting = {asyncio.ensure_future(_next(source)): source for source in sources}
    try:
        while True:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                source = waiting.pop(one)
                yield one.result()
                waiting[asyncio.ensure_future(_next(source))] = source
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _next(source: AsyncIterator[Seen]) -> Seen:
    """What comes next; a gap is something to see too."""
    from events.tail import Missed

    try:
        return await anext(source)
    except Missed as gap:
        return gap


def _as_json(one: Seen) -> None:
    typer.echo(json_text(_fields(one)))


def _as_line(one: Seen) -> None:
    console.print(_line(one), soft_wrap=True)  # a line each, for who reads lines


def _fields(one: Seen) -> dict[str, object]:
    from events.messages import ContextEvicted, ContextReady
    from events.tail import Missed

    match one:
        case Missed():
            return {"seen": "missed", "message": one.message}
        case ContextReady():
            return {
                "seen": "ready",
                "requestId": one.request_id,
                "source": one.source,
                "bypassed": _bypassed(one),
                "userId": one.context.user.id,
                "contextHash": one.context_hash,
            }
        case ContextEvicted():
            return {"seen": "evicted", **one.model_dump(mode="json")}
        case _:
            return {"seen": "change", **one.model_dump(mode="json", exclude_none=True)}


def _line(one: Seen) -> Text:
    from events.messages import ContextEvicted, ContextReady
    from events.tail import Missed

    at = datetime.now().astimezone().strftime("%H:%M:%S ")
    match one:
        case Missed():
            return Text.assemble((at, "dim"), ("missed   ", "magenta"), one.message)
        case ContextReady():
            word = ("bypass   ", "magenta") if _bypassed(one) else ("ready    ", "green")
            detail = f"{one.source:<8} user {one.context.user.id}  {one.context_hash[:12]}"
            return Text.assemble((at, "dim"), word, detail)
        case ContextEvicted():
            entries, scopes = plural(one.count, "entry", "entries"), len(one.scope_keys)
            whose = f" of {plural(scopes, 'scope')}" if scopes else ""
            detail = f"{entries}{whose} by {one.change_type}, clock {one.clock}"
            return Text.assemble((at, "dim"), ("evicted  ", "red"), detail)
        case _:
            return Text.assemble((at, "dim"), ("change   ", "yellow"), one.type, " ", _said(one))


def _bypassed(one: ContextReady) -> bool:
    """Whether nothing cached was read for it, because liveness was not proven."""
    from context_engine.repository import BYPASSED

    return BYPASSED in one.context.trace.remarks


def _said(change: AnyChange) -> str:
    """What a change names, as `tableId=tbl-tasks subject=team:team-support`."""
    named = change.model_dump(
        mode="json", exclude_defaults=True, exclude={"change_id", "at", "type"}
    )
    return " ".join(f"{name}={_shown(value)}" for name, value in named.items())


def _shown(value: object) -> str:
    """Of a long list the beginning, and how many there are."""
    match value:
        case {"type": kind, "id": id}:
            return f"{kind}:{id}"
        case list():
            more = f",…({len(value)})" if len(value) > FEW else ""
            return ",".join(map(_shown, value[:FEW])) + more
        case bool():
            return str(value).lower()
        case _:
            return str(value)
