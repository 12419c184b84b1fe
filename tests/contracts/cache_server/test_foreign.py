"""What is not ours under a name of ours: it costs misses, and holds nothing up."""

from __future__ import annotations

import pytest

from context_engine import keys
from context_engine.liveness import LIFE_MS
from context_engine.ports import Beat, Place
from tests.contracts.cache_server.held import ANN
from tests.support.cache import (
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    whole_name,
)


@pytest.mark.parametrize("kind", ["string", "broken clock"])
async def test_a_change_is_applied_whatever_lies_under_the_marks_name(
    store: RedisStore, kind: str
) -> None:
    """Somebody else's key costs misses; it holds up no revocation, and proves nothing."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    name = keys.marks_name(WORKSPACE)
    if kind == "string":
        await store.redis.set(name, "not ours")
    else:
        await store.redis.hset(name, "#clock", "soon")
    await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
    assert (await store.look(ANN)).whole is None


async def test_an_index_of_another_kind_is_removed(store: RedisStore) -> None:
    """Unlinking goes on with the others."""
    moment = await store.moment(ANN)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment, TABLE)], None)
    foreign = keys.index_name(WORKSPACE, keys.WORKSPACE)
    await store.redis.set(foreign, "not ours")
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE, keys.WORKSPACE}))
    assert evicted.count == 1
    assert not await store.redis.exists(foreign)


@pytest.mark.parametrize("lies_there", [b"the deposed\n9\n1\n1", None])
async def test_a_proof_of_another_reign_is_in_nobodys_way(
    store: RedisStore, lies_there: bytes | None
) -> None:
    """Copied from a primary whose clock was ahead, it would hold up the proof of its successor."""
    place = Place("changes", 0)
    name = keys.live_name(place.topic, place.partition)
    if lies_there is None:
        await store.redis.lpush(name, "not ours at all")
    else:
        await store.redis.set(name, lies_there, ex=3600)
    pulse = await store.liveness.pulse()
    await store.liveness.renew([Beat(place, pulse, 1, 5)], "1")
    [proof] = (await store.liveness.proofs([place])).each
    assert proof is not None
    assert proof.reigns == pulse.reigns
    assert 0 < proof.left_ms <= LIFE_MS
