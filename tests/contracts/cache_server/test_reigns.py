"""A primary that was deposed, a replica that was promoted: who may answer."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.adapters.redis import RedisCache
from context_engine.errors import Unavailable
from tests.contracts.cache_server.held import ANN, is_hit, keep
from tests.support.cache import (
    RedisStore,
    entry,
    settings,
    whole_name,
)
from tests.support.stack import address_between_parts, valkey_part
from workers.localstack import Valkey


async def test_a_primary_without_its_replicas_answers_no_look(store: RedisStore) -> None:
    """A deposed primary still answers GET; it must not answer this."""
    await keep(store, "ann")
    await store.redis.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(Unavailable, match=r"(?i)replicas"):
            await store.look(ANN)
        with pytest.raises(Unavailable):
            await store.cache.session(ANN)
    finally:
        await store.redis.config_set("min-replicas-to-write", 0)
    assert await is_hit(store)


async def test_a_replica_answers_no_look_and_its_promotion_ends_every_entry(
    store: RedisStore,
) -> None:
    """5: the same process under another replication history has another reign."""
    await keep(store, "ann")
    before = await store.redis.info()
    await store.redis.replicaof("127.0.0.1", 1)
    try:
        with pytest.raises(Unavailable, match=r"(?i)read.?only"):
            await store.look(ANN)
        with pytest.raises(Unavailable, match="address of the primary"):
            await store.cache.check()
    finally:
        await store.redis.replicaof("NO", "ONE")
    after = await store.redis.info()
    assert before["run_id"] == after["run_id"]
    assert before["master_replid"] != after["master_replid"]
    assert await store.has(whole_name(ANN))
    assert not await is_hit(store)
    await keep(store, "ann")
    assert await is_hit(store)


async def test_a_server_that_takes_no_writes_is_left(store: RedisStore) -> None:
    """Its address may lead to its successor by now: the next call connects anew."""
    await store.cache.ping()
    await store.redis.config_set("min-replicas-to-write", 1)
    try:
        with pytest.raises(Unavailable):
            await store.look(ANN)
    finally:
        await store.redis.config_set("min-replicas-to-write", 0)
    before = (await store.redis.info("stats"))["total_connections_received"]
    await store.cache.ping()
    assert (await store.redis.info("stats"))["total_connections_received"] == before + 1


async def test_a_fill_under_another_reign_is_refused(store: RedisStore) -> None:
    moment = await store.moment(ANN)
    await store.redis.replicaof("127.0.0.1", 1)
    await store.redis.replicaof("NO", "ONE")
    assert not await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    assert not await is_hit(store)


async def may_not_ask(store: RedisStore) -> None:
    """A hosted store that forbids to read its settings is taken at its word."""
    await store.redis.acl_setuser(
        "hosted", enabled=True, passwords=["+word"], categories=["+@all"], commands=["-config"]
    )
    async with RedisCache(store.url.replace(":secret@", "hosted:word@"), settings()) as hosted:
        await hosted.check()


async def test_with_replicas_the_start_asks_for_a_guarded_primary(
    store: RedisStore, server: Valkey, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await store.cache.check()
    replica = valkey_part(tmp_path_factory.mktemp("replica"))
    await replica.start()
    second = RedisStore(replica.url)
    try:
        await second.redis.config_set("masterauth", "secret")
        await second.redis.replicaof(*address_between_parts(server))
        async with asyncio.timeout(20):
            # A server announces its replicas to nobody.
            while not (await store.redis.info("replication"))["connected_slaves"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        with pytest.raises(Unavailable, match="min-replicas-to-write"):
            await store.cache.check()
        await may_not_ask(store)
        await store.redis.config_set("min-replicas-to-write", 1)
        await store.cache.check()
    finally:
        await store.redis.config_set("min-replicas-to-write", 0)
        await second.close()
        await replica.stop()
