"""`domain member`: who is in a workspace, with which role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    MemberRole,
    Reader,
    Version,
    Workspace,
    choice,
    show_list,
    with_services,
)
from workers.cli.domain.written import Before, Replaces, Stood, write
from workers.cli.shared import JsonFlag
from workers.cli.terminal import json_text

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices, Member

member = typer.Typer(no_args_is_help=True, help="Members of a workspace.")

Role = Annotated[
    MemberRole,
    choice("--role", "The role on the workspace, `defer` for that of the teams", MemberRole),
]
UserId = Annotated[str, typer.Argument(metavar="USER", help="User id.")]


@member.command("list")
def member_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the members of a workspace that the actor is in, with their roles and versions.

    Example: context-engine domain member list
    """
    found = with_services(lambda s: s.members.list(actor, workspace))
    show_list(as_json, found, member_line, none="no members")


def member_line(one: Member) -> str:
    state = "" if one.active else "  not active"
    return f"{one.user_id}  {json_text(one.name)}  {one.role}  v{one.version}{state}"


@member.command("add")
def member_add(
    user: UserId,
    role: Role = "viewer",
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Adds a user to a workspace; the role may also be `defer`, for that of the teams.

    Example: context-engine domain member add usr-gus --role viewer
    """
    write(
        as_json,
        "member",
        lambda s: s.members.add(actor, workspace, user, role=role),
        Replaces(_stood(actor, workspace, user), {"role": role}),
    )


@member.command("set")
def member_set(
    user: UserId,
    role: Role,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Changes a member's role.

    Example: context-engine domain member set usr-ben --role viewer
    """
    write(
        as_json,
        "member",
        lambda s: s.members.set(actor, workspace, user, role=role, expected_version=expect),
        Replaces(_stood(actor, workspace, user), {"role": role}),
    )


@member.command("remove")
def member_remove(
    user: UserId, actor: Actor = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Ends a membership, with the user's grants, teams and projects there.

    Example: context-engine domain member remove usr-finn
    """
    write(
        as_json,
        "member",
        lambda s: s.members.remove(actor, workspace, user),
        Replaces(_stood(actor, workspace, user), None),
    )


def _stood(actor: str, workspace: str, user: str) -> Before:
    async def before(services: DomainServices) -> Stood | None:
        for one in await services.members.list(actor, workspace):
            if one.user_id == user:
                return Stood({"role": one.role}, one.version)
        return None

    return before
