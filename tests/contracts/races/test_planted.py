"""The faults that the races are there to catch, planted one by one: each of them is caught."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from context_engine.adapters.redis import RedisCache
from context_engine.settings import Settings
from tests.contracts import test_engine_flights as flights
from tests.contracts import test_engine_leads as leads
from tests.contracts.cache import test_timelines as timelines
from tests.contracts.races import test_builds as builds
from tests.contracts.races import test_failover as failover
from tests.contracts.races import test_lines as lines
from tests.support import planted
from tests.support.cache import RedisStore
from tests.support.pair import Pair
from tests.support.races import Race
from tests.support.world import World, engine_over
from tests.unit import test_invalidation_consumer as consumer
from tests.unit import test_proving as proving

Catch = Callable[[Race], Awaitable[None]]
LOST = (AssertionError, pytest.fail.Exception)
"""What a race that is lost raises; the second where a refusal did not come."""


def reads_before(race: Race) -> Awaitable[None]:
    return builds.test_1_what_a_build_read_before_a_change_is_not_stored(
        race, "after the database read", "service"
    )


def emptied(race: Race) -> Awaitable[None]:
    return builds.test_3_a_store_that_was_emptied_takes_no_fill_from_before(race, "before the fill")


def marks_evicted(race: Race) -> Awaitable[None]:
    return builds.test_4_an_entry_whose_marks_were_evicted_is_a_miss(race, "a service")


def absent(race: Race) -> Awaitable[None]:
    return builds.test_10_an_absence_ends_when_what_was_missing_comes(
        race, "a table out of sight", None
    )


def commits_first(race: Race) -> Awaitable[None]:
    return lines.test_8_a_service_has_committed_before_it_marks(race, "after the commit")


def new_enemy(race: Race) -> Awaitable[None]:
    return lines.test_15_who_names_a_later_edit_sees_the_revocation_before_it(race, None)


SLOW_FILL = builds.test_6_a_slow_fill_does_not_come_back_over_what_was_evicted
REORDERED = builds.test_7_events_again_and_out_of_order_never_bring_the_old_back
DELETE_LOST = builds.test_2_with_the_delete_lost_it_is_found_stale

FOUND: dict[str, tuple[planted.Fault, Catch]] = {
    "unchecked fill, 1": (planted.unchecked_fill, reads_before),
    "unchecked fill, 6": (planted.unchecked_fill, SLOW_FILL),
    "unchecked fill, 7": (planted.unchecked_fill, REORDERED),
    "stamp at fill, 1": (planted.stamp_at_fill, reads_before),
    "stamp at fill, 6": (planted.stamp_at_fill, SLOW_FILL),
    "clock after the database, 1": (planted.clock_after_the_database, reads_before),
    "delete in place of mark, 1": (planted.delete_in_place_of_mark, reads_before),
    "delete in place of mark, 2": (planted.delete_in_place_of_mark, DELETE_LOST),
    "stamp without looking, 2": (planted.stamp_without_looking, DELETE_LOST),
    "stamp without looking, 15": (planted.stamp_without_looking, new_enemy),
    "no epoch, 3": (planted.no_epoch, emptied),
    "no epoch, 4": (planted.no_epoch, marks_evicted),
    "mark before the commit, 8": (planted.mark_before_the_commit, commits_first),
    "missing absence tag, 10": (planted.missing_absence_tag, absent),
}


@pytest.mark.parametrize("name", FOUND)
async def test_a_planted_fault_is_caught(
    race: Race, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the race after its name; without the fault that race is won."""
    fault, caught = FOUND[name]
    fault(monkeypatch)
    if fault is planted.no_epoch:
        await race.cache.forget("w")
        await race.cache.found("w")
    with pytest.raises(LOST):
        await caught(race)


@pytest.mark.parametrize("new_turns", [False, True], ids=["one question", "a dialogue"])
async def test_a_sliding_expiry_is_caught(
    short: Race, new_turns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.sliding_expiry(monkeypatch)
    with pytest.raises(LOST):
        await lines.test_16_a_hot_entry_ends_with_its_life(short, new_turns)


async def test_a_life_by_another_clock_than_the_stores_is_caught(
    short: Race, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.life_by_a_clock_ahead(monkeypatch)
    with pytest.raises(LOST):
        await lines.test_14_no_clock_but_the_stores_decides(short)


async def test_a_flight_that_anybody_joins_is_caught(
    database: AsyncEngine, cache: RedisCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.anybody_joins(monkeypatch)
    await World(database).furnish()
    engine = engine_over(database, cache)
    gate = flights.Gate(engine._domain)
    monkeypatch.setattr(engine, "_domain", gate)
    with pytest.raises(LOST):
        await flights.test_who_arrives_after_a_change_is_not_given_what_was_read_before(
            engine, gate, cache, database
        )


async def test_who_is_led_and_does_not_look_is_caught(
    database: AsyncEngine, redis_url: str, config: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same across processes."""
    planted.led_without_a_look(RedisCache)(monkeypatch)
    async with leads.processes(database, redis_url, config) as two:
        with pytest.raises(LOST):
            await leads.test_who_waits_is_not_given_what_the_leader_read_before_a_change(
                two, database
            )


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (
            planted.unread_timeline_of_a_mark,
            timelines.test_a_mark_from_another_timeline_ends_all_of_its_workspace,
        ),
        (
            planted.unread_timeline_of_a_fill,
            timelines.test_a_fill_from_another_timeline_ends_all_of_its_workspace,
        ),
    ],
)
async def test_a_timeline_that_is_not_read_is_caught(
    redis_url: str,
    fault: planted.Fault,
    caught: Callable[[RedisStore], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the database, which was failed over."""
    fault(monkeypatch)
    store = RedisStore(redis_url)
    try:
        with pytest.raises(LOST):
            await caught(store)
    finally:
        await store.close()


async def test_a_heartbeat_whose_timeline_is_not_read_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted.unread_timeline_of_a_beat(monkeypatch)
    with pytest.raises(LOST):
        await proving.test_another_timeline_of_the_database_ends_everything_once()


async def test_a_position_that_moves_before_the_change_is_applied_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    planted.position_before_apply(monkeypatch)
    with pytest.raises(LOST):
        await consumer.test_marks_come_first_and_the_position_last()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "fault", [planted.proof_of_the_last_hop_alone, planted.proof_by_skip_locked]
)
async def test_a_proof_that_misses_what_waits_is_caught(
    race: Race, fault: planted.Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old is a hit for as long as a relay stands still: the bypass never comes."""
    fault(monkeypatch)
    monkeypatch.setattr(lines, "BOUND_SECONDS", 5.0)
    with pytest.raises(TimeoutError):
        await lines.test_13_who_stands_still_between_any_two_steps_proves_nothing(
            race, "after the claim"
        )


PROMOTED = failover.test_5_a_replica_that_lacks_the_mark_serves_nothing_from_before
BACK = failover.test_5_who_is_promoted_again_without_the_mark_serves_nothing_from_before
READ_BACK = failover.test_5_a_mark_lost_with_its_server_is_set_again_before_anything_is_a_hit


@pytest.mark.parametrize(
    ("fault", "caught"),
    [
        (planted.no_reign, PROMOTED),
        (planted.run_id_alone, BACK),
        (planted.no_reading_back, READ_BACK),
    ],
)
async def test_a_reign_that_is_not_told_apart_is_caught(
    pair: Pair,
    fault: planted.Fault,
    caught: Callable[[Pair], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fault(monkeypatch)
    if fault is not planted.no_reading_back:
        await pair.race.kept()  # under the reign that is not one
        await pair.follow(pair.b, pair.servers[0])
    with pytest.raises(LOST):
        await caught(pair)


@pytest.mark.parametrize(
    "caught",
    [
        failover.test_5_nothing_is_acknowledged_while_the_deposed_may_answer,
        failover.test_5_heartbeats_prove_nothing_while_the_deposed_may_answer,
    ],
)
async def test_a_reign_that_is_not_waited_out_is_caught(
    pair: Pair, caught: Callable[[Pair], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    planted.no_waiting_out(monkeypatch)
    with pytest.raises(LOST):
        await caught(pair)
