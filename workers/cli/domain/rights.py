"""`domain member` and `domain grant`: who is in a workspace, and with which role."""

from __future__ import annotations

from typing import Annotated, TypedDict

import typer

from context_engine.errors import InvalidRequest
from workers.cli.domain.shared import ADMIN, DEMO, Actor, Text, Version, Workspace, write
from workers.cli.shared import JsonFlag

member = typer.Typer(no_args_is_help=True, help="Members of a workspace.")
grant = typer.Typer(no_args_is_help=True, help="Roles on a table, or a team's on the workspace.")

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


@grant.command("set")
def grant_set(
    role: RoleName,
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Gives a user or a team a role on a table, or a team one on the workspace.

    `none` shuts them out of a table. A user's role on the workspace is `domain member set`.

    Example: context-engine domain grant set --user usr-ben --table tbl-incidents --role none
    """
    ends = _ends(user, team, table_id, workspace)
    write(as_json, lambda s: s.grants.set(actor, workspace, **ends, role=role))


@grant.command("remove")
def grant_remove(
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Removes a grant; the next wider one decides again.

    Example: context-engine domain grant remove --user usr-ben --table tbl-incidents
    """
    ends = _ends(user, team, table_id, workspace)
    write(as_json, lambda s: s.grants.remove(actor, workspace, **ends))


class Ends(TypedDict):
    """Whose grant, and where it holds."""

    subject_type: str
    subject_id: str
    scope_type: str
    scope_id: str


def _ends(user: Text, team: Text, table_id: Text, workspace: str) -> Ends:
    if (user is None) == (team is None):
        raise InvalidRequest("name one of --user and --team")
    if user is not None and table_id is None:
        raise InvalidRequest(
            "name one; a user's role on the workspace is the member's"
            f" (`context-engine domain member set {user} --role ...`)",
            field="--table",
        )
    return {
        "subject_type": "user" if user is not None else "team",
        "subject_id": user or team or "",
        "scope_type": "workspace" if table_id is None else "table",
        "scope_id": table_id or workspace,
    }
