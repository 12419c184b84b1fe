"""Tries one action and says how it ended, leaving the world as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from context_engine.adapters.memory import MemoryCache
from context_engine.adapters.sql import tables as t
from context_engine.adapters.sql.services import DomainServices
from context_engine.engine import ContextEngine, Options
from context_engine.errors import InvalidRequest, NotFound, NotPermitted
from context_engine.keys import Tag
from context_engine.models import AgentContext, ContextBuildInput
from context_engine.ports import Epoch, Marked, Reign
from tests.support.world import engine_over

YES, NO, HIDDEN = "yes", "no", "hidden"


class Undone:
    """An engine whose transactions run, and end as if they had not."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        async with self._database.connect() as connection, connection.begin() as transaction:
            yield connection
            await transaction.rollback()


@dataclass
class Marks:
    """Counts what was marked: what was to be taken back of caches."""

    count: int = 0

    async def mark(self, workspace_id: str, tags: frozenset[Tag], **_: object) -> Marked:
        self.count += 1
        return Marked(workspace_id, Epoch("e"), Reign("r"), self.count)


class House(DomainServices):
    """Services that undo what they do, and an engine over the same database."""

    def __init__(self, database: AsyncEngine, marks: Marks) -> None:
        super().__init__(cast("AsyncEngine", Undone(database)), marks)
        self._engine: ContextEngine = engine_over(database, MemoryCache())

    async def context(self, who: str, **where: object) -> AgentContext:
        """A context with all of these coordinates in it. Raises `NotFound`."""
        request = ContextBuildInput.model_validate({"userId": who, "workspaceId": "w", **where})
        answer = await self._engine.build(request, Options(fresh=True, strict=True))
        return AgentContext.model_validate_json(answer.context)


Act = Callable[[House, str], Awaitable[Any]]
"""One action by the user whose id is given."""


class Trial:
    """Actions over a furnished database, one by one."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database, self._marks = database, Marks()
        self._house = House(database, self._marks)

    async def row(self, words: str, actions: Sequence[Act], who: str) -> str:
        """How the actions of one row end for `who`: all alike."""
        ends = [await self._outcome(act, who) for act in actions]
        assert len(set(ends)) == 1, f"{who}: {words}: {ends}"
        return ends[0]

    async def _outcome(self, act: Act, who: str) -> str:
        """`yes`, `no` where it is not permitted, `hidden` where it answers as what is missing.

        What is refused has taken nothing back of anybody's context.
        """
        marked = self._marks.count
        try:
            await act(self._house, who)
        except NotPermitted:
            end = NO
        except NotFound:
            end = HIDDEN
        except InvalidRequest as refused:
            if "no such field" not in refused.message:
                raise
            end = HIDDEN
        else:
            return YES
        assert self._marks.count == marked
        return end

    async def permission(self, who: str, agent: str) -> str:
        """The permission on table `t` in a context behind an agent; `hidden` without one."""
        try:
            found = await self._house.context(who, tableIds=["t"], agentStack=[agent])
        except NotFound:
            return HIDDEN
        return found.tables[0].permission

    async def extent(self) -> dict[str, int]:
        """How many rows there are of everything but evidence."""
        async with self._database.connect() as connection:
            return {
                table.name: (
                    await connection.execute(select(func.count()).select_from(table))
                ).scalar_one()
                for table in t.metadata.sorted_tables
                if table.name != "snapshots"
            }
