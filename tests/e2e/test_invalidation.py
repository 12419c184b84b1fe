"""The invalidation consumer between a real broker and a real cache: applied, buried, killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from redis.asyncio import Redis

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.changes import AnyChange, MemberChanged, MessageChanged, RecordsChanged
from context_engine.errors import Unavailable
from context_engine.invalidation import Invalidator
from context_engine.keys import Scope, Tag
from context_engine.ports import Evicted, Look, Marked, NewEntry, SessionWrite
from context_engine.settings import Settings
from events.client import ContextClient
from events.consumer import Consumer
from events.messages import ContextEvicted
from events.producer import Producer
from events.records import OutgoingRecord, Position, RawMessage
from events.topics import Topics
from tests.support.bus import Reader, make_topics, own_names, reader
from tests.support.schemas import validate_message
from workers import invalidate
from workers.house import settings_of
from workers.invalidate import ChangeApplier, next_offsets
from workers.localstack import LocalStack
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(120)

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


def announcements(seen: Sequence[RawMessage]) -> list[ContextEvicted]:
    return [
        ContextEvicted.model_validate_json(raw.value or b"")
        for raw in seen
        if raw.topic.endswith("evictions")
    ]


def buried(seen: Sequence[RawMessage]) -> list[RawMessage]:
    return [raw for raw in seen if raw.topic.endswith("-dlt")]


@pytest.fixture
async def line(stack: LocalStack, redis_url: str) -> AsyncIterator[Line]:
    env = stack.env() | own_names() | {"CONTEXT_REDIS_URL": redis_url}
    settings = settings_of(env)
    topics = await make_topics(settings)
    names = [topics.evictions.name, *(topic.dead_letters.name for topic in topics.changes())]
    producer = Producer(settings.kafka_bootstrap, client_id="test")
    async with (
        RedisCache(redis_url, settings) as cache,
        Redis.from_url(redis_url) as redis,
        ContextClient(settings) as client,
        reader(settings.kafka_bootstrap, *names) as told,
    ):
        await producer.start()
        yield Line(env, settings, topics, cache, redis, client, producer, told)
        await producer.stop()


# -- applied -----------------------------------------------------------------------------------


async def test_a_change_ends_what_it_made_untrue_and_says_so(line: Line) -> None:
    """The member who was removed loses contexts and sessions; nobody else does."""
    for who in (scope("u"), scope("x"), scope("u", "other")):
        await line.keep(who)
    change = MemberChanged(workspace_id="w", user_id="u", op="removed")
    async with line.consuming():
        place = await line.client.emit(change)
        [told] = await line.announced(change)
    assert not await line.holds(scope("u"))
    assert await line.cache.session(scope("u")) is None
    for who in (scope("x"), scope("u", "other")):
        assert await line.serves(who)
        assert await line.cache.session(who) is not None
    assert (told.topic, told.partition, told.offset) == (place.topic, place.partition, place.offset)
    assert (told.workspace_id, told.count, told.truncated) == ("w", 2, False)
    assert told.scope_keys == (scope("u").key,)
    secret = line.settings.tag_secret.get_secret_value()
    assert keys.seal(secret, "w", [keys.access("u")])[0] in told.tags
    assert [validate_message(raw) for raw in line.told.seen] == ["context.evicted"]


async def test_what_came_before_the_consumer_is_applied_when_it_starts(line: Line) -> None:
    """A new group reads from the beginning: no change is missed for being early."""
    await line.keep(scope("u"))
    change = MemberChanged(workspace_id="w", user_id="u", op="updated")
    await line.client.emit(change)
    async with line.consuming():
        await line.announced(change)
    assert not await line.serves(scope("u"))
    for committed, end in (await line.committed()).values():
        assert committed == end


async def test_an_edit_ends_the_contexts_that_read_the_field_and_no_others(line: Line) -> None:
    await line.keep(scope("u"), keys.value("t", "state"))
    await line.keep(scope("x"), keys.value("t", "name"))
    change = RecordsChanged(workspace_id="w", table_id="t", op="updated", field_ids=("state",))
    async with line.consuming():
        await line.client.emit(change)
        await line.announced(change)
    assert not await line.holds(scope("u"))
    assert await line.serves(scope("x"))


# -- unreadable --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "key", "left"),
    [
        (b"{", b"w", {"other"}),
        (None, b"w", {"other"}),
        (b'{"type": "never.heard", "workspaceId": "w"}', b"\xff", {"other"}),
        (b"{", b"\xff", set()),
        (b"{", None, set()),
    ],
    ids=["its key", "no value", "its data", "a broken key", "no key"],
)
async def test_what_cannot_be_read_ends_its_workspace_or_everything(
    line: Line, value: bytes | None, key: bytes | None, left: set[str]
) -> None:
    """It goes to the dead letters as it came, and the next change is applied as ever."""
    for workspace in ("w", "other"):
        await line.keep(scope("x", workspace))
    later = MemberChanged(workspace_id="third", user_id="u", op="added")
    async with line.consuming():
        place = await line.put(value, key=key)
        await line.told.until(lambda seen: bool(buried(seen)))
        await line.client.emit(later)
        await line.announced(later)
    for workspace in ("w", "other"):
        assert await line.serves(scope("x", workspace)) is (workspace in left)
        assert await line.cache.session(scope("x", workspace)) is not None
    [letter] = buried(line.told.seen)
    headers = dict(letter.headers)
    assert (letter.key, letter.value, letter.partition) == (key, value, place.partition)
    assert headers["kafka_dlt-original-topic"] == place.topic.encode()
    assert headers["kafka_dlt-original-offset"] == place.offset.to_bytes(8, "big")
    assert headers["kafka_dlt-exception-message"]
    for committed, end in (await line.committed()).values():
        assert committed == end


# -- killed ------------------------------------------------------------------------------------


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


class KilledCache(RedisCache):
    at: str = ""

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        if self.at == "before its marks":
            raise Killed
        return await super().mark_many(changes)

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        if self.at == "after its marks":
            raise Killed
        return await super().evict(workspace_id, tags)


@dataclass
class KilledProducer:
    producer: Producer
    at: str
    sent: int = 0

    async def send(self, record: OutgoingRecord) -> Position:
        self.sent += 1
        if self.at == "after its evictions" or (self.at == "while it tells" and self.sent == 2):
            raise Killed
        return await self.producer.send(record)


@pytest.mark.parametrize(
    "at",
    [
        "before its marks",
        "after its marks",
        "after its evictions",
        "while it tells",
        "before its commit",
    ],
)
async def test_killed_between_two_steps_redelivery_completes_it(line: Line, at: str) -> None:
    """Whatever was done by then, the next member does it all: marks, evictions, dead letter,
    announcements, position.
    """
    for who in (scope("u"), scope("x")):
        await line.keep(who)
    changes = [MemberChanged(workspace_id="w", user_id=user, op="removed") for user in ("u", "x")]
    for change in changes:
        await line.client.emit(change)
    await line.put(b"{", key=b"w")
    await _die(line, at)
    assert all(committed == 0 for committed, _ in (await line.committed()).values())
    if at != "before its marks":
        assert not await line.serves(scope("u")), "a mark once set stands, whoever dies"
    await line.told.everything()
    line.told.seen.clear()
    async with line.consuming():
        await line.announced(*changes)
        await line.told.until(lambda seen: bool(buried(seen)))
    for who in (scope("u"), scope("x")):
        assert not await line.holds(who)
        assert await line.cache.session(who) is None
    for committed, end in (await line.committed()).values():
        assert committed == end


async def _die(line: Line, at: str) -> None:
    """A member that takes all three messages, and dies at that step."""
    settings, names = line.settings, [topic.name for topic in line.topics.changes()]
    consumer = Consumer(
        settings.kafka_bootstrap, names, settings.invalidation_group, max_bytes=1_000_000
    )
    await consumer.start()
    try:
        async with KilledCache(settings.redis_url, settings) as cache, asyncio.timeout(30):
            cache.at = at
            dying = KilledProducer(line.producer, at)
            applier = ChangeApplier(Invalidator(cache), dying, line.topics, settings)
            batch: list[RawMessage] = []
            while len(batch) < 3:
                batch += await consumer.poll(0.5)
            with contextlib.suppress(Killed):
                await applier.apply(batch)
                assert at == "before its commit"
                assert sum(next_offsets(batch).values()) == 3
    finally:
        await consumer.stop()


async def test_processes_that_are_killed_or_told_to_leave_lose_no_change(
    line: Line, tmp_path: Path
) -> None:
    """Changes flow all the while; one member is killed, one joins, one is told to leave."""
    changes: list[AnyChange] = [
        MessageChanged(
            workspace_id=f"w{n % 11}", conversation_id="c", message_id=f"m{n}", op="added"
        )
        for n in range(300)
    ]

    async def flow(some: Sequence[AnyChange]) -> None:
        for change in some:
            await line.client.emit(change)

    first, second, third = (line.process(tmp_path / f"{n}.log") for n in range(3))
    try:
        await first.start()
        flowing = asyncio.create_task(flow(changes[:200]))
        await line.told.until(lambda seen: len(seen) > 20)
        os.kill(first.pid, signal.SIGKILL)
        await second.start()
        await third.start()
        await flowing
        flowing = asyncio.create_task(flow(changes[200:]))
        assert await second.stop() == ExitCode.OK
        await flowing
        await line.announced(*changes)
        assert await third.stop() == ExitCode.OK
    finally:
        for process in (first, second, third):
            await process.kill()
    for committed, end in (await line.committed()).values():
        assert committed == end


# -- parts that are away -----------------------------------------------------------------------


async def test_an_outage_of_the_cache_delays_changes_and_loses_none(line: Line) -> None:
    """Longer than one command's bound, shorter than the consumer's patience."""
    await line.keep(scope("u"))
    change = MemberChanged(workspace_id="w", user_id="u", op="updated")
    async with line.consuming():
        await line.redis.execute_command("CLIENT", "PAUSE", "2500", "ALL")
        await line.client.emit(change)
        await line.announced(change)
    assert not await line.serves(scope("u"))


def nowhere() -> str:
    """An address on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


async def test_a_part_that_is_away_at_the_start_is_named(
    line: Line, database_url: str, tmp_path: Path
) -> None:
    """Which one, where, and exit code 69; what a worker does not need it does not ask for."""

    async def left(name: str, variable: str, value: str) -> str:
        log = tmp_path / f"{name}-{variable}.log"
        process = WorkerProcess(name, line.env | {variable: value}, log)
        with pytest.raises(Unavailable, match="exit code 69") as told:
            await process.start()
        return told.value.message

    line.env["CONTEXT_DATABASE_URL"] = database_url
    database = f"postgresql+asyncpg://context@{nowhere()}/context"
    redis, broker = nowhere(), nowhere()
    said = await asyncio.gather(
        left("invalidate", "CONTEXT_REDIS_URL", f"redis://{redis}/0"),
        left("invalidate", "CONTEXT_KAFKA_BOOTSTRAP", broker),
        left("relay", "CONTEXT_DATABASE_URL", database),
        left("relay", "CONTEXT_KAFKA_BOOTSTRAP", broker),
    )
    assert "redis" in said[0]
    assert broker in said[1]
    assert broker in said[3]
    assert "database" in said[2]
    alone = line.process(tmp_path / "alone.log", CONTEXT_DATABASE_URL=database)
    await alone.start()
    assert await alone.stop() == ExitCode.OK
