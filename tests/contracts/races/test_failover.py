"""Race 5: the store's primary is replaced, and comes back. Two servers of these tests' own."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.adapters.sql.services import DomainServices
from context_engine.errors import NotYetEnforced
from tests.support.barriers import Barriers
from tests.support.kept import ANA, BOB
from tests.support.pair import BOUND_SECONDS, LAG_SECONDS, Pair

EVER = 600.0
"""Longer than a test: the deposed may answer still."""


async def lose_a_mark(pair: Pair) -> None:
    """`b` is promoted; `a`, not yet demoted, acknowledges a change whose mark `b` never gets."""
    await pair.promote(pair.b)
    await pair.race.writes(pair.race.rename("New"))


async def test_5_a_replica_that_lacks_the_mark_serves_nothing_from_before(pair: Pair) -> None:
    """5: the entry is there and its marks do not speak against it; the reign does."""
    await lose_a_mark(pair)
    before = await pair.entries(pair.b)
    assert before
    assert await pair.race.said(pair.on_b) == ("New", "build")
    assert await pair.race.said(pair.on_b) == ("New", "cache")
    assert await pair.entries(pair.b) == before


async def test_5_who_is_promoted_again_without_the_mark_serves_nothing_from_before(
    pair: Pair,
) -> None:
    """5, and failed back: the same process with the same `run_id`, which lost its own mark when
    it followed the other; its replication history is another."""
    process = (await pair.a.info("server"))["run_id"]
    await lose_a_mark(pair)
    await pair.follow(pair.a, pair.servers[1])
    await pair.promote(pair.a)
    assert (await pair.a.info("server"))["run_id"] == process
    assert await pair.entries(pair.a)
    assert await pair.race.said() == ("New", "build")


async def test_5_a_fill_of_before_is_refused_by_the_promoted(pair: Pair) -> None:
    """5, for a build that read the clock of one and comes to its fill when the same address leads
    to the other: here the same server, promoted again."""
    race = pair.race
    barrier = race.barriers.close("before the fill")
    slow = asyncio.create_task(race.name(message="slow"))
    await barrier.reached()
    await lose_a_mark(pair)
    await pair.follow(pair.a, pair.servers[1])
    await pair.promote(pair.a)
    race.cache.taken.clear()
    barrier.open()
    assert await slow == "Orders"
    assert race.cache.taken == [False]
    assert await race.said(message="slow") == ("New", "build")


async def test_5_a_mark_lost_with_its_server_is_set_again_before_anything_is_a_hit(
    pair: Pair,
) -> None:
    """5, the half that a reign does not see: a build began on the promoted, the deposed took the
    mark, the build filled. Until the consumer has read back under the new reign nothing is live;
    then the entry is ended."""
    race, barriers = pair.race, Barriers()
    await pair.promote(pair.b)
    lookout = race.lookout_over(pair.b_cache)
    reader = race.engine_over(pair.b_cache, Barriers(), liveness=lookout)
    slow_engine = race.engine_over(pair.b_cache, barriers)
    barrier = barriers.close("after the database read")
    slow = asyncio.create_task(race.name(slow_engine, message="slow"))
    await barrier.reached()
    await race.writes(race.rename("New"))  # acknowledged by a
    await race.relays()
    await race.consumes()  # applied on a
    barrier.open()
    assert await slow == "Orders"
    assert await race.said(slow_engine, message="slow") == ("Orders", "cache"), "b cannot know"
    assert await race.said(reader, locale="zh-CN") == ("New", "build")
    race.consumer = race.consumer_over(pair.b_cache)
    async with asyncio.timeout(BOUND_SECONDS):
        while await lookout.proven() is None:
            await race.heart_over(pair.b_cache).beat()
            await race.consumes()
    assert await race.said(reader, message="slow") == ("New", "build")
    assert await race.said(reader, message="slow") == ("New", "cache")


async def test_5_nothing_is_acknowledged_while_the_deposed_may_answer(pair: Pair) -> None:
    """5, and its readers: `a` goes on until its lag has passed, and cannot know what is marked
    on `b`. So a change of access says that it is not enforced, another that it is not marked."""
    race = pair.race
    await pair.promote(pair.b)
    async with pair.b_after(EVER) as b:
        services = DomainServices(race.database, b, enforce_seconds=0.3, ids_as_given=True)
        assert not (await services.tables.rename(ANA, "w", "t", name="New")).marked
        with pytest.raises(NotYetEnforced, match="min-replicas-max-lag"):
            await services.grants.set(
                ANA, "w", subject_type="user", subject_id=BOB, scope_id="t", role="none"
            )
    assert await race.said() == ("Orders", "cache")
    assert await race.said(pair.on_b) == ("gone", "refused")
    await pair.follow(pair.a, pair.servers[1])
    async with pair.b_after(LAG_SECONDS) as b:
        services = DomainServices(race.database, b, ids_as_given=True)
        done = await services.grants.set(
            ANA, "w", subject_type="user", subject_id=BOB, scope_id="t", role="viewer"
        )
        assert done.marked


async def test_5_heartbeats_prove_nothing_while_the_deposed_may_answer(pair: Pair) -> None:
    """5: their time was read when a writer may still have marked on `a` alone."""
    race = pair.race
    await pair.promote(pair.b)
    lookout = race.lookout_over(pair.b_cache)
    async with pair.b_after(EVER) as b:
        race.consumer = race.consumer_over(b)
        for _ in range(4):  # enough to be sent back, and to prove afterwards
            await race.heart_over(b).beat()
            await race.consumes()
        assert await lookout.proven() is None
    race.consumer = race.consumer_over(pair.b_cache)
    async with asyncio.timeout(BOUND_SECONDS):
        while await lookout.proven() is None:
            await race.heart_over(pair.b_cache).beat()
            await race.consumes()
