"""`domain record`: records of a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    OwnId,
    Reader,
    TableId,
    Text,
    Version,
    Workspace,
    with_services,
)
from workers.cli.domain.written import write
from workers.cli.shared import JsonFlag, Misused, camel, console, show_json, stderr

if TYPE_CHECKING:
    from pydantic import JsonValue

    from context_engine.adapters.sql.services import Record

record = typer.Typer(no_args_is_help=True, help="Records of a table.")

Cells = Annotated[
    list[str],
    typer.Option(
        "--set", help="FIELD_ID=VALUE, the value as JSON or plain text; see `domain field list`."
    ),
]
RecordIds = Annotated[list[str], typer.Argument(help="Record ids.")]


@record.command("create")
def record_create(
    table_id: TableId,
    cells: Cells,
    id: OwnId = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Makes a record.

    Example: context-engine domain record create --table tbl-tasks --set fld-task-title="Try it"
    """
    values = _cells(cells)
    write(as_json, "record", lambda s: s.records.create(actor, workspace, table_id, values, id=id))


@record.command("update")
def record_update(
    record_id: Annotated[str, typer.Argument(help="Record id.")],
    table_id: TableId,
    cells: Cells,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Writes some cells of a record; `FIELD=null` empties one.

    Example: context-engine domain record update rec-tasks-0001 --table tbl-tasks
    --set fld-task-assignee=usr-chloe
    """
    values = _cells(cells)
    write(
        as_json,
        "record",
        lambda s: s.records.update(
            actor, workspace, table_id, record_id, values, expected_version=expect
        ),
    )


@record.command("delete")
def record_delete(
    record_ids: RecordIds,
    table_id: TableId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Deletes records.

    Example: context-engine domain record delete rec-tasks-0001 rec-tasks-0002 --table tbl-tasks
    """
    write(as_json, "record", lambda s: s.records.delete(actor, workspace, table_id, record_ids))


@record.command("restore")
def record_restore(
    record_ids: RecordIds,
    table_id: TableId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Brings deleted records back.

    Example: context-engine domain record restore rec-tasks-0001 --table tbl-tasks
    """
    write(as_json, "record", lambda s: s.records.restore(actor, workspace, table_id, record_ids))


@record.command("list")
def record_list(
    table_id: TableId,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most records to show.")] = 20,
    after: Annotated[Text, typer.Option(help="Go on after this id.")] = None,
    actor: Reader = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Lists the records in the actor's sight.

    Example: context-engine domain record list --table tbl-tasks --actor usr-chloe
    """
    found = with_services(
        lambda s: s.records.list(actor, workspace, table_id, limit=limit, after=after)
    )
    if as_json:
        show_json([camel(one) for one in found])
        return
    if not found:
        stderr.print("no records in sight" if after is None else "no more records in sight")
    for one in found:
        console.print(_line(one), markup=False, highlight=False, no_wrap=True, overflow="ellipsis")


def _line(one: Record) -> str:
    """One record on one line; control characters of cells must not reach the terminal."""
    return f"{one.id}  v{one.version}  {json.dumps(one.cells, ensure_ascii=True)}"


def _cells(assignments: Iterable[str]) -> dict[str, JsonValue]:
    cells: dict[str, JsonValue] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise Misused("write FIELD=VALUE", field="--set")
        try:
            cells[name] = json.loads(text)
        except json.JSONDecodeError:
            cells[name] = text
    return cells
