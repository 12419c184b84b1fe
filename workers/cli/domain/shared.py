"""What the domain commands share: their options, a run over the services, what was written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Optional, TypeVar

import typer

from workers.cli.shared import camel, config, console, run, show_json, stderr

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices, Written

T = TypeVar("T")

Actor = Annotated[str, typer.Option("--actor", help="User who writes; checked as any other.")]
Reader = Annotated[str, typer.Option("--actor", help="User who looks, and sees what is theirs.")]
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
    """Shows what was written: a line for each, or all of it as JSON."""
    from context_engine.adapters.sql.services import Written

    done = with_services(work)
    answers = [done] if isinstance(done, Written) else list(done)
    if as_json:
        show_json([_as_json(one) for one in answers])
        return
    for one in answers:
        line = f"{one.id} version {one.version}, {_marks(one)}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if not all(one.marked for one in answers):
        stderr.print(UNMARKED, style="yellow", markup=False, highlight=False, soft_wrap=True)


UNMARKED = """\
The write is committed; the cache could not be told (see --json for the reason). The relay repeats
it; until then a cached answer may be old."""


def _marks(one: Written) -> str:
    """What became of the marks, which end the contexts that the write made untrue."""
    from context_engine.ports import Marked

    if not one.tokens:
        return "nothing to mark"
    if not one.marked:
        return "NOT MARKED"
    clocks = [token.clock for token in one.tokens if isinstance(token, Marked)]
    told = [str(clock) for clock in clocks if clock is not None]
    return f"marked at clock {', '.join(told)}" if told else "marked; nothing was cached"


def _as_json(one: Written) -> dict[str, object]:
    return {
        "id": one.id,
        "version": one.version,
        "marked": one.marked,
        "after": list(one.after),
        "tokens": [camel(token) for token in one.tokens],
        "changes": [change.model_dump(mode="json", exclude_none=True) for change in one.changes],
    }
