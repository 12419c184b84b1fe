"""A connection that is cut in the middle of a reply, and a store that takes seconds to answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from context_engine.adapters.redis import RedisCache
from context_engine.errors import Unavailable
from context_engine.liveness import Lookout
from context_engine.ports import Beat, Look, Place
from tests.contracts.cache_server.held import keep
from tests.support.cache import (
    TABLE,
    WORKSPACE,
    RedisStore,
    scope,
    settings,
    surface_name,
    whole_name,
)
from tests.support.wire import Wire, wire_to
from workers.localstack import Valkey

USERS = [f"u{i}" for i in range(20)]
LOOKS = {
    user: Look(scope(user), whole_name(scope(user)), surface_name(scope(user))) for user in USERS
}


@pytest.fixture
async def wire(server: Valkey, store: RedisStore) -> AsyncIterator[Wire]:
    host, _, port = server.address.rpartition(":")
    for user in USERS:
        await keep(store, user)
    async with wire_to(host, int(port)) as made:
        yield made


def over(wire: Wire, store: RedisStore, **more: float) -> RedisCache:
    url = store.url.rsplit("@", 1)[0] + f"@127.0.0.1:{wire.port}/0"
    return RedisCache(url, settings(**more))


async def served(cache: RedisCache) -> int:
    """How many are answered; nobody by what is another's."""
    found = await asyncio.gather(*map(cache.look, LOOKS.values()), return_exceptions=True)
    hits = 0
    for user, seen in zip(LOOKS, found, strict=True):
        if isinstance(seen, Unavailable):
            continue
        assert not isinstance(seen, BaseException)
        assert seen.whole is not None
        assert seen.whole.payload == f"for {user}".encode()
        hits += 1
    return hits


@pytest.mark.parametrize("after", [1, 2, 17, 100, 350, 1_000, 2_000])
async def test_a_reply_that_is_cut_is_nobodys_and_is_asked_for_again(
    wire: Wire, store: RedisStore, after: int
) -> None:
    """At any of its bytes: the rest is not taken from the connection that comes after."""
    async with over(wire, store) as cache:
        assert await served(cache) == len(USERS)
        wire.cut_after = after
        assert await served(cache) == len(USERS)
        assert wire.cuts == 1
        assert await served(cache) == len(USERS)


async def test_a_mark_whose_reply_is_cut_stands(wire: Wire, store: RedisStore) -> None:
    """It is repeated, which marks no less; none is acknowledged that does not stand."""
    async with over(wire, store) as cache:
        assert await served(cache) == len(USERS)
        wire.cut_after = 10
        marked = await cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
        assert wire.cuts == 1
        seen = await store.look(scope("u0"))
        assert seen.moment is not None
        assert (seen.moment.clock, seen.whole) == (marked.clock, None)


async def test_a_store_that_takes_seconds_costs_its_bound_and_nothing_else(
    wire: Wire, store: RedisStore
) -> None:
    """Replies that come when nobody waits any more are nobody's; once it is quick again there are
    hits again."""
    async with over(wire, store, redis_timeout_seconds=0.3) as cache:
        assert await served(cache) == len(USERS)
        wire.delay = 1.0
        began = time.monotonic()
        assert await served(cache) == 0
        assert time.monotonic() - began < 0.9
        wire.delay = 0.0
        assert await served(cache) == len(USERS)


async def test_a_proof_that_was_long_under_way_proves_no_longer_for_it(
    wire: Wire, store: RedisStore
) -> None:
    """It lasts from the sending of the look."""
    place = Place("changes", 0)
    pulse = await store.liveness.pulse()
    await store.liveness.renew([Beat(place, pulse, 1, 5)], "1")
    async with over(wire, store) as cache:
        await cache.ping()
        wire.delay = 3.2
        lookout = Lookout(cache.liveness, [place.topic], vocabulary="1")
        assert await lookout.proven() is None
        wire.delay = 0.0
