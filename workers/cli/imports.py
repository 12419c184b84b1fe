"""`import …`: workspaces that others made, loaded whole. An operator's act."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import ADMIN
from workers.cli.program import program
from workers.cli.shared import JsonFlag, config, console, run, show_json, stderr

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import Imported
    from context_engine.loading import NewWorkspace
    from context_engine.loading import Progress as Told

app = typer.Typer(no_args_is_help=True, help="Load a workspace that was exported elsewhere.")
OPERATOR = "operator"
"""Who is named as the actor of an import."""


@app.callback()
def _group() -> None:
    """Keeps `baserow` a command of its own, for others to come beside it."""


@dataclass(frozen=True, slots=True)
class Done:
    """An import that stands."""

    workspace: NewWorkspace
    imported: Imported
    seconds: float


@app.command("baserow")
def baserow(
    file: Annotated[Path, typer.Argument(help="The exported workspace, a JSON file.")],
    workspace: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this at run time
        typer.Option("--workspace", help="Its name here; else the file's own."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put it in the place of what that workspace holds.")
    ] = False,
    admin: Annotated[
        str, typer.Option("--admin", help="User who becomes ADMIN; made where there is none.")
    ] = ADMIN,
    as_json: JsonFlag = False,
) -> None:
    """Loads an exported Baserow workspace whole, or, where the file is broken, nothing of it.

    Example: context-engine import baserow lightweight-crm.json
    """
    with _progress() as told:
        done = run(_load(file, workspace, admin, replace=replace, told=told))
    if as_json:
        show_json(_as_json(done))
    else:
        _show(done)


async def _load(file: Path, name: str | None, admin: str, *, replace: bool, told: Told) -> Done:
    from context_engine.adapters.baserow import read_workspace
    from context_engine.bootstrap import domain_services

    settings, started = config(), time.perf_counter()
    try:
        data = file.read_bytes()  # noqa: ASYNC240 - nothing else runs in this process
    except OSError as error:
        raise InvalidRequest(f"cannot be read: {error.strerror}", field=str(file)) from error
    made = read_workspace(data, name=name, max_rows=settings.import_max_rows, progress=told)
    async with domain_services(settings) as services:
        imported = await services.imports.load(
            OPERATOR, made, admin_id=admin, replace=replace, progress=told
        )
    return Done(made, imported, time.perf_counter() - started)


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar for each step, on stderr, and only where somebody looks."""
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=stderr
    )
    tasks = {
        step: bars.add_task(step, total=None, visible=False) for step in ("reading", "writing")
    }

    def told(step: str, done: int, of: int, /) -> None:
        bars.update(tasks[step], completed=done, total=of, visible=True)

    with bars:
        yield told


def _as_json(done: Done) -> dict[str, object]:
    return {
        "workspaceId": done.workspace.id,
        "name": done.workspace.name,
        "replaced": done.imported.replaced,
        "adminId": done.imported.admin_id,
        "counts": done.workspace.counts.as_json(),
        "withoutCounterpart": [asdict(gap) for gap in done.workspace.gaps],
        "unknownPeople": list(done.imported.strangers),
        "seconds": round(done.seconds, 3),
    }


def _show(done: Done) -> None:
    made, imported = done.workspace, done.imported
    _show_gaps(made)
    if imported.strangers:
        people = ", ".join(imported.strangers)
        console.print(_plain(f"No user here is {people}: what they made is nobody's."))
    table = Table(title="replaced" if imported.replaced else "imported", title_justify="left")
    for column in ("tables", "fields", "views", "rows", "links", "seconds"):
        table.add_column(column, justify="right")
    counts = [f"{number:,}" for number in made.counts.as_json().values()]
    table.add_row(*counts, f"{done.seconds:.2f}")
    console.print(table)
    console.print(_plain(f"workspace {made.id}, ADMIN {imported.admin_id}; ask for a context:"))
    first = made.tables[0].id if made.tables else "TABLE"
    console.print(
        f"{program()} build --user {imported.admin_id} --workspace {made.id} --table {first}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def _show_gaps(made: NewWorkspace) -> None:
    """What of the file has no counterpart here, by table and field or view."""
    if not made.gaps:
        return
    table = Table(title="without a counterpart here", title_justify="left")
    for column in ("table", "field or view", "what"):
        table.add_column(column, overflow="fold")
    table.add_column("cells", justify="right")
    for gap in made.gaps:
        where = gap.field or (f"view {gap.view}" if gap.view else "")
        cells = "" if gap.cells is None else f"{gap.cells:,}"
        table.add_row(*map(_plain, (gap.table, where, gap.what)), cells)
    console.print(table)


def _plain(text: str) -> Text:
    """Text of a file as it is; what could steer a terminal is left out."""
    return Text("".join(c if c.isprintable() else " " for c in text))
