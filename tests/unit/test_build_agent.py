"""The build agent without a broker: what is acknowledged, when, and what never is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP
from structlog.testing import capture_logs

from context_engine.errors import Unavailable
from events.producer import RecordTooLarge
from events.records import OutgoingRecord, Position, RawMessage
from workers.build_agent import BuildAgent, Outcome

pytestmark = pytest.mark.unit


class Broker:
    """Feeds requests and remembers what was sent and acknowledged."""

    def __init__(self) -> None:
        self.sent: list[OutgoingRecord] = []
        self.acked: list[int] = []
        self.refuse: Callable[[OutgoingRecord], bool] = lambda _: False
        self._queue: asyncio.Queue[Any] = asyncio.Queue()
        self.channel = SimpleNamespace(queue=self._queue)

    def noack(self) -> Broker:
        return self

    async def events(self) -> AsyncIterator[Any]:
        while True:
            yield await self._queue.get()
            self._queue.task_done()

    async def send(self, record: OutgoingRecord) -> Position:
        await asyncio.sleep(0)
        if self.refuse(record):
            raise RecordTooLarge("too large")
        self.sent.append(record)
        return Position(record.topic, 0, len(self.sent))

    def deliver(self, offset: int, value: bytes = b"", partition: int = 0) -> None:
        message = SimpleNamespace(
            topic="requests",
            partition=partition,
            offset=offset,
            timestamp=1.5,
            key=b"k",
            value=value,
            headers=(("a", b"1"), ("a", b"2")),
            tp=TP("requests", partition),
        )
        self._queue.put_nowait(
            SimpleNamespace(message=message, ack=lambda: self.acked.append(offset))
        )

    async def taken(self) -> None:
        """Wait until the agent has taken all that was delivered."""
        await asyncio.wait_for(self._queue.join(), 5)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@asynccontextmanager
async def running(broker: Broker, agent: BuildAgent) -> AsyncIterator[BuildAgent]:
    """Run the agent for a while; at the end everything delivered is finished."""
    task = asyncio.create_task(agent.consume(broker))  # type: ignore[arg-type]
    try:
        yield agent
        await settle(broker, agent)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def settle(broker: Broker, agent: BuildAgent) -> None:
    """Let what was delivered be taken and finished."""
    await broker.taken()
    assert await agent.drain(5)


async def reply(raw: RawMessage) -> Outcome:
    return [OutgoingRecord("ready", raw.key, raw.value)]


async def test_a_request_is_acked_after_its_reply_and_in_order(broker: Broker) -> None:
    """A slow head keeps the acknowledgements behind it until it is answered itself."""
    gate = asyncio.Event()

    async def slow_head(raw: RawMessage) -> Outcome:
        if raw.offset == 1:
            await gate.wait()
        return await reply(raw)

    agent = BuildAgent(slow_head, broker)
    async with running(broker, agent):
        for offset in (1, 2, 3):
            broker.deliver(offset)
        await broker.taken()
        assert not await agent.drain(0.05)
        assert len(broker.sent) == 2
        assert broker.acked == []
        gate.set()
        await settle(broker, agent)
        assert broker.acked == [1, 2, 3]
        assert len(broker.sent) == 3


async def test_every_record_of_an_answer_is_sent_before_the_ack(broker: Broker) -> None:
    """A request with several records is acknowledged only after the broker has all of them."""

    async def two(raw: RawMessage) -> Outcome:
        return [*await reply(raw), OutgoingRecord("dead", raw.key, None)]

    agent = BuildAgent(two, broker)
    async with running(broker, agent):
        broker.deliver(1)
        await settle(broker, agent)
        assert {record.topic for record in broker.sent} == {"ready", "dead"}
        assert broker.acked == [1]


@pytest.mark.parametrize("error", [ValueError("boom"), asyncio.CancelledError()])
async def test_an_unexpected_error_is_reported_and_never_acked(
    broker: Broker, error: BaseException
) -> None:
    """Whatever escapes the handler ends the worker; nothing at or after it is acknowledged."""

    async def fails(raw: RawMessage) -> Outcome:
        if raw.offset == 2:
            raise error
        return await reply(raw)

    agent = BuildAgent(fails, broker)
    async with running(broker, agent):
        for offset in (1, 2, 3):
            broker.deliver(offset)
        await asyncio.wait_for(agent.failed.wait(), 5)
        await settle(broker, agent)
        assert agent.failure is error
        assert broker.acked == [1]


async def test_a_broker_that_is_away_is_told_by_name(broker: Broker) -> None:
    """Every request in flight fails with it: one line each, without a traceback."""

    async def fails(_: RawMessage) -> Outcome:
        raise Unavailable("broker", "no acknowledgement")

    agent = BuildAgent(fails, broker)
    with capture_logs() as logs:
        async with running(broker, agent):
            broker.deliver(1)
            await asyncio.wait_for(agent.failed.wait(), 5)
    assert [line.get("reason") for line in logs] == ["broker: no acknowledgement"]
    assert "exc_info" not in logs[0]


async def test_a_refused_record_is_replaced_once(broker: Broker) -> None:
    """What the topic does not take is replaced by what `on_refused` gives, then acknowledged."""
    broker.refuse = lambda record: record.topic == "ready"

    async def instead(raw: RawMessage, record: OutgoingRecord, error: object) -> Outcome:
        assert isinstance(error, RecordTooLarge)
        return [OutgoingRecord("fallback", record.key, b"too large")]

    agent = BuildAgent(reply, broker, on_refused=instead)
    async with running(broker, agent):
        broker.deliver(1)
        await settle(broker, agent)
        assert [record.topic for record in broker.sent] == ["fallback"]
        assert broker.acked == [1]


async def test_no_more_than_the_limit_runs_at_a_time(broker: Broker) -> None:
    """The number of handlers that run at once never passes `max_in_flight`."""
    now = most = 0

    async def counted(raw: RawMessage) -> Outcome:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1
        return await reply(raw)

    agent = BuildAgent(counted, broker, max_in_flight=4)
    async with running(broker, agent):
        for offset in range(50):
            broker.deliver(offset, partition=offset % 3)
        await settle(broker, agent)
        assert most == 4
        assert agent.finished_total == 50


async def test_a_partition_that_was_taken_away_is_not_acked(broker: Broker) -> None:
    """Work that outlives its partition is answered but not acknowledged; others go on."""
    gate = asyncio.Event()

    async def gated(raw: RawMessage) -> Outcome:
        await gate.wait()
        return await reply(raw)

    agent = BuildAgent(gated, broker)
    async with running(broker, agent):
        broker.deliver(1, partition=0)
        broker.deliver(101, partition=1)
        await broker.taken()
        agent.forget([TP("requests", 0)])
        gate.set()
        await settle(broker, agent)
        assert broker.acked == [101]
        assert len(broker.sent) == 2


async def test_the_message_reaches_the_handler_as_it_came(broker: Broker) -> None:
    """Repeated headers stay, and the time is in milliseconds."""
    seen: list[RawMessage] = []

    async def look(raw: RawMessage) -> Outcome:
        seen.append(raw)
        return []

    agent = BuildAgent(look, broker)
    async with running(broker, agent):
        broker.deliver(7, b"\xff")
        await settle(broker, agent)
        assert seen == [
            RawMessage("requests", 0, 7, 1500, b"k", b"\xff", (("a", b"1"), ("a", b"2")))
        ]
        assert broker.acked == [7]
