"""A store that is away, restarts, or has another password."""

from __future__ import annotations

import time

import pytest
from redis.exceptions import ConnectionError

from context_engine.adapters.redis import RedisCache
from context_engine.errors import Unavailable
from context_engine.ports import Look
from tests.contracts.cache_server.held import ANN, is_hit, keep
from tests.support.cache import (
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    settings,
    surface_name,
    whole_name,
)
from workers.localstack import Valkey


async def test_a_store_that_is_away_is_said_to_be_and_found_again(
    store: RedisStore, server: Valkey
) -> None:
    """Typed, soon, for every operation; afterwards the same object goes on, with an empty store."""
    await keep(store, "ann")
    moment = await store.moment(ANN)
    await server.kill()
    cache = store.cache
    began = time.monotonic()
    asked = [
        store.look(ANN),
        cache.session(ANN),
        cache.memory(ANN),
        cache.fill(moment, [entry(whole_name(ANN), moment)], None),
        cache.found(WORKSPACE),
        cache.mark(WORKSPACE, frozenset({TABLE}), create=True),
        cache.mark_many([(WORKSPACE, frozenset({TABLE}))]),
        cache.forget(WORKSPACE),
        cache.forget_everything(),
        cache.evict(WORKSPACE, frozenset({TABLE, OTHER_TABLE})),
        cache.end_sessions(WORKSPACE, "ann"),
        cache.ping(),
        cache.check(),
    ]
    for answer in asked:
        with pytest.raises(Unavailable) as away:
            await answer
        assert away.value.part == "redis"
    assert time.monotonic() - began < 5
    await server.start()
    assert not await cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    assert not await is_hit(store)
    await keep(store, "ann")
    assert await is_hit(store)


async def test_a_restart_between_two_calls_is_not_noticed(
    store: RedisStore, server: Valkey
) -> None:
    """The connection that the server closed is tried once more, on a new one."""
    await store.cache.ping()
    await server.kill()
    await server.start()
    await store.cache.ping()


async def test_a_wrong_password_is_named_without_being_told(store: RedisStore) -> None:
    wrong = RedisCache(store.url.replace("secret", "not-the-word"), settings())
    with pytest.raises(Unavailable) as refused:
        await wrong.ping()
    assert "not-the-word" not in str(refused.value)
    await wrong.close()


async def test_a_client_of_the_callers_own_serves_as_well(store: RedisStore) -> None:
    await keep(store, "ann")
    cache = RedisCache(store.redis, settings())
    look = Look(ANN, whole_name(ANN), surface_name(ANN))
    assert (await cache.look(look)).whole is not None


async def test_nobody_listening_at_the_address_is_unavailable() -> None:
    async with RedisCache("redis://127.0.0.1:1/0", settings()) as cache:
        with pytest.raises(Unavailable) as away:
            await cache.ping()
        assert isinstance(away.value.__cause__, ConnectionError)
