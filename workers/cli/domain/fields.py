"""`domain field` and `domain field-permission`: fields, and who may not read or write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    TableId,
    Text,
    Version,
    Workspace,
    show_list,
    with_services,
)
from workers.cli.domain.subjects import Subject, subject
from workers.cli.domain.tables import field_json, field_line
from workers.cli.domain.written import Before, Replaces, Stood, write
from workers.cli.shared import JsonFlag

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices, FieldPermission

field = typer.Typer(no_args_is_help=True, help="Fields of a table.")
field_permission = typer.Typer(
    no_args_is_help=True, help="Fields that a user, a team or a role may not read, or only read."
)

FieldId = Annotated[str, typer.Argument(help="Field id; see `domain field list`.")]
NamedUser = Annotated[Text, typer.Option("--user", help="The user whom it names.")]
NamedTeam = Annotated[Text, typer.Option("--team", help="The team whom it names.")]
NamedRole = Annotated[
    Text,
    typer.Option(
        "--role", help="Whoever is let into the table as viewer, commenter, editor, builder, admin."
    ),
]


@field.command("list")
def field_list(
    table_id: TableId, actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the fields of a table in the actor's sight, with ids, types and choices.

    Example: context-engine domain field list --table tbl-tasks
    """
    shape = with_services(lambda s: s.tables.show(actor, workspace, table_id))
    show_list(
        as_json,
        shape.fields,
        lambda one: field_line(one, shape.names),
        none="no fields",
        of=lambda one: field_json(one, shape.names),
    )


@field_permission.command("set")
def field_permission_set(
    field_id: FieldId,
    table_id: TableId,
    level: Annotated[
        Literal["none", "read", "write"], typer.Option("--level", help="What they may do at most.")
    ],
    user: NamedUser = None,
    team: NamedTeam = None,
    role: NamedRole = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Says what a user, a team or a role may do with a field: it narrows, and raises nobody.

    Example: context-engine domain field-permission set fld-task-due --table tbl-tasks
    --role viewer --level none
    """
    named = subject(user=user, team=team, role=role)
    write(
        as_json,
        _words(named),
        lambda s: s.field_permissions.set(
            actor, workspace, table_id, field_id, **named, level=level, expected_version=expect
        ),
        Replaces(_stood(actor, workspace, table_id, field_id, named), {"level": level}),
    )


@field_permission.command("remove")
def field_permission_remove(
    field_id: FieldId,
    table_id: TableId,
    user: NamedUser = None,
    team: NamedTeam = None,
    role: NamedRole = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Takes back what was said of a subject, who may do again what their role lets them.

    Example: context-engine domain field-permission remove fld-task-due --table tbl-tasks
    --role viewer
    """
    named = subject(user=user, team=team, role=role)
    write(
        as_json,
        _words(named),
        lambda s: s.field_permissions.remove(actor, workspace, table_id, field_id, **named),
        Replaces(_stood(actor, workspace, table_id, field_id, named), None),
    )


@field_permission.command("list")
def field_permission_list(
    table_id: TableId,
    field_id: Annotated[Text, typer.Option("--field", help="Of this field alone.")] = None,
    actor: Reader = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Lists what is said of the fields of a table, field by field. An admin's to read.

    Example: context-engine domain field-permission list --table tbl-tasks
    """
    found = with_services(lambda s: s.field_permissions.list(actor, workspace, table_id, field_id))
    show_list(as_json, found, _line, none="no field permissions: the roles decide")


def _line(one: FieldPermission) -> str:
    return f"{one.field_id}  {one.subject_type} {one.subject_id}  {one.level}  v{one.version}"


def _words(named: Subject) -> str:
    """What the answer's id, the field's, follows."""
    return f"permission of {named['subject_type']} {named['subject_id']} on field"


def _stood(actor: str, workspace: str, table_id: str, field_id: str, named: Subject) -> Before:
    async def before(services: DomainServices) -> Stood | None:
        for one in await services.field_permissions.list(actor, workspace, table_id, field_id):
            if (one.subject_type, one.subject_id) == (named["subject_type"], named["subject_id"]):
                return Stood({"level": one.level}, one.version)
        return None

    return before
