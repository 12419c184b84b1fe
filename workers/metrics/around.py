"""What is counted around a port, because nobody behind it counts it: answers, and what is sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Protocol

import structlog
from prometheus_client import Counter, Histogram

from events import messages
from events.dead_letters import reason_of
from events.producer import RecordRefused
from events.records import OutgoingRecord, Position, RawMessage
from events.topics import DEAD_LETTER_SUFFIX
from workers.metrics import families
from workers.metrics.exporter import Metrics

log = structlog.get_logger(__name__)

UNANSWERED = "unanswered"
"""Outcome of a message in which no request id could be read: a dead letter only."""

Handler = Callable[[RawMessage], Awaitable[Sequence[OutgoingRecord]]]


def measured(handler: Handler, metrics: Metrics) -> Handler:
    """`handler`, with what came of each request counted, timed and told (at level debug).

    The same handler where nobody can read either.
    """
    if not (metrics.served or log.is_enabled_for(logging.DEBUG)):
        return handler
    requests = metrics.counter(families.REQUESTS)
    seconds = metrics.histogram(families.REQUEST_SECONDS)

    @cache  # to look a series up takes as long as to count in it
    def series(outcome: str) -> tuple[Counter, Histogram]:
        return requests.labels(outcome), seconds.labels(outcome)

    async def handle(raw: RawMessage) -> Sequence[OutgoingRecord]:
        began = time.perf_counter()
        records = await handler(raw)
        took = time.perf_counter() - began
        outcome = outcome_of(records)
        count, time_taken = series(outcome)
        count.inc()
        time_taken.observe(took)
        log.debug("request answered", outcome=outcome, seconds=round(took, 4))
        return records

    return handle


def outcome_of(records: Sequence[OutgoingRecord]) -> str:
    """The source of the answer among `records`, or the code of the failure."""
    for record in records:
        if not record.topic.endswith(DEAD_LETTER_SUFFIX):
            return messages.outcome_of(record.value or b"")
    return UNANSWERED


class Sender(Protocol):
    """Publishes a record and returns once the broker has it."""

    async def send(self, record: OutgoingRecord) -> Position: ...


class Counted:
    """A sender whose records are counted by topic, dead letters by reason as well.

    The topics are those of the settings: replies go to an allow list only.
    """

    def __init__(self, sender: Sender, metrics: Metrics, *, buries: bool = True) -> None:
        self._sender = sender
        self._sent = cache(metrics.counter(families.SENT).labels)
        self._refused = metrics.counter(families.UNSENT)
        self._dead = metrics.counter(families.DEAD) if buries else None

    async def send(self, record: OutgoingRecord) -> Position:
        try:
            position = await self._sender.send(record)
        except RecordRefused:
            self._refused.labels(record.topic).inc()
            raise
        self._sent(record.topic).inc()
        if self._dead is not None and (reason := reason_of(record)) is not None:
            self._dead.labels(record.topic.removesuffix(DEAD_LETTER_SUFFIX), reason).inc()
        return position


def counted(sender: Sender, metrics: Metrics, *, buries: bool = True) -> Sender:
    """`sender`, counted where somebody can read it. `buries`: it sends dead letters."""
    return Counted(sender, metrics, buries=buries) if metrics.served else sender
