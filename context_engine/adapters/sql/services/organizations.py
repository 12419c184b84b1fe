"""Organizations: the operator's. They span workspaces, so each change becomes one for each."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import clean_line, given_or_new
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import OrganizationChanged
from context_engine.errors import NotFound


class Organizations(Service):
    """The actor is the operator, taken at their word: no user is checked."""

    async def create(self, actor_id: str, *, name: str, id: str | None = None) -> Written:
        organization_id = given_or_new(id)
        async with self._writer.transaction(actor_id) as tx:
            await rows.add(tx, t.organizations, id=organization_id, name=rows.named(name))
        return tx.written(organization_id, 1)

    async def rename(
        self, actor_id: str, organization_id: str, *, name: str, expected_version: int | None = None
    ) -> Written:
        async with self._writer.transaction(actor_id) as tx:
            await _locked(tx, organization_id)
            version = await self._raise(
                tx, organization_id, expected_version, name=rows.named(name)
            )
            await _tell(tx, organization_id, "updated", None)
        return tx.written(organization_id, version)

    async def delete(self, actor_id: str, organization_id: str) -> Written:
        async with self._writer.transaction(actor_id) as tx:
            version = await _locked(tx, organization_id)
            await _tell(tx, organization_id, "deleted", None)
            await tx.connection.execute(
                delete(t.organizations).where(t.organizations.c.id == organization_id)
            )
        return tx.written(organization_id, version)

    async def set_member(
        self, actor_id: str, organization_id: str, user_id: str, *, role: str
    ) -> Written:
        """Adds a user, or changes their role: a word of the organization's own, no right here."""
        clean_line(role, "role", chars=100)
        async with self._writer.transaction(actor_id) as tx:
            await _locked(tx, organization_id)
            if await rows.find(tx, t.users, t.users.c.id == user_id) is None:
                raise NotFound("user", user_id)
            key = {"organization_id": organization_id, "user_id": user_id}
            try:
                version = await rows.raise_version(
                    tx, "user", t.organization_members, key, {"role": role}
                )
            except NotFound:
                version = 1
                await rows.add(tx, t.organization_members, **key, role=role)
            await self._raise(tx, organization_id, None)
            await _tell(tx, organization_id, "updated", (user_id,))
        return tx.written(user_id, version)

    async def remove_member(self, actor_id: str, organization_id: str, user_id: str) -> Written:
        async with self._writer.transaction(actor_id) as tx:
            await _locked(tx, organization_id)
            members = t.organization_members
            gone = await tx.connection.execute(
                delete(members)
                .where(members.c.organization_id == organization_id, members.c.user_id == user_id)
                .returning(members.c.version)
            )
            if (version := gone.scalar_one_or_none()) is None:
                raise NotFound("user", user_id)
            await self._raise(tx, organization_id, None)
            await _tell(tx, organization_id, "updated", (user_id,))
        return tx.written(user_id, version)

    @staticmethod
    async def _raise(
        tx: Transaction, organization_id: str, expected: int | None, **values: object
    ) -> int:
        return await rows.raise_version(
            tx, "organization", t.organizations, {"id": organization_id}, values, expected
        )


async def _locked(tx: Transaction, organization_id: str) -> int:
    """Locks the row FOR UPDATE and gives its version. Who attaches a workspace waits for it."""
    found = await rows.find(tx, t.organizations, t.organizations.c.id == organization_id, lock=True)
    if found is None:
        raise NotFound("organization", organization_id)
    version: int = found.version
    return version


async def _tell(
    tx: Transaction, organization_id: str, op: str, user_ids: Sequence[str] | None
) -> None:
    """One change for each workspace, listed after the lock: an older snapshot would miss one."""
    query = select(t.workspaces.c.id).where(t.workspaces.c.organization_id == organization_id)
    for workspace_id in (await tx.connection.execute(query)).scalars().all():
        tx.record(
            OrganizationChanged(
                workspace_id=workspace_id,
                organization_id=organization_id,
                op="deleted" if op == "deleted" else "updated",
                user_ids=None if user_ids is None else tuple(user_ids),
            )
        )
