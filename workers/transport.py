"""What faust's Kafka consumer does differently here: the one place that reaches into faust.

Six things, for which faust 0.15 has no setting:

1. The long poll. Faust asks the broker to hold a fetch for 1,500 ms. A broker that answers only
   at the end of it makes every reply that late; one that answers at once loses nothing.
2. Partitions that are taken away. Faust forgets what was acknowledged before it commits, and
   waits for running work without a bound. Here: stop taking, drain with a bound, commit, and
   from then on acknowledge nothing for them.
3. Hand-over of one record. Faust creates four tasks for each record, to be able to stop waiting
   for room in a full buffer. Here only when the buffer is full.
4. A full buffer. Faust stops fetching the partition, and where all are full sleeps for a second
   while the worker runs dry. Here the full buffer itself holds the fetcher back.
5. The end. Faust waits for the broker without a bound, and falls over where it is gone.
6. Whose loop. Told to stop while it starts, faust closes the thread's client from the main
   thread. A loop belongs to its thread: uvloop's crashes the process when another touches it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from faust.transport.drivers import aiokafka as driver
from faust.types import TP, Message

from events.closing import stop_consumer
from events.header_names import accept_any_header_name

if TYPE_CHECKING:
    from workers.app import BuildApp

FETCH_MAX_WAIT_MS = 20
STOP_SECONDS = 5.0
"""How long the broker may take to let a consumer go."""


class BuildConsumerThread(driver.AIOKafkaConsumerThread):
    """Owns the Kafka client, in a thread and an event loop of its own."""

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        if not hasattr(consumer, "_fetch_max_wait_ms"):
            raise RuntimeError("this aiokafka keeps its long poll elsewhere: adapt transport.py")
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        accept_any_header_name()
        return consumer

    def close(self) -> None:
        """Leave the client to the thread that owns it: `on_thread_stop` closes it there (see 6)."""

    async def on_thread_stop(self) -> None:
        """Bounded, and whole, without a broker too; faust's own ends in a traceback there."""
        await super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        if self._consumer is not None:
            await stop_consumer(self._consumer, STOP_SECONDS)


class BuildConsumer(driver.Consumer):
    """Feeds the build agent and commits what it acknowledged."""

    app: BuildApp

    def _new_consumer_thread(self) -> BuildConsumerThread:
        same_kind = type(asyncio.get_running_loop())  # uvloop's where the worker runs on it
        thread = BuildConsumerThread(
            self, loop=self.loop, thread_loop=same_kind(), beacon=self.beacon
        )
        thread._close_thread_loop_on_stop = True
        return thread

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish and commit what runs, bounded, before the partitions go."""
        if revoked:
            await self.wind_down(self.app.config.rebalance_drain_seconds)
            self.app.requests.forget(revoked)
        await super().on_partitions_revoked(revoked)

    async def wind_down(self, seconds: float) -> bool:
        """Take nothing more, wait for what runs, commit it. False if some had not finished."""
        self.stop_flow()
        self.app.flow_control.suspend()
        self.app.flow_control.clear()
        drained = await self.app.requests.drain(seconds)
        await self.maybe_wait_for_commit_to_finish()
        await self.commit()
        return drained

    def ack(self, message: Message) -> bool:
        """Ignore what was read before a rebalance: it is read again from the commit."""
        if message.generation_id != self.app.consumer_generation_id:
            return False
        return super().ack(message)

    def on_buffer_full(self, tp: TP) -> None:
        """Keep fetching (see 4 above)."""

    async def wait_first(self, *coros: Any, timeout: Any = None) -> Any:
        """Hand one record over: at once where there is room, else as faust does (see 3)."""
        if len(coros) == 2 and timeout is None and self._has_room(coros):
            deliver, suspended = coros
            suspended.close()
            await deliver
            return None
        return await super().wait_first(*coros, timeout=timeout)

    def _has_room(self, coros: Iterable[Any]) -> bool:
        return (
            self.flow_active
            and self.app.flow_control.is_active()
            and self.app.requests.has_room
            and all(asyncio.iscoroutine(each) for each in coros)
        )

    async def unfetched(self) -> int:
        """How many records the broker has in this consumer's partitions beyond those fetched."""
        return sum(max(0, end - place) for place, end in (await self.places()).values())

    async def places(self) -> dict[str, tuple[int, int]]:
        """For each of its partitions, by name, the next offset that is fetched and the end."""
        partitions = self.assignment()
        if not partitions:
            return {}
        ends = await self.highwaters(*partitions)
        return {
            f"{tp.topic}[{tp.partition}]": (await self.position(tp) or 0, ends[tp])
            for tp in partitions
        }


class BuildTransport(driver.Transport):
    """Faust's Kafka transport with the consumer above."""

    Consumer = BuildConsumer
