"""What the commands share: settings, output for people and machines, errors into exit codes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import Annotated, NoReturn, TypeVar

import typer
from pydantic.alias_generators import to_camel

from context_engine.errors import (
    ContextEngineError,
    InvalidRequest,
    NotNow,
    NotYetEnforced,
    Rejected,
    Unavailable,
)
from context_engine.settings import (
    DEV_ENV,
    Settings,
    SettingsError,
    load,
    overridden,
    unknown_names,
)
from workers.cli.options import typed_place
from workers.cli.program import typed
from workers.cli.terminal import json_text, people

T = TypeVar("T")

console = people()
stderr = people(stderr=True)

JsonFlag = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]


class Exit(IntEnum):
    """Exit codes, after sysexits.h where it has one; docs/errors.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REJECTED = 65
    UNAVAILABLE = 69
    SETTINGS = 78
    INTERRUPTED = 130


class Misused(InvalidRequest):
    """Options or arguments that do not fit, as far as the command line itself can tell."""

    code = "usage"


STACK = frozenset({"broker", "redis", "cache", "database"})
"""Parts that a local stack has: their absence may mean that none runs."""


def config() -> Settings:
    """This process's settings: the environment, else what a running `dev` left behind."""
    warn_unknown()
    return load(DEV_ENV)


def warn_unknown() -> None:
    """Tells on stderr of names that look like settings and are none: they change nothing."""
    for name, meant in unknown_names(DEV_ENV).items():
        hint = f"; did you mean {meant}?" if meant is not None else ""
        _note(f"{name} is ignored: there is no such setting{hint}")


def run(work: Coroutine[object, object, T]) -> T:
    """Runs `work` to its end; the package's own errors become one line and an exit code."""
    try:
        return asyncio.run(work)
    except KeyboardInterrupt:
        raise typer.Exit(Exit.INTERRUPTED) from None
    except ContextEngineError as error:
        leave(error)


def leave(error: ContextEngineError) -> NoReturn:
    """Says what went wrong and what to do, on stderr, and exits with the code of its kind.

    With --json the error is a JSON object on stdout too.
    """
    place, message = _placed(error)
    message = typed(message)
    if wants_json():
        show_json(error_json(error.code, message, place, retryable=error.retryable))
    stderr.print(f"[red]{error.code}[/red] ", end="")
    stderr.print(message, markup=False, highlight=False, soft_wrap=True)
    if (hint := _hint(error)) is not None:
        _note(typed(hint))
    raise typer.Exit(exit_code(error))


def exit_code(error: ContextEngineError) -> Exit:
    """The code of an error's kind."""
    match error:
        case SettingsError():
            return Exit.SETTINGS
        case Misused():
            return Exit.USAGE
        case Unavailable() | NotNow():
            return Exit.UNAVAILABLE
        case Rejected():
            return Exit.REJECTED
        case _:
            return Exit.FAILED


def error_json(
    code: str, message: str, field: str | None = None, *, retryable: bool = False
) -> dict[str, object]:
    """An error for programs. `field`: the place of a fault in what was given, if it has one."""
    return {"code": code, "field": field, "message": message, "retryable": retryable}


def wants_json() -> bool:
    """Whether this command's output is for a program; a worker's --json is about its log."""
    return "--json" in sys.argv[1:] and sys.argv[1:2] != ["worker"]


def _placed(error: ContextEngineError) -> tuple[str | None, str]:
    """The place of a fault and the message, in the words of who typed the command."""
    if not isinstance(error, InvalidRequest) or error.field is None:
        return None, error.message
    place = typed_place(error.field)
    return place, f"{place}{error.message.removeprefix(error.field)}"


def _hint(error: ContextEngineError) -> str | None:
    """What to look at first, as far as the folder and the environment tell."""
    if isinstance(error, SettingsError):
        return (
            "Start `context-engine dev` in this folder, or set the addresses (docs/settings.md)."
            if not DEV_ENV.exists()
            else "The settings are in docs/settings.md."
        )
    if not isinstance(error, Unavailable) or isinstance(error, NotYetEnforced):
        return None
    if error.part not in STACK:
        return None
    if not DEV_ENV.exists():
        return (
            f"Is the stack up? `context-engine dev` starts one; there is no"
            f" {DEV_ENV.absolute()} of a running one."
        )
    if names := overridden(DEV_ENV):
        return f"{', '.join(names)} of the environment wins over {DEV_ENV}, which dev wrote."
    return None


def _note(text: str) -> None:
    stderr.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)


def show_json(value: object) -> None:
    """One JSON value on stdout, nothing else."""
    sys.stdout.write(json_text(value, indent=2) + "\n")


def camel(value: object) -> dict[str, object]:
    """A dataclass as JSON: the names of its fields in camelCase, what they hold untouched."""
    assert is_dataclass(value)
    return {to_camel(one.name): getattr(value, one.name) for one in fields(value)}
