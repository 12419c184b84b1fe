"""The relay between a real outbox and a real broker: at least once, nothing lost."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from structlog.testing import capture_logs

from context_engine.adapters.sql.outbox import SqlOutbox
from context_engine.adapters.sql.services import DomainServices
from context_engine.adapters.sql.snapshots import SqlSnapshots
from context_engine.changes import AnyChange, domain_change, kind_of
from context_engine.errors import Unavailable
from context_engine.ports import OutboxBatch, OutboxSource, SnapshotRecord
from context_engine.settings import Settings
from events import cloudevents, messages
from events.producer import Producer, RecordTooLarge
from events.records import OutgoingRecord, Position
from events.topics import Topics
from tests.support.bus import Reader, event_ids, make_topics, own_names, reader
from tests.support.schemas import validate_message
from tests.support.services import ANA, outbox
from tests.support.spans import seen_here, told
from workers.backoff import Patience
from workers.house import settings_of
from workers.localstack import LocalStack
from workers.relay import BATCH, Relay, relay, run
from workers.runner import ExitCode


@dataclass
class Line:
    """An outbox, a broker, and all that came out."""

    settings: Settings
    topics: Topics
    source: SqlOutbox
    producer: Producer
    reader: Reader
    database: AsyncEngine

    @property
    def relay(self) -> Relay:
        return Relay(self.source, self.producer, self.topics)

    async def changes(self) -> list[AnyChange]:
        """What the domain committed."""
        return [domain_change.validate_python(row.payload) for row in await outbox(self.database)]


@pytest.fixture
async def line(
    stack: LocalStack, services: DomainServices, database: AsyncEngine
) -> AsyncIterator[Line]:
    settings = settings_of(stack.env() | own_names())
    topics = await make_topics(settings)
    source = SqlOutbox(database)
    producer = Producer(settings.kafka_bootstrap, client_id="test", timeout=5.0)
    await producer.start()
    names = [topic.name for topic in topics.changes()]
    try:
        async with reader(settings.kafka_bootstrap, *names) as reading:
            yield Line(settings, topics, source, producer, reading, database)
    finally:
        await producer.stop()
        await source.close()


async def test_a_relay_that_looks_at_no_spans_passes_on_the_trace_of_a_write(
    line: Line, services: DomainServices
) -> None:
    """Who reads the change goes on with it; a change that was written outside of any names none."""
    await services.workspaces.rename(ANA, "w", name="Untraced")
    with seen_here() as kept:
        await services.workspaces.rename(ANA, "w", name="Traced")
        [wrote] = [told(one) for one in kept.get_finished_spans() if one.name == "write"]
    await line.relay.publish()
    found = [dict(raw.headers).get("traceparent") for raw in await line.reader.everything()]
    traces = [value.split(b"-")[1].decode() for value in found if value is not None]
    assert traces == [wrote.trace]


async def test_every_change_is_published_as_it_was_committed(line: Line) -> None:
    """On the topic of its kind, under its workspace, with its own id and time."""
    assert await line.relay.publish() > 10
    assert await line.relay.publish() == 0
    published = {cloudevents.decode(raw).id: raw for raw in await line.reader.everything()}
    changes = await line.changes()
    assert published.keys() == {change.change_id for change in changes}
    for change in changes:
        raw = published[change.change_id]
        event = cloudevents.decode(raw)
        assert raw.topic == line.topics.change(kind_of(change)).name
        assert raw.key == b"w"
        assert event.type == messages.change_type(change)
        assert domain_change.validate_json(event.data) == change
        assert event.time is not None
        assert validate_message(raw) == event.type
    assert await line.source.lag() is None


async def test_several_relays_share_the_work(line: Line, services: DomainServices) -> None:
    """Each row is published by one of them, as long as none dies."""
    for number in range(40):
        await services.records.update(ANA, "w", "tbl", "r1", {"name": f"Name {number}"})
    await asyncio.gather(*(line.relay.publish() for _ in range(4)))
    await line.relay.publish()
    ids = event_ids(await line.reader.everything())
    assert sorted(ids) == sorted(change.change_id for change in await line.changes())


# -- killed ------------------------------------------------------------------------------------


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs, the connection goes."""


class DiesBeforeNoting:
    """An outbox whose relay is killed once the broker has everything."""

    def __init__(self, source: SqlOutbox) -> None:
        self._source = source

    @asynccontextmanager
    async def claim(self, limit: int) -> AsyncIterator[OutboxBatch]:
        async with self._source.claim(limit) as batch:
            yield _Dying(batch)

    async def wait(self, timeout: float) -> bool:
        return await self._source.wait(timeout)

    async def clean(self, older_than: timedelta) -> int:
        return await self._source.clean(older_than)

    async def lag(self) -> timedelta | None:
        return await self._source.lag()

    async def close(self) -> None:
        await self._source.close()


class _Dying:
    def __init__(self, batch: OutboxBatch) -> None:
        self.rows = batch.rows

    async def published(self, ids: object) -> None:
        raise Killed

    async def refused(self, ids: object) -> None:
        raise Killed


@dataclass
class Sends:
    """A producer that fails at one record."""

    producer: Producer
    fails_at: int
    fault: BaseException
    sent: int = 0

    async def send(self, record: OutgoingRecord) -> Position:
        self.sent += 1
        if self.sent == self.fails_at:
            raise self.fault
        return await self.producer.send(record)


async def test_killed_after_the_broker_had_it_everything_is_published_again(line: Line) -> None:
    """Twice, never not at all: the consumer does not mind."""
    dying: OutboxSource = DiesBeforeNoting(line.source)
    with pytest.raises(Killed):
        await Relay(dying, line.producer, line.topics).publish()
    await line.relay.publish()
    times = Counter(event_ids(await line.reader.everything()))
    assert times == {change.change_id: 2 for change in await line.changes()}


async def test_killed_in_the_middle_nothing_is_lost(line: Line) -> None:
    sends = Sends(line.producer, 5, Killed())
    with pytest.raises(Killed):
        await Relay(line.source, sends, line.topics).publish()
    await line.relay.publish()
    times = Counter(event_ids(await line.reader.everything()))
    assert times.keys() == {change.change_id for change in await line.changes()}


# -- parts that fail ---------------------------------------------------------------------------


async def test_a_change_that_its_topic_refuses_holds_up_no_other(line: Line) -> None:
    """It stays in the outbox, where the lag shows it, and is tried again when it is due."""
    sends = Sends(line.producer, 3, RecordTooLarge("too large"))
    assert await Relay(line.source, sends, line.topics).publish() == len(await line.changes())
    published = event_ids(await line.reader.everything())
    assert len(published) == len(await line.changes()) - 1
    assert await line.source.lag() is not None
    assert await line.relay.publish() == 0
    await _make_due(line)
    assert await line.relay.publish() == 1
    assert await line.source.lag() is None


async def _make_due(line: Line) -> None:
    async with line.database.begin() as connection:
        await connection.execute(text("UPDATE outbox SET retry_at = now() WHERE attempts > 0"))


async def test_a_whole_batch_of_refused_changes_holds_up_no_other(line: Line) -> None:
    """Those behind it are published at once; one line of the log tells of the whole batch."""
    while await line.relay.publish():
        pass
    async with line.database.begin() as connection:
        bad = (
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
            " SELECT gen_random_uuid(), 'record-edit', 'w', 'records.changed',"
            " jsonb_build_object('pad', repeat('x', 3000)) FROM generate_series(1, :many)"
        )
        await connection.execute(text(bad), {"many": BATCH + 1})
        good = (
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)"
            " SELECT gen_random_uuid(), aggregatetype, aggregateid, type, payload"
            " FROM outbox WHERE published_at IS NOT NULL LIMIT 1 RETURNING id::text"
        )
        wanted = (await connection.execute(text(good))).scalar_one()
    limits = {topic.name: 2_000 for topic in line.topics.all()}
    producer = Producer(
        line.settings.kafka_bootstrap, client_id="test", max_record_bytes=limits, timeout=5.0
    )
    await producer.start()
    stop = asyncio.Event()
    relaying = Relay(line.source, producer, line.topics)
    with capture_logs() as logs:
        work = asyncio.create_task(relay(relaying, line.source, stop, Patience(5.0)))
        await line.reader.until(lambda seen: wanted in event_ids(seen))
        stop.set()
        assert await work == ExitCode.OK
    await producer.stop()
    told = [one for one in logs if one["log_level"] == "error"]
    assert sum(one["changes"] for one in told) == BATCH + 1
    assert len(told) == 2


async def test_a_refused_change_is_tried_ever_less_often(line: Line) -> None:
    """5 s, 10 s, 20 s and so on, at most ten minutes."""
    pauses = []
    for _ in range(9):
        sends = Sends(line.producer, 1, RecordTooLarge("too large"))
        await Relay(line.source, sends, line.topics).publish()
        async with line.database.begin() as connection:
            left = "SELECT extract(epoch FROM retry_at - now()) FROM outbox WHERE attempts > 0"
            pauses.append(round(float((await connection.execute(text(left))).scalar_one())))
        await _make_due(line)
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 600, 600]


async def test_without_its_broker_the_relay_leaves_and_keeps_everything(line: Line) -> None:
    """After its patience, with an exit code; nothing counts as published."""

    class Away:
        async def send(self, record: OutgoingRecord) -> Position:
            raise Unavailable("broker", "is away")

    relaying = Relay(line.source, Away(), line.topics)
    code = await relay(relaying, line.source, asyncio.Event(), Patience(0.5))
    assert code == ExitCode.UNAVAILABLE
    assert await line.relay.publish() == len(await line.changes())


async def test_a_broker_that_comes_back_gets_everything(line: Line) -> None:
    """An outage shorter than the patience costs time only."""
    stop = asyncio.Event()
    sends = Sends(line.producer, 1, Unavailable("broker", "is away"))
    relaying = Relay(line.source, sends, line.topics)
    work = asyncio.create_task(relay(relaying, line.source, stop, Patience(20.0)))
    wanted = {change.change_id for change in await line.changes()}
    await line.reader.until(lambda seen: wanted <= set(event_ids(seen)))
    stop.set()
    assert await work == ExitCode.OK
    assert await line.source.lag() is None


def evidence(id: str, at: datetime) -> SnapshotRecord:
    return SnapshotRecord(
        context_id=id,
        context_hash="h",
        workspace_id="w",
        user_id="ana",
        scope_key="k",
        source="build",
        summary="",
        context=b"{}",
        compression={},
        operator_trace={},
        generated_at=at,
        request_id=None,
    )


# -- running -----------------------------------------------------------------------------------


async def test_a_commit_wakes_the_relay(line: Line, services: DomainServices) -> None:
    """No poll is waited for: most changes are out well before the next one."""
    stop = asyncio.Event()
    work = asyncio.create_task(relay(line.relay, line.source, stop, Patience(5.0)))
    wanted = {change.change_id for change in await line.changes()}
    await line.reader.until(lambda seen: wanted <= set(event_ids(seen)))
    took = []
    for number in range(10):
        began = time.monotonic()
        written = await services.records.update(ANA, "w", "tbl", "r1", {"name": f"New {number}"})
        change_id = written.changes[0].change_id
        await line.reader.until(lambda seen, id=change_id: id in event_ids(seen))
        took.append(time.monotonic() - began)
    stop.set()
    async with asyncio.timeout(5):
        assert await work == ExitCode.OK
    assert sorted(took)[len(took) // 2] < 0.5


async def test_a_relay_removes_evidence_that_is_past_its_days(
    line: Line, database_url: str
) -> None:
    """By CONTEXT_SNAPSHOT_RETENTION_DAYS, beside its work; what is younger stays."""
    changes = {"database_url": SecretStr(database_url), "snapshot_retention_days": 2}
    settings = line.settings.model_copy(update=changes)
    snapshots = SqlSnapshots(line.database)
    now = datetime.now(UTC)
    for days in (1, 3):
        await snapshots.save(evidence(f"c{days}", now - timedelta(days=days)))
    stop, ready = asyncio.Event(), asyncio.Event()
    work = asyncio.create_task(run(settings, ready=ready.set, stop=stop))
    async with asyncio.timeout(20):
        while await snapshots.get("c3") is not None:
            pass
    stop.set()
    assert await work == ExitCode.OK
    assert await snapshots.get("c1") is not None


async def test_what_was_published_long_ago_is_forgotten(line: Line) -> None:
    await line.relay.publish()
    async with line.database.begin() as connection:
        old = "UPDATE outbox SET published_at = now() - interval '25 hours' WHERE seq % 2 = 0"
        await connection.execute(text(old))
    before = len(await outbox(line.database))
    await line.relay.tidy()
    assert 0 < len(await outbox(line.database)) < before


async def test_what_another_relay_holds_is_seen_as_unpublished(line: Line) -> None:
    """A relay that stands still with its rows locked hides them from `SKIP LOCKED`, and must not
    hide them from a heartbeat."""
    every = {str(row.id) for row in await outbox(line.database)}
    async with line.source.claim(BATCH) as batch:
        assert {row.id for row in batch.rows} == every
        async with line.source.claim(BATCH) as skipped:
            assert skipped.rows == []
        found = await line.source.unpublished(1_000)
        assert found is not None
        assert found.ids == every
        assert not await line.source.all_published(found.ids)
        await batch.published(sorted(every))
        assert not await line.source.all_published(found.ids)  # it is not committed
    assert await line.source.all_published(found.ids)
    left = await line.source.unpublished(1_000)
    assert left is not None
    assert (left.ids, left.put_off) == (frozenset(), frozenset())


async def test_a_row_that_was_put_off_is_told_apart(line: Line) -> None:
    """By its workspace, whose contexts end in its place; more than the limit is not told at all."""
    rows = await outbox(line.database)
    assert await line.source.unpublished(len(rows) - 1) is None
    async with line.source.claim(BATCH) as batch:
        await batch.refused([str(rows[0].id)])
    found = await line.source.unpublished(len(rows))
    assert found is not None
    assert found.put_off == {rows[0].aggregateid}
    assert found.ids == {str(row.id) for row in rows[1:]}
