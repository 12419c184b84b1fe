"""`domain grant`: roles on a table or a view, or a team's on the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workers.cli.domain.shared import (
    ADMIN,
    DEMO,
    Actor,
    Reader,
    RoleName,
    Text,
    Version,
    Workspace,
    choice,
    show_list,
    with_services,
)
from workers.cli.domain.subjects import Ends, ends, one_at_most
from workers.cli.domain.written import Before, Replaces, Stood, write
from workers.cli.shared import JsonFlag

if TYPE_CHECKING:
    from context_engine.adapters.sql.services import DomainServices, Grant

grant = typer.Typer(
    no_args_is_help=True, help="Roles on a table or a view, or a team's on the workspace."
)

Role = Annotated[RoleName, choice("--role", "The role that they have there", RoleName)]
User = Annotated[Text, typer.Option("--user", help="The user whose grant it is.")]
Team = Annotated[Text, typer.Option("--team", help="The team whose grant it is.")]
OnTable = Annotated[
    Text,
    typer.Option("--table", help="Table where it holds; a team's may leave it out: the workspace."),
]
OnView = Annotated[Text, typer.Option("--view", help="View where it holds, instead of a table.")]


@grant.command("list")
def grant_list(
    table_id: Annotated[Text, typer.Option("--table", help="On this table and its views.")] = None,
    view_id: Annotated[Text, typer.Option("--view", help="On this view alone.")] = None,
    actor: Reader = ADMIN,
    workspace: Workspace = DEMO,
    as_json: JsonFlag = False,
) -> None:
    """Lists the grants of a workspace, of a table or of a view. An admin's to read.

    A user's role on the workspace is the member's: `domain member list`.

    Example: context-engine domain grant list --table tbl-incidents
    """
    one_at_most(table=table_id, view=view_id)
    found = with_services(
        lambda s: s.listings.grants(actor, workspace, table_id=table_id, view_id=view_id)
    )
    show_list(as_json, found, _line, none="no grants")


def _line(one: Grant) -> str:
    who = f"{one.subject_type} {one.subject_id}"
    return f"{one.scope_type} {one.scope_id}  {who}  {one.role}  v{one.version}"


@grant.command("set")
def grant_set(
    role: Role,
    user: User = None,
    team: Team = None,
    table_id: OnTable = None,
    view_id: OnView = None,
    actor: Actor = ADMIN,
    workspace: Workspace = DEMO,
    expect: Version = None,
    as_json: JsonFlag = False,
) -> None:
    """Gives a user or a team a role on a table or a view, or a team one on the workspace.

    `none` shuts them out of a table, or hides a view. Another role on a view is a way into a
    restricted one. A user's role on the workspace is `domain member set`.

    Example: context-engine domain grant set --user usr-ben --view viw-tasks-escalated --role viewer
    """
    named = ends(user, team, table_id, view_id, workspace)
    write(
        as_json,
        _words(named),
        lambda s: s.grants.set(actor, workspace, **named, role=role, expected_version=expect),
        Replaces(_stood(actor, workspace, named), {"role": role}),
    )


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
    named = ends(user, team, table_id, view_id, workspace)
    write(
        as_json,
        _words(named),
        lambda s: s.grants.remove(actor, workspace, **named),
        Replaces(_stood(actor, workspace, named), None),
    )


def _words(named: Ends) -> str:
    """What the answer's id, the scope's, follows."""
    return f"grant to {named['subject_type']} {named['subject_id']} on {named['scope_type']}"


def _stood(actor: str, workspace: str, named: Ends) -> Before:
    where = {
        "table": {"table_id": named["scope_id"]},
        "view": {"view_id": named["scope_id"]},
    }.get(named["scope_type"], {})

    async def before(services: DomainServices) -> Stood | None:
        for one in await services.listings.grants(actor, workspace, **where):
            found = (one.scope_type, one.scope_id, one.subject_type, one.subject_id)
            if found == (
                named["scope_type"], named["scope_id"], named["subject_type"], named["subject_id"]
            ):  # fmt: skip
                return Stood({"role": one.role}, one.version)
        return None

    return before
