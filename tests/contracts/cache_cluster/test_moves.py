"""Slots that move from one primary to another, step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from redis.asyncio.cluster import ClusterNode
from redis.crc import key_slot

from context_engine import keys
from context_engine.adapters.redis.batch import Command, Reply
from context_engine.adapters.redis.cluster import ClusterLink
from context_engine.errors import Unavailable
from context_engine.ports import Beat, Look, Place
from tests.contracts.cache_cluster.held import ann, change, is_hit, keep
from tests.support.cache import OTHER_TABLE, TABLE, RedisStore, entry, whole_name
from tests.support.cluster import Cluster, Move


@pytest.fixture
async def workspace(cluster: Cluster, store: RedisStore) -> str:
    """One of the first primary, with ann's context."""
    made = cluster.workspace_at(0)
    await keep(store, made)
    assert await is_hit(store, made)
    return made


@pytest.fixture
async def move(cluster: Cluster, workspace: str) -> AsyncIterator[Move]:
    """Its slot, about to move to the second primary; it is brought back at the end."""
    slot = key_slot(keys.marks_name(workspace).encode())
    yield Move(cluster, slot, 0, 1)
    await Move(cluster, slot, 1, 0).whole()


async def test_a_mark_stands_at_every_step_of_a_move(
    store: RedisStore, workspace: str, move: Move
) -> None:
    """The marks travel as one key: what is marked before, between and after counts on."""
    clocks = [(await change(store, workspace)).clock]
    await move.begin()
    clocks.append((await change(store, workspace)).clock)
    assert not await is_hit(store, workspace)
    await move.carry(keys.marks_name(workspace))
    marked = await change(store, workspace)
    clocks.append(marked.clock)
    assert not await is_hit(store, workspace)
    await move.carry()
    await move.end()
    assert not await is_hit(store, workspace)
    after = await store.moment(ann(workspace))
    assert (after.epoch, after.clock) == (marked.epoch, clocks[-1])
    assert clocks == list(range(clocks[0], clocks[0] + 3))


async def test_an_entry_is_valid_only_on_the_primary_that_stored_it(
    store: RedisStore, workspace: str, move: Move
) -> None:
    """Carried over as it is, it misses: who answers has another reign. There it is filled anew."""
    before = await store.moment(ann(workspace))
    await move.whole()
    assert await store.has(whole_name(ann(workspace)))
    assert not await is_hit(store, workspace)
    new = entry(whole_name(ann(workspace)), before)
    assert not await store.cache.fill(before, [new], None)
    await keep(store, workspace)
    assert await is_hit(store, workspace)


async def test_an_entry_that_comes_home_has_missed_no_mark(
    store: RedisStore, cluster: Cluster, workspace: str
) -> None:
    """There and back again the marks come along, and so does the word of what was changed there."""
    other = keys.whole_name(ann(workspace), keys.digest("other"))
    slot = key_slot(other.encode())
    moment = await store.moment(ann(workspace))
    assert await store.cache.fill(moment, [entry(other, moment, OTHER_TABLE)], None)
    await Move(cluster, slot, 0, 1).whole()
    await change(store, workspace)
    await Move(cluster, slot, 1, 0).whole()
    assert not await is_hit(store, workspace)
    seen = await store.cache.look(Look(ann(workspace), other, other))
    assert seen.whole is not None  # of another table: it may go on


async def test_in_the_midst_of_a_move_a_look_is_typed_and_an_eviction_ends(
    store: RedisStore, workspace: str, move: Move
) -> None:
    """Keys on both sides: a script has no answer, what takes one key at a time has."""
    await move.begin()
    await move.carry(whole_name(ann(workspace)))
    with pytest.raises(Unavailable):
        await store.look(ann(workspace))
    evicted = await store.cache.evict(workspace, frozenset({TABLE}))
    assert (evicted.count, evicted.scope_keys) == (1, (ann(workspace).key,))
    await move.carry()
    await move.end()
    await keep(store, workspace)
    assert await is_hit(store, workspace)


async def test_an_index_of_many_names_is_emptied_in_the_midst_of_a_move(
    store: RedisStore, cluster: Cluster, workspace: str, move: Move
) -> None:
    """It cannot be put aside then: the consumer would wait for the end of the move with every
    eviction and every position."""
    index = keys.index_name(workspace, TABLE)
    names = {whole_name(ann(workspace), f"many-{number}"): 0 for number in range(1_250)}
    await cluster.clients[0].zadd(index, names)
    await move.begin()
    evicted = await store.cache.evict(workspace, frozenset({TABLE}))
    assert evicted.scope_keys == (ann(workspace).key,)
    assert not await store.has(index)
    await move.carry()
    await move.end()


async def test_a_server_that_knows_no_script_is_asked_in_the_midst_of_a_move(
    store: RedisStore, cluster: Cluster, workspace: str, move: Move
) -> None:
    await move.begin()
    await move.carry(keys.marks_name(workspace))
    await cluster.clients[1].script_flush()
    before = await change(store, workspace)
    await cluster.clients[1].script_flush()
    await move.carry()
    await move.end()
    assert (await change(store, workspace)).clock == (before.clock or 0) + 1


async def test_proofs_move_with_their_slot(store: RedisStore, cluster: Cluster) -> None:
    """Nothing is proven by a server that did not hear it; the next heartbeat proves it again."""
    place, live = Place("changes", 0), key_slot(keys.applied_name().encode())
    home = cluster.owner(keys.applied_name())
    away = (home + 1) % 3
    pulse = await store.liveness.pulse()
    await store.liveness.renew([Beat(place, pulse, 1, 5)], "1")
    await Move(cluster, live, home, away).whole()
    try:
        again = await store.liveness.pulse()
        assert again.reigns == pulse.reigns
        await store.liveness.renew([Beat(place, again, 1, 6)], "1")
        [proof] = (await store.liveness.proofs([place])).each
        assert proof is not None
        assert (proof.applied, proof.reigns) == (6, pulse.reigns)
    finally:
        await Move(cluster, live, away, home).whole()


async def test_everything_is_forgotten_on_every_primary(
    store: RedisStore, cluster: Cluster
) -> None:
    workspaces = [cluster.workspace_at(number) for number in range(3)]
    for one in workspaces:
        await keep(store, one)
    await store.cache.forget_everything()
    assert [await is_hit(store, one) for one in workspaces] == [False] * 3


async def test_what_moves_behind_the_back_of_a_walk_is_forgotten_too(
    store: RedisStore, cluster: Cluster, workspace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a primary that was not yet looked at to one that was: the walk goes through twice."""
    slot = key_slot(keys.marks_name(workspace).encode())
    link, moved = store.cache._link, False
    assert isinstance(link, ClusterLink)
    primaries, loaded = link.redis.get_primaries, link._loaded

    async def then_moves(node: ClusterNode, command: Command) -> Reply:
        nonlocal moved
        reply = await loaded(node, command)
        if node.port == cluster.nodes[2].port and not moved and reply[1] == b"0":
            moved = True
            await Move(cluster, slot, 0, 2).whole()
        return reply

    def in_order() -> list[ClusterNode]:
        return sorted(primaries(), key=lambda one: one.port != cluster.nodes[2].port)

    await store.liveness.pulse()
    monkeypatch.setattr(link.redis, "get_primaries", in_order)
    monkeypatch.setattr(link, "_loaded", then_moves)
    try:
        await store.cache.forget_everything()
        assert moved
        assert not await is_hit(store, workspace)
        assert not await store.has(keys.marks_name(workspace))
    finally:
        await Move(cluster, slot, 2, 0).whole()
