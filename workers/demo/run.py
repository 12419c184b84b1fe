"""Runs the demo: the house comes up, every step is shown with its time, everything goes down."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from context_engine import bootstrap
from context_engine.adapters.sql.explain import explain
from context_engine.errors import ContextEngineError
from events.client import ContextClient
from workers.cli.program import typed
from workers.cli.shared import Exit, show_json
from workers.cli.terminal import PLAIN, people
from workers.demo.stage import NotAsExpected, Shown, Stage
from workers.demo.steps import STEPS, Step
from workers.house import House, house
from workers.show import context_panel

INDENT = 6
"""Columns before what a step saw: those of its mark."""

NEXT = """
What next
  context-engine dev        the same house, for you to play in
  context-engine watch      changes and evictions as they happen
  context-engine domain     grants, members, records, messages by hand
  README.md                 ten lines of client code; docs/ for the rest
"""


async def run(home: Path, *, as_json: bool) -> int:
    """The whole demo; 0 only if every step showed what it should and nothing failed to stop."""
    console = people(stderr=as_json, width=80 if not Console().is_terminal else None)
    started = time.perf_counter()
    report: list[dict[str, object]] = []
    logs = home / "logs"
    logs.mkdir()

    def say(text: str) -> None:
        elapsed = time.perf_counter() - started
        console.print(Text(f"{elapsed:6.1f} s  {text}", style="dim"))

    try:
        async with house(say=say, logs=logs) as up:
            failed = await _steps(up, console, report)
            say("stopping what was started")
    except ContextEngineError as error:
        console.print(Text(f"{error.code}: {error.message}", style="red"))
        return Exit.UNAVAILABLE
    say("stopped; nothing is left running")
    if as_json:
        show_json({"ok": not failed, "steps": report})
    elif not failed:
        console.print(typed(NEXT), highlight=False, markup=False, soft_wrap=True)
    return Exit.FAILED if failed else Exit.OK


async def _steps(up: House, console: Console, report: list[dict[str, object]]) -> int:
    """Runs every step; how many did not show what they should."""
    failed = 0
    async with ContextClient(up.settings) as client, bootstrap.parts(up.settings) as parts:
        stage = Stage(client, parts, up.seeded, partial(explain, parts.database))
        await stage.settle()
        for number, step in enumerate(STEPS, start=1):
            title = (step.__doc__ or step.__name__).strip()
            ok, shown = await _one(stage, step)
            failed += not ok
            _print(console, f"{number}. {title}", ok, shown)
            report.append(
                {"step": step.__name__, "ok": ok, "milliseconds": shown.milliseconds,
                 "lines": shown.lines}
            )  # fmt: skip
    return failed


async def _one(stage: Stage, step: Step) -> tuple[bool, Shown]:
    try:
        return True, await step(stage)
    except NotAsExpected as fault:
        return False, Shown([f"not as it should be: {fault}"])
    except (ContextEngineError, TimeoutError) as error:
        return False, Shown([f"{type(error).__name__}: {error}"])


def _print(console: Console, title: str, ok: bool, shown: Shown) -> None:
    took = f"{shown.milliseconds:.1f} ms" if shown.milliseconds is not None else ""
    console.print()
    mark = ("ok  ", "green") if ok else ("FAIL", "bold red")
    console.print(Text.assemble(mark, (f"  {title}", "bold"), (f"  {took}", "cyan")))
    for line in shown.lines:
        _print_line(console, line)
    if shown.context is not None:
        console.print(context_panel(shown.context))


def _print_line(console: Console, line: str) -> None:
    """Indented; what does not fit goes on below its first word, or below its label's text."""
    label = re.match(r"\S+(?: \S+)*  +", line)
    hang = label.end() if label is not None else 0
    first, *others = Text(line[hang:]).wrap(console, console.width - INDENT - hang)
    console.print(" " * INDENT + line[:hang] + first.plain.rstrip(), **PLAIN)
    for other in others:
        console.print(" " * (INDENT + hang) + other.plain.rstrip(), **PLAIN)
