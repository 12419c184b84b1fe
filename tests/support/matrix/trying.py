"""Tries one action and says how it ended, leaving the world as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
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
from tests.support.matrix.actions import ASKED, Act
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

    async def mark(self, workspace_id: str, tags: frozenset[Tag], *, create: bool) -> Marked:
        self.count += 1
        return Marked(workspace_id, Epoch("e"), Reign("r"), self.count)


class Trial:
    """Actions over a furnished database, one by one."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database, self._marks = database, Marks()
        self._services = DomainServices(cast("AsyncEngine", Undone(database)), self._marks)
        self._engine: ContextEngine = engine_over(database, MemoryCache())

    async def row(self, words: str, actions: Sequence[Act], who: str) -> str:
        """How the actions of one row end for `who`: all alike."""
        ends = [await self.outcome(act, who) for act in actions]
        if words in ASKED:
            shown = await self.shown(who, ASKED[words])
            ends.append(HIDDEN if shown == HIDDEN else YES)
        assert len(set(ends)) == 1, f"{who}: {words}: {ends}"
        return ends[0]

    async def outcome(self, act: Act, who: str) -> str:
        """`yes`, `no` where it is not permitted, `hidden` where it answers as what is missing.

        What is refused has taken nothing back of anybody's context.
        """
        marked = self._marks.count
        try:
            await act(self._services, who)
        except NotPermitted:
            end = NO
        except NotFound:
            end = HIDDEN
        except InvalidRequest as refused:
            assert "no such field" in refused.message, refused.message
            end = HIDDEN
        else:
            return YES
        assert self._marks.count == marked
        return end

    async def shown(self, who: str, where: Mapping[str, object]) -> str:
        """The permission on the first table of a context, or on none; `hidden` without one."""
        request = ContextBuildInput.model_validate({"userId": who, "workspaceId": "w", **where})
        try:
            answer = await self._engine.build(request, Options(fresh=True, strict=True))
        except NotFound:
            return HIDDEN
        table = AgentContext.model_validate_json(answer.context).table
        return table.permission if table is not None else "none"

    async def extent(self) -> dict[str, Any]:
        """How many rows there are of everything but evidence."""
        async with self._database.connect() as connection:
            return {
                table.name: (
                    await connection.execute(select(func.count()).select_from(table))
                ).scalar_one()
                for table in t.metadata.sorted_tables
                if table.name != "snapshots"
            }
