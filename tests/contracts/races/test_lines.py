"""Races 8, 11 and 13 to 16: the line from commits to marks, clocks that are off, long lives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, tzinfo
from unittest.mock import patch

import pytest
from sqlalchemy import update

from context_engine.adapters.sql import outbox
from context_engine.adapters.sql import tables as t
from context_engine.changes import TableChanged
from context_engine.engine import Options
from context_engine.errors import NotFound
from context_engine.invalidation import tags_touched
from context_engine.models import AgentContext
from context_engine.tokens import parse
from tests.support.barriers import BUILD, Killed, Point
from tests.support.kept import ANA
from tests.support.races import NOBODYS, Race

BOUND_SECONDS = 20.0


async def test_8_a_mark_before_the_commit_ends_nothing_and_the_outbox_does(race: Race) -> None:
    """8: a writer that marks too early lets a reader fill the old again under the new clock
    (django-cacheops#22); only the mark after the commit, which the outbox gives, ends that."""
    change = TableChanged(workspace_id="w", table_id="t", op="renamed")
    await race.kept()
    async with race.database.begin() as connection:
        await connection.execute(update(t.tables).where(t.tables.c.id == "t").values(name="New"))
        await outbox.put(connection, [change])
        await race.other_cache.mark("w", tags_touched(change), create=True)
        assert await race.said() == ("Orders", "build")
        assert await race.said() == ("Orders", "cache")
    await race.passes_on()
    assert await race.said() == ("New", "build")


@pytest.mark.parametrize("point", ["after the commit", "before the acknowledgement"])
async def test_8_a_service_has_committed_before_it_marks(race: Race, point: Point) -> None:
    """8, for our own writers: whoever reads the database while one is about to mark reads the
    new, so what is filled under the clock of the mark is the new."""
    await race.kept()
    barrier = race.barriers.close(point)
    write = asyncio.create_task(race.rename("New"))
    await barrier.reached()
    context, _ = await race.ask(race.other, Options(fresh=True))
    assert context.table is not None
    assert context.table.name == "New"
    barrier.open()
    await write
    assert await race.name() == "New"


# -- 13: what stands still -----------------------------------------------------------------------


async def until(race: Race, wanted: str) -> str:
    """The name that a request is told as soon as that is the source, or `bypassed`."""
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            context, source = await race.ask()
            if wanted in (source, source == "build" and _bypassed(context)):
                assert context.table is not None
                return context.table.name
            await asyncio.sleep(0.02)


def _bypassed(context: AgentContext) -> str | None:
    return "bypassed" if any("bypassed" in one for one in context.trace.remarks) else None


STALLS: tuple[Point, ...] = (
    "after the claim",
    "after the sends",
    "before its marks",
    "after its marks",
)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("point", STALLS)
async def test_13_who_stands_still_between_any_two_steps_proves_nothing(
    race: Race, point: Point
) -> None:
    """13: the writer died between its commit and its mark, and relay or consumer stands still
    with the change in its hands. Past the bound everything is built, and once it goes on caches
    are read again, and say what was committed."""
    race.engine = race.engine_over(
        race.cache, race.barriers, liveness=race.lookout_over(race.other_cache)
    )
    async with race.running():
        assert await until(race, "cache") == "Orders"
        barrier = race.barriers.close(point)
        await race.writes_and_dies(race.rename("New"))
        await barrier.reached()
        assert await until(race, "bypassed") == "New"
        for _ in range(20):
            context, source = await race.ask()
            assert (source, _bypassed(context)) == ("build", "bypassed")
        barrier.open()
        assert await until(race, "cache") == "New"


@pytest.mark.parametrize("point", [*STALLS, "after its evictions"])
async def test_11_who_is_killed_between_any_two_steps_leaves_its_work_to_the_next(
    race: Race, point: Point
) -> None:
    """11, for relay and consumer alike: the writer died before its mark, and so does whoever has
    the change in its hands; the next one completes it."""
    await race.kept()
    await race.writes_and_dies(race.rename("New"))
    race.barriers.close(point, kills=True)
    read = dict(race.pipe.committed)
    with pytest.raises(Killed):
        await race.passes_on()
    race.pipe.positions.update(read)  # the next member begins where the last one committed
    race.consumer = race.consumer_over(race.other_cache)
    await race.passes_on()
    assert await race.said() == ("New", "build")
    assert await race.said() == ("New", "cache")


# -- 14: clocks ----------------------------------------------------------------------------------


def off_by(offset: timedelta) -> type[datetime]:
    class Off(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Off:
            found = datetime.now(tz) + offset
            return cls.combine(found.date(), found.timetz())

    return Off


@pytest.fixture(params=[-15, 15], ids="{:+} minutes".format)
def wrong_clock(request: pytest.FixtureRequest) -> Iterator[None]:
    """Builders, writers, relay and consumer all live at another time than the store."""
    offset = timedelta(minutes=request.param)
    places = (
        "context_engine.engine.datetime",
        "context_engine.access.resolution.datetime",
        "context_engine.adapters.sql.services.writing.datetime",
        "events.cloudevents.datetime",
    )
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(patch(place, off_by(offset)))
        yield


async def read_until_it_ends(race: Race, *, new_turns: bool) -> None:
    """Asks all the time while other changes move the clock; nothing of the first build is given
    to whoever asks when its life is over, by the store's time."""
    await race.ask(message="first")
    redis, hits = race.cache._link.redis, 0
    (name,) = await redis.keys("*surface:*" if new_turns else "*whole:*")
    ends = int(await redis.hget(name, "b") or 0) + race.ttl.total_seconds() * 1000
    source = ""
    async with asyncio.timeout(BOUND_SECONDS):
        while source != "build":
            await race.other_cache.mark("w", NOBODYS, create=True)
            asked_at = (await race.cache.liveness.pulse()).at_ms
            _, source = await race.ask(message=str(asked_at) if new_turns else "first")
            if source != "build":
                assert asked_at < ends
                hits += 1
    assert hits > 3


@pytest.mark.usefixtures("wrong_clock")
async def test_14_no_clock_but_the_stores_decides(short: Race) -> None:
    """14: fifteen minutes off, an entry is served for its life and no longer, by the store's
    time, and a change ends it at once, whoever marks it."""
    await read_until_it_ends(short, new_turns=False)
    await short.kept()
    await short.writes(short.rename("New"))
    assert await short.name() == "New"
    await short.kept()
    await short.writes(short.rename("Newer"), "consumer")
    assert await short.name() == "Newer"


@pytest.mark.parametrize("point", [None, *BUILD], ids=lambda at: at or "cached")
async def test_15_who_names_a_later_edit_sees_the_revocation_before_it(
    race: Race, point: Point | None
) -> None:
    """15, Zanzibar's "new enemy": the right was taken, then a record edited; a request with the
    edit's token is not answered from before the revocation, whatever is cached or under way."""
    barrier = race.barriers.close(point) if point is not None else None
    slow = asyncio.create_task(race.name())
    if barrier is not None:
        await barrier.reached()
    else:
        await race.kept()
    await race.grant("none")
    edit = await race.services.records.update(ANA, "w", "t", "r0", {"name": "Secret"})
    after = Options(after=tuple(map(parse, edit.after)))
    with pytest.raises(NotFound):
        await race.ask(race.other, after)
    if barrier is not None:
        barrier.open()
    await slow
    for engine in (race.engine, race.other):
        with pytest.raises(NotFound):
            await race.ask(engine, after)


@pytest.mark.parametrize("new_turns", [False, True], ids=["one question", "a dialogue"])
async def test_16_a_hot_entry_ends_with_its_life(short: Race, new_turns: bool) -> None:
    """16: read without a pause, stamped anew at every look, and made into the contexts of other
    turns, it still expires (authzed/spicedb#3302)."""
    await read_until_it_ends(short, new_turns=new_turns)
