"""The commands and where each one lives."""

from __future__ import annotations

import typer

from context_engine.errors import ContextEngineError
from workers.cli import admin, ask, dev, domain, imports, watch, worker
from workers.cli.shared import leave

app = typer.Typer(
    name="context-engine",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,  # they hold addresses with passwords
    help="""Gives AI agents user-scoped, explainable context, and takes it back when it stops
    being true.

    Try it: [bold]context-engine demo[/bold], or [bold]context-engine dev[/bold] in one terminal
    and [bold]context-engine build --user usr-ana --workspace ws-delivery --table tbl-tasks[/bold]
    in another.""",
)
app.command("demo")(dev.demo)
app.command("dev")(dev.dev)
app.command("build")(ask.build)
app.command("emit")(ask.emit)
app.command("watch")(watch.watch)
app.command("migrate")(admin.migrate)
app.command("topics")(admin.topics)
app.command("seed")(admin.seed)
app.command("schema")(admin.schema)
app.add_typer(worker.app, name="worker")
app.add_typer(domain.app, name="domain")
app.add_typer(imports.app, name="import")


def main() -> None:
    """Runs the command that the arguments name."""
    try:
        app()
    except ContextEngineError as error:
        try:
            leave(error)
        except typer.Exit as exit_:
            raise SystemExit(exit_.exit_code) from None
