"""Notices a worker that looks alive and does nothing, and says so."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)

STALLED_EXIT_CODE = 75


class Progress(Protocol):
    """What the watchdog looks at: work begun, work waiting, work done."""

    @property
    def in_flight(self) -> int: ...

    @property
    def buffered(self) -> int: ...

    @property
    def finished_total(self) -> int: ...


class Stalled(Exception):
    """There was work for a whole time-out and none of it was finished."""


class Watchdog:
    """Ends a wait of `stall_seconds` in which work was there and nothing was finished.

    `unfetched` asks the broker how many records wait there. No answer within a quarter of the
    time-out counts as work: a worker that cannot even ask is no use where it stands.
    """

    def __init__(
        self,
        progress: Progress,
        unfetched: Callable[[], Awaitable[int]],
        *,
        stall_seconds: float = 60.0,
    ) -> None:
        self._progress = progress
        self._unfetched = unfetched
        self._stall_seconds = stall_seconds
        self._moved_at = time.monotonic()

    @property
    def still(self) -> float:
        """Seconds since it last looked and there was no work, or some had been finished."""
        return time.monotonic() - self._moved_at

    def fault(self) -> str | None:
        """Why the worker is no longer of use, in words; None while it moves or has nothing to do.

        Counts from the last look at it, so an idle worker is never more than half a time-out old.
        """
        still = self.still
        if still < self._stall_seconds:
            return None
        return f"work waits and nothing was finished for {still:.0f} s"

    async def watch(self) -> None:
        """Return never; raise Stalled when the worker stands still."""
        finished = self._progress.finished_total
        self._moved_at = time.monotonic()
        while True:
            await asyncio.sleep(self._stall_seconds / 4)
            waiting = await self._work_waiting()
            if self._progress.finished_total != finished or waiting is None:
                finished = self._progress.finished_total
                self._moved_at = time.monotonic()
            elif self.fault():
                raise Stalled(f"nothing was finished for {self._stall_seconds:.0f} s: {waiting}")

    async def _work_waiting(self) -> str | None:
        """What waits, in words; None if nothing does."""
        if self._progress.in_flight or self._progress.buffered:
            return f"{self._progress.in_flight} in flight, {self._progress.buffered} buffered"
        try:
            async with asyncio.timeout(self._stall_seconds / 4):
                unfetched = await self._unfetched()
        except Exception as error:  # noqa: BLE001 - any failure to ask is the finding
            log.warning("watchdog could not ask the broker", error=repr(error))
            return f"the broker does not answer ({type(error).__name__})"
        return f"{unfetched} records wait at the broker" if unfetched else None


class KeepsUp(Protocol):
    """What a partition watch looks at beside the partitions."""

    @property
    def keeps_up(self) -> bool: ...


Places = Mapping[str, tuple[int, int]]
"""For each partition, by a name for people, the next offset that is read and its end."""


class PartitionWatch:
    """Ends a wait of `stall_seconds` in which records of one partition waited and none was read.

    The watchdog sees nothing of it while other partitions move. A worker that does not keep up
    with what it was given may leave a partition for so long; then nothing is counted.
    """

    def __init__(
        self,
        worker: KeepsUp,
        places: Callable[[], Awaitable[Places]],
        *,
        stall_seconds: float = 60.0,
    ) -> None:
        self._worker, self._places = worker, places
        self._stall_seconds = stall_seconds
        self._stood: dict[str, tuple[int, float]] = {}
        """Where each partition that has records was, and when that was seen first."""

    async def watch(self) -> None:
        """Return never; raise Stalled when a partition stands still."""
        while True:
            await asyncio.sleep(self._stall_seconds / 4)
            if not self._worker.keeps_up:
                self._stood.clear()
                continue
            try:
                async with asyncio.timeout(self._stall_seconds / 4):
                    places = await self._places()
            except Exception:  # noqa: BLE001, S112 - that nobody can be asked is the watchdog's
                continue
            self._look(places, time.monotonic())

    def _look(self, places: Places, now: float) -> None:
        stood, self._stood = self._stood, {}
        for name, (position, end) in places.items():
            if position >= end:
                continue
            before, since = stood.get(name, (position, now))
            if before != position:
                since = now
            if now - since >= self._stall_seconds:
                raise Stalled(
                    f"{end - position} records wait in {name} and none was read for"
                    f" {now - since:.0f} s"
                )
            self._stood[name] = position, since


class Watch(Protocol):
    """Returns never; raises Stalled."""

    async def watch(self) -> None: ...


class Watches:
    """Several watches as one: the first that raises ends it."""

    def __init__(self, *watches: Watch) -> None:
        self._watches = watches

    async def watch(self) -> None:
        """Return never; raise Stalled."""
        try:
            async with asyncio.TaskGroup() as watching:
                for one in self._watches:
                    watching.create_task(one.watch())
        except* Stalled as found:
            raise found.exceptions[0] from None


class LoopGuard:
    """Ends the process when the event loop itself hangs: nothing inside the loop could.

    Use as an async context manager around the worker's life.
    """

    def __init__(self, *, hang_seconds: float = 60.0) -> None:
        self._hang_seconds = hang_seconds
        self._beat_at = time.monotonic()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._guard, name="loop-guard", daemon=True)
        self._pulse: asyncio.Task[None] | None = None

    async def __aenter__(self) -> LoopGuard:
        self._pulse = asyncio.create_task(self._beat())
        self._thread.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._closed.set()
        if self._pulse is not None:
            self._pulse.cancel()

    async def _beat(self) -> None:
        while True:
            self._beat_at = time.monotonic()
            await asyncio.sleep(self._hang_seconds / 8)

    def _guard(self) -> None:
        while not self._closed.wait(self._hang_seconds / 4):
            if time.monotonic() - self._beat_at > self._hang_seconds:
                print(
                    f"build worker: the event loop hung for {self._hang_seconds:.0f} s; leaving",
                    file=sys.stderr,
                    flush=True,
                )
                faulthandler.dump_traceback(file=sys.stderr)
                os._exit(STALLED_EXIT_CODE)
