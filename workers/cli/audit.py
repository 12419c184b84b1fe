"""`audit`: whether what is served is what the database says, beside production."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.table import Table
from rich.text import Text

from context_engine.errors import Unavailable
from workers.cli.shared import Exit, JsonFlag, config, console, run, stderr
from workers.cli.terminal import PLAIN, json_text

if TYPE_CHECKING:
    from workers.audit import Difference
    from workers.sightings import Counts

TOLD = 3
"""Most changes that are named for one difference."""
TOLD_AS_DATA = 20
"""The same with --json. A busy workspace has hundreds in the time that may explain one."""


def audit(
    seconds: Annotated[float, typer.Option(min=1, help="How long to take samples.")] = 60.0,
    every: Annotated[
        float, typer.Option(min=0.05, help="Seconds from one sample to the next.")
    ] = 1.0,
    workspace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this at run time
        typer.Option(help="Only this workspace."),
    ] = None,
    port: Annotated[
        Optional[int],  # noqa: UP045 - typer reads this at run time
        typer.Option(
            min=1,
            max=65_535,
            help="Serve what it counts at /metrics on this port of CONTEXT_HEALTH_HOST.",
        ),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Takes contexts at random as they are served, and builds each again from the database.

    A difference is explained by a change that came in between and that the context depends on.
    Without one it is a stale answer, or a write that went past the domain services. Nothing that
    is built is kept. Run it with the workers' settings: others may build otherwise. Exits with 0
    only if nothing is unexplained, with 1 else. --json prints a line for each difference, then one
    with the counts.

    Example: context-engine audit --seconds 600 --every 0.5
    """
    raise typer.Exit(run(_audit(seconds, every, workspace, port, as_json)))


async def _audit(
    seconds: float, every: float, workspace: str | None, port: int | None, as_json: bool
) -> Exit:
    """Raises `Unavailable` when the broker goes away, or something of it was missed."""
    from context_engine import bootstrap
    from workers.audit import GRACE_SECONDS, Auditor
    from workers.health import served
    from workers.metrics import counts
    from workers.sightings import watching

    settings = config().model_copy(update={"health_port": port})
    show = _as_json if as_json else _as_line
    async with (
        served(settings, "audit") as health,
        bootstrap.parts(settings) as parts,
        watching(settings, workspace) as seen,
    ):
        counts.audit(health.metrics, seen.counts)
        health.started()
        stderr.print(f"auditing for {seconds:g} s", style="dim", **PLAIN)
        auditor = Auditor(settings, parts.domain, seen)
        clock = asyncio.get_running_loop().time
        ends = clock() + seconds
        while clock() < ends:
            await asyncio.sleep(min(every, max(0.0, ends - clock())))
            if (sample := seen.sample()) is not None:
                try:
                    await auditor.audit(sample)
                except Unavailable as away:  # of the database: production has the same trouble
                    stderr.print(f"not rebuilt: {away.message}", **PLAIN)
            for one in auditor.judged():
                show(*one)
        # What came last may still be explained by a change on its way.
        await asyncio.sleep(GRACE_SECONDS)
        for one in auditor.judged(all=True):
            show(*one)
    _sum_up(seen.counts, as_json)
    return Exit.FAILED if seen.counts.unexplained else Exit.OK


def _as_json(one: Difference, explained: Sequence[str]) -> None:
    typer.echo(
        json_text(
            {
                "seen": "difference",
                "unexplained": not explained,
                "requestId": one.asked.request.request_id,
                "contextId": one.served.context_id,
                "workspaceId": one.served.workspace.id,
                "userId": one.served.user.id,
                "source": one.served.source,
                "ageMs": one.served.age_ms,
                "sections": list(one.sections),
                "explained": list(explained[:TOLD_AS_DATA]),
                "explainedCount": len(explained),
            }
        )
    )


def _as_line(one: Difference, explained: Sequence[str]) -> None:
    """What differs, and below it what explains that."""
    word = ("explained    ", "yellow") if explained else ("unexplained  ", "red")
    served = one.served
    what = f"{served.source}, user {served.user.id} in {served.workspace.id}"
    console.print(Text.assemble(word, what, ": ", ", ".join(one.sections)))
    for because in explained[:TOLD]:
        console.print(Text(f"  by {because}", "dim"))
    if (more := len(explained) - TOLD) > 0:
        console.print(Text(f"  and {more} more", "dim"))
    if not explained:
        console.print(Text(f"  context {served.context_id}, request {_request(one)}", "dim"))


def _request(one: Difference) -> str:
    return one.asked.request.request_id


def _sum_up(counts: Counts, as_json: bool) -> None:
    if as_json:
        typer.echo(json_text({"seen": "summary", **asdict(counts)}))
    else:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        values = asdict(counts)
        for name in values:
            table.add_column(name, justify="right")
        table.add_row(*(f"{value:,}" for value in values.values()))
        console.print(table)
    if not counts.rebuilt:
        stderr.print("nothing was rebuilt: no context was served meanwhile", **PLAIN)
