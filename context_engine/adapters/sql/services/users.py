"""Users: the operator's. They span workspaces, so each change becomes one for each."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import delete, select

from context_engine import emails
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import members, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import clean_line, given_or_new
from context_engine.adapters.sql.services.writing import Transaction, Written, lock_workspace
from context_engine.changes import UserChanged
from context_engine.errors import NotFound


class Users(Service):
    """The actor is the operator, taken at their word: no user is checked."""

    async def create(
        self,
        actor_id: str,
        *,
        name: str,
        email: str | None = None,
        locale: str | None = None,
        timezone: str | None = None,
        id: str | None = None,
    ) -> Written:
        user_id = given_or_new(id)
        async with self._writer.transaction(actor_id) as tx:
            await rows.add(
                tx,
                t.users,
                id=user_id,
                name=rows.named(name),
                email=email,
                email_norm=normal_email(email),
                locale=rows.locale(locale),
                timezone=rows.zone(timezone),
            )
        return tx.written(user_id, 1)

    async def update(
        self,
        actor_id: str,
        user_id: str,
        *,
        name: str | None = None,
        email: str | None = None,
        locale: str | None = None,
        timezone: str | None = None,
        active: bool | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """What is None stays. A user who is not active sees nothing anywhere."""
        values = rows.only_given(
            name=None if name is None else rows.named(name),
            email=email,
            email_norm=normal_email(email),
            locale=rows.locale(locale),
            timezone=rows.zone(timezone),
            active=active,
        )
        async with self._writer.transaction(actor_id) as tx:
            await _locked(tx, user_id)
            places = await _workspaces(tx, user_id)
            if active is False:
                await _keep_admins(tx, user_id, places)
            version = await rows.raise_version(
                tx, "user", t.users, {"id": user_id}, values, expected_version
            )
            _tell(tx, user_id, places, "updated")
        return tx.written(user_id, version)

    async def delete(self, actor_id: str, user_id: str) -> Written:
        """Removes a user with all memberships. Raises `Conflict` for a workspace's last ADMIN."""
        async with self._writer.transaction(actor_id) as tx:
            version = await _locked(tx, user_id)
            places = await _workspaces(tx, user_id)
            await _keep_admins(tx, user_id, places)
            for workspace_id in places:
                await members.detach(tx, workspace_id, user_id)
            await tx.connection.execute(delete(t.users).where(t.users.c.id == user_id))
            _tell(tx, user_id, places, "deleted")
        return tx.written(user_id, version)


def normal_email(email: str | None) -> str | None:
    """The form in which addresses are compared. Checks the text too."""
    return None if email is None else emails.normal(clean_line(email, "email", chars=emails.CHARS))


async def _locked(tx: Transaction, user_id: str) -> int:
    """Locks the row FOR UPDATE and gives its version. Who adds a member waits for it."""
    found = await rows.find(tx, t.users, t.users.c.id == user_id, lock=True)
    if found is None:
        raise NotFound("user", user_id)
    version: int = found.version
    return version


async def _workspaces(tx: Transaction, user_id: str) -> list[str]:
    """Listed in a statement after the lock: an older snapshot would miss one. In one order."""
    query = (
        select(t.members.c.workspace_id)
        .where(t.members.c.user_id == user_id)
        .order_by(t.members.c.workspace_id)
    )
    return list((await tx.connection.execute(query)).scalars())


async def _keep_admins(tx: Transaction, user_id: str, places: list[str]) -> None:
    for workspace_id in places:
        await lock_workspace(tx.connection, workspace_id, exclusive=True)
        await members.keep_an_admin(tx, workspace_id, without=user_id)


def _tell(
    tx: Transaction, user_id: str, places: list[str], op: Literal["updated", "deleted"]
) -> None:
    for workspace_id in places:
        tx.record(UserChanged(workspace_id=workspace_id, user_id=user_id, op=op))
