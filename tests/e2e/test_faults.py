"""Workers killed, told to stop, fed what is no change, and started where a part is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest
from sqlalchemy import text

from context_engine.adapters.sql.engine import create_engine
from context_engine.bootstrap import Parts
from context_engine.changes import MemberChanged
from context_engine.errors import Unavailable
from context_engine.models import ContextBuildInput
from context_engine.settings import Settings
from events.client import ContextClient
from events.messages import BuildOptions, ContextEvicted
from events.producer import Producer
from events.records import Headers, OutgoingRecord
from events.subscription import Subscription
from events.tail import Tail
from events.topics import MIB, Topics
from workers.house import until_live
from workers.runner import ExitCode
from workers.supervisor import WorkerProcess

pytestmark = pytest.mark.timeout(90)

GOOD = ContextBuildInput(user_id="ana", workspace_id="w", table_ids=("t0",))
REQUESTS = 50
WAIT_SECONDS = 40.0
NOWHERE = "127.0.0.1:1"
"""Where nobody listens."""


@asynccontextmanager
async def dead(worker: WorkerProcess) -> AsyncIterator[None]:
    """The worker is killed when the block begins and ready again after it."""
    await worker.kill()
    try:
        yield
    finally:
        await worker.start()


async def announced(
    evictions: Subscription[ContextEvicted], *, change_id: str | None = None, type: str = ""
) -> ContextEvicted:
    """The announcement of that change, or the next one of that type."""
    async with asyncio.timeout(WAIT_SECONDS):
        async for found in evictions:
            if found.change_id == change_id or found.change_type == type:
                return found
    raise AssertionError("unreachable: a subscription does not end")


async def cached(client: ContextClient) -> None:
    """Asks until it is answered from the cache: while changes travel, an answer may not stay."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (await client.request(GOOD)).source != "cache":
            pass


async def test_a_change_of_while_the_consumer_was_dead_is_applied(
    client: ContextClient, house: dict[str, WorkerProcess], settings: Settings
) -> None:
    """Nothing is skipped: the change waits, and takes effect once a consumer is back."""
    change = MemberChanged(workspace_id="w", user_id="ana", op="updated")
    async with client.subscribe_evictions("w") as evictions:
        await cached(client)
        async with dead(house["invalidate"]):
            await client.emit(change)
        await announced(evictions, change_id=change.change_id)
    await until_live(settings)
    assert (await client.request(GOOD)).source == "build"


@asynccontextmanager
async def standstill(settings: Settings, *, waiting: int) -> AsyncIterator[None]:
    """Builds stand still in the database; the block begins when so many of them do."""
    database = create_engine(settings)
    try:
        async with database.connect() as holder, asyncio.timeout(WAIT_SECONDS):
            await holder.execute(text("LOCK TABLE users IN ACCESS EXCLUSIVE MODE"))
            stuck = text(
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'users'::regclass"
            )
            while (await holder.execute(stuck)).scalar_one() < waiting:
                pass
            yield
            await holder.rollback()
    finally:
        await database.dispose()


async def test_requests_in_flight_when_the_worker_dies_are_answered(
    client: ContextClient, house: dict[str, WorkerProcess], settings: Settings
) -> None:
    """Fifty taken and not one answered: the next worker answers each."""
    fresh = BuildOptions(fresh=True)
    # Each another question: equal ones are one build.
    questions = (GOOD.model_copy(update={"message": f"question {n}"}) for n in range(REQUESTS))
    asked = [
        asyncio.create_task(client.request(one, options=fresh, timeout=WAIT_SECONDS))
        for one in questions
    ]
    async with standstill(settings, waiting=settings.workspace_builds):
        assert not any(task.done() for task in asked)
        await house["build"].kill()
    await house["build"].start()
    answers = await asyncio.gather(*asked)
    assert [ready.context.user.id for ready in answers] == ["ana"] * REQUESTS


async def test_a_write_of_while_the_relay_was_dead_is_published(
    client: ContextClient, parts: Parts, house: dict[str, WorkerProcess]
) -> None:
    """What the domain committed is not lost with the process that would have published it."""
    async with client.subscribe_evictions("w") as evictions:
        async with dead(house["relay"]):
            written = await parts.services.members.set("ana", "w", "bob", role="editor")
        await announced(evictions, change_id=written.changes[0].change_id)
    await parts.services.members.set("ana", "w", "bob", role="viewer")


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"w", b"{", ()),
        (b"w", None, ()),
        (b"\xff", b'{"data": {"workspaceId": "w"}}', (("ce_type", b"\xff"),)),
    ],
    ids=["not JSON", "no value", "named in its data"],
)
async def test_what_is_no_change_is_buried_and_its_workspace_starts_anew(
    client: ContextClient,
    settings: Settings,
    key: bytes,
    value: bytes | None,
    headers: Headers,
) -> None:
    """It may have been any change, so nothing older is served; and the consumer goes on."""
    change = MemberChanged(workspace_id="w", user_id="ana", op="updated")
    topic, mark = Topics.of(settings).topic_for(change), token_hex(8).encode()
    producer = Producer(settings.kafka_bootstrap, client_id="test-faults")
    tail = Tail(settings.kafka_bootstrap, (topic.dead_letters.name,), max_bytes=MIB)
    await producer.start()
    try:
        await tail.start()
        await cached(client)
        async with client.subscribe_evictions("w") as evictions:
            marked = (*headers, ("mark", mark))
            await producer.send(OutgoingRecord(topic.name, key, value, marked))
            await announced(evictions, type="unreadable")
            assert (await client.request(GOOD)).source == "build"
            async with asyncio.timeout(WAIT_SECONDS):
                async for buried in tail.messages():
                    if ("mark", mark) in buried.headers:
                        break
            assert (buried.key, buried.value) == (key, value)
            assert dict(buried.headers)["kafka_dlt-exception-message"]
            await client.emit(change)
            await announced(evictions, change_id=change.change_id)
    finally:
        await tail.stop()
        await producer.stop()


async def left_at_start(name: str, env: dict[str, str], log: Path, *, bound: float = 60.0) -> str:
    """What a worker says that leaves at its start, with the code for a part that is away."""
    worker = WorkerProcess(name, env, log)
    with pytest.raises(Unavailable, match=f"exit code {int(ExitCode.UNAVAILABLE)} at the start"):
        await worker.start(timeout=bound)
    return await asyncio.to_thread(log.read_text)


@pytest.mark.any_broker
async def test_a_part_that_is_away_at_the_start_is_named(
    env: dict[str, str], tmp_path: Path
) -> None:
    """Which part, where, and a code, within a bound; a database's password is not told."""
    database = {"CONTEXT_DATABASE_URL": f"postgresql+asyncpg://me:secret@{NOWHERE}/context"}
    broker = {"CONTEXT_KAFKA_BOOTSTRAP": NOWHERE}
    redis = {"CONTEXT_REDIS_URL": f"redis://{NOWHERE}/0"}
    away = {
        ("build", "database"): database,
        ("relay", "database"): database,
        ("relay", "broker"): broker,
        ("invalidate", "broker"): broker,
        ("invalidate", "redis"): redis,
    }
    said = await asyncio.gather(
        *(
            left_at_start(name, env | wrong, tmp_path / f"{name}-{part}")
            for (name, part), wrong in away.items()
        )
    )
    for words, (_, part) in zip(said, away, strict=True):
        (last,) = [line for line in words.splitlines() if line.startswith("cannot start: ")]
        assert part in last
        assert NOWHERE in last
        assert "secret" not in words


async def test_a_signal_ends_each_worker_in_order(
    client: ContextClient, house: dict[str, WorkerProcess]
) -> None:
    """SIGTERM: exit code 0, and the next ones take over."""
    try:
        codes = await asyncio.gather(*(worker.stop() for worker in house.values()))
    finally:
        await asyncio.gather(*(worker.start() for worker in house.values()))
    assert codes == [ExitCode.OK] * len(house)
    assert (await client.request(GOOD)).context.user.id == "ana"
