"""Answers and bypasses are counted beside the work, and forgotten in time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from context_engine.adapters.memory import MemoryCache
from context_engine.errors import Unavailable
from context_engine.liveness import COUNTED_SECONDS
from context_engine.ports import Tally
from workers import tallying
from workers.tallying import Teller


@dataclass
class Engine:
    """Answers as a test says."""

    tally: Tally = field(default_factory=Tally)


@dataclass
class House:
    """An engine and a store under a clock that a test sets."""

    now_ms: int = 1_700_000_000_000
    engine: Engine = field(default_factory=Engine)

    def __post_init__(self) -> None:
        self.store = MemoryCache(now=lambda: self.now_ms).liveness
        self.teller = Teller(self.engine, self.store)


async def test_each_answer_is_told_once() -> None:
    house = House()
    for tally in (Tally(3, 1), Tally(3, 1), Tally(10, 1)):
        house.engine.tally = tally
        await house.teller.tell()
    assert await house.store.counted() == Tally(10, 1)


async def test_what_was_answered_long_ago_is_forgotten() -> None:
    """Part by part, within the time that counts."""
    house = House()
    house.engine.tally = Tally(3, 1)
    await house.teller.tell()
    house.now_ms += COUNTED_SECONDS * 500
    house.engine.tally = Tally(5, 1)
    await house.teller.tell()
    assert await house.store.counted() == Tally(5, 1)
    house.now_ms += COUNTED_SECONDS * 500
    assert await house.store.counted() == Tally(2, 0)
    house.now_ms += COUNTED_SECONDS * 500
    assert await house.store.counted() == Tally()


async def test_what_the_store_did_not_take_is_told_with_the_next() -> None:
    """The answers of an outage are the ones that went past the cache."""
    house = House()
    count, told = house.store.count, []

    async def away(tally: Tally) -> None:
        told.append(tally)
        raise Unavailable("redis", "is away")

    house.store.count = away  # type: ignore[method-assign]
    house.engine.tally = Tally(3, 3)
    await house.teller.tell()
    house.store.count = count  # type: ignore[method-assign]
    house.engine.tally = Tally(4, 3)
    await house.teller.tell()
    assert told == [Tally(3, 3)]
    assert await house.store.counted() == Tally(4, 3)


async def test_it_runs_until_it_is_told_to_stop_and_tells_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the last second brought is not lost with the worker."""
    monkeypatch.setattr(tallying, "TELL_SECONDS", 60.0)
    house, stop = House(), asyncio.Event()
    running = asyncio.create_task(house.teller.run(stop))
    await asyncio.sleep(0)
    house.engine.tally = Tally(2, 0)
    stop.set()
    async with asyncio.timeout(5):
        await running
    assert await house.store.counted() == Tally(2, 0)
