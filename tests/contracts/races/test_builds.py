"""Races 1 to 4, 6, 7 and 10: a build against changes and losses, held at each of its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from context_engine import keys
from context_engine.errors import NotFound
from tests.support.barriers import BUILD, Barrier, Killed, Point
from tests.support.kept import ANA, BOB
from tests.support.races import NOBODYS, Marks, Race

MARKED_BY = pytest.mark.parametrize("marked_by", ["service", "consumer"])
AT = pytest.mark.parametrize("point", BUILD)


async def begun(race: Race, point: Point) -> tuple[asyncio.Task[str], Barrier]:
    """A slow build that stands at `point`, and the barrier that holds it."""
    barrier = race.barriers.close(point)
    slow = asyncio.create_task(race.name())
    await barrier.reached()
    return slow, barrier


@MARKED_BY
@AT
async def test_1_what_a_build_read_before_a_change_is_not_stored(
    race: Race, point: Point, marked_by: Marks
) -> None:
    """1: its fill is refused, though it may answer whoever asked before; who asks after the
    acknowledgement is told the new, at once and when the build has ended."""
    slow, barrier = await begun(race, point)
    await race.writes(race.rename("New"), marked_by)
    assert await race.name(race.other) == "New"
    barrier.open()
    assert await slow == ("New" if point == "after the clock" else "Orders")
    assert race.cache.taken == [False]
    assert await race.name() == "New"


@MARKED_BY
async def test_1_what_was_stored_and_not_yet_told_is_ended(race: Race, marked_by: Marks) -> None:
    """1, one step later: between the fill and the reply."""
    slow, barrier = await begun(race, "before the reply")
    await race.writes(race.rename("New"), marked_by)
    barrier.open()
    assert await slow == "Orders"
    assert race.cache.taken == [True]
    assert await race.said() == ("New", "build")


@MARKED_BY
@AT
async def test_1_a_right_taken_during_a_build_is_gone(
    race: Race, point: Point, marked_by: Marks
) -> None:
    """1, for a revocation: whoever asks after it is refused."""
    slow, barrier = await begun(race, point)
    await race.writes(race.grant("none"), marked_by)
    barrier.open()
    await slow
    assert await race.name() == "gone"
    assert await race.name(race.other) == "gone"


async def test_2_with_the_delete_lost_it_is_found_stale(race: Race) -> None:
    """2: the consumer dies between its marks and its deletes; the entry lies there, and is a
    miss."""
    await race.kept()
    await race.writes_and_dies(race.rename("New"))
    await race.relays()
    race.barriers.close("after its marks", kills=True)
    with pytest.raises(Killed):
        await race.consumes()
    assert await race.holds_entries()
    assert await race.said() == ("New", "build")


@AT
async def test_3_a_store_that_was_emptied_takes_no_fill_from_before(
    race: Race, point: Point
) -> None:
    """3: the marks that would refuse it are gone, and others are made; their epoch is another."""
    slow, barrier = await begun(race, point)
    await race.writes(race.rename("New"))
    await race.cache._link.redis.flushdb()
    await race.other_cache.found("w")
    for _ in range(50):  # up to any clock that there was
        await race.other_cache.mark("w", NOBODYS, create=True)
    barrier.open()
    await slow
    assert race.cache.taken == [False]
    assert await race.said() == ("New", "build")


@pytest.mark.parametrize("made_by", ["a build", "a service"])
async def test_4_an_entry_whose_marks_were_evicted_is_a_miss(race: Race, made_by: str) -> None:
    """4: the store ran out of memory and threw the marks away, not the entry (symfony#44015):
    a miss without marks, and with new ones at any clock."""
    await race.kept()
    await race.writes(race.rename("New"))
    await race.cache._link.redis.delete(keys.marks_name("w"))
    assert await race.holds_entries()
    if made_by == "a build":
        assert await race.said() == ("New", "build")
    for _ in range(50):
        await race.other_cache.mark("w", NOBODYS, create=True)
        assert (await race.name()) == "New"


async def test_6_a_slow_fill_does_not_come_back_over_what_was_evicted(race: Race) -> None:
    """6: another process built the new and stored it, the event's delete took that away, and
    then the slow build of the old comes to its fill."""
    slow, barrier = await begun(race, "before the fill")
    await race.writes(race.rename("New"))
    assert await race.said(race.other) == ("New", "build")
    assert await race.said(race.other) == ("New", "cache")
    await race.passes_on()
    assert not await race.holds_entries()
    barrier.open()
    assert await slow == "Orders"
    assert race.cache.taken == [False]
    assert await race.said() == ("New", "build")


async def test_7_events_again_and_out_of_order_never_bring_the_old_back(race: Race) -> None:
    """7: v2, v1, v2 again, with a build of v1 under way all the while: what was built after v2
    survives or is built again."""
    await race.writes(race.rename("One"), "consumer")
    slow, barrier = await begun(race, "before the fill")
    await race.writes_and_dies(race.rename("Two"))
    await race.relays()
    one, two = race.pipe.of("domain.table.changed")[-2:]
    for event in (two, one, two):
        await race.consumes(event)
        assert await race.name(race.other) == "Two"
    barrier.open()
    assert await slow == "One"
    assert race.cache.taken == [False]
    assert await race.name() == "Two"


ABSENT: dict[str, dict[str, Any]] = {
    "a table out of sight": {},
    "a project to come": {"projectId": "p"},
    "a view to come": {"viewId": "belgium"},
    "a team to come": {"teamId": "g"},
}


@pytest.mark.parametrize("point", [None, *BUILD], ids=lambda at: at or "cached")
@pytest.mark.parametrize("absent", ABSENT)
async def test_10_an_absence_ends_when_what_was_missing_comes(
    race: Race, absent: str, point: Point | None
) -> None:
    """10: "not found" was cached, or is on its way there; then a grant, or the thing itself."""
    s, where = race.services, ABSENT[absent]
    if absent == "a table out of sight":
        await race.grant("none")

    async def missing() -> bool:
        try:
            context, _ = await race.ask(**where)
        except NotFound:
            return True
        return bool(context.unresolved)

    barrier = race.barriers.close(point) if point is not None else None
    slow = asyncio.create_task(missing())
    if barrier is not None:
        await barrier.reached()
    else:
        assert await slow
        assert await missing()
    match absent:
        case "a table out of sight":
            await race.grant("viewer")
        case "a project to come":
            await s.projects.create(ANA, "w", name="P", id="p")
        case "a view to come":
            await s.views.create(ANA, "w", "t", name="V", id="belgium")
        case _:
            await s.teams.create(ANA, "w", name="G", id="g")
            await s.teams.add_member(ANA, "w", "g", BOB)
    if barrier is not None:
        barrier.open()
        await slow
    assert not await missing()
