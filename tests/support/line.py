"""The invalidation consumer's line under test: topics, a cache with contexts, what is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from redis.asyncio import Redis

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.changes import AnyChange
from context_engine.keys import Scope, Tag
from context_engine.ports import Look, NewEntry, SessionWrite
from context_engine.settings import Settings
from events.client import ContextClient
from events.messages import ContextEvicted
from events.producer import Producer
from events.records import OutgoingRecord, Position, RawMessage
from events.topics import Topics
from tests.support.bus import Reader, make_topics, own_names, reader
from workers import invalidate
from workers.house import settings_of
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

MEMBERSHIP = "membership"


def scope(user: str = "u", workspace: str = "w") -> Scope:
    return keys.scope_of(workspace, user, "s", None)


def whole(who: Scope) -> str:
    return keys.whole_name(who, keys.digest("one"))


@dataclass
class Line:
    """Topics and a group of this test's own, and a cache with contexts in it."""

    env: dict[str, str]
    settings: Settings
    topics: Topics
    cache: RedisCache
    redis: Redis
    client: ContextClient
    producer: Producer
    told: Reader

    async def keep(self, who: Scope, *tags: Tag) -> None:
        """A context and a session of `who`."""
        await self.cache.found(who.workspace_id)
        moment = (await self.cache.look(self._look(who))).moment
        assert moment is not None
        entry = NewEntry(
            whole(who),
            b"context",
            frozenset({keys.EVERYTHING, keys.access(who.user_id), *tags}),
            moment.clock,
            moment.now_ms,
            moment.now_ms + 300_000,
        )
        assert await self.cache.fill(moment, [entry], SessionWrite(who, b"{}", "", 3_600))

    async def serves(self, who: Scope) -> bool:
        return (await self.cache.look(self._look(who))).whole is not None

    async def holds(self, who: Scope) -> bool:
        """Whether the context's bytes still lie there, served or not."""
        return bool(await self.redis.exists(whole(who)))

    @staticmethod
    def _look(who: Scope) -> Look:
        return Look(who, whole(who), keys.surface_name(who.workspace_id, keys.digest("none")))

    async def announced(self, *changes: AnyChange) -> list[ContextEvicted]:
        """All announcements, once each of `changes` has one."""
        wanted = {change.change_id for change in changes}
        await self.told.until(lambda seen: wanted <= {one.change_id for one in announcements(seen)})
        return announcements(self.told.seen)

    async def put(
        self, value: bytes | None, *, key: bytes | None, kind: str = MEMBERSHIP
    ) -> Position:
        """Publishes what is no change."""
        topic = self.settings.topic_domain_prefix + kind
        return await self.producer.send(OutgoingRecord(topic, key, value))

    @asynccontextmanager
    async def consuming(self) -> AsyncIterator[None]:
        """The consumer runs in this process while the block does, and leaves in order."""
        stop, ready = asyncio.Event(), asyncio.Event()
        work = asyncio.create_task(invalidate.run(self.settings, ready=ready.set, stop=stop))
        try:
            async with asyncio.timeout(40):
                await ready.wait()
            yield
        finally:
            stop.set()
            assert await work == ExitCode.OK

    def process(self, log: Path, **more: str) -> WorkerProcess:
        return WorkerProcess("invalidate", self.env | more, log)

    async def committed(self) -> dict[TopicPartition, tuple[int, int]]:
        """For each partition with records: what the group committed, and where it ends."""
        async with AIOKafkaConsumer(
            bootstrap_servers=self.settings.kafka_bootstrap,
            group_id=self.settings.invalidation_group,
            enable_auto_commit=False,
        ) as client:
            known = await client._client.fetch_all_metadata()
            places = [
                TopicPartition(topic.name, number)
                for topic in self.topics.changes()
                for number in known.partitions_for_topic(topic.name)
            ]
            ends = await client.end_offsets(places)
            return {p: (await client.committed(p) or 0, end) for p, end in ends.items() if end}

    async def behind(self) -> dict[TopicPartition, tuple[int, int]]:
        """The part of `committed` whose ends the group has not reached."""
        found = await self.committed()
        return {place: (at, end) for place, (at, end) in found.items() if at != end}


def announcements(seen: Sequence[RawMessage]) -> list[ContextEvicted]:
    return [
        ContextEvicted.model_validate_json(raw.value or b"")
        for raw in seen
        if raw.topic.endswith("evictions")
    ]


def buried(seen: Sequence[RawMessage]) -> list[RawMessage]:
    return [raw for raw in seen if raw.topic.endswith("-dlt")]


@asynccontextmanager
async def line_of(env: dict[str, str]) -> AsyncIterator[Line]:
    """A line over the broker and cache that `env` names, under names of its own."""
    env = env | own_names()
    settings = settings_of(env)
    topics = await make_topics(settings)
    names = [topics.evictions.name, *(topic.dead_letters.name for topic in topics.changes())]
    producer = Producer(settings.kafka_bootstrap, client_id="test")
    async with (
        RedisCache(settings.redis_url, settings) as cache,
        Redis.from_url(settings.redis_url) as redis,
        ContextClient(settings) as client,
        reader(settings.kafka_bootstrap, *names) as told,
    ):
        await producer.start()
        yield Line(env, settings, topics, cache, redis, client, producer, told)
        await producer.stop()
