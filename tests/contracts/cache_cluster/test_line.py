"""The whole line on a cluster, from commits over outbox, relay and consumer to reads."""

from __future__ import annotations

import asyncio

from redis.crc import key_slot
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine import keys
from context_engine.liveness import Lookout
from context_engine.settings import Settings
from tests.support.barriers import Barriers
from tests.support.cluster import BOUND_SECONDS, Cluster, Move
from tests.support.races import Race, race_over


async def proven(race: Race, lookout: Lookout) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        while await lookout.proven() is None:
            await race.heart_over(race.other_cache).beat()
            await race.consumes()


async def test_a_change_ends_what_is_cached_wherever_its_workspace_and_the_proofs_are(
    cluster: Cluster, database: AsyncEngine, config: Settings
) -> None:
    """Marked by its service, or by the consumer alone; before and after the slots of both moved,
    which costs a build and needs no new proof beyond the next heartbeat."""
    await cluster.empty()
    config = config.model_copy(update={"redis_cluster": True})
    marks, live = keys.marks_name("w"), keys.applied_name()
    async with race_over(database, cluster.url, config) as race:
        lookout = race.lookout_over(race.cache)
        reader = race.engine_over(race.cache, Barriers(), liveness=lookout)
        await proven(race, lookout)
        await race.name(reader)
        assert await race.said(reader) == ("Orders", "cache")
        for number, marked_by in enumerate(("service", "consumer", "service", "consumer")):
            await race.writes(race.rename(f"New {number}"), marked_by)  # type: ignore[arg-type]
            await proven(race, lookout)
            assert await race.said(reader) == (f"New {number}", "build")
            assert await race.said(reader) == (f"New {number}", "cache")
            if number != 1:
                continue
            for name in (marks, live):
                home = cluster.owner(name)
                await Move(cluster, key_slot(name.encode()), home, (home + 1) % 3).whole()
            try:
                assert await race.said(reader) == ("New 1", "build")
                await proven(race, lookout)
                await race.name(reader)
                assert await race.said(reader) == ("New 1", "cache")
            finally:
                for name in (marks, live):
                    home = cluster.owner(name)
                    await Move(cluster, key_slot(name.encode()), (home + 1) % 3, home).whole()
                await race.name(reader)


async def test_a_primary_that_is_emptied_by_a_restart_is_read_back_before_it_is_believed(
    cluster: Cluster, database: AsyncEngine, config: Settings
) -> None:
    """One that keeps no proof: its reign is another, so nothing that lies there is read until the
    consumer has gone back and proven under the new reigns."""
    await cluster.empty()
    marks, live = keys.marks_name("w"), key_slot(keys.applied_name().encode())
    home = cluster.owner(marks)
    assert home == cluster.owner(keys.applied_name())
    await Move(cluster, live, home, (home + 1) % 3).whole()
    try:
        await _restarted(cluster, home, database, config)
    finally:
        await cluster.agreed()
        await Move(cluster, live, (home + 1) % 3, home).whole()


async def _restarted(cluster: Cluster, home: int, database: AsyncEngine, config: Settings) -> None:
    config = config.model_copy(update={"redis_cluster": True})
    async with race_over(database, cluster.url, config) as race:
        lookout = race.lookout_over(race.cache)
        reader = race.engine_over(race.cache, Barriers(), liveness=lookout)
        await proven(race, lookout)
        await race.name(reader)
        assert await race.said(reader) == ("Orders", "cache")
        await cluster.nodes[home].kill()
        await cluster.nodes[home].start()
        await cluster.agreed()
        for _ in range(3):
            assert await race.said(reader) == ("Orders", "build")
        positions = dict(race.pipe.positions)
        under = (await race.cache.liveness.pulse()).reigns
        await race.heart_over(race.other_cache).beat()
        await race.consumes()
        assert any(race.pipe.positions[place] < at for place, at in positions.items())
        async with asyncio.timeout(BOUND_SECONDS):
            while (found := await lookout.proven()) is None or not under <= (found.reigns or set()):
                await race.heart_over(race.other_cache).beat()
                await race.consumes()
        await race.name(reader)
        assert await race.said(reader) == ("Orders", "cache")
