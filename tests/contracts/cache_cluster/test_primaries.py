"""Primaries that stand still, die, come back empty, or give way to their replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.redis import cluster as adapter
from context_engine.errors import Unavailable
from context_engine.liveness import Lookout
from context_engine.ports import Beat, Place, Pulse
from tests.contracts.cache_cluster.held import ann, change, is_hit, keep
from tests.support.cache import RedisStore, settings
from tests.support.cluster import Cluster, Move, until

PLACE = Place("changes", 0)


def workspaces(cluster: Cluster) -> list[str]:
    """One of each primary."""
    return [cluster.workspace_at(number) for number in range(3)]


async def prove(store: RedisStore, pulse: Pulse | None = None) -> Pulse:
    pulse = pulse or await store.liveness.pulse()
    await store.liveness.renew([Beat(PLACE, pulse, 1, 5)], keys.VOCABULARY)
    return pulse


async def test_a_pulse_bears_the_reigns_of_all_and_a_proof_covers_each(
    store: RedisStore, cluster: Cluster
) -> None:
    """The reign of every answer is one of the proof's, whichever primary it comes from."""
    pulse = await prove(store)
    assert len(pulse.reigns) == 3
    proven = await Lookout(store.liveness, [PLACE.topic]).proven()
    assert proven is not None
    marked = [await change(store, one) for one in workspaces(cluster)]
    assert {one.reign for one in marked} == pulse.reigns
    assert all(proven.covers(one.reign) for one in marked)


async def test_a_primary_that_stands_still_holds_up_its_own_workspaces_only(
    store: RedisStore, cluster: Cluster
) -> None:
    """Asked all at once, by one process: the others are answered meanwhile, out of the cache."""
    asked = workspaces(cluster)
    for one in asked:
        await keep(store, one)
    still = (cluster.owner(keys.applied_name()) + 1) % 3
    with cluster.standing_still(still):
        stuck = asyncio.create_task(store.look(ann(asked[still])))
        for _ in range(20):
            for number, one in enumerate(asked):
                if number != still:
                    assert await is_hit(store, one)
                    await change(store, one)
                    assert not await is_hit(store, one)
                    await keep(store, one)
        assert not stuck.done()
    assert (await stuck).whole is not None


async def test_one_that_is_too_slow_is_unavailable_within_the_bound_and_found_again(
    cluster: Cluster, store: RedisStore
) -> None:
    """Its late answers are nobody's."""
    second = cluster.workspace_at(0)
    await keep(store, second)
    quick = RedisStore(cluster.url, redis_cluster=True, redis_timeout_seconds=0.3)
    assert await is_hit(quick, second)
    with cluster.standing_still(0):
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await quick.look(ann(second))
        assert time.monotonic() - began < 1.4
    other = cluster.workspace_at(0, "other")
    assert not await is_hit(quick, other)
    assert await is_hit(quick, second)
    await quick.close()


@pytest.fixture
async def on_two(replicated: Cluster) -> AsyncIterator[RedisStore]:
    await replicated.empty()
    store = RedisStore(replicated.url, redis_cluster=True)
    yield store
    await store.close()


async def test_a_replica_that_is_promoted_ends_the_entries_of_its_primary_and_no_others(
    replicated: Cluster, on_two: RedisStore
) -> None:
    """5: it has all of them, its reign is another, and no proof of before covers that."""
    store, (first, second, third) = on_two, workspaces(replicated)
    for one in (first, second, third):
        await keep(store, one)
    before = await prove(store)
    lookout = Lookout(store.liveness, [PLACE.topic])
    proven = await lookout.proven()
    assert proven is not None
    await replicated.nodes[1].kill()
    assert await is_hit(store, first)
    assert not await is_hit(store, second)
    assert await is_hit(store, third)

    async def answers() -> bool:
        try:
            return bool(await store.look(ann(second)))
        except Unavailable:
            assert await is_hit(store, first)
            return False

    await until(answers)
    assert not await is_hit(store, second)
    await keep(store, second)
    assert await is_hit(store, second)
    marked = await change(store, second)
    assert not proven.covers(marked.reign)
    after = await store.liveness.pulse()
    assert marked.reign in after.reigns
    assert len(after.reigns & before.reigns) == 2
    # Whom it deposed may answer for a while: its writers wait, those of the others do not.
    assert after.settled_ms > after.at_ms
    assert [(await change(store, one)).wait_ms > 0 for one in (first, second)] == [False, True]
    await prove(store, after)
    again = await Lookout(store.liveness, [PLACE.topic]).proven()
    assert again is not None
    assert again.covers(marked.reign)

    # The deposed one comes back as a replica, is given the slots again: a third reign.
    await replicated.nodes[1].start()
    await until(lambda: replicated._follows(1))
    await keep(store, second)
    await replicated.clients[1].execute_command("CLUSTER", "FAILOVER")
    await until(lambda: _is_primary(replicated, 1))
    await until(answers)
    assert not await is_hit(store, second)
    assert not again.covers((await change(store, second)).reign)


async def _is_primary(cluster: Cluster, number: int) -> bool:
    return bool((await cluster.clients[number].info("replication"))["role"] == "master")


async def test_one_that_is_away_is_said_to_be_and_the_others_go_on(
    store: RedisStore, cluster: Cluster
) -> None:
    """Without a replica: its workspaces have no cache, and there is no heartbeat. It comes back
    empty, under another reign."""
    asked = workspaces(cluster)
    for one in asked:
        await keep(store, one)
    before = await store.liveness.pulse()
    gone = (cluster.owner(keys.applied_name()) + 1) % 3
    await cluster.nodes[gone].kill()
    try:
        for call in (
            store.look(ann(asked[gone])),
            change(store, asked[gone]),
            store.liveness.pulse(),
            store.cache.ping(),
            store.cache.forget_everything(),
        ):
            with pytest.raises(Unavailable):
                await call
        for number, one in enumerate(asked):
            if number != gone:
                await keep(store, one)
                assert await is_hit(store, one)
                assert (await change(store, one)).clock is not None
    finally:
        await cluster.nodes[gone].start()
        await cluster.agreed()
    assert not await is_hit(store, asked[gone])
    await keep(store, asked[gone])
    assert await is_hit(store, asked[gone])
    assert len((await store.liveness.pulse()).reigns & before.reigns) == 2


async def test_a_primary_that_joins_is_asked_for_its_reign(
    replicated: Cluster, on_two: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the time that a list of primaries may be old: no error has to tell of it."""
    monkeypatch.setattr(adapter, "TOPOLOGY_SECONDS", 0.0)
    before = await on_two.liveness.pulse()
    number = await replicated.add()
    await until(lambda: _knows(replicated, 0, number + 1))
    await replicated.agreed()
    await Move(replicated, 0, 0, number).whole()
    after = await on_two.liveness.pulse()
    assert before.reigns < after.reigns
    assert len(after.reigns) == 4


async def _knows(cluster: Cluster, number: int, count: int) -> bool:
    info = (await cluster.clients[number].execute_command("CLUSTER", "INFO")).split()
    return b"cluster_known_nodes:%d" % count in info


async def test_a_seed_that_is_no_cluster_says_what_to_set(redis_url: str, cluster: Cluster) -> None:
    """Both ways round, before anything is cached."""
    single = redis_url.rsplit("/", 1)[0]
    async with RedisCache(single, settings(redis_cluster=True)) as wrong:
        with pytest.raises(Unavailable, match="CONTEXT_REDIS_CLUSTER"):
            await wrong.check()
    async with RedisCache(cluster.url, settings()) as wrong:
        with pytest.raises(Unavailable, match="CONTEXT_REDIS_CLUSTER=true"):
            await wrong.check()
    async with RedisCache(cluster.url, settings(redis_cluster=True)) as right:
        await right.check()


async def test_every_primary_with_replicas_has_to_be_guarded(replicated: Cluster) -> None:
    guarded = 1 if await _is_primary(replicated, 1) else 3
    async with RedisCache(replicated.url, settings(redis_cluster=True)) as cache:
        with pytest.raises(Unavailable, match="min-replicas-to-write"):
            await cache.check()
        await replicated.clients[guarded].config_set("min-replicas-to-write", 1)
        try:
            await cache.check()
        finally:
            await replicated.clients[guarded].config_set("min-replicas-to-write", 0)
