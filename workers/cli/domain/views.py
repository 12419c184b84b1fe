"""`domain view`: views of a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    OwnId,
    Reader,
    TableId,
    Text,
    Workspace,
    choice,
    show_list,
    with_services,
)
from workers.cli.domain.tables import view_json, view_line
from workers.cli.domain.written import write
from workers.cli.shared import JsonFlag, Misused

if TYPE_CHECKING:
    from pydantic import JsonValue

view = typer.Typer(no_args_is_help=True, help="Views of a table.")
Ownership = Literal["collaborative", "personal", "restricted"]
NO_FIELDS: list[str] = []


@view.command("list")
def view_list(
    table_id: TableId, actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the views of a table in the actor's sight: how many fields each shows, what filters it.

    The filter is told to who may change the view and sees all that it names, to others that there
    is one; to operators by `context-engine explain --view`.

    Example: context-engine domain view list --table tbl-tasks --actor usr-chloe
    """
    shape = with_services(lambda s: s.tables.show(actor, workspace, table_id))
    show_list(
        as_json,
        shape.table.views,
        lambda one: view_line(one, shape),
        none="no views",
        of=lambda one: view_json(one, shape),
    )


@view.command("create")
def view_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    table_id: TableId,
    type: Annotated[str, typer.Option("--type", help="Such as grid, kanban, gantt.")] = "grid",
    ownership: Annotated[
        Ownership,
        choice("--ownership", "For whom it is, a restricted one for who has a grant", Ownership),
    ] = "collaborative",
    filter: Annotated[
        Text, typer.Option("--filter", help="A predicate as JSON, as row policies have; else all.")
    ] = None,
    hidden: Annotated[
        list[str], typer.Option("--hide", help="Field id that it does not show.")
    ] = NO_FIELDS,
    field_order: Annotated[
        list[str], typer.Option("--field", help="Field id, in the order of the view.")
    ] = NO_FIELDS,
    id: OwnId = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Makes a view. What a restricted one hides and filters out is a boundary.

    The difference is in docs/permissions.md.

    Example: context-engine domain view create Serious --table tbl-incidents --id viw-serious
    --ownership restricted --hide fld-incident-reporter --filter '{"cmp": {"ref":
    "field:fld-incident-severity", "op": "eq", "operand": {"literal": "S1"}}}'
    """
    pred = _json_of(filter)
    write(
        as_json,
        "view",
        lambda s: s.views.create(
            actor,
            workspace,
            table_id,
            name=name,
            type=type,
            ownership=ownership,
            filter=pred,
            hidden=hidden,
            field_order=field_order,
            id=id,
        ),
    )


@view.command("delete")
def view_delete(
    view_id: Annotated[str, typer.Argument(metavar="VIEW", help="View id; see `view list`.")],
    table_id: TableId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Deletes a view with the grants on it.

    Example: context-engine domain view delete viw-serious --table tbl-incidents
    """
    write(as_json, "view", lambda s: s.views.delete(actor, workspace, table_id, view_id))


def _json_of(text: Text) -> JsonValue:
    try:
        found: JsonValue = None if text is None else json.loads(text)
    except ValueError as error:
        raise Misused(f"not readable as JSON ({error})", field="--filter") from error
    return found
