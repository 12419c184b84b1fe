"""`domain member`, `domain grant` and `domain field-permission`: who may do what."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    TableId,
    Text,
    Version,
    Workspace,
    with_services,
    write,
)
from workers.cli.shared import JsonFlag, camel, console, show_json

member = typer.Typer(no_args_is_help=True, help="Members of a workspace.")
grant = typer.Typer(
    no_args_is_help=True, help="Roles on a table or a view, or a team's on the workspace."
)
field_permission = typer.Typer(
    no_args_is_help=True, help="Fields that a user, a team or a role may not read, or only read."
)

MemberRole = Annotated[
    str,
    typer.Option(
        "--role", help="none, viewer, commenter, editor, builder, admin, or defer (teams')."
    ),
]
UserId = Annotated[str, typer.Argument(help="User id.")]
RoleName = Annotated[
    str, typer.Option("--role", help="none, viewer, commenter, editor, builder or admin.")
]


@member.command("add")
def member_add(
    user: UserId,
    role: MemberRole = "viewer",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a user to a workspace; the role may also be `defer`, for that of the teams.

    Example: context-engine domain member add usr-gus --role viewer
    """
    write(as_json, lambda s: s.members.add(actor, workspace, user, role=role))


@member.command("set")
def member_set(
    user: UserId,
    role: MemberRole,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Changes a member's role.

    Example: context-engine domain member set usr-ben --role viewer
    """
    write(
        as_json, lambda s: s.members.set(actor, workspace, user, role=role, expected_version=expect)
    )


@member.command("remove")
def member_remove(
    user: UserId, actor: Actor = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Ends a membership, with the user's grants, teams and projects there.

    Example: context-engine domain member remove usr-finn
    """
    write(as_json, lambda s: s.members.remove(actor, workspace, user))


User = Annotated[Text, typer.Option("--user", help="The user whose grant it is.")]
Team = Annotated[Text, typer.Option("--team", help="The team whose grant it is.")]
OnTable = Annotated[
    Text,
    typer.Option("--table", help="Table where it holds; a team's may leave it out: the workspace."),
]
OnView = Annotated[Text, typer.Option("--view", help="View where it holds, instead of a table.")]


@grant.command("set")
def grant_set(
    role: RoleName,
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    view_id: OnView = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Gives a user or a team a role on a table or a view, or a team one on the workspace.

    `none` shuts them out of a table, or hides a view. Another role on a view is a way into a
    restricted one. A user's role on the workspace is `domain member set`.

    Example: context-engine domain grant set --user usr-ben --view viw-tasks-escalated --role viewer
    """
    ends = _ends(user, team, table_id, view_id, workspace)
    write(as_json, lambda s: s.grants.set(actor, workspace, **ends, role=role))


@grant.command("remove")
def grant_remove(
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    view_id: OnView = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Removes a grant; the next wider one decides again.

    Example: context-engine domain grant remove --user usr-ben --view viw-tasks-escalated
    """
    ends = _ends(user, team, table_id, view_id, workspace)
    write(as_json, lambda s: s.grants.remove(actor, workspace, **ends))


class Subject(TypedDict):
    """Whom a right names."""

    subject_type: str
    subject_id: str


class Ends(Subject):
    """Whose grant, and where it holds."""

    scope_type: str
    scope_id: str


def _ends(user: Text, team: Text, table_id: Text, view_id: Text, workspace: str) -> Ends:
    subject = _subject(user=user, team=team)
    for option, given in (("--table", table_id), ("--view", view_id)):
        if given is not None and not given.strip():
            # An empty variable of a script must not widen a grant to the workspace.
            raise InvalidRequest("is empty; name one, or leave it out", field=option)
    if table_id is not None and view_id is not None:
        raise InvalidRequest("name one of --table and --view")
    if user is not None and table_id is None and view_id is None:
        raise InvalidRequest(
            "name one, or a --view; a user's role on the workspace is the member's"
            f" (`context-engine domain member set {user} --role ...`)",
            field="--table",
        )
    scope_type = "table" if table_id is not None else "view" if view_id is not None else "workspace"
    return {**subject, "scope_type": scope_type, "scope_id": table_id or view_id or workspace}


def _subject(**given: Text) -> Subject:
    """The one subject that was named. Raises `InvalidRequest` for none or several."""
    named = [(type, id) for type, id in given.items() if id is not None]
    if len(named) != 1:
        *others, last = (f"--{type}" for type in given)
        raise InvalidRequest(f"name one of {', '.join(others)} and {last}")
    ((subject_type, subject_id),) = named
    return {"subject_type": subject_type, "subject_id": subject_id}


# -- fields ------------------------------------------------------------------------------------

FieldId = Annotated[str, typer.Argument(help="Field id; see `table show`.")]
NamedUser = Annotated[Text, typer.Option("--user", help="The user whom it names.")]
NamedTeam = Annotated[Text, typer.Option("--team", help="The team whom it names.")]
NamedRole = Annotated[
    Text,
    typer.Option(
        "--role", help="Whoever is let into the table as viewer, commenter, editor, builder, admin."
    ),
]


@field_permission.command("set")
def field_permission_set(
    field_id: FieldId,
    table_id: TableId,
    level: Annotated[str, typer.Option("--level", help="none, read or write.")],
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
    subject = _subject(user=user, team=team, role=role)
    write(
        as_json,
        lambda s: s.field_permissions.set(
            actor, workspace, table_id, field_id, **subject, level=level, expected_version=expect
        ),
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
    subject = _subject(user=user, team=team, role=role)
    write(
        as_json,
        lambda s: s.field_permissions.remove(actor, workspace, table_id, field_id, **subject),
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
    if as_json:
        show_json([camel(one) for one in found])
        return
    for one in found:
        line = f"{one.field_id}  {one.subject_type} {one.subject_id}  {one.level}  v{one.version}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
