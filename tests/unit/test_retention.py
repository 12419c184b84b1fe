"""Evidence past its days goes: in bounded batches, at intervals, whatever happens in between."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import structlog
from structlog.testing import capture_logs

from context_engine.errors import Unavailable
from workers import retention
from workers.retention import BATCH, retain


class Evidence:
    """So many old snapshots, in a database that is away at first."""

    def __init__(self, old: int, stop: asyncio.Event, *faults: Exception) -> None:
        self.old, self.stop, self.faults = old, stop, list(faults)
        self.asked: list[datetime] = []

    async def clean(self, before: datetime, *, limit: int) -> int:
        self.asked.append(before)
        if self.faults:
            raise self.faults.pop()
        removed = min(self.old, limit)
        self.old -= removed
        if removed < limit:
            self.stop.set()
        return removed


@pytest.fixture
def _logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logger that no earlier test has bound to its own output."""
    monkeypatch.setattr(retention, "log", structlog.get_logger("retention"))


@pytest.mark.usefixtures("_logs")
async def test_what_is_past_its_days_goes_in_bounded_batches() -> None:
    """No statement removes more than a batch; the log says how many went in all."""
    stop = asyncio.Event()
    evidence = Evidence(2 * BATCH + 7, stop)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await retain(evidence, 30, stop, pause=0.0)
    assert (evidence.old, len(evidence.asked)) == (0, 3)
    age = datetime.now(UTC) - evidence.asked[0]
    assert timedelta(days=30) <= age < timedelta(days=30, minutes=1)
    assert [(one["event"], one["rows"]) for one in logs] == [("snapshots cleaned", 2 * BATCH + 7)]


@pytest.mark.usefixtures("_logs")
@pytest.mark.parametrize("fault", [Unavailable("database", "is away"), RuntimeError("a bug")])
async def test_a_fault_costs_an_interval_and_nothing_else(fault: Exception) -> None:
    """It is logged, and tried again: a relay goes on publishing."""
    stop = asyncio.Event()
    evidence = Evidence(3, stop, fault)
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            await retain(evidence, 1, stop, interval=0.01)
    assert evidence.old == 0
    assert [one["log_level"] for one in logs] == ["warning", "info"]


async def test_a_stop_ends_the_wait_at_once() -> None:
    stop = asyncio.Event()
    async with asyncio.timeout(5):
        await retain(Evidence(0, stop), 30, stop)
