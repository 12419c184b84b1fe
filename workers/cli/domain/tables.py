"""`domain table`: tables in sight, with their fields and views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Reader,
    Workspace,
    show_list,
    with_services,
)
from workers.cli.shared import JsonFlag, console, show_json
from workers.cli.terminal import PLAIN, json_text, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from context_engine.access import VisibleTable, VisibleView
    from context_engine.adapters.sql.services import TableShape
    from context_engine.adapters.sql.services.cells import FieldSpec

table = typer.Typer(no_args_is_help=True, help="Tables in sight.")


@table.command("list")
def table_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the tables in the actor's sight, with the actor's permission on each.

    Example: context-engine domain table list --actor usr-eva
    """
    found = with_services(lambda s: s.tables.list(actor, workspace))
    show_list(as_json, found, _line, none="no tables in sight", of=_table_json)


def _line(one: VisibleTable) -> str:
    return f"{one.id}  {json_text(one.name)}  {one.permission}"


def _table_json(one: VisibleTable) -> dict[str, object]:
    return {"id": one.id, "name": one.name, "permission": one.permission}


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
    console.print(_line(shape.table), **PLAIN)
    for field in shape.fields:
        console.print(f"  field {field_line(field, shape.names)}", **PLAIN)
    for view in shape.table.views:
        console.print(f"  view  {view_line(view, shape)}", **PLAIN)


def field_line(one: FieldSpec, names: Mapping[str, str]) -> str:
    """Names and choices are users' words: quoted."""
    options = "  ".join(f"{name}: {json_text(value)}" for name, value in one.options.items())
    return f"{one.id}  {json_text(names[one.id])}  {one.type}  {options}".rstrip()


def field_json(one: FieldSpec, names: Mapping[str, str]) -> dict[str, object]:
    return {"id": one.id, "name": names[one.id], "type": one.type, "options": one.options}


def view_line(one: VisibleView, of: TableShape) -> str:
    """With the fields that it shows, out of those of the table in sight, and what filters it."""
    facts = one.facts
    shown = f"{len(one.field_ids)} of {plural(len(of.table.fields), 'field')}"
    line = f"{facts.id}  {json_text(facts.name)}  {facts.type}  {facts.ownership}  {shown}"
    if facts.filter is None:
        return line
    told = of.filters.get(facts.id)
    return f"{line}  filtered" if told is None else f"{line}  filter {json_text(told)}"


def view_json(one: VisibleView, of: TableShape) -> dict[str, object]:
    facts = one.facts
    return {
        "id": facts.id,
        "name": facts.name,
        "type": facts.type,
        "ownership": facts.ownership,
        "fieldIds": list(one.field_ids),
        "filtered": facts.filter is not None,
        "filter": of.filters.get(facts.id),
    }


def _shape_json(shape: TableShape) -> dict[str, object]:
    return {
        **_table_json(shape.table),
        "fields": [field_json(one, shape.names) for one in shape.fields],
        "views": [view_json(one, shape) for one in shape.table.views],
    }
