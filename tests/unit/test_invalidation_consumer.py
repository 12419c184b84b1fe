"""The consumer's own logic: what it reads, what it marks, and when its position moves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.changes import AnyChange, MemberChanged
from context_engine.errors import Unavailable
from context_engine.invalidation import Invalidator
from context_engine.keys import Tag
from context_engine.ports import Beat, Evicted, Marked, Place, Reign
from context_engine.settings import Settings
from events import cloudevents, messages
from events.messages import ContextEvicted, Heartbeat
from events.records import OutgoingRecord, Position, RawMessage
from events.topics import Topics
from tests.support.echo import agent_context
from workers.backoff import Patience, reach
from workers.change_applier import AT_ONCE, ChangeApplier
from workers.change_reader import Poison, read
from workers.consumption import Consumption, next_offsets
from workers.invalidate import watched
from workers.proving import Prover
from workers.runner import ExitCode
from workers.watchdog import Watchdog

TOPIC = "domain.membership"
CHANGE = MemberChanged(workspace_id="w", user_id="u", op="removed")
SETTINGS = Settings.model_validate({"tag_secret": "s" * 32})


def message(
    change: AnyChange | None = CHANGE,
    *,
    value: bytes | None = None,
    key: bytes | None = b"w",
    type: str | None = None,
    offset: int = 0,
    partition: int = 0,
    headers: cloudevents.Headers | None = None,
) -> RawMessage:
    data = value if value is not None or change is None else change.model_dump_json().encode()
    told, _ = cloudevents.encode(
        type=type or messages.change_type(change or CHANGE), source="s", id="1", data=b""
    )
    return RawMessage(TOPIC, partition, offset, 0, key, data, told if headers is None else headers)


# -- reading -----------------------------------------------------------------------------------


def test_a_change_is_read_in_both_modes() -> None:
    structured = json.dumps(
        {
            "specversion": "1.0",
            "id": "1",
            "source": "s",
            "type": messages.change_type(CHANGE),
            "data": json.loads(CHANGE.model_dump_json()),
        }
    ).encode()
    headers = (("content-type", b"application/cloudevents+json"),)
    assert read(message()) == CHANGE
    assert read(message(value=structured, headers=headers)) == CHANGE


DEEP = b"[" * 100_000
UNKNOWN = b'{"workspaceId": "named", "type": "never.heard"}'
IN_DATA = b'{"specversion": "1.0", "data": {"workspaceId": "named"}}'


@pytest.mark.parametrize(
    ("raw", "whose"),
    [
        (message(None), ("w",)),
        (message(value=b"{"), ("w",)),
        (message(value=DEEP), ("w",)),
        (message(value=b"\xff\xfe"), ("w",)),
        (message(value=b'{"workspaceId": 5}'), ("w",)),
        (message(headers=()), ("w",)),
        (message(headers=(("ce_specversion", None),)), ("w",)),
        (message(type="domain.grant.changed"), ("w",)),
        (message(value=UNKNOWN), ("w", "named")),
        (message(value=UNKNOWN, key=b"\xff"), ("named",)),
        (message(value=IN_DATA, key=None), ("named",)),
        (message(value=b'{"workspaceId": "\\ud800"}', key=b"\xc3("), ()),
        (message(value=b"{", key=None), ()),
        (message(value=b"{", key=b""), ()),
        (message(value=b"{", key=b"x" * 201), ()),
        (message(value=b"{", key=b"a\nb"), ()),
        (
            message(value=b'{"data_base64": "eyJ3b3Jrc3BhY2VJZCI6Im90aGVyIn0="}', key=None),
            ("other",),
        ),
    ],
)
def test_what_is_no_change_is_poison_and_says_whose(raw: RawMessage, whose: Sequence[str]) -> None:
    """By its key, and by what its data names; nobody's where neither is a workspace's id."""
    poison = read(raw)
    assert isinstance(poison, Poison)
    assert poison.workspace_ids == whose
    assert poison.error.message


def test_no_depth_of_nesting_stops_the_reader() -> None:
    """Structured mode parses twice and writes once, and each has a limit of its own."""
    head = b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":'
    headers = (("content-type", b"application/cloudevents+json"),)
    for depth in range(1, 1_200):
        value = head + b"[" * depth + b"]" * depth + b"}"
        assert isinstance(read(message(value=value, headers=headers)), Poison)


def test_the_next_offset_is_one_past_the_last_of_each_partition() -> None:
    batch = [
        message(offset=7),
        message(offset=8),
        message(offset=3, partition=1),
    ]
    assert next_offsets(batch) == {(TOPIC, 0): 9, (TOPIC, 1): 4}


# -- applying ----------------------------------------------------------------------------------


@dataclass
class Steps:
    """A broker and a store that write down what is done to them, and may be away."""

    batches: list[list[RawMessage]]
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    done: list[str] = field(default_factory=list)
    sent: list[OutgoingRecord] = field(default_factory=list)
    committed: list[dict[tuple[str, int], int]] = field(default_factory=list)
    away: dict[str, int] = field(default_factory=dict)
    stop_at: str | None = None
    end: dict[tuple[str, int], int] = field(default_factory=dict)
    """Where what was polled ends: once that is committed, it is told to stop."""
    position: dict[tuple[str, int], int] = field(default_factory=dict)

    def note(self, step: str) -> None:
        self.done.append(step)
        if step == self.stop_at:
            self.stop.set()
        if self.away.get(step, 0):
            self.away[step] -= 1
            raise Unavailable("redis" if step in ("mark", "evict") else "broker", "is away")

    async def poll(self, seconds: float) -> list[RawMessage]:
        if not self.batches:
            if self.position == self.end:
                self.stop.set()
            await asyncio.sleep(0.01)
            return []
        self.note("poll")
        batch = self.batches.pop(0)
        self.end |= next_offsets(batch)
        return batch

    @property
    def revocations(self) -> int:
        return 0

    async def rewind(self, since: Mapping[tuple[str, int], int]) -> None:
        self.note("rewind")

    async def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        self.note("commit")
        self.committed.append(offsets)
        self.position |= offsets

    async def send(self, record: OutgoingRecord) -> Position:
        self.note("send")
        self.sent.append(record)
        return Position(record.topic, 0, len(self.sent))


class NotingCache(MemoryCache):
    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    async def mark_many(self, changes: Sequence[tuple[str, frozenset[Tag]]]) -> Sequence[Marked]:
        self.steps.note("mark")
        return await super().mark_many(changes)

    async def evict(self, workspace_id: str, tags: frozenset[Tag]) -> Evicted:
        self.steps.note("evict")
        return await super().evict(workspace_id, tags)

    async def forget_everything(self) -> frozenset[Reign]:
        self.steps.note("forget everything")
        return await super().forget_everything()


def consumption(
    steps: Steps, *, cache: NotingCache | None = None, patience: float = 5.0
) -> Consumption:
    store = cache or NotingCache(steps)
    invalidator = Invalidator(store)
    prover = Prover(store.liveness, steps, timedelta(seconds=300))
    applier = ChangeApplier(invalidator, prover, steps, Topics.of(SETTINGS), SETTINGS)
    return Consumption(steps, applier, Patience(patience))


async def consume(steps: Steps, *, patience: float = 5.0) -> ExitCode:
    async with asyncio.timeout(20):
        return await consumption(steps, patience=patience).run(steps.stop)


async def test_marks_come_first_and_the_position_last() -> None:
    """Of a batch, and of those that were marked by then: evictions, what is told, the position."""
    steps = Steps([[message(offset=4), message(value=b"{", offset=5)], [message(offset=6)]])
    assert await consume(steps) == ExitCode.OK
    assert steps.done == [
        *("poll", "mark", "mark", "poll", "mark"),
        *("evict", "send", "evict", "send", "evict", "send", "send", "commit"),
    ]
    assert steps.committed == [{(TOPIC, 0): 7}]


@pytest.mark.parametrize("step", ["evict", "send", "commit"])
async def test_no_mark_waits_for_what_is_done_behind_it(step: str) -> None:
    """The first batch hangs at one of its later steps: the second is marked all the same, and
    finished once that goes on."""
    steps, held = Steps([[message(offset=4)]]), asyncio.Event()
    cache = NotingCache(steps)
    owner: Any = cache if step == "evict" else steps
    original = getattr(owner, step)

    async def hold(*args: Any) -> Any:
        await held.wait()
        return await original(*args)

    setattr(owner, step, hold)
    working = asyncio.create_task(consumption(steps, cache=cache).run(steps.stop))
    async with asyncio.timeout(10):
        await _marked(steps, 1)
        steps.batches.append([message(offset=5)])
        await _marked(steps, 2)
        assert steps.committed == []
        held.set()
        assert await working == ExitCode.OK
    assert steps.position == {(TOPIC, 0): 6}


async def test_so_much_is_marked_ahead_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is marked and not finished is held in memory."""
    monkeypatch.setattr("workers.consumption.MOST_AHEAD", 3)
    steps, held = Steps([[message(offset=n)] for n in range(20)]), asyncio.Event()
    original = steps.send

    async def hold(record: OutgoingRecord) -> Position:
        await held.wait()
        return await original(record)

    steps.send = hold  # type: ignore[method-assign]
    made = consumption(steps)
    working = asyncio.create_task(made.run(steps.stop))
    async with asyncio.timeout(10):
        await _marked(steps, 4)
        await asyncio.sleep(0.05)
        assert steps.done.count("mark") == 4
        assert not made.keeps_up  # it stands still for want of room, and nobody is to take offence
        held.set()
        assert await working == ExitCode.OK
    assert steps.position == {(TOPIC, 0): 20}


async def test_much_that_is_marked_is_finished_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all is slow, the position moves and the watchdog sees it, and there is room for more
    marks as soon as a part is done; told to stop, it leaves the rest to the next member."""
    monkeypatch.setattr("workers.consumption.MOST_AHEAD", 9)
    monkeypatch.setattr("workers.consumption.FINISHED_AT_ONCE", 2)
    steps, turns = Steps([[message(offset=n)] for n in range(20)]), asyncio.Semaphore(0)
    original = steps.commit

    async def hold(offsets: dict[tuple[str, int], int]) -> None:
        await turns.acquire()
        await original(offsets)

    steps.commit = hold  # type: ignore[method-assign]
    made = consumption(steps)
    working = asyncio.create_task(made.run(steps.stop))
    async with asyncio.timeout(10):
        await _marked(steps, 10)
        turns.release()
        turns.release()
        await _marked(steps, 12)
        assert made.finished_total in (3, 4)
        steps.stop.set()
        turns.release()
        assert await working == ExitCode.OK
    assert steps.position[TOPIC, 0] < 7


async def test_what_is_held_of_large_records_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.consumption.MOST_BYTES_AHEAD", 1_500)
    large = [[message(value=b" " * 1_000, offset=n)] for n in range(5)]
    steps, held = Steps(large), asyncio.Event()
    original = steps.send

    async def hold(record: OutgoingRecord) -> Position:
        await held.wait()
        return await original(record)

    steps.send = hold  # type: ignore[method-assign]
    working = asyncio.create_task(consumption(steps).run(steps.stop))
    async with asyncio.timeout(10):
        await _marked(steps, 4)  # of each batch twice: once for none of its changes
        await asyncio.sleep(0.05)
        assert steps.done.count("poll") == 2
        held.set()
        assert await working == ExitCode.OK
    assert steps.position == {(TOPIC, 0): 5}


async def _marked(steps: Steps, count: int) -> None:
    while steps.done.count("mark") < count:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)


async def test_what_stood_before_a_heartbeat_is_proven_once_it_is_marked() -> None:
    """Before anything is unlinked or told: neither makes a change more applied."""
    steps = Steps([])
    cache = NotingCache(steps)
    proven: list[list[str]] = []
    renew = cache.liveness.renew

    async def noting(beats: Sequence[Beat], vocabulary: str) -> None:
        proven.append(list(steps.done))
        await renew(beats, vocabulary)

    cache.liveness.renew = noting  # type: ignore[method-assign]
    steps.batches = [
        [await heartbeat(cache, offset=1)],
        [message(offset=2), await heartbeat(cache, offset=3), message(offset=4)],
    ]
    await consumption(steps, cache=cache).run(steps.stop)
    assert steps.done[:3] == ["poll", "mark", "rewind"]  # nobody proved this partition before
    *_, heard, left = proven
    assert heard[-1] == "mark"
    assert left[-1] == "commit"  # its leave: what is finished need not be read again
    [proof] = (await cache.liveness.proofs([Place(TOPIC, 0)])).each
    assert proof is not None
    assert (proof.applied, proof.left_ms > 0) == (4, True)
    assert steps.committed[-1] == {(TOPIC, 0): 5}


async def heartbeat(cache: MemoryCache, *, offset: int) -> RawMessage:
    pulse = await cache.liveness.pulse()
    said = Heartbeat(at_ms=pulse.at_ms, reigns=tuple(pulse.reigns), partitions=1)
    value = said.model_dump_json().encode()
    return message(value=value, type=messages.HEARTBEAT, key=None, offset=offset)


async def test_what_a_deposed_server_forgot_is_read_again_before_anything_is_proven() -> None:
    """Everything ended there, for want of a workspace, and not where the proof would stand."""
    steps = Steps([])
    cache = NotingCache(steps)
    beats = [await heartbeat(cache, offset=offset) for offset in (1, 1, 3, 3)]
    steps.batches = [[one] for one in beats]
    steps.batches[2].insert(0, message(value=b"{", key=None, offset=2))
    ours, forget = cache.reign, cache.forget_everything

    async def elsewhere() -> frozenset[Reign]:
        await forget()
        return frozenset({ours, Reign("deposed")})

    cache.forget_everything = elsewhere  # type: ignore[method-assign]
    await consumption(steps, cache=cache).run(steps.stop)
    assert [place for place, step in enumerate(steps.done) if step == "rewind"] == [
        steps.done.index("rewind"),
        steps.done.index("rewind", steps.done.index("forget everything")),
    ]


async def test_an_announcement_names_the_change_and_its_place() -> None:
    """Its tags are sealed as those of a context are, so that whoever holds one can compare."""
    steps = Steps([[message(offset=4, partition=2)]])
    cache = NotingCache(steps)
    await cache.found("w")
    await consumption(steps, cache=cache).run(steps.stop)
    [record] = steps.sent
    told = ContextEvicted.model_validate_json(record.value or b"")
    assert (record.topic, record.key) == ("context.evictions", b"w")
    assert (told.change_id, told.change_type) == (CHANGE.change_id, "member.changed")
    assert (told.topic, told.partition, told.offset) == (TOPIC, 2, 4)
    assert told.clock == 1
    tags = {keys.access("u"), keys.user("u")}
    assert told.tags == keys.seal("s" * 32, "w", tags)


async def test_what_cannot_be_read_is_buried_and_announced() -> None:
    """Its workspace starts anew, and whoever holds a context of it hears so."""
    steps = Steps([[message(value=UNKNOWN, offset=9)]])
    assert await consume(steps) == ExitCode.OK
    topics = [record.topic for record in steps.sent]
    assert topics == [TOPIC + "-dlt", "context.evictions", "context.evictions"]
    for record, workspace in zip(steps.sent[1:], ("w", "named"), strict=True):
        told = ContextEvicted.model_validate_json(record.value or b"")
        assert (told.workspace_id, told.change_type) == (workspace, "unreadable")
        assert told.tags == keys.seal("s" * 32, workspace, {keys.EVERYTHING})
    assert "forget everything" not in steps.done


async def test_what_may_be_anybodys_ends_everything() -> None:
    steps = Steps([[message(value=b"{", key=None)]])
    assert await consume(steps) == ExitCode.OK
    assert steps.done == ["poll", "mark", "forget everything", "send", "send", "commit"]
    told = ContextEvicted.model_validate_json(steps.sent[1].value or b"")
    assert (told.workspace_id, told.tags, told.count) == (None, (), 0)
    assert steps.sent[1].key is None
    assert told.concerns(agent_context())


@pytest.mark.parametrize("step", ["mark", "evict", "send", "commit"])
async def test_what_failed_is_done_again(step: str) -> None:
    """A part that is away part-way: nothing is skipped, and the position waits."""
    steps = Steps([[message(offset=4)]], away={step: 2})
    assert await consume(steps) == ExitCode.OK
    assert steps.done.count(step) == 3
    assert steps.committed == [{(TOPIC, 0): 5}]
    assert steps.done[-1] == "commit"


async def test_of_what_failed_nothing_goes_on_beside_the_next_try() -> None:
    """A broker that is away fails the first: the others of that try end with it. Else each try
    would leave its own behind, which tell of everything once more."""
    count = 200
    steps = Steps([[message(offset=n) for n in range(count)]], away={"send": 1})
    original = steps.send

    async def send(record: OutgoingRecord) -> Position:
        if steps.done.count("send"):
            await asyncio.sleep(0.01)
        return await original(record)

    steps.send = send  # type: ignore[method-assign]
    assert await consume(steps) == ExitCode.OK
    await asyncio.sleep(0.1)
    assert len(steps.sent) < count + AT_ONCE


@pytest.mark.parametrize("step", ["mark", "send", "poll"])
async def test_a_part_that_stays_away_ends_the_consumer(step: str) -> None:
    """Loudly, and without moving the position."""
    steps = Steps([[message()], [message()]], away={step: 1_000})
    assert await consume(steps, patience=0.3) == ExitCode.UNAVAILABLE
    assert steps.committed == []


async def test_told_to_stop_while_a_part_is_away_it_leaves_the_batch_to_the_next() -> None:
    steps = Steps([[message()]], away={"mark": 1_000}, stop_at="mark")
    assert await consume(steps) == ExitCode.OK
    assert steps.committed == []


async def test_a_consumer_that_stands_still_is_ended() -> None:
    """Changes wait at the broker and no poll gives them."""
    steps = Steps([])

    async def nothing(seconds: float) -> list[RawMessage]:
        await asyncio.sleep(0.01)
        return []

    async def behind() -> int:
        return 3

    steps.poll = nothing  # type: ignore[method-assign]
    made = consumption(steps)
    watchdog = Watchdog(made, behind, stall_seconds=0.2)
    async with asyncio.timeout(10):
        assert await watched(made, watchdog, steps.stop) == ExitCode.STALLED


async def test_a_fault_of_ours_is_not_swallowed() -> None:
    """It ends the process with its trace; the position has not moved."""
    steps = Steps([[message()]])

    async def broken(record: OutgoingRecord) -> Position:
        raise ZeroDivisionError

    steps.send = broken  # type: ignore[method-assign]
    made = consumption(steps)
    with pytest.raises(ZeroDivisionError):
        await watched(made, Watchdog(made, _nothing_waits), steps.stop)
    assert steps.committed == []


async def _nothing_waits() -> int:
    return 0


# -- starting ----------------------------------------------------------------------------------


class Late:
    """A part that answers at the third asking, or never."""

    def __init__(self, *, ever: bool) -> None:
        self.ever, self.asked = ever, 0

    async def __call__(self) -> None:
        self.asked += 1
        if not self.ever or self.asked < 3:
            raise Unavailable("redis", "is away")


async def test_a_part_that_is_late_at_the_start_is_waited_for() -> None:
    late = Late(ever=True)
    await reach(late, Patience(5.0))
    assert late.asked == 3


async def test_a_part_that_stays_away_at_the_start_is_told() -> None:
    with pytest.raises(Unavailable, match="is away"):
        await reach(Late(ever=False), Patience(0.2))
