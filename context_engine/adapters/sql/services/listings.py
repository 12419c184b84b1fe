"""What there is to be changed: grants and teams. Reads; who may write a thing may list it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.dialects.postgresql import aggregate_order_by

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import grants, rights, subjects
from context_engine.adapters.sql.services.base import Service


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that holds on a table or a view, or for a team on the workspace."""

    scope_type: str
    scope_id: str
    subject_type: str
    subject_id: str
    role: str
    version: int


@dataclass(frozen=True, slots=True)
class Team:
    """A team with its members' ids, in their order."""

    id: str
    name: str
    member_ids: tuple[str, ...]


class Listings(Service):
    async def grants(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        table_id: str | None = None,
        view_id: str | None = None,
    ) -> Sequence[Grant]:
        """The grants on a table and its views, on one view, or all; by scope and subject.

        An ADMIN's to read: of the workspace for all of them, of the table else. Those on trashed
        tables are left out: nobody can set them.
        """
        g = t.grants.c
        query = (
            select(g.scope_type, g.scope_id, g.subject_type, g.subject_id, g.role, g.version)
            .where(g.workspace_id == workspace_id)
            .order_by(g.scope_type, g.scope_id, g.subject_type.desc(), g.subject_id)
        )
        async with self._writer.transaction(actor_id) as tx:
            if view_id is not None:
                await grants.admin_of_view(tx, workspace_id, view_id)
                where = and_(g.scope_type == "view", g.scope_id == view_id)
            else:
                await subjects.demand_admin(tx, workspace_id, table_id)
                if table_id is not None:
                    await subjects.live_table(tx, workspace_id, table_id)
                where = _there(workspace_id, table_id)
            found = await tx.connection.execute(query.where(where))
        return [Grant(*row) for row in found]

    async def teams(self, actor_id: str, workspace_id: str) -> Sequence[Team]:
        """The teams in the actor's sight, by id: their own, and for an ADMIN all."""
        tm = t.team_members.c
        members = func.array_agg(aggregate_order_by(tm.user_id, tm.user_id))
        query = (
            select(t.teams.c.id, t.teams.c.name, members)
            .select_from(t.teams.outerjoin(t.team_members, tm.team_id == t.teams.c.id))
            .where(t.teams.c.workspace_id == workspace_id)
            .group_by(t.teams.c.id)
            .order_by(t.teams.c.id)
        )
        async with self._writer.transaction(actor_id) as tx:
            seen = await rights.scope(tx, workspace_id)
            found = (await tx.connection.execute(query)).all()
        # Without a member the join leaves one NULL.
        teams = [Team(id, name, tuple(filter(None, user_ids))) for id, name, user_ids in found]
        if seen.role == "admin":
            return teams
        return [team for team in teams if actor_id in team.member_ids]


def _there(workspace_id: str, table_id: str | None) -> ColumnElement[bool]:
    """Grants on what can be named: on the workspace, live tables, and views of these."""
    g, v, table = t.grants.c, t.views.c, t.tables.c
    live = and_(table.workspace_id == workspace_id, table.trashed.is_(False))
    if table_id is not None:
        live = and_(live, table.id == table_id)
    on_table = and_(g.scope_type == "table", exists().where(live, table.id == g.scope_id))
    on_view = and_(
        g.scope_type == "view",
        exists().where(live, v.table_id == table.id, v.id == g.scope_id),
    )
    if table_id is not None:
        return or_(on_table, on_view)
    return or_(g.scope_type == "workspace", on_table, on_view)
