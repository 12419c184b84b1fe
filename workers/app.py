"""The faust app of the build worker: its settings and its life."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import faust
from faust.streams import Stream
from faust.types import StreamT, TransportT
from mode import CrashingSupervisor

from context_engine.errors import Unavailable
from workers.build_agent import BuildAgent
from workers.transport import BuildConsumer, BuildTransport

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BuildWorkerConfig:
    """Where the worker reads and how. Times in seconds.

    `group` is the consumer group and must never change: a new name reads everything again.
    `rebalance_seconds` is how long members have to rejoin; the small broker makes each join
    wait for half of it, so it is short, and `rebalance_drain_seconds` must stay below it.
    """

    bootstrap: str
    topic: str = "context.build-requests"
    group: str = "context-build"
    client_id: str = "context-build"
    max_message_bytes: int = MIB
    commit_interval_seconds: float = 0.5
    buffered_requests: int = 512
    rebalance_seconds: float = 6.0
    rebalance_drain_seconds: float = 4.0
    session_seconds: float = 6.0


class BuildApp(faust.App):
    """A faust app that consumes one topic with one agent and stores nothing."""

    def __init__(self, config: BuildWorkerConfig, requests: BuildAgent) -> None:
        self.config = config
        self.requests = requests
        self.ready = asyncio.Event()
        super().__init__(config.group, **_faust_settings(config))
        topic = self.topic(
            config.topic,
            key_type=bytes,
            value_type=bytes,
            key_serializer="raw",
            value_serializer="raw",
            internal=False,
        )

        async def build(stream: StreamT[bytes]) -> None:
            await requests.consume(cast("Stream[bytes]", stream))

        self.agent(topic, name="build", concurrency=1)(build)

    @property
    def build_consumer(self) -> BuildConsumer:
        """The consumer, with the additions of workers/transport.py."""
        return cast("BuildConsumer", self.consumer)

    async def unfetched(self) -> int:
        """How many requests wait at the broker in this worker's partitions."""
        return await self.build_consumer.unfetched()

    async def places(self) -> dict[str, tuple[int, int]]:
        """For each of this worker's partitions the next offset that is fetched, and the end."""
        return await self.build_consumer.places()

    async def check(self) -> None:
        """Partitions are assigned, and the broker answers for them. Raises `Unavailable`.

        None at all is an assignment too: a member that stands by while others have them all.
        """
        if not self.ready.is_set():
            raise Unavailable("broker", f"partitions of {self.config.topic} are being assigned")
        await self.unfetched()

    def on_rebalance_start(self) -> None:
        """Called in the consumer's thread as soon as partitions may move."""
        self.ready.clear()
        super().on_rebalance_start()

    def on_rebalance_end(self) -> None:
        """Partitions are assigned, positions are set, records flow."""
        super().on_rebalance_end()
        self.ready.set()

    async def on_first_start(self) -> None:
        """Create no data directories: nothing is stored."""

    def _new_transport(self) -> TransportT:
        return BuildTransport(self.conf.broker_consumer, self)


def _faust_settings(config: BuildWorkerConfig) -> dict[str, Any]:
    servers = ",".join(part.strip() for part in config.bootstrap.split(","))
    return {
        "broker": f"kafka://{servers.replace(',', ';kafka://')}",
        "broker_client_id": config.client_id,
        "store": "memory://",
        "autodiscover": False,
        "web_enabled": False,
        "processing_guarantee": "at_least_once",
        "key_serializer": "raw",
        "value_serializer": "raw",
        "topic_allow_declare": False,
        "topic_disable_leader": True,
        "reply_create_topic": False,
        "table_standby_replicas": 0,
        "consumer_auto_offset_reset": "earliest",
        "consumer_max_fetch_size": config.max_message_bytes + MIB // 4,
        "broker_commit_interval": config.commit_interval_seconds,
        "broker_max_poll_records": config.buffered_requests,
        "broker_rebalance_timeout": config.rebalance_seconds,
        "broker_session_timeout": config.session_seconds,
        "broker_heartbeat_interval": config.session_seconds / 5,
        "stream_buffer_maxsize": config.buffered_requests,
        "stream_publish_on_commit": False,
        "stream_wait_empty": False,  # unbounded in faust; workers/transport.py drains with a bound
        "producer_acks": -1,
        "producer_threaded": False,
        "agent_supervisor": CrashingSupervisor,
    }
