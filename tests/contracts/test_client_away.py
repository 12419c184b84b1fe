"""`ContextClient` while its broker goes away: it says so, and closes in its time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from context_engine.changes import MemberChanged
from context_engine.errors import Unavailable
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events import tail
from events.answers import ReplyTimeout
from events.client import ContextClient
from events.topics import Topics, ensure
from tests.support.echo import settings_for, worker
from workers.localstack.kafka import SmallKafka

WHERE = ContextBuildInput(user_id="u", workspace_id="w")
CHANGE = MemberChanged(workspace_id="w", user_id="u", op="removed")
CLOSE_SECONDS = 6.5
"""Five, and room for a busy machine."""


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[SmallKafka]:
    """A broker of this test's own, which may be killed."""
    made = SmallKafka(tmp_path)
    await made.start()
    yield made
    await made.kill()


@pytest.fixture
async def settings(broker: SmallKafka) -> Settings:
    made = settings_for(broker.address)
    await ensure(broker.address, Topics.of(made))
    return made


async def gone(broker: SmallKafka) -> None:
    await broker.kill()


async def mute(broker: SmallKafka) -> None:
    """It holds its connections, and says nothing more."""
    assert broker.pid is not None
    os.kill(broker.pid, signal.SIGSTOP)


@pytest.mark.parametrize("leave", [gone, mute])
async def test_closing_while_the_broker_is_away_takes_seconds(
    broker: SmallKafka,
    settings: Settings,
    leave: Callable[[SmallKafka], Awaitable[None]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What could not be sent, and who waits for a reply, fails with its type; the log counts it."""
    async with worker(settings):
        client = ContextClient(settings)
        await client.__aenter__()
        await client.request(WHERE)
    await leave(broker)
    emitting = asyncio.create_task(client.emit(CHANGE))
    asking = asyncio.create_task(client.request(WHERE, timeout=60))
    with caplog.at_level(logging.WARNING, "events.closing"):
        await asyncio.sleep(0.5)  # both are on their way to a broker that does not answer
        began = time.monotonic()
        await client.__aexit__(None, None, None)
        took = time.monotonic() - began
    assert took < CLOSE_SECONDS
    for waiting in (emitting, asking):
        async with asyncio.timeout(1):
            with pytest.raises(Unavailable):
                await waiting
    assert "acknowledgement of 2 records" in caplog.text


@pytest.mark.parametrize("leave", [gone, mute])
async def test_a_request_that_the_broker_did_not_take_names_the_broker(
    broker: SmallKafka, settings: Settings, leave: Callable[[SmallKafka], Awaitable[None]]
) -> None:
    """Its address and its setting; nobody is sent to look at a worker."""
    async with ContextClient(settings) as client:
        async with worker(settings):
            await client.request(WHERE)
        await leave(broker)
        with pytest.raises(ReplyTimeout, match="CONTEXT_KAFKA_BOOTSTRAP") as told:
            await client.request(WHERE, timeout=1.0)
    assert broker.address in told.value.message
    assert "worker" not in told.value.message


async def test_a_broker_that_left_after_it_took_the_request_is_named(
    broker: SmallKafka, settings: Settings
) -> None:
    asked = asyncio.Event()
    async with ContextClient(settings) as client:
        async with worker(settings, lambda _: asked.set()):
            waiting = asyncio.create_task(client.request(WHERE, timeout=3.0))
            await asked.wait()
        await broker.kill()
        with pytest.raises(ReplyTimeout, match="CONTEXT_KAFKA_BOOTSTRAP"):
            await waiting


async def test_a_request_without_a_turn_is_told_of_its_limit(settings: Settings) -> None:
    """The broker is there and so may be the worker: too much is asked at once."""
    narrow = settings.model_copy(update={"max_in_flight": 1})
    asked = asyncio.Event()
    async with worker(settings, lambda _: asked.set()), ContextClient(narrow) as client:
        first = asyncio.create_task(client.request(WHERE, timeout=3.0))
        await asked.wait()
        with pytest.raises(ReplyTimeout, match="CONTEXT_MAX_IN_FLIGHT"):
            await client.request(WHERE, timeout=0.5)
        with pytest.raises(ReplyTimeout, match="the broker took the request"):
            await first


async def test_a_subscription_goes_on_where_it_stood(
    broker: SmallKafka, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that was away for longer than the bound is told; asked again, nothing is missed."""
    monkeypatch.setattr(tail, "AWAY_SECONDS", 2.5)
    async with ContextClient(settings) as client, client.subscribe_changes() as changes:
        await mute(broker)
        with pytest.raises(Unavailable):
            async with asyncio.timeout(10):
                await anext(changes)
        emitting = asyncio.create_task(client.emit(CHANGE))
        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGCONT)
        async with asyncio.timeout(30):
            await emitting
            while True:
                try:
                    assert await anext(changes) == CHANGE
                    break
                except Unavailable:
                    continue


@pytest.mark.parametrize("leave", [gone, mute])
async def test_a_subscription_ends_when_the_broker_stays_away(
    broker: SmallKafka,
    settings: Settings,
    leave: Callable[[SmallKafka], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within its bound, by the broker's name; while the broker is there, silence is no fault."""
    monkeypatch.setattr(tail, "AWAY_SECONDS", 2.5)
    async with ContextClient(settings) as client, client.subscribe_changes() as changes:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4):
                await anext(changes)
        await client.emit(CHANGE)
        assert await anext(changes) == CHANGE
        await leave(broker)
        with pytest.raises(Unavailable, match=f"{broker.address} did not answer for"):
            async with asyncio.timeout(10):
                await anext(changes)
