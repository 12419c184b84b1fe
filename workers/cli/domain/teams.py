"""`domain team`: teams of a workspace, and who is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    OwnId,
    Reader,
    Workspace,
    show_list,
    with_services,
)
from workers.cli.domain.written import write
from workers.cli.shared import JsonFlag
from workers.cli.terminal import json_text

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import Team

team = typer.Typer(no_args_is_help=True, help="Teams of a workspace.")

TeamId = Annotated[str, typer.Argument(metavar="TEAM", help="Team id; see `domain team list`.")]
UserId = Annotated[str, typer.Argument(metavar="USER", help="User id; see `domain member list`.")]


@team.command("list")
def team_list(
    actor: Reader = ADMIN, workspace: Workspace = DEMO, as_json: JsonFlag = False
) -> None:
    """Lists the actor's teams with their members; to an admin of the workspace all of them.

    Example: context-engine domain team list
    """
    found = with_services(lambda s: s.listings.teams(actor, workspace))
    show_list(as_json, found, _line, none="no teams")


def _line(one: Team) -> str:
    return f"{one.id}  {json_text(one.name)}  {', '.join(one.member_ids) or 'nobody'}"


@team.command("create")
def team_create(
    name: Annotated[str, typer.Argument(help="Its name.")],
    id: OwnId = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Makes a team; `team add` fills it, `grant set --team` gives it a role.

    Example: context-engine domain team create "Night shift" --id team-night
    """
    write(as_json, "team", lambda s: s.teams.create(actor, workspace, name=name, id=id))


@team.command("add")
def team_add(
    team_id: TeamId,
    user: UserId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Puts a member of the workspace into a team.

    Example: context-engine domain team add team-support usr-ben
    """
    write(
        as_json,
        f"{user} in team",
        lambda s: s.teams.add_member(actor, workspace, team_id, user),
    )


@team.command("remove")
def team_remove(
    team_id: TeamId,
    user: UserId,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Takes a member out of a team, and with it the team's rights from them.

    Example: context-engine domain team remove team-support usr-ben
    """
    write(
        as_json,
        f"{user} of team",
        lambda s: s.teams.remove_member(actor, workspace, team_id, user),
    )
