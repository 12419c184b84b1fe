"""The watchdog: leaves a worker that stands still, and only that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from workers.watchdog import Stalled, Watchdog

pytestmark = pytest.mark.unit

STALL_SECONDS = 0.2


@dataclass
class Work:
    in_flight: int = 0
    buffered: int = 0
    finished_total: int = 0


async def nothing_waits() -> int:
    return 0


async def something_waits() -> int:
    return 3


async def broker_away() -> int:
    raise ConnectionError("away")


@pytest.mark.parametrize(
    ("work", "unfetched"),
    [
        (Work(in_flight=1), nothing_waits),
        (Work(buffered=5), nothing_waits),
        (Work(), something_waits),
        (Work(), broker_away),
    ],
    ids=["in flight", "buffered", "at the broker", "broker does not answer"],
)
async def test_work_without_progress_is_a_stall(work: Work, unfetched: object) -> None:
    """Work that waits anywhere and is not finished for the whole time-out raises Stalled."""
    watchdog = Watchdog(work, unfetched, stall_seconds=STALL_SECONDS)  # type: ignore[arg-type]
    with pytest.raises(Stalled):
        await asyncio.wait_for(watchdog.watch(), STALL_SECONDS * 10)
    assert watchdog.fault()


async def test_an_idle_worker_is_left_alone() -> None:
    """Nothing to do is no stall, however long it lasts."""
    watchdog = Watchdog(Work(), nothing_waits, stall_seconds=STALL_SECONDS)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watchdog.watch(), STALL_SECONDS * 3)
    assert watchdog.fault() is None


async def test_slow_progress_is_progress() -> None:
    """A worker that finishes something within each time-out goes on."""
    work = Work(in_flight=1)

    async def advance() -> int:
        work.finished_total += 1
        return 1

    work.in_flight = 0
    watchdog = Watchdog(work, advance, stall_seconds=STALL_SECONDS)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watchdog.watch(), STALL_SECONDS * 3)
