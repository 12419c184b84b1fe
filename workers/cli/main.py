"""The commands and where each one lives."""

from __future__ import annotations

from importlib.metadata import version
from inspect import getdoc
from typing import Annotated

import typer

from context_engine.errors import ContextEngineError
from workers.cli import (
    admin,
    ask,
    audit,
    conversation,
    dead_letters,
    dev,
    domain,
    explain,
    freshness,
    imports,
    snapshot,
    watch,
    worker,
)
from workers.cli.options import named
from workers.cli.program import help_text, typed
from workers.cli.shared import error_json, leave, show_json, wants_json

app = typer.Typer(
    name="context-engine",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,  # they hold addresses with passwords
    help=typed("""Gives AI agents user-scoped, explainable context, and takes it back when it stops
    being true.

    Try it: [bold]context-engine demo[/bold], or [bold]context-engine dev[/bold] in one terminal
    and [bold]context-engine build --user usr-ana --workspace ws-delivery --table tbl-tasks[/bold]
    in another."""),
)
app.command("demo")(dev.demo)
app.command("dev")(dev.dev)
app.command("build")(ask.build)
app.command("emit")(ask.emit)
app.command("watch")(watch.watch)
app.command("freshness")(freshness.freshness)
app.command("audit")(audit.audit)
app.command("explain")(explain.explain)
app.command("migrate")(admin.migrate)
app.command("topics")(admin.topics)
app.command("seed")(admin.seed)
app.command("schema")(admin.schema)
app.add_typer(worker.app, name="worker")
app.add_typer(domain.app, name="domain")
app.add_typer(imports.app, name="import")
app.add_typer(snapshot.app, name="snapshot")
app.add_typer(conversation.app, name="conversation")
app.add_typer(dead_letters.app, name="dead-letters")


CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 65 refused, 69 a part is away, 70 and 75 a"
    " worker failed or stood still, 74 the output has no room, 78 a setting,"
    " 130 interrupted (docs/errors.md)."
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"context-engine {version('context-engine')}")
        raise typer.Exit


@app.callback(epilog=CODES)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command that the arguments name."""
    as_typed(app)
    try:
        code = app(standalone_mode=False)
    except typer.TyperException as error:
        code = _misused(error)
    except ContextEngineError as error:
        try:
            leave(error)
        except typer.Exit as exit_:
            code = exit_.exit_code
    raise SystemExit(code)


def _misused(error: typer.TyperException) -> int:
    """Tells of arguments that do not fit, as typer would; with --json for programs too."""
    from typer.rich_utils import rich_format_error

    error.message = error.message.replace("Value error, ", "")  # pydantic's word, not ours
    if wants_json():
        parameter = getattr(error, "param", None)
        place = named(parameter) if parameter is not None else None
        show_json(error_json("usage", error.format_message(), place))
    rich_format_error(error)  # type: ignore[arg-type]  # parsing raises the one kind it takes
    return error.exit_code


def as_typed(group: typer.Typer) -> None:
    """Makes every help text one for a terminal, its commands as typed here; adds the exit codes."""
    for command in group.registered_commands:
        if command.callback is not None:
            command.help = help_text(getdoc(command.callback) or "")
            command.epilog = CODES
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            as_typed(inner.typer_instance)
