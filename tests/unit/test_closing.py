"""Consumers stop whole and in time, whatever aiokafka's own stop does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaError

from events import closing
from events.closing import stop_consumer


class Client:
    """Stands in for aiokafka's consumer: a fetch under way, a connection, a `stop` that fails."""

    def __init__(self, outcome: BaseException | None, *, hangs: bool = False) -> None:
        self.outcome, self.hangs = outcome, hangs
        self._fetch_task = asyncio.ensure_future(asyncio.sleep(60))
        self._pending_tasks = {asyncio.ensure_future(asyncio.sleep(60))}
        self._fetcher, self._client = self, self
        self._coordinator: Any = None
        self.connected = True
        self.stopping = asyncio.Event()

    async def stop(self) -> None:
        self.stopping.set()
        if self.hangs:
            await asyncio.sleep(60)
        if self.outcome is not None:
            raise self.outcome
        for task in (self._fetch_task, *self._pending_tasks):
            task.cancel()
        await self.close()

    async def close(self) -> None:
        self.connected = False

    def assert_ended(self) -> None:
        assert not self.connected
        assert all(task.done() for task in (self._fetch_task, *self._pending_tasks))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "STOP_SECONDS", 0.05)


@pytest.mark.parametrize(
    ("outcome", "hangs"),
    [(None, False), (asyncio.CancelledError(), False), (KafkaError(), False), (None, True)],
)
async def test_stopping_ends_fetches_and_connections(
    outcome: BaseException | None, hangs: bool
) -> None:
    """In order, with a cancellation let out, with an error, or never: nothing is left."""
    client: Any = Client(outcome, hangs=hangs)
    async with asyncio.timeout(5):
        await stop_consumer(client)
        await asyncio.sleep(0)
    client.assert_ended()


async def test_a_cancellation_of_ours_is_kept() -> None:
    """Whoever cancels the stopping task sees it cancelled."""
    client: Any = Client(None, hangs=True)
    closing_task = asyncio.ensure_future(stop_consumer(client))
    await client.stopping.wait()
    closing_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing_task
    for task in (client._fetch_task, *client._pending_tasks):
        task.cancel()
