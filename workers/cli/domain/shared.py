"""What the domain commands share: their options, a run over the services, what was written."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Optional, TypeVar

import typer

from context_engine.adapters.sql.services import DomainServices, Unmarked, Written
from context_engine.models.base import JsonObject
from workers.cli.shared import config, console, run, show_json

T = TypeVar("T")

Actor = Annotated[str, typer.Option("--actor", help="User who writes; checked as any other.")]
Workspace = Annotated[str, typer.Option("--workspace", help="Workspace id.")]
TableId = Annotated[str, typer.Option("--table", help="Table id.")]
Version = Annotated[
    Optional[int],  # noqa: UP045 - typer reads this at run time
    typer.Option("--expect", help="Refuse unless this is the version found."),
]
Text = Optional[str]  # noqa: UP045

ADMIN, DEMO = "usr-ana", "ws-delivery"
"""Who and where, unless told: the admin of the demo workspace."""


def with_services(work: Callable[[DomainServices], Awaitable[T]]) -> T:
    """Runs `work` over the services of this process."""
    from context_engine import bootstrap

    async def go() -> T:
        async with bootstrap.domain_services(config()) as services:
            return await work(services)

    return run(go())


def write(
    as_json: bool, work: Callable[[DomainServices], Awaitable[Written | Sequence[Written]]]
) -> None:
    """Shows what was written, and the token and changes of the call, the same for all of it."""
    done = with_services(work)
    answers = [done] if isinstance(done, Written) else list(done)
    if as_json:
        show_json([_as_json(one) for one in answers])
        return
    for one in answers:
        console.print(f"{one.id}  version {one.version}", markup=False, highlight=False)
    for one in answers[:1]:
        for token in one.tokens:
            word = "NOT MARKED" if isinstance(token, Unmarked) else "marked"
            console.print(f"{word}  {json.dumps(asdict(token))}", markup=False, highlight=False)
        for change in one.changes:
            text = change.model_dump_json(exclude_none=True)
            console.print(text, markup=False, highlight=False, soft_wrap=True)


def _as_json(one: Written) -> JsonObject:
    return {
        "id": one.id,
        "version": one.version,
        "marked": one.marked,
        "tokens": [asdict(token) for token in one.tokens],
        "changes": [change.model_dump(mode="json", exclude_none=True) for change in one.changes],
    }
