"""What the commands share: settings, output for people and machines, errors into exit codes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine
from enum import IntEnum
from typing import Annotated, NoReturn, TypeVar

import typer
from rich.console import Console

from context_engine.errors import ContextEngineError, Rejected, Unavailable
from context_engine.settings import DEV_ENV, Settings, SettingsError, load

T = TypeVar("T")

console = Console()
stderr = Console(stderr=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


class Exit(IntEnum):
    """Exit codes, after sysexits.h where it has one."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REJECTED = 65
    UNAVAILABLE = 69
    SETTINGS = 78


def config() -> Settings:
    """This process's settings: the environment, else what a running `dev` left behind."""
    return load(DEV_ENV if DEV_ENV.exists() else None)


def run(work: Coroutine[object, object, T]) -> T:
    """Runs `work` to its end; the package's own errors become one line and an exit code."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    except ContextEngineError as error:
        leave(error)


def leave(error: ContextEngineError) -> NoReturn:
    """Says what went wrong and what to do, on stderr, and exits with the code of its kind."""
    stderr.print(f"[red]{error.code}[/red] ", end="")
    stderr.print(error.message, markup=False, highlight=False)
    if isinstance(error, SettingsError):
        stderr.print("Start `context-engine dev`, or set the addresses (docs/settings.md).")
        raise typer.Exit(Exit.SETTINGS)
    if isinstance(error, Unavailable):
        stderr.print("Is the stack up? `context-engine dev` starts one.")
        raise typer.Exit(Exit.UNAVAILABLE)
    raise typer.Exit(Exit.REJECTED if isinstance(error, Rejected) else Exit.FAILED)


def show_json(value: object) -> None:
    """One JSON value on stdout, nothing else."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")
