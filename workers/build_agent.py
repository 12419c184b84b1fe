"""The build agent: takes requests from faust, has them answered, acknowledges in order.

At least once, and never zero times: a request is acknowledged only after the broker has
acknowledged every record of its answer, and only when everything before it in its partition is
acknowledged too. Whatever goes wrong beyond that is not skipped: it ends the process, and the
next one reads the request again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, cast

import structlog
from faust.streams import Stream
from faust.types import TP, ChannelT, EventT

from context_engine import tracing
from context_engine.errors import Unavailable
from events.producer import RecordRefused
from events.records import Headers, OutgoingRecord, Position, RawMessage, carrier_of
from workers.acks import FinishedPrefix, Taken

log = structlog.get_logger(__name__)

UNACKNOWLEDGED_PER_SLOT = 32

Event = EventT[Any]  # the key and value that faust decoded, which nobody uses

Outcome = Sequence[OutgoingRecord]
Handler = Callable[[RawMessage], Awaitable[Outcome]]
RefusedHandler = Callable[[RawMessage, OutgoingRecord, RecordRefused], Awaitable[Outcome]]
"""What to send in place of a record that its topic does not take."""


class Sender(Protocol):
    """Publishes a record and returns once the broker has it."""

    async def send(self, record: OutgoingRecord) -> Position: ...


class BuildAgent:
    """Runs `handler` on at most `max_in_flight` requests at a time.

    Requests that are answered but wait for a slower one at the front of their partition are
    bounded too: they are what a killed worker's successor answers a second time.
    """

    def __init__(
        self,
        handler: Handler,
        sender: Sender,
        *,
        max_in_flight: int = 256,
        on_refused: RefusedHandler | None = None,
    ) -> None:
        self._handler = handler
        self._sender = sender
        self._on_refused = on_refused
        self._slots = asyncio.Semaphore(max_in_flight)
        self._max_unacknowledged = max_in_flight * UNACKNOWLEDGED_PER_SLOT
        self._prefixes: dict[TP, FinishedPrefix[Event]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._acknowledged = asyncio.Event()
        self._buffer: asyncio.Queue[Event] | None = None
        self._closing = False
        self.in_flight = 0
        self.finished_total = 0
        self.failure: BaseException | None = None
        self.failed = asyncio.Event()

    async def consume(self, stream: Stream[bytes]) -> None:
        """The body of the faust agent."""
        self._buffer = cast("ChannelT[bytes]", stream.channel).queue
        events = cast("AsyncIterator[Event]", stream.noack().events())
        async for event in events:
            await self._take(event)

    @property
    def buffered(self) -> int:
        """Requests that faust holds for this agent, not taken yet."""
        return self._buffer.qsize() if self._buffer is not None else 0

    @property
    def unacknowledged(self) -> int:
        """Requests taken whose acknowledgement is still to come."""
        return sum(prefix.unreleased for prefix in self._prefixes.values())

    @property
    def has_room(self) -> bool:
        """Whether faust's buffer takes one more request without waiting."""
        return self._buffer is not None and not self._buffer.full()

    @property
    def keeps_up(self) -> bool:
        """Whether at most half of what faust may hold for this agent waits there."""
        return self._buffer is None or 2 * self._buffer.qsize() <= self._buffer.maxsize

    async def drain(self, seconds: float) -> bool:
        """Wait for what is in flight; False if some had not finished in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            log.warning("requests still run after the drain", in_flight=self.in_flight)
            return False
        return True

    def forget(self, partitions: Iterable[TP]) -> None:
        """Acknowledge nothing more of `partitions`: they were taken away."""
        for partition in partitions:
            prefix = self._prefixes.pop(partition, None)
            if prefix is not None:
                prefix.abandon()
        self._acknowledged.set()

    async def close(self) -> None:
        """Cancel what still runs; it stays unacknowledged and is read again."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    async def _take(self, event: Event) -> None:
        prefix = self._prefixes.get(event.message.tp)
        if prefix is None:
            prefix = self._prefixes[event.message.tp] = FinishedPrefix()
        taken = prefix.take(event)
        self.in_flight += 1
        self._idle.clear()
        while self.unacknowledged > self._max_unacknowledged:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        await self._slots.acquire()
        task = asyncio.create_task(self._handle(taken))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, taken: Taken[Event]) -> None:
        raw = raw_message(taken.item)
        parent = carrier_of(raw.headers)
        try:
            with tracing.span("answer request", "consumer", parent):
                await self._answer(raw)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request is not skipped
            self._fail(raw, error)
        except asyncio.CancelledError as error:
            if not self._closing:
                self._fail(raw, error)
            raise
        else:
            self.finished_total += 1
            for event in taken.finish():
                event.ack()
                self._acknowledged.set()
        finally:
            self._slots.release()
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

    async def _answer(self, raw: RawMessage) -> None:
        records = await self._handler(raw)
        if len(records) == 1:
            await self._send(raw, records[0])
        else:
            await asyncio.gather(*(self._send(raw, record) for record in records))

    async def _send(self, raw: RawMessage, record: OutgoingRecord) -> None:
        try:
            await self._sender.send(record)
        except RecordRefused as refusal:
            if self._on_refused is None:
                raise
            for substitute in await self._on_refused(raw, record, refusal):
                await self._sender.send(substitute)

    def _fail(self, raw: RawMessage, error: BaseException) -> None:
        # A part that is away has a name; a traceback for each request would say no more.
        why = {"reason": error.message} if isinstance(error, Unavailable) else {"exc_info": error}
        log.error(
            "request could not be answered",
            topic=raw.topic,
            partition=raw.partition,
            offset=raw.offset,
            **why,
        )
        if self.failure is None:
            self.failure = error
        self.failed.set()


def raw_message(event: Event) -> RawMessage:
    """The record behind `event` as it came: faust keeps seconds and folds repeated headers."""
    message = event.message
    return RawMessage(
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        timestamp=round((message.timestamp or 0.0) * 1000),
        key=message.key,
        value=message.value,
        headers=cast("Headers", tuple(message.headers or ())),
    )
