"""`freshness`: what waits to be applied, and whether caches may be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from context_engine.errors import Unavailable
from context_engine.liveness import COUNTED_SECONDS
from workers.cli.shared import Exit, JsonFlag, config, console, error_json, run, show_json, stderr
from workers.cli.terminal import PLAIN, json_text, plural

if TYPE_CHECKING:
    from workers.freshness import Freshness, Partition

WATCH_SECONDS = 1.0
"""From one look to the next."""


def freshness(
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again every second, until Ctrl-C.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Says for each partition of the change topics what waits in it and whether it is live.

    `lag` and `oldest` are what the invalidation consumer has not applied: records, and the age of
    the first. `applied` is the offset below which all is proven applied. While one partition is
    not live, no cache is read, and the last line says how many answers went past it. Exits with 0
    if all are live, with 1 if not, with 69 where the broker or Redis is away; --watch goes on.

    Example: context-engine freshness --watch
    """
    raise typer.Exit(run(_freshness(watch, as_json)))


async def _freshness(watch: bool, as_json: bool) -> Exit:
    """Raises `Unavailable`, unless it is to go on."""
    from context_engine import bootstrap
    from workers.freshness import backlog_of, look

    settings = config()
    show = _as_json if as_json else _as_table
    async with bootstrap.parts(settings) as parts, backlog_of(settings) as backlog:
        while True:
            try:
                found = await look(backlog, parts.liveness)
            except Unavailable as away:
                if not watch:
                    raise
                _away(away, as_json)
            else:
                show(found, watch)
                if not watch:
                    return Exit.OK if found.live else Exit.FAILED
            await asyncio.sleep(WATCH_SECONDS)


def _away(away: Unavailable, as_json: bool) -> None:
    if as_json:
        typer.echo(json_text(error_json(away.code, away.message, retryable=True)))
    stderr.print(f"{away.code} {away.message}", **PLAIN)


def _as_json(found: Freshness, watch: bool) -> None:
    """On a line of its own where more follow."""
    value = {
        "live": found.live,
        "answers": found.tally.answers,
        "bypasses": found.tally.bypasses,
        "bypassRate": found.bypass_rate,
        "withinSeconds": COUNTED_SECONDS,
        "partitions": [
            {
                "topic": one.topic,
                "partition": one.partition,
                "lag": one.lag,
                "oldestMs": one.oldest_ms,
                "applied": one.applied,
                "live": one.live,
                "liveMs": one.live_ms,
                "why": one.why,
            }
            for one in found.partitions
        ],
    }
    if watch:
        typer.echo(json_text(value))
    else:
        show_json(value)


def _as_table(found: Freshness, watch: bool) -> None:
    if watch:
        console.clear()
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("topic", overflow="fold")
    for name in ("part", "lag", "oldest", "applied"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("live", no_wrap=True)
    before = None
    for one in found.partitions:
        table.add_row(
            one.topic if one.topic != before else "",
            str(one.partition),
            f"{one.lag:,}",
            "-" if one.oldest_ms is None else _seconds(one.oldest_ms),
            "-" if one.applied is None else f"{one.applied:,}",
            _state(one),
        )
        before = one.topic
    console.print(table)
    for line in _verdict(found):
        console.print(line)


def _state(one: Partition) -> Text:
    if one.live:
        return Text(f"for {_seconds(one.live_ms or 0)}", "green")
    if one.why == "ended" and one.live_ms is not None:
        return Text(f"not for {_seconds(-one.live_ms)}", "red")
    return Text(f"no: {one.why}", "red")


def _verdict(found: Freshness) -> Iterator[Text]:
    partitions = plural(len(found.partitions), "partition")
    standing = sum(not one.live for one in found.partitions)
    if found.live:
        yield Text.assemble(("live", "green"), f": all {partitions}")
    else:
        yield Text.assemble(("not live", "red"), f": {standing} of {partitions}")
    tally = found.tally
    answers = f"{plural(tally.answers, 'answer')} in the last {COUNTED_SECONDS} s"
    if found.bypass_rate is not None:
        answers += f", {tally.bypasses:,} past the cache ({found.bypass_rate:.1%})"
    yield Text(answers)


def _seconds(milliseconds: int) -> str:
    """`2.7 s`, `4 min`, `3 h`."""
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 6_000 else f"{seconds / 3_600:,.0f} h"
