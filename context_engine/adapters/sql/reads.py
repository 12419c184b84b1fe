"""One consistent reading of the domain: facts with the dialogue, tables, then counts.

Three statements, whatever the number of tables; a fourth where a rule looks up attributes of the
user.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine.access import Attributes, VisibleScope
from context_engine.adapters.sql import stored
from context_engine.adapters.sql.attributes import attributes
from context_engine.adapters.sql.counts import BEFORE_COUNTS, COUNT_CAP, COUNT_MS, again, counted
from context_engine.adapters.sql.driver import InTransaction, Reader, driver_of
from context_engine.adapters.sql.facts import DIALOGUE, FACTS
from context_engine.adapters.sql.faults import QUERY_CANCELED, database_faults, sqlstate
from context_engine.adapters.sql.table_facts import TABLES
from context_engine.errors import Rejected
from context_engine.facts import Facts, TableFacts, UserFacts
from context_engine.keys import Coordinates
from context_engine.policy import AttrLookup
from context_engine.ports import Counts, DomainReads

Tables = tuple[TableFacts, ...]

OLDER_MESSAGES = 40
"""Messages before the tail that a summary may take from."""

OLDER_CHARS = 2_000
"""Characters of an older message that are read."""

GROUP_REACH = 30
"""Messages beyond the tail whose tools' tables are looked at, since the tail reaches back."""

BEGIN = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SAVEPOINT {BEFORE_COUNTS}"
"""In one round trip: a count that runs out of time goes back to it, and keeps the snapshot."""


class SqlReads:
    """`DomainReads` over one connection."""

    def __init__(
        self, reader: Reader, *, count_cap: int = COUNT_CAP, count_ms: int | None = None
    ) -> None:
        """`count_cap`: how far rows are counted. `count_ms`: the longest time of a statement that
        counts, which holds until the transaction ends; None for the connection's own."""
        self._reader, self._count_cap = reader, count_cap
        self._count_ms = None if count_ms is None else str(count_ms)

    @classmethod
    def within(cls, connection: AsyncConnection) -> SqlReads:
        """In a write's transaction, whose writes it sees."""
        return cls(InTransaction(connection))

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """All that decides permission for `at`, and the dialogue of who takes part in it."""
        values = {
            "workspace_id": at.workspace_id,
            "user_id": at.user_id,
            "table_ids": list(at.table_ids),
            "view_id": at.view_id,
            "task_id": at.task_id,
            "project_id": at.project_id,
            "team_id": at.team_id,
            "organization_id": at.organization_id,
            "workflow_id": at.workflow_id,
            "agent_stack": list(at.agent_stack),
            "conversation_id": at.conversation_id,
            "tail": tail,
            "reach": tail + GROUP_REACH if tail else 0,
            "older": OLDER_MESSAGES,
            "older_chars": OLDER_CHARS,
        }
        async with database_faults():
            statement = FACTS if _names_more(at) else DIALOGUE
            row = await self._reader.fetchrow(
                statement.sql, *(values[name] for name in statement.names)
            )
        return stored.facts.validate_json(row[0])

    async def tables(self, at: Coordinates, facts: Facts, ids: Sequence[str]) -> Tables:
        """The tables named by `ids`, and those around them that decide on them or are shown."""
        values = {
            "workspace_id": at.workspace_id,
            "user_id": at.user_id,
            "team_ids": list(facts.team_ids),
            "table_ids": list(ids),
            "view_id": at.view_id,
            "count_ms": self._count_ms,
        }
        async with database_faults():
            row = await self._reader.fetchrow(TABLES.sql, *(values[name] for name in TABLES.names))
        return stored.tables(row[0])

    async def attributes(
        self, at: Coordinates, user: UserFacts, lookups: Collection[AttrLookup]
    ) -> Attributes:
        """What `user.attr` means for a user, looked up by one statement.

        Where it takes too long none is had: the rest of the request is answered. Within a write,
        which has no savepoint, it is `Unavailable`.
        """
        async with database_faults():
            try:
                return await attributes(self._reader, at.workspace_id, user, lookups)
            except Exception as error:
                if sqlstate(error) != QUERY_CANCELED or self._count_ms is None:
                    raise
                await self._reader.execute(again(int(self._count_ms)))
                return dict.fromkeys(lookups)

    async def counts(self, scope: VisibleScope) -> Counts:
        """Every count in one statement; where that takes too long, as many as time allows."""
        async with database_faults():
            return await counted(self._reader, scope, self._count_cap)


def _names_more(at: Coordinates) -> bool:
    """Whether anything but a conversation and agents is asked for."""
    one = (at.view_id, at.project_id, at.task_id, at.team_id, at.organization_id, at.workflow_id)
    return bool(at.table_ids) or any(id is not None for id in one)


class SqlDomain:
    """`Domain` on PostgreSQL's primary."""

    def __init__(self, engine: AsyncEngine, *, count_cap: int = COUNT_CAP) -> None:
        """`count_cap`: how far rows are counted; a count beyond it is `exact: false`."""
        self._engine, self._count_cap = engine, count_cap

    async def facts(self, at: Coordinates, *, tail: int) -> Facts:
        """One statement is a snapshot of its own: no BEGIN and COMMIT to wait for."""
        async with database_faults(), driver_of(self._engine) as driver:
            return await SqlReads(driver).facts(at, tail=tail)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[DomainReads]:
        """A REPEATABLE READ, read-only transaction.

        What is left in it by a fault is the server's to end: `driver_of` lets go of the
        connection.
        """
        async with database_faults(), driver_of(self._engine) as driver:
            await driver.execute(BEGIN)
            try:
                yield SqlReads(driver, count_cap=self._count_cap, count_ms=COUNT_MS)
            except Rejected:
                await driver.execute("ROLLBACK")
                raise
            await driver.execute("COMMIT")
