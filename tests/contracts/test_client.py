"""`ContextClient`, topics and consumer on a real broker, against a worker that echoes."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from context_engine.changes import AnyChange, MemberChanged, TableChanged, domain_change
from context_engine.errors import (
    ContextEngineError,
    InvalidRequest,
    NotFound,
    Unavailable,
    UnsupportedOption,
)
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events import cloudevents, messages
from events.answers import ReplyTimeout
from events.client import ContextClient
from events.consumer import Consumer
from events.messages import BuildFailed, BuildOptions, BuildRequest, ContextReady
from events.producer import Producer
from events.records import OutgoingRecord, RawMessage
from events.tail import Tail
from events.topics import Topics, ensure
from tests.support.echo import echo, settings_for, worker
from tests.support.schemas import validate_message


@pytest.fixture
async def settings(kafka_bootstrap: str) -> Settings:
    """Topics of this test's own."""
    made = settings_for(kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await ensure(kafka_bootstrap, Topics.of(made))
    return made


def where(user: str = "u", workspace: str = "w", **more: object) -> ContextBuildInput:
    return ContextBuildInput.model_validate({"userId": user, "workspaceId": workspace, **more})


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def publishing(settings: Settings) -> AsyncIterator[Producer]:
    """A producer that stops in any case."""
    producer = Producer(settings.kafka_bootstrap, client_id="test")
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


# -- asking ------------------------------------------------------------------------------------


async def test_a_request_gets_its_answer(settings: Settings) -> None:
    """Keyed by the scope, valid by the schema, with nothing that the caller left out."""
    async with worker(settings) as seen, ContextClient(settings) as client:
        ready = await client.request(where(viewId=None), request_id="r1")
    assert (ready.request_id, ready.context.user.id, ready.source) == ("r1", "u", "build")
    assert len(seen) == 1
    asked = BuildRequest.model_validate_json(seen[0].value or b"")
    assert asked.input.model_fields_set == {"user_id", "workspace_id", "view_id"}


async def test_one_scope_keeps_to_one_partition(settings: Settings) -> None:
    """Requests of one dialogue stay in order; another user is another key."""
    async with worker(settings) as seen, ContextClient(settings) as client:
        for user in ("u", "u", "v"):
            await client.request(where(user, sessionId="s"))
    keys = Counter(raw.key for raw in seen)
    assert sorted(keys.values()) == [1, 2]


async def test_500_at_once_each_get_their_own(settings: Settings) -> None:
    """More than may be in flight: the rest wait for their turn, no answer is mixed up."""
    most = 0

    def counted(request: BuildRequest) -> bytes:
        nonlocal most
        most = max(most, len(client._waiting))
        return echo(request)

    users = [f"u{n % 50}" for n in range(500)]
    async with worker(settings, counted), ContextClient(settings) as client:
        answers = await asyncio.gather(*(client.request(where(user)) for user in users))
    assert [ready.context.user.id for ready in answers] == users
    assert 1 < most <= settings.max_in_flight


async def test_failures_arrive_as_typed_errors(settings: Settings) -> None:
    """The engine's code decides the class; its words are kept."""
    kinds: dict[str, type[ContextEngineError]] = {
        "a": NotFound,
        "b": InvalidRequest,
        "c": UnsupportedOption,
        "d": Unavailable,
    }
    codes = {user: kind.code for user, kind in kinds.items()}

    def refuse(request: BuildRequest) -> BuildFailed:
        code = codes[request.input.user_id]
        return BuildFailed(
            request_id=request.request_id,
            code=code,
            message=f"because {code}",
            retryable=code == "unavailable",
        )

    async with worker(settings, refuse), ContextClient(settings) as client:
        for user, kind in kinds.items():
            with pytest.raises(kind, match=f"because {codes[user]}"):
                await client.request(where(user))


async def test_no_answer_is_a_timeout_and_leaves_nothing(settings: Settings) -> None:
    """In its time, naming the remedy; a reply that comes late or to nobody disturbs nobody."""
    async with worker(settings, lambda _: None), ContextClient(settings) as client:
        await asyncio.gather(
            *(_times_out(client, n) for n in range(3)),
        )
        assert not client._waiting
    async with worker(settings), ContextClient(settings) as client:
        await _publish_garbage(settings)
        assert (await client.request(where(), request_id="late")).request_id == "late"


async def _times_out(client: ContextClient, n: int) -> None:
    began = time.monotonic()
    with pytest.raises(ReplyTimeout, match="is a build worker running"):
        await client.request(where(f"u{n}"), timeout=1.0)
    assert time.monotonic() - began < 5


async def _publish_garbage(settings: Settings) -> None:
    """Replies to nobody, and things that are no replies."""
    headers, value = cloudevents.encode(type=messages.READY, source="x", id="i", data=b"{}")
    async with publishing(settings) as producer:
        for key, what in ((b"nobody", value), (None, b"x"), (b"\xff", None), (b"", b"\xff")):
            await producer.send(OutgoingRecord(settings.topic_ready, key, what, headers))


async def test_a_garbled_reply_is_unavailable(settings: Settings) -> None:
    """What answers the request and cannot be read is said to be so, at once."""
    async with worker(settings, lambda _: b'{"context":1}'), ContextClient(settings) as client:
        with pytest.raises(Unavailable, match="cannot be read"):
            await client.request(where())


async def test_what_the_topic_cannot_take_is_refused_before_it_is_sent(settings: Settings) -> None:
    """A message over the limit of its topic, an id that is none; one below the limit goes."""
    async with worker(settings, lambda _: None) as seen, ContextClient(settings) as client:
        large = where(message="語" * 190_000, metadata={"a": "b" * 65_000})
        with pytest.raises(InvalidRequest, match="takes at most"):
            await client.request(large.model_copy(update={"message": "語" * 350_000}))
        with pytest.raises(InvalidRequest, match="request_id"):
            await client.request(where(), request_id="")
        table = TableChanged(workspace_id="w", table_id="t", op="renamed")
        with pytest.raises(InvalidRequest, match="takes at most"):
            await client.emit(table.model_copy(update={"table_id": "t" * 2**20}))
        with pytest.raises(ReplyTimeout):
            await client.request(large, timeout=1.0)
        assert len(seen) == 1


async def test_an_id_is_in_flight_once(settings: Settings) -> None:
    """The same id twice at a time could not be told apart; later it may be used again."""
    asked = asyncio.Event()
    async with ContextClient(settings) as client:
        async with worker(settings, lambda _: asked.set()):
            first = asyncio.create_task(client.request(where(), request_id="same"))
            await asked.wait()
            with pytest.raises(InvalidRequest, match="in flight"):
                await client.request(where(), request_id="same")
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
        async with worker(settings):
            assert (await client.request(where(), request_id="same")).request_id == "same"


async def test_closing_ends_who_waits(settings: Settings) -> None:
    """A request that waits when the client is closed fails at once, and closing is bounded."""
    client, asked = ContextClient(settings), asyncio.Event()
    async with worker(settings, lambda _: asked.set()), asyncio.timeout(20):
        async with client:
            waiting = asyncio.create_task(client.request(where(), timeout=60))
            await asked.wait()
        with pytest.raises(Unavailable, match="closed"):
            await waiting


async def test_options_travel(settings: Settings) -> None:
    """As they were given; those left out stay out."""
    async with worker(settings) as seen, ContextClient(settings) as client:
        await client.request(where(), options=BuildOptions(fresh=True))
    asked = BuildRequest.model_validate_json(seen[0].value or b"")
    assert asked.options.model_fields_set == {"fresh"}


# -- a broker that is away, topics that are missing ---------------------------------------------


async def test_a_broker_that_is_away_is_named() -> None:
    """Address and setting, within a bound, from each part; nothing is left open."""
    nowhere = settings_for(f"127.0.0.1:{free_port()}")
    with pytest.raises(Unavailable, match="CONTEXT_KAFKA_BOOTSTRAP"):
        await ensure(nowhere.kafka_bootstrap, Topics.of(nowhere))
    with pytest.raises(Unavailable, match="CONTEXT_KAFKA_BOOTSTRAP"):
        async with ContextClient(nowhere):
            pass
    subscription = ContextClient(nowhere).subscribe_evictions()
    with pytest.raises(Unavailable, match="CONTEXT_KAFKA_BOOTSTRAP"):
        await anext(subscription)
    consumer = Consumer(nowhere.kafka_bootstrap, ["t"], "g", max_bytes=1)
    with pytest.raises(Unavailable, match="CONTEXT_KAFKA_BOOTSTRAP") as told:
        await consumer.start()
    assert "AddressFamily" not in told.value.message


async def test_missing_topics_are_named_with_their_remedy(kafka_bootstrap: str) -> None:
    """A client before the topics were made says what makes them, and does not make them."""
    missing = settings_for(kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    async with ContextClient(missing) as client:
        for _ in range(2):
            with pytest.raises(Unavailable, match="context-engine topics"):
                await anext(client.subscribe_ready())
        with pytest.raises(Unavailable, match="context-engine topics"):
            await client.request(where())
    await ensure(kafka_bootstrap, Topics.of(missing))
    async with worker(missing), ContextClient(missing) as client:
        await client.request(where())


async def test_topics_are_made_once_and_checked(settings: Settings) -> None:
    """Making them again changes nothing; too few partitions are named with both numbers."""
    topics = Topics.of(settings)
    await ensure(settings.kafka_bootstrap, topics)
    small = settings.model_copy(update={"topic_evictions": f"t{secrets.token_hex(4)}.small"})
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.kafka_bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(small.topic_evictions, 1, 1)])
        there = await admin.describe_topics([topic.name for topic in topics.all()])
    finally:
        await admin.close()
    assert {t["topic"]: len(t["partitions"]) for t in there} == {
        topic.name: topic.partitions for topic in topics.all()
    }
    with pytest.raises(Unavailable, match="has 1 partitions and needs 3"):
        await ensure(settings.kafka_bootstrap, Topics.of(small))


# -- emitting and subscribing --------------------------------------------------------------------


CHANGES: tuple[AnyChange, ...] = (
    TableChanged(workspace_id="w", table_id="t", op="renamed"),
    MemberChanged(workspace_id="w", user_id="u", op="removed"),
    MemberChanged(workspace_id="other", user_id="u", op="removed"),
)


async def test_emitted_changes_are_seen_where_the_position_says(settings: Settings) -> None:
    """On their kind's topic, keyed by workspace; subscribers see them in their workspace."""
    async with (
        asyncio.timeout(30),
        ContextClient(settings) as client,
        client.subscribe_changes("w") as ours,
        client.subscribe_changes() as everything,
    ):
        positions = [await client.emit(change) for change in CHANGES]
        assert {p.topic for p in positions} == {
            settings.topic_domain_prefix + kind for kind in ("schema-change", "membership")
        }
        assert {(await anext(ours)).change_id for _ in CHANGES[:2]} == {
            change.change_id for change in CHANGES[:2]
        }
        assert len({(await anext(everything)).change_id for _ in CHANGES}) == 3
        again = await client.emit(CHANGES[0])
        assert again.offset > positions[0].offset


async def test_what_was_there_before_is_not_seen(settings: Settings) -> None:
    """Not even where the last batch of a partition holds several records, old as a whole."""
    topic = Topics.of(settings).evictions.name
    async with AIOKafkaProducer(bootstrap_servers=settings.kafka_bootstrap) as client:
        batch = client.create_batch()
        for number in range(7):
            batch.append(key=None, value=b"old %d" % number, timestamp=None)
        batch.close()
        await (await client.send_batch(batch, topic, partition=1))
        tail = Tail(settings.kafka_bootstrap, [topic], max_bytes=2**20)
        await tail.start()
        try:
            for partition in range(3):
                await client.send_and_wait(topic, b"new", partition=partition)
            seen: list[RawMessage] = []
            async with asyncio.timeout(15):
                while len(seen) < 3:
                    seen += await tail.poll()
        finally:
            await tail.stop()
    assert [raw.value for raw in seen] == [b"new"] * 3


async def test_ready_contexts_are_seen_by_their_workspace(settings: Settings) -> None:
    """Whoever asked; failures are not among them."""
    seen: list[ContextReady] = []
    async with (
        asyncio.timeout(30),
        worker(settings),
        ContextClient(settings) as client,
        client.subscribe_ready("w") as ready,
    ):
        await client.request(where(workspace="other"))
        asked = await client.request(where())
        seen.append(await anext(ready))
    assert seen == [asked]


# -- the consumer of changes ---------------------------------------------------------------------


async def _read(consumer: Consumer, count: int) -> list[RawMessage]:
    found: list[RawMessage] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await consumer.poll(0.2)
    return found


async def test_the_consumer_resumes_from_what_was_committed(settings: Settings) -> None:
    """From the beginning at first; after a commit from there; after a `seek` from where it says."""
    topics = [topic.name for topic in Topics.of(settings).changes()]

    def consumer() -> Consumer:
        return Consumer(settings.kafka_bootstrap, topics, "g", max_bytes=2**20, session_ms=1_500)

    changes = [MemberChanged(workspace_id="w", user_id=f"u{n}", op="removed") for n in range(5)]
    async with ContextClient(settings) as client:
        for change in changes:
            await client.emit(change)
    first = consumer()
    await first.start()
    batch = await _read(first, 5)
    for raw in batch:
        assert validate_message(raw) == "domain.member.changed"
    read = [domain_change.validate_json(raw.value or b"") for raw in batch]
    assert read == changes
    place = (batch[0].topic, batch[0].partition)
    await first.commit({place: batch[2].offset, ("not-mine", 0): 7})
    await first.stop()
    second = consumer()
    await second.start()
    assert await _read(second, 3) == batch[2:]
    second.seek(*place, batch[4].offset)
    assert await _read(second, 1) == batch[4:]
    with pytest.raises(Unavailable, match=r"not-mine\[0\] is not this member's"):
        second.seek("not-mine", 0, 0)
    await second.stop()
