"""The proof that changes are applied: who may renew it, and what ends it."""

from __future__ import annotations

from dataclasses import replace

from context_engine.liveness import LIFE_MS
from context_engine.ports import Beat, Place, Proof, Pulse, Reign, Tally
from tests.support.cache import Store

HERE, THERE = Place("domain.membership", 0), Place("domain.membership", 1)


def beat(pulse: Pulse, place: Place = HERE, *, offset: int = 7) -> Beat:
    return Beat(place, pulse, 2, offset)


async def proof(store: Store, place: Place = HERE) -> Proof | None:
    [found] = (await store.liveness.proofs([place])).each
    return found


async def test_a_beat_proves_its_partition_for_its_life(store: Store) -> None:
    """And says what is applied, by whom, under which reign, and how many partitions there are."""
    pulse = await store.liveness.pulse()
    await store.liveness.renew([beat(pulse)], "1")
    proofs = await store.liveness.proofs([HERE, THERE])
    here, there = proofs.each
    assert there is None
    assert here is not None
    assert here == Proof(pulse.reigns, 7, "1", 2, here.left_ms)
    assert proofs.reigns
    assert proofs.reigns <= pulse.reigns
    assert 0 < here.left_ms <= LIFE_MS


async def test_a_proof_lasts_from_its_pulse_however_late_the_beat_is_heard(store: Store) -> None:
    """A consumer that stood still, or a relay, proves nothing when it goes on."""
    pulse = await store.liveness.pulse()
    late = replace(pulse, at_ms=pulse.at_ms - LIFE_MS + 1_000)
    await store.liveness.renew([beat(late)], "1")
    found = await proof(store)
    assert found is not None
    assert 0 < found.left_ms <= 1_000
    too_late = replace(pulse, at_ms=pulse.at_ms - LIFE_MS)
    await store.liveness.renew([beat(too_late, THERE)], "1")
    found = await proof(store, THERE)
    assert found is not None
    assert found.left_ms <= 0
    assert found.applied == 7


async def test_a_proof_that_ended_says_how_long_ago(store: Store) -> None:
    """Counted from the pulse of the best beat; a worse one that is heard later changes nothing."""
    pulse = await store.liveness.pulse()
    for ago in (20_000, 60_000):
        await store.liveness.renew([beat(replace(pulse, at_ms=pulse.at_ms - ago))], "1")
    found = await proof(store)
    assert found is not None
    assert -30_000 < found.left_ms <= LIFE_MS - 20_000


async def test_a_beat_of_another_reign_proves_nothing(store: Store) -> None:
    """The marks that stood before it may be on another server."""
    pulse = await store.liveness.pulse()
    foreign = replace(pulse, reigns=frozenset({Reign("f" * 80)}))
    await store.liveness.renew([beat(foreign)], "1")
    assert await proof(store) is None


async def test_an_older_beat_shortens_nothing(store: Store) -> None:
    """Redelivered after a newer one, it leaves that one's life as it is."""
    pulse = await store.liveness.pulse()
    older = replace(pulse, at_ms=pulse.at_ms - LIFE_MS + 500)
    await store.liveness.renew([beat(pulse, offset=9)], "1")
    await store.liveness.renew([beat(older, offset=8)], "1")
    found = await proof(store)
    assert found is not None
    assert found.left_ms > 1_000


async def test_the_same_beat_may_say_that_more_is_applied(store: Store) -> None:
    """Who leaves in order knows more than its last beat did; the proof ends when it would have."""
    pulse = await store.liveness.pulse()
    await store.liveness.renew([beat(pulse, offset=9)], "1")
    before = await proof(store)
    await store.liveness.renew([beat(pulse, offset=12)], "1")
    after = await proof(store)
    assert before is not None
    assert after is not None
    assert after.applied == 12
    assert after.left_ms <= before.left_ms


async def test_a_store_that_was_emptied_has_no_proofs(store: Store) -> None:
    await store.liveness.renew([beat(await store.liveness.pulse())], "1")
    await store.flush()
    assert await proof(store) is None


async def test_no_beats_are_no_call(store: Store) -> None:
    await store.liveness.renew([], "1")


async def test_what_processes_answered_is_added_up(store: Store) -> None:
    """Of all of them together; nothing before anybody said something, nor after a flush."""
    assert await store.liveness.counted() == Tally()
    await store.liveness.count(Tally(10, 0))
    await store.liveness.count(Tally(5, 3))
    assert await store.liveness.counted() == Tally(15, 3)
    await store.flush()
    assert await store.liveness.counted() == Tally()
