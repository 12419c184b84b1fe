"""The invalidation consumer: what domain changes make untrue is marked, evicted and announced.

One batch at a time: every mark first, so that unlinking never delays one; then evictions, then
announcements that the broker has acknowledged; then the commit. Killed in between, the next
member applies the batch again, which is harmless: marks only rise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

import structlog
from pydantic import ValidationError

from context_engine import bootstrap, keys
from context_engine.changes import AnyChange, domain_change
from context_engine.errors import InvalidRequest, Unavailable
from context_engine.invalidation import Applied, Invalidator
from context_engine.models import invalid
from context_engine.settings import Settings
from events import cloudevents, messages
from events.consumer import Consumer
from events.dead_letters import dead_letter
from events.messages import ContextEvicted
from events.producer import Producer
from events.records import OutgoingRecord, RawMessage
from events.topics import Topics
from workers.backoff import Patience
from workers.runner import ExitCode

log = structlog.get_logger(__name__)

SOURCE = "context-engine/invalidate"
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Poison:
    """A message that is no domain change, and why."""

    raw: RawMessage
    error: InvalidRequest

    @property
    def workspace_id(self) -> str | None:
        """The key names the workspace, where it can be read; else nobody knows whose it was."""
        try:
            return self.raw.key.decode() or None if self.raw.key is not None else None
        except UnicodeDecodeError:
            return None


class ChangeApplier:
    """Applies a batch of messages of the change topics. Raises `Unavailable` part-way: redo it."""

    def __init__(
        self, invalidator: Invalidator, producer: Producer, topics: Topics, settings: Settings
    ) -> None:
        self._invalidator, self._producer, self._topics = invalidator, producer, topics
        self._group = settings.invalidation_group
        self._secret = settings.tag_secret.get_secret_value()

    async def apply(self, batch: Sequence[RawMessage]) -> None:
        """Marks all, then evicts and announces each. Done means: may be committed."""
        read = [(raw, self._read(raw)) for raw in batch]
        changes = [(raw, change) for raw, change in read if not isinstance(change, Poison)]
        for _, poison in read:
            if isinstance(poison, Poison):
                await self._invalidator.apply_unknown(poison.workspace_id)
        marks = await self._invalidator.mark([change for _, change in changes])
        for (raw, change), mark in zip(changes, marks, strict=True):
            await self._announce(raw, await self._invalidator.evict(change, mark))
        for _, poison in read:
            if isinstance(poison, Poison):
                await self._bury(poison)

    def _read(self, raw: RawMessage) -> AnyChange | Poison:
        try:
            event = cloudevents.decode(raw)
            try:
                change = domain_change.validate_json(event.data)
            except ValidationError as error:
                raise invalid(error) from error
            if event.type != messages.change_type(change):
                raise InvalidRequest(f"does not fit the data's type {change.type}", field="ce_type")
        except InvalidRequest as error:
            return Poison(raw, error)
        return change

    async def _announce(self, raw: RawMessage, applied: Applied) -> None:
        change = applied.change
        evicted = ContextEvicted(
            workspace_id=change.workspace_id,
            change_id=change.change_id,
            change_type=change.type,
            topic=raw.topic,
            partition=raw.partition,
            offset=raw.offset,
            tags=keys.seal(self._secret, change.workspace_id, applied.tags),
            clock=applied.mark.clock,
            count=applied.evicted.count,
            scope_keys=applied.evicted.scope_keys,
            truncated=applied.evicted.truncated,
        )
        headers, value = cloudevents.encode(
            type=messages.EVICTED,
            source=SOURCE,
            id=uuid4().hex,
            data=evicted.model_dump_json().encode(),
        )
        await self._producer.send(
            OutgoingRecord(
                topic=self._topics.evictions.name,
                key=change.workspace_id.encode(),
                value=value,
                headers=headers,
            )
        )
        log.info("change applied", type=change.type, evicted=applied.evicted.count)

    async def _bury(self, poison: Poison) -> None:
        log.error(
            "change cannot be read; its workspace starts anew",
            topic=poison.raw.topic,
            partition=poison.raw.partition,
            offset=poison.raw.offset,
            reason=poison.error.message,
        )
        await self._producer.send(dead_letter(poison.raw, poison.error, self._group))


async def consume(
    consumer: Consumer, applier: ChangeApplier, *, stop: asyncio.Event, patience: Patience
) -> int:
    """Applies batches until `stop`. A part that stays away ends it with `UNAVAILABLE`.

    The position moves only after a batch is applied; a batch that failed is applied again.
    """
    while not stop.is_set():
        batch = await consumer.poll(POLL_SECONDS)
        while batch and not stop.is_set():
            try:
                await applier.apply(batch)
                await consumer.commit(next_offsets(batch))
            except Unavailable as away:
                if not await patience.wait(away, stop):
                    log.error("changes cannot be applied; leaving", reason=away.message)
                    return ExitCode.UNAVAILABLE
                continue
            patience.reset()
            break
    return ExitCode.OK


def next_offsets(batch: Sequence[RawMessage]) -> dict[tuple[str, int], int]:
    """The position after the batch, for each of its partitions."""
    offsets: dict[tuple[str, int], int] = {}
    for raw in batch:
        place = (raw.topic, raw.partition)
        offsets[place] = max(offsets.get(place, 0), raw.offset + 1)
    return offsets


async def run(settings: Settings, *, ready: Callable[[], None], stop: asyncio.Event) -> int:
    """Runs the invalidation consumer until `stop`; the exit code."""
    topics = Topics.of(settings)
    producer = Producer(
        settings.kafka_bootstrap,
        client_id="context-invalidation",
        max_record_bytes={t.name: t.max_message_bytes for t in topics.all()},
    )
    consumer = Consumer(
        settings.kafka_bootstrap,
        [topic.name for topic in topics.changes()],
        settings.invalidation_group,
        max_bytes=max(topic.max_message_bytes for topic in topics.changes()),
    )
    async with bootstrap.parts(settings) as parts:
        await bootstrap.check(parts)
        await producer.start()
        try:
            await consumer.start()
            try:
                ready()
                applier = ChangeApplier(Invalidator(parts.cache), producer, topics, settings)
                return await consume(consumer, applier, stop=stop, patience=Patience(60.0))
            finally:
                await consumer.stop()
        finally:
            await producer.stop()
