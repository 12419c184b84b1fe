"""`context-engine worker …`: the processes that a deployment runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Protocol

import typer

from context_engine.settings import Settings
from workers import supervisor
from workers.cli.shared import config, console
from workers.logs import configure
from workers.signals import leaving, stop_requested

app = typer.Typer(no_args_is_help=True, help="Runs a worker in the foreground.")

JsonLogs = Annotated[
    bool, typer.Option("--json", help="Log lines as JSON, as CONTEXT_LOG_FORMAT=json.")
]


class Run(Protocol):
    """What every worker offers."""

    def __call__(
        self, settings: Settings, *, ready: Callable[[], None], stop: asyncio.Event
    ) -> Awaitable[int]: ...


def say_ready(name: str) -> Callable[[], None]:
    """Prints the line that a supervisor or a test waits for."""
    return lambda: console.print(f"{name} ready", highlight=False)


async def until_signalled(run: Run, settings: Settings, name: str) -> int:
    """Runs a worker until SIGTERM or SIGINT asks it to finish; the exit code, 0 in that case."""
    try:
        return await run(settings, ready=say_ready(name), stop=stop_requested())
    finally:
        leaving()


def _set_up(json_logs: bool) -> Settings:
    """Reads the settings, and has the log as they want it."""
    settings = config()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    configure(json_logs or settings.log_format == "json", level=level)
    return settings


@app.command()
def build(json_logs: JsonLogs = False) -> None:
    """Answers build requests.

    Example: context-engine worker build
    """
    from workers.build import run as answer
    from workers.process import run

    settings = _set_up(json_logs)
    raise typer.Exit(run(until_signalled(answer, settings, "build")))


@app.command()
def invalidate(json_logs: JsonLogs = False) -> None:
    """Takes back what domain changes make untrue.

    Example: context-engine worker invalidate
    """
    from workers.invalidate import run as consume
    from workers.process import run

    settings = _set_up(json_logs)
    raise typer.Exit(run(until_signalled(consume, settings, "invalidate")))


@app.command()
def relay(json_logs: JsonLogs = False) -> None:
    """Publishes the reference domain's outbox.

    Example: context-engine worker relay
    """
    from workers.process import run
    from workers.relay import run as publish

    settings = _set_up(json_logs)
    raise typer.Exit(run(until_signalled(publish, settings, "relay")))


@app.command("all")
def all_() -> None:
    """Runs the three workers as processes of their own; ends when one of them ends.

    Example: context-engine worker all
    """
    port = config().health_port
    raise typer.Exit(asyncio.run(supervisor.run_all(say=console.print, health_port=port)))
