"""Agents of a workspace: what each may do at most. An ADMIN's to say."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select

from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import rights, rows
from context_engine.adapters.sql.services.base import Service
from context_engine.adapters.sql.services.texts import bounded
from context_engine.adapters.sql.services.writing import Transaction, Written
from context_engine.changes import AgentChanged
from context_engine.errors import InvalidRequest, NotFound

ALL_TABLES: tuple[str, ...] = ("*",)
"""In an update: every table that the agent's user may touch."""


class Agents(Service):
    async def create(
        self,
        actor_id: str,
        workspace_id: str,
        *,
        name: str,
        max_role: str,
        table_ids: Sequence[str] | None = None,
        id: str | None = None,
    ) -> Written:
        """`table_ids`: the tables it may touch; None for all that its user may."""
        agent_id = self._writer.id_for(id, actor_id, workspace_id)
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            await _check_tables(tx, workspace_id, table_ids)
            await rows.add(
                tx,
                t.agents,
                id=agent_id,
                workspace_id=workspace_id,
                name=rows.named(name),
                max_role=rows.role(max_role, field="maxRole"),
                table_ids=None if table_ids is None else list(table_ids),
            )
            tx.record(AgentChanged(workspace_id=workspace_id, agent_id=agent_id, op="created"))
        return tx.written(agent_id, 1)

    async def update(
        self,
        actor_id: str,
        workspace_id: str,
        agent_id: str,
        *,
        name: str | None = None,
        max_role: str | None = None,
        table_ids: Sequence[str] | None = None,
        expected_version: int | None = None,
    ) -> Written:
        """None stays; `ALL_TABLES` lifts the limit to some."""
        values = rows.only_given(
            name=None if name is None else rows.named(name),
            max_role=None if max_role is None else rows.role(max_role, field="maxRole"),
        )
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            if table_ids is not None:
                wanted = None if tuple(table_ids) == ALL_TABLES else list(table_ids)
                await _check_tables(tx, workspace_id, wanted)
                values["table_ids"] = wanted
            version = await rows.raise_version(
                tx,
                "agent",
                t.agents,
                {"workspace_id": workspace_id, "id": agent_id},
                values,
                expected_version,
            )
            tx.record(AgentChanged(workspace_id=workspace_id, agent_id=agent_id, op="updated"))
        return tx.written(agent_id, version)

    async def delete(self, actor_id: str, workspace_id: str, agent_id: str) -> Written:
        async with self._writer.transaction(actor_id, workspace_id, exclusive=True) as tx:
            await rights.in_workspace(tx, workspace_id, "admin")
            a = t.agents
            gone = await tx.connection.execute(
                delete(a)
                .where(a.c.workspace_id == workspace_id, a.c.id == agent_id)
                .returning(a.c.version)
            )
            if (version := gone.scalar_one_or_none()) is None:
                raise NotFound("agent", agent_id)
            tx.record(AgentChanged(workspace_id=workspace_id, agent_id=agent_id, op="deleted"))
        return tx.written(agent_id, version)


async def _check_tables(
    tx: Transaction, workspace_id: str, table_ids: Sequence[str] | None
) -> None:
    if table_ids is None:
        return
    bounded(table_ids, "tableIds")
    query = select(t.tables.c.id).where(
        t.tables.c.workspace_id == workspace_id, rows.among(t.tables.c.id, table_ids)
    )
    missing = set(table_ids) - set((await tx.connection.execute(query)).scalars())
    if missing:
        raise InvalidRequest(
            f"the workspace has no table {min(missing)!r}; leave it out", field="tableIds"
        )
