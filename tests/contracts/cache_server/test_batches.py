"""Looks that travel together, and the answers that come too late for who asked."""

from __future__ import annotations

import asyncio
import time

import pytest

from context_engine import keys
from context_engine.adapters.redis import RedisCache
from context_engine.errors import Unavailable
from context_engine.ports import Look
from tests.contracts.cache_server.held import is_hit, keep
from tests.support.cache import (
    ANN,
    TABLE,
    WORKSPACE,
    RedisStore,
    entry,
    scope,
    settings,
    surface_name,
    whole_name,
)


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


async def test_many_names_under_one_tag_are_all_unlinked(store: RedisStore) -> None:
    """More than are popped one slice at a time; nothing of their index is left."""
    moment = await store.moment(ANN)
    names = [whole_name(ANN, f"many-{number}") for number in range(1_250)]
    for start in range(0, len(names), 250):
        some = names[start : start + 250]
        await asyncio.gather(
            *(store.cache.fill(moment, [entry(name, moment)], None) for name in some)
        )
    evicted = await store.cache.evict(WORKSPACE, frozenset({TABLE}))
    assert (evicted.count, evicted.scope_keys) == (1_250, (ANN.key,))
    assert await store.redis.keys("*whole:*") == []
    assert await store.redis.keys(keys.index_name(WORKSPACE, TABLE) + "*") == []


async def test_a_lead_that_nobody_was_told_of_is_taken_again(store: RedisStore) -> None:
    """The reply was lost, or whoever asked stopped waiting: in that process it holds nobody up.
    In another it lapses."""
    await store.moment(ANN)
    look = Look(ANN, whole_name(ANN, "led"), surface_name(ANN), lead=True)
    gone = asyncio.create_task(store.cache.look(look))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    seen = await store.cache.look(look)
    assert (seen.leads, seen.led) == (True, False)
    async with RedisCache(store.url, settings()) as other:
        seen = await other.look(look)
    assert (seen.leads, seen.led) == (False, True)
