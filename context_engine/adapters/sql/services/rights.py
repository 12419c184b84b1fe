"""What an actor may do: decided by `access`, over facts read in the transaction of the write."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from context_engine import access
from context_engine.access import RANK, Denied, VisibleScope, VisibleTable
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.reads import SqlReads
from context_engine.adapters.sql.services.writing import Transaction
from context_engine.errors import NotFound, NotPermitted
from context_engine.keys import Coordinates
from context_engine.models.sections import Role
from context_engine.reading import visible


async def scope(
    tx: Transaction,
    workspace_id: str,
    *,
    table_ids: tuple[str, ...] = (),
    view_id: str | None = None,
    project_id: str | None = None,
    task_id: str | None = None,
    team_id: str | None = None,
    workflow_id: str | None = None,
    conversation_id: str | None = None,
    agent_stack: tuple[str, ...] = (),
) -> VisibleScope:
    """What the actor sees now of what the write names.

    Raises `NotFound` for the workspace, where the actor is no active member, and for anything
    named that is missing or out of sight.
    """
    at = Coordinates(
        workspace_id=workspace_id,
        user_id=tx.actor_id,
        table_ids=table_ids,
        view_id=view_id,
        project_id=project_id,
        task_id=task_id,
        team_id=team_id,
        workflow_id=workflow_id,
        conversation_id=conversation_id,
        agent_stack=agent_stack,
    )
    return await _visible(tx, at, strict=True)


async def in_workspace(
    tx: Transaction,
    workspace_id: str,
    needed: Role,
    *,
    project_id: str | None = None,
    task_id: str | None = None,
    team_id: str | None = None,
    workflow_id: str | None = None,
    agent_stack: tuple[str, ...] = (),
) -> VisibleScope:
    """The actor's scope, for what takes the role `needed` on the workspace.

    Raises `NotFound` as `scope` does, and `NotPermitted` under the role.
    """
    seen = await scope(
        tx,
        workspace_id,
        project_id=project_id,
        task_id=task_id,
        team_id=team_id,
        workflow_id=workflow_id,
        agent_stack=agent_stack,
    )
    demand(seen.role, needed, "the workspace")
    return seen


async def seen_table(tx: Transaction, workspace_id: str, table_id: str) -> VisibleTable:
    """The table as the actor sees it, by whatever way. Raises `NotFound`."""
    (table,) = (await scope(tx, workspace_id, table_ids=(table_id,))).tables
    return table


async def on_table(tx: Transaction, workspace_id: str, table_id: str, needed: Role) -> VisibleTable:
    """The table as the actor sees it, for what takes the role `needed` on it.

    Raises `NotFound` where it is out of sight, `NotPermitted` under the role.
    """
    table = await seen_table(tx, workspace_id, table_id)
    demand(role_on(table), needed, f"table {table_id!r}")
    return table


def role_on(table: VisibleTable) -> Role:
    """The role by which the table's way in is held; none where only views are in sight."""
    return "none" if table.permission == "views" else table.permission


def demand(held: Role, needed: Role, where: str) -> None:
    """Raises `NotPermitted` where `held` is less than `needed`."""
    if RANK[held] < RANK[needed]:
        raise NotPermitted(
            f"this takes the role {needed} on {where}, and the actor's is {held};"
            " ask an admin of the workspace"
        )


async def own_role(tx: Transaction, workspace_id: str, table_id: str) -> Role:
    """The role by which the actor holds the table's own way; none of a table that is missing.

    By one statement, whether the table is there, in sight or neither.
    """
    at = Coordinates(workspace_id=workspace_id, user_id=tx.actor_id, table_ids=(table_id,))
    facts = await SqlReads.within(tx.connection).facts(at, tail=0)
    return access.own_role(facts, workspace_id, table_id)


async def view_in_sight(
    tx: Transaction, workspace_id: str, view_id: str
) -> tuple[VisibleScope, VisibleTable | None]:
    """The actor's scope, and the table of the view; None for a view that is out of sight or
    missing, which take the same statements. Raises `NotFound` for the workspace."""
    at = Coordinates(workspace_id=workspace_id, user_id=tx.actor_id, view_id=view_id)
    seen = await _visible(tx, at)
    return seen, seen.view_table


async def tables_in_sight(tx: Transaction, workspace_id: str) -> tuple[VisibleTable, ...]:
    """Every table of the workspace that the actor sees, in table order."""
    query = (
        select(t.tables.c.id)
        .where(t.tables.c.workspace_id == workspace_id)
        .order_by(t.tables.c.position, t.tables.c.id)
    )
    return await tables_of(tx, workspace_id, (await tx.connection.execute(query)).scalars())


async def tables_of(
    tx: Transaction, workspace_id: str, table_ids: Iterable[str]
) -> tuple[VisibleTable, ...]:
    """Those of `table_ids` that the actor sees, in that order.

    Raises `NotFound` for the workspace, where the actor is no active member.
    """
    at = Coordinates(workspace_id=workspace_id, user_id=tx.actor_id, table_ids=tuple(table_ids))
    # Nobody asked for these tables by name, so those out of sight are left out.
    unasked = frozenset({"table_ids"})
    return (await _visible(tx, at, inherited=unasked)).tables


async def _visible(
    tx: Transaction,
    at: Coordinates,
    *,
    inherited: frozenset[str] = frozenset(),
    strict: bool = False,
) -> VisibleScope:
    """As `reading.visible`; what is denied is told by its name alone, not with what it hangs on."""
    try:
        return await visible(SqlReads.within(tx.connection), at, inherited=inherited, strict=strict)
    except Denied as fault:
        denied = NotFound(fault.kind, fault.id)
    raise denied


async def table_in_sight(tx: Transaction, workspace_id: str, table_id: str) -> VisibleTable | None:
    """A table that the actor did not name; None where it is out of their sight."""
    return next(iter(await tables_of(tx, workspace_id, (table_id,))), None)
