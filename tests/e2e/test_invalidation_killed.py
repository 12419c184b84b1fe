"""The invalidation consumer killed at each of its steps: the next member completes its work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from context_engine.adapters.redis import RedisCache
from context_engine.changes import AnyChange, MemberChanged, MessageChanged
from context_engine.invalidation import Invalidator
from context_engine.keys import Tag
from context_engine.ports import Evicted, Marked
from events.consumer import Consumer
from events.producer import Producer
from events.records import OutgoingRecord, Position, RawMessage
from tests.support.line import Line, buried, scope
from workers.change_applier import ChangeApplier
from workers.consumption import next_offsets
from workers.proving import Prover
from workers.runner import ExitCode

pytestmark = pytest.mark.timeout(120)


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


class KilledCache(RedisCache):
    at: str = ""

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        if self.at == "before its marks":
            raise Killed
        return await super().mark_many(changes)

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        if self.at == "after its marks":
            raise Killed
        return await super().evict(workspace_id, tags)


@dataclass
class KilledProducer:
    producer: Producer
    at: str
    sent: int = 0

    async def send(self, record: OutgoingRecord) -> Position:
        self.sent += 1
        if self.at == "after its evictions" or (self.at == "while it tells" and self.sent == 2):
            raise Killed
        return await self.producer.send(record)


@pytest.mark.parametrize(
    "at",
    [
        "before its marks",
        "after its marks",
        "after its evictions",
        "while it tells",
        "before its commit",
    ],
)
async def test_killed_between_two_steps_redelivery_completes_it(line: Line, at: str) -> None:
    """Whatever was done by then, the next member does it all: marks, evictions, dead letter,
    announcements, position.
    """
    for who in (scope("u"), scope("x")):
        await line.keep(who)
    changes = [MemberChanged(workspace_id="w", user_id=user, op="removed") for user in ("u", "x")]
    for change in changes:
        await line.client.emit(change)
    await line.put(b"{", key=b"w")
    await _die(line, at)
    assert all(committed == 0 for committed, _ in (await line.committed()).values())
    if at != "before its marks":
        assert not await line.serves(scope("u")), "a mark once set stands, whoever dies"
    await line.told.everything()
    line.told.seen.clear()
    async with line.consuming():
        await line.announced(*changes)
        await line.told.until(lambda seen: bool(buried(seen)))
    for who in (scope("u"), scope("x")):
        assert not await line.holds(who)
        assert await line.cache.session(who) is None
    assert await line.behind() == {}


async def _die(line: Line, at: str) -> None:
    """A member that takes all three messages, and dies at that step."""
    settings, names = line.settings, [topic.name for topic in line.topics.changes()]
    consumer = Consumer(
        settings.kafka_bootstrap, names, settings.invalidation_group, max_bytes=1_000_000
    )
    await consumer.start()
    try:
        async with KilledCache(settings.redis_url, settings) as cache, asyncio.timeout(30):
            cache.at = at
            dying = KilledProducer(line.producer, at)
            prover = Prover(cache.liveness, consumer, timedelta(seconds=300))
            applier = ChangeApplier(Invalidator(cache), prover, dying, line.topics, settings)
            batch: list[RawMessage] = []
            while len(batch) < 3:
                batch += await consumer.poll(0.5)
            with contextlib.suppress(Killed):
                await applier.apply(batch)
                assert at == "before its commit"
                assert sum(next_offsets(batch).values()) == 3
    finally:
        await consumer.stop()


async def test_processes_that_are_killed_or_told_to_leave_lose_no_change(
    line: Line, tmp_path: Path
) -> None:
    """Changes flow all the while; one member is killed, one joins, one is told to leave."""
    changes: list[AnyChange] = [
        MessageChanged(
            workspace_id=f"w{n % 11}", conversation_id="c", message_id=f"m{n}", op="added"
        )
        for n in range(300)
    ]

    async def flow(some: Sequence[AnyChange]) -> None:
        for change in some:
            await line.client.emit(change)

    first, second, third = (line.process(tmp_path / f"{n}.log") for n in range(3))
    try:
        await first.start()
        flowing = asyncio.create_task(flow(changes[:200]))
        await line.told.until(lambda seen: len(seen) > 20)
        os.kill(first.pid, signal.SIGKILL)
        await second.start()
        await third.start()
        await flowing
        flowing = asyncio.create_task(flow(changes[200:]))
        assert await second.stop() == ExitCode.OK
        await flowing
        await line.announced(*changes)
        assert await third.stop() == ExitCode.OK
    finally:
        for process in (first, second, third):
            await process.kill()
    assert await line.behind() == {}
