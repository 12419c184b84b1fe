"""What is exported: counted around a port, read from who counts already, asked for at a scrape."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest
import structlog

from context_engine.errors import ContextEngineError, InvalidRequest, Unavailable
from events import cloudevents, messages
from events.dead_letters import dead_letter
from events.messages import BuildFailed, ready_bytes
from events.producer import RecordTooLarge
from events.records import OutgoingRecord, Position, RawMessage
from tests.support.scraped import Scraped
from workers.build_handler import Fault
from workers.metrics import FAMILIES, Metrics, exporter, families
from workers.metrics.around import counted, measured, outcome_of

pytestmark = pytest.mark.unit

RAW = RawMessage("context.build-requests", 0, 7, 0, b"k", b"{}")


def reply(data: bytes) -> OutgoingRecord:
    headers, value = cloudevents.encode(type=messages.READY, source="test", id="e", data=data)
    return OutgoingRecord("context.ready", b"r", value, headers)


def answer(source: Any, request_id: str = "r") -> OutgoingRecord:
    return reply(ready_bytes(request_id, "c", "h", source, b'{"source":"build","view":null}'))


def failure(code: str) -> OutgoingRecord:
    failed = BuildFailed(request_id="r", code=code, message='"source":"x"', retryable=False)
    return reply(failed.model_dump_json().encode())


def buried(error: ContextEngineError | None = None) -> OutgoingRecord:
    return dead_letter(RAW, error or InvalidRequest("no JSON"), "group")


async def scraped(metrics: Metrics) -> Scraped:
    return Scraped.of((await metrics.text()).decode())


# -- names -------------------------------------------------------------------------------------


def test_names_say_what_is_counted_in_which_unit() -> None:
    """Ours by their prefix; a counter ends with `_total`, and nothing else does; times are in
    seconds."""
    for one in FAMILIES:
        assert re.fullmatch(r"context_engine_[a-z_]+", one.name)
        assert one.name.endswith("_total") == (one.kind == "counter")
        assert "_ms" not in one.name
        assert one.kind != "histogram" or one.name.endswith(("_seconds", "_bytes"))
    assert len({one.name for one in FAMILIES}) == len(FAMILIES)


def test_no_label_can_grow_with_the_tenants() -> None:
    """Each is one of a few, whose values are in the code, the settings or the broker."""
    bounded = {
        "worker", "version", "check", "work", "topic", "partition", "reason", "outcome", "layer",
        "result",
    }  # fmt: skip
    assert {label for one in FAMILIES for label in one.labels} <= bounded


def test_a_metric_that_is_not_declared_cannot_be_exported() -> None:
    """What is declared is what the documentation, the dashboard and the alarms know."""
    with pytest.raises(ValueError, match=r"not declared for relay.*families\.py"):
        Metrics("relay").value(families.IN_FLIGHT, lambda: 0)


# -- around a port -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "outcome"),
    [
        ([answer("cache")], "cache"),
        ([answer("surface", '","source":"build"')], "surface"),
        ([failure("not_found")], "not_found"),
        ([buried(), failure("invalid_request")], "invalid_request"),
        ([buried()], "unanswered"),
    ],
)
def test_an_outcome_is_read_in_the_answer(records: Sequence[OutgoingRecord], outcome: str) -> None:
    """Its source or its code, whatever the request's id looks like and the context holds."""
    assert outcome_of(records) == outcome


async def test_each_request_is_counted_and_timed_by_its_outcome() -> None:
    """What the handler raises is no outcome: the request will be read again."""
    given: list[Any] = [
        [answer("cache")],
        [answer("cache")],
        [failure("unavailable")],
        ZeroDivisionError,
    ]

    async def handler(_: RawMessage) -> Sequence[OutgoingRecord]:
        if isinstance(now := given.pop(0), list):
            return now
        raise now

    metrics = Metrics("build", served=True)
    handle = measured(handler, metrics)
    for _ in range(3):
        await handle(RAW)
    with pytest.raises(ZeroDivisionError):
        await handle(RAW)
    found = await scraped(metrics)
    for name in ("context_engine_requests_total", "context_engine_request_seconds_count"):
        assert (found.value(name, outcome="cache"), found.value(name)) == (2, 3)


async def test_what_nobody_can_read_is_not_counted() -> None:
    """The very handler and sender; and a line for each request only at the level debug."""

    async def handler(_: RawMessage) -> Sequence[OutgoingRecord]:
        return [answer("build")]

    metrics, sender = Metrics("build"), Sending()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20))
    try:
        assert measured(handler, metrics) is handler
        assert counted(sender, metrics) is sender
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(10))
        with structlog.testing.capture_logs() as told:
            await measured(handler, metrics)(RAW)
    finally:
        structlog.reset_defaults()
    assert [(one["event"], one["outcome"]) for one in told] == [("request answered", "build")]


class Sending:
    """Sends what comes, or refuses it."""

    def __init__(self) -> None:
        self.refuses = False

    async def send(self, record: OutgoingRecord) -> Position:
        if self.refuses:
            raise RecordTooLarge("too large")
        return Position(record.topic, 0, 0)


async def test_what_is_sent_is_counted_once_the_broker_has_it() -> None:
    """By topic; a dead letter by where its message came from and the class of its error; what is
    refused for itself."""
    metrics, sending = Metrics("build", served=True), Sending()
    sender = counted(sending, metrics)
    for record in (answer("build"), buried(), buried(Fault("broken"))):
        await sender.send(record)
    sending.refuses = True
    with pytest.raises(RecordTooLarge):
        await sender.send(answer("build"))
    found = await scraped(metrics)
    sent, dead = "context_engine_records_sent_total", "context_engine_dead_letters_total"
    assert (found.value(sent, topic="context.ready"), found.value(sent)) == (1, 3)
    for reason in ("InvalidRequest", "Fault"):
        assert found.value(dead, topic="context.build-requests", reason=reason) == 1
    assert found.value(dead) == 2
    assert found.value("context_engine_records_refused_total", topic="context.ready") == 1


async def test_a_message_that_looks_like_a_dead_letter_is_none() -> None:
    """Its headers are its sender's, and become no label."""
    metrics = Metrics("build", served=True)
    record = OutgoingRecord("context.ready", b"r", b"", (("kafka_dlt-exception-fqcn", b"a.User"),))
    await counted(Sending(), metrics).send(record)
    assert not (await scraped(metrics)).has("context_engine_dead_letters_total")


# -- a scrape ----------------------------------------------------------------------------------


async def test_what_cannot_be_asked_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rather absent than wrong: not an old value, no zero; the others are told."""
    monkeypatch.setattr(exporter, "ASK_SECONDS", 0.05)
    metrics, answers = Metrics("relay"), [3.0]

    async def ask() -> exporter.Told:
        if not answers:
            raise Unavailable("database", "is away")
        return {families.OUTBOX_OLDEST: {(): answers.pop()}}

    async def hangs() -> exporter.Told:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    metrics.asks(ask)
    metrics.asks(hangs)
    first, second = await scraped(metrics), await scraped(metrics)
    assert first.value("context_engine_outbox_oldest_seconds") == 3
    assert not second.has("context_engine_outbox_oldest_seconds")
    assert second.has("context_engine_build_info", worker="relay")


async def test_two_workers_in_a_process_share_nothing() -> None:
    """No registry is the process's: an embedder has metrics of its own."""
    one, other = Metrics("build", served=True), Metrics("build", served=True)
    await counted(Sending(), one).send(answer("build"))
    assert (await scraped(one)).has("context_engine_records_sent_total")
    assert not (await scraped(other)).has("context_engine_records_sent_total")
