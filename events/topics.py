"""The topics: their names, sizes and lifetimes, and the making of those that are missing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import get_args

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from context_engine.changes import AnyChange, Kind, kind_of
from context_engine.errors import Unavailable
from context_engine.settings import Settings
from events.away import away, reason

MIB = 1024 * 1024
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DEAD_LETTER_SUFFIX = "-dlt"
DEAD_LETTER_ROOM = 64 * 1024
"""What a dead letter's topic takes beyond its source: the headers that say why."""

REPLICAS = 3
"""Copies of each partition, where there are as many brokers."""

VISIBLE_SECONDS = 10.0
"""How long a topic that was made may take to show."""

ALREADY_THERE = 36
"""Kafka's error code for a topic that exists."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. Sizes in bytes (key, value and headers of one message), times in ms."""

    name: str
    partitions: int
    retention_ms: int
    max_message_bytes: int = MIB
    log_append_time: bool = False

    @property
    def dead_letters(self) -> Topic:
        return Topic(
            self.name + DEAD_LETTER_SUFFIX,
            self.partitions,
            14 * DAY_MS,
            self.max_message_bytes + DEAD_LETTER_ROOM,
        )

    def config(self) -> dict[str, str]:
        """The broker's words. Its size limit counts the framing too, so it gets some room."""
        return {
            "retention.ms": str(self.retention_ms),
            "max.message.bytes": str(self.max_message_bytes + 1024),
            "message.timestamp.type": "LogAppendTime" if self.log_append_time else "CreateTime",
        }


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic of this version, by its job."""

    build_requests: Topic
    ready: Topic
    evictions: Topic
    handled: Topic
    """Which dead letters were replayed or discarded: kept for longer than any of them. A broker
    removes whole segments, and one may hold letters that are a week older than its last."""
    by_kind: tuple[tuple[Kind, Topic], ...]

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """The topics with the names that the settings give."""
        kinds: tuple[Kind, ...] = get_args(Kind)
        return cls(
            build_requests=Topic(settings.topic_build_requests, 12, DAY_MS, log_append_time=True),
            ready=Topic(settings.topic_ready, 12, HOUR_MS, 4 * MIB),
            evictions=Topic(settings.topic_evictions, 3, DAY_MS),
            handled=Topic(settings.topic_handled, 1, 30 * DAY_MS, log_append_time=True),
            by_kind=tuple(
                (
                    kind,
                    Topic(settings.topic_domain_prefix + kind, 6, 7 * DAY_MS, log_append_time=True),
                )
                for kind in kinds
            ),
        )

    def change(self, kind: Kind) -> Topic:
        """The topic of one kind of change."""
        return dict(self.by_kind)[kind]

    def topic_for(self, change: AnyChange) -> Topic:
        """The topic that `change` travels on."""
        return self.change(kind_of(change))

    def changes(self) -> tuple[Topic, ...]:
        return tuple(topic for _, topic in self.by_kind)

    def dead_letter(self, name: str) -> Topic:
        """The dead letters of the topic of that name. Raises `KeyError` for a topic without."""
        return {topic.name: topic.dead_letters for topic in self._read()}[name]

    def _read(self) -> tuple[Topic, ...]:
        """The topics that a worker reads, and so may have to bury messages of."""
        return (self.build_requests, *self.changes())

    def all(self) -> tuple[Topic, ...]:
        own = (self.build_requests, self.ready, self.evictions, *self.changes())
        return (*own, *self.buried(), self.handled)

    def buried(self) -> tuple[Topic, ...]:
        """The topics of dead letters."""
        return tuple(topic.dead_letters for topic in self._read())


async def ensure(bootstrap: str, topics: Topics) -> None:
    """Makes the topics that are missing, and checks the partitions of those that are there.

    Raises `Unavailable` when the broker is away, or a topic has fewer partitions than stated.
    Topics are listed, never described, before they exist: some brokers make what is asked about.
    """
    async with _admin(bootstrap, "does not make topics") as admin:
        await _ensure(admin, topics)


async def look_for(bootstrap: str, wanted: Sequence[Topic]) -> None:
    """Raises `Unavailable` where the broker is away, or has one of the topics not.

    Without this a worker would wait for ever on what nobody can send to it.
    """
    async with _admin(bootstrap, "does not list topics") as admin:
        there = set(await admin.list_topics())
    for topic in wanted:
        if topic.name not in there:
            raise Unavailable(
                "broker",
                f"topic {topic.name!r} is not there; run `context-engine topics`, or correct the"
                " setting that names it",
            )


@asynccontextmanager
async def _admin(bootstrap: str, fault: str) -> AsyncIterator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap, request_timeout_ms=15_000)
    try:
        await admin.start()
        yield admin
    except (KafkaError, OSError) as error:
        raise away(bootstrap, f"{fault} ({reason(error)})") from error
    finally:
        await admin.close()


async def _ensure(admin: AIOKafkaAdminClient, topics: Topics) -> None:
    there = set(await admin.list_topics())
    missing = [topic for topic in topics.all() if topic.name not in there]
    if missing:
        cluster = await admin.describe_cluster()
        replicas = min(REPLICAS, max(1, len(cluster.get("brokers", ()))))
        made = await admin.create_topics(
            [
                NewTopic(topic.name, topic.partitions, replicas, topic_configs=topic.config())
                for topic in missing
            ]
        )
        for name, code, *reason in made.topic_errors:
            if code not in (0, ALREADY_THERE):
                raise Unavailable("broker", f"topic {name} cannot be made: {reason or code}")
    await _check(admin, topics)


async def _check(admin: AIOKafkaAdminClient, topics: Topics) -> None:
    found = await _partitions(admin, [topic.name for topic in topics.all()])
    for topic in topics.all():
        if found[topic.name] < topic.partitions:
            raise Unavailable(
                "broker",
                f"topic {topic.name} has {found[topic.name]} partitions and needs"
                f" {topic.partitions}: add some, or remove it and run `context-engine topics`",
            )


async def _partitions(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, int]:
    """How many partitions each topic has, once all show: Kafka answers before it has made them."""
    deadline = asyncio.get_running_loop().time() + VISIBLE_SECONDS
    while True:
        described = await admin.describe_topics(list(names))
        found = {topic["topic"]: len(topic["partitions"]) for topic in described}
        if hidden := [name for name in names if not found.get(name)]:
            if asyncio.get_running_loop().time() >= deadline:
                raise Unavailable("broker", f"topic {hidden[0]} was made and does not show")
            await asyncio.sleep(0.05)
        else:
            return found
