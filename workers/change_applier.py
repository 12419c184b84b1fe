"""A batch of changes, applied: marked, evicted, announced; what nobody can read is buried."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

import structlog

from context_engine import keys, tracing
from context_engine.changes import AnyChange
from context_engine.invalidation import Applied, Invalidator
from context_engine.keys import Tag
from context_engine.ports import Evicted, Marked
from context_engine.settings import Settings
from events import cloudevents, messages
from events.dead_letters import dead_letter
from events.messages import ContextEvicted, Heartbeat
from events.records import OutgoingRecord, Position, RawMessage, carrier_of
from events.topics import Topics
from workers.change_reader import Poison, read
from workers.proving import Heard, Prover

log = structlog.get_logger(__name__)

SOURCE = "context-engine/invalidate"
UNREADABLE = "unreadable"
"""The change type that an announcement names where nobody could read the change."""

AT_ONCE = 32
"""Changes that are evicted and told of at once: they share round trips, and marks of what comes
meanwhile find their turn between them."""

NONE = Evicted(0, (), truncated=False)
"""Nothing was unlinked: all of it lost its marks."""


class Sender(Protocol):
    """What is needed of a producer."""

    async def send(self, record: OutgoingRecord) -> Position: ...


@dataclass(frozen=True, slots=True)
class MarkedBatch:
    """What is left to do of a batch whose marks stand."""

    raw: Sequence[RawMessage]
    changes: Sequence[tuple[RawMessage, AnyChange, Marked]]
    poisons: Sequence[Poison]


class ChangeApplier:
    """Applies a batch of messages of the change topics. Raises `Unavailable` part-way: redo it."""

    def __init__(
        self,
        invalidator: Invalidator,
        prover: Prover,
        producer: Sender,
        topics: Topics,
        settings: Settings,
    ) -> None:
        self._invalidator, self._prover = invalidator, prover
        self._producer, self._topics = producer, topics
        self._group = settings.invalidation_group
        self._secret = settings.tag_secret.get_secret_value()

    async def apply(self, batch: Sequence[RawMessage]) -> None:
        """Marks all, proves it, then evicts, then tells. Done means: may be committed."""
        await self.finish([await self.mark(batch)])

    async def mark(self, batch: Sequence[RawMessage]) -> MarkedBatch:
        """Marks all, and proves it: whatever the batch ends is not served from here on."""
        changes: list[tuple[RawMessage, AnyChange]] = []
        heard: list[Heard] = []
        poisons: list[Poison] = []
        for raw in batch:
            match read(raw):
                case Poison() as poison:
                    poisons.append(poison)
                case Heartbeat() as beat:
                    heard.append((raw, beat))
                case change:
                    changes.append((raw, change))
        with ExitStack() as spans:
            for raw, _ in changes:
                if (carrier := carrier_of(raw.headers)) is not None:
                    spans.enter_context(tracing.span("mark change", "consumer", carrier))
            marks = await self._invalidator.mark([change for _, change in changes])
        stand = [(raw, mark.reign) for (raw, _), mark in zip(changes, marks, strict=True)]
        for poison in poisons:
            ended = await self._invalidator.mark_unknown(poison.workspace_ids)
            stand += [(poison.raw, reign) for reign in ended]
        self._prover.note(batch, stand)
        await self._prover.hear(heard)
        marked = [(raw, one, mark) for (raw, one), mark in zip(changes, marks, strict=True)]
        return MarkedBatch(batch, marked, poisons)

    async def finish(self, batches: Sequence[MarkedBatch]) -> None:
        """Evicts what these batches ended, and tells of each. May be done again."""
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(raw: RawMessage, change: AnyChange, mark: Marked) -> None:
            async with turns:
                with tracing.span("apply change", "consumer", carrier_of(raw.headers)):
                    applied = await self._invalidator.evict(change, mark)
                    await self._producer.send(self._changed(raw, applied))

        changes = [change for batch in batches for change in batch.changes]
        poisons = [poison for batch in batches for poison in batch.poisons]
        await _together(one(*change) for change in changes)
        for poison in poisons:
            await asyncio.gather(*map(self._producer.send, await self._buried(poison)))
        if changes or poisons:
            log.info("changes applied", changes=len(changes), unreadable=len(poisons))

    async def leave(self, finished: Mapping[tuple[str, int], int]) -> None:
        """At a clean stop: all below these offsets, by topic and partition, is committed."""
        await self._prover.leave(finished)

    def _changed(self, raw: RawMessage, applied: Applied) -> OutgoingRecord:
        change = applied.change
        return self._announcement(
            raw,
            change.workspace_id,
            change.change_id,
            change.type,
            applied.tags,
            applied.evicted,
            applied.mark.clock,
        )

    async def _buried(self, poison: Poison) -> list[OutgoingRecord]:
        """The dead letter, and an announcement for each workspace whose contexts it ended; one
        for all where nobody knows whose it was."""
        raw = poison.raw
        log.error(
            "change cannot be read; its workspace starts anew",
            topic=raw.topic,
            partition=raw.partition,
            offset=raw.offset,
            reason=poison.error.message,
        )
        told = [dead_letter(raw, poison.error, self._group)]
        unknown = frozenset({keys.EVERYTHING})
        name = f"{raw.topic}/{raw.partition}/{raw.offset}"
        if not poison.workspace_ids:
            told.append(self._announcement(raw, None, name, UNREADABLE, frozenset(), NONE, None))
        for workspace_id in poison.workspace_ids:
            evicted = await self._invalidator.evict_unknown(workspace_id)
            told.append(
                self._announcement(raw, workspace_id, name, UNREADABLE, unknown, evicted, None)
            )
        return told

    def _announcement(
        self,
        raw: RawMessage,
        workspace_id: str | None,
        change_id: str,
        change_type: str,
        tags: frozenset[Tag],
        evicted: Evicted,
        clock: int | None,
    ) -> OutgoingRecord:
        message = ContextEvicted(
            workspace_id=workspace_id,
            change_id=change_id,
            change_type=change_type,
            topic=raw.topic,
            partition=raw.partition,
            offset=raw.offset,
            tags=keys.seal(self._secret, workspace_id or "", tags),
            clock=clock,
            count=evicted.count,
            scope_keys=evicted.scope_keys,
            truncated=evicted.truncated,
        )
        headers, value = cloudevents.encode(
            type=messages.EVICTED,
            source=SOURCE,
            id=uuid4().hex,
            data=message.model_dump_json().encode(),
        )
        return OutgoingRecord(
            topic=self._topics.evictions.name,
            key=workspace_id.encode() if workspace_id is not None else None,
            value=value,
            headers=headers,
        )


async def _together(work: Iterable[Coroutine[object, object, None]]) -> None:
    """All of it; where one fails the others end too, for all of it is done again."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
