"""Consuming changes: marked at once, finished behind that, committed last.

Marks come first, batch after batch, and wait for nothing. Behind them, for all batches that are
marked by then: evictions; then announcements and dead letters that the broker has acknowledged;
then the commit. Killed in between, the next member applies them again, which is harmless: marks
only rise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog

from context_engine.errors import Unavailable
from events.consumer import BATCH
from events.records import RawMessage
from workers.backoff import Patience
from workers.change_applier import ChangeApplier, MarkedBatch
from workers.process import ExitCode

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.1
"""How long a poll waits where nothing comes: a stop waits for it, with caches bypassed."""

MOST_AHEAD = 10_000
"""Records that are marked, or about to be, while those before them are still being finished."""

MOST_BYTES_AHEAD = 64 * 2**20
"""Their values, which are kept until then: one alone may have 1 MiB."""

FINISHED_AT_ONCE = 1_000
"""Records, or one batch, after which the position moves: where all is slow, that is what the
watchdog sees move, what a stop waits for, and what is done again after a kill."""


class Source(Protocol):
    """What is needed of a consumer."""

    async def poll(self, seconds: float) -> list[RawMessage]: ...

    async def commit(self, offsets: dict[tuple[str, int], int]) -> None: ...


class Consumption:
    """Applies what a source gives, batch by batch. The watchdog looks at its progress.

    A batch is marked as soon as it is there; what is left of those before it is done beside, so
    that neither unlinking nor a broker that is slow delays a mark. The position moves only after
    all of a batch is done; what failed is done again.
    """

    buffered = 0

    def __init__(self, source: Source, applier: ChangeApplier, patience: Patience) -> None:
        self._source, self._applier = source, applier
        self._patience, self._later = patience, patience.twin()
        self._marked: list[MarkedBatch] = []
        self._finishing: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._bytes = 0
        self._committed: dict[tuple[str, int], int] = {}
        self.in_flight = 0
        self.finished_total = 0
        self.keeps_up = True
        """Whether the last look found less than it could take: nothing that came waits unread."""

    async def run(self, stop: asyncio.Event) -> ExitCode:
        """Until `stop`. A part that stays away ends it with `UNAVAILABLE`."""
        try:
            while not stop.is_set():
                batch = await self._source.poll(POLL_SECONDS)
                self.keeps_up = len(batch) < BATCH
                if batch and not await self._mark(batch, stop):
                    break
                await self._go_on(stop)
            if self._finishing is not None:
                await self._finishing
            await self._leave()
        except Unavailable as away:
            log.error("changes cannot be applied; leaving", part=away.part, reason=away.message)
            return ExitCode.UNAVAILABLE
        finally:
            if self._finishing is not None:
                self._finishing.cancel()
                await asyncio.gather(self._finishing, return_exceptions=True)
        return ExitCode.OK

    async def _mark(self, batch: Sequence[RawMessage], stop: asyncio.Event) -> bool:
        """Whether it stands; told to stop while a part is away, leaves it to the next member."""
        self.in_flight += len(batch)
        self._bytes += _bytes_of(batch)
        while True:
            try:
                self._marked.append(await self._applier.mark(batch))
            except Unavailable as away:
                if not await self._patience.wait(away, stop):
                    raise
                if stop.is_set():
                    return False
            else:
                self._patience.reset()
                return True

    async def _go_on(self, stop: asyncio.Event) -> None:
        """Sees to it that what is marked is finished; waits for room where too much is not."""
        while True:
            if self._finishing is not None and self._finishing.done():
                self._finishing.result()
                self._finishing = None
            if self._finishing is None and self._marked:
                self._finishing = asyncio.create_task(self._finish(stop))
            if self._finishing is None or not self._too_far_ahead:
                return
            self.keeps_up = False  # whatever a poll found: it waits here, and reads nothing
            self._moved.clear()
            await self._moved.wait()
            if stop.is_set():
                return

    @property
    def _too_far_ahead(self) -> bool:
        return self.in_flight > MOST_AHEAD or self._bytes > MOST_BYTES_AHEAD

    async def _finish(self, stop: asyncio.Event) -> None:
        """Evicts, tells and commits what is marked, some batches at a time, until nothing is left;
        told to stop, it leaves the others to the next member."""
        try:
            while self._marked and await self._finished(_first(self._marked), stop):
                self._moved.set()
                if stop.is_set():
                    return
        finally:
            self._moved.set()

    async def _finished(self, batches: Sequence[MarkedBatch], stop: asyncio.Event) -> bool:
        """Whether these, the first, are; told to stop while a part is away, leaves them."""
        while True:
            try:
                await self._applier.finish(batches)
                offsets = next_offsets(raw for one in batches for raw in one.raw)
                await self._source.commit(offsets)
            except Unavailable as away:
                if not await self._later.wait(away, stop):
                    raise
                if stop.is_set():
                    return False
            else:
                self._later.reset()
                self._committed |= offsets
                del self._marked[: len(batches)]
                done = sum(len(one.raw) for one in batches)
                self._bytes -= sum(_bytes_of(one.raw) for one in batches)
                self.in_flight -= done
                self.finished_total += done
                return True

    async def _leave(self) -> None:
        """Spares the next member what lies between the last heartbeat and the commit."""
        try:
            await self._applier.leave(self._committed)
        except Unavailable as away:
            log.warning("the next member reads some changes again", part=away.part)


def _bytes_of(batch: Sequence[RawMessage]) -> int:
    return sum(len(raw.value or b"") for raw in batch)


def _first(marked: Sequence[MarkedBatch]) -> Sequence[MarkedBatch]:
    """The first of them, and the next as long as together they are few."""
    count, end = len(marked[0].raw), 1
    while end < len(marked) and (count := count + len(marked[end].raw)) <= FINISHED_AT_ONCE:
        end += 1
    return marked[:end]


def next_offsets(records: Iterable[RawMessage]) -> dict[tuple[str, int], int]:
    """The position after these records, for each of their partitions: beyond the last that was
    read, which is not the highest where a partition was read again."""
    return {(raw.topic, raw.partition): raw.offset + 1 for raw in records}
