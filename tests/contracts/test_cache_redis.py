"""What only a server can do to the cache: fill up, be deposed, be away, hold back an answer.

On a Valkey of these tests' own, since its settings are changed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from redis.exceptions import ConnectionError

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.adapters.redis import cache as redis_cache
from context_engine.errors import Unavailable
from context_engine.liveness import COUNTED_SECONDS, LIFE_MS
from context_engine.ports import Beat, Look, Place, SessionWrite, Tally
from tests.support.cache import (
    OTHER_TABLE,
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    scope,
    settings,
    surface_name,
    whole_name,
)
from tests.support.stack import address_between_parts, valkey_part
from workers.localstack import Valkey

ANN = scope("ann")


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Valkey]:
    valkey = valkey_part(tmp_path_factory.mktemp("valkey"))
    await valkey.start()
    yield valkey
    await valkey.stop()


@pytest.fixture
async def store(server: Valkey) -> AsyncIterator[RedisStore]:
    await server.start()
    store = RedisStore(server.url)
    await store.redis.flushall()
    await store.redis.script_flush()
    yield store
    await store.close()


async def keep(store: RedisStore, user: str) -> None:
    """Fills the user's whole context with a payload that names the user."""
    who = scope(user)
    moment = await store.moment(who)
    new = entry(whole_name(who), moment, payload=f"for {user}".encode())
    assert await store.cache.fill(moment, [new], SessionWrite(who, user.encode(), "h", 60))


async def is_hit(store: RedisStore, user: str = "ann") -> bool:
    seen = await store.look(scope(user))
    assert seen.whole is None or seen.whole.payload == f"for {user}".encode()
    return seen.whole is not None


# -- batches -----------------------------------------------------------------------------------


async def test_many_looks_at_once_take_a_few_round_trips(store: RedisStore) -> None:
    """256 looks and 256 sessions, each with its own answer, in a dozen commands."""
    users = [f"u{i}" for i in range(256)]
    await asyncio.gather(*(keep(store, user) for user in users))
    await store.redis.config_resetstat()
    looks = asyncio.gather(*(store.look(scope(user)) for user in users))
    sessions = asyncio.gather(*(store.cache.session(scope(user)) for user in users))
    for user, seen, session in zip(users, await looks, await sessions, strict=True):
        assert seen.whole is not None
        assert seen.whole.payload == f"for {user}".encode()
        assert session is not None
        assert session.coordinates == user.encode()
    calls = (await store.redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
    assert calls <= 16


async def test_workspaces_do_not_share_a_command(store: RedisStore) -> None:
    """Each look is answered by its own workspace's clock."""
    everyone = [scope("ann", workspace=f"w{i}") for i in range(40)]
    for number, who in enumerate(everyone):
        for _ in range(number % 3):
            await store.cache.mark(who.workspace_id, frozenset({TABLE}), create=True)
    seen = await asyncio.gather(*(store.look(who) for who in everyone))
    clocks = [s.moment.clock if s.moment is not None else 0 for s in seen]
    assert clocks == [number % 3 for number in range(40)]


async def test_cancelled_looks_leave_no_answer_for_others(store: RedisStore) -> None:
    """Two hundred waiters leave at each possible moment; who asks next gets their own answer."""
    users = [f"u{i}" for i in range(50)]
    await asyncio.gather(*(keep(store, user) for user in users))
    for turns in range(12):
        waiting = [asyncio.create_task(is_hit(store, user)) for user in users * 4]
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        after = await asyncio.gather(*(is_hit(store, user) for user in users))
        assert all(after)
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_one_who_leaves_takes_nothing_from_those_who_stay(store: RedisStore) -> None:
    """They share one command: the batch goes on."""
    users = [f"u{i}" for i in range(20)]
    await asyncio.gather(*(keep(store, user) for user in users))
    waiting = [asyncio.create_task(is_hit(store, user)) for user in users]
    await asyncio.sleep(0)
    for task in waiting[::2]:
        task.cancel()
    assert all(await asyncio.gather(*waiting[1::2]))
    assert all(task.cancelled() for task in waiting[::2])


async def test_an_answer_that_came_too_late_is_nobodys(store: RedisStore) -> None:
    """The bound ends the wait; the late answer ends with its connection."""
    quick = RedisCache(store.url, settings().model_copy(update={"redis_timeout_seconds": 0.2}))
    users = [f"u{i}" for i in range(20)]
    await asyncio.gather(*(keep(store, user) for user in users))
    looks = {u: Look(scope(u), whole_name(scope(u)), surface_name(scope(u))) for u in users}
    assert (await quick.look(looks["u0"])).whole is not None
    await store.redis.client_pause(600)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        await quick.look(looks["u0"])
    assert time.monotonic() - began < 0.5
    await store.redis.client_unpause()
    for user, look in looks.items():
        seen = await quick.look(look)
        assert seen.whole is not None
        assert seen.whole.payload == f"for {user}".encode()
    await quick.close()


async def test_a_server_that_forgot_the_scripts_gets_them_again(store: RedisStore) -> None:
    await keep(store, "ann")
    await store.redis.script_flush()
    assert await is_hit(store)


# -- a full store ------------------------------------------------------------------------------


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


async def test_too_many_marks_are_dropped_with_all_that_they_proved(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs misses, never staleness: the new marks have another epoch."""
    monkeypatch.setattr(redis_cache, "MOST_FIELDS", 10)
    await keep(store, "ann")
    first = await store.moment(ANN)
    for i in range(12):
        await store.cache.mark(WORKSPACE, frozenset({keys.schema(f"x{i}")}), create=True)
    assert not await is_hit(store)
    second = await store.moment(ANN)
    assert second.epoch != first.epoch
    assert await store.redis.hlen(keys.marks_name(WORKSPACE)) <= 12


# -- reigns ------------------------------------------------------------------------------------


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


# -- away --------------------------------------------------------------------------------------


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


async def test_what_was_answered_long_ago_is_forgotten(store: RedisStore) -> None:
    """By the server's own time, span by span; and all of it once nobody answers any more."""
    await store.liveness.count(Tally(2, 1))
    await store.redis.hset(keys.tally_name(), mapping={"100a": 50, "100b": 50})
    assert await store.liveness.counted() == Tally(2, 1)
    assert await store.redis.hlen(keys.tally_name()) == 2
    assert 0 < await store.redis.ttl(keys.tally_name()) <= COUNTED_SECONDS


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
