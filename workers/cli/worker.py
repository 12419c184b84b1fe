"""`context-engine worker …`: the processes that a deployment runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, NoReturn, Protocol

import typer

from context_engine.settings import Settings
from workers import supervisor
from workers.cli.shared import config, console
from workers.logs import configure
from workers.signals import leaving, stop_requested
from workers.supervised import run_supervised

app = typer.Typer(no_args_is_help=True, help="Runs a worker in the foreground.")

JsonLogs = Annotated[
    bool, typer.Option("--json", help="Log lines as JSON, as CONTEXT_LOG_FORMAT=json.")
]

Supervised = Annotated[
    bool,
    typer.Option(
        "--supervised", help="As a child process, which is started again when it leaves loudly."
    ),
]


class Run(Protocol):
    """What every worker offers."""

    def __call__(
        self, settings: Settings, *, ready: Callable[[], None], stop: asyncio.Event
    ) -> Awaitable[int]: ...


def say_ready(name: str) -> Callable[[], None]:
    """Settles the process and prints the line that a supervisor or a test waits for."""
    from workers.process import settle

    def ready() -> None:
        settle()
        console.print(f"{name} ready", highlight=False)

    return ready


async def until_signalled(run: Run, settings: Settings, name: str) -> int:
    """Runs a worker until SIGTERM or SIGINT asks it to finish; the exit code, 0 in that case."""
    try:
        return await run(settings, ready=say_ready(name), stop=stop_requested())
    finally:
        leaving()


def _serve(worker: Run, json_logs: bool, name: str) -> NoReturn:
    """Runs one worker in this process, traced where the settings want it."""
    from context_engine.bootstrap import traced
    from workers.process import run

    settings = _set_up(json_logs)
    with traced(settings, f"context-{name}"):
        raise typer.Exit(run(until_signalled(worker, settings, name)))


def supervised(*names: str, json_logs: bool = False) -> NoReturn:
    """Runs workers as children of this process, started again after each loud exit."""
    from workers.process import run

    settings = _set_up(json_logs)
    options = ("--json",) if json_logs else ()
    raise typer.Exit(run(run_supervised(names, say=_say, settings=settings, options=options)))


def _say(line: str) -> None:
    console.print(line, highlight=False)


def _set_up(json_logs: bool) -> Settings:
    """Reads the settings, and has the log as they want it."""
    settings = config()
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    configure(json_logs or settings.log_format == "json", level=level)
    return settings


@app.command()
def build(json_logs: JsonLogs = False, supervise: Supervised = False) -> None:
    """Answers build requests.

    Example: context-engine worker build --supervised
    """
    if supervise:
        supervised("build", json_logs=json_logs)
    from workers.build import run as answer

    _serve(answer, json_logs, "build")


@app.command()
def invalidate(json_logs: JsonLogs = False, supervise: Supervised = False) -> None:
    """Takes back what domain changes make untrue.

    Example: context-engine worker invalidate
    """
    if supervise:
        supervised("invalidate", json_logs=json_logs)
    from workers.invalidate import run as consume

    _serve(consume, json_logs, "invalidate")


@app.command()
def relay(json_logs: JsonLogs = False, supervise: Supervised = False) -> None:
    """Publishes the reference domain's outbox.

    Example: context-engine worker relay
    """
    if supervise:
        supervised("relay", json_logs=json_logs)
    from workers.relay import run as publish

    _serve(publish, json_logs, "relay")


@app.command("all")
def all_(supervise: Supervised = False) -> None:
    """Runs the three workers as processes of their own.

    Ends when one of them ends; with --supervised that one is started again.

    Example: context-engine worker all --supervised
    """
    if supervise:
        supervised(*supervisor.WORKERS)
    port = config().health_port
    raise typer.Exit(asyncio.run(supervisor.run_all(say=console.print, health_port=port)))
