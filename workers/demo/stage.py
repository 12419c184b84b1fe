"""What a step of the demo works with, and how it says what it saw."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from context_engine.access import Question, Step
from context_engine.adapters.sql.services import DomainServices, Written
from context_engine.bootstrap import Parts
from context_engine.changes import (
    AnyChange,
    ConversationChanged,
    GrantChanged,
    GrantScope,
    Subject,
    TableChanged,
    TeamChanged,
    WorkflowChanged,
)
from context_engine.errors import NotFound
from context_engine.models import AgentContext, ContextBuildInput
from events.client import ContextClient
from events.messages import ContextEvicted, ContextReady
from workers.cli.terminal import plural
from workers.seed import Seeded

WAIT_SECONDS = 15.0


class NotAsExpected(Exception):
    """A step saw something else than it should."""


@dataclass(slots=True)
class Shown:
    """What a step saw: lines for people, and the time of what it is about, in milliseconds."""

    lines: list[str] = field(default_factory=list)
    milliseconds: float | None = None
    context: AgentContext | None = None
    """Shown whole, below the lines."""


@dataclass(slots=True)
class Stage:
    """The running house as the steps see it."""

    client: ContextClient
    parts: Parts
    seeded: Seeded
    explain: Callable[[Question], Awaitable[tuple[Step, ...]]]
    """What `context-engine explain` tells."""

    @property
    def services(self) -> DomainServices:
        return self.parts.services

    def where(self, user_id: str, **more: object) -> ContextBuildInput:
        """Coordinates in the demo workspace."""
        return ContextBuildInput.model_validate(
            {"userId": user_id, "workspaceId": self.seeded.workspace_id, **more}
        )

    async def ask(self, request: ContextBuildInput) -> tuple[ContextReady, float]:
        """The answer over the bus, and how long it took, in milliseconds."""
        started = time.perf_counter()
        ready = await self.client.request(request, timeout=WAIT_SECONDS)
        return ready, (time.perf_counter() - started) * 1000

    async def refused(self, request: ContextBuildInput) -> tuple[str, float]:
        """The words of the refusal that must come, and how long it took."""
        started = time.perf_counter()
        try:
            ready = await self.client.request(request, timeout=WAIT_SECONDS)
        except NotFound as refusal:
            return refusal.message, (time.perf_counter() - started) * 1000
        raise NotAsExpected(f"answered from {ready.source}, should have been refused")

    async def settle(self) -> None:
        """Waits until what the seed wrote has come through relay and consumer.

        One change of each kind about nothing, behind all that stands on its topic: once it is
        announced, so is everything before it.
        """
        workspace = self.seeded.workspace_id
        while await self.parts.outbox.lag() is not None:
            await self.parts.outbox.wait(0.1)
        nobody = Subject(type="user", id="nobody")
        changes: tuple[AnyChange, ...] = (
            TableChanged(workspace_id=workspace, table_id="none", op="renamed"),
            GrantChanged(
                workspace_id=workspace,
                subject=nobody,
                scope=GrantScope(type="table", id="none"),
                op="deleted",
            ),
            WorkflowChanged(workspace_id=workspace, workflow_id="none", op="updated"),
            TeamChanged(workspace_id=workspace, team_id="none", op="updated"),
            ConversationChanged(workspace_id=workspace, conversation_id="none", op="updated"),
        )
        async with self.client.subscribe_evictions(workspace) as evictions:
            for change in changes:
                await self.client.emit(change)
            waiting = {change.change_id for change in changes}
            async with asyncio.timeout(4 * WAIT_SECONDS):
                while waiting:
                    waiting.discard((await anext(evictions)).change_id)

    @asynccontextmanager
    async def announcements(self) -> AsyncIterator[Announced]:
        """What is evicted while the block runs."""
        async with self.client.subscribe_evictions(self.seeded.workspace_id) as evictions:
            yield Announced(evictions)


@dataclass(slots=True)
class Announced:
    """The evictions of one block of a step."""

    source: AsyncIterator[ContextEvicted]

    async def of(self, written: Written) -> ContextEvicted:
        """The announcement of the first change of a write."""
        wanted = {change.change_id for change in written.changes}
        async with asyncio.timeout(WAIT_SECONDS):
            async for event in self.source:
                if event.change_id in wanted:
                    return event
        raise NotAsExpected("the subscription ended")


def expect(holds: bool, what: str) -> None:
    """Raises `NotAsExpected` unless `holds`."""
    if not holds:
        raise NotAsExpected(what)


def records(context: AgentContext) -> int:
    """The number of records in sight in the context's table."""
    count = context.table.record_count.value if context.table is not None else None
    if count is None:
        raise NotAsExpected("the context has no record count")
    return count


def told(evicted: ContextEvicted, others: Sequence[str] = ()) -> list[str]:
    """Lines about one announcement."""
    return [
        f"change    {evicted.change_type} on {evicted.topic}[{evicted.partition}]@{evicted.offset}",
        f"evicted   {plural(evicted.count, 'entry', 'entries')}"
        f" of {plural(len(evicted.scope_keys), 'scope')},"
        f" clock {evicted.clock}",
        *others,
    ]
