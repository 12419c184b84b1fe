"""A primary that was deposed, a replica that was promoted: who may answer."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator

import pytest

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.redis.liveness import COUNTED_MS
from context_engine.errors import Unavailable
from tests.contracts.cache_server.held import ANN, is_hit, keep
from tests.support.cache import (
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    settings,
    whole_name,
)
from tests.support.stack import address_between_parts, in_containers, valkey_part
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


LAG_MS = 10_000 + COUNTED_MS
"""How long it is waited by default, where a primary may have been deposed."""


async def test_a_server_that_took_nobodys_place_is_settled_at_once(
    store: RedisStore, server: Valkey
) -> None:
    """No replica could be promoted, and it was none itself: a restart waits for nothing."""
    await server.kill()
    await server.start()
    assert (await store.liveness.pulse()).settled_ms == 0
    assert (await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)).wait_ms == 0


async def test_who_was_promoted_is_settled_a_lag_after_that_was_first_seen(
    store: RedisStore,
) -> None:
    """By whoever saw it, and by the server's own clock; a writer is told how long to wait."""
    await store.liveness.pulse()
    await promote(store)
    first = await store.liveness.pulse()
    assert first.settled_ms == first.at_ms + LAG_MS
    marked = await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=True)
    assert 0 < marked.wait_ms <= LAG_MS
    assert (await store.cache.mark(WORKSPACE, frozenset({TABLE}), create=False)).wait_ms == 0
    async with RedisCache(store.url, settings()) as other:
        later = await other.liveness.pulse()
    assert later.settled_ms == first.settled_ms
    assert later.at_ms >= first.at_ms


async def test_first_sight_of_the_deposed_is_not_that_of_its_successor(store: RedisStore) -> None:
    """The note of it came with everything else that was copied."""
    await promote(store)
    first = await store.liveness.pulse()
    long_ago = first.at_ms - 10 * LAG_MS
    [reign] = first.reigns
    await store.redis.hset(keys.reign_name(), mapping={"@": reign, reign: long_ago})
    async with RedisCache(store.url, settings()) as other:
        assert (await other.liveness.pulse()).settled_ms < first.at_ms
    await promote(store)
    second = await store.liveness.pulse()
    assert second.settled_ms == second.at_ms + LAG_MS


async def test_a_lost_note_lengthens_no_wait(store: RedisStore) -> None:
    """Of a process that had seen the reign before it was lost; another waits from now on."""
    await promote(store)
    first = await store.liveness.pulse()
    await store.flush()
    await asyncio.sleep(0.01)
    assert (await store.liveness.pulse()).settled_ms == first.settled_ms
    async with RedisCache(store.url, settings()) as other:
        assert (await other.liveness.pulse()).settled_ms > first.settled_ms


@pytest.mark.parametrize("junk", ["hash", "text"])
async def test_what_lies_in_the_place_of_the_note_waits_from_now_on(
    store: RedisStore, junk: str
) -> None:
    await promote(store)
    if junk == "hash":
        await store.redis.hset(keys.reign_name(), "a", "b")
    else:
        await store.redis.set(keys.reign_name(), "junk")
    pulse = await store.liveness.pulse()
    assert pulse.settled_ms == pulse.at_ms + LAG_MS


async def promote(store: RedisStore) -> None:
    await store.redis.replicaof("127.0.0.1", 1)
    await store.redis.replicaof("NO", "ONE")


async def may_not_ask(store: RedisStore) -> None:
    """A hosted store that forbids to read its settings is taken at its word."""
    await store.redis.acl_setuser(
        "hosted", enabled=True, passwords=["+word"], categories=["+@all"], commands=["-config"]
    )
    async with RedisCache(store.url.replace(":secret@", "hosted:word@"), settings()) as hosted:
        await hosted.check()


@pytest.fixture
async def replica(
    store: RedisStore, server: Valkey, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Valkey]:
    """Of the store, which goes without it again afterwards."""
    made = valkey_part(tmp_path_factory.mktemp("replica"))
    await made.start()
    second = RedisStore(made.url)
    await second.redis.config_set("masterauth", "secret")
    await second.redis.config_set("repl-diskless-sync-delay", 0)
    await store.redis.config_set("repl-diskless-sync-delay", 0)
    await second.redis.replicaof(*address_between_parts(server))
    async with asyncio.timeout(20):
        # A server announces its replicas to nobody.
        while (await second.redis.info("replication"))["master_link_status"] != "up":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    await second.close()
    yield made
    await store.redis.config_set("min-replicas-to-write", 0)
    await store.redis.config_set("min-replicas-max-lag", 10)
    await made.stop()


async def test_with_replicas_the_start_asks_for_a_guarded_primary(
    store: RedisStore, replica: Valkey
) -> None:
    """That stops without them, and within the time that is waited for."""
    assert replica.running
    with pytest.raises(Unavailable, match="min-replicas-to-write"):
        await store.cache.check()
    await may_not_ask(store)
    await store.redis.config_set("min-replicas-to-write", 1)
    await store.cache.check()
    for lag, refusal in (("0", "max-lag is 0"), ("11", "REDIS_MAX_LAG_SECONDS to 11")):
        await store.redis.config_set("min-replicas-max-lag", lag)
        with pytest.raises(Unavailable, match=refusal):
            await store.cache.check()


async def last_answer(store: RedisStore) -> tuple[float, str]:
    """When it was last asked and answered, until it refuses; and why it does."""
    answered = 0.0
    while True:
        asked = time.monotonic()
        try:
            await store.look(ANN)
        except Unavailable as refused:
            return answered, refused.message
        answered = asked
        await asyncio.sleep(0.02)


@pytest.mark.timeout(30)
@pytest.mark.skipif(in_containers(), reason="no process of another container can be frozen")
async def test_a_primary_that_loses_its_replica_goes_on_no_longer_than_is_waited(
    store: RedisStore, replica: Valkey
) -> None:
    """From its replica's last word: so for the lag, and for how coarsely it counts."""
    await store.redis.config_set("min-replicas-to-write", 1)
    await store.redis.config_set("min-replicas-max-lag", 1)
    async with asyncio.timeout(20):
        while not (await store.redis.info("replication"))["min_slaves_good_slaves"]:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert replica.pid is not None
    os.kill(replica.pid, signal.SIGSTOP)
    lost = time.monotonic()
    try:
        answered, refusal = await last_answer(store)
        assert "replicas" in refusal.lower()
        assert 0.5 < answered - lost <= 1 + COUNTED_MS / 1000
    finally:
        os.kill(replica.pid, signal.SIGCONT)
