"""`domain table` and `domain policy`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    TableId,
    Version,
    Workspace,
    with_services,
    write,
)
from workers.cli.shared import JsonFlag, console, show_json
from workers.cli.terminal import json_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from context_engine.adapters.sql.services import TableShape

table = typer.Typer(no_args_is_help=True, help="Tables in sight.")
policy = typer.Typer(no_args_is_help=True, help="Row policies of a table.")


@table.command("list")
def table_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the tables in the actor's sight, with the actor's permission on each.

    Example: context-engine domain table list --actor usr-eva
    """
    found = with_services(lambda s: s.tables.list(actor, workspace))
    if as_json:
        show_json([{"id": t.id, "name": t.name, "permission": t.permission} for t in found])
        return
    for one in found:
        name = json_text(one.name)
        console.print(f"{one.id}  {name}  {one.permission}", markup=False, highlight=False)


@table.command("show")
def table_show(
    table_id: Annotated[str, typer.Argument(help="Table id.")],
    actor: Reader = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Shows the fields of a table, with ids, types and choices, and its views.

    Example: context-engine domain table show tbl-tasks
    """
    shape = with_services(lambda s: s.tables.show(actor, workspace, table_id))
    if as_json:
        show_json(_shape_json(shape))
        return
    console.print(f"{shape.table.id}  {_text(shape.table.name)}  {shape.table.permission}", **PLAIN)
    for field in shape.fields:
        options = "  ".join(f"{name}: {_text(value)}" for name, value in field.options.items())
        line = f"  field {field.id}  {_text(shape.names[field.id])}  {field.type}  {options}"
        console.print(line.rstrip(), **PLAIN)
    for view in shape.table.views:
        console.print(f"  view  {view.facts.id}  {_text(view.facts.name)}", **PLAIN)


class Plain(TypedDict):
    """How lines with ids and names go to the terminal: as they are."""

    markup: bool
    highlight: bool
    soft_wrap: bool


PLAIN: Plain = {"markup": False, "highlight": False, "soft_wrap": True}


def _text(value: JsonValue) -> str:
    """Quoted: names and choices are users' words."""
    return json_text(value)


def _shape_json(shape: TableShape) -> dict[str, object]:
    return {
        "id": shape.table.id,
        "name": shape.table.name,
        "permission": shape.table.permission,
        "fields": [
            {"id": f.id, "name": shape.names[f.id], "type": f.type, "options": f.options}
            for f in shape.fields
        ],
        "views": [{"id": v.facts.id, "name": v.facts.name} for v in shape.table.views],
    }


@policy.command("get")
def policy_get(table_id: TableId, actor: Reader = ADMIN, workspace: Workspace = DEMO) -> None:
    """Prints the row policies of a table as the JSON that `set` takes.

    Example: context-engine domain policy get --table tbl-tasks > policy.json
    """
    found = with_services(lambda s: s.policies.get(actor, workspace, table_id))
    show_json(found.model_dump(mode="json"))


@policy.command("set")
def policy_set(
    table_id: TableId,
    file: Annotated[
        Path, typer.Argument(help="Policies as JSON, or - for standard input.", allow_dash=True)
    ],
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Replaces the row policies of a table: all of them, so `get` them first.

    A predicate with a day and a link, for tasks that are due by today in Berlin (without a zone:
    in the user's) and belong to a running project:

    {"all": [{"cmp": {"ref": "field:fld-task-due", "op": "lte", "operand": {"now": {"unit":
    "today", "tz": "Europe/Berlin"}}}}, {"linkedAny": {"field": "fld-task-project", "pred":
    {"cmp": {"ref": "field:fld-project-status", "op": "eq", "operand": {"literal":
    "Running"}}}}}]}

    The demo's own, under which a viewer sees the tasks assigned to them or made by them:

    Example: echo '{"default": "show_all", "policies": [{"mode": "restrictive", "subjects":
    [{"type": "role", "id": "viewer"}], "pred": {"any": [{"cmp": {"ref": "sys:created_by",
    "op": "eq", "operand": {"user": "id"}}}, {"cmp": {"ref": "field:fld-task-assignee",
    "op": "eq", "operand": {"user": "id"}}}]}}]}' |
    context-engine domain policy set --table tbl-tasks -
    """
    wanted = _json_of(file)
    if isinstance(wanted, dict) and not {"default", "policies"} <= wanted.keys():
        # What is left out would be taken away: nobody opens a table by a file of nothing.
        raise InvalidRequest(
            "name both default and policies; `policy get` shows them", field="FILE"
        )
    write(
        as_json,
        lambda s: s.policies.set(actor, workspace, table_id, wanted, expected_version=expect),
    )


def _json_of(file: Path) -> JsonValue:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        value: JsonValue = json.loads(text)
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"not readable as JSON ({error})", field="FILE") from error
    return value
