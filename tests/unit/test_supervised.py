"""A worker that leaves loudly is started again: with real processes that die."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import pytest

from context_engine.errors import Unavailable
from workers.supervised import Backoff, supervise
from workers.supervisor import WorkerProcess

READY = "print('build ready', flush=True); "
WAITS = READY + "import time; time.sleep(600)"
DRAINS = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); " + WAITS


class Scripted(WorkerProcess):
    """Each life is the next of `scripts`; the last repeats."""

    def __init__(self, *scripts: str) -> None:
        super().__init__("build")
        self.scripts, self.starts = list(scripts), 0

    def _command(self) -> Sequence[str]:
        self.starts += 1
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return (sys.executable, "-I", "-S", "-c", script)


class Said:
    """What the supervisor said; `ready` is set at the line with that number."""

    def __init__(self, number: int = 1) -> None:
        self.lines: list[str] = []
        self.number, self.ready = number, asyncio.Event()

    def __call__(self, line: str) -> None:
        self.lines.append(line)
        if len(self.lines) == self.number:
            self.ready.set()


def soon() -> Backoff:
    return Backoff(first=0.01, longest=0.02)


async def test_it_is_started_again_and_leaves_with_its_childs_code() -> None:
    """Killed, stalled, dead before it was ready; then told to stop, in its own time."""
    killed = READY + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    worker = Scripted(killed, READY + "raise SystemExit(75)", "raise SystemExit(69)", DRAINS)
    said, stop = Said(3), asyncio.Event()
    running = asyncio.create_task(supervise(worker, stop, say=said, backoff=soon()))
    async with asyncio.timeout(30):
        await said.ready.wait()
        stop.set()
        assert await running == 7
    assert worker.starts == 4
    assert said.lines == ["build ready"] * 3


@pytest.mark.parametrize("code", [0, 2, 78])
async def test_what_a_restart_does_not_change_ends_it(code: int) -> None:
    """It left in order, or for its command line or its settings."""
    worker = Scripted(f"raise SystemExit({code})")
    async with asyncio.timeout(30):
        assert await supervise(worker, asyncio.Event(), say=Said(), backoff=soon()) == code
    assert worker.starts == 1


async def test_told_to_stop_while_none_runs_it_leaves() -> None:
    """In the middle of a wait of minutes."""
    worker, stop, gone = Scripted("raise SystemExit(70)"), asyncio.Event(), asyncio.Event()

    class Long(Backoff):
        def after(self, lived: float) -> float:
            gone.set()
            return 600.0

    running = asyncio.create_task(supervise(worker, stop, say=Said(), backoff=Long()))
    async with asyncio.timeout(30):
        await gone.wait()
        stop.set()
        assert await running == 0


async def test_a_cancelled_supervisor_leaves_no_worker() -> None:
    worker, said = Scripted(WAITS), Said()
    running = asyncio.create_task(supervise(worker, asyncio.Event(), say=said))
    async with asyncio.timeout(30):
        await said.ready.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert worker.process is not None
    assert worker.process.returncode is not None


def test_waits_double_to_a_bound_and_begin_anew_after_a_healthy_life() -> None:
    """Each within the upper half of its bound, and not always the same."""
    backoff = Backoff(first=1.0, longest=8.0, healthy=60.0)
    waits = [backoff.after(0.0) for _ in range(6)]
    for wait, bound in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert bound / 2 <= wait <= bound
    assert len(set(waits[3:])) > 1
    assert backoff.after(59.9) >= 4
    assert backoff.after(60.0) <= 1
    assert backoff.after(0.0) > 1 - 1e-9


async def test_a_worker_that_is_never_ready_says_so() -> None:
    """`start` tells the code; the supervisor reads it from the process."""
    with pytest.raises(Unavailable, match="exit code 3"):
        await Scripted("raise SystemExit(3)").start()


@pytest.mark.parametrize("lives", [0, 1])
async def test_told_to_stop_while_its_child_is_being_made_it_leaves(lives: int) -> None:
    """The first, or one that follows: there is nothing yet to tell, and nobody else will."""
    stop = asyncio.Event()

    class Halted(Scripted):
        def _command(self) -> Sequence[str]:
            if self.starts == lives:
                asyncio.get_running_loop().call_soon(stop.set)
            return super()._command()

    worker = Halted(*["raise SystemExit(69)"] * lives, DRAINS)
    async with asyncio.timeout(15):
        await supervise(worker, stop, say=lambda _: None, backoff=soon())
    assert worker.process is not None
    assert worker.process.returncode is not None
