"""From heartbeats to proofs: which are believed, and when a partition is read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from context_engine import keys
from context_engine.adapters.memory import MemoryCache
from context_engine.ports import Beat, Place, Pulse, Reign
from events.messages import Heartbeat
from events.records import RawMessage
from workers.proving import MARGIN, Heard, Prover

TOPIC = "domain.membership"
LIFE = timedelta(seconds=300)
BACK_MS = int((LIFE + MARGIN).total_seconds() * 1000)
APPENDED = 10_000_000


@dataclass
class Reader:
    """A consumer that writes down where it was sent back to."""

    sent_back: list[dict[tuple[str, int], int]] = field(default_factory=list)
    sought: list[tuple[str, int, int]] = field(default_factory=list)
    revocations: int = 0

    async def rewind(self, since: Mapping[tuple[str, int], int]) -> None:
        self.sent_back.append(dict(since))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.sought.append((topic, partition, offset))


@dataclass
class Bench:
    cache: MemoryCache = field(default_factory=MemoryCache)
    reader: Reader = field(default_factory=Reader)

    def __post_init__(self) -> None:
        self.prover = Prover(self.cache.liveness, self.reader, LIFE)

    async def heard(
        self,
        offset: int,
        partition: int = 0,
        reign: Reign | None = None,
        timeline: str | None = None,
    ) -> Heard:
        pulse = await self.cache.liveness.pulse()
        reigns = (reign,) if reign is not None else tuple(pulse.reigns)
        beat = Heartbeat(at_ms=pulse.at_ms, reigns=reigns, partitions=2, timeline=timeline)
        return RawMessage(TOPIC, partition, offset, APPENDED, None, b"", ()), beat

    async def applied(self, batch: list[Heard], *marks: tuple[RawMessage, Reign]) -> None:
        """A batch in which nothing but heartbeats and what `marks` names was read."""
        read = [raw for raw, _ in (*marks, *batch)]
        self.prover.note(read, marks)
        await self.prover.hear(batch)

    async def live(self, partition: int = 0) -> bool:
        found = await self.cache.liveness.proofs([Place(TOPIC, partition)])
        [proof] = found.each
        return proof is not None and proof.reigns == found.reigns and proof.left_ms > 0

    async def proven_before(self, vocabulary: str = keys.VOCABULARY) -> None:
        """A member before this one proved partition 0, and ended since."""
        pulse = await self.cache.liveness.pulse()
        old = Pulse(pulse.at_ms - 60_000, pulse.reigns)
        await self.cache.liveness.renew([Beat(Place(TOPIC, 0), old, 2, 5)], vocabulary)


async def test_who_starts_reads_again_as_far_as_an_entry_may_live() -> None:
    """By the append time of what it reads, never by its own clock; then it proves."""
    bench = Bench()
    await bench.applied([await bench.heard(9)])
    assert bench.reader.sent_back == [{(TOPIC, 0): APPENDED - BACK_MS}]
    assert not await bench.live()
    await bench.applied([await bench.heard(9)])
    assert await bench.live()
    assert len(bench.reader.sent_back) == 1


async def test_who_starts_where_the_same_reign_was_proven_goes_on_at_once() -> None:
    """Whatever was applied before it was marked on the server that serves now."""
    bench = Bench()
    await bench.proven_before()
    assert not await bench.live()
    await bench.prover.hear([await bench.heard(9)])
    assert bench.reader.sent_back == []
    assert await bench.live()


async def test_what_another_vocabulary_proved_is_read_again() -> None:
    """That member did not mark the tags which workers use now."""
    bench = Bench()
    await bench.proven_before("0")
    await bench.prover.hear([await bench.heard(9)])
    assert len(bench.reader.sent_back) == 1


async def test_a_new_reign_sends_every_partition_back() -> None:
    """Marks that the deposed primary took are gone; entries on its successor are not."""
    bench = Bench()
    for _ in range(2):
        await bench.applied([await bench.heard(9), await bench.heard(4, partition=1)])
    bench.reader.sent_back.clear()
    bench.cache.reign = Reign("its successor")
    await bench.applied([await bench.heard(10), await bench.heard(5, partition=1)])
    assert bench.reader.sent_back == [
        {(TOPIC, 0): APPENDED - BACK_MS, (TOPIC, 1): APPENDED - BACK_MS}
    ]
    assert not await bench.live()
    await bench.applied([await bench.heard(10), await bench.heard(5, partition=1)])
    assert await bench.live()
    assert await bench.live(1)


async def test_a_heartbeat_of_another_reign_than_the_stores_is_left_out() -> None:
    """It neither proves nor sends back: the next one tells."""
    bench = Bench()
    await bench.proven_before()
    await bench.prover.hear([await bench.heard(9, reign=Reign("of before"))])
    assert bench.reader.sent_back == []
    assert not await bench.live()


async def test_a_reign_is_waited_out_before_it_proves_anything() -> None:
    """By the time of the heartbeat's pulse: one from before is left out however late it is heard.
    Nor is anything read again by it, since more may come on the deposed primary's side."""
    now = [1_700_000_000_000]
    bench = Bench(MemoryCache(max_lag_ms=5_000, now=lambda: now[0]))
    await bench.proven_before()
    bench.cache.reign = Reign("its successor")
    early = await bench.heard(9)
    now[0] += 4_999
    await bench.applied([await bench.heard(10)])
    now[0] += 1
    await bench.applied([early])
    assert bench.reader.sent_back == []
    for offset in (11, 11):
        await bench.applied([await bench.heard(offset)])
    assert len(bench.reader.sent_back) == 1
    assert await bench.live()


async def test_partitions_that_were_away_are_asked_about_anew() -> None:
    """Another member had them, one with an older vocabulary perhaps."""
    bench = Bench()
    for _ in range(2):
        await bench.applied([await bench.heard(9)])
    bench.reader.sent_back.clear()
    await bench.proven_before("0")
    bench.reader.revocations += 1
    await bench.applied([await bench.heard(12)])
    assert len(bench.reader.sent_back) == 1


async def test_the_last_heartbeat_of_a_batch_says_what_is_applied() -> None:
    bench = Bench()
    await bench.proven_before()
    await bench.prover.hear([await bench.heard(9), await bench.heard(11)])
    [proof] = (await bench.cache.liveness.proofs([Place(TOPIC, 0)])).each
    assert proof is not None
    assert proof.applied == 11


async def test_another_timeline_of_the_database_ends_everything_once() -> None:
    """Before anything is proven under it; who hears of it next, in whatever partition, knows."""
    bench = Bench()
    await bench.proven_before()
    for timeline in ("1", "2"):
        await bench.cache.found("w")
        before = bench.cache.marks["w"].epoch
        await bench.applied([await bench.heard(6, timeline=timeline)])
        assert "w" not in bench.cache.marks
        assert await bench.live()
        await bench.cache.found("w")
        other = Bench(bench.cache)
        await other.applied([await other.heard(6, timeline=timeline)])
        assert bench.cache.marks["w"].epoch != before


async def test_a_timeline_is_believed_of_the_latest_heartbeat_that_counts() -> None:
    """One of another reign says nothing; one from no outbox names none."""
    bench = Bench()
    await bench.proven_before()
    await bench.cache.found("w")
    await bench.applied([await bench.heard(6, reign=Reign("of before"), timeline="1")])
    await bench.applied([await bench.heard(6)])
    assert "w" in bench.cache.marks


async def test_heartbeats_of_long_ago_say_nothing_of_the_database() -> None:
    """A member that lags, or reads again, hears of the timeline before: were that believed,
    everything would end with each heartbeat, here and there in turn."""
    now = [1_700_000_000_000]
    bench = Bench(MemoryCache(now=lambda: now[0]))
    lagging = Bench(bench.cache)
    await bench.proven_before()
    old = [await bench.heard(offset, partition=1, timeline="1") for offset in range(3)]
    now[0] += 60_000
    for offset, one in enumerate(old, start=6):
        await bench.applied([await bench.heard(offset, timeline="2")])
        await bench.cache.found("w")
        await lagging.applied([one])
        await bench.applied([await bench.heard(offset, timeline="2")])
        assert "w" in bench.cache.marks


async def test_what_was_ended_on_a_deposed_server_proves_nothing() -> None:
    bench = Bench()
    await bench.proven_before()
    begin = bench.cache.liveness.begin

    async def elsewhere(timeline: str) -> frozenset[Reign]:
        await begin(timeline)
        return frozenset({Reign("deposed")})

    bench.cache.liveness.begin = elsewhere  # type: ignore[method-assign]
    await bench.applied([await bench.heard(6, timeline="1")])
    assert not await bench.live()


async def test_no_heartbeats_ask_nothing() -> None:
    bench = Bench()
    await bench.prover.hear([])
    assert bench.reader.sent_back == []


def change(offset: int) -> RawMessage:
    return RawMessage(TOPIC, 0, offset, APPENDED, b"w", b"", ())


async def test_a_batch_that_was_sent_back_proves_nothing_when_it_is_applied_again() -> None:
    """A part was away after it had been: what lies before it has not been read again yet."""
    bench = Bench()
    batch = [await bench.heard(9)]
    read = [raw for raw, _ in batch]
    for _ in range(3):
        bench.prover.note(read, ())
        await bench.prover.hear(batch)
        assert not await bench.live()
    assert len(bench.reader.sent_back) == 1
    await bench.applied([await bench.heard(9)])
    assert await bench.live()


async def test_marks_that_another_server_took_are_set_again_before_anything_is_proven() -> None:
    """The successor took them, while the deposed primary, which answers still, was proven."""
    bench = Bench()
    await bench.proven_before()
    await bench.applied([await bench.heard(6)])
    assert await bench.live()
    await bench.applied([await bench.heard(8)], (change(7), Reign("its successor")))
    assert len(bench.reader.sent_back) == 1
    await bench.applied([await bench.heard(8)], (change(7), bench.cache.reign))
    assert len(bench.reader.sent_back) == 1


async def test_marks_of_another_server_are_remembered_until_the_next_heartbeat() -> None:
    bench = Bench()
    await bench.proven_before()
    await bench.applied([], (change(6), Reign("its successor")))
    await bench.applied([await bench.heard(7)], (change(6), bench.cache.reign))
    assert len(bench.reader.sent_back) == 1
    assert not await bench.live()


async def test_what_was_committed_beyond_what_is_proven_is_read_again() -> None:
    """The member before marked it, under another reign perhaps: from there on, no further back."""
    bench = Bench()
    await bench.proven_before()
    await bench.applied([await bench.heard(9)])
    assert bench.reader.sought == [(TOPIC, 0, 6)]
    assert bench.reader.sent_back == []
    assert not await bench.live()
    await bench.applied([await bench.heard(9)], (change(6), bench.cache.reign))
    assert await bench.live()
    assert len(bench.reader.sought) == 1


async def test_who_goes_on_where_the_proof_ended_reads_nothing_again() -> None:
    """The record at its end is the heartbeat that proved."""
    bench = Bench()
    await bench.proven_before()
    await bench.applied([await bench.heard(6)])
    assert bench.reader.sought == []
    assert await bench.live()


async def test_what_a_member_finished_before_it_left_is_not_read_again() -> None:
    """The changes behind its last heartbeat: the next member goes on after them. The proof lasts no
    longer for that."""
    bench = Bench()
    await bench.proven_before()
    await bench.applied([await bench.heard(6)], (change(6), bench.cache.reign))
    found = await bench.cache.liveness.proofs([Place(TOPIC, 0)])
    bench.prover.note([change(7), change(8)], [(change(8), bench.cache.reign)])
    await bench.prover.leave({(TOPIC, 0): 9})
    after = await bench.cache.liveness.proofs([Place(TOPIC, 0)])
    assert found.each[0] is not None
    assert after.each[0] is not None
    assert after.each[0].applied == 8
    assert after.each[0].left_ms <= found.each[0].left_ms
    successor = Bench(cache=bench.cache)
    await successor.applied([await successor.heard(9)])
    assert successor.reader.sought == []
    assert await successor.live()


@pytest.mark.parametrize("why", ["another reign", "taken away", "sent back", "nothing proven"])
async def test_what_may_have_been_marked_elsewhere_is_read_again(why: str) -> None:
    """A member that leaves vouches for nothing that another server may have taken, nor for a
    partition that another member may have had."""
    bench = Bench()
    await bench.proven_before()
    if why != "nothing proven":
        await bench.applied([await bench.heard(6)])
    marked_by = Reign("f" * 80) if why == "another reign" else bench.cache.reign
    bench.prover.note([change(7)], [(change(7), marked_by)])
    if why == "taken away":
        bench.reader.revocations += 1
    if why == "sent back":
        bench.cache.reign = Reign("its successor")
        await bench.applied([await bench.heard(8)])
    await bench.prover.leave({(TOPIC, 0): 8})
    found = await bench.cache.liveness.proofs([Place(TOPIC, 0)])
    assert found.each[0] is not None
    assert found.each[0].applied <= 7


@pytest.mark.parametrize("begins", [10, 11])
async def test_what_was_committed_after_a_member_left_is_read_again(begins: int) -> None:
    """By one that marked it elsewhere, perhaps, and proved nothing: from the first of it on."""
    bench = Bench()
    await bench.proven_before()
    await bench.applied([await bench.heard(6)])
    bench.prover.note([change(7), change(8)], [(change(8), bench.cache.reign)])
    await bench.prover.leave({(TOPIC, 0): 9})
    successor = Bench(cache=bench.cache)
    await successor.applied([await successor.heard(begins)])
    assert successor.reader.sought == [(TOPIC, 0, 9)]


async def test_who_leaves_while_it_reads_again_vouches_for_nothing_beyond() -> None:
    """What it had committed the first time is not applied by that: of that stretch it has read a
    part so far, heartbeats among it."""
    bench = Bench()
    await bench.proven_before()
    first = [await bench.heard(20)]
    await bench.applied(first)
    assert bench.reader.sought == [(TOPIC, 0, 6)]
    await bench.applied([await bench.heard(8)], (change(7), bench.cache.reign))
    await bench.prover.leave({(TOPIC, 0): 21})
    successor = Bench(cache=bench.cache)
    await successor.applied([await successor.heard(21)])
    assert successor.reader.sought == [(TOPIC, 0, 9)]
