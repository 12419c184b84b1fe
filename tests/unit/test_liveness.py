"""Whether the cache may be read: all partitions, one reign, one vocabulary, and a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from context_engine import keys
from context_engine.errors import Unavailable
from context_engine.liveness import LOOK_SECONDS, Assumed, Lookout
from context_engine.ports import Beat, Place, Proof, Proofs, Pulse, Reign

ONE, OTHER = Reign("a" * 80), Reign("b" * 80)
LIVE = Proof(frozenset({ONE}), 7, keys.VOCABULARY, 2, 2_000)
PLACES = [Place(topic, partition) for topic in ("t", "u") for partition in (0, 1)]


@dataclass
class Store:
    """Proofs as they are put here, under a clock that stands until it is set on."""

    each: dict[Place, Proof | None] = field(default_factory=lambda: dict.fromkeys(PLACES, LIVE))
    reigns: frozenset[Reign] = frozenset({ONE})
    now: float = 100.0
    looks: list[int] = field(default_factory=list)
    away: bool = False
    delay: float = 0.0
    held: asyncio.Event | None = None

    def clock(self) -> float:
        return self.now

    async def pulse(self) -> Pulse:
        return Pulse(0, self.reigns)

    async def renew(self, beats: Sequence[Beat], vocabulary: str) -> None:
        raise AssertionError("a reader renews nothing")

    async def proofs(self, places: Sequence[Place]) -> Proofs:
        self.looks.append(len(places))
        if self.held is not None:
            await self.held.wait()
        self.now += self.delay
        if self.away:
            raise Unavailable("redis", "is away")
        return Proofs(self.reigns, [self.each.get(place) for place in places])


def lookout(store: Store) -> Lookout:
    return Lookout(store, ("t", "u"), clock=store.clock)


async def test_all_partitions_live_is_proven_and_the_topics_sizes_are_learnt() -> None:
    """The first look knows one partition of each topic; what it finds says how many there are."""
    store = Store()
    proven = await lookout(store).proven()
    assert proven is not None
    assert (proven.covers(ONE), proven.covers(OTHER)) == (True, False)
    assert proven.applied == dict.fromkeys(PLACES, 7)
    assert store.looks == [2, 4]


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(
    "instead",
    [
        None,
        replace(LIVE, left_ms=0),
        replace(LIVE, vocabulary="0"),
        replace(LIVE, reigns=frozenset({OTHER})),
    ],
    ids=["nothing", "ended", "older tags", "another reign"],
)
async def test_one_partition_that_is_not_live_is_enough(
    place: Place, instead: Proof | None
) -> None:
    store = Store()
    store.each[place] = instead
    assert await lookout(store).proven() is None


async def test_of_several_primaries_those_are_believed_that_every_partition_proves() -> None:
    """One partition was proven before a primary of the cluster changed, the others after."""
    store = Store()
    for place in PLACES:
        store.each[place] = replace(LIVE, reigns=frozenset({ONE, OTHER}))
    proven = await lookout(store).proven()
    assert proven is not None
    assert (proven.covers(ONE), proven.covers(OTHER)) == (True, True)
    store.each[PLACES[-1]] = replace(LIVE, reigns=frozenset({ONE, Reign("c" * 80)}))
    proven = await lookout(store).proven()
    assert proven is not None
    assert (proven.covers(ONE), proven.covers(OTHER)) == (True, False)


async def test_a_server_of_another_reign_is_not_believed() -> None:
    """The proofs came along with a failover; the marks behind them may not have."""
    assert await lookout(Store(reigns=frozenset({OTHER}))).proven() is None


async def test_the_proof_lasts_from_the_sending_of_the_look() -> None:
    """However long the answer took: 2 s were left, and 1.5 s of them went by on the way."""
    store = Store(delay=0.75)  # twice: the first look learns the partitions
    watch = lookout(store)
    assert await watch.proven() is not None
    store.delay, store.away = 0.0, True
    store.now += 1.2
    assert await watch.proven() is not None
    store.now += 0.06
    assert await watch.proven() is None


async def test_the_proof_lasts_to_the_millisecond() -> None:
    """And whoever asks when it has ended waits for the look that may prove it again."""
    store = Store()
    watch = lookout(store)
    store.now = await settled(watch, store) + 1.999
    store.away = True
    assert await watch.proven() is not None
    await asyncio.sleep(0)
    store.now += 0.001
    assert await watch.proven() is None
    store.now, store.away = 200.0, False
    store.now = await settled(watch, store) + 2.0
    assert await watch.proven() is not None


async def settled(watch: Lookout, store: Store) -> float:
    """When a look was sent that proves it, by the clock that stands."""
    assert await watch.proven() is not None
    return store.now


@pytest.mark.parametrize("vocabulary", ["8", "9"])
async def test_a_reader_goes_by_its_own_vocabulary(vocabulary: str) -> None:
    """Whatever that is: a consumer that marks other tags proves nothing to it."""
    store = Store(dict.fromkeys(PLACES, replace(LIVE, vocabulary="9")))
    watch = Lookout(store, ("t", "u"), vocabulary=vocabulary, clock=store.clock)
    assert (await watch.proven() is not None) is (vocabulary == "9")


async def test_an_answer_about_fewer_partitions_is_a_fault_and_no_proof() -> None:
    class Short(Store):
        async def proofs(self, places: Sequence[Place]) -> Proofs:
            return Proofs(self.reigns, [LIVE])

    with pytest.raises(ValueError, match="shorter"):
        await lookout(Short()).proven()


async def test_one_look_serves_all_who_ask_within_its_time() -> None:
    store = Store()
    watch = lookout(store)
    await asyncio.gather(*(watch.proven() for _ in range(50)))
    store.now += LOOK_SECONDS * 0.9
    await watch.proven()
    assert len(store.looks) == 2
    store.now += LOOK_SECONDS
    await watch.proven()
    await asyncio.sleep(0)
    assert len(store.looks) == 3


async def test_while_a_proof_stands_nobody_waits_for_the_next_look() -> None:
    """The look goes on beside it, and its news hold once it is there."""
    store = Store()
    watch = lookout(store)
    await watch.proven()
    store.held = asyncio.Event()
    store.each[PLACES[0]] = None
    store.now += 1.0
    assert await watch.proven() is not None
    await asyncio.sleep(0)
    store.held.set()
    looking = watch._looking
    assert looking is not None
    assert looking.get_name() == "liveness"
    await looking
    assert await watch.proven() is None


async def test_it_is_proven_again_as_soon_as_the_proof_is_back() -> None:
    """Nothing has to be reset, and no error of the past is held against anyone."""
    store = Store(away=True)
    watch = lookout(store)
    assert await watch.proven() is None
    store.away = False
    store.now += LOOK_SECONDS
    assert await watch.proven() is not None


async def test_a_partition_that_was_added_must_be_live_too() -> None:
    store = Store()
    watch = lookout(store)
    assert await watch.proven() is not None
    grown = replace(LIVE, partitions=3)
    store.each[Place("t", 0)] = grown
    store.now += 5.0
    assert await watch.proven() is None
    store.each[Place("t", 2)] = grown
    store.now += LOOK_SECONDS
    assert await watch.proven() is not None


async def test_partitions_that_never_settle_prove_nothing() -> None:
    """A look that finds more each time ends after a few rounds."""
    store = Store()
    store.each = {Place("t", n): replace(LIVE, partitions=n + 2) for n in range(50)}
    store.each[Place("u", 0)] = replace(LIVE, partitions=1)
    assert await lookout(store).proven() is None
    assert len(store.looks) == 3


async def test_who_stops_waiting_ends_the_look_of_nobody_else() -> None:
    store = Store(held=asyncio.Event())
    watch = lookout(store)
    first, second = (asyncio.create_task(watch.proven()) for _ in range(2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert store.held is not None
    store.held.set()
    assert await second is not None


async def test_assumed_takes_every_server_for_proven() -> None:
    assert (await Assumed().proven()).covers(OTHER)
