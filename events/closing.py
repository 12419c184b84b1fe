"""Starting and stopping aiokafka's clients within a bound, and whole, whatever the broker does."""

from __future__ import annotations

import asyncio
import logging
from itertools import chain
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError

from events.away import away, reason

log = logging.getLogger(__name__)

STOP_SECONDS = 8.0
CLOSE_SECONDS = 3.0
"""For a consumer outside any group, which has nobody to tell."""
ABANDON_SECONDS = 2.0


async def start_consumer(client: AIOKafkaConsumer, bootstrap: str, seconds: float) -> None:
    """Connects; one that could not is closed. Raises `Unavailable` after `seconds` at most."""
    try:
        async with asyncio.timeout(seconds):
            await client.start()
    except BaseException as error:
        await stop_consumer(client, CLOSE_SECONDS)
        if not isinstance(error, (KafkaError, TimeoutError, OSError)):
            raise
        raise away(bootstrap, f"does not answer ({reason(error)})") from error


async def stop_consumer(client: AIOKafkaConsumer, seconds: float | None = None) -> None:
    """Leaves the group and disconnects; gives up after `seconds`, or `STOP_SECONDS`.

    aiokafka's own `stop` may raise `CancelledError` when the broker is away: it awaits fetches
    that it cancelled, and leaves its connections open. A task of its own tells that from a
    cancellation of ours.
    """
    stopping = asyncio.ensure_future(_leave(client))
    try:
        done, _ = await asyncio.wait({stopping}, timeout=seconds or STOP_SECONDS)
    finally:
        stopping.cancel()
    if done and not stopping.cancelled() and stopping.exception() is None:
        return
    error = stopping.exception() if done and not stopping.cancelled() else None
    log.warning("consumer did not stop in order: %s", error or "its fetches were in the way")
    await _abandon(client)


async def _leave(client: AIOKafkaConsumer) -> None:
    """aiokafka's own `stop`. That takes a group's generation 0, which brokers that count from there
    have, for none, and would not leave: the next member would wait for the session time-out."""
    coordinator = client._coordinator
    if getattr(coordinator, "generation", None) == 0:
        coordinator.generation = 1
    await client.stop()


async def _abandon(client: AIOKafkaConsumer) -> None:
    """Ends what `stop` left: fetches and connections. It remembers having stopped."""
    fetcher = client._fetcher
    tasks: set[asyncio.Future[Any]] = set()
    if fetcher is not None:
        tasks = {fetcher._fetch_task, *fetcher._pending_tasks}
    for task in tasks:
        task.cancel()
    tasks.add(asyncio.ensure_future(client._client.close()))
    await asyncio.wait(tasks, timeout=ABANDON_SECONDS)


async def stop_producer(client: AIOKafkaProducer, seconds: float) -> None:
    """Sends what waits and disconnects; after `seconds` gives up what the broker did not take.

    Whoever awaits the acknowledgement of such a record gets an error of aiokafka's: it may have
    been written all the same.
    """
    stopping = asyncio.ensure_future(client.stop())
    try:
        done, _ = await asyncio.wait({stopping}, timeout=seconds)
        if not done:
            await _give_up(client, stopping)
    finally:
        stopping.cancel()
    if done and not stopping.cancelled() and (error := stopping.exception()) is not None:
        log.warning("producer did not stop in order: %s", error or type(error).__name__)


async def _give_up(client: AIOKafkaProducer, stopping: asyncio.Future[None]) -> None:
    """Fails what waits and cuts the connections, so that `stopping` comes to its end."""
    waiting = client._message_accumulator
    batches = [*waiting._pending_batches, *chain.from_iterable(waiting._batches.values())]
    log.warning(
        "producer closes without the broker's acknowledgement of %d records",
        sum(batch.record_count for batch in batches),
    )
    for batch in batches:
        batch._ttl = 0.0  # nothing is sent again
    await asyncio.wait({asyncio.ensure_future(client.client.close())}, timeout=ABANDON_SECONDS / 2)
    waiting.fail_all(KafkaConnectionError("closed before it was acknowledged"))
    await asyncio.wait({stopping}, timeout=ABANDON_SECONDS / 2)
