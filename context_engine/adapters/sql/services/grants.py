"""Grants: roles that hold on a table or a view, or for a team on the workspace."""

from __future__ import annotations

from typing import Any, Literal, cast

from sqlalchemy import Row, delete, select

from context_engine.access import RANK
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows, subjects
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import clean_id
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import GrantChanged, GrantScope, Op, Subject
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from context_engine.models.sections import Role

NAMED: tuple[subjects.SubjectType, ...] = ("user", "team")
ScopeType = Literal["workspace", "table", "view"]


class Grants(Service):
    """An ADMIN of the workspace writes them, or an ADMIN of the table: whoever is shut out of a
    table or a view by mistake can be let in again by an ADMIN of the workspace."""

    async def set(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        subject_type: str,
        subject_id: str,
        scope_type: str = "table",
        scope_id: str,
        role: str,
        expected_version: int | None = None,
    ) -> Written:
        """Gives a role, or takes it away with `none`; replaces the grant that was there.

        On a view, `none` hides it, and a role lets its holder into a restricted one. Raises
        `InvalidRequest` for what would be without effect: a role on a view that is not
        restricted, and a user's on the workspace, which is the member's role. The id of the
        answer is the scope's.
        """
        subject = subjects.named(subject_type, subject_id, NAMED)
        scope = _scope(scope_type, scope_id)
        _check_pair(subject, scope)
        granted = cast("Role", rows.role(role))
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            view = await _may(tx, workspace_id, scope, granted)
            _check_view(view, granted)
            await subjects.check(tx, workspace_id, subject)
            key = _key(workspace_id, subject, scope)
            try:
                version = await rows.raise_version(
                    tx, "grant", t.grants, key, {"role": role}, expected_version
                )
                op: Op = "updated"
            except NotFound:
                if expected_version is not None:
                    raise
                await rows.add(tx, t.grants, **key, role=role)
                version, op = 1, "created"
            tx.record(GrantChanged(workspace_id=workspace_id, subject=subject, scope=scope, op=op))
        return tx.written(scope_id, version)

    async def remove(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        subject_type: str,
        subject_id: str,
        scope_type: str = "table",
        scope_id: str,
    ) -> Written:
        """Removes a grant: the next wider scope decides again."""
        subject = subjects.named(subject_type, subject_id, NAMED)
        scope = _scope(scope_type, scope_id)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await _may(tx, workspace_id, scope, "none")
            key = _key(workspace_id, subject, scope)
            gone = await tx.connection.execute(
                delete(t.grants)
                .where(*(t.grants.c[name] == value for name, value in key.items()))
                .returning(t.grants.c.version)
            )
            if (version := gone.scalar_one_or_none()) is None:
                raise NotFound("grant", f"{subject.type}:{subject.id} on {scope.type}:{scope.id}")
            tx.record(
                GrantChanged(workspace_id=workspace_id, subject=subject, scope=scope, op="deleted")
            )
        return tx.written(scope_id, version)


def _scope(type: str, id: str) -> GrantScope:
    if type not in ("workspace", "table", "view"):
        raise InvalidRequest("use workspace, table or view", field="scopeType")
    return GrantScope(type=cast("ScopeType", type), id=clean_id(id, "scopeId"))


def _check_pair(subject: Subject, scope: GrantScope) -> None:
    if (subject.type, scope.type) == ("user", "workspace"):
        raise InvalidRequest(
            "a user's role on the workspace is the member's role; set that", field="scopeType"
        )


def _check_view(view: Row[Any] | None, granted: Role) -> None:
    """A role is a way into a restricted view; who sees any other sees it by the table."""
    if view is not None and granted != "none" and view.ownership != "restricted":
        raise InvalidRequest(
            f"view {view.id!r} is {view.ownership}, and only a restricted one is entered by a"
            " grant; use none to hide it, or grant on the table",
            field="role",
        )


def _key(workspace_id: str, subject: Subject, scope: GrantScope) -> dict[str, str]:
    return {
        "workspace_id": workspace_id,
        "scope_type": scope.type,
        "subject_type": subject.type,
        "subject_id": subject.id,
        "scope_id": scope.id,
    }


async def _may(
    tx: Transaction, workspace_id: str, scope: GrantScope, granted: Role
) -> Row[Any] | None:
    """The scope is of this workspace, since a grant that leaves it could never be taken back; the
    actor is an ADMIN there, and the role not above their own. Returns the view of a view's."""
    view = None
    match scope.type:
        case "workspace":
            held = await subjects.demand_admin(tx, workspace_id, None)
            if scope.id != workspace_id:
                raise NotFound("workspace", scope.id)
        case "table":
            held = await subjects.demand_admin(tx, workspace_id, scope.id)
            await subjects.live_table(tx, workspace_id, scope.id)
        case "view":
            view, held = await admin_of_view(tx, workspace_id, scope.id)
    if RANK[granted] > RANK[held]:
        raise NotPermitted(f"the role {granted} is above the actor's own, {held}")
    return view


async def _view(tx: Transaction, workspace_id: str, view_id: str) -> Row[Any] | None:
    """A view of a live table of the workspace."""
    v, table = t.views.c, t.tables.c
    query = (
        select(t.views)
        .join(t.tables, table.id == v.table_id)
        .where(v.id == view_id, v.workspace_id == workspace_id, table.trashed.is_(False))
    )
    return (await tx.connection.execute(query)).first()


async def admin_of_view(tx: Transaction, workspace_id: str, view_id: str) -> tuple[Row[Any], Role]:
    """The view, and the role of an ADMIN of the workspace or of its table, who need not see it:
    another's personal one neither, which NONE takes from its owner.

    For anyone else a view out of sight is as one that is missing, and so is its table: the same
    words after the same statements.
    """
    view = await _view(tx, workspace_id, view_id)
    seen, table = await rights.view_in_sight(tx, workspace_id, view_id)
    of_table = await rights.own_role(tx, workspace_id, view_id if view is None else view.table_id)
    held: Role = "admin" if seen.role == "admin" else of_table
    if view is None or (table is None and held != "admin"):
        raise NotFound("view", view_id)
    rights.demand(held, "admin", "the view's table")
    return view, held


async def forget(tx: Transaction, workspace_id: str, kind: str, id: str) -> None:
    """Removes the grants of a user or a team that goes, or those on a view."""
    g = t.grants.c
    ends = (g.scope_type, g.scope_id) if kind == "view" else (g.subject_type, g.subject_id)
    await tx.connection.execute(
        delete(t.grants).where(g.workspace_id == workspace_id, ends[0] == kind, ends[1] == id)
    )


async def end_on_views(tx: Transaction, workspace_id: str) -> None:
    """Removes roles on views that are gone, or restricted no more: they would be ways in again,
    unsaid, with the view or its restriction. NONE stays, and hides what comes back."""
    g, v = t.grants.c, t.views.c
    still = select(v.id).where(v.workspace_id == workspace_id, v.ownership == "restricted")
    await tx.connection.execute(
        delete(t.grants).where(
            g.workspace_id == workspace_id,
            g.scope_type == "view",
            g.role != "none",
            g.scope_id.not_in(still),
        )
    )
