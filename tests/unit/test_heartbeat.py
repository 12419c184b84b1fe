"""Heartbeats: what must stand before one goes out, and what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.errors import Unavailable
from context_engine.ports import OutboxBatch, Pulse, Reign, Unpublished
from context_engine.settings import Settings
from events.messages import Heartbeat
from events.producer import UnknownPartition
from events.records import OutgoingRecord, Position
from events.topics import Topics
from workers import heartbeat
from workers.heartbeat import Heart

TOPICS = Topics.of(Settings.model_validate({"tag_secret": "s" * 32}))
NONE = Unpublished(frozenset(), frozenset())


@dataclass
class House:
    """An outbox, a broker and a store that write down what is asked of them."""

    waiting: Unpublished | None = NONE
    published_after: int = 0
    done: list[str] = field(default_factory=list)
    sent: list[OutgoingRecord] = field(default_factory=list)
    fault: Exception | None = None
    cache: MemoryCache = field(default_factory=lambda: MemoryCache(now=lambda: 42_000))

    def __post_init__(self) -> None:
        real = self.cache.liveness.pulse

        async def pulse() -> Pulse:
            self.done.append("pulse")
            return await real()

        self.cache.liveness.pulse = pulse  # type: ignore[method-assign]

    @property
    def heart(self) -> Heart:
        return Heart(self.cache.liveness, self.cache, self, self, TOPICS)

    async def unpublished(self, limit: int) -> Unpublished | None:
        self.done.append("read")
        return self.waiting

    async def all_published(self, ids: Collection[str]) -> bool:
        self.done.append("published?")
        self.published_after -= 1
        return self.published_after < 0

    async def partitions(self, topic: str) -> int:
        return 3

    async def send(self, record: OutgoingRecord) -> Position:
        if self.fault is not None:
            raise self.fault
        if not self.sent:
            self.done.append("sent")
        self.sent.append(record)
        return Position(record.topic, record.partition or 0, len(self.sent))

    # What else an outbox does is none of a heartbeat's business.

    @asynccontextmanager
    async def claim(self, limit: int) -> AsyncIterator[OutboxBatch]:
        raise AssertionError
        yield

    async def wait(self, timeout: float) -> bool:
        raise AssertionError

    async def clean(self, older_than: timedelta) -> int:
        raise AssertionError

    async def lag(self) -> timedelta | None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0)
    monkeypatch.setattr(heartbeat, "BEAT_SECONDS", 0.01)


async def test_the_time_is_read_before_the_outbox_and_all_of_that_is_published_first() -> None:
    """TIME read after the SELECT, or a heartbeat ahead of a row that was seen, is a planted
    fault that a model of the protocol catches."""
    house = House(Unpublished(frozenset({"1"}), frozenset()), published_after=2)
    assert await house.heart.beat()
    assert house.done == ["pulse", "read", "published?", "published?", "published?", "sent"]


async def test_it_goes_through_every_partition_of_every_change_topic() -> None:
    """With the pulse, and how many partitions the topic has."""
    house = House()
    assert await house.heart.beat()
    places = {(record.topic, record.partition) for record in house.sent}
    assert places == {(topic.name, n) for topic in TOPICS.changes() for n in range(3)}
    assert len(house.sent) == len(places)
    for record in house.sent:
        said = Heartbeat.model_validate_json(record.value or b"")
        assert (said.at_ms, said.reigns, said.partitions) == (42_000, (house.cache.reign,), 3)


async def test_more_waiting_than_can_be_followed_sends_none() -> None:
    house = House(waiting=None)
    assert not await house.heart.beat()
    assert house.sent == []


async def test_a_change_that_its_topic_refuses_ends_all_of_its_workspace_instead() -> None:
    """It may never be published; that must not keep everyone's caches from being read."""
    house = House(Unpublished(frozenset(), frozenset({"w"})))
    await house.cache.found("w")
    assert await house.heart.beat()
    assert house.cache.marks["w"].marks == {keys.EVERYTHING: 1}
    assert house.sent


async def test_marks_of_another_reign_than_the_pulses_send_none() -> None:
    """They stand on another server than the one whose proof it would be."""
    house = House(Unpublished(frozenset(), frozenset({"w"})))
    real = house.cache.liveness.pulse

    async def before_a_failover() -> Pulse:
        pulse = await real()
        house.cache.reign = Reign("another server")
        return pulse

    house.cache.liveness.pulse = before_a_failover  # type: ignore[method-assign]
    assert not await house.heart.beat()
    assert house.sent == []


@pytest.mark.parametrize(
    "fault", [Unavailable("broker", "is away"), UnknownPartition("topic is gone")], ids=str
)
async def test_it_beats_again_once_what_was_away_is_back(fault: Exception) -> None:
    """Nothing that passes ends it; nobody has to start it anew."""
    house, stop = House(fault=fault), asyncio.Event()
    running = asyncio.create_task(house.heart.run(stop))
    await _until(lambda: house.done.count("read") > 2)
    assert house.sent == []
    house.fault = None
    await _until(lambda: bool(house.sent))
    stop.set()
    await running


async def test_a_row_that_stays_unpublished_holds_it_back_for_a_proofs_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then it begins anew, with another pulse: the old one would prove nothing any more."""
    monkeypatch.setattr(heartbeat, "LIFE_MS", 20)
    house = House(Unpublished(frozenset({"1"}), frozenset()), published_after=1_000_000_000)
    monkeypatch.setattr(heartbeat, "LOOK_SECONDS", 0.005)
    stop = asyncio.Event()
    running = asyncio.create_task(house.heart.run(stop))
    await _until(lambda: house.done.count("pulse") > 2)
    stop.set()
    await running
    assert house.sent == []


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what it waits for tells nobody
            await asyncio.sleep(0.001)
