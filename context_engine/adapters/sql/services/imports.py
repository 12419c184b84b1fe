"""Workspaces loaded whole, in one transaction: an operator's act."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, Table, delete, insert, select, text
from sqlalchemy.dialects.postgresql import insert as upsert

from context_engine import emails
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import copying, grants, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import given_or_new
from context_engine.adapters.sql.services.writing import Transaction, Written, lock_workspace
from context_engine.changes import MemberChanged, WorkspaceChanged
from context_engine.errors import Conflict
from context_engine.loading import NewWorkspace, Progress, silent

LOAD_SECONDS = 600
"""Longest that a statement of a load may take."""


@dataclass(frozen=True, slots=True)
class Imported:
    """A workspace that was loaded."""

    written: Written
    replaced: bool
    strangers: tuple[str, ...]
    """E-mail addresses of the file that no user here has: what they made is nobody's."""
    admin_id: str


class Imports(Service):
    most_items = None

    async def load(
        self,
        actor_id: str,
        new: NewWorkspace,
        *,
        admin_id: str,
        replace: bool = False,
        progress: Progress = silent,
    ) -> Imported:
        """Loads `new`, or with `replace` puts it in the place of what its workspace holds.

        The actor is the operator. `admin_id` becomes ADMIN of a new workspace, and a user if
        there is none by that id. A replaced workspace keeps its people, their rights and its row
        policies: what is there again under the same id keeps what was said of it, and so does
        what comes back later, but for roles on a view that was gone. Raises `Conflict` where the
        workspace is there and not to be replaced.
        """
        async with self._writer.transaction(actor_id) as tx:
            await tx.connection.execute(text(f"SET LOCAL statement_timeout = '{LOAD_SECONDS}s'"))
            replaced = await _open(tx, new, admin_id, replace=replace)
            users = await _users(tx, new)
            tasks = await _clear(tx, new) if replaced else ()
            await _write_schema(tx, new, users)
            await _copy(tx, new, users, progress)
            await _keep_tasks(tx, new, tasks)
            await grants.end_on_views(tx, new.id)
            # Before anybody asks: plans made in ignorance of so many rows take seconds.
            await tx.connection.execute(text("ANALYZE tables, fields, views, records, links"))
            if replaced:
                version = await rows.raise_version(
                    tx, "workspace", t.workspaces, {"id": new.id}, {"name": new.name}
                )
            else:
                version = 1
                tx.record(MemberChanged(workspace_id=new.id, user_id=admin_id, op="added"))
            # One change that stands for all: every context of the workspace depends on it.
            tx.record(WorkspaceChanged(workspace_id=new.id, op="updated"))
        strangers = tuple(sorted(email for email, user in users.items() if user is None))
        return Imported(tx.written(new.id, version), replaced, strangers, admin_id)


async def _open(tx: Transaction, new: NewWorkspace, admin_id: str, *, replace: bool) -> bool:
    """Whether the workspace was there; made and locked for this transaction alone."""
    found = await rows.find(tx, t.workspaces, t.workspaces.c.id == new.id)
    if found is not None:
        if not replace:
            raise Conflict(
                f"workspace {new.id!r} is there already; say --replace, or another --workspace"
            )
        if found.name != new.name:
            raise Conflict(
                f"workspace {new.id!r} is called {found.name!r}, not {new.name!r};"
                " say its own name to replace it"
            )
        await lock_workspace(tx.connection, new.id, exclusive=True)
        return True
    user = {"id": given_or_new(admin_id), "name": admin_id}
    await tx.connection.execute(upsert(t.users).values(user).on_conflict_do_nothing())
    await rows.add(tx, t.workspaces, id=new.id, name=rows.named(new.name))
    await rows.add(tx, t.members, workspace_id=new.id, user_id=admin_id, role="admin")
    return False


Users = Mapping[str, str | None]
"""The user behind each e-mail address of the file, None for a stranger."""


async def _users(tx: Transaction, new: NewWorkspace) -> Users:
    told = {row.created_by for row in new.rows} | {row.updated_by for row in new.rows}
    told |= {view.owner_email for view in new.views}
    wanted = {email: emails.normal(email) for email in told if email}
    u = t.users.c
    query = select(u.email_norm, u.id).where(rows.among(u.email_norm, set(wanted.values())))
    known = {row.email_norm: row.id for row in await tx.connection.execute(query)}
    return {email: known.get(norm) for email, norm in wanted.items()}


async def _clear(tx: Transaction, new: NewWorkspace) -> Sequence[Row[Any]]:
    """Takes out what the load brings anew, and what is gone. Returns the tasks on its rows.

    Tables, fields and views of the same id stay where they are: policies and rights that name
    them must not fall with them, since what is gone for a moment would be open for good. So a
    table that is gone is trashed with all that it has, and of a field that is gone the
    permissions stay.
    """
    here = [one.id for one in new.tables]
    k, table = t.tasks, t.tables
    on_rows = select(k).where(k.c.workspace_id == new.id, k.c.record_id.is_not(None))
    tasks = (await tx.connection.execute(on_rows)).all()
    await tx.connection.execute(delete(t.records).where(t.records.c.workspace_id == new.id))
    await tx.connection.execute(
        table.update()
        .where(table.c.workspace_id == new.id, ~table.c.trashed, rows.outside(table.c.id, here))
        .values(trashed=True, version=table.c.version + 1)
    )
    held: Sequence[tuple[Table, Iterable[str]]] = (
        (t.fields, (one.id for one in new.fields)),
        (t.views, (one.id for one in new.views)),
    )
    for part, ids in held:
        gone = (rows.among(part.c.table_id, here), rows.outside(part.c.id, list(ids)))
        await tx.connection.execute(delete(part).where(part.c.workspace_id == new.id, *gone))
    # Another field may be primary now, and at no time may two be.
    fields = t.fields
    await tx.connection.execute(
        fields.update()
        .where(fields.c.workspace_id == new.id, fields.c.table_id.in_(here))
        .values(primary=False)
    )
    return tasks


async def _write_schema(tx: Transaction, new: NewWorkspace, users: Users) -> None:
    await _put(
        tx,
        t.tables,
        new.id,
        [
            {"id": x.id, "name": x.name, "position": x.position, "trashed": False}
            for x in new.tables
        ],
    )
    names: tuple[str, ...] = (
        "id", "table_id", "name", "type", "primary", "position", "options", "linked_table_id",
        "linked_field_id", "cardinality", "reads",
    )  # fmt: skip
    await _put(tx, t.fields, new.id, [{n: getattr(x, n) for n in names} for x in new.fields])
    names = (
        "id", "table_id", "name", "type", "ownership", "position", "filter", "sorts", "options",
    )  # fmt: skip
    await _put(
        tx,
        t.views,
        new.id,
        [
            {
                **{n: getattr(x, n) for n in names},
                "owner_id": users.get(x.owner_email or ""),
                "hidden": list(x.hidden),
                "field_order": list(x.field_order),
            }
            for x in new.views
        ],
    )


async def _put(
    tx: Transaction, table: Table, workspace_id: str, values: list[dict[str, object]]
) -> None:
    """Inserts, and updates what the workspace has by the same id."""
    if not values:
        return
    foreign = select(table.c.id).where(
        rows.among(table.c.id, [str(value["id"]) for value in values]),
        table.c.workspace_id != workspace_id,
    )
    if (taken := (await tx.connection.execute(foreign.limit(1))).scalar_one_or_none()) is not None:
        raise Conflict(f"{taken!r} is an id of another workspace; say another --workspace")
    for value in values:
        value["workspace_id"] = workspace_id
    statement = upsert(table)
    written = {name: statement.excluded[name] for name in values[0] if name != "id"}
    await tx.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["id"],
            set_={**written, "version": table.c.version + 1},
            where=table.c.workspace_id == workspace_id,
        ),
        values,
    )


async def _copy(tx: Transaction, new: NewWorkspace, users: Users, progress: Progress) -> None:
    """Rows, then links, by COPY: the quickest way in that the database has."""
    total = len(new.rows) + len(new.links)
    records = (
        (
            row.id,
            new.id,
            row.table_id,
            row.cells,
            users.get(row.created_by or ""),
            users.get(row.updated_by or ""),
            row.created_at or tx.now,
            row.updated_at or row.created_at or tx.now,
        )
        for row in new.rows
    )
    columns: tuple[str, ...] = (
        "id", "workspace_id", "table_id", "cells", "created_by", "updated_by", "created_at",
        "updated_at",
    )  # fmt: skip
    seconds = float(LOAD_SECONDS)
    told = copying.told(records, progress, 0, total)
    await copying.copy(tx.connection, "records", columns, told, seconds=seconds)
    links = ((*link, new.id) for link in new.links)
    columns = ("field_id", "from_record_id", "to_record_id", "workspace_id")
    told = copying.told(links, progress, len(new.rows), total)
    await copying.copy(tx.connection, "links", columns, told, seconds=seconds)
    progress("writing", total, total)


async def _keep_tasks(tx: Transaction, new: NewWorkspace, tasks: Sequence[Row[Any]]) -> None:
    """Puts the tasks back whose rows are there again."""
    ids = {row.id for row in new.rows}
    kept = [dict(task._mapping) for task in tasks if task.record_id in ids]
    if kept:
        await tx.connection.execute(insert(t.tasks), kept)
