"""The database's timeline: another one, after a failover, makes a new epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_engine import keys
from context_engine.ports import Moment
from tests.support.cache import ANN, BOB, TABLE, WORKSPACE, Store, entry, whole_name

TAGS = frozenset({TABLE})
NOBODYS = frozenset({keys.schema("of nobody")})


async def kept(store: Store, timeline: str | None) -> Moment:
    """An answer that was read of that timeline."""
    moment = replace(await store.moment(ANN), timeline=timeline)
    assert await store.cache.fill(moment, [entry(whole_name(ANN), moment)], None)
    return moment


async def is_hit(store: Store) -> bool:
    return (await store.look(ANN)).whole is not None


async def test_a_mark_from_another_timeline_ends_all_of_its_workspace(store: Store) -> None:
    """Whatever it touches: what was read of the database before may never have been."""
    await kept(store, "1")
    same = await store.cache.mark(WORKSPACE, NOBODYS, create=True, timeline="1")
    assert await is_hit(store)
    other = await store.cache.mark(WORKSPACE, NOBODYS, create=True, timeline="2")
    assert other.epoch != same.epoch
    assert other.clock == 1
    assert not await is_hit(store)


async def test_a_fill_from_another_timeline_ends_all_of_its_workspace(store: Store) -> None:
    """And is refused itself; the next build finds no marks, and makes them."""
    before = await kept(store, "1")
    moment = replace(await store.moment(BOB), timeline="2")
    assert not await store.cache.fill(moment, [entry(whole_name(BOB), moment)], None)
    assert (await store.look(ANN)).moment is None
    after = await kept(store, "2")
    assert after.epoch != before.epoch
    assert await is_hit(store)


async def test_a_slow_fill_of_the_timeline_before_is_refused(store: Store) -> None:
    await store.cache.mark(WORKSPACE, NOBODYS, create=True, timeline="1")
    slow = replace(await store.moment(ANN), timeline="1")
    await store.cache.mark(WORKSPACE, NOBODYS, create=True, timeline="2")
    assert not await store.cache.fill(slow, [entry(whole_name(ANN), slow)], None)
    assert not await is_hit(store)


@pytest.mark.parametrize("first", [None, "1"])
async def test_who_knows_no_timeline_ends_nothing(store: Store, first: str | None) -> None:
    """A database that has none, and the consumer, which reads none."""
    await kept(store, first)
    await store.cache.mark(WORKSPACE, NOBODYS, create=True)
    await store.cache.mark_many([(WORKSPACE, NOBODYS)])
    assert await is_hit(store)
    await kept(store, None)
    await kept(store, "1")
    assert await is_hit(store)


async def test_what_is_begun_ends_everything_and_is_noted(store: Store) -> None:
    """Where it was done, which is told."""
    assert (await store.liveness.pulse()).timeline is None
    await kept(store, "1")
    assert await store.liveness.begin("2") == (await store.liveness.pulse()).reigns
    assert not await is_hit(store)
    assert (await store.liveness.pulse()).timeline == "2"
    await store.flush()
    assert (await store.liveness.pulse()).timeline is None
