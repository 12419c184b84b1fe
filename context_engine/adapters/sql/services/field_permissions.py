"""Field permissions: who may not read a field, or only read it. They narrow, and raise nobody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from sqlalchemy import delete, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rows, subjects
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import FieldPermissionChanged, Op, Subject
from context_engine.errors import InvalidRequest, NotFound

Level = Literal["none", "read", "write"]
LEVELS: tuple[Level, ...] = get_args(Level)
NAMED: tuple[subjects.SubjectType, ...] = ("user", "team", "role")


@dataclass(frozen=True, slots=True)
class FieldPermission:
    """What one subject may do with a field."""

    field_id: str
    subject_type: str
    subject_id: str
    level: str
    version: int


class FieldPermissions(Service):
    """An ADMIN of the workspace writes them, or an ADMIN of the table. The field need not be in
    the actor's sight: whoever is shut out of one by mistake can be let in again."""

    async def list(
        self, actor_id: str, workspace_id: str, table_id: str, field_id: str | None = None
    ) -> Sequence[FieldPermission]:
        """Of a table's fields, or of one of them, by field and subject. An ADMIN's to read."""
        p = t.field_permissions.c
        query = (
            select(p.field_id, p.subject_type, p.subject_id, p.level, p.version)
            .where(p.table_id == table_id)
            .order_by(p.field_id, p.subject_type, p.subject_id)
        )
        async with self._writer.transaction(actor_id) as tx:
            await _may(tx, workspace_id, table_id, field_id)
            found = await tx.connection.execute(
                query if field_id is None else query.where(p.field_id == field_id)
            )
        return [FieldPermission(*row) for row in found]

    async def set(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        field_id: str,
        *,
        subject_type: str,
        subject_id: str,
        level: str,
        expected_version: int | None = None,
    ) -> Written:
        """Says what a user, a team or a role may do with a field; replaces what was said before.

        The role is the one that a way into the table is held by. The id of the answer is the
        field's, the version that of the permission.
        """
        subject = subjects.named(subject_type, subject_id, NAMED)
        if level not in LEVELS:
            raise InvalidRequest(f"use one of {', '.join(LEVELS)}", field="level")
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await _may(tx, workspace_id, table_id, field_id)
            await subjects.check(tx, workspace_id, subject)
            key = _key(workspace_id, table_id, field_id, subject)
            try:
                version = await rows.raise_version(
                    tx, "field permission", t.field_permissions, key, {"level": level},
                    expected_version,
                )  # fmt: skip
                op: Op = "updated"
            except NotFound:
                if expected_version is not None:
                    raise
                await rows.add(tx, t.field_permissions, **key, level=level)
                version, op = 1, "created"
            _tell(tx, workspace_id, table_id, field_id, subject, op)
        return tx.written(field_id, version)

    async def remove(
        self,
        actor_id: str,
        workspace_id: str,
        table_id: str,
        field_id: str,
        *,
        subject_type: str,
        subject_id: str,
    ) -> Written:
        """Takes back what was said of a subject, who may do again what their role lets them."""
        subject = subjects.named(subject_type, subject_id, NAMED)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await _may(tx, workspace_id, table_id, field_id)
            p = t.field_permissions
            key = _key(workspace_id, table_id, field_id, subject)
            gone = await tx.connection.execute(
                delete(p)
                .where(*(p.c[name] == value for name, value in key.items()))
                .returning(p.c.version)
            )
            if (version := gone.scalar_one_or_none()) is None:
                raise NotFound("field permission", f"{subject.type}:{subject.id} on {field_id}")
            _tell(tx, workspace_id, table_id, field_id, subject, "deleted")
        return tx.written(field_id, version)


async def forget(tx: Transaction, workspace_id: str, kind: str, id: str) -> None:
    """Removes what was said of a user or a team that goes."""
    p = t.field_permissions.c
    subject = (p.subject_type == kind, p.subject_id == id)
    await tx.connection.execute(
        delete(t.field_permissions).where(p.workspace_id == workspace_id, *subject)
    )


async def _may(tx: Transaction, workspace_id: str, table_id: str, field_id: str | None) -> None:
    """The actor is an ADMIN, the table is live, and the field is one of its."""
    await subjects.demand_admin(tx, workspace_id, table_id)
    await subjects.live_table(tx, workspace_id, table_id)
    f = t.fields.c
    if field_id is None:
        return
    if await rows.find(tx, t.fields, f.table_id == table_id, f.id == field_id) is None:
        raise NotFound("field", field_id)


def _key(workspace_id: str, table_id: str, field_id: str, subject: Subject) -> dict[str, str]:
    return {
        "workspace_id": workspace_id,
        "table_id": table_id,
        "subject_type": subject.type,
        "subject_id": subject.id,
        "field_id": field_id,
    }


def _tell(
    tx: Transaction, workspace_id: str, table_id: str, field_id: str, subject: Subject, op: Op
) -> None:
    tx.record(
        FieldPermissionChanged(
            workspace_id=workspace_id, table_id=table_id, field_id=field_id, subject=subject, op=op
        )
    )
