"""Starts a worker again whenever it leaves loudly, until this process is told to stop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from context_engine.errors import Unavailable
from context_engine.settings import Settings
from workers.backoff import pause
from workers.signals import leaving, stop_requested
from workers.supervisor import WorkerProcess

log = structlog.get_logger(__name__)

START_SECONDS = 120.0
"""How long a worker may take to be ready; its own bounds are shorter."""
FIRST_SECONDS, LONGEST_SECONDS = 1.0, 30.0
"""Waits between a loud exit and the next start."""
HEALTHY_SECONDS = 60.0
"""Who was ready for so long is restarted as if for the first time."""
BEYOND_SECONDS = 5.0
"""Past a worker's own bound for leaving, by so much, it is killed."""
USELESS = frozenset({2, 78})
"""Codes that stay the same however often it is started: the command line, and a setting."""


@dataclass(slots=True)
class Backoff:
    """Waits that double, up to a bound; each is drawn from its upper half, so that workers that
    fell together do not rise together."""

    first: float = FIRST_SECONDS
    longest: float = LONGEST_SECONDS
    healthy: float = HEALTHY_SECONDS
    _next: float = 0.0

    def after(self, lived: float) -> float:
        """Seconds to wait after a life of `lived` seconds."""
        if lived >= self.healthy or not self._next:
            self._next = self.first
        bound, self._next = self._next, min(self._next * 2, self.longest)
        return random.uniform(bound / 2, bound)  # noqa: S311 - no secret


async def supervise(
    worker: WorkerProcess,
    stop: asyncio.Event,
    *,
    say: Callable[[str], object],
    backoff: Backoff | None = None,
) -> int:
    """Runs `worker`, again and again, until `stop`; it never gives up. The exit code to leave with.

    That is the worker's own where it was told to stop, left with 0 by itself, or with a code that
    no restart changes; 0 where `stop` came while none ran.
    """
    backoff = backoff or Backoff()
    while not stop.is_set():
        code, lived = await _life(worker, stop, say)
        if stop.is_set() or code == 0 or code in USELESS:
            return code
        seconds = backoff.after(lived)
        log.error(
            "worker left and is started again",
            worker=worker.name,
            exit_code=code,
            lived=round(lived, 1),
            in_seconds=round(seconds, 1),
        )
        await pause(seconds, stop)
    return 0


async def _life(
    worker: WorkerProcess, stop: asyncio.Event, say: Callable[[str], object]
) -> tuple[int, float]:
    """From one start to its end: its exit code, and for how many seconds it was ready."""
    began: float | None = None

    async def live() -> int:
        nonlocal began
        try:
            await worker.start(timeout=START_SECONDS)
        except Unavailable as error:
            log.error("worker did not start", worker=worker.name, reason=error.message)
            return exit_code(await worker.ended())
        began = time.monotonic()
        say(f"{worker.name} ready")
        return exit_code(await worker.ended())

    life, stopped = asyncio.create_task(live()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({life, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not life.done():
            await worker.stop()
        code = await life
    finally:
        stopped.cancel()
        await worker.kill()
    return code, time.monotonic() - began if began is not None else 0.0


def exit_code(code: int) -> int:
    """As a shell tells it: one that a signal ended has 128 and the signal's number."""
    return code if code >= 0 else 128 - code


async def run_supervised(
    names: Sequence[str],
    *,
    say: Callable[[str], object],
    settings: Settings,
    options: Sequence[str] = (),
) -> int:
    """These workers, each supervised, until SIGTERM or SIGINT: the first code that is not 0.

    Where one is of no use any more the others are told to stop too.
    """
    stop, port = stop_requested(), settings.health_port
    patience = settings.shutdown_seconds + BEYOND_SECONDS

    async def one(number: int, name: str) -> int:
        env = {} if port is None else {"CONTEXT_HEALTH_PORT": str(port + number)}
        worker = WorkerProcess(name, env, options=options, stop_seconds=patience)
        try:
            return await supervise(worker, stop, say=say)
        finally:
            stop.set()

    try:
        codes = await asyncio.gather(*(one(number, name) for number, name in enumerate(names)))
    finally:
        leaving()
    return next((code for code in codes if code), 0)
