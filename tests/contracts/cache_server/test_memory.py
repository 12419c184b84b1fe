"""What is kept for how long, and what a store at its limit still does."""

from __future__ import annotations

import pytest

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.liveness import COUNTED_SECONDS
from context_engine.ports import SessionWrite, Tally
from tests.contracts.cache_server.held import ANN, is_hit, keep
from tests.support.cache import (
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    scope,
    settings,
    whole_name,
)


async def test_a_full_store_takes_marks_and_serves_but_stores_nothing(store: RedisStore) -> None:
    """A revocation must stand, whatever the memory; a fill is answered and not stored."""
    await keep(store, "ann")
    moment = await store.moment(ANN)
    await store.redis.config_set("maxmemory", 1)
    try:
        assert await is_hit(store)
        assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
        await store.cache.found("w2")
        marked = await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
        assert marked.clock == moment.clock + 1
        assert not await is_hit(store)
        assert await store.cache.session(ANN) is not None
        assert (await store.cache.evict(WORKSPACE, frozenset({TABLE}))).count == 1
    finally:
        await store.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("policy", ["allkeys-random", "allkeys-lru", "volatile-ttl"])
async def test_a_store_that_lets_go_of_what_it_likes_serves_nothing_stale(
    store: RedisStore, policy: str
) -> None:
    """Marks, entries, indexes, in its own order: misses, however many are gone."""
    users, versions = [f"u{i}" for i in range(60)], dict.fromkeys(range(60), 0)
    used = (await store.redis.info("memory"))["used_memory"]
    await store.redis.config_set("maxmemory-policy", policy)
    await store.redis.config_set("maxmemory", used + 200_000)
    gone = (await store.redis.info("stats"))["evicted_keys"]
    hits = 0
    try:
        for turn in range(1_800):
            number = turn * 7 % 60 if turn % 3 else turn % 5
            who, tag = scope(users[number]), keys.rows(f"of {number}")
            if turn % 4 == 0:
                versions[number] += 1
                await store.cache.mark(WORKSPACE, frozenset({tag}), create=True)
            seen = await store.look(who)
            if seen.whole is not None:
                assert seen.whole.payload.startswith(b"%d " % versions[number])
                hits += 1
            elif seen.moment is not None:
                payload = b"%d " % versions[number] + b"x" * 4_000
                new = entry(whole_name(who), seen.moment, tag, payload=payload)
                await store.cache.fill(seen.moment, [new], None)
    finally:
        await store.redis.config_set("maxmemory", 0)
        await store.redis.config_set("maxmemory-policy", "noeviction")
    assert (await store.redis.info("stats"))["evicted_keys"] - gone > 20
    assert hits > 20


async def test_nothing_is_kept_for_ever(store: RedisStore) -> None:
    """Every key that any operation makes has an end."""
    await keep(store, "ann")
    await keep(store, "bob")
    moment = await store.moment(ANN)
    memory = entry(keys.memory_name(ANN), moment)
    await store.write_session(ANN, moment, memory=memory)
    await store.look(ANN, session=b"c")
    await store.cache.mark("w2", frozenset({TABLE}), create=True)
    names = [name async for name in store.redis.scan_iter()]
    assert len(names) == 10
    for name in names:
        assert await store.redis.pttl(name) > 0, name


async def test_marks_live_twice_the_life_of_entries_after_their_last_use(
    store: RedisStore,
) -> None:
    """Each use renews them: by whoever reads, stores, marks or finds none."""
    marks, moment = keys.marks_name(WORKSPACE), await store.moment(ANN)
    for use in (
        lambda: store.cache.found(WORKSPACE),
        lambda: store.look(ANN),
        lambda: store.cache.fill(moment, [entry(whole_name(ANN), moment)], None),
        lambda: store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False),
    ):
        await store.redis.pexpire(marks, 1_000)
        await use()
        assert 590_000 < await store.redis.pttl(marks) <= 600_000
    await store.flush()
    await store.cache.found(WORKSPACE)
    assert await store.redis.pttl(marks) > 590_000


async def test_an_entry_ends_by_what_it_says_and_not_by_the_stores_expiry_alone(
    store: RedisStore,
) -> None:
    moment = await store.moment(ANN)
    short = entry(whole_name(ANN), moment, payload=b"for ann", life_ms=100)
    assert await store.cache.fill(moment, [short], None)
    await store.redis.persist(whole_name(ANN))
    await store.elapse(110)
    assert await store.has(whole_name(ANN))
    assert not await is_hit(store)


async def test_an_entry_proven_by_its_tags_is_stamped_with_the_clock(store: RedisStore) -> None:
    """So that the next look need not go through its tags; its expiry stays."""
    await keep(store, "ann")
    ends = await store.redis.pexpiretime(whole_name(ANN))
    marked = await store.cache.mark(WORKSPACE, frozenset({OTHER_TABLE}), create=False)
    assert await is_hit(store)
    assert int(await store.redis.hget(whole_name(ANN), "c") or -1) == marked.clock
    assert await store.redis.pexpiretime(whole_name(ANN)) == ends


async def test_an_index_sheds_what_has_ended(store: RedisStore) -> None:
    """Each turn of a dialogue has another name: an index in use must not grow with them."""
    moment = await store.moment(ANN)
    for turn in range(50):
        new = entry(whole_name(ANN, str(turn)), moment, life_ms=30)
        assert await store.cache.fill(moment, [new], None)
    await store.elapse(200)
    await keep(store, "ann")
    assert await store.redis.zcard(keys.index_name(WORKSPACE, TABLE)) == 1


async def test_a_session_index_sheds_what_has_ended(store: RedisStore) -> None:
    moment, lasting = await store.moment(ANN), scope("ann", session="lasting")
    for i in range(20):
        who = scope("ann", session=f"s{i}")
        await store.cache.fill(moment, (), SessionWrite(who, b"c", "h", 1))
    await store.cache.fill(moment, (), SessionWrite(lasting, b"c", "h", 60))
    await store.elapse(1_050)
    await store.cache.fill(moment, (), SessionWrite(ANN, b"c", "h", 60))
    assert await store.redis.zcard(keys.sessions_name(WORKSPACE, "ann")) == 2


async def test_too_many_marks_are_dropped_with_all_that_they_proved(store: RedisStore) -> None:
    """Costs misses, never staleness: the new marks have another epoch. How many is a setting."""
    await keep(store, "ann")
    first = await store.moment(ANN)
    few = settings().model_copy(update={"marks_cap": 10})
    async with RedisCache(store.url, few) as cache:
        for i in range(12):
            await cache.mark(WORKSPACE, frozenset({keys.schema(f"x{i}")}), create=True)
    assert not await is_hit(store)
    second = await store.moment(ANN)
    assert second.epoch != first.epoch
    assert await store.redis.hlen(keys.marks_name(WORKSPACE)) <= 12


async def test_what_was_answered_long_ago_is_forgotten(store: RedisStore) -> None:
    """By the server's own time, span by span; and all of it once nobody answers any more."""
    await store.liveness.count(Tally(2, 1))
    await store.redis.hset(keys.tally_name(), mapping={"100a": 50, "100b": 50})
    assert await store.liveness.counted() == Tally(2, 1)
    assert await store.redis.hlen(keys.tally_name()) == 2
    assert 0 < await store.redis.ttl(keys.tally_name()) <= COUNTED_SECONDS
