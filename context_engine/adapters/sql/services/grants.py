"""Grants: roles that hold on a table, or for a team on the workspace."""

from __future__ import annotations

from typing import Literal, cast

from sqlalchemy import delete

from context_engine.access import RANK
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.cells import clean_id
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import GrantChanged, GrantScope, Subject
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from context_engine.models.sections import Role

SubjectType = Literal["user", "team"]
ScopeType = Literal["workspace", "table"]


class Grants(Service):
    """An ADMIN of the workspace writes them, or an ADMIN of the table: whoever is shut out of a
    table by mistake can be let in again by an ADMIN of the workspace."""

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

        Raises `InvalidRequest` for what this version could not enforce: a grant on a view, and a
        user's on the workspace, which is the member's role. The id of the answer is the scope's.
        """
        subject, scope = _subject(subject_type, subject_id), _scope(scope_type, scope_id)
        _check_pair(subject, scope)
        granted = cast("Role", rows.role(role))
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await _may(tx, workspace_id, scope, granted)
            await _check_ends(tx, workspace_id, subject, scope)
            key = _key(workspace_id, subject, scope)
            try:
                version = await rows.raise_version(
                    tx, "grant", t.grants, key, {"role": role}, expected_version
                )
                op: Literal["created", "updated"] = "updated"
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
        subject, scope = _subject(subject_type, subject_id), _scope(scope_type, scope_id)
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


def _subject(type: str, id: str) -> Subject:
    if type not in ("user", "team"):
        raise InvalidRequest("use user or team", field="subjectType")
    return Subject(type=cast("SubjectType", type), id=clean_id(id, "subjectId"))


def _scope(type: str, id: str) -> GrantScope:
    if type == "view":
        raise InvalidRequest(
            "grants on views cannot be enforced yet; grant on the table", field="scopeType"
        )
    if type not in ("workspace", "table"):
        raise InvalidRequest("use workspace or table", field="scopeType")
    return GrantScope(type=cast("ScopeType", type), id=clean_id(id, "scopeId"))


def _check_pair(subject: Subject, scope: GrantScope) -> None:
    if (subject.type, scope.type) == ("user", "workspace"):
        raise InvalidRequest(
            "a user's role on the workspace is the member's role; set that", field="scopeType"
        )


def _key(workspace_id: str, subject: Subject, scope: GrantScope) -> dict[str, str]:
    return {
        "workspace_id": workspace_id,
        "scope_type": scope.type,
        "subject_type": subject.type,
        "subject_id": subject.id,
        "scope_id": scope.id,
    }


async def _may(tx: Transaction, workspace_id: str, scope: GrantScope, granted: Role) -> None:
    """ADMIN on the workspace or on the table, and not above the actor's own role there."""
    held = (await rights.scope(tx, workspace_id)).role
    if held != "admin" and scope.type == "table":
        held = rights.role_on(await rights.on_table(tx, workspace_id, scope.id, "viewer"))
    rights.demand(held, "admin", f"the {scope.type}")
    if RANK[granted] > RANK[held]:
        raise NotPermitted(f"the role {granted} is above the actor's own, {held}")


async def _check_ends(
    tx: Transaction, workspace_id: str, subject: Subject, scope: GrantScope
) -> None:
    """Both ends are in this workspace: a grant that leaves it could never be taken back."""
    if scope.type == "workspace" and scope.id != workspace_id:
        raise NotFound("workspace", scope.id)
    if scope.type == "table":
        table = await rows.find(
            tx,
            t.tables,
            t.tables.c.id == scope.id,
            t.tables.c.workspace_id == workspace_id,
            t.tables.c.trashed.is_(False),
        )
        if table is None:
            raise NotFound("table", scope.id)
    if subject.type == "user":
        await rows.active_members(tx, workspace_id, (subject.id,), "subjectId")
        return
    team = await rows.find(
        tx, t.teams, t.teams.c.id == subject.id, t.teams.c.workspace_id == workspace_id
    )
    if team is None:
        raise NotFound("team", subject.id)
