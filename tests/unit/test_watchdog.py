"""The watchdog: leaves a worker that stands still, and only that."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from workers.watchdog import PartitionWatch, Stalled, Watchdog, Watches

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


@dataclass
class Reader:
    keeps_up: bool = True


def watch_over(reader: Reader, *looks: dict[str, tuple[int, int]]) -> PartitionWatch:
    """Sees the partitions so, one look after the other, and then always as at the last."""
    left = list(looks)

    async def places() -> dict[str, tuple[int, int]]:
        return left.pop(0) if len(left) > 1 else left[0]

    return PartitionWatch(reader, places, stall_seconds=STALL_SECONDS)


async def test_one_partition_that_stands_is_a_stall() -> None:
    """Others move and hide it from the watchdog: it is named, with what waits in it."""
    looks = [{"a[0]": (n, n + 1), "a[1]": (7, 9 + n), "a[2]": (3, 3)} for n in range(20)]
    with pytest.raises(Stalled, match=r"records wait in a\[1\]"):
        await asyncio.wait_for(watch_over(Reader(), *looks).watch(), STALL_SECONDS * 10)


@pytest.mark.parametrize(
    ("reader", "looks"),
    [
        (Reader(), [{"a[0]": (n, n + 5)} for n in range(100)]),
        (Reader(), [{"a[0]": (5, 5)}]),
        (Reader(keeps_up=False), [{"a[0]": (5, 9)}]),
        (Reader(), [{"a[0]": (5, 9)}, {}, {"a[0]": (5, 9)}, {}] * 10),
    ],
    ids=["it moves", "nothing waits", "the worker does not keep up", "it comes and goes"],
)
async def test_partitions_that_may_wait_are_left_alone(
    reader: Reader, looks: list[dict[str, tuple[int, int]]]
) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch_over(reader, *looks).watch(), STALL_SECONDS * 4)


async def test_the_first_of_several_watches_ends_them_all() -> None:
    """As the stall itself, for whoever tells why a worker leaves."""
    idle = Watchdog(Work(), nothing_waits, stall_seconds=STALL_SECONDS)
    standing = watch_over(Reader(), {"a[0]": (1, 2)})
    with pytest.raises(Stalled):
        await asyncio.wait_for(Watches(idle, standing).watch(), STALL_SECONDS * 10)
